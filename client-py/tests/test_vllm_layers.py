"""vLLM's connector and loads that come by layer: the engine computes a layer while blocks of the later ones come, and never reads a byte
before it is there.

The double's attention looks at every byte of a layer when it computes this layer.
"""

import itertools
import logging
import random
import sys
import types
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import LAYERS, Blocks, Engine, Request, _connector, config

from kvtier import Client, InvalidArgument, KvtierError, Leases, Status
from kvtier.engine import transfers
from kvtier.vllm import _engine, _layers, _scheduler
from kvtier.vllm._layers import Layers
from kvtier.vllm._settings import Settings

Make = Callable[..., Engine]
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _as_slow_as_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(transfers, "_HOLD_ALL_S_MIN", 5.0)
    monkeypatch.setattr(_connector, "_HOLD_TIMEOUT_S", 5.0)


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines whose loads come by layer, and that share a namespace of this test's own."""
    made: list[Engine] = []
    namespace = f"layers-{next(_numbers)}"

    def make(extra: dict[str, Any] | None = None, at: Daemon = daemon, is_seen: bool = True, **options: Any) -> Engine:
        settings = {
            "kvtier.socket": str(at.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0, "kvtier.load_by_layer": "on",
        }  # fmt: skip
        engine = Engine(config(settings | (extra or {})), monkeypatch, **options)
        made.append(engine)
        if is_seen:
            engine.run(request(5, seed=next(_numbers) + 1000))
            engine.asked.clear()
        return engine

    yield make
    for engine in made:
        engine.close()


def request(count: int = 43, seed: int = 1) -> Request:
    return Request(f"request-{next(_numbers)}", [random.Random(seed).randrange(1000) + i for i in range(count)])


def stored(engine: Engine, one: Request) -> None:
    engine.run(one)
    engine.settle()


class LazyRegion:
    """A region of which each layer comes when it is waited for, and not before; none from `lost_from` on."""

    def __init__(self, engine: Engine, rank: int = 0, lost_from: int = LAYERS) -> None:
        side = engine.workers[rank].connector._worker
        self._region = side._regions[0]
        side._regions[0] = self
        self.lost_from = lost_from
        self.on_lost: Callable[[], None] = lambda: None
        self.by_layer: list[bool] = []
        self.copies: list[LazyCopying] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def get(self, keys: list[bytes], block_ids: list[int], *, by_layer: bool, **more: Any) -> Any:
        self.by_layer.append(by_layer)
        if not by_layer:
            return self._region.get(keys, block_ids, by_layer=False, **more)
        self.copies.append(LazyCopying(self, lambda layer: self._region.get(keys, block_ids, layers=range(layer, layer + 1)), len(keys)))
        return self.copies[-1]


class LazyCopying:
    counts_failed_layers = True

    def __init__(self, region: LazyRegion, copy: Callable[[int], Any], blocks: int) -> None:
        self._region = region
        self._copy = copy
        self._blocks = blocks
        self.layers = 0
        """those that are there"""
        self.waits: list[int] = []
        """until when the engine has waited"""
        self.is_given_up = False
        self.failure = Status.UNAVAILABLE

    @property
    def _is_lost(self) -> bool:
        return self.layers == self._region.lost_from < LAYERS

    def done(self) -> bool:
        return self.is_given_up or self.layers == LAYERS

    def last_blocks(self, least: int) -> int:
        return 0

    def wait_layers(self, layers: int, timeout: float | None = None) -> int:
        self.waits.append(layers)
        while self.layers < layers and not self._is_lost:
            assert self._copy(self.layers).wait() == [Status.OK] * self._blocks
            self.layers += 1
        if self._is_lost and self.layers < layers:
            self._region.on_lost()
        return LAYERS if self.is_given_up else self.layers

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        if timeout != 0 and blocks is None:
            self.wait_layers(LAYERS)
        if self.is_given_up:
            return [self.failure] * self._blocks
        return [Status.OK if self.layers == LAYERS else Status.PENDING] * self._blocks

    def cancel(self) -> None:
        raise AssertionError("it was cancelled")

    def give_up(self) -> None:
        self.is_given_up = True


def names(*layers: int) -> list[str]:
    return [f"layers.{layer}.attn" for layer in layers]


# ---- loads that come by layer ----


@pytest.mark.parametrize("options", [{}, {"second_runner": True}, {"drafts": True}], ids=lambda one: "-".join(one) or "plain")
def test_layers_comeWhenTheyAreRead(engines: Make, daemon: Daemon, options: dict[str, Any]) -> None:
    stored(engines(**options), request())
    engine = engines(**options)
    region = LazyRegion(engine)
    again = request()
    engine.run(again)
    assert again.external_tokens == 40
    (copies,) = region.copies
    assert copies.waits == [1, 2, LAYERS]
    assert engine.asked == names(0, 1, 2)
    assert (engine.stats["loads_by_layer"], engine.stats["loaded_blocks"], engine.stats["load_failed_blocks"]) == (1, 10, 0)
    assert engine.stats["layer_wait_us"] > 0 and "written_blocks" not in engine.stats
    engine.step()
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_regionInMemory_bringsItsLayers(engines: Make, ranks: int) -> None:
    stored(engines(ranks=ranks), request())
    engine = engines(ranks=ranks)
    again = request()
    engine.run(again)
    assert (again.external_tokens, engine.stats["loaded_blocks"], engine.recomputed) == (40, 10 * ranks, 0)


def test_promptComputedInChunks_waitsInTheFirst(engines: Make) -> None:
    stored(engines(), request(24))
    engine = engines(step_tokens=8)
    region = LazyRegion(engine)
    longer = request(60)
    engine.run(longer)
    assert longer.external_tokens == 24
    assert region.copies[0].waits == [1, 2, LAYERS]


def generates(engine: Engine) -> Callable[[], None]:
    """Has an engine generate tokens for a request of its own; returns a step of it."""
    busy = request(5, seed=7)
    engine.add(busy)
    engine.step_until(lambda: busy in engine.running)

    def step() -> None:
        busy.tokens.append(len(busy.tokens))
        engine.step()
        assert busy.num_computed_tokens == busy.num_tokens

    return step


def test_engineThatGeneratesForOthers_waitsForTheLayersToo(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine)
    step = generates(engine)
    again = request()
    engine.add(again)
    while again.state != "received":
        step()
    assert region.copies[0].layers == 0
    step()
    assert again in engine.running and region.copies[0].waits == [1, 2, LAYERS]


def test_stepThatComputesOnlyOthers_waitsForNoLayer(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine)
    step = generates(engine)
    again = request()
    engine.add(again)
    while again.state != "received":
        step()
    engine.step_tokens = 1
    for _ in range(3):
        step()
    assert again not in engine.running and region.copies[0].waits == []
    engine.step_tokens = 1000
    step()
    assert again in engine.running and region.copies[0].waits == [1, 2, LAYERS]


def test_twoLoadsByLayer_inOneStep(engines: Make) -> None:
    first = engines()
    stored(first, request())
    stored(first, request(seed=2))
    engine = engines()
    region = LazyRegion(engine)
    both = [request(), request(seed=2)]
    engine.run(*both)
    assert [one.external_tokens for one in both] == [40, 40]
    assert [copies.layers for copies in region.copies] == [LAYERS, LAYERS]


# ---- when blocks come whole ----


def test_off_isTheDefault_andNoLayerIsAskedFor(engines: Make) -> None:
    assert Settings().load_by_layer == "off"
    stored(engines(), request())
    engine = engines({"kvtier.load_by_layer": "off"})
    region = LazyRegion(engine)
    engine.run(request())
    assert region.by_layer == [False] and engine.asked == []


def test_unknownChoice_isRefused() -> None:
    with pytest.raises(InvalidArgument, match="kvtier.load_by_layer is 'yes'; expected 'off' or 'auto' or 'on'"):
        Settings.of({"kvtier.load_by_layer": "yes"})


def test_engineThatWasNotSeenToAsk_loadsWhole(engines: Make) -> None:
    stored(engines(), request())
    engine = engines(is_seen=False)
    region = LazyRegion(engine)
    engine.run(request())
    assert region.by_layer == [False]
    assert engine.asked == names(0, 1, 2), "it is watched while it computes"
    engine.run(request(5, seed=8))
    assert engine.asked == names(0, 1, 2), "it has been seen"


def test_engineThatDoesNotAskForALayer_loadsWhole(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    stored(engines(), request())
    engine = engines(silent=[1])
    region = LazyRegion(engine)
    engine.run(request())
    assert region.by_layer == [False]
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        engine.run(*[request(5, seed=100 + seed) for seed in range(3)], request(40, seed=200))
        for seed in range(_layers._WATCHED_MAX):
            engine.run(request(5, seed=300 + seed))
    assert caplog.text.count("the engine does not ask for 1 of its 3 layers before it reads them, for example layers.1.attn") == 1
    engine.asked.clear()
    engine.run(request(5, seed=400))
    assert engine.asked == [], "it is watched no longer"


def test_stepThatIsOneCudaGraph_waitsForAllLayersFirst(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine)
    engine.graphs = "FULL"
    engine.run(request())
    assert region.by_layer == [True] and engine.asked == []
    assert region.copies[0].waits == [LAYERS]


def test_engineThatStopsAsking_isStopped(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    LazyRegion(engine)
    again = request()
    engine.add(again)
    engine.step_until(lambda: again.state == "received")
    engine.silent = {0, 1, 2}
    engine.workers[0].compute = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(KvtierError, match="did not ask for 3 layers whose blocks were still to come, for example layers.0.attn"):
        engine.step()


def test_requestEndsBeforeItsLayersCame_whoGetsItsBlocksWaits(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine)
    again = request()
    engine.add(again)
    engine.step_until(lambda: again.state == "received")
    engine.waiting.remove(again)
    engine.finish(again)
    assert region.copies[0].layers == 0
    other = request(seed=2)
    engine.add(other)
    engine.step()
    assert region.copies[0].waits == [LAYERS]
    other.tokens += [5, 6, 7]
    engine.run_existing(other)


def test_severalKindsOfKvCache_orStages_areToldAndLoadWhole(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        engine = engines(pipeline=2, is_seen=False)
    assert "load_by_layer is not used: the model has several kinds of KV cache, or the engine has pipeline parallelism" in caplog.text
    assert all(worker.connector._worker._layers is None for worker in engine.workers)


def test_layersThatAreNotToldApart_areToldAndLoadWhole(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines()
    connector = engine.workers[0].connector
    connector._numbers = [{"layers.0.attn": 0}]
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert connector._layers(connector._worker._regions, True) is None
    assert "the layers of the engine's KV cache are not told apart" in caplog.text


# ---- auto ----


def planned(engine: Engine, idle: bool, others: int = 0) -> list[str]:
    """Which loads the scheduler's side of an engine plans by layer, when a request has got its blocks."""
    scheduler = engine.scheduler._scheduler
    one = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (40, True))
    engine.scheduler.update_state_after_alloc(one, Blocks(list(range(11))), 40)
    for other in range(others):
        scheduler._under_way[f"other {other}"] = _scheduler._Load([], 0, 0.0)
    plan = scheduler.plan(
        SimpleNamespace(
            scheduled_new_reqs=[], scheduled_cached_reqs=SimpleNamespace(req_ids=[]), num_scheduled_tokens={} if idle else {"busy": 1},
            total_num_scheduled_tokens=0 if idle else 1,
        )
    )
    assert len(plan.loads) == 1
    return [load.request_id for load in plan.loads if load.request_id in plan.by_layer]


@pytest.mark.parametrize(
    ("choice", "idle", "others", "least", "is_by_layer"),
    [
        ("auto", True, 0, 1, True),
        ("auto", True, 0, 1 << 30, False),
        ("auto", True, 1, 1, False),
        ("auto", False, 0, 1, False),
        ("on", False, 1, 1 << 30, True),
        ("off", True, 0, 1, False),
    ],
)
def test_loadByLayer_whereItPays(
    engines: Make, monkeypatch: pytest.MonkeyPatch, choice: str, idle: bool, others: int, least: int, is_by_layer: bool
) -> None:
    stored(engines(), request())
    monkeypatch.setattr(_scheduler, "_BY_LAYER_BYTES_MIN", least)
    engine = engines({"kvtier.load_by_layer": choice}, is_seen=False)
    assert len(planned(engine, idle, others)) == is_by_layer


def test_auto_engineInHostMemory_loadsWhole(engines: Make) -> None:
    assert engines({"kvtier.load_by_layer": "auto"}).workers[0].connector._worker._layers is None


def test_auto_engineThatGeneratesForOthersMeanwhile_isToldWhenAllIsThere(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine)
    # As if it had been idle when the load began.
    monkeypatch.setattr(engine.workers[0].connector._worker, "_settings", Settings(load_by_layer="auto"))
    step = generates(engine)
    again = request()
    engine.add(again)
    while not region.copies:
        step()
    for _ in range(5):
        step()
    assert again.state == "receiving"
    region.copies[0].wait_layers(LAYERS)
    step()
    step()
    assert again in engine.running


# ---- what goes wrong ----


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_daemonKilledWhileLayersCome_theBlocksAreReadFromItsMemory(
    engines: Make, fresh_daemon: Daemon, caplog: pytest.LogCaptureFixture, layer: int
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    region = LazyRegion(engine, lost_from=layer)

    def kill() -> None:
        fresh_daemon.kill()
        region.copies[0].is_given_up = True

    region.on_lost = kill
    again = request()
    with caplog.at_level(logging.WARNING):
        engine.run(again)
    assert "the worker read the missing blocks from its memory: UNAVAILABLE" in caplog.text
    assert (again.external_tokens, engine.stats["written_blocks"], engine.recomputed) == (40, 10, 0)


def test_daemonKilled_ofARegionInMemory_whileLayersCome_theBlocksAreReadFromItsMemory(
    engines: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    worker = engine.workers[0].connector._worker
    getting = worker._regions[0]._getting

    def getting_once(keys: Any, group: int) -> Any:
        copy = getting(keys, group)
        calls = itertools.count()

        def killed(*arguments: Any) -> list[Status]:
            if next(calls) == 1:
                assert eventually(lambda: bool(worker._promised))
                fresh_daemon.kill()
            return copy(*arguments)

        return killed

    monkeypatch.setattr(worker._regions[0], "_getting", getting_once)
    again = request()
    engine.run(again)
    assert (again.external_tokens, engine.stats["loads_by_layer"], engine.recomputed) == (40, 1, 0)
    assert engine.stats["written_blocks"] == 10


def test_daemonHangsWhileLayersCome_theBlocksAreReadFromItsMemory_inTime(engines: Make) -> None:
    stored(engines(), request())
    engine = engines({"kvtier.load_timeout_s": 0.3})
    region = LazyRegion(engine, lost_from=1)
    engine.run(request())
    assert region.copies[0].is_given_up
    assert (engine.stats["written_blocks"], engine.recomputed) == (10, 0)


def test_daemonKilledWhileLayersCome_andItsMemoryIsDamaged_engineDoesNotCompute(
    engines: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    region = LazyRegion(engine, lost_from=1)
    region.on_lost = lambda: region.copies[0].give_up()
    again = request()
    engine.add(again)
    engine.step_until(lambda: again.state == "received")
    monkeypatch.setattr(Leases, "read", lambda leases, index: None)
    with pytest.raises(KvtierError, match="10 blocks were not loaded .UNAVAILABLE., and their bytes in the daemon's memory are damaged"):
        engine.step()


@pytest.mark.parametrize(("lost_from", "counts_failed", "is_stopped"), [(1, True, True), (0, True, False), (1, False, False)])
def test_gpuFailsWhileLayersCome_engineStopsIfItMayHaveUsedOneThatIsMissing(
    engines: Make, monkeypatch: pytest.MonkeyPatch, lost_from: int, counts_failed: bool, is_stopped: bool
) -> None:
    monkeypatch.setattr(LazyCopying, "counts_failed_layers", counts_failed)
    stored(engines(), request())
    engine = engines()
    region = LazyRegion(engine, lost_from=lost_from)

    def fail() -> None:
        region.copies[0].failure = Status.IO_ERROR
        region.copies[0].give_up()

    region.on_lost = fail
    if is_stopped:
        with pytest.raises(KvtierError, match="blocks were not loaded .IO_ERROR., and the engine may have computed layers without them"):
            engine.run(request())
    else:
        engine.run(request())
        assert engine.stats["written_blocks"] == 10


def test_blockGoneBeforeItIsHeld_loadIsNotPromised_andItIsComputed(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engines()
    one = request()
    stored(first, one)
    engine = engines()
    shard = first.workers[0].connector._mine[0]
    worker = engine.workers[0].connector._worker
    get = worker._regions[0].get
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)

        def late(*arguments: Any, **more: Any) -> Any:
            assert namespace.delete([one.block_hashes[6]]) == [Status.OK]
            return get(*arguments, **more)

        monkeypatch.setattr(worker._regions[0], "get", late)
        engine.run(request())
    assert engine.stats["load_failed_blocks"] == 1
    assert (engine.recomputed, engine.stats.get("loads_by_layer", 0)) == (4, 0)


def test_damagedBlockInMemory_loadIsNotPromised(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request())
    engine = engines()
    LazyRegion(engine)
    monkeypatch.setattr(Leases, "check", lambda leases: [Status.CORRUPT, *leases.statuses[1:]])
    again = request()
    engine.add(again)
    worker = engine.workers[0].connector._worker
    engine.step_until(lambda: bool(worker._loads))
    for _ in range(5):
        engine.step()
    assert again.state == "receiving"


# ---- what the engine asks for ----


def test_layersBook_knowsWhenAllAreAskedFor() -> None:
    layers = Layers({"a": 0, "b": 1, "shares b": 1, "c": 2}, verifies=False)
    layers.begin(must_ask=False)
    assert [layers.ask(name) for name in ("a", "shares b")] == [1, 2]
    assert layers.end() == ["c"] and layers.is_watching and not layers.are_asked_for
    layers.begin(must_ask=False)
    assert [layers.ask(name) for name in ("b", "a", "unknown")] == [2, 1, 3]
    assert layers.end() == [] and layers.are_asked_for and not layers.is_watching


@pytest.mark.parametrize(
    ("attributes", "asks"),
    [
        ({}, True),
        ({"cudagraph_runtime_mode": SimpleNamespace(name="PIECEWISE")}, True),
        ({"cudagraph_runtime_mode": SimpleNamespace(name="FULL")}, False),
        ({"cudagraph_runtime_mode": SimpleNamespace(name="OF_TOMORROW")}, False),
        ({"attn_metadata": None}, False),
        ({"attn_metadata": {}}, False),
        ({"attn_metadata": [{"a": 1}, {"a": 1}]}, False),
        ({"ubatch_slices": [1, 2]}, False),
        (None, False),
    ],
)
def test_forwardPassThatAsksForLayers_isToldByItsContext(
    monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any] | None, asks: bool
) -> None:
    usual = {"attn_metadata": {"a": 1}, "ubatch_slices": None, "cudagraph_runtime_mode": SimpleNamespace(name="NONE")}
    module = types.ModuleType("vllm.forward_context")
    vars(module).update(
        is_forward_context_available=lambda: attributes is not None, get_forward_context=lambda: SimpleNamespace(**usual | (attributes or {}))
    )
    monkeypatch.setitem(sys.modules, "vllm.forward_context", module)
    assert _engine.asks_for_layers() is asks
