"""Where the bytes of a block lie in an engine's tensors: shapes and strides made into runs. Knows no torch."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kvtier._errors import InvalidArgument
from kvtier._protocol import PLANE

AXES_MAX = 4


class Plane(NamedTuple):
    """One tensor. A block's cells in it are runs of bytes in the order of their addresses; the last axis moves fastest."""

    address: int
    """of block 0"""
    blocks: int
    block_stride: int
    """bytes from a block to the next one"""
    offset: int
    """where this tensor's part begins in a block, bytes"""
    run_bytes: int
    axes: tuple[tuple[int, int, int], ...]
    """(count, stride in the tensor, stride in the block), strides in bytes, of what lies around a run, outermost first"""

    @property
    def part_bytes(self) -> int:
        """What a block has in this tensor."""
        return self.run_bytes * math.prod(count for count, _, _ in self.axes)

    @property
    def span_bytes(self) -> int:
        """From the first byte of block 0 to the last one of any."""
        steps = [(self.blocks, self.block_stride), *((count, stride) for count, stride, _ in self.axes)]
        return self.run_bytes + sum((count - 1) * stride for count, stride in steps)

    def runs(self, block: int) -> Iterator[tuple[int, int]]:
        """The address of each of a block's runs, and its offset in the block."""
        first = self.address + block * self.block_stride
        for indices in itertools.product(*(range(count) for count, _, _ in self.axes)):
            steps = [(index * axis[1], index * axis[2]) for index, axis in zip(indices, self.axes, strict=True)]
            yield first + sum(step for step, _ in steps), self.offset + sum(step for _, step in steps)

    @property
    def is_dense(self) -> bool:
        """Whether its part of a block is one piece."""
        bytes_inside = self.run_bytes
        for count, _, slot_stride in reversed(self.axes):
            if slot_stride != bytes_inside:
                return False
            bytes_inside *= count
        return True

    def packed(self) -> bytes:
        """As the extension reads it."""
        spare = (0,) * (AXES_MAX - len(self.axes))
        counts = tuple(count for count, _, _ in self.axes) + spare
        strides = tuple(stride for _, stride, _ in self.axes) + spare
        slot_strides = tuple(stride for _, _, stride in self.axes) + spare
        return PLANE.pack(
            self.address, self.blocks, self.block_stride, self.offset, self.run_bytes, len(self.axes), *counts, *strides,
            *slot_strides,
        )  # fmt: skip


def runs_of(planes: Sequence[Plane], number: int, block: bytes, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Where the bytes of a block belong in the tensors: (address, bytes).

    Args:
        number: the block's place, counted along the tensors' block axis.
        block: all its bytes, of all ranks.

    Raises:
        InvalidArgument: the tensors have no such block, or it has not the bytes of one.
    """
    if not 0 <= number < planes[0].blocks:
        raise InvalidArgument(f"block id {number}; expected 0 to {planes[0].blocks - 1}")
    if len(block) != block_bytes:
        raise InvalidArgument(f"a block of {len(block)} bytes; expected {block_bytes}")
    for plane in planes:
        for address, at in plane.runs(number):
            yield address, block[at : at + plane.run_bytes]


def planes(tensors: Sequence[Any], block_axes: int | Sequence[int]) -> list[Plane]:
    """The planes of some tensors: anything with shape, stride(), element_size() and data_ptr().

    Raises:
        InvalidArgument: a tensor has no such axis, other blocks than the first one, or cells that share their memory.
    """
    axes = [block_axes] * len(tensors) if isinstance(block_axes, int) else list(block_axes)
    if len(axes) != len(tensors):
        raise InvalidArgument(f"{len(axes)} block axes for {len(tensors)} tensors; expected one, or one for each")
    made: list[Plane] = []
    offset = 0
    for index, (tensor, axis) in enumerate(zip(tensors, axes, strict=True)):
        plane = _plane(tensor, axis, index, offset)
        if made and plane.blocks != made[0].blocks:
            raise InvalidArgument(f"tensor {index} has {plane.blocks} blocks along axis {axis}, tensor 0 {made[0].blocks}")
        made.append(plane)
        offset += plane.part_bytes
    return made


def _plane(tensor: Any, axis: int, index: int, offset: int) -> Plane:
    shape = tuple(int(extent) for extent in tensor.shape)
    item_bytes = int(tensor.element_size())
    strides = tuple(int(stride) * item_bytes for stride in tensor.stride())
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgument(f"tensor {index} of shape {shape} has no axis {axis} to count blocks along")
    axis %= len(shape)
    if not all(shape):
        raise InvalidArgument(f"tensor {index} of shape {shape} is empty")
    others = [(shape[i], strides[i]) for i in range(len(shape)) if i != axis and shape[i] > 1]
    others.sort(key=lambda one: -one[1])
    run_bytes = item_bytes
    while others and others[-1][1] == run_bytes:
        run_bytes *= others.pop()[0]
    merged = _merged(others)
    every = sorted(zip(strides, shape, strict=True), reverse=True)
    if _overlap([(count, stride) for stride, count in every if count > 1], item_bytes):
        raise InvalidArgument(f"tensor {index} of shape {shape} and strides {tuple(tensor.stride())} has cells that share memory")
    if len(merged) > AXES_MAX:
        raise InvalidArgument(f"tensor {index} of shape {shape}: a block's runs lie along {len(merged)} axes, at most {AXES_MAX}")
    return Plane(int(tensor.data_ptr()), shape[axis], strides[axis], offset, run_bytes, _dense(merged, run_bytes))


def _dense(axes: tuple[tuple[int, int], ...], run_bytes: int) -> tuple[tuple[int, int, int], ...]:
    """Axes whose runs follow one another in the block."""
    made: list[tuple[int, int, int]] = []
    bytes_inside = run_bytes
    for count, stride in reversed(axes):
        made.append((count, stride, bytes_inside))
        bytes_inside *= count
    return tuple(reversed(made))


def _merged(axes: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Axes of which the outer one goes on where the inner one ends made one."""
    merged: list[tuple[int, int]] = []
    for count, stride in axes:
        if merged and merged[-1][1] == count * stride:
            outer_count, _ = merged.pop()
            merged.append((outer_count * count, stride))
        else:
            merged.append((count, stride))
    return tuple(merged)


def _overlap(axes: Sequence[tuple[int, int]], item_bytes: int) -> bool:
    """Whether an axis, outermost first, steps into what the axes inside it span."""
    span = item_bytes
    for count, stride in reversed(axes):
        if stride < span:
            return True
        span = stride * (count - 1) + span
    return False
