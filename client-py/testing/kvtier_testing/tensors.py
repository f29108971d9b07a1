"""Tensors of NumPy, as far as `kvtier.torch` looks at tensors: for tests that must not need torch."""

from typing import Any, NamedTuple

import numpy


class Device(NamedTuple):
    type: str = "cpu"

    def __str__(self) -> str:
        return self.type


class Tensor:
    """An array behind torch's names."""

    device = Device()

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]

    def element_size(self) -> int:
        return int(self.array.itemsize)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def numel(self) -> int:
        return int(self.array.size)

    def select(self, axis: int, index: int) -> "Tensor":
        return Tensor(self.array[(slice(None),) * axis + (index,)])

    def permute(self, order: tuple[int, ...]) -> "Tensor":
        return Tensor(self.array.transpose(order))

    def unflatten(self, axis: int, extents: tuple[int, ...]) -> "Tensor":
        shape = self.shape
        return Tensor(self.array.reshape(shape[:axis] + extents + shape[axis + 1 :]))


def random_tensor(shape: tuple[int, ...], seed: int, order: tuple[int, ...] | None = None) -> Tensor:
    """A tensor of 16-bit numbers, seen with its axes in this order."""
    made = Tensor(numpy.random.default_rng(seed).integers(0, 1 << 16, shape, dtype=numpy.uint16))
    return made if order is None else made.permute(order)
