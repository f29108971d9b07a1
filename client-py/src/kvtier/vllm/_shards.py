"""Which part of the model's blocks a worker's tensors have: what engines with other parallelism must know to share blocks."""

import hashlib
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvtier._errors import InvalidArgument, KvtierError
from kvtier.engine.encoding import Encoded, encoded
from kvtier.torch import Form, Shard
from kvtier.torch._shards import cells_of

_PLAIN_BACKENDS = ("FLASH_ATTN", "FLASHINFER", "FLEX_ATTENTION", "TRITON_ATTN")
"""attention backends that keep the elements of keys and values as they are, so that their blocks differ in the order of axes only"""
_BLOCKS = 1234567
_TOKENS = (16, 32)
_HEADS = (3, 5)


class Rank(NamedTuple):
    """What a rank tells the others."""

    layers: int
    """how many layers its tensors have; 0: nobody knows which part of a block they are"""
    loaded: str
    """the digest of its weights in memory; empty: unknown"""
    alone: str
    """what tells its engine from all others whose weights nobody knows"""
    machine: str = ""
    """what tells its machine from others"""


class Joint(NamedTuple):
    """A worker's part of the model's blocks."""

    shard: Shard
    form: Form
    loaded: str
    alone: str
    encoded: Encoded
    """how the blocks are encoded"""


def letters_of(config: Any, name: str, tensor: Any) -> str:
    """The axes of a layer's KV cache, as `kvtier.torch.Shard` has them; empty: nobody knows.

    Args:
        config: vLLM's ``VllmConfig``.
        name: the layer.
    """
    if _has_logical_shapes():
        return "BHND" if len(tensor.shape) == 4 else ""
    try:
        letters = _of_backend(config, config.compilation_config.static_forward_context[name].get_attn_backend())
    except Exception:
        return ""
    return letters if len(letters) == len(tensor.shape) else ""


def letters_of_all_layers(config: Any, backend: Any, tensor: Any) -> str:
    """The axes of a KV cache of all layers, which are in the order of the memory; empty: nobody knows."""
    try:
        letters = "L" + _of_backend(config, backend)
        order = tuple(backend.get_kv_cache_stride_order(include_num_layers_dimension=True))
    except Exception:
        return ""
    is_known = len(letters) == len(order) == len(tensor.shape)
    return "".join(letters[axis] for axis in order) if is_known else ""


def _of_backend(config: Any, backend: Any) -> str:
    """The axes of a layer's KV cache, as an attention backend makes it; empty: they can't be told."""
    head = int(config.model_config.get_head_size())
    return _letters([
        tuple(backend.get_kv_cache_shape(_BLOCKS, tokens, heads, head))
        for tokens, heads in ((_TOKENS[0], _HEADS[0]), (_TOKENS[1], _HEADS[0]), (_TOKENS[0], _HEADS[1]))
    ])  # fmt: skip


def _has_logical_shapes() -> bool:
    """Whether this vLLM gives layers the shape [blocks, heads, tokens, content], whatever their order in memory."""
    try:
        return hasattr(importlib.import_module("vllm.v1.kv_cache_layout"), "KVCacheLayout")
    except ImportError:
        return False


def _letters(shapes: Sequence[tuple[int, ...]]) -> str:
    """The axes of a shape, found by those that change with the numbers of tokens and heads; empty: they can't be told."""
    first, by_tokens, by_heads = shapes
    if not len(first) == len(by_tokens) == len(by_heads):
        return ""
    letters = ""
    for axis, extent in enumerate(first):
        if extent == _BLOCKS:
            letters += "B"
        elif by_tokens[axis] != extent and by_heads[axis] == extent == _TOKENS[0]:
            letters += "N"
        elif by_heads[axis] != extent and by_tokens[axis] == extent == _HEADS[0]:
            letters += "H"
        elif axis == len(first) - 1 and by_tokens[axis] == by_heads[axis] == extent:
            letters += "D"
        elif extent == by_tokens[axis] == by_heads[axis] == 2:
            letters += "C"
        else:
            return ""
    return letters if {"B", "N", "D"} <= set(letters) and len(set(letters)) == len(letters) else ""


