"""SGLang's seam for what lies directly behind its device memory: pages are copied between its tensors and the daemon.

SGLang aborts a request of which a load has failed, so a load that was announced must not fail. Before `KvtierLinker.load` says yes,
every page of the request is leased, and mapped in this process, on all ranks. From then on the daemon is not needed: a page that it
does not copy is written from its memory by this process (`kvtier.engine.transfers.Transfers.keep`).

The forward pass that reads the pages begins when all of them are there, and not layer by layer. A copy tells of a layer when the layer
is there for all pages that come; which pages do not come is known at its end. By then a forward pass would have read them.
"""

import importlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import UnifiedCacheLinker

from kvtier._errors import KvtierError
from kvtier._protocol import Status
from kvtier._types import Leases
from kvtier.engine.identity import Texts
from kvtier.engine.settings import Settings
from kvtier.engine.transfers import STORED, Load, Transfer, Transfers, are_ok
from kvtier.sglang import _engine
from kvtier.sglang._engine import Model, Pool, Seat
from kvtier.sglang._memory import device_memory_of, page_ids
from kvtier.sglang._pages import Pages
from kvtier.sglang._peers import Peers

_log = logging.getLogger("sglang.kvtier")

_TEXTS = Texts("linker_extra_config of --unified-cache-external-linker-config")
_STORES = 2
"""threads that store: one waits for the device while another one's pages are copied"""


