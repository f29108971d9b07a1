"""The encoding of an engine's blocks, for tensors of many kinds."""

from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from kvtier_testing.tensors import Device, Tensor

from kvtier.engine.encoding import encoded
from kvtier.torch import Shard


def tensors(shape: tuple[int, ...], dtype: str = "torch.bfloat16", device: str = "cuda", count: int = 2) -> list[Any]:
    made = []
    for _ in range(count):
        one = Tensor(numpy.zeros(shape, "u2"))
        made.append(
            SimpleNamespace(
                shape=one.shape, stride=one.stride, element_size=one.element_size, data_ptr=one.data_ptr, dtype=dtype, device=Device(device)
            )
        )
    return made


def shard(axes: str, heads: int, tokens: int = 16, count: int = 2, **more: Any) -> Shard:
    return Shard([axes] * count, tokens, heads, **({"order": "LCND"} | more))


def test_none_leavesTheShardAsItIs() -> None:
    one = shard("CBNHD", 8)
    assert encoded("none", tensors((2, 7, 16, 8, 128)), one) == (one, "", "")


def test_exact_granuleIsAHead_andHeadsStandOutsideOfTokens() -> None:
    made = encoded("exact", tensors((2, 7, 16, 8, 128)), shard("CBNHD", 8))
    assert (made.encoding, made.shard.order, made.problem) == ("exact bf16 4096", "LCHND", "")


def test_fp8_hasTheGranulesOfExact_andTheSameShard() -> None:
    made = encoded("fp8", tensors((2, 7, 16, 8, 128)), shard("CBNHD", 8))
    assert (made.encoding, made.shard.order, made.problem) == ("fp8 bf16 4096", "LCHND", "")
    assert encoded("fp8", tensors((7, 64, 576)), shard("BND", 1, 64)).encoding == "fp8 bf16 24576"


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.float8_e4m3fn"])
def test_fp8_elementsOfAnotherType_areRawWithAReason(dtype: str) -> None:
    made = encoded("fp8", tensors((2, 7, 16, 8, 128), dtype), shard("CBNHD", 8))
    assert made.encoding == "" and made.problem == f"the elements are {dtype.removeprefix('torch.')}; expected bfloat16"


@pytest.mark.parametrize(("order", "expected"), [("LCHND", "LCHND"), ("CLND", "CLHND"), ("CLNHD", "CLHND"), ("HLCND", "LCHND")])
def test_exact_orderOfTheOtherAxesStays(order: str, expected: str) -> None:
    assert encoded("exact", tensors((2, 7, 16, 8, 128)), shard("CBNHD", 8, order=order)).shard.order == expected


def test_exact_ranksWithOtherNumbersOfHeads_haveOneEncoding() -> None:
    made = [encoded("exact", tensors((2, 7, 16, heads, 128)), shard("CBNHD", 8)) for heads in (8, 4, 1)]
    assert {one.encoding for one in made} == {"exact bf16 4096"}


def test_exact_largeHead_isCutIntoEqualGranules() -> None:
    made = encoded("exact", tensors((7, 64, 576)), shard("BND", 1, 64))
    assert made.encoding == "exact bf16 24576", "73,728 bytes of a latent head in three"


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.uint8", "torch.float32"])
def test_exact_elementsOfAnotherType_areRawWithAReason(dtype: str) -> None:
    one = shard("CBNHD", 8)
    made = encoded("exact", tensors((2, 7, 16, 8, 128), dtype), one)
    assert (made.shard, made.encoding) == (one, "")
    assert made.problem == f"the elements are {dtype.removeprefix('torch.')}; expected bfloat16"


def test_exact_headThatIsTooSmall_isRawWithAReason() -> None:
    made = encoded("exact", tensors((2, 7, 4, 8, 64)), shard("CBNHD", 8, 4))
    assert (made.encoding, made.shard.order) == ("", "LCND")
    assert "a head has 512 bytes of a block" in made.problem


def test_exact_blocksWithTooManyAxes_areRawWithAReason() -> None:
    # Several pages of the kernel's are one block, layers and keys and values are apart.
    one = shard("BMCLNHD", 8, 32, count=1)
    made = encoded("exact", tensors((7, 2, 2, 3, 16, 8, 128), count=1), one)
    assert (made.shard, made.encoding) == (one, "") and "5 axes" in made.problem


@pytest.mark.parametrize(
    ("axes", "shape", "order", "is_encoded"),
    [
        ("BHND", (7, 8, 16, 128), "LCND", True),
        ("BNHD", (7, 16, 8, 128), "LCND", True),
        ("BHND", (7, 4, 16, 128), "LCND", False),
        ("CBNHD", (2, 7, 16, 8, 128), "CLND", False),
    ],
    ids=["heads outside", "heads inside", "half of the heads", "keys of all layers first, in tensors of layers"],
)
def test_exact_inHostMemory_onlyWholeBlocksInTheOrderOfTheTensors(axes: str, shape: tuple[int, ...], order: str, is_encoded: bool) -> None:
    made = encoded("exact", tensors(shape, device="cpu"), shard(axes, 8, order=order))
    assert bool(made.encoding) == is_encoded
    assert ("copy parts of blocks in host memory" in made.problem) != is_encoded
