"""A worker's side: copies between the engine's tensors and kvtier, begun in one step and ended in a later one."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from kvtier._errors import KvtierError
from kvtier._protocol import Status
from kvtier._types import Leases
from kvtier.torch import Copying, Region
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan, Transfer

_log = logging.getLogger("vllm.kvtier")

_FLUSH_TRIES = 2
_IDLE_WAIT_S = 0.002
_BYTES_PER_S_MAX = 55e9
"""of a GPU's link"""
_HOLD_S_MIN = 0.001
_LAST_SHARE = 8
"""an engine's books on blocks that it is told of take about a tenth of the time that blocks of 2 MiB take over PCIe 5"""


Hold: TypeAlias = Callable[[Sequence[bytes], float], Leases]
"""Leases on blocks that are in memory; waits at most so many seconds"""


class Copies(Protocol):
    """Copies of one request's blocks that go on."""

    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]: ...
    def cancel(self) -> None: ...
    def give_up(self) -> None: ...


class _Several:
    """The copies of a request's blocks of several groups."""

    def __init__(self, copies: Sequence[Copying]) -> None:
        self._copies = copies

    def done(self) -> bool:
        return all(one.done() for one in self._copies)

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        """All statuses, one group's behind the other's. `blocks` is not used: nobody is told of a part."""
        end = None if timeout is None else time.monotonic() + timeout
        statuses: list[Status] = []
        for one in self._copies:
            statuses += one.wait(None if end is None else max(0.0, end - time.monotonic()))
        return statuses

    def cancel(self) -> None:
        for one in self._copies:
            one.cancel()

    def give_up(self) -> None:
        for one in self._copies:
            one.give_up()


