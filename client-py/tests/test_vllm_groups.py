"""vLLM's connector with models of several groups: an engine looks at every value that a token needs."""

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import BLOCK_TOKENS, FullAttentionSpec, SlidingWindowSpec, config
from kvtier_testing.vllm_hybrid import HybridEngine, HybridRequest, MambaSpec, specs

from kvtier import Client, Status
from kvtier.engine.groups import ALL, LAST, window
from kvtier.vllm import _engine, _groups

Make = Callable[..., HybridEngine]
_numbers = itertools.count()
FULL, WINDOWED, STATES = range(3)


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines that share namespaces of this test's own."""
    made: list[HybridEngine] = []
    namespace = f"hybrid-{next(_numbers)}"

    def make(at: Daemon = daemon, **options: Any) -> HybridEngine:
        settings = {"kvtier.socket": str(at.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0}
        engine = HybridEngine(config(settings, cache_config__hash_block_size=BLOCK_TOKENS), monkeypatch, **options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def request(count: int = 59, seed: int = 1, shared: int = 0) -> HybridRequest:
    """A prompt; its first tokens are those of the prompt with seed 0."""
    chosen = [random.Random(seed).randrange(1000) for _ in range(count)]
    beginning = [random.Random(0).randrange(1000) for _ in range(shared)]
    return HybridRequest(f"request-{next(_numbers)}", beginning + chosen[shared:])


def stored(engine: HybridEngine, *requests: HybridRequest) -> None:
    engine.run(*requests)
    engine.settle()


def remove(daemon: Daemon, engine: HybridEngine, one: HybridRequest, group: int, blocks: range) -> None:
    """Has the daemon lose blocks of one group."""
    shard = engine.worker._mine[group]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        keys = one.block_hashes[blocks.start : blocks.stop]
        assert set(namespace.delete(keys)) == {Status.OK}


# ---- what is restored ----


def test_secondEngine_restoresAllGroups_andLoadsOnlyWhatTheyNeed(engines: Make) -> None:
    first = engines()
    stored(first, request())
    # Chunks of 16 tokens: states at 16, 32 and 48; the last chunk ends within a block.
    assert first.stats["stored_blocks"] == 14 + 14 + 3
    second = engines()
    again = request()
    second.run(again)
    # Up to the last state.
    assert again.external_tokens == 48
    # All 12 blocks of full attention, those of the window of 10 tokens before token 48, one state.
    assert second.stats["loaded_blocks"] == 12 + 3 + 1


def test_models_without_a_state_are_restored_to_their_last_whole_block(engines: Make) -> None:
    groups = specs()[:2]
    stored(engines(groups=groups), request())
    second = engines(groups=groups)
    again = request()
    second.run(again)
    assert again.external_tokens == 56
    assert second.stats["loaded_blocks"] == 14 + 3


def test_promptOfWholeBlocks_isNotRestoredToItsEnd_asAStateMustNotSeeTheLastTokenTwice(engines: Make) -> None:
    stored(engines(), request(48))
    again = request(48)
    engines().run(again)
    assert again.external_tokens == 32


def test_blocksBeforeTheWindowAreMissing_doesNotMatter(engines: Make, daemon: Daemon) -> None:
    first = engines()
    stored(first, request())
    remove(daemon, first, request(), WINDOWED, range(9))
    again = request()
    engines().run(again)
    assert again.external_tokens == 48


@pytest.mark.parametrize(("group", "block", "expected"), [(FULL, 9, 32), (WINDOWED, 11, 32), (WINDOWED, 7, 48), (STATES, 11, 32), (FULL, 0, 0)])
def test_blockIsMissing_theLongestLengthIsFoundThatDoesWithout(
    engines: Make, daemon: Daemon, group: int, block: int, expected: int
) -> None:
    first = engines()
    stored(first, request())
    remove(daemon, first, request(), group, range(block, block + 1))
    again = request()
    engines().run(again)
    assert again.external_tokens == expected


def test_engine_that_has_the_beginning_itself_needs_no_blocks_of_it(engines: Make, daemon: Daemon) -> None:
    first = engines()
    stored(first, request())
    remove(daemon, first, request(), FULL, range(4))
    second = engines()
    # It has 16 tokens in its own cache.
    assert eventually(lambda: second.scheduler.get_num_new_matched_tokens(request(), 16) is not None)
    again = request()
    assert eventually(lambda: second.scheduler.get_num_new_matched_tokens(again, 16) == (32, True))
    assert eventually(lambda: second.scheduler.get_num_new_matched_tokens(request(), 0) == (0, False))


def test_restoredTokens_countAsSaved(engines: Make, daemon: Daemon) -> None:
    """The daemon refuses reports of more blocks than gets have found in the namespace that they name."""
    stored(engines(), request())
    with Client(daemon.socket_path) as client:
        before = client.counters()["saved_tokens"]
        second = engines()
        second.run(request())
        second.close()
        assert eventually(lambda: client.counters()["saved_tokens"] == before + 48)


def test_groupOfLayersWithSpecsOfTheirOwn_hasTheirRule() -> None:
    windows = {str(heads): SlidingWindowSpec(block_size=4, sliding_window=8, heads=heads) for heads in (1, 2)}
    uniform = SimpleNamespace(block_size=4, kv_cache_specs=windows)
    assert _groups.rule_of(uniform) == window(8)
    mixed = SimpleNamespace(block_size=4, kv_cache_specs={**windows, "full": FullAttentionSpec(block_size=4)})
    assert _groups.rule_of(mixed) is None


# ---- what goes wrong ----


def test_resetWhileARequestRuns_noneOfItsStatesIsStoredFromThenOn(engines: Make) -> None:
    """States behind the reset may be of several weights."""
    engine = engines()
    one = request()
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens == 16)
    assert engine.scheduler.reset_cache() is True
    engine.step_until(lambda: engine.is_computed(one))
    engine.finish(one)
    engine.settle()
    # Four blocks of each kind of attention and the state behind them were stored before the reset.
    assert engine.stats["stored_blocks"] == 4 + 4 + 1


def test_blockGoesBetweenLookupAndLease_nothingIsLoadedThatNeedsIt(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engines()
    stored(first, request())
    second = engines()
    scheduler = second.scheduler._scheduler
    monkeypatch.setattr(scheduler._searches, "_will_be_held", lambda *some: False)
    again = request()
    second.scheduler.on_new_request(again)
    search = scheduler._searches._by_request[again.request_id]
    assert eventually(lambda: (scheduler._polled.poll(), not search.is_waiting)[1])
    remove(daemon, first, request(), WINDOWED, range(10, 11))
    assert eventually(lambda: second.scheduler.get_num_new_matched_tokens(again, 0) == (0, False))
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


def test_blockIsLostBeforeItIsLoaded_theWholeLoadCountsForNothing(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request())
    second = engines()
    worker = second.worker._worker
    real = worker._regions[WINDOWED].get
    lost = request().block_hashes[10]

    def get(keys: list[bytes], block_ids: list[int], **more: Any) -> Any:
        return real([b"lost" * 8 if key == lost else key for key in keys], block_ids, **more)

    monkeypatch.setattr(worker._regions[WINDOWED], "get", get)
    again = request()
    second.add(again)
    second.step_until(lambda: second.failed > 0)
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    second.step_until(lambda: second.is_computed(again))
    second.finish(again)
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


def test_daemonIsKilledWhileItLoads_engineComputes(engines: Make, stopped_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_daemon.start()
    stored(engines(at=stopped_daemon), request())
    second = engines(at=stopped_daemon)
    region = second.worker._worker._regions[WINDOWED]
    real = region.get

    def get(*arguments: Any, **more: Any) -> Any:
        # The blocks of full attention are on their way.
        stopped_daemon.kill()
        return real(*arguments, **more)

    monkeypatch.setattr(region, "get", get)
    again = request()
    second.run(again)
    assert again.external_tokens == 0 and second.failed == 1


@pytest.mark.parametrize("seed", range(6))
def test_randomPrompts_inFewBlocks_withPreemption_noByteIsWrong(engines: Make, daemon: Daemon, seed: int) -> None:
    """Prompts that share beginnings, chunks of random lengths, blocks that one group leaves to another, requests that lose theirs."""
    chosen = random.Random(seed)
    preempted = 0
    one = engines(blocks=chosen.choice([70, 90]), step_tokens=4 * chosen.randrange(3, 9))
    other = engines(blocks=80, step_tokens=16)
    for _ in range(12):
        some = [request(chosen.randrange(5, 90), seed=chosen.randrange(4), shared=0) for _ in range(chosen.randrange(1, 5))]
        engine = chosen.choice([one, one, other])
        for each in some:
            engine.add(each)
        left = list(some)
        deadline = time.monotonic() + 30
        while left:
            assert time.monotonic() < deadline
            engine.step()
            if engine.running and chosen.random() < 0.1:
                engine.preempt(engine.running[-1])
                preempted += 1
            for each in [each for each in left if engine.is_computed(each)]:
                left.remove(each)
                engine.finish(each)
        if chosen.random() < 0.5:
            engine.settle()
        if chosen.random() < 0.3:
            held = engine.worker._mine[chosen.randrange(3)]
            with Client(daemon.socket_path) as client:
                namespace = client.namespace(held.name, block_bytes=held.block_bytes, **held.properties)
                namespace.delete([key for key in some[0].block_hashes if chosen.random() < 0.2])
    assert preempted and one.stats.get("loaded_blocks", 0) + other.stats.get("loaded_blocks", 0) > 50
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


# ---- which models are served ----


def cache_of(*of_groups: Any, **more: Any) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=spec, layer_names=[f"layers.{at}"]) for at, spec in enumerate(of_groups)]
    return SimpleNamespace(num_blocks=8, kv_cache_groups=groups, hash_block_size=BLOCK_TOKENS, **more)


def test_groups_that_can_be_kept_are_served() -> None:
    made = config({})
    assert _groups.unserved(made, cache_of(*specs()), True) == ""
    assert _groups.unserved(made, cache_of(MambaSpec(block_size=4, mamba_cache_mode="align")), True) == ""
    assert _groups.rule_of(FullAttentionSpec(block_size=4)) == ALL
    assert _groups.rule_of(MambaSpec(block_size=4)) == LAST
    assert _groups.rule_of(SlidingWindowSpec(block_size=4, sliding_window=7)).text == "window 7"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cache", "changed", "reports", "words"),
    [
        (cache_of(*specs()), {}, False, "3 groups of layers .* only with vLLM 0.32 or newer"),
        (cache_of(SlidingWindowSpec(block_size=4, sliding_window=8)), {}, False, "of kind SlidingWindowSpec, .* only with vLLM 0.32"),
        (cache_of(*specs()), {"speculative_config": SimpleNamespace()}, True, "speculative decoding is on"),
        (cache_of(*specs()), {"pipeline": 2}, True, "pipeline parallelism is on"),
        (cache_of(FullAttentionSpec(block_size=4), MambaSpec(block_size=4, mamba_cache_mode="none")), {}, True, "expected 'align'"),
        (cache_of(SimpleNamespace(block_size=4)), {}, True, "of kind SimpleNamespace; kvtier keeps"),
        (cache_of(*specs(), needs_kv_cache_zeroing=True), {"second_runner": True}, True, "VLLM_USE_V2_MODEL_RUNNER=0"),
        (cache_of(FullAttentionSpec(block_size=4, prefix_cacheable=False)), {}, True, "the engine itself does not cache"),
        (cache_of(FullAttentionSpec(block_size=4, prefix_replay_tokens=4)), {}, True, "computes the end of each prefix again"),
    ],
)  # fmt: skip
def test_groups_that_cannot_be_kept_are_named(cache: Any, changed: dict[str, Any], reports: bool, words: str) -> None:
    made = config({})
    made.speculative_config = changed.get("speculative_config")
    made.parallel_config.pipeline_parallel_size = changed.get("pipeline", 1)
    made.use_v2_model_runner = changed.get("second_runner", False)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(_groups.unserved(made, cache, reports))


def test_oneGroupOfAnotherModel_isRefusedWithTheDifference(engines: Make, daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    stored(engines(), request())
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError, match="rule is 'window 10' there, 'window 6' here|rule"):
        engines(groups=[specs()[0], SlidingWindowSpec(block_size=BLOCK_TOKENS, sliding_window=6), specs()[2]])


def test_blocks_of_which_hashes_are_no_whole_part_are_not_served() -> None:
    made = config({}, cache_config__hash_block_size=3)
    cache = cache_of(*specs())
    cache.hash_block_size = 3
    assert "hashes pieces of 3 tokens, and has blocks of 4" in _engine.unserved(made, cache)
