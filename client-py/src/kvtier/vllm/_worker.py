"""A worker's side: copies between the engine's tensors and kvtier, begun in one step and ended in a later one."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from kvtier._errors import KvtierError
from kvtier._protocol import Status
from kvtier._types import Leases
from kvtier.engine.guard import Guard
from kvtier.engine.sharing import Sharing
from kvtier.engine.transfers import Hold, Load, Store, Transfer, Transfers, are_ok, by_request
from kvtier.torch import Region
from kvtier.vllm import _saves
from kvtier.vllm._layers import Layers
from kvtier.vllm._saves import Saves
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan

_log = logging.getLogger("vllm.kvtier")

_IDLE_WAIT_S = 0.002


class Worker:
    """Loads and stores of one rank. Nothing here waits but `before_step`, and `finished` of an idle engine.

    An idle engine is told that a load has ended while its last blocks are still being copied: what the engine does then, an
    empty step and its own books, takes it as long. Before it computes, `before_step` waits for them. From then on the load
    must not fail, as the engine has planned its steps with it: the last blocks are leased, and if the daemon goes with their
    copy under way they are written from its memory, which this process has mapped.

    A load that comes by layer is one of which all blocks are leased. The engine is told that it has ended before any layer is there, and
    waits for each within the step that computes its request first (`wait_layer`).

    A store by layer begins within the step that computes its blocks (`layer_computed`), and is known when that step is with the device.
    """

    def __init__(
        self,
        regions: Sequence[Region],
        settings: Settings,
        writes: Sequence[bool],
        annotates: bool,
        event: Callable[[], Any],
        hold: Hold | None,
        weigh: Callable[[], str],
        is_plain: bool = True,
        sharing: Sharing | None = None,
        layers: Layers | None = None,
        pools: Sequence[_saves.Pool | None] = (),
        cut: _saves.Cut = _saves.GPU_CUT,
    ) -> None:
        """`regions` and `writes`, whether this rank stores, of each group; without regions nothing is loaded or stored. `weigh`
        makes the digest of the weights in memory; empty: it can't. `is_plain`: the engine goes on from the first block that could
        not be loaded; otherwise it takes nothing that was loaded for a request of which a block could not. `sharing`: the book on
        blocks that other engines get from this one's memory; None: they get none. `layers`: those of the only region; None: all
        layers of a block come before the engine is told of it."""
        self._regions = list(regions)
        self._settings = settings
        self._writes = list(writes)
        self._is_plain = is_plain
        self._sharing = sharing
        self._layers = layers
        self._failed: set[str] = set()
        """requests whose loads have failed, since somebody looked"""
        self._event = event
        """makes what a copy waits for: that the device has done what it was told until now"""
        self._hold = hold
        """None: nothing is promised"""
        self._weigh = weigh
        self._weighed = 0
        """the question that was answered last"""
        self.weights = ""
        """that answer"""
        self._loads: dict[str, Load] = {}
        self._promised: dict[str, Load] = {}
        """loads that the engine takes for ended"""
        self._due: dict[str, Load] = {}
        """those of them that the step waits for which is computed now"""
        self._read: list[Leases] = []
        """to be given back when the step is with the device: it takes a moment"""
        self._stores: list[Store] = []
        self._late: list[Transfer] = []
        """stores that have not begun"""
        self._invalid: set[int] = set()
        self._stores_ended = 0
        guard = Guard(_log)
        self.observed: Counter[str] = guard.observed
        """what happened since somebody looked"""
        self._tell = guard.tell
        self._transfers = Transfers(self._regions, settings, guard, annotates, sharing)
        # A rank that stores nothing of a group has no layers of it to store.
        mine = [pool if writes else None for pool, writes in zip(pools, self._writes, strict=bool(pools))]
        self._saves = Saves(mine, cut, self._transfers, event) if any(mine) else None

    def start_loads(self, plan: Plan) -> None:
        after = self._event() if plan.loads else None
        void = set(plan.void)
        for request_id in void & self._loads.keys():
            self._loads[request_id].is_void = True
        by_layer = plan.by_layer if self._layers is not None and self._layers.are_asked_for else ()
        for request_id, transfers in by_request(plan.loads).items():
            if request_id in void:
                self._loads[request_id] = self._transfers.void(transfers, after)
            else:
                self._loads[request_id] = self._transfers.load(transfers, after, request_id in by_layer)

    def start_stores(self, plan: Plan) -> None:
        """After the step's forward pass was handed to the device.

        Raises:
            KvtierError: the engine has not asked for layers that were still to come, and may have read them.
        """
        self._end_forward()
        late, self._late = self._late, []
        stores: Sequence[Transfer] = plan.stores
        if self._saves is not None:
            begun, stores = self._saves.end(stores)
            self._stores += begun
        self._store([*late, *stores])

    def stop_storing(self) -> None:
        """A forward pass has failed. Some of its layers were not computed, and what the engine computes from now on may depend on them."""
        self._saves = None
        self._writes = [False] * len(self._writes)

    def _store(self, transfers: Sequence[Transfer]) -> None:
        if not transfers or not any(self._writes):
            return
        after = self._event()
        for transfer in transfers:
            if not self._writes[transfer.group]:
                continue
            store = self._transfers.store(transfer, after)
            if store is None:
                self._stores_ended += 1
            else:
                self._stores.append(store)

    def before_step(self, plan: Plan) -> None:
        """Waits for what the step counts on: that promised blocks are there, and those that it writes to are stored.

        Raises:
            KvtierError: promised blocks are lost, which takes two faults at a time; the engine must not compute with them.
        """
        if self._promised and (not plan.idle or plan.allocates):
            begun_s = time.monotonic()
            for request_id, load in list(self._promised.items()):
                if not load.layers or (request_id not in plan.computed and request_id not in plan.waiting):
                    self._keep_promise(request_id, load)
            self.observed["promise_us"] += int((time.monotonic() - begun_s) * 1e6)
        if plan.weigh and plan.weigh != self._weighed:
            begun_s = time.monotonic()
            self._weighed, self.weights = plan.weigh, self._weigh()
            self.observed["weighings"] += 1
            self.observed["weighing_us"] += int((time.monotonic() - begun_s) * 1e6)
        self._late += plan.late
        reused = None if plan.reuses_any else set(plan.reused)
        if self._late:
            # Those that nobody is in a hurry for begin when the step is with the device; an idle one has no such moment.
            urgent = [plan.idle or _meets(reused, one.block_ids) for one in self._late]
            first = list(compress(self._late, urgent))
            self._late = [one for one, is_urgent in zip(self._late, urgent, strict=True) if not is_urgent]
            self._store(first)
        if self._stores and (reused is None or reused):
            self._flush(reused)
        if self._sharing is not None and (reused is None or reused):
            self._sharing.take_back(reused)

    def begin_forward(self, plan: Plan, asks: Callable[[], bool]) -> None:
        """The step's forward pass is about to begin.

        Args:
            asks: whether the engine asks for layers in it (`wait_layer`), and tells of each that is computed (`layer_computed`); called only
                where that is of interest.

        Raises:
            KvtierError: as `before_step`.
        """
        if plan.idle:
            return
        loads = self._awaits_layers(plan)
        stores = self._saves is not None and self._saves.choose(plan.stores)
        if not loads and not stores:
            return
        tells = asks()
        if self._saves is not None and stores:
            self._saves.begin(tells)
        if self._layers is None or not loads:
            return
        if tells:
            self._layers.begin(must_ask=bool(self._due))
            return
        for request_id, load in self._due.items():
            self._keep_promise(request_id, load)
        self._due.clear()

    def _awaits_layers(self, plan: Plan) -> bool:
        """Whether it is of interest for loads whether the engine asks for layers in the step."""
        if self._layers is None:
            return False
        self._due = {request_id: self._promised[request_id] for request_id in plan.computed if request_id in self._promised}
        return bool(self._due) or self._layers.is_watching

    @property
    def is_asked_for_layers(self) -> bool:
        """Whether `wait_layer` and `layer_computed` must be called for each layer of this step."""
        return (self._layers is not None and self._layers.is_listening) or (self._saves is not None and self._saves.is_listening)

    def layer_computed(self, name: str) -> None:
        """The device has been told to write a layer that the engine knows by this name. Never waits, and never raises."""
        if self._saves is not None and self._saves.is_listening:
            self._saves.computed(name)

    def wait_layer(self, name: str) -> None:
        """Waits until a layer may be read that the engine knows by this name.

        Raises:
            KvtierError: as `before_step`.
        """
        if self._layers is None or not self._layers.is_listening:
            return
        layers = self._layers.ask(name)
        if not self._due:
            return
        begun_s = time.monotonic()
        for request_id, load in list(self._due.items()):
            if not load.wait_layers(layers, max(0.0, load.begun_s + self._settings.load_timeout_s - time.monotonic())):
                self._keep_promise(request_id, load)
                del self._due[request_id]
        self.observed["layer_wait_us"] += int((time.monotonic() - begun_s) * 1e6)

    def _end_forward(self) -> None:
        layers = self._layers
        if layers is None or not layers.is_listening:
            return
        missing = layers.end()
        if missing and layers.must_ask:
            raise KvtierError(
                f"the engine did not ask for {len(missing)} layers whose blocks were still to come, for example {missing[0]}, although it did "
                "in an earlier step. What it has computed may be wrong, so it must stop: set kvtier.load_by_layer to 'off'"
            )

    def _flush(self, reused: set[int] | None) -> None:
        """Waits for what is being stored from these blocks; None: from any."""
        begun_s = time.monotonic()
        for store in self._stores:
            if not store.copying.done() and _meets(reused, store.block_ids):
                self.observed["flushes"] += 1
                self._transfers.end(store.copying)
        self.observed["flush_us"] += int((time.monotonic() - begun_s) * 1e6)

    def _keep_promise(self, request_id: str, load: Load) -> None:
        """Waits for the blocks that the engine counts on, and writes those that did not come."""
        self._transfers.keep(request_id, load)
        assert load.last is not None
        del self._promised[request_id]
        self._read.append(load.last)

    def finished(self, idle: bool = False) -> set[str]:
        """The requests whose loads have ended since the last call, whether or not they succeeded. An idle engine waits a
        little for the oldest one: it would only ask again, on the core that copies."""
        self._collect_stores()
        for request_id, load in list(self._promised.items()):
            if load.is_over:
                self._keep_promise(request_id, load)
        for leases in self._read:
            leases.release()
        self._read.clear()
        for load in self._loads.values():
            if load.layers:
                self._hold_last(load)
        if idle and self._loads:
            self._wait_for(next(iter(self._loads.values())))
        ended = set()
        for request_id, load in list(self._loads.items()):
            if load.is_over:
                load.release()
                self._collect_load(request_id, load, load.outcome())
            elif (idle or (load.layers and self._settings.load_by_layer == "on")) and load.may_be_promised:
                self._promised[request_id] = load
                self.observed["loads_by_layer"] += bool(load.layers)
                self._collect_load(request_id, load, [Status.OK] * len(load.block_ids))
            else:
                continue
            del self._loads[request_id]
            ended.add(request_id)
        if self._sharing is not None:
            self._sharing.tell()
            if self._sharing.observed:
                self.observed.update(self._sharing.observed)
                self._sharing.observed.clear()
        return ended

    def _wait_for(self, load: Load) -> None:
        """Until the engine can be told of it, or a moment."""
        if load.copying is None or load.is_over:
            return
        self._hold_last(load)
        load.wait(_IDLE_WAIT_S)

    def _hold_last(self, load: Load) -> None:
        """Leases the blocks of a load that may come when the engine counts on them, unless that was tried."""
        if self._hold is None or not self._regions or load.last is not None or load.copying is None or load.is_over:
            return
        try:
            load.hold(self._hold, self._regions[0].block_bytes, bool(load.layers and self._layers and self._layers.verifies))
        except Exception as error:
            self._hold = None
            self._tell(f"cannot lease blocks, so loads are reported only when they are complete: {error!r}")

    def _collect_load(self, request_id: str, load: Load, statuses: list[Status]) -> None:
        failed: set[int] = set()
        if not are_ok(statuses):
            failed = {block for block, status in zip(load.block_ids, statuses, strict=True) if status is not Status.OK}
            if self._is_plain:
                self._invalid |= failed
            else:
                self._failed.add(request_id)
        taken_s = self._transfers.count_load(load, statuses)
        _log.debug(
            "kvtier: request %s: loaded %d of %d blocks in %.2f ms",
            request_id, len(statuses) - len(failed), len(statuses), taken_s * 1e3,
        )  # fmt: skip

    def _collect_stores(self) -> None:
        left = []
        for store in self._stores:
            if not store.copying.done():
                left.append(store)
                continue
            self._transfers.count_store(store)
            self._stores_ended += 1
        self._stores = left

    def take_invalid(self) -> set[int]:
        """The blocks that could not be loaded, since the last call."""
        invalid, self._invalid = self._invalid, set()
        return invalid

    def take_failed(self) -> set[str]:
        """The requests of which the engine has nothing that was loaded, since the last call."""
        failed, self._failed = self._failed, set()
        return failed

    def take_stores_ended(self) -> int:
        ended, self._stores_ended = self._stores_ended, 0
        return ended

    def close(self) -> None:
        """Ends what is under way."""
        for store in self._stores:
            store.copying.cancel()
        for load in [*self._loads.values(), *self._promised.values()]:
            load.release()
        for region in self._regions:
            region.close()


def _meets(reused: set[int] | None, block_ids: Iterable[int]) -> bool:
    return reused is None or not reused.isdisjoint(block_ids)
