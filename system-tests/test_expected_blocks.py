"""Blocks that a node is going to have come from there layer by layer, between two daemons."""

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy
import pytest
from kvtier_testing import blocks, vllm_double
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import eventually
from kvtier_testing.layers import LayerWriter
from kvtier_testing.process import free_port
from kvtier_testing.vllm_double import LAYERS, Engine, Request, config
from test_nodes import PLAINTEXT, Node, cluster

from kvtier import Client, Leases, Namespace, Status, remote
from kvtier.extras import Extra, Extras
from kvtier.vllm import _shards

COUNT, GROUPS = 24, 4
SHAPE = {"layers": 8, "groups": GROUPS, "tokens": 16, "heads": 8, "head_bytes": 256}
"""of blocks of 512 KiB"""


class Writer(Protocol):
    """A client or an engine that writes the blocks."""

    def namespace(self, client: Client) -> Namespace: ...


class VllmWriter:
    """An engine with vLLM's connector, which stores by layer. A layer of its blocks has 16 KiB."""

    TOKEN_BYTES = 4096

    def __init__(self, socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONHASHSEED", "0")
        monkeypatch.setattr(_shards, "letters_of", lambda *_: "BND")
        monkeypatch.setattr(vllm_double, "TOKEN_BYTES", self.TOKEN_BYTES)
        monkeypatch.setattr(vllm_double, "value", self._value)
        extra = {"kvtier.socket": str(socket), "kvtier.namespace": "vllm", "kvtier.store_by_layer": "on"}
        self.engine = Engine(config(extra, model_config__get_total_num_kv_heads=lambda: 1), monkeypatch)
        self.worker = self.engine.workers[0]

    def _value(self, request: Request, position: int, layer: int, part: int) -> Any:
        return numpy.full(self.TOKEN_BYTES, (request.tokens[position] + 7 * layer) % 251, dtype=numpy.uint8)

    def namespace(self, client: Client) -> Namespace:
        shard = self.worker.connector._mine[0]
        return client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)


class Expecting:
    """A get that waits for its blocks in a thread."""

    def __init__(self, client: Client, writer: Writer, keys: list[bytes], node: str, timeout: float = 30) -> None:
        self._acquire = lambda: writer.namespace(client).acquire(keys, expected_from=node, timeout=timeout)
        self._leases: Leases | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._leases = self._acquire()

    def is_waiting(self) -> bool:
        return self._thread.is_alive()

    def leases(self) -> Leases:
        self._thread.join(60)
        assert self._leases is not None
        return self._leases


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder, cluster(Path(folder), 2, **PLAINTEXT) as (prefill, decode):
        yield prefill, decode


