"""One vLLM in a process of its own, which does what it is told: for checks with several engines, on one GPU each or on several.

Each line of standard input is a JSON object; each answer is a line on the descriptor that --answers names:

    {"prompt": [SEED, TOKENS], "tokens": NUMBER, "params": {}}
                                                    generates: milliseconds to the end, and when that was, in seconds of the host's monotonic
                                                    clock; tokens that were cached; the tokens generated; kv_transfer_params of the answer.
                                                    "params" are those of the request
    {"requests": [...], "tokens": NUMBER}           serves these requests (checks/engines/requests.py), whose "prompt" is as above
    {"shares": true}                                whether other engines get blocks from this one's memory, from now on
    {"waits": true}                                 until everything is stored
    {"end": true}
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from checks.engines.pairs import TINY, WHOLE
from checks.engines.requests import served
from checks.shared.command_line import Arguments, whole

ANSWERS = {"ready": True}


def prompt_of(seed: int, tokens: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(3, 30000) for _ in range(tokens)]


def write_model(folder: Path, tiny: bool) -> None:
    """A model with random weights: engines with different numbers of ranks need files to have the same ones."""
    import torch
    from safetensors.torch import save_file

    model: dict[str, Any] = WHOLE | (TINY if tiny else {})
    hidden, inner, vocabulary = model["hidden_size"], model["intermediate_size"], model["vocab_size"]
    heads, kv = model["num_attention_heads"] * model["head_dim"], model["num_key_value_heads"] * model["head_dim"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)

    def made(*shape: int) -> Any:
        return (torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.02).cpu()

    ends = {
        "model.embed_tokens.weight": made(vocabulary, hidden), "lm_head.weight": made(vocabulary, hidden),
        "model.norm.weight": torch.ones(hidden, dtype=torch.bfloat16),
    }  # fmt: skip
    files = {"ends.safetensors": list(ends)}
    save_file(ends, folder / "ends.safetensors")
    for layer in range(model["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        weights = {
            f"{at}self_attn.q_proj.weight": made(heads, hidden), f"{at}self_attn.k_proj.weight": made(kv, hidden),
            f"{at}self_attn.v_proj.weight": made(kv, hidden), f"{at}self_attn.o_proj.weight": made(hidden, heads),
            f"{at}mlp.gate_proj.weight": made(inner, hidden), f"{at}mlp.up_proj.weight": made(inner, hidden),
            f"{at}mlp.down_proj.weight": made(hidden, inner),
            f"{at}input_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{at}post_attention_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
        }  # fmt: skip
        files[f"layer-{layer}.safetensors"] = list(weights)
        save_file(weights, folder / f"layer-{layer}.safetensors")
    index = {"metadata": {}, "weight_map": {name: file for file, names in files.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(model))


class Served:
    """The engine of this process."""

    def __init__(self, arguments: Any) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("PYTHONHASHSEED", "0")
        import vllm

        self.parameters = vllm.SamplingParams
        tokens = 32 if arguments.tiny else 16
        more: dict[str, Any] = {} if arguments.tiny else {"attention_config": {"backend": "FLASH_ATTN"}, "gpu_memory_utilization": 0.6}
        self.llm = vllm.LLM(
            model=str(arguments.model), skip_tokenizer_init=True, max_model_len=arguments.tokens + tokens, block_size=tokens, enforce_eager=True,
            enable_prefix_caching=True, seed=0, max_num_batched_tokens=8192, kv_transfer_config=arguments.kv,
            tensor_parallel_size=arguments.ranks, disable_custom_all_reduce=True,
            num_gpu_blocks_override=arguments.tokens // tokens + (4 if arguments.tiny else 252), **more,
        )  # fmt: skip
        core = self.llm.llm_engine.engine_core.engine_core
        # Of kvtier's connector only.
        self._scheduler = getattr(core.scheduler.connector, "_scheduler", None)
        self._sharing: Any = None
        if arguments.ranks == 1 and self._scheduler is not None:
            from vllm.distributed.kv_transfer import get_kv_transfer_group

            self._worker = get_kv_transfer_group()._worker
            self._sharing = self._worker._sharing

    def run(self, prompt: list[int], tokens: int, params: dict[str, Any] | None = None) -> dict[str, Any]:
        extra = {"kv_transfer_params": params} if params else None
        sampling = self.parameters(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, extra_args=extra)
        begun = time.monotonic()
        (output,) = self.llm.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)
        ended = time.monotonic()
        return {
            "ms": (ended - begun) * 1e3, "ended_s": ended, "cached": output.num_cached_tokens, "tokens": list(output.outputs[0].token_ids),
            "params": output.kv_transfer_params,
        }  # fmt: skip

    @staticmethod
    def counters() -> dict[str, float]:
        """None: the engine does not log."""
        return {}

    def share(self, shares: bool) -> dict[str, Any]:
        if self._sharing is None:
            return {"error": "this engine does not share: kvtier.share is off, or it has several ranks"}
        if not shares:
            self._sharing.take_back(None)
        self._worker._sharing = self._worker._transfers._sharing = self._sharing if shares else None
        self._scheduler._shares = shares
        return {"shares": shares}

    def wait(self) -> dict[str, Any]:
        """The next step stores what the last one left, and takes a moment."""
        for _ in range(2):
            self.run(prompt_of(time.monotonic_ns(), 40), 1)
            time.sleep(0.3)
        return {"stored": True}

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        if "prompt" in told:
            return self.run(prompt_of(*told["prompt"]), told.get("tokens", 1), told.get("params"))
        if "requests" in told:
            requests = [request | {"tokens": prompt_of(*request["prompt"])} for request in told["requests"]]
            return served(self, told | {"requests": requests})
        if "shares" in told:
            return self.share(told["shares"])
        if "waits" in told:
            return self.wait()
        return {"error": f"unknown words {sorted(told)}"}


def main() -> int:
    parser = Arguments(prog="checks.engines.serve")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--answers", type=whole, required=True, help="the descriptor to answer on")
    parser.add_argument("--ranks", type=whole, default=1, help="tensor-parallel ranks")
    parser.add_argument("--tokens", type=whole, default=32768, help="of the longest prompt: the device holds little more")
    parser.add_argument("--kv", type=json.loads, help="vLLM's kv_transfer_config")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    engine = Served(arguments)
    with os.fdopen(arguments.answers, "w") as answers:
        print(json.dumps(ANSWERS), file=answers, flush=True)
        for line in sys.stdin:
            told = json.loads(line)
            if "end" in told:
                break
            print(json.dumps(engine.answer(told)), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
