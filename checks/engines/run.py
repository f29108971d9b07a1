"""One engine for scripts/engine-check: makes a tiny model, generates when it is told to, answers with what came out.

Runs in the engine's own virtual environment. Each line of standard input is a JSON object, and so is each answer on the
descriptor that --answers names:

    {"pass": NAME, "reset": true, "serial": true}   generates; reset: forgets the engine's own prefix cache before
    {"turns": NUMBER}                               computes new prompts with and without the connector, in turns
    {"end": true}
"""

import json
import os
import random
import sys
import time
from pathlib import Path

from checks.engines.switch import ROUNDS, Switch, by_turns
from checks.shared.command_line import Arguments

BLOCK_TOKENS = 32
MODEL = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=512, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4, head_dim=32, vocab_size=4096, max_position_embeddings=8192,
    rms_norm_eps=1e-5, rope_theta=10000.0, torch_dtype="float32", bos_token_id=1, eos_token_id=2, hidden_act="silu",
    tie_word_embeddings=False,
)  # fmt: skip

SIZES = {
    "tiny": {},
    # A prompt costs it 6,600 operations for each byte of its blocks, the tiny one 1,200, Qwen2.5 0.5B 60,000, Llama 8B 120,000.
    "small": {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_key_value_heads": 2, "head_dim": 64},
}


def prompts() -> tuple[list[list[int]], list[list[int]]]:
    """24 prompts that share 4 beginnings, and 6 long ones that share nothing."""
    chosen = random.Random(1)

    def tokens(count: int) -> list[int]:
        return [chosen.randrange(3, 4000) for _ in range(count)]

    beginnings = [tokens(640) for _ in range(4)]
    return [beginnings[i % 4] + tokens(chosen.randrange(100, 500)) for i in range(24)], [tokens(2016) for _ in range(6)]


def loadable(shared: list[list[int]]) -> int:
    """How many tokens a cache can give back at most: those of whole blocks."""
    return sum(len(one) // BLOCK_TOKENS * BLOCK_TOKENS for one in shared)


def write_weights(model: Path, described: dict) -> None:
    """Weights that all engines read, whatever their ranks: of made-up weights each rank has its own."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    hidden, inner, head = described["hidden_size"], described["intermediate_size"], described["head_dim"]
    queries, heads = described["num_attention_heads"] * head, described["num_key_value_heads"] * head
    shapes = {"model.embed_tokens": (described["vocab_size"], hidden), "lm_head": (described["vocab_size"], hidden)}
    norms = ["model.norm"]
    for layer in range(described["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        norms += [f"{name}.input_layernorm", f"{name}.post_attention_layernorm"]
        attention = {"q_proj": (queries, hidden), "k_proj": (heads, hidden), "v_proj": (heads, hidden), "o_proj": (hidden, queries)}
        shapes |= {f"{name}.self_attn.{part}": shape for part, shape in attention.items()}
        shapes |= {f"{name}.mlp.{part}": (inner, hidden) for part in ("gate_proj", "up_proj")} | {f"{name}.mlp.down_proj": (hidden, inner)}
    weights = {f"{name}.weight": torch.randn(shape) * shape[1] ** -0.5 for name, shape in shapes.items()}
    weights |= {f"{name}.weight": torch.ones(hidden) for name in norms}
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})


def _guard_dispatcher() -> None:
    """Lets vLLM's search for kernels pass over objects without a dict, which LMCache's connector imports."""
    from vllm.triton_utils import dispatcher

    def guarded(value: object) -> dict:
        found = vars(value)
        return found if isinstance(found, dict) else {}

    dispatcher.vars = guarded  # type: ignore[attr-defined]


class Engine:
    def __init__(self, model: Path, size: str, kv: dict | None, ranks: int, has_files: bool) -> None:
        model.mkdir(parents=True, exist_ok=True)
        described = MODEL | SIZES[size]
        (model / "config.json").write_text(json.dumps(described))
        if has_files:
            write_weights(model, described)
        begun = time.monotonic()
        if kv and "LMCache" in kv["kv_connector"]:
            _guard_dispatcher()
        from vllm import LLM, SamplingParams

        more = {"kv_transfer_config": kv} if kv else {}
        if ranks > 1:
            more["tensor_parallel_size"] = ranks
        self.imported_s = time.monotonic() - begun
        begun = time.monotonic()
        self.llm = LLM(
            model=str(model), load_format="auto" if has_files else "dummy", skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
            max_model_len=4096, block_size=BLOCK_TOKENS, enable_prefix_caching=True, seed=0, disable_log_stats=False, **more,
        )  # fmt: skip
        self.started_s = time.monotonic() - begun
        self.parameters = SamplingParams
        self.batch = 16 if size == "tiny" else 6
        self.shared, self.long = prompts()

    def counters(self) -> dict[str, float]:
        return {
            one.name.removeprefix("vllm:"): one.value
            for one in self.llm.get_metrics()
            if ("prefix_cache" in one.name or "kvtier" in one.name) and hasattr(one, "value")
        }

    def generate(self, some: list[list[int]], tokens: int) -> tuple[float, list]:
        parameters = self.parameters(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        begun = time.monotonic()
        outputs = self.llm.generate([{"prompt_token_ids": one} for one in some], parameters, use_tqdm=False)
        return time.monotonic() - begun, outputs

    def run(self, command: dict) -> dict:
        before = self.counters()
        reset = self.llm.reset_prefix_cache() if command.get("reset") else None
        answer: dict = {"pass": command["pass"], "reset": reset}
        seconds, outputs = self.generate(self.shared, 16)
        answer["seconds"] = seconds
        answer["tokens"] = [list(one.outputs[0].token_ids) for one in outputs]
        answer["cached"] = sum(one.num_cached_tokens or 0 for one in outputs)
        after = self.counters()
        answer["counters"] = {name: value - before.get(name, 0) for name, value in after.items()}
        if command.get("serial"):
            answer["ttft_ms"] = [1e3 * self.generate([one], 1)[0] for one in self.long]
        return answer


def turns(engine: Engine, groups: int) -> dict[str, list[float]]:
    """Seconds for new prompts: rounds without the connector and with it, in turns within this process.

    Two processes with equal work differ by more than the connector's cost.
    """
    switch = Switch(engine.llm)
    chosen = random.Random(1)
    lengths = [chosen.randrange(400, 1100) for _ in range(16)][: engine.batch]

    def seconds() -> float:
        fresh = [[chosen.randrange(3, 4000) for _ in range(length)] for length in lengths]
        return engine.generate(fresh, 16)[0]

    for _ in range(2 * ROUNDS):
        seconds()
    taken = by_turns(("without", "with"), groups, lambda mode: switch.connect(mode == "with"), seconds)
    switch.connect(True)
    return taken


def main() -> None:
    parser = Arguments(prog="checks.engines.run")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--answers", type=int, required=True)
    parser.add_argument("--kv")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--files", action="store_true", help="the model's weights are in files")
    arguments = parser.parse_args()
    answers = os.fdopen(arguments.answers, "w", buffering=1)
    engine = Engine(arguments.model, arguments.size, json.loads(arguments.kv) if arguments.kv else None, arguments.ranks, arguments.files)
    hello = {"imported_s": engine.imported_s, "started_s": engine.started_s, "loadable": loadable(engine.shared)}
    hello["prompt_tokens"] = sum(map(len, engine.shared))
    print(json.dumps(hello), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("end"):
            break
        if "turns" in command:
            print(json.dumps(turns(engine, command["turns"])), file=answers)
        else:
            print(json.dumps(engine.run(command)), file=answers)


if __name__ == "__main__":
    main()
