"""The bytes of blocks, as a function of their keys, at about the speed of a copy."""

import hashlib
import random
import struct
from array import array

_PAGE_BYTES = 4096
_BASE_BYTES = 1 << 20


class Content:
    """The bytes of each block, as a function of its key.

    Every page of a block is a window into one random buffer; where the window lies depends on the key and on the page's
    place in the block. Making a block costs about as much as copying it, and two blocks, or two places of one, share
    no bytes but by chance.
    """

    _step = 1
    """each window begins at a multiple of this number of bytes"""

    def __init__(self, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self._pages = -(-block_bytes // _PAGE_BYTES)
        self._offsets = struct.Struct(f"<{self._pages}I")
        self._base = memoryview(self._made(_BASE_BYTES + _PAGE_BYTES))

    def _made(self, count: int) -> bytes:
        """The bytes that all blocks are cut from.

        Args:
            count: the number of these bytes.
        """
        return random.Random(self.block_bytes).randbytes(count)

    def block(self, key: bytes) -> bytes:
        """The bytes of the key's block."""
        base = self._base
        offsets = self._offsets.unpack(hashlib.shake_128(key).digest(4 * self._pages))
        step = self._step
        pages = [base[at : at + _PAGE_BYTES] for at in [offset % _BASE_BYTES // step * step for offset in offsets]]
        pages[-1] = pages[-1][: self.block_bytes - (self._pages - 1) * _PAGE_BYTES]
        return b"".join(pages)

    def kept(self, key: bytes) -> bytes:
        """The bytes of the key's block when it comes back."""
        return self.block(key)

    def wrong_bytes(self, key: bytes, buffer: bytearray, offset: int) -> int:
        """How many bytes of the buffer from an offset on differ from what comes back of the key's block."""
        expected = self.kept(key)
        if buffer.startswith(expected, offset):
            return 0
        read = buffer[offset : offset + self.block_bytes].ljust(self.block_bytes, b"\0")
        return max(1, sum(a != b for a, b in zip(read, expected, strict=True)))


class KvContent(Content):
    """Blocks like those of `Content`, whose elements are bf16 and normally distributed, as those of a KV cache are."""

    _step = 2

    def _made(self, count: int) -> bytes:
        chosen = random.Random(self.block_bytes)
        floats = array("f", (chosen.gauss(0.0, 1.0) for _ in range(count // 2))).tobytes()
        made = bytearray(count)
        # The upper half of a float is a bf16.
        made[0::2], made[1::2] = floats[2::4], floats[3::4]
        return bytes(made)


class LossyContent(KvContent):
    """Blocks like those of `KvContent`, which come back as a lossy encoding keeps them.

    Args:
        encoding: the value of the namespace's property, such as ``fp8 bf16 4096``.
    """

    def __init__(self, block_bytes: int, encoding: str) -> None:
        super().__init__(block_bytes)
        self._encoding = encoding

    def kept(self, key: bytes) -> bytes:
        # Mooncake's environment imports this module, and has no kvtier.
        from kvtier_testing.encodings import kept

        return kept(self._encoding, self.block(key))
