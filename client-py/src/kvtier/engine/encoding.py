"""Whether the blocks of an engine can be stored in fewer bytes, and what its namespaces and shards have to be for that."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvtier._encoding import property_of
from kvtier._errors import InvalidArgument
from kvtier.torch import Shard
from kvtier.torch._cpu import are_put_whole
from kvtier.torch._shards import cells_of

_ELEMENTS = {"bfloat16": "bf16"}
"""the types of elements that can be encoded, by torch's names"""


class Encoded(NamedTuple):
    """A rank's part of the blocks of one pool, and how they are encoded."""

    shard: Shard
    """the rank's part. In an encoded block, heads stand outside of tokens, so that ranks with other numbers of heads can decode it"""
    encoding: str
    """the property ``encoding`` of the namespace; empty: the blocks are raw"""
    problem: str = ""
    """why the blocks are raw although the settings ask for an encoding; empty: the settings ask for none, or the blocks are encoded"""


def encoded(choice: str, tensors: Sequence[Any], shard: Shard) -> Encoded:
    """The encoding of a pool's blocks. All ranks of engines with equal configurations choose one encoding.

    Args:
        choice: `kvtier.engine.settings.Settings.encoding`.
        tensors: those of the rank.
        shard: the part of each block that these tensors have if blocks are raw.
    """
    if choice == "none":
        return Encoded(shard, "")
    dtype = str(tensors[0].dtype).removeprefix("torch.")
    element = _ELEMENTS.get(dtype)
    if element is None:
        return Encoded(shard, "", f"the elements are {dtype}; expected {' or '.join(_ELEMENTS)}")
    made = replace(shard, order=_with_heads_outside(shard.order))
    cells = cells_of(tensors, made)
    try:
        is_whole = are_put_whole(cells)
    except InvalidArgument as error:
        return Encoded(shard, "", str(error))
    if tensors[0].device.type == "cpu" and not is_whole:
        return Encoded(shard, "", "the engine's own processes copy parts of blocks in host memory; expected whole blocks of one rank, or a GPU")
    head_bytes = shard.block_tokens * cells.cell_bytes
    encoding = property_of(choice, element, head_bytes)
    if not encoding:
        return Encoded(shard, "", f"a head has {head_bytes} bytes of a block; expected a multiple of 256, from 1024 on")
    return Encoded(made, encoding)


def _with_heads_outside(order: str) -> str:
    """The order of a block's cells whose heads stand outside of its tokens."""
    return order.replace("H", "").replace("N", "HN")
