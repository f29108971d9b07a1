"""The part of each block that one rank's tensors have, and its place in the block. Knows no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kvtier._errors import InvalidArgument
from kvtier.device import ExportedMemory, Part, RegionSpec
from kvtier.torch._layout import AXES_MAX, Plane

_LETTERS = "LCBNHDM"
_ORDERED = "LCNH"

PART_ALIGNMENT_BYTES = 16
"""to which the daemon aligns each part of a block"""


@dataclass(frozen=True, slots=True)
class Shard:
    """What the tensors of one rank of an engine have of the model's blocks.

    A block has the KV of all layers and heads of the model, whatever the parallelism. Its bytes have one order, so ranks of
    engines with other parallelism, or with another order of axes in their tensors, exchange blocks.
    """

    axes: Sequence[str]
    """for each tensor, the axes of its shape by their letters: L layer, C keys and values, B block, N token, H head, D element. If a
    block consists of several pages, B counts blocks, M the pages of a block, and N the tokens of a page."""
    block_tokens: int
    block_heads: int
    """how many heads a block has; 1 where all ranks have the same bytes"""
    first_head: int = 0
    block_layers: int = 0
    """how many layers a block has; 0: as many as the tensors"""
    first_layer: int = 0
    replica: tuple[int, int] = (0, 1)
    """(number, count) of the ranks with equal bytes: for each block one of them stores it"""
    order: str = "LCND"
    """how a block's cells follow one another, slowest axis first: letters as of `axes`, without H it stands before D"""
    planes: int = 1
    """how many tensors a layer has: 2 where keys and values are tensors of their own. First stand the keys of all layers, then the
    values. Such tensors have no axis C. On a GPU the order must begin with C then"""


class Form(NamedTuple):
    """What a block is on the host: the property ``form`` of its namespace, and its size."""

    text: str
    block_bytes: int


