"""What is kept with a block for the daemon's KV events: the ids of its tokens, and what else its hash was made of.

Routers find blocks by their tokens, which only the engine knows. The daemon keeps an annotation as it is, and reads it
when it publishes events: a msgpack map with ``token_ids`` (a binary of little-endian words of 4 bytes), ``parent``
(the key of the block before), ``lora_id``, ``lora_name`` and ``extra_keys``.
"""

import struct
from collections.abc import Sequence


def of_tokens(
    token_ids: Sequence[int],
    *,
    parent: bytes | None = None,
    lora_id: int | None = None,
    lora_name: str | None = None,
    extra_keys: Sequence[object] | None = None,
) -> bytes:
    """The annotation of one block.

    Args:
        token_ids: of all of the block's tokens.
        parent: the key of the block before it; None for a sequence's first.
        lora_id: of the adapter, if there is one.
        lora_name: the same.
        extra_keys: what else the block's hash was made of: numbers, strings, bytes, and lists or tuples of them.

    Raises:
        TypeError: the extra keys hold something else.
    """
    return of_blocks(
        token_ids, [b""], parent=parent, lora_id=lora_id, lora_name=lora_name, extra_keys=[extra_keys]
    )[0]


def of_blocks(
    token_ids: Sequence[int],
    keys: Sequence[bytes],
    *,
    parent: bytes | None = None,
    lora_id: int | None = None,
    lora_name: str | None = None,
    extra_keys: Sequence[Sequence[object] | None] | None = None,
) -> list[bytes]:
    """The annotations of blocks that follow one another in a sequence: for each what `of_tokens` makes.

    Args:
        token_ids: of all of their tokens, which are shared among them evenly.
        keys: of the blocks.
        parent: the key of the block before the first.
        extra_keys: for each block what `of_tokens` takes; None: there are none.

    Raises:
        TypeError: the extra keys hold something else.
    """
    packed = struct.pack(f"<{len(token_ids)}I", *token_ids)
    block_bytes = len(packed) // len(keys) if keys else 0
    before = _field("token_ids", None)[:-1] + _head(block_bytes, -1, 0, _BINARY)
    adapters = [_field(name, value) for name, value in (("lora_id", lora_id), ("lora_name", lora_name)) if value is not None]
    adapter = b"".join(adapters)
    made = []
    for index, key in enumerate(keys):
        extra = None if extra_keys is None else extra_keys[index]
        fields = 1 + (parent is not None) + len(adapters) + (extra is not None)
        made.append(
            bytes([0x80 | fields])
            + before
            + packed[index * block_bytes : (index + 1) * block_bytes]
            + (b"" if parent is None else _PARENT + _head(len(parent), -1, 0, _BINARY) + parent)
            + adapter
            + (b"" if extra is None else _field("extra_keys", extra))
        )
        parent = key
    return made


_BINARY = (0xC4, 0xC5, 0xC6)


def _field(name: str, value: object) -> bytes:
    out = bytearray()
    _pack(name, out)
    _pack(value, out)
    return bytes(out)


def _pack(value: object, out: bytearray) -> None:
    match value:
        case None:
            out.append(0xC0)
        case bool():
            out.append(0xC3 if value else 0xC2)
        case int() if value >= 0:
            out += _head(value, 0x7F, 0, (0xCC, 0xCD, 0xCE, 0xCF))
        case int():
            out += b"\xd3" + struct.pack(">q", value)
        case float():
            out += b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            out += _head(len(text), 31, 0xA0, (0xD9, 0xDA, 0xDB)) + text
        case bytes() | bytearray() | memoryview():
            data = bytes(value)
            out += _head(len(data), -1, 0, _BINARY) + data
        case list() | tuple():
            out += _head(len(value), 15, 0x90, (0, 0xDC, 0xDD))
            for item in value:
                _pack(item, out)
        case _:
            raise TypeError(f"{value!r} can't be a part of extra keys: expected numbers, strings, bytes and lists of them")


def _head(value: int, fixed_max: int, fixed: int, codes: tuple[int, ...]) -> bytes:
    """A number or a length in the fewest bytes that there are for it."""
    if value <= fixed_max:
        return bytes([fixed | value])
    for code, width in zip(codes, (1, 2, 4, 8), strict=False):
        if code and value < 1 << (8 * width):
            return bytes([code]) + value.to_bytes(width, "big")
    raise OverflowError(f"{value} does not fit into msgpack")


_PARENT = _field("parent", None)[:-1]
