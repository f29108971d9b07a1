"""The class that vLLM makes: once in the scheduler's process and once in each worker's."""

import importlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)

from kvtier._connection import namespace_properties
from kvtier._errors import KvtierError, NamespaceMismatch, Unavailable
from kvtier._polled import Polled
from kvtier._types import Leases
from kvtier.client import Client
from kvtier.engine.groups import ALL, LAST, Group, is_plain, leading
from kvtier.engine.identity import Named, refuse
from kvtier.engine.pools import Pools
from kvtier.engine.sharing import Sharing
from kvtier.engine.tensors import Tensors, cross_layer_tensors, tensors_of
from kvtier.torch import Region, SharedEvent
from kvtier.vllm import _engine, _groups, _namespace, _saves, _shards, _versions
from kvtier.vllm._layers import Layers
from kvtier.vllm._metrics import KvtierPromMetrics, KvtierStats
from kvtier.vllm._roles import Roles
from kvtier.vllm._scheduler import Scheduler
from kvtier.vllm._settings import Settings
from kvtier.vllm._shards import Joint
from kvtier.vllm._steps import Plan, Shard
from kvtier.vllm._weights import Memory
from kvtier.vllm._worker import Worker

_log = logging.getLogger("vllm.kvtier")

_RING_BYTES = 1 << 20
_START_TIMEOUT_S = 2.0
_HOLD_TIMEOUT_S = 0.05
_NOT_TOLD_APART = "the layers of the engine's KV cache are not told apart"
_NOT_USED = "kvtier is not used, and this engine neither loads nor stores blocks: %s"

if _versions.refusal(vllm.__version__):
    raise ImportError(_versions.refusal(vllm.__version__))
if _versions.warning(vllm.__version__):
    _log.warning("%s", _versions.warning(vllm.__version__))


@dataclass
class KvtierMetadata(KVConnectorMetadata):
    """One step's plan, on its way to the workers."""

    plan: Plan = field(default_factory=Plan)


@dataclass
class KvtierWorkerMetadata(KVConnectorWorkerMetadata):
    """How many stores have ended, in all ranks together, which step of the engine, and which weights they have."""

    stores_ended: int = 0
    step: int = 0
    """0: none in which anything was computed"""
    question: int = 0
    """what was asked of their weights; 0: nothing"""
    weights: dict[tuple[int, int], str] = field(default_factory=dict)
    """by rank, the answers"""

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        assert isinstance(other, KvtierWorkerMetadata)
        stores, step = self.stores_ended + other.stores_ended, max(self.step, other.step)
        question = max(self.question, other.question)
        weights = {rank: one for told in (self, other) if told.question == question for rank, one in told.weights.items()}
        return KvtierWorkerMetadata(stores, step, question, weights)


@dataclass
class KvtierShard(KVConnectorHandshakeMetadata):
    """A worker's namespaces, one of each group, on their way to the scheduler."""

    shards: list[Shard]


