"""Memory of CUDA's virtual memory management, which has no IPC handle: torch's expandable segments."""

import bisect
import ctypes
import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from kvtier._errors import KvtierError
from kvtier.device import ExportedMemory

_POSIX_DESCRIPTOR = 1
"""CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"""


@cache
def driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KvtierError(f"there is no NVIDIA driver: {error}") from None


class Exported:
    """The allocations behind some spans of addresses: what lies one behind the other is one memory."""

    def __init__(self, spans: Sequence[tuple[int, int]], device: Any) -> None:
        """Looks them up.

        Args:
            spans: (first address, one past the last) of each tensor.
            device: torch's, which they are on.

        Raises:
            KvtierError: there is no memory, or none that can be exported.
        """
        sizes: dict[int, int] = {}
        for begin, end in spans:
            at = begin
            while at < end:
                base, size = _piece(at)
                sizes[base] = size
                at = base + size
        runs: list[list[int]] = []
        for base in sorted(sizes):
            if runs and runs[-1][-1] + sizes[runs[-1][-1]] == base:
                runs[-1].append(base)
            else:
                runs.append([base])
        self._begins = [run[0] for run in runs]
        self._memories = [_memory(run, [sizes[base] for base in run], device) for run in runs]

    def place(self, address: int) -> tuple[ExportedMemory, int]:
        """The memory that holds an address, and the address's offset in it."""
        run = bisect.bisect_right(self._begins, address) - 1
        return self._memories[run], address - self._begins[run]


def _memory(bases: Sequence[int], sizes: Sequence[int], device: Any) -> ExportedMemory:
    def export(number: int) -> int:
        # Registered anew after a restart of the daemon, by another thread.
        with importlib.import_module("torch").cuda.device(device):
            return _export(bases[number])

    return ExportedMemory(tuple(sizes), export)


def _piece(address: int) -> tuple[int, int]:
    base = ctypes.c_uint64()
    size = ctypes.c_size_t()
    code = driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    if code != 0 or size.value == 0:
        raise KvtierError(f"there is no device memory at {address:#x} (CUDA error {code})")
    return base.value, size.value


def _export(address: int) -> int:
    handle = ctypes.c_uint64()
    code = driver().cuMemRetainAllocationHandle(ctypes.byref(handle), ctypes.c_void_p(address))
    if code != 0:
        raise KvtierError(
            f"the memory at {address:#x} can't be shared with the daemon (CUDA error {code}): it must come from cudaMalloc or "
            "from torch's own allocator; what cudaMallocAsync gives (backend:cudaMallocAsync) can't be shared"
        )
    descriptor = ctypes.c_int(-1)
    try:
        code = driver().cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, _POSIX_DESCRIPTOR, ctypes.c_uint64(0))
    finally:
        driver().cuMemRelease(handle)
    if code != 0:
        raise KvtierError(
            f"the memory at {address:#x} can't be shared with the daemon (CUDA error {code}): its allocator did not make it "
            "exportable as a descriptor, as torch's expandable segments are"
        )
    return descriptor.value
