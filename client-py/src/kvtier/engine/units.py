"""Units: what an engine restores at a time, and which blocks of each group a run of them needs."""

from collections.abc import Sequence

from kvtier._protocol import Status
from kvtier._types import OUTER_TIERS, Lookup
from kvtier.engine.groups import Group, is_plain, longest
from kvtier.engine.keys import Sought


class Units:
    """The units of a model: whole blocks of each of its groups."""

    def __init__(self, groups: Sequence[Group], unit_tokens: int) -> None:
        self.groups = list(groups)
        self.tokens = unit_tokens
        """of one unit"""
        self.is_plain = is_plain([group.rule for group in groups])
        self._needs = [group.need for group in groups]
        self._hashes = unit_tokens // groups[0].block_tokens * groups[0].block_hashes

    def limit(self, request: Sought) -> int:
        """How many units of a request can be restored at most: those of which all hashes are known."""
        # A state must not have seen the last token, which is computed in any case.
        most = request.num_tokens - (not self.is_plain)
        return min(len(request.block_hashes) // self._hashes, most // self.tokens)

    def needed(self, first: int, end: int) -> list[range]:
        """The blocks of each group that a load brings, for an engine that has the first units and is to have those before the end."""
        return [need.blocks(end * self.tokens, first * self.tokens) for need in self._needs]

    def found(self, answers: Sequence[Sequence[Lookup]], first: int) -> int:
        """How many units from the first can be restored by these answers, one for each rank of each group; 0: none behind those that the
        engine has."""
        if self.is_plain:
            return min(one.run for one in answers[0])
        found = self._longest([_in_all([one.present for one in of_ranks]) for of_ranks in answers], first)
        return found if found > first else 0

    def held(self, runs: Sequence[Sequence[int]], first: int, end: int) -> int:
        """How many units behind the first can be loaded with what is held: all ranks' parts of a block, or none of it.

        Args:
            runs: for each group, how many of the needed blocks each rank holds, from the first of them.
        """
        if self.is_plain:
            return min(runs[0])
        held = [
            bytes(blocks.start) + bytes([1]) * min(of_ranks, default=0)
            for of_ranks, blocks in zip(runs, self.needed(first, end), strict=True)
        ]
        return self._longest(held, first) - first

    def _longest(self, present: Sequence[bytes], first: int) -> int:
        """How many units can be restored at most with these blocks of each group; `first`, if none behind the first."""
        return longest(self._needs, present, self.tokens, first * self.tokens) // self.tokens


def sought_blocks(answers: Sequence[Lookup]) -> int:
    """How many blocks, behind those that all answers have, the object store is being asked for: the daemon will know soon."""
    run = min(one.run for one in answers)
    # Only ranks that have no longer run keep the others waiting.
    shortest = [one for one in answers if one.run == run]
    ends = [end for one in shortest if (end := one.at(run)) is not None]
    if not ends or any(end[0] is not Status.PENDING or end[1] not in OUTER_TIERS for end in ends):
        return 0
    return min(one.sought_from(run) for one in shortest)


def stored_run(answer: Lookup) -> int:
    """How many blocks from the first are there, or are just being stored in this daemon."""
    run = answer.run
    while (end := answer.at(run)) is not None and (end[0] is Status.OK or (end[0] is Status.PENDING and end[1] not in OUTER_TIERS)):
        run += 1
    return run


def ending_statuses(answers: Sequence[Lookup]) -> list[Status]:
    """Why the answers go no further, those that have the shortest runs."""
    run = min(one.run for one in answers)
    return [end[0] for one in answers if one.run == run and (end := one.at(run)) is not None]


def _in_all(of_ranks: Sequence[bytes]) -> bytes:
    """For each block a byte: 1 if all ranks have it."""
    if len(of_ranks) == 1:
        return of_ranks[0]
    shortest = min(map(len, of_ranks))
    return bytes(map(min, *(some[:shortest] for some in of_ranks)))
