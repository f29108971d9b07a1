"""Writes layout/src/test/resources/golden/exact.txt: granules and what they are encoded to, by rules written down once more here.

PYTHONPATH=. python system-tests/make_granules.py
"""

import random
import struct

from checks.shared.checkout import ROOT

GOLDEN = ROOT / "layout/src/test/resources/golden/exact.txt"

TILE = 512
WINDOW = 14
ZERO = 14
ESCAPE = 15


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


def encode(raw: bytes) -> bytes | None:
    """The encoded granule; None: it does not fit."""
    elements = [one for (one,) in struct.iter_unpack("<H", raw)]
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


def granules() -> dict[str, bytes]:
    """Raw granules by name: each kind of element, and shapes with whole and short tiles."""
    generator = random.Random(43)

    def elements(count: int, exponents: range, rare: int = 0, every: int = 1) -> list[int]:
        return [
            generator.choice((0, 0x8000))
            | (rare if at % every == every - 1 and rare >= 0 else generator.choice(exponents)) << 7
            | generator.randrange(128)
            for at in range(count)
        ]

    made = {
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
    return {name: struct.pack(f"<{len(some)}H", *some) for name, some in made.items()}


def main() -> None:
    lines = [
        "# Granules of bf16 elements and what the encoding `exact` makes of them, in hexadecimal; `none`: the granule does not fit.",
        "# Written by system-tests/make_granules.py; read by the tests of Java and Python.",
    ]
    for name, raw in granules().items():
        encoded = encode(raw)
        lines += [f"= {name}", raw.hex(), "none" if encoded is None else encoded.hex()]
    GOLDEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
