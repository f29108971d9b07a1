"""When a name can be registered with other properties: an engine was upgraded, or has another layout."""

from pathlib import Path

import pytest
from kvtier_testing import blocks
from kvtier_testing.daemon import Daemon, eventually

from kvtier import Client, Namespace, NamespaceMismatch, Status

BLOCK_BYTES = 65536


def registered(client: Client, dtype: str) -> Namespace:
    return client.namespace("model", block_bytes=BLOCK_BYTES, dtype=dtype)


def put(namespace: Namespace, tag: str) -> list[bytes]:
    keys = blocks.keys(tag, 4)
    assert namespace.put(keys, blocks.blocks(keys, BLOCK_BYTES)) == [Status.OK] * 4
    return keys


def test_otherProperties_ofANameWithBlocks_areRefusedWithTheCure(stopped_daemon: Daemon) -> None:
    stopped_daemon.start()
    with Client(stopped_daemon.socket_path, name="old engine", timeout=60) as old:
        put(registered(old, "fp16"), "old")
        with Client(stopped_daemon.socket_path, timeout=60) as new:
            with pytest.raises(NamespaceMismatch) as refused:
                registered(new, "fp8")
    text = str(refused.value)
    assert "dtype is 'fp16' there, 'fp8' here" in text
    assert "4 blocks, 1 session (" in text and " old engine, pid " in text
    assert text.endswith("kvtier clear --namespace=model")


def test_otherProperties_afterClear_makeANewNamespace_alsoOverARestart(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(host__keep="10min")
    with Client(stopped_daemon.socket_path, timeout=60) as old:
        namespace = registered(old, "fp16")
        keys = put(namespace, "upgraded")
        assert namespace.flush().status is Status.OK
        assert namespace.clear().status is Status.OK

    def starts() -> bool:
        with Client(stopped_daemon.socket_path, timeout=60) as new:
            try:
                registered(new, "fp8")
            except NamespaceMismatch:  # the old session has not ended yet
                return False
            return True

    assert eventually(starts)
    with Client(stopped_daemon.socket_path, timeout=60) as new:
        namespace = registered(new, "fp8")
        assert namespace.lookup(keys).run == 0
        put(namespace, "upgraded")
        assert namespace.flush().status is Status.OK
    stopped_daemon.stop()
    stopped_daemon.start(host__keep="10min")
    with Client(stopped_daemon.socket_path, timeout=60) as new:
        assert registered(new, "fp8").lookup(keys).run == 4
        with pytest.raises(NamespaceMismatch):
            registered(new, "fp16")


def test_objectsOfTheOldNamespace_areNotTheNewOnes(stopped_daemon: Daemon, tmp_path: Path) -> None:
    objects = {"object__store": "folder", "object__folder": str(tmp_path / "objects"), "ssd__bytes": "0"}
    stopped_daemon.start(**objects)
    with Client(stopped_daemon.socket_path, timeout=60) as old:
        namespace = registered(old, "fp16")
        keys = put(namespace, "shared")
        assert namespace.flush().status is Status.OK
    stopped_daemon.stop()
    stopped_daemon.start(**objects)  # no block of it is here, only its objects are
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        assert registered(client, "fp16").get(keys, bytearray(4 * BLOCK_BYTES)).statuses == [Status.OK] * 4
    stopped_daemon.stop()
    stopped_daemon.start(**objects)
    with Client(stopped_daemon.socket_path, timeout=60) as client:
        namespace = registered(client, "fp8")
        for _ in range(3):
            assert namespace.get(keys, bytearray(4 * BLOCK_BYTES)).statuses == [Status.MISS] * 4
        assert namespace.lookup(keys).run == 0
