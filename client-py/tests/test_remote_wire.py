"""The messages of gRPC with the bytes of a block: protobuf reads what the client writes, and writes what the client reads."""

import itertools
import tracemalloc
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from kvtier import Status, _core
from kvtier.remote import _operations as operations
from kvtier.remote import _wire as wire
from kvtier.v1 import kvtier_pb2 as v1

_MEGABYTE = 1 << 20
_FIELDS = {"block": 3, "status": v1.STATUS_OK, "tier": v1.TIER_HOST, "offset": 1 << 33, "data": b"bytes" * 40,
           "crc32c": 0xFFEEDDCC, "last": True}  # fmt: skip


def pattern(size: int) -> bytes:
    return bytes(i * 31 % 251 for i in range(size))


@pytest.mark.parametrize("size", [1, 127, 128, 4096, 70_000])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize(("block", "offset"), [(0, 0), (2047, 1 << 33)])
def test_chunk_anySize_isWhatProtobufReads(size: int, is_last: bool, block: int, offset: int) -> None:
    data = pattern(size)
    before = _core.crc32c(b"before")
    message, crc = wire.chunk(block, offset, memoryview(data), is_last, before)
    read = v1.PutRequest.FromString(message)
    assert read.WhichOneof("part") == "chunk"
    assert (read.chunk.block, read.chunk.offset, read.chunk.data) == (block, offset, data)
    assert crc == _core.crc32c(b"before" + data)
    assert read.chunk.HasField("crc32c") is is_last
    assert not is_last or read.chunk.crc32c == crc


def test_split_fieldsInAnyOrder_areReadAsProtobufReadsThem() -> None:
    parts = [v1.GetResponse(**{name: value}).SerializeToString() for name, value in _FIELDS.items()]
    for order in itertools.permutations(parts, 4):
        check(b"".join(order))
    unknown = bytes.fromhex("a00601 a10608090a0b0c0d0e0f a2060461626364 a50601020304")
    check(unknown + b"".join(parts) + unknown)
    check(b"".join(parts) + v1.GetResponse(data=b"the last counts").SerializeToString())
    check(v1.GetResponse(refusal=v1.Outcome(status=v1.STATUS_BUSY, text="busy")).SerializeToString())
    check(b"")


def test_split_cutOrChangedMessage_isReadAsProtobufReadsIt() -> None:
    whole = v1.GetResponse(**_FIELDS).SerializeToString()
    for end in range(len(whole)):
        check(whole[:end])
    for at in range(20):
        for byte in range(256):
            check(whole[:at] + bytes([byte]) + whole[at + 1 :])
    with pytest.raises(ValueError, match="that are no GetResponse"):
        wire.split(b"\xff" * 64)


def check(message: bytes) -> None:
    """`split` and protobuf find the same, or both find no message; `split` may refuse more: groups, which nobody sends."""
    try:
        expected: Any = v1.GetResponse.FromString(message)
    except DecodeError:
        expected = None
    try:
        fields, data = wire.split(message)
    except ValueError:
        is_group = expected is not None and len(expected.SerializeToString()) < len(message)
        assert expected is None or is_group
        return
    assert expected is not None
    assert bytes(data) == expected.data
    expected.ClearField("data")
    assert (fields.block, fields.status, fields.offset, fields.crc32c, fields.last) == (
        expected.block, expected.status, expected.offset, expected.crc32c, expected.last,
    )  # fmt: skip


def test_putAndGet_blocksBytes_areCopiedOnce() -> None:
    block = pattern(_MEGABYTE)
    into = bytearray(_MEGABYTE)
    received = v1.GetResponse(data=block, crc32c=_core.crc32c(block), last=True).SerializeToString()
    sink = operations._Sink(into, 0, 1, _MEGABYTE)
    tracemalloc.start()
    try:
        messages = operations._messages(v1.PutHeader(), block, 0, [False], _MEGABYTE, _MEGABYTE)
        sent = list(messages)
        assert tracemalloc.get_traced_memory()[1] < 1.25 * _MEGABYTE
        assert v1.PutRequest.FromString(sent[1]).chunk.data == block
        del sent
        tracemalloc.reset_peak()
        begin = tracemalloc.get_traced_memory()[0]
        sink.take(received)
        assert tracemalloc.get_traced_memory()[1] - begin < 0.25 * _MEGABYTE
    finally:
        tracemalloc.stop()
    assert sink.statuses == [Status.OK] and into == block


def test_copyCrc32c_wrongMemory_isRefused() -> None:
    with pytest.raises(ValueError, match="3 bytes do not fit 4"):
        _core.copy_crc32c(bytearray(4), b"abc", 0)
    with pytest.raises((TypeError, BufferError)):
        _core.copy_crc32c(b"abc", b"abc", 0)
    with pytest.raises(TypeError):
        _core.joined_crc32c("head", b"abc", b"", 0)  # type: ignore[arg-type]
    assert _core.joined_crc32c(b"head", b"", b"", 7) == (b"head", 7)
