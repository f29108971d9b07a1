"""How fast SGLang's external caches write the pages of a prompt and read them: kvtier's linker beside LMCache's connector, in one run.

Runs in SGLang's virtual environment, which has LMCache too. The pools have the shape of an 8B Llama's on SGLang's device, in host memory;
the calls are those that SGLang makes for one request, and each waits for its end. LMCache's server runs in a process of its own, as
kvtier's daemon does. LMCache chooses who copies, unless LMCACHE_MP_TRANSFER_MODE says it: for host memory SGLang's process, to memory
that it shares with the server. scripts/engine-check starts this program.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from kvtier_testing import process

from checks.engines.sglang import hashes_of
from checks.engines.sglang_run import prompt_of
from checks.shared.command_line import Arguments, whole

LAYERS, HEADS, DIM, PAGE = 32, 8, 128, 64
START_TIMEOUT_S = 180


class Way(NamedTuple):
    """One of the caches that are compared."""

    store: Callable[[str, list[int], Any], None]
    """(request, tokens, their places)"""
    load: Callable[[str, list[int], Any], None]
    pool: list[Any]
    """its tensors: the keys of all layers, then their values"""


def pool_of(tokens: int) -> Any:
    """A pool like SGLang's for a device, which begins with a page that nobody reads."""
    import torch

    class MHATokenToKVPool:
        def __init__(self) -> None:
            shape = (tokens + PAGE, HEADS, DIM)
            self.k_buffer, self.v_buffer = ([torch.zeros(shape, dtype=torch.bfloat16) for _ in range(LAYERS)] for _ in range(2))
            self.dtype = self.store_dtype = torch.bfloat16
            self.layer_num, self.start_layer, self.end_layer = LAYERS, 0, LAYERS
            self.page_size = PAGE

    return MHATokenToKVPool()


def places_of(first: int, count: int) -> Any:
    """The places of tokens behind the page that nobody reads."""
    import torch

    return torch.arange(PAGE + first, PAGE + first + count)


