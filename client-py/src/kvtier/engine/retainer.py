"""Retains blocks for requests that have ended, for an engine that must not wait for the daemon."""

import time
from collections.abc import Sequence
from functools import partial

from kvtier._connection import NamespaceProperties
from kvtier._operations import Context, Operation
from kvtier._operations import retain as retain_operation
from kvtier._polled import Call, Polled
from kvtier._protocol import Status
from kvtier._types import Retained
from kvtier.engine.groups import Group
from kvtier.engine.guard import Guard

_TRIES = 3
"""a block that is still being stored is asked for again when stores have ended"""
_KEPT_MAX = 1024
"""requests of which blocks are missing; of more, the oldest are forgotten"""


class _Kept:
    """The blocks of one request in one namespace."""

    __slots__ = ("call", "keys", "namespace", "tries", "until_s")

    def __init__(self, namespace: NamespaceProperties, keys: Sequence[bytes], until_s: float) -> None:
        self.namespace = namespace
        self.keys = keys
        self.until_s = until_s
        self.tries = _TRIES
        self.call: Call[Retained] | None = None


class Retainer:
    """Asks the daemon to retain blocks. All calls come from the thread that polls the connection, and none waits."""

    def __init__(self, polled: Polled, groups: Sequence[Group], guard: Guard, timeout_s: float) -> None:
        """
        Args:
            polled: the connection, which its owner polls.
            groups: those of the model.
            guard: tells, once a minute, why the daemon refuses.
            timeout_s: how long the daemon may take to answer.
        """
        self._polled = polled
        self._groups = list(groups)
        self._guard = guard
        self._timeout_s = timeout_s
        self._open: list[_Kept] = []

    def keep(self, keys: Sequence[Sequence[bytes]], keep_s: float) -> None:
        """Retains blocks from now on, in the namespaces of all ranks.

        Args:
            keys: of each group, those of the blocks; of a block that the daemon does not have and does not get, nothing comes.
            keep_s: how long, in seconds.
        """
        until_s = time.monotonic() + keep_s
        for group, some in zip(self._groups, keys, strict=True):
            for namespace in group.namespaces if some else ():
                kept = _Kept(namespace, some, until_s)
                self._ask(kept)
                self._open.append(kept)
        del self._open[: max(0, len(self._open) - _KEPT_MAX)]

    def stored(self) -> None:
        """Stores have ended: blocks that were missing may be there by now."""
        again = []
        for kept in self._open:
            if kept.call is None or not kept.call.done:
                again.append(kept)
                continue
            statuses = kept.call.outcome.statuses
            kept.keys = [key for key, status in zip(kept.keys, statuses, strict=True) if status is Status.MISS]
            if kept.keys and kept.tries > 0 and time.monotonic() < kept.until_s:
                self._ask(kept)
                again.append(kept)
        self._open = again

    def _ask(self, kept: _Kept) -> None:
        kept.tries -= 1
        keys, lifetime_s = kept.keys, max(0.001, kept.until_s - time.monotonic())
        otherwise = Retained([Status.UNAVAILABLE] * len(keys), "")
        kept.call = self._polled.start(
            kept.namespace, partial(self._retain, keys=keys, lifetime_s=lifetime_s), otherwise, self._timeout_s
        )

    def _retain(self, context: Context, keys: Sequence[bytes], lifetime_s: float) -> Operation[Retained]:
        answer = yield from retain_operation(context, keys, lifetime_s)
        if answer.reason:
            self._guard.tell_at_times("retain", f"blocks of a request are not kept as long as it asks for: {answer.reason}")
        return answer
