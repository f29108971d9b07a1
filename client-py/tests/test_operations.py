"""The operations, driven by hand over memory that the test writes itself: each thing happens exactly when a test says."""

import os
import struct
from collections.abc import Iterator

import pytest
from kvtier_testing.peer import SECOND_NS, Peer, lease, slab_of

from kvtier import InvalidArgument, Leases, Lookup, _core
from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._connection import Link, NamespaceProperties
from kvtier._protocol import Status, Tier, Verb

PROPERTIES = NamespaceProperties("driven", 256 << 10, b"name=driven")
BLOCK_BYTES = PROPERTIES.block_bytes
KEYS = [bytes([i]) * 8 for i in range(200)]


class Driven:
    """A link whose daemon is the test."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.session = peer.session()
        self.slab, _ = slab_of(4 * BLOCK_BYTES)
        self.link = Link(self.session, peer.client_socket, 4 * BLOCK_BYTES, 1, "test")
        self.link.namespaces[PROPERTIES] = 3
        self.link.read_slabs[0] = self.slab
        self.context = operations.context_of(self.link, PROPERTIES, _core.monotonic_ns() + 10 * SECOND_NS)


@pytest.fixture
def driven() -> Iterator[Driven]:
    peer = Peer()
    yield Driven(peer)
    peer.close()


def granted(count: int, **fields: int) -> operations.Completion:
    """The completion of an ACQUIRE of so many blocks, as a front end hands it over."""
    body = b"".join(lease(length=BLOCK_BYTES, identity=i + 1, **fields) for i in range(count))
    return (Status.OK, count, 1 << 62, body, False, Verb.ACQUIRE)


def test_get_sessionEndsDuringTheCopy_stale(driven: Driven) -> None:
    into = bytearray(2 * BLOCK_BYTES)
    get = operations.get(driven.context, KEYS[:2], into, 0, 0, False)
    assert next(get)[0] == Verb.ACQUIRE
    copy = get.send(granted(2))
    assert isinstance(copy, operations.Work)
    driven.session.close()
    with pytest.raises(StopIteration) as stop:
        get.send(copy.function())
    assert stop.value.value == (0, [Status.STALE] * 2)


def released(driven: Driven) -> list[tuple[int, bytes]]:
    """The requests that came since: all silent releases, as (flags besides, ids)."""
    requests = []
    while driven.peer.word(protocol.SESSION_REQUEST_TAIL_OFFSET) > driven.peer.head:
        record = driven.peer.request()
        assert record[protocol.REQUEST_VERB_OFFSET] == Verb.RELEASE
        flags = record[protocol.REQUEST_FLAGS_OFFSET]
        assert flags & protocol.REQUEST_FLAG_SILENT
        requests.append((flags & ~protocol.REQUEST_FLAG_SILENT, record[protocol.REQUEST_HEADER_BYTES :]))
    return requests


def rang(peer: Peer) -> bool:
    try:
        return os.eventfd_read(peer.doorbell) > 0
    except BlockingIOError:
        return False


def ids(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


@pytest.mark.parametrize("verify_all", [False, True])
def test_get_corruptBlock_releaseSaysSoAndRings(driven: Driven, verify_all: bool) -> None:
    struct.pack_into("<I", driven.peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1)
    good = _core.crc32c(bytes(BLOCK_BYTES))
    flags = 0 if verify_all else protocol.COMPLETION_BLOCK_FLAG_VERIFY
    body = b"".join(
        lease(length=BLOCK_BYTES, identity=10 + i, crc=good if i % 2 else 1, flags=flags) for i in range(4)
    ) + lease(status=Status.MISS)  # fmt: skip
    get = operations.get(driven.context, KEYS[:5], bytearray(5 * BLOCK_BYTES), 0, 0, verify_all)
    next(get)
    copy = get.send((Status.OK, 4, 1 << 62, body, False, Verb.ACQUIRE))
    with pytest.raises(StopIteration) as stop:
        get.send(copy.function())
    expected = [Status.CORRUPT, Status.OK, Status.CORRUPT, Status.OK, Status.MISS]
    assert stop.value.value == (0, expected)
    assert released(driven) == [(protocol.REQUEST_FLAG_CORRUPT, ids(10, 12)), (0, ids(11, 13))]
    assert rang(driven.peer)


def test_get_soundBlocks_releaseSilently(driven: Driven) -> None:
    struct.pack_into("<I", driven.peer.daemon, protocol.DAEMON_INDEX_WAITING_OFFSET, 1)
    get = operations.get(driven.context, KEYS[:2], bytearray(2 * BLOCK_BYTES), 0, 0, False)
    next(get)
    copy = get.send(granted(2))
    with pytest.raises(StopIteration):
        get.send(copy.function())
    assert released(driven) == [(0, ids(1, 2))]
    assert not rang(driven.peer)


def leases_of(driven: Driven, body: bytes, count: int) -> Leases:
    acquire = operations.acquire(driven.context, KEYS[:count], 0, 0)
    next(acquire)
    with pytest.raises(StopIteration) as stop:
        acquire.send((Status.OK, count, 1 << 62, body, False, Verb.ACQUIRE))
    leases = stop.value.value
    assert isinstance(leases, Leases)
    return leases


def test_leases_checkFindsCorrupt_releaseSaysSo(driven: Driven) -> None:
    flags = protocol.COMPLETION_BLOCK_FLAG_VERIFY
    body = b"".join(lease(length=BLOCK_BYTES, identity=20 + i, crc=1, flags=flags * i) for i in range(2))
    leases = leases_of(driven, body, 2)
    assert leases.check() == leases.check() == [Status.OK, Status.CORRUPT]
    leases.release()
    leases.release()
    assert released(driven) == [(protocol.REQUEST_FLAG_CORRUPT, ids(21)), (0, ids(20))]


def test_leases_ended_nothingIsCalledCorrupt(driven: Driven) -> None:
    body = lease(length=BLOCK_BYTES, identity=20, crc=1, flags=protocol.COMPLETION_BLOCK_FLAG_VERIFY)
    leases = leases_of(driven, body, 1)
    leases.expires_ns = _core.monotonic_ns()
    assert leases.check() == [Status.STALE]
    leases.release()
    assert released(driven) == [(0, ids(20))]


def test_giveBack_corruptInAFullRing_saysSoLater(driven: Driven) -> None:
    session, peer = driven.session, driven.peer
    while session.submit(operations.plain_request(Verb.PING), 0) > 0:
        pass
    session.give_back(Verb.ACQUIRE, ids(7), True)
    assert not any(peer.request()[4] == Verb.RELEASE for _ in range(session.outstanding - 1))
    session.poll(0)
    assert released(driven) == [(protocol.REQUEST_FLAG_CORRUPT, ids(7))]
    with pytest.raises(InvalidArgument):
        session.give_back(Verb.RESERVE, ids(7), True)


def test_giveBack_severalThingsAreWrong_theFirstIsNamed(driven: Driven) -> None:
    class Undecided:
        def __bool__(self) -> bool:
            raise AssertionError("it was asked for all the same")

    with pytest.raises(TypeError, match="integer"):
        driven.session.give_back("ACQUIRE", ids(7), Undecided(), 7)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        driven.session.give_back(Verb.ACQUIRE, ids(7), Undecided(), 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a context is"):
        driven.session.give_back(Verb.ACQUIRE, ids(7), True, 7)  # type: ignore[arg-type]


def window(statuses: list[Status]) -> operations.Completion:
    """An ACQUIRE's completion with these statuses."""
    body = b"".join(lease(length=BLOCK_BYTES, identity=i + 1, status=status) for i, status in enumerate(statuses))
    run = next((i for i, status in enumerate(statuses) if status is not Status.OK), len(statuses))
    return (Status.OK, run, 1 << 62, body, False, Verb.ACQUIRE)


