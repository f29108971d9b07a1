"""How tests and checks start and end a daemon."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kvtier_testing import process

READY = "print('kvtierd ready on /sock', flush=True)"


def test_commandOf_settings_areWordsInTheirOrder() -> None:
    words = process.command_of(["kvtierd", "--config", "f"], Path("/s"), {"host.bytes": "1GiB", "ssd.bytes": 0})
    assert words == ["kvtierd", "--config", "f", "--socket", "/s", "--set", "host.bytes=1GiB", "--set", "ssd.bytes=0"]


def test_freePorts_areNoneThatAnOutgoingConnectionGets() -> None:
    ports = process.free_ports(20)
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert len(set(ports)) == 20
    assert not [port for port in ports if first <= port <= last]


@pytest.mark.parametrize(("outgoing", "free"), [("1024\t60000\n", True), ("10001\t65535\n", True), ("1024\t65535\n", False)])
def test_freePorts_areOnEitherSideOfThoseOfOutgoingConnections(outgoing: str, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "range"
    told.write_text(outgoing)
    monkeypatch.setattr(process, "_OUTGOING_PORTS", told)
    first, last = map(int, outgoing.split())
    if free:
        (port,) = process.free_ports(1)
        assert process._PORTS_FROM <= port < process._PORTS and not first <= port <= last
    else:
        with pytest.raises(RuntimeError, match="ip_local_port_range is 1024 to 65535"):
            process.free_ports(1)


def test_start_environment_isAddedToThatOfThisProcess(tmp_path: Path) -> None:
    script = f"import os, sys, time; sys.stderr.write(os.environ['TOLD'] + os.environ['HOME']); sys.stderr.flush(); {READY}; time.sleep(600)"
    started, line = process.start([sys.executable, "-c", script], tmp_path / "log", RuntimeError, {"TOLD": "so "})
    process.stop(started)
    assert line == "kvtierd ready on /sock"
    assert (tmp_path / "log").read_text() == f"so {os.environ['HOME']}"


def test_start_twice_appendsToTheLog(tmp_path: Path) -> None:
    for word in ("one", "two"):
        with pytest.raises(RuntimeError, match=f"(?s)ended with 3.*{word}"):
            process.start([sys.executable, "-c", f"import sys; sys.stderr.write('{word} '); sys.exit(3)"], tmp_path / "log", RuntimeError)
    assert (tmp_path / "log").read_text() == "one two "


@pytest.mark.parametrize(("before", "ended"), [("", -signal.SIGTERM), ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); ", -signal.SIGKILL)])
def test_stop_pausedProcess_endsAtTheLatestByAKill(tmp_path: Path, before: str, ended: int) -> None:
    started, _ = process.start([sys.executable, "-c", f"import time; {before}{READY}; time.sleep(600)"], tmp_path / "log", RuntimeError)
    started.send_signal(signal.SIGSTOP)
    process.stop(started, 0.5 if before else 60)
    assert started.returncode == ended
    assert started.stdout is not None and started.stdout.closed
    process.stop(started)


def test_stop_endedBefore_isNoError(tmp_path: Path) -> None:
    started = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True)
    started.wait()
    process.stop(started)
    assert started.returncode == 0
