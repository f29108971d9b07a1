"""What was promised of each block of the soak, and what was seen of that."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from soak_content import Space
from torture_clients import PRESENT, State

WIRE_ODD = frozenset({"INVALID_ARGUMENT", "INTERNAL", "DENIED", "TOO_LARGE", "UNRECOGNIZED", "NAMESPACE_MISMATCH", "VERSION_MISMATCH"})
"""Answers that nobody gets who asks as these clients do, unless a wire garbled the question."""


@dataclass
class Seen:
    """What was seen of one client's blocks in one namespace."""

    accepted: int = 0
    hits: int = 0
    misses: int = 0
    deleted: int = 0
    unanswered: int = 0
    refused: int = 0
    wrong_bytes: int = 0
    accepted_lost: int = 0
    lost_to_damage: int = 0
    deleted_back: int = 0
    checked: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class Account:
    """The blocks of one client in one namespace, one by one.

    Its client is the only one who changes them. The thread that works for the client tells what it is about to ask and
    what was answered; other threads tell what was damaged or went with the memory.
    """

    def __init__(self, client: str, space: Space, blocks: int, first: int) -> None:
        """
        Args:
            blocks: the most that are kept.
            first: the number of the first block; the numbers of two accounts of one namespace lie apart.
        """
        self.client = client
        self.space = space
        self.blocks = blocks
        self.seen = Seen()
        self._next = first
        self._states: dict[int, State] = {}
        self._damaged: set[int] = set()
        self._memory = 0
        self._lock = threading.Lock()

    def live(self) -> list[int]:
        """The blocks that must be there."""
        with self._lock:
            return [number for number, state in self._states.items() if state in PRESENT]

    def deleted(self) -> list[int]:
        with self._lock:
            return [number for number, state in self._states.items() if state is State.DELETED]

    def fresh(self, count: int) -> list[int]:
        """Numbers that were never used."""
        self._next += count
        return list(range(self._next - count, self._next))

    def ask(self, verb: str, numbers: list[int]) -> "Asked":
        with self._lock:
            before = {number: self._states.get(number, State.ABSENT) for number in numbers}
            if verb in ("put", "delete"):
                self._states.update(dict.fromkeys(numbers, State.UNKNOWN))
            flushed = [number for number, state in self._states.items() if state is State.ACCEPTED] if verb == "flush" else []
            return Asked(verb, before, flushed, self._memory)

    def answer(self, asked: "Asked", statuses: list[str] | None, wrong: dict[int, int], garbled: bool = False, reads_fail: bool = False) -> None:
        """What came of it.

        Args:
            statuses: None when client or daemon died over it.
            garbled: whether a wire may have changed question or answer.
            reads_fail: whether a disk may have answered with an error: what can't be read is given up.
        """
        with self._lock:
            if statuses is None:
                self.seen.unanswered += 1
                if asked.verb == "get" and reads_fail:
                    self._damaged.update(number for number, before in asked.before.items() if before in PRESENT)
                return
            self.seen.statuses.update(f"{asked.verb} {status}" for status in statuses)
            odd = WIRE_ODD.intersection(statuses)
            if odd and not garbled:
                self.seen.findings.append(f"{self}: {asked.verb} was answered with {', '.join(sorted(odd))}")
            for number, bad in wrong.items():
                self.seen.wrong_bytes += bad
                self.seen.findings.append(f"{self}/{number}: {bad} wrong bytes")
            if asked.verb == "flush":
                if statuses == ["OK"] and asked.memory == self._memory:
                    self._states.update((n, State.STORED) for n in asked.flushed if self._states.get(n) is State.ACCEPTED)
                return
            for (number, before), status in zip(asked.before.items(), statuses, strict=True):
                if asked.verb == "put":
                    self._put(number, before, status, asked.memory)
                elif asked.verb == "delete":
                    self._delete(number, status)
                else:
                    self._got(number, before, status)
                    if reads_fail and status != "OK" and before in PRESENT:
                        self._damaged.add(number)

    def _put(self, number: int, before: State, status: str, memory: int) -> None:
        if status in ("OK", "EXISTS"):
            self.seen.accepted += status == "OK"
            if status == "EXISTS" and before is State.DELETED:
                self._back(number)
            # Accepted by a daemon whose memory has gone in the meantime: nobody can tell.
            self._states[number] = State.ACCEPTED if memory == self._memory else State.UNKNOWN
            self._damaged.discard(number)
        elif status in ("BUSY", "NOT_ADMITTED", "CORRUPT"):
            self.seen.refused += 1
            self._states[number] = before

    def _delete(self, number: int, status: str) -> None:
        if status in ("OK", "MISS"):
            self.seen.deleted += 1
            self._states[number] = State.DELETED

    def _got(self, number: int, before: State, status: str) -> None:
        self.seen.hits += status == "OK"
        self.seen.misses += status != "OK"
        if status == "OK" and before is State.DELETED and self._states.get(number) is State.DELETED:
            self._back(number)

    def _back(self, number: int) -> None:
        self.seen.deleted_back += 1
        self.seen.findings.append(f"{self}/{number}: was deleted, and is back")
        self._states[number] = State.UNKNOWN

    def memory_goes(self) -> None:
        """The memory is about to be taken: only what is on a device for certain is promised any more."""
        with self._lock:
            self._memory += 1
            self._states.update((n, State.UNKNOWN) for n, state in self._states.items() if state is State.ACCEPTED)

    def damage(self, number: int) -> bool:
        """A copy of a block is about to be damaged where the daemon can't prevent it; whether the block is promised."""
        with self._lock:
            if self._states.get(number) not in PRESENT:
                return False
            self._damaged.add(number)
            return True

    def found(self, number: int) -> None:
        """A check has found a block."""
        with self._lock:
            self.seen.checked += 1
            self._damaged.discard(number)

    def missing(self, number: int, when: str) -> None:
        """A check has not found a block that must be there, however often it asked."""
        with self._lock:
            self.seen.checked += 1
            state = self._states[number]
            self._states[number] = State.ABSENT
            if number in self._damaged:
                self.seen.lost_to_damage += 1
                return
            self.seen.accepted_lost += 1
            self.seen.lost.append(f"{self}/{number} ({state.name}) is missing {when}")

    def forget(self) -> None:
        """Drops what need not be known any more: blocks deleted long ago."""
        with self._lock:
            gone = [number for number, state in self._states.items() if state in (State.DELETED, State.ABSENT)]
            for number in gone[:-500]:
                del self._states[number]

    def __str__(self) -> str:
        return f"{self.client}/{self.space.name}"


@dataclass(frozen=True)
class Asked:
    """A question on its way."""

    verb: str
    before: dict[int, State]
    flushed: list[int]
    memory: int
