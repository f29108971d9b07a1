"""The blocking client over gRPC. Threads may share one."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import grpc

from kvtier import _operations as local
from kvtier import client as blocking
from kvtier._connection import namespace_properties
from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument, KvtierError, Unavailable
from kvtier._protocol import Status, Verb
from kvtier._types import Count, FoundNodes, Get, Leases, LoadReport, Lookup, Options, Ping, Retained
from kvtier.client import raise_refusal
from kvtier.remote import _holdings as holdings
from kvtier.remote import _operations as operations
from kvtier.remote._link import Failure, Registered, Settings, methods
from kvtier.remote._operations import Call, Context, Fetch, Operation

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("kvtier")
TRANSFERS_MAX = 8
"""Gets and puts at once: as many as a daemon accepts of its smallest tenant"""


class Client(blocking.Client):
    """A connection to a daemon over gRPC, with the operations of `kvtier.Client`.

    Operations do not raise when there is no daemon: they answer ``UNAVAILABLE``, and a later one connects again. Reads are
    sent again when the connection breaks. The client compares the bytes of blocks with their checksums.
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
            token: the token that `kvtier token make` printed; sent with each call.
            token_file: a file with the token, read with each call.
            ca: a PEM file with the certificate that signed the daemon's; None: the certificates that this system trusts.
            certificate: a PEM file with this client's certificate, for a daemon that asks for one.
            key: a PEM file with the private key of `certificate`.
            server_name: the name in the daemon's certificate, if it is not the host of the address.
            name: a name for this client in the user agent of its calls.
            timeout: the default timeout of an operation, in seconds.
            log_level: the level of the message, logged once, that no daemon answers.

        Raises:
            InvalidArgument: the address is malformed, a file cannot be read, or the token would go over the network unencrypted.
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
            if self._is_closed:
                raise ValueError("this client was closed")
            if self._channel is None or self._process != os.getpid():
                self._channel = self._settings.channel(grpc)
                self._methods = methods(self._channel)
                self._process = os.getpid()
            return self._methods

    def connect(self, timeout: float | None = None) -> None:
        """Checks that the daemon answers.

        Raises:
            Unavailable: no daemon answers, or it refuses this client; the message says why.
        """
        raise_unless_ok(self.ping(timeout))

    def close(self) -> None:
        """Ends the connection. The daemon releases its pins; later operations answer ``UNAVAILABLE``."""
        with self._lock:
            self._is_closed = True
            self._reason = "this client was closed"
            channel, self._channel = self._channel, None
        if channel is not None and self._process == os.getpid():
            channel.close()

    @property
    def connected(self) -> bool:
        """Whether the daemon answered the last call."""
        return self._reason == ""

    @property
    def reason(self) -> str:
        """Why the last call was not carried out, in words; empty if it was."""
        return self._reason

    def namespace(self, name: str, *, block_bytes: int, **properties: object) -> "Namespace":
        """Registers a namespace. As `kvtier.Client.namespace`."""
        described = namespace_properties(name, block_bytes, properties)
        status, text = self._drive(operations.register(self._registered, described), self._answer_by(None))
        raise_refusal(status, text, name)
        return Namespace(self, described)

    def ping(self, timeout: float | None = None) -> Ping:
        """Whether the daemon answers, how fast, and why not."""
        return self._drive(operations.ping(self.connected), self._answer_by(timeout))

    def stats(self, timeout: float | None = None) -> dict[str, Any]:
        """The daemon's statistics that this caller may see; empty when it does not answer."""
        return self._drive(operations.stats(), self._answer_by(timeout))

    def counters(self) -> dict[str, int]:
        """The daemon's counters; empty when it does not answer."""
        return self._drive(operations.counters(), self._answer_by(None))

    def _drive(self, operation: Operation[T], answer_by_ns: int) -> T:
        """Carries an operation out, waiting where it waits."""
        try:
            command = next(operation)
            while True:
                command = operation.send(self._send(command, answer_by_ns))
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _send(self, command: Any, answer_by_ns: int) -> Any:
        if self._is_closed:
            return Failure(Status.UNAVAILABLE, "this client was closed")
        seconds = (answer_by_ns - monotonic_ns()) / 1e9
        if seconds <= 0:
            return Failure(Status.DEADLINE, "the time was over before the call began")
        try:
            calls = self._calls()
            how = {"timeout": seconds, "metadata": self._settings.metadata()}
            if type(command) is Call:
                answer = calls[command.method](command.request, **how)
            else:
                answer = self._transfer(calls, command, answer_by_ns, how)
        except TimeoutError:
            return Failure(Status.DEADLINE, "other transfers of this client took all of the time")
        except grpc.RpcError as error:
            return self._failed(Failure.of(error))
        except InvalidArgument as error:
            # The token file is unreadable, or holds no token any more.
            return self._failed(Failure(Status.DENIED, str(error)))
        except ValueError as error:
            # The channel was closed meanwhile, or the daemon's messages make no sense.
            return self._failed(Failure(Status.UNAVAILABLE, str(error)))
        self._reason = ""
        self._is_warned = False
        return answer

    def _transfer(self, calls: dict[str, Any], command: Any, answer_by_ns: int, how: dict[str, Any]) -> Any:
        """A get or a put: at most `TRANSFERS_MAX` at once."""
        if not self._places.acquire(timeout=how["timeout"]):
            raise TimeoutError
        try:
            how["timeout"] = max(0.0, (answer_by_ns - monotonic_ns()) / 1e9)
            if type(command) is not Fetch:
                return calls["Put"](command.messages(), **how)
            stream = calls["Get"](command.request, **how)
            try:
                for message in stream:
                    command.take(message)
            finally:
                stream.cancel()
            return None
        finally:
            self._places.release()

    def _failed(self, failure: Failure) -> Failure:
        if not self._is_closed:
            self._reason = f"{self._settings.address}: {failure.text}"
        if failure.status is Status.UNAVAILABLE and not self._is_warned:
            self._is_warned = True
            _log.log(self._log_level, "%s. Calls answer UNAVAILABLE until the daemon answers.", self._reason)
        return failure


