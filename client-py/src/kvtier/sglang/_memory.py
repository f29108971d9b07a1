"""The pools of SGLang, in its hierarchical cache and on its device: where a page lies in them, and what a page is in a namespace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvtier.torch import Shard

ORDER = "CLND"
"""how a page's cells follow one another in the daemon: as in the layout ``page_first_direct``"""

_LETTERS = {
    "layer_first": ("CLBNHD", 2), "page_first": ("CBNLHD", 1), "page_first_direct": ("CBLNHD", None), "page_head": ("CBHNLD", None),
}  # fmt: skip
"""of each layout of keys and values: the axes with pages and their tokens apart, and which axis counts the tokens of all pages"""


_SCALES = ("k_scale_buffer", "v_scale_buffer", "native_k_scale_buffer", "native_v_scale_buffer")
"""what a device pool has beside its keys and values, where those are quantized in groups"""


@dataclass(frozen=True, slots=True)
class Ranks:
    """One rank of an engine whose ranks have some of the heads each."""

    rank: int = 0
    size: int = 1
    heads: int = 0
    """how many heads of keys and values the model has; 0: nobody knows"""

    @property
    def is_joint(self) -> bool:
        """Whether the ranks put the pages of all heads together, and engines with other numbers of ranks find them."""
        return self.size == 1 or (self.heads > 0 and (self.heads % self.size == 0 or self.size % self.heads == 0))


class Memory(NamedTuple):
    """A pool, as a region is made of it."""

    tensors: list[Any]
    block_axes: list[int]
    page_bytes: int
    """of the tensors"""
    shard: Shard | None
    """of pages that are not encoded; None: this rank's pages are blocks of their own"""
    layout: str
    """what decides about the bytes beside the form, or beside the extents"""


def memory_of(pool: Any, ranks: Ranks) -> Memory | None:
    """What a host pool is; None: nobody knows how its pages lie.

    Args:
        pool: SGLang's ``HostKVCache`` of keys and values, or of MLA's latent vectors.
        ranks: of the engine; ranks with equal pages are one.
    """
    buffer = getattr(pool, "kv_buffer", None)
    layout = str(getattr(pool, "layout", ""))
    known = _LETTERS.get(layout)
    if known is None or buffer is None or not hasattr(buffer, "data_ptr"):
        return None
    letters, tokens_axis = known
    if len(buffer.shape) == len(letters) - (2 if tokens_axis is not None else 1):
        # No keys and values apart: latent vectors.
        letters = letters.removeprefix("C")
        tokens_axis = None if tokens_axis is None else tokens_axis - 1
    if tokens_axis is not None:
        buffer = buffer.unflatten(tokens_axis, (int(pool.page_num), int(pool.page_size)))
    if len(buffer.shape) != len(letters) or buffer.shape[letters.index("B")] != int(pool.page_num):
        return None
    tensors, axes = _of_layers(buffer, letters)
    return _memory(tensors, axes, int(pool.page_size), ranks)


def device_memory_of(pool: Any, page_tokens: int, ranks: Ranks) -> Memory | None:
    """What a device pool is; None: nobody knows how its pages lie, or it has more of a page than keys and values.

    Args:
        pool: SGLang's ``KVCache``: ``MHATokenToKVPool``, whose keys and values are tensors of their own, or ``MLATokenToKVPool``.
        page_tokens: how many tokens a page has.
        ranks: of the engine; ranks with equal pages are one.
    """
    # Other classes, also those derived from these, have bytes of a page elsewhere, or in another order.
    known = type(pool).__name__
    if known == "MHATokenToKVPool":
        if getattr(pool, "kv_cache_layout", "nhd") != "nhd" or any(getattr(pool, name, None) is not None for name in _SCALES):
            return None
        tensors, planes = [*pool.k_buffer, *pool.v_buffer], 2
    elif known == "MLATokenToKVPool":
        tensors, planes = list(pool.kv_buffer), 1
    else:
        return None
    shape = tuple(tensors[0].shape) if tensors else ()
    if len(shape) != len("THD") or shape[0] % page_tokens or any(tuple(one.shape) != shape for one in tensors):
        return None
    paged = [one.unflatten(0, (shape[0] // page_tokens, page_tokens)) for one in tensors]
    return _memory(paged, "BNHD", page_tokens, ranks, planes)


def _memory(tensors: list[Any], axes: str, page_tokens: int, ranks: Ranks, planes: int = 1) -> Memory:
    """Of tensors that are all alike."""
    first = tensors[0]
    element = str(first.dtype).removeprefix("torch.")
    page_bytes = sum(int(one.numel() // one.shape[axes.index("B")] * one.element_size()) for one in tensors)
    if not ranks.is_joint:
        text = f"{element} {axes} {','.join(str(extent) for axis, extent in zip(axes, first.shape, strict=True) if axis != 'B')}"
        return Memory(tensors, [axes.index("B")] * len(tensors), page_bytes, None, f"{text} x {len(tensors)}")
    heads = int(first.shape[axes.index("H")])
    copies = max(1, ranks.size // ranks.heads) if ranks.heads else 1
    shard = Shard(
        [axes] * len(tensors), page_tokens, heads * (ranks.size // copies), ranks.rank // copies * heads,
        replica=(ranks.rank % copies, copies), order=ORDER, planes=planes,
    )  # fmt: skip
    return Memory(tensors, [], page_bytes, shard, element)


def _of_layers(buffer: Any, letters: str) -> tuple[list[Any], str]:
    """The tensors of a buffer, and the axes of each: layers that lie apart are tensors of their own."""
    at = letters.index("L")
    if at > letters.index("B"):
        return [buffer], letters
    return [buffer.select(at, layer) for layer in range(int(buffer.shape[at]))], letters.replace("L", "")


def page_ids(indices: Any, page_size: int) -> Sequence[int]:
    """The numbers of the pages that begin at these tokens. `indices`: of all tokens of all pages, a tensor."""
    firsts: list[int] = indices[::page_size].tolist()
    return [first // page_size for first in firsts]
