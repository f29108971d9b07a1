"""The encoding `exact`: its bytes, by every implementation of the C core, and what damaged bytes do."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from kvtier_testing.kv import bf16, kv_block
from make_granules import EXACT, encode_exact, escapes_max, granules

from checks.shared.checkout import ROOT
from kvtier import InvalidArgument, _core
from kvtier._encoding import encoding_of

SOURCES = ROOT / "client-py/src/kvtier"
SHAPES = [512, 640, 1024, 1152, 2048, 9216, 16384]


@pytest.fixture(params=["avx512", "avx2", "plain"])
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if not _core.exact_choose(name):
        pytest.skip(f"this CPU has no {name}")
    yield name
    _core.exact_choose(_core.EXACT)


def golden() -> Iterator[tuple[str, bytes, bytes | None]]:
    lines = [line for line in EXACT.read_text().splitlines() if not line.startswith("#")]
    for name, raw, encoded in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        yield name.removeprefix("= "), bytes.fromhex(raw), None if encoded == "none" else bytes.fromhex(encoded)


def encoded_by_core(raw: bytes, elements: int) -> tuple[int, int, bytes]:
    to = bytearray(len(raw) // (2 * elements) * _core.exact_granule_bytes(elements))
    count, crc32c = _core.exact_encode(to, raw, elements)
    return count, crc32c, bytes(to)


def test_golden_isWhatTheRulesMake() -> None:
    assert {name: raw for name, raw, _ in golden()} == granules()
    for name, raw, encoded in golden():
        assert encode_exact(raw) == encoded, name


def test_encode_goldenBytes(implementation: str) -> None:
    for name, raw, encoded in golden():
        count, crc32c, made = encoded_by_core(raw, len(raw) // 2)
        assert count == (encoded is not None), name
        if encoded is not None:
            assert made == encoded, name
            assert crc32c == _core.crc32c(encoded), name


def test_decode_goldenBytes(implementation: str) -> None:
    for name, raw, encoded in golden():
        if encoded is not None:
            to = bytearray(len(raw))
            assert _core.exact_decode(to, encoded, len(raw) // 2) == (1, _core.crc32c(encoded)), name
            assert to == raw, name


@pytest.mark.parametrize("elements", SHAPES)
@pytest.mark.parametrize("offset", [0, 1, 16])
def test_blocksOfEveryShape_comeBack(implementation: str, elements: int, offset: int) -> None:
    raw = kv_block(b"shape", 2 * elements * 40)
    count, crc32c, encoded = encoded_by_core(raw, elements)
    assert count == 40
    assert crc32c == _core.crc32c(encoded)
    assert len(encoded) <= 0.77 * len(raw)
    memory = bytearray(len(raw) + offset)
    shifted = bytearray(offset) + encoded
    to = memoryview(memory)[offset:]
    assert _core.exact_decode(to, memoryview(shifted)[offset:], elements) == (40, crc32c)
    assert to == raw


def test_granuleOf16TokensAnd128Elements_takes076OfItsBytes() -> None:
    assert _core.exact_granule_bytes(2048) / 4096 <= 0.76
    assert escapes_max(2048) == 23


@pytest.mark.parametrize("elements", [0, 256, 511, 513, 576, 16385, 16512, -2048])
def test_granulesOfOtherSizes_areNone(elements: int) -> None:
    assert _core.exact_granule_bytes(elements) == 0
    with pytest.raises(InvalidArgument):
        _core.exact_decode(bytearray(4096), bytes(3104), elements)


def test_blockWithADamagedGranule_isDecodedUpToThere(implementation: str) -> None:
    raw = kv_block(b"damaged", 4096 * 3)
    _, _, encoded = encoded_by_core(raw, 2048)
    damaged = bytearray(encoded)
    damaged[3104 + 2000] ^= 1
    to = bytearray(len(raw))
    assert _core.exact_decode(to, damaged, 2048)[0] == 1
    assert to[:4096] == raw[:4096]


def test_damagedBytes_areNeverTakenForABlock(implementation: str) -> None:
    generator = random.Random(7)
    raw = bf16(numpy.random.default_rng(7).standard_normal(2048, dtype=numpy.float32) * numpy.float32(2.0) ** -9)
    _, _, encoded = encoded_by_core(raw, 2048)
    to = bytearray(4096)
    places = [*range(33), *(generator.randrange(3104) for _ in range(300))]
    for place in places:
        for value in {0, 255, encoded[place] ^ 1, encoded[place] ^ 0x80, generator.randrange(256)}:
            damaged = bytearray(encoded)
            damaged[place] = value
            count, _ = _core.exact_decode(to, damaged, 2048)
            # A byte behind the last escape has no meaning.
            assert count == 0 or to == raw, (place, value)


def test_blockThatDoesNotFit_saysWhere(implementation: str) -> None:
    fits = kv_block(b"fits", 4096)
    wide = (numpy.float32(2.0) ** numpy.random.default_rng(1).integers(-60, 60, 2048)).astype(numpy.float32)
    assert encoded_by_core(fits + bf16(wide) + fits, 2048)[0] == 1
    assert encoded_by_core(fits + numpy.random.default_rng(2).bytes(4096), 2048)[0] == 1


def test_fuzzedBytes_areNeverReadOrWrittenBeyond(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path / "fuzz"
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
    sources = [Path(__file__).parent / "exact_fuzz.c", SOURCES / "_exact.c", SOURCES / "_crc32c.c"]
    built = subprocess.run([compiler, *flags, f"-I{SOURCES}", "-o", program, *sources], capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program, "20000"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("value", "block_bytes", "expected"),
    [
        ("exact", 1 << 21, "expected 'exact bf16 GRANULE_BYTES'"),
        ("zip bf16 4096", 1 << 21, "expected 'exact bf16 GRANULE_BYTES'"),
        ("exact bf16 4096 ", 1 << 21, "expected 'exact bf16 GRANULE_BYTES'"),
        ("exact bf16 -4096", 1 << 21, "expected 'exact bf16 GRANULE_BYTES'"),
        ("exact fp16 4096", 1 << 21, "elements of type fp16"),
        ("exact bf16 4095", 1 << 21, "expected a multiple of 256"),
        ("exact bf16 512", 1 << 21, "from 1024 to 32768"),
        ("exact bf16 4096", 6144, "not a whole number of granules"),
    ],
)
def test_encodingOf_whatIsNone_raises(value: str, block_bytes: int, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=expected):
        encoding_of(value, block_bytes)
