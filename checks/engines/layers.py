"""Compares loads that come by layer with those that come whole, in turns within one process of vLLM.

A prompt is restored, whole or by layer, and right behind it found on the device. So is a prompt whose end is new: there the engine
has more to compute while blocks come. Then a prompt is restored while the engine generates tokens for another request, which
waits for a load by layer. Run by gpu.py, where there is a GPU; --tiny makes a model that a processor computes, to try the program.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from checks.engines.pairs import Engine
from checks.shared.command_line import Arguments

MODES = ("whole", "layers")
_CHOICES = {"whole": "off", "layers": "on"}
_COPIES = 5
_GENERATED_BEFORE = 24
_GENERATED_BEHIND = 16
_TINY_SPARE_BLOCKS = 40


class Kept(NamedTuple):
    """A prompt whose blocks are stored."""

    prompt: list[int]
    token: int
    """the one that follows"""


class Watched:
    """The loads of an engine: whether each came as it was asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._transfers = engine.worker._transfers
        self._load = self._transfers.load
        self._transfers.load = self._watched
        self._collect = engine.worker._collect_load
        engine.worker._collect_load = self._collected
        self.last: Any = None
        """of the last load, its only transfer"""
        self.promised = 0
        """loads that the engine was told of before they had come"""
        self._came: list[bool] = []

    def _watched(self, transfers: Any, after: Any = None, by_layer: bool = False) -> Any:
        made = self._load(transfers, after, by_layer)
        self.last = transfers[0]
        self._came.append(bool(made.layers))
        return made

    def _collected(self, request_id: str, load: Any, statuses: Any) -> None:
        self.promised += not load.is_over
        self._collect(request_id, load, statuses)

    def become(self, mode: str) -> None:
        """From now on loads come so; nothing is stored."""
        self._engine.become("computed", _CHOICES[mode])
        self._came.clear()

    def require(self, mode: str, tokens: int) -> None:
        """Raises SystemExit where the one load since `become` came otherwise. `tokens`: that it brought."""
        if self._came != [mode == "layers"]:
            raise SystemExit(
                f"{len(self._came)} loads of {tokens} tokens, of which {sum(self._came)} came by layer; expected one, mode {mode}: the engine's "
                "log says why"
            )

    def copies(self) -> dict[str, list[float]]:
        """Milliseconds of a copy of the last load's blocks, without an engine around it, to where they are."""
        region = self._engine.worker._regions[0]
        found: dict[str, list[float]] = {mode: [] for mode in MODES}
        for number in range(2 * _COPIES):
            mode = MODES[number % 2]
            begun = time.perf_counter()
            statuses = region.get(self.last.keys, self.last.block_ids, by_layer=mode == "layers").wait()
            found[mode].append((time.perf_counter() - begun) * 1e3)
            if any(status.name != "OK" for status in statuses):
                raise SystemExit(f"a copy of {len(statuses)} blocks failed")
        return found


