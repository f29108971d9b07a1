"""Limits of one user's sessions, so that other users are served beside them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually, in_a_folder

from checks.shared.raw_session import connect, hello
from kvtier import Client, InvalidArgument, Status
from kvtier import _protocol as protocol

READER = 4242
"""a user who may only read"""
MIB = 1 << 20

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with in_a_folder(Daemon) as made:
        made.folder.chmod(0o755)
        made.start(socket__users=f"[{READER}:read]", socket__mode="0666", limits__ring_bytes="64MiB")
        yield made


@contextmanager
def as_reader(work: Callable[[], Any]) -> Iterator[Any]:
    """Runs work in another process of the reader; yields the result. The process keeps all it has until the block ends."""
    results, result = os.pipe()
    ends, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(READER)
            os.setuid(READER)
            os.close(end)
            made = work()
            os.write(result, json.dumps(made[0]).encode())
            os.close(result)
            os.read(ends, 1)
        except BaseException as error:  # noqa: BLE001
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(0)
    os.close(result)
    os.close(ends)
    try:
        with os.fdopen(results) as text:
            yield json.loads(text.read())
    finally:
        os.close(end)
        os.waitpid(child, 0)


def status_and_text(message: bytes) -> tuple[Status, str]:
    _, _, status, text_bytes, _, _, _, _ = protocol.HANDSHAKE_WELCOME.unpack_from(message)
    return Status(status), message[40 : 40 + text_bytes].decode()


def is_ended(channel: socket.socket) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLRDHUP)
    return bool(poll.poll(0))


def descriptors_of(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


@only_root
def test_readersWishForTheLargestRings_theyGetTheirShare_andAWriterIsServed(daemon: Daemon) -> None:
    def take() -> tuple[tuple[list[int], list[str]], list[Any]]:
        kept: list[tuple[socket.socket, list[int]]] = []
        refused = []
        for _ in range(80):
            channel = connect(daemon.socket_path)
            channel.send(hello(1 << 26, 1 << 26, b"greedy"))
            message, descriptors, _, _ = socket.recv_fds(channel, 4096, 3)
            status, text = status_and_text(message)
            if status is Status.OK:
                kept.append((channel, descriptors))
            else:
                refused.append(f"{status.name}: {text}")
        # For those who come later, sessions that have asked for nothing are ended.
        return ([os.fstat(descriptors[0]).st_size for channel, descriptors in kept if not is_ended(channel)], refused), kept

    with as_reader(take) as (sizes, refused):
        assert 16 * MIB < sum(sizes) <= 32 * MIB
        assert max(sizes) < 3 * MIB
        assert refused and all(text.startswith("BUSY") and "limits.ring_bytes" in text and "only read" in text for text in refused)
        with Client(daemon.socket_path, timeout=60, ring_bytes=4 * MIB) as writer:
            assert writer.connected and writer.ping().status is Status.OK
    # The budget of rings is free again when the reader's sessions have ended.
    with as_reader(take) as (sizes, _):
        assert 16 * MIB < sum(sizes) <= 32 * MIB


@only_root
def test_readersTakeSessionsWithoutEnd_theyGetTheirShare_andAWriterIsServed() -> None:
    with in_a_folder(Daemon) as made:
        made.folder.chmod(0o755)
        made.start(socket__users=f"[{READER}:read]", socket__mode="0666", limits__sessions="16")

        def take() -> tuple[tuple[int, list[str]], list[socket.socket]]:
            kept: list[socket.socket] = []
            refused = []
            for _ in range(16):
                channel = connect(made.socket_path)
                channel.send(hello(protocol.RING_BYTES_MIN, protocol.RING_BYTES_MIN, b"greedy"))
                message, _, _, _ = socket.recv_fds(channel, 4096, 3)
                status, text = status_and_text(message)
                if status is Status.OK:
                    kept.append(channel)
                else:
                    refused.append(f"{status.name}: {text}")
            # For those who come later, sessions that have asked for nothing are ended.
            return (sum(not is_ended(channel) for channel in kept), refused), kept

        with as_reader(take) as (sessions, refused):
            assert 0 < sessions <= 12
            assert refused and all(text.startswith("BUSY") and "share of this role in limits.sessions" in text for text in refused)
            with Client(made.socket_path, timeout=60) as writer:
                assert writer.connected and writer.ping().status is Status.OK


@only_root
def test_readerLeavesItsAnswersUnread_itIsKeptOut_andOthersAreServed(daemon: Daemon) -> None:
    def leave() -> tuple[tuple[int, str], list[socket.socket]]:
        kept: list[socket.socket] = []
        for left in range(200):
            channel = connect(daemon.socket_path)
            kept.append(channel)
            channel.send(hello(1 << 18, 1 << 18, b"deaf"))
            select.select([channel], [], [], 30)
            status, text = status_and_text(channel.recv(4096, socket.MSG_PEEK))
            if status is not Status.OK:
                return (left, text), kept
            channel.send(b"neither a question nor a hello")
            channel.settimeout(30)
            poll = select.poll()
            poll.register(channel, select.POLLRDHUP)
            poll.poll(30_000)
        return (200, ""), kept

    before = descriptors_of(daemon)
    with as_reader(leave) as (left, text):
        assert left == 32
        assert "have not read" in text
        assert descriptors_of(daemon) < before + 48
        with Client(daemon.socket_path, timeout=60) as writer:
            assert writer.ping().status is Status.OK
    # With the processes that left them they are gone.
    assert eventually(lambda: descriptors_of(daemon) <= before)

    def come_again() -> tuple[bool, Client]:
        client = Client(daemon.socket_path, timeout=60)
        return client.connected, client

    with as_reader(come_again) as is_connected:
        assert is_connected


@only_root
def test_readerAsksWithoutReading_itsSessionEndsAfterAFew(daemon: Daemon) -> None:
    def ask() -> tuple[int, socket.socket]:
        channel = connect(daemon.socket_path)
        channel.send(hello(1 << 18, 1 << 18, b"deaf"))
        select.select([channel], [], [], 30)
        sent = 0
        try:
            while sent < 10_000:
                channel.send(protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_MAP_SLAB_MAGIC, 0, 0))
                sent += 1
        except OSError:
            pass
        received = 0
        while channel.recv(4096):
            received += 1
        return received, channel

    with as_reader(ask) as received, Client(daemon.socket_path, timeout=60) as writer:
        assert 1 <= received <= 16
        assert writer.ping().status is Status.OK


@only_root
def test_readerBringsNamesAndSizesWithoutEnd_halfIsLeftForWriters(daemon: Daemon) -> None:
    def fill() -> tuple[tuple[int, int], Client]:
        client = Client(daemon.socket_path, timeout=60)
        sizes = names = 0
        try:
            for sizes in range(64):
                client.namespace(f"size-{sizes}", block_bytes=4096 * (sizes + 1))
        except InvalidArgument as error:
            assert "reserved for clients with the role write" in str(error)
        try:
            for names in range(sizes, 5000):
                client.namespace(f"name-{names}", block_bytes=4096)
        except InvalidArgument as error:
            assert "reserved for clients with the role write" in str(error)
        return (sizes, names), client

    with as_reader(fill) as (sizes, names), Client(daemon.socket_path, timeout=60) as writer:
        assert sizes == 32
        assert names == 2048
        for number in range(20):
            namespace = writer.namespace(f"engine-{number}", block_bytes=4096 * (100 + number))
            assert namespace.put([bytes(16)], bytes(4096 * (100 + number))) == [Status.OK]

        def register() -> tuple[bool, Client]:
            client = Client(daemon.socket_path, timeout=60)
            return client.namespace("engine-0", block_bytes=409600).block_bytes == 409600, client

        with as_reader(register) as is_there:
            assert is_there


FORKING = """
import ctypes, os, signal, sys
from kvtier import Client
client = Client(sys.argv[1], timeout=60)
namespace = client.namespace("forked", block_bytes=4096)
assert namespace.put([b"leased".ljust(16)], bytes(4096)) == [0]
leases = namespace.acquire([b"leased".ljust(16)])
reserved = namespace.reserve([b"reserved".ljust(16)])
child = ctypes.PyDLL(None).fork()
if child == 0:
    while True:
        signal.pause()
print(child, *map(int, leases.statuses), *map(int, reserved.statuses), flush=True)
signal.pause()
"""


def test_clientIsKilledAndItsForkedChildLives_whatItHeldIsFreeAtOnce(daemon: Daemon) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, str(daemon.socket_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = 0
        try:
            child, *statuses = map(int, parent.stdout.readline().split())
            assert statuses == [Status.OK, Status.OK]
            with Client(daemon.socket_path, timeout=60) as client:
                namespace = client.namespace("forked", block_bytes=4096)
                assert namespace.put([b"reserved".ljust(16)], bytes(4096)) == [Status.PENDING]
                parent.kill()
                assert eventually(lambda: namespace.put([b"reserved".ljust(16)], bytes(4096)) == [Status.OK])
                # The gauge may be a fraction of a second old.
                assert eventually(lambda: client.counters()["leases"] == 0)
                assert Path(f"/proc/{child}").exists(), "its socket would have told of the end, too"
        finally:
            parent.kill()
            if child:
                os.kill(child, signal.SIGKILL)
