"""Writes vectors/sha256_cbor.json from hashlib and cbor2, independently of the package: run it when cases change."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import cbor2

PATH = Path(__file__).parent / "vectors" / "sha256_cbor.json"


def sha256_cbor(value: object) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def as_tuples(value: Any) -> Any:
    """JSON has no tuples and no bytes: lists stand for tuples, {"hex": ...} for bytes."""
    if isinstance(value, list):
        return tuple(as_tuples(item) for item in value)
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return value


def case(name: str, seed: str | None, block_tokens: int, tokens: list[int], extra_keys: Any = None) -> dict[str, Any]:
    none = hashlib.sha256(name.encode()).digest() if seed is None else sha256_cbor(seed)
    parent, hashes = none, []
    for index in range(len(tokens) // block_tokens):
        extra = as_tuples(extra_keys[index]) if extra_keys is not None else None
        parent = sha256_cbor((parent, tuple(tokens[index * block_tokens : (index + 1) * block_tokens]), extra))
        hashes.append(parent.hex())
    return {
        "name": name, "seed": seed, "none_hash": none.hex(), "block_tokens": block_tokens, "tokens": tokens,
        "extra_keys": extra_keys, "hashes": hashes,
    }  # fmt: skip


def cases() -> list[dict[str, Any]]:
    numbers = random.Random(2718281828)
    vocabulary = [numbers.randrange(152_064) for _ in range(512)]
    edges = [0, 23, 24, 255, 256, 65535, 65536, 4294967295, 4294967296, 18446744073709551615, 1, 2, 3, 4, 5, 6]
    return [
        case("no tokens", "0", 16, []),
        case("less than a block", "0", 16, list(range(15))),
        case("one block", "0", 16, list(range(16))),
        case("two blocks", "0", 16, list(range(32))),
        case("partial last block", "0", 16, list(range(47))),
        case("blocks of one token", "0", 1, [7, 7, 7]),
        case("integer widths", "0", 4, edges),
        case("real vocabulary, 16", "0", 16, vocabulary),
        case("real vocabulary, 32", "42", 32, vocabulary),
        case("real vocabulary, 256", "42", 256, vocabulary),
        case("a large block", "1", 512, vocabulary),
        case("empty seed", "", 4, [1, 2, 3, 4]),
        case("seed with letters", "größe-模型", 4, [1, 2, 3, 4]),
        case("long seed", "s" * 300, 4, [1, 2, 3, 4]),
        case("random start", None, 4, [1, 2, 3, 4, 5, 6, 7, 8]),
        case("adapter name", "0", 4, list(range(8)), [["sql-lora"], ["sql-lora"]]),
        case("cache salt in the first block", "0", 4, list(range(12)), [["salt-1"], None, None]),
        case("image at an offset", "0", 4, list(range(12)), [[["9f86d081", 2]], [["9f86d081", -2]], None]),
        case("nested and mixed", "0", 4, list(range(8)), [["a", 1, ["b", [2, None]], True], [False, -1, -25, -257, ""]]),
        case("bytes", "0", 4, list(range(4)), [[{"hex": "00ff10"}, {"hex": ""}]]),
        case("wide extra keys", "0", 2, [1, 2], [[4294967296, -4294967297, 18446744073709551615, "x" * 70000]]),
        case("many extra keys", "0", 2, [1, 2], [list(range(300))]),
        case("floats", "0", 2, [1, 2], [[0.0, 1.5, 0.1, 100000.0, 3.4028234663852886e38, -4.1, 1e300]]),
        case("no extra keys is not none", "0", 2, [1, 2, 3, 4], [[], None]),
    ]


if __name__ == "__main__":
    PATH.write_text(json.dumps({"cases": cases()}, indent=1, ensure_ascii=True) + "\n")