class KvtierLinker(UnifiedCacheLinker):
    """Keeps the pages of an SGLang engine in kvtier, without a pool in host memory between them.

    Whatever is wrong with the daemon, the engine serves, and no request is aborted for it: a page that can't be had is a miss, a load that
    was announced is completed from the daemon's memory, and all ranks decide alike. Only a configuration that contradicts another
    engine's in the same namespace keeps the engine from starting.

    SGLang calls all methods from one thread of each rank.
    """

    def __init__(
        self, server_args: Any, params: Any, *, components: Any, extra_config: dict[str, Any] | None = None, forward_stream: Any = None
    ) -> None:
        """As SGLang makes it.

        Raises:
            InvalidArgument: an unknown setting, or a wrong value.
            RuntimeError: engines with another configuration have the namespace.
        """
        self.forward_stream = forward_stream
        pool = params.token_to_kv_pool_allocator.get_kvcache()
        self.pools = {PoolName.KV: pool}
        self.layer_done_counter = Batches()
        self._page_tokens = int(params.page_size)
        self._settings = Settings.of(extra_config or {})
        self._peers = Peers.of(params)
        is_replicated = type(pool).__name__ == "MLATokenToKVPool"
        args = _engine.server_args() or server_args
        seat = Seat(
            self._peers.rank, self._peers.size, int(params.pp_rank), int(params.pp_size), int(params.attn_cp_size),
            int(getattr(args, "dcp_size", 1) or 1), is_replicated,
        )  # fmt: skip
        unserved = seat.unserved(args) or _unserved(params, components)
        self._pages = Pages(self._settings, seat, Model(seat, "", args), _TEXTS, unserved, self._peers.gathered)
        self._guard = self._pages.guard
        self._stores_here = not is_replicated or self._peers.rank == 0
        self._queued: dict[str, _Queued] = {}
        self._offloads: deque[Future[bool]] = deque()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="kvtier-load")
        self._storer = ThreadPoolExecutor(_STORES, thread_name_prefix="kvtier-store")
        self._event: Callable[[], Any] | None = None
        self._open(pool)

    def _open(self, pool: Any) -> None:
        layers = str(getattr(pool, "layer_num", ""))
        described = Pool(
            str(getattr(pool, "store_dtype", pool.dtype)).removeprefix("torch."), self._page_tokens, "none", f"{layers} of {layers}",
            f"{getattr(pool, 'start_layer', '')} to {getattr(pool, 'end_layer', '')}",
        )  # fmt: skip
        memory = device_memory_of(pool, self._page_tokens, self._pages.model.ranks)
        self._pages.open(described, memory, type(pool).__name__)
        # A rank that serves without the others would wait for them.
        if not self._peers.agreed(self._pages.is_open) and self._pages.is_open:
            _log.warning("kvtier is not used: another rank of this engine can't use it, and its log says why")
            self._pages.close()
        if memory is not None and memory.tensors[0].device.type != "cpu":
            # By name: who checks types here need not have it.
            self._event = importlib.import_module("torch").cuda.Event

    # ---- which pages can be loaded ----

    def lookup(self, rid: str, transfers: list[Any]) -> list[int]:
        """All numbers of pages from the first that can be loaded. The engine's requests wait meanwhile, so nothing is waited for."""
        transfer = _kv(transfers)
        if transfer is None:
            return []
        return list(range(1, self._pages.found(transfer.keys, waits_for_objects=False) + 1))

    # ---- loads ----

    def load(self, rid: str, transfers: list[Any]) -> bool:
        """Announces a load: True, and it will be there; or False on all ranks alike, and it is computed."""
        if not self._pages.is_open:
            return False
        transfer = _kv(transfers)
        leased: _Queued | None = None
        try:
            leased = None if transfer is None else self._leased(rid, transfer)
        except Exception as error:
            # An engine goes on whatever its cache does.
            self._guard.tell(f"cannot lease pages, so they are computed: {error!r}")
        if self._peers.agreed(leased is not None) and leased is not None:
            self.cancel_queued_load(rid)
            self._queued[rid] = leased
            return True
        if leased is not None:
            leased.leases.release()
        return False

    def _leased(self, rid: str, transfer: Any) -> "_Queued | None":
        keys = self._pages.salted(transfer.keys)
        if not self._guard.may_ask():
            return None
        assert self._pages.pools is not None
        leases = self._pages.pools.lease(keys, min(self._settings.load_s_max, self._settings.load_timeout_s))
        statuses = leases.check()
        if are_ok(statuses):
            return _Queued(rid, keys, transfer.device_indices, leases)
        self._guard.judge(statuses)
        leases.release()
        return None

    def start_layer_wise_loading(self) -> int:
        """Begins the loads that were announced; the number of their batch, or -1: there are none."""
        transfers = self._pages.transfers
        queued, self._queued = self._queued, {}
        if not queued or transfers is None:
            return -1
        ready = self._recorded()
        begun = self._loader.submit(self._begin, transfers, list(queued.values()), ready)
        return self.layer_done_counter.add(Batch(transfers, begun))

    def _begin(self, transfers: Transfers, queued: Sequence["_Queued"], ready: Any) -> "list[tuple[str, Load]]":
        """In a thread of its own, which waits until the device knows the places of the pages."""
        if ready is not None:
            ready.synchronize()
        loads = []
        for one in queued:
            transfer = Transfer(one.rid, one.keys, list(page_ids(one.indices, self._page_tokens)), 0)
            loads.append((one.rid, transfers.leased(transfer, one.leases)))
        return loads

    def _recorded(self) -> Any:
        """An event behind what the device was given until now; None: tensors in memory."""
        if self._event is None:
            return None
        event = self._event()
        event.record()
        return event

    def finish_layer_wise_loading(self, counter_index: int) -> bool:
        """Waits until nothing of a batch is written any more; False: pages are lost, which takes two faults at a time."""
        return self.layer_done_counter.finish(counter_index)

    def cancel_queued_load(self, rid: str) -> bool:
        """Takes back a load that was announced and has not begun."""
        queued = self._queued.pop(rid, None)
        if queued is not None:
            queued.leases.release()
        return queued is not None

    # ---- stores ----

    def offload(self, transfers: list[Any], session_id: str | None = None) -> bool:
        """Begins a store. The answer depends on nothing that differs between ranks: SGLang counts the stores of all of them together."""
        if not self._pages.is_open or self._settings.store == "none":
            return False
        transfer = _kv(transfers)
        try:
            keys = self._pages.salted(transfer.keys) if transfer is not None and self._pages.may_ask() else []
        except Exception as error:
            self._guard.tell(f"cannot store pages: {error!r}")
            keys = []
        if not keys or not self._stores_here:
            self._offloads.append(_ended(bool(keys)))
            return True
        ready = [] if self._event is None else self.record_offload_ready()
        self._offloads.append(self._storer.submit(self._store, keys, transfer.device_indices, ready))
        return True

    def _store(self, keys: list[bytes], indices: Any, ready: Sequence[Any]) -> bool:
        """In a thread of its own; whether the daemon has all pages."""
        try:
            transfers = self._pages.transfers
            if transfers is None or not self._guard.may_ask():
                return False
            for event in ready:
                event.synchronize()
            statuses = transfers.put(Transfer("", keys, list(page_ids(indices, self._page_tokens)), 0))
            self._guard.judge([one for one in statuses if one is Status.NAMESPACE_MISMATCH])
            return all(status in STORED for status in statuses)
        except Exception as error:
            # An engine goes on whatever its cache does.
            self._guard.tell(f"cannot store pages: {error!r}")
            return False

    def num_completed_offloads(self) -> int:
        """How many stores have ended, from the oldest. SGLang takes their results in the order in which it began them."""
        return next((at for at, one in enumerate(self._offloads) if not one.done()), len(self._offloads))

    def pop_completed_offload(self) -> bool:
        return self._offloads.popleft().result()

    # ---- the end ----

    def reset(self) -> None:
        """Ends what is under way. SGLang's caches are flushed, so the weights may be others from now on."""
        for rid in list(self._queued):
            self.cancel_queued_load(rid)
        self.layer_done_counter.finish_all()
        while self._offloads:
            self.pop_completed_offload()
        self._pages.flushed()

    def close(self) -> None:
        """Ends what is under way, and lets go of the engine's memory."""
        self.reset()
        for pool in (self._loader, self._storer):
            pool.shutdown(wait=True)
        self._pages.close()


