"""The kernels of encoded blocks on the CPU: their sources, compiled as C++. It says what they compute, and nothing of their speed."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from checks.shared.checkout import ROOT

_SOURCES = ROOT / "tiers" / "src" / "main" / "cuda"
_THREAD_BLOCKS = 2


class HostMemory:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array.view(np.uint8).reshape(-1).copy()

    @property
    def address(self) -> int:
        return self.array.ctypes.data

    def read(self) -> np.ndarray:
        return self.array


class Emulation:
    """The kernels of one encoding."""

    def __init__(self, kind: str, folder: Path) -> None:
        """Compiles them into a library in `folder`."""
        library = folder / f"{kind}.so"
        command = [
            "g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-x", "c++", f'-DKERNELS="{_SOURCES}/{kind}_granules.cu"',
            "-Wno-subobject-linkage", "-fconstexpr-ops-limit=1000000000", str(Path(__file__).with_name("cuda_on_a_cpu.hpp")), "-o", str(library),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))

    def memory(self, array: np.ndarray, pinned: bool = False) -> HostMemory:
        return HostMemory(array)

    def run(self, kind: str, encodes: bool, table: HostMemory, counts: Sequence[int], flaws: HostMemory) -> None:
        function = self.library.encode if encodes else self.library.decode
        function(_THREAD_BLOCKS, ctypes.c_void_p(table.address), (ctypes.c_uint * 4)(*counts), ctypes.c_void_p(flaws.address))
