"""A pytest plugin that runs vLLM's own connector tests on KvtierConnector, with a daemon behind it.

Those tests put a mock, or another connector, where an engine has its own, and write by hand what its workers answer. Here the
scheduler's side is a real one; what a test says is in the outer cache another engine has stored in the daemon; and each step that the
scheduler plans is taken by a worker's side, with real blocks, of which every byte that is loaded is compared.

vllm_tests.py starts pytest with it, in an environment that has vLLM, and holds what comes out to the list.
"""

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.outputs import KVConnectorOutput

import kvtier.torch
from kvtier import Client, Status
from kvtier.engine.transfers import Transfer
from kvtier.vllm import _engine
from kvtier.vllm._connector import KvtierConnector, KvtierMetadata
from kvtier.vllm._steps import Plan, Shard

BLOCK_BYTES = 256
DONOR_BLOCKS = 512
STORE_TIMEOUT_S = 20.0
LOAD_TIMEOUT_S = 30.0

OF_THE_CLASS = ("test_hma_auto_config", "test_kv_connector_lifecycle", "test_multi_connector")
"""modules whose tests make connectors of a class themselves, wrapped or under another one: they get the class, and no worker's side"""

Said = Callable[[Any, int], int | None]
"""how many tokens behind those that the engine has are in the outer cache, as a test says of a request"""


@dataclasses.dataclass
class Row:
    """The result of one case of a test."""

    test: str
    outcome: str = ""
    """'passed', 'failed' or 'skipped'"""
    why: str = ""
    """of what was skipped, its reason; of what failed, its message"""
    at: str = ""
    """where it failed: FILE:LINE"""
    trace: str = ""
    """how it came there"""
    loads: int = 0
    blocks: int = 0
    """that were loaded"""


def content(key: bytes) -> torch.Tensor:
    """The bytes of the block with this key."""
    return torch.frombuffer(bytearray(hashlib.shake_128(key).digest(BLOCK_BYTES)), dtype=torch.uint8)


def keys_of(request: Any) -> list[bytes]:
    """The keys of all whole blocks of a request."""
    return [bytes(key) for key in request.block_hashes]


class Donor:
    """Another engine of the same namespace: it has stored what a test says is in the outer cache."""

    def __init__(self, socket: str, shard: Shard) -> None:
        self._client = Client(socket)
        self._namespace = self._client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        self._blocks = torch.zeros(DONOR_BLOCKS, BLOCK_BYTES, dtype=torch.uint8)
        self._region = kvtier.torch.register(self._namespace, [self._blocks])

    def provide(self, keys: Sequence[bytes], count: int) -> None:
        """The daemon has the first of these blocks, and none of the others."""
        if keys[count:]:
            self._namespace.delete(keys[count:])
        for first in range(0, min(count, len(keys)), DONOR_BLOCKS):
            self._store(keys[first : min(first + DONOR_BLOCKS, count)])

    def _store(self, keys: Sequence[bytes]) -> None:
        for place, key in enumerate(keys):
            self._blocks[place] = content(key)
        end_s = time.monotonic() + STORE_TIMEOUT_S
        while True:
            statuses = self._region.put(keys, list(range(len(keys)))).wait()
            # A pending block is there in a moment: another engine stores it.
            if Status.PENDING not in statuses or time.monotonic() > end_s:
                break
        assert {*statuses} <= {Status.OK, Status.EXISTS}, f"the donor's blocks were not stored: {statuses}"

    def close(self) -> None:
        self._region.close()
        self._client.close()


