"""SGLang's storage backend: what it promises an engine, with pools whose every value is looked at."""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing import sglang_double
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.sglang_double import HEADS, KvtierStorage, Pool, Side, Weights, config, model_folder, set_args

from kvtier import Client, InvalidArgument, Status

LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")
_numbers = itertools.count()

Make = Callable[..., KvtierStorage]


def keys_of(count: int, prompt: str = "a") -> list[str]:
    return [hashlib.sha256(f"{prompt} {number}".encode()).hexdigest() for number in range(count)]


@pytest.fixture
def engines(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes backends with a pool each, which share a namespace of this test's own."""
    made: list[KvtierStorage] = []
    namespace = f"sglang-{next(_numbers)}"

    def make(
        pool: Any, extra: dict[str, Any] | None = None, *, heads: int = HEADS, args: dict[str, Any] | None = None, weights: Weights | None = None,
        content: bytes = b"one", **changed: Any,
    ) -> KvtierStorage:  # fmt: skip
        folder = model_folder(tmp_path / f"model-{heads}-{content.decode()}", heads, content)
        set_args(monkeypatch, **({"model_path": str(folder)} | (args or {})))
        settings = {"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0}
        asked = config(settings | (extra or {}), **changed)
        storage = (weights or Weights()).make(asked)
        made.append(storage)
        storage.register_mem_pool_host(pool)
        return storage

    yield make
    for one in made:
        one.close()


def put(storage: KvtierStorage, pool: Pool, keys: list[str], first: int = 0) -> list[bool]:
    """Has pages of these keys in the pool's first places, and stores them."""
    for number in range(len(keys)):
        pool.fill(number, first + number)
    return storage.batch_set_v1(keys, pool.indices(list(range(len(keys)))))


def got(storage: KvtierStorage, pool: Pool, keys: list[str], first: int = 0) -> list[bool]:
    """Loads pages to other places, and looks at those that came."""
    places = [number + 8 for number in range(len(keys))]
    told = storage.batch_get_v1(keys, pool.indices(places))
    for number, is_there in enumerate(told):
        if is_there:
            assert pool.is_page(places[number], first + number), f"wrong bytes in page {number}"
    return told


# ---- pages ----


def test_pages_thatWereStored_areFoundAndLoadedByAnotherEngine(engines: Make) -> None:
    pool = Pool("page_first_direct", 16)
    keys = keys_of(6)
    storage = engines(pool)
    assert storage.batch_exists(keys) == 0
    assert put(storage, pool, keys) == [True] * 6
    other = Pool("page_first_direct", 16)
    second = engines(other)
    assert second.batch_exists(keys) == 6
    assert got(second, other, keys) == [True] * 6


@pytest.mark.parametrize("writer", LAYOUTS)
@pytest.mark.parametrize("reader", LAYOUTS)
def test_anyLayout_readsWhatAnyOtherHasWritten(engines: Make, writer: str, reader: str) -> None:
    pool, other = Pool(writer, 16), Pool(reader, 16)
    keys = keys_of(5)
    assert put(engines(pool), pool, keys) == [True] * 5
    assert got(engines(other), other, keys) == [True] * 5


@pytest.mark.parametrize("writers", [1, 2, 4, 8])
@pytest.mark.parametrize("readers", [1, 2, 4, 8])
def test_anyNumberOfRanks_readsWhatAnyOtherHasWritten(engines: Make, writers: int, readers: int) -> None:
    keys = keys_of(3)

    def ranks(count: int) -> list[tuple[KvtierStorage, Pool]]:
        each = max(1, HEADS // count)
        pools = [Pool("page_first", 16, each, rank * HEADS // count) for rank in range(count)]
        return [(engines(pool, tp_rank=rank, tp_size=count), pool) for rank, pool in enumerate(pools)]

    for storage, pool in ranks(writers):
        put(storage, pool, keys)
    for storage, pool in ranks(readers):
        assert storage.batch_exists(keys) == 3
        assert got(storage, pool, keys) == [True] * 3


def test_pageOfWhichARankHasNotStoredItsPart_isNotThere(engines: Make) -> None:
    keys = keys_of(4)
    pools = [Pool("page_first", 16, HEADS // 2, rank * HEADS // 2) for rank in range(2)]
    storages = [engines(pool, tp_rank=rank, tp_size=2) for rank, pool in enumerate(pools)]
    put(storages[0], pools[0], keys)
    put(storages[1], pools[1], keys[:2])
    assert [one.batch_exists(keys) for one in storages] == [2, 2]
    assert got(storages[0], pools[0], keys) == [True, True, False, False]


def test_ranksWithEqualPages_haveOne_thatTheFirstWrites(engines: Make) -> None:
    keys = keys_of(4)
    pools = [Pool("page_first", 16, 1, mla=True) for _ in range(2)]
    storages = [engines(pool, tp_rank=rank, tp_size=2, is_mla_model=True) for rank, pool in enumerate(pools)]
    assert put(storages[0], pools[0], keys) == [True] * 4
    assert got(storages[1], pools[1], keys) == [True] * 4


def test_nobodyKnowsHowManyHeadsThereAre_eachRankHasPagesOfItsOwn(engines: Make) -> None:
    keys = keys_of(2)
    pools = [Pool("page_first", 16, HEADS // 2, rank * HEADS // 2) for rank in range(2)]
    storages = [engines(pool, heads=0, tp_rank=rank, tp_size=2) for rank, pool in enumerate(pools)]
    put(storages[0], pools[0], keys)
    assert [one.batch_exists(keys) for one in storages] == [2, 0]
    put(storages[1], pools[1], keys)
    assert got(storages[1], pools[1], keys) == [True] * 2


def test_stagesOfAPipeline_haveNamespacesOfTheirOwn(engines: Make) -> None:
    keys = keys_of(2)
    pools = [Pool("page_first", 16) for _ in range(2)]
    storages = [engines(pool, pp_rank=rank, pp_size=2) for rank, pool in enumerate(pools)]
    put(storages[0], pools[0], keys)
    assert [one.batch_exists(keys) for one in storages] == [2, 0]


def test_hole_givesExactlyThePagesBeforeIt(engines: Make, daemon: Daemon) -> None:
    pool = Pool("page_first_direct", 16)
    keys = keys_of(6)
    storage = engines(pool)
    put(storage, pool, keys)
    assert storage._pages.pools is not None
    assert storage._pages.pools[0].namespace.delete([bytes.fromhex(keys[3])]) == [Status.OK]
    assert storage.batch_exists(keys) == 3
    assert got(storage, pool, keys) == [True, True, True, False, True, True]
    assert put(storage, pool, keys) == [True] * 6
    assert storage.batch_exists(keys) == 6


def test_parentOfABatch_isThePageBeforeIt(engines: Make) -> None:
    pool = Pool("page_first_direct", 16)
    keys = keys_of(4)
    storage = engines(pool)
    assert storage._pages.transfers is not None
    seen: list[Any] = []
    put_whole = storage._pages.transfers.put
    storage._pages.transfers.put = lambda transfer, after=None: (seen.append(transfer), put_whole(transfer, after))[1]  # type: ignore[method-assign]
    storage.batch_set_v1(keys[2:], pool.indices([0, 1]), SimpleNamespace(prefix_keys=keys[:2]))
    assert (seen[0].depth, seen[0].parent, seen[0].keys) == (2, bytes.fromhex(keys[1]), [bytes.fromhex(key) for key in keys[2:]])


# ---- the daemon is not as it should be ----


def test_noDaemon_everythingIsAMiss(engines: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("page_first", 16)
    storage = engines(pool, {"kvtier.socket": str(tmp_path / "nothing")})
    keys = keys_of(3)
    assert storage.batch_exists(keys) == 0
    assert put(storage, pool, keys) == [False] * 3
    assert storage.batch_get_v1(keys, pool.indices([8, 9, 10])) == [False] * 3
    assert caplog.text.count("no daemon listens") == 1


def test_flushWithoutADaemon_looksAtTheWeightsWhenThereIsOne(engines: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, weights, looks = Pool("page_first", 16), Weights(), []
    storage = engines(pool, {"kvtier.socket": str(fresh_daemon.socket_path)}, weights=weights)
    loaded = storage._pages.model.loaded
    monkeypatch.setattr(storage._pages.model, "loaded", lambda: looks.append(None) or loaded())
    keys = keys_of(3)
    assert put(storage, pool, keys) == [True] * 3
    fresh_daemon.kill()
    assert storage.batch_exists(keys) == 0
    weights.array = weights.array + 1
    pool.clear()
    assert storage.batch_exists(keys) == 0
    assert put(storage, pool, keys) == storage.batch_get_v1(keys, pool.indices([8, 9, 10])) == [False] * 3
    assert not looks
    fresh_daemon.start()
    assert eventually(lambda: put(storage, pool, keys, 50) == [True] * 3)
    assert len(looks) == 1
    assert got(storage, pool, keys, 50) == [True] * 3


def test_daemonKilled_isAMiss_andFoundAgainWhenItIsBack(engines: Make, fresh_daemon: Daemon) -> None:
    daemon = fresh_daemon
    pool = Pool("page_first", 16)
    keys = keys_of(3)
    storage = engines(pool, {"kvtier.socket": str(daemon.socket_path), "kvtier.load_timeout_s": 1.0})
    assert put(storage, pool, keys) == [True] * 3
    daemon.kill()
    assert storage.batch_exists(keys) == 0
    assert storage.batch_get_v1(keys, pool.indices([8, 9, 10])) == [False] * 3
    daemon.start()
    assert eventually(lambda: put(storage, pool, keys) == [True] * 3)
    assert got(storage, pool, keys) == [True] * 3


def test_daemonRestarted_theFirstLookupBehindThatFindsThePages(engines: Make, fresh_daemon: Daemon) -> None:
    pool = Pool("page_first", 16)
    keys = keys_of(3)
    storage = engines(pool, {"kvtier.socket": str(fresh_daemon.socket_path)})
    put(storage, pool, keys)
    fresh_daemon.stop()
    fresh_daemon.start()
    # Where it does not keep pages itself, another engine has stored them since.
    put(engines(pool, {"kvtier.socket": str(fresh_daemon.socket_path)}), pool, keys)
    assert storage.batch_exists(keys) == 3


def test_keyThatIsNoHash_isAMissAndToldOnce(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("page_first", 16)
    storage = engines(pool)
    for _ in range(2):
        assert storage.batch_exists(["not a hash"]) == 0
        assert storage.batch_set_v1(["not a hash"], pool.indices([0])) == [False]
    assert caplog.text.count("expected hexadecimal digits") == 2


# ---- who shares pages ----


@pytest.mark.parametrize(("what", "changed"), [("dtype", {"args": {"kv_cache_dtype": "fp8_e5m2"}}), ("quantization", {"args": {"quantization": "fp8"}})])
def test_otherConfigurationInOneNamespace_keepsTheEngineFromStarting(engines: Make, what: str, changed: dict[str, Any], tmp_path: Path) -> None:
    engines(Pool("page_first", 16), {"kvtier.weights": "w"})
    changed["args"] |= {"model_path": str(model_folder(tmp_path / "same", HEADS))}
    with pytest.raises(RuntimeError, match=f"{what}.*another kvtier.namespace in --hicache-storage-backend-extra-config"):
        engines(Pool("page_first", 16), {"kvtier.weights": "w"}, **changed)


def test_otherPageSizeInOneNamespace_isRefused_andServedWithoutKvtierWhereThatIsWanted(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engines(Pool("page_first", 16), {"kvtier.weights": "w"})
    with pytest.raises(RuntimeError, match="block"):
        engines(Pool("page_first", 16, page_tokens=8), {"kvtier.weights": "w"})
    storage = engines(Pool("page_first", 16, page_tokens=8), {"kvtier.weights": "w", "kvtier.mismatch": "serve"})
    assert storage.batch_exists(keys_of(2)) == 0
    assert "kvtier does not mix blocks" in caplog.text


def test_otherWeights_findNothing(engines: Make) -> None:
    pool, other = Pool("page_first", 16), Pool("page_first", 16)
    keys = keys_of(3)
    put(engines(pool), pool, keys)
    assert engines(other).batch_exists(keys) == 3
    assert engines(other, content=b"two").batch_exists(keys) == 0


def test_madeUpWeights_areKnownByTheirBytes(engines: Make, tmp_path: Path) -> None:
    args = {"load_format": "dummy", "model_path": str(model_folder(tmp_path / "same", HEADS))}
    pool, other = Pool("page_first", 16), Pool("page_first", 16)
    keys = keys_of(3)
    put(engines(pool, args=args), pool, keys)
    assert engines(other, args=args).batch_exists(keys) == 3
    weights = Weights()
    weights.array = weights.array + 1
    assert engines(other, args=args, weights=weights).batch_exists(keys) == 0


@pytest.mark.parametrize("args", [{"enable_lora": True}])
def test_nobodyKnowsTheWeights_thePagesAreThisEnginesAlone(engines: Make, args: dict[str, Any], tmp_path: Path) -> None:
    args = args | {"model_path": str(model_folder(tmp_path / "same", HEADS))}
    pool, other = Pool("page_first", 16), Pool("page_first", 16)
    keys = keys_of(3)
    first = engines(pool, args=args)
    put(first, pool, keys)
    assert first.batch_exists(keys) == 3
    assert engines(other, args=args).batch_exists(keys) == 0


def test_flush_withTheSameWeightsFindsAll_andWithOthersNothing(engines: Make) -> None:
    pool = Pool("page_first", 16)
    keys = keys_of(3)
    weights = Weights()
    storage = engines(pool, weights=weights)
    put(storage, pool, keys)
    pool.clear()
    assert pool.cleared == 1
    assert storage.batch_exists(keys) == 3
    weights.array = weights.array + 1
    pool.clear()
    assert storage.batch_exists(keys) == 0
    assert storage.batch_get_v1(keys, pool.indices([8, 9, 10])) == [False] * 3
    assert put(storage, pool, keys, 50) == [True] * 3
    assert got(storage, pool, keys, 50) == [True] * 3
    weights.array = weights.array - 1
    pool.clear()
    assert got(storage, pool, keys) == [True] * 3


# ---- several pools ----


def pools(storage: KvtierStorage, name: str, side: Side, keys: list[str], policy: str, wanted: int = 1) -> Any:
    transfer = SimpleNamespace(
        name=name, keys=keys[-wanted:], hit_policy=sglang_double.sys.modules["sglang.srt.mem_cache.hicache_storage"].PoolHitPolicy(policy)
    )
    return storage.batch_exists_v2(keys, [transfer])


def test_states_areKeptBesidePages_andTheirRuleSaysHowFarAPrefixGoes(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtier.sglang import _storage

    monkeypatch.setattr(_storage, "_bytes_of", bytes)
    monkeypatch.setattr(_storage, "_page_of", lambda memory, at, like: bytes(memory[at : at + like.numel()]))
    pool, side = Pool("page_first", 16), Side(16)
    storage = engines(pool)
    storage.register_mem_host_pool_v2(side, "mamba")
    keys = keys_of(6)
    put(storage, pool, keys)
    for at in (1, 3):
        side.states[at] = bytes([at]) * Side.page_bytes
        stored = storage.batch_set_v2([SimpleNamespace(name="mamba", keys=[keys[at]], host_indices=[at])])
        assert stored == {"mamba": [True]}
    found = pools(storage, "mamba", side, keys, "trailing_pages")
    assert (found.kv_hit_pages, found.restorable_prefix_pages) == (4, [2, 4])
    assert pools(storage, "mamba", side, keys, "all_pages").kv_hit_pages == 0
    loaded = storage.batch_get_v2([SimpleNamespace(name="mamba", keys=[keys[3], keys[4]], host_indices=[9, 10])])
    assert loaded == {"mamba": [True, False]}
    assert side.states[9] == bytes([3]) * Side.page_bytes and side.states[10] == bytes(Side.page_bytes)


def test_poolThatIsNotKept_makesEveryPrefixThatNeedsItAMiss(engines: Make) -> None:
    pool = Pool("page_first", 16)
    storage = engines(pool)
    keys = keys_of(3)
    put(storage, pool, keys)
    assert pools(storage, "swa", Side(4), keys, "all_pages").kv_hit_pages == 0


@dataclass
class ResultOfOlderVersions:
    """``PoolTransferResult`` as SGLang 0.5.17 has it."""

    kv_hit_pages: int
    extra_pool_hit_pages: dict[str, int]


def test_lookupOfSeveralPools_tellsOlderVersionsTheLongestPrefixOnly(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtier.sglang import _storage

    monkeypatch.setattr(_storage, "PoolTransferResult", ResultOfOlderVersions)
    pool = Pool("page_first", 16)
    storage = engines(pool)
    keys = keys_of(3)
    put(storage, pool, keys)
    assert storage.batch_exists_v2(keys) == ResultOfOlderVersions(3, {"kv": 3})
    assert pools(storage, "swa", Side(4), keys, "all_pages") == ResultOfOlderVersions(0, {"kv": 3})


# ---- what is refused ----


def test_oldInterface_isRefusedWithWhatToAdd() -> None:
    with pytest.raises(InvalidArgument, match='add "interface_v1": 1'):
        KvtierStorage(config({"interface_v1": 0}), {})


def test_unknownSetting_isRefusedWithTheCloseOne() -> None:
    with pytest.raises(InvalidArgument, match="did you mean kvtier.socket"):
        KvtierStorage(config({"kvtier.sockte": "x"}), {})


@pytest.mark.parametrize("changed", [{"attn_cp_size": 2}, {"dcp_size": 2}])
def test_contextParallelism_isServedWithoutKvtier(engines: Make, changed: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    storage = engines(Pool("page_first", 16), **changed)
    assert storage.batch_exists(keys_of(2)) == 0
    assert "context parallelism of 2 ranks is not supported" in caplog.text


def test_ranksOnSeveralMachines_areServedWithoutKvtier(engines: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = engines(Pool("page_first", 16), args={"nnodes": 2, "model_path": str(model_folder(tmp_path / "m"))})
    assert storage.batch_exists(keys_of(2)) == 0
    assert "run on 2 machines" in caplog.text


def test_poolOfWhichNobodyKnowsTheLayout_isServedWithoutKvtier(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    storage = engines(Pool("unheard_of", 16))
    assert storage.batch_exists(keys_of(2)) == 0
    assert "nobody knows how pages lie in a Pool of layout unheard_of" in caplog.text


def test_settings_keepItFromStoringOrLoading(engines: Make) -> None:
    pool = Pool("page_first", 16)
    keys = keys_of(2)
    assert put(engines(pool, {"kvtier.store": "none"}), pool, keys) == [False] * 2
    put(engines(pool), pool, keys)
    silent = engines(pool, {"kvtier.load": False})
    assert silent.batch_exists(keys) == 0
    assert silent.batch_get_v1(keys, pool.indices([8, 9])) == [False] * 2


@pytest.mark.parametrize("kind", ["exact", "fp8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_encodedPagesTakeFewerBytes_exceptInPoolsWhosePartsOfAPageLieApart(
    engines: Make, daemon: Daemon, layout: str, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sglang_double.bf16_pages(monkeypatch)
    is_encoded = layout != "layer_first"
    keys = keys_of(4)
    pool, other = (Pool(layout, 16, page_tokens=64) for _ in range(2))
    with caplog.at_level(logging.WARNING, "sglang.kvtier"), Client(daemon.socket_path, timeout=60) as client:
        before = client.counters()["put_encoded"]
        assert put(engines(pool, {"kvtier.encoding": kind}), pool, keys) == [True] * 4
        assert client.counters()["put_encoded"] - before == 4 * is_encoded
    assert ("pages are stored raw" in caplog.text) != is_encoded
    assert got(engines(other, {"kvtier.encoding": kind}), other, keys) == [True] * 4
    plain = Pool(layout, 16, page_tokens=64)
    assert engines(plain).batch_exists(keys) == (0 if is_encoded else 4)


def test_clear_deletesThePages(engines: Make) -> None:
    pool = Pool("page_first", 16)
    keys = keys_of(2)
    storage = engines(pool)
    put(storage, pool, keys)
    storage.clear()
    assert storage.batch_exists(keys) == 0


