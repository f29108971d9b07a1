"""A few kills of scripts/torture, and how it ends a daemon; scripts/torture has more of them."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from kvtier_testing.daemon import importing

from checks.torture import daemon as torture_daemon
from checks.torture.clients import Broken


def test_torture_everyPromiseIsKept(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "checks.torture.run", "--kills", "5", "--seed", "3", "--json"],
        env=importing(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert figures["kills"] == 5
    assert figures["kills_with_memory"] > 0
    assert figures["acknowledged"] > 0
    assert figures["blocks_hit"] > 0
    assert figures["acknowledged_lost"] == figures["wrong_bytes"] == figures["deleted_back"] == 0


def daemon_of(process: object, folder: Path) -> torture_daemon.Daemon:
    made = torture_daemon.Daemon(folder, 1)
    made._process = cast("subprocess.Popen[str]", process)
    return made


def test_daemonThatDoesNotEnd_isToldOf_thoughItsOutputStaysOpen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torture_daemon, "_END_TIMEOUT_S", 0.1)
    monkeypatch.setattr(torture_daemon, "_THREADS_TIMEOUT_S", 1.0)
    script = "trap '' TERM; trap 'echo a dump of all threads' QUIT; sleep 15 & echo $!; while :; do sleep 0.05; done"
    # A shell can't trap what it was started to ignore, as whatever a script starts with & is.
    heard = functools.partial(signal.signal, signal.SIGQUIT, signal.SIG_DFL)
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, bufsize=1, preexec_fn=heard)
    assert process.stdout is not None
    other = int(process.stdout.readline())
    try:
        with pytest.raises(Broken, match="still runs 0 s after signal 15[^$]*a dump of all threads"):
            daemon_of(process, tmp_path).kill(signal.SIGTERM)
        state = Path(f"/proc/{other}/stat").read_text().rpartition(") ")[2][0]
        assert state != "Z", "it had the output open until now"
        os.kill(other, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    finally:
        process.stdout.close()


class Unkillable:
    """A process in the kernel's hands, of which nothing more is heard."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def wait(self, timeout: float) -> int:
        raise subprocess.TimeoutExpired("kvtierd", timeout)


def test_daemonThatAKillDoesNotEnd_isToldOf_andNotAskedForItsThreads(tmp_path: Path) -> None:
    process = Unkillable()
    with pytest.raises(Broken, match="still runs 60 s after signal 9"):
        daemon_of(process, tmp_path).kill()
    assert process.signals == [signal.SIGKILL]
