"""The contract of `kvtier.Client`, for the client over the socket and for the client over gRPC with TLS."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy
import pytest
from kvtier_testing.blocks import block, blocks, keys, put_all, wrong_blocks
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import HANG_S, Daemon, eventually, in_a_folder
from kvtier_testing.remote import RemoteDaemon

from kvtier import Client, InvalidArgument, LoadReport, NamespaceMismatch, Priority, Status, Tier
from kvtier import _protocol as protocol
from kvtier._core import monotonic_ns

Connect: TypeAlias = Callable[[], Client]


@pytest.fixture(scope="module", params=["socket", "grpcs"])
def served(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon that is asked over its socket, and one over gRPC."""
    with in_a_folder(RemoteDaemon if request.param == "grpcs" else Daemon) as made:
        made.start(ssd__bytes="512MiB")
        yield made


@pytest.fixture
def connect(served: Daemon) -> Connect:
    """Makes clients of the daemon."""
    if isinstance(served, RemoteDaemon):
        address, shown = served.address, served.credentials
        return lambda: Client(address, timeout=60, **shown)
    return lambda: Client(served.socket_path, timeout=60)


@pytest.fixture
def client(connect: Connect) -> Iterator[Client]:
    with connect() as connected:
        yield connected


def test_ping_answers(client: Client) -> None:
    ping = client.ping()
    assert ping.status is Status.OK and 0 < ping.round_trip_s < 5 and not ping.reason and ping.version


@pytest.mark.parametrize("block_bytes", [512, 4096, 65536, 1 << 20])
@pytest.mark.parametrize("contiguous", [True, False])
def test_putGet_roundTrip_sameBytes(client: Client, block_bytes: int, contiguous: bool) -> None:
    name = f"round-{block_bytes}-{contiguous}"
    namespace = client.namespace(name, block_bytes=block_bytes)
    some = keys(name, 6)
    data = blocks(some, block_bytes)
    parts = [data[i * block_bytes : (i + 1) * block_bytes] for i in range(6)]
    assert namespace.put(some, data if contiguous else parts) == [Status.OK] * 6
    into = bytearray(6 * block_bytes)
    buffers = [memoryview(into)[i * block_bytes : (i + 1) * block_bytes] for i in range(6)]
    answer = namespace.get(some, into if contiguous else buffers, verify=True)
    assert answer.run == 6 and answer.statuses == [Status.OK] * 6
    assert into == data


@pytest.mark.parametrize("key_bytes", [1, 7, 8, 16, 20, 31, 32])
def test_putGet_keyLengths_roundTrip(client: Client, key_bytes: int) -> None:
    namespace = client.namespace(f"key-bytes-{key_bytes}", block_bytes=512)
    some = [bytes([i]) * key_bytes for i in range(5)]
    assert namespace.put(some, blocks(some, 512)) == [Status.OK] * 5
    into = bytearray(5 * 512)
    assert namespace.get(some, into).run == 5
    assert into == blocks(some, 512)


def test_put_again_exists(client: Client) -> None:
    namespace = client.namespace("again", block_bytes=4096)
    some = keys("again", 3)
    assert namespace.put(some[:2], blocks(some[:2], 4096)) == [Status.OK] * 2
    assert namespace.put(some, blocks(some, 4096)) == [Status.EXISTS, Status.EXISTS, Status.OK]
    into = bytearray(3 * 4096)
    assert namespace.get(some, into).run == 3 and into == blocks(some, 4096)


def test_put_twiceInOneBatch_nothingIsLost(client: Client) -> None:
    namespace = client.namespace("twice", block_bytes=4096)
    one = keys("twice", 1)[0]
    statuses = namespace.put([one, one], blocks([one, one], 4096))
    assert Status.OK in statuses and set(statuses) <= {Status.OK, Status.EXISTS, Status.PENDING}
    into = bytearray(4096)
    assert namespace.get([one], into).run == 1 and into == block(one, 4096)


