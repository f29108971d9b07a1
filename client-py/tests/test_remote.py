"""The clients over gRPC: addresses, credentials, restarts, and hostile daemons."""

import asyncio
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from kvtier_testing.blocks import block, blocks, keys
from kvtier_testing.certificates import certificate
from kvtier_testing.daemon import in_a_folder
from kvtier_testing.process import free_port
from kvtier_testing.remote import RemoteDaemon

import kvtier
from kvtier import InvalidArgument, KvtierError, Lookup, Options, Priority, Status, Unavailable, remote
from kvtier import aio as local_aio
from kvtier._address import Address, parse
from kvtier.remote import _holdings as holdings
from kvtier.remote import aio
from kvtier.v1 import kvtier_pb2 as v1
from kvtier.v1 import kvtier_pb2_grpc as v1_grpc


@pytest.fixture(scope="module")
def daemon() -> Iterator[RemoteDaemon]:
    with in_a_folder(RemoteDaemon) as made:
        made.start()
        yield made


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("grpcs://host:7443", Address("host", 7443, True)),
        ("grpc://127.0.0.1:1", Address("127.0.0.1", 1, False)),
        ("grpcs://host", Address("host", 7075, True)),
        ("grpcs://[::1]:7443", Address("::1", 7443, True)),
        ("grpc://[::1]", Address("::1", 7075, False)),
    ],
)
def test_parse_address_isItsParts(text: str, address: Address) -> None:
    assert parse(text) == address
    assert parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["grpcs://", "grpcs://:1", "grpcs://host:", "grpcs://host:0", "grpcs://host:65536", "grpcs://a:b", "grpcs://::1",
             "grpc://user@host", "grpcs://host/path", "http://host"]
)  # fmt: skip
def test_parse_malformedAddress_saysWhatIsExpected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected grpcs://HOST"):
        parse(text)


def test_client_connectionString_decides(tmp_path: Path) -> None:
    assert isinstance(kvtier.Client("grpc://localhost:1"), remote.Client)
    assert isinstance(local_aio.Client("grpc://localhost:1"), aio.Client)
    assert type(kvtier.Client(tmp_path / "none.sock")) is kvtier.Client
    assert type(kvtier.Client(str(tmp_path / "none.sock"))) is kvtier.Client


def test_client_tokenWithoutTls_isRefusedBeyondLoopback(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="unencrypted"):
        remote.Client("grpc://kvtier.example:7075", token="kvt_1")
    remote.Client("grpc://127.0.0.1:7075", token="kvt_1").close()
    with pytest.raises(InvalidArgument, match="cannot be read: No such file"):
        remote.Client("grpcs://host", token_file=tmp_path / "none")
    with pytest.raises(InvalidArgument, match="ca .* cannot be read: No such file"):
        remote.Client("grpcs://host", ca=tmp_path / "none")
    with pytest.raises(InvalidArgument, match="is no token"):
        remote.Client("grpcs://host", token="secret")
    with pytest.raises(InvalidArgument, match="one of them"):
        remote.Client("grpcs://host", token="kvt_1", token_file=tmp_path)


def test_client_noDaemon_isUnavailableAndSaysWhy() -> None:
    with remote.Client(f"grpc://127.0.0.1:{free_port()}", timeout=5) as client:
        ping = client.ping()
        assert ping.status is Status.UNAVAILABLE and "refused" in ping.reason.lower()
        assert not client.connected and "127.0.0.1" in client.reason
        namespace = client.namespace("none", block_bytes=512)
        assert namespace.put(keys("none", 2), bytes(1024)) == [Status.UNAVAILABLE] * 2
        with pytest.raises(Unavailable):
            client.connect()


def test_client_certificateOfAnotherAuthority_isUnavailable(daemon: RemoteDaemon, tmp_path: Path) -> None:
    other, _ = certificate(tmp_path)
    with remote.Client(daemon.address, token_file=daemon.token_file, ca=other, timeout=60) as client:
        assert client.ping().status is Status.UNAVAILABLE


def test_client_tokenUnknownOrOfAReader_isDenied(daemon: RemoteDaemon, tmp_path: Path) -> None:
    with remote.Client(daemon.address, ca=daemon.certificate, timeout=30) as nobody:
        assert nobody.ping().status is Status.DENIED
    read = daemon.make_token("read")
    with remote.Client(daemon.address, token=read, ca=daemon.certificate, timeout=30) as reader:
        namespace = reader.namespace("read-only", block_bytes=512)
        some = keys("read-only", 2)
        assert namespace.lookup(some).statuses == [Status.MISS] * 2
        assert namespace.put(some, blocks(some, 512)) == [Status.DENIED] * 2