@pytest.mark.parametrize("leading_run", [False, True])
@pytest.mark.parametrize("hole", [Status.MISS, Status.PENDING])
def test_get_hole_endsTheLeadingRunOnlyWhereABlockIsNowhere(driven: Driven, hole: Status, leading_run: bool) -> None:
    flags = protocol.REQUEST_FLAG_LEADING_RUN if leading_run else 0
    per_window = operations.WINDOW_BYTES // BLOCK_BYTES
    count = 3 * per_window
    get = operations.get(driven.context, KEYS[:count], bytearray(count * BLOCK_BYTES), flags, 0, False)
    answers = [window([Status.OK] * per_window) for _ in range(3)]
    answers[1] = window([Status.OK, hole] + [Status.OK] * (per_window - 2))
    asked = 0
    command = next(get)
    with pytest.raises(StopIteration) as stop:
        while True:
            if isinstance(command, operations.Submit):
                asked += 1
                command = get.send(asked)
            elif isinstance(command, operations.Work):
                command = get.send(command.function())
            else:
                command = get.send(answers[command if isinstance(command, int) else 0])
    run, statuses = stop.value.value
    assert run == per_window + 1 and statuses[run] is hole and len(statuses) == count
    if leading_run and hole is Status.MISS:
        assert asked == 1 and set(statuses[2 * per_window :]) == {Status.MISS}
    else:
        assert asked == 2 and set(statuses[2 * per_window :]) == {Status.OK}


@pytest.mark.parametrize(("answered", "expected"), [(Status.DENIED, Status.DENIED), (99, Status.INTERNAL)])
def test_put_slabRefused_blocksHaveTheDaemonsStatus(driven: Driven, answered: int, expected: Status) -> None:
    put = operations.put(driven.context, KEYS[:1], bytes(BLOCK_BYTES))
    next(put)
    mapping = put.send((Status.OK, 1, 0, lease(length=BLOCK_BYTES, identity=5), False, Verb.RESERVE))
    magic = protocol.HANDSHAKE_MAP_SLAB_MAGIC
    driven.peer.socket.send(protocol.HANDSHAKE_ANSWER.pack(magic, 0, answered, 0))
    copying = put.send(mapping.function())
    with pytest.raises(StopIteration) as stop:
        put.send(copying.function())
    assert stop.value.value == [expected]
    record = driven.peer.request()
    assert record[protocol.REQUEST_VERB_OFFSET] == Verb.ABORT and record[protocol.REQUEST_HEADER_BYTES :] == ids(5)


