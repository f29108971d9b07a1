"""The daemon's promises about each block, and the answers that clients saw."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from checks.torture.clients import BATCH, GONE, PRESENT, RIGHT_ANSWERS, SPACES, Blocks, Broken, Round, State
from kvtier import Status


@dataclass
class Tally:
    """The figures so far."""

    kills: int = 0
    kills_with_memory: int = 0
    kills_during_start: int = 0
    stops: int = 0
    acknowledged: int = 0
    acknowledged_lost: int = 0
    wrong_bytes: int = 0
    deleted: int = 0
    deleted_back: int = 0
    checked: int = 0
    unanswered: int = 0
    hits_checked: int = 0
    first_hit_ms: list[float] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def is_clean(self) -> bool:
        return not (self.acknowledged_lost or self.wrong_bytes or self.deleted_back or self.odd)


class Promises:
    """The daemon's promises about each block, from its answers."""

    def __init__(self, tally: Tally) -> None:
        self.states: dict[str, dict[int, State]] = {space.name: {} for space in SPACES}
        self._tally = tally
        self._asked: tuple[str, str, list[int]] | None = None

    def hear(self, event: tuple[Any, ...]) -> None:
        """Takes over what a worker tells."""
        kind = event[0]
        if kind == "broken":
            raise Broken(f"a client failed:\n{event[1]}")
        if kind == "wrong":
            self._wrong(event[1], event[2])
        elif kind == "odd":
            self._tally.odd.update(f"{event[1]}: {name}" for name in event[2])
        elif kind == "asked":
            self._asked = event[1:]
            self._begin(*self._asked)
        else:
            assert self._asked is not None
            self._settle(*self._asked, [Status[name] for name in event[1]])
            self._asked = None

    def _begin(self, kind: str, space: str, numbers: list[int]) -> None:
        states = self.states[space]
        if kind == "clear":
            numbers = list(states)
        if kind in ("put", "delete", "clear"):
            self._before = {number: states.get(number, State.ABSENT) for number in numbers}
            states.update((number, State.UNKNOWN) for number in numbers)

    def _settle(self, kind: str, space: str, numbers: list[int], statuses: list[Status]) -> None:
        states = self.states[space]
        tally = self._tally
        right = RIGHT_ANSWERS | GONE if kind == "read" else RIGHT_ANSWERS
        tally.odd.update(f"{kind}: {one.name}" for one in statuses if one not in right)
        tally.unanswered += Status.UNAVAILABLE in statuses
        if kind == "flush":
            if statuses == [Status.OK]:
                states.update((n, State.STORED) for n, state in states.items() if state is State.ACCEPTED)
        elif kind == "clear":
            if statuses == [Status.OK]:
                tally.deleted += sum(state in PRESENT for state in self._before.values())
                states.update(dict.fromkeys(self._before, State.DELETED))
        elif kind == "delete":
            for number, status in zip(numbers, statuses, strict=True):
                if status in (Status.OK, Status.MISS):
                    states[number] = State.DELETED
                    tally.deleted += 1
                    if status is Status.MISS and self._before[number] in PRESENT:
                        self._lost(space, number, "missing when it was to be deleted", self._before[number])
        elif kind == "read":
            for number, status in zip(numbers, statuses, strict=True):
                if status is Status.MISS and states.get(number) in PRESENT:
                    self._lost(space, number, "missing while the daemon ran", states[number])
                    states[number] = State.ABSENT
        else:
            for number, status in zip(numbers, statuses, strict=True):
                if status is Status.OK:
                    states[number] = State.ACCEPTED
                    tally.acknowledged += 1
                elif status in (Status.BUSY, Status.PENDING):
                    states[number] = self._before[number]
                elif status is Status.EXISTS and self._before[number] in PRESENT:
                    states[number] = self._before[number]
                elif status is Status.EXISTS:
                    tally.deleted_back += self._before[number] is State.DELETED
                    states[number] = State.ACCEPTED

    def memory_went(self) -> None:
        """Only what is on SSD for certain is promised any more."""
        for states in self.states.values():
            states.update((n, State.UNKNOWN) for n, state in states.items() if state is State.ACCEPTED)

    def some_present(self) -> tuple[str, int] | None:
        """A block that must be there."""
        for space, states in self.states.items():
            for number in sorted(states, reverse=True):
                if states[number] in PRESENT:
                    return space, number
        return None

    def check(self, blocks: Blocks, when: str, found: State) -> None:
        """Asks for every block ever put.

        Args:
            found: what a block counts as that is there, and of which that was not known.
        """
        for space, states in self.states.items():
            numbers = sorted(states)
            for start in range(0, len(numbers), BATCH):
                batch = numbers[start : start + BATCH]
                statuses, wrong = blocks.get(space, batch)
                if wrong:
                    self._wrong(space, wrong)
                for number, status in zip(batch, statuses, strict=True):
                    self._check(space, number, status, when, found)

    def _check(self, space: str, number: int, status: Status, when: str, found: State) -> None:
        states = self.states[space]
        state = states[number]
        self._tally.checked += 1
        if status is Status.OK:
            self._tally.hits_checked += 1
            if state is State.DELETED:
                self._tally.deleted_back += 1
                self._tally.findings.append(f"{space}/{number} was deleted, and is back {when}")
            states[number] = state if state is State.STORED else found
        elif status is Status.MISS:
            if state in PRESENT:
                self._lost(space, number, f"missing {when}", state)
            if state is not State.DELETED:
                states[number] = State.ABSENT
        else:
            self._tally.odd.update([f"get {when}: {status.name}"])

    def _lost(self, space: str, number: int, how: str, state: State) -> None:
        self._tally.acknowledged_lost += 1
        self._tally.findings.append(f"{space}/{number} ({state.name}) is {how}")

    def _wrong(self, space: str, wrong: dict[int, int]) -> None:
        self._tally.wrong_bytes += sum(wrong.values())
        self._tally.findings += [f"{space}/{number} has {bad} wrong bytes" for number, bad in wrong.items()]

    def round(self, seed: int) -> Round:
        """The blocks that the workers may expect in the next round."""
        by = {
            space: ([n for n in sorted(states) if states[n] in PRESENT], [n for n in states if states[n] is State.DELETED])
            for space, states in self.states.items()
        }
        return Round(
            seed,
            {space: live for space, (live, _) in by.items()},
            {space: deleted for space, (_, deleted) in by.items()},
            {space: max(states, default=-1) + 1 for space, states in self.states.items()},
        )
