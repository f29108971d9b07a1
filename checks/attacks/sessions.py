"""Attacks a daemon over the local socket as a user with the role read, one attack after the other; run by sessions-check.

Honest clients of another user go on meanwhile. Prints for each attack the most memory, files and threads that the daemon took,
with the bound, and the slowest honest answer.

Exit codes: 0 all stayed within its bound, 1 something did not, 2 wrong usage.
"""

import argparse
import contextlib
import mmap
import os
import re
import select
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvtier_testing.peer import RINGS_OFFSET

from checks.attacks.hostile_daemon import CALL_TIMEOUT_S, Bystander, Daemon, LocalCaller, Wrong
from checks.shared.command_line import Arguments, number, run_tool
from checks.shared.raw_session import connect, hello
from kvtier import Client, KvtierError
from kvtier import _protocol as protocol

READER = 4242
"""the attacker's user"""
RING_BYTES = 64 << 20
SESSIONS = 128
MIB = 1 << 20


class Attack(NamedTuple):
    """One action that the attacker repeats, and the most by which the daemon may grow."""

    name: str
    act: Callable[[Path, "Kept"], None]
    memory_bytes: int
    """beyond what a JVM takes by itself under load, which is `SLACK_BYTES`"""
    files: int


SLACK_BYTES = 192 * MIB


class Kept:
    """Connections, memory and descriptors that the attacker keeps. Those of connections that the daemon ended are closed."""

    def __init__(self) -> None:
        self._all: list[list[object]] = []
        self.client: Client | None = None
        self.count = 0
        self.lets_go = False

    def add(self, *things: object) -> None:
        self._all.append(list(things))
        for one in list(self._all):
            if len(self._all) > 900 or (self.lets_go and _is_ended(one[0])):
                self._all.remove(one)
                for thing in one:
                    if isinstance(thing, int):
                        os.close(thing)
                    elif isinstance(thing, (socket.socket, mmap.mmap)):
                        thing.close()


def _is_ended(channel: object) -> bool:
    poll = select.poll()
    assert isinstance(channel, socket.socket)
    poll.register(channel, select.POLLRDHUP)
    return bool(poll.poll(0))


def _open(path: Path, ring_bytes: int) -> tuple[socket.socket, list[int]]:
    channel = connect(path)
    channel.send(hello(ring_bytes, ring_bytes, b"attacker"))
    _, descriptors, _, _ = socket.recv_fds(channel, 4096, 3)
    return channel, descriptors


def fill_rings(path: Path, kept: Kept) -> None:
    """Takes the largest rings, and writes to each page of them."""
    channel, descriptors = _open(path, RING_BYTES)
    if not descriptors:
        channel.close()
        time.sleep(0.01)
        return
    size = os.fstat(descriptors[0]).st_size
    memory = mmap.mmap(descriptors[0], size)
    for at in range(RINGS_OFFSET, size, mmap.PAGESIZE):
        memory[at] = 1
    kept.lets_go = True
    kept.add(channel, memory, *descriptors)


def leave_answers(path: Path, kept: Kept) -> None:
    """Connects, and leaves three descriptors unread."""
    channel = connect(path)
    channel.send(hello(protocol.RING_BYTES_MIN, protocol.RING_BYTES_MIN, b"attacker"))
    select.select([channel], [], [], 10)
    with contextlib.suppress(OSError):
        channel.send(b"neither a question nor a hello")
    kept.add(channel)


def ask_without_reading(path: Path, kept: Kept) -> None:
    """Asks for a slab's descriptor until it is cut off."""
    channel = connect(path)
    channel.send(hello(protocol.RING_BYTES_MIN, protocol.RING_BYTES_MIN, b"attacker"))
    select.select([channel], [], [], 10)
    with contextlib.suppress(OSError):
        for _ in range(1000):
            channel.send(protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_MAP_SLAB_MAGIC, 0, 0))
    kept.add(channel)


def bring_names(path: Path, kept: Kept) -> None:
    """Registers another name, of another size."""
    if kept.client is None:
        kept.client = Client(path, timeout=CALL_TIMEOUT_S)
    kept.count += 1
    try:
        kept.client.namespace(f"attacker-{kept.count}", block_bytes=4096 * (1 + kept.count % 1000))
    except KvtierError:
        time.sleep(0.001)