@pytest.mark.parametrize(("knows", "fresh", "flags"), [(True, True, protocol.REQUEST_FLAG_FRESH), (True, False, 0), (False, True, 0)])
def test_freshLookup_isAskedOfDaemonsThatKnowIt(driven: Driven, knows: bool, fresh: bool, flags: int) -> None:
    driven.link.asks_nodes_again = knows
    other = NamespaceProperties("other", BLOCK_BYTES, b"name=other")
    driven.link.namespaces[other] = 4
    for groups in ([(PROPERTIES, KEYS[:2])], [(PROPERTIES, KEYS[:2]), (other, KEYS[:1])]):
        asked = next(operations.lookup_groups(driven.context, groups, fresh))
        assert asked[0] == (Verb.LOOKUP if len(groups) == 1 else Verb.LOOKUP_GROUPS) and asked[1] == flags


def test_lookup_blocksAreInMemory_whereEachOfThemIs() -> None:
    def body(*tiers: Tier) -> bytes:
        return b"".join(struct.pack("<I", (Status.OK if tier is not Tier.NONE else Status.MISS) | tier << 16) for tier in tiers)

    parts = [
        (Status.OK, 3, body(Tier.SSD, Tier.HOST, Tier.HOST)),
        (Status.OK, 2, body(Tier.HOST, Tier.NONE)),
        (Status.DEADLINE, 1, b""),
    ]
    found = Lookup(4, 0.0, parts)
    assert found.tiers == [Tier.SSD, Tier.HOST, Tier.HOST, Tier.HOST, Tier.NONE, Tier.NONE]
    assert found.first == found.blocks[0] == (Status.OK, Tier.SSD)
    assert Lookup(0, 0.0, parts[1:][::-1]).first == (Status.DEADLINE, Tier.NONE)
    assert Lookup(0, 0.0, []).first is None
    are = {(begin, end) for begin in range(6) for end in range(begin + 1, 8) if found.are_in_memory(range(begin, end))}
    assert are == {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}


def test_lookup_blocksThatAreSought_areCountedOverAllParts() -> None:
    def body(*blocks: tuple[Status, Tier]) -> bytes:
        return b"".join(struct.pack("<I", status | tier << 16) for status, tier in blocks)

    here, sought, nowhere = (Status.OK, Tier.HOST), (Status.PENDING, Tier.OBJECT), (Status.MISS, Tier.NONE)
    parts = [(Status.OK, 3, body(here, here, sought)), (Status.OK, 3, body(sought, here, nowhere)), (Status.OK, 1, body(sought))]
    found = Lookup(2, 0.0, parts)
    assert found.at(found.run) == sought
    assert [found.sought_from(place) for place in range(8)] == [0, 0, 3, 2, 0, 0, 1, 0]
    assert Lookup.of_status(Status.DEADLINE, 3).sought_from(0) == 0
    assert found.at(7) is None


def test_acquire_expectedBlocks_areAskedForAtOnce_andNameTheNode(driven: Driven) -> None:
    keys = [index.to_bytes(8, "little") for index in range(protocol.KEYS_MAX + 5)]
    acquire = operations.acquire(driven.context, keys, 0, 0, "node-1")
    first = next(acquire)
    second = acquire.send(7)
    for asked, count in ((first, protocol.KEYS_MAX), (second, 5)):
        assert isinstance(asked, operations.Submit)
        assert (asked.request[0], asked.request[1], asked.request[10]) == (Verb.ACQUIRE, protocol.REQUEST_FLAG_EXPECTED, count)
        assert asked.request[12] == _core.crc32c(b"node-1")
    missed = b"".join(lease(status=Status.MISS) for _ in keys)
    size = protocol.COMPLETION_LONG_RESULT_BYTES
    assert acquire.send(8) == 7, "the first answer"
    at = protocol.KEYS_MAX * size
    assert acquire.send((Status.OK, 0, 0, missed[:at], False, Verb.ACQUIRE)) == 8
    with pytest.raises(StopIteration) as stop:
        acquire.send((Status.OK, 0, 0, missed[at:], False, Verb.ACQUIRE))
    assert stop.value.value.statuses == [Status.MISS] * len(keys)


def test_acquire_expectedBlocks_ofAnOlderDaemon_areAskedForAsAlways(driven: Driven) -> None:
    driven.link.expects = False
    request = next(operations.acquire(driven.context, KEYS[:2], 0, 0, "node-1"))
    assert (request[0], request[1], len(request)) == (Verb.ACQUIRE, 0, 12)
