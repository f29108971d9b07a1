"""Granules that the kernels of encoded blocks and the C core encode and decode alike: equal bytes, equal verdicts on damaged bytes, and no
byte elsewhere."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kvtier import _core

ELEMENTS = (512, 640, 1152, 2048, 9216, 16384)
GRANULES_EACH = 3
"""of an entry"""
ENTRIES = 40
TOKENS, HEADS = 4, 2
FORMS_MAX, ONE_RUN = 8, 0xFFFFFFFF
FORM = np.dtype([("source", "<u8", 3), ("target", "<u8", 3), ("run", "<u4"), ("counts", "<u4", 2), ("alignment", "<u4")])
ENTRY = np.dtype([("source", "<u8"), ("target", "<u8"), ("form", "<u4"), ("from", "<u4"), ("bytes", "<u4"), ("place", "<u4")])
UNTOUCHED = 0x5A


class Unequal(Exception):
    """A kernel made other bytes than the C core."""


class Memory(Protocol):
    """Bytes that kernels see."""

    @property
    def address(self) -> int: ...

    def read(self) -> np.ndarray:
        """The bytes as they are now."""
        ...


class Device(Protocol):
    """A device, or an emulation of one, that runs kernels."""

    def memory(self, array: np.ndarray, pinned: bool = False) -> Memory:
        """A copy of an array on the device, or in pinned memory of the host."""
        ...

    def run(self, kind: str, encodes: bool, table: Memory, counts: Sequence[int], flaws: Memory) -> None:
        """Runs one of an encoding's kernels, until it is over.

        Args:
            encodes: or else it decodes.
            counts: of the forms, of the entries, of an entry's granules, and of a granule's elements.
        """
        ...


def values(count: int, generator: np.random.Generator) -> np.ndarray:
    """bf16 as a model computes it; here and there with exponents of any size."""
    made = (generator.standard_normal(count, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    wild = generator.random(count) < 0.002
    made[wild] = generator.integers(0, 1 << 16, int(wild.sum()))
    return made


def spread(count: int, generator: np.random.Generator) -> np.ndarray:
    """bf16 with exponents of a window that is wider than any encoding's, anywhere."""
    most = int(generator.integers(0, 256))
    exponents = generator.integers(max(0, most - 24), most + 1, count)
    return (exponents << 7 | generator.integers(0, 1 << 7, count) | generator.integers(0, 2, count) << 15).astype(np.uint16)


