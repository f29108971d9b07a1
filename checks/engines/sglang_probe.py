"""kvtier's linker in a real SGLang, with a probe: it kills the daemon at a chosen point of a load, or times lookups.

Runs in the engine's process. The folder that the environment names says what is to be done, once: the file ``kill`` has a point and the
daemon's process, and the file ``time`` asks for lookups, whose times are written to ``times``.
"""

import json
import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.engines.sglang_points import AFTER_COPIES_BEGAN_S, FOLDER, LOOKUPS, WARM
from kvtier.sglang.linker import KvtierLinker


def _timed(call: Callable[[], Any]) -> list[float]:
    taken = []
    for _ in range(LOOKUPS):
        begun_ns = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - begun_ns) / 1000)
    return taken


def _count(rounds: int) -> None:
    for _ in range(rounds):
        pass


class ProbedLinker(KvtierLinker):
    """Does what the linker does, and looks at each point whether it is to do more."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._folder = Path(os.environ[FOLDER])
        super().__init__(*arguments, **more)
        wait = self.layer_done_counter.wait_until

        def wait_until(threshold: int) -> None:
            if self.layer_done_counter.consumer_index >= 0 and threshold == 0:
                self._reach("before the forward pass waits")
            wait(threshold)
            if self.layer_done_counter.consumer_index >= 0 and threshold == 0:
                self._reach("after the forward pass waited")

        self.layer_done_counter.wait_until = wait_until  # type: ignore[method-assign]

    def _reach(self, point: str) -> None:
        path = self._folder / "kill"
        try:
            told = json.loads(path.read_text())
            if told["point"] == point:
                # Of several ranks the first one does it.
                path.unlink()
                os.kill(told["process"], signal.SIGKILL)
        except FileNotFoundError:
            return

    def lookup(self, rid: str, transfers: list[Any]) -> list[int]:
        self._reach("before the lookup")
        found = super().lookup(rid, transfers)
        self._reach("after the lookup")
        if found and (self._folder / "time").exists():
            (self._folder / "time").unlink()
            for _ in range(WARM):
                # A daemon that has served as many compiles no more code meanwhile.
                super().lookup(rid, transfers)
            (self._folder / "times").write_text(json.dumps({"pages": len(found)} | self._times(rid, transfers)))
        return found

    def _times(self, rid: str, transfers: list[Any]) -> dict[str, list[float]]:
        """Of lookups; of what a lookup consists of, each alone: calls to the daemon, and Python that calls nobody; in microseconds."""
        client = self._pages.client
        assert client is not None
        lookups = _timed(lambda: super(ProbedLinker, self).lookup(rid, transfers))
        pings = _timed(client.ping)
        rounds = 1000
        own = _timed(lambda: _count(rounds))
        rounds = round(rounds * statistics.median(lookups) / statistics.median(own))
        return {"us": lookups, "ping_us": pings, "own_us": _timed(lambda: _count(rounds))}

    def load(self, rid: str, transfers: list[Any]) -> bool:
        self._reach("before the pages are leased")
        announced = super().load(rid, transfers)
        self._reach("after the load is announced")
        return announced

    def _leased(self, rid: str, transfer: Any) -> Any:
        leased = super()._leased(rid, transfer)
        self._reach("after the pages are leased")
        return leased

    def start_layer_wise_loading(self) -> int:
        has_any = bool(self._queued)
        if has_any:
            self._reach("before the batch begins")
        index = super().start_layer_wise_loading()
        if has_any:
            self._reach("after the batch began")
        return index

    def _begin(self, *given: Any) -> Any:
        self._reach("before the copies begin")
        loads = super()._begin(*given)
        begun = time.perf_counter()
        for point, after_s in AFTER_COPIES_BEGAN_S.items():
            if (self._folder / "kill").exists():
                while time.perf_counter() < begun + after_s:
                    pass
                self._reach(point)
        return loads

    def finish_layer_wise_loading(self, counter_index: int) -> bool:
        if counter_index >= 0:
            self._reach("before the batch is finished")
        result = super().finish_layer_wise_loading(counter_index)
        if counter_index >= 0:
            self._reach("after the batch is finished")
        return result

    def offload(self, transfers: list[Any], session_id: str | None = None) -> bool:
        self._reach("before the pages are stored")
        return super().offload(transfers, session_id)
