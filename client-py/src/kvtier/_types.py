"""What the operations answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from kvtier import _core
from kvtier import _protocol as protocol
from kvtier._core import Session, Slab
from kvtier._encoding import Encoding
from kvtier._errors import InvalidArgument, KvtierError, SessionError
from kvtier._protocol import Status, Tier, Verb

if TYPE_CHECKING:
    import numpy
    import numpy.typing


_IN_MEMORY = (Status.OK | Tier.HOST << 16).to_bytes(protocol.COMPLETION_SHORT_RESULT_BYTES, "little")
"""what a lookup says of a block that can be read at once"""
OUTER_TIERS = (Tier.OBJECT, Tier.NODE)
"""where blocks are that the daemon does not own: it asks for them, and knows soon"""
_SOUGHT = tuple((Status.PENDING | tier << 16).to_bytes(protocol.COMPLETION_SHORT_RESULT_BYTES, "little") for tier in OUTER_TIERS)
"""what a lookup says of a block that is looked for there, or on its way from there"""
_SOUGHT_BYTES = protocol.COMPLETION_SHORT_RESULT_BYTES
_SOUGHT_OK = Status.OK.to_bytes(2, "little")


class Priority(IntEnum):
    """How urgent an operation is where it has to queue for a device."""

    HIGH = protocol.REQUEST_PRIORITY_HIGH
    NORMAL = protocol.REQUEST_PRIORITY_NORMAL
    LOW = protocol.REQUEST_PRIORITY_LOW


class Options(TypedDict, total=False):
    """What every operation on keys may be told."""

    timeout: float
    """seconds; the client's own when it is not given"""
    deadline_ns: int
    """CLOCK_MONOTONIC, instead of a timeout"""
    priority: int
    """a `Priority`"""
    group: int
    """the KV-cache group of the keys, 0 to 65535"""
    parent: bytes | None
    """the key before the first one, when there is one"""
    depth: int
    """the first key's place in its sequence, in blocks"""
    importance: int
    """of the blocks of a put to eviction policies: 0 (they can leave first) to 3; 1 is usual. A block keeps the highest of its puts"""


class Ping(NamedTuple):
    """Whether the daemon answers."""

    status: Status
    round_trip_s: float
    """seconds from the request to its completion"""
    reason: str
    """why not, in words; empty when it does"""
    version: str = ""
    """the daemon's; empty when it does not answer"""


class Count(NamedTuple):
    """The outcome of an operation on a whole namespace."""

    status: Status
    blocks: int


class Retained(NamedTuple):
    """The outcome of a `retain`."""

    statuses: list[Status]
    """of each block: OK, PENDING (kept as soon as it is there), MISS, or why the request was refused, such as OVER_QUOTA"""
    reason: str
    """why the daemon refused, in words and with the numbers; empty if it did not"""


def checked_importance(importance: int) -> int:
    """
    Raises:
        TypeError: it is no whole number.
        InvalidArgument: it is not 0 to 3.
    """
    if not isinstance(importance, int):
        raise TypeError(f"importance is {importance!r}; expected a whole number")
    if not 0 <= importance <= protocol.REQUEST_IMPORTANCE_MAX:
        raise InvalidArgument(f"importance is {importance}; expected 0 to {protocol.REQUEST_IMPORTANCE_MAX}")
    return importance


def importance_flags(importance: int) -> int:
    """The flags of a request that stand for the importance of the blocks that it brings."""
    return (checked_importance(importance) ^ protocol.REQUEST_IMPORTANCE_NORMAL) << protocol.REQUEST_IMPORTANCE_SHIFT


def lifetime_ns(lifetime_s: float) -> int:
    """The lifetime of a retention as the daemon takes it.

    Raises:
        TypeError: it is no number.
        InvalidArgument: it is negative, or not a length of time.
    """
    if not isinstance(lifetime_s, (int, float)):
        raise TypeError(f"lifetime_s is {lifetime_s!r}; expected seconds")
    if not 0 <= lifetime_s < 1e9:
        raise InvalidArgument(f"lifetime_s is {lifetime_s!r}; expected seconds, from 0 and below 1e9")
    return int(lifetime_s * 1e9)


