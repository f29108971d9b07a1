"""The encodings of blocks: their bytes, by every implementation of the C core, and what damaged bytes do."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy
import pytest
from kvtier_testing.kv import bf16, kv_block
from make_granules import EXACT, FP8, encode_exact, encode_fp8, escapes_max, granules, lossy_granules

from checks.attacks.granules import DAMAGES, ELEMENTS, Damage, decoded, forged
from checks.shared.checkout import ROOT
from kvtier import InvalidArgument, _core
from kvtier._encoding import KINDS, encoding_of

SOURCES = ROOT / "client-py/src/kvtier"
SHAPES = [512, 640, 1024, 1152, 2048, 9216, 16384]


@pytest.fixture(params=["avx512", "avx2", "plain"])
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if not _core.encoding_choose(name):
        pytest.skip(f"this CPU has no {name}")
    yield name
    _core.encoding_choose(_core.ENCODING)


class Granule(NamedTuple):
    name: str
    raw: bytes
    encoded: bytes | None
    """None: the granule does not fit"""
    decoded: bytes


def golden(kind: str) -> Iterator[Granule]:
    path, each = (EXACT, 3) if kind == "exact" else (FP8, 4)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    for at in range(0, len(lines), each):
        name, raw, encoded, decoded = lines[at], lines[at + 1], lines[at + 2], lines[at + each - 1 if each == 4 else at + 1]
        fits = encoded != "none"
        yield Granule(
            name.removeprefix("= "),
            bytes.fromhex(raw),
            bytes.fromhex(encoded) if fits else None,
            bytes.fromhex(decoded) if fits else b"",
        )


def encoded_by_core(kind: str, raw: bytes, elements: int) -> tuple[int, int, bytes]:
    to = bytearray(len(raw) // (2 * elements) * _core.granule_bytes(kind, elements))
    count, crc32c = _core.encode(kind, to, raw, elements)
    return count, crc32c, bytes(to)


def decoded_by_core(kind: str, encoded: bytes, elements: int) -> bytes:
    granule_bytes = _core.granule_bytes(kind, elements)
    to = bytearray(len(encoded) // granule_bytes * 2 * elements)
    assert _core.decode(kind, to, encoded, elements) == (len(encoded) // granule_bytes, _core.crc32c(encoded))
    return bytes(to)


def test_goldenOfExact_isWhatTheRulesMake() -> None:
    assert {granule.name: granule.raw for granule in golden("exact")} == granules()
    for granule in golden("exact"):
        assert encode_exact(granule.raw) == granule.encoded, granule.name


def test_goldenOfFp8_isWhatTheRulesMake() -> None:
    assert {granule.name: granule.raw for granule in golden("fp8")} == lossy_granules()
    for granule in golden("fp8"):
        assert encode_fp8(granule.raw) == (None if granule.encoded is None else (granule.encoded, granule.decoded)), granule.name


@pytest.mark.parametrize("kind", KINDS)
def test_encode_goldenBytes(implementation: str, kind: str) -> None:
    for name, raw, encoded, _ in golden(kind):
        count, crc32c, made = encoded_by_core(kind, raw, len(raw) // 2)
        assert count == (encoded is not None), name
        if encoded is not None:
            assert made == encoded, name
            assert crc32c == _core.crc32c(encoded), name


@pytest.mark.parametrize("kind", KINDS)
def test_decode_goldenBytes(implementation: str, kind: str) -> None:
    for name, raw, encoded, decoded in golden(kind):
        if encoded is not None:
            assert decoded_by_core(kind, encoded, len(raw) // 2) == decoded, name


@pytest.mark.parametrize("elements", SHAPES)
@pytest.mark.parametrize("offset", [0, 1, 16])
def test_exactBlocksOfEveryShape_comeBack(implementation: str, elements: int, offset: int) -> None:
    raw = kv_block(b"shape", 2 * elements * 40)
    count, crc32c, encoded = encoded_by_core("exact", raw, elements)
    assert count == 40
    assert crc32c == _core.crc32c(encoded)
    assert len(encoded) <= 0.77 * len(raw)
    memory = bytearray(len(raw) + offset)
    shifted = bytearray(offset) + encoded
    to = memoryview(memory)[offset:]
    assert _core.decode("exact", to, memoryview(shifted)[offset:], elements) == (40, crc32c)
    assert to == raw


@pytest.mark.parametrize("elements", SHAPES)
@pytest.mark.parametrize("offset", [0, 1, 16])
def test_fp8BlocksOfEveryShape_comeBackAlike_andAsTheyAreWhenEncodedOnceMore(implementation: str, elements: int, offset: int) -> None:
    raw = kv_block(b"shape", 2 * elements * 40)
    count, crc32c, encoded = encoded_by_core("fp8", raw, elements)
    assert (count, crc32c) == (40, _core.crc32c(encoded))
    assert len(encoded) <= 0.54 * len(raw)
    memory = bytearray(len(raw) + offset)
    shifted = bytearray(offset) + encoded
    to = memoryview(memory)[offset:]
    assert _core.decode("fp8", to, memoryview(shifted)[offset:], elements) == (40, crc32c)
    was, now = floats(raw), floats(bytes(to))
    error = numpy.abs(was - now).sum() / numpy.abs(was).sum()
    assert 0.01 < error < 0.035
    count, _, again = encoded_by_core("fp8", bytes(to), elements)
    assert count == 40 and decoded_by_core("fp8", again, elements) == to


def floats(raw: bytes) -> numpy.ndarray:
    return (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").astype(numpy.float64)


def test_everyBf16Value_isEncodedToFp8AlikeByAllImplementations() -> None:
    # By sign and exponent, all mantissas.
    values = numpy.arange(1 << 16, dtype="<u2").reshape(2, 256, 128)
    for largest in (5, 30, 127, 200, 254):
        # Each tile has all mantissas of an exponent with both signs, and larger elements.
        rest = numpy.arange(largest << 7, (largest << 7) + 105, dtype="<u2").repeat(3)[:256]
        tiles = [numpy.concatenate([values[:, exponent].ravel(), rest]) for exponent in range(largest)]
        raw = numpy.concatenate(tiles).tobytes()
        made = []
        for name in ("avx512", "avx2", "plain"):
            if _core.encoding_choose(name):
                made.append(encoded_by_core("fp8", raw, 512))
        _core.encoding_choose(_core.ENCODING)
        assert made[0][0] == len(tiles)
        assert all(one == made[0] for one in made)


def test_granuleOf16TokensAnd128Elements_takes076And051OfItsBytes() -> None:
    assert _core.granule_bytes("exact", 2048) / 4096 <= 0.76
    assert _core.granule_bytes("fp8", 2048) / 4096 <= 0.51
    assert escapes_max(2048) == 23


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("elements", [0, 256, 511, 513, 576, 16385, 16512, -2048])
def test_granulesOfOtherSizes_areNone(kind: str, elements: int) -> None:
    assert _core.granule_bytes(kind, elements) == 0
    with pytest.raises(InvalidArgument):
        _core.decode(kind, bytearray(4096), bytes(3104), elements)


def test_anotherKind_isNone() -> None:
    assert _core.granule_bytes("int4", 2048) == 0
    with pytest.raises(InvalidArgument):
        _core.encode("int4", bytearray(3104), bytes(4096), 2048)


@pytest.mark.parametrize("kind", KINDS)
def test_blockWithADamagedGranule_isDecodedUpToThere(implementation: str, kind: str) -> None:
    raw = kv_block(b"damaged", 4096 * 3)
    _, _, encoded = encoded_by_core(kind, raw, 2048)
    whole = decoded_by_core(kind, encoded, 2048)
    damaged = bytearray(encoded)
    damaged[len(encoded) // 3 + 2000] ^= 1
    to = bytearray(len(raw))
    assert _core.decode(kind, to, damaged, 2048)[0] == 1
    assert to[:4096] == whole[:4096]


@pytest.mark.parametrize("kind", KINDS)
def test_damagedBytes_areNeverTakenForABlock(implementation: str, kind: str) -> None:
    generator = random.Random(7)
    raw = bf16(numpy.random.default_rng(7).standard_normal(2048, dtype=numpy.float32) * numpy.float32(2.0) ** -9)
    _, _, encoded = encoded_by_core(kind, raw, 2048)
    whole = decoded_by_core(kind, encoded, 2048)
    to = bytearray(4096)
    refused = 0
    places = [*range(33), *(generator.randrange(len(encoded)) for _ in range(300))]
    for place in places:
        for value in {0, 255, encoded[place] ^ 1, encoded[place] ^ 0x80, generator.randrange(256)}:
            damaged = bytearray(encoded)
            damaged[place] = value
            count, _ = _core.decode(kind, to, damaged, 2048)
            # Some bytes have no meaning for the elements: one behind the last escape, and an error.
            assert count == 0 or to == whole, (place, value)
            refused += count == 0
    assert refused > 1000


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.part)
def test_forgedGranules_areDecodedAsTheRulesSay_orRefused(implementation: str, damage: Damage) -> None:
    generator = random.Random(damage.part)
    for kind in damage.kinds:
        raw = bytearray(kv_block(b"forged", 2 * ELEMENTS * 3))
        for at in range(0, len(raw), 2 * ELEMENTS):
            # Some escapes.
            raw[at : at + 6] = b"\x00\x10\x00\x20\x00\x30"
        _, _, encoded = encoded_by_core(kind, bytes(raw), ELEMENTS)
        for _ in range(30):
            block = forged(generator, kind, encoded, damage)
            to = bytearray(len(raw))
            count, _ = _core.decode(kind, to, block, ELEMENTS)
            assert (bytes(to) if count == 3 else None) == decoded(kind, block), kind


def test_blockThatDoesNotFitExact_saysWhere(implementation: str) -> None:
    fits = kv_block(b"fits", 4096)
    wide = (numpy.float32(2.0) ** numpy.random.default_rng(1).integers(-60, 60, 2048)).astype(numpy.float32)
    assert encoded_by_core("exact", fits + bf16(wide) + fits, 2048)[0] == 1
    assert encoded_by_core("exact", fits + numpy.random.default_rng(2).bytes(4096), 2048)[0] == 1


@pytest.mark.parametrize("element", [0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 254 << 7 | 0x69])
@pytest.mark.parametrize("place", [0, 17, 2047])
def test_blockThatDoesNotFitFp8_saysWhere(implementation: str, element: int, place: int) -> None:
    fits = kv_block(b"fits", 4096)
    unfit = bytearray(fits)
    unfit[2 * place : 2 * place + 2] = element.to_bytes(2, "little")
    assert encoded_by_core("fp8", fits + bytes(unfit) + fits, 2048)[0] == 1


def test_fuzzedBytes_areNeverReadOrWrittenBeyond(tmp_path: Path) -> None:
    program = tmp_path / "fuzz"
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
    names = ("_encoding.c", "_exact.c", "_fp8.c", "_crc32c.c")
    sources = [Path(__file__).parent / "encoding_fuzz.c", *(SOURCES / name for name in names)]
    built = subprocess.run(["cc", *flags, f"-I{SOURCES}", "-o", program, *sources], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, "20000"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("value", "block_bytes", "expected"),
    [
        ("exact", 1 << 21, "expected 'exact or fp8 bf16 GRANULE_BYTES'"),
        ("zip bf16 4096", 1 << 21, "expected 'exact or fp8 bf16 GRANULE_BYTES'"),
        ("FP8 bf16 4096", 1 << 21, "expected 'exact or fp8 bf16 GRANULE_BYTES'"),
        ("exact bf16 4096 ", 1 << 21, "expected 'exact or fp8 bf16 GRANULE_BYTES'"),
        ("fp8 bf16 -4096", 1 << 21, "expected 'exact or fp8 bf16 GRANULE_BYTES'"),
        ("exact fp16 4096", 1 << 21, "elements of type fp16"),
        ("fp8 fp8 4096", 1 << 21, "elements of type fp8"),
        ("exact bf16 4095", 1 << 21, "expected a multiple of 256"),
        ("fp8 bf16 512", 1 << 21, "from 1024 to 32768"),
        ("exact bf16 4096", 6144, "not a whole number of granules"),
    ],
)
def test_encodingOf_whatIsNone_raises(value: str, block_bytes: int, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=expected):
        encoding_of(value, block_bytes)
