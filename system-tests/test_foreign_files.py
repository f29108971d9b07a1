"""Descriptors of files whose close never ends: nobody else waits for them."""

import ctypes
import os
import signal
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from file_gpu import GpuDaemon, gpu_daemon
from kvtier_testing.daemon import eventually

from checks.shared.raw_session import connect, hello
from kvtier import Client, Status
from kvtier import _protocol as protocol

MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
LOOKUP, GETATTR, OPEN, RELEASE, FLUSH, INIT = 1, 3, 14, 18, 25, 26
NEVER_ANSWERED = (FLUSH, 2)  # and FORGET, which has no answer
ENOSYS = 38
FOLDER_MODE, FILE_MODE = 0o40755, 0o100644


def _attributes(node: int) -> bytes:
    mode = FOLDER_MODE if node == 1 else FILE_MODE
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(operation: int, node: int) -> bytes | None:
    """The answers of a file system with one file, number 2, under any name."""
    if operation == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 8, 8, 4096, 1, 0, 0, *[0] * 8)
    if operation == LOOKUP:
        return struct.pack("<4Q2I", 2, 0, 60, 60, 0, 0) + _attributes(2)
    if operation == GETATTR:
        return struct.pack("<Q2I", 60, 0, 0) + _attributes(node)
    if operation == OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    return b"" if operation == RELEASE else None


def serve(device: int) -> None:
    while True:
        request = os.read(device, 1 << 17)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        if operation in NEVER_ANSWERED:
            continue
        body = _answer(operation, node)
        error = -ENOSYS if body is None else 0
        os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))


@contextmanager
def file_that_never_closes() -> Iterator[Path]:
    """A file of a file system whose server answers all but a close, until the end."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    with tempfile.TemporaryDirectory(prefix="kvtier-fuse-") as folder:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"kvtier-test", folder.encode(), b"fuse", MS_NOSUID | MS_NODEV, options):
            os.close(device)
            pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
        server = os.fork()
        if server == 0:
            try:
                serve(device)
            finally:
                os._exit(0)
        os.close(device)
        try:
            yield Path(folder) / "file"
        finally:
            # With its server all that waits for it ends.
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
            libc.umount2(folder.encode(), MNT_DETACH)


@contextmanager
def passing(daemon: GpuDaemon, file: Path) -> Iterator[bytes]:
    """Starts a process that passes a file as device memory; yields the daemon's answer. The process keeps its session until the block ends."""
    heard, hears = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            channel = connect(daemon.socket_path)
            channel.send(hello(1 << 18, 1 << 18, b"passes"))
            socket.recv_fds(channel, 4096, 3)
            descriptor = os.open(file, os.O_RDONLY)
            socket.send_fds(channel, [protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_PASS_MEMORY_MAGIC, 0, 0)], [descriptor])
            os.write(hears, b"heard:" + channel.recv(4096))
            signal.pause()
        except OSError as error:
            os.write(hears, b"heard:" + type(error).__name__.encode())
            signal.pause()
        finally:
            os._exit(0)
    os.close(hears)
    try:
        yield os.read(heard, 4096)
    finally:
        os.close(heard)
        os.kill(child, signal.SIGKILL)


def closers(daemon: GpuDaemon) -> list[str]:
    names = [Path(f"/proc/{daemon.pid}/task/{task}/comm") for task in os.listdir(f"/proc/{daemon.pid}/task")]
    return [name for name in (path.read_text().strip() for path in names if path.exists()) if name.startswith("kvtier-closer")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_passedFileNeverCloses_itsSessionEnds_andOthersAreServed() -> None:
    with gpu_daemon() as daemon:
        with file_that_never_closes() as file, passing(daemon, file) as heard:
            assert heard in (b"heard:", b"heard:ConnectionResetError")
            assert eventually(lambda: len(closers(daemon)) == 1), "nothing waits for the file: it proves nothing"
            with Client(daemon.socket_path, timeout=60) as client:
                assert client.ping().status is Status.OK
                namespace = client.namespace("beside", block_bytes=4096)
                assert namespace.put([bytes(16)], bytes(4096)) == [Status.OK]
        assert eventually(lambda: closers(daemon) == [])
    os.waitpid(-1, os.WNOHANG)
