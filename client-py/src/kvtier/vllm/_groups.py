"""The kinds of KV cache of a model as vLLM has them, each with blocks and namespaces of its own."""

from collections.abc import Sequence
from typing import Any

from kvtier.engine.groups import ALL, LAST, Rule, chunk, is_plain, window


def rules_of(kv_cache_config: Any) -> list[Rule | None]:
    """The rules of all groups of vLLM's ``KVCacheConfig``."""
    return [rule_of(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups]


def rule_of(spec: Any) -> Rule | None:
    """Which blocks a group of this `KVCacheSpec` needs; None: nobody knows."""
    layers = _of_layers(spec)
    if layers != [spec]:
        rules = {rule_of(one) for one in layers}
        return rules.pop() if len(rules) == 1 else None
    kinds = [kind.__name__ for kind in type(spec).__mro__]
    if "MambaSpec" in kinds:
        return LAST
    if "SlidingWindowSpec" in kinds:
        return window(int(spec.sliding_window) + int(getattr(spec, "extra_retained_tokens", 0)))
    if "ChunkedLocalAttentionSpec" in kinds:
        return chunk(int(spec.attention_chunk_size))
    return ALL if "FullAttentionSpec" in kinds else None


def _of_layers(spec: Any) -> list[Any]:
    """The specs of single layers: a ``UniformTypeKVCacheSpecs`` has one for each."""
    return list(spec.kv_cache_specs.values()) if hasattr(spec, "kv_cache_specs") else [spec]


def unserved(config: Any, kv_cache_config: Any, reports_failures: bool) -> str:
    """Why blocks of these groups can't be kept; empty where they can.

    Args:
        config: vLLM's ``VllmConfig``.
        kv_cache_config: vLLM's ``KVCacheConfig``.
        reports_failures: whether this vLLM takes a request back whose load has failed, whatever its groups.
    """
    groups = kv_cache_config.kv_cache_groups
    for group in groups:
        text = _unserved(group)
        if text:
            return text
    clears_first = not reports_failures or getattr(config, "use_v2_model_runner", False)
    if getattr(kv_cache_config, "needs_kv_cache_zeroing", False) and clears_first:
        return (
            "the engine clears blocks when it allocates them, before it asks whether they are still being stored: "
            "use vLLM 0.32 or newer, and set VLLM_USE_V2_MODEL_RUNNER=0"
        )
    several = len(groups) > 1
    if not is_plain(rules_of(kv_cache_config)) and not reports_failures:
        return f"the model has {_kinds(groups)}, and kvtier keeps these only with vLLM 0.32 or newer"
    if not several:
        return ""
    if getattr(config, "speculative_config", None) is not None:
        return f"speculative decoding is on, and the model has {_kinds(groups)}; expected one kind"
    if int(config.parallel_config.pipeline_parallel_size) > 1:
        return f"pipeline parallelism is on, and the model has {_kinds(groups)}; expected one kind"
    return ""


def _unserved(group: Any) -> str:
    spec = group.kv_cache_spec
    kind = type(spec).__name__
    if "RSWA" in kind:
        return f"the model's KV cache is of kind {kind}, in which a block depends on more than the tokens before it"
    if rule_of(spec) is None:
        return f"the model's KV cache is of kind {kind}; kvtier keeps full, windowed and chunked attention, and Mamba states"
    modes = {getattr(one, "mamba_cache_mode", None) for one in _of_layers(spec)}
    if rule_of(spec) == LAST and modes != {"align"}:
        return (
            f"mamba_cache_mode is {', '.join(sorted(map(repr, modes)))}; expected 'align', so that the engine keeps states at the "
            "ends of blocks: set --enable-prefix-caching --mamba-cache-mode align"
        )
    if not getattr(spec, "prefix_cacheable", True) or not getattr(group, "enable_kv_transfer", True) or getattr(group, "host_resident", False):
        return f"the engine itself does not cache blocks of kind {kind}"
    if int(getattr(spec, "prefix_replay_tokens", 0) or 0):
        return f"the engine computes the end of each prefix again for its blocks of kind {kind}"
    return ""


def _kinds(groups: Sequence[Any]) -> str:
    names = sorted({type(group.kv_cache_spec).__name__ for group in groups})
    return f"{len(groups)} groups of layers ({', '.join(names)})" if len(groups) > 1 else f"a KV cache of kind {names[0]}"