class LoadReport(NamedTuple):
    """What the loads of an engine have saved since its last report."""

    blocks: int
    """blocks that were loaded"""
    tokens: int
    """tokens that the engine did not compute because of these blocks"""
    prefill_s: float
    """seconds that computing these tokens would have taken, at the speed that the engine has measured; 0: it does not know its speed yet"""
    load_s: float
    """seconds that the loads took, failed ones too"""

    def checked(self) -> tuple[int, int, int, int]:
        """The fields as the daemon takes them, with times in nanoseconds.

        Raises:
            InvalidArgument: no engine can have measured this.
        """
        blocks, tokens, prefill_s, load_s = self
        limits = {
            "blocks": (blocks, protocol.LOAD_REPORT_BLOCKS_MAX),
            "tokens": (tokens, blocks * protocol.LOAD_REPORT_BLOCK_TOKENS_MAX),
            "prefill_s": (prefill_s, tokens * protocol.LOAD_REPORT_TOKEN_S_MAX),
            "load_s": (load_s, protocol.LOAD_REPORT_LOADS_S_MAX),
        }
        for name, (value, most) in limits.items():
            if not 0 <= value <= most:
                raise InvalidArgument(f"{name} is {value!r}; expected 0 to {most}")
        return blocks, tokens, int(prefill_s * 1e9), int(load_s * 1e9)


class Holder(NamedTuple):
    """The region that advertises the longest prefix of a lookup's keys."""

    run: int
    """how many keys from the first it has, without a hole; 1 or more"""
    region: int
    """its number at the daemon: `DeviceRegion.id`"""
    gpu: int
    """the ordinal of its GPU, as the daemon counts"""
    rank: int
    """what its owner calls itself"""


class NodeHold(NamedTuple):
    """How much of a sequence of blocks a node of the cluster has."""

    name: str
    """the name of the node, as it says itself (`nodes.name`)"""
    address: str
    """where the node serves other nodes, as the asked node knows it; empty if it serves none"""
    is_self: bool
    """whether it is the node that was asked"""
    run: int
    """how many blocks from the first it has, in memory or in lower tiers"""
    memory_run: int
    """how many blocks from the first it has in host memory"""
    estimated_load_s: float
    """seconds that bringing the run to its host memory would take, as it estimates"""


class FoundNodes(NamedTuple):
    """Which nodes of the cluster have most of a sequence of blocks."""

    status: Status
    """OK when the daemon answered, else why not"""
    nodes: list[NodeHold]
    """those that have at least the first block: the longest run first, then the one that is loaded soonest"""
    reason: str
    """why there is no answer, in words; empty when there is one"""


_IS_OK = bytes([1]) + bytes(255)
"""maps the low byte of a status; OK is 0, and no status is above 255"""


