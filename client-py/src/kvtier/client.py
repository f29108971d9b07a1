"""The blocking client. Many threads may share one: each waits for its own answers only."""

import json
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._address import is_remote
from kvtier._connection import Connection, Link, NamespaceProperties, namespace_properties
from kvtier._context import current
from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument, NamespaceMismatch, Unavailable, VersionMismatch
from kvtier._operations import Context, Operation, Submit
from kvtier._protocol import Status, Verb
from kvtier._types import Count, Get, Leases, LoadReport, Lookup, Options, Ping, ReservedSlots, Retained

T = TypeVar("T")


class Client:
    """A connection to the daemon of this machine.

    Operations do not raise when there is no daemon: they answer ``UNAVAILABLE``, at once, and a later one connects
    again. A forked child gets a session of its own.
    """

    def __new__(cls, socket_path: str | os.PathLike[str] | None = None, **options: Any) -> "Client":
        """With an address, ``grpcs://HOST[:PORT]``, in place of a path this is a `kvtier.remote.Client` and takes its options."""
        if cls is Client and is_remote(socket_path):
            from kvtier.remote import Client as Remote

            return object.__new__(Remote)
        return object.__new__(cls)

    def __init__(
        self,
        socket_path: str | os.PathLike[str] | None = None,
        *,
        name: str = "",
        timeout: float = 1.0,
        reconnect: bool = True,
        ring_bytes: int = protocol.RING_BYTES_DEFAULT,
        log_level: int = logging.WARNING,
        daemon_user: str | int | None = None,
    ) -> None:
        """Connects when a daemon is there.

        Args:
            socket_path: the daemon's socket; None: where the daemon of this user listens by default.
            name: shown in the daemon's statistics.
            timeout: seconds that an operation may take when it is not told otherwise.
            reconnect: whether to connect again after the session ended.
            ring_bytes: the size of each ring, a power of two.
            log_level: at which it logs, once, that there is no daemon or that a session ended.
            daemon_user: who may run the daemon beside this user and root: names or numbers, with commas between them; None:
                `$KVTIER_DAEMON_USER`, or else the user whose socket lies where only root or this user can have put it.

        Raises:
            VersionMismatch: the daemon speaks another major version of the protocol.
            InvalidArgument: an argument is out of its range, or this machine does not know `daemon_user`.
        """
        self._timeout_s = timeout
        self._connection = Connection(socket_path, name, reconnect, ring_bytes, log_level, daemon_user)
        try:
            self._connection.open(self._answer_by(None))
        except VersionMismatch:
            raise
        except Unavailable as error:
            self._connection.warn(error)

    def connect(self, timeout: float | None = None) -> None:
        """Connects now, unless a session is open.

        Raises:
            VersionMismatch: the daemon speaks another major version of the protocol.
            Unavailable: no daemon answers, or it refuses this client; the message says why.
        """
        self._connection.open(self._answer_by(timeout))

    def close(self) -> None:
        """Ends the session. What it held in the daemon is released; later operations answer ``UNAVAILABLE``."""
        self._connection.close()

    @property
    def connected(self) -> bool:
        """Whether a session is open, as far as this client has noticed."""
        return self._connection.current() is not None

    @property
    def reason(self) -> str:
        """Why there is no session, in words; of the last time there was none."""
        return self._connection.reason

    def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace: one cache layout, with blocks of one size.

        Without a daemon this succeeds: the namespace is registered when there is one.

        Args:
            name: what other clients call it too.
            block_bytes: the bytes of one block.
            properties: whatever must be equal for blocks to be exchangeable: model, dtype, block tokens, hash seed...

        Raises:
            NamespaceMismatch: it exists with other properties; the message names the one that differs.
            InvalidArgument: the daemon or this client cannot accept a property.
        """
        described = namespace_properties(name, block_bytes, properties)
        answer_by_ns = self._answer_by(None)
        link = self._connection.link(answer_by_ns)
        if link is not None:
            context = operations.context_of(link, described, answer_by_ns)
            status, text = run(context, operations.register(link, described, context.deadline_ns))
            raise_refusal(status, text, name)
        return Namespace(self, described)

    def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not. Connects if need be, without regard to the back-off."""
        answer_by_ns = self._answer_by(timeout)
        try:
            link = self._connection.open(answer_by_ns)
        except VersionMismatch as error:
            return Ping(Status.VERSION_MISMATCH, 0.0, str(error))
        except Unavailable as error:
            return Ping(Status.UNAVAILABLE, 0.0, str(error))
        started_ns = monotonic_ns()
        completion = link.session.call(
            operations.plain_request(Verb.PING, 0, answer_by_ns), answer_by_ns, current()
        )
        return ping_of(link, completion, monotonic_ns() - started_ns)

    def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics; empty when it does not answer."""
        answer_by_ns = self._answer_by(timeout)
        link = self._connection.link(answer_by_ns)
        if link is None:
            return {}
        return stats_of(link.session.call(operations.plain_request(Verb.STATS, 0, answer_by_ns), answer_by_ns))

    def counters(self) -> dict[str, int]:
        """The daemon's counters, read from its memory without asking it; empty without a session. Those that say what is
        there now (leases, slots, blocks...) may be a fraction of a second old."""
        link = self._connection.link(self._answer_by(None))
        return {} if link is None else counters_of(link)

    def lookup_groups(self, groups: Iterable[tuple["Namespace", Iterable[bytes]]], **options: Unpack[Options]) -> list[Lookup]:
        """As `Namespace.lookup` of several namespaces of this client, with one request: what is there of each group of a model.
        `kvtier.engine.groups.restorable` says what can be restored.

        Args:
            groups: namespaces, with the keys that are looked up there.

        Returns:
            One answer for each. `estimated_load_s` is that of the leading runs of all together.
        """
        listed = [(namespace._properties, as_keys(keys)) for namespace, keys in groups]
        if not listed:
            return []
        context = self._context(listed[0][0], options)
        if context is None:
            return [Lookup.of_status(Status.UNAVAILABLE, len(keys)) for _, keys in listed]
        return run(context, operations.lookup_groups(context, listed))

    def _answer_by(self, timeout: float | None) -> int:
        return operations.instant_after(self._timeout_s if timeout is None else timeout)

    def _context(self, properties: NamespaceProperties, options: Options) -> Context | None:
        answer_by_ns = operations.answer_by(self._timeout_s, options)
        link = self._connection.link(answer_by_ns)
        return None if link is None else operations.context_of(link, properties, answer_by_ns, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Namespace:
    """The blocks of one cache layout. A key is the block's chained hash, 1 to 32 bytes; the keys of one call have equal
    lengths and stand in prefix order. Keyword arguments of every operation: see `kvtier.Options`."""

    def __init__(self, client: Client, properties: NamespaceProperties) -> None:
        self._client = client
        self._properties = properties

    @property
    def name(self) -> str:
        return self._properties.name

    @property
    def block_bytes(self) -> int:
        """The bytes of one block."""
        return self._properties.block_bytes

    @property
    def timeout_s(self) -> float:
        """How long an operation may take that is not told otherwise."""
        return self._client._timeout_s

    def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """Which blocks are here, and how many from the first. Changes nothing."""
        keys = as_keys(keys)
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return Lookup.of_status(Status.UNAVAILABLE, len(keys))
        return run(context, operations.lookup(context, keys))

    def get(
        self,
        keys: Iterable[bytes],
        into: object,
        *,
        leading_run: bool = False,
        no_wait: bool = False,
        lease_s: float = 0.0,
        verify: bool = False,
        **options: Unpack[Options],
    ) -> Get:
        """Copies blocks out; from lower tiers they are promoted first.

        Args:
            keys: the blocks.
            into: one writable contiguous buffer of all blocks in order, or a list or tuple of one for each. The memory
                of a block that is not OK afterwards has no meaning.
            leading_run: stop at the first block that is in no tier.
            no_wait: only from host memory; others are ``PENDING``, and on their way.
            lease_s: how long the copying may take, in seconds; 0: the daemon's default.
            verify: check every block's checksum, not only where the daemon asks for it.

        Raises:
            InvalidArgument: a buffer has the wrong size or is read-only, or keys have unequal lengths.
            TypeError: something is no memory, or no key.
        """
        keys = as_keys(keys)
        operations.check_memory(into, len(keys), self.block_bytes, True)
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return Get(0, [Status.UNAVAILABLE] * len(keys))
        flags = acquire_flags(leading_run, no_wait)
        return run(context, operations.get(context, keys, into, flags, int(lease_s * 1e9), verify))

    def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """Copies blocks in.

        Args:
            keys: the blocks.
            blocks: one contiguous buffer of all blocks in order, or a list or tuple of one for each.
            annotations: for each block at most 2048 bytes that are kept with it, or None; what the daemon's events
                need is made by `kvtier.annotations.of_tokens`.

        Returns:
            For each block OK: readable from now on; EXISTS: it was here already; PENDING: it is being written already,
            by another client or because its key stands twice in `keys`;
            BUSY: there was no room for it; or NOT_ADMITTED: the daemon is drained.

        Raises:
            InvalidArgument: a buffer has the wrong size, keys have unequal lengths, or an annotation is too long.
        """
        return self._put(keys, blocks, annotations, b"", options)

    def _put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        annotations: Sequence[bytes | None] | None,
        shard_text: bytes,
        options: Options,
    ) -> list[Status]:
        """As `put`; with a shard's description only that shard of each block."""
        keys = as_keys(keys)
        operations.check_memory(blocks, len(keys), self.block_bytes, False)
        if annotations is not None:
            operations.check_annotations(annotations, len(keys))
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return [Status.UNAVAILABLE] * len(keys)
        return run(context, operations.put(context, keys, blocks, annotations, shard_text))

    def _register_shard(self, text: bytes) -> None:
        """Tells the daemon of a region in host memory. Without a daemon, the first put does.

        Raises:
            InvalidArgument: the daemon refuses it; the message says why.
        """
        context = self._client._context(self._properties, {})
        if context is not None:
            run(context, operations.register_shard(context, text))

    def annotate(
        self, keys: Iterable[bytes], annotations: Sequence[bytes | None], **options: Unpack[Options]
    ) -> Count:
        """Has bytes kept with blocks that are here or on their way, as `put` does: for blocks that were reserved.

        Args:
            keys: the blocks.
            annotations: for each at most 2048 bytes, or None. A block that has an annotation keeps it.

        Returns:
            How many blocks have got one.

        Raises:
            InvalidArgument: an annotation is too long, or their number is not that of the keys.
        """
        keys = as_keys(keys)
        operations.check_annotations(annotations, len(keys))
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return Count(Status.UNAVAILABLE, 0)
        return run(context, operations.annotate(context, keys, annotations))

    def reserve(self, keys: Iterable[bytes], **options: Unpack[Options]) -> "Reservations":
        """Slots to write blocks into in place, instead of `put`."""
        keys = as_keys(keys)
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            nothing = [Status.UNAVAILABLE] * len(keys)
            return Reservations(self, None, operations.Reserved(0, nothing, [0] * len(keys), [None] * len(keys)))
        return Reservations(self, context.link, run(context, operations.reserve(context, keys)))

    def acquire(
        self,
        keys: Iterable[bytes],
        *,
        leading_run: bool = False,
        no_wait: bool = False,
        lease_s: float = 0.0,
        expected_from: str = "",
        **options: Unpack[Options],
    ) -> Leases:
        """Leases on blocks, to read them in place; from lower tiers they are promoted first.

        Args:
            expected_from: the name or the address of the node that is going to have those blocks that are nowhere yet, as
                ``kvtier nodes`` shows it. They come from there while they are written, and this waits for them until
                ``timeout``; blocks that have not come by then are ``DEADLINE`` or ``MISS``. The leases last from the arrival
                of a block until `lease_s` after the timeout. A daemon before version 2.3 of the protocol waits for no blocks.

        The other arguments are those of `get`.
        """
        return self._acquire(as_keys(keys), acquire_flags(leading_run, no_wait), lease_s, expected_from, True, options)

    def _lease(
        self, keys: Sequence[bytes], *, leading_run: bool = False, no_wait: bool = False, lease_s: float = 0.0, **options: Unpack[Options]
    ) -> Leases:
        """Leases as those of `acquire`, for blocks that are read one by one, if at all (`Leases.read`). Encoded blocks are decoded by `read`."""
        return self._acquire(keys, acquire_flags(leading_run, no_wait), lease_s, "", False, options)

    def _acquire(self, keys: Sequence[bytes], flags: int, lease_s: float, expected_from: str, decodes: bool, options: Options) -> Leases:
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return Leases.of_status(Status.UNAVAILABLE, len(keys), self.block_bytes)
        return run(context, operations.acquire(context, keys, flags, int(lease_s * 1e9), expected_from, decodes))

    def prefetch(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """Starts to promote blocks to host memory: OK (there, or on its way), MISS or BUSY."""
        return self._for_keys(Verb.PREFETCH, keys, options)

    def pin(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """Holds blocks against eviction until `unpin` or the session's end; counted. OK or MISS."""
        return self._for_keys(Verb.PIN, keys, options)

    def unpin(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """Takes back one `pin` of each block. OK or MISS."""
        return self._for_keys(Verb.UNPIN, keys, options)

    def retain(self, keys: Iterable[bytes], lifetime_s: float, **options: Unpack[Options]) -> Retained:
        """Keeps blocks on the daemon's node until a lifetime has ended, also after the end of this client. A block that is kept for
        longer already stays so. The end of the daemon ends all retentions; the blocks stay.

        The blocks of each 2048 keys are kept all or none: if they do not fit into the tenant's quota, they are OVER_QUOTA, and the
        reason has the numbers.

        Args:
            keys: blocks that are here, or being written.
            lifetime_s: seconds, at most the daemon's ``limits.retention_max``; 0: the blocks are not kept any more.

        Raises:
            InvalidArgument: the lifetime is not a length of time.
        """
        keys = as_keys(keys)
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return Retained([Status.UNAVAILABLE] * len(keys), "")
        return run(context, operations.retain(context, keys, lifetime_s))

    def delete(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """Removes blocks from all tiers of this node, and the objects that nodes share; leases on them stay readable.

        OK, MISS, or BUSY where too many deletions wait.
        """
        return self._for_keys(Verb.DELETE, keys, options)

    def clear(self, **options: Unpack[Options]) -> Count:
        """Removes all blocks of the namespace, as `delete` does: copies in the memory and on the disks of other nodes stay."""
        return self._counted(Verb.CLEAR, options)

    def flush(self, **options: Unpack[Options]) -> Count:
        """Waits until every block accepted before is in the tier below memory, if any. Give it a generous timeout."""
        return self._counted(Verb.FLUSH, options)

    def report_loads(self, report: LoadReport, **options: Unpack[Options]) -> Status:
        """Reports what loads of an engine have saved since its last report, for the daemon's figures. The daemon refuses a report
        of more blocks than gets of this namespace have found.

        Raises:
            InvalidArgument: no engine can have measured this.
        """
        report.checked()
        context = self._client._context(self._properties, options)
        return Status.UNAVAILABLE if context is None else run(context, operations.report_loads(context, report))

    def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        keys = as_keys(keys)
        context = self._client._context(self._properties, options)
        if context is None or not keys:
            return [Status.UNAVAILABLE] * len(keys)
        return run(context, operations.for_keys(context, verb, keys))

    def _counted(self, verb: Verb, options: Options) -> Count:
        context = self._client._context(self._properties, options)
        if context is None:
            return Count(Status.UNAVAILABLE, 0)
        return run(context, operations.counted(context, verb))


class Reservations(ReservedSlots):
    """Slots to write blocks into, for the blocking client."""

    def __init__(self, namespace: Namespace, link: Link | None, reserved: operations.Reserved) -> None:
        session = None if link is None else link.session
        super().__init__(session, reserved.namespace, reserved.statuses, reserved.ids, reserved.views)
        self._front = namespace
        self._link = link

    def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """Makes written slots visible; they cannot be written afterwards.

        Args:
            indices: which; None: all that are not committed.

        Returns:
            The statuses of all keys of the reservation: OK where the block is visible now, STALE where the slot had
            been taken back.
        """
        taken, ids = self._take(indices)
        if taken and self._link is not None:
            answer_by_ns = operations.answer_by(self._front._client._timeout_s, options)
            context = operations.context_of(self._link, self._front._properties, answer_by_ns, **options)
            for index, status in zip(taken, run(context, operations.commit(context, self._namespace, ids)), strict=True):
                self.statuses[index] = status
        return list(self.statuses)

    def __enter__(self) -> Self:
        return self


def run(context: Context, operation: Operation[T]) -> T:
    """Carries an operation out, waiting where it waits."""
    session = context.link.session
    answer_by_ns = context.answer_by_ns
    trace = context.trace
    try:
        command = next(operation)
        while True:
            try:
                kind = type(command)
                reply: object
                if kind is tuple:
                    reply = session.call(command, answer_by_ns, trace)
                elif kind is int:
                    reply = session.take(command, answer_by_ns) if command > 0 else operations.made(Status(-command))
                elif kind is Submit:
                    reply = session.submit(command.request, answer_by_ns, trace)
                else:
                    reply = command.function()
            except BaseException as error:
                command = operation.throw(error)
            else:
                command = operation.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def as_keys(keys: Iterable[bytes]) -> Sequence[bytes]:
    """Keys in a form that the extension reads."""
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"keys is one {type(keys).__name__}; expected a list of keys, each of 1 to 32 bytes")
    return keys if isinstance(keys, (list, tuple)) else list(keys)


def acquire_flags(leading_run: bool, no_wait: bool) -> int:
    return (protocol.REQUEST_FLAG_LEADING_RUN if leading_run else 0) | (protocol.REQUEST_FLAG_NO_WAIT if no_wait else 0)


def raise_refusal(status: Status, text: str, name: str) -> None:
    """Raises where a registration failed for what the caller asked, and not for want of a daemon."""
    if status is Status.NAMESPACE_MISMATCH:
        raise NamespaceMismatch(text)
    if status in (Status.INVALID_ARGUMENT, Status.TOO_LARGE, Status.DENIED):
        raise InvalidArgument(f"namespace {name!r} was refused: {status.name}, {text}")


def ping_of(link: Link, completion: operations.Completion, round_trip_ns: int) -> Ping:
    status = completion[0]
    if status is Status.OK:
        return Ping(status, round_trip_ns / 1e9, "", link.daemon)
    reason = link.session.end_text if link.session.ended else "the daemon did not answer in time"
    return Ping(status, 0.0, completion[3].decode(errors="replace") or reason)


def stats_of(completion: operations.Completion) -> dict[str, Any]:
    if completion[0] is not Status.OK or not completion[4]:
        return {}
    stats: dict[str, Any] = json.loads(completion[3])
    return stats


def counters_of(link: Link) -> dict[str, int]:
    return dict(zip(protocol.COUNTERS, link.session.counters(), strict=False))
