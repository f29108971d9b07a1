"""The contract of adapters, kept by SGLang's storage backend and by its linker."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.direct_engine import LosingOnce
from kvtier_testing.sglang_double import (
    HEADS,
    LAYERS,
    PAGE_TOKENS,
    KvtierStorage,
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

from kvtier.engine.groups import ALL, Need
from kvtier.engine.testing import AdapterContract, Driver, Part, Wanted

PAGES = 64


def settings_of(wanted: Wanted) -> dict[str, Any]:
    return {
        "kvtier.socket": wanted.socket, "kvtier.namespace": wanted.namespace, "kvtier.weights": wanted.weights, "kvtier.mismatch": wanted.mismatch,
        "kvtier.lookup_s_max": wanted.lookup_s_max, "kvtier.load_timeout_s": wanted.load_timeout_s, "kvtier.put_timeout_s": wanted.put_timeout_s,
    }  # fmt: skip


class SglangDriver(Driver):
    """Ranks with some of the heads each: a page is looked for, read and written by all of them."""

    unit_tokens = PAGE_TOKENS
    needs = (Need(PAGE_TOKENS, ALL),)

    def __init__(self, wanted: Wanted) -> None:
        self._weights = wanted.weights
        self._found: dict[tuple[int, ...], int] = {}

    def _keys(self, prompt: Sequence[int]) -> list[str]:
        ends = range(PAGE_TOKENS, len(prompt) + 1, PAGE_TOKENS)
        return [hashlib.sha256(repr(list(prompt[:end])).encode()).hexdigest() for end in ends]

    def _seed(self, prompt: Sequence[int], page: int) -> int:
        text = repr((self._weights, list(prompt[: (page + 1) * PAGE_TOKENS])))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    @abstractmethod
    def _pages(self) -> Any:
        """What both adapters share, of the first rank."""

    def abandon(self, prompt: Sequence[int]) -> None:
        del self._found[tuple(prompt)]

    def parts(self, prompt: Sequence[int]) -> Sequence[Sequence[Part]]:
        pages = self._pages()
        keys = [bytes.fromhex(key) for key in self._keys(prompt)]
        return [[Part(pages.named.name, pages.pools[0].namespace.block_bytes, pages.named.properties, keys)]]


class StorageDriver(SglangDriver):
    """An engine with the storage backend of hierarchical caching."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        each = HEADS // wanted.ranks
        self._pools = [Pool("page_first", PAGES, each, rank * each) for rank in range(wanted.ranks)]
        self._storages: list[KvtierStorage] = []
        self._said: Any = None
        for rank, pool in enumerate(self._pools):
            storage = Weights().make(config(settings_of(wanted), tp_rank=rank, tp_size=wanted.ranks))
            self._storages.append(storage)
            storage.register_mem_pool_host(pool)

    def wish(self, wishes: dict[str, Any]) -> None:
        self._said = SimpleNamespace(prefix_keys=None, extra_info={"kvtier": wishes})

    def _pages(self) -> Any:
        return self._storages[0]._pages

    def find(self, prompt: Sequence[int]) -> int:
        pages = min(one.batch_exists(self._keys(prompt), self._said) for one in self._storages)
        self._found[tuple(prompt)] = pages
        return pages * PAGE_TOKENS

    def serve(self, prompt: Sequence[int]) -> int:
        self.find(prompt) if tuple(prompt) not in self._found else None
        keys = self._keys(prompt)
        found = self._found.pop(tuple(prompt))
        said, self._said = self._said, None
        pages = min(self._loaded(storage, pool, keys[:found], said) for storage, pool in zip(self._storages, self._pools, strict=True))
        for pool in self._pools:
            for page in range(pages):
                assert pool.is_page(page, self._seed(prompt, page)), f"wrong bytes in page {page}"
            for page in range(pages, len(keys)):
                pool.fill(page, self._seed(prompt, page))
        for storage, pool in zip(self._storages, self._pools, strict=True):
            storage.batch_set_v1(keys[pages:], pool.indices(list(range(pages, len(keys)))), said)
        return pages * PAGE_TOKENS

    @staticmethod
    def _loaded(storage: KvtierStorage, pool: Pool, keys: list[str], said: Any) -> int:
        """As SGLang counts: up to the first page that did not come."""
        told = storage.batch_get_v1(keys, pool.indices(list(range(len(keys)))), said)
        return next((page for page, is_there in enumerate(told) if not is_there), len(keys))

    def lose(self, rank: int, block: int) -> None:
        pools = self._storages[rank]._pages.pools
        assert pools is not None
        pools.regions[0] = LosingOnce(pools.regions, block)  # type: ignore[call-overload]

    def close(self) -> None:
        for storage in self._storages:
            storage.close()


