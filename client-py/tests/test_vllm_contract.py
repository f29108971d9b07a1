"""vLLM's connector keeps the contract of adapters."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kvtier_testing.daemon import eventually
from kvtier_testing.direct_engine import LosingOnce
from kvtier_testing.two_nodes import NodeDaemon, two_nodes
from kvtier_testing.vllm_double import BLOCK_TOKENS, Engine, Request, config
from kvtier_testing.vllm_hybrid import HybridEngine, HybridRequest, specs

from kvtier.engine.groups import ALL, Need, window
from kvtier.engine.testing import AdapterContract, Driver, Part, Wanted
from kvtier.vllm import _shards
from kvtier.vllm._steps import Shard

_numbers = itertools.count()


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[NodeDaemon, NodeDaemon]]:
    with two_nodes() as made:
        yield made


def made_config(wanted: Wanted) -> Any:
    extra = {
        "kvtier.socket": wanted.socket, "kvtier.namespace": wanted.namespace, "kvtier.weights": wanted.weights, "kvtier.mismatch": wanted.mismatch,
        "kvtier.lookup_s_max": wanted.lookup_s_max, "kvtier.load_timeout_s": wanted.load_timeout_s, "kvtier.put_timeout_s": wanted.put_timeout_s,
    }  # fmt: skip
    dtype = "torch.float32" if wanted.configuration == "one" else f"torch.{wanted.configuration}"
    return config(extra, cache_config__hash_block_size=BLOCK_TOKENS, model_config__dtype=dtype)


class VllmDriver(Driver):
    """vLLM's connector in an engine of one group."""

    unit_tokens = BLOCK_TOKENS
    needs: Sequence[Need] = [Need(BLOCK_TOKENS, ALL)]

    def __init__(self, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = self._made(wanted, monkeypatch)
        self._begun: dict[tuple[int, ...], Any] = {}
        self._wishes: dict[str, Any] | None = None

    def _made(self, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> Any:
        return Engine(made_config(wanted), monkeypatch, ranks=wanted.ranks)

    def _request(self, prompt: Sequence[int]) -> Any:
        return self._wishing(Request(f"request-{next(_numbers)}", prompt))

    def _wishing(self, request: Any) -> Any:
        request.kv_transfer_params, self._wishes = {"kvtier": self._wishes, "do_remote_prefill": False}, None
        return request

    def wish(self, wishes: dict[str, Any]) -> None:
        self._wishes = wishes

    def find(self, prompt: Sequence[int]) -> int:
        answers: list[int | None] = []

        def is_answered() -> bool:
            answers.append(self.ask(prompt))
            return answers[-1] is not None

        assert eventually(is_answered)
        return answers[-1] or 0

    def ask(self, prompt: Sequence[int]) -> int | None:
        request = self._begun.get(tuple(prompt))
        if request is None:
            request = self._begun[tuple(prompt)] = self._request(prompt)
            self.engine.scheduler.on_new_request(request)
        answer: int | None = self.engine.scheduler.get_num_new_matched_tokens(request, 0)[0]
        return answer

    def serve(self, prompt: Sequence[int]) -> int:
        request = self._begun.pop(tuple(prompt), None) or self._request(prompt)
        before = self._lost()
        self.engine.run(request)
        if self.engine.scheduler._scheduler is not None:
            self.engine.settle()
        self.engine.step()
        return self._loaded(request, self._lost() - before)

    def _lost(self) -> int:
        return int(self.engine.recomputed)

    def _loaded(self, request: Any, lost: int) -> int:
        return int(request.external_tokens) - lost * BLOCK_TOKENS

    def abandon(self, prompt: Sequence[int]) -> None:
        request = self._begun.pop(tuple(prompt))
        self.engine.scheduler.request_finished(request, [])

    def _shards(self) -> list[list[Shard]]:
        """For each group, those of all ranks."""
        return [list(some) for some in zip(*(worker.connector._mine for worker in self.engine.workers), strict=True)]

    def parts(self, prompt: Sequence[int]) -> Sequence[Sequence[Part]]:
        hashes = self._request(prompt).block_hashes
        return [[Part(one.name, one.block_bytes, one.properties, hashes) for one in of_ranks] for of_ranks in self._shards()]

    def lose(self, rank: int, block: int) -> None:
        regions = self.engine.workers[rank].connector._worker._regions
        regions[0] = LosingOnce(regions, block)

    def rest(self) -> None:
        self.engine.step()

    def close(self) -> None:
        self.engine.close()


class HybridDriver(VllmDriver):
    """vLLM's connector in an engine of a group with full attention and one with a window."""

    needs = [Need(BLOCK_TOKENS, ALL), Need(BLOCK_TOKENS, window(10))]

    def _made(self, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> Any:
        return HybridEngine(made_config(wanted), monkeypatch, groups=specs()[:2])

    def _request(self, prompt: Sequence[int]) -> Any:
        return self._wishing(HybridRequest(f"request-{next(_numbers)}", prompt))

    def _lost(self) -> int:
        return 0

    def _shards(self) -> list[list[Shard]]:
        return [[one] for one in self.engine.worker._mine]


class ByLayerDriver(VllmDriver):
    """vLLM's connector in an engine that stores by layer."""

    def _made(self, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(_shards, "letters_of", lambda *_: "BND")
        made = made_config(wanted)
        made.kv_transfer_config.kv_connector_extra_config["kvtier.store_by_layer"] = "on"
        made.model_config.get_total_num_kv_heads = lambda: wanted.ranks
        return Engine(made, monkeypatch, ranks=wanted.ranks, joins=True)

    def close(self) -> None:
        stats = self.engine.stats
        super().close()
        assert not stats.get("stores") or stats["stores_by_layer"]


class TestVllm(AdapterContract):
    RANKS = 2
    POOLS = 2
    HAS_WISHES = True
    WAITS_FOR_EXPECTED = True

    @pytest.fixture(autouse=True)
    def _begin(self, nodes: tuple[NodeDaemon, NodeDaemon], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("PYTHONHASHSEED", "0")
        self.monkeypatch = monkeypatch
        self.begin(*nodes)
        yield
        self.end()

    def make(self, wanted: Wanted) -> Driver:
        return (HybridDriver if wanted.pools > 1 else VllmDriver)(wanted, self.monkeypatch)


class TestVllmThatStoresByLayer(TestVllm):
    POOLS = 1

    def make(self, wanted: Wanted) -> Driver:
        return ByLayerDriver(wanted, self.monkeypatch)
