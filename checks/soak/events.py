"""The place of each block, from the events that the daemon publishes. They give each dropped block a name and a moment."""

import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq

SETTINGS = {"events__hashes": "bytes", "events__form": "map", "events__interval": "5ms"}
HOST, SSD, OBJECT = "CPU", "DISK", "STORAGE"
_POLL_S = 0.05
_ANSWER_TIMEOUT_MS = 2000


@dataclass
class Trail:
    """The events of one block so far.

    Attributes:
        tiers: those of the node that it is in.
        left_at: when it left the last of them.
        stored_at: when each start of the daemon first told of its object; none where it has none.
        left_stored_at: stored_at when the block left the last tier. A block without an object from then on was dropped.
    """

    tiers: set[str] = field(default_factory=set)
    left_at: float | None = None
    stored_at: tuple[float, ...] = ()
    left_stored_at: tuple[float, ...] = ()
    stored_life: int = 0


class Trails:
    """The trails of all blocks, by their keys."""

    def __init__(self) -> None:
        self.events = 0
        self._trails: dict[bytes, Trail] = {}
        self._lock = threading.Lock()

    def begin_life(self) -> None:
        """Another start of the daemon tells anew what is in its tiers."""
        with self._lock:
            for trail in self._trails.values():
                if trail.tiers:
                    # Memory may be gone; then it is an object or nothing, and that one may have been a lie.
                    trail.left_stored_at = trail.stored_at
                trail.tiers.clear()

    def tell(self, event: dict[str, Any], now: float, life: int) -> None:
        medium = event["medium"]
        with self._lock:
            for key in event["block_hashes"]:
                self.events += 1
                trail = self._trails.setdefault(key, Trail())
                if event["type"] == "BlockStored":
                    self._stored(trail, medium, now, life)
                elif medium == OBJECT:
                    trail.stored_at = ()
                else:
                    trail.tiers.discard(medium)
                    if not trail.tiers:
                        trail.left_at, trail.left_stored_at = now, trail.stored_at

    @staticmethod
    def _stored(trail: Trail, medium: str, now: float, life: int) -> None:
        if medium != OBJECT:
            trail.tiers.add(medium)
            trail.left_at, trail.left_stored_at = None, ()
        elif not trail.stored_at or trail.stored_life != life:
            # Told again by the same start, it is the same object; by another, it may be that one or a new one.
            trail.stored_at, trail.stored_life = (*trail.stored_at, now), life

    def dropped_at(self, key: bytes) -> float | None:
        """When the block left the last tier of the node without being an object; None where it did not."""
        with self._lock:
            trail = self._trails.get(key)
            if trail is None or trail.tiers or trail.stored_at or trail.left_stored_at:
                return None
            return trail.left_at

    def stored_at(self, key: bytes) -> tuple[float, ...]:
        """When the block was said to be an object, by each start that did, if it is one or was when it left."""
        with self._lock:
            trail = self._trails.get(key)
            return () if trail is None else trail.stored_at or trail.left_stored_at

    def is_only_in_memory(self, key: bytes, is_all_told: bool) -> bool:
        """Whether the block is in memory, and neither on SSD nor in the object store: it is lost with the memory.

        Args:
            is_all_told: whether nothing happened since; else it may have left SSD.
        """
        with self._lock:
            trail = self._trails.get(key)
            return trail is not None and HOST in trail.tiers and not trail.stored_at and not (is_all_told and SSD in trail.tiers)

    def words(self, key: bytes) -> str:
        with self._lock:
            trail = self._trails.get(key)
        if trail is None:
            return "no event told of it"
        now = time.monotonic()
        left = "" if trail.left_at is None else f", left the last {now - trail.left_at:.1f} s ago"
        stored = "".join(f", stored as an object {now - at:.1f} s ago" for at in trail.stored_at)
        stored += "".join(f", an object of {now - at:.1f} s ago when it left" for at in trail.left_stored_at)
        return f"by events in {sorted(trail.tiers) or 'no tier'}{left}{stored}"

    def prune(self, before: float) -> None:
        """Forgets blocks that had gone before a moment."""
        with self._lock:
            gone = [key for key, one in self._trails.items() if not one.tiers and not one.stored_at and (one.left_at or 0.0) < before]
            for key in gone:
                del self._trails[key]


class Follower(threading.Thread):
    """Asks a daemon's replay socket for what it has published since: nothing is missed as long as the daemon lives."""

    def __init__(self, endpoint: str, trails: Trails) -> None:
        super().__init__(name="events", daemon=True)
        self.failure: BaseException | None = None
        self.gaps = 0
        self._endpoint = endpoint
        self._trails = trails
        self._context = zmq.Context()
        self._decoder = msgspec.msgpack.Decoder()
        self._life = 0
        self._next = 0
        self._rounds = 0
        self._end = threading.Event()

    def begin_life(self) -> None:
        """Another start of the daemon is ready, or will be soon."""
        self._life += 1

    def catch_up(self, timeout_s: float = 30.0) -> bool:
        """Waits until all is known that was published so far; whether that worked."""
        wanted = self._rounds + 2
        deadline = time.monotonic() + timeout_s
        while self._rounds < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._rounds >= wanted

    def run(self) -> None:
        try:
            life = 0
            while not self._end.is_set():
                if life != self._life:
                    life, self._next = self._life, 0
                    self._trails.begin_life()
                with self._context.socket(zmq.DEALER) as socket:
                    socket.linger = 0
                    socket.connect(self._endpoint)
                    # After a question without an answer, the next one takes another connection.
                    while not self._end.wait(_POLL_S) and life == self._life and self._ask(socket, life):
                        self._rounds += 1
        except BaseException as failure:  # noqa: BLE001 - the main thread must hear of it
            self.failure = failure

    def _ask(self, socket: "zmq.Socket[bytes]", life: int) -> bool:
        socket.send_multipart([b"", struct.pack(">Q", self._next)])
        while not self._end.is_set():
            if not socket.poll(_ANSWER_TIMEOUT_MS):
                return False
            _, number, batch = socket.recv_multipart()
            if not batch:
                return True
            if life != self._life:
                return False
            place = struct.unpack(">Q", number)[0]
            self.gaps += self._next not in (0, place)
            self._next = place + 1
            now = time.monotonic()
            for event in self._decoder.decode(batch)[1]:
                self._trails.tell(event, now, life)
        return False

    def close(self) -> None:
        self._end.set()
        self.join(10)
        self._context.term()
