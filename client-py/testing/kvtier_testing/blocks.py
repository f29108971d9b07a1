"""Blocks whose bytes follow from their keys, so that any reader can tell a wrong byte."""

import hashlib
import random
import time
from collections.abc import Sequence

from kvtier import Namespace, Status


def key(name: str, index: int) -> bytes:
    return hashlib.sha256(f"{name}/{index}".encode()).digest()


def keys(name: str, count: int, first: int = 0) -> list[bytes]:
    return [key(name, index) for index in range(first, first + count)]


def block(of_key: bytes, block_bytes: int) -> bytes:
    return random.Random(of_key).randbytes(block_bytes)


def blocks(of_keys: Sequence[bytes], block_bytes: int) -> bytes:
    return b"".join(block(one, block_bytes) for one in of_keys)


def wrong_blocks(of_keys: Sequence[bytes], statuses: Sequence[Status], memory: bytes | bytearray) -> list[int]:
    """The indices of blocks that are OK and have wrong bytes."""
    size = len(memory) // len(of_keys)
    return [
        index
        for index, (one, status) in enumerate(zip(of_keys, statuses, strict=True))
        if status is Status.OK and memory[index * size : (index + 1) * size] != block(one, size)
    ]


def put_all(namespace: Namespace, of_keys: Sequence[bytes], timeout_s: float = 60.0) -> None:
    """Puts blocks, again while there is no room."""
    deadline = time.monotonic() + timeout_s
    left = list(of_keys)
    while left:
        assert time.monotonic() < deadline, f"{len(left)} blocks found no room"
        statuses = namespace.put(left, [block(one, namespace.block_bytes) for one in left])
        assert set(statuses) <= {Status.OK, Status.EXISTS, Status.BUSY, Status.PENDING}, set(statuses)
        left = [one for one, status in zip(left, statuses, strict=True) if status in (Status.BUSY, Status.PENDING)]
        if left:
            time.sleep(0.02)