def pass_files(path: Path, kept: Kept) -> None:
    """Attaches a socket that lingers to a message, with its last copy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = socket.create_connection(listener.getsockname())
        unread, _ = listener.accept()
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    sending.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sending.send(bytes(1 << 16))
    channel = connect(path)
    try:
        socket.send_fds(channel, [b"not a hello"], [sending.fileno()])
    except PermissionError:
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    os.close(sending.detach())
    kept.add(channel, unread)


def connect_alone(path: Path, kept: Kept) -> None:
    """Connects, and says nothing."""
    kept.add(connect(path))


ATTACKS = [
    Attack("the largest rings, all written", fill_rings, 64 * MIB, 5 * SESSIONS),
    Attack("answers with descriptors left unread", leave_answers, 32 * MIB, 5 * SESSIONS + 32),
    Attack("questions without reading", ask_without_reading, 32 * MIB, 5 * SESSIONS + 32),
    Attack("names and sizes of blocks", bring_names, 32 * MIB, 16),
    Attack("descriptors that do not close", pass_files, 32 * MIB, 5 * SESSIONS),
    Attack("connections that say nothing", connect_alone, 32 * MIB, 256 + 5 * SESSIONS),
]


@contextlib.contextmanager
def attacker(attack: Attack, path: Path) -> Iterator[None]:
    """A process of the reader that only attacks, until the block ends."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(READER)
            os.setuid(READER)
            kept = Kept()
            while True:
                with contextlib.suppress(OSError):
                    attack.act(path, kept)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def shared_bytes() -> int:
    """Shared memory of the machine. It has the rings' pages, also those that the daemon has not touched."""
    found = re.search(r"^Shmem:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


class Registering:
    """An engine that connects with another block size each time."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._count = 0

    def ask(self) -> None:
        self._count = (self._count + 1) % 8
        with Client(self._daemon.socket_path, timeout=CALL_TIMEOUT_S, reconnect=False) as client:
            client.connect()
            client.namespace(f"engine-{self._count}", block_bytes=4096 * (2000 - self._count) // 16 * 16)


def run(attack: Attack, seconds: float) -> str:
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        daemon = Daemon(
            Path(folder),
            socket__users=f"[{READER}:read]",
            socket__mode="0666",
            limits__sessions=str(SESSIONS),
            limits__ring_bytes="128MiB",
            host__slab_bytes="8MiB",
        )
        stack.callback(daemon.stop)
        local = stack.enter_context(contextlib.closing(LocalCaller(daemon)))
        beside = [Bystander("local client", local.ask), Bystander("new engine", Registering(daemon).ask, 0.05)]
        for one in beside:
            stack.callback(one.end)
        time.sleep(2)
        before = daemon.figures()
        shared = shared_bytes()
        for one in beside:
            one.percentiles()
        memory = files = 0
        with attacker(attack, daemon.socket_path):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                daemon.require_well()
                for one in beside:
                    one.require_well()
                # Pages of rings that the daemon has mapped are counted twice.
                grown = (daemon.resident_kib() - before.resident_kib) * 1024 + max(0, shared_bytes() - shared)
                memory = max(memory, grown)
                files = max(files, daemon.descriptors() - before.descriptors)
                time.sleep(0.25)
        bound = attack.memory_bytes + SLACK_BYTES
        row = (
            f"{attack.name}: memory {memory / MIB:+.0f} MiB of {before.resident_kib >> 10} (bound {bound // MIB}), "
            f"files {files:+d} (bound {attack.files}); " + "; ".join(f"{one.name}: {one.percentiles()}" for one in beside)
        )
        if memory > bound or files > attack.files:
            raise Wrong(row)
        daemon.require_given_back(before)
        return row


def main() -> int:
    parser = Arguments(prog="sessions-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=number, default=120.0, help="how long each attack lasts (default: 120)")
    parser.add_argument("--only", default="", help="the attacks that have these words in their names")
    asked = parser.parse_args()
    attacks = [attack for attack in ATTACKS if asked.only in attack.name]
    if not attacks:
        parser.error(f"--only {asked.only!r} is in no attack's name: {', '.join(attack.name for attack in ATTACKS)}")
    if os.geteuid() != 0:
        parser.error("only root can act for another user")
    failed = False
    for attack in attacks:
        try:
            print(run(attack, asked.seconds), flush=True)
        except Wrong as wrong:
            failed = True
            print(f"FAILED {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    run_tool(main)
