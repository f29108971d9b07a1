"""Writes the golden granules of layout/src/test/resources/golden: what granules are encoded to, by rules written down once more here.

PYTHONPATH=. python system-tests/make_granules.py
"""

import random
import struct
from bisect import bisect_left
from fractions import Fraction

from checks.shared.checkout import ROOT

GOLDEN = ROOT / "layout/src/test/resources/golden"
EXACT = GOLDEN / "exact.txt"
FP8 = GOLDEN / "fp8.txt"

TILE = 512
WINDOW = 14
ZERO = 14
ESCAPE = 15

CODES = 127
"""codes of e4m3 without a sign; the code behind them is no number"""


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def header_bytes(elements: int) -> int:
    return (elements // 64 + 15) // 16 * 16


def escapes_max(elements: int) -> int:
    return header_bytes(elements) - 5 - -(-elements // TILE)


def elements_of(raw: bytes) -> list[int]:
    return [one for (one,) in struct.iter_unpack("<H", raw)]


def encode_exact(raw: bytes) -> bytes | None:
    """The granule in the encoding `exact`; None: it does not fit."""
    elements = elements_of(raw)
    codes: list[int] = []
    bases: list[int] = []
    escapes: list[int] = []
    for begin in range(0, len(elements), TILE):
        exponents = [element >> 7 & 0xFF for element in elements[begin : begin + TILE]]
        bases.append(max(exponents))
        for exponent in exponents:
            code = ZERO if exponent == 0 else bases[-1] - exponent
            if exponent and code >= WINDOW:
                code = ESCAPE
                escapes.append(exponent)
            codes.append(code)
    if len(escapes) > escapes_max(len(elements)):
        return None
    header = struct.pack("<IB", crc32c(raw), len(escapes)) + bytes(bases + escapes)
    header += bytes(header_bytes(len(elements)) - len(header))
    pairs = bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True))
    return header + pairs + bytes(element >> 8 & 0x80 | element & 0x7F for element in elements)


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def magnitude_of(element: int) -> Fraction:
    """The magnitude of a bf16 number, as the encoding `fp8` sees it: a subnormal one is zero."""
    exponent = element >> 7 & 0xFF
    return (1 + Fraction(element & 0x7F, 128)) * power(exponent - 127) if exponent else Fraction(0)


def e4m3(code: int) -> Fraction:
    """The value of a code, as a part of the power of two that the tile's base stands for."""
    exponent, mantissa = divmod(code, 8)
    return (1 + Fraction(mantissa, 8)) * power(exponent - 15) if exponent else Fraction(mantissa, 8) * power(-14)


def nearest(value: Fraction, values: list[Fraction]) -> int:
    """The code whose value is the nearest one; of two, the even code."""
    above = bisect_left(values, value)
    if above == len(values):
        return above - 1
    below = max(above - 1, 0)
    return min((above, below), key=lambda code: (abs(values[code] - value), code % 2))


def bits_of(value: Fraction) -> int:
    """The bits of a bf16 number, which the value is exactly."""
    if not value:
        return 0
    exponent = 0
    while value >= 2:
        value, exponent = value / 2, exponent + 1
    while value < 1:
        value, exponent = value * 2, exponent - 1
    mantissa = (value - 1) * 128
    assert mantissa.denominator == 1 and 0 < exponent + 127 < 255, value
    return exponent + 127 << 7 | int(mantissa)


