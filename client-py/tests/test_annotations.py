"""Annotations of blocks: how they are sent and kept, and how consumers of events see them."""

import socket
from typing import Any

import pytest
from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon, eventually
from test_operations import PROPERTIES, Driven, driven  # noqa: F401

from kvtier import Client, InvalidArgument, Status
from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._protocol import Verb
from kvtier.annotations import of_tokens
from kvtier.hashing import none_hash

BLOCK_BYTES = 64 << 10


@pytest.mark.parametrize(
    ("arguments", "packed"),
    [
        ({"token_ids": [1, 70000]}, "81a9746f6b656e5f696473c4080100000070110100"),
        ({"token_ids": [7], "parent": b"\x09"}, "82a9746f6b656e5f696473c40407000000a6706172656e74c40109"),
        (
            {"token_ids": [7], "lora_id": 300, "lora_name": "ada"},
            "83a9746f6b656e5f696473c40407000000a76c6f72615f6964cd012ca96c6f72615f6e616d65a3616461",
        ),
        (
            {"token_ids": [7], "extra_keys": [("x", -1), None, True, 2.5]},
            "82a9746f6b656e5f696473c40407000000aa65787472615f6b65797394"
            "92a178d3ffffffffffffffffc0c3cb4004000000000000",
        ),
    ],
)
def test_of_tokens_knownFields_haveTheGoldenBytes(arguments: dict[str, Any], packed: str) -> None:
    assert of_tokens(**arguments).hex() == packed


def test_of_tokens_extraKeysOfAnotherKind_refused() -> None:
    with pytest.raises(TypeError, match="object object.*extra keys"):
        of_tokens([1], extra_keys=[object()])


