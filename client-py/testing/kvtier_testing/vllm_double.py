"""The parts of vLLM that the connector uses: the package itself where it is installed, otherwise a double of its classes.

And an engine small enough for tests: one scheduler and the workers of all ranks, which call the connector in vLLM's order,
and whose "attention" finds every wrong byte.
"""

import hashlib
import importlib.util
import pickle
import sys
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from kvtier.hashing import block_hashes, none_hash
from kvtier_testing.tensors import Tensor

BLOCK_TOKENS = 4
LAYERS = 3
TOKEN_BYTES = 64
"""of one token in one layer"""


def _install_double() -> None:
    modules: dict[str, types.ModuleType] = {}

    def module(name: str, **members: Any) -> None:
        made = modules[name] = types.ModuleType(name)
        vars(made).update(members)
        made.__path__ = []

    class KVConnectorRole(Enum):
        SCHEDULER = 0
        WORKER = 1

    class KVConnectorBase_V1:  # noqa: N801
        def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
            self._connector_metadata: Any = None
            self._vllm_config = vllm_config
            self._kv_transfer_config = vllm_config.kv_transfer_config
            self._kv_cache_config = kv_cache_config
            self._role = role

        def bind_connector_metadata(self, connector_metadata: Any) -> None:
            self._connector_metadata = connector_metadata

        def clear_connector_metadata(self) -> None:
            self._connector_metadata = None

        def has_connector_metadata(self) -> bool:
            return self._connector_metadata is not None

        def _get_connector_metadata(self) -> Any:
            assert self._connector_metadata is not None
            return self._connector_metadata

        def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
            sent, received = self.get_finished(finished_req_ids)  # type: ignore[attr-defined]
            return SimpleNamespace(finished_sending=set(sent or ()), finished_recving=set(received or ()), failed_recving=set())

    class SupportsHMA:
        pass

    @dataclass
    class KVConnectorStats:
        data: dict[str, Any] = field(default_factory=dict)

    class KVConnectorPromMetrics:
        def __init__(self, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine_labelvalues: Any) -> None:
            self._counter_cls = metric_types["counter"]

    bare = {name: type(name, (), {}) for name in ("KVConnectorHandshakeMetadata", "KVConnectorMetadata", "KVConnectorWorkerMetadata")}
    base = "vllm.distributed.kv_transfer.kv_connector.v1"
    for name in ("vllm.distributed", "vllm.v1", "vllm.v1.core", "vllm.distributed.kv_transfer", "vllm.distributed.kv_transfer.kv_connector", base):
        module(name)
    module("vllm", __version__="0.32.0")
    module(f"{base}.base", KVConnectorBase_V1=KVConnectorBase_V1, KVConnectorRole=KVConnectorRole, SupportsHMA=SupportsHMA, **bare)
    module(f"{base}.metrics", KVConnectorStats=KVConnectorStats, KVConnectorPromMetrics=KVConnectorPromMetrics)

    def extra_keys(request: Any, begin: int, end: int, first: int) -> tuple[Any, int]:
        return (((f"salt:{request.cache_salt}",) if begin == 0 and request.cache_salt else None), first)

    module(
        "vllm.v1.core.kv_cache_utils",
        DEFAULT_NONE_HASH_SEED="vllm-none-hash",
        generate_block_hash_extra_keys=extra_keys,
    )
    module("vllm.platforms", current_platform=SimpleNamespace(is_cuda=lambda: False))
    sys.modules.update(modules)


IS_VLLM = importlib.util.find_spec("vllm") is not None
if not IS_VLLM:
    _install_double()

from kvtier.vllm import _connector, _engine  # noqa: E402

KVConnectorRole = _connector.KVConnectorRole


class Request:
    """A prompt on its way, and what was generated for it."""

    def __init__(self, request_id: str, tokens: Sequence[int], salt: str = "", max_tokens: int = 1000) -> None:
        self.request_id = request_id
        self.tokens = list(tokens)
        self.num_prompt_tokens = len(self.tokens)
        self.max_tokens = max_tokens
        self.num_computed_tokens = 0
        self.skip_reading_prefix_cache = False
        self.lora_request: Any = None
        self.mm_features: list[Any] = []
        self.prompt_embeds: Any = None
        self.cache_salt = salt or None
        self.parent = none_hash("0" + salt)
        self.block_ids: list[int] = []
        self.state = "waiting"
        self.external_tokens = 0
        self.kv_transfer_params: dict[str, Any] | None = None
        self.sampling_params = SimpleNamespace(extra_args=None)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def all_token_ids(self) -> list[int]:
        return self.tokens

    @property
    def block_hashes(self) -> list[bytes]:
        return block_hashes(self.tokens, BLOCK_TOKENS, self.parent)


