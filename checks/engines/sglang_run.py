"""One SGLang engine for scripts/engine-check: generates when it is told to, and answers with what came out.

Runs in the engine's own virtual environment. Each line of standard input is a JSON object; each answer is a line on the descriptor
that --answers names:

    {"prompts": [[SEED, TOKENS], ...], "tokens": NUMBER}    generates: the tokens, and for each prompt where its cached tokens came from
    {"flush": true}                                         empties the engine's own caches, on the device and in host memory
    {"end": true}
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from checks.shared.command_line import Arguments, whole

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PAGE_TOKENS = 16


def prompt_of(seed: int, tokens: int) -> list[int]:
    chosen = random.Random(seed)
    return [chosen.randrange(3, 1000) for _ in range(tokens)]


class Engine:
    def __init__(self, arguments: Any) -> None:
        import sglang

        more = json.loads(arguments.more)
        if arguments.storage or arguments.hierarchical:
            more |= {
                "enable_hierarchical_cache": True, "hicache_ratio": 2, "hicache_mem_layout": "page_first_direct", "hicache_io_backend": "direct",
                "hicache_write_policy": "write_through",
            }  # fmt: skip
        if arguments.storage:
            more |= {
                "hicache_storage_backend": "dynamic", "hicache_storage_prefetch_policy": "wait_complete",
                "hicache_storage_backend_extra_config": arguments.storage,
            }  # fmt: skip
        if arguments.linker:
            given = json.loads(arguments.linker)
            more |= {
                "enable_unified_cache_external_linker": True, "unified_cache_external_linker_backend": "dynamic",
                "unified_cache_external_linker_config": given,
            }  # fmt: skip
        if arguments.ranks > 1:
            more |= {"tp_size": arguments.ranks, "disable_custom_all_reduce": True}
        self.engine = sglang.Engine(
            model_path=str(arguments.model), skip_tokenizer_init=True, device="cpu", dtype=arguments.dtype, attention_backend="torch_native",
            disable_cuda_graph=True, page_size=arguments.page, max_total_tokens=8192, mem_fraction_static=0.4, sampling_backend="pytorch",
            random_seed=7, log_level="info", sleep_on_idle=True, **more,
        )  # fmt: skip

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        if told.get("flush"):
            for _ in range(200):
                answer = self.engine.flush_cache()
                if getattr(answer, "success", False) or answer is True:
                    return {"flushed": True}
                time.sleep(0.05)
            return {"error": f"the caches were not flushed: {answer}"}
        begun = time.monotonic()
        sampling = {"max_new_tokens": told.get("tokens", 8), "temperature": 0, "ignore_eos": True}
        made = [self.engine.generate(input_ids=prompt_of(*one), sampling_params=sampling) for one in told["prompts"]]
        return {
            "seconds": time.monotonic() - begun,
            "tokens": [list(one["output_ids"]) for one in made],
            "cached": [one["meta_info"].get("cached_tokens") for one in made],
            "from": [one["meta_info"].get("cached_tokens_details") for one in made],
            "ends": [one["meta_info"].get("finish_reason") for one in made],
        }


def main() -> None:
    parser = Arguments(prog="checks.engines.sglang_run")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--answers", type=whole, required=True)
    parser.add_argument("--storage", help="the extra configuration of a storage backend below the hierarchical cache")
    parser.add_argument("--hierarchical", action="store_true", help="the hierarchical cache also where nothing is below its host memory")
    parser.add_argument("--linker", help="the configuration of kvtier's linker; none: the engine's own radix cache alone")
    parser.add_argument("--ranks", type=whole, default=1)
    parser.add_argument("--page", type=whole, default=PAGE_TOKENS)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--more", default="{}", help="further arguments of the engine")
    arguments = parser.parse_args()
    begun = time.monotonic()
    engine = Engine(arguments)
    with os.fdopen(arguments.answers, "w", buffering=1) as answers:
        print(json.dumps({"started_s": time.monotonic() - begun}), file=answers)
        for line in sys.stdin:
            told = json.loads(line)
            if told.get("end"):
                break
            print(json.dumps(engine.answer(told)), file=answers)
    engine.engine.shutdown()


if __name__ == "__main__":
    main()
