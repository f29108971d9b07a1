"""A front end for a loop that must not wait: operations are begun, and go on when their session is polled."""

import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from kvtier import _operations as operations
from kvtier._connection import Connection, Link, NamespaceProperties
from kvtier._core import granted_ids, monotonic_ns
from kvtier._operations import Completion, Context, Operation
from kvtier._protocol import Status, Verb

T = TypeVar("T")


class Call(Generic[T]):
    """An operation under way."""

    def __init__(self, steps: Generator[Any, Any, T] | None, session: object, answer_by_ns: int, outcome: T) -> None:
        self.done = steps is None
        self.outcome = outcome
        """what came out; what stands for it when nothing can"""
        self._steps = steps
        self._session = session
        self._answer_by_ns = answer_by_ns


class Polled:
    """One connection, for one thread. No call waits but `poll`, as long as it is told to.

    Operations must not need to copy: `operations.lookup`, `hold`, `counted`.
    """

    def __init__(self, socket_path: str | None, name: str, ring_bytes: int) -> None:
        self._connection = Connection(socket_path, name, True, ring_bytes)
        self._calls: dict[int, Call[Any]] = {}
        """by the ticket that each waits for"""
        self._connecting: threading.Thread | None = None

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
        """Begins an operation; `otherwise` is the outcome when there is no daemon."""
        link = self._link()
        answer_by_ns = monotonic_ns() + int(timeout_s * 1e9)
        if link is None:
            return Call(None, None, 0, otherwise)
        context = operations.context_of(link, properties, answer_by_ns, **options)
        call = Call(make(context), link.session, answer_by_ns, otherwise)
        self._advance(call, link, None)
        return call

    def poll(self, timeout_s: float = 0.0) -> None:
        """Takes what has arrived; waits for something, at most so long."""
        link = self._connection.current()
        if self._calls and link is not None:
            for ticket, completion in link.session.poll(int(timeout_s * 1e9)).items():
                self._deliver(ticket, completion, link)
        now_ns = monotonic_ns()
        for ticket, call in list(self._calls.items()):
            if link is None or call._session is not link.session:
                del self._calls[ticket]
                self._advance(call, None, operations.made(Status.UNAVAILABLE))
            elif now_ns >= call._answer_by_ns:
                del self._calls[ticket]
                link.session.forget(ticket)
                self._advance(call, link, operations.made(Status.DEADLINE))

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
        """Lets go of a call; what it would have been granted is given back."""
        link = self._connection.current()
        for ticket, waiting in list(self._calls.items()):
            if waiting is call:
                del self._calls[ticket]
                if link is not None and call._session is link.session:
                    link.session.submit(operations.cancel_request(ticket), 0)
                    link.session.forget(ticket)
        if call._steps is not None and not call.done:
            call._steps.close()
            call.done = True

    def close(self) -> None:
        for call in list(self._calls.values()):
            self.cancel(call)
        self._connection.close()

    def _link(self) -> Link | None:
        link = self._connection.current()
        if link is not None or not self._connection.may_try():
            return link
        # Connecting may wait long, for a daemon that hangs.
        if self._connecting is None or not self._connecting.is_alive():
            deadline_ns = monotonic_ns() + 1_000_000_000
            self._connecting = threading.Thread(
                target=self._connection.link, args=(deadline_ns,), name="kvtier-connect", daemon=True
            )
            self._connecting.start()
        return None

    def _deliver(self, ticket: int, completion: Completion, link: Link) -> None:
        call = self._calls.pop(ticket, None)
        if call is not None:
            self._advance(call, link, completion)
            return
        _, _, _, body, is_text, verb = completion
        if not is_text and verb in (Verb.ACQUIRE, Verb.RESERVE):
            link.session.give_back(verb, granted_ids(body))

    def _advance(self, call: Call[T], link: Link | None, reply: Completion | None) -> None:
        """Goes on with an operation until it waits for an answer again, or ends."""
        assert call._steps is not None
        try:
            while True:
                command = call._steps.send(reply)
                if type(command) is not tuple:
                    raise TypeError(f"an operation that wants {command!r} can't be polled")
                if link is None:
                    reply = operations.made(Status.UNAVAILABLE)
                    continue
                # A deadline of 0: the extension must not wait for room.
                ticket = link.session.submit(command, 0)
                if ticket > 0:
                    self._calls[ticket] = call
                    return
                reply = operations.made(Status(-ticket))
        except StopIteration as stop:
            call.outcome = stop.value
            call.done = True
