"""The asyncio client over gRPC. It needs `kvtier[remote]`."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import grpc
import grpc.aio

from kvtier import _operations as local
from kvtier import aio
from kvtier._connection import namespace_properties
from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument, KvtierError
from kvtier._protocol import Status, Verb
from kvtier._types import Count, FoundNodes, Get, Leases, LoadReport, Lookup, Options, Ping, Retained
from kvtier.client import raise_refusal
from kvtier.remote import _holdings as holdings
from kvtier.remote import _operations as operations
from kvtier.remote._client import NO_ANNOTATE, TRANSFERS_MAX, raise_unless_ok
from kvtier.remote._link import Failure, Registered, Settings, methods
from kvtier.remote._operations import Call, Context, Fetch, Operation

__all__ = ["Client", "Namespace", "Reservations"]

P = ParamSpec("P")
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
            self._channel = self._settings.channel(grpc.aio)
            self._methods = methods(self._channel)
            self._loop = loop
            self._places = asyncio.Semaphore(TRANSFERS_MAX)
        return self._methods

    async def connect(self, timeout: float | None = None) -> None:
        """Checks that the daemon answers. As `kvtier.remote.Client.connect`."""
        raise_unless_ok(await self.ping(timeout))

    async def close(self) -> None:
        """Ends the connection. Operations under way answer ``UNAVAILABLE``."""
        self._is_closed = True
        self._reason = "this client was closed"
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    @property
    def connected(self) -> bool:
        """Whether the daemon answered the last call."""
        return self._reason == ""

    @property
    def reason(self) -> str:
        """Why the last call was not carried out, in words; empty if it was."""
        return self._reason

    async def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace. As `kvtier.Client.namespace`."""
        described = namespace_properties(name, block_bytes, properties)
        status, text = await self._drive(operations.register(self._registered, described), self._answer_by(None))
        raise_refusal(status, text, name)
        return Namespace(self, described)

    async def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not."""
        return await self._drive(operations.ping(self.connected), self._answer_by(timeout))

    async def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics that this caller may see; empty when it does not answer."""
        return await self._drive(operations.stats(), self._answer_by(timeout))

    async def counters(self) -> dict[str, int]:
        """The daemon's counters; empty when it does not answer."""
        return await self._drive(operations.counters(), self._answer_by(None))

    async def _drive(self, operation: Operation[T], answer_by_ns: int) -> T:
        """Carries an operation out, awaiting where it waits."""
        try:
            command = next(operation)
            while True:
                command = operation.send(await self._send(command, answer_by_ns))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _send(self, command: Any, answer_by_ns: int) -> Any:
        if self._is_closed:
            return Failure(Status.UNAVAILABLE, "this client was closed")
        seconds = (answer_by_ns - monotonic_ns()) / 1e9
        if seconds <= 0:
            return Failure(Status.DEADLINE, "the time was over before the call began")
        try:
            calls = self._calls()
            how = {"timeout": seconds, "metadata": self._settings.metadata()}
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
        except InvalidArgument as error:
            # The token file is unreadable, or holds no token any more.
            return self._failed(Failure(Status.DENIED, str(error)))
        except (ValueError, grpc.aio.UsageError) as error:
            # The channel was closed meanwhile, or the daemon's messages make no sense.
            return self._failed(Failure(Status.UNAVAILABLE, str(error)))
        self._reason = ""
        return answer

    async def _transfer(self, calls: dict[str, Any], command: Any, answer_by_ns: int, how: dict[str, Any]) -> Any:
        """A get or a put: at most `TRANSFERS_MAX` at once."""
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


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Namespace(aio.Namespace):
    """The blocks of one cache layout, over gRPC. As `kvtier.remote.Namespace`, awaited."""

    _client: Client

    async def _carry(
        self,
        options: Options,
        operation: Callable[Concatenate[Context, P], Operation[T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        client = self._client
        answer_by_ns = local.answer_by(client._timeout_s, options)
        context = operations.context_of(client._registered, self._properties, answer_by_ns, **options)
        return await client._drive(operation(context, *arguments, **named), answer_by_ns)

    async def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """As `kvtier.Namespace.lookup`."""
        return await self._carry(options, operations.lookup, keys)

    async def find_nodes(self, keys: Iterable[bytes], *, limit: int = 8, **options: Unpack[Options]) -> FoundNodes:
        """As `kvtier.remote.Namespace.find_nodes`."""
        return await self._carry(options, operations.find_nodes, keys, limit)

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
        return await self._carry(options, operations.get, keys, into, leading_run, no_wait)

    async def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """As `kvtier.remote.Namespace.put`."""
        return await self._carry(options, operations.put, keys, blocks, annotations)

    async def annotate(
        self, keys: Iterable[bytes], annotations: Sequence[bytes | None], **options: Unpack[Options]
    ) -> Count:
        """As `kvtier.remote.Namespace.annotate`."""
        raise KvtierError(NO_ANNOTATE)

    async def reserve(self, keys: Iterable[bytes], **options: Unpack[Options]) -> "Reservations":
        """As `kvtier.remote.Namespace.reserve`."""
        return Reservations(self, await self._carry(options, holdings.reserve, keys), options)

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
        """As `kvtier.remote.Namespace.acquire`."""
        return await self._carry(options, holdings.acquire, keys, leading_run, no_wait, expected_from)

    async def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        return await self._carry(options, operations.for_keys, verb.name.capitalize(), keys)

    async def retain(self, keys: Iterable[bytes], lifetime_s: float, **options: Unpack[Options]) -> Retained:
        """As `kvtier.Namespace.retain`."""
        return await self._carry(options, operations.retain, keys, lifetime_s)

    async def report_loads(self, report: LoadReport, **options: Unpack[Options]) -> Status:
        """As `kvtier.Namespace.report_loads`."""
        return await self._carry(options, operations.report_loads, report)

    async def _counted(self, verb: Verb, options: Options) -> Count:
        return await self._carry(options, operations.counted, verb.name.capitalize())


class Reservations(aio.Reservations):
    """Memory to write blocks into, for the asyncio client over gRPC."""

    _front: Namespace

    def __init__(self, namespace: Namespace, slots: holdings.Slots, options: Options) -> None:
        super().__init__(namespace, None, slots.reserved)
        self._slots = slots
        self._options = options

    async def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """Sends written blocks. As `kvtier.Reservations.commit`."""
        taken, _ = self._take(indices)
        told = holdings.options_of_commit(self._options, options)
        for index, status in (await self._front._carry(told, self._slots.send, taken)).items():
            self.statuses[index] = status
        return list(self.statuses)
