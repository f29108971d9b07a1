"""Stores by layer: the first layers of a step's blocks are stored while the engine computes the others."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvtier.engine.transfers import Store, Transfer, Transfers

_log = logging.getLogger("vllm.kvtier")

_STEPS_UNDER_WAY_MAX = 2
"""earlier steps whose stores by layer go on: each group of layers takes one of the events that copies can wait for
(`kvtier.torch._cuda.EVENTS`), and without one the engine's thread would wait"""
_MISSED_MAX = 16
"""The log says so if none of these first steps could store a layer early."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many groups of layers blocks may be cut: each group of each request takes the engine's thread some 10 microseconds."""

    groups_max: int
    part_bytes: int
    """the least that a group has of a block"""
    put_bytes: int
    """the least that a group has of all blocks of a request that a step completes"""


GPU_CUT = Cut(8, 64 << 10, 16 << 20)
"""A node sends no smaller part of a block on its own. The engine computes 16 MiB of blocks in some milliseconds."""
HOST_CUT = Cut(4, 1, 1)
"""An engine on processors stores by layer in tests only."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The blocks of a group whose layers can be stored apart."""

    numbers: Mapping[str, int]
    """of each layer, by the engine's name, the number in the region; several names may have one"""
    layers: int
    part_bytes: int
    """of a block that this rank has"""

    def ends(self, stores: Sequence[Transfer], cut: Cut) -> list[int]:
        """The ends of the groups of layers in which these blocks are stored; empty: they are stored whole."""
        if not stores:
            return []
        put_bytes = sum(map(self.bytes_of, stores)) // len(stores)
        groups = min(cut.groups_max, self.layers, self.part_bytes // cut.part_bytes, put_bytes // cut.put_bytes)
        return [self.layers * (group + 1) // groups for group in range(groups)] if groups > 1 else []

    def bytes_of(self, store: Transfer) -> int:
        """The bytes of a store's blocks, of this rank."""
        return len(store.keys) * self.part_bytes


class _Step:
    """The stores by layer of one group in the step that is computed."""

    def __init__(self, transfers: Sequence[Transfer], ends: Sequence[int]) -> None:
        self.transfers = transfers
        self.stores: list[Store] = []
        """one for each transfer, in its order; empty until the first layers are being stored"""
        self._ends = [0, *ends]
        self._computed: set[int] = set()
        self._leading = 0
        """how many layers from the first are computed"""
        self._stored = 0
        """how many groups of layers are being stored"""

    def compute(self, layer: int) -> range:
        """A layer is computed.

        Returns:
            The layers that can be stored now: whole groups, maybe none.
        """
        self._computed.add(layer)
        while self._leading in self._computed:
            self._leading += 1
        first = self._stored
        while self._stored + 1 < len(self._ends) and self._ends[self._stored + 1] <= self._leading:
            self._stored += 1
        return range(self._ends[first], self._ends[self._stored])

    def rest(self) -> range:
        """The layers that are not being stored yet. All are computed."""
        return range(self._ends[self._stored], self._ends[-1])


class Saves:
    """The stores by layer of the step that is computed. All calls come from the engine's own thread, and none waits.

    Whether an engine tells that it has computed a layer depends on its model, its attention backend and its CUDA graphs. So nothing is
    taken for granted: layers that it does not tell of are stored when the step is with the device, as all layers of other stores.
    """

    def __init__(self, pools: Sequence[Pool | None], cut: Cut, transfers: Transfers, event: Callable[[], Any]) -> None:
        """
        Args:
            pools: of each group; None: its blocks are stored whole.
            event: makes an event that copies wait for: the device has done what it was told until now.
        """
        self._pools = list(pools)
        self._cut = cut
        self._transfers = transfers
        self._event = event
        self._places = {name: (group, number) for group, pool in enumerate(pools) if pool for name, number in pool.numbers.items()}
        self._steps: dict[int, _Step] = {}
        """by group"""
        self._earlier: deque[list[Store]] = deque()
        """the stores of earlier steps, of which some may go on"""
        self._missed = 0
        """steps of which no layer could be stored early; below 0: a step has stored layers early"""
        self.is_listening = False
        """whether `computed` must be called for each layer of this step"""

    def choose(self, stores: Sequence[Transfer]) -> bool:
        """Chooses those of a step's stores that go by layer.

        Returns:
            Whether there are any, so that it is of interest whether the engine tells of its layers.
        """
        self._steps.clear()
        self.is_listening = False
        asked = [one for one in stores if one.by_layer]
        if not asked:
            return False
        while self._earlier and all(store.copying.done() for store in self._earlier[0]):
            self._earlier.popleft()
        if len(self._earlier) >= _STEPS_UNDER_WAY_MAX:
            return False
        for group, pool in enumerate(self._pools):
            if pool is not None and self._transfers.takes_events(group):
                chosen = [one for one in asked if one.group == group and pool.bytes_of(one) >= 2 * self._cut.put_bytes]
                ends = pool.ends(chosen, self._cut)
                if ends:
                    self._steps[group] = _Step(chosen, ends)
        return bool(self._steps)

    def begin(self, tells: bool) -> None:
        """The step is about to be computed, of which stores were chosen. `tells`: whether the engine tells of each layer in it."""
        self.is_listening = tells
        if not tells:
            self._steps.clear()
            self._miss("the step was one CUDA graph, or ran in several threads")

    def computed(self, name: str) -> None:
        """The device has been told to write a layer that the engine knows by this name."""
        place = self._places.get(name)
        step = None if place is None else self._steps.get(place[0])
        if place is not None and step is not None:
            self._store(step, step.compute(place[1]))

    def end(self, planned: Sequence[Transfer]) -> tuple[list[Store], list[Transfer]]:
        """The step is with the device.

        Returns:
            The stores of this step that went by layer, and those of the planned ones that are still to be begun.
        """
        if not self.is_listening:
            return [], list(planned)
        self.is_listening = False
        begun = [step for step in self._steps.values() if step.stores]
        if not begun:
            self._miss("the engine told of no layer when it had computed the layer")
            return [], list(planned)
        self._missed = -1
        for step in begun:
            self._store(step, step.rest())
        stores = [store for step in begun for store in step.stores]
        self._earlier.append(stores)
        taken = {id(one) for step in begun for one in step.transfers}
        return stores, [one for one in planned if id(one) not in taken]

    def _store(self, step: _Step, layers: range) -> None:
        if not layers:
            return
        after = self._event()
        earlier: Sequence[Store | None] = step.stores or [None] * len(step.transfers)
        step.stores = [
            self._transfers.store_layers(one, layers, after, store) for one, store in zip(step.transfers, earlier, strict=True)
        ]

    def _miss(self, why: str) -> None:
        if self._missed < 0:
            return
        self._missed += 1
        if self._missed == _MISSED_MAX:
            _log.warning("kvtier.store_by_layer has had no effect in %d steps of this engine, the last time because %s", _MISSED_MAX, why)
