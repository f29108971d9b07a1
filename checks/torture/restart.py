"""One kill of a daemon that holds many blocks."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from checks.shared.content import Content
from checks.torture.clients import CALL_TIMEOUT_S, Broken, block_key
from checks.torture.daemon import Daemon
from kvtier import Client, Namespace, Status

T = TypeVar("T")


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
