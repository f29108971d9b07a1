"""Blocks whose bytes are as those of a KV cache: bf16, normally distributed."""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray


def bf16(values: NDArray[numpy.float32]) -> bytes:
    """The values as bf16, rounded to the nearest even."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def kv_block(of_key: bytes, block_bytes: int) -> bytes:
    """A block that follows from its key."""
    generator = numpy.random.default_rng(list(of_key))
    return bf16(generator.standard_normal(block_bytes // 2, dtype=numpy.float32))


def kv_blocks(of_keys: Sequence[bytes], block_bytes: int) -> bytes:
    return b"".join(kv_block(one, block_bytes) for one in of_keys)