def encode_fp8(raw: bytes) -> tuple[bytes, bytes] | None:
    """The granule in the encoding `fp8`, and the decoded granule; None: it does not fit."""
    elements = elements_of(raw)
    errors: list[int] = []
    bases: list[int] = []
    codes: list[int] = []
    decoded: list[int] = []
    for begin in range(0, len(elements), TILE):
        tile = elements[begin : begin + TILE]
        most = max(element & 0x7FFF for element in tile)
        base = max((most >> 7) + (most & 0x7F > 0x68), 18)
        if base > 254:
            return None
        scale = power(base - 127)
        values = [scale * e4m3(code) for code in range(CODES)]
        unit = values[8] / 128
        total = difference = 0
        for element in tile:
            value = magnitude_of(element)
            code = nearest(value, values)
            codes.append(element >> 8 & 0x80 | code)
            decoded.append(element & 0x8000 | bits_of(values[code]))
            units = value // unit
            total += units
            difference += abs(units - int(values[code] / unit))
        errors.append(min(65536 * difference // total, 65535) if total else 0)
        bases.append(base)
    given = struct.pack(f"<{len(decoded)}H", *decoded)
    header = struct.pack(f"<I{len(errors)}H", crc32c(given), *errors) + bytes(bases)
    return header + bytes(header_bytes(len(elements)) - len(header)) + bytes(codes), given


def packed(named: dict[str, list[int]]) -> dict[str, bytes]:
    return {name: struct.pack(f"<{len(some)}H", *some) for name, some in named.items()}


def elements_with(generator: random.Random, count: int, exponents: range, rare: int = 0, every: int = 1) -> list[int]:
    return [
        generator.choice((0, 0x8000))
        | (rare if at % every == every - 1 and rare >= 0 else generator.choice(exponents)) << 7
        | generator.randrange(128)
        for at in range(count)
    ]


def granules() -> dict[str, bytes]:
    """Raw granules for `exact` by name: each kind of element, and shapes with whole and short tiles."""
    generator = random.Random(43)

    def elements(count: int, exponents: range, rare: int = 0, every: int = 1) -> list[int]:
        return elements_with(generator, count, exponents, rare, every)

    return packed(
        {
            "zeros": [0] * 512,
            "negative zeros and subnormals": [0x8000 | at % 128 for at in range(512)],
            "a window": elements(512, range(114, 128), 127, 64),
            "not a number and infinite": elements(512, range(242, 256), 255, 32),
            "small exponents, and zeros among them": elements(512, range(0, 6), 5, 50),
            "escapes in both tiles, the last one short": elements(640, range(116, 127), 3, 127),
            "as many escapes as fit": elements(1024, range(116, 127), 90, 113),
            "one more escape than fits": elements(1024, range(116, 127), 90, 102),
            "sixteen tokens with heads of 128": elements(2048, range(117, 127), 101, 300),
        }
    )


def lossy_granules() -> dict[str, bytes]:
    """Raw granules for `fp8` by name: every way to be rounded, each kind of element, and the bounds of the bases."""
    generator = random.Random(44)
    # Three exponents in each tile: the largest, and two that become smaller from tile to tile, with all mantissas.
    every_way = [
        element
        for far in range(12)
        for exponent in (130, 130 - far, 119 - far)
        for element in [exponent << 7 | mantissa for mantissa in range(0x69 if exponent == 130 else 128)]
        + ([0x8000, 0] * 12)[: 23 if exponent == 130 else 0]
    ]
    every_way = [element for begin in range(0, len(every_way), 384) for element in every_way[begin : begin + 384] + [0x8001] * 128]
    around = elements_with(generator, 511, range(108, 124))
    return packed(
        {
            "zeros": [0] * 512,
            "negative zeros and subnormals": [0x8000 | at % 128 for at in range(512)],
            "all mantissas with exponents near and far": every_way,
            "the largest element is rounded to 1.75": [*around, 124 << 7 | 0x68],
            "the largest element is nearer to the next power of two": [*around, 124 << 7 | 0x69],
            "the largest element is rounded to the next power of two": [124 << 7 | 0x7F, *around],
            "exponents around the smallest base": elements_with(generator, 1024, range(0, 18), 20, 600),
            "the smallest exponents": elements_with(generator, 512, range(0, 4)),
            "the largest numbers that fit": [*elements_with(generator, 511, range(236, 254)), 254 << 7 | 0x68],
            "the smallest number that does not fit": [*around, 254 << 7 | 0x69],
            "infinite": [*around, 0xFF80],
            "not a number": [0x7FC0, *around],
            "the last tile is short": elements_with(generator, 640, range(104, 127)),
            "nothing fits in the short last tile": elements_with(generator, 512, range(104, 127)) + [0x7F80] * 128,
            "sixteen tokens with heads of 128": elements_with(generator, 2048, range(110, 127), 90, 300),
        }
    )


def main() -> None:
    lines = [
        "# Granules of bf16 elements and what the encoding `exact` makes of them, in hexadecimal; `none`: the granule does not fit.",
        "# Written by system-tests/make_granules.py; read by the tests of Java and Python.",
    ]
    for name, raw in granules().items():
        encoded = encode_exact(raw)
        lines += [f"= {name}", raw.hex(), "none" if encoded is None else encoded.hex()]
    EXACT.write_text("\n".join(lines) + "\n")
    lines = [
        "# Granules of bf16 elements, what the encoding `fp8` makes of them, and what that is decoded to, in hexadecimal; `none`: the granule",
        "# does not fit. Written by system-tests/make_granules.py; read by the tests of Java and Python.",
    ]
    for name, raw in lossy_granules().items():
        made = encode_fp8(raw)
        lines += [f"= {name}", raw.hex(), *(("none", "none") if made is None else (part.hex() for part in made))]
    FP8.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