def table_of(forms: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """The bytes of a table, with unused places for forms."""
    table = np.zeros(FORMS_MAX * FORM.itemsize + entries.nbytes, dtype=np.uint8)
    table[: forms.nbytes] = forms.view(np.uint8).reshape(-1)
    table[FORMS_MAX * FORM.itemsize :] = entries.view(np.uint8).reshape(-1)
    return table


class Case:
    """Granules of one encoding and size, in one piece each or in runs that lie apart."""

    def __init__(self, device: Device, kind: str, elements: int, apart: bool, seed: int) -> None:
        self.device, self.kind, self.elements, self.apart = device, kind, elements, apart
        self.raw_bytes, self.encoded_bytes = 2 * elements, _core.granule_bytes(kind, elements)
        self.count = ENTRIES * GRANULES_EACH
        self.generator = np.random.default_rng(seed)
        self.chance = random.Random(seed)
        self.raw = values(self.count * elements, self.generator).reshape(self.count, elements)
        unlike = self.chance.sample(range(self.count), 16)
        for unfit in unlike[:5]:
            self.raw[unfit] = self.generator.integers(0, 1 << 16, elements)
        for wide in unlike[5:]:
            self.raw[wide] = spread(elements, self.generator)
        self.raw[0] = 0
        # A granule's runs are its tokens; the heads of a token lie side by side, and an entry has three heads' worth of granules.
        self.run = self.raw_bytes // TOKENS if apart else self.raw_bytes
        self.token_stride = GRANULES_EACH * self.run + 64 if apart else 0
        self.entry_stride = TOKENS * self.token_stride if apart else GRANULES_EACH * self.raw_bytes + 64
        granule = np.arange(self.count)
        first = granule // GRANULES_EACH * self.entry_stride + granule % GRANULES_EACH * self.run
        tokens = np.arange(TOKENS if apart else 1) * self.token_stride
        self.places = (first[:, None, None] + tokens[None, :, None] + np.arange(self.run)[None, None, :]).reshape(self.count, self.raw_bytes)
        self.memory_bytes = ENTRIES * self.entry_stride

    def launch(self, encodes: bool, device: Memory, encoded: Memory) -> list[bool]:
        """Encodes or decodes all granules; returns which entries have a flaw."""
        form, entries = self.table(device.address, encoded.address, encodes)
        table = table_of(form, entries)
        flaws = self.device.memory(np.zeros(len(entries), dtype=np.uint8), pinned=True)
        counts = (form.size, len(entries), GRANULES_EACH, self.elements)
        self.device.run(self.kind, encodes, self.device.memory(table, pinned=True), counts, flaws)
        return [bool(flaw) for flaw in flaws.read()]

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
            fits.append(_core.encode(self.kind, to, self.raw[granule].tobytes(), self.elements)[0] == 1)
            expected[granule] = np.frombuffer(to, dtype=np.uint8)
        encoded = self.device.memory(np.full(self.count * self.encoded_bytes + 64, UNTOUCHED, dtype=np.uint8))
        flaws = self.launch(True, self.device.memory(memory), encoded)
        made = encoded.read()
        self.require(flaws == self.flaws_of(fits), "other granules do not fit")
        self.require(bool((made[-64:] == UNTOUCHED).all()), "bytes behind the encoded granules were written")
        made = made[:-64].reshape(self.count, self.encoded_bytes)
        self.require(bool((made[fits] == expected[fits]).all()), "the encoded bytes are others")
        return expected

    def decode(self, encoded: np.ndarray) -> int:
        """Decodes damaged bytes by the GPU, and compares; returns how many granules are damaged."""
        damaged = encoded.copy()
        for granule in range(self.count):
            match self.chance.randrange(16):
                case 0:
                    damaged[granule, self.chance.randrange(self.encoded_bytes)] ^= 1 << self.chance.randrange(8)
                case 1:
                    damaged[granule, self.chance.randrange(6)] ^= 1 << self.chance.randrange(8)
                case 2:
                    damaged[granule, : 4 + self.chance.randrange(40)] = self.chance.randrange(256)
                case 3:
                    damaged[granule] = self.generator.integers(0, 256, self.encoded_bytes)
                case 4 | 5 | 6 | 7:
                    # Its checksum is right, whatever the rest of the header says of its zeros.
                    damaged[granule] = encoded[0]
                    byte = self.chance.choice((0, 1, 17, 18, 254, 255, self.chance.randrange(256)))
                    damaged[granule, self.chance.randrange(4, min(self.elements // 64, 16))] = byte
        memory = np.full(self.memory_bytes, UNTOUCHED, dtype=np.uint8)
        expected = np.zeros((self.count, self.raw_bytes), dtype=np.uint8)
        sound = []
        for granule in range(self.count):
            to = bytearray(self.raw_bytes)
            sound.append(_core.decode(self.kind, to, damaged[granule].tobytes(), self.elements)[0] == 1)
            expected[granule] = np.frombuffer(to, dtype=np.uint8)
        device = self.device.memory(memory)
        flaws = self.launch(False, device, self.device.memory(damaged))
        made = device.read()
        self.require(flaws == self.flaws_of(sound), "other granules are damaged")
        self.require(bool((made[self.places][sound] == expected[sound]).all()), "the decoded bytes are others")
        elsewhere = np.ones(self.memory_bytes, dtype=bool)
        elsewhere[self.places] = False
        self.require(bool((made[elsewhere] == UNTOUCHED).all()), "bytes were written that are no granule's")
        return self.count - sum(sound)

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            raise Unequal(f"{self.kind}, granules of {self.elements} elements, {'in runs' if self.apart else 'in one piece'}: {what}")


def compare(device: Device, kind: str, sizes: Sequence[int], rounds: int) -> str:
    """Compares the kernels of an encoding with the C core; says what was compared.

    Args:
        sizes: elements of granules.
        rounds: how often granules of each size are made, and damaged.

    Raises:
        Unequal: they do not do the same.
    """
    compared = damaged = 0
    for elements in sizes:
        for apart in (False, True):
            for turn in range(rounds):
                case = Case(device, kind, elements, apart, turn)
                damaged += case.decode(case.encode())
                compared += case.count
    return f"{compared} granules encoded and decoded as the C core does, {damaged} of them damaged in between"