class Prompts:
    """Prompts of an engine: new ones, and stored ones of one length."""

    def __init__(self, engine: Engine, longest: int) -> None:
        """`longest`: so many tokens a prompt has at most."""
        self._engine = engine
        self._longest = longest
        self._chance = random.Random(7)
        self.kept: list[Kept] = []
        """more than the device has room for"""

    def fresh(self, tokens: int) -> list[int]:
        return [self._chance.randrange(3, 30000) for _ in range(tokens)]

    def keep(self, tokens: int) -> None:
        """Stores prompts of this length."""
        self._engine.become("stored")
        self.kept.clear()
        for _ in range(self._on_device(tokens) + 2):
            prompt = self.fresh(tokens)
            self.kept.append(Kept(prompt, self._engine.run(prompt)[2]))
        # The engine stores the last blocks of a prompt with its next step.
        self._engine.run(self.fresh(self._engine.block_tokens))
        self._engine.become("computed")

    def flood(self) -> None:
        """Has the device forget all of them."""
        for _ in range(self._on_device(self._longest) + 1):
            self._engine.run(self.fresh(self._longest))
        # A daemon that was late with an answer is not asked for a second.
        time.sleep(2)

    def _on_device(self, tokens: int) -> int:
        """How many prompts of this length the device has room for."""
        return self._engine.device_blocks * self._engine.block_tokens // tokens

    def turns(self, rounds: int) -> Iterator[tuple[str, Kept]]:
        """The modes in turns, and each stored prompt in both."""
        self.flood()
        for number in range(2 * rounds):
            yield MODES[(number + number // len(self.kept)) % 2], self.kept[number % len(self.kept)]


def restore(engine: Engine, watched: Watched, prompts: Prompts, tail: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of restores and of the hits behind them, by mode. `tail`: so many tokens at a prompt's end are new each time."""
    found: dict[str, Any] = {mode: [] for mode in MODES} | {f"{mode}_hit": [] for mode in MODES} | {"wrong": 0, "promised": 0}
    for mode, (prompt, token) in prompts.turns(rounds):
        head = prompt[: len(prompt) - tail]
        watched.become(mode)
        watched.promised = 0
        restored_ms, restored_tokens, first = engine.run(head + prompts.fresh(tail))
        watched.require(mode, restored_tokens)
        found["promised"] += watched.promised if mode == "layers" else 0
        hit_ms, hit_tokens, second = engine.run(head + prompts.fresh(tail))
        least = len(head) - engine.block_tokens
        if min(restored_tokens, hit_tokens) < least:
            raise SystemExit(f"a prompt of {len(prompt)} tokens: {restored_tokens} were restored, {hit_tokens} on the device; expected {least}")
        found[mode].append(restored_ms)
        found[f"{mode}_hit"].append(hit_ms)
        found["wrong"] += tail == 0 and {first, second} != {token}
    return found


def beside(engine: Engine, watched: Watched, prompts: Prompts, rounds: int) -> dict[str, Any]:
    """A restore while another request generates: milliseconds between its tokens, and until the restored request's first token."""
    found: dict[str, Any] = {mode: [] for mode in MODES}
    for number, (mode, (prompt, token)) in enumerate(prompts.turns(rounds)):
        watched.become(mode)
        other = f"other-{number}"
        arrivals: list[float] = []
        behind = 0
        engine.llm.llm_engine.add_request(other, {"prompt_token_ids": prompts.fresh(64)}, engine.sampling(400))
        asked_s = first_s = 0.0
        while behind < _GENERATED_BEHIND:
            if not asked_s and len(arrivals) >= _GENERATED_BEFORE:
                asked_s = time.perf_counter()
                engine.llm.llm_engine.add_request(f"restored-{number}", {"prompt_token_ids": prompt}, engine.sampling(1))
            for output in engine.llm.llm_engine.step():
                now_s = time.perf_counter()
                if output.request_id.startswith("other"):
                    arrivals.append(now_s)
                    behind += first_s > 0
                elif not first_s:
                    first_s = now_s
                    if output.outputs[0].token_ids[0] != token:
                        raise SystemExit("the restored prompt gave another token than the computed one")
        engine.llm.llm_engine.abort_request([other])
        while engine.llm.llm_engine.has_unfinished_requests():
            engine.llm.llm_engine.step()
        watched.require(mode, len(prompt))
        gaps = [(later - earlier) * 1e3 for earlier, later in zip(arrivals, arrivals[1:], strict=False)]
        usual = gaps[: _GENERATED_BEFORE - 1]
        found[mode].append({
            "first_token_ms": (first_s - asked_s) * 1e3, "longest_gap_ms": max(gaps[_GENERATED_BEFORE - 1 :]), "usual_gap_ms": sorted(usual)[len(usual) // 2],
        })  # fmt: skip
    return found


def main() -> int:
    parser = Arguments(prog="checks.engines.layers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kv", type=json.loads, required=True, help="vLLM's kv_transfer_config, with kvtier.load_by_layer: on")
    parser.add_argument("--tokens", type=int, default=32768, help="that the device has room for; the longest prompt")
    parser.add_argument("--lens", default="", help="of prompts, with commas between; default: --tokens")
    parser.add_argument("--tail", type=int, default=2048, help="tokens at the end of a prompt that are new in half of the restores")
    parser.add_argument("--rounds", type=int, default=12, help="restores of each kind and mode")
    parser.add_argument("--graphs", action="store_true", help="with CUDA graphs for steps that only generate")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="kvtier-model-") as folder:
        engine = Engine(arguments.kv, arguments.tokens, arguments.tiny, Path(folder), not arguments.graphs, _TINY_SPARE_BLOCKS)
        watched, prompts = Watched(engine), Prompts(engine, arguments.tokens)
        engine.become("computed")
        for _ in range(2):
            # The engine is seen asking for its layers; and the first steps of a process take longer.
            prompt = prompts.fresh(arguments.tokens)
            engine.run(prompt)
            engine.run(prompt)
        for tokens in map(int, (arguments.lens or str(arguments.tokens)).split(",")):
            prompts.keep(tokens)
            of_length = found[str(tokens)] = {"0": restore(engine, watched, prompts, 0, arguments.rounds)}
            of_length["copies"] = watched.copies()
            tail = min(arguments.tail, tokens // 2)
            of_length[str(tail)] = restore(engine, watched, prompts, tail, arguments.rounds)
            of_length["beside"] = beside(engine, watched, prompts, max(1, arguments.rounds // 2))
            arguments.out.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
