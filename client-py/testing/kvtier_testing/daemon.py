"""A real daemon under test."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, TypeVar

import pytest

from kvtier_testing.process import PROGRAMS, command_of, stop
from kvtier_testing.ready import wait_ready

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_child(command: list[str], errors: IO[str] | None = None) -> "subprocess.Popen[str]":
    """A process that ends with this thread, also when this process is killed: tests leave nothing behind."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=_end_with_parent)


def importing() -> dict[str, str]:
    """The environment of a Python process that can import all that this process can."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Daemon:
    """A daemon process with a small host tier and a small SSD tier."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket_path = folder / "kvtier.sock"
        self.process: subprocess.Popen[str] | None = None

    def start(self, **changed: str) -> None:
        """Starts the process; settings are named with two underscores in place of the dot."""
        settings = {
            "host.bytes": "64MiB",
            "host.slab_bytes": "8MiB",
            "host.keep": "0",
            "ssd.bytes": "128MiB",
            "ssd.file_bytes": "16MiB",
            "ssd.directory": str(self.folder / "ssd"),
            "grpc.enabled": "false",
            "http.enabled": "false",
        }
        settings.update({name.replace("__", "."): value for name, value in changed.items()})
        (self.folder / "ssd").mkdir(exist_ok=True)
        command = command_of(self.program(), self.socket_path, settings)
        log = self.folder / "daemon.log"
        with log.open("a") as errors:
            process = start_child(command, errors)
        wait_ready(process, log, pytest.fail.Exception)
        self.process = process

    def program(self) -> list[str]:
        return [str(PROGRAMS / "kvtierd")]

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Runs the command line tool with this daemon's socket."""
        command = [str(PROGRAMS / "kvtier"), *words, "--socket", str(self.socket_path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def pause(self) -> None:
        """Stops the process; returns when none of its threads runs any more."""
        self.signal(signal.SIGSTOP)
        assert eventually(lambda: all_stopped(Path(f"/proc/{self.pid}/task")))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self._reap()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            stop(self.process)
            self.process = None

    def _reap(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.wait()
        self.process.stdout.close()
        self.process = None


class Stoppable(Protocol):
    def stop(self) -> None: ...


D = TypeVar("D", bound=Stoppable)


@contextmanager
def in_a_folder(make: Callable[[Path], D]) -> Iterator[D]:
    """A daemon in a folder with a short name, stopped at the end."""
    # Not pytest's own folders: their names are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        made = make(Path(folder))
        try:
            yield made
        finally:
            made.stop()


def all_stopped(tasks: Path) -> bool:
    """Whether all threads of a process are stopped, by its folder /proc/PID/task."""
    try:
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False  # one has ended since they were listed


HANG_S = 20.0
"""An operation that takes longer hangs. It is less than the timeouts of the tests' clients."""


def eventually(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
