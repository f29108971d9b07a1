"""The writer and the reader of scripts/torture: processes of their own, which a kill of the daemon leaves alive."""

import hashlib
import logging
import multiprocessing
import random
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from checks.shared.content import Content
from kvtier import Client, Namespace, Status

CALL_TIMEOUT_S = 30.0
BATCH = 32
RIGHT_ANSWERS = {Status.OK, Status.EXISTS, Status.BUSY, Status.PENDING, Status.MISS, Status.UNAVAILABLE}

# Answers of a get whose daemon ended before it, or while the bytes were copied.
GONE = {Status.UNAVAILABLE, Status.STALE}


class Broken(Exception):
    """Something that no count expresses: the daemon does not start, a client hangs."""


@dataclass(frozen=True)
class Space:
    """A namespace, and the most blocks that the writer keeps there."""

    name: str
    block_bytes: int
    blocks: int


SPACES = (Space("large", 96 << 10, 1200), Space("small", 16 << 10, 1600), Space("brief", 40_000, 200))
CLEARED = "brief"


class State(Enum):
    """The promise about a block."""

    ABSENT = "never put, or lost with the memory"
    UNKNOWN = "a call that would tell was not answered"
    ACCEPTED = "a put was answered with OK"
    STORED = "a flush that covers it was answered with OK, or it was found when only the SSD tier was left"
    DELETED = "a delete was answered with OK"


PRESENT = (State.ACCEPTED, State.STORED)


def block_key(seed: int, space: str, number: int) -> bytes:
    return hashlib.sha256(f"torture/{seed}/{space}/{number}".encode()).digest()


class Blocks:
    """The namespaces through one client."""

    def __init__(self, socket_path: Path, seed: int, name: str) -> None:
        self.client = Client(socket_path, name=name, timeout=CALL_TIMEOUT_S)
        self._seed = seed
        self._spaces: dict[str, Namespace] = {}
        self._contents = {space.name: Content(space.block_bytes) for space in SPACES}

    def space(self, name: str) -> Namespace:
        if name not in self._spaces:
            space = next(one for one in SPACES if one.name == name)
            self._spaces[name] = self.client.namespace(name, block_bytes=space.block_bytes, model="torture")
        return self._spaces[name]

    def keys(self, space: str, numbers: list[int]) -> list[bytes]:
        return [block_key(self._seed, space, number) for number in numbers]

    def put(self, space: str, numbers: list[int]) -> list[Status]:
        keys = self.keys(space, numbers)
        return self.space(space).put(keys, [self._contents[space].block(key) for key in keys])

    def get(self, space: str, numbers: list[int]) -> tuple[list[Status], dict[int, int]]:
        """The answers, and how many bytes are wrong in which blocks."""
        keys = self.keys(space, numbers)
        size = self.space(space).block_bytes
        # Bytes left from an earlier get must not pass for this one's.
        buffer = bytearray(size * len(keys))
        statuses = self.space(space).get(keys, buffer).statuses
        wrong = {}
        for place, (number, key, status) in enumerate(zip(numbers, keys, statuses, strict=True)):
            if status is Status.OK:
                bad = self._contents[space].wrong_bytes(key, buffer, place * size)
                if bad:
                    wrong[number] = bad
        return statuses, wrong

    def close(self) -> None:
        self.client.close()




@dataclass
class Round:
    """The blocks that a worker may expect, with their state."""

    seed: int
    live: dict[str, list[int]]
    deleted: dict[str, list[int]]
    next_number: dict[str, int]


class DaemonGone(Exception):
    """The daemon was killed."""


