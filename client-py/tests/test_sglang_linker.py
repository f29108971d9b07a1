"""SGLang's linker: what it promises an engine, with device pools whose every value is looked at."""

import hashlib
import itertools
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kvtier_testing import sglang_double
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.sglang_double import (
    HEADS,
    LAYERS,
    PAGE_TOKENS,
    KvtierLinker,
    Pool,
    Transfer,
    Weights,
    config,
    device_pool,
    made_linkers,
    model_folder,
    set_args,
    together,
)

from kvtier import Client, InvalidArgument, _core
from kvtier.engine import find
from kvtier.sglang._memory import Ranks, device_memory_of
from kvtier.torch._cuda import region_spec
from kvtier.torch._shards import cells_of

PAGES = 24
_numbers = itertools.count()

Make = Callable[..., "Engine"]


def keys_of(count: int, prompt: str = "a") -> list[str]:
    return [hashlib.sha256(f"{prompt} {number}".encode()).hexdigest() for number in range(count)]


class Engine:
    """The ranks of an engine with the linker, as SGLang's radix cache calls them."""

    def __init__(self, pools: list[Any], linkers: list[KvtierLinker]) -> None:
        self.pools = pools
        self.linkers = linkers

    def each(self, call: Callable[[KvtierLinker, Any], Any]) -> list[Any]:
        return together([lambda one=one, pool=pool: call(one, pool) for one, pool in zip(self.linkers, self.pools, strict=True)])  # type: ignore[misc]

    def store(self, keys: list[str], first: int = 0) -> list[bool]:
        """Has pages of these keys in the pools' first places, and stores them."""
        places = [number + 1 for number in range(len(keys))]
        for pool in self.pools:
            for number, place in enumerate(places):
                pool.fill(place, first + number)
        if self.each(lambda one, pool: one.offload([Transfer("kv", keys, pool.indices(places))])) != [True] * len(self.pools):
            return []
        assert eventually(lambda: self.each(lambda one, _: one.num_completed_offloads()) == [1] * len(self.pools))
        return self.each(lambda one, _: one.pop_completed_offload())

    def found(self, keys: list[str]) -> list[int]:
        return self.each(lambda one, _: len(one.lookup("request", [Transfer("kv", keys)])))

    def announce(self, keys: list[str], rid: str = "request", place: int = 12) -> list[bool]:
        places = [place + number for number in range(len(keys))]
        return self.each(lambda one, pool: one.load(rid, [Transfer("kv", keys, pool.indices(places))]))

    def start(self) -> list[int]:
        return self.each(lambda one, _: one.start_layer_wise_loading())

    def finish(self, indices: list[int]) -> list[bool]:
        return [one.finish_layer_wise_loading(index) for one, index in zip(self.linkers, indices, strict=True)]

    def load(self, keys: list[str], first: int = 0, place: int = 12) -> bool:
        """Loads pages, and looks at them when the forward pass would."""
        announced = self.announce(keys, place=place)
        if announced != [True] * len(self.linkers):
            assert announced == [False] * len(self.linkers), "ranks do not decide alike"
            return False
        indices = self.start()
        for one, pool, index in zip(self.linkers, self.pools, indices, strict=True):
            one.layer_done_counter.set_consumer(index)
            for layer in range(LAYERS):
                one.layer_done_counter.wait_until(layer)
            for number in range(len(keys)):
                assert pool.is_page(place + number, first + number), f"wrong bytes in page {number}"
        assert self.finish(indices) == [True] * len(self.linkers)
        return True

    @property
    def region(self) -> Any:
        """That of the first rank."""
        pools = self.linkers[0]._pages.pools
        assert pools is not None
        return pools.regions[0]

    def leases(self) -> int:
        client = self.linkers[0]._pages.client
        assert client is not None
        return int(client.stats()["counters"]["leases"])


