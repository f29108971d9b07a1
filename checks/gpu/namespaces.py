"""Which handles of GPU memory a process in other namespaces can open. Needs a GPU and root; no torch, no Java.

python3 -m checks.gpu.namespaces

This process allocates memory in both ways that CUDA has, and an event. A process in each kind of surroundings then opens them:

memory      an allocation of cudaMalloc, by its legacy IPC handle (cuIpcOpenMemHandle)
event       an event, by its legacy IPC handle (cuIpcOpenEventHandle)
descriptor  an allocation of virtual memory management, by a descriptor that came over a Unix socket
pinned      256 MiB of ordinary memory, registered with the GPU

Ends with 1 unless descriptors and pinned memory work everywhere.
"""

import ctypes
import json
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BYTES = 2 << 20
PINNED_BYTES = 256 << 20
HANDLE_BYTES = 64
AS_USER = ["setpriv", "--reuid", "10001", "--regid", "10001", "--clear-groups", "--bounding-set=-all"]
FRESH_SHM = ["sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
SURROUNDINGS: dict[str, list[str]] = {
    "same namespaces": [],
    "other IPC namespace": ["unshare", "--ipc"],
    "other PID namespace": ["unshare", "--pid", "--fork", "--mount-proc"],
    "other /dev/shm": ["unshare", "--mount", *FRESH_SHM],
    "other user": AS_USER,
    "other user, memlock 64 KiB": ["prlimit", "--memlock=65536:65536", *AS_USER],
    "container: other IPC, PID, network, /dev/shm": ["unshare", "--mount", "--ipc", "--pid", "--net", "--uts", "--fork", "--mount-proc", *FRESH_SHM],
    "container, other user": ["unshare", "--mount", "--ipc", "--pid", "--net", "--uts", "--fork", "--mount-proc", *FRESH_SHM, *AS_USER],
}  # fmt: skip
WANTED = ("descriptor", "pinned")

Word = ctypes.c_uint64


class Handle(ctypes.Structure):
    """CUipcMemHandle, CUipcEventHandle."""

    _fields_ = [("bytes", ctypes.c_ubyte * HANDLE_BYTES)]


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("security", ctypes.c_void_p), ("flags", Word)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Driver:
    """The calls of CUDA's driver, with errors by name."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            words = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, ctypes.byref(words))
            raise RuntimeError(f"{name}: {words.value.decode() if words.value else code}")

    def fill(self, address: Word, value: int) -> None:
        self.call("cuMemsetD8_v2", address, value, ctypes.c_size_t(BYTES))
        self.call("cuCtxSynchronize")

    def first_byte(self, address: Word) -> int:
        byte = ctypes.c_ubyte()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(byte), address, ctypes.c_size_t(1))
        return byte.value

    def map(self, allocation: Word) -> Word:
        address, access = Word(), Access(Location(1, 0), 3)
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(BYTES), ctypes.c_size_t(0), Word(0), Word(0))
        self.call("cuMemMap", address, ctypes.c_size_t(BYTES), ctypes.c_size_t(0), allocation, Word(0))
        self.call("cuMemSetAccess", address, ctypes.c_size_t(BYTES), ctypes.byref(access), ctypes.c_size_t(1))
        return address


def lend(driver: Driver) -> tuple[bytes, int]:
    """The two legacy handles, one behind the other, and a descriptor."""
    address, memory = Word(), Handle()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(BYTES))
    driver.fill(address, 7)
    driver.call("cuIpcGetMemHandle", ctypes.byref(memory), address)
    event, event_handle = ctypes.c_void_p(), Handle()
    # Without timing, for other processes.
    driver.call("cuEventCreate", ctypes.byref(event), 2 | 4)
    driver.call("cuEventRecord", event, None)
    driver.call("cuIpcGetEventHandle", ctypes.byref(event_handle), event)
    allocation, descriptor = Word(), ctypes.c_int()
    properties = Properties(1, 1, Location(1, 0), None, 0)
    driver.call("cuMemCreate", ctypes.byref(allocation), ctypes.c_size_t(BYTES), ctypes.byref(properties), Word(0))
    driver.fill(driver.map(allocation), 9)
    driver.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), allocation, 1, Word(0))
    return bytes(memory.bytes) + bytes(event_handle.bytes), descriptor.value


def borrow(channel: socket.socket) -> dict[str, str]:
    """Opens everything that the other process lends; returns the result of each."""
    message, descriptors, _, _ = socket.recv_fds(channel, 4096, 1)
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        return dict.fromkeys(("memory", "event", *WANTED), str(error))

    def memory() -> int:
        address = Word()
        driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), Handle.from_buffer_copy(message[:HANDLE_BYTES]), 1)
        return driver.first_byte(address)

    def event() -> int:
        opened, stream = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuIpcOpenEventHandle", ctypes.byref(opened), Handle.from_buffer_copy(message[HANDLE_BYTES:]))
        driver.call("cuStreamCreate", ctypes.byref(stream), 1)
        driver.call("cuStreamWaitEvent", stream, opened, 0)
        driver.call("cuStreamSynchronize", stream)
        return 0

    def descriptor() -> int:
        allocation = Word()
        driver.call("cuMemImportFromShareableHandle", ctypes.byref(allocation), ctypes.c_void_p(descriptors[0]), 1)
        return driver.first_byte(driver.map(allocation))

    def pinned() -> int:
        memory = mmap.mmap(-1, PINNED_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        driver.call("cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(PINNED_BYTES), 0)
        return 0

    return {
        "memory": tried(memory, 7), "event": tried(event, 0), "descriptor": tried(descriptor, 9), "pinned": tried(pinned, 0),
    }  # fmt: skip


def tried(attempt: Callable[[], int], expected: int) -> str:
    try:
        found = attempt()
    except RuntimeError as error:
        return str(error)
    return "works" if found == expected else f"wrong byte {found}"


def ask(command: Sequence[str], handles: bytes, descriptor: int) -> dict[str, str]:
    """The results of a process in other surroundings."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = [*command, sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())]
        child = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True)
        socket.send_fds(ours, [handles], [descriptor])
        said, _ = child.communicate(timeout=120)
    found: dict[str, str] = json.loads(said) if said else dict.fromkeys(("memory", "event", *WANTED), f"no answer, exit code {child.returncode}")
    return found


def main() -> int:
    if len(sys.argv) == 2:
        with socket.socket(fileno=int(sys.argv[1])) as channel:
            print(json.dumps(borrow(channel)))
        return 0
    handles, descriptor = lend(Driver())
    shared = Path("/dev/shm")
    for file in sorted(shared.glob("cuda*")):
        print(f"# {file} {oct(file.stat().st_mode & 0o777)}, made for handles of this process {os.getpid()}")
    failed = 0
    for name, command in SURROUNDINGS.items():
        found = ask(command, handles, descriptor)
        print(f"{name}: " + "; ".join(f"{what} {how}" for what, how in found.items()), flush=True)
        failed += sum(found[what] != "works" for what in WANTED)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