class WorkerSide:
    """The worker's side of an engine: it takes each step that the scheduler's side has planned, in vLLM's order of calls."""

    def __init__(self, config: Any, kv_cache_config: Any, row: Row) -> None:
        # A tensor that has the right bytes before a load shows nothing: no block has a key whose content is zeros.
        self._blocks = torch.zeros(kv_cache_config.num_blocks, BLOCK_BYTES, dtype=torch.uint8)
        self._connector = KvtierConnector(config, KVConnectorRole.WORKER, kv_cache_config)
        self._connector.register_kv_caches({"layer": self._blocks})
        self._row = row
        self.handshake = self._connector.get_handshake_metadata()

    def take(self, metadata: KvtierMetadata) -> Any:
        """Takes one step, in which the worker computes all blocks to be stored; returns its message to the scheduler's side."""
        connector, plan = self._connector, metadata.plan
        connector.handle_preemptions(metadata)
        connector.bind_connector_metadata(metadata)
        connector.start_load_kv(None)
        for transfer in plan.stores:
            for key, block in _blocks_of(transfer):
                self._blocks[block] = content(key)
        connector.wait_for_save()
        self._await_loads(plan)
        told = connector.build_connector_worker_meta()
        connector.clear_connector_metadata()
        return told

    def _await_loads(self, plan: Plan) -> None:
        waiting = {transfer.request_id for transfer in plan.loads}
        end_s = time.monotonic() + LOAD_TIMEOUT_S
        while True:
            waiting -= self._connector.get_transfer_results(set()).finished_recving
            if not waiting:
                break
            assert time.monotonic() < end_s, f"loads do not end: {waiting}"
            time.sleep(0.001)
        assert not self._connector.get_block_ids_with_load_errors(), "blocks that the daemon has could not be loaded"
        for transfer in plan.loads:
            for key, block in _blocks_of(transfer):
                assert torch.equal(self._blocks[block], content(key)), f"block {block} was loaded with wrong bytes"
            self._row.loads += 1
            self._row.blocks += len(transfer.keys)

    def settle(self) -> None:
        """Waits for what it is storing: until then nobody can take it away."""
        assert self._connector._worker is not None
        for store in self._connector._worker._stores:
            store.copying.wait()

    def close(self) -> None:
        self._connector.shutdown()


def _blocks_of(transfer: Transfer) -> Iterator[tuple[bytes, int]]:
    return zip(transfer.keys, transfer.block_ids, strict=True)


class SchedulerSide(KvtierConnector):
    """The scheduler's side, which finds in the daemon what the test says is in the outer cache."""

    def __init__(self, config: Any, kv_cache_config: Any, said: Said, socket: str, row: Row) -> None:
        super().__init__(config, KVConnectorRole.SCHEDULER, kv_cache_config)
        if self._off:
            pytest.skip(self._off)
        groups = len(kv_cache_config.kv_cache_groups)
        if groups > 1:
            pytest.skip(f"the model has {groups} groups of layers, and the plug-in's worker has tensors of one")
        self.said = said
        self._worker_side = WorkerSide(config, kv_cache_config, row)
        shake = self._worker_side.handshake
        assert shake is not None, "the worker's side does not use the daemon"
        self._donor = Donor(socket, shake.shards[0])
        self.set_xfer_handshake_metadata_pp_aware({(0, 0): shake})

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        said = self.said(request, num_computed_tokens)
        self._provide(request, num_computed_tokens + said if said else 0)
        return super().get_num_new_matched_tokens(request, num_computed_tokens)

    def _provide(self, request: Any, tokens: int) -> None:
        self._worker_side.settle()
        self._donor.provide(keys_of(request), tokens // self._block_tokens)
        # The request was looked up when it came. Only now the test has said which blocks are there.
        assert self._scheduler is not None
        self._scheduler._searches.drop(request.request_id)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens and not self._holds(request):
            # The test has answered for the connector: let it be so.
            self._provide(request, num_external_tokens)
            assert super().get_num_new_matched_tokens(request, 0) == (num_external_tokens, True)
        super().update_state_after_alloc(request, blocks, num_external_tokens)

    def _holds(self, request: Any) -> bool:
        assert self._scheduler is not None
        search = self._scheduler._searches._by_request.get(request.request_id)
        return search is not None and bool(search.run)

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        metadata: Any = super().build_connector_meta(scheduler_output)
        told = self._worker_side.take(metadata)
        if told is not None:
            super().update_connector_output(KVConnectorOutput(kv_connector_worker_meta=told))
        # Some tests read this field of the mock.
        cached = scheduler_output.scheduled_cached_reqs
        new = [one.req_id for one in scheduler_output.scheduled_new_reqs]
        metadata.requests = new + [one for one in cached.req_ids if one in cached.resumed_req_ids]
        return metadata

    def shutdown(self) -> None:
        super().shutdown()
        self._worker_side.close()
        self._donor.close()


class CountedMethod:
    """A connector's method, with its calls counted as a mock's are. It answers by itself, whatever a test has prescribed."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.call_count = 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.call_count += 1
        return self._method(*args, **named)


class CountedMatch(CountedMethod):
    """`get_num_new_matched_tokens`: what a test prescribes as its answer is what the outer cache has."""

    def __init__(self, connector: SchedulerSide) -> None:
        super().__init__(connector.get_num_new_matched_tokens)
        self._connector = connector

    @property
    def side_effect(self) -> Said:
        return self._connector.said

    @side_effect.setter
    def side_effect(self, value: Any) -> None:
        answers = None if callable(value) else iter(value)

        def said(request: Any, computed: int) -> int | None:
            count, is_async = value(request, computed) if answers is None else next(answers)
            return between_steps(count, is_async)

        self._connector.said = said


class CountedConnector:
    """In the place of `create_mock_connector`'s mock: the connector that was made, with its calls counted."""

    def __init__(self, connector: SchedulerSide) -> None:
        self._connector = connector
        self.get_num_new_matched_tokens = CountedMatch(connector)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connector, name)
        if not callable(found):
            return found
        counted = self.__dict__[name] = CountedMethod(found)
        return counted


