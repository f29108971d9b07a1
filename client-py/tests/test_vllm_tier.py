"""kvtier as a secondary tier of vLLM's own offloading, by the package's own classes."""

import time
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from blocks import keys as block_keys
from conftest import Daemon

base = pytest.importorskip("vllm.v1.kv_offload.tiering.base", reason="vLLM is not installed")
factory = pytest.importorskip("vllm.v1.kv_offload.tiering.factory", reason="vLLM is not installed")
offload = pytest.importorskip("vllm.v1.kv_offload.base", reason="vLLM is not installed")

CHUNKS = 16
CHUNK_BYTES = 8192


def _spec(**changed: Any) -> Any:
    parallel = SimpleNamespace(tp_size=1, pp_size=1, pcp_size=1, dcp_size=1)
    fields: dict[str, Any] = {
        "model": SimpleNamespace(name="tiny", dtype="bfloat16"), "parallel": parallel, "kv_cache_layout": None, "canonical_layout": False,
        "cache": SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=1),
        "groups": [SimpleNamespace(tokens_per_block=16, layer_names=("0", "1"))],
    }  # fmt: skip
    return SimpleNamespace(config=SimpleNamespace(**(fields | changed)))


def _tier(daemon: Daemon, chunks: Any, name: str, spec: Any = None) -> Any:
    config = {"type": "KvtierTier", "module_path": "kvtier.vllm.tier", "socket": str(daemon.socket_path), "namespace": name}
    return factory.SecondaryTierFactory.create_secondary_tier(config, memoryview(chunks), spec or _spec())


def _job(number: int, names: list[bytes], chunks: list[int], is_promotion: bool) -> Any:
    return base.TransferJob(
        job_id=number, keys=names, chunk_ids=numpy.array(chunks), is_promotion=is_promotion, req_context=offload.ReqContext("r")
    )


def _finished(tier: Any) -> Any:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for result in tier.get_finished_jobs():
            return result
        time.sleep(0.002)
    raise AssertionError("the job does not end")


def _found(tier: Any, names: list[bytes]) -> list[Any]:
    deadline = time.monotonic() + 20
    found: dict[bytes, Any] = {}
    while len(found) < len(names) and time.monotonic() < deadline:
        for name in names:
            if name not in found and (result := tier.lookup(name, None)) is not offload.LookupResult.RETRY:
                found[name] = result
        tier.on_schedule_end(None)
        time.sleep(0.002)
    return [found[name] for name in names]


def _names(name: str, count: int, group: int = 0) -> list[bytes]:
    return [offload.make_offload_key(key, group) for key in block_keys(name, count)]


def test_stored_isFoundAndLoadedByAnotherEngine(daemon: Daemon) -> None:
    chunks = numpy.random.default_rng(1).integers(0, 256, (CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    names = _names("stored", 4) + _names("stored", 2, group=1)
    first = _tier(daemon, chunks, "tier-stored")
    first.submit_store(_job(1, names, [3, 1, 0, 7, 8, 9], False))
    assert _finished(first).success
    first.shutdown()
    other = numpy.zeros((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    second = _tier(daemon, other, "tier-stored")
    miss = _names("another", 1)
    hit = offload.LookupResult.HIT
    assert _found(second, names + miss) == [hit] * 6 + [offload.LookupResult.MISS]
    second.submit_load(_job(2, names, [5, 6, 0, 1, 2, 3], True))
    assert _finished(second).success
    assert numpy.array_equal(other[[5, 6, 0, 1, 2, 3]], chunks[[3, 1, 0, 7, 8, 9]])
    assert not other[7:].any()
    second.shutdown()


def test_partlyThere_saysWhichKeys(daemon: Daemon) -> None:
    chunks = numpy.ones((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    names = _names("partly", 3)
    tier = _tier(daemon, chunks, "tier-partly")
    tier.submit_store(_job(1, names[:2], [0, 1], False))
    assert _finished(tier).success
    tier.submit_load(_job(2, names, [2, 3, 4], True))
    result = _finished(tier)
    assert not result.success and list(result.successful_keys) == names[:2]
    tier.shutdown()


def test_daemonGone_missesAndFailsAndGoesOn(fresh_daemon: Daemon) -> None:
    chunks = numpy.ones((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    names = _names("gone", 2)
    tier = _tier(fresh_daemon, chunks, "tier-gone")
    fresh_daemon.kill()
    assert _found(tier, names) == [offload.LookupResult.MISS] * 2
    tier.submit_load(_job(1, names, [0, 1], True))
    assert not _finished(tier).success
    tier.shutdown()


def test_otherConfiguration_isRefused(daemon: Daemon) -> None:
    chunks = numpy.ones((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    _tier(daemon, chunks, "tier-other").shutdown()
    with pytest.raises(RuntimeError, match="refuses to mix.*dtype"):
        _tier(daemon, chunks, "tier-other", _spec(model=SimpleNamespace(name="tiny", dtype="float32")))
