"""Encoded blocks with a real daemon: the property of the namespace, both forms, and what a client gets that reads only one."""

import asyncio
import os
from pathlib import Path

import numpy
import pytest
from kvtier_testing.blocks import key, keys
from kvtier_testing.daemon import Daemon, eventually, in_a_folder
from kvtier_testing.kv import kv_block, kv_blocks
from kvtier_testing.tensors import Tensor

from kvtier import Client, InvalidArgument, Namespace, NamespaceMismatch, Status, _core, aio
from kvtier._encoding import KINDS
from kvtier.torch import register

BLOCK_BYTES = 1 << 16
GRANULE_BYTES = 4096
GRANULES = BLOCK_BYTES // GRANULE_BYTES
ENCODED_GRANULE_BYTES = {"exact": 3104, "fp8": 2080}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def encoding(kind: str) -> str:
    return f"{kind} bf16 {GRANULE_BYTES}"


def encoded(client: Client, name: str, block_bytes: int = BLOCK_BYTES, kind: str = "exact") -> Namespace:
    return client.namespace(name, block_bytes=block_bytes, encoding=encoding(kind))


def encoded_bytes(kind: str) -> int:
    return GRANULES * ENCODED_GRANULE_BYTES[kind]


def kv_encoded(one: bytes, kind: str) -> bytes:
    to = bytearray(encoded_bytes(kind))
    assert _core.encode(kind, to, kv_block(one, BLOCK_BYTES), GRANULE_BYTES // 2)[0] == GRANULES
    return bytes(to)


def kv_decoded(one: bytes, kind: str) -> bytes:
    """A key's block after it was encoded and decoded; with `exact` the block itself."""
    to = bytearray(BLOCK_BYTES)
    assert _core.decode(kind, to, kv_encoded(one, kind), GRANULE_BYTES // 2)[0] == GRANULES
    return bytes(to)


def got(namespace: Namespace, some: list[bytes]) -> list[bytes]:
    into = bytearray(len(some) * namespace.block_bytes)
    assert namespace.get(some, into).statuses == [Status.OK] * len(some)
    return [bytes(into[at : at + namespace.block_bytes]) for at in range(0, len(into), namespace.block_bytes)]


def change(client: Client, before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in client.counters().items() if value != before[name]}


def test_put_encodedBlocks_takeFewerBytesAndComeBack(client: Client, kind: str) -> None:
    namespace = encoded(client, f"fewer/{kind}", kind=kind)
    some = keys(f"fewer/{kind}", 20)
    before = client.counters()
    assert namespace.put(some, kv_blocks(some, BLOCK_BYTES)) == [Status.OK] * 20
    counted = change(client, before)
    assert counted["put_encoded"] == counted["put_blocks"] == 20
    assert counted["put_encoded_bytes"] == counted["host_written_bytes"] == 20 * encoded_bytes(kind)
    assert counted["put_encoded_raw_bytes"] == 20 * BLOCK_BYTES
    assert "put_raw" not in counted
    assert namespace.put(some[:1], kv_blocks(some[:1], BLOCK_BYTES)) == [Status.EXISTS]
    assert got(namespace, some) == [kv_decoded(one, kind) for one in some]
    assert (kv_decoded(some[0], kind) == kv_block(some[0], BLOCK_BYTES)) == (kind == "exact")


def test_put_blocksThatDoNotFit_areStoredRawEachByItself(client: Client, kind: str) -> None:
    namespace = encoded(client, f"unfit/{kind}", kind=kind)
    some = keys(f"unfit/{kind}", 700)
    unfit = {0, 1, 5, 255, 256, 300, 699}
    blocks = [os.urandom(BLOCK_BYTES) if at in unfit else kv_block(one, BLOCK_BYTES) for at, one in enumerate(some)]
    before = client.counters()
    assert namespace.put(some, blocks) == [Status.OK] * 700
    counted = change(client, before)
    assert (counted["put_raw"], counted["put_encoded"]) == (len(unfit), 700 - len(unfit))
    assert got(namespace, some) == [block if at in unfit else kv_decoded(some[at], kind) for at, block in enumerate(blocks)]
    assert eventually(lambda: client.counters()["reservations"] == 0)


def test_status_saysHowManyBlocksAreEncoded(fresh_daemon: Daemon) -> None:
    with Client(fresh_daemon.socket_path, timeout=60) as client:
        assert "encoded" not in fresh_daemon.command("status").stdout
        some = keys("status", 4)
        blocks = [os.urandom(BLOCK_BYTES), *(kv_block(one, BLOCK_BYTES) for one in some[1:])]
        assert encoded(client, "status").put(some, blocks) == [Status.OK] * 4
        told = fresh_daemon.command("status").stdout
        assert "3 of 4 blocks (75 %) put since the start in namespaces with an encoding, in 76 % of their bytes" in told


def test_status_saysTheErrorOfALossyEncoding_byLayer(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(ssd__bytes="256MiB")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        for kind in KINDS:
            name = f"errors/{kind}"
            some = keys(name, 20)
            namespace = client.namespace(name, block_bytes=BLOCK_BYTES, encoding=encoding(kind), form="LCHND:4x16:2x2x256")
            assert namespace.put(some, kv_blocks(some, BLOCK_BYTES)) == [Status.OK] * 20
            assert namespace.flush().status is Status.OK
        told = stopped_daemon.command("status").stdout
    (line,) = (line for line in told.splitlines() if "of 'errors/fp8'" in line)
    mean = float(line.split()[1])
    assert 1.5 < mean < 3.0, line
    assert line.startswith("error ") and line.endswith("% in its 4 layers")
    assert "errors/exact" not in told


def test_put_aSingleBlockThatDoesNotFit_isStoredRaw(client: Client) -> None:
    namespace = encoded(client, "single")
    block = os.urandom(BLOCK_BYTES)
    assert namespace.put([key("single", 0)], block) == [Status.OK]
    assert got(namespace, [key("single", 0)]) == [block]


def test_everyBf16Value_comesBack(client: Client) -> None:
    namespace = encoded(client, "values", 1 << 17)
    values = numpy.arange(1 << 16, dtype="<u2")
    in_order = values.tobytes()
    mixed = numpy.random.default_rng(3).permutation(values).tobytes()
    some = keys("values", 2)
    before = client.counters()
    assert namespace.put(some, [in_order, mixed]) == [Status.OK] * 2
    assert got(namespace, some) == [in_order, mixed]
    assert change(client, before)["put_encoded"] == 1


def test_get_ofAClientThatDoesNotDecode_isACountedMiss(daemon: Daemon, client: Client) -> None:
    namespace = encoded(client, "older")
    some = keys("older", 2)
    raw = os.urandom(BLOCK_BYTES)
    assert namespace.put(some, [kv_block(some[0], BLOCK_BYTES), raw]) == [Status.OK] * 2
    with Client(daemon.socket_path, timeout=60) as older:
        link = older._connection.current()
        assert link is not None
        link.encodes = False
        same = encoded(older, "older")
        before = older.counters()
        into = bytearray(2 * BLOCK_BYTES)
        assert same.get(some, into).statuses == [Status.MISS, Status.OK]
        assert into[BLOCK_BYTES:] == raw
        counted = change(older, before)
        assert (counted["misses_encoded"], counted["misses"], counted["hits_host"]) == (1, 1, 1)
        assert same.acquire(some).statuses == [Status.MISS, Status.OK]
        third = keys("older", 1, 2)
        assert same.put(third, kv_blocks(third, BLOCK_BYTES)) == [Status.OK]
        assert got(namespace, third) == [kv_block(third[0], BLOCK_BYTES)]


def test_acquire_viewsAreDecoded(client: Client) -> None:
    namespace = encoded(client, "views")
    some = keys("views", 3)
    blocks = [kv_block(some[0], BLOCK_BYTES), os.urandom(BLOCK_BYTES), kv_block(some[2], BLOCK_BYTES)]
    assert namespace.put(some, blocks) == [Status.OK] * 3
    with namespace.acquire(some) as leases:
        assert [bytes(view) for view in leases.views if view is not None] == blocks
        assert all(view is not None and view.readonly for view in leases.views)
        assert leases.check() == [Status.OK] * 3
        assert [leases.read(at) for at in range(3)] == blocks


def test_leasesOfBlocksThatAreRead_oneByOne_areDecodedThen(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = encoded(client, "held")
    some = keys("held", 3)
    blocks = [kv_block(some[0], BLOCK_BYTES), os.urandom(BLOCK_BYTES), kv_block(some[2], BLOCK_BYTES)]
    assert namespace.put(some, blocks) == [Status.OK] * 3
    decoded: list[int] = []
    decode = _core.decode
    monkeypatch.setattr(_core, "decode", lambda *arguments: decoded.append(1) or decode(*arguments))
    with namespace._lease(some) as leases:
        assert leases.check() == [Status.OK] * 3 and leases.run == 3
        assert not decoded
        assert leases.read(2) == blocks[2] and len(decoded) == 1
        assert [leases.read(at) for at in range(3)] == blocks
        memory = leases.views[0]
        assert memory is not None and memory.nbytes == encoded_bytes("exact")
        link = client._connection.current()
        assert link is not None
        lease = leases._leases[0]
        slab = memoryview(link.write_slabs[lease.slab])
        slab[lease.offset + 100] ^= 1
        slab.release()
        assert leases.read(0) is None and leases.read(2) == blocks[2]
    assert [leases.read(at) for at in range(3)] == [None] * 3


def test_tensorsInMemory_comeBackFromEncodedAndRawBlocks(client: Client) -> None:
    def tensors(seed: bytes) -> list[Tensor]:
        layers = [numpy.frombuffer(kv_block(seed + bytes([layer]), 2 * 12 * 2 * 4 * 2048), dtype="<u2") for layer in range(2)]
        return [Tensor(layer.reshape(2, 12, 4, 16, 128).copy()) for layer in layers]

    source, target = tensors(b"source"), tensors(b"target")
    source[1].array[1, 3] = numpy.random.default_rng(4).integers(0, 1 << 16, (4, 16, 128), dtype=numpy.uint16)
    namespace = encoded(client, "tensors", 2 * 2 * 4 * 4096)
    some = keys("tensors", 5)
    before = client.counters()
    with register(namespace, source, block_axes=1) as region:
        assert region.put(some, [7, 0, 3, 11, 4]).wait() == [Status.OK] * 5
    counted = change(client, before)
    assert (counted["put_encoded"], counted["put_raw"]) == (4, 1)
    untouched = [tensor.array.copy() for tensor in target]
    with register(namespace, target, block_axes=1) as region:
        assert region.get(some, [1, 2, 9, 0, 10]).wait() == [Status.OK] * 5
    for found, wanted, old in zip(target, source, untouched, strict=True):
        assert (found.array[:, [1, 2, 9, 0, 10]] == wanted.array[:, [7, 0, 3, 11, 4]]).all()
        others = [block for block in range(12) if block not in (1, 2, 9, 0, 10)]
        assert (found.array[:, others] == old[:, others]).all()


def test_reserve_slotsToWriteInPlace_areRaw(client: Client) -> None:
    namespace = encoded(client, "in place")
    some = keys("in place", 2)
    with namespace.reserve(some) as slots:
        for view, one in zip(slots.views, some, strict=True):
            assert view is not None
            view[:] = kv_block(one, BLOCK_BYTES)
        assert slots.commit() == [Status.OK] * 2
    assert got(namespace, some) == [kv_block(one, BLOCK_BYTES) for one in some]


def test_memory_holdsMoreBlocks_andSsdTheEncodedBytes(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(ssd__bytes="512MiB")
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = encoded(client, "capacity")
        some = keys("capacity", 1200)
        for at in range(0, len(some), 100):
            part = some[at : at + 100]
            assert namespace.put(part, kv_blocks(part, BLOCK_BYTES)) == [Status.OK] * 100
        assert client.counters()["evictions"] == 0 < 1200 * BLOCK_BYTES - (64 << 20)
        more = keys("capacity", 1200, 1200)
        for at in range(0, len(more), 100):
            part = more[at : at + 100]
            raw = [os.urandom(BLOCK_BYTES) if n % 10 == 0 else kv_block(one, BLOCK_BYTES) for n, one in enumerate(part)]
            assert namespace.put(part, raw) == [Status.OK] * 100
        assert namespace.flush().status is Status.OK
        counters = client.counters()
        assert counters["demotions"] >= 1200
        assert counters["ssd_written_bytes"] < 0.8 * counters["demotions"] * BLOCK_BYTES
        assert got(namespace, some[:50]) == [kv_block(one, BLOCK_BYTES) for one in some[:50]]
        assert client.counters()["promotions"] >= 50


def test_restart_formsAreKnownAgain(stopped_daemon: Daemon, kind: str) -> None:
    some = keys("again", 100)
    blocks = [os.urandom(BLOCK_BYTES) if at % 7 == 0 else kv_block(one, BLOCK_BYTES) for at, one in enumerate(some)]
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = encoded(client, "again", kind=kind)
        assert namespace.put(some, blocks) == [Status.OK] * 100
        assert namespace.flush().status is Status.OK
    stopped_daemon.stop()
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        stored = [blocks[at] if at % 7 == 0 else kv_decoded(one, kind) for at, one in enumerate(some)]
        assert got(encoded(client, "again", kind=kind), some) == stored
        assert client.counters()["found_ssd"] == 100


def test_objectsOfAnotherNode_comeInBothForms(tmp_path: Path, kind: str) -> None:
    objects = {
        "object__store": "folder",
        "object__folder": str(tmp_path / "objects"),
        "object__admission": "all",
        "ssd__bytes": "0",
    }
    some = keys("object", 60)
    blocks = [os.urandom(BLOCK_BYTES) if at % 7 == 0 else kv_block(one, BLOCK_BYTES) for at, one in enumerate(some)]
    with in_a_folder(Daemon) as writer:
        writer.start(**objects)
        with Client(writer.socket_path, timeout=60) as client:
            namespace = encoded(client, "object", kind=kind)
            assert namespace.put(some, blocks) == [Status.OK] * 60
            assert namespace.flush().status is Status.OK
            assert client.counters()["object_written_bytes"] == 51 * encoded_bytes(kind) + 9 * BLOCK_BYTES
    with in_a_folder(Daemon) as reader:
        reader.start(**objects)
        with Client(reader.socket_path, timeout=60) as client:
            stored = [blocks[at] if at % 7 == 0 else kv_decoded(one, kind) for at, one in enumerate(some)]
            assert got(encoded(client, "object", kind=kind), some) == stored
            counters = client.counters()
            assert (counters["object_fetched"], counters["object_errors"], counters["corrupt"]) == (60, 0, 0)


def test_bytesThatAreDamagedInMemory_areAMiss(daemon: Daemon, client: Client, kind: str) -> None:
    namespace = encoded(client, f"scribbled/{kind}", kind=kind)
    some = keys(f"scribbled/{kind}", 3)
    assert namespace.put(some, kv_blocks(some, BLOCK_BYTES)) == [Status.OK] * 3
    link = client._connection.current()
    assert link is not None
    before = client.counters()
    # The client still has the slabs that it wrote to: a late writer has them, too.
    for slab in link.write_slabs.values():
        view = memoryview(slab)
        for one in some[:2]:
            whole = bytes(view)
            at = whole.find(kv_encoded(one, kind)[: ENCODED_GRANULE_BYTES[kind]])
            if at >= 0:
                # The last element, and a byte that the CRC32C of the stored bytes alone covers in `fp8`: an error.
                view[at + (ENCODED_GRANULE_BYTES[kind] - 1 if one == some[0] else 4)] ^= 0x55
        view.release()
    into = bytearray(3 * BLOCK_BYTES)
    assert namespace.get(some, into).statuses == [Status.CORRUPT, Status.CORRUPT, Status.OK]
    assert into[2 * BLOCK_BYTES :] == kv_decoded(some[2], kind)
    assert eventually(lambda: change(client, before).get("corrupt") == 2)
    assert eventually(lambda: namespace.lookup(some).statuses == [Status.MISS, Status.MISS, Status.OK])


@pytest.mark.parametrize("value", ["exact fp16 4096", "exact bf16 100", "planes", "fp8 bf16 100", "int4 bf16 4096"])
def test_namespace_encodingThatIsNone_raises(client: Client, value: str) -> None:
    with pytest.raises(InvalidArgument, match="encoding"):
        client.namespace("none", block_bytes=BLOCK_BYTES, encoding=value)


def test_namespace_ofAClientThatKnowsNoEncoding_isAnother(client: Client) -> None:
    namespace = encoded(client, "fleet")
    assert namespace.put([key("fleet", 0)], kv_block(key("fleet", 0), BLOCK_BYTES)) == [Status.OK]
    with pytest.raises(NamespaceMismatch, match="encoding is 'exact bf16 4096' there, absent here"):
        client.namespace("fleet", block_bytes=BLOCK_BYTES)


def test_aio_encodedBlocks_comeBack(daemon: Daemon) -> None:
    async def use() -> None:
        async with aio.Client(daemon.socket_path, timeout=60) as client:
            namespace = await client.namespace("aio", block_bytes=BLOCK_BYTES, encoding=encoding("exact"))
            some = keys("aio", 40)
            blocks = [os.urandom(BLOCK_BYTES) if at == 3 else kv_block(one, BLOCK_BYTES) for at, one in enumerate(some)]
            assert await namespace.put(some, blocks) == [Status.OK] * 40
            into = bytearray(40 * BLOCK_BYTES)
            assert (await namespace.get(some, into)).statuses == [Status.OK] * 40
            assert into == b"".join(blocks)
            leases = await namespace.acquire(some[:4])
            assert [bytes(view) for view in leases.views if view is not None] == blocks[:4]
            leases.release()

    asyncio.run(use())


def test_namespacesWithOtherEncodings_areOthers(client: Client) -> None:
    encoded(client, "kinds", kind="exact")
    with pytest.raises(NamespaceMismatch, match="encoding is 'exact bf16 4096' there, 'fp8 bf16 4096' here"):
        encoded(client, "kinds", kind="fp8")
