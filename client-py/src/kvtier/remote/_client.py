"""The blocking client over gRPC. Many threads may share one."""

import json
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack

import grpc

from kvtier import _operations as local
from kvtier import _protocol as protocol
from kvtier import client as blocking
from kvtier._connection import NamespaceProperties, namespace_properties
from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument, KvtierError, Unavailable
from kvtier._protocol import Status, Verb
from kvtier._types import Count, Get, Leases, Lookup, Options, Ping
from kvtier.client import as_keys, raise_refusal
from kvtier.remote import _operations as operations
from kvtier.remote._holdings import CopiedLeases, LocalSlots, reserved
from kvtier.remote._link import Failure, Registered, Settings, methods
from kvtier.remote._operations import Call, Context, Fetch, Operation
from kvtier.v1 import kvtier_pb2 as v1

T = TypeVar("T")

_log = logging.getLogger("kvtier")
TRANSFERS_MAX = 8
"""Gets and puts at once: as many as a daemon takes of its smallest tenant"""
METHOD_OF = {
    Verb.PREFETCH: "Prefetch",
    Verb.PIN: "Pin",
    Verb.UNPIN: "Unpin",
    Verb.DELETE: "Delete",
    Verb.CLEAR: "Clear",
    Verb.FLUSH: "Flush",
}


class Client(blocking.Client):
    """A connection to a daemon over gRPC, with the operations of `kvtier.Client`.

    Operations do not raise when there is no daemon: they answer ``UNAVAILABLE``, and a later one connects again. Reads are
    sent again where the connection broke. The bytes of blocks are compared with their checksums here, too.
    """

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
        log_level: int = logging.WARNING,
    ) -> None:
        """Does not wait for a connection.

        Args:
            address: ``grpcs://HOST[:PORT]``, or ``grpc://HOST[:PORT]`` for a daemon without TLS.
            token: what `kvtier token make` printed; sent with each call.
            token_file: a file with the token, read with each call.
            ca: a file of certificates in PEM, of which one has signed the daemon's; None: those of this system.
            certificate: a file with this client's certificate in PEM, for a daemon that wants one.
            key: a file with its private key.
            server_name: the name in the daemon's certificate where it is not the host.
            name: a part of the user agent that the daemon is told.
            timeout: seconds that an operation may take when it is not told otherwise.
            log_level: at which it logs, once, that there is no daemon.

        Raises:
            InvalidArgument: the address is none, a file cannot be read, or the token would go over the network unencrypted.
        """
        self._settings = Settings.of(address, name, token, token_file, ca, certificate, key, server_name)
        local.instant_after(timeout)
        self._timeout_s = timeout
        self._log_level = log_level
        self._registered = Registered()
        self._lock = threading.Lock()
        self._channel: Any = None
        self._methods: dict[str, Any] = {}
        self._process = 0
        self._places = threading.BoundedSemaphore(TRANSFERS_MAX)
        self._is_closed = False
        self._is_warned = False
        self._reason = "not connected yet"

    def _calls(self) -> dict[str, Any]:
        """The channel's calls; a forked child makes a channel of its own."""
        with self._lock:
            if self._channel is None or self._process != os.getpid():
                settings = self._settings
                credentials = settings.credentials()
                target = settings.address.target
                self._channel = (
                    grpc.insecure_channel(target, settings.options())
                    if credentials is None
                    else grpc.secure_channel(target, credentials, settings.options())
                )
                self._methods = methods(self._channel)
                self._process = os.getpid()
            return self._methods

    def connect(self, timeout: float | None = None) -> None:
        """Sees that the daemon answers.

        Raises:
            Unavailable: no daemon answers, or it refuses this client; the message says why.
        """
        raise_unless_ok(self.ping(timeout))

    def close(self) -> None:
        """Ends the connection. What it held in the daemon is released; later operations answer ``UNAVAILABLE``."""
        with self._lock:
            self._is_closed = True
            self._reason = "this client was closed"
            channel, self._channel = self._channel, None
        if channel is not None and self._process == os.getpid():
            channel.close()

    @property
    def connected(self) -> bool:
        """Whether the daemon has answered the last call."""
        return self._reason == ""

    @property
    def reason(self) -> str:
        """Why the last call was not carried out, in words; empty when it was."""
        return self._reason

    def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace. As `kvtier.Client.namespace`."""
        described = namespace_properties(name, block_bytes, properties)
        status, text = self._run(operations.register(self._registered, described), self._answer_by(None))
        raise_refusal(status, text, name)
        return Namespace(self, described)

    def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not."""
        answer_by_ns = self._answer_by(timeout)
        if not self.connected:
            # What connecting takes is no part of the round trip.
            first = self._perform(Call("Ping", v1.PingRequest()), answer_by_ns)
            if isinstance(first, Failure):
                return ping_of(first, 0)
        started_ns = monotonic_ns()
        answer = self._perform(Call("Ping", v1.PingRequest()), answer_by_ns)
        return ping_of(answer, monotonic_ns() - started_ns)

    def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics, as far as this caller may see them; empty when it does not answer."""
        return stats_of(self._perform(Call("Stats", v1.StatsRequest()), self._answer_by(timeout)))

    def counters(self) -> dict[str, int]:
        """The daemon's counters; empty when it does not answer."""
        return operations.counters_of(self._perform(Call("Stats", v1.StatsRequest()), self._answer_by(None)))

    def _remote_context(self, properties: NamespaceProperties, options: Options) -> Context:
        return context_of(self._registered, properties, local.answer_by(self._timeout_s, options), options)

    def _run(self, operation: Operation[T], answer_by_ns: int) -> T:
        """Carries an operation out, waiting where it waits."""
        try:
            command = next(operation)
            while True:
                command = operation.send(self._perform(command, answer_by_ns))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _perform(self, command: Any, answer_by_ns: int) -> Any:
        if self._is_closed:
            return Failure(Status.UNAVAILABLE, "this client was closed")
        seconds = (answer_by_ns - monotonic_ns()) / 1e9
        if seconds <= 0:
            return Failure(Status.DEADLINE, "the time was over before the call began")
        calls = self._calls()
        how = {"timeout": seconds, "metadata": self._settings.metadata()}
        try:
            if type(command) is Call:
                return self._heard(calls[command.method](command.request, **how))
            if not self._places.acquire(timeout=seconds):
                return Failure(Status.DEADLINE, "other transfers of this client took all of the time")
            try:
                how["timeout"] = max(0.0, (answer_by_ns - monotonic_ns()) / 1e9)
                if type(command) is not Fetch:
                    return self._heard(calls["Put"](command.messages(), **how))
                stream = calls["Get"](command.request, **how)
                try:
                    for message in stream:
                        command.take(message)
                finally:
                    stream.cancel()
                return self._heard(None)
            finally:
                self._places.release()
        except grpc.RpcError as error:
            return self._failed(Failure.of(error))
        except ValueError as error:
            # A channel that was closed meanwhile says so in this way; a daemon that sends what makes no sense, too.
            return self._failed(Failure(Status.UNAVAILABLE, str(error)))

    def _heard(self, answer: Any) -> Any:
        self._reason = ""
        self._is_warned = False
        return answer

    def _failed(self, failure: Failure) -> Failure:
        if not self._is_closed:
            self._reason = f"{self._settings.address}: {failure.text}"
        if failure.status is Status.UNAVAILABLE and not self._is_warned:
            self._is_warned = True
            _log.log(self._log_level, "%s. Calls answer UNAVAILABLE until the daemon answers.", self._reason)
        return failure

    def __enter__(self) -> Self:
        return self


