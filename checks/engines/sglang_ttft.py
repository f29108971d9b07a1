"""One SGLang on a GPU: the time to the first token of prompts that are new, come back from a tier below the GPU, and are still there.

Run by sglang_gpu.py. The model has the shape of Llama 8B and weights without meaning; --tiny makes a model that a processor computes,
to try the program. A prompt comes back after all caches of the engine were emptied, so that it can only come from behind SGLang's
host memory; with --tier memory it comes from there, after another prompt has taken the GPU's memory.
"""

import hashlib
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.engines.pairs import WHOLE
from checks.engines.sglang_run import MODEL
from checks.shared.command_line import Arguments, run_tool, whole

TIERS = ("none", "memory", "files", "kvtier")
"""what is below the GPU: nothing, SGLang's host memory, and behind that its backend for files, or kvtier's"""
STORES = ("files", "kvtier")
DEVICE_SPARE_TOKENS = 4096
STORED_S_MAX = 60
GIGABYTE = 10**9


class Engine:
    """One SGLang whose GPU has room for one long prompt and little more."""

    def __init__(self, arguments: Any, folder: Path) -> None:
        import sglang

        self._tier = arguments.tier
        self.page_tokens = arguments.page
        self._stored = self._counter(arguments)
        self._computed: dict[bytes, int] = {}
        """the whole pages of prompts, by their digests"""
        longest = max(arguments.lens)
        device_tokens = longest + (512 if arguments.tiny else DEVICE_SPARE_TOKENS)
        (folder / "config.json").write_text(json.dumps(MODEL if arguments.tiny else WHOLE))
        more: dict[str, Any] = {"device": "cpu", "dtype": "float32", "attention_backend": "torch_native"} if arguments.tiny else {
            "dtype": "bfloat16", "attention_backend": arguments.attention, "mem_fraction_static": 0.6, "chunked_prefill_size": 8192,
        }  # fmt: skip
        more |= json.loads(arguments.more)
        self.engine = sglang.Engine(
            model_path=str(folder), load_format="dummy", skip_tokenizer_init=True, page_size=arguments.page, max_total_tokens=device_tokens,
            context_length=device_tokens, sampling_backend="pytorch", grammar_backend="none", disable_cuda_graph=True, random_seed=7, log_level="info",
            **more, **self._caching(arguments, device_tokens, json.loads(arguments.extra)),
        )  # fmt: skip

    def _caching(self, arguments: Any, device_tokens: int, extra: dict[str, Any]) -> dict[str, Any]:
        if self._tier == "none":
            return {}
        model = MODEL if arguments.tiny else WHOLE
        # SGLang reads ahead at most four fifths of what host memory has more than the GPU.
        bytes_of_token = model["num_hidden_layers"] * 2 * model["num_key_value_heads"] * model["head_dim"] * (4 if arguments.tiny else 2)
        host_bytes = bytes_of_token * (2 * device_tokens + 2 * max(arguments.lens))
        made = {
            "enable_hierarchical_cache": True, "hicache_write_policy": "write_through", "hicache_mem_layout": arguments.layout,
            "hicache_io_backend": "direct" if arguments.layout == "page_first_direct" else "kernel",
        }  # fmt: skip
        made |= {"hicache_ratio": 4.0} if arguments.tiny else {"hicache_size": -(-host_bytes // GIGABYTE)}
        if self._tier == "memory":
            return made
        made |= {"hicache_storage_prefetch_policy": "wait_complete", "hicache_storage_backend": "file"}
        given: dict[str, Any] = {"prefetch_threshold": arguments.page}
        if self._tier == "kvtier":
            made["hicache_storage_backend"] = "dynamic"
            given |= {"backend_name": "kvtier", "module_path": "kvtier.sglang", "class_name": "KvtierStorage", "interface_v1": 1}
            given |= {"kvtier.socket": str(arguments.socket), "kvtier.weights": "dummy"}
        return made | {"hicache_storage_backend_extra_config": json.dumps(given | extra)}

    def _counter(self, arguments: Any) -> Callable[[], int]:
        """How many pages are stored behind the engine's host memory."""
        if self._tier == "files":
            folder: Path = arguments.folder
            return lambda: sum(1 for _ in folder.glob("*.bin"))
        if self._tier == "kvtier":
            from kvtier import Client

            client = Client(arguments.socket, timeout=30)
            return lambda: int(client.counters()["blocks"])
        return lambda: 0

    def run(self, prompt: list[int]) -> tuple[float, int, int, Any]:
        """Milliseconds to the first token; how many tokens were there; the token; where the cached ones came from."""
        self._computed[hashlib.sha256(repr(prompt).encode()).digest()] = len(prompt) // self.page_tokens
        begun = time.perf_counter()
        made = self.engine.generate(input_ids=prompt, sampling_params={"max_new_tokens": 1, "temperature": 0, "ignore_eos": True})
        taken_ms = (time.perf_counter() - begun) * 1e3
        told = made["meta_info"]
        return taken_ms, int(told.get("cached_tokens") or 0), made["output_ids"][0], told.get("cached_tokens_details")

    def wait_until_stored(self) -> bool:
        """Whether all pages of all prompts are stored, in the time for it."""
        deadline = time.monotonic() + STORED_S_MAX
        while self._stored() < sum(self._computed.values()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def flush(self) -> None:
        """Empties the caches on the device and in host memory."""
        for _ in range(600):
            answer = self.engine.flush_cache()
            if getattr(answer, "success", False) or answer is True:
                return
            time.sleep(0.05)
        raise RuntimeError(f"the caches were not flushed: {answer}")


def measure(engine: Engine, tier: str, tokens: int, longest: int, reps: int, vocabulary: int) -> dict[str, Any]:
    """A row for prompts of this length."""
    chance = random.Random(tokens)

    def fresh(length: int) -> list[int]:
        return [chance.randrange(3, vocabulary) for _ in range(length)]

    prompts = [fresh(tokens) for _ in range(reps)]
    cold, stored_s, late = [], [], 0
    if tier in STORES:
        # Those of the prompts before this length.
        late += not engine.wait_until_stored()
    for prompt in prompts:
        cold.append(engine.run(prompt))
        begun = time.monotonic()
        if tier in STORES:
            late += not engine.wait_until_stored()
            stored_s.append(time.monotonic() - begun)
        elif tier == "memory":
            time.sleep(1.0)  # SGLang does not say when a prompt is in its host memory.
    restored, hit = [], []
    for prompt in prompts:
        if tier == "memory":
            engine.run(fresh(longest))
            time.sleep(1.0)
        elif tier != "none":
            engine.flush()
            # The adapter looks at the weights after a flush, once: before its first lookup.
            engine.run(fresh(4 * engine.page_tokens))
        if tier != "none":
            restored.append(engine.run(prompt))
        else:
            engine.run(prompt)
        hit.append(engine.run(prompt))
    row = {"tokens": tokens, "cold_ms": statistics.median(one[0] for one in cold), "device_hit_ms": statistics.median(one[0] for one in hit), "device_hit_tokens": hit[-1][1]}
    row |= {"cold_all_ms": [one[0] for one in cold], "device_hit_all_ms": [one[0] for one in hit], "cold_tokens": max(one[1] for one in cold)}
    if restored:
        row |= {
            "restored_ms": statistics.median(one[0] for one in restored), "restored_all_ms": [one[0] for one in restored],
            "restored_tokens": min(one[1] for one in restored), "restored_from": restored[-1][3],
            # The last tokens are computed alike. A cold prompt is computed in other pieces, and 16-bit numbers are rounded otherwise.
            "same": all(one[2] == other[2] for one, other in zip(restored, hit, strict=True)),
            "same_as_cold": all(one[2] == other[2] for one, other in zip(restored, cold, strict=True)),
        }  # fmt: skip
    if stored_s:
        row |= {"stored_s": statistics.median(stored_s), "not_stored": late}
    return row


def main() -> None:
    parser = Arguments(prog="checks.engines.sglang_ttft")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tier", choices=TIERS, required=True)
    parser.add_argument("--lens", type=lambda text: [int(one) for one in text.split(",")], default=[8192, 32768])
    parser.add_argument("--reps", type=whole, default=3)
    parser.add_argument("--page", type=whole, default=64)
    parser.add_argument("--layout", default="page_first_direct")
    parser.add_argument("--attention", default="fa3")
    parser.add_argument("--socket", type=Path, help="of kvtier's daemon")
    parser.add_argument("--folder", type=Path, help="of SGLang's backend for files")
    parser.add_argument("--extra", default="{}", help="further configuration of the backend")
    parser.add_argument("--more", default="{}", help="further arguments of the engine")
    parser.add_argument("--tiny", action="store_true", help="a model for a processor, to try the program")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        engine = Engine(arguments, Path(folder))
        started_s = time.monotonic() - begun
        vocabulary = 1000 if arguments.tiny else 30000
        chance = random.Random(1)
        for length in (*arguments.lens, arguments.lens[0]):
            # Kernels are compiled, and memory is taken, once.
            engine.run([chance.randrange(3, vocabulary) for _ in range(length)])
        rows = []
        for tokens in arguments.lens:
            rows.append(measure(engine, arguments.tier, tokens, max(arguments.lens), arguments.reps, vocabulary))
            print(json.dumps(rows[-1]), flush=True)
            arguments.out.write_text(json.dumps({"started_s": started_s, "tier": arguments.tier, "rows": rows}))
        engine.engine.shutdown()


if __name__ == "__main__":
    run_tool(main)