class FullAttentionSpec(SimpleNamespace):
    """Of a KV cache in which a request keeps its blocks, as vLLM's of this name."""


class SlidingWindowSpec(SimpleNamespace):
    """Of one in which it does not."""


class Blocks:
    def __init__(self, block_ids: list[int]) -> None:
        self._block_ids = block_ids

    def get_block_ids(self) -> tuple[list[int], ...]:
        return (self._block_ids,)


def config(extra: dict[str, Any], **changed: Any) -> Any:
    """A `VllmConfig` with all that the connector looks at."""
    made = SimpleNamespace(
        kv_transfer_config=SimpleNamespace(
            kv_connector_extra_config=extra, kv_load_failure_policy="fail", engine_id="engine-1", is_kv_producer=True
        ),
        model_config=SimpleNamespace(
            model="tiny", revision=None, quantization=None, dtype="torch.float32", seed=0, use_mla=False,
            hf_config=SimpleNamespace(to_dict=lambda: {"hidden_size": 8, "num_hidden_layers": LAYERS}),
        ),
        cache_config=SimpleNamespace(
            prefix_caching_hash_algo="sha256_cbor", cache_dtype="auto", block_size=BLOCK_TOKENS, hash_block_size=None
        ),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1, tensor_parallel_size=1, data_parallel_size=1, data_parallel_rank=0),
        load_config=SimpleNamespace(load_format="auto"),
        compilation_config=SimpleNamespace(static_forward_context={}),
        speculative_config=None, lora_config=None,
    )  # fmt: skip
    for name, value in changed.items():
        part, _, key = name.partition("__")
        setattr(getattr(made, part), key, value)
    return made


class Model:
    """The weights in a worker's memory: what the files in the model's folder make of them, else the same for all."""

    def __init__(self, path: str, part: int) -> None:
        self.array = numpy.zeros(4096, dtype=numpy.uint8)
        self.load(path, part)

    def load(self, path: str, part: int = 0) -> None:
        """As vLLM's ``reload_weights`` has it."""
        files = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
        content = b"".join(one.read_bytes() for one in files if one.is_file())
        self.write(int.from_bytes(hashlib.sha256(content + bytes([part])).digest()[:4], "big"))

    def write(self, seed: int) -> None:
        """As a trainer does it."""
        self.array[:] = numpy.random.default_rng(seed).integers(0, 256, self.array.size, dtype=numpy.uint8)

    def named_parameters(self) -> list[tuple[str, Any]]:
        return [("layers.0.weight", Tensor(self.array[:4000].reshape(40, 100)))]

    def named_buffers(self) -> list[tuple[str, Any]]:
        return [("scales", Tensor(self.array[4000:]))]