def test_batch_beyondKeysMax_isSplit(client: Client) -> None:
    namespace = client.namespace("batch", block_bytes=1024)
    some = keys("batch", 2 * protocol.KEYS_MAX + 500)
    data = blocks(some, 1024)
    assert namespace.put(some, data) == [Status.OK] * len(some)
    found = namespace.lookup(some)
    assert found.run == len(some) and found.tiers == [Tier.HOST] * len(some) and found.estimated_load_s >= 0
    into = bytearray(len(data))
    assert namespace.get(some, into).run == len(some) and into == data
    with namespace.acquire(some) as leases:
        assert leases.run == len(some)
    assert namespace.delete(some) == [Status.OK] * len(some)
    assert namespace.lookup(some).run == 0


def test_reportLoads_blocksThatWereGot_areCounted(client: Client) -> None:
    namespace = client.namespace("loads", block_bytes=4096)
    some = keys("loads", 3)
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 3
    assert namespace.get(some, bytearray(3 * 4096)).run == 3
    before = client.counters()
    assert namespace.report_loads(LoadReport(3, 48, 0.25, 0.001)) is Status.OK
    assert namespace.report_loads(LoadReport(3, 48, 0.25, 0.001)) is Status.INVALID_ARGUMENT
    after = client.counters()
    gained = [after[name] - before[name] for name in ("saved_tokens", "saved_prefill_ns", "spent_load_ns")]
    assert gained == [48, 250_000_000, 1_000_000]


@pytest.mark.parametrize(
    "report",
    [LoadReport(-1, 0, 0, 0), LoadReport(65537, 0, 0, 0), LoadReport(1, 65537, 0, 0), LoadReport(1, 1, 1.1, 0), LoadReport(0, 0, 0, 86401), LoadReport(1, 1, float("nan"), 0)],
)  # fmt: skip
def test_reportLoads_whatNobodyCanMeasure_isRefused(client: Client, report: LoadReport) -> None:
    namespace = client.namespace("loads", block_bytes=4096)
    with pytest.raises(InvalidArgument, match="expected 0 to"):
        namespace.report_loads(report)


def test_holeInPrefix_runEndsThere(client: Client) -> None:
    namespace = client.namespace("hole", block_bytes=4096)
    some = keys("hole", 8)
    present = some[:3] + some[4:]
    assert namespace.put(present, blocks(present, 4096)) == [Status.OK] * 7
    found = namespace.lookup(some)
    assert found.run == 3
    assert found.statuses == [Status.OK] * 3 + [Status.MISS] + [Status.OK] * 4
    into = bytearray(8 * 4096)
    answer = namespace.get(some, into)
    assert answer.run == 3 and answer.statuses == found.statuses
    assert wrong_blocks(some, answer.statuses, into) == []
    assert namespace.get(some, into, leading_run=True).statuses == [Status.OK] * 3 + [Status.MISS] * 5
    with namespace.acquire(some, leading_run=True) as leases:
        assert leases.run == 3 and leases.statuses == [Status.OK] * 3 + [Status.MISS] * 5
        assert [view is not None for view in leases.views] == [True] * 3 + [False] * 5


def test_options_areAccepted(client: Client) -> None:
    namespace = client.namespace("options", block_bytes=512)
    some = keys("options", 4)
    options = {"priority": Priority.HIGH, "group": 3, "parent": keys("parent", 1)[0], "depth": 17, "timeout": 5.0}
    assert namespace.put(some, blocks(some, 512), **options) == [Status.OK] * 4
    assert namespace.lookup(some, group=3).run == 4
    assert namespace.lookup(some, group=2).run == 0
    assert namespace.get(some, bytearray(4 * 512), group=3, deadline_ns=monotonic_ns() + 5_000_000_000).run == 4
    with pytest.raises(TypeError):
        namespace.lookup(some, deadline=3)  # type: ignore[call-arg]


def test_twoClients_shareBlocks(connect: Connect, client: Client) -> None:
    mine = client.namespace("shared", block_bytes=4096, dtype="bfloat16")
    some = keys("shared", 10)
    assert mine.put(some, blocks(some, 4096)) == [Status.OK] * 10
    with connect() as other:
        with pytest.raises(NamespaceMismatch):
            other.namespace("shared", block_bytes=4096, dtype="float8")
        with pytest.raises(NamespaceMismatch):
            other.namespace("shared", block_bytes=8192, dtype="bfloat16")
        theirs = other.namespace("shared", block_bytes=4096, dtype="bfloat16")
        into = bytearray(10 * 4096)
        assert theirs.get(some, into).run == 10 and into == blocks(some, 4096)
    assert mine.lookup(some).run == 10


