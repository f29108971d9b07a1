"""A front end for a loop that must not wait: operations are begun, and go on when their session is polled."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kvtier import _operations as operations
from kvtier._connection import Connection, Link, NamespaceProperties
from kvtier._context import current
from kvtier._core import granted_ids, monotonic_ns
from kvtier._operations import Completion, Context, Operation
from kvtier._protocol import Status, Verb

T = TypeVar("T")

_CONNECT_TIMEOUT_NS = 1_000_000_000


class Call(Generic[T]):
    """An operation under way."""

    __slots__ = ("_answer_by_ns", "_link", "_make", "_steps", "_trace", "done", "outcome")

    def __init__(self, make: Callable[[Link], Operation[T]], answer_by_ns: int, otherwise: T) -> None:
        self.done = False
        self.outcome = otherwise
        """what came out; what stands for it while nothing has"""
        self._make = make
        self._answer_by_ns = answer_by_ns
        self._steps: Operation[T] | None = None
        self._link: Link | None = None
        self._trace: bytes | None = current()
        """it may begin only later, in another thread"""

    def _fail(self) -> None:
        self.done = True
        if self._steps is not None:
            self._steps.close()


class Polled:
    """One connection, for one thread. No call waits but `poll`, as long as it is told to.

    Operations must not need to copy: `operations.lookup`, `hold`, `counted`.
    """

    def __init__(self, socket_path: str | None, name: str, ring_bytes: int) -> None:
        self._connection = Connection(socket_path, name, True, ring_bytes)
        self._calls: dict[int, Call[Any]] = {}
        """by the ticket that each waits for"""
        self._unlinked: list[Call[Any]] = []
        """what waits for a session"""
        self._connecting: threading.Thread | None = None
        self._given_up_until_ns = 0
        """until then answers can come to what was cancelled, and grant something that is to be given back"""

    @property
    def connection(self) -> Connection:
        return self._connection

    def start(
        self,
        properties: NamespaceProperties,
        make: Callable[[Context], Operation[T]],
        otherwise: T,
        timeout_s: float,
        **options: Any,
    ) -> Call[T]:
        """Begins an operation, when need be after connecting.

        Args:
            properties: the namespace.
            make: makes the operation.
            otherwise: the outcome when there is no daemon.
            timeout_s: when it ends at the latest.
            options: as of the other front ends.
        """
        answer_by_ns = monotonic_ns() + int(timeout_s * 1e9)

        def begin(link: Link) -> Operation[T]:
            return make(operations.context_of(link, properties, answer_by_ns, **options))

        call = Call(begin, answer_by_ns, otherwise)
        link = self._connection.current()
        if link is not None:
            self._begin(call, link)
        elif self.may_connect():
            self._connect()
            self._unlinked.append(call)
        else:
            call.done = True
        return call

    def may_connect(self) -> bool:
        """Whether there is a session, or may be one soon."""
        return self._connection.current() is not None or self._is_connecting() or self._connection.may_try()

    def _begin(self, call: Call[Any], link: Link) -> None:
        call._link = link
        call._steps = call._make(link)
        self._advance(call, None)

    def poll(self, timeout_s: float = 0.0) -> None:
        """Takes what has arrived; waits for something, at most so long."""
        if self._unlinked:
            if self._connecting is not None and timeout_s > 0:
                self._connecting.join(timeout_s)
            self._begin_unlinked()
        link = self._connection.current()
        if link is not None and (self._calls or monotonic_ns() < self._given_up_until_ns):
            for ticket, completion in link.session.poll(int(timeout_s * 1e9)).items():
                self._deliver(ticket, completion, link)
        now_ns = monotonic_ns()
        for ticket, call in list(self._calls.items()):
            ended = link is None or call._link is not link or link.session.ended
            if ended or now_ns >= call._answer_by_ns:
                del self._calls[ticket]
                if not ended and link is not None:
                    link.session.forget(ticket)
                self._advance(call, operations.made(Status.UNAVAILABLE if ended else Status.DEADLINE))

    def _begin_unlinked(self) -> None:
        # The thread that connects may end between these two lines: in the other order its link would be missed.
        is_connecting = self._is_connecting()
        link = self._connection.current()
        if link is None and is_connecting:
            now_ns = monotonic_ns()
            late = [call for call in self._unlinked if now_ns >= call._answer_by_ns]
            self._unlinked = [call for call in self._unlinked if call not in late]
            for call in late:
                call._fail()
            return
        waiting, self._unlinked = self._unlinked, []
        for call in waiting:
            if link is None:
                call._fail()
            else:
                self._begin(call, link)

    def wait(self, call: Call[T], timeout_s: float) -> bool:
        """Polls until the call is done, at most so long; whether it is."""
        until_ns = monotonic_ns() + int(timeout_s * 1e9)
        while not call.done:
            left_ns = until_ns - monotonic_ns()
            if left_ns <= 0:
                return False
            self.poll(left_ns / 1e9)
        return True

    def cancel(self, call: Call[Any]) -> None:
        """Lets go of a call; what it would have been granted is given back, by a poll that comes later than the answer."""
        self._unlinked = [waiting for waiting in self._unlinked if waiting is not call]
        for ticket, waiting in list(self._calls.items()):
            if waiting is call:
                del self._calls[ticket]
                session = call._link.session if call._link is not None else None
                if session is not None and not session.ended:
                    session.submit(operations.cancel_request(ticket), 0)
                    session.forget(ticket)
                    self._given_up_until_ns = max(self._given_up_until_ns, call._answer_by_ns)
        if not call.done:
            call._fail()

    def close(self, patience_s: float = 0.0) -> None:
        """Cancels all calls, and ends the session: a daemon that has not read a request yet may not read it any more.

        Args:
            patience_s: how long calls may go on before.
        """
        until_ns = monotonic_ns() + int(patience_s * 1e9)
        while self._calls and (left_ns := until_ns - monotonic_ns()) > 0:
            self.poll(left_ns / 1e9)
        for call in [*self._calls.values(), *self._unlinked]:
            self.cancel(call)
        self._connection.close()

    def _is_connecting(self) -> bool:
        return self._connecting is not None and self._connecting.is_alive()

    def _connect(self) -> None:
        """In the background: connecting may wait long, for a daemon that hangs."""
        if self._is_connecting():
            return
        deadline_ns = monotonic_ns() + _CONNECT_TIMEOUT_NS
        self._connecting = threading.Thread(
            target=self._connection.link, args=(deadline_ns,), name="kvtier-connect", daemon=True
        )
        self._connecting.start()

    def _deliver(self, ticket: int, completion: Completion, link: Link) -> None:
        call = self._calls.pop(ticket, None)
        if call is not None:
            self._advance(call, completion)
            return
        _, _, _, body, is_text, verb = completion
        if not is_text and verb in (Verb.ACQUIRE, Verb.RESERVE):
            link.session.give_back(verb, granted_ids(body))

    def _advance(self, call: Call[T], reply: Completion | None) -> None:
        """Goes on with an operation until it waits for an answer again, or ends."""
        steps, link = call._steps, call._link
        assert steps is not None and link is not None
        try:
            while True:
                command = steps.send(reply)
                if type(command) is not tuple:
                    raise TypeError(f"an operation that wants {command!r} can't be polled")
                # A deadline of 0: the extension must not wait for room.
                ticket = link.session.submit(command, 0, call._trace)
                if ticket > 0:
                    self._calls[ticket] = call
                    return
                reply = operations.made(Status(-ticket))
        except StopIteration as stop:
            call.outcome = stop.value
            call.done = True