@contextlib.contextmanager
def kvtier_way(pool: Any, socket: str) -> Iterator[Way]:
    from sglang.srt.mem_cache.hicache_storage import PoolName

    from kvtier.sglang.linker import KvtierLinker

    params = SimpleNamespace(
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: pool), page_size=PAGE, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1
    )
    settings = {"kvtier.socket": socket, "kvtier.weights": f"bench {os.getpid()}"}
    linker = KvtierLinker(None, params, components=[SimpleNamespace(name="FULL")], extra_config=settings)

    def transfers(tokens: list[int], places: Any) -> list[Any]:
        return [SimpleNamespace(name=PoolName.KV, keys=hashes_of(tokens, PAGE), device_indices=places)]

    def store(request: str, tokens: list[int], places: Any) -> None:
        if linker.offload(transfers(tokens, places)):
            while linker.num_completed_offloads() == 0:
                time.sleep(0.0001)
            if linker.pop_completed_offload():
                return
        raise SystemExit("kvtier: pages were not stored")

    def load(request: str, tokens: list[int], places: Any) -> None:
        asked = transfers(tokens, places)
        if linker.lookup(request, asked)[-1:] != [len(tokens) // PAGE] or not linker.load(request, asked):
            raise SystemExit("kvtier: pages were not found")
        batch = linker.start_layer_wise_loading()
        linker.layer_done_counter.set_consumer(batch)
        linker.layer_done_counter.wait_until(0)
        if not linker.finish_layer_wise_loading(batch):
            raise SystemExit("kvtier: pages were not loaded")

    try:
        yield Way(store, load, [*pool.k_buffer, *pool.v_buffer])
    finally:
        linker.close()


@contextlib.contextmanager
def lmcache_server(program: str, folder: Path, gigabytes: int) -> Iterator[int]:
    """LMCache's server for a time; its port."""
    port, http = process.free_port(), process.free_port()
    log = folder / "lmcache.log"
    command = [
        program, "server", "--l1-size-gb", str(gigabytes), "--supported-transfer-mode", "auto",
        "--shm-name", f"lmcache-bench-{os.getpid()}", "--no-l1-use-lazy", "--eviction-policy", "LRU", "--host", "127.0.0.1", "--port", str(port),
        "--http-port", str(http),
    ]  # fmt: skip
    quiet = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    with open(log, "w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | quiet)
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while "Application startup complete" not in log.read_text(errors="replace"):
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit(f"LMCache's server did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        yield port
    finally:
        process.stop(server)


@contextlib.contextmanager
def lmcache_way(pool: Any, port: int) -> Iterator[Way]:
    """As SGLang's cache for LMCache uses it (``LMCacheUnifiedRadixCache``)."""
    from lmcache.integration.sglang.unified_lmcache_mp_connector import UnifiedLMCacheMPConnector
    from sglang.srt.configs.model_config import AttentionArch
    from sglang.srt.mem_cache.unified_cache.components import ComponentType

    os.environ |= {"LMCACHE_MP_HOST": "127.0.0.1", "LMCACHE_MP_PORT": str(port)}
    model = SimpleNamespace(model_path="bench", attention_arch=AttentionArch.MHA, hf_config=SimpleNamespace(architectures=["LlamaForCausalLM"]))
    connector = UnifiedLMCacheMPConnector(
        config_file=None, model_config=model, tp_size=1, tp_rank=0, tp_group=None, page_size=PAGE,
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: pool), req_to_token_pool=None, tree_components=(ComponentType.FULL,), mamba_component=None, sliding_window_size=None,
    )  # fmt: skip

    def ended(operation: Any) -> None:
        while not operation.query():
            time.sleep(0.0001)

    def store(request: str, tokens: list[int], places: Any) -> None:
        operation = connector.submit_store(request, tokens, [places], device_indices_start=0, cache_salt="")
        if operation is not None:
            ended(operation)
            if connector.complete_store(operation):
                connector.finish_request(request)
                return
        raise SystemExit("LMCache: pages were not stored")

    def load(request: str, tokens: list[int], places: Any) -> None:
        lookup = connector.submit_lookup(request, tokens, local_hit_tokens=0, cache_salt="")
        while (found := connector.poll_lookup(lookup)) is None:
            time.sleep(0.0001)
        if found != len(tokens):
            raise SystemExit(f"LMCache: {found} of {len(tokens)} tokens were found")
        operation = connector.submit_load(lookup, [places], local_hit_tokens=0)
        ended(operation)
        if not connector.complete_load(operation):
            raise SystemExit("LMCache: pages were not loaded")
        connector.finish_request(request)

    try:
        # Its connector has moved the pool to memory that its server maps.
        yield Way(store, load, list(connector._kv_caches.values()))
    finally:
        connector.close()


def fill(pool: list[Any], first: int, count: int) -> None:
    """Writes to the places of these tokens."""
    for tensor in pool:
        rows = tensor.view(-1, HEADS, DIM)[PAGE + first : PAGE + first + count]
        rows.normal_()


def are_equal(pool: list[Any], first: int, second: int, count: int) -> bool:
    """Whether the same is at two places."""
    rows = [tensor.view(-1, HEADS, DIM) for tensor in pool]
    return all(bool((one[PAGE + first : PAGE + first + count] == one[PAGE + second : PAGE + second + count]).all()) for one in rows)


def main() -> None:
    parser = Arguments(prog="checks.engines.sglang_lmcache")
    parser.add_argument("--socket", required=True, help="of a daemon with room for all prompts")
    parser.add_argument("--lmcache", required=True, help="LMCache's program, which runs its server")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=whole, default=2048, help="of a prompt, a multiple of 256")
    parser.add_argument("--turns", type=whole, default=6)
    arguments = parser.parse_args()
    count = arguments.tokens
    prompt_bytes = 2 * LAYERS * count * HEADS * DIM * 2
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        gigabytes = -(-(arguments.turns + 1) * prompt_bytes // 10**9)
        port = stack.enter_context(lmcache_server(arguments.lmcache, Path(folder), gigabytes))
        ways = {
            "kvtier": stack.enter_context(kvtier_way(pool_of(2 * count), arguments.socket)),
            "LMCache": stack.enter_context(lmcache_way(pool_of(2 * count), port)),
        }
        for turn in range(arguments.turns):
            tokens = prompt_of(turn, count)
            for name, way in ways.items():
                fill(way.pool, 0, count)
                for what, move, first in (("store", way.store, 0), ("load", way.load, count)):
                    begun = time.perf_counter()
                    move(f"{what} {turn}", tokens, places_of(first, count))
                    seconds.setdefault(f"{name} {what}", []).append(time.perf_counter() - begun)
                if not are_equal(way.pool, 0, count, count):
                    raise SystemExit(f"{name}: other bytes came back")
    # The first turn takes memory.
    rates = {name: prompt_bytes / statistics.median(some[1:]) / 1e9 for name, some in seconds.items()}
    row = {"gb_per_s": rates, "ms": {name: [round(1000 * one, 1) for one in some] for name, some in seconds.items()}}
    print(json.dumps(row), flush=True)
    arguments.out.write_text(json.dumps(row))


if __name__ == "__main__":
    sys.exit(main())