@dataclass(slots=True)
class _Load:
    copying: Copies | None
    """None: it could not even begin"""
    keys: list[bytes]
    block_ids: list[int]
    begun_s: float
    needed: int
    """how many blocks from the first must be there before the engine is told of all"""
    last: Leases | None = None
    """on the last blocks; None: nobody has asked for them yet"""
    is_void: bool = False
    """what it brings is of other weights"""

    @property
    def is_over(self) -> bool:
        return self.copying is None or self.copying.done()

    @property
    def may_be_promised(self) -> bool:
        """Whether all blocks are there but the last ones, which can't get lost any more."""
        if self.copying is None or self.is_void or self.needed == len(self.keys):
            return False
        statuses = self.copying.wait(0, self.needed)
        return _are_ok(statuses[: self.needed]) and not _has_failed(statuses)

    def wait(self, timeout_s: float) -> None:
        """Until the engine can be told of it, or so long."""
        assert self.copying is not None
        if _has_failed(self.copying.wait(timeout_s, self.needed)):
            self.needed = len(self.keys)

    def hold(self, hold: Hold, block_bytes: int) -> None:
        """Asks for leases on its last blocks. Those that readers must verify could yet turn out to be damaged."""
        count = cast(Copying, self.copying).last_blocks(len(self.keys) // _LAST_SHARE)
        # Their memory is mapped when it is asked for first: while the load goes on, and not for longer than that.
        within_s = max(_HOLD_S_MIN, len(self.keys) * block_bytes / _BYTES_PER_S_MAX / 2)
        self.last = hold(self.keys[len(self.keys) - count :], within_s)
        if self.last.are_verified:
            self.needed -= len(self.last)
        else:
            self.last.release()

    def release(self) -> None:
        if self.last is not None:
            self.last.release()


class _Store(NamedTuple):
    copying: Copying
    block_ids: frozenset[int]
    begun_s: float


class Worker:
    """Loads and stores of one rank. Nothing here waits but `before_step`, and `finished` of an idle engine.

    An idle engine is told that a load has ended while its last blocks are still being copied: what the engine does then, an
    empty step and its own books, takes it as long. Before it computes, `before_step` waits for them. From then on the load
    must not fail, as the engine has planned its steps with it: the last blocks are leased, and if the daemon goes with their
    copy under way they are written from its memory, which this process has mapped.
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
    ) -> None:
        """`regions` and `writes`, whether this rank stores, of each group; without regions nothing is loaded or stored. `weigh`
        makes the digest of the weights in memory; empty: it can't. `is_plain`: the engine goes on from the first block that could
        not be loaded; otherwise it takes nothing that was loaded for a request of which a block could not."""
        self._regions = list(regions)
        self._settings = settings
        self._writes = list(writes)
        self._is_plain = is_plain
        self._failed: set[str] = set()
        """requests whose loads have failed, since somebody looked"""
        self._annotates = annotates
        self._event = event
        """makes what a copy waits for: that the device has done what it was told until now"""
        self._hold = hold
        """None: nothing is promised"""
        self._weigh = weigh
        self._weighed = 0
        """the question that was answered last"""
        self.weights = ""
        """that answer"""
        self._loads: dict[str, _Load] = {}
        self._promised: dict[str, _Load] = {}
        """loads that the engine takes for ended"""
        self._read: list[Leases] = []
        """to be given back when the step is with the device: it takes a moment"""
        self._stores: list[_Store] = []
        self._late: list[Transfer] = []
        """stores that have not begun"""
        self._invalid: set[int] = set()
        self._stores_ended = 0
        self._errors_told: set[str] = set()
        self.observed: Counter[str] = Counter()
        """what happened since somebody looked"""

    def start_loads(self, plan: Plan) -> None:
        after = self._event() if plan.loads else None
        void = set(plan.void)
        for request_id in void & self._loads.keys():
            self._loads[request_id].is_void = True
        for request_id, transfers in _by_request(plan.loads).items():
            copying = None if request_id in void else self._begin_all(transfers, after)
            keys = [key for one in transfers for key in one.keys]
            ids = [block for one in transfers for block in one.block_ids]
            self._loads[request_id] = _Load(copying, keys, ids, time.monotonic(), len(keys))

    def start_stores(self, plan: Plan) -> None:
        """After the step's forward pass was handed to the device."""
        late, self._late = self._late, []
        self._store([*late, *plan.stores])

    def _store(self, transfers: Sequence[Transfer]) -> None:
        if not transfers or not any(self._writes):
            return
        after = self._event()
        for transfer in transfers:
            if not self._writes[transfer.group]:
                continue
            copying = self._begin(transfer, "store", after)
            if copying is None:
                self._stores_ended += 1
            else:
                self._stores.append(_Store(copying, frozenset(transfer.block_ids), time.monotonic()))

    def _begin_all(self, transfers: Sequence[Transfer], after: Any) -> Copies | None:
        """Loads of one request; None: they could not all begin."""
        begun: list[Copying] = []
        for transfer in transfers:
            copying = self._begin(transfer, "load", after)
            if copying is None:
                for one in begun:
                    self._finish(one, cancels=True)
                return None
            begun.append(copying)
        return begun[0] if len(begun) == 1 else _Several(begun)

    def _begin(self, transfer: Transfer, what: str, after: Any) -> Copying | None:
        if not self._regions:
            return None
        region = self._regions[transfer.group]
        try:
            if what == "load":
                return region.get(
                    transfer.keys, transfer.block_ids, after=after, timeout=self._settings.load_timeout_s, by_layer=False
                )
            return region.put(
                transfer.keys, transfer.block_ids, after=after, timeout=self._settings.put_timeout_s,
                parent=transfer.parent, depth=transfer.depth, annotations=transfer.annotations if self._annotates else None,
            )  # fmt: skip
        except Exception as error:
            # An engine goes on whatever its cache does; what is wrong here is told once.
            self._tell(f"cannot {what} blocks: {error!r}")
            return None

    def before_step(self, plan: Plan) -> None:
        """Waits for what the step counts on: that promised blocks are there, and those that it writes to are stored.

        Raises:
            KvtierError: promised blocks are lost, which takes two faults at a time; the engine must not compute with them.
        """
        if self._promised and (not plan.idle or plan.allocates):
            begun_s = time.monotonic()
            for request_id, load in list(self._promised.items()):
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

    def _flush(self, reused: set[int] | None) -> None:
        """Waits for what is being stored from these blocks; None: from any."""
        begun_s = time.monotonic()
        for store in self._stores:
            if not store.copying.done() and _meets(reused, store.block_ids):
                self.observed["flushes"] += 1
                self._finish(store.copying)
        self.observed["flush_us"] += int((time.monotonic() - begun_s) * 1e6)

    def _finish(self, copying: Copying, cancels: bool = False) -> None:
        """Waits until it uses the tensors no longer. `cancels`: nobody wants it any more."""
        if cancels:
            copying.cancel()
        for _ in range(_FLUSH_TRIES):
            copying.wait(self._settings.put_timeout_s)
            if copying.done():
                return
            copying.cancel()
        self._tell("a store did not end in time and could not be cancelled; the engine waits until it ends")
        copying.wait()

    def _keep_promise(self, request_id: str, load: _Load) -> None:
        """Waits for the blocks that the engine counts on, and writes those that did not come."""
        assert load.copying is not None and load.last is not None
        load.copying.wait(self._settings.load_timeout_s)
        if not load.copying.done():
            load.copying.give_up()
        statuses = _outcome(load.copying, len(load.block_ids))[load.needed :]
        if not _are_ok(statuses):
            lost = [index for index, status in enumerate(statuses) if status is not Status.OK]
            found = [block for index in lost if (block := load.last.read(index)) is not None]
            if len(found) < len(lost):
                raise KvtierError(
                    f"request {request_id}: {len(lost) - len(found)} blocks were not loaded ({_told(statuses)}), and their bytes in "
                    "the daemon's memory are damaged. The engine has planned this step with them, so it must stop"
                )
            self._regions[0].write([load.block_ids[load.needed + index] for index in lost], found)
            self.observed["written_blocks"] += len(lost)
            self._tell(f"the daemon did not finish a load; the worker read the last blocks from its memory: {_told(statuses)}")
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
        if idle and self._loads:
            self._wait_for(next(iter(self._loads.values())))
        ended = set()
        for request_id, load in list(self._loads.items()):
            if load.is_over:
                load.release()
                self._collect_load(request_id, load, _outcome(None if load.is_void else load.copying, len(load.block_ids)))
            elif idle and load.may_be_promised:
                self._promised[request_id] = load
                self._collect_load(request_id, load, [Status.OK] * len(load.block_ids))
            else:
                continue
            del self._loads[request_id]
            ended.add(request_id)
        return ended

    def _wait_for(self, load: _Load) -> None:
        """Until the engine can be told of it, or a moment."""
        if load.copying is None or load.is_over:
            return
        if load.last is None and self._hold is not None and self._regions:
            try:
                load.hold(self._hold, self._regions[0].block_bytes)
            except Exception as error:
                self._hold = None
                self._tell(f"cannot lease blocks, so loads are reported only when they are complete: {error!r}")
        load.wait(_IDLE_WAIT_S)

    def _collect_load(self, request_id: str, load: _Load, statuses: list[Status]) -> None:
        taken_s = time.monotonic() - load.begun_s
        failed: set[int] = set()
        if not _are_ok(statuses):
            failed = {block for block, status in zip(load.block_ids, statuses, strict=True) if status is not Status.OK}
            if self._is_plain:
                self._invalid |= failed
            else:
                self._failed.add(request_id)
        observed = self.observed
        observed["loads"] += 1
        observed["load_us"] += int(taken_s * 1e6)
        observed["loaded_blocks"] += len(statuses) - len(failed)
        observed["load_failed_blocks"] += len(failed)
        _log.debug(
            "kvtier: request %s: loaded %d of %d blocks in %.2f ms",
            request_id, len(statuses) - len(failed), len(statuses), taken_s * 1e3,
        )  # fmt: skip
        if failed:
            self._tell(f"blocks could not be loaded, and the engine computes them: {_told(statuses)}")

    def _collect_stores(self) -> None:
        left = []
        for store in self._stores:
            if not store.copying.done():
                left.append(store)
                continue
            statuses = _outcome(store.copying, len(store.block_ids))
            counts = Counter(statuses)
            observed = self.observed
            observed["stores"] += 1
            observed["store_us"] += int((time.monotonic() - store.begun_s) * 1e6)
            observed["stored_blocks"] += counts[Status.OK]
            observed["known_blocks"] += counts[Status.EXISTS] + counts[Status.PENDING]
            observed["refused_blocks"] += (
                len(statuses) - counts[Status.OK] - counts[Status.EXISTS] - counts[Status.PENDING]
            )
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

    def _tell(self, text: str) -> None:
        if text not in self._errors_told and len(self._errors_told) < 64:
            self._errors_told.add(text)
            _log.warning("kvtier: %s", text)


def _by_request(transfers: Sequence[Transfer]) -> dict[str, list[Transfer]]:
    found: dict[str, list[Transfer]] = {}
    for transfer in transfers:
        found.setdefault(transfer.request_id, []).append(transfer)
    return found


def _outcome(copying: Copies | None, count: int) -> list[Status]:
    if copying is None:
        return [Status.UNAVAILABLE] * count
    try:
        return copying.wait(0)
    except Exception as error:
        _log.warning("kvtier: a copy failed: %r", error)
        return [Status.INTERNAL] * count


def _meets(reused: set[int] | None, block_ids: Iterable[int]) -> bool:
    return reused is None or not reused.isdisjoint(block_ids)


def _are_ok(statuses: list[Status]) -> bool:
    return statuses.count(Status.OK) == len(statuses)


def _has_failed(statuses: list[Status]) -> bool:
    return statuses.count(Status.OK) + statuses.count(Status.PENDING) < len(statuses)


def _told(statuses: Iterable[Status]) -> str:
    counts = Counter(status for status in statuses if status is not Status.OK)
    return ", ".join(status.name for status in sorted(counts))