class Lookup:
    """Which blocks are where. The lists are made when they are asked for."""

    __slots__ = ("_parts", "estimated_load_s", "holder", "run")

    def __init__(
        self,
        run: int,
        estimated_load_s: float,
        parts: list[tuple[Status, int, bytes]],
        holder: Holder | None = None,
    ) -> None:
        self.holder = holder
        """which engine's region has most of the prefix, of those that advertise; None: none has the first block. What is
        advertised alone is in no tier, and does not count in `run`."""
        self.run = run
        """how many blocks from the first are here, in any tier"""
        self.estimated_load_s = estimated_load_s
        """seconds that bringing the run to host memory would take"""
        self._parts = parts

    @classmethod
    def of_status(cls, status: Status, count: int) -> Lookup:
        """An answer with the same status for every block."""
        return cls(0, 0.0, [(status, count, b"")])

    @property
    def statuses(self) -> list[Status]:
        """OK, PENDING or MISS for each key; another status when the lookup itself failed."""
        statuses: list[Status] = []
        for status, count, body in self._parts:
            statuses += _core.short_statuses(body) if status is Status.OK else [status] * count
        return statuses

    @property
    def present(self) -> bytes:
        """For each key a byte: 1 if its block is here (OK), else 0."""
        return b"".join(
            body[:: protocol.COMPLETION_SHORT_RESULT_BYTES].translate(_IS_OK) if status is Status.OK else bytes(count)
            for status, count, body in self._parts
        )

    @property
    def tiers(self) -> list[Tier]:
        """The highest tier that each block is in."""
        tiers: list[Tier] = []
        for status, count, body in self._parts:
            tiers += _core.short_tiers(body) if status is Status.OK else [Tier.NONE] * count
        return tiers

    def are_in_memory(self, blocks: range) -> bool:
        """Whether these blocks, by their place among the keys, can all be read from host memory now."""
        place = 0
        for _, count, body in self._parts:
            begin, end = (min(max(at - place, 0), count) for at in (blocks.start, blocks.stop))
            if body[len(_IN_MEMORY) * begin : len(_IN_MEMORY) * end] != _IN_MEMORY * (end - begin):
                return False
            place += count
        return blocks.stop <= place

    def sought_from(self, begin: int) -> int:
        """How many blocks from this place on are looked for in the object store, or on their way from there, or come behind
        such a one and are here."""
        sought = 0
        for status, count, body in self._parts:
            while begin < count:
                at = begin * _SOUGHT_BYTES
                one = body[at : at + _SOUGHT_BYTES]
                if one not in _SOUGHT and (status is not Status.OK or sought == 0 or one[:2] != _SOUGHT_OK):
                    return sought
                sought += 1
                begin += 1
            begin -= count
        return sought

    @property
    def first(self) -> tuple[Status, Tier] | None:
        """(status, tier) of the first key; None: nothing was asked for."""
        return self.at(0)

    def at(self, place: int) -> tuple[Status, Tier] | None:
        """(status, tier) of one key, by its place; None: there are not so many."""
        for status, count, body in self._parts:
            if place < count:
                if status is not Status.OK:
                    return (status, Tier.NONE)
                begin = place * protocol.COMPLETION_SHORT_RESULT_BYTES
                one = body[begin : begin + protocol.COMPLETION_SHORT_RESULT_BYTES]
                return (_core.short_statuses(one)[0], _core.short_tiers(one)[0])
            place -= count
        return None

    @property
    def blocks(self) -> list[tuple[Status, Tier]]:
        """(status, tier) for each key."""
        return list(zip(self.statuses, self.tiers, strict=True))

    def __repr__(self) -> str:
        return f"Lookup(run={self.run}, estimated_load_s={self.estimated_load_s}, blocks={self.blocks})"


class Get(NamedTuple):
    """The outcome of a get. Only the memory of blocks that are OK holds their bytes."""

    run: int
    """how many blocks from the first are OK"""
    statuses: list[Status]


class Lease(NamedTuple):
    """One block's lease: where its bytes lie until it ends."""

    status: Status
    tier: Tier = Tier.NONE
    flags: int = 0
    crc32c: int = 0
    id: int = 0
    slab: int = 0
    length: int = 0
    offset: int = 0


@dataclass(slots=True)
class Held:
    """Leases that are still to be given back to the daemon. Whoever reads blocks says here which did not match their
    checksums: the daemon is told with the release, and looks for itself."""

    session: Session
    ids: list[bytes]
    """8 bytes each, as many as an answer granted"""
    corrupt: set[bytes]
    context: bytes | None = None
    """what the blocks were asked for in; the daemon's log names it with what is corrupt"""

    def add_corrupt(self, lease_id: int) -> None:
        """This lease's bytes did not match their checksum."""
        self.corrupt.add(lease_id.to_bytes(8, "little"))

    def release(self) -> None:
        ids, self.ids = self.ids, []
        for some in ids:
            if self.corrupt:
                each = [some[at : at + 8] for at in range(0, len(some), 8)]
                self.session.give_back(Verb.ACQUIRE, b"".join(one for one in each if one in self.corrupt), True, self.context)
                some = b"".join(one for one in each if one not in self.corrupt)
            self.session.give_back(Verb.ACQUIRE, some)


