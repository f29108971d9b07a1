"""The weights of a vLLM engine: what they are called in its namespace, and what is in its memory now."""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvtier.engine import callers
from kvtier.engine.loaded import digest
from kvtier.engine.weights import described

_log = logging.getLogger("vllm.kvtier")

_READ_FROM_FILES = (
    "auto", "bitsandbytes", "fastsafetensors", "gguf", "hf", "instanttensor", "mistral", "npcache", "pt", "runai_streamer",
    "runai_streamer_sharded", "safetensors", "sharded_state",
)  # fmt: skip
"""load formats whose weights are the files of the model's folder; of others nobody knows what they load"""
_PICKLED = ("npcache", "pt")

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_NOT_OF_A_PROCESSOR = ("chat_template", "processor_class", "transformers_version")
"""texts are tokens when they are looked up, whatever template made them"""
_PROCESSOR_SETTINGS = (
    "media_io_kwargs", "mm_encoder_attn_dtype", "mm_processor_kwargs", "video_pruning_method", "video_pruning_rate",
)  # fmt: skip


def of_files(config: Any) -> str:
    """What commits or files say of all models whose KV is in the blocks; empty where one of them is unknown."""
    model = config.model_config
    parallel = getattr(config, "parallel_config", None)
    ranks = [int(getattr(parallel, f"{kind}_parallel_size", 1) or 1) for kind in ("tensor", "pipeline")]
    parts = [_of_model(model, getattr(config, "load_config", None), ranks)]
    draft = getattr(getattr(config, "speculative_config", None), "draft_model_config", None)
    if draft is not None and str(draft.model) != str(model.model):
        load = getattr(config.speculative_config, "draft_load_config", None) or getattr(config, "load_config", None)
        parts.append(_of_model(draft, load, ranks))
    return ", drafts by ".join(parts) if all(parts) else ""


def of_path(model: str) -> str:
    """What a commit or files say of a model by its name alone; empty: nothing."""
    try:
        return described(model)
    except OSError as error:
        _log.warning("kvtier: the files of model %r cannot be read: %s", model, error)
        return ""


def _of_model(model: Any, load: Any, ranks: Sequence[int]) -> str:
    form = str(getattr(load, "load_format", None) or "auto").rpartition(".")[2].lower()
    if form == "dummy":
        # Each rank makes up its own.
        return f"dummy, seed {model.seed}" + (f", of {ranks[0]} x {ranks[1]} ranks" if max(ranks) > 1 else "")
    if form not in _READ_FROM_FILES or bool(getattr(model, "model_weights", None)):
        return ""
    try:
        told = getattr(model.hf_config, "_commit_hash", None)
        prefer = None if form in _PICKLED else ".safetensors"
        found = described(str(model.model), model.revision, told, getattr(load, "download_dir", None), prefer)
    except OSError as error:
        _log.warning("kvtier: the files of model %r cannot be read: %s", model.model, error)
        return ""
    extra = getattr(load, "model_loader_extra_config", None)
    return f"{found}, loaded with {json.dumps(extra, sort_keys=True, default=str)}" if found and extra else found


def processor(config: Any) -> str:
    """What images and sounds become before the model sees them. Their own hashes are in the keys, and do not tell; the text around
    them is tokens, whatever template made it."""
    model = config.model_config
    kept: dict[str, Any] = {}
    if getattr(model, "multimodal_config", None) is None:
        return "none"
    for name in _PROCESSOR_SETTINGS:
        value = getattr(model, name, None) or getattr(model.multimodal_config, name, None)
        if value:
            kept[name] = value
    folder = Path(str(model.model))
    for name in PROCESSOR_FILES:
        try:
            described = json.loads((folder / name).read_bytes())
        except (OSError, ValueError):
            # Of a published model the commit says it.
            continue
        kept[name] = {key: value for key, value in described.items() if key not in _NOT_OF_A_PROCESSOR}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Memory:
    """The weights in a worker's memory, as they are when somebody looks."""

    def __init__(self, runner: Any) -> None:
        """`runner`: what has the engine's model; None: nobody knows it."""
        self._runner = runner

    @classmethod
    def of_caller(cls) -> "Memory":
        """Of the worker that is calling a connector."""
        return cls(callers.local("self", lambda one: callable(getattr(one, "get_model", None))))

    def digest(self) -> str:
        """Of all parameters and buffers of the model and of the one that drafts; empty where it can't be made."""
        if self._runner is None:
            return ""
        try:
            tensors = []
            for name, model in (("", self._runner.get_model()), ("draft.", self._draft())):
                if model is not None:
                    tensors += [(name + key, one) for key, one in model.named_parameters()]
                    tensors += [(name + key, one) for key, one in model.named_buffers()]
            return digest(tensors)
        except Exception as error:
            # Engines have tensors of many kinds; one that can't be looked at is weights of which nothing is known.
            _log.warning("kvtier: the weights in memory cannot be read: %s: %s", type(error).__name__, error)
            return ""

    def _draft(self) -> Any:
        get: Callable[[], Any] | None = getattr(self._runner, "get_draft_model", None)
        if get is not None:
            return get()
        for name in ("drafter", "speculator"):
            model = getattr(getattr(self._runner, name, None), "model", None)
            if model is not None and hasattr(model, "named_parameters"):
                return model
        return None
