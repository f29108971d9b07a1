"""The parts of SGLang that the storage backend uses: the package itself where it is installed, otherwise a double of its classes.

And host pools of hierarchical caching, as NumPy arrays whose every value tells where it belongs.
"""

import importlib.util
import json
import sys
import types
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy

from kvtier_testing.tensors import Tensor

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

    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.mem_cache.hicache_storage"):
        made = types.ModuleType(name)
        made.__path__ = []
        sys.modules[name] = made
    vars(made).update(HiCacheStorage=HiCacheStorage, PoolHitPolicy=PoolHitPolicy, PoolTransferResult=PoolTransferResult)


if importlib.util.find_spec("sglang") is None:
    _install_double()

from kvtier.sglang import KvtierStorage, _engine  # noqa: E402

__all__ = ["KvtierStorage", "Pool", "Side", "Weights", "config", "model_folder"]


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


def right(seed: int, planes: int, tokens: int = PAGE_TOKENS) -> Any:
    return numpy.random.default_rng(seed).integers(0, 1 << 16, (planes, LAYERS, tokens, 16, DIM), dtype=numpy.uint16)


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


def set_args(monkeypatch: Any, **args: Any) -> None:
    """What the engine was started with."""
    monkeypatch.setattr(_engine, "server_args", lambda: SimpleNamespace(**args))
