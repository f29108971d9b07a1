"""The namespace of an engine: everything in its configuration that decides about a block's bytes and keys."""

import hashlib
import json
import os
from typing import Any

from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Shard

_CRYPTOGRAPHIC = ("sha256", "sha256_cbor")
_IGNORED_OF_MODEL = ("transformers_version", "_name_or_path", "torch_dtype", "dtype", "_commit_hash")


def shard_of(
    config: Any, settings: Settings, layout: str, block_bytes: int, rank: tuple[int, int], unseeded: str, fixed_seed: bool
) -> Shard:
    """The namespace of one rank.

    Args:
        config: vLLM's ``VllmConfig``.
        layout: how a block's bytes are laid out in its tensors.
        block_bytes: the bytes of a block on this rank.
        rank: (pipeline rank, tensor rank).
        unseeded: what tells an engine from all others whose hashes nobody else can make.
        fixed_seed: whether this vLLM has a seed of its own where none is given.
    """
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    algorithm = str(cache.prefix_caching_hash_algo)
    seed = hash_seed(algorithm, fixed_seed)
    replicated = bool(getattr(model, "use_mla", False))
    pipeline_rank, tensor_rank = rank
    pipeline, tensor = int(parallel.pipeline_parallel_size), int(parallel.tensor_parallel_size)
    name = settings.namespace or f"vllm/{model.model}"
    if seed is None:
        name += f"/unseeded-{unseeded}"
    # Ranks that hold the same bytes share one namespace, which the first of them writes.
    parts = 1 if replicated else tensor
    part = 0 if replicated else tensor_rank
    if pipeline * parts > 1:
        name += f"/pp{pipeline_rank}tp{part}"
    properties = {
        "engine": "vllm",
        "model": str(model.model),
        "revision": str(getattr(model, "revision", None) or "none"),
        "model_config": _fingerprint(model),
        "weights": _weights(config),
        "quantization": str(getattr(model, "quantization", None) or "none"),
        "dtype": str(model.dtype).removeprefix("torch.") if str(cache.cache_dtype) == "auto" else str(cache.cache_dtype),
        "block_tokens": str(cache.block_size),
        "layout": layout,
        "pipeline": f"{pipeline_rank} of {pipeline}",
        "tensor": f"{part} of {parts}",
        "hash": algorithm,
        "hash_seed": "none, of this engine alone" if seed is None else seed,
        # Adapters are told apart by their names, tenants by their salts: both are in the keys.
        "lora": "by name",
        "salt": "in keys",
    }
    return Shard(_one_line(name), block_bytes, {key: _one_line(value) for key, value in properties.items()}, part == tensor_rank)


def hash_seed(algorithm: str, fixed_seed: bool) -> str | None:
    """What the hashes of an engine depend on beside the tokens; None: on something random."""
    given = os.environ.get("PYTHONHASHSEED")
    if given is not None:
        return f"PYTHONHASHSEED {given}"
    return "the default" if fixed_seed and algorithm in _CRYPTOGRAPHIC else None


def seed_warning(algorithm: str) -> str:
    """What to tell who runs an engine whose hashes nobody else can make."""
    return (
        f"PYTHONHASHSEED is not set, so this engine's block hashes ({algorithm}) are its own: its blocks can't be found by "
        "other engines, nor by itself after a restart. Set PYTHONHASHSEED=0, the same for all engines that share blocks."
    )


def mismatch_text(reason: str) -> str:
    """A refusal in the words of who configures an engine."""
    hint = ""
    if "hash_seed" in reason:
        hint = " The engines were started with different PYTHONHASHSEED: their keys never meet."
    return (
        f"kvtier refuses to mix this engine's blocks with those of another configuration: {reason}.{hint} Make the engines "
        "alike, or give this one a namespace of its own: kvtier.namespace in kv_connector_extra_config."
    )


def _fingerprint(model: Any) -> str:
    """Of the model's own configuration: the shapes, and what positions and activations are made of."""
    described = model.hf_config.to_dict() if hasattr(model.hf_config, "to_dict") else dict(vars(model.hf_config))
    kept = {key: value for key, value in described.items() if key not in _IGNORED_OF_MODEL}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _weights(config: Any) -> str:
    """Where the weights come from; those that are made up depend on the seed."""
    form = str(getattr(getattr(config, "load_config", None), "load_format", "auto"))
    form = form.rpartition(".")[2].lower()
    return f"dummy, seed {config.model_config.seed}" if form == "dummy" else "loaded"


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "none"