class Cells(NamedTuple):
    """The cells of all blocks in a rank's tensors, which all have one shape."""

    extents: dict[str, int]
    """by letter: of the tensors, N of a whole block"""
    strides: dict[str, tuple[tuple[int, int], ...]]
    """by letter (count, bytes): N has two where a block consists of several pages"""
    blocks: int
    block_stride: int
    cell_bytes: int
    addresses: list[int]
    """of the layers' tensors, or of the one of all layers; of each plane, where those are apart"""
    shard: Shard

    @property
    def layers(self) -> int:
        """How many layers the tensors have."""
        return self.extents.get("L", len(self.addresses) // self.shard.planes)

    @property
    def block_planes(self) -> int:
        """How many planes a block has: keys and values, or one."""
        return self.extents.get("C", self.shard.planes)

    @property
    def block_layers(self) -> int:
        return self.shard.block_layers or self.layers

    @property
    def order(self) -> str:
        """With all letters, and without D."""
        order = self.shard.order.removesuffix("D")
        return order if "H" in order else order + "H"

    @property
    def form(self) -> Form:
        """As the daemon makes it of the region (`KvLayout.blockForm`)."""
        planes, shard = self.block_planes, self.shard
        text = f"{self.order}D:{self.block_layers}x{shard.block_tokens}:{planes}x{shard.block_heads}x{self.cell_bytes}"
        cells = self.block_layers * planes * shard.block_tokens * shard.block_heads
        return Form(text, cells * self.cell_bytes)

    @property
    def is_whole(self) -> bool:
        """Whether the tensors have all of each block, and no other rank has."""
        return self.layers == self.block_layers and self.extents.get("H", 1) == self.shard.block_heads and self.shard.replica[1] == 1

    def planes(self) -> list[Plane]:
        """One for each tensor.

        Raises:
            InvalidArgument: a block's runs lie along too many axes.
        """
        shard = self.shard
        sizes = {"L": self.block_layers, "C": self.block_planes, "N": shard.block_tokens, "H": shard.block_heads}
        slot_strides = {}
        stride = self.cell_bytes
        for letter in reversed(self.order):
            slot_strides[letter] = stride
            stride *= sizes[letter]
        offset = shard.first_layer * slot_strides["L"] + shard.first_head * slot_strides["H"]
        axes = [axis for letter in self.order for axis in self._axes(letter, slot_strides[letter])]
        run_bytes = self.cell_bytes
        while axes and axes[-1][1] == axes[-1][2] == run_bytes:
            run_bytes *= axes.pop()[0]
        merged = _merged(axes)
        if len(merged) > AXES_MAX:
            raise InvalidArgument(f"a block's runs lie along {len(merged)} axes of a tensor, at most {AXES_MAX} are possible")
        of_plane = len(self.addresses) // shard.planes
        return [
            Plane(
                address, self.blocks, self.block_stride, offset + number // of_plane * slot_strides["C"] + number % of_plane * slot_strides["L"],
                run_bytes, merged,
            )
            for number, address in enumerate(self.addresses)
        ]  # fmt: skip

    def tensors_of(self, layers: range) -> list[int]:
        """The numbers of the tensors that have some layers, where each layer has tensors of its own."""
        of_plane = len(self.addresses) // self.shard.planes
        return [plane * of_plane + layer for plane in range(self.shard.planes) for layer in layers]

    def part_of(self, layers: range) -> "Cells":
        """The cells of some layers, where each layer has tensors of its own."""
        return self._replace(
            addresses=[self.addresses[number] for number in self.tensors_of(layers)],
            shard=replace(self.shard, block_layers=self.block_layers, first_layer=self.shard.first_layer + layers.start),
        )

    def spec(
        self,
        device: str,
        axes: dict[str, tuple[int, int]],
        tensors: Sequence[tuple[bytes | ExportedMemory, int]] = (),
        events: Sequence[bytes] = (),
    ) -> RegionSpec:
        """The description of the shard that the daemon gets.

        Args:
            axes: (count, stride in bytes) of each axis except D, by letter.

        Raises:
            InvalidArgument: the planes are apart, and not the slowest axis of the block.
        """
        shard = self.shard
        parts = 1 if "C" in axes else shard.planes
        if parts > 1 and self.order[0] != "C":
            raise InvalidArgument(
                f"keys and values are tensors of their own, and the order is {shard.order!r}; expected one that begins with C, such as 'CLND'"
            )
        if parts > 1 and self.form.block_bytes // parts % PART_ALIGNMENT_BYTES:
            raise InvalidArgument(
                f"keys and values are tensors of their own, and have {self.form.block_bytes // parts} bytes of a block each; expected a multiple "
                f"of {PART_ALIGNMENT_BYTES}"
            )
        part = Part(
            axes="".join(axes) + "D",
            extents=[*(count for count, _ in axes.values()), self.cell_bytes],
            strides=[*(stride for _, stride in axes.values()), 1],
            element_bytes=1,
            block_heads=shard.block_heads,
            first_head=shard.first_head,
        )
        return RegionSpec(
            device, self.layers, axes["B"][0], shard.block_tokens, [part] * parts, tensors, order=self.order + "D", events=events,
            block_layers=self.block_layers, first_layer=shard.first_layer, replica=shard.replica,
        )  # fmt: skip

    def _axes(self, letter: str, slot_stride: int) -> list[tuple[int, int, int]]:
        axes: list[tuple[int, int, int]] = []
        for count, stride in reversed(self.strides.get(letter, ())):
            if count > 1:
                axes.insert(0, (count, stride, slot_stride))
            slot_stride *= count
        return axes


def _merged(axes: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Axes of which the outer one goes on where the inner one ends, on both sides, made one."""
    merged: list[tuple[int, int, int]] = []
    for count, stride, slot_stride in axes:
        if merged and merged[-1][1:] == (count * stride, count * slot_stride):
            merged[-1] = (merged[-1][0] * count, stride, slot_stride)
        else:
            merged.append((count, stride, slot_stride))
    return tuple(merged)


def cells_of(tensors: Sequence[Any], shard: Shard) -> Cells:
    """The cells of a rank's tensors: anything with shape, stride(), element_size() and data_ptr().

    Raises:
        InvalidArgument: the tensors are not all alike, or are not those of the shard.
    """
    if len(shard.axes) != len(tensors):
        raise InvalidArgument(f"axes of {len(shard.axes)} tensors for {len(tensors)} tensors")
    first = _cells(tensors[0], shard.axes[0], shard)
    for index, (tensor, axes) in enumerate(zip(tensors, shard.axes, strict=True)):
        if _cells(tensor, axes, shard)._replace(addresses=[]) != first._replace(addresses=[]):
            raise InvalidArgument(f"tensor {index} differs from tensor 0 in shape, strides or axes: a shard's tensors must be alike")
    if shard.planes < 1 or len(tensors) % shard.planes:
        raise InvalidArgument(f"{len(tensors)} tensors of {shard.planes} planes; expected as many of each plane")
    if shard.planes > 1 and "C" in first.extents:
        raise InvalidArgument(f"planes is {shard.planes}, and the tensors have an axis C; expected tensors of one plane each, or planes=1")
    if "L" in first.extents and len(tensors) > shard.planes:
        raise InvalidArgument(f"{len(tensors)} tensors with an axis of layers; expected {'one' if shard.planes == 1 else shard.planes}")
    cells = first._replace(addresses=[int(tensor.data_ptr()) for tensor in tensors])
    if shard.first_layer < 0 or shard.first_layer + cells.layers > cells.block_layers:
        raise InvalidArgument(f"layers {shard.first_layer} to {shard.first_layer + cells.layers} of a block of {cells.block_layers}")
    heads = cells.extents.get("H", 1)
    if shard.first_head < 0 or shard.first_head + heads > shard.block_heads:
        raise InvalidArgument(f"heads {shard.first_head} to {shard.first_head + heads} of a block of {shard.block_heads}")
    if sorted(cells.order) != sorted(_ORDERED):
        raise InvalidArgument(f"order is {shard.order!r}; expected L, C, N and H in any order, then D")
    return cells


def _cells(tensor: Any, axes: str, shard: Shard) -> Cells:
    shape = tuple(int(extent) for extent in tensor.shape)
    item_bytes = int(tensor.element_size())
    strides = tuple(int(stride) * item_bytes for stride in tensor.stride())
    if len(axes) != len(shape) or len(set(axes)) != len(axes) or not set(axes) <= set(_LETTERS) or "B" not in axes or not all(shape):
        raise InvalidArgument(f"axes {axes!r} of a tensor of shape {shape}: expected different letters of {_LETTERS}, one for each axis, with B")
    of = {letter: (shape[index], strides[index]) for index, letter in enumerate(axes)}
    elements, element_stride = of.get("D", (1, item_bytes))
    if elements > 1 and element_stride != item_bytes:
        raise InvalidArgument("the elements of a head do not lie side by side")
    tokens = tuple(of[letter] for letter in "MN" if letter in of)
    if math.prod(count for count, _ in tokens) != shard.block_tokens:
        raise InvalidArgument(f"a block has {math.prod(count for count, _ in tokens)} tokens in a tensor of shape {shape}; expected {shard.block_tokens}")
    by_letter = {letter: (of[letter],) for letter in "LCH" if letter in of} | {"N": tokens}
    extents = {letter: math.prod(count for count, _ in axis) for letter, axis in by_letter.items()}
    return Cells(extents, by_letter, *of["B"], elements * item_bytes, [int(tensor.data_ptr())], shard)
