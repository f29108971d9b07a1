"""Where memory without IPC handles lies: `kvtier.torch._exported`, with a driver that is told of."""

import ctypes
import os
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon

from kvtier import Client, KvtierError, Status
from kvtier.torch import _exported

MIB = 1 << 20


class Driver:
    """Pieces of memory by their addresses; each is exported as a descriptor of a file with its address in it."""

    def __init__(self, *pieces: tuple[int, int]) -> None:
        self.pieces = dict(pieces)
        self.retained = 0
        self.export_code = 0

    def cuMemGetAddressRange_v2(self, base: Any, size: Any, address: ctypes.c_uint64) -> int:
        for begin, length in self.pieces.items():
            if begin <= address.value < begin + length:
                base._obj.value, size._obj.value = begin, length
                return 0
        return 500

    def cuMemRetainAllocationHandle(self, handle: Any, address: ctypes.c_void_p) -> int:
        if address.value not in self.pieces:
            return 1
        handle._obj.value = address.value
        self.retained += 1
        return 0

    def cuMemExportToShareableHandle(self, descriptor: Any, handle: ctypes.c_uint64, kind: int, flags: ctypes.c_uint64) -> int:
        assert kind == 1
        if self.export_code == 0:
            descriptor._obj.value = os.memfd_create("piece")
            os.write(descriptor._obj.value, handle.value.to_bytes(8, "little"))
        return self.export_code

    def cuMemRelease(self, handle: ctypes.c_uint64) -> int:
        self.retained -= 1
        return 0


def use(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    monkeypatch.setattr(_exported, "driver", lambda: driver)
    torch = SimpleNamespace(cuda=SimpleNamespace(device=lambda device: nullcontext()))
    monkeypatch.setattr(_exported.importlib, "import_module", lambda name: torch)


def test_pieces_side_by_side_are_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    base = 0x3_0200_0000
    driver = Driver((base, 20 * MIB), (base + 20 * MIB, 20 * MIB), (base + 40 * MIB, 2 * MIB), (base + 100 * MIB, 20 * MIB))
    use(monkeypatch, driver)
    first = (base + 5 * MIB, base + 25 * MIB)
    second = (base + 25 * MIB, base + 41 * MIB)
    apart = (base + 100 * MIB, base + 101 * MIB)
    exported = _exported.Exported([second, apart, first], "cuda:0")
    memory, offset = exported.place(first[0])
    assert (memory.piece_bytes, offset) == ((20 * MIB, 20 * MIB, 2 * MIB), 5 * MIB)
    assert exported.place(second[0]) == (memory, 25 * MIB)
    other, offset = exported.place(apart[0])
    assert (other.piece_bytes, offset) == ((20 * MIB,), 0)
    assert memory.text(7) == f"passed:7+2:{20 * MIB},9+1:{2 * MIB}"
    for number, address in enumerate((base, base + 20 * MIB, base + 40 * MIB)):
        descriptor = memory.export(number)
        assert int.from_bytes(os.pread(descriptor, 8, 0), "little") == address
        os.close(descriptor)
    assert driver.retained == 0


def test_memory_that_is_not_there_or_not_to_be_exported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver((1 << 32, 2 * MIB))
    use(monkeypatch, driver)
    with pytest.raises(KvtierError, match="no device memory at 0x100200000"):
        _exported.Exported([(1 << 32, (1 << 32) + 3 * MIB)], "cuda:0")
    memory, _ = _exported.Exported([(1 << 32, (1 << 32) + MIB)], "cuda:0").place(1 << 32)
    driver.export_code = 1
    with pytest.raises(KvtierError, match="did not make it exportable"):
        memory.export(0)
    assert driver.retained == 0
    driver.pieces.clear()
    with pytest.raises(KvtierError, match="cudaMallocAsync"):
        memory.export(0)


def test_a_daemon_without_a_gpu_takes_no_descriptors(daemon: Daemon) -> None:
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16):
        pytest.skip("this kernel passes descriptors to whoever listens")
    with Client(daemon.socket_path, timeout=20) as client:
        client.stats()  # it has looked for GPUs by now
    with Client(daemon.socket_path, timeout=20) as client:
        link = client._connection.open(time.monotonic_ns() + 10**10)
        descriptor = os.memfd_create("piece")
        assert link.pass_memory(link.numbers_to_pass(1), descriptor, time.monotonic_ns() + 10**10) is Status.DENIED
        os.close(descriptor)
        assert client.ping().status is Status.OK
