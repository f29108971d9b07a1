"""How fast SGLang's hierarchical cache writes pages to kvtier and reads them, beside its own `file` backend, in one run.

Runs in SGLang's virtual environment: the host pool is SGLang's class with memory of the shape of an 8B Llama's, and the calls are those
that its threads make: batches of 128 pages. scripts/engine-check starts this program.
"""

import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from checks.shared.command_line import Arguments, whole

LAYERS, HEADS, DIM = 32, 8, 128
BATCH = 128


def pool_of(layout: str, pages: int, page_tokens: int) -> Any:
    """SGLang's host pool, without the device that it belongs to."""
    import torch
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

    pool = MHATokenToKVPoolHost.__new__(MHATokenToKVPoolHost)
    size = pages * page_tokens
    shapes = {"layer_first": (2, LAYERS, size, HEADS, DIM), "page_first": (2, size, LAYERS, HEADS, DIM), "page_first_direct": (2, pages, LAYERS, page_tokens, HEADS, DIM)}
    vars(pool).update(
        layout=layout, page_size=page_tokens, page_num=pages, size=size, layer_num=LAYERS, target_layer_num=LAYERS, head_num=HEADS, head_dim=DIM,
        v_head_dim=DIM, dtype=torch.bfloat16, device="cpu", pin_memory=False, start_layer=0, end_layer=LAYERS,
        kv_buffer=torch.randn(shapes[layout]).to(torch.bfloat16), clear=lambda: None,
    )  # fmt: skip
    return pool


def indices_of(first: int, count: int, page_tokens: int) -> Any:
    import torch

    return torch.arange(first * page_tokens, (first + count) * page_tokens)


def keys_of(count: int, turn: int) -> list[str]:
    return [hashlib.sha256(f"{turn} {number}".encode()).hexdigest() for number in range(count)]


def kvtier_backend(pool: Any, socket: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[[], None]]:
    from kvtier.sglang import KvtierStorage

    made = SimpleNamespace(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False, model_name="bench", dcp_size=1,
        extra_config={"interface_v1": 1, "kvtier.socket": socket, "kvtier.weights": f"bench {pool.layout} {os.getpid()}"},
    )  # fmt: skip
    storage = KvtierStorage(made)
    storage.register_mem_pool_host(pool)

    def move(what: Callable[..., list[bool]], keys: list[str], first: int) -> None:
        for at in range(0, len(keys), BATCH):
            some = keys[at : at + BATCH]
            if not all(what(some, indices_of(first + at, len(some), pool.page_size))):
                raise SystemExit("a page was not moved")

    return lambda keys, first: move(storage.batch_set_v1, keys, first), lambda keys, first: move(storage.batch_get_v1, keys, first), storage.close


def file_backend(pool: Any, folder: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[[], None]]:
    """As SGLang's cache controller uses it: pages are gathered, written, read and scattered one by one."""
    from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig

    config = HiCacheStorageConfig(0, 1, 0, 1, 0, 1, False, False, pool.layout == "page_first", "bench")
    storage = HiCacheFile(config, folder)

    def put(keys: list[str], first: int) -> None:
        for at in range(0, len(keys), BATCH):
            some = keys[at : at + BATCH]
            data = [pool.get_data_page((first + at + number) * pool.page_size) for number in range(len(some))]
            if not storage.batch_set(some, data):
                raise SystemExit("a page was not written")

    def get(keys: list[str], first: int) -> None:
        for at in range(0, len(keys), BATCH):
            some = keys[at : at + BATCH]
            pages = storage.batch_get(some, [pool.get_dummy_flat_data_page() for _ in some])
            for number, page in enumerate(pages):
                pool.set_from_flat_data_page((first + at + number) * pool.page_size, page)

    return put, get, storage.clear


def main() -> None:
    parser = Arguments(prog="checks.engines.sglang_storage")
    parser.add_argument("--socket", required=True, help="of a daemon with room for all pages")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pages", type=whole, default=128)
    parser.add_argument("--page", type=whole, default=64)
    parser.add_argument("--turns", type=whole, default=4)
    parser.add_argument("--folder", type=Path, help="where the file backend writes; none: a temporary folder")
    arguments = parser.parse_args()
    rows = []
    for layout in ("page_first_direct", "page_first", "layer_first"):
        pool = pool_of(layout, 2 * arguments.pages, arguments.page)
        page_bytes = pool.kv_buffer.numel() * 2 // pool.page_num
        rates: dict[str, list[float]] = {}
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            backends = {"kvtier": kvtier_backend(pool, arguments.socket), "file": file_backend(pool, folder)}
            for turn in range(arguments.turns):
                for name, (put, get, _) in backends.items():
                    keys = keys_of(arguments.pages, turn)
                    for what, move, first in (("store", put, 0), ("load", get, arguments.pages)):
                        begun = time.perf_counter()
                        move(keys, first)
                        rates.setdefault(f"{name} {what}", []).append(arguments.pages * page_bytes / (time.perf_counter() - begun) / 1e9)
                    if layout == "page_first_direct" and not bool((pool.kv_buffer[:, : arguments.pages] == pool.kv_buffer[:, arguments.pages :]).all()):
                        raise SystemExit(f"{name}: other bytes came back")
            for _, _, end in backends.values():
                end()
        # The first turn takes memory.
        medians = {name: statistics.median(some[1:]) for name, some in rates.items()}
        rows.append({"layout": layout, "gb_per_s": medians, **{f"{what}_ratio": medians[f"kvtier {what}"] / medians[f"file {what}"] for what in ("store", "load")}})
        print(json.dumps(rows[-1]), flush=True)
    arguments.out.write_text(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
