"""Every way in which a daemon is degraded, provoked for real: shown by `/readyz`, `/healthz`, gRPC's health service and
`kvtier status`, with a reason and a cure, and gone by itself."""

import json
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from kvtier_testing.blocks import block, keys
from kvtier_testing.daemon import Daemon, eventually, in_a_folder
from kvtier_testing.process import free_ports
from kvtier_testing.remote import RemoteDaemon
from s3 import BUCKET, S3Server
from test_full_disk import Disk, disk  # noqa: F401

from kvtier import Client, Namespace, Status

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
BLOCK_BYTES = 64 << 10
TIMEOUT_S = 60.0


class Probed(Daemon):
    """A daemon with HTTP and gRPC, and all that is said of its health."""

    def start(self, **changed: str) -> None:
        self.http_port, self.grpc_port = free_ports(2)
        super().start(
            **{
                "http__enabled": "true",
                "http__port": str(self.http_port),
                "grpc__enabled": "true",
                "grpc__port": str(self.grpc_port),
                "host__bytes": "16MiB",
                "ssd__bytes": "32MiB",
                "ssd__admission": "all",
            }
            | changed
        )

    def page(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as answer:
            body = json.load(answer)
        assert isinstance(body, dict)
        return body

    def serving(self, service: str) -> int:
        """The answer of gRPC's health service to a probe without a token, on a connection of its own."""
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            return int(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30).status)

    def status(self) -> dict[str, Any]:
        """The output of `kvtier status`."""
        told = self.command("status", "--json")
        assert told.returncode == 0, told.stderr
        body = json.loads(told.stdout)
        assert isinstance(body, dict)
        return body

    def troubles(self) -> dict[str, dict[str, str]]:
        return {one["part"]: one for one in self.page("/readyz")["troubles"]}

    def is_well(self) -> bool:
        return not self.page("/readyz")["degraded"]

    def check_well_everywhere(self) -> None:
        assert eventually(self.is_well), self.troubles()
        assert not self.page("/healthz")["degraded"]
        assert eventually(lambda: self.serving("kvtier.whole") == SERVING)
        assert self.status()["troubles"] == []

    def check_degraded_everywhere(self, part: str, reason: str) -> None:
        """Checks that all four places name the part, and that the daemon itself serves on."""
        assert eventually(lambda: part in self.troubles()), self.troubles()
        area = part.split("/")[0]
        for body in (self.page("/readyz"), self.page("/healthz"), self.status()):
            assert body["degraded"], body
            told = [one for one in body["troubles"] if one["part"] == part]
            assert len(told) == 1 and reason in told[0]["reason"] and told[0]["cure"], body
        assert self.page("/healthz")["live"] and self.page("/readyz")["ready"]
        assert eventually(lambda: self.serving("kvtier.whole") == NOT_SERVING)
        assert self.serving(f"kvtier.{area}") == NOT_SERVING
        assert self.serving("") == self.serving("kvtier.v1.Kvtier") == SERVING


@pytest.fixture
def probed() -> Iterator[Probed]:
    with in_a_folder(Probed) as made:
        yield made


def some_puts(namespace: Namespace, name: str, count: int = 8) -> list[Status]:
    some = keys(name, count)
    return namespace.put(some, [block(one, namespace.block_bytes) for one in some], timeout=2.0)


def test_drained_isDegradedUntilItIsNot(probed: Probed) -> None:
    probed.start()
    probed.check_well_everywhere()
    assert probed.command("drain", "--yes").returncode == 0
    probed.check_degraded_everywhere("puts/drain", "drained")
    assert probed.command("drain", "--off").returncode == 0
    probed.check_well_everywhere()


def test_putsRefusedForWantOfMemory_isDegradedUntilAWhileAfter(probed: Probed) -> None:
    probed.start()
    with Client(probed.socket_path, timeout=TIMEOUT_S) as client:
        namespace = client.namespace("held", block_bytes=BLOCK_BYTES)
        some = keys("held", 256)  # all of memory
        namespace.put(some, [block(one, BLOCK_BYTES) for one in some])
        with namespace.acquire(some):
            assert Status.BUSY in some_puts(namespace, "more") or Status.DEADLINE in some_puts(namespace, "more")
            probed.check_degraded_everywhere("puts/memory", "no slot of memory came free")
        assert some_puts(namespace, "later") == [Status.OK] * 8
        probed.check_well_everywhere()


