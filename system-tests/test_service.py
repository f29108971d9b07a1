"""The daemon under a service manager: its messages on the notification socket."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvtier_testing.daemon import Daemon

from kvtier import Client, Status


@pytest.fixture
def manager(stopped_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A manager's end of the socket, which the daemon's environment names."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        path = str(stopped_daemon.folder / "notify")
        bound.bind(path)
        bound.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield bound


def test_start_and_stop_are_told(stopped_daemon: Daemon, manager: socket.socket) -> None:
    stopped_daemon.start()
    ready = manager.recv(4096).decode().splitlines()
    assert ready[0] == "READY=1"
    assert ready[1].startswith(f"STATUS=ready on {stopped_daemon.socket_path};")
    stopped_daemon.signal(signal.SIGTERM)
    assert manager.recv(4096).decode().splitlines()[0] == "STOPPING=1"


def test_a_reload_is_told(stopped_daemon: Daemon, manager: socket.socket) -> None:
    stopped_daemon.start()
    assert manager.recv(4096).startswith(b"READY=1")
    stopped_daemon.signal(signal.SIGHUP)
    assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=[0-9]+", manager.recv(4096))
    assert manager.recv(4096) == b"READY=1"


def test_an_idle_daemon_gives_signs_of_life(stopped_daemon: Daemon, manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", str(3_000_000))
    stopped_daemon.start()
    assert manager.recv(4096).startswith(b"READY=1")
    assert [manager.recv(4096) for _ in range(2)] == [b"WATCHDOG=1"] * 2


def test_a_watchdog_of_another_process_is_left_alone(
    stopped_daemon: Daemon, manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    stopped_daemon.start()
    assert manager.recv(4096).startswith(b"READY=1")
    stopped_daemon.signal(signal.SIGTERM)
    assert manager.recv(4096).startswith(b"STOPPING=1")


def test_a_stop_is_told_in_the_last_line(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(host__keep="1min")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        keys = [bytes([i]) for i in range(3)]
        assert client.namespace("kept", block_bytes=4096).put(keys, bytes(3 * 4096)) == [Status.OK] * 3
    process = stopped_daemon.process
    assert process is not None and process.stdout is not None
    stopped_daemon.signal(signal.SIGTERM)
    last = process.stdout.read().splitlines()[-1]
    told = re.fullmatch(
        r"kvtierd stopped; 3 blocks are kept in memory until \S+Z for the next start, by process (\d+) \(noted in (\S+)\): .*", last
    )
    assert told, last
    assert f"keeper={told[1]}" in (Path(told[2]) / "memory").read_text()
    os.kill(int(told[1]), signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGTERM
