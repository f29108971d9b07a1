"""One engine for scripts/engine-check: makes a tiny model, generates when it is told to, answers with what came out.

Runs in the engine's own virtual environment. Each line of standard input is a JSON object, and so is each answer on the
descriptor that --answers names:

    {"pass": NAME, "reset": true, "serial": true}   generates; reset: forgets the engine's own prefix cache before; logprobs: one prompt
                                                    behind the other, and answers with log probabilities; zero: zeroes what it loads;
                                                    late_s: its copies come so many seconds later; kill: ends this process when the
                                                    engine waits for the first layer of a load; wishes: what each request asks of
                                                    the cache
    {"requests": [...]}                             serves these requests (checks/engines/requests.py)
    {"turns": NUMBER}                               computes new prompts with and without the connector, in turns
    {"end": true}
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from checks.engines.requests import served
from checks.engines.switch import ROUNDS, Switch, by_turns
from checks.shared.command_line import Arguments

BLOCK_TOKENS = 32
MODEL = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=512, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4, head_dim=32, vocab_size=4096, max_position_embeddings=8192,
    rms_norm_eps=1e-5, rope_theta=10000.0, torch_dtype="float32", bos_token_id=1, eos_token_id=2, hidden_act="silu",
    tie_word_embeddings=False,
)  # fmt: skip

WINDOW = dict(
    architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", hidden_size=256, intermediate_size=512, num_hidden_layers=6,
    num_attention_heads=4, num_key_value_heads=2, head_dim=64, vocab_size=4096, max_position_embeddings=8192, rms_norm_eps=1e-6,
    rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window=128, query_pre_attn_scalar=64, torch_dtype="float32",
    layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=False, initializer_range=0.1,
)  # fmt: skip
STATE = dict(
    architectures=["Lfm2ForCausalLM"], model_type="lfm2", hidden_size=256, intermediate_size=512, num_hidden_layers=4, conv_dim=256,
    num_attention_heads=8, num_key_value_heads=4, vocab_size=4096, max_position_embeddings=8192, norm_eps=1e-5, rope_theta=10000.0,
    conv_L_cache=3, conv_bias=False, layer_types=["conv", "full_attention", "conv", "conv"], torch_dtype="float32", bos_token_id=1,
    eos_token_id=2, pad_token_id=0, tie_word_embeddings=True, block_auto_adjust_ff_dim=False, block_multiple_of=256,
    block_ffn_dim_multiplier=1.0, initializer_range=0.1, block_dim=256, block_ff_dim=512, conv_dim_out=256, block_norm_eps=1e-5,
    block_mlp_init_scale=1.0, block_out_init_scale=1.0, block_use_swiglu=True, block_use_xavier_init=True, use_pos_enc=True,
)  # fmt: skip
HYBRIDS = {"window": WINDOW, "state": STATE}
"""models with several kinds of KV cache: a sliding window and full attention; the state of a convolution and full attention"""
CHUNK_TOKENS = 512

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
    """Weights that all engines read, whatever their ranks."""
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


def write_model(model: Path, described: dict) -> None:
    """The files of a model of which transformers knows how to make weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model), dtype=torch.float32)
    made.save_pretrained(model)
    (model / "config.json").write_text(json.dumps(described))


def _guard_dispatcher() -> None:
    """Lets vLLM's search for kernels pass over objects without a dict, which LMCache's connector imports."""
    from vllm.triton_utils import dispatcher

    def guarded(value: object) -> dict:
        found = vars(value)
        return found if isinstance(found, dict) else {}

    dispatcher.vars = guarded  # type: ignore[attr-defined]


