"""The GPU tier on a real GPU: this process owns torch tensors as an engine does, a JVM opens them and copies.

Started by scripts/gpu-check, or by "run" in the folder that it packs. Needs CUDA, torch and NumPy, and nothing of kvtier's
but what lies beside it. Prints one table, and with --json writes the same as one file.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool, some_of

try:
    import numpy as np
    import torch

    from checks.gpu.work import loops, pass_ms
except ImportError as e:
    sys.exit(f"gpu-check needs a Python with torch and NumPy, and {sys.executable} lacks one ({e}): name another in PYTHON3")

PARTS = ("footprint", "refusals", "correctness", "ordering", "engines", "speed", "interference", "faults")
try:
    LIBCUDA = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    sys.exit(f"gpu-check needs an NVIDIA driver: {e}")


def check(code: int) -> None:
    if code != 0:
        raise RuntimeError(f"CUDA error {code}")


def place(tensor: torch.Tensor) -> tuple[str, int]:
    """The IPC handle of a tensor's allocation, and the tensor's offset in it."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    check(LIBCUDA.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(tensor.data_ptr())))
    handle = (ctypes.c_ubyte * 64)()
    check(LIBCUDA.cuIpcGetMemHandle(ctypes.byref(handle), base))
    return bytes(handle).hex(), tensor.data_ptr() - base.value


class Failure(Exception):
    """The JVM said that a command failed, or a comparison did."""


