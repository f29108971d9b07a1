"""What SGLang says of itself: its configuration, and the model in this process."""

import hashlib
import importlib
import json
import logging
import os
from pathlib import Path
from typing import Any

from kvtier.engine import callers
from kvtier.engine.identity import Identity, Texts, Weights
from kvtier.engine.loaded import digest
from kvtier.engine.settings import Settings
from kvtier.engine.weights import described
from kvtier.sglang._memory import Ranks

_log = logging.getLogger("sglang.kvtier")

_READ_FROM_FILES = ("auto", "safetensors", "fastsafetensors", "pt", "npcache", "gguf", "mistral", "sharded_state", "bitsandbytes")
_IGNORED_OF_MODEL = ("transformers_version", "_name_or_path", "torch_dtype", "dtype", "_commit_hash")


def server_args() -> Any:
    """The configuration that the engine was started with; None: this SGLang does not tell."""
    for module, name in (("sglang.srt.runtime_context", "get_server_args"), ("sglang.srt.server_args", "get_global_server_args")):
        try:
            found = getattr(importlib.import_module(module), name)()
        except Exception:
            continue
        if found is not None:
            return found
    return None


def unserved(config: Any, args: Any) -> str:
    """Why pages of this engine can't be kept; empty where they can. `config`: SGLang's ``HiCacheStorageConfig``; `args`: its ``ServerArgs``,
    None: unknown."""
    nodes = int(getattr(args, "nnodes", 1) or 1)
    if nodes > 1:
        return f"the ranks of this engine run on {nodes} machines, and a daemon serves the ranks of its own machine only"
    for name, kind in (("attn_cp_size", "context parallelism"), ("dcp_size", "decode context parallelism")):
        size = int(getattr(config, name, 1) or 1)
        if size != 1:
            return f"{kind} of {size} ranks is not supported"
    return ""


class Model:
    """The model in this process, as its configuration and its memory tell."""

    def __init__(self, config: Any, args: Any) -> None:
        """
        Args:
            config: SGLang's ``HiCacheStorageConfig``.
            args: its ``ServerArgs``; None: unknown.
        """
        self._config = config
        self._args = args
        self.path = str(getattr(args, "model_path", None) or config.model_name or "")
        self._described = self._describe()
        self._runner = callers.local("self", lambda one: getattr(getattr(one, "tp_worker", None), "model_runner", None) is not None)

    def _describe(self) -> dict[str, Any]:
        try:
            described = json.loads((Path(self.path) / "config.json").read_bytes())
        except (OSError, ValueError):
            described = self._from_hub()
        return described if isinstance(described, dict) else {}

    def _from_hub(self) -> Any:
        try:
            transformers = importlib.import_module("transformers")
            return transformers.AutoConfig.from_pretrained(self.path, revision=getattr(self._args, "revision", None)).to_dict()
        except Exception:
            return {}

    @property
    def heads(self) -> int:
        """How many heads of keys and values it has; 0: unknown."""
        text = self._described.get("text_config") or self._described
        found = text.get("num_key_value_heads") or text.get("num_attention_heads") or 0
        return int(found) if isinstance(found, int) else 0

    @property
    def ranks(self) -> Ranks:
        """This rank, among those that have other pages."""
        config = self._config
        if bool(config.is_mla_model):
            return Ranks()
        return Ranks(int(config.tp_rank), int(config.tp_size), self.heads)

    def weights(self, named: str, texts: Texts) -> Weights:
        """Which weights these are, and what to tell who runs the engine. `named`: what the operator calls them."""
        args, config = self._args, self._config
        if getattr(args, "enable_lora", False):
            # An adapter's name and path are in the keys, and not what is in its files.
            return texts.weights(self.path, named, "", "")
        form = str(getattr(args, "load_format", None) or "auto").lower()
        parts = [self._weights_of(self.path, getattr(args, "revision", None)) if form in _READ_FROM_FILES else ""]
        draft = getattr(args, "speculative_draft_model_path", None)
        if draft and str(draft) != self.path:
            parts.append(self._weights_of(str(draft), None))
        # Each of several ranks has other bytes in memory.
        is_alone = int(config.tp_size) * int(config.pp_size) == 1 and len(parts) == 1
        return texts.weights(self.path, named, ", drafts by ".join(parts) if all(parts) else "", self.loaded() if is_alone else "")

    @staticmethod
    def _weights_of(path: str, revision: str | None) -> str:
        try:
            return described(path, revision)
        except OSError as error:
            _log.warning("kvtier: the files of model %r cannot be read: %s", path, error)
            return ""

    def loaded(self) -> str:
        """A digest of the weights in this process's memory now; empty: they can't be read."""
        if self._runner is None:
            return ""
        try:
            model = self._runner.tp_worker.model_runner.model
            return digest([*model.named_parameters(), *model.named_buffers()])
        except Exception as error:
            _log.warning("kvtier: the weights in memory cannot be read: %s: %s", type(error).__name__, error)
            return ""

    def identity(self, settings: Settings, pool: Any, weights: str, alone: str) -> Identity:
        """The engine's identity.

        Args:
            pool: the host pool of keys and values.
            weights: which ones it has; empty: nobody knows.
            alone: tells this engine from all others, where nobody knows its weights.
        """
        args = self._args
        kept = {key: value for key, value in self._described.items() if key not in _IGNORED_OF_MODEL}
        told = str(getattr(args, "kv_cache_dtype", None) or "auto")
        layers = f"{getattr(pool, 'target_layer_num', '')} of {getattr(pool, 'layer_num', '')}"
        return Identity(
            engine="sglang",
            model=os.path.basename(self.path.rstrip("/")) or "model",
            model_config=hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16],
            weights=weights,
            # Numbers of 8 bits are stored as bytes, whatever they mean.
            dtype=str(pool.dtype).removeprefix("torch.") if told == "auto" else told,
            page_tokens=int(pool.page_size),
            hash="sha256 chain of pages",
            hash_seed="none",
            alone=alone,
            namespace=settings.namespace,
            more={
                "quantization": str(getattr(args, "quantization", None) or "none"),
                "page_format": str(getattr(pool, "storage_format_tag", None) or "none"),
                "target_layers": layers,
            },
        )
