"""vLLM's connector and stores by layer: blocks leave the engine while it computes their later layers, and are complete all the same.

The double's attention looks at every byte of a layer when it computes this layer.
"""

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import LAYERS, Engine, Request, config
from kvtier_testing.vllm_hybrid import HybridEngine, HybridRequest, specs

from kvtier import Client, InvalidArgument, Status
from kvtier.engine.transfers import Store, Transfer, _Layers
from kvtier.vllm import _saves, _shards
from kvtier.vllm._saves import GPU_CUT, HOST_CUT, Pool, Saves
from kvtier.vllm._settings import Settings

Make = Callable[..., Engine]
_numbers = itertools.count()
BY_LAYER = {"kvtier.store_by_layer": "on"}
ALL = range(LAYERS)


@pytest.fixture(autouse=True)
def _axes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(_shards, "letters_of", lambda *_: "BND")


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines that store by layer, and that share a namespace of this test's own."""
    made: list[Engine] = []
    namespace = f"saves-{next(_numbers)}"

    def make(extra: dict[str, Any] | None = None, ranks: int = 1, pipeline: int = 1, **options: Any) -> Engine:
        changed = {name: options.pop(name) for name in list(options) if "__" in name}
        settings = {
            "kvtier.socket": str(daemon.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0, "kvtier.weights": "w",
        }  # fmt: skip
        made_config = config(settings | BY_LAYER | (extra or {}), model_config__get_total_num_kv_heads=lambda: ranks, **changed)
        engine = Engine(made_config, monkeypatch, ranks=ranks, pipeline=pipeline, **{"joins": True} | options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def request(count: int = 43, seed: int = 1) -> Request:
    return Request(f"request-{next(_numbers)}", [random.Random(seed).randrange(1000) + at for at in range(count)])


class Watched:
    """A rank's region and its computation: what was computed and put, in order. Copies end when they are let go, or, if they are awaited,
    before their puts return."""

    def __init__(
        self, engine: Engine, rank: int = 0, are_held: bool = False, failing: Sequence[int] = (), are_awaited: bool = False
    ) -> None:
        worker = engine.workers[rank]
        side = worker.connector._worker
        self._region = side._regions[0]
        self._failing = failing
        self._are_awaited = are_awaited
        side._regions[0] = self
        self.are_held = are_held
        self.events: list[tuple[str, range | int | None]] = []
        self.copies: list[Held] = []
        compute = worker.compute

        def computed(one: Request, begin: int, end: int, layer: int) -> None:
            self.events.append(("compute", layer))
            compute(one, begin, end, layer)

        worker.compute = computed  # type: ignore[method-assign]
        side._transfers._regions[0] = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def put(self, keys: Sequence[bytes], block_ids: Sequence[int], *, layers: range | None = None, **more: Any) -> Any:
        self.events.append(("put", layers))
        if len(self.copies) in self._failing:
            self._failing = ()
            raise OSError("no memory")
        copying = self._region.put(keys, block_ids, layers=layers, **more)
        assert not self._are_awaited or eventually(copying.done)
        self.copies.append(Held(self, copying))
        return self.copies[-1]

    @property
    def puts(self) -> list[range | int | None]:
        return [what for event, what in self.events if event == "put"]


class Held:
    """A copy that does not end before somebody waits for it."""

    def __init__(self, region: Watched, copying: Any) -> None:
        self._region = region
        self._copying = copying
        self.waits = 0
        self.is_cancelled = False

    def done(self) -> bool:
        return not self._region.are_held and self._copying.done()

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        if timeout != 0:
            self.waits += 1
            self._region.are_held = False
        return self._copying.wait(timeout)

    def cancel(self) -> None:
        self.is_cancelled = True
        self._copying.cancel()


def stored(engine: Engine, one: Request) -> int:
    before = engine.stats.get("stored_blocks", 0)
    engine.run(one)
    engine.settle()
    return engine.stats.get("stored_blocks", 0) - before


def loaded_tokens(engine: Engine, seed: int = 1) -> int:
    again = request(seed=seed)
    engine.run(again)
    assert engine.recomputed == 0
    return again.external_tokens


# ---- layers leave while later ones are computed ----


@pytest.mark.parametrize("options", [{}, {"second_runner": True}], ids=lambda one: "-".join(one) or "plain")
def test_layers_areStoredWhileLaterOnesAreComputed(engines: Make, options: dict[str, Any]) -> None:
    engine = engines(**options)
    watched = Watched(engine)
    assert stored(engine, request()) == 10
    assert watched.events == [(what, range(layer, layer + 1) if what == "put" else layer) for layer in ALL for what in ("compute", "put")]
    assert (engine.stats["stores"], engine.stats["stores_by_layer"]) == (1, 1)
    assert not engine.scheduler._scheduler._stores_under_way
    assert loaded_tokens(engines(**options)) == 40


def test_blocksAreNotFound_beforeTheirLastLayerIsStored(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    shard = engine.workers[0].connector._mine[0]
    one = request()
    found: list[int] = []
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        watched = Watched(engine)
        put = watched.put

        def look(*arguments: Any, **more: Any) -> Any:
            for copy in watched.copies:
                assert copy._copying.wait(10) == [Status.OK] * 10
            found.append(namespace.lookup(one.block_hashes).run)
            return put(*arguments, **more)

        watched.put = look  # type: ignore[method-assign]
        stored(engine, one)
        assert (found, namespace.lookup(one.block_hashes).run) == ([0] * LAYERS, 10)


def test_promptComputedInChunks_goesByLayerInEachStep(engines: Make) -> None:
    engine = engines(step_tokens=16)
    watched = Watched(engine)
    one = request()
    engine.add(one)
    while one.num_computed_tokens < 43:
        engine.step()
        assert eventually(lambda: all(copy.done() for copy in watched.copies))
    engine.finish(one)
    engine.settle()
    assert watched.puts == [range(layer, layer + 1) for _ in range(3) for layer in ALL]
    assert loaded_tokens(engines()) == 40


def test_severalRequestsOfAStep_goTogether(engines: Make) -> None:
    # Nothing is looked up, so all begin in one step.
    engine = engines({"kvtier.load": False})
    watched = Watched(engine)
    engine.run(request(seed=1), request(seed=2), request(seed=1))
    engine.settle()
    assert watched.puts == [range(layer, layer + 1) for layer in ALL for _ in range(3)]
    # Of two equal requests, each may store some layers: then both find that the other one stores the block.
    assert engine.stats["stored_blocks"] + engine.stats["known_blocks"] == 30 and not engine.stats["refused_blocks"]
    assert [loaded_tokens(engines(), seed) for seed in (1, 2)] == [40, 40]


@pytest.mark.parametrize(("ranks", "pipeline"), [(2, 1), (1, 2), (2, 2)])
def test_ranks_storeTheLayersOfTheirParts(engines: Make, ranks: int, pipeline: int) -> None:
    engine = engines(ranks=ranks, pipeline=pipeline)
    assert len({shard.name for worker in engine.workers for shard in worker.connector._mine}) == 1
    assert stored(engine, request()) == 10 * ranks * pipeline
    assert engine.stats["stores_by_layer"] == ranks * pipeline
    assert loaded_tokens(engines(ranks=ranks, pipeline=pipeline)) == 40


def test_annotations_areStoredOnce(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines({"kvtier.annotate": True})
    annotated: list[bool] = []
    region = engine.workers[0].connector._worker._regions[0]
    put = region.put
    monkeypatch.setattr(region, "put", lambda *some, **more: (annotated.append(more["annotations"] is not None), put(*some, **more))[1])
    assert stored(engine, request()) == 10
    assert annotated == [True, False, False]


def test_groupsOfAHybridModel_goByLayer_andStatesWhole(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": f"saves-{next(_numbers)}", "kvtier.lookup_s_max": 5.0} | BY_LAYER
    monkeypatch.setattr(_shards, "letters_of", lambda _config, name, _tensor: "" if name in ("layers.4", "layers.5") else "BND")

    def made() -> HybridEngine:
        return HybridEngine(config(extra, model_config__get_total_num_kv_heads=lambda: 1), monkeypatch, groups=specs())

    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        engine = made()
    assert caplog.text.count("kvtier.store_by_layer is not used for the blocks of group") == 1
    prompt = [random.Random(5).randrange(1000) for _ in range(43)]
    engine.run(HybridRequest(f"request-{next(_numbers)}", prompt))
    engine.settle()
    assert 0 < engine.stats["stores_by_layer"] < engine.stats["stores"]
    again = HybridRequest(f"request-{next(_numbers)}", prompt)
    other = made()
    other.run(again)
    assert again.external_tokens == 32 and not other.failed, "the last state at the end of a step"
    engine.close()
    other.close()


# ---- when blocks go whole ----


def test_off_isTheDefault_andNoLayerIsToldOf(engines: Make) -> None:
    assert Settings().store_by_layer == "off"
    engine = engines({"kvtier.store_by_layer": "off"})
    watched = Watched(engine)
    assert stored(engine, request()) == 10
    assert watched.puts == [None] and engine.asked == []


def test_unknownChoice_isRefused() -> None:
    with pytest.raises(InvalidArgument, match="kvtier.store_by_layer is 'yes'; expected 'off' or 'auto' or 'on'"):
        Settings.of({"kvtier.store_by_layer": "yes"})


def test_stepThatIsOneCudaGraph_storesWhole_andThatIsTold(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines(graphs="FULL")
    watched = Watched(engine)
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert [stored(engine, request(seed=seed)) for seed in range(2 * _saves._MISSED_MAX)] == [10] * 2 * _saves._MISSED_MAX
    assert set(watched.puts) == {None} and "stores_by_layer" not in engine.stats
    assert caplog.text.count("kvtier.store_by_layer has had no effect in 16 steps of this engine, the last time because the step was one") == 1


def test_engineThatTellsOfNoLayer_storesWhole_andThatIsTold(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines(silent=ALL)
    watched = Watched(engine)
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        for seed in range(_saves._MISSED_MAX):
            assert stored(engine, request(seed=seed)) == 10
    assert set(watched.puts) == {None}
    assert caplog.text.count("because the engine told of no layer when it had computed the layer") == 1


@pytest.mark.parametrize(
    ("silent", "order"),
    [([0], [0, 1, 2, None]), ([1], [0, range(1), 1, 2, range(1, 3)]), ([2], [0, range(1), 1, range(1, 2), 2, range(2, 3)])],
)
def test_layersThatTheEngineDoesNotTellOf_areStoredBehindTheStep(
    engines: Make, silent: list[int], order: list[range | int | None]
) -> None:
    engine = engines(silent=silent)
    watched = Watched(engine)
    assert stored(engine, request()) == 10
    assert watched.events == [("compute" if isinstance(what, int) else "put", what) for what in order]
    assert loaded_tokens(engines()) == 40


def test_whatARequestLeavesUnstored_goesWholeWhenItHasEnded(engines: Make) -> None:
    engine = engines()
    watched = Watched(engine)
    one = request(43)
    one.max_tokens = 20
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens == 43)
    for _ in range(6):
        one.tokens.append(5)
        engine.step()
    engine.finish(one)
    engine.settle()
    assert watched.puts == [range(layer, layer + 1) for layer in ALL] + [None]
    assert engine.stats["stored_blocks"] == 12


def test_earlierStepsThatAreStillBeingStored_haveTheNextOnesStoredWhole(engines: Make) -> None:
    engine = engines({"kvtier.load": False}, step_tokens=8)
    watched = Watched(engine, are_held=True)
    engine.add(request(32))
    for _ in range(4):
        engine.step()
    assert watched.puts == [range(layer, layer + 1) for _ in range(_saves._STEPS_UNDER_WAY_MAX) for layer in ALL] + [None, None]
    watched.are_held = False
    engine.settle()
    assert engine.stats["stored_blocks"] == 8
    assert stored(engine, request(16, seed=9)) == 4 and watched.puts[-1] == range(2, 3)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"joins": True, "letters": ""}, "the layers' tensors have several shapes, or lie in host memory and are encoded or of an unknown order"),
        ({"silent_names": True}, "the layers of the engine's KV cache are not told apart"),
        ({"takes_events": False}, "the daemon can't open this process's CUDA events, so the engine's thread would wait for the GPU within each step"),
        ({"drafts": True}, "the engine computes the layers of a draft model several times within a step"),
    ],
)
def test_blocksThatCanNotGoByLayer_areTold_andStoredWhole(
    engines: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, options: dict[str, Any], why: str
) -> None:
    changed = {"speculative_config": object()} if options.get("drafts") else {}
    if "letters" in options:
        monkeypatch.setattr(_shards, "letters_of", lambda *_: "")
    engine = engines()
    connector = engine.workers[0].connector
    vars(connector._vllm_config).update(changed)
    if "silent_names" in options:
        connector._numbers = [{"layers.0.attn": 0}]
    if "takes_events" in options:
        monkeypatch.setattr(type(connector._worker._regions[0]), "takes_events", False)
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert connector._layer_pools(connector._worker._regions, HOST_CUT) == [None]
    assert f"kvtier.store_by_layer is not used for the blocks of group 0: {why}" in caplog.text


def test_daemonThatIsStartedAgain_andCanNotOpenEvents_getsWholeBlocks(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    watched = Watched(engine)
    region = type(watched._region)
    puts: list[range | int | None] = [range(layer, layer + 1) for layer in ALL]
    for seed, takes_events in enumerate((True, False, True)):
        monkeypatch.setattr(region, "takes_events", takes_events)
        assert stored(engine, request(seed=seed)) == 10
    assert watched.puts == [*puts, None, *puts]


def test_blocksOfFewBytes_areTold(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    connector = engines().workers[0].connector
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert connector._layer_pools(connector._worker._regions, GPU_CUT) == [None]
    assert "group 0: this rank has 768 bytes of a block; expected 131072 or more" in caplog.text


def test_auto_engineInHostMemory_storesWhole(engines: Make) -> None:
    assert engines({"kvtier.store_by_layer": "auto"}).workers[0].connector._worker._saves is None


@pytest.mark.parametrize(
    ("choice", "role", "params", "goes"),
    [
        ("auto", "kv_producer", None, True),
        ("auto", "kv_both", {"do_remote_decode": True}, True),
        ("auto", "kv_both", None, False),
        ("auto", "kv_consumer", {"do_remote_decode": True}, False),
        ("on", "kv_consumer", None, True),
        ("off", "kv_producer", None, False),
    ],
)
def test_auto_isForRequestsThatAnotherEngineGoesOnWith(
    engines: Make, choice: str, role: str, params: dict[str, Any] | None, goes: bool
) -> None:
    engine = engines({"kvtier.store_by_layer": choice}, kv_transfer_config__kv_role=role)
    one = request()
    one.kv_transfer_params = params
    planned: list[Transfer] = []
    plan = engine.scheduler._scheduler.plan

    def plans(output: Any) -> Any:
        made = plan(output)
        planned.extend(made.stores)
        return made

    engine.scheduler._scheduler.plan = plans
    engine.run(one)
    assert [store.by_layer for store in planned] == [goes]


# ---- what goes wrong ----


def test_blocksAreReused_afterAllTheirLayersHaveBeenCopied(engines: Make) -> None:
    engine = engines(blocks=11)
    watched = Watched(engine, are_held=True)
    one = request()
    engine.add(one)
    engine.step_until(lambda: one in engine.running)
    engine.finish(one)
    assert [copy.waits for copy in watched.copies] == [0, 0, 0]
    other = request(seed=2)
    engine.add(other)
    engine.step_until(lambda: other in engine.running)
    assert [copy.waits for copy in watched.copies[:LAYERS]] == [1, 1, 1] and engine.stats["flushes"] == 1
    engine.finish(other)
    engine.settle()
    assert [loaded_tokens(engines(), seed) for seed in (1, 2)] == [40, 40]


def test_requestIsPreempted_itsBlocksAreStoredAsTheyWere(engines: Make) -> None:
    engine = engines(blocks=11, step_tokens=16)
    one = request()
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens == 16)
    engine.preempt(one)
    engine.waiting.remove(one)
    engine.run(request(seed=2))
    engine.waiting.append(one)
    engine.run_existing(one)
    engine.settle()
    assert [loaded_tokens(engines(), seed) for seed in (1, 2)] == [40, 40]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_layersThatCanNotBegin_costTheBlocks_andNothingElse(engines: Make, caplog: pytest.LogCaptureFixture, failing: int) -> None:
    engine = engines()
    watched = Watched(engine, failing=[failing])
    with caplog.at_level(logging.WARNING):
        assert stored(engine, request()) == 0
    assert "cannot store blocks: OSError('no memory')" in caplog.text
    assert len(watched.puts) == failing + 1, "layers of blocks that can't be whole are not copied"
    assert engine.stats["refused_blocks"] == 10 and not engine.scheduler._scheduler._stores_under_way
    assert stored(engine, request(seed=2)) == 10


def test_daemonThatHasGone_isOfferedTheFirstLayersOnly(engines: Make, fresh_daemon: Daemon) -> None:
    engine = engines({"kvtier.socket": str(fresh_daemon.socket_path)})
    fresh_daemon.kill()
    watched = Watched(engine, are_awaited=True)
    assert stored(engine, request()) == 0
    assert watched.puts == [range(1)] and engine.stats["refused_blocks"] == 10


def test_blocksThatAnotherEngineHasStored_areOfferedOnce(engines: Make) -> None:
    first, second = engines(), engines()
    one = request()
    second.add(one)
    assert eventually(lambda: second.scheduler.get_num_new_matched_tokens(one, 0)[0] == 0)
    stored(first, request())
    watched = Watched(second, are_awaited=True)
    second.scheduler.get_num_new_matched_tokens = lambda *_: (0, False)
    second.run_existing(one)
    second.settle()
    assert watched.puts == [range(1)] and second.stats["known_blocks"] == 10


@pytest.mark.parametrize(("choice", "puts"), [("on", [range(1)]), ("off", [])])
def test_forwardPassThatFails_storesNothingFromThenOn(engines: Make, choice: str, puts: list[range | None]) -> None:
    engine = engines({"kvtier.store_by_layer": choice})
    watched = Watched(engine)
    worker = engine.workers[0]
    compute = worker.compute

    def fails(one: Request, begin: int, end: int, layer: int) -> None:
        if layer == 1:
            raise RuntimeError("the GPU is out of memory")
        compute(one, begin, end, layer)

    worker.compute = fails  # type: ignore[method-assign]
    engine.add(request())
    with pytest.raises(RuntimeError, match="out of memory"):
        engine.step_until(lambda: False)
    worker.compute = compute  # type: ignore[method-assign]
    other = request(seed=2)
    engine.add(other)
    engine.step_until(lambda: other in engine.running)
    assert watched.puts == puts


def test_stepsOfAnEngineThatIsUsedWhileAnErrorIsHandled_storeAsUsual(engines: Make) -> None:
    engine = engines()
    try:
        raise RuntimeError("another engine has failed")
    except RuntimeError:
        assert stored(engine, request()) == 10


def test_engineEnds_whileLayersAreBeingStored_andTheirCopiesAreCancelled(engines: Make) -> None:
    engine = engines()
    watched = Watched(engine, are_held=True)
    engine.add(request())
    engine.step_until(lambda: bool(engine.workers[0].connector._worker._stores))
    engine.close()
    assert [copy.is_cancelled for copy in watched.copies] == [True] * LAYERS


# ---- the parts ----


class Copy:
    """A copy that has ended, unless it has no statuses."""

    def __init__(self, *statuses: Status) -> None:
        self._statuses = list(statuses)

    def done(self) -> bool:
        return bool(self._statuses)

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        return self._statuses or [Status.PENDING] * 2


@pytest.mark.parametrize(
    ("groups", "statuses"),
    [
        ([(Status.OK, Status.OK), (Status.OK, Status.OK)], [Status.OK, Status.OK]),
        ([(Status.OK, Status.OK), (Status.BUSY, Status.OK)], [Status.BUSY, Status.OK]),
        ([(Status.OK, Status.EXISTS), (Status.PENDING, Status.EXISTS)], [Status.PENDING, Status.EXISTS]),
        ([(Status.EXISTS, Status.PENDING), (Status.IO_ERROR, Status.OK)], [Status.IO_ERROR, Status.PENDING]),
    ],
)
def test_block_isStored_ifAllItsLayersAre(groups: list[tuple[Status, ...]], statuses: list[Status]) -> None:
    layers = _Layers(2)
    for group in groups:
        layers.add(Copy(*group))  # type: ignore[arg-type]
    assert layers.done() and layers.wait() == statuses


def test_layersThatAreStillCopied_keepTheStoreOpen() -> None:
    layers = _Layers(2)
    layers.add(Copy(Status.OK, Status.BUSY))  # type: ignore[arg-type]
    assert layers.done() and layers.are_wanted
    layers.add(Copy())  # type: ignore[arg-type]
    assert not layers.done() and layers.are_wanted
    layers.add(Copy(Status.PENDING, Status.BUSY))  # type: ignore[arg-type]
    assert layers.are_wanted, "another client may put these layers only"
    layers.add(Copy(Status.BUSY, Status.EXISTS))  # type: ignore[arg-type]
    assert not layers.are_wanted, "no block is waited for"


MIB = 1 << 20


@pytest.mark.parametrize(
    ("layers", "part_bytes", "blocks", "ends"),
    [
        (32, 2 * MIB, [512], [4, 8, 12, 16, 20, 24, 28, 32]),
        (32, 2 * MIB, [16], [16, 32]),
        (32, 2 * MIB, [15], []),
        (36, MIB, [64], [9, 18, 27, 36]),
        (5, 2 * MIB, [512], [1, 2, 3, 4, 5]),
        (32, MIB // 4, [4096], [8, 16, 24, 32]),
        (32, MIB // 8, [4096], [16, 32]),
        (32, MIB // 16, [4096], []),
        (32, 2 * MIB, [512, 16], [4, 8, 12, 16, 20, 24, 28, 32]),
        (32, 2 * MIB, [16, 16, 32], [16, 32]),
        (1, 2 * MIB, [512], []),
        (32, 2 * MIB, [], []),
    ],
)
def test_layers_areCutIntoGroups_ofEnoughBytes(layers: int, part_bytes: int, blocks: list[int], ends: list[int]) -> None:
    pool = Pool({}, layers, part_bytes)
    stores = [Transfer("one", [b""] * count, [0] * count, 0) for count in blocks]
    assert pool.ends(stores, GPU_CUT) == ends


@pytest.mark.parametrize("seed", range(200))
def test_layersOfAStep_areStoredOnceAndInOrder_whateverTheEngineTells(seed: int) -> None:
    chosen = random.Random(seed)
    layers = chosen.randrange(2, 40)
    put: list[tuple[str, range]] = []
    computed: set[int] = set()

    def store_layers(transfer: Transfer, some: range, after: Any, earlier: Store | None) -> Store:
        assert after == "event" and (earlier is None) == (some.start == 0)
        put.append((transfer.request_id, some))
        assert is_over or computed.issuperset(range(some.stop)), "a layer was stored before it was computed"
        return Store(Copy(Status.OK), frozenset(), 0.0)  # type: ignore[arg-type]

    pool = Pool({f"layer {number}": number for number in range(layers)}, layers, chosen.choice([MIB // 4, MIB, 8 * MIB]))
    saves = Saves([None, pool], GPU_CUT, SimpleNamespace(store_layers=store_layers, takes_events=lambda _: True), lambda: "event")  # type: ignore[arg-type]
    is_over = False
    stores = [
        Transfer(str(number), [b""] * chosen.choice([1, 64, 2048]), [], 0, group=chosen.choice([0, 1]), by_layer=chosen.random() < 0.8)
        for number in range(chosen.randrange(1, 5))
    ]
    if saves.choose(stores):
        saves.begin(chosen.random() < 0.9)
        told = [number for number in range(layers) if chosen.random() < chosen.choice([0.5, 0.9, 1])]
        for number in told if chosen.random() < 0.8 else chosen.sample(told, len(told)):
            computed.add(number)
            if saves.is_listening:
                saves.computed(f"layer {number}")
    saves.computed("unknown")
    is_over = True
    begun, rest = saves.end(stores)
    assert len(begun) + len(rest) == len(stores)
    for store in stores:
        ranges = [some for request_id, some in put if request_id == store.request_id]
        if any(one is store for one in rest):
            assert not ranges
        else:
            assert store.by_layer and store.group == 1
            assert [number for some in ranges for number in some] == list(range(layers))
    assert saves.end(stores) == ([], stores), "a step ends once"


def test_hook_isCalledOnlyInStepsThatStoreByLayer(engines: Make) -> None:
    engine = engines()
    stored(engine, request())
    assert engine.asked == [f"layers.{layer}.attn" for layer in ALL]
    engine.asked.clear()
    engine.run(request(3, seed=7))
    assert engine.asked == [], "the step completes no block"


def test_gpu_isCutOtherwiseThanHostMemory(engines: Make) -> None:
    assert engines().workers[0].connector._worker._saves._cut is HOST_CUT
    assert GPU_CUT.part_bytes == 64 << 10, "the least that a node sends on its own"
