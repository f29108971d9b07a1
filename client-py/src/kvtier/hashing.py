"""Block keys from tokens: chained hashes, equal to those that vLLM makes with ``sha256_cbor``.

A block's hash is SHA-256 over the canonical CBOR (RFC 8949, 4.2.1; integers and lengths as short as possible) of
``(hash of the parent block, token ids, extra keys)``. The first block's parent is a hash of the seed. Only whole blocks
have hashes.
"""

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence

HASH_BYTES = 32

_TOKENS_KNOWN_MAX = 1 << 18

_UNSIGNED = 0
_NEGATIVE = 1
_BYTES = 2
_TEXT = 3
_ARRAY = 4
_TAG = 6
_TAG_POSITIVE_BIGNUM = 2
_TAG_NEGATIVE_BIGNUM = 3


def none_hash(seed: str | None = None) -> bytes:
    """The hash that stands for the parent of a first block, 32 bytes.

    Engines that share blocks share the seed: vLLM takes it from the environment variable ``PYTHONHASHSEED``.

    Args:
        seed: None: random bytes, which no other process has.
    """
    if seed is None:
        return os.urandom(HASH_BYTES)
    return hashlib.sha256(canonical_cbor(seed)).digest()


def block_hash(parent: bytes, tokens: Sequence[int], extra_keys: object = None) -> bytes:
    """The hash of one whole block, 32 bytes.

    Args:
        parent: the hash of the block before, or `none_hash`.
        tokens: the block's token ids.
        extra_keys: what else tells blocks apart (adapter, cache salt, images...): a tuple, or None.

    Raises:
        TypeError: the extra keys hold something without a canonical form here.
    """
    out = bytearray(b"\x83")  # an array of three
    _encode(bytes(parent), out)
    _head(_ARRAY, len(tokens), out)
    out += b"".join(map(_tokens.__getitem__, tokens))
    _encode(extra_keys, out)
    return hashlib.sha256(out).digest()


def block_hashes(
    tokens: Sequence[int],
    block_tokens: int,
    parent: bytes,
    extra_keys: Sequence[object] | None = None,
) -> list[bytes]:
    """The chained hashes of all whole blocks of a sequence; a last block that is not full is ignored.

    Args:
        tokens: the sequence's token ids.
        block_tokens: how many tokens a block has.
        parent: `none_hash`, or the hash of the block before the first token.
        extra_keys: for each block its extra keys or None; None: no block has any. Blocks beyond its end have none.

    Raises:
        TypeError: the tokens are a text.
    """
    if isinstance(tokens, str):
        raise TypeError("tokens is a str; expected token ids, which a tokenizer makes of it")
    return list(_chain(tokens, block_tokens, parent, extra_keys or ()))


def _chain(tokens: Sequence[int], block_tokens: int, parent: bytes, extra_keys: Sequence[object]) -> Iterator[bytes]:
    if block_tokens < 1:
        raise ValueError(f"a block of {block_tokens} tokens")
    for index in range(len(tokens) // block_tokens):
        block = tokens[index * block_tokens : (index + 1) * block_tokens]
        parent = block_hash(parent, block, extra_keys[index] if index < len(extra_keys) else None)
        yield parent


def canonical_cbor(value: object) -> bytes:
    """Canonical CBOR of None, bool, int, float, str, bytes, and tuples and lists of these.

    Raises:
        TypeError: for any other type.
    """
    out = bytearray()
    _encode(value, out)
    return bytes(out)


class _Tokens(dict[int, bytes]):
    """The encodings of token ids, made once for each: a vocabulary is small and a prompt is long."""

    def __missing__(self, token: int) -> bytes:
        encoded = canonical_cbor(int(token))
        if len(self) < _TOKENS_KNOWN_MAX:
            self[int(token)] = encoded
        return encoded


_tokens = _Tokens()


def _head(major: int, value: int, out: bytearray) -> None:
    major <<= 5
    if value < 24:
        out.append(major | value)
    elif value < 1 << 8:
        out.append(major | 24)
        out.append(value)
    elif value < 1 << 16:
        out.append(major | 25)
        out += value.to_bytes(2, "big")
    elif value < 1 << 32:
        out.append(major | 26)
        out += value.to_bytes(4, "big")
    else:
        out.append(major | 27)
        out += value.to_bytes(8, "big")


def _encode(value: object, out: bytearray) -> None:
    if value is None:
        out.append(0xF6)
    elif isinstance(value, bool):
        out.append(0xF5 if value else 0xF4)
    elif isinstance(value, int):
        _encode_int(value, out)
    elif isinstance(value, str):
        text = value.encode()
        _head(_TEXT, len(text), out)
        out += text
    elif isinstance(value, (bytes, bytearray)):
        _head(_BYTES, len(value), out)
        out += value
    elif isinstance(value, (tuple, list)):
        _head(_ARRAY, len(value), out)
        for item in value:
            _encode(item, out)
    elif isinstance(value, float):
        _encode_float(value, out)
    else:
        raise TypeError(f"{type(value).__name__} has no canonical CBOR here")


def _encode_int(value: int, out: bytearray) -> None:
    major = _UNSIGNED if value >= 0 else _NEGATIVE
    magnitude = value if value >= 0 else -1 - value
    if magnitude < 1 << 64:
        _head(major, magnitude, out)
        return
    _head(_TAG, _TAG_POSITIVE_BIGNUM if value >= 0 else _TAG_NEGATIVE_BIGNUM, out)
    digits = magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "big")
    _head(_BYTES, len(digits), out)
    out += digits


def _encode_float(value: float, out: bytearray) -> None:
    """As short as it can be without losing a bit; every NaN is the same one."""
    if value != value:
        out += b"\xf9\x7e\x00"
        return
    for marker, form in ((0xF9, ">e"), (0xFA, ">f")):
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            out.append(marker)
            out += packed
            return
    out.append(0xFB)
    out += struct.pack(">d", value)
