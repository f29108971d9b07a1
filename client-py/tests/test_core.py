"""The C core against memory that the test writes itself: encodings, bounds, and a peer that lies."""

import contextlib
import ctypes
import faulthandler
import gc
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kvtier_testing.peer import RING_BYTES, SECOND_NS, Peer, completion, lease, memory, request, slab_of

from kvtier import InvalidArgument, _core
from kvtier import _protocol as protocol
from kvtier._errors import SessionError
from kvtier._protocol import Status, Verb


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def test_submit_keys_layoutOfTheProtocol(peer: Peer) -> None:
    session = peer.session()
    keys = [bytes([i]) * 20 for i in range(5)]
    fields = (Verb.ACQUIRE, protocol.REQUEST_FLAG_NO_WAIT, 2, 1 << 40, 0x01020304, 0x0506, 9, 1 << 50, keys, 1, 3, keys[0])
    assert session.submit(fields, 0) == 1
    expected = bytearray(96)
    struct.pack_into("<IHHQQIHBBIIQ", expected, 0, 96 + 4 * 24, Verb.ACQUIRE,
                     protocol.REQUEST_FLAG_NO_WAIT | protocol.REQUEST_FLAG_PARENT, 1, 1 << 40, 0x01020304, 0x0506, 2, 20,
                     3, 9, 1 << 50)  # fmt: skip
    for key in keys[:4]:
        expected += key + bytes(4)
    assert peer.request() == expected


def test_submit_idsAndText_layoutOfTheProtocol(peer: Peer) -> None:
    session = peer.session()
    session.submit(request(Verb.COMMIT, struct.pack("<2Q", 5, 6), 2), 0)
    session.submit(request(Verb.REGISTER, b"name=x", 6, argument=4096), 0)
    assert peer.request()[protocol.REQUEST_HEADER_BYTES :] == struct.pack("<2Q", 5, 6)
    record = peer.request()
    assert record[protocol.REQUEST_HEADER_BYTES :] == b"name=x\0\0" and struct.unpack_from("<Q", record, 40) == (4096,)


def test_submit_wrapAround_recordsStayWhole(peer: Peer) -> None:
    session = peer.session()
    numbers = random.Random(1)
    for _ in range(300):
        keys = [numbers.randbytes(32) for _ in range(numbers.randrange(1, 300))]
        assert session.submit(request(Verb.LOOKUP, keys, len(keys)), 0) > 0
        assert peer.request()[protocol.REQUEST_HEADER_BYTES :] == b"".join(keys)


def test_take_finalizersRunMeanwhile_noRecordIsTakenTwice(peer: Peer) -> None:
    session = peer.session()
    first, second = (session.submit(request(Verb.PING), 0) for _ in range(2))
    peer.publish(completion(Verb.PING, first) + completion(Verb.PING, second))

    def finalize(_phase: str, _info: object) -> None:
        session.has(first, 0)

    threshold = gc.get_threshold()
    # A tuple that was kept for use again is no reason to collect: there shall be none.
    hoard = [tuple([number] * 6) for number in range(10_000)]
    gc.callbacks.append(finalize)
    gc.set_threshold(1)
    try:
        taken = [session.take(first, 0), session.take(second, 0)]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(finalize)
    assert [one[0] for one in taken] == [Status.OK] * 2
    assert not session.ended and len(hoard) == 10_000


def test_submit_badKeys_raisesAndPublishesNothing(peer: Peer) -> None:
    session = peer.session()
    for keys in ([b"ab", b"abc"], [b""], [bytes(33)], [b"a", "b"], ["a"], [b"a"] * 2049, "ab"):
        with pytest.raises((InvalidArgument, TypeError)):
            session.submit(request(Verb.LOOKUP, keys, len(keys)), 0)
    with pytest.raises(InvalidArgument):
        session.submit(request(Verb.LOOKUP, [b"a"], 2), 0)
    with pytest.raises(InvalidArgument):
        session.submit(request(Verb.LOOKUP, [b"a"], 1, parent=b"ab"), 0)
    assert peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) == 0


