"""The times in which something was broken, each with the time afterwards in which that shows."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path


class Spell(Enum):
    """Parts that can be broken for a while."""

    STORE_AWAY = "the object store fails, refuses or is given a rest: what no other tier has room for is dropped"
    STORE_SILENT = "the daemon says that the object store does not answer in time, whatever was broken: the machine may be too busy for both"
    STORE_LIES = "the object store says that an object is there which is not"
    DISK_FAILS = "the disk answers with errors: copies that can't be read are given up"
    WIRE_LIES = "what remote clients ask, and what they are answered, is turned on its way"


class Spells:
    """The spells so far. The thread that breaks things notes them; any may ask."""

    def __init__(self) -> None:
        self._spells: dict[Spell, list[list[float]]] = {spell: [] for spell in Spell}

    @contextmanager
    def during(self, spell: Spell, settles_s: float) -> Iterator[None]:
        """A spell that lasts as long as the block, and settles_s longer."""
        times = [time.monotonic(), float("inf")]
        self._spells[spell].append(times)
        try:
            yield
        finally:
            times[1] = time.monotonic() + settles_s

    def begin(self, spell: Spell, since_s: float) -> None:
        """Begins a spell since_s ago without an end, unless one is open."""
        if not self._open(spell):
            self._spells[spell].append([time.monotonic() - since_s, float("inf")])

    def end(self, spell: Spell, settles_s: float) -> None:
        """Ends an open spell in settles_s."""
        for times in self._open(spell):
            times[1] = time.monotonic() + settles_s

    def _open(self, spell: Spell) -> list[list[float]]:
        return [times for times in self._spells[spell] if times[1] == float("inf")]

    def covers(self, spell: Spell, moment: float) -> bool:
        return any(begin <= moment <= end for begin, end in self._spells[spell])

    def is_on(self, spell: Spell) -> bool:
        return self.covers(spell, time.monotonic())

    def was_on(self, spell: Spell, since: float) -> bool:
        """Whether a spell was on at any time since a moment."""
        return any(end >= since for _, end in self._spells[spell])

    def alone_s(self, spell: Spell, other: Spell) -> list[float]:
        """How long each spell lasted, or lasts by now, without the time in which another was on."""
        now = time.monotonic()
        others = sorted((begin, min(end, now)) for begin, end in self._spells[other])
        lasted = []
        for begin, end in list(self._spells[spell]):
            alone_s, at = 0.0, begin
            for other_begin, other_end in others:
                alone_s += max(0.0, min(end, now, other_begin) - at)
                at = max(at, other_end)
            lasted.append(alone_s + max(0.0, min(end, now) - at))
        return lasted

    def wait_until_over(self, *spells: Spell, at_most_s: float = float("inf")) -> None:
        """Returns when none of them is on any more, or so many seconds are over."""
        deadline = time.monotonic() + at_most_s
        while any(self.is_on(spell) for spell in spells) and time.monotonic() < deadline:
            time.sleep(0.05)


class StoreWatch(threading.Thread):
    """Reads in the daemon's log when it found that the object store takes no blocks, and when it took some again."""

    _POLL_S = 0.05
    _LATE_S = 1.0

    def __init__(self, log: Path, spells: Spells) -> None:
        super().__init__(name="log", daemon=True)
        self._log = log
        self._spells = spells
        self._end = threading.Event()

    def run(self) -> None:
        rest = ""
        with self._log.open(errors="replace") as log:
            while not self._end.wait(self._POLL_S):
                *lines, rest = (rest + log.read()).split("\n")
                for line in lines:
                    self.hear(line)

    def hear(self, line: str) -> None:
        if " takes no blocks: " in line:
            self._spells.begin(Spell.STORE_SILENT, self._LATE_S)
        elif line.endswith(" takes blocks again"):
            self._spells.end(Spell.STORE_SILENT, self._LATE_S)

    def close(self) -> None:
        self._end.set()
        self.join(10)