class Namespace(blocking.Namespace):
    """The blocks of one cache layout, over gRPC. As `kvtier.Namespace`."""

    _client: Client

    def __init__(self, client: Client, properties: NamespaceProperties) -> None:
        super().__init__(client, properties)

    def _context(self, options: Options) -> Context:
        return self._client._remote_context(self._properties, options)

    def _carry(self, context: Context, operation: Operation[T]) -> T:
        return self._client._run(operation, context.answer_by_ns)

    def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """As `kvtier.Namespace.lookup`."""
        keys = checked(keys)
        context = self._context(options)
        if not keys:
            return Lookup.of_status(Status.UNAVAILABLE, 0)
        return self._carry(context, operations.lookup(context, keys))

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
        """As `kvtier.Namespace.get`; every block is checked, and there is no lease."""
        keys = checked(keys)
        local.check_memory(into, len(keys), self.block_bytes, True)
        context = self._context(options)
        if not keys:
            return Get(0, [])
        return self._carry(context, operations.get(context, keys, into, leading_run, no_wait))

    def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """As `kvtier.Namespace.put`. A block that is there is not sent."""
        keys = checked(keys)
        local.check_memory(blocks, len(keys), self.block_bytes, False)
        if annotations is not None:
            local.check_annotations(annotations, len(keys))
        context = self._context(options)
        if not keys:
            return []
        return self._carry(context, operations.put(context, keys, blocks, annotations))

    def annotate(
        self, keys: Iterable[bytes], annotations: Sequence[bytes | None], **options: Unpack[Options]
    ) -> Count:
        """Not offered over gRPC, where `put` takes annotations.

        Raises:
            KvtierError: always.
        """
        raise KvtierError(NO_ANNOTATE)

    def reserve(self, keys: Iterable[bytes], **options: Unpack[Options]) -> "Reservations":
        """Memory of this process to write blocks into; `commit` sends them."""
        keys = checked(keys)
        context = self._context(options)
        found = self._carry(context, operations.lookup(context, keys)) if keys else None
        return Reservations(self, keys, reserved(found, len(keys)), options)

    def acquire(
        self,
        keys: Iterable[bytes],
        *,
        leading_run: bool = False,
        no_wait: bool = False,
        lease_s: float = 0.0,
        **options: Unpack[Options],
    ) -> Leases:
        """Copies of blocks, which stay until they are released. Arguments as of `get`."""
        keys = checked(keys)
        copies = bytearray(len(keys) * self.block_bytes)
        answer = self.get(keys, copies, leading_run=leading_run, no_wait=no_wait, **options)
        return CopiedLeases(answer.statuses, copies, self.block_bytes)

    def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        keys = checked(keys)
        context = self._context(options)
        return self._carry(context, operations.for_keys(context, METHOD_OF[verb], keys)) if keys else []

    def _counted(self, verb: Verb, options: Options) -> Count:
        context = self._context(options)
        return self._carry(context, operations.counted(context, METHOD_OF[verb]))


