"""Retained blocks: they outlive floods for their lifetimes, and not longer; a quota bounds them."""

import time

import pytest
from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon, eventually

from kvtier import Client, Namespace, Status

BLOCK_BYTES = 262144
PREFIX = 40
LIFETIME_S = 20


def flood(namespace: Namespace, name: str, count: int) -> None:
    """Puts that many other blocks."""
    for start in range(0, count, 50):
        some = blocks.keys(f"{name}-{start}", min(50, count - start))
        namespace.put(some, bytes(len(some) * BLOCK_BYTES), timeout=60)


@pytest.mark.parametrize("ssd_bytes", ["0", "128MiB"])
def test_retainedPrefix_survivesAFloodForItsLifetimeAndNotLonger(stopped_daemon: Daemon, ssd_bytes: str) -> None:
    stopped_daemon.start(ssd__bytes=ssd_bytes)
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        tiers = client.stats()["tiers"]
        several = 3 * sum(tier["bytes_capacity"] for tier in tiers) // BLOCK_BYTES
        namespace = client.namespace("m", block_bytes=BLOCK_BYTES)
        prefix, other = blocks.keys("prefix", PREFIX), blocks.keys("other", PREFIX)
        content = blocks.blocks(prefix, BLOCK_BYTES)
        assert namespace.put(prefix, content, timeout=60) == [Status.OK] * PREFIX
        assert namespace.put(other, blocks.blocks(other, BLOCK_BYTES), timeout=60) == [Status.OK] * PREFIX
        began_s = time.monotonic()
        assert namespace.retain(prefix, LIFETIME_S).statuses == [Status.OK] * PREFIX

        flood(namespace, "during", several)
        into = bytearray(PREFIX * BLOCK_BYTES)
        got = namespace.get(prefix, into, timeout=60)
        took_s = time.monotonic() - began_s
        if took_s > LIFETIME_S:
            pytest.skip(f"the flood took {took_s:.0f} s on this machine, longer than the lifetime of {LIFETIME_S} s")
        assert got.run == PREFIX and into == content
        assert namespace.lookup(other).run == 0, "what is not retained goes"

        assert eventually(lambda: client.counters()["retentions_expired"] == PREFIX)
        assert time.monotonic() - began_s >= LIFETIME_S
        assert client.counters()["retained_bytes"] == 0
        flood(namespace, "after", several)
        assert namespace.lookup(prefix).run == 0


def test_flood_blocksOfLowImportanceGoFirstAndImportantOnesStayLonger(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(ssd__bytes="0")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        capacity = client.stats()["tiers"][0]["bytes_capacity"] // BLOCK_BYTES
        namespace = client.namespace("m", block_bytes=BLOCK_BYTES)
        groups = [blocks.keys(f"importance-{importance}", capacity // 8) for importance in range(3)]
        for importance, some in enumerate(groups):
            namespace.put(some, bytes(len(some) * BLOCK_BYTES), timeout=60, importance=importance)

        def left() -> list[int]:
            return [namespace.lookup(some).statuses.count(Status.OK) for some in groups]

        assert left() == [capacity // 8] * 3
        flood(namespace, "first", capacity - 3 * (capacity // 8) + capacity // 16)
        assert left()[0] <= capacity // 16 and left()[1:] == [capacity // 8] * 2
        flood(namespace, "second", capacity // 4)
        assert left()[0] == 0 and left()[1] < left()[2]


def test_retainMoreThanTheQuota_isRefusedWithTheNumbers(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(limits__retained="0.1")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        retained = client.stats()["retained"]
        quota = retained["bytes_max"] // BLOCK_BYTES
        namespace = client.namespace("m", block_bytes=BLOCK_BYTES)
        chain = blocks.keys("long", quota + 1)
        namespace.put(chain, bytes(len(chain) * BLOCK_BYTES), timeout=60)
        assert namespace.retain(chain[:10], 60).statuses == [Status.OK] * 10
        refused = namespace.retain(chain, 60)
        assert set(refused.statuses) == {Status.OVER_QUOTA}
        assert f"{quota + 1 - 10} more blocks" in refused.reason and "2.5 MiB of the quota of" in refused.reason
        shown = client.stats()["retained"]
        assert shown == {"blocks": 10, "bytes": 10 * BLOCK_BYTES, "bytes_max": retained["bytes_max"]}
        assert client.counters()["retentions_refused"] == quota + 1 - 10