def test_namespaces_keepTheirBlocksApart(client: Client) -> None:
    first = client.namespace("apart-1", block_bytes=512)
    second = client.namespace("apart-2", block_bytes=512)
    some = keys("apart", 2)
    first.put(some, blocks(some, 512))
    assert second.lookup(some).run == 0


def test_reserve_writtenInPlace_visibleAfterCommit(client: Client) -> None:
    namespace = client.namespace("in-place", block_bytes=4096)
    some = keys("in-place", 3)
    with namespace.reserve(some) as slots:
        assert slots.statuses == [Status.OK] * 3
        for one, view in zip(some, slots.views, strict=True):
            assert view is not None and not view.readonly
            view[:] = block(one, 4096)
        assert namespace.lookup(some).run == 0
        kept = slots.views[0]
        assert slots.commit([0, 1]) == [Status.OK] * 3
        assert slots.views[:2] == [None, None] and slots.views[2] is not None
        with pytest.raises(ValueError):
            kept[0] = 1  # type: ignore[index]
    assert namespace.lookup(some).statuses == [Status.OK, Status.OK, Status.MISS]
    into = bytearray(3 * 4096)
    assert wrong_blocks(some, namespace.get(some, into).statuses, into) == []
    assert eventually(lambda: client.counters()["reservations"] == 0)


def test_badBuffers_raiseAndHoldNothing(client: Client) -> None:
    namespace = client.namespace("bad-buffers", block_bytes=4096)
    some = keys("bad-buffers", 2)
    with pytest.raises(InvalidArgument):
        namespace.put(some, bytes(4096))
    with pytest.raises(InvalidArgument):
        namespace.put(some, [bytes(4096), bytes(4095)])
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 2
    with pytest.raises(InvalidArgument):
        namespace.get(some, bytearray(4096))
    with pytest.raises(InvalidArgument):
        namespace.get(some, [bytearray(4096)])
    with pytest.raises(InvalidArgument, match="the buffer of all blocks is read-only"):
        namespace.get(some, bytes(8192))
    with pytest.raises(InvalidArgument):
        namespace.get([b"a", b"ab"], bytearray(8192))
    assert eventually(lambda: client.counters()["leases"] == 0 and client.counters()["reservations"] == 0)
    assert namespace.get(some, bytearray(8192)).run == 2


def test_pinUnpinPrefetchDelete_statuses(client: Client) -> None:
    namespace = client.namespace("verbs", block_bytes=4096)
    some = keys("verbs", 2)
    namespace.put(some[:1], blocks(some[:1], 4096))
    assert namespace.pin(some) == [Status.OK, Status.MISS]
    assert namespace.unpin(some) == [Status.OK, Status.MISS]
    assert namespace.prefetch(some) == [Status.OK, Status.MISS]
    # Neither the unpin nor the prefetch left a pin.
    assert namespace.unpin(some) == [Status.MISS, Status.MISS]
    assert namespace.delete(some) == [Status.OK, Status.MISS]
    assert namespace.lookup(some).run == 0


def test_put_importance_isTakenOrRefused(client: Client) -> None:
    namespace = client.namespace("important", block_bytes=4096)
    some = keys("important", 8)
    for importance in range(4):
        pair = some[2 * importance : 2 * importance + 2]
        assert namespace.put(pair[:1], blocks(pair[:1], 4096), importance=importance) == [Status.OK]
        with namespace.reserve(pair[1:], importance=importance) as slots:
            assert slots.statuses == [Status.OK]
            view = slots.views[0]
            assert view is not None
            view[:] = block(pair[1], 4096)
            assert slots.commit() == [Status.OK]
    assert namespace.lookup(some).run == 8
    for wrong in (-1, 4):
        with pytest.raises(InvalidArgument, match="expected 0 to 3"):
            namespace.put(some[:1], blocks(some[:1], 4096), importance=wrong)
    with pytest.raises(TypeError):
        namespace.put(some[:1], blocks(some[:1], 4096), importance="high")  # type: ignore[arg-type]


