"""The asyncio client over gRPC: the blocking client's operations, awaited. They need `kvtier[remote]`."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

import grpc
import grpc.aio

from kvtier import _operations as local
from kvtier import aio
from kvtier._connection import NamespaceProperties, namespace_properties
from kvtier._core import monotonic_ns
from kvtier._errors import KvtierError
from kvtier._protocol import Status, Verb
from kvtier._types import Count, Get, Leases, Lookup, Options, Ping
from kvtier.client import raise_refusal
from kvtier.remote import _operations as operations
from kvtier.remote._client import (
    METHOD_OF,
    NO_ANNOTATE,
    TRANSFERS_MAX,
    checked,
    context_of,
    options_of_run,
    ping_of,
    raise_unless_ok,
    runs,
    stats_of,
)
from kvtier.remote._holdings import CopiedLeases, LocalSlots, reserved
from kvtier.remote._link import Failure, Registered, Settings, methods
from kvtier.remote._operations import Call, Context, Fetch, Operation
from kvtier.v1 import kvtier_pb2 as v1

__all__ = ["Client", "Namespace", "Reservations"]

T = TypeVar("T")


class Client(aio.Client):
    """A connection to a daemon over gRPC, for one event loop. As `kvtier.remote.Client`, awaited."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        server_name: str | None = None,
        name: str = "",
        timeout: float = 1.0,
    ) -> None:
        """Does not connect yet. Arguments as of `kvtier.remote.Client`."""
        self._settings = Settings.of(address, name, token, token_file, ca, certificate, key, server_name)
        local.instant_after(timeout)
        self._timeout_s = timeout
        self._registered = Registered()
        self._channel: Any = None
        self._methods: dict[str, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(TRANSFERS_MAX)
        self._is_closed = False
        self._reason = "not connected yet"

    def _calls(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        if self._channel is None or self._loop is not loop:
            settings = self._settings
            credentials = settings.credentials()
            target = settings.address.target
            self._channel = (
                grpc.aio.insecure_channel(target, settings.options())
                if credentials is None
                else grpc.aio.secure_channel(target, credentials, settings.options())
            )
            self._methods = methods(self._channel)
            self._loop = loop
            self._places = asyncio.Semaphore(TRANSFERS_MAX)
        return self._methods

    async def connect(self, timeout: float | None = None) -> None:
        """Sees that the daemon answers. As `kvtier.remote.Client.connect`."""
        raise_unless_ok(await self.ping(timeout))

    async def close(self) -> None:
        """Ends the connection. What waits in it answers ``UNAVAILABLE``."""
        self._is_closed = True
        self._reason = "this client was closed"
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    @property
    def connected(self) -> bool:
        """Whether the daemon has answered the last call."""
        return self._reason == ""

    @property
    def reason(self) -> str:
        """Why the last call was not carried out, in words; empty when it was."""
        return self._reason

    async def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace. As `kvtier.Client.namespace`."""
        described = namespace_properties(name, block_bytes, properties)
        status, text = await self._carry(operations.register(self._registered, described), self._answer_by(None))
        raise_refusal(status, text, name)
        return Namespace(self, described)

    async def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not."""
        answer_by_ns = self._answer_by(timeout)
        if not self.connected:
            # What connecting takes is no part of the round trip.
            first = await self._asked(Call("Ping", v1.PingRequest()), answer_by_ns)
            if isinstance(first, Failure):
                return ping_of(first, 0)
        started_ns = monotonic_ns()
        answer = await self._asked(Call("Ping", v1.PingRequest()), answer_by_ns)
        return ping_of(answer, monotonic_ns() - started_ns)

    async def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics, as far as this caller may see them; empty when it does not answer."""
        return stats_of(await self._asked(Call("Stats", v1.StatsRequest()), self._answer_by(timeout)))

    async def counters(self) -> dict[str, int]:
        """The daemon's counters; empty when it does not answer."""
        return operations.counters_of(await self._asked(Call("Stats", v1.StatsRequest()), self._answer_by(None)))

    async def _carry(self, operation: Operation[T], answer_by_ns: int) -> T:
        """Carries an operation out, awaiting where it waits."""
        try:
            command = next(operation)
            while True:
                command = operation.send(await self._asked(command, answer_by_ns))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _asked(self, command: Any, answer_by_ns: int) -> Any:
        if self._is_closed:
            return Failure(Status.UNAVAILABLE, "this client was closed")
        seconds = (answer_by_ns - monotonic_ns()) / 1e9
        if seconds <= 0:
            return Failure(Status.DEADLINE, "the time was over before the call began")
        calls = self._calls()
        how = {"timeout": seconds, "metadata": self._settings.metadata()}
        try:
            if type(command) is Call:
                answer = await calls[command.method](command.request, **how)
            else:
                answer = await self._transfer(calls, command, answer_by_ns, how)
        except TimeoutError:
            return Failure(Status.DEADLINE, "other transfers of this client took all of the time")
        except grpc.RpcError as error:
            return self._failed(Failure.of(error))
        except asyncio.CancelledError:
            if self._is_closed and not _is_cancelled():
                return Failure(Status.UNAVAILABLE, self._reason)
            raise
        except (ValueError, grpc.aio.UsageError) as error:
            return self._failed(Failure(Status.UNAVAILABLE, str(error)))
        self._reason = ""
        return answer

    async def _transfer(self, calls: dict[str, Any], command: Any, answer_by_ns: int, how: dict[str, Any]) -> Any:
        """A get or a put, of which there are a few at once."""
        async with asyncio.timeout(how["timeout"]):
            await self._places.acquire()
        try:
            how["timeout"] = max(0.0, (answer_by_ns - monotonic_ns()) / 1e9)
            if type(command) is not Fetch:
                return await calls["Put"](command.messages(), **how)
            stream = calls["Get"](command.request, **how)
            try:
                async for message in stream:
                    command.take(message)
            finally:
                stream.cancel()
            return None
        finally:
            self._places.release()

    def _failed(self, failure: Failure) -> Failure:
        if not self._is_closed:
            self._reason = f"{self._settings.address}: {failure.text}"
        elif failure.status is Status.CANCELLED:
            return Failure(Status.UNAVAILABLE, self._reason)
        return failure

    async def __aenter__(self) -> Self:
        return self


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Namespace(aio.Namespace):
    """The blocks of one cache layout, over gRPC. As `kvtier.remote.Namespace`, awaited."""

    _client: Client

    def __init__(self, client: Client, properties: NamespaceProperties) -> None:
        super().__init__(client, properties)

    def _context(self, options: Options) -> Context:
        client = self._client
        answer_by_ns = local.answer_by(client._timeout_s, options)
        return context_of(client._registered, self._properties, answer_by_ns, options)

    async def _carry(self, context: Context, operation: Operation[T]) -> T:
        return await self._client._carry(operation, context.answer_by_ns)

    async def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """As `kvtier.Namespace.lookup`."""
        keys = checked(keys)
        context = self._context(options)
        if not keys:
            return Lookup.of_status(Status.UNAVAILABLE, 0)
        return await self._carry(context, operations.lookup(context, keys))

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
        """As `kvtier.remote.Namespace.get`."""
        keys = checked(keys)
        local.check_memory(into, len(keys), self.block_bytes, True)
        context = self._context(options)
        if not keys:
            return Get(0, [])
        return await self._carry(context, operations.get(context, keys, into, leading_run, no_wait))

    async def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """As `kvtier.remote.Namespace.put`."""
        keys = checked(keys)
        local.check_memory(blocks, len(keys), self.block_bytes, False)
        if annotations is not None:
            local.check_annotations(annotations, len(keys))
        context = self._context(options)
        if not keys:
            return []
        return await self._carry(context, operations.put(context, keys, blocks, annotations))

    async def annotate(
        self, keys: Iterable[bytes], annotations: Sequence[bytes | None], **options: Unpack[Options]
    ) -> Count:
        """As `kvtier.remote.Namespace.annotate`."""
        raise KvtierError(NO_ANNOTATE)

    async def reserve(self, keys: Iterable[bytes], **options: Unpack[Options]) -> "Reservations":
        """As `kvtier.remote.Namespace.reserve`."""
        keys = checked(keys)
        context = self._context(options)
        found = await self._carry(context, operations.lookup(context, keys)) if keys else None
        return Reservations(self, keys, reserved(found, len(keys)), options)

    async def acquire(
        self,
        keys: Iterable[bytes],
        *,
        leading_run: bool = False,
        no_wait: bool = False,
        lease_s: float = 0.0,
        **options: Unpack[Options],
    ) -> Leases:
        """As `kvtier.remote.Namespace.acquire`."""
        keys = checked(keys)
        copies = bytearray(len(keys) * self.block_bytes)
        answer = await self.get(keys, copies, leading_run=leading_run, no_wait=no_wait, **options)
        return CopiedLeases(answer.statuses, copies, self.block_bytes)

    async def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        keys = checked(keys)
        context = self._context(options)
        return await self._carry(context, operations.for_keys(context, METHOD_OF[verb], keys)) if keys else []

    async def _counted(self, verb: Verb, options: Options) -> Count:
        context = self._context(options)
        return await self._carry(context, operations.counted(context, METHOD_OF[verb]))


class Reservations(LocalSlots, aio.Reservations):
    """Memory to write blocks into, for the asyncio client over gRPC."""

    def __init__(
        self, namespace: Namespace, keys: Sequence[bytes], statuses: list[Status], options: Options
    ) -> None:
        self._namespace_of = namespace
        self._keys = keys
        self._options = options
        self.fill(statuses, namespace.block_bytes)

    async def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """Sends written blocks. As `kvtier.Reservations.commit`."""
        for begin, end in runs(self.take(indices)):
            some = list(range(begin, end))
            told = options_of_run(self._options, options, self._keys, begin)
            statuses = await self._namespace_of.put(self._keys[begin:end], [self.bytes_of(i) for i in some], **told)
            for index, status in zip(some, statuses, strict=True):
                self.statuses[index] = status
        return list(self.statuses)

    def abort(self, indices: Iterable[int] | None = None) -> None:
        """Lets go of what was not committed."""
        for index in self.take(indices):
            self.statuses[index] = Status.CANCELLED

    def __del__(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self
