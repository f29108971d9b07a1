"""The operations, driven by hand over memory that the test writes itself: each thing happens exactly when a test says."""

from collections.abc import Iterator

import pytest
from test_core import SECOND_NS, Peer, completion, lease, slab_of

from kvtier import _core
from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._connection import Link, NamespaceProperties
from kvtier._protocol import Status, Verb

PROPERTIES = NamespaceProperties("driven", 256 << 10, b"name=driven")
BLOCK_BYTES = PROPERTIES.block_bytes
KEYS = [bytes([i]) * 8 for i in range(200)]


class Driven:
    """A link whose daemon is the test."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.session = peer.session()
        self.slab, _ = slab_of(4 * BLOCK_BYTES)
        self.link = Link(self.session, peer.client_socket, 4 * BLOCK_BYTES, 1, "test")
        self.link.namespaces[PROPERTIES] = 3
        self.link.read_slabs[0] = self.slab
        self.context = operations.context_of(self.link, PROPERTIES, _core.monotonic_ns() + 10 * SECOND_NS)


@pytest.fixture
def driven() -> Iterator[Driven]:
    peer = Peer()
    yield Driven(peer)
    peer.close()


def granted(count: int, **fields: int) -> operations.Completion:
    """The completion of an ACQUIRE of so many blocks, as a front end hands it over."""
    body = b"".join(lease(length=BLOCK_BYTES, identity=i + 1, **fields) for i in range(count))
    return (Status.OK, count, 1 << 62, body, False, Verb.ACQUIRE)


def test_get_sessionEndsDuringTheCopy_stale(driven: Driven) -> None:
    into = bytearray(2 * BLOCK_BYTES)
    get = operations.get(driven.context, KEYS[:2], into, 0, 0, False)
    assert next(get)[0] == Verb.ACQUIRE
    copy = get.send(granted(2))
    assert isinstance(copy, operations.Work)
    driven.session.close()
    with pytest.raises(StopIteration) as stop:
        get.send(copy.function())
    assert stop.value.value == (0, [Status.STALE] * 2)
