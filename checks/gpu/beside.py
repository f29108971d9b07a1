"""Copies beside an engine that computes: how much it slows down while blocks are put and got, raw and encoded, and how fast these are."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kvtier import Client, Status
from kvtier.device import Copying, DeviceRegion

from checks.gpu.strategies import by_strategy, copied_bytes

if TYPE_CHECKING:
    from checks.gpu.daemon import Check

WAYS = {"put": "o", "get": "i", "both": "oi"}
AHEAD = 3
"""operations that are under way each way"""
_BETWEEN_S = 0.02


class Flood:
    """Puts of new blocks, gets of blocks that stay, or both, one behind the other in a thread of its own."""

    def __init__(self, region: DeviceRegion, ways: str, size: int, stay: list[bytes], seed: int) -> None:
        """`size`: blocks of an operation; `stay`: keys of the blocks that are got, a multiple of it; `seed`: tells the puts of this flood
        from others'. The lower half of the region is read, and the upper half written to."""
        self._region, self._ways, self._size, self._stay = region, ways, size, stay
        self._seed = seed << 32
        self._blocks = 0
        self._is_over = threading.Event()
        self._failed: BaseException | None = None
        self._begun_s = time.perf_counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> float:
        """Ends it; raw bytes a second."""
        self._is_over.set()
        self._thread.join()
        seconds = time.perf_counter() - self._begun_s
        if self._failed is not None:
            raise self._failed
        return self._blocks * self._region.block_bytes / seconds

    def _run(self) -> None:
        try:
            waiting: list[tuple[str, Copying]] = []
            number = 0
            while True:
                for way in self._ways:
                    while not self._is_over.is_set() and sum(1 for one, _ in waiting if one == way) < AHEAD:
                        number += 1
                        waiting.append((way, self._begin(way, number)))
                if not waiting:
                    return
                for entry in [one for one in waiting if one[1].done()] or waiting[:1]:
                    statuses = entry[1].wait()
                    if any(status is not Status.OK for status in statuses):
                        raise RuntimeError(f"{entry[0]}: {sorted({status.name for status in statuses})}")
                    waiting.remove(entry)
                    self._blocks += self._size
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self._failed = error

    def _begin(self, way: str, number: int) -> Copying:
        at = number * self._size % len(self._stay)
        if way == "o":
            keys = [(self._seed + number * self._size + block).to_bytes(16, "little") for block in range(self._size)]
            return self._region.put(keys, range(at, at + self._size))
        places = range(len(self._stay) + at, len(self._stay) + at + self._size)
        return self._region.get(self._stay[at : at + self._size], places)


def measure(check: Check, name: str, client: Client, region: DeviceRegion, stay: list[bytes], size: int, loops: Mapping[str, Callable[[], float]]) -> None:
    """Writes the rows of one region.

    Args:
        name: comes last in the names of the rows.
        client: the region's.
        stay: keys of the region's first blocks, which are stored, and stay so; the region has twice as many blocks.
        size: blocks of an operation.
        loops: by name; each runs for a while, and says how many milliseconds a pass took.
    """
    seed = 0

    def begin(ways: str) -> Flood:
        nonlocal seed
        seed += 1
        made = Flood(region, ways, size, stay, seed)
        time.sleep(_BETWEEN_S)
        return made

    for way, ways in WAYS.items():
        copied = copied_bytes(client)
        flood = begin(ways)
        time.sleep(0.1 if check.quick else 0.5)
        check.row(f"speed_alone_{way}_{name}", flood.end() / 1e9, "GB/s")
        print(f"alone {way} {name}: {by_strategy(copied, copied_bytes(client))}", flush=True)
        for loop_name, run in loops.items():
            copied = copied_bytes(client)
            quiet, busy, rates = [run()], [], []
            for _ in range(2):
                flood = begin(ways)
                busy.append(run())
                rates.append(flood.end() / 1e9)
                quiet.append(run())
            slower = (statistics.median(busy) / statistics.median(quiet) - 1) * 100
            check.row(f"slowdown_of_{loop_name}_{way}_{name}", slower, "%")
            check.row(f"speed_beside_{loop_name}_{way}_{name}", statistics.median(rates), "GB/s")
            print(f"beside {loop_name} {way} {name}: {by_strategy(copied, copied_bytes(client))}", flush=True)
