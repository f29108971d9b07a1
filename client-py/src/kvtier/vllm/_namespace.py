"""The namespace of an engine: everything in its configuration that decides about a block's bytes and keys."""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvtier.engine.identity import ONE_POOL, Identity, Place, PoolText, Texts
from kvtier.vllm import _weights
from kvtier.vllm._groups import rule_of
from kvtier.vllm._settings import Settings
from kvtier.vllm._shards import Joint
from kvtier.vllm._steps import Shard

_CRYPTOGRAPHIC = ("sha256", "sha256_cbor")
_IGNORED_OF_MODEL = ("transformers_version", "_name_or_path", "torch_dtype", "dtype", "_commit_hash")
TEXTS = Texts("kv_connector_extra_config", "PYTHONHASHSEED")


def shard_of(
    config: Any,
    settings: Settings,
    layout: str,
    block_bytes: int,
    rank: tuple[int, int],
    unseeded: str,
    fixed_seed: bool,
    loaded: str,
    alone: str,
    group: PoolText,
) -> Shard:
    """The namespace of one rank.

    Args:
        config: vLLM's ``VllmConfig``.
        layout: how a block's bytes are laid out in its tensors.
        block_bytes: the bytes of a block on this rank.
        rank: (pipeline rank, tensor rank).
        unseeded: what tells an engine from all others whose hashes nobody else can make.
        fixed_seed: whether this vLLM has a seed of its own where none is given.
        loaded: the digest of the weights in memory; empty: unknown.
        alone: what tells an engine from all others whose weights nobody knows.
        group: which of the model's groups the blocks are of.
    """
    model, parallel = config.model_config, config.parallel_config
    replicated = bool(getattr(model, "use_mla", False))
    pipeline_rank, tensor_rank = rank
    pipeline, tensor = int(parallel.pipeline_parallel_size), int(parallel.tensor_parallel_size)
    identity, advice = identity_of(config, settings, loaded, alone, unseeded, fixed_seed)
    # Ranks that hold the same bytes share one namespace, which the first of them writes.
    parts = 1 if replicated else tensor
    part = 0 if replicated else tensor_rank
    named = identity.of_rank(layout, Place(pipeline_rank, pipeline, part, parts), group)
    return Shard(named.name, block_bytes, named.properties, part == tensor_rank, advice=advice if rank == (0, 0) else "")


def joint(
    config: Any, settings: Settings, layout: str, part: Joint, unseeded: str, fixed_seed: bool, is_first: bool, group: PoolText
) -> Shard:
    """The namespace of the whole model's blocks, which all ranks put together.

    Args:
        config: vLLM's ``VllmConfig``.
        layout: what decides about a block's bytes beside their form.
        part: this rank's part of the blocks.
        unseeded: what tells an engine from all others whose hashes nobody else can make.
        fixed_seed: whether this vLLM has a seed of its own where none is given.
        is_first: whether this rank tells who runs the engine about its weights.
        group: which of the model's groups the blocks are of.
    """
    identity, advice = identity_of(config, settings, part.loaded, part.alone, unseeded, fixed_seed)
    named = identity.of_model(layout, part.form.text, group, part.encoded.encoding)
    return Shard(named.name, part.form.block_bytes, named.properties, True, advice=advice if is_first else "")


def pool_of(groups: Sequence[Any], number: int) -> PoolText:
    """What tells the blocks of a group from those of the model's other groups. `groups`: vLLM's, of which this is one."""
    spec = groups[number].kv_cache_spec
    if len(groups) == 1:
        return ONE_POOL
    return PoolText.of(number, len(groups), int(spec.block_size), groups[number].layer_names, rule_of(spec))


class Described(NamedTuple):
    """What decides about an engine's bytes and keys, on all of its ranks."""

    properties: dict[str, str]
    suffix: str
    """ends the namespace's name: engines with other weights meet in no namespace, and need not be refused"""
    advice: str
    """what to tell who runs the engine; empty: nothing"""


def properties_of(config: Any, named: str, loaded: str, alone: str, fixed_seed: bool) -> Described:
    """Of an engine's configuration and weights. Arguments as of `identity_of`; `named` is what the operator calls the weights."""
    identity, advice = identity_of(config, Settings(weights=named), loaded, alone, "", fixed_seed)
    properties = identity.properties
    # Whoever has keys of its own says how they tell adapters and tenants apart.
    del properties["lora"], properties["salt"]
    return Described(properties, identity.suffix, advice)


def identity_of(config: Any, settings: Settings, loaded: str, alone: str, unseeded: str, fixed_seed: bool) -> tuple[Identity, str]:
    """An engine's identity, and what to tell who runs it; empty: nothing.

    Args:
        config: vLLM's ``VllmConfig``.
        settings: say what the operator calls the namespace and the weights.
        loaded: the digest of the weights in memory; empty: unknown.
        alone: what tells an engine from all others whose weights nobody knows.
        unseeded: what tells an engine from all others whose hashes nobody else can make.
        fixed_seed: whether this vLLM has a seed of its own where none is given.
    """
    model, cache = config.model_config, config.cache_config
    algorithm = str(cache.prefix_caching_hash_algo)
    named = settings.weights
    weights = TEXTS.weights(model.model, named, "" if named else _weights.of_files(config), loaded)
    text, advice = weights.text, weights.advice
    if getattr(cache, "calculate_kv_scales", False):
        # What the first batch is makes the scales.
        text = ""
        advice = (
            "calculate_kv_scales is set, so the first batch decides how this engine scales its blocks. Other engines cannot use them, "
            "and neither can this engine after a restart. Use a checkpoint that contains the scales."
        )
    identity = Identity(
        engine="vllm",
        model=str(model.model),
        model_config=_fingerprint(model),
        weights=text,
        dtype=str(model.dtype).removeprefix("torch.") if str(cache.cache_dtype) == "auto" else str(cache.cache_dtype),
        page_tokens=int(cache.block_size),
        hash=algorithm,
        hash_seed=hash_seed(algorithm, fixed_seed),
        alone=alone,
        unseeded=unseeded,
        namespace=settings.namespace,
        processor=_weights.processor(config),
        more={"quantization": str(getattr(model, "quantization", None) or "none")},
    )
    return identity, advice


def hash_seed(algorithm: str, fixed_seed: bool) -> str | None:
    """What the hashes of an engine depend on beside the tokens; None: on something random."""
    given = os.environ.get("PYTHONHASHSEED")
    if given is not None:
        return f"PYTHONHASHSEED {given}"
    return "the default" if fixed_seed and algorithm in _CRYPTOGRAPHIC else None


def seed_warning(algorithm: str) -> str:
    """What to tell who runs an engine whose hashes nobody else can make."""
    return (
        f"PYTHONHASHSEED is not set, so this engine's block hashes ({algorithm}) start from a random number. Other engines cannot "
        "find its blocks, and neither can this engine after a restart. Set PYTHONHASHSEED=0 in all engines that share blocks."
    )


def _fingerprint(model: Any) -> str:
    """Of the model's own configuration: the shapes, and what positions and activations are made of."""
    described = model.hf_config.to_dict() if hasattr(model.hf_config, "to_dict") else dict(vars(model.hf_config))
    return hashlib.sha256(json.dumps(_kept(described), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _kept(described: Any) -> Any:
    """Without what says where it was read from, in all parts of a model of several."""
    if isinstance(described, dict):
        return {key: _kept(value) for key, value in described.items() if key not in _IGNORED_OF_MODEL}
    return [_kept(one) for one in described] if isinstance(described, (list, tuple)) else described
