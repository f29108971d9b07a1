"""Which weights an engine's blocks were computed with, and what that makes of their keys.

An engine's weights can become others while it runs: a trainer writes to its memory, or it loads them anew. Whoever does that resets
the engine's own prefix cache, as that would be wrong otherwise. So a reset is where the weights may have changed. Before the engine
computes or loads anything after one, its workers look at the weights in their memory. Where these are what they were, the blocks
are, too. With others, an epoch begins: the same tokens have other keys. Blocks of an earlier epoch stay where they are, for engines
that have those weights; nobody can find them by the keys of another epoch.
"""

import hashlib
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtier.engine.weights import commit_of, fingerprint

_log = logging.getLogger("kvtier")

_KEY_BYTES = 32
_SALT_BYTES = 32
_ADAPTERS_MAX = 1024
_LOOK_S = 1.0
"""how often the files of an adapter in use are looked at"""


def salted(salt: bytes, keys: Iterable[bytes]) -> list[bytes]:
    """The keys under which the blocks of some weights stand; without a salt those that the engine made."""
    if not salt:
        return list(keys)
    return [hashlib.blake2b(key, digest_size=_KEY_BYTES, key=salt).digest() for key in keys]


class Epochs:
    """The weights of an engine's base model, as its workers tell of them."""

    def __init__(self, began: Mapping[tuple[int, int], str]) -> None:
        """`began`: by rank, what was in its memory when its namespace was made; empty where unknown."""
        self._ranks = set(began)
        self._began = _together(began)
        self._asked = 0
        self._open = False
        self.salt = b""
        """of the keys of this epoch; empty: the weights are those that the namespace is named for"""

    @property
    def question(self) -> int:
        """What the workers are asked; 0: it is known which weights they have."""
        return self._asked if self._open else 0

    def ask(self) -> None:
        """The weights may be others."""
        self._asked += 1
        self._open = True

    def answer(self, question: int, weights: Mapping[tuple[int, int], str]) -> bool:
        """What the workers have in their memory.

        Returns:
            Whether it is known now which weights these are.
        """
        if question != self.question or not self._ranks <= set(weights):
            return False
        self._open = False
        together = _together(weights)
        if together is None:
            # They may be any. What is stored from now on is of this engine, until somebody resets it again.
            together = os.urandom(_SALT_BYTES)
        self.salt = b"" if together == self._began else together
        return True


def _together(weights: Mapping[tuple[int, int], str]) -> bytes | None:
    """Of all ranks in one; None: of some rank nothing is known."""
    if not all(weights.values()):
        return None
    return hashlib.sha256(repr(sorted(weights.items())).encode()).digest()


class Adapters:
    """The LoRA adapters that requests name, told apart by their files."""

    def __init__(self, log: logging.Logger = _log) -> None:
        """`log`: where the engine's operator looks."""
        self._log = log
        self._known: dict[tuple[int, str, str], _Adapter] = {}
        self._told: set[str] = set()

    def salt(self, request: Any) -> bytes | None:
        """Of the keys of blocks that an adapter was computed with; None: nobody knows which one it is, nothing may be kept.

        Args:
            request: has ``lora_name``, ``lora_path`` (a folder, or a model's name) and ``lora_int_id``, as vLLM's ``LoRARequest``.
                Where ``load_inplace`` is set, others may take the adapter's place at any time.
        """
        name, path = str(request.lora_name), str(request.lora_path)
        if getattr(request, "load_inplace", False):
            self._tell(f"the blocks of adapter {name!r} are not kept: it is loaded in place (load_inplace)")
            return None
        key = (int(request.lora_int_id), name, path)
        adapter = self._known.get(key)
        now_s = time.monotonic()
        if adapter is None:
            # When the engine loads an adapter, it reads the same files, for longer.
            adapter = self._known[key] = _Adapter(path, now_s)
            if len(self._known) > _ADAPTERS_MAX:
                del self._known[next(iter(self._known))]
        elif now_s - adapter.looked_s > _LOOK_S:
            adapter.look(now_s)
        if adapter.salt is None:
            self._tell(f"the blocks of adapter {name!r} at {path!r} are not kept: {adapter.reason}")
        return adapter.salt

    def _tell(self, text: str) -> None:
        if text not in self._told and len(self._told) < 64:
            self._told.add(text)
            self._log.warning("kvtier: %s", text)


class _Adapter:
    __slots__ = ("_path", "_state", "looked_s", "reason", "salt")

    def __init__(self, path: str, now_s: float) -> None:
        self._path = path
        self._state: Sequence[tuple[str, int, int, int]] = []
        self.looked_s = now_s
        self.reason = ""
        self.salt: bytes | None = None
        self._read()

    def look(self, now_s: float) -> None:
        """Where its files were changed in their place, the engine may have loaded the ones or the others."""
        self.looked_s = now_s
        if self._seen() == self._state:
            return
        if self.salt is None and not self._state:
            # They were not there before.
            self._read()
            return
        self.salt = None
        self.reason = "its files were changed after they were read. Give the new adapter a path of its own"

    def _read(self) -> None:
        self._state = self._seen()
        try:
            found = fingerprint(Path(self._path).expanduser())
            commit = commit_of(self._path) if found is None else None
        except OSError as error:
            self.reason = f"its files cannot be read ({error})"
            return
        text = found or (None if commit is None else commit.text)
        if text is None:
            self.reason = "this process finds no files of it"
        else:
            self.salt = hashlib.sha256(f"adapter {text}".encode()).digest()

    def _seen(self) -> Sequence[tuple[str, int, int, int]]:
        path = Path(self._path).expanduser()
        try:
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            states = [(one.name, one.stat()) for one in files]
            return [(name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in states]
        except OSError:
            return []


def joined(*salts: bytes) -> bytes:
    """One salt of several; empty where all are."""
    kept = [one for one in salts if one]
    return kept[0] if len(kept) == 1 else hashlib.sha256(b"".join(kept)).digest() if kept else b""
