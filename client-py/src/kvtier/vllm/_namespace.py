"""The namespace of an engine: everything in its configuration that decides about a block's bytes and keys."""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvtier.vllm import _weights
from kvtier.vllm._groups import rule_of
from kvtier.vllm._settings import Settings
from kvtier.vllm._shards import Joint
from kvtier.vllm._steps import Shard

_CRYPTOGRAPHIC = ("sha256", "sha256_cbor")
_IGNORED_OF_MODEL = ("transformers_version", "_name_or_path", "torch_dtype", "dtype", "_commit_hash")
_NAME_DIGITS = 12
_IN_KEYS = {"lora": "by content", "salt": "in keys"}
"""the keys of blocks tell adapters apart by their files, and tenants by their salts"""


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
    group: "GroupText",
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
    described = properties_of(config, settings.weights, loaded, alone, fixed_seed)
    # Ranks that hold the same bytes share one namespace, which the first of them writes.
    parts = 1 if replicated else tensor
    part = 0 if replicated else tensor_rank
    rank_text = f"/pp{pipeline_rank}tp{part}" if pipeline * parts > 1 else ""
    properties = {
        **described.properties,
        **_IN_KEYS,
        **group.properties,
        "layout": layout,
        "pipeline": f"{pipeline_rank} of {pipeline}",
        "tensor": f"{part} of {parts}",
    }
    return Shard(
        _name(config, settings, described, unseeded, fixed_seed, group.ending + rank_text),
        block_bytes,
        {key: _one_line(value) for key, value in properties.items()},
        part == tensor_rank,
        advice=described.advice if rank == (0, 0) else "",
    )


def joint(
    config: Any, settings: Settings, layout: str, part: Joint, unseeded: str, fixed_seed: bool, is_first: bool, group: "GroupText"
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
    described = properties_of(config, settings.weights, part.loaded, part.alone, fixed_seed)
    properties = {**described.properties, **_IN_KEYS, **group.properties, "layout": layout, "form": part.form.text}
    return Shard(
        _name(config, settings, described, unseeded, fixed_seed, group.ending),
        part.form.block_bytes,
        {key: _one_line(value) for key, value in properties.items()},
        True,
        advice=described.advice if is_first else "",
    )


def _name(config: Any, settings: Settings, described: "Described", unseeded: str, fixed_seed: bool, rank_text: str) -> str:
    """The name of a namespace: what an operator calls it, then what tells engines apart that must not share blocks."""
    name = settings.namespace or f"vllm/{config.model_config.model}"
    if hash_seed(str(config.cache_config.prefix_caching_hash_algo), fixed_seed) is None:
        name += f"/unseeded-{unseeded}"
    return f"{_one_line(name + rank_text)}/{described.suffix}"


class GroupText(NamedTuple):
    """What tells the blocks of one group from those of the model's other groups."""

    ending: str
    """of the namespace's name; empty for a model with one group"""
    properties: dict[str, str]

    @classmethod
    def of(cls, groups: Sequence[Any], number: int) -> "GroupText":
        """`groups`: vLLM's, of which this is one."""
        if len(groups) == 1:
            return cls("", {})
        spec, layers = groups[number].kv_cache_spec, " ".join(groups[number].layer_names)
        rule = rule_of(spec)
        return cls(
            f"/group-{number}",
            {
                "block_tokens": str(spec.block_size),
                "group": f"{number} of {len(groups)}",
                "layers": hashlib.sha256(layers.encode()).hexdigest()[:_NAME_DIGITS],
                "rule": "none" if rule is None else rule.text,
            },
        )


class Described(NamedTuple):
    """What decides about an engine's bytes and keys, on all of its ranks."""

    properties: dict[str, str]
    suffix: str
    """ends the namespace's name: engines with other weights meet in no namespace, and need not be refused"""
    advice: str
    """what to tell who runs the engine; empty: nothing"""


def properties_of(config: Any, named: str, loaded: str, alone: str, fixed_seed: bool) -> Described:
    """Of an engine's configuration and weights.

    Args:
        config: vLLM's ``VllmConfig``.
        named: what the operator calls the weights; empty: nothing.
        loaded: the digest of the weights in memory; empty: unknown.
        alone: what tells an engine from all others whose weights nobody knows.
        fixed_seed: whether this vLLM has a seed of its own where none is given.
    """
    model, cache = config.model_config, config.cache_config
    algorithm = str(cache.prefix_caching_hash_algo)
    seed = hash_seed(algorithm, fixed_seed)
    weights = _weights.identity(config, named, loaded)
    text, advice = weights.text, weights.advice
    if getattr(cache, "calculate_kv_scales", False):
        # What the first batch is makes the scales.
        text = ""
        advice = (
            "calculate_kv_scales is set, so the first batch decides how this engine scales its blocks. Other engines cannot use them, "
            "and neither can this engine after a restart. Use a checkpoint that contains the scales."
        )
    if not text:
        text = f"unknown, of this engine alone: {alone}"
    processor = _weights.processor(config)
    return Described(
        {
            "engine": "vllm",
            "model_config": _fingerprint(model),
            "weights": text,
            "processor": processor,
            "quantization": str(getattr(model, "quantization", None) or "none"),
            "dtype": str(model.dtype).removeprefix("torch.") if str(cache.cache_dtype) == "auto" else str(cache.cache_dtype),
            "block_tokens": str(cache.block_size),
            "hash": algorithm,
            "hash_seed": "none, of this engine alone" if seed is None else seed,
        },
        suffix_of(f"{text} {processor}"),
        advice,
    )


def suffix_of(weights: str) -> str:
    """What ends the names of namespaces of these weights."""
    return f"weights-{hashlib.sha256(weights.encode()).hexdigest()[:_NAME_DIGITS]}"


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


def mismatch_text(reason: str) -> str:
    """A refusal in the words of who configures an engine."""
    hint = ""
    if "hash_seed" in reason:
        hint = " The engines have different values of PYTHONHASHSEED, so they can never find each other's blocks."
    return (
        f"kvtier does not mix blocks of engines with different configurations: {reason}.{hint} Give the engines the same "
        "configuration, or set another kvtier.namespace in kv_connector_extra_config."
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


def _one_line(text: str) -> str:
    return " ".join(text.split()) or "none"
