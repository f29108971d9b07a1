"""The kernels of encoded blocks on a real GPU, against the C core: equal bytes, equal verdicts on damaged bytes, and no byte elsewhere;
and their speed.

Started by "run granules" in the folder that scripts/gpu-check packs. Needs CUDA, torch and NumPy. Run it under compute-sanitizer to see
that no access is out of bounds.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from checks.gpu.granule_cases import ELEMENTS, ENTRY, FORM, ONE_RUN, Memory, Unequal, compare, table_of
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool
from kvtier import _core
from kvtier._encoding import KINDS

THREADS = 512
THREAD_BLOCKS = (8, 64, 264)
"""of the kernels: the first number for comparisons, and all of them for speed"""
TIMED_ENTRIES, TIMED_GRANULES, TIMED_ELEMENTS = 1024, 64, 2048


class GpuMemory:
    def __init__(self, array: np.ndarray, pinned: bool) -> None:
        self.tensor = torch.from_numpy(array.view(np.uint8).reshape(-1))
        self.tensor = self.tensor.pin_memory() if pinned else self.tensor.cuda()

    @property
    def address(self) -> int:
        return int(self.tensor.data_ptr())

    def read(self) -> np.ndarray:
        return self.tensor.cpu().numpy()


class Gpu:
    """The kernels in the jar of the tiers, on the first GPU."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.modules = {kind: self.load(kind) for kind in KINDS}

    def load(self, kind: str) -> ctypes.c_void_p:
        jar = next(Path(ROOT, "lib").glob("kvtier-tiers*.jar"))
        with zipfile.ZipFile(jar) as entries:
            ptx = entries.read(f"io/kvtier/tiers/gpu/{kind}_granules.ptx") + b"\0"
        module = ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), ptx))
        return module

    @staticmethod
    def check(code: int) -> None:
        if code != 0:
            sys.exit(f"gpu-check: CUDA error {code}")

    def memory(self, array: np.ndarray, pinned: bool = False) -> GpuMemory:
        return GpuMemory(array, pinned)

    def run(self, kind: str, encodes: bool, table: Memory, counts: Sequence[int], flaws: Memory) -> None:
        self.launch(kind, encodes, table, counts, flaws, THREAD_BLOCKS[0])
        torch.cuda.synchronize()

    def launch(self, kind: str, encodes: bool, table: Memory, counts: Sequence[int], flaws: Memory, thread_blocks: int) -> None:
        function = ctypes.c_void_p()
        name = b"kvtier_encode_granules" if encodes else b"kvtier_decode_granules"
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.modules[kind], name))
        values = [ctypes.c_uint64(table.address), *map(ctypes.c_uint32, counts), ctypes.c_uint64(flaws.address)]
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.check(self.cuda.cuLaunchKernel(function, thread_blocks, 1, 1, THREADS, 1, 1, 0, None, parameters, None))


def show_speed(gpu: Gpu, kind: str) -> None:
    """Prints the speed of both kernels alone, from one place in the GPU's memory to another, in raw bytes a second."""
    raw_bytes, encoded_bytes = (TIMED_GRANULES * size for size in (2 * TIMED_ELEMENTS, _core.granule_bytes(kind, TIMED_ELEMENTS)))
    raw = torch.empty(TIMED_ENTRIES * raw_bytes // 2, dtype=torch.bfloat16, device="cuda").normal_()
    encoded = torch.empty(TIMED_ENTRIES * encoded_bytes, dtype=torch.uint8, device="cuda")
    flaws = gpu.memory(np.zeros(TIMED_ENTRIES, dtype=np.uint8), pinned=True)
    number = np.arange(TIMED_ENTRIES, dtype=np.uint64)
    for encodes, name in ((True, "encode"), (False, "decode")):
        entries = np.zeros(TIMED_ENTRIES, dtype=ENTRY)
        entries["source" if encodes else "target"] = raw.data_ptr() + number * raw_bytes
        entries["target" if encodes else "source"] = encoded.data_ptr() + number * encoded_bytes
        entries["form"], entries["bytes"], entries["place"] = ONE_RUN, raw_bytes, number
        table = gpu.memory(table_of(np.zeros(0, dtype=FORM), entries), pinned=True)
        counts = (0, TIMED_ENTRIES, TIMED_GRANULES, TIMED_ELEMENTS)
        for blocks in THREAD_BLOCKS:
            times = []
            for _ in range(10):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                gpu.launch(kind, encodes, table, counts, flaws, blocks)
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end))
            speed = TIMED_ENTRIES * raw_bytes / statistics.median(times) / 1e6
            print(f"{kind}: {name} with {blocks:3} thread blocks of {THREADS}: {speed:7.1f} GB/s", flush=True)
    if flaws.read().any():
        sys.exit(f"gpu-check: {kind}: normal values do not fit, or come back damaged")


def main() -> int:
    parser = Arguments(prog="gpu-check granules", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4, help="how often granules of each size are damaged")
    rounds = parser.parse_args().rounds
    gpu = Gpu()
    try:
        for kind in KINDS:
            print(f"{kind}: {compare(gpu, kind, ELEMENTS, rounds)}", flush=True)
            show_speed(gpu, kind)
    except Unequal as error:
        sys.exit(f"gpu-check: {error}")
    return 0


if __name__ == "__main__":
    run_tool(main)
