"""Checks of several vLLM engines on GPUs of one host: another number of ranks finds the same blocks, and one engine gets blocks from
another's memory. Parts of gpu.py, for a machine with two GPUs; --tiny tries the program where there is none."""

import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checks.engines.serve import write_model

_START_S = 200
_ANSWER_S = 120
TOKENS = 4
"""that are generated where tokens are compared"""
_COUNTERS_S = 1.0
"""the daemon writes its counters some times in a second"""
_FLOOD = (1, 2)
"""prompts of the greatest length: behind both of them a device's cache has no other blocks"""


class Engine:
    """A process of serve.py."""

    def __init__(
        self, model: Path, kv: dict[str, Any] | None, log: Path, *, gpus: str, ranks: int, tokens: int, tiny: bool, logging: Path,
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        reads, writes = os.pipe()
        command = [sys.executable, "-P", "-m", "checks.engines.serve", "--model", str(model), "--answers", str(writes)]
        command += ["--ranks", str(ranks), "--tokens", str(tokens)]
        command += ["--kv", json.dumps(kv)] if kv else []
        command += ["--tiny"] if tiny else []
        with log.open("w") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, pass_fds=[writes], start_new_session=True,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": gpus, "VLLM_LOGGING_CONFIG_PATH": str(logging)} | (environment or {}),
            )  # fmt: skip
        os.close(writes)
        self._log = log
        self._answers = os.fdopen(reads, "rb", 0)

    def ready(self) -> "Engine":
        self._answer(_START_S)
        return self

    def ask(self, **words: Any) -> dict[str, Any]:
        self.tell(**words)
        return self.answer()

    def tell(self, **words: Any) -> None:
        """As `ask`, but does not wait: `answer` does."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        answer = self._answer(_ANSWER_S)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def run(self, seed: int, tokens: int, generated: int = 1) -> dict[str, Any]:
        return self.ask(prompt=[seed, tokens], tokens=generated)

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            line = self._answers.readline() if selector.select(timeout_s) else b""
        if not line:
            self.close()
            raise RuntimeError(f"no answer within {timeout_s} s: {self._log.read_text(errors='replace')[-1200:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        self._answers.close()


@contextmanager
def model_of(tiny: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvtier-model-") as folder:
        write_model(Path(folder), tiny)
        yield Path(folder)


def ranks(
    start: Callable[[str, int, str], Engine], note: Callable[..., None], lens: list[int], reps: int, link_ms: Callable[[int], float]
) -> bool:
    """Engines of 2, 1 and 2 ranks, one after the other: each restores what the first one has computed.

    Args:
        start: an engine with these GPUs, so many ranks and that name.
        note: takes the figures of one engine.
        link_ms: what the link takes for the blocks of so many tokens.

    Returns:
        Whether all was restored, and all tokens are those of the first.
    """
    right = True
    first: dict[tuple[int, int], list[int]] = {}
    for turn, count in enumerate((2, 1, 2)):
        name = f"ranks-{turn}-of-{count}"
        engine = start("0,1" if count == 2 else "0", count, name).ready()
        try:
            for seed in _FLOOD:
                engine.run(seed, lens[-1])
                engine.run(seed, lens[-1])
            for tokens in lens:
                rows = []
                for rep in range(reps):
                    seed = tokens + rep
                    begun = engine.run(seed, tokens, TOKENS)
                    same = first.setdefault((tokens, rep), begun["tokens"]) == begun["tokens"]
                    for other in _FLOOD:
                        # The device has no place for anything else then.
                        engine.run(other, lens[-1])
                    restored = engine.run(seed, tokens)
                    hit = engine.run(seed, tokens)
                    rows.append({"first": begun, "restored": restored, "hit_ms": hit["ms"], "same": same})
                expected = tokens - tokens % 16
                came = [row["first"]["cached"] for row in rows]
                lacks = [one for one in [*(came if turn else []), *(row["restored"]["cached"] for row in rows)] if one < expected - 16]
                told = {
                    "tokens": tokens, "came_from_others": came, "same_tokens": sum(row["same"] for row in rows), "of": len(rows),
                    "first_ms": statistics.median(row["first"]["ms"] for row in rows),
                    "restored_ms": statistics.median(row["restored"]["ms"] for row in rows),
                    "hit_ms": statistics.median(row["hit_ms"] for row in rows),
                    "restored_tokens": [row["restored"]["cached"] for row in rows],
                }  # fmt: skip
                link = link_ms(tokens) / count
                if link:
                    told["link_ms"] = link
                    told["of_limit"] = statistics.median(row["restored"]["ms"] / (row["hit_ms"] + link) for row in rows)
                right &= not lacks and all(row["same"] for row in rows)
                note(name, **told)
        finally:
            engine.close()
    return right


def sharing(
    start: Callable[[str, int, str], Engine], note: Callable[..., None], lens: list[int], reps: int, counters: Callable[[], dict[str, int]]
) -> bool:
    """Two engines on two GPUs: what one has computed, the other gets from its memory, and in turns from host memory.

    Args:
        counters: the daemon's.

    Returns:
        Whether all came from where it was to come, and the tokens are the same.
    """
    right = True
    giver, taker = start("0", 1, "sharing-giver"), start("1", 1, "sharing-taker")
    try:
        giver.ready()
        taker.ready()
        for engine in (giver, taker):
            for seed in (1, 2):
                engine.run(20_000 + seed, lens[-1])
                engine.run(20_000 + seed, lens[-1])
        for tokens in lens:
            rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
            for rep in range(2 * reps):
                shares = rep % 2 == 0
                giver.ask(shares=shares)
                seed = 30_000 + tokens + rep
                computed = giver.run(seed, tokens, TOKENS)
                giver.ask(waits=True)
                before = _moved(counters)
                restored = taker.run(seed, tokens)
                moved = _moved(counters) - before
                hit = taker.run(seed, tokens)
                again = taker.run(seed, tokens, TOKENS)
                rows[shares].append(restored | {"computed_ms": computed["ms"], "hit_ms": hit["ms"], "moved": moved})
                right &= again["tokens"] == computed["tokens"] and bool(moved) == shares and restored["cached"] >= tokens - 32
            for shares, some in rows.items():
                note(
                    "sharing", tokens=tokens, source="the other GPU" if shares else "host memory", moved_bytes=[one["moved"] for one in some],
                    restored_ms=statistics.median(one["ms"] for one in some), hit_ms=statistics.median(one["hit_ms"] for one in some),
                    restored_less_hit_ms=statistics.median(one["ms"] - one["hit_ms"] for one in some), cached=[one["cached"] for one in some],
                )  # fmt: skip
        note("sharing-cold", **_cold(giver, lens[-1], 2 * reps + 1))
    finally:
        giver.close()
        taker.close()
    return right


def _moved(counters: Callable[[], dict[str, int]]) -> int:
    """The bytes that went from GPU to GPU until now."""
    time.sleep(_COUNTERS_S)
    return counters()["gpu_peer_bytes"]


def _cold(engine: Engine, tokens: int, groups: int) -> dict[str, Any]:
    """What it costs an engine to say which blocks it has, and to take them back: new prompts in turns, each in the places of the last."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for group in range(2 * groups):
        shares = group % 2 == 0
        engine.ask(shares=shares)
        found[shares] += [engine.run(500_000 + 10 * group + number, tokens)["ms"] for number in range(3)][1:]
    with_ms, without_ms = (statistics.median(found[shares]) for shares in (True, False))
    return {"tokens": tokens, "with_ms": with_ms, "without_ms": without_ms, "costs": with_ms / without_ms - 1, "rounds": len(found[True])}
