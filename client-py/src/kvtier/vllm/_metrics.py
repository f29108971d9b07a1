"""What the connector tells through vLLM's own metrics: counts of what happened, added up over ranks and time."""

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

COUNTERS = {
    "lookups": "Prompts looked up.",
    "lookups_again": "Times that the scheduler had to ask again.",
    "lookups_late": "Lookups that the daemon did not answer in time.",
    "lookup_us": "Time from a prompt's lookup to its answer, microseconds.",
    "hit_blocks": "Blocks that were found and are loaded.",
    "declined_blocks": "Blocks that were found, and are sooner computed than loaded.",
    "loads": "Loads that ended.",
    "load_us": "Time from a load's beginning to when the engine saw its end, microseconds.",
    "loaded_blocks": "Blocks loaded.",
    "load_failed_blocks": "Blocks that could not be loaded, and were computed.",
    "written_blocks": "Blocks that the daemon left behind when it went, and that the engine read from its memory.",
    "promise_us": "Time that the engine waited for the last blocks of loads that it had been told of, microseconds.",
    "stores": "Stores that ended.",
    "store_us": "Time from a store's beginning to when the engine saw its end, microseconds.",
    "stored_blocks": "Blocks stored.",
    "known_blocks": "Blocks that were offered and were there already.",
    "refused_blocks": "Blocks that found no room, or no daemon.",
    "flushes": "Stores that the engine waited for, to use their blocks again.",
    "flush_us": "Time that the engine waited for them, microseconds.",
    "epochs": "Times that the engine's weights were found to be others.",
    "weighings": "Times that a worker looked at its weights, after a reset.",
    "weighing_us": "Time that this took, in which the engine waited, microseconds.",
}


class KvtierStats(KVConnectorStats):
    """Counts by name, of the time since the last ones."""

    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for name, count in other.data.items():
            self.data[name] = self.data.get(name, 0) + count
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: count for name, count in self.data.items() if count}

    def is_empty(self) -> bool:
        return not any(self.data.values())


class KvtierPromMetrics(KVConnectorPromMetrics):
    """A Prometheus counter ``vllm:kvtier_NAME`` for each count."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters: dict[str, dict[int, Any]] = {}
        for name, text in COUNTERS.items():
            counter = self._counter_cls(name=f"vllm:kvtier_{name}", documentation=text, labelnames=labelnames)
            self._counters[name] = {
                engine: counter.labels(*values) for engine, values in per_engine_labelvalues.items()
            }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, count in transfer_stats_data.items():
            if name in self._counters and count:
                self._counters[name][engine_idx].inc(count)
