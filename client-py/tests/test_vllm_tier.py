"""kvtier as a secondary tier of vLLM's own offloading, by the package's own classes where it is installed."""

import itertools
import logging
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import weights
from kvtier_testing.blocks import keys as block_keys
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import config
from vllm_offload_double import base, factory, offload

from kvtier import Client

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


def _tier(daemon: Daemon, chunks: Any, name: str, spec: Any = None, **more: str) -> Any:
    described = {
        "type": "KvtierTier", "module_path": "kvtier.vllm.tier", "socket": str(daemon.socket_path), "namespace": name, "weights": "tiny's",
    }  # fmt: skip
    return factory.SecondaryTierFactory.create_secondary_tier(described | more, memoryview(chunks), spec or _spec())


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


def test_loads_areReportedWithTheirTokens_andWithoutATimeOfPrefill(daemon: Daemon) -> None:
    names = _names("reported", 4) + _names("reported", 2, group=1)
    tier = _tier(daemon, numpy.ones((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8), "tier-reported")
    tier.submit_store(_job(1, names, [0, 1, 2, 3, 4, 5], False))
    assert _finished(tier).success
    with Client(daemon.socket_path, timeout=30) as client:
        before = client.counters()
        tier.submit_load(_job(2, names, [6, 7, 8, 9, 10, 11], True))
        assert _finished(tier).success

        def saved_tokens() -> int:
            tier.on_schedule_end(None)
            return client.counters()["saved_tokens"] - before["saved_tokens"]

        assert eventually(lambda: saved_tokens() == 4 * 16)
        after = client.counters()
    assert after["saved_prefill_ns"] == before["saved_prefill_ns"]
    assert after["spent_load_ns"] > before["spent_load_ns"]
    tier.shutdown()


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
    first = _tier(daemon, chunks, "tier-other")
    with pytest.raises(RuntimeError, match="does not mix.*dtype"):
        _tier(daemon, chunks, "tier-other", _spec(model=SimpleNamespace(name="tiny", dtype="float32")))
    first.shutdown()


# ---- which weights, and what else decides about bytes ----

_numbers = itertools.count(100)


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")


class Engine:
    """vLLM's side: a CPU tier, and this tier behind it."""

    def __init__(self, daemon: Daemon, vllm_config: Any, **more: str) -> None:
        # As vLLM's connector has it when it makes its tiers: that is where this one finds it.
        self.chunks = numpy.random.default_rng(next(_numbers)).integers(0, 256, (CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
        self.tier = _tier(daemon, self.chunks, "", **({"weights": ""} | more))
        assert vllm_config is not None

    def store(self, names: list[bytes]) -> bool:
        self.tier.submit_store(_job(next(_numbers), names, list(range(len(names))), False))
        return bool(_finished(self.tier).success)

    def finds(self, names: list[bytes]) -> int:
        return sum(one is offload.LookupResult.HIT for one in _found(self.tier, names))

    def name(self) -> str:
        return str(self.tier._described.name)


def test_twoFineTunesUnderOnePath_shareNothing(daemon: Daemon, tmp_path: Path) -> None:
    mounted, names = tmp_path / "models", _names(str(tmp_path), 4)
    first = Engine(daemon, config({}, model_config__model=str(weights.model(mounted, 1))))
    assert first.store(names) and first.finds(names) == 4
    shutil.rmtree(mounted)
    second = Engine(daemon, config({}, model_config__model=str(weights.model(mounted, 2))))
    assert second.finds(names) == 0
    shutil.rmtree(mounted)
    third = Engine(daemon, config({}, model_config__model=str(weights.model(mounted, 1))))
    assert third.finds(names) == 4
    for one in (first, second, third):
        one.tier.shutdown()


@pytest.mark.parametrize(
    "changed",
    [
        {"model_config__quantization": "fp8"}, {"model_config__dtype": "torch.bfloat16"}, {"cache_config__cache_dtype": "fp8"},
        {"cache_config__prefix_caching_hash_algo": "sha256"},
    ],
)  # fmt: skip
def test_whatTheConnectorLooksAt_isLookedAtHere(daemon: Daemon, tmp_path: Path, changed: dict[str, Any]) -> None:
    path = str(weights.model(tmp_path / "models", 1))
    first = Engine(daemon, config({}, model_config__model=path), namespace=str(tmp_path))
    with pytest.raises(RuntimeError, match="does not mix"):
        Engine(daemon, config({}, model_config__model=path, **changed), namespace=str(tmp_path))
    first.tier.shutdown()


def test_namedWeights_meet_andOthersDont(daemon: Daemon) -> None:
    names = {Engine(daemon, config({}), weights=one).name() for one in ("a", "a", "b")}
    assert len(names) == 2


@pytest.mark.parametrize("known", [True, False])
def test_weightsOfWhichNothingIsKnown_areThisEnginesOwn(daemon: Daemon, known: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        if known:
            names = {Engine(daemon, config({})).name() for _ in range(2)}
        else:
            chunks = numpy.zeros((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
            names = {str(_tier(daemon, chunks, "", weights="")._described.name) for _ in range(2)}
    assert len(names) == 2
    assert "cannot be identified" in caplog.text


def test_adapters_cantBeToldApart_theEngineIsAlone(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        names = {Engine(daemon, config({"x": 1}, model_config__model="tiny"), weights="w").name()}
        for _ in range(2):
            made = config({})
            made.lora_config = SimpleNamespace(max_loras=1)
            names.add(Engine(daemon, made, weights="w").name())
    assert len(names) == 3
    assert "which LoRA adapter a block belongs to" in caplog.text


def test_reset_whatWasStoredBefore_isNotFoundByThisEngine_andByOthersItIs(daemon: Daemon) -> None:
    names = _names("reset", 4)
    first, other = (Engine(daemon, config({}), weights="reset") for _ in range(2))
    assert first.store(names)
    first.tier.lookup(names[0], None)
    first.tier.drain_jobs()
    assert first.finds(names) == 0
    assert other.finds(names) == 4
    assert first.store(names) and first.finds(names) == 4
    # Blocks stored since the reset belong to weights that nobody else may have.
    other.tier.submit_load(_job(next(_numbers), names, [8, 9, 10, 11], True))
    assert _finished(other.tier).success
    assert numpy.array_equal(other.chunks[8:12], first.chunks[:4])
    for one in (first, other):
        one.tier.shutdown()


@pytest.mark.parametrize("locality", ["LOCAL", "REMOTE"])
def test_locality_isThatOfTheTier(daemon: Daemon, locality: str) -> None:
    chunks = numpy.zeros((CHUNKS, CHUNK_BYTES), dtype=numpy.uint8)
    tier = _tier(daemon, chunks, f"locality-{locality}", locality=locality)
    assert tier.locality is offload.Locality(locality)
    tier.shutdown()
    assert _tier(daemon, chunks, f"locality-{locality}").locality is None