class LinkerDriver(SglangDriver):
    """An engine with the linker. It fails if SGLang would abort a request, or if ranks do not decide alike."""

    loads_whole = True

    def __init__(self, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(wanted)
        each = HEADS // wanted.ranks
        self._pools = [device_pool(PAGES, each, rank * each) for rank in range(wanted.ranks)]
        self._linkers = made_linkers(monkeypatch, self._pools, settings_of(wanted))

    def _pages(self) -> Any:
        return self._linkers[0]._pages

    def _each(self, name: str, *of_ranks: Sequence[Any]) -> list[Any]:
        """Has all ranks call a method, each with its own arguments."""
        arguments = list(zip(*of_ranks, strict=True)) if of_ranks else [()] * len(self._linkers)
        return together([partial(getattr(one, name), *some) for one, some in zip(self._linkers, arguments, strict=True)])

    def _all(self, value: Any) -> list[Any]:
        return [value] * len(self._linkers)

    def find(self, prompt: Sequence[int]) -> int:
        lengths = self._each("lookup", self._all("request"), self._all([Transfer("kv", self._keys(prompt))]))
        common = set(lengths[0]).intersection(*lengths)
        self._found[tuple(prompt)] = max(common, default=0)
        return self._found[tuple(prompt)] * PAGE_TOKENS

    def serve(self, prompt: Sequence[int]) -> int:
        self.find(prompt) if tuple(prompt) not in self._found else None
        keys = self._keys(prompt)
        pages = self._found.pop(tuple(prompt))
        if pages and not self._load(keys[:pages]):
            pages = 0
        # Places of the device count from 1: the first page is for tokens that nobody reads.
        for pool in self._pools:
            for page in range(pages):
                assert pool.is_page(1 + page, self._seed(prompt, page)), f"wrong bytes in page {page}"
            for page in range(pages, len(keys)):
                pool.fill(1 + page, self._seed(prompt, page))
        begun = self._each("offload", [[transfer] for transfer in self._transfers(keys)])
        assert len(set(begun)) == 1, "ranks do not count stores alike"
        if begun[0]:
            assert eventually(lambda: self._each("num_completed_offloads") == self._all(1))
            self._each("pop_completed_offload")
        return pages * PAGE_TOKENS

    def _transfers(self, keys: list[str]) -> list[Transfer]:
        places = list(range(1, 1 + len(keys)))
        return [Transfer("kv", keys, pool.indices(places)) for pool in self._pools]

    def _load(self, keys: list[str]) -> bool:
        announced = self._each("load", self._all("request"), [[transfer] for transfer in self._transfers(keys)])
        assert len(set(announced)) == 1, "ranks do not load alike"
        if not announced[0]:
            return False
        indices = self._each("start_layer_wise_loading")
        for one, index in zip(self._linkers, indices, strict=True):
            one.layer_done_counter.set_consumer(index)
            for layer in range(LAYERS):
                one.layer_done_counter.wait_until(layer)
        assert self._each("finish_layer_wise_loading", indices) == self._all(True), "SGLang aborts the request"
        return True

    def lose(self, rank: int, block: int) -> None:
        pools = self._linkers[rank]._pages.pools
        assert pools is not None
        pools.regions[0] = LosingOnce(pools.regions, block)  # type: ignore[call-overload]

    def close(self) -> None:
        self._each("close")


class SglangContract(AdapterContract):
    RANKS = 2

    @pytest.fixture(autouse=True)
    def _begin(self, fresh_daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self._folder = model_folder(tmp_path / "model")
        self._monkeypatch = monkeypatch
        self.begin(fresh_daemon)
        yield
        self.end()

    def _configure(self, wanted: Wanted) -> None:
        told = "auto" if wanted.configuration == "one" else "fp8_e5m2"
        set_args(self._monkeypatch, model_path=str(self._folder), kv_cache_dtype=told)


class TestStorage(SglangContract):
    HAS_WISHES = True

    def make(self, wanted: Wanted) -> Driver:
        self._configure(wanted)
        return StorageDriver(wanted)


class TestLinker(SglangContract):
    def make(self, wanted: Wanted) -> Driver:
        self._configure(wanted)
        return LinkerDriver(wanted, self._monkeypatch)
