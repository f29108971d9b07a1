"""An engine with several groups of layers, as vLLM's hybrid memory allocator has them: full attention, a window, a state.

All groups share the engine's tensors and its pool of blocks. Each step looks at every value that a token of it needs, and so finds
every wrong byte, and every block that was missing.
"""

import pickle
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from kvtier.vllm import _connector, _engine
from kvtier_testing.tensors import Tensor
from kvtier_testing.vllm_double import (
    BLOCK_TOKENS, TOKEN_BYTES, FullAttentionSpec, KVConnectorRole, Model, Request, SlidingWindowSpec, Stepped, value,
)  # fmt: skip

LAYERS = 2
"""of each group"""
WINDOW = 10
"""tokens that a token sees, itself among them"""
NULL = 0


class MambaSpec(SimpleNamespace):
    """Of layers that keep a state, as vLLM's of this name."""


def specs() -> list[Any]:
    """Of a group with full attention, one with a window, and one with a state."""
    common = {"block_size": BLOCK_TOKENS, "prefix_cacheable": True}
    return [
        FullAttentionSpec(**common), SlidingWindowSpec(sliding_window=WINDOW, **common), MambaSpec(mamba_cache_mode="align", **common)
    ]  # fmt: skip


class HybridRequest(Request):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.tables: list[list[int]] = []
        """for each group, where its blocks lie; NULL: nowhere"""


class Tables:
    def __init__(self, tables: list[list[int]]) -> None:
        self._tables = tables

    def get_block_ids(self) -> tuple[list[int], ...]:
        return tuple(map(list, self._tables))


