"""A second engine process loads the blocks that the first one computed.

    scripts/kvtierd &
    PYTHONHASHSEED=0 python client-py/examples/vllm_two_engines.py [MODEL]

Without MODEL it makes a tiny model with random weights. Its output is nonsense, but its blocks are stored and loaded like any others.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 1600
TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 4096,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip


def engine(name: str, model: str, is_tiny: bool) -> None:
    """One engine, one long prompt."""
    from vllm import LLM, SamplingParams

    options: dict[str, Any] = {"load_format": "dummy", "skip_tokenizer_init": True, "dtype": "float32"} if is_tiny else {}
    llm = LLM(
        model=model, max_model_len=2048, enforce_eager=True, disable_log_stats=False,
        kv_transfer_config={
            "kv_connector": "KvtierConnector", "kv_role": "kv_both", "kv_connector_module_path": "kvtier.vllm",
        },
        **options,
    )  # fmt: skip
    prompt = {"prompt_token_ids": [3 + i * i % 997 for i in range(PROMPT_TOKENS)]}
    begun = time.perf_counter()
    (output,) = llm.generate([prompt], SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, detokenize=False))
    taken = time.perf_counter() - begun
    hits = sum(one.value for one in llm.get_metrics() if one.name == "vllm:external_prefix_cache_hits")
    print(
        f"{name}: {taken * 1e3:.0f} ms; {hits} of {PROMPT_TOKENS} tokens came from kvtier; "
        f"generated tokens: {list(output.outputs[0].token_ids)}",
        flush=True,
    )


def main() -> None:
    os.environ.setdefault("PYTHONHASHSEED", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    with tempfile.TemporaryDirectory() as folder:
        # One folder for both engines: the model's name is part of what makes their blocks exchangeable.
        is_tiny = len(sys.argv) < 2
        model = folder if is_tiny else sys.argv[1]
        if is_tiny:
            (Path(folder) / "config.json").write_text(json.dumps(TINY))
        for name in ("the first engine", "the second engine"):
            process = multiprocessing.get_context("spawn").Process(target=engine, args=(name, model, is_tiny))
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
