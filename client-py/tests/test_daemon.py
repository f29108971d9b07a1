"""The blocking client with a real daemon."""

import os
import threading
import time

import numpy
import pytest
from kvtier_testing.blocks import block, blocks, keys, put_all, wrong_blocks
from kvtier_testing.daemon import Daemon, eventually, slots_balance

from kvtier import Client, InvalidArgument, Namespace, NamespaceMismatch, Priority, Status, Tier, _core
from kvtier import _protocol as protocol
from kvtier._core import monotonic_ns


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


def test_twoClients_shareBlocks(daemon: Daemon, client: Client) -> None:
    mine = client.namespace("shared", block_bytes=4096, dtype="bfloat16")
    some = keys("shared", 10)
    assert mine.put(some, blocks(some, 4096)) == [Status.OK] * 10
    with Client(daemon.socket_path, timeout=60) as other:
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


def test_close_whileBlocksAreCopied_theyDoNotCount(
    daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = keys("copied", 8)
    namespace = client.namespace("copied", block_bytes=4096)
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 8
    closed = Client(daemon.socket_path, timeout=60)
    reader = closed.namespace("copied", block_bytes=4096)
    into = bytearray(8 * 4096)
    assert reader.get(some, into).statuses == [Status.OK] * 8
    gather = _core.gather

    def close_and_gather(*arguments: object) -> object:
        closed.close()
        return gather(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_core, "gather", close_and_gather)
    assert reader.get(some, into).statuses == [Status.STALE] * 8


def test_close_whileSlotsAreWritten_theyAreNobodyElses(daemon: Daemon, client: Client) -> None:
    closed = Client(daemon.socket_path, timeout=60)
    slots = closed.namespace("late", block_bytes=4096).reserve(keys("late", 64))
    assert slots.statuses == [Status.OK] * 64
    closed.close()
    time.sleep(0.1)
    some = keys("other", 64)
    namespace = client.namespace("late", block_bytes=4096)
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 64
    for view in slots.views:
        assert view is not None
        view[:] = bytes(4096)
    assert slots.commit() == [Status.UNAVAILABLE] * 64
    into = bytearray(64 * 4096)
    assert namespace.get(some, into).statuses == [Status.OK] * 64
    assert wrong_blocks(some, [Status.OK] * 64, into) == []
    assert eventually(lambda: client.counters()["reservations"] == 0)


def test_acquire_views_readOnlyAndReleased(client: Client) -> None:
    namespace = client.namespace("views", block_bytes=4096)
    some = keys("views", 3)
    namespace.put(some, blocks(some, 4096))
    with namespace.acquire(some) as leases:
        assert leases.expires_ns > monotonic_ns()
        assert all(view is not None and view.readonly for view in leases.views)
        assert [bytes(view) for view in leases.views if view is not None] == [block(one, 4096) for one in some]
        arrays = leases.numpy(numpy.uint16, (2, 16, 64))
        assert arrays[0] is not None and arrays[0].shape == (2, 16, 64) and not arrays[0].flags.writeable
        with pytest.raises(InvalidArgument):
            leases.numpy(numpy.uint16, (3, 5))
        assert leases.check() == [Status.OK] * 3
        assert eventually(lambda: client.counters()["leases"] == 3)
        del arrays
    assert eventually(lambda: client.counters()["leases"] == 0)
    assert leases.check() == [Status.STALE] * 3


def test_acquire_leaseEnds_stale(client: Client) -> None:
    namespace = client.namespace("ends", block_bytes=4096)
    some = keys("ends", 2)
    namespace.put(some, blocks(some, 4096))
    leases = namespace.acquire(some, lease_s=0.05)
    assert leases.check() == [Status.OK] * 2
    time.sleep(max(0, leases.expires_ns - monotonic_ns()) / 1e9)
    assert leases.check() == [Status.STALE] * 2
    assert eventually(lambda: client.counters()["leases"] == 0)


def test_acquire_forgotten_isReleased(client: Client) -> None:
    namespace = client.namespace("forgotten", block_bytes=4096)
    some = keys("forgotten", 2)
    namespace.put(some, blocks(some, 4096))
    leases = namespace.acquire(some)
    assert eventually(lambda: client.counters()["leases"] == 2)
    del leases
    assert eventually(lambda: client.counters()["leases"] == 0)


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
    assert namespace.delete(some) == [Status.OK, Status.MISS]
    assert namespace.lookup(some).run == 0


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
    assert isinstance(client.stats(), dict) and client.stats()


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


def test_evictionToSsd_andBack(fresh_daemon: Daemon) -> None:
    with Client(fresh_daemon.socket_path, timeout=60) as client:
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


def test_fork_childHasItsOwnSession(client: Client) -> None:
    namespace = client.namespace("fork", block_bytes=4096)
    some = keys("fork", 4)
    assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 4
    leases = namespace.acquire(some)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            into = bytearray(4 * 4096)
            answer = namespace.get(some, into)
            leases.release()  # the parent's: this must not reach the daemon
            status = 0 if answer.run == 4 and into == blocks(some, 4096) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert leases.check() == [Status.OK] * 4
    time.sleep(0.3)  # gauges follow with a delay
    assert client.counters()["leases"] >= 4
    assert namespace.get(some, bytearray(4 * 4096)).run == 4
    leases.release()


def test_idleBlocksOfOtherSizes_doNotKeepRegionsFromThoseThatAreUsed(stopped_daemon: Daemon) -> None:
    """A slab and a file belong to one size: a few blocks that nobody asks for must not keep one from a size that fills the tiers."""
    stopped_daemon.start(host__bytes="64MiB", host__slab_bytes="16MiB", ssd__bytes="256MiB", ssd__file_bytes="64MiB")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        for name, size, count in (("small", 4096, 2), ("large", 1 << 20, 1), ("odd", 200 << 10, 1)):
            idle = client.namespace(name, block_bytes=size)
            assert idle.put(keys(name, count), bytes(count * size)) == [Status.OK] * count
            assert idle.flush().status is Status.OK
        used = client.namespace("used", block_bytes=65536)
        many = keys("used", 3000)  # 188 MiB, of 320 that the tiers have
        for start in range(0, len(many), 100):
            batch = many[start : start + 100]
            assert used.put(batch, blocks(batch, 65536)) == [Status.OK] * len(batch)
        assert used.flush().status is Status.OK
        found = used.lookup(many)
        assert found.statuses.count(Status.OK) >= 2900, client.stats()["tiers"]


# ---- more than memory has room for ----

_LARGE = 1 << 20
_LITTLE_MEMORY = {"host__bytes": "8MiB", "host__slab_bytes": "4MiB", "ssd__bytes": "128MiB"}


def _evict(daemon: Daemon) -> None:
    assert daemon.command("evict", "--all", "--yes").returncode == 0


def _on_ssd(daemon: Daemon, client: Client, count: int) -> tuple[Namespace, list[bytes]]:
    """Blocks that are on SSD only."""
    namespace = client.namespace("large", block_bytes=_LARGE)
    some = keys("large", count)
    put_all(namespace, some)
    assert namespace.flush(timeout=60).status is Status.OK
    _evict(daemon)
    return namespace, some


def test_get_memoryIsSmallerThanAWindow_bringsAll(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(**_LITTLE_MEMORY)
    with Client(stopped_daemon.socket_path, timeout=600) as client:
        namespace, some = _on_ssd(stopped_daemon, client, 20)
        into = [bytearray(_LARGE) for _ in some]
        got = namespace.get(some, into)
        assert got.run == 20
        assert all(buffer == block(one, _LARGE) for one, buffer in zip(some, into, strict=True))


def test_acquire_moreThanMemory_isAnsweredWithWhatFits(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(**_LITTLE_MEMORY)
    # Its deadline is no end that this test would wait for.
    with Client(stopped_daemon.socket_path, timeout=50) as client, Client(stopped_daemon.socket_path, timeout=50) as other:
        namespace, some = _on_ssd(stopped_daemon, client, 20)
        with namespace.acquire(some) as held:
            assert held.run == 8
            assert held.statuses[8:] == [Status.BUSY] * 12
            with other.namespace("large", block_bytes=_LARGE).acquire(some[10:]) as nothing:
                assert nothing.statuses == [Status.BUSY] * 10
        with namespace.acquire(some[10:18]) as rest:
            assert rest.run == 8