class Leases:
    """Leases on blocks in host memory, for reading in place. Release them soon: they keep slots from being evicted.

    A context manager; the leases end with it, with `release`, at `expires_ns`, and with the session. Bytes that were
    read count only when `check` says OK after the reading.
    """

    def __init__(
        self,
        session: Session | None,
        slabs: dict[int, Slab],
        leases: list[Lease],
        held: list[bytes],
        expires_ns: int,
        block_bytes: int,
        unmapped: Status = Status.STALE,
        context: bytes | None = None,
    ) -> None:
        self.statuses = [lease.status for lease in leases]
        """a status for each key"""
        self.expires_ns = expires_ns
        """when the leases end, CLOCK_MONOTONIC; 0: there are none"""
        self.block_bytes = block_bytes
        self._leases = leases
        self._encoding: Encoding | None = None
        self._held: Held | None = None
        self.views: list[memoryview | None] = []
        """the bytes of each block that is OK, read-only; None for the others. Those of an encoded block are a decoded copy"""
        if session is not None:
            self._held = Held(session, held, set(), context)
            self._make_views(slabs, unmapped)

    @classmethod
    def of_status(cls, status: Status, count: int, block_bytes: int) -> Leases:
        """No leases, for one reason."""
        leases = cls(None, {}, [Lease(status)] * count, [], 0, block_bytes)
        leases.views = [None] * count
        return leases

    def _make_views(self, slabs: dict[int, Slab], unmapped: Status) -> None:
        for index, lease in enumerate(self._leases):
            slab = slabs.get(lease.slab) if lease.status is Status.OK else None
            if slab is None:
                if lease.status is Status.OK:
                    self.statuses[index] = unmapped
                self.views.append(None)
                continue
            is_encoded = lease.flags & protocol.COMPLETION_BLOCK_FLAG_ENCODED
            if (lease.length != self.block_bytes and not is_encoded) or lease.offset + lease.length > len(slab):
                raise SessionError(f"a lease of {lease.length} bytes at offset {lease.offset} of slab {lease.slab}")
            self.views.append(memoryview(slab)[lease.offset : lease.offset + lease.length])

    def expect(self, encoding: Encoding) -> None:
        """Takes the encoding of the encoded blocks. Until `decode`, the view of an encoded block has its stored bytes.

        Raises:
            SessionError: the lease of an encoded block has another length than encoded blocks have.
        """
        self._encoding = encoding
        for lease in self._leases:
            if self._is_encoded(lease) and lease.length != encoding.encoded_bytes:
                raise SessionError(f"a lease of {lease.length} bytes, expected {encoding.encoded_bytes} of an encoded block")

    def _is_encoded(self, lease: Lease) -> bool:
        is_ours = lease.status is Status.OK and self._encoding is not None
        return is_ours and bool(lease.flags & protocol.COMPLETION_BLOCK_FLAG_ENCODED)

    def decode(self) -> None:
        """Puts decoded copies in place of the views of encoded blocks. A block that is damaged is CORRUPT."""
        for index, (lease, view) in enumerate(zip(self._leases, self.views, strict=True)):
            if view is None or not self._is_encoded(lease):
                continue
            block = self._decoded(lease, view)
            _release_views([view])
            if block is None:
                self.views[index] = None
                self.statuses[index] = Status.CORRUPT
                if self._held is not None:
                    self._held.add_corrupt(lease.id)
                continue
            self.views[index] = memoryview(block).toreadonly()
            flags = lease.flags & ~(protocol.COMPLETION_BLOCK_FLAG_VERIFY | protocol.COMPLETION_BLOCK_FLAG_ENCODED)
            self._leases[index] = lease._replace(flags=flags, crc32c=_core.crc32c(block))

    def _decoded(self, lease: Lease, stored: bytes | memoryview) -> bytearray | None:
        """The raw bytes of an encoded block; None: it is damaged."""
        assert self._encoding is not None
        encoding = self._encoding
        block = bytearray(self.block_bytes)
        decoded, crc32c = _core.decode(encoding.kind, block, stored, encoding.granule_elements)
        return block if decoded == encoding.granules and crc32c == lease.crc32c else None

    @property
    def run(self) -> int:
        """How many blocks from the first are leased."""
        return next((i for i, status in enumerate(self.statuses) if status is not Status.OK), len(self.statuses))

    def numpy(self, dtype: numpy.typing.DTypeLike, shape: tuple[int, ...]) -> list[numpy.ndarray[Any, Any] | None]:
        """The blocks as read-only arrays over the leased memory, without a copy; None where there is no lease.

        Args:
            dtype: the elements' type.
            shape: the shape of one block; its bytes are those of a block.

        Raises:
            InvalidArgument: the shape does not have a block's bytes.
            KvtierError: numpy is not installed.
        """
        try:
            import numpy
        except ImportError:
            raise KvtierError("Leases.numpy needs numpy: install kvtier[numpy]") from None
        try:
            return [
                None if view is None else numpy.frombuffer(view, dtype=dtype).reshape(shape) for view in self.views
            ]
        except ValueError as error:
            raise InvalidArgument(f"a block of {self.block_bytes} bytes as {dtype}{shape}: {error}") from None

    def check(self) -> list[Status]:
        """Whether what was read from the views until now counts: OK, or STALE (the lease had ended), or CORRUPT (the
        bytes do not match a checksum that had to be verified), or why there was no lease."""
        held = self._held
        statuses = list(self.statuses)
        corrupt = []
        for index, (lease, view) in enumerate(zip(self._leases, self.views, strict=True)):
            if view is None or statuses[index] is not Status.OK:
                continue
            must_verify = lease.flags & protocol.COMPLETION_BLOCK_FLAG_VERIFY
            if must_verify and _core.crc32c(view) != lease.crc32c:
                statuses[index] = Status.CORRUPT
                corrupt.append(lease.id)
        if held is None or not held.ids or not held.session.holds(self.expires_ns):
            return [Status.STALE if status in (Status.OK, Status.CORRUPT) else status for status in statuses]
        for lease_id in corrupt:
            held.add_corrupt(lease_id)
        return statuses

    @property
    def are_verified(self) -> bool:
        """Whether there is a lease on every block, and readers need not compare any with its checksum."""
        must_verify = any(lease.flags & protocol.COMPLETION_BLOCK_FLAG_VERIFY for lease in self._leases)
        return not must_verify and all(status is Status.OK for status in self.statuses)

    def read(self, index: int) -> bytes | None:
        """A copy of a block's bytes that its checksum says are right, be the lease or the daemon gone since; or None."""
        view, lease = self.views[index], self._leases[index]
        if view is None:
            return None
        if self._is_encoded(lease):
            decoded = self._decoded(lease, view)
            return None if decoded is None else bytes(decoded)
        block = bytes(view)
        return block if _core.crc32c(block) == lease.crc32c else None

    def release(self) -> None:
        """Ends the leases. The views can no longer be used; arrays made of them must not be."""
        if self._held is not None:
            self._held.release()
        _release_views(self.views)
        self.views = [None] * len(self.statuses)

    def __del__(self) -> None:
        if self._held is not None:
            self._held.release()

    def __len__(self) -> int:
        return len(self.statuses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


class ReservedSlots:
    """Slots of the daemon to write blocks into in place. Both front ends' reservations are these.

    A context manager: what was not committed when it ends is aborted.
    """

    def __init__(
        self, session: Session | None, namespace: int, statuses: list[Status], ids: list[int],
        views: list[memoryview | None],
    ) -> None:  # fmt: skip
        self.statuses = statuses
        """OK for each key with a slot to write; EXISTS and PENDING: nothing to do; BUSY: no room; NOT_ADMITTED: drained"""
        self.views = views
        """the writable bytes of each slot; None where there is none, and after its commit"""
        self._session = session
        self._namespace = namespace
        self._ids = ids
        self._writing = any(view is not None for view in views)

    def __len__(self) -> int:
        return len(self.statuses)

    def _take(self, indices: Iterable[int] | None) -> tuple[list[int], bytes]:
        """The slots to commit, and their ids; from now on they cannot be written through the views."""
        chosen = range(len(self.statuses)) if indices is None else indices
        taken = [index for index in chosen if self.views[index] is not None]
        ids = b"".join(self._ids[index].to_bytes(8, "little") for index in taken)
        _release_views([self.views[index] for index in taken])
        for index in taken:
            self.views[index] = None
        if self._writing and self._session is not None and all(view is None for view in self.views):
            self._writing = False
            self._session.end_writing()
        return taken, ids

    def abort(self, indices: Iterable[int] | None = None) -> None:
        """Gives slots back unwritten.

        Args:
            indices: which; None: all that were not committed.
        """
        taken, ids = self._take(indices)
        if self._session is not None:
            for start in range(0, len(ids), 8 * protocol.KEYS_MAX):
                self._session.give_back(Verb.RESERVE, ids[start : start + 8 * protocol.KEYS_MAX])
        for index in taken:
            self.statuses[index] = Status.CANCELLED

    def __del__(self) -> None:
        if any(view is not None for view in self.views):
            self.abort()

    def __exit__(self, *exception: object) -> None:
        self.abort()


def _release_views(views: Iterable[memoryview | None]) -> None:
    for view in views:
        if view is not None:
            try:
                view.release()
            except BufferError:
                pass  # an array still refers to it: its bytes stay mapped, and may change