class KvtierConnector(KVConnectorBase_V1, SupportsHMA):
    """Keeps the KV blocks of an engine in kvtier, and loads what any engine with the same configuration kept.

    Whatever is wrong with the daemon, the engine serves: it then computes everything itself. Only a configuration that
    contradicts another engine's in the same namespace keeps it from starting.
    """

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self._settings = Settings.of(transfer.kv_connector_extra_config or {})
        self._scheduler: Scheduler | None = None
        self._worker: Worker | None = None
        self._handled: BaseException | None = None
        """the exception that was being handled already when the step began"""
        self._client: Client | None = None
        self._mine: list[Shard] = []
        self._is_joint = False
        self._pools: Pools | None = None
        self._place = (0, 0)
        self._numbers: list[dict[str, int]] = []
        """by group, of each layer's name the number in its region"""
        self._part_bytes: list[int] = []
        """by group, of a block that this rank has"""
        self._off = _engine.unserved(vllm_config, kv_cache_config)
        self._roles = Roles.of(transfer)
        if role == KVConnectorRole.SCHEDULER:
            if self._off:
                _log.warning(_NOT_USED, self._off)
            transfer.kv_load_failure_policy = self._settings.load_failure
            transfer.kv_role = self._roles.for_engine
            self._block_tokens = _engine.block_tokens(vllm_config, kv_cache_config)
            self._pool: Any = None

    @property
    def prefer_cross_layer_blocks(self) -> bool:
        # On a GPU large runs copy faster; in memory it makes no difference.
        return self._settings.cross_layer_blocks and _engine.on_gpu()

    @property
    def _shares(self) -> bool:
        """Whether engines on other GPUs get blocks from this one's memory."""
        choice = self._settings.share
        return _engine.on_gpu() and (choice == "on" or (choice == "auto" and _engine.is_data_parallel(self._vllm_config)))

    @property
    def requires_kv_delivery(self) -> bool:
        # A block that was not kept is computed again, one day.
        return False

    # ---- a worker ----

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        blocks = int(self._kv_cache_config.num_blocks)
        groups = self._kv_cache_config.kv_cache_groups

        def tensors() -> list[Tensors]:
            of_groups = [kv_caches]
            if len(groups) > 1:
                # A layer that shares another's cache is in that one's group, or in none.
                of_groups = [{name: kv_caches[name] for name in group.layer_names if name in kv_caches} for group in groups]
            return [tensors_of(some, blocks, self._block_axis, self._letters) for some in of_groups]

        self._register(tensors)

    def register_cross_layers_kv_cache(self, kv_cache: Any, attn_backend: Any) -> None:
        blocks = int(self._kv_cache_config.num_blocks)
        letters = _shards.letters_of_all_layers(self._vllm_config, attn_backend, kv_cache)
        layers = enumerate(self._kv_cache_config.kv_cache_tensors)
        numbers = {name: number for number, layer in layers for name in layer.shared_by}
        self._register(lambda: [cross_layer_tensors(kv_cache, blocks, letters, numbers)])

    def _register(self, make: Callable[[], list[Tensors]]) -> None:
        memory = Memory.of_caller()
        self._place = _engine.rank()
        if not self._off:
            try:
                self._open(make(), memory)
            except NamespaceMismatch as error:
                refuse(error, self._settings.mismatch, _namespace.TEXTS, _log)
            except KvtierError as error:
                _log.warning(_NOT_USED, error)
        if self._pools is not None and len(self._pools) < len(self._mine):
            self._pools.close()
            self._pools = None
        if self._pools is None:
            self._mine = []
        regions = [] if self._pools is None else self._pools.regions
        event = _device_event if regions and _engine.on_gpu() else _no_event
        rules = _groups.rules_of(self._kv_cache_config)
        sharing = None
        if regions and self._shares:
            # A state is written in its place.
            shared = [None if rule == LAST else region for rule, region in zip(rules, regions, strict=True)]
            sharing = Sharing(shared, _engine.data_parallel_rank(self._vllm_config))
        # Blocks of other ranks come and go with the first one's: routers hear of a block once. A joint block has one annotation.
        annotates = self._is_joint or self._place == (0, 0)
        has_one_group = is_plain(rules)
        # With stages of a pipeline a step without requests of its own is no sign that the engine is idle.
        cut = _saves.GPU_CUT if _engine.on_gpu() else _saves.HOST_CUT
        promises = has_one_group and int(self._vllm_config.parallel_config.pipeline_parallel_size) == 1
        self._worker = Worker(
            regions, self._settings, [one.writes for one in self._mine], annotates, event,
            self._hold if regions and promises else None, memory.digest, has_one_group, sharing, self._layers(regions, promises),
            self._layer_pools(regions, cut), cut,
        )  # fmt: skip

    def _layers(self, regions: Sequence[Region], promises: bool) -> Layers | None:
        """The layers that loads may bring one by one; None: they bring blocks whole."""
        choice = self._settings.load_by_layer
        if choice == "off" or not regions or (choice == "auto" and not _engine.on_gpu()):
            return None
        if not promises:
            problem = "the model has several kinds of KV cache, or the engine has pipeline parallelism"
        elif not self._are_told_apart(0, regions[0]):
            problem = _NOT_TOLD_APART
        else:
            return Layers(self._numbers[0], verifies=not _engine.on_gpu())
        _log.warning("kvtier.load_by_layer is not used: %s", problem)
        return None

    def _are_told_apart(self, group: int, region: Region) -> bool:
        """Whether the number of each layer of a group is known."""
        return region.layers > 1 and len(set(self._numbers[group].values())) == region.layers

    def _layer_pools(self, regions: Sequence[Region], cut: _saves.Cut) -> list[_saves.Pool | None]:
        """Of each group, how its layers are stored apart; None: its blocks are stored whole."""
        choice = self._settings.store_by_layer
        if choice == "off" or not regions or (choice == "auto" and not _engine.on_gpu()):
            return []
        pools: list[_saves.Pool | None] = []
        for group, region in enumerate(regions):
            pool = _saves.Pool(self._numbers[group], region.layers, self._part_bytes[group])
            problem = ""
            if getattr(self._vllm_config, "speculative_config", None) is not None:
                problem = "the engine computes the layers of a draft model several times within a step"
            elif not self._are_told_apart(group, region):
                problem = _NOT_TOLD_APART
            elif not region.puts_layers:
                problem = "the layers' tensors have several shapes, or lie in host memory and are encoded or of an unknown order"
            elif not region.takes_events:
                problem = "the daemon can't open this process's CUDA events, so the engine's thread would wait for the GPU within each step"
            elif pool.part_bytes < 2 * cut.part_bytes:
                problem = f"this rank has {pool.part_bytes} bytes of a block; expected {2 * cut.part_bytes} or more"
            if problem:
                _log.warning("kvtier.store_by_layer is not used for the blocks of group %d: %s", group, problem)
            pools.append(None if problem else pool)
        return pools

    def _open(self, of_groups: Sequence[Tensors], memory: Memory) -> None:
        """Registers the tensors of each group."""
        self._numbers = [tensors.numbers for tensors in of_groups]
        self._part_bytes = [_part_bytes(tensors) for tensors in of_groups]
        loaded = memory.digest()
        parts = [self._part_of(tensors, loaded) for tensors in of_groups]
        self._tell_of_raw(parts)
        self._is_joint = parts[leading(_groups.rules_of(self._kv_cache_config))] is not None
        self._mine = [
            self._make_shard(number, tensors, part, loaded) for number, (tensors, part) in enumerate(zip(of_groups, parts, strict=True))
        ]
        # The scheduler's side tells of a daemon that is not there.
        client = self._client = Client(
            self._settings.socket or None, name=f"vllm {self._mine[0].name}", timeout=_START_TIMEOUT_S, log_level=logging.DEBUG
        )
        self._pools = Pools(client)
        groups = self._kv_cache_config.kv_cache_groups
        for shard, tensors, part, group in zip(self._mine, of_groups, parts, groups, strict=True):
            self._pools.add(
                Named(shard.name, shard.properties), tensors.tensors, name=f"group {len(self._pools)}", block_tokens=int(group.kv_cache_spec.block_size),
                block_bytes=shard.block_bytes, block_axes=tensors.block_axes, shard=None if part is None else part.shard,
            )  # fmt: skip

    def _hold(self, keys: Sequence[bytes], timeout_s: float) -> Leases:
        assert self._pools is not None
        return self._pools.hold(keys, min(timeout_s, _HOLD_TIMEOUT_S), self._settings.load_timeout_s)

    def _part_of(self, tensors: Tensors, loaded: str) -> Joint | None:
        """This rank's part of the blocks of a group; None: its ranks have blocks of their own."""
        return _shards.joint_of(
            self._vllm_config, tensors.tensors, tensors.letters, self._place, _engine.on_gpu(), loaded, os.urandom(16).hex(), _engine.gathered,
            self._settings.encoding,
        )  # fmt: skip

    def _tell_of_raw(self, parts: Sequence[Joint | None]) -> None:
        """Logs, once for an engine, why blocks are stored raw although the settings ask for an encoding."""
        if self._settings.encoding == "none" or self._place != (0, 0):
            return
        unknown = "it is not known which axes of the KV cache count heads and tokens"
        for number, part in enumerate(parts):
            problem = unknown if part is None else part.encoded.problem
            if problem:
                _log.warning("kvtier.encoding is not used for the blocks of group %d, which are stored raw: %s", number, problem)

    def _make_shard(self, number: int, tensors: Tensors, part: Joint | None, loaded: str) -> Shard:
        group = _namespace.pool_of(self._kv_cache_config.kv_cache_groups, number)
        engine = str(self._kv_transfer_config.engine_id)
        if part is not None:
            dtype = str(tensors.tensors[0].dtype).removeprefix("torch.")
            layout = f"{dtype} {_shards.attention(_engine.attention(self._vllm_config))}".rstrip()
            shard = _namespace.joint(
                self._vllm_config, self._settings, layout, part, engine, _engine.has_fixed_seed(), self._place == (0, 0), group
            )
            return replace(shard, weights=loaded)
        layout = f"{tensors.layout} {_engine.attention(self._vllm_config)}".rstrip()
        # Ranks with the same bytes share a namespace, and go by the weights of the first one.
        shared, alone = _engine.of_first_rank((loaded, os.urandom(16).hex())) if _engine.is_replicated(self._vllm_config) else (loaded, "")
        shard = _namespace.shard_of(
            self._vllm_config, self._settings, layout, self._part_bytes[number], self._place, engine, _engine.has_fixed_seed(), shared,
            alone or os.urandom(16).hex(), group,
        )  # fmt: skip
        return replace(shard, weights=loaded)

    def _letters(self, name: str, tensor: Any) -> str:
        return _shards.letters_of(self._vllm_config, name, tensor)

    def _block_axis(self, name: str, tensor: Any) -> int | None:
        """As the layer's attention backend has it."""
        unlikely = 1234567
        try:
            layer = self._vllm_config.compilation_config.static_forward_context[name]
            shape = tuple(layer.get_attn_backend().get_kv_cache_shape(unlikely, 16, 1, 64))
        except Exception:
            return None
        return shape.index(unlikely) if unlikely in shape and len(shape) == len(tensor.shape) else None

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        return KvtierShard(self._mine) if self._mine else None

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        if self._worker is not None and isinstance(kv_connector_metadata, KvtierMetadata):
            self._worker.before_step(kv_connector_metadata.plan)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if self._worker is not None:
            self._worker.start_loads(self._plan())

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        self._handled = sys.exc_info()[1]
        # vLLM calls this just before a forward pass, when it is known how that will run.
        if self._worker is not None and isinstance(connector_metadata, KvtierMetadata):
            self._worker.begin_forward(connector_metadata.plan, _engine.asks_for_layers)

    def has_connector_metadata(self) -> bool:
        # vLLM asks before it calls the next two, for each layer of each step. In most steps nothing goes by layer.
        return self._worker is not None and self._worker.is_asked_for_layers

    def wait_for_layer_load(self, layer_name: str) -> None:
        if self._worker is not None:
            self._worker.wait_layer(layer_name)

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        if self._worker is not None:
            self._worker.layer_computed(layer_name)

    def wait_for_save(self) -> None:
        if self._worker is None:
            return
        if sys.exc_info()[1] is self._handled:
            self._worker.start_stores(self._plan())
        else:
            # vLLM's first model runner calls this when the forward pass has raised an error, too.
            self._worker.stop_storing()

    def _plan(self) -> Plan:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, KvtierMetadata)
        return metadata.plan

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        if self._worker is None:
            return None, None
        return None, self._worker.finished(self._plan().idle) or None

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        results = super().get_transfer_results(finished_req_ids)
        if self._worker is not None:
            results.failed_recving = self._worker.take_failed()
        return results

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.take_invalid() if self._worker is not None else set()

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        if self._worker is None:
            return None
        plan = self._plan()
        told = KvtierWorkerMetadata(self._worker.take_stores_ended(), 0 if plan.idle else plan.step)
        if plan.weigh:
            told.question, told.weights = plan.weigh, {self._place: self._worker.weights}
        return told if told.stores_ended or told.step or told.question else None

    # ---- the scheduler ----

    def set_xfer_handshake_metadata_pp_aware(self, metadata: dict[tuple[int, int], KVConnectorHandshakeMetadata]) -> None:
        shards = {rank: one.shards for rank, one in metadata.items() if isinstance(one, KvtierShard)}
        parallel = self._vllm_config.parallel_config
        expected = int(parallel.pipeline_parallel_size) * int(parallel.tensor_parallel_size)
        if len(shards) != expected:
            if not self._off:
                self._off = f"{len(shards)} of {expected} workers can use it; the logs of the other workers say why"
                _log.warning(_NOT_USED, self._off)
            return
        self._start(shards)

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        self._pool = gpu_block_pool
        if self._scheduler is not None:
            self._scheduler.watch(gpu_block_pool)

    def _start(self, by_rank: dict[tuple[int, int], list[Shard]]) -> None:
        shards = [one for of_rank in by_rank.values() for one in of_rank]
        for advice in {one.advice for one in shards if one.advice}:
            _log.warning("kvtier: %s", advice)
        algorithm = str(self._vllm_config.cache_config.prefix_caching_hash_algo)
        if _namespace.hash_seed(algorithm, _engine.has_fixed_seed()) is None:
            _log.warning("kvtier: %s", _namespace.seed_warning(algorithm))
        polled = Polled(self._settings.socket or None, "vllm scheduler", _RING_BYTES)
        try:
            polled.connection.open_within(_START_TIMEOUT_S)
        except Unavailable as error:
            polled.connection.warn(error)
        groups = [self._group(number, list(some)) for number, some in enumerate(zip(*by_rank.values(), strict=True))]
        self._scheduler = Scheduler(
            polled, groups, self._settings, self._block_tokens, _engine.extra_keys,
            {rank: some[0].weights for rank, some in by_rank.items()}, self._shares, self._roles.continues,
        )  # fmt: skip
        if self._pool is not None:
            self._scheduler.watch(self._pool)
        names = sorted({one.name for one in shards})
        _log.info("kvtier is used: blocks of %d tokens, namespace %s", self._block_tokens, ", ".join(names))

    def _group(self, number: int, shards: Sequence[Shard]) -> Group:
        """What the scheduler's side knows of a group, of which these are the ranks' parts."""
        spec = self._kv_cache_config.kv_cache_groups[number].kv_cache_spec
        rule = _groups.rule_of(spec) or ALL
        tokens = int(spec.block_size)
        distinct = {one.name: namespace_properties(one.name, one.block_bytes, dict(one.properties)) for one in shards}
        hashes = tokens // _engine.hash_tokens(self._vllm_config, self._kv_cache_config)
        return Group(number, tokens, hashes, rule, rule == LAST, list(distinct.values()), sum(one.writes for one in shards))

    def on_new_request(self, request: Any) -> None:
        if self._scheduler is not None and not getattr(request, "skip_reading_prefix_cache", False):
            self._scheduler.arrived(request)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        if self._scheduler is None:
            return 0, False
        if getattr(request, "skip_reading_prefix_cache", False):
            self._scheduler.had(request, num_computed_tokens)
            return 0, False
        matched = self._scheduler.matched(request, num_computed_tokens)
        return matched, bool(matched)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if self._scheduler is not None:
            self._scheduler.allocated(request, blocks.get_block_ids(), num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        if self._scheduler is None:
            return KvtierMetadata()
        return KvtierMetadata(self._scheduler.plan(scheduler_output))

    def update_connector_output(self, connector_output: Any) -> None:
        if self._scheduler is None:
            return
        invalid = getattr(connector_output, "invalid_block_ids", None) or ()
        failed = getattr(connector_output, "failed_recving", None) or ()
        self._scheduler.loaded(list(connector_output.finished_recving or ()), invalid, failed)
        told = connector_output.kv_connector_worker_meta
        if isinstance(told, KvtierWorkerMetadata):
            self._scheduler.stores_ended(told.stores_ended)
            if told.step:
                self._scheduler.step_ended(told.step)
            if told.question:
                self._scheduler.weighed(told.question, told.weights)

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(self, request: Any, block_ids: tuple[list[int], ...]) -> tuple[bool, dict[str, Any] | None]:
        # The blocks may be free at once: who writes to them first waits for what is stored from them (flush).
        if self._scheduler is None:
            return False, None
        tokens = self._scheduler.finished(request, block_ids)
        return False, self._roles.answer(tokens, self._settings.put_timeout_s, self._scheduler.node) if tokens else None

    def reset_cache(self) -> bool | None:
        return None if self._scheduler is None else self._scheduler.reset()

    # ---- both ----

    def get_kv_connector_stats(self) -> Any:
        observed = self._observed()
        if not observed:
            return None
        stats = KvtierStats(data=dict(observed))
        observed.clear()
        return stats

    def _observed(self) -> Counter[str]:
        side: Scheduler | Worker | None = self._scheduler if self._scheduler is not None else self._worker
        return Counter() if side is None else side.observed

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> Any:
        return KvtierStats(data=dict(data or {}))

    @classmethod
    def build_prom_metrics(
        cls, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any
    ) -> Any:
        return KvtierPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def take_events(self) -> Iterable[Any]:
        return ()

    def shutdown(self) -> None:
        if self._worker is not None:
            self._worker.close()
        if self._scheduler is not None:
            self._scheduler.close()
        if self._client is not None:
            self._client.close()


def _part_bytes(tensors: Tensors) -> int:
    """The bytes of a block in one rank's tensors."""
    return sum(
        tensor.select(axis, 0).numel() * tensor.element_size() for tensor, axis in zip(tensors.tensors, tensors.block_axes, strict=True)
    )


def _no_event() -> None:
    return None


def _device_event() -> Any:
    torch = importlib.import_module("torch")
    event = torch.cuda.Event()
    event.record()
    return SharedEvent(event)
