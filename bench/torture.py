"""Kills a daemon at random moments, starts it again, and holds it to what it had acknowledged.

A writer puts, flushes, deletes and clears; a reader gets what is there; both are processes of their own. Meanwhile the
daemon is killed with SIGKILL: while it works, while it starts, and in every other case together with the process that
keeps its memory. After each start every block is asked for:

- what a put answered with OK must be there, as long as the memory was kept;
- what a flush answered with OK covered must be there, whatever was killed;
- what a delete or a clear answered with OK must not be there;
- whatever is there must have the bytes that follow from its key.

The tiers are larger than all blocks together, so that nothing may be dropped for want of room.

Exit codes: 0 every promise was kept, 1 something was lost, wrong or back, 2 wrong usage, 3 the daemon does not start.
"""

import argparse
import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from replay import Content, size

from kvtier import Client, Namespace, Status

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[1]
READY_TIMEOUT_S = 300.0
CALL_TIMEOUT_S = 30.0
BATCH = 32
RIGHT_ANSWERS = {Status.OK, Status.EXISTS, Status.BUSY, Status.PENDING, Status.MISS, Status.UNAVAILABLE}


@dataclass(frozen=True)
class Space:
    """A namespace, and the most blocks that the writer keeps there."""

    name: str
    block_bytes: int
    blocks: int


SPACES = (Space("large", 96 << 10, 1200), Space("small", 16 << 10, 1600), Space("brief", 40_000, 200))
CLEARED = "brief"


class State(Enum):
    """What is promised of a block."""

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


# ---- the writer and the reader


@dataclass
class Round:
    """What a worker may take as there."""

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
            # What was deleted may come again, and must then stay.
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
            odd = [status.name for status in statuses if status not in RIGHT_ANSWERS]
            if odd:
                self._told.send(("odd", "get", odd))
            if Status.UNAVAILABLE in statuses:
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


# ---- the daemon


class Broken(Exception):
    """Something that no count expresses: the daemon does not start, a client hangs."""