class Namespace(blocking.Namespace):
    """The blocks of one cache layout, over gRPC. As `kvtier.Namespace`."""

    _client: Client

    def _carry(
        self,
        options: Options,
        operation: Callable[Concatenate[Context, P], Operation[T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        client = self._client
        answer_by_ns = local.answer_by(client._timeout_s, options)
        context = operations.context_of(client._registered, self._properties, answer_by_ns, **options)
        return client._drive(operation(context, *arguments, **named), answer_by_ns)

    def lookup(self, keys: Iterable[bytes], **options: Unpack[Options]) -> Lookup:
        """As `kvtier.Namespace.lookup`."""
        return self._carry(options, operations.lookup, keys)

    def find_nodes(self, keys: Iterable[bytes], *, limit: int = 8, **options: Unpack[Options]) -> FoundNodes:
        """Which nodes of the cluster have most of a sequence of blocks, for routers. The daemon asks the other nodes.

        This changes nothing, renews nothing, and counts as no lookup.

        Args:
            keys: at most 2048, in the order of their blocks in the prompt.
            limit: the most nodes in the answer, 1 to 1024.
            options: as of `lookup`.

        Raises:
            InvalidArgument: more keys or nodes than these.
        """
        return self._carry(options, operations.find_nodes, keys, limit)

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
        """As `kvtier.Namespace.get`; every block is verified, and there is no lease."""
        return self._carry(options, operations.get, keys, into, leading_run, no_wait)

    def put(
        self,
        keys: Iterable[bytes],
        blocks: object,
        *,
        annotations: Sequence[bytes | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Status]:
        """As `kvtier.Namespace.put`. Blocks that are there are not sent."""
        return self._carry(options, operations.put, keys, blocks, annotations)

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
        return Reservations(self, self._carry(options, holdings.reserve, keys), options)

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
        """Copies of blocks, which stay until they are released. Arguments as of `get`, and of `kvtier.Namespace.acquire`."""
        return self._carry(options, holdings.acquire, keys, leading_run, no_wait, expected_from)

    def _for_keys(self, verb: Verb, keys: Iterable[bytes], options: Options) -> list[Status]:
        return self._carry(options, operations.for_keys, verb.name.capitalize(), keys)

    def retain(self, keys: Iterable[bytes], lifetime_s: float, **options: Unpack[Options]) -> Retained:
        """As `kvtier.Namespace.retain`."""
        return self._carry(options, operations.retain, keys, lifetime_s)

    def report_loads(self, report: LoadReport, **options: Unpack[Options]) -> Status:
        """As `kvtier.Namespace.report_loads`."""
        return self._carry(options, operations.report_loads, report)

    def _counted(self, verb: Verb, options: Options) -> Count:
        return self._carry(options, operations.counted, verb.name.capitalize())


class Reservations(blocking.Reservations):
    """Memory to write blocks into, for the blocking client over gRPC."""

    _front: Namespace

    def __init__(self, namespace: Namespace, slots: holdings.Slots, options: Options) -> None:
        super().__init__(namespace, None, slots.reserved)
        self._slots = slots
        self._options = options

    def commit(self, indices: Iterable[int] | None = None, **options: Unpack[Options]) -> list[Status]:
        """Sends written blocks. As `kvtier.Reservations.commit`."""
        taken, _ = self._take(indices)
        told = holdings.options_of_commit(self._options, options)
        for index, status in self._front._carry(told, self._slots.send, taken).items():
            self.statuses[index] = status
        return list(self.statuses)


NO_ANNOTATE = "annotate is not offered over gRPC: give annotations to put"


def raise_unless_ok(ping: Ping) -> None:
    """Raises the exception of `connect` if the daemon did not answer."""
    if ping.status is not Status.OK:
        raise Unavailable(ping.reason)
