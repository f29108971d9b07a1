"""Blocks that a node is going to have, on their way to this node's memory while another engine still computes."""

from collections.abc import Sequence
from functools import partial

from kvtier import _protocol as protocol
from kvtier._connection import NamespaceProperties
from kvtier._operations import Hold, node_name, spans
from kvtier._operations import hold as hold_operation
from kvtier._polled import Call, Polled
from kvtier._protocol import Status

_KEYS_MAX = 4096
"""maximum of all open gets: a daemon waits for no more blocks, and the ring keeps space for the answer to each get"""
_NAME_TIMEOUT_S = 10.0


class Inbound:
    """The gets of one request. The daemon takes the blocks from a node as they are written, and leases them."""

    __slots__ = ("_calls", "_inbounds", "_keys")

    def __init__(self, inbounds: "Inbounds", keys: int, calls: Sequence[Call[Hold]]) -> None:
        self._inbounds = inbounds
        self._keys = keys
        self._calls = list(calls)

    @property
    def is_open(self) -> bool:
        """Whether blocks can still come."""
        return not all(call.done for call in self._calls)

    @property
    def has_all(self) -> bool:
        """Whether all blocks have come."""
        return all(call.done and call.outcome.run == len(call.outcome.statuses) for call in self._calls)

    def end(self) -> None:
        """Gives the leases back. The daemon takes no further pieces of blocks that nobody else waits for. A second time does nothing."""
        calls, self._calls = self._calls, []
        self._inbounds.ended(self._keys if calls else 0)
        for call in calls:
            if not call.done:
                self._inbounds.polled.cancel(call)
            elif call.outcome.leases is not None:
                call.outcome.leases.release()


class Inbounds:
    """The gets of expected blocks of one engine."""

    def __init__(self, polled: Polled) -> None:
        """
        Args:
            polled: a connection that nobody else polls.
        """
        self.polled = polled
        self._open_keys = 0

    def begin(self, node: str, wanted: Sequence[tuple[NamespaceProperties, Sequence[bytes], range]], timeout_s: float) -> Inbound | None:
        """Opens the gets of a request; None: not now, because too many are open.

        Args:
            node: the name or the address of the node that is going to have the blocks.
            wanted: for each namespace, the keys of the request's blocks, from the first, and those that are wanted.
            timeout_s: how long the blocks are waited for.
        """
        count = sum(len(blocks) for _, _, blocks in wanted)
        if self._open_keys and self._open_keys + count > _KEYS_MAX:
            return None
        self._open_keys += count
        calls = []
        for namespace, keys, blocks in wanted:
            for start, length in spans(len(blocks), protocol.KEYS_MAX):
                begin = blocks.start + start
                some = keys[begin : begin + length]
                calls.append(
                    self.polled.start(
                        namespace,
                        partial(hold_operation, keys=some, lease_ns=0, node=node),
                        Hold(0, [Status.UNAVAILABLE] * length, None, 0, Status.UNAVAILABLE),
                        timeout_s,
                        parent=keys[begin - 1] if begin else None,
                        depth=begin,
                    )
                )
        return Inbound(self, count, calls)

    def ended(self, keys: int) -> None:
        """The gets of a request have ended.

        Args:
            keys: the number of its keys.
        """
        self._open_keys -= keys


class OwnNode:
    """The name by which other nodes know the daemon of this engine."""

    def __init__(self, polled: Polled, namespace: NamespaceProperties) -> None:
        """
        Args:
            polled: a connection that nobody else polls.
            namespace: any one of the engine.
        """
        self._polled = polled
        self._namespace = namespace
        self._link: object = None
        self._call: Call[str] | None = None

    def ask(self) -> None:
        """Asks the daemon for the name, once in each session."""
        link = self._polled.connection.current()
        if link is not None and link is not self._link:
            self._link = link
            self._call = self._polled.start(self._namespace, node_name, "", _NAME_TIMEOUT_S)

    @property
    def name(self) -> str:
        """The name; empty if it is not known yet, or if the daemon serves no other nodes."""
        return self._call.outcome if self._call is not None and self._call.done else ""
