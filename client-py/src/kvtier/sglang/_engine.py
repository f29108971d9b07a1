"""What SGLang says of itself: its configuration, and the model in this process."""

import hashlib
import importlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

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


@dataclass(frozen=True, slots=True)
class Seat:
    """Where this process stands among the engine's ranks. The names are those of SGLang's ``HiCacheStorageConfig``."""

    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    attn_cp_size: int = 1
    dcp_size: int = 1
    is_mla_model: bool = False
    """whether all ranks have equal pages"""

    @classmethod
    def of(cls, config: Any) -> Self:
        """That of a ``HiCacheStorageConfig``."""
        return cls(
            int(config.tp_rank), int(config.tp_size), int(config.pp_rank), int(config.pp_size), int(getattr(config, "attn_cp_size", 1) or 1),
            int(getattr(config, "dcp_size", 1) or 1), bool(config.is_mla_model),
        )  # fmt: skip

    def unserved(self, args: Any) -> str:
        """Why pages of this engine can't be kept; empty where they can. `args`: SGLang's ``ServerArgs``, None: unknown."""
        nodes = int(getattr(args, "nnodes", 1) or 1)
        if nodes > 1:
            return f"the ranks of this engine run on {nodes} machines, and a daemon serves the ranks of its own machine only"
        for size, kind in ((self.attn_cp_size, "context parallelism"), (self.dcp_size, "decode context parallelism")):
            if size > 1:
                return f"{kind} of {size} ranks is not supported"
        return ""


class Pool(NamedTuple):
    """What a pool of pages says of itself, beside where its pages lie."""

    dtype: str
    """of its elements"""
    page_tokens: int
    page_format: str
    """SGLang's own name of a page's bytes, where a pool has one; or ``none``"""
    layers: str
    """how many of its layers are the target model's: a draft model's may be packed with them"""
    stage_layers: str
    """which of the model's layers this stage of a pipeline has"""


class Model:
    """The model in this process, as its configuration and its memory tell."""

    def __init__(self, seat: Seat, name: str, args: Any) -> None:
        """
        Args:
            name: the model's path or name, where `args` has none.
            args: SGLang's ``ServerArgs``; None: unknown.
        """
        self._seat = seat
        self._args = args
        self.path = str(getattr(args, "model_path", None) or name)
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
        seat = self._seat
        return Ranks() if seat.is_mla_model else Ranks(seat.tp_rank, seat.tp_size, self.heads)

    def weights(self, named: str, texts: Texts, loaded: Sequence[str]) -> Weights:
        """Which weights these are, and what to tell who runs the engine.

        Args:
            named: what the operator calls them.
            loaded: what `loaded` says in each rank that tells; empty where it can't.
        """
        args, seat = self._args, self._seat
        if getattr(args, "enable_lora", False):
            # An adapter's name and path are in the keys, and not what is in its files.
            return texts.weights(self.path, named, "", "")
        form = str(getattr(args, "load_format", None) or "auto").lower()
        parts = [self._weights_of(self.path, getattr(args, "revision", None)) if form in _READ_FROM_FILES else ""]
        draft = getattr(args, "speculative_draft_model_path", None)
        if draft and str(draft) != self.path:
            parts.append(self._weights_of(str(draft), None))
        # Each of several ranks has other bytes in memory. Those of a draft model are not looked at.
        are_all = len(loaded) == seat.tp_size * seat.pp_size and len(parts) == 1 and all(loaded)
        together = loaded[0] if len(loaded) == 1 else hashlib.sha256(" ".join(loaded).encode()).hexdigest()
        return texts.weights(self.path, named, ", drafts by ".join(parts) if all(parts) else "", together if are_all else "")

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

    def identity(self, settings: Settings, pool: Pool, weights: str, alone: str) -> Identity:
        """The engine's identity.

        Args:
            pool: that of keys and values.
            weights: which ones it has; empty: nobody knows.
            alone: tells this engine from all others, where nobody knows its weights.
        """
        args = self._args
        kept = {key: value for key, value in self._described.items() if key not in _IGNORED_OF_MODEL}
        told = str(getattr(args, "kv_cache_dtype", None) or "auto")
        return Identity(
            engine="sglang",
            model=os.path.basename(self.path.rstrip("/")) or "model",
            model_config=hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16],
            weights=weights,
            # Numbers of 8 bits are stored as bytes, whatever they mean.
            dtype=pool.dtype if told == "auto" else told,
            page_tokens=pool.page_tokens,
            hash="sha256 chain of pages",
            hash_seed="none",
            alone=alone,
            namespace=settings.namespace,
            more={
                "quantization": str(getattr(args, "quantization", None) or "none"),
                "page_format": pool.page_format,
                "target_layers": pool.layers,
            },
        )