def test_submit_indexWaiting_ringsDoorbell(peer: Peer) -> None:
    session = peer.session()
    session.submit(request(Verb.PING), 0)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(peer.doorbell)
    struct.pack_into("<I", peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1)
    session.submit(request(Verb.PING), 0)
    assert os.eventfd_read(peer.doorbell) == 1


@pytest.fixture
def here() -> Iterator[int]:
    """The processor of this thread, on which it stays."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, before)


LOOKED_UP = completion(Verb.LOOKUP, 1, struct.pack("<HBBHBB", 0, 2, 0, 1, 0, 0), run=1, value=77)
"""the first request, a LOOKUP of two keys, has found the first key"""


@contextlib.contextmanager
def answering(peer: Peer, answer: bytes) -> Iterator[list[int]]:
    """The daemon answers within this block, as soon as the client sleeps. Gets where the client sleeps, as the protocol's words say it."""
    seen: list[int] = []

    def publish() -> None:
        while peer.word(protocol.SESSION_CLIENT_WAITING_OFFSET) & 1 == 0:
            time.sleep(0.001)
        seen.append(peer.word(protocol.SESSION_CLIENT_WAITING_OFFSET) >> 32)
        peer.publish(answer)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    yield seen
    thread.join()


@pytest.mark.parametrize("index_cpu", [0, 1])
def test_call_saysWhereItSleeps_andIsAnswered_whereverTheIndexIs(peer: Peer, here: int, index_cpu: int) -> None:
    session = peer.session()
    struct.pack_into("<I", peer.daemon, protocol.DAEMON_INDEX_CPU_OFFSET, index_cpu * (here + 1))
    with answering(peer, completion(Verb.PING, 1)) as seen:
        assert session.call(request(Verb.PING), _core.monotonic_ns() + 20 * SECOND_NS)[0] is Status.OK
    assert seen == [here + 1]


@pytest.mark.parametrize("form", [list, tuple])
def test_keysOfDigits_areTheirBytes(form: type) -> None:
    digits = ["00", "ff" * 32, "0aFb", "1234567890abcdefABCDEF"]
    assert _core.keys_of_digits(form(digits)) == [bytes.fromhex(one) for one in digits]
    assert _core.keys_of_digits(form([])) == []


@pytest.mark.parametrize("wrong", ["", "0", "123", "0g", "g0", "/0", ":0", "@0", "`0", " 0", "00 00", "é0", "\ud800", "00" * 33, b"00", 0, None])
def test_keysOfDigits_anythingElse_none(wrong: object) -> None:
    assert _core.keys_of_digits(["00", wrong]) is None
    assert _core.keys_of_digits([wrong, "00"]) is None


def test_keysOfDigits_noListOrTuple_none() -> None:
    assert _core.keys_of_digits("00") is None  # type: ignore[arg-type]


def test_lookupDigits_asTheLookupOfTheirBytes(peer: Peer) -> None:
    session = peer.session()
    keys = [bytes([1 + i]) * 20 for i in range(3)]
    context = bytes(range(25))
    session.submit((Verb.LOOKUP, 0, protocol.REQUEST_PRIORITY_NORMAL, 1 << 40, 7, 0, 0, 0, keys, 0, 3, None), 0, context)
    assert session.lookup_digits([key.hex() for key in keys], 7, 1 << 40, 0, context)[0] is Status.DEADLINE  # type: ignore[index]
    records = [bytearray(peer.request()) for _ in range(2)]
    for record in records:
        # The request's number, and when its context was written.
        record[8:16] = bytes(8)
        at = len(record) - protocol.REQUEST_CONTEXT_BYTES + protocol.REQUEST_CONTEXT_WRITTEN_OFFSET
        record[at : at + 8] = bytes(8)
    assert records[0] == records[1]


def test_lookupDigits_answered_completion(peer: Peer) -> None:
    session = peer.session()
    with answering(peer, LOOKED_UP):
        answered = session.lookup_digits(("0a", "0b"), 1, 0, _core.monotonic_ns() + SECOND_NS, None)
    assert answered is not None and (answered[:3], answered[4:]) == ((Status.OK, 1, 77), (False, Verb.LOOKUP))
    assert session.outstanding == 0


