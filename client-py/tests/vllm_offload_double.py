"""The parts of vLLM's own offloading that `kvtier.vllm.tier` uses: the package where it is installed, otherwise a double of its classes."""

import importlib
import sys
import types
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kvtier_testing import vllm_double

BASE = "vllm.v1.kv_offload.base"
TIERING = "vllm.v1.kv_offload.tiering.base"
FACTORY = "vllm.v1.kv_offload.tiering.factory"


def _install_double() -> None:
    class Medium(Enum):
        CPU = "CPU"
        STORAGE = "STORAGE"

    class Locality(Enum):
        LOCAL = "LOCAL"
        REMOTE = "REMOTE"

    class LookupResult(Enum):
        MISS = 0
        HIT = 1
        RETRY = 2

    @dataclass
    class ReqContext:
        req_id: str

    @dataclass
    class RequestOffloadingContext:
        pass

    @dataclass
    class JobResult:
        job_id: int
        success: bool
        successful_keys: Any = None
        transfer_time: float | None = None
        transfer_bytes: int | None = None

    @dataclass
    class TransferJob:
        job_id: int
        keys: Any
        chunk_ids: Any
        is_promotion: bool
        req_context: Any
        more: dict[str, Any] = field(default_factory=dict)

    class SecondaryTierManager:
        def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, backpressure_detector: Any = None) -> None:
            self.tier_type = tier_type
            self.locality: Any = None

    class SecondaryTierFactory:
        @staticmethod
        def create_secondary_tier(tier_config: dict[str, Any], primary_kv_view: memoryview, offloading_spec: Any) -> Any:
            config = tier_config.copy()
            made = getattr(importlib.import_module(config.pop("module_path")), tier_type := config.pop("type"))
            return made(
                offloading_spec=offloading_spec, primary_kv_view=primary_kv_view, tier_type=tier_type, backpressure_detector=None, **config
            )

    def make_offload_key(block_hash: bytes, group: int) -> bytes:
        return block_hash + group.to_bytes(4, "big")

    members: dict[str, dict[str, Any]] = {
        "vllm.v1.kv_offload": {}, "vllm.v1.kv_offload.tiering": {},
        BASE: {
            "Medium": Medium, "Locality": Locality, "LookupResult": LookupResult, "ReqContext": ReqContext,
            "RequestOffloadingContext": RequestOffloadingContext, "make_offload_key": make_offload_key,
        },
        TIERING: {"JobResult": JobResult, "TransferJob": TransferJob, "SecondaryTierManager": SecondaryTierManager},
        FACTORY: {"SecondaryTierFactory": SecondaryTierFactory},
    }  # fmt: skip
    for name, contents in members.items():
        module = sys.modules[name] = types.ModuleType(name)
        vars(module).update(contents)
        module.__path__ = []
    # As an attribute, too: `from vllm.v1.kv_offload import base`.
    vars(sys.modules["vllm.v1.kv_offload"])["base"] = sys.modules[BASE]


if not vllm_double.IS_VLLM:
    _install_double()

offload = importlib.import_module(BASE)
base = importlib.import_module(TIERING)
factory = importlib.import_module(FACTORY)
