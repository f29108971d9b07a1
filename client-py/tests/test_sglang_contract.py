"""The contract of adapters, kept by SGLang's storage backend."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from kvtier_testing.daemon import Daemon
from kvtier_testing.direct_engine import LosingOnce
from kvtier_testing.sglang_double import HEADS, PAGE_TOKENS, KvtierStorage, Pool, Weights, config, model_folder, set_args

from kvtier.engine.groups import ALL, Need
from kvtier.engine.testing import AdapterContract, Driver, Part, Wanted

PAGES = 64


class SglangEngine(Driver):
    """Ranks with some of the heads each: a page is looked for, read and written by all of them."""

    unit_tokens = PAGE_TOKENS
    needs = (Need(PAGE_TOKENS, ALL),)

    def __init__(self, wanted: Wanted) -> None:
        each = HEADS // wanted.ranks
        self._weights = wanted.weights
        self._pools = [Pool("page_first", PAGES, each, rank * each) for rank in range(wanted.ranks)]
        self._storages: list[KvtierStorage] = []
        settings = {
            "kvtier.socket": wanted.socket, "kvtier.namespace": wanted.namespace, "kvtier.weights": wanted.weights, "kvtier.mismatch": wanted.mismatch,
            "kvtier.lookup_s_max": wanted.lookup_s_max, "kvtier.load_timeout_s": wanted.load_timeout_s, "kvtier.put_timeout_s": wanted.put_timeout_s,
        }  # fmt: skip
        for rank, pool in enumerate(self._pools):
            storage = Weights().make(config(settings, tp_rank=rank, tp_size=wanted.ranks))
            self._storages.append(storage)
            storage.register_mem_pool_host(pool)
        self._found: dict[tuple[int, ...], int] = {}

    def _keys(self, prompt: Sequence[int]) -> list[str]:
        ends = range(PAGE_TOKENS, len(prompt) + 1, PAGE_TOKENS)
        return [hashlib.sha256(repr(list(prompt[:end])).encode()).hexdigest() for end in ends]

    def _seed(self, prompt: Sequence[int], page: int) -> int:
        text = repr((self._weights, list(prompt[: (page + 1) * PAGE_TOKENS])))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def find(self, prompt: Sequence[int]) -> int:
        pages = min(one.batch_exists(self._keys(prompt)) for one in self._storages)
        self._found[tuple(prompt)] = pages
        return pages * PAGE_TOKENS

    def serve(self, prompt: Sequence[int]) -> int:
        self.find(prompt) if tuple(prompt) not in self._found else None
        keys = self._keys(prompt)
        found = self._found.pop(tuple(prompt))
        pages = min(self._loaded(storage, pool, keys[:found]) for storage, pool in zip(self._storages, self._pools, strict=True))
        for pool in self._pools:
            for page in range(pages):
                assert pool.is_page(page, self._seed(prompt, page)), f"wrong bytes in page {page}"
            for page in range(pages, len(keys)):
                pool.fill(page, self._seed(prompt, page))
        for storage, pool in zip(self._storages, self._pools, strict=True):
            storage.batch_set_v1(keys[pages:], pool.indices(list(range(pages, len(keys)))))
        return pages * PAGE_TOKENS

    @staticmethod
    def _loaded(storage: KvtierStorage, pool: Pool, keys: list[str]) -> int:
        """As SGLang counts: up to the first page that did not come."""
        told = storage.batch_get_v1(keys, pool.indices(list(range(len(keys)))))
        return next((page for page, is_there in enumerate(told) if not is_there), len(keys))

    def abandon(self, prompt: Sequence[int]) -> None:
        del self._found[tuple(prompt)]

    def parts(self, prompt: Sequence[int]) -> Sequence[Sequence[Part]]:
        storage = self._storages[0]
        assert storage.named is not None and storage._pools is not None
        keys = [bytes.fromhex(key) for key in self._keys(prompt)]
        return [[Part(storage.named.name, storage._pools[0].namespace.block_bytes, storage.named.properties, keys)]]

    def lose(self, rank: int, block: int) -> None:
        pools = self._storages[rank]._pools
        assert pools is not None
        pools.regions[0] = LosingOnce(pools.regions, block)  # type: ignore[call-overload]

    def close(self) -> None:
        for storage in self._storages:
            storage.close()


class TestSglang(AdapterContract):
    RANKS = 2

    @pytest.fixture(autouse=True)
    def _begin(self, fresh_daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self._folder = model_folder(tmp_path / "model")
        self._monkeypatch = monkeypatch
        self.begin(fresh_daemon)
        yield
        self.end()

    def make(self, wanted: Wanted) -> Driver:
        told = "auto" if wanted.configuration == "one" else "fp8_e5m2"
        set_args(self._monkeypatch, model_path=str(self._folder), kv_cache_dtype=told)
        return SglangEngine(wanted)
