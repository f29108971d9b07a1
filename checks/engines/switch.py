"""Takes kvtier's connector out of a vLLM of this process for a while. Its cost is measured in turns within one process: two processes
with equal work differ by more than the cost."""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 3
"""of one kind, one behind the other"""


def by_turns(modes: Sequence[str], groups: int, become: Callable[[str], None], once: Callable[[], float]) -> dict[str, list[float]]:
    """The measurements of `once` in each mode: groups of rounds, in turns.

    The first round of a group does not count: blocks of the mode before it are still being stored.
    """
    found: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(groups):
        for mode in modes:
            become(mode)
            found[mode] += [once() for _ in range(ROUNDS)][1:]
    return found


def share(without: Sequence[float], rounds: Sequence[float]) -> tuple[float, float]:
    """The throughput, of that without the connector: by the faster half of the rounds, as what else a machine does only slows
    them down, and by their medians."""
    half = len(without) // 2
    return (
        sum(sorted(without)[:half]) / sum(sorted(rounds)[:half]),
        statistics.median(without) / statistics.median(rounds),
    )


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
        # One that serves nothing, as where there are no workers to serve.
        self._bare = copy.copy(self._of_worker)
        self._bare._worker = None

    @property
    def connectors(self) -> tuple[Any, Any]:
        """The connectors that vLLM has made: of its scheduler, and of its worker."""
        return self._of_scheduler, self._of_worker

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
        self._use(*((self._of_scheduler, self._of_worker) if connected else (None, None)))

    def connect_bare(self) -> None:
        """With a connector that does nothing: what vLLM itself does for any."""
        self._use(self._bare, self._bare)

    def _use(self, of_scheduler: Any, of_worker: Any) -> None:
        # Nobody but the connector knows which blocks are still being stored.
        while self.worker._stores:
            self.worker._collect_stores()
            time.sleep(0.001)
        # And which it would still read in its next step: by then they are others'.
        self.scheduler._late.clear()
        self.worker._late.clear()
        # The messages of the last step are discarded.
        self.worker.take_stores_ended()
        self.scheduler._stores_under_way = 0
        self._engine_scheduler.connector = of_scheduler
        self._state._KV_CONNECTOR_AGENT = of_worker
        if self._of_runner is not None:
            if of_worker is not None:
                self._of_runner.kv_connector = of_worker
            self._of_runner.set_disabled(of_worker is None)
