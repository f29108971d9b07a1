"""The blocking client with a real daemon."""

import os
import time

import numpy
import pytest
from kvtier_testing.blocks import block, blocks, keys, put_all, wrong_blocks
from kvtier_testing.daemon import Daemon, eventually

from kvtier import Client, InvalidArgument, Namespace, Status, _core
from kvtier._core import monotonic_ns


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