def test_layersThatAreWritten_comeBeforeTheBlockIsWhole(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    expecting = Expecting(decode.client, writer, keys, "node-0")
    assert eventually(lambda: prefill.count("followed") == COUNT)
    for group in range(GROUPS - 1):
        assert writer.write(group, keys) == [Status.OK] * COUNT
    # The bytes of these layers are read while the last ones are missing.
    assert eventually(lambda: _received(decode) >= COUNT * writer.group_bytes * (GROUPS - 1))
    assert expecting.is_waiting()
    assert writer.namespace(decode.client).lookup(keys).run == 0
    assert writer.write(GROUPS - 1, keys) == [Status.OK] * COUNT
    with expecting.leases() as leases:
        assert leases.statuses == [Status.OK] * COUNT
        assert all(writer.is_right(view) for view in leases.views)
    assert decode.count("node_expected") == COUNT
    assert decode.count("node_expected_bytes") == COUNT * writer.block_bytes
    assert decode.count("node_pieces") >= COUNT * GROUPS
    for node in nodes:
        assert eventually(lambda node=node: node.count("leases") == node.count("expected") == node.count("followed") == 0)
        assert eventually(lambda node=node: slots_balance(node.client.counters()))
    writer.close()


def test_vllmThatStoresByLayer_itsFirstLayersCome_beforeItHasComputedTheLast(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill, decode = nodes
    writer = VllmWriter(prefill.daemon.socket_path, monkeypatch)
    request = Request("prefill", [random.Random(45).randrange(1000) for _ in range(43)])
    keys = request.block_hashes
    expecting = Expecting(decode.client, writer, keys, "node-0")
    assert eventually(lambda: prefill.count("followed") == len(keys))
    received = _received(decode)
    layer_bytes = len(keys) * writer.namespace(decode.client).block_bytes // LAYERS
    compute, waits = writer.worker.compute, []

    def computed(one: Request, begin: int, end: int, layer: int) -> None:
        assert eventually(lambda: _received(decode) - received >= layer * layer_bytes)
        waits.append(expecting.is_waiting())
        compute(one, begin, end, layer)

    monkeypatch.setattr(writer.worker, "compute", computed)
    writer.engine.run(request)
    writer.engine.settle()
    with expecting.leases() as leases:
        assert leases.statuses == [Status.OK] * len(keys)
        regions: Any = writer.worker.connector._worker._regions
        for number, view in enumerate(leases.views):
            assert bytes(view or b"") == b"".join(tensor.array[number].tobytes() for tensor in regions[0]._tensors)
    assert waits == [True] * LAYERS
    assert decode.count("node_expected") == len(keys) and decode.count("node_pieces") > len(keys)
    assert writer.engine.stats["stores_by_layer"] == 1
    writer.engine.close()


def _received(node: Node) -> int:
    """Bytes that the machine's daemon has read from its connections."""
    return sum(int(line.split()[1]) for line in Path(f"/proc/{node.daemon.pid}/io").read_text().splitlines() if line.startswith("rchar"))


def test_blocksThatAreThere_comeAtOnce_byTheAddressOfTheNode(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    for group in range(GROUPS):
        assert writer.write(group, keys) == [Status.OK] * COUNT
    with Expecting(decode.client, writer, keys, f"127.0.0.1:{prefill.port}").leases() as leases:
        assert leases.statuses == [Status.OK] * COUNT
        assert all(writer.is_right(view) for view in leases.views)
    writer.close()


def test_clientOverGrpc_waitsForBlocks_untilTheyAreWritten(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    port = free_port()
    decode.stop()
    decode.start(grpc__enabled="true", grpc__port=str(port))
    assert eventually(lambda: decode.is_connected_to(prefill))
    keys = blocks.keys("over-grpc", 3)
    written = blocks.blocks(keys, 4096)
    with remote.Client(f"grpc://127.0.0.1:{port}", timeout=60) as client, ThreadPoolExecutor(1) as threads:
        namespace = client.namespace("over-grpc", block_bytes=4096)
        waiting = threads.submit(namespace.acquire, keys, expected_from="node-0", timeout=30)
        assert eventually(lambda: prefill.count("followed") == len(keys))
        assert not waiting.done()
        assert prefill.client.namespace("over-grpc", block_bytes=4096).put(keys, written) == [Status.OK] * len(keys)
        with waiting.result(60) as leases:
            assert leases.statuses == [Status.OK] * len(keys)
            assert b"".join(bytes(view or b"") for view in leases.views) == written
        nobody = namespace.acquire(blocks.keys("others", 1), expected_from="node-7", timeout=30)
        assert nobody.statuses == [Status.MISS]


def test_extrasOfARequest_comeWhenTheOtherEnginePutsThem(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    hidden = random.Random(3).randbytes(100_000)
    there = Extras(prefill.client, "model/extras", model="m")
    here = Extras(decode.client, "model/extras", model="m")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(here.get, "request-1", expected_from="node-0", timeout=30)
        assert eventually(lambda: prefill.count("followed") == 1)
        assert not waiting.done()
        assert there.put("request-1", {"hidden": hidden, "token": b"\x2a"}) is Status.OK
        assert waiting.result(60) == Extra(Status.OK, {"hidden": hidden, "token": b"\x2a"})
    assert here.get("request-2", expected_from="node-0", timeout=0.3).status in (Status.MISS, Status.DEADLINE)
    for node in nodes:
        assert eventually(lambda node=node: node.count("leases") == node.count("expected") == node.count("followed") == 0)


def test_engineThatDies_isToldToTheOtherNode(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    engine = Client(prefill.daemon.socket_path, timeout=60)
    writer = LayerWriter(engine, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    expecting = Expecting(decode.client, writer, keys, "node-0")
    assert eventually(lambda: prefill.count("followed") == COUNT)
    assert writer.write(0, keys) == [Status.OK] * COUNT
    assert eventually(lambda: prefill.count("leases") == COUNT)
    begun = time.monotonic()
    engine.close()
    assert expecting.leases().statuses == [Status.MISS] * COUNT
    assert time.monotonic() - begun < 10, "not at the timeout"
    assert decode.count("node_expected_refused") == COUNT
    for node in nodes:
        assert eventually(lambda node=node: node.count("leases") == 0)
        assert eventually(lambda node=node: slots_balance(node.client.counters()))


def test_clientThatDies_endsTheTransfer_onBothNodes(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    engine = Client(decode.daemon.socket_path, timeout=60)
    expecting = Expecting(engine, writer, keys, "node-0")
    assert eventually(lambda: prefill.count("followed") == COUNT)
    assert writer.write(0, keys) == [Status.OK] * COUNT
    engine.close()
    assert Status.OK not in expecting.leases().statuses
    assert eventually(lambda: decode.count("expected") == prefill.count("followed") == prefill.count("leases") == 0)
    # The prefill node keeps what its own engine writes.
    for group in range(1, GROUPS):
        assert writer.write(group, keys) == [Status.OK] * COUNT
    assert writer.namespace(prefill.client).lookup(keys).run == COUNT
    assert eventually(lambda: slots_balance(decode.client.counters()))
    writer.close()


def test_blocksThatNobodyWrites_endAtTheTimeout(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    statuses = Expecting(decode.client, writer, keys, "node-0", timeout=1).leases().statuses
    assert set(statuses) <= {Status.MISS, Status.DEADLINE}
    assert eventually(lambda: decode.count("expected") == prefill.count("followed") == 0)
    assert eventually(lambda: slots_balance(decode.client.counters()))
    writer.close()


def test_nodeThatDies_endsTheTransfer(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    expecting = Expecting(decode.client, writer, keys, "node-0")
    assert eventually(lambda: prefill.count("followed") == COUNT)
    assert writer.write(0, keys) == [Status.OK] * COUNT
    prefill.daemon.kill()
    assert expecting.leases().statuses == [Status.MISS] * COUNT
    assert eventually(lambda: slots_balance(decode.client.counters()))


def test_nodeThatIsUnknown_isAMissAtOnce(nodes: tuple[Node, Node]) -> None:
    prefill, decode = nodes
    writer = LayerWriter(prefill.client, "layers", COUNT, **SHAPE)
    keys = blocks.keys("layers", COUNT)
    assert Expecting(decode.client, writer, keys, "node-7").leases().statuses == [Status.MISS] * COUNT
    writer.close()