@pytest.mark.parametrize(
    "wrong", [[], "00", ["0g"], ["00", "0g"], ["00", "0000"], ["0000", "00"], ["00", "00" * 32], [b"0"], ["00", b"0"], [0], ["00"] * 2049, iter(["00"])],
)  # fmt: skip
def test_lookupDigits_whatIsNotOneRequest_noneAndPublishesNothing(peer: Peer, wrong: Any) -> None:
    session = peer.session()
    assert session.lookup_digits(wrong, 1, 0, 0, None) is None
    assert peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) == 0 and session.outstanding == 0


def test_lookupDigits_wrongArguments_raise(peer: Peer) -> None:
    session = peer.session()
    for arguments in (
        (["00"], 1, 0, 0), (["00"], -1, 0, 0, None), (["00"], 1 << 32, 0, 0, None), (["00"], 1, None, 0, None), (["00"], 1, -1, 0, None),
        (["00"], 1, 0, 0, b"short"),
    ):  # fmt: skip
        with pytest.raises((TypeError, OverflowError, InvalidArgument)):
            session.lookup_digits(*arguments)  # type: ignore[arg-type, call-arg]
    assert peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) == 0


def test_submit_fullRing_busyAtDeadline(peer: Peer) -> None:
    session = peer.session()
    keys = [bytes(32)] * 2048
    while session.submit(request(Verb.LOOKUP, keys, 2048), 0) > 0:
        pass
    started_ns = _core.monotonic_ns()
    answer = session.call(request(Verb.LOOKUP, keys, 2048), started_ns + 20_000_000)
    assert answer[0] is Status.BUSY
    assert 20_000_000 <= _core.monotonic_ns() - started_ns < SECOND_NS


def test_call_answered_completion(peer: Peer) -> None:
    session = peer.session()
    with answering(peer, LOOKED_UP):
        status, run, value, body, is_text, verb = session.call(
            request(Verb.LOOKUP, [b"a", b"b"], 2), _core.monotonic_ns() + SECOND_NS
        )
    assert (status, run, value, is_text, verb) == (Status.OK, 1, 77, False, Verb.LOOKUP)
    assert _core.short_statuses(body) == [Status.OK, Status.MISS]
    assert session.outstanding == 0


def test_call_silence_deadline(peer: Peer) -> None:
    session = peer.session()
    started_ns = _core.monotonic_ns()
    assert session.call(request(Verb.PING), started_ns + 30_000_000)[0] is Status.DEADLINE
    assert 30_000_000 <= _core.monotonic_ns() - started_ns < SECOND_NS
    assert session.outstanding == 1
    peer.publish(completion(Verb.PING, 1))
    assert session.poll(0) == {} and session.outstanding == 0


def test_call_peerGone_unavailableSoon(peer: Peer) -> None:
    session = peer.session()
    threading.Timer(0.05, lambda: peer.socket.shutdown(socket.SHUT_RDWR)).start()
    started_ns = _core.monotonic_ns()
    assert session.call(request(Verb.PING), started_ns + 5 * SECOND_NS)[0] is Status.UNAVAILABLE
    assert _core.monotonic_ns() - started_ns < SECOND_NS
    assert session.ended
    assert session.call(request(Verb.PING), started_ns + 5 * SECOND_NS)[0] is Status.UNAVAILABLE


def test_call_endReason_isKept(peer: Peer) -> None:
    session = peer.session()
    struct.pack_into("<I", peer.memory, protocol.SESSION_END_REASON_OFFSET, Status.INVALID_ARGUMENT + 1)
    assert session.call(request(Verb.PING), _core.monotonic_ns() + SECOND_NS)[0] is Status.UNAVAILABLE
    assert session.end_status is Status.INVALID_ARGUMENT


def test_close_whileWaiting_unavailable(peer: Peer) -> None:
    session = peer.session()
    threading.Timer(0.05, session.close).start()
    assert session.call(request(Verb.PING), _core.monotonic_ns() + 5 * SECOND_NS)[0] is Status.UNAVAILABLE