def test_client_tokenFileIsReplaced_theNextCallBringsTheNewOne(daemon: RemoteDaemon, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(daemon.token_file.read_text())
    with remote.Client(daemon.address, token_file=mine, ca=daemon.certificate, timeout=30) as client:
        assert client.ping().status is Status.OK
        mine.write_text("kvt_000000000000_" + "A" * 43)
        assert client.ping().status is Status.DENIED
        mine.unlink()
        ping = client.ping()
        assert ping.status is Status.DENIED and str(mine) in ping.reason
        mine.write_text(daemon.token_file.read_text())
        assert client.ping().status is Status.OK


def test_daemonRestarted_namespacesAreRegisteredAgain() -> None:
    with in_a_folder(RemoteDaemon) as daemon:
        daemon.start()
        with remote.Client(daemon.address, timeout=30, **daemon.credentials) as client:
            namespace = client.namespace("again", block_bytes=4096)
            some = keys("again", 3)
            assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 3
            daemon.kill()
            assert set(namespace.put(some, blocks(some, 4096), timeout=2.0)) <= {Status.UNAVAILABLE, Status.DEADLINE}
            daemon.start()
            client.connect(timeout=30)
            assert namespace.put(some, blocks(some, 4096)) == [Status.OK] * 3
            into = bytearray(3 * 4096)
            assert namespace.get(some, into).run == 3 and into == blocks(some, 4096)


def test_annotate_isNotOffered_putTakesAnnotations(daemon: RemoteDaemon) -> None:
    with remote.Client(daemon.address, timeout=30, **daemon.credentials) as client:
        namespace = client.namespace("annotated", block_bytes=512)
        some = keys("annotated", 2)
        with pytest.raises(KvtierError, match="put"):
            namespace.annotate(some, [b"1", None])
        assert namespace.put(some, blocks(some, 512), annotations=[b"1", None]) == [Status.OK] * 2
        with pytest.raises(InvalidArgument):
            namespace.put(some, blocks(some, 512), annotations=[b"1"])


def test_put_blocksThatAreThere_areNotSent(daemon: RemoteDaemon) -> None:
    with remote.Client(daemon.address, timeout=60, **daemon.credentials) as client:
        namespace = client.namespace("once", block_bytes=1 << 20)
        some = keys("once", 4)
        data = [block(one, 1 << 20) for one in some]
        assert namespace.put(some[:2], data[:2]) == [Status.OK] * 2
        before = client.counters()["host_written_bytes"]
        assert namespace.put(some, data) == [Status.EXISTS, Status.EXISTS, Status.OK, Status.OK]
        assert client.counters()["host_written_bytes"] == before + (2 << 20)
        into = bytearray(4 << 20)
        assert namespace.get(some, into).run == 4 and into == b"".join(data)


# ---- daemons that lie or fail

_OK = v1.Outcome(status=v1.STATUS_OK)


class Liar(v1_grpc.KvtierServicer):
    """A daemon with the answers of a test, which keeps what it was asked."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.refusals = 0
        self.calls: list[tuple[str, list[Any]]] = []

    def _call(self, name: str, requests: list[Any], context: Any) -> None:
        """Keeps a call; refuses the first ones."""
        self.calls.append((name, requests))
        if self.refusals:
            self.refusals -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "refused")

    def Register(self, request: Any, context: Any) -> Any:
        return v1.RegisterResponse(outcome=_OK, namespace_id=7, chunk_bytes_max=1 << 20)

    def Get(self, request: Any, context: Any) -> Any:
        self._call("Get", [request], context)
        yield from self.messages

    def Put(self, requests: Any, context: Any) -> Any:
        self._call("Put", list(requests), context)
        return v1.PutResponse(outcome=_OK)

    def Lookup(self, request: Any, context: Any) -> Any:
        self._call("Lookup", [request], context)
        return v1.LookupResponse(outcome=_OK, blocks=[v1.BlockResult()], leading_run=1 << 31)


@pytest.fixture
def liar() -> Iterator[tuple[Liar, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    servicer = Liar()
    v1_grpc.add_KvtierServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"grpc://127.0.0.1:{port}"
    server.stop(None)


_DATA = bytes(range(256)) * 2
_CRC = kvtier._core.crc32c(_DATA)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([v1.GetResponse(block=0, data=_DATA, crc32c=_CRC, last=True)], Status.OK),
        ([v1.GetResponse(block=0, data=_DATA, crc32c=_CRC ^ 1, last=True)], Status.CORRUPT),
        ([v1.GetResponse(block=0, data=_DATA[:-1], crc32c=_CRC, last=True)], Status.CORRUPT),
        ([v1.GetResponse(block=0, data=b"", crc32c=_CRC, last=True)], Status.CORRUPT),
        ([v1.GetResponse(block=9, data=_DATA, crc32c=_CRC, last=True)], Status.UNAVAILABLE),
        ([v1.GetResponse(block=0, offset=1, data=_DATA, crc32c=_CRC, last=True)], Status.UNAVAILABLE),
        ([v1.GetResponse(block=0, data=_DATA + b"1", crc32c=_CRC, last=True)], Status.UNAVAILABLE),
        ([v1.GetResponse(block=0, data=_DATA, crc32c=_CRC)] * 2, Status.UNAVAILABLE),
        ([v1.GetResponse(block=0, data=_DATA, crc32c=_CRC)], Status.UNAVAILABLE),
        ([v1.GetResponse(block=0, status=99, last=True)], Status.INTERNAL),
        ([], Status.UNAVAILABLE),
    ],
)
def test_get_answerMakesNoSense_isNeverABlock(liar: tuple[Liar, str], messages: list[Any], expected: Status) -> None:
    servicer, address = liar
    servicer.messages = messages
    into = bytearray(512 + 64)
    with remote.Client(address, timeout=30) as client:
        namespace = client.namespace("lies", block_bytes=512)
        assert namespace.get([b"key"], memoryview(into)[:512]).statuses == [expected]
        assert into[512:] == bytes(64)
        assert namespace.lookup([b"key", b"two"]).statuses == [Status.INTERNAL] * 2
        assert namespace.lookup([b"key"]).run <= 1


def test_get_daemonRefusesOnce_isRepeated_aPutIsNot(liar: tuple[Liar, str]) -> None:
    servicer, address = liar
    servicer.messages = [v1.GetResponse(block=0, data=_DATA, crc32c=_CRC, last=True)]
    with remote.Client(address, timeout=30) as client:
        namespace = client.namespace("lies", block_bytes=512)
        servicer.refusals = 1
        assert namespace.get([b"key"], bytearray(512)).statuses == [Status.OK]
        assert [name for name, _ in servicer.calls] == ["Get", "Get"]
        servicer.refusals = 1
        assert namespace.put([b"key"], _DATA) == [Status.UNAVAILABLE]
        assert [name for name, _ in servicer.calls] == ["Get", "Get", "Put"]


def test_put_answerWithoutBlocks_isNoSuccess(liar: tuple[Liar, str]) -> None:
    with remote.Client(liar[1], timeout=30) as client:
        assert client.namespace("lies", block_bytes=512).put([b"key"], _DATA) == [Status.INTERNAL]


def test_options_areInTheMessages(liar: tuple[Liar, str]) -> None:
    servicer, address = liar
    with remote.Client(address, timeout=30) as client:
        namespace = client.namespace("lies", block_bytes=512)
        options: Options = {"priority": Priority.HIGH, "group": 3, "parent": b"par", "depth": 17}
        named = v1.Keys(namespace_id=7, group=3, keys=[b"one", b"two"], parent=b"par", depth=17)
        some = [b"one", b"two"]
        namespace.get(some, bytearray(1024), leading_run=True, no_wait=True, **options)
        namespace.lookup(some, **options)
        namespace.put(some, _DATA * 2, annotations=[b"note", None], importance=3, **options)
    assert servicer.calls == [
        ("Get", [v1.GetRequest(keys=named, leading_run=True, no_wait=True, priority=v1.PRIORITY_HIGH)]),
        ("Lookup", [v1.KeysRequest(keys=named)]),
        (
            "Put",
            [
                v1.PutRequest(header=v1.PutHeader(keys=named, annotations=[b"note", b""], importance=3)),
                v1.PutRequest(chunk=v1.PutChunk(block=0, data=_DATA, crc32c=_CRC)),
                v1.PutRequest(chunk=v1.PutChunk(block=1, data=_DATA, crc32c=_CRC)),
            ],
        ),
    ]


def test_commit_someSlots_parentIsTheKeyBefore(liar: tuple[Liar, str]) -> None:
    servicer, address = liar
    with remote.Client(address, timeout=30) as client:
        namespace = client.namespace("lies", block_bytes=512)
        memory = holdings.Slots([b"0", b"1", b"2", b"3"], Lookup.of_status(Status.MISS, 4), 512)
        slots = remote.Reservations(namespace, memory, {"parent": b"p", "depth": 5})
        slots.commit([3, 0, 2])
    headers = [requests[0].header.keys for _, requests in servicer.calls]
    assert headers == [
        v1.Keys(namespace_id=7, keys=[b"0"], parent=b"p", depth=5),
        v1.Keys(namespace_id=7, keys=[b"2", b"3"], parent=b"1", depth=7),
    ]


def test_aio_cancelled_otherCallsGoOn(daemon: RemoteDaemon) -> None:
    async def run() -> None:
        async with aio.Client(daemon.address, timeout=60, **daemon.credentials) as client:
            namespace = await client.namespace("cancelled", block_bytes=1 << 20)
            some = keys("cancelled", 8)
            data = blocks(some, 1 << 20)
            assert await namespace.put(some, data) == [Status.OK] * 8
            for pause in (0.0, 0.002, 0.01):
                task = asyncio.create_task(namespace.get(some, bytearray(8 << 20)))
                await asyncio.sleep(pause)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            into = bytearray(8 << 20)
            assert (await namespace.get(some, into)).run == 8 and into == data

    asyncio.run(run())
