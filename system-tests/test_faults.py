"""Processes that die, hang, or write garbage."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest
from kvtier_testing.blocks import blocks, keys, wrong_blocks
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import HANG_S, Daemon, eventually, importing
from kvtier_testing.peer import RINGS_OFFSET

from checks.shared.raw_session import Raw, connect
from kvtier import Client, Status
from kvtier import _protocol as protocol

HOLDER = """
import sys, time
from kvtier import Client, Status
from kvtier_testing.blocks import keys, blocks
client = Client(sys.argv[1], timeout=60)
namespace = client.namespace("held", block_bytes=4096)
some = keys("held", 20)
assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 20
leases = namespace.acquire(some)
slots = namespace.reserve(keys("held", 30, 100))
assert leases.run == 20 and slots.statuses == [Status.OK] * 30
assert namespace.pin(some[:5]) == [Status.OK] * 5
slots.views[0][:10] = b"half a blo"
print("holding", flush=True)
time.sleep(60)
"""


def test_clientKilled_holdingLeasesAndReservations_slotsBalance(fresh_daemon: Daemon) -> None:
    with Client(fresh_daemon.socket_path, timeout=60) as client:
        for _ in range(3):
            command = [sys.executable, "-c", HOLDER, str(fresh_daemon.socket_path)]
            holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=importing())
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holding\n"
            assert eventually(lambda: client.counters()["leases"] == 20)
            assert eventually(lambda: client.counters()["reservations"] == 30)
            holder.kill()
            holder.wait()
            holder.stdout.close()
            assert eventually(lambda: slots_balance(client.counters()) and client.counters()["sessions"] == 1)
            namespace = client.namespace("held", block_bytes=4096)
            some = keys("held", 20)
            into = bytearray(20 * 4096)
            answer = namespace.get(some, into)
            assert answer.run == 20 and wrong_blocks(some, answer.statuses, into) == []
            assert namespace.lookup(keys("held", 30, 100)).run == 0
            assert namespace.clear().blocks == 20


def test_daemonKilled_underLoad_missesThenReconnects(fresh_daemon: Daemon) -> None:
    timeout_s = 0.5
    client = Client(fresh_daemon.socket_path, timeout=timeout_s)
    namespace = client.namespace("killed", block_bytes=16384)
    some = keys("killed", 64)
    data = blocks(some, 16384)
    assert set(namespace.put(some, data, timeout=10)) == {Status.OK}
    stop = threading.Event()
    failures: list[object] = []
    seen: set[Status] = set()
    late: list[float] = []

    def load(number: int) -> None:
        into = bytearray(8 * 16384)
        step = number
        while not stop.is_set():
            first = step * 8 % 64
            step += 1
            wanted = some[first : first + 8]
            started = time.monotonic()
            try:
                answer = namespace.get(wanted, into)
                seen.update(answer.statuses)
                if wrong_blocks(wanted, answer.statuses, into):
                    failures.append(("wrong bytes", number, step))
                if step % 5 == 0:
                    seen.update(namespace.put(wanted, data[first * 16384 : (first + 8) * 16384]))
                namespace.lookup(wanted)
            except Exception as error:  # noqa: BLE001
                failures.append(error)
            # Three operations, on a machine that is busy starting a daemon.
            if time.monotonic() - started > HANG_S:
                late.append(time.monotonic() - started)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    fresh_daemon.kill()
    assert eventually(lambda: not client.connected or client.ping(0.05).status is not Status.OK, HANG_S)
    time.sleep(0.3)
    fresh_daemon.start()
    try:
        assert eventually(lambda: client.ping(0.5).status is Status.OK)
        assert eventually(lambda: namespace.lookup(some).run == 64)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert late == []
    assert Status.OK in seen and Status.UNAVAILABLE in seen
    assert seen <= {Status.OK, Status.UNAVAILABLE, Status.MISS, Status.EXISTS, Status.PENDING, Status.DEADLINE, Status.BUSY}
    assert eventually(lambda: slots_balance(client.counters()))
    client.close()


def test_daemonKilled_whileWaiting_noticedSoon(fresh_daemon: Daemon) -> None:
    client = Client(fresh_daemon.socket_path, timeout=60)
    namespace = client.namespace("waiting", block_bytes=4096)
    some = keys("waiting", 1)
    fresh_daemon.pause()
    killer = threading.Timer(0.2, fresh_daemon.kill)
    killer.start()
    started = time.monotonic()
    assert namespace.get(some, bytearray(4096)).statuses == [Status.UNAVAILABLE]
    killer.join()  # it reaps the daemon, and so would the end of the test
    assert namespace.get(some, bytearray(4096)).statuses == [Status.UNAVAILABLE]
    assert time.monotonic() - started < HANG_S, "it waits for a daemon that is gone"
    assert "ended" in client.reason or "no daemon" in client.reason


def test_daemonHangs_deadline_andNothingLeaksAfterwards(fresh_daemon: Daemon) -> None:
    with Client(fresh_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("hangs", block_bytes=4096)
        some = keys("hangs", 8)
        assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 8
        fresh_daemon.pause()
        for _ in range(3):
            started = time.monotonic()
            assert namespace.get(some, bytearray(8 * 4096), timeout=0.1).statuses == [Status.DEADLINE] * 8
            assert 0.09 < time.monotonic() - started < HANG_S
            assert namespace.reserve(keys("hangs", 4, 50), timeout=0.05).statuses == [Status.DEADLINE] * 4
        fresh_daemon.signal(signal.SIGCONT)
        assert eventually(lambda: client.ping().status is Status.OK)
        into = bytearray(8 * 4096)
        assert namespace.get(some, into).run == 8 and into == blocks(some, 4096)
        assert eventually(lambda: slots_balance(client.counters()))


@pytest.mark.parametrize(("major", "cure"), [(1, "upgrade the client"), (3, "upgrade kvtierd and restart it")])
def test_helloOfAnotherMajorVersion_isToldBothVersionsAndTheCure(daemon: Daemon, major: int, cure: str) -> None:
    with connect(daemon.socket_path) as channel:
        # Another major version may have other fields behind the version.
        channel.sendall(protocol.HANDSHAKE_HELLO.pack(protocol.HANDSHAKE_HELLO_MAGIC, major << 16 | 5, 0, 0, 0, 0) + b"other")
        answer = channel.recv(protocol.HANDSHAKE_MESSAGE_BYTES_MAX)
    _, version, status, _, _, _, _, _ = protocol.HANDSHAKE_WELCOME.unpack_from(answer)
    text = answer[protocol.HANDSHAKE_WELCOME_TEXT_OFFSET :].decode()
    assert (version, status) == (protocol.VERSION, Status.VERSION_MISMATCH)
    own = f"{protocol.VERSION_MAJOR}.{protocol.VERSION_MINOR}"
    assert f" speaks protocol {own}, the client protocol {major}.5: {cure}, " in text


HEADER = protocol.REQUEST_HEADER_BYTES


def record(
    length: int = HEADER, verb: int = 1, flags: int = 0, key_bytes: int = 0, count: int = 0, body: bytes = b"", reserved: int = 0
) -> bytes:
    fields = (length, verb, flags, 1, 0, 0, 0, 1, key_bytes, count, 0, 0, 0, 0, 0, 0, 0, 0, reserved)
    return protocol.REQUEST_HEADER.pack(*fields) + body


@pytest.mark.parametrize(
    ("written", "tail"),
    [
        (record(), 4),
        (record(), 1 << 40),
        (record(), (1 << 64) - 8),
        (record(length=0), HEADER),
        (record(length=8), HEADER),
        (record(length=HEADER + 4), HEADER + 64),
        (record(length=4096), HEADER),
        (record(length=0xFFFFFFF8), HEADER),
        (record(verb=0), HEADER),
        (record(verb=200), HEADER),
        (record(verb=0x101), HEADER),
        (record(flags=0x8000), HEADER),
        (record(reserved=1), HEADER),
        (record()[:-1] + b"\x01", HEADER),
        (record(length=HEADER + 8, verb=4, key_bytes=8, count=1 << 31), HEADER + 8),
        (record(length=HEADER + 8, verb=4, key_bytes=33, count=1), HEADER + 8),
        (record(length=HEADER + 8, verb=4, key_bytes=0, count=1), HEADER + 8),
        (bytes(range(HEADER)), HEADER),
        (b"\xff" * 128, 128),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_garbageInTheRing_endsOnlyThatSession(daemon: Daemon, written: bytes, tail: int) -> None:
    with Client(daemon.socket_path, timeout=60) as bystander:
        namespace = bystander.namespace("bystander", block_bytes=4096)
        some = keys("bystander", 2)
        namespace.put(some, blocks(some, 4096))
        raw = Raw(daemon.socket_path)
        raw.memory[RINGS_OFFSET : RINGS_OFFSET + len(written)] = written
        raw.set_word(protocol.SESSION_REQUEST_TAIL_OFFSET, tail)
        os.eventfd_write(raw.doorbell, 1)
        assert raw.socket.recv(1) == b"", "the daemon closes the connection"
        assert struct.unpack_from("<I", raw.memory, protocol.SESSION_END_REASON_OFFSET) == (Status.INVALID_ARGUMENT + 1,)
        raw.close()
        into = bytearray(2 * 4096)
        assert namespace.get(some, into).run == 2 and into == blocks(some, 4096)
        assert bystander.connected
