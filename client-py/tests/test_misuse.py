"""What a slip of the pen is answered: an error that names it."""

import math
from pathlib import Path

import pytest
from conftest import Daemon

from kvtier import Client, InvalidArgument, NamespaceMismatch, Status


def test_timeout_noLengthOfTime_saysSo(tmp_path: Path) -> None:
    client = Client(tmp_path / "none.sock", timeout=0.1)
    for timeout in (math.nan, math.inf, -1.0):
        with pytest.raises(InvalidArgument, match="timeout is"):
            client.ping(timeout=timeout)
    with pytest.raises(TypeError, match="timeout is '1'; expected seconds"):
        client.ping(timeout="1")  # type: ignore[arg-type]


def test_blockBytes_noNumber_saysSo(tmp_path: Path) -> None:
    client = Client(tmp_path / "none.sock", timeout=0.1)
    with pytest.raises(TypeError, match="block_bytes is '4096'"):
        client.namespace("n", block_bytes="4096")  # type: ignore[arg-type]


def test_keys_oneKeyAlone_saysSo(tmp_path: Path) -> None:
    namespace = Client(tmp_path / "none.sock", timeout=0.1).namespace("n", block_bytes=16)
    with pytest.raises(TypeError, match="keys is one bytes; expected a list"):
        namespace.put(b"k" * 32, [bytes(16)])  # type: ignore[arg-type]


def test_keys_oneNoBytes_isShown(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("keys", block_bytes=16)
        for keys in (["text"], [b"k", "text"]):
            with pytest.raises(TypeError, match="a key is 'text'; expected bytes, 1 to 32 of them"):
                namespace.lookup(keys)  # type: ignore[arg-type]


def test_namespace_noName_saysSo(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the namespace has no name"):
        Client(tmp_path / "none.sock", timeout=0.1).namespace("", block_bytes=16)


def test_option_unknown_isNamed(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("misuse", block_bytes=4096)
        with pytest.raises(TypeError, match="unknown option 'deadline'"):
            namespace.lookup([b"k"], deadline=3)  # type: ignore[call-arg]
        with pytest.raises(NamespaceMismatch) as refused:
            client.namespace("misuse", block_bytes=8192)
        assert str(refused.value).count("misuse") == 1


def test_get_readOnlyBuffer_namesTheBlock(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("read-only", block_bytes=64)
        assert namespace.put([b"k", b"l"], bytes(128)) == [Status.OK] * 2
        with pytest.raises(BufferError, match="the buffer of block 1 is read-only; expected writable memory"):
            namespace.get([b"k", b"l"], [bytearray(64), bytes(64)])
        with pytest.raises(BufferError, match="contiguous"):
            namespace.get([b"k"], [memoryview(bytearray(128))[::2]])