def test_take_manyThreads_eachItsOwn(peer: Peer) -> None:
    session = peer.session()
    deadline_ns = _core.monotonic_ns() + 10 * SECOND_NS
    wrong: list[object] = []

    def ask(number: int) -> None:
        for _ in range(50):
            ticket = session.submit(request(Verb.PING), deadline_ns)
            answer = session.take(ticket, deadline_ns)
            if answer[0] is not Status.OK or answer[2] != ticket:
                wrong.append((number, ticket, answer))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        batch = []
        while peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) > peer.head:
            batch.append(struct.unpack_from("<Q", peer.request(), protocol.REQUEST_CORRELATION_OFFSET)[0])
        for correlation in reversed(batch):
            peer.publish(completion(Verb.PING, correlation, value=correlation))
        time.sleep(0)
    assert wrong == []


def test_has_anotherThreadTakesTheAnswer_waitsNoLonger(peer: Peer) -> None:
    session = peer.session()
    ticket = session.submit(request(Verb.PING), 0)
    waiting = threading.Thread(target=session.has, args=(ticket, _core.monotonic_ns() + 60 * SECOND_NS))
    interval_s = sys.getswitchinterval()
    # The waiting thread must not get to the answer first.
    sys.setswitchinterval(30)
    try:
        waiting.start()
        while peer.word(protocol.SESSION_CLIENT_WAITING_OFFSET) & 1 == 0:
            time.sleep(0.001)
        peer.publish(completion(Verb.PING, ticket))
        assert session.take(ticket, 0)[0] is Status.OK
        waiting.join(20)
        assert not waiting.is_alive()
    finally:
        sys.setswitchinterval(interval_s)
        session.close()


def test_take_whatWasTaken_unavailableAtOnce(peer: Peer) -> None:
    session = peer.session()
    ticket = session.submit(request(Verb.PING), 0)
    peer.publish(completion(Verb.PING, ticket))
    assert session.take(ticket, 0)[0] is Status.OK
    assert session.take(ticket, _core.monotonic_ns() + SECOND_NS)[0] is Status.UNAVAILABLE
    assert not session.ended


def test_forget_lateAcquire_isReleased(peer: Peer) -> None:
    session = peer.session()
    ticket = session.submit(request(Verb.ACQUIRE, [b"a", b"b"], 2), 0)
    session.forget(ticket)
    peer.request()
    record = peer.request()
    assert record[protocol.REQUEST_VERB_OFFSET] == Verb.CANCEL  # what is granted by now is the daemon's again at once
    assert record[protocol.REQUEST_FLAGS_OFFSET] == protocol.REQUEST_FLAG_SILENT
    assert int.from_bytes(record[protocol.REQUEST_ARGUMENT_OFFSET :][:8], "little") == ticket
    peer.publish(completion(Verb.ACQUIRE, ticket, lease(identity=11) + lease(identity=12, status=Status.MISS), run=1))
    assert session.outstanding == 1
    assert session.poll(0) == {} and session.outstanding == 0
    record = peer.request()
    assert record[protocol.REQUEST_VERB_OFFSET] == Verb.RELEASE
    assert record[protocol.REQUEST_FLAGS_OFFSET] == protocol.REQUEST_FLAG_SILENT
    assert record[protocol.REQUEST_HEADER_BYTES :] == struct.pack("<Q", 11)


def test_drain_unaskedCompletion_isIgnored(peer: Peer) -> None:
    session = peer.session()
    ticket = session.submit(request(Verb.PING), 0)
    peer.request()
    peer.publish(completion(Verb.ACQUIRE, 99, lease(identity=11)))
    peer.publish(completion(Verb.PING, ticket))
    assert session.take(ticket, 0)[0] is Status.OK
    assert not session.ended and peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) == peer.head


def test_forget_fullRing_isReleasedLater(peer: Peer) -> None:
    session = peer.session()
    ticket = session.submit(request(Verb.ACQUIRE, [b"a"], 1), 0)
    session.forget(ticket)
    keys = [bytes(32)] * 2040
    while session.submit(request(Verb.LOOKUP, keys, len(keys)), 0) > 0:
        pass
    while session.submit(request(Verb.PING), 0) > 0:
        pass
    peer.publish(completion(Verb.ACQUIRE, ticket, lease(identity=11)))
    outstanding = session.outstanding
    session.poll(0)
    assert session.outstanding == outstanding  # the release takes the place of the request
    while peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) > peer.head:
        peer.request()
    session.poll(0)
    assert peer.request()[protocol.REQUEST_HEADER_BYTES :] == struct.pack("<Q", 11)