def attention(names: str) -> str:
    """What the backends' names say about the bytes of a block."""
    return "plain" if names and set(names.split("+")) <= set(_PLAIN_BACKENDS) else names


def joint_of(
    config: Any,
    tensors: Sequence[Any],
    letters: Sequence[str],
    place: tuple[int, int],
    on_gpu: bool,
    loaded: str,
    alone: str,
    gather: Callable[[Rank], list[list[Rank]] | None],
    encoding: str = "none",
) -> Joint | None:
    """A worker's part of the blocks of the whole model; None: the ranks can't tell their parts, and keep blocks of their own.

    Args:
        config: vLLM's ``VllmConfig``.
        tensors: those of the worker's layers.
        letters: their axes.
        place: (pipeline rank, tensor rank).
        on_gpu: whether copies are a GPU's, for which heads inside of tokens are no slower.
        loaded: the digest of the weights in memory; empty: unknown.
        alone: what tells an engine from all others whose weights nobody knows.
        gather: gives what all ranks tell, by pipeline rank and tensor rank; None: that can't be had. All ranks call it.
        encoding: how blocks are encoded if they can be: the setting of this name.

    Raises:
        KvtierError: the ranks run on several machines. All ranks raise it.
    """
    parallel = config.parallel_config
    tensor, pipeline = int(parallel.tensor_parallel_size), int(parallel.pipeline_parallel_size)
    part = _part(config, tensors, letters, place[1], tensor, on_gpu)
    layers = 0 if part is None else cells_of(tensors, part).layers
    mine = Rank(layers, loaded, alone, machine())
    ranks = [[mine]] if tensor * pipeline == 1 else gather(mine)
    machines = {rank.machine for stage in ranks or [] for rank in stage}
    if len(machines) > 1:
        raise KvtierError(f"the ranks of this engine run on {len(machines)} machines, and a daemon serves the ranks of its own machine only")
    if ranks is None or part is None or not all(rank.layers for stage in ranks for rank in stage):
        return None
    of_stages = [stage[0].layers for stage in ranks]
    shard = Shard(
        part.axes, part.block_tokens, part.block_heads, part.first_head, sum(of_stages), sum(of_stages[: place[0]]), part.replica,
        part.order,
    )  # fmt: skip
    digests = [rank.loaded for stage in ranks for rank in stage]
    together = loaded if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    made = encoded(encoding, tensors, shard)
    return Joint(made.shard, cells_of(tensors, made.shard).form, together if all(digests) else "", ranks[0][0].alone, made)


def machine() -> str:
    """What tells this machine from others until it is started again; empty: it can't be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _part(config: Any, tensors: Sequence[Any], letters: Sequence[str], rank: int, ranks: int, on_gpu: bool) -> Shard | None:
    """The shard of one stage's layers; None: nobody knows it."""
    if not letters or not all(letters):
        return None
    first = dict(zip(letters[0], tensors[0].shape, strict=True))
    heads = int(first.get("H", 1))
    tokens = int(first["N"] * first.get("M", 1))
    is_latent = bool(getattr(config.model_config, "use_mla", False))
    try:
        block_heads = 1 if is_latent else int(config.model_config.get_total_num_kv_heads())
    except Exception:
        return None
    replicas, rest = divmod(heads * ranks, block_heads)
    if rest or not replicas or heads != max(1, block_heads // ranks):
        # Some layers have other numbers of heads than the model says.
        return None
    shard = Shard(
        list(letters), tokens, block_heads, rank // replicas * heads, replica=(rank % replicas, replicas), order="LCND" if on_gpu else "LCHND"
    )
    try:
        cells_of(tensors, shard)
    except InvalidArgument:
        return None
    return shard