class Engine:
    def __init__(self, model: Path, size: str, kv: dict | None, ranks: int, blocks: int, chunk: int, dtype: str) -> None:
        model.mkdir(parents=True, exist_ok=True)
        is_hybrid = size in HYBRIDS
        described = HYBRIDS[size] if is_hybrid else MODEL | SIZES[size]
        config = model / "config.json"
        # vLLM's own made-up weights are so small that what a layer has cached changes no output.
        if not (model / "model.safetensors").is_file() or config.read_text() != json.dumps(described):
            config.write_text(json.dumps(described))
            (write_model if is_hybrid else write_weights)(model, described)
        begun = time.monotonic()
        if kv and "LMCache" in kv["kv_connector"]:
            _guard_dispatcher()
        from vllm import LLM, SamplingParams

        more = {"kv_transfer_config": kv} if kv else {}
        if ranks > 1:
            more["tensor_parallel_size"] = ranks
        if is_hybrid or chunk:
            more["max_num_batched_tokens"] = chunk or CHUNK_TOKENS
        if size == "state":
            more["mamba_cache_mode"] = "align"
        if blocks:
            more["num_gpu_blocks_override"] = blocks
        self.imported_s = time.monotonic() - begun
        begun = time.monotonic()
        self.llm = LLM(
            model=str(model), skip_tokenizer_init=True, enforce_eager=True, dtype=dtype,
            max_model_len=2048 if is_hybrid else 4096, block_size=BLOCK_TOKENS, enable_prefix_caching=True, seed=0, disable_log_stats=False, **more,
        )  # fmt: skip
        self.started_s = time.monotonic() - begun
        self.parameters = SamplingParams
        self._begin_copy: Any = None
        self.batch = 16 if size == "tiny" else 6
        self.shared, self.long = prompts()
        if is_hybrid:
            self.shared = self.shared[:8]
            # Cold and restored, the last chunk begins at the same token: so what is computed is equal to the last bit.
            chosen = random.Random(2)
            lengths = [chosen.choice([2, 3]) * CHUNK_TOKENS + chosen.randrange(1, BLOCK_TOKENS) for _ in range(6)]
            self.long = [[chosen.randrange(3, 4000) for _ in range(length)] for length in lengths]

    def counters(self) -> dict[str, float]:
        return {
            one.name.removeprefix("vllm:"): one.value
            for one in self.llm.get_metrics()
            if ("prefix_cache" in one.name or "kvtier" in one.name or "preemptions" in one.name) and hasattr(one, "value")
        }

    def generate(self, some: list[list[int]], tokens: int, wishes: dict | None = None) -> tuple[float, list]:
        said = {"kv_transfer_params": {"kvtier": wishes}} if wishes else None
        parameters = self.parameters(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, extra_args=said)
        begun = time.monotonic()
        outputs = self.llm.generate([{"prompt_token_ids": one} for one in some], parameters, use_tqdm=False)
        return time.monotonic() - begun, outputs

    def logprobs(self) -> list[list[float]]:
        """Of the tokens that are generated for each prompt by itself, so that what else is computed changes nothing."""
        parameters = self.parameters(temperature=0, max_tokens=16, ignore_eos=True, detokenize=False, logprobs=1)
        outputs = [
            self.llm.generate([{"prompt_token_ids": one}], parameters, use_tqdm=False)[0].outputs[0] for one in self.long
        ]
        return [[of_token[token].logprob for of_token, token in zip(one.logprobs, one.token_ids, strict=True)] for one in outputs]

    def zero_loads(self) -> None:
        """From now on blocks are zeroed when they have been loaded. The engine core is in this process."""
        from kvtier.vllm._worker import Worker

        runner = self.llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
        collect = Worker._collect_load

        def collected(worker: Worker, request_id: str, load: Any, statuses: list) -> None:
            for of_layer in runner.kv_caches:
                for tensor in of_layer if isinstance(of_layer, (list, tuple)) else [of_layer]:
                    tensor[load.block_ids] = 0
            collect(worker, request_id, load, statuses)

        Worker._collect_load = collected
        keep = Worker._keep_promise

        def kept(worker: Worker, request_id: str, load: Any) -> None:
            keep(worker, request_id, load)
            for tensor in runner.kv_caches:
                tensor[load.block_ids] = 0

        Worker._keep_promise = kept

    def delay_copies(self, late_s: float) -> None:
        """From now on each part of a copy begins so much later. The engine core is in this process."""
        from kvtier.torch._cpu import CpuCopying

        begin = self._begin_copy = self._begin_copy or CpuCopying.begin

        def begun(copying: CpuCopying, work: Any, count: int) -> Any:
            time.sleep(late_s)
            return begin(copying, work, count)

        CpuCopying.begin = begun

    def kill_at_first_layer(self, process_id: int) -> None:
        """Has the daemon be killed once, when the engine waits for the first layer of loads. The engine core is in this process."""
        from kvtier.vllm._worker import Worker

        wait = Worker.wait_layer

        def waited(worker: Worker, name: str) -> None:
            if worker._due and Worker.wait_layer is waited:
                Worker.wait_layer = wait
                os.kill(process_id, signal.SIGKILL)
            wait(worker, name)

        Worker.wait_layer = waited

    def run(self, command: dict) -> dict:
        before = self.counters()
        reset = self.llm.reset_prefix_cache() if command.get("reset") else None
        answer: dict = {"pass": command["pass"], "reset": reset}
        if command.get("zero"):
            self.zero_loads()
        if command.get("late_s"):
            self.delay_copies(command["late_s"])
        if command.get("kill"):
            self.kill_at_first_layer(command["kill"])
        if command.get("logprobs"):
            answer["logprobs"] = self.logprobs()
            after = self.counters()
            answer["counters"] = {name: value - before.get(name, 0) for name, value in after.items()}
            return answer
        seconds, outputs = self.generate(self.long if command.get("long") else self.shared, command.get("tokens", 16), command.get("wishes"))
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
    parser.add_argument("--size", choices=[*SIZES, *HYBRIDS], default="tiny")
    parser.add_argument("--answers", type=int, required=True)
    parser.add_argument("--kv")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=0, help="how many blocks the engine has; 0: what fits")
    parser.add_argument("--chunk", type=int, default=0, help="the most tokens of a step; 0: vLLM's choice")
    parser.add_argument("--dtype", default="float32", help="of what the engine computes and caches")
    arguments = parser.parse_args()
    answers = os.fdopen(arguments.answers, "w", buffering=1)
    kv = json.loads(arguments.kv) if arguments.kv else None
    engine = Engine(arguments.model, arguments.size, kv, arguments.ranks, arguments.blocks, arguments.chunk, arguments.dtype)
    hello = {"imported_s": engine.imported_s, "started_s": engine.started_s, "loadable": loadable(engine.shared)}
    hello["prompt_tokens"] = sum(map(len, engine.shared))
    hello["loadable_long"] = loadable(engine.long)
    print(json.dumps(hello), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        if command.get("end"):
            break
        if "requests" in command:
            print(json.dumps(served(engine, command)), file=answers)
        elif "turns" in command:
            print(json.dumps(turns(engine, command["turns"])), file=answers)
        else:
            print(json.dumps(engine.run(command)), file=answers)


if __name__ == "__main__":
    main()