class Jvm:
    """The other process: one command a line, answered by rows and a last line."""

    def __init__(self, device: str) -> None:
        java = os.environ.get("KVTIER_JAVA", str(ROOT / "runtime" / "bin" / "java"))
        self.process = subprocess.Popen(
            [java, "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC", "-Xmx512m", "-XX:-UsePerfData",
             "-cp", str(ROOT / "lib" / "*"), "io.kvtier.bench.gpu.GpuCheck", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.rows: list[tuple[str, float, str]] = []
        self.greeting = self.answer()

    def answer(self) -> str:
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failure(f"the JVM ended: {self.process.wait()}")
            line = line.strip()
            if line.startswith("row "):
                _, name, value, unit = line.split(" ")
                self.rows.append((name, float(value), unit))
            elif line.startswith("failed"):
                raise Failure(line)
            elif line.startswith(("ok", "refused")):
                return line

    def ask(self, verb: str, **words: object) -> str:
        self.process.stdin.write(" ".join([verb, *(f"{name}={value}" for name, value in words.items())]) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def take_rows(self) -> dict[str, float]:
        taken = {name: value for name, value, _ in self.rows}
        self.rows.clear()
        return taken

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


@dataclasses.dataclass
class Part:
    name: str
    axes: str
    extents: list[int]
    dtype: torch.dtype
    block_heads: int = 0
    first_head: int = 0

    def extent(self, axis: str) -> int:
        return self.extents[self.axes.index(axis)] if axis in self.axes else 1

    @property
    def heads_in_block(self) -> int:
        return self.block_heads or self.extent("H")


@dataclasses.dataclass
class Pool:
    """The tensors of an engine, and how a block of them lies on the host."""

    layers: int
    blocks: int
    tokens: int
    order: str
    parts: list[Part]
    device: str

    def __post_init__(self) -> None:
        self.tensors: list[list[torch.Tensor]] = []
        for part in self.parts:
            count = 1 if "L" in part.axes else self.layers
            self.tensors.append([self.noise(part) for _ in range(count)])

    @staticmethod
    def noise(part: Part) -> torch.Tensor:
        """Random bits, which are what they are in any dtype."""
        size = torch.empty((), dtype=part.dtype).element_size()
        raw = torch.randint(0, 256, (math.prod(part.extents) * size,), dtype=torch.uint8, device="cuda")
        return raw.view(part.dtype).view(part.extents)

    def register(self, jvm: Jvm, name: str, **changed: object) -> str:
        words = {
            "id": name, "device": self.device, "layers": self.layers, "blocks": self.blocks, "tokens": self.tokens,
            "order": self.order,
            "parts": ";".join(
                ":".join([p.name, p.axes, ",".join(map(str, p.extents)), ",".join(map(str, t[0].stride())),
                          str(t[0].element_size()), str(p.heads_in_block), str(p.first_head)])
                for p, t in zip(self.parts, self.tensors)),
            "tensors": ",".join("%s+%d" % place(tensor) for tensors in self.tensors for tensor in tensors),
        }
        torch.cuda.synchronize()
        return jvm.ask("register", **{**words, **changed})

    def bits(self) -> list[list[np.ndarray]]:
        """A copy of all tensors, as bytes: the last axis is the bytes of an element."""
        torch.cuda.synchronize()
        return [
            [t.contiguous().view(torch.uint8).cpu().numpy().reshape(*p.extents, t.element_size()) for t in tensors]
            for p, tensors in zip(self.parts, self.tensors)
        ]

    @property
    def host_axes(self) -> str:
        axes = self.order[:-1]
        return axes if "H" in axes else axes + "H"

    def part_bytes(self, part: Part) -> int:
        size = torch.empty((), dtype=part.dtype).element_size()
        tokens = self.tokens if "N" in part.axes else 1
        return self.layers * part.extent("C") * tokens * part.heads_in_block * part.extent("D") * size

    def block_bytes(self) -> int:
        at = 0
        for part in self.parts:
            at = -(-at // 16) * 16 + self.part_bytes(part)
        return at

    def one_layer(self, index: int, bits: list[np.ndarray], block: int, layer: int) -> np.ndarray:
        """A view of one layer's cells of a block: host_axes, of which L has length 1, then D and bytes."""
        part = self.parts[index]
        axes = part.axes + "b"
        if "L" in axes:
            tensor = bits[0][(slice(None),) * axes.index("L") + (slice(layer, layer + 1),)]
        else:
            tensor = bits[layer]
        if "B" in axes:
            tensor = tensor[(slice(None),) * axes.index("B") + (block,)]
            axes = axes.replace("B", "")
        else:
            first = block * self.tokens
            tensor = tensor[(slice(None),) * axes.index("N") + (slice(first, first + self.tokens),)]
        for axis in "LCNHD":
            if axis not in axes:
                tensor = tensor[np.newaxis]
                axes = axis + axes
        return tensor.transpose([axes.index(axis) for axis in self.host_axes + "Db"])

    def host_view(self, index: int, slot: np.ndarray) -> np.ndarray:
        """A view of a part in a slot: axes of host_axes, then D and bytes."""
        at = 0
        for part in self.parts[:index]:
            at = -(-at // 16) * 16 + self.part_bytes(part)
        at = -(-at // 16) * 16
        part = self.parts[index]
        size = torch.empty((), dtype=part.dtype).element_size()
        extents = {"L": self.layers, "C": part.extent("C"), "N": self.tokens if "N" in part.axes else 1,
                   "H": part.heads_in_block}
        shape = [extents[axis] for axis in self.host_axes] + [part.extent("D"), size]
        return slot[at:at + self.part_bytes(part)].reshape(shape)

    def copy(self, slot: np.ndarray, bits: list[list[np.ndarray]], block: int, layers: range, heads: range, to_host: bool) -> None:
        """Makes the expected result of a copy with NumPy."""
        axes = self.host_axes
        for index, part in enumerate(self.parts):
            host = self.host_view(index, slot)
            own = part.extent("H")
            some = heads if own > 1 else range(1)
            for layer in layers:
                device = self.one_layer(index, bits[index], block, layer)
                where: list[slice] = [slice(None)] * 4
                where[axes.index("L")] = slice(layer, layer + 1)
                where[axes.index("H")] = slice(part.first_head + some.start, part.first_head + some.stop)
                from_heads = [slice(None)] * 4
                from_heads[axes.index("H")] = slice(some.start, some.stop)
                if to_host:
                    host[tuple(where)] = device[tuple(from_heads)]
                else:
                    device[tuple(from_heads)] = host[tuple(where)]


class Check:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.quick = arguments.quick
        self.tuning = arguments.tuning
        if not torch.cuda.is_available():
            sys.exit("gpu-check needs a GPU: torch sees none")
        torch.zeros(1, device="cuda")
        self.properties = torch.cuda.get_device_properties(0)
        self.uuid = str(self.properties.uuid)
        self.free_before_jvm = torch.cuda.mem_get_info()[0]
        self.jvm = Jvm(self.uuid)
        self.rows: list[dict[str, object]] = []
        self.host_bytes = (1 if self.quick else 2) << 30
        self.host_path = pathlib.Path(f"/dev/shm/kvtier-gpu-check-{os.getpid()}")
        self.host_path.touch()
        os.truncate(self.host_path, self.host_bytes)
        self.host = np.memmap(self.host_path, dtype=np.uint8, mode="r+")
        self.host[:] = 1
        self.jvm.ask("host", path=self.host_path)
        self.problems: list[str] = []

    def row(self, name: str, value: float, unit: str, limit_name: str = "", limit: float = math.nan) -> None:
        self.rows.append({"name": name, "value": value, "unit": unit, "limit_name": limit_name, "limit": limit,
                          "ratio": value / limit if limit else math.nan})

    # Correctness

    def layouts(self, dtype: torch.dtype, tokens: int) -> list[tuple[str, Pool]]:
        layers, blocks, heads, dim = 4, 6, 4, 32
        def pool(order: str, *parts: Part) -> Pool:
            return Pool(layers, blocks, tokens, order, list(parts), self.uuid)
        kv = lambda axes, **more: Part("kv", axes, [
            {"L": layers, "C": 2, "B": blocks, "N": tokens if "B" in axes else blocks * tokens, "H": heads, "D": dim}[a]
            for a in axes], dtype, **more)
        scales = lambda axes: Part("scales", axes, [
            {"L": layers, "C": 2, "B": blocks, "N": tokens, "H": heads}[a] for a in axes], torch.float32)
        return [
            ("NHD_planes_first", pool("LCND", kv("CBNHD"))),
            ("NHD_blocks_first", pool("LCND", kv("BCNHD"))),
            ("HND", pool("LCHND", kv("CBHND"))),
            ("HND_to_NHD", pool("LCND", kv("BCHND"))),
            ("HND_to_NHD_odd_cells", pool("LCND", Part("kv", "BCHND", [blocks, 2, heads, tokens, 33], dtype))),
            ("NHD_to_heads_first", pool("HLCND", kv("CBNHD"))),
            ("NHD_to_NCLD", pool("NCLD", kv("CBNHD"))),
            ("cross_layer", pool("LCND", kv("BLCNHD"))),
            ("NCLD_pool", pool("NCLD", kv("NCLHD"))),
            ("LCND_pool", pool("LCND", kv("LCNHD"))),
            ("MLA", pool("LCND", Part("kv", "BND", [blocks, tokens, 72], dtype))),
            ("scales", pool("LCND", kv("CBNHD"), scales("CBNH"))),
            ("scales_a_block", pool("LCND", kv("CBNHD"), scales("LBC"))),
            ("second_rank_of_two", pool("LCND", kv("CBNHD", block_heads=8, first_head=4))),
        ]

    def correctness(self) -> None:
        started, copies = time.time(), 0
        dtypes = [torch.bfloat16, torch.float16, torch.float8_e4m3fn]
        sizes = [16] if self.quick else [1, 16, 32, 64]
        strategies = ["PLAIN", "BATCH", "STAGED", "KERNEL"]
        chance = random.Random(7)
        for strategy in strategies:
            self.jvm.ask("use", strategy=strategy)
            for dtype in dtypes:
                for tokens in sizes:
                    for name, pool in self.layouts(dtype, tokens):
                        copies += self.one_layout(f"{name} {dtype} {tokens} tokens {strategy}", pool, chance)
        self.row("correctness_copies_compared", copies, "copies")
        self.row("correctness_seconds", time.time() - started, "s")

    def one_layout(self, what: str, pool: Pool, chance: random.Random) -> int:
        answer = pool.register(self.jvm, "layout")
        size = pool.block_bytes()
        if answer != f"ok {size}":
            raise Failure(f"{what}: {answer}, expected a block of {size} bytes")
        heads = max(part.extent("H") for part in pool.parts)
        stride = -(-size // 4096) * 4096
        ranges = [(range(pool.layers), range(heads)), (range(1, 3), range(heads)), (range(3, 4), range(0, max(1, heads // 2)))]
        for layers, some_heads in ranges:
            before = pool.bits()
            wanted_slots = self.host[:pool.blocks * stride].copy()
            wanted_bits = [[tensor.copy() for tensor in tensors] for tensors in before]
            sources = chance.sample(range(pool.blocks), 3)
            targets = [block for block in range(pool.blocks) if block not in sources]
            words = {"region": "layout", "layers": f"{layers.start}-{layers.stop}", "heads": f"{some_heads.start}-{some_heads.stop}"}
            offsets = [block * stride for block in sources]
            self.jvm.ask("copy", direction="OFFLOAD", blocks=",".join(map(str, sources)), offsets=",".join(map(str, offsets)), **words)
            self.jvm.ask("copy", direction="ONBOARD", blocks=",".join(map(str, targets)), offsets=",".join(map(str, offsets)), **words)
            for source, target, offset in zip(sources, targets, offsets):
                slot = wanted_slots[offset:offset + size]
                pool.copy(slot, before, source, layers, some_heads, to_host=True)
                pool.copy(slot, wanted_bits, target, layers, some_heads, to_host=False)
            if not np.array_equal(wanted_slots, self.host[:pool.blocks * stride]):
                raise Failure(f"{what}, layers {layers}, heads {some_heads}: wrong bytes on the host")
            for wanted, found in zip(wanted_bits, pool.bits()):
                if not all(np.array_equal(a, b) for a, b in zip(wanted, found)):
                    raise Failure(f"{what}, layers {layers}, heads {some_heads}: wrong bytes on the device")
        self.jvm.ask("unregister", id="layout")
        return 6 * len(ranges)

    def refusals(self) -> None:
        pool = self.layouts(torch.bfloat16, 16)[0][1]
        good = [place(tensor) for tensor in pool.tensors[0]]
        def expect(text: str, **changed: object) -> None:
            answer = pool.register(self.jvm, "refused", **changed)
            if not answer.startswith("refused") or text not in answer:
                raise Failure(f"expected a refusal with '{text}', not: {answer}")
            print("  " + answer, flush=True)
        listed = lambda places: ",".join("%s+%d" % p for p in places)
        expect("is not seen here", device="GPU-00000000-1111-2222-3333-444444444444")
        expect("is not within its allocation", tensors=listed([(good[0][0], 1 << 40), *good[1:]]))
        expect("overlap", tensors=listed([good[0], good[0], *good[2:]]))
        expect("expected 4 for this layout", tensors=listed(good[:3]))
        expect("whose owner lives", tensors=listed([("00" * 64, 0), *good[1:]]))
        own = self.jvm.ask("own").removeprefix("ok ")
        expect("tensor 0: cuIpcOpenMemHandle", tensors=listed([(own, 0), *good[1:]]))
        self.row("refusals_with_their_reason", 6, "cases")

    def ordering(self) -> None:
        """A put that carries an event of the engine's takes what the engine wrote before it, however late that comes."""
        pool = self.layouts(torch.bfloat16, 16)[0][1]
        pool.register(self.jvm, "late")
        self.jvm.ask("use", strategy="STAGED")
        rounds = 20
        for _ in range(rounds):
            torch.cuda._sleep(50_000_000)
            for tensor in pool.tensors[0]:
                tensor.copy_(Pool.noise(pool.parts[0]))
            event = torch.cuda.Event(interprocess=True)
            event.record()
            self.jvm.ask("copy", direction="OFFLOAD", region="late", blocks=2, offsets=0, layers="0-4", heads="0-4",
                         after=event.ipc_handle().hex())
            wanted = np.zeros(pool.block_bytes(), dtype=np.uint8)
            pool.copy(wanted, pool.bits(), 2, range(4), range(4), to_host=True)
            if not np.array_equal(wanted, self.host[:pool.block_bytes()]):
                raise Failure("a put did not wait for the engine's event")
        self.jvm.ask("unregister", id="late")
        self.row("puts_after_an_event_of_the_engine", rounds, "puts")

    def many_engines(self) -> None:
        """Four regions put and got at the same time, in both directions: each block's bits are its own."""
        pools = [self.llama(8, 16, 64) for _ in range(4)]
        size = pools[0].block_bytes()
        kept = []
        self.jvm.ask("use", strategy="CALIBRATED")
        for number, pool in enumerate(pools):
            pool.register(self.jvm, f"engine{number}")
            kept.append([tensor.clone() for tensor in pool.tensors[0]])
        torch.cuda.synchronize()
        # The first halves are put while the second halves, which were put before, are got.
        halves = [list(range(32)), list(range(32, 64))]
        def words(half: int) -> dict[str, object]:
            return {
                "regions": ",".join(f"engine{n}" for n in range(4) for _ in halves[half]),
                "blocks": ",".join(str(b) for _ in range(4) for b in halves[half]),
                "offsets": ",".join(str((n * 64 + b) * size) for n in range(4) for b in halves[half])}
        put = lambda half: {f"put{k}": v for k, v in words(half).items()}
        get = lambda half: {f"get{k}": v for k, v in words(half).items()}
        rounds = 10
        for _ in range(rounds):
            for first, second in ((0, 1), (1, 0)):
                self.jvm.ask("exchange", **put(second), getregions="", getblocks="", getoffsets="")
                for pool in pools:
                    for tensor in pool.tensors[0]:
                        tensor[:, halves[second][0]:halves[second][-1] + 1] = 0
                torch.cuda.synchronize()
                self.jvm.ask("exchange", **put(first), **get(second))
                for pool, tensors in zip(pools, kept):
                    if not all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(pool.tensors[0], tensors)):
                        raise Failure("engines got other bits than they put")
        for number in range(4):
            self.jvm.ask("unregister", id=f"engine{number}")
        self.row("four_engines_blocks_exchanged", rounds * 2 * 3 * 4 * 32, "blocks")

    # Speed

    def llama(self, layers: int, tokens: int, blocks: int = 0) -> Pool:
        blocks = blocks or self.host_bytes // (layers * 2 * tokens * 8 * 128 * 2)
        part = Part("kv", "CBNHD", [2, blocks, tokens, 8, 128], torch.bfloat16)
        return Pool(layers, blocks, tokens, "LCND", [part], self.uuid)

    def limits(self, suffix: str = "") -> dict[str, float]:
        self.jvm.take_rows()
        self.jvm.ask("limits", suffix=suffix)
        return self.jvm.take_rows()

    def speed(self) -> None:
        time_ms = 300 if self.quick else 1000
        self.jvm.ask("use", strategy="STAGED")
        self.limits()
        self.jvm.ask("calibrate")
        for name, value, unit in self.jvm.rows:
            self.row(name, value, unit)
        for runs, layers, tokens in (("64_runs_of_32KiB", 32, 16), ("256_runs_of_8KiB", 128, 4)):
            pool = self.llama(layers, tokens)
            pool.register(self.jvm, runs)
            for strategy in ("CALIBRATED", "STAGED", "KERNEL", "BATCH", "PLAIN"):
                if strategy == "PLAIN" and self.quick:
                    continue
                self.jvm.ask("use", strategy=strategy)
                for mode in ("OFFLOAD", "ONBOARD", "BOTH"):
                    rounds: dict[str, list[float]] = {}
                    limit_name = "link_" + mode.lower()
                    for _ in range(1 if strategy in ("BATCH", "PLAIN") else 3):
                        limit = self.limits()[limit_name]
                        self.jvm.ask("throughput", region=runs, mode=mode, ms=time_ms // 2, name="t")
                        rows = self.jvm.take_rows()
                        rounds.setdefault("rate", []).append(rows["t"])
                        rounds.setdefault("cpu", []).append(rows["t_cpu"])
                        rounds.setdefault("limit", []).append(limit)
                    rate, cpu, limit = (statistics.median(rounds[key]) for key in ("rate", "cpu", "limit"))
                    name = f"{mode.lower()}_{runs}_{strategy.lower()}"
                    self.row(name, rate, "GB/s", limit_name, limit)
                    self.row(name + "_cpu", cpu, "ms/GB")
            for strategy in ("CALIBRATED", "STAGED", "KERNEL"):
                self.jvm.ask("use", strategy=strategy)
                for mode in ("ONBOARD", "OFFLOAD"):
                    self.jvm.take_rows()
                    self.jvm.ask("latency", region=runs, direction=mode, count=500 if self.quick else 3000, name="l")
                    rows = self.jvm.take_rows()
                    self.row(f"one_block_{mode.lower()}_{runs}_{strategy.lower()}_p50", rows["l_p50"], "us")
                    self.row(f"one_block_{mode.lower()}_{runs}_{strategy.lower()}_p99", rows["l_p99"], "us")
            self.round_trip(pool, runs)
            self.jvm.ask("unregister", id=runs)
            del pool
            torch.cuda.empty_cache()

    def round_trip(self, pool: Pool, region: str) -> None:
        """All blocks put, the tensors overwritten, all blocks got while others are put: the same bits."""
        self.jvm.ask("use", strategy="CALIBRATED")
        blocks = list(range(pool.blocks))
        random.Random(3).shuffle(blocks)
        size = pool.block_bytes()
        words = {"region": region, "layers": f"0-{pool.layers}", "heads": "0-8"}
        kept = [tensor.clone() for tensor in pool.tensors[0]]
        for direction in ("OFFLOAD", "ONBOARD"):
            for at in range(0, len(blocks), 512):
                some = blocks[at:at + 512]
                self.jvm.ask("copy", direction=direction, blocks=",".join(map(str, some)),
                             offsets=",".join(str(b * size) for b in some), **words)
            if direction == "OFFLOAD":
                for tensor in pool.tensors[0]:
                    tensor.zero_()
                torch.cuda.synchronize()
        if not all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(kept, pool.tensors[0])):
            raise Failure(f"{region}: not the same bits after a put and a get of all blocks")
        self.row(f"round_trip_{region}_same_bits", pool.blocks, "blocks")

    def interference(self) -> None:
        pool = self.llama(32, 16)
        pool.register(self.jvm, "llama")
        rounds = 40 if self.quick else 60
        works = loops()
        cases: list[tuple[str, dict[str, object]]] = [("calibrated", {}), ("calibrated_gentle", {"enough": 0.6})]
        cases += [(f"staged_{blocks}_blocks", {"strategy": "STAGED", "stagingBlocks": blocks}) for blocks in (16, 64, 128)]
        cases += [(f"kernel_{blocks}_blocks", {"strategy": "KERNEL", "writeBlocks": blocks, "readBlocks": blocks}) for blocks in (4, 16)]
        cases += [("batch", {"strategy": "BATCH"})]
        if self.tuning:
            cases = [
                (f"staged_{blocks}_blocks_{slots}x{mib}MiB",
                 {"strategy": "STAGED", "stagingBlocks": blocks, "slots": slots, "slotBytes": mib << 20})
                for blocks, slots, mib in ((64, 4, 8), (64, 4, 16), (64, 4, 32), (64, 4, 64), (128, 4, 32), (64, 16, 8))
            ] + [(f"batch_{slots}x{kib}KiB", {"strategy": "BATCH", "slots": slots, "slotBytes": kib << 10})
                 for slots, kib in ((4, 8192),)]
        # Blocks that lie in one piece, as those of a tensor across all layers.
        blocks = pool.blocks
        whole = Pool(32, blocks, 16, "LCND", [Part("kv", "BLCNHD", [blocks, 32, 2, 16, 8, 128], torch.bfloat16)], self.uuid)
        whole.register(self.jvm, "whole")
        regions = [("llama", *case) for case in cases] + ([] if self.tuning else [("whole", "calibrated_whole_blocks", {})])
        for region, name, words in regions:
            self.jvm.ask("use", **words)
            for mode in ("OFFLOAD", "ONBOARD", "BOTH"):
                self.jvm.take_rows()
                self.jvm.ask("throughput", region=region, mode=mode, ms=300, name="alone")
                alone = self.jvm.take_rows()
                self.row(f"speed_{mode.lower()}_{name}", alone["alone"], "GB/s")
                self.row(f"speed_{mode.lower()}_{name}_cpu", alone["alone_cpu"], "ms/GB")
                for loop_name, loop in works.items():
                    quiet, busy, rates = [], [], []
                    for _ in range(2):
                        quiet.append(pass_ms(loop, rounds))
                        self.jvm.ask("flood", region=region, mode=mode)
                        time.sleep(0.02)
                        busy.append(pass_ms(loop, rounds))
                        self.jvm.take_rows()
                        self.jvm.ask("stop")
                        rates.append(self.jvm.take_rows()["flood"])
                    quiet.append(pass_ms(loop, rounds))
                    slower = (statistics.median(busy) / statistics.median(quiet) - 1) * 100
                    self.row(f"slowdown_of_{loop_name}_{mode.lower()}_{name}", slower, "%")
                    self.row(f"speed_beside_{loop_name}_{mode.lower()}_{name}", statistics.median(rates), "GB/s")
        self.jvm.ask("unregister", id="llama")
        self.jvm.ask("unregister", id="whole")

    # Faults

    def owner_dies(self) -> None:
        """The process that owns the tensors is killed in mid-copy; its memory must be free again once the region is closed."""
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        owner = subprocess.Popen([sys.executable, "-m", "checks.gpu.copies", "--owner"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = dict(word.split("=", 1) for word in owner.stdout.readline().split())
        self.jvm.ask("register", id="orphan", device=self.uuid, **words)
        taken = free - torch.cuda.mem_get_info()[0]
        self.jvm.ask("use", strategy="STAGED")
        self.jvm.ask("flood", region="orphan", mode="BOTH")
        time.sleep(0.3)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        time.sleep(0.5)
        self.row("owner_killed_memory_before_close", (free - torch.cuda.mem_get_info()[0]) / 2**20, "MiB")
        self.jvm.ask("stop")
        started = time.time()
        self.jvm.ask("unregister", id="orphan")
        while free - torch.cuda.mem_get_info()[0] > 64 << 20 and time.time() - started < 5:
            time.sleep(0.01)
        self.row("owner_had_memory", taken / 2**20, "MiB")
        self.row("owner_killed_memory_left", (free - torch.cuda.mem_get_info()[0]) / 2**20, "MiB")
        self.row("owner_killed_close_to_free", (time.time() - started) * 1e3, "ms")

    def footprint(self) -> None:
        context = torch.cuda.mem_get_info()[0]
        self.jvm.ask("use", strategy="STAGED")
        staging = torch.cuda.mem_get_info()[0]
        self.row("device_memory_of_the_context", (self.free_before_jvm - context) / 2**20, "MiB")
        self.row("device_memory_of_both_engines", (context - staging) / 2**20, "MiB")

    def run(self, only: list[str]) -> int:
        print(f"{self.properties.name}, {self.uuid}, torch {torch.__version__}; {self.jvm.greeting}", flush=True)
        checks = (
            self.footprint, self.refusals, self.correctness, self.ordering, self.many_engines, self.speed, self.interference, self.owner_dies,
        )  # fmt: skip
        for name, what in zip(PARTS, checks, strict=True):
            if name not in only:
                continue
            print(f"{name} ...", flush=True)
            try:
                what()
            except Failure as e:
                self.problems.append(f"{name}: {e}")
                print(f"  {e}", flush=True)
                if self.jvm.process.poll() is not None:
                    break
        return 1 if self.problems else 0

    def close(self) -> None:
        try:
            self.jvm.close()
        except (OSError, subprocess.TimeoutExpired):
            self.jvm.process.kill()
        self.host_path.unlink()

    def report(self, file: pathlib.Path | None) -> None:
        shown = lambda value: "-" if math.isnan(value) else f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"
        print(f"{'name':64} {'value':>12} {'unit':6} {'limit':>9} {'ratio':>6}  limit is")
        for row in self.rows:
            print(f"{row['name']:64} {shown(row['value']):>12} {row['unit']:6} {shown(row['limit']):>9} {shown(row['ratio']):>6}  {row['limit_name']}")
        for problem in self.problems:
            print(f"FAILED {problem}")
        if file:
            rows = [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in self.rows]
            file.write_text(json.dumps({
                "machine": f"{self.properties.name}, torch {torch.__version__}, {self.jvm.greeting[3:]}",
                "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "problems": self.problems, "rows": rows}, indent=1))


def own() -> None:
    """The engine that is killed: registers by its output, then holds still."""
    part = Part("kv", "CBNHD", [2, 512, 16, 8, 128], torch.bfloat16)

    class Words:
        def ask(self, verb: str, **words: object) -> str:
            print(" ".join(f"{name}={value}" for name, value in words.items() if name not in ("id", "device")), flush=True)
            return "ok"

    pool = Pool(32, 512, 16, "LCND", [part], "")
    pool.register(Words(), "")
    sys.stdin.read()


def main() -> int:
    parser = Arguments(prog="gpu-check", description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a trial, not a result")
    parser.add_argument("--tuning", action="store_true", help="interference: other options of the engine than the usual")
    parser.add_argument("--only", type=some_of(PARTS), default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--owner", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.owner:
        own()
        return 0
    check = Check(arguments)
    try:
        code = check.run(arguments.only)
    finally:
        check.close()
    check.report(arguments.json)
    return code


if __name__ == "__main__":
    run_tool(main)