def test_forget_arrivedReservation_isAborted(peer: Peer) -> None:
    session = peer.session()
    first = session.submit(request(Verb.PING), 0)
    ticket = session.submit(request(Verb.RESERVE, [b"a"], 1), 0)
    peer.request(), peer.request()
    peer.publish(completion(Verb.RESERVE, ticket, lease(identity=9)))
    peer.publish(completion(Verb.PING, first))
    assert session.take(first, 0)[0] is Status.OK
    session.forget(ticket)
    record = peer.request()
    assert record[protocol.REQUEST_VERB_OFFSET] == Verb.ABORT and record[protocol.REQUEST_HEADER_BYTES :] == struct.pack("<Q", 9)


@pytest.mark.parametrize(
    "record",
    [
        completion(Verb.LOOKUP, 1, length=8),
        completion(Verb.LOOKUP, 1, length=0),
        completion(Verb.LOOKUP, 1, length=36),
        completion(Verb.LOOKUP, 1, length=4096),
        completion(Verb.LOOKUP, 1, length=0xFFFFFFF8),
        completion(Verb.LOOKUP, 1, bytes(8), count=3),
        completion(Verb.LOOKUP, 1, bytes(8), count=0xFFFFFFFF),
        completion(Verb.LOOKUP, 1, bytes(8), count=1 << 30),
        completion(Verb.LOOKUP, 1, b"text", flags=protocol.COMPLETION_FLAG_TEXT, count=9),
        completion(Verb.LOOKUP, 1, bytes(8), run=3),
        completion(Verb.ACQUIRE, 1, lease()),
        bytes(16),
    ],
)
def test_drain_badRecord_endsTheSession(peer: Peer, record: bytes) -> None:
    session = peer.session()
    session.submit(request(Verb.LOOKUP, [b"a", b"b"], 2), 0)
    peer.publish(record)
    assert session.take(1, _core.monotonic_ns() + SECOND_NS)[0] is Status.UNAVAILABLE
    assert session.ended and session.end_status is Status.INTERNAL and session.end_text


@pytest.mark.parametrize("tail", [4, RING_BYTES + 8, 1 << 63, (1 << 64) - 8])
def test_drain_badTail_endsTheSession(peer: Peer, tail: int) -> None:
    session = peer.session()
    session.submit(request(Verb.PING), 0)
    peer.set_word(protocol.SESSION_COMPLETION_TAIL_OFFSET, tail)
    assert session.take(1, _core.monotonic_ns() + SECOND_NS)[0] is Status.UNAVAILABLE
    assert session.ended


def test_drain_tailGoesBackward_endsTheSession(peer: Peer) -> None:
    session = peer.session()
    session.submit(request(Verb.PING), 0)
    peer.publish(completion(Verb.PING, 1))
    assert session.take(1, 0)[0] is Status.OK
    session.submit(request(Verb.PING), 0)
    peer.set_word(protocol.SESSION_COMPLETION_TAIL_OFFSET, 8)
    assert session.take(2, _core.monotonic_ns() + SECOND_NS)[0] is Status.UNAVAILABLE


def test_submit_badHead_endsTheSession(peer: Peer) -> None:
    session = peer.session()
    peer.set_word(protocol.SESSION_REQUEST_HEAD_OFFSET, 1 << 40)
    keys = [bytes(32)] * 2048
    answers = [session.submit(request(Verb.LOOKUP, keys, 2048), 0) for _ in range(5)]
    assert answers[-1] == -Status.UNAVAILABLE and session.ended


def test_drain_randomBytes_neverCrashes() -> None:
    numbers = random.Random(31415)
    for _ in range(150):
        peer = Peer()
        session = peer.session()
        for _ in range(4):
            session.submit(request(Verb.ACQUIRE, [b"a"], 1), 0)
        for _ in range(4):
            record = bytearray(completion(Verb.ACQUIRE, numbers.randrange(1, 5), lease() * numbers.randrange(3)))
            for _ in range(numbers.randrange(3)):
                record[numbers.randrange(len(record))] = numbers.randrange(256)
            peer.publish(bytes(record))
            session.poll(0)
        session.close()
        peer.close()


