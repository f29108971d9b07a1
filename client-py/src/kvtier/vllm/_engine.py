"""What vLLM says of itself: its configuration, the ranks of its workers, and its platform.

Callers go through the module (``_engine.rank()``), so that tests can replace a function in one place.
"""

import importlib
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from kvtier.vllm import _groups
from kvtier.vllm._shards import Rank

_RANK_IN_ID = re.compile(r"_dp(\d+)$")
"""vLLM names the ranks of a dense model so, which it runs as engines of their own"""
_REPORTS_FAILURES = hasattr(KVConnectorBase_V1, "get_transfer_results")
"""whether this vLLM can be told that a load has failed, and not only which blocks were not loaded"""


def unserved(vllm_config: Any, kv_cache_config: Any) -> str:
    """Why blocks of this engine can't be kept; empty where they can."""
    text = _groups.unserved(vllm_config, kv_cache_config, _REPORTS_FAILURES)
    if text:
        return text
    parallel = vllm_config.parallel_config
    if getattr(vllm_config, "speculative_config", None) is not None and int(parallel.pipeline_parallel_size) > 1:
        return "speculative decoding is combined with pipeline parallelism, and then only the last stage asks for stores"
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if int(getattr(parallel, name, 1) or 1) != 1:
            return f"{name} is {getattr(parallel, name)}; expected 1, because context parallelism is not supported"
    piece_tokens = hash_tokens(vllm_config, kv_cache_config)
    for group in kv_cache_config.kv_cache_groups:
        tokens = int(group.kv_cache_spec.block_size)
        if tokens % piece_tokens:
            return f"the engine hashes pieces of {piece_tokens} tokens, and has blocks of {tokens}; expected blocks of whole pieces"
    return ""


def block_tokens(vllm_config: Any, kv_cache_config: Any) -> int:
    """The tokens of a unit that the engine restores: a block of its only group, or whole blocks of all groups."""
    groups = kv_cache_config.kv_cache_groups
    return math.lcm(*(int(group.kv_cache_spec.block_size) for group in groups)) if groups else int(vllm_config.cache_config.block_size)


def hash_tokens(vllm_config: Any, kv_cache_config: Any) -> int:
    """How many tokens one of the engine's hashes is of, beside those before them."""
    told = getattr(kv_cache_config, "hash_block_size", None) or getattr(vllm_config.cache_config, "hash_block_size", None)
    return int(told) if told is not None else block_tokens(vllm_config, kv_cache_config)


def extra_keys(request: Any, bounds: Sequence[int]) -> list[Any] | None:
    """What the hashes of blocks between these tokens are made of beside their tokens and the block before, as vLLM's own
    events have it; None: nothing."""
    plain = getattr(request, "prompt_embeds", None) is None and request.lora_request is None
    if plain and not getattr(request, "mm_features", None) and not request.cache_salt:
        return None
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    made = [utils.generate_block_hash_extra_keys(request, begin, end, 0)[0] for begin, end in pairwise(bounds)]
    # Before 0.32 there was nothing in them that events have not.
    told = getattr(utils, "to_event_extra_keys", None)
    return made if told is None else cast("list[Any] | None", told(made))


def is_data_parallel(vllm_config: Any) -> bool:
    """Whether it is one of several data-parallel ranks."""
    return int(vllm_config.parallel_config.data_parallel_size) > 1 or _RANK_IN_ID.search(_engine_id(vllm_config)) is not None


def data_parallel_rank(vllm_config: Any) -> int:
    """Its number among them; 0 where there are no others."""
    parallel = vllm_config.parallel_config
    told = int(getattr(parallel, "data_parallel_index", 0) or parallel.data_parallel_rank or 0)
    found = _RANK_IN_ID.search(_engine_id(vllm_config))
    return told or (int(found.group(1)) if found else 0)


def _engine_id(vllm_config: Any) -> str:
    return str(vllm_config.kv_transfer_config.engine_id)


def rank() -> tuple[int, int]:
    parallel_state = importlib.import_module("vllm.distributed.parallel_state")
    return parallel_state.get_pp_group().rank_in_group, parallel_state.get_tp_group().rank_in_group


def is_replicated(vllm_config: Any) -> bool:
    return bool(getattr(vllm_config.model_config, "use_mla", False)) and int(vllm_config.parallel_config.tensor_parallel_size) > 1


def of_first_rank(value: Any) -> Any:
    """What the first rank of those that share layers has."""
    parallel_state = importlib.import_module("vllm.distributed.parallel_state")
    return parallel_state.get_tp_group().broadcast_object(value, src=0)


def gathered(mine: Rank) -> list[list[Rank]] | None:
    """What all ranks of the engine tell, by pipeline rank and tensor rank."""
    parallel_state = importlib.import_module("vllm.distributed.parallel_state")
    distributed = importlib.import_module("torch.distributed")

    def of(group: Any, value: Any) -> list[Any]:
        told = [None] * group.world_size
        distributed.all_gather_object(told, value, group=group.cpu_group)
        return told

    return of(parallel_state.get_pp_group(), of(parallel_state.get_tp_group(), mine))


def has_fixed_seed() -> bool:
    return hasattr(importlib.import_module("vllm.v1.core.kv_cache_utils"), "DEFAULT_NONE_HASH_SEED")


def asks_for_layers() -> bool:
    """Whether the forward pass that is about to begin asks the connector for each layer before it reads the layer: one thread runs it,
    and it is not replayed as one CUDA graph."""
    forward_context = importlib.import_module("vllm.forward_context")
    if not forward_context.is_forward_context_available():
        return False
    context = forward_context.get_forward_context()
    graphs = getattr(getattr(context, "cudagraph_runtime_mode", None), "name", "")
    is_one = isinstance(context.attn_metadata, dict) and getattr(context, "ubatch_slices", None) is None
    return bool(context.attn_metadata) and is_one and graphs in ("NONE", "PIECEWISE")


def attention(vllm_config: Any) -> str:
    """Which backends read the blocks: what the extents alone don't say about a block's bytes."""
    names = set()
    for layer in getattr(vllm_config.compilation_config, "static_forward_context", {}).values():
        try:
            names.add(str(layer.get_attn_backend().get_name()))
        except Exception:
            continue
    return "+".join(sorted(names))


def on_gpu() -> bool:
    return bool(importlib.import_module("vllm.platforms").current_platform.is_cuda())
