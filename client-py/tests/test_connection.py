"""Connecting where there is no daemon, a strange one, or another version."""

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kvtier import Client, InvalidArgument, Status, Unavailable, VersionMismatch, aio
from kvtier import _protocol as protocol
from kvtier import _operations as operations
from kvtier._connection import Link, _connect, namespace_properties
from kvtier._core import monotonic_ns
from kvtier._polled import Polled
from kvtier_testing.daemon import Daemon, eventually

KEYS = [b"a" * 32, b"b" * 32]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="kvtier-") as name:
        yield Path(name)


def answering(path: Path, answer: bytes | None) -> socket.socket:
    """Something that listens there and gives everybody the same answer; None: none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(4096)
            if answer is not None:
                connection.send(answer)
                connection.close()
            else:
                time.sleep(2)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def welcome(version: int, status: int, text: bytes) -> bytes:
    return protocol.HANDSHAKE_WELCOME.pack(protocol.HANDSHAKE_WELCOME_MAGIC, version, status, len(text), 0, 0, 0, 0) + text


def test_client_noDaemon_answersUnavailable(folder: Path) -> None:
    with Client(folder / "none.sock") as client:
        namespace = client.namespace("m", block_bytes=64)
        assert not client.connected
        assert namespace.put(KEYS, bytes(128)) == [Status.UNAVAILABLE] * 2
        assert namespace.get(KEYS, bytearray(128)).statuses == [Status.UNAVAILABLE] * 2
        assert namespace.lookup(KEYS).run == 0
        assert namespace.lookup(KEYS).statuses == [Status.UNAVAILABLE] * 2
        assert namespace.pin(KEYS) == [Status.UNAVAILABLE] * 2
        assert namespace.clear().status is Status.UNAVAILABLE
        with namespace.acquire(KEYS) as leases:
            assert leases.views == [None, None] and leases.run == 0
        with namespace.reserve(KEYS) as slots:
            assert slots.commit() == [Status.UNAVAILABLE] * 2
        assert client.stats() == {} and client.counters() == {}
        ping = client.ping()
        assert ping.status is Status.UNAVAILABLE and "none.sock" in ping.reason
        with pytest.raises(Unavailable, match="does not exist"):
            client.connect()


def test_client_socketLeftBehind_saysSo(folder: Path) -> None:
    left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    left.bind(str(folder / "left.sock"))
    left.close()
    with pytest.raises(Unavailable, match="left behind"):
        Client(folder / "left.sock").connect()


def test_client_socketGoesWhileItIsRefused_isUnavailable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that starts takes away what another left, after this client was refused there."""
    path = folder / "left.sock"
    left = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    left.bind(str(path))
    left.close()
    stat = os.stat

    def stat_too_late(asked: str, *more: object, **options: object) -> os.stat_result:
        if str(asked) == str(path):
            path.unlink(missing_ok=True)
        return stat(asked, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", stat_too_late)
    with pytest.raises(Unavailable, match="no daemon listens"):
        Client(path).connect()
    assert not path.exists()


def test_noDescriptorIsFree_isUnavailable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(Unavailable, match="Too many open files"):
        Client(folder / "kvtier.sock").connect()


def test_client_regularFileAtThePath_saysSo(folder: Path) -> None:
    (folder / "file.sock").touch()
    with pytest.raises(Unavailable, match="no socket"):
        Client(folder / "file.sock").connect()


def test_client_socketOfAnotherKind_saysSo(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(folder / "stream.sock"))
        other.listen()
        with pytest.raises(Unavailable, match="a socket of another kind"):
            Client(folder / "stream.sock").connect()


def test_client_pathTooLong_saysWhatIsAllowed(folder: Path) -> None:
    with pytest.raises(Unavailable, match="the path has 205 bytes; Linux allows at most 107"):
        Client("/tmp/" + "s" * 200).connect()


def test_client_noPermission_saysWhatToChange(folder: Path) -> None:
    folder.chmod(0o755)
    path = folder / "closed.sock"
    user = os.geteuid()
    with answering(path, None):
        path.chmod(0)
        if user == 0:
            os.seteuid(65534)  # root may connect anywhere
        try:
            with pytest.raises(Unavailable, match=r"no permission to use .*closed\.sock: .* socket\.users"):
                Client(path).connect()
        finally:
            os.seteuid(user)


@pytest.mark.parametrize("path", ["", b"", "a\0b"])
def test_client_noPath_raisesAtOnce(path: str | bytes) -> None:
    for client in (Client, aio.Client):
        with pytest.raises(InvalidArgument, match="expected the path of the daemon's socket"):
            client(path)  # type: ignore[arg-type]


def test_client_noDaemon_logsOnceWhy(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Client(folder / "none.sock") as client:
        namespace = client.namespace("m", block_bytes=64)
        for _ in range(3):
            time.sleep(0.05)  # past the back-off: it tries again
            assert namespace.lookup(KEYS).run == 0
    assert [record.name for record in caplog.records] == ["kvtier"]
    assert "none.sock" in caplog.text and "does not exist" in caplog.text and "UNAVAILABLE" in caplog.text


def test_aioClient_noDaemon_logsOnceWhy(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with aio.Client(folder / "none.sock") as client:
            namespace = await client.namespace("m", block_bytes=64)
            assert (await namespace.lookup(KEYS)).run == 0

    asyncio.run(scenario())
    assert len(caplog.records) == 1 and "does not exist" in caplog.text


@pytest.mark.parametrize(("major", "cure"), [(1, "upgrade kvtierd and restart it"), (7, "upgrade the client")])
def test_client_otherVersion_raisesNamingBothAndTheCure(folder: Path, major: int, cure: str) -> None:
    path = folder / "other.sock"
    listener = answering(path, welcome(major << 16 | 3, Status.VERSION_MISMATCH, b"the words of another version"))
    with pytest.raises(VersionMismatch) as refused:
        Client(path)
    assert str(refused.value) == (
        f"the daemon at {path} speaks protocol {major}.3, the client protocol {protocol.VERSION_MAJOR}."
        f"{protocol.VERSION_MINOR}: {cure}, so that both have the same version of kvtier"
    )
    listener.close()


def test_client_refused_saysWhy(folder: Path) -> None:
    path = folder / "refuses.sock"
    listener = answering(path, welcome(protocol.VERSION, Status.DENIED, b"user 7 is not user 8"))
    client = Client(path)
    ping = client.ping()
    assert ping.status is Status.UNAVAILABLE and "DENIED" in ping.reason and "user 7" in ping.reason
    listener.close()


@pytest.mark.parametrize("answer", [b"x", bytes(40), b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(40), b""])
def test_client_noKvtierDaemon_unavailable(folder: Path, answer: bytes) -> None:
    path = folder / "strange.sock"
    listener = answering(path, answer)
    with pytest.raises(Unavailable):
        Client(path).connect()
    listener.close()


def test_client_silentListener_answersWithinTimeout(folder: Path) -> None:
    path = folder / "silent.sock"
    listener = answering(path, None)
    started = time.monotonic()
    client = Client(path, timeout=0.2)
    namespace = client.namespace("m", block_bytes=64)
    assert namespace.get(KEYS, bytearray(128), timeout=0.2).run == 0
    assert time.monotonic() - started < 20, "neither of the two timeouts of 0.2 s"
    listener.close()


def test_namespace_badProperties_raise(folder: Path) -> None:
    client = Client(folder / "none.sock")
    for properties in ({"a\nb": "c"}, {"a": "b\nname=x"}, {"a=b": "c"}, {"a": ""}, {"a": "x" * 5000}):
        with pytest.raises(InvalidArgument):
            client.namespace("m", block_bytes=64, **properties)
    with pytest.raises(InvalidArgument):
        client.namespace("m", block_bytes=0)


def test_operation_unknownOption_raises(folder: Path) -> None:
    with pytest.raises(InvalidArgument):
        Client(folder / "none.sock").namespace("m", block_bytes=64).get(KEYS, [bytearray(64)])


def test_closedClient_answersUnavailable(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(folder / "none.sock")
    namespace = client.namespace("m", block_bytes=64)
    client.close()
    client.close()
    for _ in range(3):
        assert namespace.lookup(KEYS).statuses == [Status.UNAVAILABLE] * 2
    assert [record.message for record in caplog.records if "was closed" in record.message] == [
        "this client is used after it was closed: its calls answer UNAVAILABLE"
    ]
    with pytest.raises(Unavailable, match="closed"):
        client.connect()


def test_aio_noDaemon_answersUnavailable(folder: Path) -> None:
    async def scenario() -> None:
        async with aio.Client(folder / "none.sock") as client:
            namespace = await client.namespace("m", block_bytes=64)
            assert await namespace.put(KEYS, bytes(128)) == [Status.UNAVAILABLE] * 2
            assert (await namespace.get(KEYS, bytearray(128))).run == 0
            assert (await client.ping()).status is Status.UNAVAILABLE
            assert await client.stats() == {}
            with pytest.raises(Unavailable):
                await client.connect()

    asyncio.run(scenario())


def test_defaultSocketPath_followsTheProtocol(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtier._connection import default_socket_path

    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("KVTIER_SOCKET", "/run/elsewhere.sock")
    assert default_socket_path() == "/run/elsewhere.sock"
    monkeypatch.setenv("KVTIER_SOCKET", "")
    assert default_socket_path() == "/run/user/7/kvtier.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_socket_path() == f"/tmp/kvtier-{os.getuid()}/kvtier.sock"


@pytest.mark.parametrize("has_space_later", [True, False])
def test_queueOfNewConnectionsIsFull_connectWaitsUntilItsDeadline(tmp_path: Path, has_space_later: bool) -> None:
    path = str(tmp_path / "s")
    kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
    waiting = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, socket.socket(socket.AF_UNIX, kind) as late:
        listener.bind(path)
        listener.listen(0)
        with pytest.raises(BlockingIOError):
            while True:
                waiting.append(socket.socket(socket.AF_UNIX, kind))
                waiting[-1].connect(path)
        if has_space_later:
            accepting = threading.Timer(0.2, lambda: waiting.append(listener.accept()[0]))
            accepting.start()
            _connect(late, path, monotonic_ns() + 30_000_000_000)
            accepting.join()
        else:
            with pytest.raises(TimeoutError):
                _connect(late, path, monotonic_ns() + 100_000_000)
    for channel in waiting:
        channel.close()


def test_connectingEndsWhilePolledLooksForItsLink_callIsBegun(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    polled = Polled(str(daemon.socket_path), "polled", 1 << 20)
    connection = polled.connection
    current, is_to_end = connection.current, threading.Event()

    def current_a_moment_ago() -> Link | None:
        link = current()
        if threading.current_thread() is threading.main_thread() and link is None and polled._connecting is not None:
            is_to_end.set()
            polled._connecting.join()
        return link

    link = connection.link
    monkeypatch.setattr(connection, "link", lambda deadline_ns: is_to_end.wait() and link(deadline_ns))
    monkeypatch.setattr(connection, "current", current_a_moment_ago)
    properties = namespace_properties("m", 64, {})
    call = polled.start(properties, partial(operations.lookup, keys=KEYS), None, 30.0)
    polled.poll()
    assert polled.wait(call, 30.0)
    assert call.outcome is not None and call.outcome.statuses == [Status.MISS] * 2
    polled.close()


def test_daemonIsKilled_pollsThatNeverWaitNoticeIt(fresh_daemon: Daemon) -> None:
    polled = Polled(str(fresh_daemon.socket_path), "polled", 1 << 20)
    polled.connection.open_within(30.0)
    fresh_daemon.pause()
    properties = namespace_properties("m", 64, {})
    call = polled.start(properties, partial(operations.lookup, keys=KEYS), None, 3600.0)
    polled.poll()
    assert not call.done
    fresh_daemon.kill()
    assert eventually(lambda: polled.poll() or call.done)
    assert call.outcome is not None and call.outcome.statuses == [Status.UNAVAILABLE] * 2
    polled.close()