@pytest.fixture
def make(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines that share a namespace of this test's own."""
    made: list[Engine] = []
    namespace = f"sglang-linker-{next(_numbers)}"

    def make(
        extra: dict[str, Any] | None = None, *, ranks: int = 1, heads: int = HEADS, args: dict[str, Any] | None = None, content: bytes = b"one",
        mla: bool = False, name: str = "", page_tokens: int = PAGE_TOKENS, **more: Any,
    ) -> Engine:  # fmt: skip
        folder = model_folder(tmp_path / f"model-{heads}-{content.decode()}", heads, content)
        set_args(monkeypatch, **({"model_path": str(folder)} | (args or {})))
        each = 1 if mla else max(1, HEADS // ranks)
        pools = [device_pool(PAGES, each, 0 if mla else rank * HEADS // ranks, page_tokens, mla, name) for rank in range(ranks)]
        settings = {"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0, "kvtier.load_timeout_s": 2.0}
        engine = Engine(pools, made_linkers(monkeypatch, pools, settings | (extra or {}), **more))
        made.append(engine)
        return engine

    yield make
    for one in made:
        one.each(lambda linker, _: linker.close())


# ---- pages ----


@pytest.mark.parametrize("writers", [1, 2, 4, 8])
@pytest.mark.parametrize("readers", [1, 2, 8])
def test_anyNumberOfRanks_loadsWhatAnyOtherHasStored(make: Make, writers: int, readers: int) -> None:
    keys = keys_of(5)
    writer = make(ranks=writers)
    assert writer.found(keys) == [0] * writers
    assert writer.store(keys) == [True] * writers
    reader = make(ranks=readers)
    assert reader.found([*keys, *keys_of(1, "other")]) == [5] * readers
    assert reader.load(keys)
    assert reader.load(keys[3:], 3, place=5)
    assert eventually(lambda: reader.leases() == 0)


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct", "page_head"])
def test_storageBackendAndLinker_sharePages(make: Make, layout: str) -> None:
    engine = make()
    settings = {"kvtier.socket": engine.linkers[0]._settings.socket, "kvtier.namespace": engine.linkers[0]._settings.namespace}
    pool = Pool(layout, 16)
    storage = Weights().make(config(settings))
    storage.register_mem_pool_host(pool)
    try:
        assert storage.named == engine.linkers[0]._pages.named
        keys = keys_of(4)
        for number in range(4):
            pool.fill(number, number)
        assert storage.batch_set_v1(keys, pool.indices([0, 1, 2, 3])) == [True] * 4
        assert engine.found(keys) == [4] and engine.load(keys)
        others = keys_of(4, "others")
        engine.store(others, 10)
        assert storage.batch_exists(others) == 4
        assert storage.batch_get_v1(others, pool.indices([5, 6, 7, 8])) == [True] * 4
        assert all(pool.is_page(5 + number, 10 + number) for number in range(4))
    finally:
        storage.close()


def test_ranksWithEqualPages_haveOne_thatTheFirstStores(make: Make) -> None:
    keys = keys_of(4)
    engine = make(ranks=2, mla=True)
    written: list[int] = []
    for number, one in enumerate(engine.linkers):
        put = one._pages.transfers.put  # type: ignore[union-attr]
        one._pages.transfers.put = lambda transfer, after=None, number=number, put=put: (written.append(number), put(transfer, after))[1]  # type: ignore
    assert engine.store(keys) == [True, True]
    assert written == [0]
    assert make(ranks=2, mla=True).load(keys) and make(mla=True).load(keys)


def test_nobodyKnowsHowManyHeadsThereAre_eachRankHasPagesOfItsOwn(make: Make) -> None:
    keys = keys_of(3)
    engine = make(ranks=2, heads=0)
    assert engine.store(keys) == [True, True]
    assert engine.found(keys) == [3, 3] and engine.load(keys)
    names = [one._pages.named.name for one in engine.linkers if one._pages.named]
    assert len(set(names)) == 2


def test_hole_isNotFoundBehind(make: Make) -> None:
    keys = keys_of(6)
    engine = make()
    engine.store(keys)
    assert engine.linkers[0]._pages.pools is not None
    engine.linkers[0]._pages.pools[0].namespace.delete([bytes.fromhex(keys[3])])
    assert engine.linkers[0].lookup("request", [Transfer("kv", keys)]) == [1, 2, 3]


def test_pagesThatTheObjectStoreIsAskedFor_areNotWaitedFor(make: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make()
    monkeypatch.setattr(find, "sought_blocks", lambda answers: 1)
    with Client(daemon.socket_path) as client:
        before = client.counters()["lookup_blocks"]
        assert engine.found(keys_of(2)) == [0]
        assert client.counters()["lookup_blocks"] == before + 2, "they are asked for once"


# ---- loads that must not fail ----


def test_pageThatHasGone_isNotAnnounced_andNothingStaysLeased(make: Make) -> None:
    keys = keys_of(4)
    engine = make(ranks=2)
    engine.store(keys)
    assert engine.linkers[0]._pages.pools is not None
    engine.linkers[0]._pages.pools[0].namespace.delete([bytes.fromhex(keys[2])])
    assert engine.announce(keys) == [False, False]
    assert engine.start() == [-1, -1]
    assert eventually(lambda: engine.leases() == 0)


def test_rankThatCannotLeasePages_hasAllRanksComputeThem(make: Make) -> None:
    keys = keys_of(4)
    engine = make(ranks=2)
    engine.store(keys)
    pools = engine.linkers[1]._pages.pools
    assert pools is not None

    def fails(*_: Any) -> Any:
        raise RuntimeError("no memory can be mapped")

    pools.lease = fails  # type: ignore[method-assign]
    assert engine.announce(keys) == [False, False]
    assert eventually(lambda: engine.leases() == 0)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP])
def test_daemonGoesBehindTheAnnouncement_thePagesComeFromItsMemory(make: Make, fresh_daemon: Daemon, ranks: int, what: signal.Signals) -> None:
    keys = keys_of(6)
    engine = make({"kvtier.socket": str(fresh_daemon.socket_path), "kvtier.load_timeout_s": 1.0}, ranks=ranks)
    engine.store(keys)
    load_of = engine.each(lambda one, _: one.start_layer_wise_loading)

    def start(rank: int) -> int:
        # Between the announcement and the start.
        with lock:
            if not gone:
                gone.append(True)
                fresh_daemon.kill() if what is signal.SIGKILL else fresh_daemon.pause()
        return int(load_of[rank]())

    lock, gone = threading.Lock(), list[bool]()
    for rank, one in enumerate(engine.linkers):
        one.start_layer_wise_loading = lambda rank=rank: start(rank)  # type: ignore[method-assign, misc]
    try:
        assert engine.load(keys)
        assert gone and engine.linkers[0]._guard.observed["written_blocks"] == len(keys)
    finally:
        fresh_daemon.start() if what is signal.SIGKILL else fresh_daemon.signal(signal.SIGCONT)


def test_pageIsDeletedBehindTheAnnouncement_itComesFromTheDaemonsMemory(make: Make) -> None:
    keys = keys_of(4)
    engine = make()
    engine.store(keys)
    assert engine.announce(keys) == [True]
    assert engine.linkers[0]._pages.pools is not None
    engine.linkers[0]._pages.pools[0].namespace.delete([bytes.fromhex(keys[2])])
    assert engine.finish(engine.start()) == [True]
    assert all(engine.pools[0].is_page(12 + number, number) for number in range(4))


def test_copyThatCannotBegin_isDoneFromTheDaemonsMemory(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of(4)
    engine = make()
    engine.store(keys)

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(engine.region, "get", fails)
    assert engine.load(keys)


def test_damagedMemoryOfADeadDaemon_isToldToSglang(make: Make, fresh_daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    keys = keys_of(3)
    engine = make({"kvtier.socket": str(fresh_daemon.socket_path)})
    engine.store(keys)
    assert engine.announce(keys) == [True]
    leases = engine.linkers[0]._queued["request"].leases
    leases.read = lambda index: None  # type: ignore[method-assign, assignment]
    fresh_daemon.kill()
    indices = engine.start()
    engine.linkers[0].layer_done_counter.set_consumer(indices[0])
    engine.linkers[0].layer_done_counter.wait_until(0)
    assert engine.finish(indices) == [False]
    assert "3 blocks were not loaded" in caplog.text
    fresh_daemon.start()


def test_loadThatIsTakenBack_leavesNothing(make: Make) -> None:
    keys = keys_of(3)
    engine = make()
    engine.store(keys)
    assert engine.announce(keys) == [True]
    assert engine.leases() == 3
    assert engine.linkers[0].cancel_queued_load("request")
    assert not engine.linkers[0].cancel_queued_load("request")
    assert engine.start() == [-1]
    assert eventually(lambda: engine.leases() == 0)


def test_severalRequestsOfABatch_areLoadedTogether(make: Make) -> None:
    keys = keys_of(6)
    engine = make()
    engine.store(keys)
    assert engine.announce(keys[:3], "one", 8) == engine.announce(keys[3:], "two", 14) == [True]
    (index,) = engine.start()
    engine.linkers[0].layer_done_counter.set_consumer(index)
    engine.linkers[0].layer_done_counter.wait_until(0)
    assert all(engine.pools[0].is_page(8 + number, number) for number in range(3))
    assert all(engine.pools[0].is_page(14 + number, 3 + number) for number in range(3))
    assert engine.finish([index]) == [True] == engine.finish([-1])


def test_batchThatHasLoadedNothing_waitsForNothing(make: Make) -> None:
    engine = make()
    for index in (-1, 7):
        engine.linkers[0].layer_done_counter.set_consumer(index)
        engine.linkers[0].layer_done_counter.wait_until(0)


# ---- stores ----


def test_stores_areToldInTheOrderInWhichTheyBegan(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make()
    (linker,) = engine.linkers
    may_end = threading.Event()
    monkeypatch.setattr(linker, "_store", lambda keys, *_: may_end.wait(60) if keys == first else False)
    first = [bytes.fromhex(key) for key in keys_of(1)]
    for prompt in ("a", "b"):
        assert linker.offload([Transfer("kv", keys_of(1, prompt), engine.pools[0].indices([1]))])
    assert eventually(linker._offloads[1].done)
    assert linker.num_completed_offloads() == 0
    may_end.set()
    assert eventually(lambda: linker.num_completed_offloads() == 2)
    assert [linker.pop_completed_offload(), linker.pop_completed_offload()] == [True, False]


def test_pageThatIsThere_countsAsStored(make: Make) -> None:
    engine = make()
    keys = keys_of(3)
    assert engine.store(keys) == [True]
    assert make().store(keys) == [True]


# ---- the daemon is not as it should be ----


def test_noDaemon_everythingIsAMiss(make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = make({"kvtier.socket": str(tmp_path / "nothing")}, ranks=2)
    keys = keys_of(3)
    assert engine.found(keys) == [0, 0]
    assert engine.announce(keys) == [False, False]
    assert engine.store(keys) == [False, False]
    assert caplog.text.count("no daemon listens") == 2, "once for each rank"


def test_transfersWithoutKeysAndValues_areAMiss(make: Make) -> None:
    linker = make().linkers[0]
    others = [Transfer("mamba", keys_of(3))]
    assert linker.lookup("request", others) == []
    assert not linker.load("request", others)
    assert linker.offload(others)
    assert not linker.pop_completed_offload()


def test_flushWithoutADaemon_looksAtTheWeightsWhenThereIsOne(make: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make({"kvtier.socket": str(fresh_daemon.socket_path)})
    model = engine.linkers[0]._pages.model
    loaded, looks = model.loaded, []
    monkeypatch.setattr(model, "loaded", lambda: looks.append(None) or loaded())
    keys = keys_of(3)
    assert engine.store(keys) == [True]
    fresh_daemon.kill()
    assert engine.found(keys) == [0]
    engine.linkers[0].reset()
    assert engine.found(keys) == [0]
    assert engine.store(keys) == [False]
    assert not looks
    fresh_daemon.start()
    assert eventually(lambda: engine.store(keys) == [True])
    assert len(looks) == 1


def test_daemonKilled_isFoundAgainWhenItIsBack(make: Make, fresh_daemon: Daemon) -> None:
    engine = make({"kvtier.socket": str(fresh_daemon.socket_path)}, ranks=2)
    keys = keys_of(3)
    assert engine.store(keys) == [True, True]
    fresh_daemon.kill()
    assert engine.found(keys) == [0, 0]
    assert engine.store(keys) == [False, False]
    fresh_daemon.start()
    assert eventually(lambda: engine.store(keys) == [True, True] and engine.found(keys) == [3, 3])
    assert engine.load(keys)


def test_lookup_takesFewCalls_becauseTheSchedulerWaits(make: Make) -> None:
    engine = make()
    keys = keys_of(PAGES - 4)
    assert engine.store(keys) == [True]
    linker, transfers = engine.linkers[0], [Transfer("kv", keys)]
    calls: list[str] = []
    assert linker.lookup("request", transfers)

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = linker.lookup("request", transfers)
    finally:
        sys.setprofile(before)
    assert found == list(range(1, len(keys) + 1))
    assert len(calls) <= 15, f"after a pause, each call costs microseconds: {calls}"


def test_keyThatIsNoHash_isAMissAndToldOnce(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = make()
    for _ in range(2):
        assert engine.found(["not a hash"]) == [0]
        assert engine.announce(["not a hash"]) == [False]
        assert engine.store(["not a hash"]) == [False]
    assert caplog.text.count("expected hexadecimal digits") == 3


def test_rankThatCannotUseTheDaemon_hasNoRankUseIt(make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from kvtier.sglang import _linker

    made = _linker.device_memory_of
    asked = itertools.count()
    monkeypatch.setattr(_linker, "device_memory_of", lambda *given: made(*given) if next(asked) else made(*given)._replace(page_bytes=0, shard=None))
    engine = make(ranks=2)
    assert engine.found(keys_of(2)) == [0, 0]
    assert engine.store(keys_of(2)) == []
    assert "another rank of this engine can't use it" in caplog.text


# ---- who shares pages ----


@pytest.mark.parametrize("kind", ["exact", "fp8"])
def test_encodedPagesTakeFewerBytes_andComeBackAlsoFromTheDaemonsMemory(
    make: Make, fresh_daemon: Daemon, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sglang_double.bf16_pages(monkeypatch)
    extra = {"kvtier.encoding": kind, "kvtier.socket": str(fresh_daemon.socket_path)}
    keys = keys_of(4)
    with Client(fresh_daemon.socket_path, timeout=60) as client:
        assert make(extra, page_tokens=64).store(keys) == [True]
        assert client.counters()["put_encoded"] == 4
    engine = make(extra, page_tokens=64)
    assert engine.found(keys) == [4] and engine.load(keys)
    decoded: list[int] = []
    decode = _core.decode
    monkeypatch.setattr(_core, "decode", lambda *arguments: decoded.append(1) or decode(*arguments))
    assert engine.announce(keys) == [True]
    assert not decoded, "what is leased is decoded when it is needed"
    fresh_daemon.kill()
    assert engine.finish(engine.start()) == [True]
    assert all(engine.pools[0].is_page(12 + number, number) for number in range(4))


def test_otherConfigurationInOneNamespace_keepsTheEngineFromStarting(make: Make) -> None:
    make({"kvtier.weights": "w"})
    with pytest.raises(RuntimeError, match="quantization.*another kvtier.namespace in linker_extra_config of --unified-cache-external-linker-config"):
        make({"kvtier.weights": "w"}, args={"quantization": "fp8"})
    engine = make({"kvtier.weights": "w", "kvtier.mismatch": "serve"}, args={"quantization": "fp8"})
    assert engine.found(keys_of(2)) == [0] and engine.store(keys_of(2)) == []


def test_otherWeights_findNothing(make: Make) -> None:
    keys = keys_of(3)
    make().store(keys)
    assert make().found(keys) == [3]
    assert make(content=b"two").found(keys) == [0]


def test_madeUpWeightsOfSeveralRanks_areKnownByTheirBytes(make: Make, tmp_path: Path) -> None:
    args = {"load_format": "dummy", "model_path": str(model_folder(tmp_path / "same", HEADS))}

    def weights(change: int) -> list[Weights]:
        made = [Weights(), Weights()]
        made[1].array = made[1].array + change
        return made

    keys = keys_of(3)
    assert make(ranks=2, args=args, weights=weights(1)).store(keys) == [True, True]
    assert make(ranks=2, args=args, weights=weights(1)).found(keys) == [3, 3]
    assert make(ranks=2, args=args, weights=weights(2)).found(keys) == [0, 0]


def test_nobodyKnowsTheWeights_theRanksOfAnEngineFindTheirPages(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    keys = keys_of(3)
    engine = make(ranks=2, args={"enable_lora": True})
    assert engine.store(keys) == [True, True]
    assert engine.found(keys) == [3, 3] and engine.load(keys)
    assert make(ranks=2, args={"enable_lora": True}).found(keys) == [0, 0]
    assert "cannot be identified" in caplog.text


def test_flush_withTheSameWeightsFindsAll_andWithOthersNothing(make: Make) -> None:
    keys = keys_of(3)
    weights = [Weights(), Weights()]
    engine = make(ranks=2, weights=weights)
    engine.store(keys)
    engine.each(lambda one, _: one.reset())
    assert engine.found(keys) == [3, 3]
    # Those of one rank are enough.
    weights[1].array = weights[1].array + 1
    engine.each(lambda one, _: one.reset())
    assert engine.found(keys) == [0, 0]
    assert engine.store(keys, 50) == [True, True]
    assert engine.load(keys, 50)
    weights[1].array = weights[1].array - 1
    engine.each(lambda one, _: one.reset())
    assert engine.load(keys)


def test_flush_ofWeightsThatNobodyCanRead_beginsAnew_andTheRanksAgree(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of(3)
    engine = make(ranks=2)
    engine.store(keys)
    monkeypatch.setattr(engine.linkers[1]._pages.model, "loaded", lambda: "")
    engine.each(lambda one, _: one.reset())
    assert engine.found(keys) == [0, 0]
    assert engine.store(keys, 50) == [True, True]
    assert engine.found(keys) == [3, 3] and engine.load(keys, 50)


def test_reset_endsWhatIsUnderWay(make: Make) -> None:
    keys = keys_of(4)
    engine = make()
    engine.store(keys)
    assert engine.announce(keys[:2], "queued") == engine.announce(keys[2:], "begun", 16) == [True]
    engine.linkers[0].cancel_queued_load("queued")
    engine.start()
    assert engine.announce(keys[:2], "queued") == [True]
    engine.linkers[0].offload([Transfer("kv", keys_of(1, "b"), engine.pools[0].indices([1]))])
    engine.linkers[0].reset()
    assert engine.linkers[0].num_completed_offloads() == 0 and engine.start() == [-1]
    assert all(engine.pools[0].is_page(16 + number, 2 + number) for number in range(2))
    assert eventually(lambda: engine.leases() == 0)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"components": ("FULL", "SWA")}, "more kinds of KV cache than full attention (SWA)"),
        ({"components": ("FULL", "MAMBA", "SWA")}, "more kinds of KV cache than full attention (MAMBA, SWA)"),
        ({"pp_size": 2}, "pipeline parallelism of 2 stages"),
        ({"attn_cp_size": 2}, "context parallelism of 2 ranks"),
        ({"args": {"dcp_size": 2}}, "decode context parallelism of 2 ranks"),
        ({"args": {"nnodes": 2}}, "run on 2 machines"),
        ({"sidecar_draft_device_pools": (object(),)}, "the KV cache of a draft model"),
        ({"mtp_draft_device_pools": (object(),)}, "the KV cache of a draft model"),
        ({"name": "MHATokenToKVPoolFP4"}, "nobody knows how pages lie in a MHATokenToKVPoolFP4"),
    ],
)
def test_engineThatIsNotServed_runsWithoutKvtier(make: Make, more: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = make(**more)
    keys = keys_of(2)
    assert engine.found(keys) == [0]
    assert engine.announce(keys) == [False]
    assert engine.store(keys) == []
    assert engine.start() == [-1]
    engine.each(lambda one, _: one.reset())
    assert reason in caplog.text and caplog.text.count("kvtier is not used") == 1


@pytest.mark.parametrize(
    "changed",
    [{"kv_cache_layout": "hnd"}, {"k_scale_buffer": [0]}, {"native_v_scale_buffer": [0]}, {"k_buffer": [], "v_buffer": []}],
)
def test_poolWithAnotherOrderOrMoreThanKeysAndValues_isNotKnown(changed: dict[str, Any]) -> None:
    pool = device_pool(4)
    assert device_memory_of(pool, PAGE_TOKENS, Ranks()) is not None
    vars(pool).update(changed)
    assert device_memory_of(pool, PAGE_TOKENS, Ranks()) is None


@pytest.mark.parametrize(("rank", "size"), [(0, 1), (1, 2), (5, 8)])
@pytest.mark.parametrize("mla", [False, True])
def test_pool_canBeARegionOfAGpu(rank: int, size: int, mla: bool) -> None:
    heads = 1 if mla else max(1, HEADS // size)
    memory = device_memory_of(device_pool(4, heads, mla=mla), PAGE_TOKENS, Ranks() if mla else Ranks(rank, size, HEADS))
    assert memory is not None and memory.shard is not None
    cells = cells_of(memory.tensors, memory.shard)
    spec = region_spec(cells.planes(), device="GPU-0", place=lambda *_: (bytes(64), 0), cells=cells)
    assert (spec.layers, len(spec.parts), len(spec.tensors)) == (LAYERS, 1 if mla else 2, len(memory.tensors))


def test_poolWhosePagesAreNotWhole_isNotKnown() -> None:
    assert device_memory_of(device_pool(4), 3, Ranks()) is None


def test_settings_keepItFromStoringOrLoading(make: Make) -> None:
    keys = keys_of(2)
    assert make({"kvtier.store": "none"}).store(keys) == []
    make().store(keys)
    assert make({"kvtier.load": False}).found(keys) == [0]


def test_unknownSetting_isRefusedWithTheCloseOne(monkeypatch: pytest.MonkeyPatch) -> None:
    set_args(monkeypatch)
    with pytest.raises(InvalidArgument, match="did you mean kvtier.socket"):
        made_linkers(monkeypatch, [device_pool(4)], {"kvtier.sockte": "x"})


def test_deviceOtherThanAProcessor_isWaitedForInTheThreads(make: Make) -> None:
    """Events are recorded where SGLang calls, and waited for where copies are made."""
    engine = make()
    (linker,) = engine.linkers
    waited: list[str] = []

    class Event:
        def record(self) -> None:
            waited.append("recorded")

        def synchronize(self) -> None:
            waited.append(threading.current_thread().name.rpartition("_")[0])

    linker._event = Event
    linker.record_offload_ready = lambda: [Event(), Event()]
    keys = keys_of(2)
    assert engine.store(keys) == [True]
    assert waited == ["kvtier-store"] * 2
    assert engine.load(keys)
    assert waited[2:] == ["recorded", "kvtier-load"]


def test_peersOfARankAlone_needNoTorch() -> None:
    from kvtier.sglang._peers import Peers

    alone = Peers()
    assert (alone.rank, alone.size, alone.gathered("x"), alone.agreed(True), alone.agreed(False)) == (0, 1, ["x"], True, False)
