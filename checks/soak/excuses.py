"""Excuses for missing blocks: the faults that may take an accepted block, and their limits."""

from collections import Counter

from checks.soak.events import Trails
from checks.soak.spells import Spell, Spells

STORE_AWAY = "dropped while the store was away"
STORE_SILENT = "dropped while the store did not answer in time"
UNREADABLE = "not readable on a failing disk"
STORE_OR_DISK = "dropped while the store was away and the disk failed"
LIED = "said to be stored by a store that lied"

SILENT_MAX_S = 60.0
"""The longest time for which the daemon may call a store silent that nothing was done to: several tries of the daemon."""

_AWAY_REASONS = ("store_away", "refused", "being_deleted")
BY_RIGHT = {
    (STORE_AWAY, STORE_SILENT): _AWAY_REASONS,
    (UNREADABLE,): ("unreadable",),
    (STORE_AWAY, STORE_SILENT, UNREADABLE, STORE_OR_DISK): (*_AWAY_REASONS, "unreadable"),
}
"""Excuses, each with the daemon's reasons for dropped blocks. Blocks with the excuse must not be more than drops with the reasons."""
NEVER = ("no_room",)
"""Reasons of drops that must not occur here: the tier below wants each evicted block."""


def taken_by(spells: Spells, trails: Trails, key: bytes) -> str | None:
    """The excuse for a block that is not there; None if no fault explains it."""
    dropped_at, stored_at = trails.dropped_at(key), trails.stored_at(key)
    if dropped_at is not None:
        is_unreadable = spells.covers(Spell.DISK_FAILS, dropped_at)
        if spells.covers(Spell.STORE_AWAY, dropped_at):
            return STORE_OR_DISK if is_unreadable else STORE_AWAY
        if is_unreadable:
            return UNREADABLE
        if spells.covers(Spell.STORE_SILENT, dropped_at):
            return STORE_SILENT
    if any(spells.covers(Spell.STORE_LIES, moment) for moment in stored_at):
        return LIED
    return None


def drops_findings(dropped: Counter[str], ended: Counter[str]) -> list[str]:
    """Findings where the daemon's counts of drops do not fit the missing blocks.

    Args:
        dropped: by the daemon's reasons.
        ended: what became of accepted blocks.
    """
    found = [f"{dropped[reason]} blocks were dropped for {reason}, which should not be" for reason in NEVER if dropped[reason]]
    for said, reasons in BY_RIGHT.items():
        taken, counted = sum(ended[words] for words in said), sum(dropped[reason] for reason in reasons)
        if taken > counted:
            found.append(f"{taken} blocks were {' or '.join(said)}; the daemon counted {counted}")
    return found


def silence_findings(silent_s: list[float]) -> list[str]:
    """Findings where the daemon called a working store silent for too long: silence would excuse its drops."""
    return [f"the daemon said for {one:.0f} s that a store that was there did not answer" for one in silent_s if one > SILENT_MAX_S]
