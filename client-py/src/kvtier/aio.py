"""The asyncio client: the blocking client's operations, awaited.

A thread of its own, started on first use, waits for completions and posts them to the loop; copies of more than a
little run in the loop's executor. A cancelled operation is cancelled in the daemon too, and what it held is released.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._address import is_remote
from kvtier._connection import Connection, Link, NamespaceProperties, namespace_properties
from kvtier._context import current
from kvtier._core import Session, granted_ids, monotonic_ns
from kvtier._errors import Unavailable, VersionMismatch
from kvtier._operations import Completion, Context, Operation, Request, Submit
from kvtier._protocol import Status, Verb
from kvtier._types import Count, Get, Leases, LoadReport, Lookup, Options, Ping, ReservedSlots, Retained
from kvtier.client import acquire_flags, as_keys, counters_of, ping_of, raise_refusal, stats_of

T = TypeVar("T")

_INLINE_BYTES = 128 << 10
_POLL_NS = 250_000_000
_FULL_RING_NAP_S = 0.0005


class Client:
    """A connection to the daemon of this machine, for one event loop. As `kvtier.Client`, but it connects on first use."""

    def __new__(cls, socket_path: str | os.PathLike[str] | None = None, **options: Any) -> "Client":
        """With an address, ``grpcs://HOST[:PORT]``, in place of a path this is a `kvtier.remote.aio.Client` and takes its options."""
        if cls is Client and is_remote(socket_path):
            from kvtier.remote.aio import Client as Remote

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
        daemon_user: str | int | None = None,
    ) -> None:
        """Does not connect yet. Arguments as of `kvtier.Client`."""
        self._timeout_s = timeout
        self._connection = Connection(socket_path, name, reconnect, ring_bytes, daemon_user=daemon_user)
        self._poller: _Poller | None = None

    async def connect(self, timeout: float | None = None) -> None:
        """Connects now, unless a session is open.

        Raises:
            VersionMismatch: the daemon speaks another major version of the protocol.
            Unavailable: no daemon answers, or it refuses this client; the message says why.
        """
        await asyncio.to_thread(self._connection.open, self._answer_by(timeout))

    async def close(self) -> None:
        """Ends the session. What waits in it answers ``UNAVAILABLE``."""
        self._connection.close()
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.stop()

    @property
    def connected(self) -> bool:
        """Whether a session is open, as far as this client has noticed."""
        return self._connection.current() is not None

    @property
    def reason(self) -> str:
        """Why there is no session, in words; of the last time there was none."""
        return self._connection.reason

    async def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace. As `kvtier.Client.namespace`."""
        described = namespace_properties(name, block_bytes, properties)
        answer_by_ns = self._answer_by(None)
        link = await self._link(answer_by_ns)
        if link is not None:
            context = operations.context_of(link, described, answer_by_ns)
            status, text = await self._run(context, operations.register(link, described, context.deadline_ns))
            raise_refusal(status, text, name)
        return Namespace(self, described)

    async def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not."""
        answer_by_ns = self._answer_by(timeout)
        try:
            link = await asyncio.to_thread(self._connection.open, answer_by_ns)
        except VersionMismatch as error:
            return Ping(Status.VERSION_MISMATCH, 0.0, str(error))
        except Unavailable as error:
            return Ping(Status.UNAVAILABLE, 0.0, str(error))
        started_ns = monotonic_ns()
        completion = await self._call(
            link, operations.plain_request(Verb.PING, 0, answer_by_ns), answer_by_ns, current()
        )
        return ping_of(link, completion, monotonic_ns() - started_ns)

    async def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics; empty when it does not answer."""
        answer_by_ns = self._answer_by(timeout)
        link = await self._link(answer_by_ns)
        if link is None:
            return {}
        return stats_of(await self._call(link, operations.plain_request(Verb.STATS, 0, answer_by_ns), answer_by_ns))

    async def counters(self) -> dict[str, int]:
        """The daemon's counters, read from its memory without asking it; empty without a session. Those that say what is
        there now (leases, slots, blocks...) may be a fraction of a second old."""
        link = await self._link(self._answer_by(None))
        return {} if link is None else counters_of(link)

    def _answer_by(self, timeout: float | None) -> int:
        return operations.instant_after(self._timeout_s if timeout is None else timeout)

    async def _link(self, answer_by_ns: int) -> Link | None:
        link = self._connection.current()
        if link is not None:
            return link
        if not self._connection.may_try():
            return None
        # Connecting waits for the daemon, and may wait long for one that hangs: not on the loop.
        return await asyncio.to_thread(self._connection.link, answer_by_ns)

    async def lookup_groups(self, groups: Iterable[tuple["Namespace", Iterable[bytes]]], **options: Unpack[Options]) -> list[Lookup]:
        """As `kvtier.Client.lookup_groups`."""
        listed = [(namespace._properties, as_keys(keys)) for namespace, keys in groups]
        if not listed:
            return []
        context = await self._context(listed[0][0], options)
        if context is None:
            return [Lookup.of_status(Status.UNAVAILABLE, len(keys)) for _, keys in listed]
        return await self._run(context, operations.lookup_groups(context, listed))

    async def _context(self, properties: NamespaceProperties, options: Options) -> Context | None:
        answer_by_ns = operations.answer_by(self._timeout_s, options)
        link = await self._link(answer_by_ns)
        return None if link is None else operations.context_of(link, properties, answer_by_ns, **options)

    async def _run(self, context: Context, operation: Operation[T]) -> T:
        """Carries an operation out, awaiting where it waits."""
        try:
            command = next(operation)
            while True:
                try:
                    reply = await self._perform(context, command)
                except BaseException as error:
                    command = operation.throw(error)
                else:
                    command = operation.send(reply)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _perform(self, context: Context, command: Any) -> object:
        link = context.link
        kind = type(command)
        if kind is tuple:
            return await self._call(link, command, context.answer_by_ns, context.trace)
        if kind is int:
            if command < 0:
                return operations.made(Status(-command))
            return await self._take(link, command, context.answer_by_ns)
        if kind is Submit:
            return await self._submit(link, command.request, context.answer_by_ns, context.trace)
        if command.cost_bytes <= _INLINE_BYTES:
            return command.function()
        return await _in_executor(command.function)

    async def _call(
        self, link: Link, request: Request, answer_by_ns: int, trace: bytes | None = None
    ) -> Completion:
        ticket = await self._submit(link, request, answer_by_ns, trace)
        if ticket < 0:
            return operations.made(Status(-ticket))
        return await self._take(link, ticket, answer_by_ns)

    async def _submit(self, link: Link, request: Request, answer_by_ns: int, trace: bytes | None = None) -> int:
        poller = self._poller_of(link)
        while True:
            # A deadline of 0: the extension must not wait for room, for it would hold up the loop.
            ticket = link.session.submit(request, 0, trace)
            if ticket != -Status.BUSY or monotonic_ns() >= answer_by_ns:
                if ticket > 0:
                    poller.expect(ticket)
                return ticket
            await asyncio.sleep(_FULL_RING_NAP_S)

    async def _take(self, link: Link, ticket: int, answer_by_ns: int) -> Completion:
        poller = self._poller_of(link)
        future = poller.futures.get(ticket)
        if future is None:
            return operations.made(Status.UNAVAILABLE)
        timer = poller.loop.call_later(
            max(0.0, (answer_by_ns - monotonic_ns()) / 1e9), _set_result, future, operations.made(Status.DEADLINE)
        )
        try:
            completion = await future
            if completion[0] is Status.DEADLINE and completion[5] == 0:
                poller.forget(ticket)
            return completion
        except asyncio.CancelledError:
            link.session.submit(operations.cancel_request(ticket), 0)
            poller.forget(ticket)
            raise
        finally:
            timer.cancel()
            poller.futures.pop(ticket, None)

    def _poller_of(self, link: Link) -> "_Poller":
        poller = self._poller
        loop = asyncio.get_running_loop()
        if poller is None or poller.session is not link.session or poller.loop is not loop:
            if poller is not None:
                poller.stop()
            poller = self._poller = _Poller(link.session, loop)
            link.forget = poller.forget
            poller.start()
        return poller

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class Namespace:
    """The blocks of one cache layout. As `kvtier.Namespace`, awaited."""

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

    async def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """As `kvtier.Namespace.lookup`."""
        keys = as_keys(keys)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return Lookup.of_status(Status.UNAVAILABLE, len(keys))
        return await self._client._run(context, operations.lookup(context, keys))

    async def get(
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
        """As `kvtier.Namespace.get`. When cancelled, it returns after the last write to the buffers."""
        keys = as_keys(keys)
        operations.check_memory(into, len(keys), self.block_bytes, True)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return Get(0, [Status.UNAVAILABLE] * len(keys))
        flags = acquire_flags(leading_run, no_wait)
        return await self._client._run(context, operations.get(context, keys, into, flags, int(lease_s * 1e9), verify))

    async def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """As `kvtier.Namespace.put`. When cancelled, it returns after the last read from the buffers."""
        keys = as_keys(keys)
        operations.check_memory(blocks, len(keys), self.block_bytes, False)
        if annotations is not None:
            operations.check_annotations(annotations, len(keys))
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return [Status.UNAVAILABLE] * len(keys)
        return await self._client._run(context, operations.put(context, keys, blocks, annotations))

    async def annotate(
        self, keys: Iterable[bytes], annotations: Sequence[bytes | None], **options: Unpack[Options]
    ) -> Count:
        """As `kvtier.Namespace.annotate`."""
        keys = as_keys(keys)
        operations.check_annotations(annotations, len(keys))
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return Count(Status.UNAVAILABLE, 0)
        return await self._client._run(context, operations.annotate(context, keys, annotations))

    async def reserve(self, keys: Iterable[bytes], **options: Unpack[Options]) -> "Reservations":
        """As `kvtier.Namespace.reserve`."""
        keys = as_keys(keys)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            nothing = [Status.UNAVAILABLE] * len(keys)
            return Reservations(self, None, operations.Reserved(0, nothing, [0] * len(keys), [None] * len(keys)))
        return Reservations(self, context.link, await self._client._run(context, operations.reserve(context, keys)))

    async def acquire(
        self,
        keys: Iterable[bytes],
        *,
        leading_run: bool = False,
        no_wait: bool = False,
        lease_s: float = 0.0,
        expected_from: str = "",
        **options: Unpack[Options],
    ) -> Leases:
        """As `kvtier.Namespace.acquire`."""
        keys = as_keys(keys)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return Leases.of_status(Status.UNAVAILABLE, len(keys), self.block_bytes)
        flags = acquire_flags(leading_run, no_wait)
        return await self._client._run(context, operations.acquire(context, keys, flags, int(lease_s * 1e9), expected_from))

    async def prefetch(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """As `kvtier.Namespace.prefetch`."""
        return await self._for_keys(Verb.PREFETCH, keys, options)

    async def pin(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """As `kvtier.Namespace.pin`."""
        return await self._for_keys(Verb.PIN, keys, options)

    async def unpin(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """As `kvtier.Namespace.unpin`."""
        return await self._for_keys(Verb.UNPIN, keys, options)

    async def retain(self, keys: Iterable[bytes], lifetime_s: float, **options: Unpack[Options]) -> Retained:
        """As `kvtier.Namespace.retain`."""
        keys = as_keys(keys)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return Retained([Status.UNAVAILABLE] * len(keys), "")
        return await self._client._run(context, operations.retain(context, keys, lifetime_s))

    async def delete(self, keys: Iterable[bytes], **options: Unpack[Options]) -> list[Status]:
        """As `kvtier.Namespace.delete`."""
        return await self._for_keys(Verb.DELETE, keys, options)

    async def clear(self, **options: Unpack[Options]) -> Count:
        """As `kvtier.Namespace.clear`."""
        return await self._counted(Verb.CLEAR, options)

    async def flush(self, **options: Unpack[Options]) -> Count:
        """As `kvtier.Namespace.flush`."""
        return await self._counted(Verb.FLUSH, options)

    async def report_loads(self, report: LoadReport, **options: Unpack[Options]) -> Status:
        """As `kvtier.Namespace.report_loads`."""
        report.checked()
        context = await self._client._context(self._properties, options)
        if context is None:
            return Status.UNAVAILABLE
        return await self._client._run(context, operations.report_loads(context, report))

    async def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        keys = as_keys(keys)
        context = await self._client._context(self._properties, options)
        if context is None or not keys:
            return [Status.UNAVAILABLE] * len(keys)
        return await self._client._run(context, operations.for_keys(context, verb, keys))

    async def _counted(self, verb: Verb, options: Options) -> Count:
        context = await self._client._context(self._properties, options)
        if context is None:
            return Count(Status.UNAVAILABLE, 0)
        return await self._client._run(context, operations.counted(context, verb))


class Reservations(ReservedSlots):
    """Slots to write blocks into, for the asyncio client."""

    def __init__(self, namespace: Namespace, link: Link | None, reserved: operations.Reserved) -> None:
        session = None if link is None else link.session
        super().__init__(session, reserved.namespace, reserved.statuses, reserved.ids, reserved.views)
        self._front = namespace
        self._link = link

    async def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """As `kvtier.Reservations.commit`."""
        taken, ids = self._take(indices)
        if taken and self._link is not None:
            client = self._front._client
            answer_by_ns = operations.answer_by(client._timeout_s, options)
            context = operations.context_of(self._link, self._front._properties, answer_by_ns, **options)
            answers = await client._run(context, operations.commit(context, self._namespace, ids))
            for index, status in zip(taken, answers, strict=True):
                self.statuses[index] = status
        return list(self.statuses)

    def __enter__(self) -> Self:
        return self


class _Poller(threading.Thread):
    """Waits for one session's completions without the GIL, and posts them to one loop."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="kvtier-poller", daemon=True)
        self.session = session
        self.loop = loop
        self.futures: dict[int, asyncio.Future[Completion]] = {}
        """what the loop waits for, by correlation id; touched on the loop only"""
        self._wake = threading.Event()
        self._stopped = False

    def expect(self, ticket: int) -> None:
        """On the loop: from now on the completion of this correlation id has a future."""
        self.futures[ticket] = self.loop.create_future()
        if not self._wake.is_set():
            self._wake.set()

    def forget(self, ticket: int) -> None:
        """On the loop: nobody waits for this correlation id any more. What its answer granted is given back."""
        future = self.futures.pop(ticket, None)
        self.session.forget(ticket)
        if future is not None and future.done() and not future.cancelled():
            self._give_back(future.result())

    def stop(self) -> None:
        """On the loop: what still waits answers UNAVAILABLE."""
        self._stopped = True
        self._wake.set()
        self._fail()

    def run(self) -> None:
        try:
            while not self._stopped and not self.session.ended:
                self._wake.wait()
                # Cleared before looking: a request that comes after the look sets it again.
                self._wake.clear()
                while self.session.outstanding and not self._stopped and not self.session.ended:
                    arrived = self.session.poll(_POLL_NS)
                    if arrived:
                        self.loop.call_soon_threadsafe(self._deliver, arrived)
            arrived = self.session.poll(0)
            self.loop.call_soon_threadsafe(self._deliver, arrived)
            self.loop.call_soon_threadsafe(self._fail)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more

    def _deliver(self, arrived: dict[int, Completion]) -> None:
        for ticket, completion in arrived.items():
            future = self.futures.get(ticket)
            if future is None or future.done():
                self._give_back(completion)
            else:
                future.set_result(completion)

    def _give_back(self, completion: Completion) -> None:
        _, _, _, body, is_text, verb = completion
        if not is_text and verb in (Verb.ACQUIRE, Verb.RESERVE):
            self.session.give_back(verb, granted_ids(body))

    def _fail(self) -> None:
        for future in self.futures.values():
            _set_result(future, operations.made(Status.UNAVAILABLE))


def _set_result(future: "asyncio.Future[Completion]", completion: Completion) -> None:
    if not future.done():
        future.set_result(completion)


async def _in_executor(function: Callable[[], object]) -> object:
    """Runs a copy. A cancellation waits for its end: the caller's buffers must not be touched after this returns."""
    future = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue
        if not future.cancelled():
            future.exception()  # seen: what failed in a cancelled operation is nobody's business
        raise