def test_session_badMemory_raises() -> None:
    def changed(offset: int, form: str, value: int, of_daemon: bool = False) -> None:
        peer = Peer()
        struct.pack_into(form, peer.daemon if of_daemon else peer.memory, offset, value)
        with pytest.raises(SessionError):
            peer.session()
        peer.close()

    changed(protocol.SESSION_MAGIC_OFFSET, "<Q", 1)
    changed(protocol.SESSION_READY_OFFSET, "<I", 0)
    changed(protocol.SESSION_VERSION_OFFSET, "<I", 9 << 16)
    changed(protocol.SESSION_REQUEST_RING_BYTES_OFFSET, "<Q", RING_BYTES - 8)
    changed(protocol.SESSION_COMPLETION_RING_BYTES_OFFSET, "<Q", 4 * RING_BYTES)
    changed(protocol.SESSION_COMPLETION_RING_BYTES_OFFSET, "<Q", 1 << 60)
    changed(protocol.DAEMON_MAGIC_OFFSET, "<Q", 0, True)


def test_counters_fromTheDaemonsMemory(peer: Peer) -> None:
    session = peer.session()
    struct.pack_into("<Q", peer.daemon, protocol.DAEMON_COUNTERS_OFFSET + 8, 123)
    assert session.counters()[:2] == [0, 123]
    struct.pack_into("<I", peer.daemon, protocol.DAEMON_COUNTER_COUNT_OFFSET, 1 << 31)
    assert len(session.counters()) == (protocol.DAEMON_REGION_BYTES - protocol.DAEMON_COUNTERS_OFFSET) // 8


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 4095), (0, 8192), (4097, 4096), (8192, 4096), (1 << 63, 4096), ((1 << 64) - 4096, 4096), (0, 0)],
)
def test_gather_outsideTheSlab_raises(peer: Peer, offset: int, length: int) -> None:
    slab, _ = slab_of(8192)
    body = lease(offset=offset, length=length)
    with pytest.raises(SessionError):
        _core.gather(peer.session(), {0: slab}, body, 0, bytearray(4096), 4096, 1 << 62, False)
    with pytest.raises(SessionError):
        _core.scatter({0: slab}, body, 0, bytes(4096), 4096)



def test_slab_isMappedWhereAHugePageOfTheFileBegins() -> None:
    size = (2 << 20) + 4096
    slabs = [_core.Slab(memory(size), size, True) for _ in range(8)]
    for slab in slabs:
        assert ctypes.addressof(ctypes.c_char.from_buffer(slab)) % (2 << 20) == 0


def test_scatter_readOnlySlab_raises() -> None:
    slab, _ = slab_of(8192, writable=False)
    assert memoryview(slab).readonly
    with pytest.raises(SessionError):
        _core.scatter({0: slab}, lease(), 0, bytes(4096), 4096)


def test_gather_buffers_areChecked(peer: Peer) -> None:
    slab, _ = slab_of(8192)
    for into in (bytearray(4095), [bytearray(4097)], [bytearray(4095)], [bytes(4096)], bytes(4096), [], 7):
        with pytest.raises((InvalidArgument, BufferError, TypeError, IndexError)):
            _core.gather(peer.session(), {0: slab}, lease(), 0, into, 4096, 1 << 62, False)


def test_gather_statuses_bytesChecksumsAndLeaseEnd(peer: Peer) -> None:
    slab, _ = slab_of(1 << 20)
    data = random.Random(5).randbytes(1 << 20)
    memoryview(slab)[:] = data
    good = _core.crc32c(data[4096:8192])
    body = (
        lease(offset=4096, crc=good, flags=1)
        + lease(status=Status.MISS)
        + lease(offset=8192, crc=1, flags=1)
        + lease(offset=8192, crc=1)
        + lease(slab=9)
    )
    into = bytearray(5 * 4096)
    statuses = _core.gather(peer.session(), {0: slab}, body, 0, into, 4096, 1 << 62, False)
    assert statuses == [Status.OK, Status.MISS, Status.CORRUPT, Status.OK, Status.STALE]
    assert into[:4096] == data[4096:8192] and into[3 * 4096 : 4 * 4096] == data[8192:12288]
    assert _core.gather(peer.session(), {0: slab}, body, 0, into, 4096, 1 << 62, True)[3] is Status.CORRUPT
    assert _core.gather(peer.session(), {0: slab}, body, 0, into, 4096, 1, False)[0] is Status.STALE


