"""Where the bytes of a block lie in tensors, from shapes and strides alone."""

import random

from kvtier.torch import _layout


class _Shape:
    """What a layout is made of, without torch."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape = shape
        self._strides = strides

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def element_size(self) -> int:
        return 2

    def data_ptr(self) -> int:
        return 4096


def test_planes_runsCoverABlockOnce() -> None:
    generator = random.Random(5)
    for _ in range(200):
        extents = [generator.randint(1, 4) for _ in range(generator.randint(2, 5))]
        strides, step = [0] * len(extents), 1
        for axis in generator.sample(range(len(extents)), len(extents)):
            strides[axis] = step
            step *= extents[axis] * generator.choice((1, 1, 2))
        block_axis = generator.randrange(len(extents))
        (plane,) = _layout.planes([_Shape(tuple(extents), tuple(strides))], block_axis)
        starts = [0]
        for count, stride, _ in plane.axes:
            starts = [start + i * stride for start in starts for i in range(count)]
        assert starts == sorted(starts)
        assert plane.is_dense
        assert list(plane.runs(0)) == [(4096 + start, index * plane.run_bytes) for index, start in enumerate(starts)]
        covered = sorted(start + at for start in starts for at in range(plane.run_bytes))
        cells = [0]
        for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            if axis != block_axis:
                cells = [cell + i * stride * 2 for cell in cells for i in range(extent)]
        assert covered == sorted(cell + byte for cell in cells for byte in range(2))


def test_planes_ofAPackedLayer_areOneRunABlock() -> None:
    (plane,) = _layout.planes([_Shape((8, 2, 16, 4, 32), (4096, 2048, 128, 32, 1))], 0)
    assert (plane.blocks, plane.block_stride, plane.run_bytes, plane.axes) == (8, 8192, 8192, ())


def test_planes_keysAndValuesApart_areTwoRunsABlock() -> None:
    (plane,) = _layout.planes([_Shape((2, 8, 16, 4, 32), (16384, 2048, 128, 32, 1))], 1)
    assert (plane.block_stride, plane.run_bytes, plane.axes) == (4096, 4096, ((2, 32768, 4096),))