class Daemon:
    """A daemon of this checkout, with small tiers in a folder of its own."""

    def __init__(self, folder: Path, directories: int, **settings: str) -> None:
        """Settings are named with two underscores in place of the dot."""
        self.folder = folder
        self.socket_path = folder / "kvtier.sock"
        self.log = folder / "daemon.log"
        self._directories = [folder / f"ssd{number}" for number in range(directories)]
        self._process: subprocess.Popen[str] | None = None
        self.settings = {
            "host.bytes": "32MiB",
            "host.slab_bytes": "4MiB",
            "host.keep": "2min",
            "host.directory": str(folder / "state"),
            "ssd.bytes": "384MiB",
            "ssd.file_bytes": "16MiB",
            "ssd.directory": ",".join(map(str, self._directories)),
            "grpc.enabled": "false",
            "limits.blocks": "32768",
        }
        self.settings |= {name.replace("__", "."): value for name, value in settings.items()}

    def spawn(self, **changed: str) -> None:
        """Begins to start the process."""
        settings = self.settings | {name.replace("__", "."): value for name, value in changed.items()}
        for directory in self._directories:
            directory.mkdir(exist_ok=True)
        command = [str(REPOSITORY / "scripts" / "kvtierd"), "--socket", str(self.socket_path)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def wait_ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if select.select([self._process.stdout], [], [], 0.5)[0]:
                line = self._process.stdout.readline()
                if line.startswith("kvtierd ready"):
                    return
                if not line:
                    break
        raise Broken(f"the daemon did not start; its log ends with\n{self.log_end()}")

    def first_answer_s(self, begun: float, client: Client, get: Callable[[], list[Status]]) -> float:
        """Seconds from a moment until a get is answered, by whatever."""
        while time.monotonic() - begun < READY_TIMEOUT_S:
            if client.ping().status is Status.OK and get() != [Status.UNAVAILABLE]:
                return time.monotonic() - begun
            if not self.is_alive():
                raise Broken(f"the daemon did not start; its log ends with\n{self.log_end()}")
            time.sleep(0.005)
        raise Broken(f"no answer within {READY_TIMEOUT_S} s; the daemon's log ends with\n{self.log_end()}")

    def log_end(self) -> str:
        return self.log.read_text()[-3000:] if self.log.exists() else ""

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def keeper(self) -> int | None:
        """The process that keeps the memory, as the next start would find it."""
        try:
            note = (self.folder / "state" / "slabs").read_text()
            return int(dict(line.split("=", 1) for line in note.splitlines() if "=" in line)["keeper"])
        except (FileNotFoundError, KeyError):
            return None

    def kill_keeper(self) -> None:
        """Takes the memory away. Keepers of starts that were killed may be left: nobody knows of them any more."""
        keeper = self.keeper()
        if keeper is None or not self._is_keeper(keeper):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
        while self._is_keeper(keeper):
            time.sleep(0.001)

    @staticmethod
    def _is_keeper(process: int) -> bool:
        try:
            return any("memfd:kvtier-slab" in os.readlink(one) for one in Path(f"/proc/{process}/fd").iterdir())
        except OSError:
            return False

    def end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.kill()
        self.kill_keeper()


# ---- the promises


@dataclass
class Tally:
    """What was seen so far."""

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
    """What the daemon has promised of each block, as its answers say."""

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
        tally.odd.update(f"{kind}: {one.name}" for one in statuses if one not in RIGHT_ANSWERS)
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
        """What the workers may take as known."""
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


class Torture:
    """Kill after kill."""

    COUNTERS = ("dropped", "ssd_evictions", "corrupt", "io_errors", "found_host", "found_ssd", "found_untrue", "evictions")
    COUNTERS += ("demotions", "promotions")

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.tally = Tally()
        self._daemon = daemon
        self._seed = seed
        self._random = random.Random(seed)
        self._promises = Promises(self.tally)
        self._writer = Worker("writer", daemon.socket_path)
        self._reader = Worker("reader", daemon.socket_path)
        self._start_s = 2.0

    def run(self, kills: int, minutes: float | None) -> None:
        """Kills as often as asked, as long as time remains; then checks a last time."""
        end = None if minutes is None else time.monotonic() + 60 * minutes
        try:
            self._start(memory_gone=False)
            while self.tally.kills < kills and (end is None or time.monotonic() < end) and self.tally.is_clean():
                self._round(kills)
                self._tell(kills)
        finally:
            self._writer.close()
            self._reader.close()

    def _tell(self, kills: int) -> None:
        tally = self.tally
        print(
            f"torture: {tally.kills} of {kills} kills, {tally.acknowledged:,} acknowledged, "
            f"{tally.acknowledged_lost:,} lost, {tally.wrong_bytes:,} wrong bytes",
            file=sys.stderr,
        )

    def _round(self, kills: int) -> None:
        tally = self.tally
        seed = self._random.getrandbits(32)
        for worker in (self._writer, self._reader):
            worker.go(self._seed, self._promises.round(seed))
        if not self._writer.has_told(CALL_TIMEOUT_S):
            raise Broken("the writer has not begun")
        # Mostly short: much happens at the beginning, and more kills find more.
        time.sleep(self._random.choice((0.05, 0.3, 1.0, 2.0)) * self._random.random())
        if not self._daemon.is_alive():
            raise Broken(f"the daemon ended by itself; its log ends with\n{self._daemon.log_end()}")
        self._count()
        takes_memory = self._random.random() < 0.5
        if self._random.random() < 0.06:
            tally.stops += 1
            self._daemon.kill(signal.SIGTERM)
        else:
            tally.kills += 1
            self._daemon.kill()
        memory_gone = takes_memory
        if takes_memory:
            tally.kills_with_memory += 1
            self._daemon.kill_keeper()
        for worker in (self._writer, self._reader):
            for event in worker.events():
                self._promises.hear(event)
        while tally.kills < kills and self._random.random() < 0.25:
            memory_gone |= self._kill_during_start()
        self._start(memory_gone)

    def _settings(self) -> dict[str, str]:
        return {
            "ssd__admission": self._random.choice(("evicted", "all")),
            "ssd__engine": self._random.choice(("auto", "auto", "pread")),
        }

    def _kill_during_start(self) -> bool:
        """Whether the memory went, too."""
        self._daemon.spawn(**self._settings())
        time.sleep(self._start_s * 1.1 * self._random.random())
        self._daemon.kill()
        self.tally.kills += 1
        self.tally.kills_during_start += 1
        takes_memory = self._random.random() < 0.3
        if takes_memory:
            self.tally.kills_with_memory += 1
            self._daemon.kill_keeper()
        return takes_memory

    def _start(self, memory_gone: bool) -> None:
        if memory_gone:
            self._promises.memory_went()
        wanted = self._promises.some_present()
        begun = time.monotonic()
        self._daemon.spawn(**self._settings())
        if wanted is not None:
            blocks = Blocks(self._daemon.socket_path, self._seed, "first")
            space, number = wanted
            self.tally.first_hit_ms.append(
                1000 * self._daemon.first_answer_s(begun, blocks.client, lambda: blocks.get(space, [number])[0])
            )
            blocks.close()
        self._daemon.wait_ready()
        self._start_s = time.monotonic() - begun
        blocks = Blocks(self._daemon.socket_path, self._seed, "checker")
        try:
            when = f"after kill {self.tally.kills}" + (", memory gone" if memory_gone else "")
            self._promises.check(blocks, when, State.STORED if memory_gone else State.ACCEPTED)
        finally:
            blocks.close()

    def _count(self) -> None:
        """Adds the daemon's counters, which end with it."""
        with Client(self._daemon.socket_path, timeout=CALL_TIMEOUT_S) as client:
            counters = client.counters()
        self.tally.counters.update({name: counters.get(name, 0) for name in self.COUNTERS})


class Restart:
    """One kill of a daemon that holds many blocks: how soon the first is there again, and how many of them."""

    def __init__(self, daemon: Daemon, seed: int, blocks: int, block_bytes: int, memory_gone: bool) -> None:
        self._daemon = daemon
        self._seed = seed
        self._count = blocks
        self._size = block_bytes
        self._memory_gone = memory_gone
        self._content = Content(block_bytes)
        self._batch = max(1, min(1024, (8 << 20) // block_bytes))

    def run(self) -> dict[str, Any]:
        """The figures."""
        self._daemon.spawn()
        self._daemon.wait_ready()
        with Client(self._daemon.socket_path, name="restart", timeout=CALL_TIMEOUT_S) as client:
            begun = time.monotonic()
            accepted = sum(self._each_batch(client, self._put))
            if client.namespace("restart", block_bytes=self._size).flush(timeout=600).status is not Status.OK:
                raise Broken("a flush failed")
            filled_s = time.monotonic() - begun
            before = client.counters()
            self._daemon.kill()
            if self._memory_gone:
                self._daemon.kill_keeper()
            begun = time.monotonic()
            self._daemon.spawn()
            first_hit_s = self._daemon.first_answer_s(begun, client, lambda: self._statuses(client, [self._count - 1]))
            begun = time.monotonic()
            answers = list(self._each_batch(client, self._get))
            after = client.counters()
        hits = sum(hit for hit, _ in answers)
        return {
            "seed": self._seed,
            "kills": 1,
            "blocks": self._count,
            "block_bytes": self._size,
            "memory": "gone" if self._memory_gone else "kept",
            "fill_s": round(filled_s, 1),
            "acknowledged": accepted,
            "acknowledged_lost": accepted - hits,
            "hits": hits,
            "hit_ratio": round(hits / self._count, 5),
            "wrong_bytes": sum(wrong for _, wrong in answers),
            "restart_to_first_hit_ms": round(1000 * first_hit_s),
            "check_s": round(time.monotonic() - begun, 1),
            "found_host": after["found_host"],
            "found_ssd": after["found_ssd"],
            "dropped_before": before["dropped"],
            "corrupt": after["corrupt"],
        }

    def _each_batch(self, client: Client, do: Callable[[Namespace, list[bytes]], T]) -> Iterator[T]:
        namespace = client.namespace("restart", block_bytes=self._size)
        for start in range(0, self._count, self._batch):
            yield do(namespace, self._keys(range(start, min(self._count, start + self._batch))))

    def _keys(self, numbers: Iterable[int]) -> list[bytes]:
        return [block_key(self._seed, "restart", number) for number in numbers]

    def _put(self, namespace: Namespace, keys: list[bytes]) -> int:
        """How many were accepted."""
        accepted = 0
        deadline = time.monotonic() + 4 * CALL_TIMEOUT_S
        while keys:
            statuses = namespace.put(keys, [self._content.block(key) for key in keys])
            accepted += statuses.count(Status.OK)
            keys = [key for key, status in zip(keys, statuses, strict=True) if status is not Status.OK]
            if keys and time.monotonic() > deadline:
                raise Broken(f"{len(keys)} blocks were not accepted: {set(statuses)}")
        return accepted

    def _get(self, namespace: Namespace, keys: list[bytes]) -> tuple[int, int]:
        """How many blocks are there, and how many of their bytes are wrong."""
        buffer = bytearray(len(keys) * self._size)
        statuses = namespace.get(keys, buffer).statuses
        wrong = sum(
            self._content.wrong_bytes(key, buffer, place * self._size)
            for place, (key, status) in enumerate(zip(keys, statuses, strict=True))
            if status is Status.OK
        )
        return statuses.count(Status.OK), wrong

    def _statuses(self, client: Client, numbers: list[int]) -> list[Status]:
        namespace = client.namespace("restart", block_bytes=self._size)
        return namespace.get(self._keys(numbers), bytearray(len(numbers) * self._size)).statuses


def report(tally: Tally, seed: int, seconds: float) -> dict[str, Any]:
    """The figures of a run."""
    times = sorted(tally.first_hit_ms)
    figures: dict[str, Any] = {
        "seed": seed,
        "seconds": round(seconds, 1),
        "kills": tally.kills,
        "kills_with_memory": tally.kills_with_memory,
        "kills_during_start": tally.kills_during_start,
        "stops": tally.stops,
        "acknowledged": tally.acknowledged,
        "acknowledged_lost": tally.acknowledged_lost,
        "wrong_bytes": tally.wrong_bytes,
        "deleted": tally.deleted,
        "deleted_back": tally.deleted_back,
        "odd_answers": sum(tally.odd.values()),
        "unanswered_calls": tally.unanswered,
        "blocks_checked": tally.checked,
        "blocks_hit": tally.hits_checked,
        "restart_to_first_hit_ms_p50": round(times[len(times) // 2]) if times else None,
        "restart_to_first_hit_ms_max": round(times[-1]) if times else None,
    }
    figures.update({name: tally.counters[name] for name in Torture.COUNTERS})
    return figures


def table(figures: dict[str, Any]) -> str:
    width = max(map(len, figures), default=0)
    rows = [f"{name:<{width}}  {value:,}" if isinstance(value, int) else f"{name:<{width}}  {value}" for name, value in figures.items()]
    return "\n".join(rows)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return int(text)


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected minutes above 0, not {text!r}")
    return value


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="torture",
        description="Kills a daemon again and again, and holds it to what it had acknowledged.",
        epilog="Exit codes: 0 every promise was kept, 1 something was lost, wrong or back, 2 wrong usage, 3 the daemon "
        "does not start or a client hangs. The folder of a run that found something is kept.",
    )
    parser.add_argument("--kills", metavar="N", type=_positive, default=20, help="default: 20")
    parser.add_argument("--minutes", metavar="M", type=_minutes, help="kill no more when they are over")
    parser.add_argument("--seed", metavar="S", type=int, help="of the kills' moments and of all keys (default: another each time)")
    parser.add_argument("--directories", metavar="N", type=_positive, default=2, help="of the SSD tier (default: 2)")
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where a folder for the run is made (default: $TMPDIR)")
    parser.add_argument("--restart", metavar="BLOCKS", type=_positive, help="instead: fill with so many blocks, kill once")
    parser.add_argument("--block-bytes", metavar="SIZE", type=size, default=size("1MiB"), help="of --restart (default: 1MiB)")
    parser.add_argument("--host-bytes", metavar="SIZE", default="1280MiB", help="of --restart (default: 1280MiB)")
    parser.add_argument("--ssd-bytes", metavar="SIZE", default="2GiB", help="of --restart (default: 2GiB)")
    parser.add_argument("--memory-gone", action="store_true", help="of --restart: the kill takes the memory along")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args(None if arguments is None else list(arguments))
    logging.getLogger("kvtier").addHandler(logging.NullHandler())
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    print(f"torture: seed {seed}", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="kvtier-torture-", dir=options.folder))
    if options.restart is None:
        code, figures = _torture(options, folder, seed)
    else:
        code, figures = _restart(options, folder, seed)
    if code:
        print(f"torture: all is left in {folder}; repeat with --seed {seed}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    # With --json, standard output is for programs.
    print(table(figures), file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(figures))
    return code


def _restart(options: argparse.Namespace, folder: Path, seed: int) -> tuple[int, dict[str, Any]]:
    daemon = Daemon(
        folder,
        directories=1,
        host__bytes=options.host_bytes,
        host__slab_bytes="64MiB",
        ssd__bytes=options.ssd_bytes,
        ssd__file_bytes="256MiB",
        limits__blocks=str(options.restart * 5 // 4 + 1000),
    )
    try:
        figures = Restart(daemon, seed, options.restart, options.block_bytes, options.memory_gone).run()
    except Broken as broken:
        print(f"torture: {broken}", file=sys.stderr)
        return 3, {}
    finally:
        daemon.end()
    return (1 if figures["acknowledged_lost"] or figures["wrong_bytes"] else 0), figures


def _torture(options: argparse.Namespace, folder: Path, seed: int) -> tuple[int, dict[str, Any]]:
    daemon = Daemon(folder, options.directories)
    torture = Torture(daemon, seed)
    begun = time.monotonic()
    code = 0
    try:
        torture.run(options.kills, options.minutes)
    except Broken as broken:
        print(f"torture: {broken}", file=sys.stderr)
        code = 3
    finally:
        daemon.end()
    tally = torture.tally
    for finding in tally.findings[:20]:
        print(f"torture: {finding}", file=sys.stderr)
    if tally.odd:
        print(f"torture: answers that should not be: {dict(tally.odd)}", file=sys.stderr)
    return code or (0 if tally.is_clean() else 1), report(tally, seed, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main())
