"""Takes kvtier's connector out of a vLLM of this process for a while: what it costs is then told by turns within one process, as
two processes that do the same differ by more than that."""

import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 3
"""of one kind, one behind the other"""


def by_turns(modes: Sequence[str], groups: int, become: Callable[[str], None], once: Callable[[], float]) -> dict[str, list[float]]:
    """What `once` measured in each mode: groups of rounds, in turns. The first of a group does not count: what the mode before
    it has left is still being stored."""
    found: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(groups):
        for mode in modes:
            become(mode)
            found[mode] += [once() for _ in range(ROUNDS)][1:]
    return found


class Switch:
    def __init__(self, llm: Any) -> None:
        """`llm` has its engine core in this process (VLLM_ENABLE_V1_MULTIPROCESSING=0), and one worker."""
        from vllm.distributed.kv_transfer import get_kv_transfer_group, kv_transfer_state

        core = llm.llm_engine.engine_core.engine_core
        self._engine_scheduler = core.scheduler
        self._of_scheduler = core.scheduler.connector
        self._state = kv_transfer_state
        self._of_worker = get_kv_transfer_group()
        # vLLM's newer model runner has a switch of its own.
        self._of_runner = getattr(core.model_executor.driver_worker.worker.model_runner, "kv_connector", None)
        if self._of_scheduler._scheduler is None:
            raise SystemExit("kvtier is not used: the engine's log says why")

    @property
    def scheduler(self) -> Any:
        """The connector's side that plans."""
        return self._of_scheduler._scheduler

    @property
    def worker(self) -> Any:
        """The connector's side that copies."""
        return self._of_worker._worker

    def connect(self, connected: bool) -> None:
        """With it, or as a vLLM that was started without; no request may be under way."""
        # Nobody but the connector knows which blocks are still being stored.
        while self.worker._stores:
            self.worker._collect_stores()
            time.sleep(0.001)
        self._engine_scheduler.connector = self._of_scheduler if connected else None
        self._state._KV_CONNECTOR_AGENT = self._of_worker if connected else None
        if self._of_runner is not None:
            self._of_runner.set_disabled(not connected)