def test_diskIsFull_theTierIsNotServing_untilThereIsSpace(probed: Probed, disk: Disk) -> None:  # noqa: F811
    probed.start(ssd__directory=str(disk.folder / "ssd"), ssd__bytes="64MiB", host__bytes="32MiB")
    with Client(probed.socket_path, timeout=TIMEOUT_S) as client:
        namespace = client.namespace("disk", block_bytes=BLOCK_BYTES)
        assert some_puts(namespace, "before") == [Status.OK] * 8
        probed.check_well_everywhere()
        numbers = iter(range(1 << 30))

        def turn() -> bool:
            disk.fill()
            some_puts(namespace, f"during{next(numbers)}", 64)
            return "ssd/0" in probed.troubles()

        assert eventually(turn, 120)
        # Stores go on failing while the four places are asked.
        is_asked = threading.Event()
        pump = threading.Thread(target=lambda: [turn() for _ in iter(is_asked.is_set, True)])
        pump.start()
        try:
            probed.check_degraded_everywhere("ssd/0", "o space left on device")
        finally:
            is_asked.set()
            pump.join()
        disk.free()
        assert eventually(lambda: some_puts(namespace, f"after{next(numbers)}", 64) is not None and probed.is_well(), 60)
        probed.check_well_everywhere()


def test_ledgerOfMemoryTakesNoRows_isDegradedUntilItDoes(probed: Probed, disk: Disk) -> None:  # noqa: F811
    probed.start(host__directory=str(disk.folder / "host"), host__keep="5s", host__ledger="chronicle", ssd__bytes="0", limits__annotation_bytes="1MiB")
    with Client(probed.socket_path, timeout=TIMEOUT_S) as client:
        numbers = iter(range(1 << 30))

        def turn(fills: bool) -> bool:
            if fills:
                disk.fill()
            namespace = client.namespace(f"new{next(numbers)}", block_bytes=BLOCK_BYTES)
            some_puts(namespace, "some", 2)
            return "host/ledger" in probed.troubles()

        assert turn(False) is False
        probed.check_well_everywhere()
        assert eventually(lambda: turn(True))
        probed.check_degraded_everywhere("host/ledger", "o space left on device")
        disk.free()
        assert eventually(lambda: not turn(False), 60)
        probed.check_well_everywhere()


def test_objectStoreIsDown_isDegradedUntilItAnswers(probed: Probed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with tempfile.TemporaryDirectory(prefix="kvtier-s3-") as folder:
        server = S3Server(Path(folder))
        server.start()
        try:
            probed.start(
                object__store="s3",
                object__s3__endpoint=server.endpoint,
                object__s3__bucket=BUCKET,
                object__directory=str(probed.folder / "object"),
                object__admission="all",
                object__breaker_open="100ms",
                object__breaker_open_max="200ms",
                ssd__bytes="0",
            )
            probed.check_well_everywhere()
            with Client(probed.socket_path, timeout=TIMEOUT_S) as client:
                namespace = client.namespace("objects", block_bytes=BLOCK_BYTES)
                server.kill()
                numbers = iter(range(1 << 30))
                assert eventually(
                    lambda: some_puts(namespace, f"during{next(numbers)}") is not None
                    and "object/store" in probed.troubles(),
                    60,
                )
                probed.check_degraded_everywhere("object/store", "does not answer")
                server.start()
                assert eventually(
                    lambda: some_puts(namespace, f"after{next(numbers)}") is not None and probed.is_well(), 120
                ), probed.troubles()
                probed.check_well_everywhere()
        finally:
            server.kill()


def test_channelThatIsIdle_itsNextCallSucceeds(probed: Probed) -> None:
    probed.start(grpc__first_call="1s")
    with grpc.insecure_channel(f"127.0.0.1:{probed.grpc_port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for pause_s in (0.0, 4.0, 4.0, 0.9, 0.9, 0.9, 0.9):
            time.sleep(pause_s)
            assert stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status == SERVING


def test_reflection_ofACallerWithoutAFile_describesTheService() -> None:
    with in_a_folder(RemoteDaemon) as daemon:
        daemon.start()
        token = daemon.token_file.read_text()
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(daemon.certificate.read_bytes()), grpc.access_token_call_credentials(token)
        )
        with grpc.secure_channel(f"127.0.0.1:{daemon.port}", credentials) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            services = set(database.get_services())
            assert {"kvtier.v1.Kvtier", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= services
            file = database.FindFileContainingSymbol("kvtier.v1.Kvtier")
            assert file.package == "kvtier.v1" and file.service[0].name == "Kvtier"
            with pytest.raises(KeyError):
                database.FindFileContainingSymbol("kvtier.v1.Nothing")
            # A database reads one answer of each call and drops the call. The channel keeps its connection.
            for _ in range(16):
                dropping = ProtoReflectionDescriptorDatabase(channel)
                assert set(dropping.get_services()) == services
                assert dropping.FindFileContainingSymbol("kvtier.v1.Kvtier") == file
            states = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="kvtier.whole"))
            assert next(states).status == SERVING
            assert Daemon.command(daemon, "drain", "--yes").returncode == 0
            assert next(states).status == NOT_SERVING
            assert os.path.exists(daemon.socket_path)
