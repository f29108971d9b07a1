"""Blocks as encodings keep them."""

from kvtier import _core
from kvtier._encoding import encoding_of


def kept(encoding: str, block: bytes) -> bytes:
    """A block after the C core has encoded and decoded it; the block itself if it can't be encoded.

    Args:
        encoding: the value of a namespace's property, such as ``fp8 bf16 4096``.
    """
    how = encoding_of(encoding, len(block))
    encoded, decoded = bytearray(how.encoded_bytes), bytearray(len(block))
    if _core.encode(how.kind, encoded, block, how.granule_elements)[0] < how.granules:
        return block
    granules, _ = _core.decode(how.kind, decoded, encoded, how.granule_elements)
    assert granules == how.granules, f"the C core decodes {granules} of {how.granules} granules that it has encoded as {encoding}"
    return bytes(decoded)