@pytest.mark.parametrize("end", ["closed here", "ended by the daemon", "daemon killed", "forked"])
def test_gather_sessionEnded_stale(peer: Peer, end: str) -> None:
    slab, _ = slab_of(8192, False)
    session = peer.session()
    body = lease() + lease(offset=4096, crc=1, flags=1)
    into = bytearray(8192)
    assert _core.gather(session, {0: slab}, body, 0, into, 4096, 1 << 62, False) == [Status.OK, Status.CORRUPT]
    assert session.holds(1 << 62) and not session.holds(_core.monotonic_ns())
    if end == "closed here":
        session.close()
    elif end == "ended by the daemon":
        struct.pack_into("<I", peer.memory, protocol.SESSION_END_REASON_OFFSET, Status.INTERNAL + 1)
    elif end == "daemon killed":
        peer.socket.close()
    elif (child := os.fork()) == 0:
        stale = _core.gather(session, {0: slab}, body, 0, into, 4096, 1 << 62, False) == [Status.STALE] * 2
        os._exit(0 if stale else 1)
    else:
        assert os.waitpid(child, 0)[1] == 0
        return
    assert _core.gather(session, {0: slab}, body, 0, into, 4096, 1 << 62, False) == [Status.STALE] * 2
    assert not session.holds(1 << 62)


def test_scatter_written_idsOfWhatWasWritten() -> None:
    slab, fd = slab_of(1 << 20)
    body = lease(offset=0, identity=3) + lease(status=Status.EXISTS) + lease(slab=9, identity=4) + lease(offset=4096, identity=5)
    data = random.Random(6).randbytes(4 * 4096)
    statuses, ids = _core.scatter({0: slab}, body, 0, data, 4096)
    assert statuses == [Status.OK, Status.EXISTS, Status.STALE, Status.OK]
    first, last = _core.crc32c(data[:4096]), _core.crc32c(data[3 * 4096 :])
    assert ids == struct.pack("<4Q", 3, first, 5, last)
    assert os.pread(fd, 8192, 0) == data[:4096] + data[3 * 4096 :]


@pytest.mark.parametrize("blocks", [1, 8, 9, 20])
def test_scatter_announced_ringsBeforeTheLastBytes(peer: Peer, blocks: int) -> None:
    slab, fd = slab_of(20 << 16)
    body = b"".join(lease(offset=i << 16, length=1 << 16, identity=i) for i in range(blocks))
    data = random.Random(8).randbytes(blocks << 16)
    session = peer.session()
    struct.pack_into("<I", peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1)
    _, silent = _core.scatter({0: slab}, body, 0, data, 1 << 16)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(peer.doorbell)
    _, ids = _core.scatter({0: slab}, body, 0, data, 1 << 16, session)
    assert ids == silent
    assert os.pread(fd, len(data), 0) == data
    if blocks > 8:
        assert os.eventfd_read(peer.doorbell) == 1
    else:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(peer.doorbell)


def test_scatter_indexOnThisProcessor_isLeftAsleep(peer: Peer, here: int) -> None:
    slab, _ = slab_of(20 << 16)
    body = b"".join(lease(offset=i << 16, length=1 << 16, identity=i) for i in range(20))
    session = peer.session()
    struct.pack_into("<II", peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1, here + 1)
    _core.scatter({0: slab}, body, 0, bytes(20 << 16), 1 << 16, session)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(peer.doorbell)
    session.submit(request(Verb.PING), 0)
    assert os.eventfd_read(peer.doorbell) == 1


