"""The promises about each block of the soak, and the answers that clients saw."""

import threading
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from checks.soak.content import Space, key
from checks.torture.clients import PRESENT, State

CHECKSUM = "CHECKSUM"
"""A client's own answer: the bytes do not have the checksum that came with them."""

WIRE_ODD = frozenset(
    {"INVALID_ARGUMENT", "INTERNAL", "DENIED", "TOO_LARGE", "UNRECOGNIZED", "NAMESPACE_MISMATCH", "VERSION_MISMATCH", CHECKSUM}
)
"""Answers that these clients never get, unless a wire garbled the question or the answer."""

MISSING = frozenset({"MISS", "CORRUPT"})
"""Answers that a block is not there. Other answers except OK leave that open."""


@dataclass
class Seen:
    """The figures of one client's blocks in one namespace.

    Attributes:
        ended: accepted blocks that are no longer promised, counted by their end. These and the promised blocks are all accepted blocks.
        lost: missing blocks that had to be there, in words.
    """

    accepted: int = 0
    hits: int = 0
    misses: int = 0
    unanswered: int = 0
    refused: int = 0
    wrong_bytes: int = 0
    deleted_unseen: int = 0
    deleted_back: int = 0
    not_answered: int = 0
    checked: int = 0
    put_again: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class Account:
    """The blocks of one client in one namespace, one by one.

    Its client is the only one who changes them. The thread that works for the client tells what it is about to ask and
    what was answered; other threads tell what went with the memory.
    """

    def __init__(self, client: str, space: Space, blocks: int, first: int, seed: str = "", damaged: Set[bytes] = frozenset()) -> None:
        """
        Args:
            blocks: the most that are kept.
            first: the number of the first block; the numbers of two accounts of one namespace lie apart.
            damaged: the keys of blocks of which a copy was damaged where the daemon can't prevent it; may grow.
        """
        self.client = client
        self.space = space
        self.blocks = blocks
        self.seen = Seen()
        self._seed = seed
        self._damaged = damaged
        self._next = first
        self._states: dict[int, State] = {}
        self._open: set[int] = set()
        self._read: set[int] = set()
        self._memory = 0
        self._lock = threading.Lock()

    def key(self, number: int) -> bytes:
        return key(self._seed, self.space.name, number)

    def live(self) -> list[int]:
        """The blocks that must be there."""
        return self._in(*PRESENT)

    def ended(self) -> Counter[str]:
        """Blocks that are no longer promised, counted by their end, until now."""
        with self._lock:
            return self.seen.ended.copy()

    def statuses(self) -> Counter[str]:
        """Counts of the answers until now."""
        with self._lock:
            return self.seen.statuses.copy()

    def deleted(self) -> list[int]:
        return self._in(State.DELETED)

    def unknown(self) -> list[int]:
        """The blocks that may be there or not."""
        return self._in(State.UNKNOWN)

    def _in(self, *states: State) -> list[int]:
        with self._lock:
            return [number for number, state in self._states.items() if state in states]

    def balance(self) -> str:
        """Empty where each block that was accepted is promised or has an end; else what is wrong, in words."""
        live = set(self.live())
        with self._lock:
            ended = sum(self.seen.ended.values())
            if live == self._open and self.seen.accepted == ended + len(live):
                return ""
            return f"{self}: {self.seen.accepted} were accepted, {ended} have an end, {len(live)} are promised, {len(live ^ self._open)} of them not noted"

    def fresh(self, count: int) -> list[int]:
        """Numbers that were never used."""
        self._next += count
        return list(range(self._next - count, self._next))

    def again(self, count: int) -> list[int]:
        """Numbers that were deleted, and can be put again; not those of which a damaged copy may be left."""
        return [number for number in self.deleted()[-200:] if self.key(number) not in self._damaged][:count]

    def ask(self, verb: str, numbers: list[int]) -> "Asked":
        with self._lock:
            before = {number: self._states.get(number, State.ABSENT) for number in numbers}
            if verb in ("put", "delete"):
                self._states.update(dict.fromkeys(numbers, State.UNKNOWN))
            flushed = [number for number, state in self._states.items() if state is State.ACCEPTED] if verb == "flush" else []
            return Asked(verb, before, flushed, self._memory)

    def answer(self, asked: "Asked", statuses: list[str] | None, wrong: dict[int, int], garbled: bool = False) -> None:
        """Takes over the answer to a question.

        Args:
            statuses: None when client or daemon died over it.
            garbled: whether a wire may have changed question or answer.
        """
        with self._lock:
            if statuses is None:
                self.seen.unanswered += 1
                self._end_all(asked.before, "a delete was not answered")
                return
            self.seen.statuses.update(f"{asked.verb} {status}" for status in statuses)
            # A block that was read may be damaged on its disk. A block that is put cannot.
            odd = (WIRE_ODD | {"CORRUPT"} if asked.verb == "put" else WIRE_ODD).intersection(statuses)
            if odd and not garbled:
                self.seen.findings.append(f"{self}: {asked.verb} was answered with {', '.join(sorted(odd))}")
            for number, bad in wrong.items():
                self.seen.wrong_bytes += bad
                self.seen.findings.append(f"{self}/{number}: {bad} wrong bytes")
            if asked.verb == "flush":
                if statuses == ["OK"] and asked.memory == self._memory and not garbled:
                    self._states.update((n, State.STORED) for n in asked.flushed if self._states.get(n) is State.ACCEPTED)
                return
            for (number, before), status in zip(asked.before.items(), statuses, strict=True):
                if asked.verb == "put":
                    self._put(number, before, status, asked.memory, garbled)
                elif asked.verb == "delete":
                    self._delete(number, before, status, asked.memory, garbled)
                else:
                    self._got(number, before, status)

    def _end_all(self, numbers: "dict[int, State]", how: str) -> None:
        for number in numbers:
            if self._states.get(number) not in PRESENT:
                self._end(number, how)

    def _end(self, number: int, how: str) -> None:
        """An accepted block is no longer promised."""
        if number in self._open:
            self._open.discard(number)
            self.seen.ended[how] += 1

    def _put(self, number: int, before: State, status: str, memory: int, garbled: bool) -> None:
        if status in ("OK", "EXISTS"):
            if status == "EXISTS" and before is State.DELETED:
                self._back(number)
                return
            self.seen.accepted += 1
            self.seen.put_again += before is State.DELETED
            self._open.add(number)
            self._read.discard(number)
            if garbled:
                # The wire may have changed the key, which has no checksum.
                self._end(number, "put on a wire that lied")
            elif memory != self._memory:
                # Accepted by a daemon whose memory has gone in the meantime: nobody can tell.
                self._end(number, "went with the memory")
            else:
                self._states[number] = State.ACCEPTED
        elif status in ("BUSY", "NOT_ADMITTED") and not garbled:
            self.seen.refused += 1
            self._states[number] = before

    def _delete(self, number: int, before: State, status: str, memory: int, garbled: bool) -> None:
        if garbled:
            self._end(number, "deleted on a wire that lied")
        elif status in ("OK", "MISS"):
            self.seen.deleted_unseen += before in PRESENT and number not in self._read
            self._states[number] = State.DELETED
            self._end(number, "deleted")
        elif status == "BUSY" and (before is not State.ACCEPTED or memory == self._memory):
            self._states[number] = before
        else:
            self._end(number, "a delete was not answered")

    def _got(self, number: int, before: State, status: str) -> None:
        self.seen.hits += status == "OK"
        self.seen.misses += status != "OK"
        if status == "OK":
            self._read.add(number)
        else:
            self._read.discard(number)
        if status == "OK" and before is State.DELETED and self._states.get(number) is State.DELETED:
            self._back(number)

    def _back(self, number: int) -> None:
        self.seen.deleted_back += 1
        self.seen.findings.append(f"{self}/{number}: was deleted, and is back")
        self._states[number] = State.UNKNOWN

    def memory_goes(self, is_only_there: Callable[[bytes], bool] = lambda key: False) -> None:
        """The memory was taken: only what is on a device for certain is promised any more.

        Args:
            is_only_there: whether a block that a flush had covered was in memory alone again, by its key.
        """
        with self._lock:
            self._memory += 1
            for number, state in self._states.items():
                if state is State.ACCEPTED:
                    self._states[number] = State.UNKNOWN
                    self._end(number, "went with the memory")
                elif state is State.STORED and is_only_there(self.key(number)):
                    self._states[number] = State.UNKNOWN
                    self._end(number, "went with the memory, off SSD again")

    def found(self, number: int) -> None:
        """A check has found a block."""
        with self._lock:
            self.seen.checked += 1

    def missing(self, number: int, when: str, excuse: str | None = None, words: str = "") -> None:
        """A check has not found a block that must be there, however often it asked.

        Args:
            excuse: what of all that was done on purpose took it; a damaged copy needs no other.
            words: what else is known.
        """
        with self._lock:
            self.seen.checked += 1
            state = self._states[number]
            self._states[number] = State.ABSENT
            if self.key(number) in self._damaged:
                self._end(number, "damaged")
            elif excuse is not None:
                self._end(number, excuse)
            else:
                self._end(number, "lost")
                self.seen.lost.append(f"{self}/{number} ({state.name}) is missing {when}; {words}".rstrip("; "))

    def not_answered(self, number: int, status: str, when: str) -> None:
        """A check was told neither that a block is there nor that it is not, however often it asked; the next asks again."""
        with self._lock:
            self.seen.checked += 1
            self.seen.not_answered += 1
            self.seen.findings.append(f"{self}/{number} was not answered {when}: {status}")

    def forget(self) -> None:
        """Drops what need not be known any more: blocks that went long ago."""
        with self._lock:
            gone = [number for number, state in self._states.items() if state in (State.DELETED, State.ABSENT)]
            for number in gone[:-500]:
                del self._states[number]
                self._read.discard(number)

    def __str__(self) -> str:
        return f"{self.client}/{self.space.name}"


@dataclass(frozen=True)
class Asked:
    """A question on its way."""

    verb: str
    before: dict[int, State]
    flushed: list[int]
    memory: int