def between_steps(count: int | None, is_async: bool) -> int | None:
    """The blocks that a test says are there. Tests that load within a step are skipped: kvtier loads between steps."""
    if count and not is_async:
        pytest.skip("it loads within a step")
    return count


def said_by_mock(extra: dict[str, Any], request: Any, computed: int) -> int | None:
    """The answer of a MockKVConnector with this configuration."""
    return between_steps(extra["matched_tokens"], extra["is_async"])


def said_by_nixl(request: Any, computed: int) -> int:
    """The answer of a NixlConnector: all tokens of a request that another engine has computed."""
    remote = (request.kv_transfer_params or {}).get("do_remote_prefill")
    return int(request.num_tokens) - computed if remote else 0


def said_by_example(request: Any, computed: int) -> int:
    """The answer of an ExampleConnector with an empty folder."""
    return 0


class VllmTests:
    """The plugin itself: it chooses the listed tests, puts our connector into each, and notes what comes of it."""

    def __init__(self, socket: str, listed: set[str], root: Path) -> None:
        self._socket = socket
        self._listed = listed
        self._root = root
        self._made: list[SchedulerSide] = []
        self._namespaces = 0
        self._original = KVConnectorFactory.create_connector
        self.rows: dict[str, Row] = {}
        self.missing = listed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        # Before -k takes its choice.
        others = [item for item in items if item.nodeid not in self._listed]
        items[:] = [item for item in items if item.nodeid in self._listed]
        self.missing = self._listed - {item.nodeid for item in items}
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Function) -> Iterator[None]:
        row = self.rows[item.nodeid] = Row(item.nodeid)
        with pytest.MonkeyPatch.context() as patch:
            if item.module.__name__.rpartition(".")[2] in OF_THE_CLASS:
                self._give_class(patch, item.module)
            else:
                self._give_connectors(patch, item.module, row)
            return (yield)

    def _give_class(self, patch: pytest.MonkeyPatch, module: Any) -> None:
        from tests.v1.kv_connector.unit import utils

        patch.setattr(utils, "ExampleConnector", KvtierConnector)
        patch.setitem(KVConnectorFactory._registry, "ExampleConnector", lambda: KvtierConnector)
        if hasattr(module, "ExampleConnectorMetadata"):
            patch.setattr(module, "ExampleConnectorMetadata", KvtierMetadata)

    def _give_connectors(self, patch: pytest.MonkeyPatch, module: Any, row: Row) -> None:
        # These tests have no groups of ranks.
        patch.setattr(_engine, "rank", lambda: (0, 0))

        def create_connector(config: Any, role: Any, kv_cache_config: Any) -> Any:
            return self._create(config, role, kv_cache_config, row)

        patch.setattr(KVConnectorFactory, "create_connector", staticmethod(create_connector))
        if hasattr(module, "create_mock_connector"):
            patch.setattr(module, "create_mock_connector", lambda: CountedConnector(self._made[-1]))

    def _create(self, config: Any, role: Any, kv_cache_config: Any, row: Row) -> Any:
        """Stands for the factory's create_connector."""
        transfer = config.kv_transfer_config
        extra = dict(transfer.kv_connector_extra_config)
        said: dict[str, Said] = {
            "MockKVConnector": functools.partial(said_by_mock, extra), "NixlConnector": said_by_nixl, "ExampleConnector": said_by_example,
        }  # fmt: skip
        if role != KVConnectorRole.SCHEDULER or transfer.kv_connector not in said:
            return self._original(config, role, kv_cache_config)
        if extra.get("num_defers_before_matching"):
            pytest.skip("it says itself when a lookup is put off")
        transfer.kv_connector_extra_config = extra | self._settings(transfer)
        made = SchedulerSide(config, kv_cache_config, said[transfer.kv_connector], self._socket, row)
        self._made.append(made)
        return made

    def _settings(self, transfer: Any) -> dict[str, Any]:
        """A namespace of its own; and an answer is there when it is asked for, and nothing is computed that can be loaded."""
        self._namespaces += 1
        return {
            "kvtier.socket": self._socket, "kvtier.namespace": f"run-{self._namespaces}", "kvtier.weights": "tests", "kvtier.lookup_wait_s": 10.0,
            "kvtier.lookup_s_max": 20.0, "kvtier.load_if_faster": False, "kvtier.load_failure": transfer.kv_load_failure_policy,
        }  # fmt: skip

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        made, self._made = self._made, []
        for one in made:
            one.shutdown()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = self.rows[report.nodeid]
        # A failure in any phase is one; what was skipped in one phase has passed in the others.
        if report.failed and row.outcome != "failed":
            row.outcome = "failed"
            row.why, row.at = self._failure(report)
            row.trace = report.longreprtext
        elif report.skipped:
            row.outcome = "skipped"
            row.why = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        elif report.when == "call":
            row.outcome = "passed"

    def _failure(self, report: pytest.TestReport) -> tuple[str, str]:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is None:
            return str(report.longrepr), ""
        path = Path(crash.path)
        inside = path.relative_to(self._root) if path.is_relative_to(self._root) else path
        # Without what pytest tells of the values, which has addresses in it.
        words = [line.strip() for line in crash.message.splitlines() if not line.startswith(" +")]
        return " ".join(words), f"{inside}:{crash.lineno}"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvtier")
    group.addoption("--kvtier-socket", help="the daemon's socket")
    group.addoption("--kvtier-listed", type=Path, help="a JSON array of the tests to run, by their ids")
    group.addoption("--kvtier-rows", type=Path, help="takes what came of them, in JSON")


def pytest_configure(config: pytest.Config) -> None:
    listed = set(json.loads(config.getoption("--kvtier-listed").read_text()))
    config.pluginmanager.register(VllmTests(config.getoption("--kvtier-socket"), listed, config.rootpath), "kvtier-vllm-tests")


def pytest_sessionfinish(session: pytest.Session) -> None:
    found: Any = session.config.pluginmanager.getplugin("kvtier-vllm-tests")
    rows = [dataclasses.asdict(row) for row in found.rows.values()]
    session.config.getoption("--kvtier-rows").write_text(json.dumps({"rows": rows, "missing": sorted(found.missing)}))
