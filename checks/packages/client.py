"""A client of the checks of packages: blocks whose bytes follow from their keys, put, got back and compared.

    python client.py put COUNT        puts blocks 0 … COUNT - 1
    python client.py get COUNT        gets them back: every one, and every byte of it
    python client.py load FILE        puts and gets until FILE is there, also over restarts; then gets all that was accepted
"""

import hashlib
import json
import random
import sys
import time
from pathlib import Path

from kvtier import Client, Namespace, Status

BLOCK_BYTES = 64 * 1024
BATCH = 16
# Fewer than the tiers of the check have room for: what is accepted stays.
LOAD_BLOCKS = 16_000


def key(number: int) -> bytes:
    return hashlib.sha256(f"package-check/{number}".encode()).digest()


def block(number: int) -> bytes:
    return random.Random(number).randbytes(BLOCK_BYTES)


def put(cache: Namespace, numbers: range) -> list[Status]:
    return cache.put([key(number) for number in numbers], [block(number) for number in numbers])


def get(cache: Namespace, numbers: list[int]) -> dict[str, int]:
    """How many blocks were there, were not, and had a wrong byte."""
    found = {"right": 0, "missing": 0, "wrong": 0}
    for at in range(0, len(numbers), BATCH):
        batch = numbers[at : at + BATCH]
        into = [bytearray(BLOCK_BYTES) for _ in batch]
        _, statuses = cache.get([key(number) for number in batch], into)
        for number, status, memory in zip(batch, statuses, into, strict=True):
            found["missing" if status is not Status.OK else "right" if memory == block(number) else "wrong"] += 1
    return found


def load(cache: Namespace, until: Path) -> dict[str, int]:
    accepted: set[int] = set()
    seen = {"unavailable": 0, "wrong": 0}
    pause_since: float | None = None
    longest_pause = 0.0
    rounds = 0
    while not until.exists():
        number = 1_000_000 + rounds * BATCH % LOAD_BLOCKS
        rounds += 1
        statuses = put(cache, range(number, number + BATCH))
        taken = [number + i for i, status in enumerate(statuses) if status in (Status.OK, Status.EXISTS)]
        now = time.monotonic()
        if Status.UNAVAILABLE in statuses:
            seen["unavailable"] += 1
            pause_since = pause_since or now
            time.sleep(0.02)
        elif pause_since is not None:
            longest_pause = max(longest_pause, now - pause_since)
            pause_since = None
        accepted.update(taken)
        if taken:
            seen["wrong"] += get(cache, taken)["wrong"]
    at_end = get(cache, sorted(accepted))
    return {**seen, "accepted": len(accepted), "right_at_end": at_end["right"], "missing_at_end": at_end["missing"],
            "wrong_at_end": at_end["wrong"], "longest_pause_ms": round(longest_pause * 1000)}  # fmt: skip


def main() -> int:
    command, argument = sys.argv[1:]
    with Client(name="package-check", timeout=10) as client:
        cache = client.namespace("package-check", block_bytes=BLOCK_BYTES)
        if command == "put":
            refused = [status.name for status in put_all(cache, int(argument)) if status not in (Status.OK, Status.EXISTS)]
            print(json.dumps({"put": int(argument) - len(refused), "refused": refused[:3]}))
            return 1 if refused else 0
        if command == "get":
            found = get(cache, list(range(int(argument))))
            print(json.dumps(found))
            return 1 if found["wrong"] or found["missing"] else 0
        result = load(cache, Path(argument))
        print(json.dumps(result))
        return 1 if result["wrong"] or result["wrong_at_end"] or result["missing_at_end"] or not result["accepted"] else 0


def put_all(cache: Namespace, count: int) -> list[Status]:
    statuses: list[Status] = []
    for first in range(0, count, BATCH):
        statuses += put(cache, range(first, min(first + BATCH, count)))
    return statuses


if __name__ == "__main__":
    sys.exit(main())
