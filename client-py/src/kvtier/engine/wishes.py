"""What a request asks of the cache: a dictionary under the key ``kvtier``, wherever its engine lets requests say something."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvtier._protocol import REQUEST_IMPORTANCE_MAX, REQUEST_IMPORTANCE_NORMAL
from kvtier.engine.guard import Guard

NAME = "kvtier"
"""the key"""
_SHOWN_MAX = 80
_KEEP_S_MAX = 1e9
_NODE_LENGTH_MAX = 255
EXPECT_S_MAX = 600.0
"""the longest time that a request can wait for blocks that another engine computes"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What one request asks for. A request that says nothing has the defaults."""

    store: bool = True
    """whether its blocks may be stored"""
    load: bool = True
    """whether blocks may be loaded for it"""
    load_max_tokens: int = sys.maxsize
    """only blocks of so many tokens from the first are loaded"""
    keep_s: float = 0.0
    """how long its blocks stay on the node, in seconds from its end on; 0: as the daemon's policies have it"""
    priority: int = REQUEST_IMPORTANCE_NORMAL
    """how important the blocks are that it stores, 0 to 3"""
    expect_tokens: int = 0
    """the number of tokens, from the first, that another engine computes and stores: the request waits for their blocks"""
    expect_s: float | None = None
    """the longest time that it waits for them, in seconds from its arrival on; None: as the engine's settings have it"""
    expect_from: str = ""
    """the name or the address of the node whose engine computes them; their blocks come from that node while they are stored. Empty: unknown"""


USUAL = Wishes()


class WishReader:
    """Reads the wishes of an engine's requests. A wish that makes no sense is ignored, and told of: no request fails for it."""

    def __init__(self, guard: Guard) -> None:
        """
        Args:
            guard: tells of wrong wishes, once a minute for each kind of mistake.
        """
        self._guard = guard

    def of(self, *sources: object) -> Wishes:
        """The wishes of a request.

        Args:
            sources: what the request says, in each place where its engine lets it: a mapping that may have the key ``kvtier``, or
                anything else, which says nothing. What the first source says counts.
        """
        wishes = USUAL
        for source in reversed(sources):
            said = source.get(NAME) if isinstance(source, Mapping) else None
            if said is not None:
                wishes = self._changed(wishes, said)
        return wishes

    def _changed(self, wishes: Wishes, said: Any) -> Wishes:
        if isinstance(said, str):
            # Some doors of engines let texts and numbers through, and no dictionaries.
            try:
                said = json.loads(said)
            except ValueError:
                self._tell("text", f"{NAME!r} of a request is {_shown(said)}; expected a dictionary, or one as a text in JSON")
                return wishes
        if not isinstance(said, Mapping):
            self._tell("kind", f"{NAME!r} of a request is {_shown(said)}; expected a dictionary, such as {{'keep_s': 600}}")
            return wishes
        good: dict[str, Any] = {}
        for name, value in said.items():
            check = _CHECKS.get(name)
            if check is None:
                self._tell("name", f"a request asks for {_shown(name)}, which is ignored; it can ask for {', '.join(_CHECKS)}")
                continue
            taken = check.take(value)
            if taken is None:
                self._tell(name, f"a request asks for {name}={_shown(value)}, which is ignored; expected {check.expected}")
            else:
                good[name] = taken
        return replace(wishes, **good) if good else wishes

    def _tell(self, kind: str, text: str) -> None:
        self._guard.tell_at_times(f"wish {kind}", text)


@dataclass(frozen=True, slots=True)
class _Check:
    take: Callable[[Any], Any]
    """the value as `Wishes` has it; None: it makes no sense"""
    expected: str


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _tokens(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < _KEEP_S_MAX else None


def _expect_seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value <= EXPECT_S_MAX else None


def _node(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= _NODE_LENGTH_MAX else None


def _priority(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= REQUEST_IMPORTANCE_MAX else None


_CHECKS = {
    "store": _Check(_flag, "true or false"),
    "load": _Check(_flag, "true or false"),
    "load_max_tokens": _Check(_tokens, "a whole number of tokens, 0 or more"),
    "keep_s": _Check(_seconds, "seconds, from 0 and below 1e9"),
    "expect_tokens": _Check(_tokens, "a whole number of tokens, 0 or more"),
    "expect_s": _Check(_expect_seconds, f"seconds, from 0 to {EXPECT_S_MAX:g}"),
    "expect_from": _Check(_node, f"the name or the address of a node, at most {_NODE_LENGTH_MAX} characters"),
    "priority": _Check(_priority, f"a whole number from 0 to {REQUEST_IMPORTANCE_MAX}"),
}


def _shown(value: object) -> str:
    """A value for a message: requests may say anything."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