class HybridEngine(Stepped):
    """One rank. Prompts are computed in chunks that end where blocks end, first come first served."""

    def __init__(self, made: Any, monkeypatch: pytest.MonkeyPatch, *, blocks: int = 96, step_tokens: int = 16, groups: Sequence[Any] = ()) -> None:
        self.specs = list(groups) or specs()
        self.kinds = [type(spec).__name__ for spec in self.specs]
        names = [[f"layers.{group * LAYERS + layer}" for layer in range(LAYERS)] for group in range(len(self.specs))]
        cache = SimpleNamespace(
            num_blocks=blocks, hash_block_size=BLOCK_TOKENS,
            kv_cache_groups=[
                SimpleNamespace(kv_cache_spec=spec, layer_names=some, enable_kv_transfer=True) for spec, some in zip(self.specs, names, strict=True)
            ],
        )  # fmt: skip
        monkeypatch.setattr(_engine, "rank", lambda: (0, 0))
        monkeypatch.setattr(_engine, "gathered", lambda _mine: None)
        monkeypatch.setattr(_engine, "asks_for_layers", lambda: True)
        self.model = Model("tiny", 0)
        self.scheduler = _connector.KvtierConnector(made, KVConnectorRole.SCHEDULER, cache)
        self.scheduler.bind_gpu_block_pool(
            SimpleNamespace(cached_block_hash_to_block=object(), null_block=SimpleNamespace(block_id=NULL))
        )
        self.worker = _connector.KvtierConnector(made, KVConnectorRole.WORKER, cache)
        self.tensors = [Tensor(numpy.zeros((blocks, BLOCK_TOKENS, TOKEN_BYTES), dtype=numpy.uint8)) for _ in range(LAYERS)]
        # A layer with a state keeps several tensors; here one.
        self.worker.register_kv_caches({
            name: [tensor] if kind == "MambaSpec" else tensor
            for kind, some in zip(self.kinds, names, strict=True)
            for name, tensor in zip(some, self.tensors, strict=True)
        })  # fmt: skip
        handshake = pickle.loads(pickle.dumps(self.worker.get_handshake_metadata()))
        self.scheduler.set_xfer_handshake_metadata_pp_aware({} if handshake is None else {(0, 0): handshake})
        self.free = list(range(1, blocks))
        self.waiting: list[HybridRequest] = []
        self.running: list[HybridRequest] = []
        self.resumed: set[str] = set()
        self.step_tokens = step_tokens
        self.stats: dict[str, int] = {}
        self.failed = 0

    def get_model(self) -> Model:
        return self.model

    # ---- the engine's memory ----

    def _first_needed(self, kind: str, tokens: int) -> int:
        """The first token that is looked at when so many are computed."""
        if kind == "MambaSpec":
            return max(0, tokens - 1)
        return max(0, tokens - WINDOW + 1) if kind == "SlidingWindowSpec" else 0

    def _leave_behind(self, request: HybridRequest) -> None:
        for kind, table in zip(self.kinds, request.tables, strict=True):
            for at in range(min(self._first_needed(kind, request.num_computed_tokens) // BLOCK_TOKENS, len(table))):
                if table[at] != NULL:
                    self.free.append(table[at])
                    table[at] = NULL

    def _lacking(self, request: HybridRequest, tokens: int) -> int:
        end = -(-tokens // BLOCK_TOKENS)
        lacking = 0
        for kind, table in zip(self.kinds, request.tables, strict=True):
            lacking += max(0, end - len(table)) if kind != "MambaSpec" else int(end > len(table))
        return lacking

    def _grow(self, request: HybridRequest, tokens: int) -> tuple[list[int], ...]:
        end = -(-tokens // BLOCK_TOKENS)
        fresh: list[list[int]] = []
        for kind, table in zip(self.kinds, request.tables, strict=True):
            begin = len(table)
            while len(table) < end:
                table.append(NULL if kind == "MambaSpec" and len(table) < end - 1 else self.free.pop(0))
            fresh.append(table[begin:])
        return tuple(fresh)

    def _give_up(self, request: HybridRequest) -> None:
        for table in request.tables:
            self.free = [block for block in table if block != NULL] + self.free
        request.tables = []

    # ---- a step ----

    def _schedule(self) -> Any:
        new, scheduled, offers = [], {}, {}
        cached = SimpleNamespace(req_ids=[], resumed_req_ids=set(), new_block_ids=[], num_computed_tokens=[])
        budget = self.step_tokens

        def chunk(request: HybridRequest) -> int:
            count = min(request.num_tokens - request.num_computed_tokens, budget)
            end = request.num_computed_tokens + count
            return count if end == request.num_tokens else end // BLOCK_TOKENS * BLOCK_TOKENS - request.num_computed_tokens

        def plan(request: HybridRequest, count: int) -> None:
            nonlocal budget
            budget -= count
            scheduled[request.request_id] = count
            end = request.num_computed_tokens + count
            # vLLM also offers states within blocks, which are no blocks of their own.
            offers[request.request_id] = [
                (number, table[-1], end) for number, (kind, table) in enumerate(zip(self.kinds, request.tables, strict=True)) if kind == "MambaSpec"
            ]

        for request in list(self.running):
            self._leave_behind(request)
            count = chunk(request)
            if count <= 0:
                continue
            while self._lacking(request, request.num_computed_tokens + count) > len(self.free) and self.running[-1] is not request:
                self.preempt(self.running[-1])
            if self._lacking(request, request.num_computed_tokens + count) > len(self.free):
                self.preempt(request)
                break
            fresh = self._grow(request, request.num_computed_tokens + count)
            cached.req_ids.append(request.request_id)
            cached.new_block_ids.append(fresh if any(fresh) else None)
            cached.num_computed_tokens.append(request.num_computed_tokens)
            plan(request, count)
        for request in list(self.waiting):
            if request.state == "receiving":
                continue
            if request.state == "waiting":
                if len(self.free) < 2 * -(-request.num_tokens // BLOCK_TOKENS):
                    continue
                matched, _ = self.scheduler.get_num_new_matched_tokens(request, 0)
                if matched is None:
                    continue
                assert matched % BLOCK_TOKENS == 0 and matched < request.num_tokens
                request.external_tokens = matched
                request.tables = [
                    [NULL] * (self._first_needed(kind, matched) // BLOCK_TOKENS) if matched else [] for kind in self.kinds
                ]  # fmt: skip
                if matched:
                    self._grow(request, matched)
                    request.state = "receiving"
                    request.num_computed_tokens = matched
                    self.scheduler.update_state_after_alloc(request, Tables(request.tables), matched)
                    continue
            count = chunk(request)
            if count <= 0 or self._lacking(request, request.num_computed_tokens + count) > len(self.free):
                continue
            self._grow(request, request.num_computed_tokens + count)
            self.scheduler.update_state_after_alloc(request, Tables(request.tables), 0)
            self.waiting.remove(request)
            self.running.append(request)
            if request.request_id in self.resumed:
                self.resumed.discard(request.request_id)
                cached.req_ids.append(request.request_id)
                cached.resumed_req_ids.add(request.request_id)
                cached.new_block_ids.append(tuple(map(list, request.tables)))
                cached.num_computed_tokens.append(request.num_computed_tokens)
            else:
                new.append(
                    SimpleNamespace(
                        req_id=request.request_id, block_ids=tuple(map(list, request.tables)), num_computed_tokens=request.num_computed_tokens
                    )
                )
            plan(request, count)
        tables = {request.request_id: tuple(map(list, request.tables)) for request in self.running}
        return SimpleNamespace(
            scheduled_new_reqs=new, scheduled_cached_reqs=cached, num_scheduled_tokens=scheduled,
            total_num_scheduled_tokens=sum(scheduled.values()),
            kv_connector_block_state=SimpleNamespace(get_block_ids=tables.get, boundary_state_offloads=offers),
        )  # fmt: skip

    def step(self) -> None:
        output = self._schedule()
        metadata = pickle.loads(pickle.dumps(self.scheduler.build_connector_meta(output)))
        worker = self.worker
        worker.handle_preemptions(metadata)
        worker.bind_connector_metadata(metadata)
        worker.start_load_kv(None)
        counts = [(request, count) for request in self.running if (count := output.num_scheduled_tokens.get(request.request_id, 0))]
        for number in range(len(self.kinds) * LAYERS if counts else 0):
            for request, count in counts:
                self._compute(request, request.num_computed_tokens, request.num_computed_tokens + count, number)
            # Layers with a state tell nothing.
            if self.kinds[number // LAYERS] != "MambaSpec" and worker.has_connector_metadata():
                worker.save_kv_layer(f"layers.{number}", self.tensors[number % LAYERS], None)
        for request, count in counts:
            request.num_computed_tokens += count
        worker.wait_for_save()
        results = worker.get_transfer_results(set())
        assert not worker.get_block_ids_with_load_errors(), "vLLM does not take block ids of several groups"
        told = worker.build_connector_worker_meta()
        for side in (worker, self.scheduler):
            stats = side.get_kv_connector_stats()
            for name, count in (stats.data if stats is not None else {}).items():
                self.stats[name] = self.stats.get(name, 0) + count
        worker.clear_connector_metadata()
        received, failed = results.finished_recving, results.failed_recving
        assert failed <= received
        self.scheduler.update_connector_output(
            SimpleNamespace(finished_recving=received, failed_recving=failed, kv_connector_worker_meta=told, invalid_block_ids=set())
        )
        for request in [one for one in self.waiting if one.request_id in received]:
            request.state = "received"
            if request.request_id in failed:
                self.failed += 1
                self._give_up(request)
                request.num_computed_tokens = 0
                request.state = "waiting"

    def _compute(self, request: HybridRequest, begin: int, end: int, number: int) -> None:
        """Computes tokens in one layer."""
        kind, table = self.kinds[number // LAYERS], request.tables[number // LAYERS]
        tensor = self.tensors[number % LAYERS]

        def check(position: int, slot: int) -> None:
            block = table[position // BLOCK_TOKENS]
            right = value(request, position, number, 0)
            assert block != NULL and numpy.array_equal(tensor.array[block, slot], right), (
                f"wrong bytes: request {request.request_id}, {kind}, token {position}, block {block}"
            )

        if kind == "MambaSpec":
            if begin:
                check(begin - 1, 0)
            tensor.array[table[(end - 1) // BLOCK_TOKENS]] = value(request, end - 1, number, 0)
            return
        for position in range(self._first_needed(kind, begin), begin):
            check(position, position % BLOCK_TOKENS)
        for position in range(begin, end):
            tensor.array[table[position // BLOCK_TOKENS], position % BLOCK_TOKENS] = value(request, position, number, 0)

    # ---- requests ----

    def add(self, request: HybridRequest) -> None:
        self.scheduler.on_new_request(request)
        self.waiting.append(request)

    def run(self, *requests: HybridRequest, timeout_s: float = 30.0) -> None:
        """Steps until these are computed, and ends each when it is."""
        for request in requests:
            self.add(request)
        left = list(requests)
        deadline = time.monotonic() + timeout_s
        while left:
            assert time.monotonic() < deadline, f"not computed: {[one.state for one in left]}"
            self.step()
            for request in [one for one in left if self.is_computed(one)]:
                left.remove(request)
                self.finish(request)

    def is_computed(self, request: HybridRequest) -> bool:
        return request in self.running and request.num_computed_tokens == request.num_tokens

    def settle(self, timeout_s: float = 30.0) -> None:
        """Steps until nothing is being stored, or to be."""
        self.step_until(lambda: not self.scheduler._scheduler._late and not self.worker._worker._stores, timeout_s, 0.001)

    def finish(self, request: HybridRequest) -> None:
        assert self.scheduler.request_finished_all_groups(request, tuple(map(list, request.tables))) == (False, None)
        self.running.remove(request)
        self._give_up(request)

    def preempt(self, request: HybridRequest) -> None:
        self.running.remove(request)
        self._give_up(request)
        request.num_computed_tokens = 0
        request.state = "waiting"
        self.resumed.add(request.request_id)
        self.waiting.insert(0, request)

    def close(self) -> None:
        self.worker.shutdown()
        self.scheduler.shutdown()
