"""One trace from a Python client through the daemon to SSD, as an OpenTelemetry collector gets it."""

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon, eventually
from test_nodes import PLAINTEXT, cluster

from kvtier import Client, Status, request_context

BLOCK_BYTES = 1 << 20
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: numbers, fixed words and bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        else:
            length = {1: 8, 5: 4}.get(kind) or varint()
            yield tag >> 3, message[at : at + length]
            at += length


def each(message: bytes, number: int) -> list[Any]:
    return [value for found, value in fields(message) if found == number]


class Collector:
    """Takes OTLP over HTTP, and keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request: bytes) -> None:
        for resource in each(request, 1):
            about = {key: value for one in each(resource, 1) for key, value in self._attributes(each(one, 1))}
            for scope in each(resource, 2):
                for span in each(scope, 2):
                    attributes = dict(self._attributes(each(span, 9)))
                    parents = each(span, 4)
                    self.spans.append(
                        {
                            "trace": each(span, 1)[0].hex(),
                            "id": each(span, 2)[0].hex(),
                            "parent": parents[0].hex() if parents else "",
                            "name": each(span, 5)[0].decode(),
                            "node": bytes(about.get("service.instance.id", b"")).decode(),
                            "ns": int.from_bytes(each(span, 8)[0], "little") - int.from_bytes(each(span, 7)[0], "little"),
                            **attributes,
                        }
                    )

    @staticmethod
    def _attributes(pairs: list[bytes]) -> Iterator[tuple[str, Any]]:
        for one in pairs:
            yield each(one, 1)[0].decode(), next(fields(each(one, 2)[0]))[1]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_trace_fromClientToSsd_isOne(stopped_daemon: Daemon, collector: Collector) -> None:
    stopped_daemon.start(traces__endpoint=collector.endpoint)
    keys = blocks.keys("traced", 4)
    data = blocks.blocks(keys, BLOCK_BYTES)
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("traced", block_bytes=BLOCK_BYTES)
        assert namespace.put(keys, data) == [Status.OK] * 4
        assert namespace.flush(timeout=60).status is Status.OK
        others = blocks.keys("others", 70)
        for key in others:
            assert eventually(lambda key=key: namespace.put([key], blocks.block(key, BLOCK_BYTES))[0] is not Status.BUSY)  # type: ignore[misc]
        assert namespace.flush(timeout=60).status is Status.OK
        into = bytearray(4 * BLOCK_BYTES)
        with request_context(PARENT) as request_id:
            assert request_id == TRACE
            assert namespace.get(keys, into).statuses == [Status.OK] * 4
        assert into == data
        assert eventually(lambda: len(collector.named("ssd.read")) == 4 and bool(collector.named("kvtier.acquire")))
        assert client.counters()["spans_dropped"] == 0
    (acquire,) = collector.named("kvtier.acquire")
    assert acquire["trace"] == TRACE and acquire["parent"] == SPAN
    assert acquire["kvtier.namespace"] == b"traced" and acquire["kvtier.status"] == b"OK"
    assert acquire["kvtier.blocks"] == acquire["kvtier.blocks_ok"] == 4
    assert acquire["kvtier.bytes"] == 4 * BLOCK_BYTES
    for read in collector.named("ssd.read"):
        assert read["trace"] == TRACE and read["parent"] == acquire["id"]
        assert read["kvtier.bytes"] == BLOCK_BYTES and 0 < read["ns"] <= acquire["ns"]
    # Nothing but what asked for it.
    assert {span["trace"] for span in collector.spans} == {TRACE}


@pytest.mark.parametrize("expects", [False, True])
def test_trace_overTwoNodes_isOne(collector: Collector, expects: bool) -> None:
    keys = blocks.keys("nodes", 3)
    written = blocks.blocks(keys, BLOCK_BYTES)
    with (
        tempfile.TemporaryDirectory(prefix="kvtier-") as folder,
        cluster(Path(folder), 2, traces__endpoint=collector.endpoint, **PLAINTEXT) as (prefill, decode),
        ThreadPoolExecutor(1) as threads,
    ):
        there, here = (node.client.namespace("traced", block_bytes=BLOCK_BYTES) for node in (prefill, decode))

        def traced() -> list[Status]:
            with request_context(PARENT), here.acquire(keys, expected_from="node-0" if expects else "", timeout=60) as leases:
                assert b"".join(bytes(view or b"") for view in leases.views) == written
                return list(leases.statuses)

        if expects:
            waiting = threads.submit(traced)
            assert eventually(lambda: prefill.count("followed") == len(keys))
        assert there.put(keys, written) == [Status.OK] * len(keys)
        assert (waiting.result(60) if expects else traced()) == [Status.OK] * len(keys)
        assert eventually(lambda: len(collector.named("node.send")) == len(collector.named("node.read")) == len(keys))
        assert eventually(lambda: bool(collector.named("kvtier.acquire")))
    (acquire,) = collector.named("kvtier.acquire")
    assert acquire["trace"] == TRACE and acquire["parent"] == SPAN and acquire["node"] == "node-1"
    for name, node in (("node.read", "node-1"), ("node.send", "node-0")):
        for span in collector.named(name):
            assert (span["trace"], span["parent"], span["node"]) == (TRACE, acquire["id"], node)
            assert span["kvtier.bytes"] == BLOCK_BYTES and span["kvtier.status"] == b"OK"
    assert {span["trace"] for span in collector.spans} == {TRACE}


def test_log_ofARefusedRequest_namesItsId(stopped_daemon: Daemon) -> None:
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("refused", block_bytes=BLOCK_BYTES)
        link = client._connection.link(1 << 62)
        assert link is not None
        link.namespaces[namespace._properties] = 4711
        with request_context(request_id=TRACE):
            assert namespace.lookup(blocks.keys("refused", 1)).statuses == [Status.NAMESPACE_UNKNOWN]
    log = stopped_daemon.folder / "daemon.log"
    line = f"request {TRACE}: LOOKUP refused: NAMESPACE_UNKNOWN: namespace 4711 is not registered"
    assert eventually(lambda: line in log.read_text())


def test_trace_collectorIsAway_spansAreCountedAndTheRestGoesOn(stopped_daemon: Daemon, collector: Collector) -> None:
    collector.server.shutdown()
    collector.server.server_close()
    stopped_daemon.start(traces__endpoint=collector.endpoint, traces__sample="1")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("away", block_bytes=4096)
        some = blocks.keys("away", 2)
        assert namespace.put(some, blocks.blocks(some, 4096)) == [Status.OK] * 2
        assert eventually(lambda: client.counters()["spans_dropped"] > 0, 60)
    assert "spans were not taken by" in (stopped_daemon.folder / "daemon.log").read_text()
