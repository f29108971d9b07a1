"""How the blocks of a namespace are encoded: the property ``encoding`` and what follows from it."""

from dataclasses import dataclass

from kvtier import _core
from kvtier._errors import InvalidArgument

PROPERTY = "encoding"

_BYTES_PER_ELEMENT = 2
_GRANULE_BYTES_MIN = 1024
KINDS = ("exact", "fp8")
"""the encodings: without loss, and with loss"""

_EXPECTED = f"expected '{' or '.join(KINDS)} bf16 GRANULE_BYTES', such as 'exact bf16 4096'"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of blocks: a block is granules, one behind the other, and each is encoded to a fixed place."""

    kind: str
    """one of `KINDS`"""
    granule_elements: int
    granules: int
    """of a block"""

    @property
    def encoded_bytes(self) -> int:
        """The bytes of an encoded block."""
        return self.granules * _core.granule_bytes(self.kind, self.granule_elements)


def property_of(kind: str, element: str, head_bytes: int) -> str:
    """The property's value for blocks in which each head has its tokens side by side; empty: their granules would have a wrong size.

    Args:
        kind: one of `KINDS`.
        element: the type of the elements, such as ``bf16``.
        head_bytes: the raw bytes of one head of one layer of K or V of a block's tokens. A head that is larger than a granule can be is
            cut into equal granules.
    """
    for count in range(1, head_bytes // _GRANULE_BYTES_MIN + 1):
        granule_bytes, rest = divmod(head_bytes, count)
        if not rest and granule_bytes % _BYTES_PER_ELEMENT == 0 and _core.granule_bytes(kind, granule_bytes // _BYTES_PER_ELEMENT):
            return f"{kind} {element} {granule_bytes}"
    return ""


def encoding_of(value: str, block_bytes: int) -> Encoding:
    """The encoding that a namespace's property asks for.

    Args:
        value: the kind of encoding, the type of the elements, and the raw bytes of a granule: one head of one layer of K or V of a block's tokens.
        block_bytes: the raw bytes of a block.

    Raises:
        InvalidArgument: there is no such encoding, or a block of this size can't have it.
    """
    words = value.split(" ")
    if len(words) != 3 or words[0] not in KINDS or not (words[2].isascii() and words[2].isdigit()):
        raise InvalidArgument(f"{PROPERTY} is {value!r}; {_EXPECTED}")
    if words[1] != "bf16":
        raise InvalidArgument(f"{PROPERTY} is {value!r}: elements of type {words[1]} can't be encoded; {_EXPECTED}")
    granule_bytes = int(words[2])
    if granule_bytes % _BYTES_PER_ELEMENT or not _core.granule_bytes(words[0], granule_bytes // _BYTES_PER_ELEMENT):
        raise InvalidArgument(
            f"{PROPERTY} is {value!r}: granules of {granule_bytes} bytes; expected a multiple of 256, from 1024 to 32768"
        )
    if block_bytes % granule_bytes:
        raise InvalidArgument(
            f"{PROPERTY} is {value!r}: a block of {block_bytes} bytes is not a whole number of granules of {granule_bytes} bytes"
        )
    return Encoding(words[0], granule_bytes // _BYTES_PER_ELEMENT, block_bytes // granule_bytes)
