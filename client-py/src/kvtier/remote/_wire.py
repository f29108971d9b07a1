"""The messages of gRPC that carry the bytes of a block.

The bytes are copied once, and their checksum is made on the way: protobuf would copy them three times. All other fields are
left to protobuf. Its encoders may write fields in any order, and of several equal ones the last counts.
"""

from typing import Any

from google.protobuf.message import DecodeError

from kvtier import _core
from kvtier.v1 import kvtier_pb2 as v1

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX = 10


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_CHUNK = _tag(v1.PutRequest.CHUNK_FIELD_NUMBER, _BYTES)
_CHUNK_DATA = _tag(v1.PutChunk.DATA_FIELD_NUMBER, _BYTES)
_CHUNK_CRC32C = _tag(v1.PutChunk.CRC32C_FIELD_NUMBER, _FIXED32)


def chunk(block: int, offset: int, data: memoryview, is_last: bool, crc: int) -> tuple[bytes, int]:
    """A `PutRequest` with a copy of bytes of a block, and the checksum of the block so far.

    The checksum covers the copy: the caller's memory may change meanwhile.

    Args:
        is_last: whether these are the last bytes of the block; the message then has the checksum.
        crc: the checksum of the block's bytes before these.
    """
    tail = _CHUNK_CRC32C if is_last else b""
    fields = v1.PutChunk(block=block, offset=offset).SerializeToString() + _CHUNK_DATA + _varint(len(data))
    size = len(fields) + len(data) + (len(tail) + _SIZES[_FIXED32] if is_last else 0)
    return _core.joined_crc32c(_CHUNK + _varint(size) + fields, data, tail, crc)


def split(message: bytes) -> tuple[Any, memoryview]:
    """A `GetResponse` without its data, and the data.

    Raises:
        ValueError: this is no such message.
    """
    data = memoryview(b"")
    fields = b""
    kept = at = 0
    try:
        while at < len(message):
            start = at
            tag, at = _read_varint(message, at)
            kind = tag & 7
            if kind == _VARINT:
                _, at = _read_varint(message, at)
            elif kind != _BYTES:
                at += _SIZES[kind]
            else:
                size, at = _read_varint(message, at)
                end = at + size
                if tag >> 3 == v1.GetResponse.DATA_FIELD_NUMBER and end <= len(message):
                    data = memoryview(message)[at:end]
                    fields += message[kept:start]
                    kept = end
                at = end
        return v1.GetResponse.FromString(fields + message[kept:]), data
    except (IndexError, KeyError, DecodeError):
        raise ValueError(f"{len(message)} bytes that are no GetResponse") from None


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise IndexError("a number without an end")