class Batch:
    """The loads of the requests of one batch."""

    def __init__(self, transfers: Transfers, begun: "Future[list[tuple[str, Load]]]") -> None:
        self._transfers = transfers
        self._begun = begun
        self._is_over = False
        self._is_good = False

    def end(self) -> bool:
        """Waits until all pages are there, whoever brings them; False: some are lost. A second time it says it at once."""
        if not self._is_over:
            self._is_over = True
            self._is_good = self._ended()
        return self._is_good

    def _ended(self) -> bool:
        try:
            loads = self._begun.result()
        except Exception as error:
            _log.error("kvtier: loads could not begin: %r", error)
            return False
        # Each is waited for: until then its pages may be written.
        return all([self._is_kept(rid, load) for rid, load in loads])

    def _is_kept(self, rid: str, load: Load) -> bool:
        try:
            self._transfers.keep(rid, load)
        except KvtierError as error:
            _log.error("kvtier: %s", error)
            return False
        finally:
            load.release()
        self._transfers.count_load(load, [Status.OK] * len(load.block_ids))
        return True


class Batches:
    """SGLang's forward pass waits here for the pages of its batch, before it reads those of a layer."""

    def __init__(self) -> None:
        self.consumer_index = -1
        self._batches: dict[int, Batch] = {}
        self._last = -1

    def add(self, batch: Batch) -> int:
        """A batch that has begun; its number."""
        self._last += 1
        self._batches[self._last] = batch
        return self._last

    def set_consumer(self, index: int) -> None:
        """The number of the batch that the next forward pass is of; -1: it has loaded nothing."""
        self.consumer_index = index

    def wait_until(self, threshold: int) -> None:
        """Until a layer is there. SGLang calls it several times for each layer."""
        batch = self._batches.get(self.consumer_index)
        if batch is not None:
            batch.end()

    def finish(self, index: int) -> bool:
        """Ends a batch; whether all of its pages are there."""
        batch = self._batches.pop(index, None)
        return batch is None or batch.end()

    def finish_all(self) -> None:
        for index in list(self._batches):
            self.finish(index)
        self.consumer_index = -1


class _Queued(NamedTuple):
    """A load that was announced."""

    rid: str
    keys: list[bytes]
    indices: Any
    """where its tokens belong on the device"""
    leases: Leases


def _unserved(params: Any, components: Any) -> str:
    """Why this engine can't be served, beside what both of SGLang's seams have in common; empty where it can."""
    others = sorted(one.name for one in components if one.name != "FULL")
    if others:
        return f"the model has more kinds of KV cache than full attention ({', '.join(others)}), which the linker does not keep"
    if int(params.pp_size) > 1:
        return f"pipeline parallelism of {params.pp_size} stages is not supported, because SGLang does not have its stages agree on a linker's hits"
    if getattr(params, "mtp_draft_device_pools", ()) or getattr(params, "sidecar_draft_device_pools", ()):
        return "the KV cache of a draft model is not supported by the linker"
    return ""


def _kv(transfers: Sequence[Any]) -> Any:
    """The transfer of keys and values; None: SGLang passes none."""
    for one in transfers:
        if one.name == PoolName.KV:
            return one
    return None


def _ended(result: bool) -> "Future[bool]":
    future: Future[bool] = Future()
    future.set_result(result)
    return future
