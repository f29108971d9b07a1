"""An engine's KV caches as tensors in which one axis counts the engine's blocks."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kvtier._errors import InvalidArgument


class Tensors(NamedTuple):
    """An engine's tensors as `kvtier.torch` takes them."""

    tensors: list[Any]
    block_axes: list[int]
    layout: str
    """of a block: what engines that share blocks have alike"""
    letters: Sequence[str] = ()
    """the axes of each tensor, as `kvtier.torch.Shard` has them; empty: nobody knows"""
    numbers: dict[str, int] = {}
    """of each layer, by its name, the number of its tensor, or of the layer in the only tensor; empty: nobody knows"""


def tensors_of(
    kv_caches: dict[str, Any],
    blocks: int,
    block_axis: Callable[[str, Any], int | None],
    letters_of: Callable[[str, Any], str] = lambda _name, _tensor: "",
) -> Tensors:
    """The tensors of all layers, in the order of the layers; those that layers share once.

    Args:
        kv_caches: by layer name.
        blocks: how many blocks the engine counts.
        block_axis: says which axis of a layer's tensor counts blocks; None: it doesn't know.
        letters_of: says what a layer's axes are; empty: it doesn't know.

    Raises:
        InvalidArgument: a layer keeps something else than tensors with an axis for blocks.
    """
    if not kv_caches:
        raise InvalidArgument("the engine has no KV caches")
    listed: list[Any] = []
    axes: list[int] = []
    letters: list[str] = []
    seen: dict[int, int] = {}
    numbers: dict[str, int] = {}
    for name, tensor in _of_layers(kv_caches):
        numbers[name] = seen.setdefault(tensor.data_ptr(), len(listed))
        if numbers[name] < len(listed):
            continue
        known = letters_of(name, tensor)
        given = known.index("B") if known else block_axis(name, tensor)
        tensor, axis = _with_axis(name, tensor, blocks, given)
        listed.append(tensor)
        axes.append(axis)
        letters.append(with_pages(known, tensor))
    layouts = [_layout(tensor, axis) for tensor, axis in zip(listed, axes, strict=True)]
    return Tensors(listed, axes, _together(layouts), letters, numbers)


def _of_layers(kv_caches: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tensors of all layers, with their layers' names. A layer with a state has several."""
    for name in sorted(kv_caches, key=_natural):
        of_layer = kv_caches[name]
        for tensor in of_layer if isinstance(of_layer, (list, tuple)) else [of_layer]:
            if not hasattr(tensor, "data_ptr"):
                raise InvalidArgument(f"the KV cache of layer {name!r} is a {type(tensor).__name__}; expected tensors")
            yield name, tensor


def cross_layer_tensors(tensor: Any, blocks: int, letters: str = "", numbers: dict[str, int] | None = None) -> Tensors:
    """One tensor of all layers, with the blocks outermost in memory. `letters`: its axes; empty: nobody knows. `numbers`: as `Tensors`
    has them."""
    tensor, axis = _with_axis("of all layers", tensor, blocks, letters.index("B") if letters else None)
    return Tensors([tensor], [axis], _layout(tensor, axis), [with_pages(letters, tensor)], numbers or {})


def with_pages(letters: str, tensor: Any) -> str:
    """The axes of a tensor whose axis B may have been split, as a block has several of the kernel's pages."""
    return letters if len(letters) == len(tensor.shape) else letters.replace("B", "BM")


def _with_axis(name: str, tensor: Any, blocks: int, axis: int | None) -> tuple[Any, int]:
    """The tensor, and the axis of it that counts the engine's blocks."""
    shape = tuple(tensor.shape)
    if axis is None:
        exact = [index for index, extent in enumerate(shape) if extent == blocks]
        several = [index for index, extent in enumerate(shape) if extent % blocks == 0 and extent]
        found = exact or several
        if len(found) != 1:
            # Blocks lie outermost where several axes would do.
            found = sorted(found, key=lambda index: -tensor.stride(index))[:1]
        if not found:
            raise InvalidArgument(f"the KV cache of layer {name!r} has shape {shape}; expected an axis of {blocks} blocks")
        axis = found[0]
    if shape[axis] == blocks:
        return tensor, axis
    if shape[axis] % blocks:
        raise InvalidArgument(f"the KV cache of layer {name!r} has shape {shape}; expected axis {axis} to be a multiple of {blocks} blocks")
    # The attention kernel's blocks are smaller than the engine's.
    return tensor.unflatten(axis, (blocks, shape[axis] // blocks)), axis


def _layout(tensor: Any, axis: int) -> str:
    """The extents of a block in the order of their addresses, with the axes that they belong to."""
    axes = sorted((i for i in range(len(tensor.shape)) if i != axis), key=lambda i: -tensor.stride(i))
    extents = "x".join(str(tensor.shape[i]) for i in axes)
    order = "".join(str(i - (i > axis)) for i in axes)
    return f"{str(tensor.dtype).removeprefix('torch.')}[{extents}]@{order}"


def _together(layouts: list[str]) -> str:
    if len(set(layouts)) == 1:
        return f"{len(layouts)} {layouts[0]}"
    return " ".join(layouts)


def _natural(name: str) -> list[Any]:
    """Orders layer 10 behind layer 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