class Writer:
    """Changes blocks until the daemon is gone, and tells of each change before it asks for it and when it is answered."""

    def __init__(self, blocks: Blocks, told: Connection, round_: Round) -> None:
        self._blocks = blocks
        self._told = told
        self._round = round_
        self._random = random.Random(round_.seed)

    def run(self) -> None:
        while True:
            space = self._random.choices(SPACES, (6, 3, 1))[0]
            live = self._round.live[space.name]
            dice = self._random.random()
            if len(live) > space.blocks or (dice < 0.1 and len(live) > 50):
                if space.name == CLEARED:
                    self._clear(space.name)
                else:
                    self._delete(space.name, live)
            elif dice < 0.14:
                self._flush(space.name)
            elif dice < 0.24 and live:
                self._read_back(space.name, live[-self._random.randint(1, BATCH) :])
            else:
                self._put(space.name, live)

    def _ask(self, kind: str, space: str, numbers: list[int]) -> None:
        self._told.send(("asked", kind, space, numbers))

    def _answer(self, statuses: list[Status], counts: bool = True) -> None:
        self._told.send(("answered", [status.name for status in statuses], counts))
        if Status.UNAVAILABLE in statuses:
            raise DaemonGone

    def _put(self, space: str, live: list[int]) -> None:
        count = self._random.randint(1, BATCH)
        deleted = self._round.deleted[space]
        if deleted and self._random.random() < 0.15:
            # A deleted block may be put again, and must then stay.
            numbers = [deleted.pop() for _ in range(min(count, len(deleted)))]
        else:
            first = self._round.next_number[space]
            numbers = list(range(first, first + count))
            self._round.next_number[space] = first + count
        self._ask("put", space, numbers)
        statuses = self._blocks.put(space, numbers)
        self._answer(statuses)
        live += [one for one, status in zip(numbers, statuses, strict=True) if status in (Status.OK, Status.EXISTS)]

    def _delete(self, space: str, live: list[int]) -> None:
        self._random.shuffle(live)
        numbers = [live.pop() for _ in range(min(len(live), self._random.randint(1, 2 * BATCH)))]
        live.sort()
        self._ask("delete", space, numbers)
        statuses = self._blocks.space(space).delete(self._blocks.keys(space, numbers))
        self._answer(statuses)
        self._round.deleted[space] += numbers

    def _clear(self, space: str) -> None:
        live = self._round.live[space]
        self._ask("clear", space, [])
        self._answer([self._blocks.space(space).clear().status])
        self._round.deleted[space] += live
        live.clear()

    def _flush(self, space: str) -> None:
        self._ask("flush", space, [])
        self._answer([self._blocks.space(space).flush().status])

    def _read_back(self, space: str, numbers: list[int]) -> None:
        self._ask("read", space, numbers)
        statuses, wrong = self._blocks.get(space, numbers)
        if wrong:
            self._told.send(("wrong", space, wrong))
        self._answer(statuses)


class Reader:
    """Gets blocks until the daemon is gone: they move between the tiers on its account."""

    def __init__(self, blocks: Blocks, told: Connection, round_: Round) -> None:
        self._blocks = blocks
        self._told = told
        self._round = round_
        self._random = random.Random(round_.seed + 1)

    def run(self) -> None:
        while True:
            space = self._random.choice([name for name, live in self._round.live.items() if live] or [SPACES[0].name])
            live = self._round.live[space] or [0]
            numbers = self._random.sample(live, min(len(live), self._random.randint(1, BATCH)))
            statuses, wrong = self._blocks.get(space, numbers)
            if wrong:
                self._told.send(("wrong", space, wrong))
            odd = [status.name for status in statuses if status not in RIGHT_ANSWERS | GONE]
            if odd:
                self._told.send(("odd", "get", odd))
            if GONE.intersection(statuses):
                raise DaemonGone


def work(role: str, socket_path: Path, pipe: Connection) -> None:
    """The main function of a worker's process."""
    logging.getLogger("kvtier").addHandler(logging.NullHandler())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            round_ = pipe.recv()
        except EOFError:
            return
        blocks = Blocks(socket_path, round_[0], role)
        try:
            (Writer if role == "writer" else Reader)(blocks, pipe, round_[1]).run()
        except DaemonGone:
            pass
        except Exception:  # noqa: BLE001 - whatever it is, the main process must hear of it
            pipe.send(("broken", traceback.format_exc()))
        finally:
            blocks.close()
        pipe.send(("gone",))


class Worker:
    """A writer's or a reader's process, seen from here."""

    def __init__(self, role: str, socket_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(role, socket_path, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def go(self, seed: int, round_: Round) -> None:
        self._pipe.send((seed, round_))

    def has_told(self, timeout_s: float) -> bool:
        return self._pipe.poll(timeout_s)

    def events(self) -> Iterator[tuple[Any, ...]]:
        """All it tells, until it has seen that the daemon is gone."""
        while True:
            if not self._pipe.poll(4 * CALL_TIMEOUT_S):
                raise Broken("a client was never answered: it hangs")
            event = self._pipe.recv()
            if event[0] == "gone":
                return
            yield event

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
