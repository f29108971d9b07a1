"""Granules of encoded blocks, by rules written down once more here, and damage to them; for the checks of this package."""

import random
import struct
from collections.abc import Callable
from typing import NamedTuple

from kvtier import _core

ELEMENTS = 1152
"""of a granule: two tiles and a short one"""
GRANULE_BYTES = 2 * ELEMENTS
KINDS = ("exact", "fp8")

_TILE = 512
_TILES = -(-ELEMENTS // _TILE)
_CODES = (ELEMENTS // 64 + 15) // 16 * 16
"""where the codes begin, in both encodings"""
_COUNT, _EXACT_BASES = 4, 5
_SIGNS = _CODES + ELEMENTS // 2
_ESCAPES = _EXACT_BASES + _TILES
_ESCAPES_MAX = _CODES - _ESCAPES
_ERRORS = 4
_FP8_BASES = _ERRORS + 2 * _TILES
_BASES_OF_FP8 = range(18, 255)
ENCODED_BYTES = {"exact": _SIGNS + ELEMENTS, "fp8": _CODES + ELEMENTS}


def property_of(kind: str) -> str:
    """The property of a namespace whose blocks have such granules."""
    return f"{kind} bf16 {GRANULE_BYTES}"


def _exact(granule: bytes) -> tuple[list[int], bool]:
    """The elements, and whether the escapes are as many as the granule says. Escapes that are not there have the exponent 0."""
    escapes = iter(granule[_ESCAPES : _ESCAPES + granule[_COUNT]])
    elements = []
    taken = 0
    for at in range(ELEMENTS):
        code = granule[_CODES + at // 2] >> 4 * (at % 2) & 15
        if code == 15:
            exponent = next(escapes, 0)
            taken += 1
        else:
            exponent = granule[_EXACT_BASES + at // _TILE] - code & 0xFF if code < 14 else 0
        sign = granule[_SIGNS + at]
        elements.append((sign & 0x80) << 8 | exponent << 7 | sign & 0x7F)
    return elements, taken == granule[_COUNT] <= _ESCAPES_MAX


def _fp8(granule: bytes) -> tuple[list[int], bool]:
    """The elements, and whether all bases are possible."""
    elements = []
    for at in range(ELEMENTS):
        base, code = granule[_FP8_BASES + at // _TILE], granule[_CODES + at]
        exponent, mantissa = code >> 3 & 15, code & 7
        if exponent:
            magnitude = base - 15 + exponent << 7 | mantissa << 4
        elif mantissa:
            highest = mantissa.bit_length() - 1
            magnitude = base - 17 + highest << 7 | mantissa << 7 - highest & 0x7F
        else:
            magnitude = 0
        elements.append((code & 0x80) << 8 | magnitude & 0x7FFF)
    return elements, all(base in _BASES_OF_FP8 for base in granule[_FP8_BASES : _FP8_BASES + _TILES])


def _decode(kind: str, granule: bytes) -> tuple[bytes, bool]:
    elements, is_possible = _exact(granule) if kind == "exact" else _fp8(granule)
    return struct.pack(f"<{ELEMENTS}H", *elements), is_possible


def decoded(kind: str, block: bytes) -> bytes | None:
    """The bytes that a reader gets of an encoded block; None: it is damaged."""
    raw = []
    for at in range(0, len(block), ENCODED_BYTES[kind]):
        granule = block[at : at + ENCODED_BYTES[kind]]
        elements, is_possible = _decode(kind, granule)
        if not is_possible or int.from_bytes(granule[:4], "little") != _core.crc32c(elements):
            return None
        raw.append(elements)
    return b"".join(raw)


def sealed(kind: str, granule: bytes) -> bytes:
    """A granule with the checksum of what a reader that checks nothing else takes it for."""
    return struct.pack("<I", _core.crc32c(_decode(kind, granule)[0])) + granule[4:]


class Damage(NamedTuple):
    """A change of a part of a granule."""

    part: str
    kinds: tuple[str, ...]
    change: Callable[[random.Random, str, bytearray], None]


def _bytes_from(begin: int, end: int) -> Callable[[random.Random, str, bytearray], None]:
    def change(rng: random.Random, kind: str, granule: bytearray) -> None:
        at = rng.randrange(begin, end)
        granule[at] ^= rng.randrange(1, 256)

    return change


def _impossible_base(rng: random.Random, kind: str, granule: bytearray) -> None:
    granule[_FP8_BASES + rng.randrange(_TILES)] = rng.choice([0, 1, 16, 17, 255])


def _base_of_another_tile(rng: random.Random, kind: str, granule: bytearray) -> None:
    bases = _EXACT_BASES if kind == "exact" else _FP8_BASES
    granule[bases] = granule[bases + 1] ^ 1


def _too_many_escapes(rng: random.Random, kind: str, granule: bytearray) -> None:
    granule[_COUNT] = rng.choice([_ESCAPES_MAX + 1, 127, 128, 255])


def _more_escapes_than_listed(rng: random.Random, kind: str, granule: bytearray) -> None:
    at = rng.randrange(_CODES, _SIGNS)
    granule[at : at + 64] = b"\xff" * len(granule[at : at + 64])


def _largest_codes(rng: random.Random, kind: str, granule: bytearray) -> None:
    granule[_CODES:] = rng.choice([b"\x7f", b"\xff", b"\x80", b"\x00"]) * ELEMENTS


def _anything(rng: random.Random, kind: str, granule: bytearray) -> None:
    granule[:] = rng.choice([rng.randbytes(len(granule)), bytes(len(granule)), b"\xff" * len(granule)])


DAMAGES = [
    Damage("checksum", KINDS, _bytes_from(0, 4)),
    Damage("count of escapes", ("exact",), _bytes_from(_COUNT, _COUNT + 1)),
    Damage("count of escapes out of range", ("exact",), _too_many_escapes),
    Damage("bases of exact", ("exact",), _bytes_from(_EXACT_BASES, _ESCAPES)),
    Damage("escapes and what is behind them", ("exact",), _bytes_from(_ESCAPES, _CODES)),
    Damage("codes of escapes", ("exact",), _more_escapes_than_listed),
    Damage("codes", ("exact",), _bytes_from(_CODES, _SIGNS)),
    Damage("signs", ("exact",), _bytes_from(_SIGNS, ENCODED_BYTES["exact"])),
    Damage("errors", ("fp8",), _bytes_from(_ERRORS, _FP8_BASES)),
    Damage("bases of fp8", ("fp8",), _bytes_from(_FP8_BASES, _FP8_BASES + _TILES)),
    Damage("bases of fp8 out of range", ("fp8",), _impossible_base),
    Damage("bytes behind the bases", ("fp8",), _bytes_from(_FP8_BASES + _TILES, _CODES)),
    Damage("codes", ("fp8",), _bytes_from(_CODES, ENCODED_BYTES["fp8"])),
    Damage("codes that no encoder makes", ("fp8",), _largest_codes),
    Damage("base of another tile", KINDS, _base_of_another_tile),
    Damage("all", KINDS, _anything),
]


def damages_of(kind: str) -> list[Damage]:
    return [one for one in DAMAGES if kind in one.kinds]


def forged(rng: random.Random, kind: str, block: bytes, damage: Damage) -> bytes:
    """An encoded block with damage to one of its granules, whose checksum is then made right as often as not."""
    each = ENCODED_BYTES[kind]
    at = each * rng.randrange(len(block) // each)
    granule = bytearray(block[at : at + each])
    damage.change(rng, kind, granule)
    changed = sealed(kind, bytes(granule)) if rng.random() < 0.5 else bytes(granule)
    return block[:at] + changed + block[at + each :]
