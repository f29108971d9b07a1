"""When something was broken, and for how long afterwards that shows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class Spell(Enum):
    """What can be broken for a while."""

    STORE_AWAY = "the object store fails, refuses or is given a rest: what no other tier has room for is dropped"
    STORE_LIES = "the object store says that an object is there which is not"
    DISK_FAILS = "the disk answers with errors: copies that can't be read are given up"
    WIRE_LIES = "what remote clients ask, and what they are answered, is turned on its way"


class Spells:
    """The spells so far. The thread that breaks things notes them; any may ask."""

    def __init__(self) -> None:
        self._spells: dict[Spell, list[list[float]]] = {spell: [] for spell in Spell}

    @contextmanager
    def during(self, spell: Spell, settles_s: float) -> Iterator[None]:
        """A spell as long as the block, and so many seconds more."""
        times = [time.monotonic(), float("inf")]
        self._spells[spell].append(times)
        try:
            yield
        finally:
            times[1] = time.monotonic() + settles_s

    def covers(self, spell: Spell, moment: float) -> bool:
        return any(begin <= moment <= end for begin, end in self._spells[spell])

    def is_on(self, spell: Spell) -> bool:
        return self.covers(spell, time.monotonic())

    def was_on(self, spell: Spell, since: float) -> bool:
        """Whether there was one at any time since a moment."""
        return any(end >= since for _, end in self._spells[spell])

    def wait_until_over(self, *spells: Spell) -> None:
        while any(self.is_on(spell) for spell in spells):
            time.sleep(0.05)
