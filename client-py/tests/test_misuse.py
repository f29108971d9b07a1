"""Wrong arguments, and the errors that name them."""

import math
from pathlib import Path

import pytest
from kvtier_testing.daemon import Daemon

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


def test_namespace_nameNoText_saysSo(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the namespace's name is 5; expected text"):
        Client(tmp_path / "none.sock", timeout=0.1).namespace(5, block_bytes=16)  # type: ignore[arg-type]


def test_property_withAnAddress_isRefused(tmp_path: Path) -> None:
    client = Client(tmp_path / "none.sock", timeout=0.1)
    for value in (object(), test_namespace_noName_saysSo):
        with pytest.raises(InvalidArgument, match="property 'dtype' = .* an address, which no other process has"):
            client.namespace("n", block_bytes=16, dtype=value)


@pytest.mark.parametrize("blocks", [[bytes(16), None], [bytes(16), "x" * 16], [bytes(16), [0] * 16]])
def test_put_noMemory_namesTheBlockAlsoWhereItIsThere(daemon: Daemon, blocks: list[object]) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("no-memory", block_bytes=16)
        assert all(status in (Status.OK, Status.EXISTS) for status in namespace.put([b"k", b"l"], bytes(32)))
        kind = type(blocks[1]).__name__
        with pytest.raises(TypeError, match=f"the buffer of block 1 is a {kind}; expected memory"):
            namespace.put([b"k", b"l"], blocks)
        with pytest.raises(TypeError, match="the buffer of all blocks is a int; expected memory"):
            namespace.get([b"k", b"l"], 5)


def test_options_noNumbers_areNamed(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("options", block_bytes=16)
        for name, value in (("priority", "high"), ("group", 1.5), ("depth", None), ("deadline_ns", "now")):
            with pytest.raises(TypeError, match=f"{name} is {value!r}; expected"):
                namespace.lookup([b"k"], **{name: value})  # type: ignore[arg-type]
        for name, value in (("priority", 3), ("group", 1 << 16), ("depth", -1)):
            with pytest.raises(InvalidArgument, match=f"{name} is {value}; expected a whole number from 0 to "):
                namespace.lookup([b"k"], **{name: value})  # type: ignore[arg-type]


def test_option_unknown_isNamed(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("misuse", block_bytes=4096)
        with pytest.raises(TypeError, match="unknown option 'deadline'"):
            namespace.lookup([b"k"], deadline=3)  # type: ignore[call-arg]
        with pytest.raises(NamespaceMismatch) as refused:
            client.namespace("misuse", block_bytes=8192)
        assert str(refused.value).count("namespace 'misuse'") == 1
        assert str(refused.value).endswith("kvtier clear --namespace=misuse")


def test_get_readOnlyBuffer_namesTheBlock(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("read-only", block_bytes=64)
        assert namespace.put([b"k", b"l"], bytes(128)) == [Status.OK] * 2
        with pytest.raises(InvalidArgument, match="the buffer of block 1 is read-only; expected writable memory"):
            namespace.get([b"k", b"l"], [bytearray(64), bytes(64)])
        with pytest.raises(InvalidArgument, match="the buffer of all blocks is read-only"):
            namespace.get([b"not there"], bytes(64))
        with pytest.raises(BufferError, match="contiguous"):
            namespace.get([b"k"], [memoryview(bytearray(128))[::2]])


def test_buffersOfTheWrongSize_areNamedAlsoWhereTheBlockIsThere(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        namespace = client.namespace("sizes", block_bytes=64)
        assert namespace.put([b"k", b"l"], bytes(128)) == [Status.OK] * 2
        for size in (63, 65, 0):
            with pytest.raises(InvalidArgument, match=f"the buffer of block 1 has {size} bytes, a block has 64"):
                namespace.put([b"k", b"l"], [bytes(64), bytes(size)])
            with pytest.raises(InvalidArgument, match=f"the buffer of block 0 has {size} bytes, a block has 64"):
                namespace.get([b"nobody's", b"l"], [bytearray(size), bytearray(64)])
        with pytest.raises(InvalidArgument, match="a buffer of 127 bytes for 2 blocks of 64 bytes each"):
            namespace.put([b"k", b"l"], bytes(127))
        with pytest.raises(InvalidArgument, match="a buffer of 127 bytes for 2 blocks of 64 bytes each"):
            namespace.get([b"nobody's", b"l"], bytearray(127))
        assert namespace.get([b"k", b"l"], bytearray(200)).statuses == [Status.OK] * 2
