"""The daemon that scripts/torture and scripts/soak kill."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from kvtier_testing.process import command_of
from kvtier_testing.ready import wait_ready

from checks.shared.checkout import ROOT
from checks.torture.clients import Broken
from kvtier import Client, Status

READY_TIMEOUT_S = 300.0
_END_TIMEOUT_S = 60.0
_THREADS_TIMEOUT_S = 2.0


class Daemon:
    """A daemon of a checkout, with small tiers in a folder of its own.

    Attributes:
        checkout: that of the next start.
    """

    def __init__(self, folder: Path, directories: int | list[Path], configuration: Path | None = None, **settings: str) -> None:
        """One of this checkout.

        Args:
            directories: those of the SSD tier, or the number of directories to make in the folder.
            configuration: a file for the keys that are not among the settings.
            settings: named with two underscores in place of the dot.
        """
        self.folder = folder
        self.socket_path = folder / "kvtier.sock"
        self.log = folder / "daemon.log"
        self._directories = [folder / f"ssd{number}" for number in range(directories)] if isinstance(directories, int) else directories
        self._configuration = configuration
        self.environment: dict[str, str] = {}
        self.checkout = ROOT
        self._process: subprocess.Popen[str] | None = None
        self.settings = {
            "host.bytes": "32MiB",
            "host.slab_bytes": "4MiB",
            "host.keep": "2min",
            "host.directory": str(folder / "state"),
            "ssd.bytes": "384MiB",
            "ssd.file_bytes": "16MiB",
            "ssd.directory": ",".join(map(str, self._directories)),
            "grpc.enabled": "false",
            "http.enabled": "false",
            "limits.blocks": "32768",
        }
        self.settings |= {name.replace("__", "."): value for name, value in settings.items()}

    def spawn(self, **changed: str) -> None:
        """Starts the process, and does not wait until it is ready."""
        settings = self.settings | {name.replace("__", "."): value for name, value in changed.items()}
        for directory in self._directories:
            directory.mkdir(exist_ok=True)
        program = [str(self.checkout / "scripts" / "kvtierd")]
        if self._configuration is not None:
            program += ["--config", str(self._configuration)]
        command = command_of(program, self.socket_path, settings)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | self.environment)

    def wait_ready(self) -> None:
        assert self._process is not None
        wait_ready(self._process, self.log, Broken)

    def first_answer_s(self, begun: float, client: Client, get: Callable[[], list[Status]]) -> float:
        """Seconds from a moment until a get has any answer."""
        while time.monotonic() - begun < READY_TIMEOUT_S:
            if client.ping().status is Status.OK and get() != [Status.UNAVAILABLE]:
                return time.monotonic() - begun
            if not self.is_alive():
                raise Broken(f"the daemon did not start; its log ends with\n{self.log_end()}")
            time.sleep(0.005)
        raise Broken(f"no answer within {READY_TIMEOUT_S} s; the daemon's log ends with\n{self.log_end()}")

    def log_end(self) -> str:
        return self.log.read_text()[-3000:] if self.log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send_signal(self, number: int) -> bool:
        """Sends a signal that does not end the process; returns whether there is a process."""
        process = self._process
        if process is not None:
            process.send_signal(number)
        return process is not None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # A process that SIGKILL does not end is stuck in the kernel, and writes no dump either.
                threads = "" if number == signal.SIGKILL else self._threads()
                raise Broken(f"the daemon still runs {_END_TIMEOUT_S:.0f} s after signal {number}; its log ends with\n{self.log_end()}\n{threads}") from None
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def _threads(self) -> str:
        """The thread dump of a daemon that does not end, as far as it comes in time. Then the daemon is killed.

        Another process may hold the output open, so this does not read to its end.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        time.sleep(_THREADS_TIMEOUT_S)
        self._process.kill()
        try:
            return self._process.communicate(timeout=_THREADS_TIMEOUT_S)[0]
        except subprocess.TimeoutExpired as late:
            return (late.output or b"").decode(errors="replace")

    def keeper(self) -> int | None:
        """The process that keeps the memory, as the next start would find it."""
        try:
            note = (self.folder / "state" / "memory").read_text()
            return int(dict(line.split("=", 1) for line in note.splitlines() if "=" in line)["keeper"])
        except (FileNotFoundError, KeyError):
            return None

    def kill_keeper(self) -> bool:
        """Takes the memory away; returns whether there was any. Keepers of killed starts may be left: no file names them."""
        keeper = self.keeper()
        if keeper is None or not self._is_keeper(keeper):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        while self._is_keeper(keeper):
            time.sleep(0.001)
        return True

    @staticmethod
    def _is_keeper(process: int) -> bool:
        try:
            return any("memfd:kvtier-slab" in os.readlink(one) for one in Path(f"/proc/{process}/fd").iterdir())
        except OSError:
            return False

    def end(self) -> None:
        with contextlib.suppress(Broken):
            self.kill()
        self.kill_keeper()
