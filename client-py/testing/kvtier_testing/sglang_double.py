"""The parts of SGLang that its adapters use: the package itself where it is installed, otherwise a double of its classes.

And pools, in host memory and on the device, as NumPy arrays whose every value tells where it belongs.
"""

import importlib.util
import json
import sys
import threading
import types
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy
import pytest

from kvtier_testing.kv import bf16
from kvtier_testing.tensors import Tensor

T = TypeVar("T")

PAGE_TOKENS = 4
LAYERS = 3
HEADS = 4
DIM = 8


def _install_double() -> None:
    class HiCacheStorage:
        def register_mem_pool_host(self, mem_pool_host: Any) -> None:
            self.mem_pool_host = mem_pool_host

        def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
            self.registered_pools = {**getattr(self, "registered_pools", {}), host_pool_name: host_pool}

    class PoolHitPolicy(str, Enum):
        ALL_PAGES = "all_pages"
        TRAILING_PAGES = "trailing_pages"
        BLOCK_GROUPS = "block_groups"

    @dataclass
    class PoolTransferResult:
        kv_hit_pages: int
        extra_pool_hit_pages: dict[str, int]
        restorable_prefix_pages: list[int] | None = None

    class PoolName(str, Enum):
        KV = "kv"
        SWA = "swa"

    class UnifiedCacheLinker:
        def record_offload_ready(self) -> list[Any]:
            raise AssertionError("tensors in memory have no events")

    def module(name: str, **content: Any) -> None:
        made = types.ModuleType(name)
        made.__path__ = []
        sys.modules[name] = made
        vars(made).update(content)

    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.mem_cache.unified_cache"):
        module(name)
    module(
        "sglang.srt.mem_cache.hicache_storage", HiCacheStorage=HiCacheStorage, PoolHitPolicy=PoolHitPolicy, PoolTransferResult=PoolTransferResult,
        PoolName=PoolName,
    )  # fmt: skip
    module("sglang.srt.mem_cache.unified_cache.unified_cache_linker", UnifiedCacheLinker=UnifiedCacheLinker)


if importlib.util.find_spec("sglang") is None:
    _install_double()

from kvtier.sglang import KvtierStorage, _engine  # noqa: E402
from kvtier.sglang._peers import Peers  # noqa: E402
from kvtier.sglang.linker import KvtierLinker  # noqa: E402

__all__ = [
    "DevicePool",
    "KvtierLinker",
    "KvtierStorage",
    "Pool",
    "Ranks",
    "Side",
    "Transfer",
    "Weights",
    "config",
    "device_pool",
    "made_linkers",
    "model_folder",
    "params",
    "set_args",
    "together",
]


def config(extra: dict[str, Any], **changed: Any) -> Any:
    """A ``HiCacheStorageConfig`` with all that the backend looks at."""
    made = {
        "tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0, "attn_cp_size": 1, "is_mla_model": False,
        "model_name": "tiny", "dcp_size": 1, "dcp_rank": 0, "dp_rank": 0,
    }  # fmt: skip
    return SimpleNamespace(**(made | {"extra_config": {"interface_v1": 1} | extra} | changed))