class Reservations(LocalSlots, blocking.Reservations):
    """Memory to write blocks into, for the blocking client over gRPC."""

    def __init__(
        self, namespace: Namespace, keys: Sequence[bytes], statuses: list[Status], options: Options
    ) -> None:
        self._namespace_of = namespace
        self._keys = keys
        self._options = options
        self.fill(statuses, namespace.block_bytes)

    def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """Sends written blocks. As `kvtier.Reservations.commit`."""
        taken = self.take(indices)
        for begin, end in runs(taken):
            some = list(range(begin, end))
            told = options_of_run(self._options, options, self._keys, begin)
            statuses = self._namespace_of.put(self._keys[begin:end], [self.bytes_of(i) for i in some], **told)
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


NO_ANNOTATE = "annotate is not offered over gRPC: give annotations to put"


def checked(keys: Iterable[bytes]) -> Sequence[bytes]:
    """Keys that the protocol takes.

    Raises:
        InvalidArgument: their lengths differ, or are none of 1 to 32 bytes.
        TypeError: one is no bytes.
    """
    keys = as_keys(keys)
    for key in keys:
        if not isinstance(key, bytes):
            raise TypeError(f"a key is {key!r}; expected bytes")
        if not 0 < len(key) <= 32 or len(key) != len(keys[0]):
            raise InvalidArgument(f"a key has {len(key)} bytes; expected 1 to 32, and all of one length")
    return keys


def context_of(
    registered: Registered,
    properties: NamespaceProperties,
    answer_by_ns: int,
    options: Options,
) -> Context:
    """The context of an operation with these options."""
    given = dict(options)
    given.pop("timeout", None)
    given.pop("deadline_ns", None)
    fields = {
        name: given.pop(name, default)
        for name, default in (
            ("priority", protocol.REQUEST_PRIORITY_NORMAL),
            ("group", 0),
            ("parent", None),
            ("depth", 0),
        )
    }
    if given:
        raise TypeError(
            f"unknown option {next(iter(given))!r}; there are timeout, deadline_ns, priority, group, parent, depth "
            "(and leading_run, no_wait, lease_s for acquire and get)"
        )
    for name in ("priority", "group", "depth"):
        if not isinstance(fields[name], int):
            expected = ", a kvtier.Priority" if name == "priority" else ""
            raise TypeError(f"{name} is {fields[name]!r}; expected a whole number{expected}")
    return Context(registered, properties, answer_by_ns, **fields)  # type: ignore[arg-type]


def options_of_run(first: Options, later: Options, keys: Sequence[bytes], begin: int) -> Options:
    """The options of a put of keys from a place on, of those that were reserved together."""
    told: Options = {**first, **later}
    if "timeout" in later:
        told.pop("deadline_ns", None)
    if begin:
        told["parent"] = keys[begin - 1]
        told["depth"] = first.get("depth", 0) + begin
    return told


def runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """Places in order as (begin, end) of those that follow each other."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def ping_of(answer: Any, round_trip_ns: int) -> Ping:
    status, text = operations.outcome_of(answer)
    if status is not Status.OK:
        return Ping(status, 0.0, text or status.name)
    return Ping(status, round_trip_ns / 1e9, "", answer.version)


def stats_of(answer: Any) -> dict[str, Any]:
    if operations.outcome_of(answer)[0] is not Status.OK:
        return {}
    stats: dict[str, Any] = json.loads(answer.json)
    return stats


def raise_unless_ok(ping: Ping) -> None:
    """Raises what `connect` does where a daemon did not answer."""
    if ping.status is not Status.OK:
        raise Unavailable(ping.reason)
