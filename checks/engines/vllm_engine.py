"""One vLLM in a process of its own, and its configuration of the connector."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checks.engines.told import Told


def processors_of(ranks: int, processors: list[int]) -> str:
    """Which of the processors each rank computes on, as vLLM has it; by itself it gives each rank a NUMA node."""
    if len(processors) < ranks:
        return "nobind"
    return "|".join(",".join(map(str, processors[rank::ranks])) for rank in range(ranks))


class Engine(Told):
    """One vLLM."""

    def __init__(
        self, root: Path, folder: Path, name: str, kv: dict | None, multiprocessing: int, ranks: int = 1, threads: int = 0,
        size: str = "tiny", blocks: int = 0, chunk: int = 0,
        processors: Sequence[int] = (), dtype: str = "float32",
    ) -> None:  # fmt: skip
        """`threads` for computing, 0 for vLLM's choice; `size` of the model, a name in run.py; `blocks` of the engine's own cache, 0 for what fits;
        `chunk`: the most tokens of a step, 0 for vLLM's choice; `processors` for computing, none for vLLM's choice; `dtype` of what it computes and caches."""
        command = [
            str(root / "target" / "venv-vllm" / "bin" / "python"), "-m", "checks.engines.run",
            "--model", str(folder / f"model-{size}"), "--size", size,
        ]  # fmt: skip
        if kv:
            command += ["--kv", json.dumps(kv)]
        command += ["--ranks", str(ranks), "--blocks", str(blocks), "--chunk", str(chunk), "--dtype", dtype]
        settings = {
            "PYTHONHASHSEED": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": str(multiprocessing), "LMCACHE_TRACK_USAGE": "false",
        }  # fmt: skip
        if threads:
            settings["OMP_NUM_THREADS"] = str(threads)
        if processors:
            settings["VLLM_CPU_OMP_THREADS_BIND"] = processors_of(ranks, list(processors))
        elif ranks > 1:
            settings["VLLM_CPU_OMP_THREADS_BIND"] = processors_of(ranks, sorted(os.sched_getaffinity(0)))
        super().__init__(name, command, settings, folder / f"engine-{name}.log")


@contextlib.contextmanager
def engine(*arguments: Any, **more: Any) -> Iterator[Engine]:
    made = Engine(*arguments, **more)
    try:
        yield made
    finally:
        made.close()


def kvtier(socket_path: Path, namespace: str, role: str = "kv_both", **settings: Any) -> dict:
    """vLLM's configuration of the connector, with more of its settings by their names."""
    extra = {"socket": str(socket_path), "namespace": namespace} | settings
    return {
        "kv_connector": "KvtierConnector", "kv_role": role, "kv_connector_module_path": "kvtier.vllm",
        "kv_connector_extra_config": {f"kvtier.{name}": value for name, value in extra.items()},
    }  # fmt: skip