def test_retain_statusesAndWhyNot(client: Client) -> None:
    namespace = client.namespace("retained", block_bytes=4096)
    some = keys("retained", 3)
    namespace.put(some[:2], blocks(some[:2], 4096))
    assert namespace.retain(some, 300) == ([Status.OK, Status.OK, Status.MISS], "")
    assert eventually(lambda: client.counters()["retained_blocks"] == 2)
    assert client.stats()["retained"]["bytes"] == 2 * 4096
    assert namespace.retain(some, 0).statuses == [Status.OK, Status.OK, Status.MISS]
    assert eventually(lambda: client.counters()["retained_blocks"] == 0)
    refused = namespace.retain(some, 1e6)
    assert refused.statuses == [Status.INVALID_ARGUMENT] * 3
    assert "limits.retention_max" in refused.reason
    assert namespace.retain([], 1) == ([], "")
    for lifetime_s in (-1, 1e9, float("nan")):
        with pytest.raises(InvalidArgument, match="expected seconds"):
            namespace.retain(some, lifetime_s)
    with pytest.raises(TypeError):
        namespace.retain(some, "1h")  # type: ignore[arg-type]


def test_retain_moreThanTheQuota_saysTheNumbers(client: Client) -> None:
    namespace = client.namespace("over", block_bytes=1 << 20)
    capacity = client.stats()["retained"]["bytes_max"]
    some = keys("over", (capacity >> 20) + 1)
    assert set(namespace.put(some, blocks(some, 1 << 20), timeout=60)) == {Status.OK}
    refused = namespace.retain(some, 300)
    assert refused.statuses == [Status.OVER_QUOTA] * len(some)
    assert f"takes {len(some)} MiB, and 0 B of the quota of {len(some) - 1} MiB are in use" in refused.reason
    assert client.counters()["retained_blocks"] == 0


def test_clear_removesAll(client: Client) -> None:
    namespace = client.namespace("clear", block_bytes=4096)
    some = keys("clear", 5)
    namespace.put(some, blocks(some, 4096))
    assert namespace.clear() == (Status.OK, 5)
    assert namespace.lookup(some).statuses == [Status.MISS] * 5


def test_statsAndCounters_tell(client: Client) -> None:
    before = client.counters()
    assert tuple(before) == protocol.COUNTERS
    namespace = client.namespace("stats", block_bytes=4096)
    some = keys("stats", 5)
    namespace.put(some, blocks(some, 4096))
    assert eventually(lambda: client.counters()["put_blocks"] >= before["put_blocks"] + 5)
    stats = client.stats()
    assert stats["version"] == client.ping().version
    assert stats["counters"]["put_blocks"] >= before["put_blocks"] + 5


def test_emptyBatch_nothing(client: Client) -> None:
    namespace = client.namespace("empty", block_bytes=4096)
    assert namespace.put([], b"") == []
    assert namespace.get([], []) == (0, [])
    assert namespace.lookup([]).statuses == []
    assert len(namespace.acquire([])) == 0


def test_manyThreads_oneClient(client: Client) -> None:
    namespace = client.namespace("threads", block_bytes=4096)
    some = keys("threads", 400)
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 400
    failures: list[object] = []

    def work(number: int) -> None:
        into = bytearray(4 * 4096)
        for step in range(200):
            first = (number * 53 + step * 4) % 396
            wanted = some[first : first + 4]
            answer = namespace.get(wanted, into)
            if answer.run != 4 or wrong_blocks(wanted, answer.statuses, into):
                failures.append((number, step, answer))
            fresh = keys(f"threads-{number}", 1, step)
            if namespace.put(fresh, blocks(fresh, 4096)) != [Status.OK] or namespace.lookup(fresh).run != 1:
                failures.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_acquire_views_areReadOnly_andGoWithTheRelease(client: Client) -> None:
    namespace = client.namespace("views-of-all", block_bytes=4096)
    some = keys("views-of-all", 3)
    assert namespace.put(some[:2], blocks(some[:2], 4096)) == [Status.OK] * 2
    with namespace.acquire(some) as leases:
        assert leases.run == 2 and leases.expires_ns > monotonic_ns()
        assert leases.statuses == [Status.OK, Status.OK, Status.MISS]
        assert [None if view is None else bytes(view) for view in leases.views] == [
            block(some[0], 4096), block(some[1], 4096), None
        ]  # fmt: skip
        assert all(view is None or view.readonly for view in leases.views)
        assert leases.check() == [Status.OK, Status.OK, Status.MISS]
        assert leases.read(0) == block(some[0], 4096)
    assert leases.check() == [Status.STALE, Status.STALE, Status.MISS]


