"""What an operator may say to a connector, in the configuration of its engine."""

import difflib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from kvtier._encoding import KINDS
from kvtier._errors import InvalidArgument

PREFIX = "kvtier."


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting is written ``kvtier.NAME``; times are in seconds. A connector whose engine has settings of its own derives from it."""

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        "store": ("all", "prompt", "none"), "load_failure": ("recompute", "fail"), "mismatch": ("fail", "serve"), "share": ("auto", "on", "off"),
        "encoding": ("none", *KINDS),
    }  # fmt: skip
    """by setting, the values that it can have; others can have any of their type"""

    socket: str = ""
    """the daemon's socket; empty: the socket of this user's daemon"""
    namespace: str = ""
    """the first part of the namespace's name; engines that share blocks set the same; empty: made of the model's name"""
    weights: str = ""
    """a name of the weights, the same in all engines that have these weights; empty: made of their commit or their files"""
    store: str = "all"
    """which blocks are stored: 'all', 'prompt' (only blocks of the prompt), or 'none'"""
    load: bool = True
    """whether blocks are loaded at all"""
    load_blocks_min: int = 1
    """a shorter run of blocks is computed and not loaded"""
    load_s_max: float = 10.0
    """a run is computed if the daemon estimates that bringing it to host memory takes longer, or longer than `load_timeout_s`"""
    load_if_faster: bool = True
    """whether a run is computed if the engine, at its measured speed, is faster than the daemon brings it to host memory"""
    lookup_wait_s: float = 0.0005
    """how long a scheduler that polls waits for an answer, ten times as long while it has no other request; then it asks again in
    the next step"""
    lookup_s_max: float = 0.5
    """a lookup that takes longer is a miss"""
    load_timeout_s: float = 10.0
    """a load that takes longer has failed, and the engine computes the blocks"""
    put_timeout_s: float = 2.0
    """a block that gets no space within this time is not stored"""
    load_failure: str = "recompute"
    """'recompute' what could not be loaded, or 'fail' the request"""
    mismatch: str = "fail"
    """when the namespace belongs to an engine of another configuration: 'fail' to start, or 'serve' without kvtier"""
    annotate: bool = False
    """whether blocks are stored with their tokens, for a daemon that publishes KV events"""
    encoding: str = "none"
    """how blocks are stored: 'none', as they are; 'exact', elements of bf16 in about 0.76 of their bytes, without loss; or 'fp8', in about 0.51
    of their bytes, with a relative error of about 2.2 %. Engines with one of the encodings have namespaces of their own"""
    share: str = "auto"
    """whether engines on other GPUs of the host get blocks from this one's memory, from GPU to GPU: 'on', 'off', or 'auto': where this
    engine is one of several data-parallel ranks"""

    @classmethod
    def of(cls, extra: dict[str, Any]) -> Self:
        """The settings among what an engine passes to its connector. Names without ``kvtier.`` are others' and are left alone.

        Raises:
            InvalidArgument: an unknown setting, or a value of another type.
        """
        known = {one.name: one for one in fields(cls)}
        values: dict[str, Any] = {}
        for key, value in extra.items():
            if not key.startswith(PREFIX):
                continue
            name = key.removeprefix(PREFIX)
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {PREFIX}{close[0]}?" if close else f"; the settings are {', '.join(known)}"
                raise InvalidArgument(f"unknown setting {key!r}{hint}")
            values[name] = _checked(key, value, known[name].default)
        made = cls(**values)
        for name, choices in cls.CHOICES.items():
            if getattr(made, name) not in choices:
                raise InvalidArgument(f"{PREFIX}{name} is {getattr(made, name)!r}; expected {' or '.join(map(repr, choices))}")
        return made

    def may_load_in(self, load_s: float) -> bool:
        """Whether blocks are loaded that the daemon estimates to bring to host memory in so many seconds. A load that is estimated to
        take longer than its timeout would fail."""
        return load_s <= min(self.load_s_max, self.load_timeout_s)


def _checked(key: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidArgument(f"{key} is {value!r}; expected {_KINDS[kind]}, such as {default!r}")
    if kind in (int, float) and value < 0:
        raise InvalidArgument(f"{key} is {value!r}; expected 0 or more")
    return value


_KINDS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number of seconds"}
