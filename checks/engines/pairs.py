"""Measures the cost and the gain of kvtier for one vLLM, in pairs within one process. Two processes differ by more.

A prompt is restored and, right behind it, found on the device twice: with the connector, and without. Other prompts are computed
in turns: without the connector, with it and nothing stored, and with their blocks stored. Run by gpu.py, where there
is a GPU; --tiny makes a model that a processor computes, to try the program.
"""

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checks.engines.switch import ROUNDS, Switch
from checks.shared.command_line import Arguments

WHOLE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
TINY: dict[str, Any] = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}


class Engine:
    """One vLLM whose device has room for one prompt and little more: the next one takes the place of the last."""

    def __init__(self, kv: dict[str, Any], tokens: int, tiny: bool, folder: Path, eager: bool, spare_blocks: int = 2) -> None:
        """`spare_blocks`: those that a tiny device has beside those of one prompt."""
        # This program needs the engine's scheduler in its own process.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("PYTHONHASHSEED", "0")
        import vllm

        self._vllm = vllm
        (folder / "config.json").write_text(json.dumps(WHOLE | (TINY if tiny else {})))
        # A processor's attention takes no smaller ones.
        self.block_tokens = 32 if tiny else 16
        self.device_blocks = tokens // self.block_tokens + (spare_blocks if tiny else 252)
        more: dict[str, Any] = {} if tiny else {"attention_config": {"backend": "FLASH_ATTN"}, "gpu_memory_utilization": 0.5}
        eager = eager or tiny
        if not eager:
            # torch.compile needs a compiler, and does not change the work of a connector.
            more["compilation_config"] = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
        self.llm = vllm.LLM(
            model=str(folder), load_format="dummy", skip_tokenizer_init=True, max_model_len=tokens + self.block_tokens, block_size=self.block_tokens,
            enforce_eager=eager, enable_prefix_caching=True, seed=0, max_num_batched_tokens=8192, kv_transfer_config=kv,
            num_gpu_blocks_override=self.device_blocks, **more,
        )  # fmt: skip
        self._switch = Switch(self.llm)
        self._settings = self._switch.scheduler._settings
        self.flush_ms = 0.0
        """that the engine has waited, until now, for stores from blocks that it writes to"""
        self._flush = self._switch.worker._flush
        self._switch.worker._flush = self._timed_flush

    def _timed_flush(self, reused: set[int]) -> None:
        begun = time.perf_counter()
        self._flush(reused)
        self.flush_ms += (time.perf_counter() - begun) * 1e3

    @property
    def worker(self) -> Any:
        """The connector's side that copies."""
        return self._switch.worker

    @property
    def scheduler(self) -> Any:
        """The connector's side that plans."""
        return self._switch.scheduler

    @property
    def connectors(self) -> tuple[Any, Any]:
        """The connectors that vLLM has made: of its scheduler, and of its worker."""
        return self._switch.connectors

    def become(self, mode: str, by_layer: str = "off") -> None:
        """From now on: 'without' a connector; a 'bare' one; kvtier's, and the blocks that are 'computed' are 'stored', or not, and loads
        come `by_layer` as kvtier.load_by_layer says."""
        if mode == "bare":
            self._switch.connect_bare()
        else:
            self._switch.connect(mode != "without")
        stores = self._settings.store if mode == "stored" else "none"
        self._switch.scheduler._settings = dataclasses.replace(self._settings, store=stores, load_by_layer=by_layer)

    def sampling(self, tokens: int) -> Any:
        """The parameters of a request for so many tokens."""
        return self._vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)

    def generate(self, prompts: list[list[int]], tokens: int) -> list[Any]:
        """Generates this number of tokens for each prompt."""
        sampling = self.sampling(tokens)
        made: list[Any] = self.llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling, use_tqdm=False)
        return made

    def run(self, prompt: list[int]) -> tuple[float, int, int]:
        """Milliseconds to the first token; how many tokens were there; the token."""
        begun = time.perf_counter()
        (output,) = self.generate([prompt], 1)
        return (time.perf_counter() - begun) * 1e3, output.num_cached_tokens, output.outputs[0].token_ids[0]


MODES = ("without", "computed", "stored")
"""no connector; one that stores nothing; one that stores what is computed"""


def measure(engine: Engine, tokens: int, pairs: int, prompts: int, groups: int) -> dict[str, Any]:
    chance = random.Random(5)

    def fresh() -> list[int]:
        return [chance.randrange(3, 30000) for _ in range(tokens)]

    for prompt in (fresh(), fresh()):
        # A hit's step is another one for the GPU: the first of a process takes it 0.1 s more.
        engine.run(prompt)
        engine.run(prompt)
    found: dict[str, Any] = {f"{mode}_ms": [] for mode in (*MODES, "flush")}
    kept: list[tuple[list[int], int]] = []
    for group in range(len(MODES) * groups):
        mode = MODES[group % len(MODES)]
        engine.become(mode)
        # The first of them waits for what the one before it stores.
        for number in range(ROUNDS):
            prompt = fresh()
            before_ms = engine.flush_ms
            ms, _, token = engine.run(prompt)
            if number:
                found[f"{mode}_ms"].append(ms)
            if number and mode == "stored":
                found["flush_ms"].append(engine.flush_ms - before_ms)
            if mode == "stored":
                kept = [*kept, (prompt, token)][-prompts:]
    engine.become("stored")
    engine.run(fresh())
    time.sleep(2)
    found["pairs"] = [restore(engine, tokens, number, *kept[number % len(kept)]) for number in range(pairs)]
    return found


def restore(engine: Engine, tokens: int, number: int, prompt: list[int], token: int) -> dict[str, Any]:
    """A restore, and the two hits behind it: every other time the one without the connector is the first of them."""
    restored_ms, restored_tokens, first = engine.run(prompt)
    row: dict[str, Any] = {"restored_ms": restored_ms}
    hits = [("hit_ms", "stored"), ("hit_without_ms", "without")]
    answers = {first, token}
    for name, mode in hits if number % 2 else reversed(hits):
        engine.become(mode)
        row[name], hit_tokens, answer = engine.run(prompt)
        answers.add(answer)
        if restored_tokens < tokens or hit_tokens < tokens - engine.block_tokens:
            raise SystemExit(f"a prompt of {tokens} tokens: {restored_tokens} were restored, {hit_tokens} on the device")
    engine.become("stored")
    return row | {"same": len(answers) == 1}


def arguments_of(program: str, kv: str, prompts: int, modes: Sequence[str]) -> argparse.Namespace:
    """The arguments of a program that compares modes within one process.

    Args:
        kv: the help of ``--kv``.
        prompts: how many are restored if the arguments do not say it.
    """
    parser = Arguments(prog=program)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kv", type=json.loads, required=True, help=kv)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=prompts, help="that are restored, in turns; at least 2")
    parser.add_argument("--groups", type=int, default=6, help=f"of {ROUNDS} prompts that are computed in each of {tuple(modes)}")
    parser.add_argument("--tiny", action="store_true")
    return parser.parse_args()


def main() -> int:
    arguments = arguments_of("checks.engines.pairs", "vLLM's kv_transfer_config", 5, MODES)
    with tempfile.TemporaryDirectory(prefix="kvtier-model-") as folder:
        engine = Engine(arguments.kv, arguments.tokens, arguments.tiny, Path(folder), eager=True)
        found = measure(engine, arguments.tokens, arguments.pairs, arguments.prompts, arguments.groups)
    arguments.out.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
