"""The kernels of encoded blocks on a real GPU, against the C core: equal bytes, equal verdicts on damaged bytes, and no byte elsewhere.

Started by "run granules" in the folder that scripts/gpu-check packs. Needs CUDA, torch and NumPy. Run it under compute-sanitizer to see
that no access is out of bounds.
"""

from __future__ import annotations

import ctypes
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool
from kvtier import _core

ELEMENTS = (512, 640, 1152, 2048, 9216, 16384)
GRANULES_EACH = 3
"""of an entry"""
ENTRIES = 40
TOKENS, HEADS = 4, 2
FORMS_MAX, THREADS, THREAD_BLOCKS, ONE_RUN = 8, 512, 8, 0xFFFFFFFF
FORM = np.dtype([("source", "<u8", 3), ("target", "<u8", 3), ("run", "<u4"), ("counts", "<u4", 2), ("alignment", "<u4")])
ENTRY = np.dtype([("source", "<u8"), ("target", "<u8"), ("form", "<u4"), ("from", "<u4"), ("bytes", "<u4"), ("place", "<u4")])
UNTOUCHED = 0x5A


class Kernels:
    """Both kernels, from the jar of the tiers."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        jar = next(Path(ROOT, "lib").glob("kvtier-tiers*.jar"))
        with zipfile.ZipFile(jar) as entries:
            ptx = entries.read("io/kvtier/tiers/gpu/exact_granules.ptx") + b"\0"
        self.module = ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(self.module), ptx))

    @staticmethod
    def check(code: int) -> None:
        if code != 0:
            sys.exit(f"gpu-check: CUDA error {code}")

    def launch(self, name: str, form: np.ndarray, entries: np.ndarray, elements: int) -> list[bool]:
        """Runs a kernel; returns which entries have a flaw."""
        function = ctypes.c_void_p()
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()))
        table = np.zeros(FORMS_MAX * FORM.itemsize + entries.nbytes, dtype=np.uint8)
        table[: form.nbytes] = form.view(np.uint8).reshape(-1)
        table[FORMS_MAX * FORM.itemsize :] = entries.view(np.uint8).reshape(-1)
        pinned = torch.from_numpy(table).pin_memory()
        flaws = torch.zeros(len(entries), dtype=torch.uint8).pin_memory()
        values = [
            ctypes.c_uint64(pinned.data_ptr()), ctypes.c_uint32(form.size), ctypes.c_uint32(len(entries)), ctypes.c_uint32(GRANULES_EACH),
            ctypes.c_uint32(elements), ctypes.c_uint64(flaws.data_ptr()),
        ]  # fmt: skip
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.check(self.cuda.cuLaunchKernel(function, THREAD_BLOCKS, 1, 1, THREADS, 1, 1, 0, None, parameters, None))
        torch.cuda.synchronize()
        return [bool(flaw) for flaw in flaws]


def values(count: int, generator: np.random.Generator) -> np.ndarray:
    """bf16 as a model computes it; here and there with exponents of any size."""
    made = (generator.standard_normal(count, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    wild = generator.random(count) < 0.002
    made[wild] = generator.integers(0, 1 << 16, int(wild.sum()))
    return made


class Case:
    """Granules of one size, in one piece each or in runs that lie apart."""

    def __init__(self, kernels: Kernels, elements: int, apart: bool, seed: int) -> None:
        self.kernels, self.elements, self.apart = kernels, elements, apart
        self.raw_bytes, self.encoded_bytes = 2 * elements, _core.granule_bytes("exact", elements)
        self.count = ENTRIES * GRANULES_EACH
        self.generator = np.random.default_rng(seed)
        self.chance = random.Random(seed)
        self.raw = values(self.count * elements, self.generator).reshape(self.count, elements)
        for unfit in self.chance.sample(range(self.count), 5):
            self.raw[unfit] = self.generator.integers(0, 1 << 16, elements)
        # A granule's runs are its tokens; the heads of a token lie side by side, and an entry has three heads' worth of granules.
        self.run = self.raw_bytes // TOKENS if apart else self.raw_bytes
        self.token_stride = GRANULES_EACH * self.run + 64 if apart else 0
        self.entry_stride = TOKENS * self.token_stride if apart else GRANULES_EACH * self.raw_bytes + 64
        granule = np.arange(self.count)
        first = granule // GRANULES_EACH * self.entry_stride + granule % GRANULES_EACH * self.run
        tokens = np.arange(TOKENS if apart else 1) * self.token_stride
        self.places = (first[:, None, None] + tokens[None, :, None] + np.arange(self.run)[None, None, :]).reshape(self.count, self.raw_bytes)
        self.memory_bytes = ENTRIES * self.entry_stride

    def table(self, device: int, encoded: int, encodes: bool) -> tuple[np.ndarray, np.ndarray]:
        form = np.zeros(1, dtype=FORM)
        form["source" if encodes else "target"] = (self.token_stride, self.run, 0)
        form["run"], form["counts"] = self.run, (TOKENS, GRANULES_EACH)
        entries = np.zeros(ENTRIES, dtype=ENTRY)
        number = np.arange(ENTRIES)
        entries["source" if encodes else "target"] = device + number * self.entry_stride
        entries["target" if encodes else "source"] = encoded + number * GRANULES_EACH * self.encoded_bytes
        entries["form"] = 0 if self.apart else ONE_RUN
        entries["bytes"], entries["place"] = GRANULES_EACH * self.raw_bytes, number
        return form, entries

    def flaws_of(self, is_sound: list[bool]) -> list[bool]:
        return [not all(is_sound[at : at + GRANULES_EACH]) for at in range(0, self.count, GRANULES_EACH)]

    def encode(self) -> np.ndarray:
        """Encodes by the GPU, and compares; returns what the C core makes."""
        memory = np.full(self.memory_bytes, UNTOUCHED, dtype=np.uint8)
        memory[self.places] = self.raw.view(np.uint8)
        expected = np.zeros((self.count, self.encoded_bytes), dtype=np.uint8)
        fits = []
        for granule in range(self.count):
            to = bytearray(self.encoded_bytes)
            fits.append(_core.encode("exact", to, self.raw[granule].tobytes(), self.elements)[0] == 1)
            expected[granule] = np.frombuffer(to, dtype=np.uint8)
        device = torch.from_numpy(memory).cuda()
        encoded = torch.full((self.count * self.encoded_bytes + 64,), UNTOUCHED, dtype=torch.uint8, device="cuda")
        flaws = self.kernels.launch("kvtier_encode_granules", *self.table(device.data_ptr(), encoded.data_ptr(), True), self.elements)
        made = encoded.cpu().numpy()
        self.require(flaws == self.flaws_of(fits), "other granules do not fit")
        self.require(bool((made[-64:] == UNTOUCHED).all()), "bytes behind the encoded granules were written")
        made = made[:-64].reshape(self.count, self.encoded_bytes)
        self.require(bool((made[fits] == expected[fits]).all()), "the encoded bytes are others")
        return expected

    def decode(self, encoded: np.ndarray) -> int:
        """Decodes damaged bytes by the GPU, and compares; returns how many granules are damaged."""
        damaged = encoded.copy()
        for granule in range(self.count):
            match self.chance.randrange(6):
                case 0:
                    damaged[granule, self.chance.randrange(self.encoded_bytes)] ^= 1 << self.chance.randrange(8)
                case 1:
                    damaged[granule, self.chance.randrange(6)] ^= 1 << self.chance.randrange(8)
                case 2:
                    damaged[granule, : 4 + self.chance.randrange(40)] = self.chance.randrange(256)
                case 3:
                    damaged[granule] = self.generator.integers(0, 256, self.encoded_bytes)
        memory = np.full(self.memory_bytes, UNTOUCHED, dtype=np.uint8)
        expected = np.zeros((self.count, self.raw_bytes), dtype=np.uint8)
        sound = []
        for granule in range(self.count):
            to = bytearray(self.raw_bytes)
            sound.append(_core.decode("exact", to, damaged[granule].tobytes(), self.elements)[0] == 1)
            expected[granule] = np.frombuffer(to, dtype=np.uint8)
        device = torch.from_numpy(memory).cuda()
        source = torch.from_numpy(damaged).cuda()
        flaws = self.kernels.launch("kvtier_decode_granules", *self.table(device.data_ptr(), source.data_ptr(), False), self.elements)
        made = device.cpu().numpy()
        self.require(flaws == self.flaws_of(sound), "other granules are damaged")
        self.require(bool((made[self.places][sound] == expected[sound]).all()), "the decoded bytes are others")
        elsewhere = np.ones(self.memory_bytes, dtype=bool)
        elsewhere[self.places] = False
        self.require(bool((made[elsewhere] == UNTOUCHED).all()), "bytes were written that are no granule's")
        return self.count - sum(sound)

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            sys.exit(f"gpu-check: granules of {self.elements} elements, {'in runs' if self.apart else 'in one piece'}: {what}")


def main() -> int:
    parser = Arguments(prog="gpu-check granules", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4, help="how often granules of each size are damaged")
    rounds = parser.parse_args().rounds
    kernels = Kernels()
    compared = damaged = 0
    for elements in ELEMENTS:
        for apart in (False, True):
            for turn in range(rounds):
                case = Case(kernels, elements, apart, turn)
                damaged += case.decode(case.encode())
                compared += case.count
    print(f"{compared} granules encoded and decoded as the C core does, {damaged} of them damaged in between")
    return 0


if __name__ == "__main__":
    run_tool(main)