def model_folder(folder: Path, heads: int = HEADS, content: bytes = b"one") -> Path:
    """The files of a model: so many heads of keys and values, and these weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"num_key_value_heads": heads, "num_hidden_layers": LAYERS}))
    (folder / "model.safetensors").write_bytes(content)
    return folder


class Pool:
    """A host pool of one rank: keys and values, or the latent vectors of MLA."""

    def __init__(self, layout: str, pages: int, heads: int = HEADS, first_head: int = 0, mla: bool = False, page_tokens: int = PAGE_TOKENS) -> None:
        self.layout = layout
        self.page_size = page_tokens
        self.page_num = pages
        self.size = pages * page_tokens
        self.layer_num = self.target_layer_num = LAYERS
        self.start_layer, self.end_layer = 0, LAYERS
        self.dtype = "torch.uint16"
        self.cleared = 0
        self._first_head = first_head
        self._mla = mla
        extents = {"C": 2, "L": LAYERS, "B": pages, "N": page_tokens, "T": self.size, "H": heads, "D": DIM}
        axes = {
            "layer_first": "CLTHD", "page_first": "CTLHD", "page_first_direct": "CBLNHD", "page_head": "CBHNLD", "unheard_of": "CLTHD",
        }[layout]  # fmt: skip
        self._axes = axes.removeprefix("C") if mla else axes
        self.kv_buffer: Any = Tensor(numpy.zeros([extents[axis] for axis in self._axes], dtype=numpy.uint16))

    def page(self, number: int) -> Any:
        """A page, in one order whatever the layout: [keys and values, layer, token, head, element]. A view that can be written."""
        array, axes = self.kv_buffer.array, self._axes
        if self._mla:
            array, axes = array[numpy.newaxis], "C" + axes
        if "T" in axes:
            at = axes.index("T")
            array = array.reshape(*array.shape[:at], self.page_num, self.page_size, *array.shape[at + 1 :])
            axes = axes.replace("T", "BN")
        array = array[(slice(None),) * axes.index("B") + (number,)]
        axes = axes.replace("B", "")
        return array.transpose([axes.index(axis) for axis in "CLNHD"])

    def fill(self, number: int, seed: int) -> None:
        """With the values of a page of that seed: each tells its layer, token and head."""
        page = self.page(number)
        heads = page.shape[3]
        page[...] = right(seed, page.shape[0], self.page_size)[:, :, :, self._first_head : self._first_head + heads]

    def is_page(self, number: int, seed: int) -> bool:
        page = self.page(number)
        heads = page.shape[3]
        expected = right(seed, page.shape[0], self.page_size)[:, :, :, self._first_head : self._first_head + heads]
        return bool(numpy.array_equal(page, expected))

    def indices(self, numbers: list[int]) -> Any:
        """Of all tokens of these pages."""
        return numpy.array([number * self.page_size + token for number in numbers for token in range(self.page_size)])

    def clear(self) -> None:
        self.cleared += 1


class DevicePool:
    """A device pool of one rank: keys and values in tensors of their own for each layer, or the latent vectors of MLA."""

    def __init__(self, pages: int, heads: int, first_head: int, page_tokens: int, mla: bool) -> None:
        self.size = (pages - 1) * page_tokens
        self.page_size = page_tokens
        self.dtype = self.store_dtype = "torch.uint16"
        self.layer_num = LAYERS
        self.start_layer, self.end_layer = 0, LAYERS
        self._first_head = first_head
        self._planes = 1 if mla else 2
        tensors = [Tensor(numpy.zeros([pages * page_tokens, heads, DIM], dtype=numpy.uint16)) for _ in range(LAYERS * self._planes)]
        self.tensors = tensors
        if mla:
            self.kv_buffer = tensors
        else:
            self.k_buffer, self.v_buffer = tensors[:LAYERS], tensors[LAYERS:]

    def page(self, number: int) -> Any:
        """A page, in the order of `Pool.page`; a copy."""
        tokens = slice(number * self.page_size, (number + 1) * self.page_size)
        cells = numpy.stack([one.array[tokens] for one in self.tensors])
        return cells.reshape(self._planes, LAYERS, *cells.shape[1:])

    def _right(self, seed: int) -> Any:
        heads = self.tensors[0].shape[1]
        return right(seed, self._planes, self.page_size)[:, :, :, self._first_head : self._first_head + heads]

    def fill(self, number: int, seed: int) -> None:
        tokens = slice(number * self.page_size, (number + 1) * self.page_size)
        cells = self._right(seed)
        for at, one in enumerate(self.tensors):
            one.array[tokens] = cells[at // LAYERS, at % LAYERS]

    def is_page(self, number: int, seed: int) -> bool:
        return bool(numpy.array_equal(self.page(number), self._right(seed)))

    def indices(self, numbers: list[int]) -> Any:
        return numpy.array([number * self.page_size + token for number in numbers for token in range(self.page_size)])


def device_pool(pages: int, heads: int = HEADS, first_head: int = 0, page_tokens: int = PAGE_TOKENS, mla: bool = False, name: str = "") -> Any:
    """A device pool of SGLang's class of this name; empty: the one that fits."""
    kind = type(name or ("MLATokenToKVPool" if mla else "MHATokenToKVPool"), (DevicePool,), {})
    return kind(pages, heads, first_head, page_tokens, mla)


@dataclass
class Transfer:
    """SGLang's ``PoolTransfer``."""

    name: str
    keys: list[str]
    device_indices: Any = None


class Ranks(Peers):
    """One rank of several, each in a thread of its own. They meet as processes do in a collective."""

    def __init__(self, rank: int, barrier: threading.Barrier, told: list[Any]) -> None:
        super().__init__(None, rank, barrier.parties)
        self._barrier = barrier
        self._told = told

    @classmethod
    def several(cls, count: int) -> "list[Ranks]":
        barrier, told = threading.Barrier(count, timeout=60), [None] * count
        return [cls(rank, barrier, told) for rank in range(count)]

    def _all(self, mine: Any) -> list[Any]:
        self._told[self.rank] = mine
        self._barrier.wait()
        told = list(self._told)
        self._barrier.wait()
        return told

    def gathered(self, mine: str) -> list[str]:
        return self._all(mine)

    def agreed(self, mine: bool) -> bool:
        return all(self._all(mine))


