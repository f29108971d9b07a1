"""The process of a daemon: its command line, its start and its end.

The folder in the environment variable KVTIER_PROGRAMS holds its programs, `kvtierd` and `kvtier`: by default the scripts of this
checkout, which build what is missing.
"""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvtier_testing.ready import wait_ready

PROGRAMS = Path(os.environ.get("KVTIER_PROGRAMS", Path(__file__).resolve().parents[3] / "scripts"))
STOP_TIMEOUT_S = 60.0


def command_of(program: Sequence[str], socket_path: Path, settings: Mapping[str, object]) -> list[str]:
    """The command line of a daemon with this socket and these settings."""
    return [*program, "--socket", str(socket_path), *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


def start(
    command: Sequence[str], log: Path, failure: Callable[[str], BaseException], environment: Mapping[str, str] | None = None
) -> tuple["subprocess.Popen[str]", str]:
    """A daemon that is ready, and the line that says so.

    Args:
        log: the file to which its standard error is appended.
        failure: makes the exception of a daemon that does not become ready, from a text.
        environment: variables in addition to those of this process.
    """
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | (environment or {})
        )
    return process, wait_ready(process, log, failure)


_PORTS_FROM = 10_000
_PORTS = 65_536
_OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback that are free now. No outgoing connection of other tests can take them before the daemon does.

    Raises:
        RuntimeError: the kernel gives nearly all ports to outgoing connections, so there are too few others.
    """
    first, last = (int(port) for port in _OUTGOING_PORTS.read_text().split())
    candidates = [port for port in range(_PORTS_FROM, _PORTS) if not first <= port <= last]
    random.shuffle(candidates)
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            break
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    if len(found) < count:
        raise RuntimeError(
            f"{len(found)} ports from {_PORTS_FROM} on are free that are not for outgoing connections, expected {count}:"
            f" net.ipv4.ip_local_port_range is {first} to {last}, set it to 32768 60999"
        )
    return found


def free_port() -> int:
    """A port as `free_ports` finds them. Two calls can find the same one."""
    return free_ports(1)[0]


def http_address(line: str) -> str:
    """The address of HTTP in the line of a daemon that is ready; empty if it does not serve HTTP."""
    found = re.search(r"HTTP on ([^ ,]+)", line)
    return found[1] if found else ""


def stop(process: "subprocess.Popen[str]", timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Ends a daemon as a service manager does, also a paused one; kills it if that takes too long."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
