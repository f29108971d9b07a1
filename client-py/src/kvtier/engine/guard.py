"""What an engine does about a daemon that is absent, hung, too old or of another configuration: it takes it for a miss."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection

from kvtier._protocol import Status

_PAUSE_S = 1.0
"""how long nothing is asked after a daemon did not answer in time"""
_TEXTS_MAX = 64
_AGAIN_S = 60.0
"""how often a kind of trouble is told of that requests can cause"""


class Guard:
    """Judges what the daemon answers to one engine, and tells of it once. Threads may share it.

    - An absent daemon is a miss at once: the client connects again by itself, and logs once that there is none.
    - A daemon that does not answer in time is a miss, and nothing is asked for a second.
    - A daemon that has the namespace with other properties is left alone for good (`is_refused`).
    """

    def __init__(self, log: logging.Logger, refusal: str = "") -> None:
        """
        Args:
            log: where the engine's operator looks.
            refusal: what to say where the daemon has the namespace with other properties, for who configures this engine.
        """
        self._log = log
        self._refusal = refusal
        self._paused_until_s = 0.0
        self._told: set[str] = set()
        self._told_s: dict[str, float] = {}
        """by kind of trouble, when it was told of last"""
        self._lock = threading.Lock()
        self.is_refused = False
        """whether the daemon has the namespace with other properties, so that nothing can be loaded or stored"""
        self.observed: Counter[str] = Counter()
        """what happened since somebody looked, by name; who looks clears it"""

    def may_ask(self) -> bool:
        """Whether the daemon may be asked anything now."""
        return not self.is_refused and time.monotonic() >= self._paused_until_s

    def count(self, **counts: int) -> None:
        """Adds to the counters."""
        # `Counter.update` takes three times as long, and the engine waits for a lookup.
        with self._lock:
            for name, count in counts.items():
                self.observed[name] += count

    def judge(self, statuses: Collection[Status]) -> None:
        """What an answer says about the daemon, beside the blocks."""
        if Status.DEADLINE in statuses:
            self.count(lookups_late=1)
            self._paused_until_s = time.monotonic() + _PAUSE_S
        if Status.NAMESPACE_MISMATCH in statuses and not self.is_refused:
            self.is_refused = True
            self._log.error("%s Until then this engine neither loads nor stores blocks.", self._refusal)

    def tell(self, text: str) -> None:
        """Logs a warning, once; of very many different ones the first 64."""
        with self._lock:
            if text in self._told or len(self._told) >= _TEXTS_MAX:
                return
            self._told.add(text)
        self._log.warning("kvtier: %s", text)

    def tell_at_times(self, kind: str, text: str) -> None:
        """Logs a warning, once a minute for each kind at most: its text may have what a request says.

        Args:
            kind: one of a few.
        """
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._told_s.get(kind, -_AGAIN_S) < _AGAIN_S:
                return
            self._told_s[kind] = now_s
        self._log.warning("kvtier: %s", text)
