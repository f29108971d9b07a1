"""Measures the cost of kvtier for a vLLM that finds no blocks. Batches of new prompts take turns within one process: without a
connector, with a connector that does nothing, and with kvtier's, which stores all blocks.

With CUDA graphs for the steps that generate, as engines run, or without (--eager). Run by gpu.py, where there is a GPU;
--tiny makes a model that a processor computes, to try the program.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from checks.engines.pairs import Engine
from checks.engines.switch import by_turns
from checks.shared.command_line import Arguments

MODES = ("without", "bare", "stored")


class Batch(NamedTuple):
    prompts: int
    tokens: range
    """of a prompt"""
    generated: int
    """tokens, for each of them"""


BATCHES = {"prompts": Batch(24, range(666, 1334), 32), "tokens": Batch(128, range(32, 65), 128)}
"""`prompts` spends most of the time on prompts, `tokens` on generated tokens"""


def measure(engine: Engine, batch: Batch, groups: int) -> dict[str, list[float]]:
    """Milliseconds of batches of the same lengths, by their mode."""
    chance = random.Random(6)
    lengths = [chance.choice(batch.tokens) for _ in range(batch.prompts)]

    def once() -> float:
        prompts = [[chance.randrange(3, 30000) for _ in range(length)] for length in lengths]
        begun = time.perf_counter()
        engine.generate(prompts, batch.generated)
        return (time.perf_counter() - begun) * 1e3

    for _ in range(2):
        once()
    return by_turns(MODES, groups, engine.become, once)


def main() -> int:
    parser = Arguments(prog="checks.engines.batches")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kv", type=json.loads, required=True, help="vLLM's kv_transfer_config")
    parser.add_argument("--tokens", type=int, default=32768, help="that the device has room for")
    parser.add_argument("--groups", type=int, default=6, help="of batches of each kind and mode")
    parser.add_argument("--only", choices=BATCHES, action="append", help="default: all")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvtier-model-") as folder:
        engine = Engine(arguments.kv, arguments.tokens, arguments.tiny, Path(folder), arguments.eager)
        found = {name: measure(engine, BATCHES[name], arguments.groups) for name in arguments.only or BATCHES}
    arguments.out.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
