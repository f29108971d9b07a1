"""Keys and bytes of the soak's blocks, as io.kvtier.bench.soak.Space has them, too."""

import hashlib
from dataclasses import dataclass

_PAGE_BYTES = 4096
_BASE_BYTES = 1 << 20
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Space:
    """A namespace."""

    name: str
    block_bytes: int

    def __str__(self) -> str:
        return f"{self.name}={self.block_bytes}"

    @classmethod
    def of(cls, text: str) -> "Space":
        """From ``NAME=BYTES``."""
        name, _, block_bytes = text.partition("=")
        return cls(name, int(block_bytes))


def key(seed: str, space: str, number: int) -> bytes:
    return hashlib.sha256(f"soak/{seed}/{space}/{number}".encode()).digest()


class Content:
    """What each block holds: every page of it is a window into one buffer, at an offset made from key and page."""

    def __init__(self, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        pieces = (_BASE_BYTES + _PAGE_BYTES) // _DIGEST_BYTES
        self._base = memoryview(b"".join(hashlib.sha256(f"{block_bytes}/{piece}".encode()).digest() for piece in range(pieces)))

    def block(self, of_key: bytes) -> bytes:
        """The bytes of the key's block."""
        pages = []
        for page in range(-(-self.block_bytes // _PAGE_BYTES)):
            place = page % 8 * 4
            if place == 0:
                offsets = hashlib.sha256(of_key + (page // 8).to_bytes(2, "little")).digest()
            offset = int.from_bytes(offsets[place : place + 4], "little") % _BASE_BYTES
            pages.append(self._base[offset : offset + _PAGE_BYTES])
        pages[-1] = pages[-1][: self.block_bytes - (len(pages) - 1) * _PAGE_BYTES]
        return b"".join(pages)

    def wrong_bytes(self, of_key: bytes, buffer: bytearray, offset: int) -> int:
        """How many bytes of the buffer from an offset on differ from the key's block."""
        expected = self.block(of_key)
        if buffer.startswith(expected, offset):
            return 0
        return sum(one != other for one, other in zip(expected, buffer[offset : offset + self.block_bytes], strict=True))