class Worker:
    """One rank: its tensors, and the connector's worker side."""

    def __init__(self, made: Any, cache: Any, rank: tuple[int, int], replicated: bool, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.part = 0 if replicated else 100 * rank[0] + rank[1]
        self.model = Model(str(made.model_config.model), self.part)
        self.adapters: dict[int, bytes] = {}
        self.tensors = [
            Tensor(numpy.zeros((blocks, BLOCK_TOKENS, TOKEN_BYTES), dtype=numpy.uint8)) for _ in range(LAYERS)
        ]
        monkeypatch.setattr(_engine, "rank", lambda: rank)
        self.connector = _connector.KvtierConnector(made, KVConnectorRole.WORKER, cache)
        self.connector.register_kv_caches({f"layers.{i}.attn": tensor for i, tensor in enumerate(self.tensors)})

    def get_model(self) -> Model:
        return self.model

    def _adapter(self, lora: Any) -> bytes:
        """Loaded when it is needed first."""
        if lora is None:
            return b""
        if lora.lora_int_id not in self.adapters:
            folder = Path(lora.lora_path)
            self.adapters[lora.lora_int_id] = b"".join(one.read_bytes() for one in sorted(folder.iterdir())) if folder.is_dir() else b""
        return self.adapters[lora.lora_int_id]

    def compute(self, request: Request, begin: int, end: int, layer: int) -> None:
        """Looks at all tokens before, and writes those of this step, in one layer."""
        weights = self.model.array.tobytes() + self._adapter(request.lora_request)
        tensor = self.tensors[layer]
        for position in range(end):
            block, slot = request.block_ids[position // BLOCK_TOKENS], position % BLOCK_TOKENS
            right = value(request, position, layer, self.part) ^ _mask(weights)
            if position >= begin:
                tensor.array[block, slot] = right
            else:
                assert numpy.array_equal(tensor.array[block, slot], right), (
                    f"wrong bytes: request {request.request_id}, token {position}, layer {layer}, part {self.part}"
                )


def value(request: Request, position: int, layer: int, part: int) -> Any:
    """The attention values of a token, without the weights: they depend on all tokens before."""
    prefix = repr((request.parent, request.tokens[: position + 1], layer, part)).encode()
    return numpy.frombuffer(hashlib.blake2b(prefix, digest_size=TOKEN_BYTES).digest(), dtype=numpy.uint8)


def _mask(weights: bytes) -> Any:
    """The part of an attention value that depends on the weights."""
    return numpy.resize(numpy.frombuffer(hashlib.sha256(weights).digest(), dtype=numpy.uint8), TOKEN_BYTES)


class Stepped:
    """An engine that does one step at a time."""

    def step(self) -> None:
        raise NotImplementedError

    def step_until(self, condition: Callable[[], bool], timeout_s: float = 30.0, pause_s: float = 0.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline
            self.step()
            time.sleep(pause_s)


class Engine(Stepped):
    """A scheduler with a few blocks, first come first served, and its workers.

    With `second_runner` as vLLM's newer model runner: loads begin behind a step's forward pass, and a request that comes back
    from preemption is told of as a new one. With `drafts` the last layer is a draft model's: it is computed, and stores begin,
    when the step has told how its transfers stand. Its layers are computed one behind the other, and it asks the connector for each, and
    tells it of each, as `graphs` say: "PIECEWISE" for all but the `silent` ones, "FULL" for none. With `joins` all ranks know their
    parts, and store blocks together.
    """

    def __init__(
        self, made: Any, monkeypatch: pytest.MonkeyPatch, *, ranks: int = 1, pipeline: int = 1, blocks: int = 64,
        step_tokens: int = 1000, second_runner: bool = False, drafts: bool = False, spec: type = FullAttentionSpec,
        graphs: str = "PIECEWISE", silent: Sequence[int] = (), joins: bool = False,
    ) -> None:  # fmt: skip
        made.parallel_config.tensor_parallel_size = ranks
        made.parallel_config.pipeline_parallel_size = pipeline
        self.second_runner = second_runner
        self.drafts = drafts
        self.graphs = graphs
        self.silent = set(silent)
        self.asked: list[str] = []
        """the layers that the connector was asked for"""
        monkeypatch.setattr(_engine, "asks_for_layers", lambda: self.graphs == "PIECEWISE")
        group = SimpleNamespace(kv_cache_spec=spec(block_size=BLOCK_TOKENS, sliding_window=1 << 20))
        cache = SimpleNamespace(num_blocks=blocks, kv_cache_groups=[group])
        self.scheduler = _connector.KvtierConnector(made, KVConnectorRole.SCHEDULER, cache)
        self.pool = SimpleNamespace(cached_block_hash_to_block=object())
        self.scheduler.bind_gpu_block_pool(self.pool)
        firsts: dict[int, Any] = {}
        monkeypatch.setattr(_engine, "gathered", lambda mine: [[mine] * ranks] * pipeline if joins else None)
        monkeypatch.setattr(_engine, "of_first_rank", lambda one: firsts.setdefault(_engine.rank()[0], one))
        places = [(stage, rank) for stage in range(pipeline) for rank in range(ranks)]
        self.workers = [Worker(made, cache, place, made.model_config.use_mla, blocks, monkeypatch) for place in places]
        handshakes = {
            place: pickle.loads(pickle.dumps(worker.connector.get_handshake_metadata()))
            for place, worker in zip(places, self.workers, strict=True)
        }
        self.scheduler.set_xfer_handshake_metadata_pp_aware({rank: one for rank, one in handshakes.items() if one is not None})
        self.free = list(range(blocks))
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.received: dict[str, int] = {}
        self.step_tokens = step_tokens
        self.stats: dict[str, int] = {}
        self.resumed: set[str] = set()
        self.recomputed = 0

    def add(self, request: Request) -> None:
        self.scheduler.on_new_request(request)
        self.waiting.append(request)

    def step(self) -> None:
        """One step of the engine: schedule, load, compute, store."""
        output = self._schedule()
        metadata = self.scheduler.build_connector_meta(output)
        results = [self._work(worker, pickle.loads(pickle.dumps(metadata)), output) for worker in self.workers]
        for request in self.running:
            request.num_computed_tokens += output.num_scheduled_tokens.get(request.request_id, 0)
        self._take(results)

    def end(self, metadata: Any) -> None:
        """Computes a step that was planned, and in which no request is."""
        output = SimpleNamespace(num_scheduled_tokens={})
        self._take([self._work(worker, pickle.loads(pickle.dumps(metadata)), output) for worker in self.workers])

    def _schedule(self) -> Any:
        new, scheduled = [], {}
        cached = SimpleNamespace(req_ids=[], resumed_req_ids=set(), new_block_ids=[], num_computed_tokens=[])
        budget = self.step_tokens
        for request in self.running:
            count = min(request.num_tokens - request.num_computed_tokens, budget)
            if count == 0:
                continue
            budget -= count
            fresh = self._grow(request, request.num_computed_tokens + count)
            scheduled[request.request_id] = count
            cached.req_ids.append(request.request_id)
            cached.new_block_ids.append((fresh,) if fresh else None)
            cached.num_computed_tokens.append(request.num_computed_tokens)
        for request in list(self.waiting):
            if request.state == "receiving":
                continue
            if request.state == "waiting":
                matched, is_async = self.scheduler.get_num_new_matched_tokens(request, 0)
                if matched is None:
                    continue
                assert matched % BLOCK_TOKENS == 0 and matched <= request.num_tokens and is_async == bool(matched)
                request.external_tokens = matched
                if len(self.free) < -(-request.num_tokens // BLOCK_TOKENS):
                    continue
                self._grow(request, matched if matched else min(request.num_tokens, budget))
                self.scheduler.update_state_after_alloc(request, Blocks(list(request.block_ids)), matched)
                if matched:
                    request.state = "receiving"
                    request.num_computed_tokens = matched
                    continue
            count = min(request.num_tokens - request.num_computed_tokens, budget)
            if count <= 0:
                continue
            budget -= count
            fresh = self._grow(request, request.num_computed_tokens + count)
            self.waiting.remove(request)
            self.running.append(request)
            scheduled[request.request_id] = count
            if request.request_id in self.resumed and not self.second_runner:
                self.resumed.discard(request.request_id)
                cached.req_ids.append(request.request_id)
                cached.resumed_req_ids.add(request.request_id)
                cached.new_block_ids.append((list(request.block_ids),))
                cached.num_computed_tokens.append(request.num_computed_tokens)
                continue
            if request.state != "waiting":
                self.scheduler.update_state_after_alloc(request, Blocks(list(request.block_ids)), 0)
            new.append(
                SimpleNamespace(
                    req_id=request.request_id, block_ids=(list(request.block_ids),),
                    num_computed_tokens=request.num_computed_tokens,
                )
            )  # fmt: skip
            assert fresh is not None
        return SimpleNamespace(
            scheduled_new_reqs=new, scheduled_cached_reqs=cached, num_scheduled_tokens=scheduled,
            total_num_scheduled_tokens=sum(scheduled.values()),
        )  # fmt: skip

    def _grow(self, request: Request, tokens: int) -> list[int]:
        lacking = -(-tokens // BLOCK_TOKENS) - len(request.block_ids)
        fresh = [self.free.pop(0) for _ in range(max(0, lacking))]
        request.block_ids += fresh
        return fresh

    def _work(self, worker: Worker, metadata: Any, output: Any) -> Any:
        connector = worker.connector
        connector.handle_preemptions(metadata)
        connector.bind_connector_metadata(metadata)
        if not self.second_runner:
            connector.start_load_kv(None)
        try:
            self._compute(worker, output, range(LAYERS - self.drafts))
        except Exception:
            if not self.second_runner and not self.drafts:
                # vLLM's first model runner ends a step that has failed as any other.
                connector.wait_for_save()
            raise
        if self.second_runner:
            connector.start_load_kv(None)
        if not self.drafts:
            connector.wait_for_save()
        _, received = connector.get_finished(set())
        result = SimpleNamespace(
            received=received or set(), invalid=connector.get_block_ids_with_load_errors(),
            told=connector.build_connector_worker_meta(), stats=connector.get_kv_connector_stats(),
        )  # fmt: skip
        if self.drafts:
            self._compute(worker, output, [LAYERS - 1])
            connector.wait_for_save()
        connector.clear_connector_metadata()
        return result

    def _compute(self, worker: Worker, output: Any, layers: Sequence[int]) -> None:
        counts = [(request, output.num_scheduled_tokens.get(request.request_id, 0)) for request in self.running]
        if not any(count for _, count in counts):
            return
        for layer in layers:
            name = f"layers.{layer}.attn"
            is_told = self.graphs == "PIECEWISE" and layer not in self.silent and worker.connector.has_connector_metadata()
            if is_told:
                self.asked.append(name)
                worker.connector.wait_for_layer_load(name)
            for request, count in counts:
                if count:
                    worker.compute(request, request.num_computed_tokens, request.num_computed_tokens + count, layer)
            if is_told:
                worker.connector.save_kv_layer(name, worker.tensors[layer], None)

    def _take(self, results: list[Any]) -> None:
        invalid = set().union(*(result.invalid for result in results))
        told = None
        for result in results:
            if result.told is not None:
                told = result.told if told is None else told.aggregate(result.told)
            for request_id in result.received:
                self.received[request_id] = self.received.get(request_id, 0) + 1
        for stats in [result.stats for result in results] + [self.scheduler.get_kv_connector_stats()]:
            for name, count in (stats.data if stats is not None else {}).items():
                self.stats[name] = self.stats.get(name, 0) + count
        for request in self.waiting:
            if request.state == "receiving" and invalid:
                computed = request.num_computed_tokens // BLOCK_TOKENS
                bad = [i for i, block in enumerate(request.block_ids[:computed]) if block in invalid]
                if bad:
                    self.recomputed += computed - bad[0]
                    request.num_computed_tokens = bad[0] * BLOCK_TOKENS
        ended = {request_id for request_id, count in self.received.items() if count == len(self.workers)}
        self.scheduler.update_connector_output(SimpleNamespace(finished_recving=ended, kv_connector_worker_meta=told, invalid_block_ids=invalid))
        for request_id in ended:
            del self.received[request_id]
            (request,) = [one for one in self.waiting if one.request_id == request_id]
            request.state = "received"
            request.num_computed_tokens = min(request.num_computed_tokens, request.num_tokens - 1)

    def run(self, *requests: Request) -> None:
        """Steps until these are computed, then ends them."""
        for request in requests:
            self.add(request)
        self.run_existing(*requests)

    def run_existing(self, *requests: Request, timeout_s: float = 30.0) -> None:
        """As `run`, of requests that wait already."""
        deadline = time.monotonic() + timeout_s
        while not all(request in self.running and request.num_computed_tokens == request.num_tokens for request in requests):
            assert time.monotonic() < deadline, f"not computed: {[one.state for one in requests]}"
            self.step()
        for request in requests:
            self.finish(request)

    def settle(self, timeout_s: float = 30.0) -> None:
        """Steps until nothing is being stored, or to be."""
        scheduler = self.scheduler._scheduler
        self.step_until(
            lambda: not scheduler._late and not any(worker.connector._worker._stores for worker in self.workers), timeout_s, 0.001
        )

    def finish(self, request: Request) -> None:
        delayed, _ = self.scheduler.request_finished(request, request.block_ids)
        assert not delayed
        if request in self.running:
            self.running.remove(request)
        self._give_up(request)

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._give_up(request)
        request.num_computed_tokens = 0
        request.state = "waiting"
        self.resumed.add(request.request_id)
        self.waiting.insert(0, request)

    def _give_up(self, request: Request) -> None:
        # The next request gets these very blocks.
        self.free = request.block_ids + self.free
        request.block_ids = []

    def reset_prefix_cache(self, *, connector: bool = False) -> None:
        """As vLLM's ``reset_prefix_cache``, while no request has blocks, or all give theirs up."""
        self.pool.cached_block_hash_to_block = object()
        if connector:
            assert self.scheduler.reset_cache() is True

    def write_weights(self, seed: int) -> None:
        """As a trainer that has access to the workers."""
        for worker in self.workers:
            worker.model.write(seed + worker.part)

    def reload_weights(self, path: Any) -> None:
        for worker in self.workers:
            worker.model.load(str(path), worker.part)

    def close(self) -> None:
        for worker in self.workers:
            worker.connector.shutdown()
        self.scheduler.shutdown()
