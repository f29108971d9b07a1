"""One client of one build, for `scripts/bench builds`: it uses only calls of the Python client that every build has.

Each line of the standard input is a command: its name, then its arguments. The answer is one line: `ok` and a number, or `error` and a text.
"""

import asyncio
import os
import struct
import sys
import time
from collections.abc import Callable

from kvtier import Client, Namespace, Status, aio

KEY = struct.Struct("<QQ16x")
IN_FLIGHT = 64
BUFFER_BYTES = 16 << 20
"""the most bytes of one call"""
TIMEOUT_S = 60.0


class Worker:
    """The commands, one method each. A command of a slice answers with operations a second; more is better."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._client = Client(socket, name="builds", timeout=TIMEOUT_S)
        self._loop = asyncio.new_event_loop()
        self._asyncio = aio.Client(socket, name="builds-aio", timeout=TIMEOUT_S)
        self._namespace: Namespace
        self._size = 0
        self._buffer = bytearray()
        self._filled = 0
        self._fresh = 1 << 32
        self._turn = 0

    def use(self, block_bytes: int) -> float:
        """Selects the blocks of this size."""
        self._size = block_bytes
        self._namespace = self._client.namespace(f"builds-{block_bytes}", block_bytes=block_bytes)
        self._buffer = bytearray(os.urandom(1 << 12) * (BUFFER_BYTES >> 12))
        self._filled = 0
        return 0.0

    def fill(self, blocks: int) -> float:
        """Puts the blocks with the numbers from 0 on."""
        step = max(1, min(1024, (8 << 20) // self._size))
        for start in range(0, blocks, step):
            self._put(list(range(start, min(blocks, start + step))))
        self._filled = blocks
        return 0.0

    def assume(self, blocks: int) -> float:
        """Selects the blocks from 0 on, which another client has put. Fails if the last one is not there."""
        self._filled = blocks
        if self._namespace.lookup([KEY.pack(blocks - 1, self._size)]).run != 1:
            raise RuntimeError("the last block is not there")
        return 0.0

    def acquire(self, ms: int, count: int) -> float:
        """Leases `count` blocks with each call."""

        def call(keys: list[bytes]) -> None:
            leases = self._namespace.acquire(keys)
            if leases.run != count:
                raise RuntimeError(f"{leases.run} of {count} blocks were there")
            leases.release()

        return self._each(ms, count, call)

    def lookup(self, ms: int, count: int) -> float:
        """Looks `count` blocks up with each call."""

        def call(keys: list[bytes]) -> None:
            if self._namespace.lookup(keys).run != count:
                raise RuntimeError("a block was not there")

        return self._each(ms, count, call)

    def pipelined(self, ms: int) -> float:
        """Leases one block with each call, 64 calls at once."""
        return self._loop.run_until_complete(self._pipelined(ms))

    def get(self, ms: int, count: int) -> float:
        """Copies blocks out, in turns over all that were filled."""
        into = memoryview(self._buffer)[: count * self._size]

        def call(keys: list[bytes]) -> None:
            if self._namespace.get(keys, into).run != count:
                raise RuntimeError("a block was not there")

        return self._each(ms, count, call)

    def put(self, ms: int, count: int) -> float:
        """Puts fresh blocks, which stay; the daemon makes space for them."""
        done, started = 0, time.perf_counter_ns()
        while (now := time.perf_counter_ns()) < started + ms * 1_000_000 or not done:
            self._put(list(range(self._fresh, self._fresh + count)))
            self._fresh += count
            done += 1
        return done * 1e9 / (now - started)

    def put_cleared(self, ms: int, count: int) -> float:
        """Puts fresh blocks, and removes them outside of the measured time."""
        done = took = 0
        while took < ms * 1_000_000:
            numbers = list(range(self._fresh, self._fresh + count))
            keys = [KEY.pack(number, self._size) for number in numbers]
            self._fresh += count
            started = time.perf_counter_ns()
            self._put(numbers, keys)
            took += time.perf_counter_ns() - started
            self._namespace.delete(keys)
            done += 1
        return done * 1e9 / took

    def _put(self, numbers: list[int], keys: list[bytes] | None = None) -> None:
        keys = keys or [KEY.pack(number, self._size) for number in numbers]
        buffer = memoryview(self._buffer)[: len(keys) * self._size]
        deadline = time.monotonic() + TIMEOUT_S
        while keys:
            statuses = self._namespace.put(keys, buffer[: len(keys) * self._size])
            keys = [key for key, status in zip(keys, statuses, strict=True) if status is not Status.OK]
            if keys and time.monotonic() > deadline:
                raise RuntimeError(f"puts were refused for {TIMEOUT_S:.0f} s: {statuses[-1]}")

    def _each(self, ms: int, count: int, call: Callable[[list[bytes]], None]) -> float:
        batches = self._filled // count
        prepared = [
            [KEY.pack(number, self._size) for number in range(at * count, (at + 1) * count)]
            for at in ((self._turn + step) % batches for step in range(min(batches, 256)))
        ]
        done, started = 0, time.perf_counter_ns()
        while (now := time.perf_counter_ns()) < started + ms * 1_000_000 or not done:
            call(prepared[done % len(prepared)])
            done += 1
        self._turn += done
        return done * 1e9 / (now - started)

    async def _pipelined(self, ms: int) -> float:
        namespace = await self._asyncio.namespace(self._namespace.name, block_bytes=self._size)
        keys = [[KEY.pack(number, self._size)] for number in range(1024)]
        started = time.perf_counter_ns()
        end, done = started + ms * 1_000_000, 0

        async def one_after_the_other(turn: int) -> None:
            nonlocal done
            while time.perf_counter_ns() < end:
                (await namespace.acquire(keys[turn % 1024])).release()
                turn += IN_FLIGHT
                done += 1

        await asyncio.gather(*(one_after_the_other(first) for first in range(IN_FLIGHT)))
        return done * 1e9 / (time.perf_counter_ns() - started)


def main() -> None:
    """Until the standard input ends."""
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            print("ok", getattr(worker, name)(*map(int, arguments)), flush=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker shows it
            print(f"error {name}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