def params(pool: Any, **changed: Any) -> Any:
    """A ``CacheInitParams`` with all that the linker looks at."""
    made = {
        "token_to_kv_pool_allocator": SimpleNamespace(get_kvcache=lambda: pool), "page_size": pool.page_size, "pp_rank": 0, "pp_size": 1,
        "attn_cp_rank": 0, "attn_cp_size": 1,
    }  # fmt: skip
    return SimpleNamespace(**(made | changed))


def made_linkers(
    monkeypatch: Any, pools: list[Any], extra: dict[str, Any], weights: "list[Weights] | None" = None, components: tuple[str, ...] = ("FULL",),
    **changed: Any,
) -> list[KvtierLinker]:  # fmt: skip
    """The linkers of an engine, one for each rank's pool: they are made at the same time, as they meet."""
    ranks = Ranks.several(len(pools))
    weights = weights or [Weights() for _ in pools]

    def make(rank: int) -> KvtierLinker:
        made = params(pools[rank], peers=ranks[rank], **changed)
        return weights[rank].link(made, extra, [SimpleNamespace(name=one) for one in components])

    monkeypatch.setattr(Peers, "of", classmethod(lambda _, given: given.peers))
    return together([partial(make, rank) for rank in range(len(pools))])


def together(calls: "Sequence[Callable[[], T]]") -> "list[T]":
    """Has each rank call something in a thread of its own; what they return."""
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(len(calls)) as threads:
        begun = [threads.submit(call) for call in calls]
        wait(begun)
        return [one.result() for one in begun]


def right(seed: int, planes: int, tokens: int = PAGE_TOKENS) -> Any:
    return numpy.random.default_rng(seed).integers(0, 1 << 16, (planes, LAYERS, tokens, 16, DIM), dtype=numpy.uint16)


def bf16_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has pools made from now on hold elements of bf16 with the values of a KV cache, as far as every encoding keeps them: with three bits
    of mantissa, and none that is far below the others."""

    def values(seed: int, planes: int, tokens: int = PAGE_TOKENS) -> Any:
        shape = (planes, LAYERS, tokens, 16, DIM)
        made = numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)
        made[numpy.abs(made) < 2**-6] = 0
        return numpy.frombuffer(bf16(made), dtype=numpy.uint16).reshape(shape) & numpy.uint16(0xFFF0)

    monkeypatch.setattr(Tensor, "dtype", "torch.bfloat16")
    monkeypatch.setitem(globals(), "right", values)


class Page:
    """A flat page, as far as the backend looks at one."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype = "torch.uint8"
        self.shape = array.shape

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return int(self.array.itemsize)


class Side:
    """A pool of states: a page of one is one piece of bytes."""

    layout = "page_first"
    page_size = 1
    page_bytes = 100

    def __init__(self, pages: int) -> None:
        self.states = [bytes(self.page_bytes)] * pages

    def get_dummy_flat_data_page(self) -> Page:
        return Page(numpy.zeros(self.page_bytes, dtype=numpy.uint8))

    def get_data_page(self, index: int, flat: bool = True) -> bytes:
        return self.states[index]

    def set_from_flat_data_page(self, index: int, page: bytes) -> None:
        self.states[index] = page


@dataclass
class Weights:
    """The frame of SGLang's scheduler, in which the backend looks for the model."""

    array: Any = field(default_factory=lambda: numpy.arange(64, dtype=numpy.uint8))

    @property
    def tp_worker(self) -> Any:
        model = SimpleNamespace(named_parameters=lambda: [("weight", Tensor(self.array))], named_buffers=list)
        return SimpleNamespace(model_runner=SimpleNamespace(model=model))

    def make(self, made: Any) -> KvtierStorage:
        return KvtierStorage(made, {})

    def link(self, made: Any, extra: dict[str, Any], components: list[Any]) -> KvtierLinker:
        return KvtierLinker(None, made, components=components, extra_config=extra)


def set_args(monkeypatch: Any, **args: Any) -> None:
    """What the engine was started with."""
    monkeypatch.setattr(_engine, "server_args", lambda: SimpleNamespace(**args))
