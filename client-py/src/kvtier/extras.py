"""Named buffers that go with a request from the engine that computes its prompt to the engine that generates.

Such buffers are hidden states, logits, a sampled token, or the state of a draft model. kvtier does not look into them. All buffers of
a request are one block, in a namespace of their own, so the engine that generates gets all of them or none.

Bytes of this block, all numbers little-endian: ``KVEX``, the version (u16), the number of buffers (u16). For each buffer the length
of its name (u16) and of its bytes (u64). Then all names in UTF-8. Then all buffers, each at the next multiple of 16 bytes.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

from kvtier._errors import InvalidArgument, KvtierError
from kvtier._protocol import Status
from kvtier._types import Options
from kvtier.client import Client

_HEAD = struct.Struct("<4sHH")
_ENTRY = struct.Struct("<HQ")
_MAGIC = b"KVEX"
_VERSION = 1
_NUMBER_MAX = 0xFFFF
_ALIGNMENT = 16


class Extra(NamedTuple):
    """The buffers of a request, if they came."""

    status: Status
    """OK; MISS or DEADLINE: the buffers are not there; UNAVAILABLE: there is no daemon"""
    buffers: dict[str, bytes]
    """the bytes of each buffer, by name; empty unless the status is OK"""


class Extras:
    """The buffers of requests. Both engines make an object of this class, with equal arguments."""

    def __init__(self, client: Client, name: str, *, max_bytes: int = 1 << 20, **properties: object) -> None:
        """
        Args:
            client: of the daemon on the engine's node.
            name: of the namespace, such as ``vllm/llama/extras``. No other blocks are in it.
            max_bytes: the bytes that the buffers of a request and their names can have together. Each request takes as much memory.
            properties: whatever must be equal for buffers to be understood: model, weights, dtype.

        Raises:
            NamespaceMismatch: the namespace exists with other properties or another `max_bytes`.
            InvalidArgument: the daemon cannot accept a property.
        """
        self._name = name
        self._blocks = client.namespace(name, block_bytes=max_bytes, extras=_VERSION, **properties)

    def put(self, request_id: str, buffers: Mapping[str, Any], **options: Unpack[Options]) -> Status:
        """Stores the buffers of a request on this node, for `get` on any node.

        Args:
            request_id: both engines know the request by this id. No other request has it.
            buffers: by name; bytes, arrays and whatever else has the buffer protocol, each contiguous.

        Returns:
            OK; EXISTS: this request has buffers already, which stay; BUSY: there is no space; PENDING, NOT_ADMITTED or UNAVAILABLE as for
            `Namespace.put`.

        Raises:
            InvalidArgument: the buffers have more than `max_bytes`, or a name is too long.
        """
        return self._blocks.put([_key(request_id)], pack(buffers, self._blocks.block_bytes), **options)[0]

    def get(self, request_id: str, *, expected_from: str = "", **options: Unpack[Options]) -> Extra:
        """The buffers of a request.

        Args:
            expected_from: the name or the address of the node whose engine is going to put them. The call then waits for them until its
                timeout, as `Namespace.acquire` does.

        Raises:
            KvtierError: the block of this request has no buffers: another program has written it.
        """
        with self._blocks.acquire([_key(request_id)], expected_from=expected_from, **options) as leases:
            if leases.statuses[0] is not Status.OK:
                return Extra(leases.statuses[0], {})
            block = leases.read(0)
            if block is None:
                return Extra(leases.check()[0], {})
        try:
            return Extra(Status.OK, unpack(block))
        except ValueError as error:
            raise KvtierError(f"request {request_id} in namespace {self._name}: {error}; expected what Extras.put writes") from None

    def forget(self, request_id: str, **options: Unpack[Options]) -> Status:
        """Removes the buffers of a request from this node: OK, MISS or BUSY. Otherwise they stay until their memory is needed."""
        return self._blocks.delete([_key(request_id)], **options)[0]


def _key(request_id: str) -> bytes:
    return hashlib.sha256(request_id.encode()).digest()


def pack(buffers: Mapping[str, Any], max_bytes: int) -> bytearray:
    """The block of some buffers.

    Args:
        max_bytes: the bytes of the block.

    Raises:
        InvalidArgument: there are too many buffers, they have too many bytes, a name is too long, or an object is no contiguous buffer.
    """
    if len(buffers) > _NUMBER_MAX:
        raise InvalidArgument(f"{len(buffers)} buffers: expected at most {_NUMBER_MAX}")
    names = [name.encode() for name in buffers]
    for name in names:
        if len(name) > _NUMBER_MAX:
            raise InvalidArgument(f"the name of a buffer has {len(name)} bytes: expected at most {_NUMBER_MAX}")
    try:
        views = [memoryview(buffer).cast("B") for buffer in buffers.values()]
    except TypeError as error:
        raise InvalidArgument(f"expected contiguous buffers: {error}") from None
    begin = _HEAD.size + _ENTRY.size * len(names) + sum(map(len, names))
    places = []
    for view in views:
        begin = _aligned(begin)
        places.append(begin)
        begin += len(view)
    if begin > max_bytes:
        raise InvalidArgument(f"buffers of {begin} bytes with their names: expected at most {max_bytes}; make Extras with a larger max_bytes")
    block = bytearray(max_bytes)
    _HEAD.pack_into(block, 0, _MAGIC, _VERSION, len(names))
    at = _HEAD.size
    for name, view in zip(names, views, strict=True):
        _ENTRY.pack_into(block, at, len(name), len(view))
        at += _ENTRY.size
    for name in names:
        block[at : at + len(name)] = name
        at += len(name)
    for place, view in zip(places, views, strict=True):
        block[place : place + len(view)] = view
    return block


def unpack(block: bytes) -> dict[str, bytes]:
    """The buffers of a block.

    Raises:
        ValueError: `pack` has not made it; the message says what is wrong.
    """
    if len(block) < _HEAD.size:
        raise ValueError(f"a block of {len(block)} bytes has no head")
    magic, version, count = _HEAD.unpack_from(block)
    if magic != _MAGIC or version != _VERSION:
        raise ValueError(f"the block begins with {block[: _HEAD.size].hex()}")
    at = _HEAD.size + _ENTRY.size * count
    if at > len(block):
        raise ValueError(f"{count} buffers do not fit into a block of {len(block)} bytes")
    entries = [_ENTRY.unpack_from(block, _HEAD.size + _ENTRY.size * number) for number in range(count)]
    names = []
    for length, _ in entries:
        names.append(block[at : at + length].decode())
        at += length
    buffers = {}
    for name, (_, length) in zip(names, entries, strict=True):
        at = _aligned(at)
        if at + length > len(block):
            raise ValueError(f"the buffer {name!r} of {length} bytes ends behind the block")
        buffers[name] = block[at : at + length]
        at += length
    return buffers


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT
