"""Chained block hashes against hashlib and cbor2."""

import json
import math
import random
from typing import Any

import cbor2
import make_vectors
import pytest

from kvtier import hashing


def test_vectors_file_isWhatItsGeneratorMakes() -> None:
    assert json.loads(make_vectors.PATH.read_text())["cases"] == make_vectors.cases()


@pytest.mark.parametrize("case", make_vectors.cases(), ids=lambda case: case["name"])
def test_blockHashes_vector_match(case: dict[str, Any]) -> None:
    none = bytes.fromhex(case["none_hash"])
    if case["seed"] is not None:
        assert hashing.none_hash(case["seed"]) == none
    extra_keys = case["extra_keys"] and [make_vectors.as_tuples(extra) for extra in case["extra_keys"]]
    hashes = hashing.block_hashes(case["tokens"], case["block_tokens"], none, extra_keys)
    assert [one.hex() for one in hashes] == case["hashes"]


def test_blockHashes_continuedFromParent_sameAsWhole() -> None:
    none = hashing.none_hash("0")
    whole = hashing.block_hashes(range(64), 16, none)
    assert hashing.block_hashes(range(32, 64), 16, whole[1]) == whole[2:]


def test_blockHashes_ofText_isRefused() -> None:
    with pytest.raises(TypeError, match="tokens is a str; expected token ids"):
        hashing.block_hashes("hello", 16, hashing.none_hash("0"))  # type: ignore[arg-type]


def test_noneHash_withoutSeed_isRandom() -> None:
    assert len(hashing.none_hash()) == hashing.HASH_BYTES
    assert hashing.none_hash() != hashing.none_hash()


def test_canonicalCbor_randomValues_sameAsCbor2() -> None:
    numbers = random.Random(577215)

    def value(depth: int) -> object:
        kind = numbers.randrange(8 if depth else 6)
        if kind == 0:
            return None
        if kind == 1:
            return numbers.random() < 0.5
        if kind == 2:
            return numbers.randrange(-(1 << numbers.randrange(1, 80)), 1 << numbers.randrange(1, 80))
        if kind == 3:
            return "".join(chr(numbers.choice((65, 228, 0x6A21, 0x1F600))) for _ in range(numbers.randrange(300)))
        if kind == 4:
            return numbers.randbytes(numbers.randrange(300))
        if kind == 5:
            return numbers.choice((0.0, -0.0, 1.5, 65504.0, 65505.0, math.inf, -math.inf, 5.960464477539063e-8,
                                   numbers.random(), 1e39, 3.4028234663852886e38))  # fmt: skip
        return tuple(value(depth - 1) for _ in range(numbers.randrange(30)))

    for _ in range(500):
        one = value(3)
        assert hashing.canonical_cbor(one) == cbor2.dumps(one, canonical=True), one


def test_canonicalCbor_nan_isTheOne() -> None:
    assert hashing.canonical_cbor(math.nan) == cbor2.dumps(math.nan, canonical=True)


def test_canonicalCbor_unknownType_raises() -> None:
    with pytest.raises(TypeError):
        hashing.canonical_cbor({"a": 1})
