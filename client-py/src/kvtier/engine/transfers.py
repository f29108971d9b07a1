"""Copies between an engine's memory and kvtier: of several pools together, with statuses and without exceptions."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from kvtier._errors import KvtierError
from kvtier._protocol import Status
from kvtier._types import Leases
from kvtier.engine.groups import Need, longest
from kvtier.engine.guard import Guard
from kvtier.engine.settings import Settings
from kvtier.engine.sharing import Coming, Sharing
from kvtier.torch import Copying, Region

_log = logging.getLogger("kvtier")

_END_TRIES = 2
_BYTES_PER_S_MAX = 55e9
"""of a GPU's link"""
_HOLD_S_MIN = 0.001
_HOLD_ALL_S_MIN = 0.02
"""for leases on all blocks: without them a load that comes by layer is of no use"""
_ANSWER_S = 0.5
"""behind the time limit of a load, when a daemon that lives has said that it is late"""
_PIECE_BYTES = 64 << 20
"""of blocks that are written from the daemon's memory"""
_LAST_SHARE = 8
"""an engine's books on blocks that it is told of take about a tenth of the time that blocks of 2 MiB take over PCIe 5"""

STORED = (Status.OK, Status.EXISTS, Status.PENDING)
"""the statuses of a stored block that the daemon has, or gets from another client"""

_GOES_ON = frozenset((Status.OK, Status.PENDING))
"""the statuses of some layers of a block after which the other layers are still stored"""

Hold: TypeAlias = Callable[[Sequence[bytes], float], Leases]
"""Leases on blocks that are in memory; waits at most so many seconds"""


@dataclass(slots=True)
class Transfer:
    """Blocks of one request in one pool, to be loaded or stored."""

    request_id: str
    keys: list[bytes]
    block_ids: list[int]
    """where each block lies in the pool's memory, counted in blocks"""
    depth: int
    """the first block's place in its sequence"""
    parent: bytes | None = None
    """the key before the first one"""
    annotations: list[bytes | None] | None = None
    """what is kept with the blocks for KV events"""
    group: int = 0
    """the number of the group, or pool, whose blocks they are"""
    importance: int = 1
    """of the blocks of a store to the daemon's policies, 0 to 3"""
    by_layer: bool = False
    """whether the first layers of a store may go while the engine computes the others"""


class Copies(Protocol):
    """Copies of one request's blocks that go on."""

    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]: ...
    def cancel(self) -> None: ...
    def give_up(self) -> None: ...


class _Joined:
    """Copies that are waited for and ended together."""

    def __init__(self, copies: Sequence[Copying]) -> None:
        self._copies = list(copies)

    def done(self) -> bool:
        return all(one.done() for one in self._copies)

    def _statuses(self, timeout: float | None) -> list[list[Status]]:
        """The statuses of each copy, after at most so many seconds for all of them."""
        end = None if timeout is None else time.monotonic() + timeout
        return [one.wait(None if end is None else max(0.0, end - time.monotonic())) for one in self._copies]

    def cancel(self) -> None:
        for one in self._copies:
            one.cancel()

    def give_up(self) -> None:
        for one in self._copies:
            one.give_up()


class _Several(_Joined):
    """The copies of a request's blocks of several groups."""

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        """All statuses, one group's behind the other's. `blocks` is not used: nobody is told of a part."""
        return [status for of_group in self._statuses(timeout) for status in of_group]


class _Layers(_Joined):
    """The copies of a store's blocks, some layers each."""

    def __init__(self, blocks: int) -> None:
        super().__init__([])
        self._blocks = blocks
        self._is_lost = False
        """whether some layers could not even begin"""

    def add(self, copying: Copying | None) -> None:
        """Further layers; None: they could not begin."""
        if copying is None:
            self._is_lost = True
        else:
            self._copies.append(copying)

    @property
    def are_wanted(self) -> bool:
        """Whether further layers are of use: not if each block is there already, or can't become whole. Layers that another client puts
        (PENDING) are no reason to stop: it may put those only, and count on this one for the others."""
        return not self._is_lost and all(
            not one.done() or not _GOES_ON.isdisjoint(_outcome(one, self._blocks)) for one in self._copies
        )

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        """A status for each block: OK if all its layers are. `blocks` is not used."""
        statuses = self._statuses(timeout)
        if self._is_lost:
            return [Status.UNAVAILABLE] * self._blocks
        return [_of_layers(of_block) for of_block in zip(*statuses, strict=True)]