def test_annotate_manyBlocks_requestsAreFullAndNoLonger(driven: Driven) -> None:  # noqa: F811
    keys = [bytes([i]) * 20 for i in range(100)]
    annotations = [bytes(100) if i % 3 else None for i in range(100)]
    operation = operations.annotate(driven.context, keys, annotations)
    request = next(operation)
    sizes = []
    entries = 0
    try:
        while True:
            assert request[0] == Verb.ANNOTATE
            body, count = request[8], request[10]
            assert len(body) == count <= protocol.ANNOTATION_BODY_BYTES_MAX
            sizes.append(count)
            at = 0
            while at < count:
                key_bytes, _, annotation_bytes, _ = protocol.ANNOTATION_ENTRY.unpack_from(body, at)
                assert (key_bytes, annotation_bytes) == (20, 100)
                at += 8 + 24 + 104
                entries += 1
            request = operation.send((Status.OK, 0, count // 136, b"", False, Verb.ANNOTATE))
    except StopIteration as stop:
        assert stop.value == (Status.OK, 66)
    assert entries == 66
    assert sizes == [4080, 4080, 66 * 136 - 2 * 4080]


def test_put_annotationsOfWrongNumberOrLength_refused(client: Client) -> None:
    namespace = client.namespace("refused", block_bytes=BLOCK_BYTES)
    keys = blocks.keys("refused", 2)
    with pytest.raises(InvalidArgument, match="1 annotation for 2 keys"):
        namespace.put(keys, bytes(2 * BLOCK_BYTES), annotations=[b"a"])
    with pytest.raises(InvalidArgument, match="annotation 1 has 2049 bytes, at most 2048"):
        namespace.put(keys, bytes(2 * BLOCK_BYTES), annotations=[b"a", bytes(2049)])


def test_annotate_reservedBlocks_areCounted(client: Client) -> None:
    namespace = client.namespace("reserved", block_bytes=BLOCK_BYTES)
    keys = blocks.keys("reserved", 3)
    with namespace.reserve(keys) as reserved:
        for view in reserved.views:
            assert view is not None
            view[:] = bytes(BLOCK_BYTES)
        assert namespace.annotate(keys, [b"one", None, b"three"]) == (Status.OK, 2)
        assert reserved.commit() == [Status.OK] * 3
    assert namespace.annotate(keys, [b"1", b"2", b"3"]) == (Status.OK, 1)


def annotation_bytes(client: Client) -> int:
    assert eventually(lambda: bool(client.stats()))
    return int(client.stats()["counters"]["annotation_bytes"])


@pytest.mark.parametrize("keep", ["1min", "0"])
def test_annotations_daemonRestarted_stayWithTheirBlocks(stopped_daemon: Daemon, keep: str) -> None:
    settings = {"host__keep": keep, "host__directory": str(stopped_daemon.folder / "memory")}
    stopped_daemon.start(**settings)
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("restarted", block_bytes=BLOCK_BYTES)
        keys = blocks.keys("restarted", 40)
        annotations = [bytes([i]) * (i * 50) or None for i in range(40)]
        assert namespace.put(keys, bytes(40 * BLOCK_BYTES), annotations=annotations) == [Status.OK] * 40
        if keep == "0":
            # In memory they end with the daemon; on SSD they don't.
            assert namespace.flush() == (Status.OK, 40)
        before = annotation_bytes(client)
        assert before > sum(i * 50 for i in range(40))
        stopped_daemon.kill()
        stopped_daemon.start(**settings)
        assert annotation_bytes(client) == before
        assert namespace.delete(keys) == [Status.OK] * 40
        # One that the scrubber reads just now goes when it is read.
        assert eventually(lambda: annotation_bytes(client) == 0)


def test_events_putAndDeleted_areHeardByASubscriber(stopped_daemon: Daemon) -> None:
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed: the Java tests listen to events, too")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    stopped_daemon.start(events__endpoint=endpoint, events__interval="1ms")
    events = zmq.Context.instance().socket(zmq.SUB)
    events.subscribe(b"")
    events.setsockopt(zmq.RCVTIMEO, 60_000)
    events.connect(endpoint)
    try:
        with Client(stopped_daemon.socket_path, timeout=60) as client:
            namespace = client.namespace("heard", block_bytes=BLOCK_BYTES)
            [key] = blocks.keys("heard", 1)
            annotation = of_tokens([1, 2, 3], parent=none_hash("0"))
            assert namespace.put([key], bytes(BLOCK_BYTES), annotations=[annotation]) == [Status.OK]
            topic, number, stored = events.recv_multipart()
            assert (topic, len(number)) == (b"", 8)
            assert b"BlockStored" in stored and key[-8:] in stored and none_hash("0")[-8:] in stored
            assert b"\x93\x01\x02\x03" in stored
            assert namespace.delete([key]) == [Status.OK]
            while b"BlockRemoved" not in (removed := events.recv_multipart()[2]):
                pass
            assert key[-8:] in removed
    finally:
        events.close(0)


def test_events_ofNamespacesBelowAName_areHeard_andOfOthersNot(stopped_daemon: Daemon) -> None:
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        endpoint = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    stopped_daemon.start(events__endpoint=endpoint, events__interval="1ms", events__namespaces="vllm/tiny/*,whole")
    events = zmq.Context.instance().socket(zmq.SUB)
    events.subscribe(b"")
    events.setsockopt(zmq.RCVTIMEO, 60_000)
    events.connect(endpoint)
    told = ["vllm/tiny/weights-1", "vllm/tiny/pp0tp0/weights-2", "whole"]
    try:
        with Client(stopped_daemon.socket_path, timeout=60) as client:
            keys = dict(zip(["vllm/tiny", "vllm/tiny2/weights-1", "whole/part", *told], blocks.keys("below", 6), strict=True))
            for name, key in keys.items():
                namespace = client.namespace(name, block_bytes=BLOCK_BYTES)
                assert namespace.put([key], bytes(BLOCK_BYTES), annotations=[of_tokens([1])]) == [Status.OK]
            heard = b""
            while keys["whole"][-8:] not in heard:
                heard += events.recv_multipart()[2]
            assert [name for name, key in keys.items() if key[-8:] in heard] == told
    finally:
        events.close(0)