def test_reserve_notCommitted_isAborted(client: Client) -> None:
    namespace = client.namespace("aborted", block_bytes=4096)
    some = keys("aborted", 3)
    with namespace.reserve(some) as slots:
        for one, view in zip(some, slots.views, strict=True):
            assert view is not None
            view[:] = block(one, 4096)
        assert slots.commit([1])[1] is Status.OK
    assert slots.statuses == [Status.CANCELLED, Status.OK, Status.CANCELLED]
    assert namespace.lookup(some).statuses == [Status.MISS, Status.OK, Status.MISS]
    with namespace.reserve(some) as again:
        assert again.statuses == [Status.OK, Status.EXISTS, Status.OK]


def test_reserve_arrayOverASlot_doesNotHinderTheCommit(client: Client) -> None:
    namespace = client.namespace("array", block_bytes=4096)
    one = keys("array", 1)[0]
    with namespace.reserve([one]) as slots:
        view = slots.views[0]
        assert view is not None
        array = numpy.frombuffer(view, dtype=numpy.uint8)
        array[:] = numpy.frombuffer(block(one, 4096), dtype=numpy.uint8)
        assert slots.commit() == [Status.OK]
    into = bytearray(4096)
    assert namespace.get([one], into).run == 1 and into == block(one, 4096)


def test_evictedToSsd_andBack(client: Client) -> None:
    namespace = client.namespace("evict", block_bytes=1 << 18)
    some = keys("evict", 400)  # 100 MiB, and the host tier has 64
    for first in range(0, 400, 40):
        put_all(namespace, some[first : first + 40])
    assert namespace.flush(timeout=30).status is Status.OK
    found = namespace.lookup(some)
    assert found.run == 400 and Tier.SSD in found.tiers and Tier.HOST in found.tiers
    into = bytearray(20 << 18)
    for first in range(0, 400, 20):
        wanted = some[first : first + 20]
        answer = namespace.get(wanted, into, verify=True)
        assert answer.statuses == [Status.OK] * 20, first
        assert wrong_blocks(wanted, answer.statuses, into) == []
    counters = client.counters()
    assert counters["hits_ssd"] > 0 and counters["evictions"] > 0 and counters["corrupt"] == 0
    assert eventually(lambda: slots_balance(client.counters()))


def test_daemonHangs_theTimeoutHolds(served: Daemon, client: Client) -> None:
    namespace = client.namespace("hangs", block_bytes=512)
    some = keys("hangs", 2)
    served.pause()
    started = time.monotonic()
    try:
        assert namespace.lookup(some, timeout=0.2).statuses == [Status.DEADLINE] * 2
        assert namespace.get(some, bytearray(1024), timeout=0.2).statuses == [Status.DEADLINE] * 2
        over = monotonic_ns()
        assert namespace.put(some, blocks(some, 512), deadline_ns=over) == [Status.DEADLINE] * 2
        assert time.monotonic() - started < HANG_S
    finally:
        served.signal(signal.SIGCONT)
    assert client.ping().status is Status.OK


def test_closedClient_answersUnavailable(connect: Connect) -> None:
    closed = connect()
    namespace = closed.namespace("closed", block_bytes=512)
    closed.close()
    some = keys("closed", 2)
    assert namespace.put(some, blocks(some, 512)) == [Status.UNAVAILABLE] * 2
    assert namespace.get(some, bytearray(1024)).statuses == [Status.UNAVAILABLE] * 2
    assert namespace.lookup(some).statuses == [Status.UNAVAILABLE] * 2
    assert namespace.flush().status is Status.UNAVAILABLE
    assert closed.stats() == {} and closed.counters() == {}
    assert closed.ping().status is Status.UNAVAILABLE and not closed.connected and "closed" in closed.reason
