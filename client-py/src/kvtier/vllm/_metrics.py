"""What the connector tells through vLLM's own metrics: counts of what happened, added up over ranks and time."""

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

COUNTERS = {
    "lookups": "Prompts looked up.",
    "lookups_again": "Times that the scheduler asked again, because there was no answer yet.",
    "lookups_late": "Lookups that the daemon did not answer in time.",
    "lookup_us": "Time from a prompt's lookup to its answer, microseconds.",
    "expected_prompts": "Prompts that waited for blocks which another engine was to store.",
    "expected_us": "Time that these prompts waited for these blocks, microseconds.",
    "expected_late": "Of these prompts, those whose blocks were not all there in time, so that the engine computed the missing ones.",
    "expected_gets": "Of these prompts, those whose blocks the daemon got from the node that a request named, while they were computed.",
    "expected_got": "Of these prompts, those whose blocks all came this way.",
    "hit_blocks": "Blocks that were found and that the engine asked to load.",
    "declined_blocks": "Blocks that were found, but are computed because that is faster.",
    "loads": "Loads that ended.",
    "load_us": "Time from the start of a load until the engine saw its end, microseconds.",
    "loaded_blocks": "Blocks loaded.",
    "saved_tokens": "Tokens that were loaded and not computed.",
    "saved_prefill_us": "Time that computing these tokens would have taken, at the measured speed of this engine, microseconds.",
    "load_failed_blocks": "Blocks that could not be loaded and were computed.",
    "written_blocks": "Blocks that a worker read from the daemon's memory itself, because the daemon did not finish their load.",
    "promise_us": "Time that the engine waited, just before it computed a step, for the last blocks of loads, microseconds.",
    "loads_by_layer": "Loads whose first layers the engine computed while blocks of the others came.",
    "layer_wait_us": "Time that the engine waited for layers of these loads, within steps, microseconds.",
    "stores": "Stores that ended.",
    "stores_by_layer": "Stores whose first layers were copied while the engine computed the others.",
    "store_us": "Time from the start of a store until the engine saw its end, microseconds.",
    "stored_blocks": "Blocks stored.",
    "known_blocks": "Blocks that were offered and that the daemon had already.",
    "refused_blocks": "Blocks that were not stored: no space, no daemon, a drained daemon, or an error.",
    "flushes": "Stores that the engine waited for before it reused their blocks.",
    "flush_us": "Time that the engine waited for stores before it reused their blocks, microseconds.",
    "advertised_blocks": "Blocks that other engines could get from this one's GPU memory, from GPU to GPU.",
    "revoked_blocks": "Of these, blocks that were taken back because the engine needed their places.",
    "revoke_us": "Time that the engine waited until nobody read these blocks any more, microseconds.",
    "epochs": "Times that the weights of the engine were found to be changed.",
    "weighings": "Times that a worker read its weights after a reset.",
    "weighing_us": "Time that the engine waited while workers read their weights after resets, microseconds; the start is not included.",
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