def _of_layers(of_block: Sequence[Status]) -> Status:
    """A block's status, from those of its layers: the first failure, else the first status that is not OK, else OK."""
    failed = next((status for status in of_block if status not in STORED), None)
    return failed or next((status for status in of_block if status is not Status.OK), Status.OK)


@dataclass(slots=True)
class Load:
    """A load of one request's blocks, in all pools that it needs."""

    copying: Copies | None
    """None: it could not even begin"""
    keys: list[bytes]
    block_ids: list[int]
    begun_s: float
    needed: int
    """how many blocks from the first must be there before the engine is told of all"""
    last: Leases | None = None
    """on the last blocks, or on all of them; None: nobody has asked for them yet"""
    is_void: bool = False
    """what it brings is of other weights"""
    coming: list[Coming] = field(default_factory=list)
    """its blocks, where other engines may get them from here"""
    layers: int = 0
    """how many layers it has, of which the first ones of all blocks come first; 0: blocks come whole"""
    used_layers: int = 0
    """how many of them the engine was told to use before the others came"""

    @property
    def is_over(self) -> bool:
        return self.copying is None or self.copying.done()

    @property
    def may_be_promised(self) -> bool:
        """Whether all blocks are there but the last ones, which can't get lost any more."""
        if self.copying is None or self.is_void or self.needed == len(self.keys):
            return False
        statuses = self.copying.wait(0, self.needed)
        return are_ok(statuses[: self.needed]) and not _has_failed(statuses)

    def wait(self, timeout_s: float) -> None:
        """Until the engine can be told of it, or so long."""
        assert self.copying is not None
        if _has_failed(self.copying.wait(timeout_s, self.needed)):
            self.needed = len(self.keys)

    def hold(self, hold: Hold, block_bytes: int, verifies: bool = False) -> None:
        """Asks for leases on its last blocks, or on all of one that comes by layer.

        Args:
            verifies: whether blocks that readers must verify are verified now. If not, they could yet turn out to be damaged, and nothing
                is held.
        """
        count = len(self.keys) if self.layers else cast(Copying, self.copying).last_blocks(len(self.keys) // _LAST_SHARE)
        # Their memory is mapped when it is asked for first: while the load goes on, and not for longer than that.
        within_s = max(_HOLD_ALL_S_MIN if self.layers else _HOLD_S_MIN, len(self.keys) * block_bytes / _BYTES_PER_S_MAX / 2)
        self.last = hold(self.keys[len(self.keys) - count :], within_s)
        if self.last.are_verified or (verifies and are_ok(self.last.check())):
            self.needed -= len(self.last)
        else:
            self.last.release()

    def wait_layers(self, layers: int, timeout_s: float) -> bool:
        """Waits for the leading layers, so long at most, of a load whose blocks are all held.

        Returns:
            Whether the engine may use them. False: the load is over, or must be waited for to its end.
        """
        copying = cast(Copying, self.copying)
        # At the end all layers are counted, whatever came of the copy.
        if layers >= self.layers or not layers <= copying.wait_layers(layers, timeout_s) < self.layers:
            return False
        if copying.done() or _has_failed(copying.wait(0)):
            return False
        self.used_layers = max(self.used_layers, layers)
        return True

    def outcome(self) -> list[Status]:
        """A status for each block, in the order of the transfers: OK, or the memory of this block has no meaning. PENDING for
        blocks whose copies have not ended. Never raises, and never waits."""
        return _outcome(None if self.is_void else self.copying, len(self.block_ids))

    def release(self) -> None:
        if self.last is not None:
            self.last.release()


class Store(NamedTuple):
    """A store that is under way."""

    copying: Copies
    block_ids: frozenset[int]
    begun_s: float
    coming: Coming | None = None
    """its blocks, where other engines may get them from here"""


class Transfers:
    """Loads and stores of one rank.

    No call raises for what the daemon or its absence does: each block has a status. A load brings all that it is asked for in all
    pools, or says what it did not bring; `usable_tokens` says what that is worth.

    A load may be promised: the engine takes it for ended while its last blocks are still being copied, or counts on it before it begins
    (`leased`). From then on it must not fail. The blocks are leased, and if the daemon goes with their copy under way, `keep` writes them
    from its memory, which this process has mapped.
    """

    def __init__(self, regions: list[Region], settings: Settings, guard: Guard, annotates: bool = False, sharing: Sharing | None = None) -> None:
        """
        Args:
            regions: the memory of each group or pool, by its number; none: nothing can be loaded or stored.
            settings: say how long a load and a store may take.
            guard: tells what is wrong; its counters count the copies.
            annotates: whether blocks are stored with the annotations of their transfers.
            sharing: told of all blocks that come, are stored, or have come; None: no other engine gets blocks from this one's memory.
        """
        self._regions = regions
        self._settings = settings
        self._guard = guard
        self._annotates = annotates
        self._sharing = sharing

    def load(self, transfers: Sequence[Transfer], after: Any = None, by_layer: bool = False) -> Load:
        """Begins a load of one request. Where one pool's copy can't begin, none does.

        Args:
            transfers: one or more for each pool that the request needs.
            after: as `Region.get` takes it.
            by_layer: whether the engine may use the first layers while the others come; only where the load is one transfer.
        """
        keys = [key for one in transfers for key in one.keys]
        ids = [block for one in transfers for block in one.block_ids]
        by_layer = by_layer and len(transfers) == 1 and bool(self._regions)
        load = Load(self._begin_all(transfers, after, by_layer), keys, ids, time.monotonic(), len(keys))
        if by_layer:
            load.layers = self._regions[transfers[0].group].layers
        if self._sharing is not None and load.copying is not None:
            load.coming = [self._sharing.begin(one.group, one.keys, one.block_ids) for one in transfers]
        return load

    def leased(self, transfer: Transfer, leases: Leases, after: Any = None) -> Load:
        """Begins a load of blocks that are all leased; `keep` ends it.

        Args:
            leases: on the blocks of the transfer, in its order.
            after: as `Region.get` takes it.
        """
        load = self.load([transfer], after)
        load.last, load.needed = leases, 0
        return load

    def void(self, transfers: Sequence[Transfer], after: Any = None) -> Load:
        """A load that does not begin, and has failed. Arguments as of `load`."""
        keys = [key for one in transfers for key in one.keys]
        return Load(None, keys, [block for one in transfers for block in one.block_ids], time.monotonic(), len(keys))

    def store(self, transfer: Transfer, after: Any = None) -> Store | None:
        """Begins a store; None: it can't begin, and nothing of it is stored. The memory must not change until its copy is done.

        Args:
            after: as `Region.put` takes it.
        """
        copying = self._begin(transfer, "store", after)
        if copying is None:
            return None
        coming = None if self._sharing is None else self._sharing.begin(transfer.group, transfer.keys, transfer.block_ids)
        return Store(copying, frozenset(transfer.block_ids), time.monotonic(), coming)

    def takes_events(self, group: int) -> bool:
        """`Region.takes_events` of a group, which can change when the daemon is started again."""
        return self._regions[group].takes_events

    def store_layers(self, transfer: Transfer, layers: range, after: Any = None, earlier: Store | None = None) -> Store:
        """Begins a store of some layers of blocks. The blocks are stored when calls for all layers have been made, and their copies are done.
        The memory of the layers must not change until then.

        Args:
            layers: which, counted in the region.
            after: as `Region.put` takes it.
            earlier: what the call for the first layers has returned; None: this is that call.

        Returns:
            The store of all layers until now. Layers that can't begin fail it, and so do layers that are put no more as it has failed.
        """
        if earlier is None:
            coming = None if self._sharing is None else self._sharing.begin(transfer.group, transfer.keys, transfer.block_ids)
            earlier = Store(_Layers(len(transfer.keys)), frozenset(transfer.block_ids), time.monotonic(), coming)
            self._guard.count(stores_by_layer=1)
        copies = cast(_Layers, earlier.copying)
        if copies.are_wanted:
            copies.add(self._begin(transfer, "store", after, layers=layers))
        return earlier

    def _begin_all(self, transfers: Sequence[Transfer], after: Any, by_layer: bool = False) -> Copies | None:
        """Loads of one request; None: they could not all begin."""
        begun: list[Copying] = []
        for transfer in transfers:
            copying = self._begin(transfer, "load", after, by_layer)
            if copying is None:
                for one in begun:
                    self.end(one, cancels=True)
                return None
            begun.append(copying)
        return begun[0] if len(begun) == 1 else _Several(begun)

    def _begin(
        self, transfer: Transfer, what: str, after: Any, by_layer: bool = False, layers: range | None = None
    ) -> Copying | None:
        if not self._regions:
            return None
        region = self._regions[transfer.group]
        try:
            if what == "load":
                return region.get(
                    transfer.keys, transfer.block_ids, after=after, timeout=self._settings.load_timeout_s, by_layer=by_layer
                )
            has_annotations = self._annotates and (layers is None or layers.start == 0)
            return region.put(
                transfer.keys, transfer.block_ids, layers=layers, after=after, timeout=self._settings.put_timeout_s,
                parent=transfer.parent, depth=transfer.depth, annotations=transfer.annotations if has_annotations else None,
                importance=transfer.importance,
            )  # fmt: skip
        except Exception as error:
            # An engine goes on whatever its cache does; what is wrong here is told once.
            self._guard.tell(f"cannot {what} blocks: {error!r}")
            return None

    def end(self, copying: Copies, cancels: bool = False) -> None:
        """Waits until a copy uses the engine's memory no longer. `cancels`: nobody wants it any more."""
        if cancels:
            copying.cancel()
        for _ in range(_END_TRIES):
            copying.wait(self._settings.put_timeout_s)
            if copying.done():
                return
            copying.cancel()
        self._guard.tell("a store did not end in time and could not be cancelled; the engine waits until it ends")
        copying.wait()

    def keep(self, request_id: str, load: Load) -> None:
        """Keeps a promise: waits for the blocks that the engine counts on, and writes those that did not come.

        Raises:
            KvtierError: blocks are lost, which takes two faults at a time; the engine must not compute with them.
        """
        assert load.last is not None
        if load.copying is not None:
            _wait(load.copying, max(0.0, load.begun_s + self._settings.load_timeout_s + _ANSWER_S - time.monotonic()))
        statuses = _outcome(load.copying, len(load.block_ids))[load.needed :]
        if are_ok(statuses):
            self._have_come(load)
            return
        if load.used_layers and cast(Copying, load.copying).counts_failed_layers and set(statuses) - {Status.OK, Status.UNAVAILABLE}:
            raise KvtierError(
                f"request {request_id}: blocks were not loaded ({told(statuses)}), and the engine may have computed layers without them, "
                "so it must stop"
            )
        lost = [load.needed + index for index, status in enumerate(statuses) if status is not Status.OK]
        piece_blocks = max(1, _PIECE_BYTES // self._regions[0].block_bytes)
        for at in range(0, len(lost), piece_blocks):
            self._write(request_id, load, lost[at : at + piece_blocks], told(statuses))
        self._guard.count(written_blocks=len(lost))
        self._guard.tell(f"the daemon did not finish a load; the worker read the missing blocks from its memory: {told(statuses)}")

    def _write(self, request_id: str, load: Load, indices: Sequence[int], why: str) -> None:
        """Copies some held blocks from the daemon's memory, by their places in the load."""
        assert load.last is not None
        found = [block for index in indices if (block := load.last.read(index - load.needed)) is not None]
        if len(found) < len(indices):
            raise KvtierError(
                f"request {request_id}: {len(indices) - len(found)} blocks were not loaded ({why}), and their bytes in "
                "the daemon's memory are damaged. The engine has planned this step with them, so it must stop"
            )
        self._regions[0].write([load.block_ids[index] for index in indices], found)

    def count_load(self, load: Load, statuses: Sequence[Status]) -> float:
        """Counts a load that the engine is told of, with a status for each block.

        Returns:
            How long it took, in seconds.
        """
        taken_s = time.monotonic() - load.begun_s
        good = statuses.count(Status.OK)
        self._guard.count(loads=1, load_us=int(taken_s * 1e6), loaded_blocks=good, load_failed_blocks=len(statuses) - good)
        if good == len(statuses) and load.is_over:
            self._have_come(load)
        if good < len(statuses):
            self._guard.tell(f"blocks could not be loaded, and the engine computes them: {told(statuses)}")
        return taken_s

    def _have_come(self, load: Load) -> None:
        """All blocks of a load are there, and its copy is over."""
        if self._sharing is not None:
            for coming in load.coming:
                self._sharing.end(coming, [True] * len(coming.keys))
            load.coming = []

    def count_store(self, store: Store) -> list[Status]:
        """Counts a store that has ended.

        Returns:
            A status for each block; `STORED` are those of blocks that the daemon has.
        """
        statuses = _outcome(store.copying, len(store.block_ids))
        if self._sharing is not None and store.coming is not None:
            self._sharing.end(store.coming, [status is Status.OK for status in statuses])
        counts = Counter(statuses)
        stored, known = counts[Status.OK], counts[Status.EXISTS] + counts[Status.PENDING]
        self._guard.count(
            stores=1, store_us=int((time.monotonic() - store.begun_s) * 1e6), stored_blocks=stored, known_blocks=known,
            refused_blocks=len(statuses) - stored - known,
        )  # fmt: skip
        return statuses

    def get(self, transfers: Sequence[Transfer], after: Any = None) -> list[Status]:
        """Loads, and waits for the end: `Settings.load_timeout_s` at most, even if the daemon hangs. When it returns, nothing is
        written to the engine's memory any more.

        Returns:
            A status for each block, in the order of the transfers. Never raises.
        """
        if not self._guard.may_ask():
            return [Status.UNAVAILABLE] * sum(len(one.keys) for one in transfers)
        load = self.load(transfers, after)
        if load.copying is not None:
            _wait(load.copying, self._settings.load_timeout_s)
        statuses = load.outcome()
        self.count_load(load, statuses)
        return statuses

    def put(self, transfer: Transfer, after: Any = None) -> list[Status]:
        """Stores, and waits for the end: `Settings.put_timeout_s` at most, even if the daemon hangs. When it returns, nothing reads the
        engine's memory any more.

        Returns:
            A status for each block; `STORED` are those of blocks that the daemon has. Never raises.
        """
        store = self.store(transfer, after) if self._guard.may_ask() else None
        if store is None:
            return [Status.UNAVAILABLE] * len(transfer.keys)
        _wait(store.copying, self._settings.put_timeout_s)
        return self.count_store(store)


def usable_tokens(
    needs: Sequence[Need], transfers: Sequence[Transfer], statuses: Sequence[Status], unit_tokens: int, had_tokens: int = 0
) -> int:
    """How many tokens from the first an engine has when a load has ended so: a page counts when the blocks of all pools are there
    that it needs, and nothing counts behind a hole.

    Args:
        needs: of each group or pool, by its number.
        transfers: of the load.
        statuses: of the load's blocks, in the order of the transfers.
        unit_tokens: what the engine restores is a multiple of so many tokens.
        had_tokens: so many it had before.
    """
    present = [bytearray(had_tokens // need.block_tokens) for need in needs]
    at = 0
    for one in transfers:
        there = present[one.group]
        end = one.depth + len(one.keys)
        there.extend(bytes(max(0, end - len(there))))
        there[one.depth : end] = bytes(status is Status.OK for status in statuses[at : at + len(one.keys)])
        at += len(one.keys)
    return longest(needs, [bytes(one) for one in present], unit_tokens, had_tokens)


def by_request(transfers: Iterable[Transfer]) -> dict[str, list[Transfer]]:
    """The transfers of each request, in their order."""
    found: dict[str, list[Transfer]] = {}
    for transfer in transfers:
        found.setdefault(transfer.request_id, []).append(transfer)
    return found


def are_ok(statuses: Sequence[Status]) -> bool:
    return statuses.count(Status.OK) == len(statuses)


def told(statuses: Iterable[Status]) -> str:
    """The statuses that are not OK, for a message."""
    counts = Counter(status for status in statuses if status is not Status.OK)
    return ", ".join(status.name for status in sorted(counts))


def _wait(copying: Copies, timeout_s: float) -> None:
    """Until nothing of a copy goes on any more, so long at most, or a moment longer where the daemon hangs."""
    try:
        copying.wait(timeout_s)
        if not copying.done():
            copying.give_up()
            copying.wait()
    except Exception:
        # Whoever takes the outcome is told.
        return


def _outcome(copying: Copies | None, count: int) -> list[Status]:
    if copying is None:
        return [Status.UNAVAILABLE] * count
    try:
        return copying.wait(0)
    except Exception as error:
        _log.warning("kvtier: a copy failed: %r", error)
        return [Status.INTERNAL] * count


def _has_failed(statuses: list[Status]) -> bool:
    return statuses.count(Status.OK) + statuses.count(Status.PENDING) < len(statuses)