def test_scatter_slowCopies_announceLater(peer: Peer) -> None:
    slab, _ = slab_of(32 << 16)
    session = peer.session()
    struct.pack_into("<I", peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1)

    def rings(blocks: int) -> bool:
        body = b"".join(lease(offset=i << 16, length=1 << 16, identity=i) for i in range(blocks))
        _core.scatter({0: slab}, body, 0, bytes(blocks << 16), 1 << 16, session)
        try:
            return os.eventfd_read(peer.doorbell) == 1
        except BlockingIOError:
            return False

    assert _core.crc32c_choose("tables")
    try:
        for _ in range(20):
            assert not rings(3), "of less than 1 MiB nobody can tell how fast it is"
        # A byte at a time, so that far less than the 192 KiB of three blocks is copied while the daemon wakes up.
        for _ in range(20):
            assert rings(32)
        assert rings(3)
    finally:
        _core.crc32c_choose(_core.CRC32C)


def test_slab_fileTooShort_raises() -> None:
    with pytest.raises(SessionError):
        _core.Slab(memory(4096), 8192, True)


def test_crc32c_everyImplementation_sameAsTheDefinition(peer: Peer) -> None:
    def definition(data: bytes) -> int:
        state = 0xFFFFFFFF
        for byte in data:
            state ^= byte
            for _ in range(8):
                state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
        return state ^ 0xFFFFFFFF

    numbers = random.Random(7)
    slab, _ = slab_of(1 << 19)
    session = peer.session()
    chosen = [name for name in ("tables", "streams", "folding", "folding abreast") if _core.crc32c_choose(name)]
    try:
        for length in (0, 1, 7, 8, 9, 255, 256, 511, 512, 513, 767, 768, 4079, 4080, 4081, 8160, 33000):
            data = numbers.randbytes(length + 3)[3:]
            expected = definition(data)
            for name in chosen:
                assert _core.crc32c_choose(name)
                assert _core.crc32c(data) == expected
                assert _core.crc32c(data[length // 3 :], _core.crc32c(data[: length // 3])) == expected
                if length:
                    reserved = lease(length=length, offset=1, identity=5)
                    _, written = _core.scatter({0: slab}, reserved, 0, data, length)
                    assert written == struct.pack("<2Q", 5, expected)
                    assert memoryview(slab)[1 : 1 + length] == data
        assert _core.crc32c(b"123456789") == 0xE3069283
        # Past the caches: less than four pages side by side, whole fours, and what is left of them.
        for length in (1 << 17, (1 << 17) + 16384, 135937, 150001, 300000):
            data = numbers.randbytes(length)
            assert _core.crc32c_choose("tables")
            expected = _core.crc32c(data)
            for name in chosen:
                assert _core.crc32c_choose(name)
                for offset in (0, 64, 777):
                    reserved = lease(length=length, offset=offset, identity=5)
                    memoryview(slab)[:] = bytes(len(slab))
                    _, written = _core.scatter({0: slab}, reserved, 0, data, length)
                    assert written == struct.pack("<2Q", 5, expected)
                    assert memoryview(slab)[offset : offset + length] == data
                    assert not any(memoryview(slab)[offset + length : offset + length + 256])
                    for flags in (0, 1):
                        copied = bytearray(length)
                        leased = lease(length=length, offset=offset, crc=expected, flags=flags)
                        assert _core.gather(session, {0: slab}, leased, 0, copied, length, 1 << 62, False) == [Status.OK]
                        assert copied == data
    finally:
        assert _core.crc32c_choose(_core.CRC32C)


def test_fork_child_hasNoSlabToWriteTo() -> None:
    written, fd = slab_of(4096)
    read = _core.Slab(fd, 4096, False)
    memoryview(written)[:2] = b"ab"
    child = os.fork()
    if child == 0:
        there = memoryview(read)[:2] == b"ab"
        del written
        os._exit(0 if there else 1)
    assert os.waitpid(child, 0)[1] == 0, "a child can let go of it, and read"
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        memoryview(written)[:2] = b"cd"
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) in (signal.SIGSEGV, signal.SIGBUS)
    assert memoryview(read)[:2] == b"ab"


def test_fork_child_sessionIsOver(peer: Peer) -> None:
    session = peer.session()
    child = os.fork()
    if child == 0:
        over = session.ended and session.submit(request(Verb.PING), 0) == -Status.UNAVAILABLE
        session.abandon()
        os._exit(0 if over else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not session.ended
    assert session.submit(request(Verb.PING), 0) == 1
