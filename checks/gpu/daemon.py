"""The daemon with a real GPU: this process is the engine, its blocks go through the daemon and come back.

Started by "run daemon" in the folder that scripts/gpu-check packs. Needs CUDA and torch, and for one part transformers. Each part
goes on where another has failed; rows are written as they come. With --file-gpu FOLDER nothing needs a GPU: tensors are files of
shared memory, as in the system tests, and no figure means anything.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import mmap
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import torch
from kvtier_testing import process
from kvtier_testing.encodings import kept

from checks.gpu import beside
from checks.gpu.strategies import by_strategy, copied_bytes
from checks.gpu.work import loops, pass_ms
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool, some_of
from kvtier import Client, Status
from kvtier.device import Copying, DeviceRegion, Part, RegionSpec

FILE_GPUS = ("GPU-f11e0000-0000-0000-0000-000000000001", "GPU-f11e0000-0000-0000-0000-000000000002")
OK = Status.OK
GIB = 1 << 30


# With the seconds that each may take; the first is always run.
PARTS = {
    "start": 40, "limits": 20, "layouts": 45, "torch": 30, "shards": 120, "groups": 30, "expandable": 60, "restart": 60, "engines": 60, "speed": 165, "encoded": 210, "fp8": 210, "beside": 135, "ttft": 120, "waits": 90, "engine_dies": 60, "daemon_dies": 60, "ssd": 60,
    "peers": 150,
}  # fmt: skip
# Lengths of runs, with the layers and tokens of blocks that have them, and the order on the host.
RUNS = {"32KiB": (32, 16, "LCND"), "8KiB": (128, 4, "LCND"), "256B": (32, 16, "LCHND")}
ENCODINGS = {"encoded": "exact bf16 4096", "fp8": "fp8 bf16 4096"}
"""by the word for it in the names of rows"""


class Failure(Exception):
    """A result that is not the expected one."""


class Gpu:
    """The memory of tensors: a GPU, or files that stand for one."""

    def __init__(self, folder: pathlib.Path | None, ordinal: int = 0) -> None:
        self.folder = folder
        self.ordinal = ordinal
        self.device = f"cuda:{ordinal}"
        self.is_real = folder is None
        self.count = 0
        if self.is_real:
            import ctypes

            self.ctypes = ctypes
            self.cuda = ctypes.CDLL("libcuda.so.1")
            torch.zeros(1, device=self.device)
            self.uuid = f"GPU-{torch.cuda.get_device_properties(ordinal).uuid}"
        else:
            self.uuid = FILE_GPUS[ordinal]
        self.files: list[tuple[int, pathlib.Path, int]] = []

    def empty(self, nbytes: int) -> torch.Tensor:
        if self.is_real:
            return torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        self.count += 1
        path = self.folder / f"{os.getpid()}-{self.count}{'-other' if self.ordinal else ''}"
        path.touch()
        os.truncate(path, nbytes)
        tensor = torch.from_file(str(path), shared=True, size=nbytes, dtype=torch.uint8)
        self.files.append((tensor.data_ptr(), path, nbytes))
        return tensor

    def noise(self, nbytes: int) -> torch.Tensor:
        tensor = self.empty(nbytes)
        # In pieces: the generator's own tensors take eight times the room.
        for at in range(0, nbytes, 1 << 28):
            part = tensor[at : at + (1 << 28)]
            part.random_(0, 256) if not self.is_real else part.view(torch.uint8).random_(0, 256)
        self.wait()
        return tensor

    def place(self, tensor: torch.Tensor) -> tuple[bytes, int]:
        address = tensor.data_ptr()
        if not self.is_real:
            for base, path, nbytes in reversed(self.files):  # older ones may be unmapped
                if base <= address < base + nbytes:
                    return str(path).encode().ljust(64, b"\0"), address - base
            raise Failure("a tensor in no file")
        c = self.ctypes
        base, size, handle = c.c_uint64(), c.c_size_t(), (c.c_ubyte * 64)()
        with torch.cuda.device(self.ordinal):
            for code in (
                self.cuda.cuMemGetAddressRange_v2(c.byref(base), c.byref(size), c.c_uint64(address)),
                self.cuda.cuIpcGetMemHandle(c.byref(handle), base),
            ):
                if code != 0:
                    raise Failure(f"CUDA error {code}")
        return bytes(handle), address - base.value

    def wait(self) -> None:
        if self.is_real:
            torch.cuda.synchronize(self.ordinal)

    def used_mib(self) -> float:
        if not self.is_real:
            return 0.0
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True
        )
        return float(answer.stdout.split()[self.ordinal])


class Daemon:
    """kvtierd, from the folder that this file lies in."""

    def __init__(self, folder: pathlib.Path, gpu: Gpu, host_gib: float, ssd_gib: float, settings: list[str]) -> None:
        self.folder = folder
        self.settings = dict(setting.split("=", 1) for setting in settings)
        self.gpu = gpu
        self.socket = folder / "kvtier.sock"
        self.host_gib, self.ssd_gib = host_gib, ssd_gib
        self.process: subprocess.Popen[str] | None = None
        self.breaks = folder / "break-gpu"
        """when it is made, the GPU of a daemon that is breakable breaks"""

    def values(self, needed: dict[str, object]) -> dict[str, object]:
        """All settings: those of the command line, and over them those that a part of the check needs."""
        return {
            "host.bytes": f"{int(self.host_gib * 1024)}MiB", "host.huge_pages": "true", "ssd.bytes": f"{int(self.ssd_gib * 1024)}MiB",
            "ssd.directory": str(self.folder / "ssd"), "grpc.enabled": "false", "http.enabled": "false",
            **self.settings, **{name.replace("__", "."): value for name, value in needed.items()},
        }  # fmt: skip

    def start(self, *, is_breakable: bool = False, **settings: object) -> float:
        java = os.environ.get("KVTIER_JAVA", str(ROOT / "runtime" / "bin" / "java"))
        classes = os.environ.get("KVTIER_CLASSES", str(ROOT / "lib" / "*"))
        main = ["io.kvtier.daemon.Kvtierd"]
        if is_breakable:
            main = ["io.kvtier.bench.gpu.GpuBreaker", str(self.breaks), *main]
        if not self.gpu.is_real:
            main = [f"-Dkvtier.gpu.folder={self.gpu.folder}", "io.kvtier.daemon.FileGpuDaemon"]
        command = [
            java, "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-XX:+UseSerialGC", "-Xmx512m",
            "-XX:-UsePerfData", "-cp", classes, *main,
        ]  # fmt: skip
        started = time.monotonic()
        self.process, _ = process.start(process.command_of(command, self.socket, self.values(settings)), self.folder / "daemon.log", Failure)
        return time.monotonic() - started

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self, name: str = "check") -> Client:
        return Client(self.socket, name=name, timeout=60)


class Pool:
    """KV tensors of an engine, random."""

    def __init__(
        self, gpu: Gpu, axes: str, *, layers: int, blocks: int, tokens: int, heads: int, dim: int, item: int = 2, order: str = "LCND",
        raw: list[torch.Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.gpu, self.axes, self.layers, self.blocks, self.tokens, self.order = gpu, axes, layers, blocks, tokens, order
        extents = {"L": layers, "C": 2, "B": blocks, "N": tokens if "B" in axes else blocks * tokens, "H": heads, "D": dim}
        self.extents = [extents[axis] for axis in axes]
        self.item = item
        nbytes = math.prod(self.extents) * item
        count = 1 if "L" in axes else layers
        self.raw = [gpu.noise(nbytes) for _ in range(count)] if raw is None else raw
        strides = []
        step = 1
        for extent in reversed(self.extents):
            strides.insert(0, step)
            step *= extent
        self.part = Part(axes, self.extents, strides, item)
        self.block_bytes = layers * (2 if "C" in axes else 1) * tokens * (heads if "H" in axes else 1) * dim * item

    def views(self) -> list[torch.Tensor]:
        """Each tensor, its last axis the bytes of a cell."""
        shape = [*self.extents[:-1], self.extents[-1] * self.item]
        return [raw.view(shape) for raw in self.raw]

    def block(self, number: int, layers: range) -> list[torch.Tensor]:
        """Some layers of a block, as views."""
        found = []
        for index, view in enumerate(self.views()):
            if "L" not in self.axes and index not in layers:
                continue
            if "B" in self.axes:
                view = view.select(self.axes.index("B"), number)
                axes = self.axes.replace("B", "")
            else:
                view = view.narrow(self.axes.index("N"), number * self.tokens, self.tokens)
                axes = self.axes
            if "L" in axes:
                view = view.narrow(axes.index("L"), layers.start, len(layers))
            found.append(view)
        return found

    def spec(self, events: list[bytes] | None = None) -> RegionSpec:
        return RegionSpec(
            self.gpu.uuid, self.layers, self.blocks, self.tokens, [self.part], [self.gpu.place(raw) for raw in self.raw], self.order,
            events or [],
        )  # fmt: skip

    def region(self, client: Client, name: str, **properties: object) -> DeviceRegion:
        self.gpu.wait()
        return DeviceRegion(client.namespace(name, block_bytes=self.block_bytes, **properties), self.spec(), name)

    def fill_with_values(self, are_kept: bool = False) -> None:
        """Values of bf16 as a model computes them, instead of random bits; `are_kept`: those that every encoding keeps as they are."""
        for raw in self.raw:
            values = raw.view(torch.bfloat16).normal_()
            if are_kept:
                values.copy_(values.to(torch.float8_e4m3fn))
        self.gpu.wait()


def slept_ms(seconds: float) -> float:
    """A pause, which stands for an engine's work where there is no GPU. Returns its length in milliseconds."""
    time.sleep(seconds)
    return seconds * 1e3


def keys_of(count: int, seed: int) -> list[bytes]:
    return [seed.to_bytes(8, "little") + number.to_bytes(8, "little") for number in range(count)]


def all_ok(copying: Copying, what: str) -> None:
    statuses = copying.wait(60)
    if any(status is not OK for status in statuses):
        counts = {status.name: statuses.count(status) for status in set(statuses)}
        raise Failure(f"{what}: {counts}")


class Check:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.gpu = Gpu(arguments.file_gpu)
        self.quick = arguments.quick
        self.runs = arguments.runs
        self.out: pathlib.Path | None = arguments.json
        self.rows: list[dict[str, object]] = []
        self.problems: list[str] = []
        self.started = time.monotonic()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvtier-gpu-"))
        self.daemon = Daemon(self.folder, self.gpu, 0.25 if self.quick else 10, 0.25 if self.quick else 6, arguments.set)
        self.link: dict[str, float] = {}

    def row(self, name: str, value: float, unit: str, limit_name: str = "", limit: float = math.nan) -> None:
        ratio = value / limit if limit and not math.isnan(limit) else math.nan
        self.rows.append({"name": name, "value": value, "unit": unit, "limit_name": limit_name, "limit": limit, "ratio": ratio})
        shown = "" if math.isnan(ratio) else f"  {ratio:.3f} of {limit_name} {limit:.2f}"
        print(f"{time.monotonic() - self.started:6.1f} s  {name:60} {value:12.3f} {unit}{shown}", flush=True)
        self.save()

    def save(self) -> None:
        if self.out:
            name = torch.cuda.get_device_properties(0).name if self.gpu.is_real else "no GPU"
            clean = [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in self.rows]
            self.out.write_text(json.dumps({
                "machine": f"{name}, torch {torch.__version__}, {os.cpu_count()} cores",
                "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "problems": self.problems, "rows": clean,
            }, indent=1))  # fmt: skip

    # ---- correctness

    def start(self) -> None:
        before = self.gpu.used_mib()
        self.row("daemon_start", self.daemon.start(), "s")
        self.row("device_memory_before_any_region", self.gpu.used_mib() - before, "MiB")
        with self.daemon.client() as client:
            pool = Pool(self.gpu, "CBNHD", layers=2, blocks=4, tokens=16, heads=2, dim=64)
            before = self.gpu.used_mib()
            begun = time.monotonic()
            region = pool.region(client, "first")
            self.row("first_region", time.monotonic() - begun, "s")
            self.row("device_memory_of_the_daemon", self.gpu.used_mib() - before, "MiB")
            self.row("staging_as_reported", client.stats()["gpus"][0]["staging_bytes"] / 2**20, "MiB")
            begun = time.monotonic()
            region.close()
            with pool.region(client, "first"):
                self.row("second_region", time.monotonic() - begun, "s")

    def layouts(self) -> None:
        chance = random.Random(7)
        compared = 0
        started = time.monotonic()
        with self.daemon.client() as client:
            for item in (2, 1):
                for tokens in (16,) if self.quick else (1, 16, 64):
                    for axes, order in (
                        ("CBNHD", "LCND"), ("BCNHD", "LCND"), ("CBHND", "LCHND"), ("BCHND", "LCND"), ("CBNHD", "NCLD"),
                        ("BLCNHD", "LCND"), ("LCNHD", "LCND"), ("BND", "LCND"),
                    ):  # fmt: skip
                        name = f"{axes}-{order}-{item}-{tokens}"
                        compared += self.one_layout(client, name, axes, order, item, tokens, chance)
        self.row("layouts_blocks_compared", compared, "blocks")
        self.row("layouts_seconds", time.monotonic() - started, "s")

    def one_layout(self, client: Client, name: str, axes: str, order: str, item: int, tokens: int, chance: random.Random) -> int:
        pool = Pool(self.gpu, axes, layers=6, blocks=24, tokens=tokens, heads=4, dim=32, item=item, order=order)
        count = 12
        keys = keys_of(count, 1)
        with pool.region(client, name) as region:
            sources = chance.sample(range(24), count)
            edges = sorted({0, 6, chance.randint(0, 6), chance.randint(0, 6)})
            cuts = [range(a, b) for a, b in zip(edges, edges[1:])]
            for cut in chance.sample(cuts, len(cuts)):
                all_ok(region.put(keys, sources, layers=cut), f"{name}: put")
            kept = [[part.clone() for part in pool.block(source, range(6))] for source in sources]
            for raw in pool.raw:
                raw.zero_()
            self.gpu.wait()
            targets = chance.sample(range(24), count)
            for cut in chance.sample(cuts, len(cuts)):
                all_ok(region.get(keys, targets, layers=cut), f"{name}: get")
            self.gpu.wait()
            for before, target in zip(kept, targets):
                for a, b in zip(before, pool.block(target, range(6))):
                    if not torch.equal(a, b):
                        raise Failure(f"{name}: {int((a != b).sum())} of {a.numel()} bytes are others in block {target}")
            for other in set(range(24)) - set(targets):
                if any(bool(part.any()) for part in pool.block(other, range(6))):
                    raise Failure(f"{name}: block {other} was written, which nobody asked for")
            if order == "LCND" and axes in ("CBNHD", "BND"):
                self.in_host_order(client, name, pool, keys, kept)
        client.namespace(name, block_bytes=pool.block_bytes).clear()
        return count

    @staticmethod
    def in_host_order(client: Client, name: str, pool: Pool, keys: list[bytes], kept: list[list[torch.Tensor]]) -> None:
        memory = bytearray(len(keys) * pool.block_bytes)
        got = client.namespace(name, block_bytes=pool.block_bytes).get(keys, memory, verify=True)
        if got.run != len(keys):
            raise Failure(f"{name}: a host client got {got.statuses}")
        for index, parts in enumerate(kept):
            expected = b"".join(part.contiguous().cpu().numpy().tobytes() for part in parts)
            if memory[index * pool.block_bytes : (index + 1) * pool.block_bytes] != expected:
                raise Failure(f"{name}: a host client got other bytes")

    def torch(self) -> None:
        """`kvtier.torch` on CUDA tensors, with events of torch's."""
        if not self.gpu.is_real:
            return
        import kvtier.torch as ktorch

        with self.daemon.client() as client:
            tensors = [torch.randn(2, 64, 16, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(8)]
            namespace = client.namespace("torch", block_bytes=8 * 2 * 16 * 8 * 128 * 2)
            with ktorch.register(namespace, tensors, block_axes=1) as region:
                work = torch.randn(8192, 8192, device="cuda")
                for turn in range(20):
                    for tensor in tensors:
                        work.mm(work)
                        tensor[:, :32].normal_()
                    ready = torch.cuda.Event()
                    ready.record()
                    put = region.put(keys_of(32, 500 + turn), range(32), after=ready, timeout=30)
                    if any(status is not OK for status in put.wait(60)):
                        raise Failure(f"torch: put {put.wait()}")
                    kept = [tensor[:, :32].clone() for tensor in tensors]
                    torch.cuda.synchronize()
                    got = region.get(keys_of(32, 500 + turn), range(32, 64))
                    if any(status is not OK for status in got.wait(60)):
                        raise Failure(f"torch: get {got.wait()}")
                    if not all(torch.equal(a, b[:, 32:]) for a, b in zip(kept, tensors)):
                        raise Failure("torch: a put did not wait for its event, or other bits came back")
                self.row("torch_puts_after_events", 20, "puts of 32 blocks")
            one = torch.randint(0, 256, (64, 5, 4096), device="cuda", dtype=torch.uint8)
            with ktorch.register(client.namespace("torch1", block_bytes=5 * 4096), one) as region:
                kept = one[:32].clone()
                if region.put(keys_of(32, 1), range(32)).wait(60) != [OK] * 32:
                    raise Failure("torch: put of one tensor")
                region.get(keys_of(32, 1), range(32, 64)).wait(60)
                if not torch.equal(one[32:], kept):
                    raise Failure("torch: other bits in one tensor")
            namespace.clear()

    def groups(self) -> None:
        """The groups of a hybrid model in one set of tensors, as vLLM packs them: each page belongs to a block of one group."""
        from kvtier.engine.groups import ALL, LAST, Need, longest, window

        layers, pages, tokens = 6, 96, 16
        cached = Pool(self.gpu, "BCNHD", layers=layers, blocks=pages, tokens=tokens, heads=4, dim=64)
        page_elements = tokens * 2 * 4 * 64
        states = Pool(self.gpu, "BND", layers=layers, blocks=pages, tokens=1, heads=1, dim=page_elements, raw=cached.raw)
        pools, rules = [cached, cached, states], [ALL, window(2 * tokens), LAST]
        keys = keys_of(24, 77)
        # The blocks that each group has: the window lacks old ones, and a state is there at some places.
        places = [range(20), range(10, 24), [7, 15, 19, 22]]
        free = list(range(pages))
        random.Random(3).shuffle(free)
        with self.daemon.client() as client:
            regions = [pool.region(client, f"groups-{number}") for number, pool in enumerate(pools)]
            sources = [[free.pop() for _ in which] for which in places]
            copying = [region.put([keys[i] for i in which], at) for region, which, at in zip(regions, places, sources)]
            for number, one in enumerate(copying):
                all_ok(one, f"groups: put of group {number}")
            kept = [[[part.clone() for part in pool.block(at, range(layers))] for at in of] for pool, of in zip(pools, sources)]
            for raw in cached.raw:
                raw.zero_()
            self.gpu.wait()
            namespaces = [client.namespace(f"groups-{number}", block_bytes=pool.block_bytes) for number, pool in enumerate(pools)]
            found = client.lookup_groups([(namespace, keys) for namespace in namespaces])
            needs = [Need(tokens, rule) for rule in rules]
            length = longest(needs, [one.present for one in found], tokens)
            if length != 20 * tokens:
                raise Failure(f"groups: {length} tokens can be restored, expected {20 * tokens}")
            needed = [need.blocks(length) for need in needs]
            targets = [[free.pop() for _ in which] for which in needed]
            copying = [region.get([keys[i] for i in which], at) for region, which, at in zip(regions, needed, targets)]
            for number, one in enumerate(copying):
                all_ok(one, f"groups: get of group {number}")
            self.gpu.wait()
            for pool, which, had, before, now in zip(pools, needed, places, kept, targets):
                for place, target in zip(which, now):
                    expected = before[list(had).index(place)]
                    if not all(map(torch.equal, expected, pool.block(target, range(layers)))):
                        raise Failure(f"groups: block {place} has other bits in page {target}")
            written = {target for of in targets for target in of}
            if any(bool(part.any()) for page in set(range(pages)) - written for part in states.block(page, range(layers))):
                raise Failure("groups: a page was written that no block was loaded into")
            self.row("groups_blocks_compared", sum(map(len, targets)), "blocks")
            for region, namespace in zip(regions, namespaces):
                region.close()
                namespace.clear()

    def shards(self) -> None:
        """Blocks that several ranks put together, each from and to tensors of its own; all ranks on one GPU."""
        if not self.gpu.is_real:
            return
        if not self.link:
            self.limits()
        # As in the part speed: what falls out of memory is dropped, and no disk is measured.
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        with self.daemon.client() as client:
            for axes in ("CBNHD", "CBHND"):
                for ranks in (1, 2, 4, 8):
                    self.one_shape(client, axes, ranks)
                    torch.cuda.empty_cache()

    def one_shape(self, client: Client, axes: str, ranks: int) -> None:
        """A stream of puts, and one of gets: an operation of each rank for some blocks, and the next ones before they are over."""
        import kvtier.torch as ktorch

        layers, heads, tokens, dim = 32, 8, 16, 128
        blocks, seconds = (64, 0.2) if self.quick else (512, 1.0)
        size, ahead = blocks // 4, 3
        name = f"{axes[2:]}_of_{ranks}_ranks"
        inner = {"NHD": (tokens, heads // ranks), "HND": (heads // ranks, tokens)}[axes[2:]]
        tensors = [
            [torch.randn(2, 2 * blocks, *inner, dim, device="cuda", dtype=torch.bfloat16) for _ in range(layers)] for _ in range(ranks)
        ]
        shards = [ktorch.Shard([axes] * layers, tokens, heads, rank * heads // ranks) for rank in range(ranks)]
        form = ktorch.form_of(tensors[0], shards[0])
        namespace = client.namespace(f"shards-{name}", block_bytes=form.block_bytes, form=form.text)
        regions = [ktorch.register(namespace, some, shard=shard) for some, shard in zip(tensors, shards)]
        torch.cuda.synchronize()
        copied = copied_bytes(client)
        stay = keys_of(blocks, 9000)
        number = 9000

        def begin(what: str, turn: int) -> list[Copying]:
            nonlocal number
            number += 1
            at = turn % 4 * size
            keys = keys_of(size, number) if what == "put" else stay[at : at + size]
            first = at if what == "put" else blocks + at
            return [getattr(region, what)(keys, range(first, first + size), timeout=30) for region in regions]

        def rate(what: str) -> float:
            self.quiet(client)
            waiting: list[list[Copying]] = []
            begun, turn = time.perf_counter(), 0
            while True:
                more = time.perf_counter() - begun < seconds
                if more and len(waiting) < ahead:
                    waiting.append(begin(what, turn))
                    turn += 1
                elif waiting:
                    for copying in waiting.pop(0):
                        all_ok(copying, f"shards {name}: {what}")
                else:
                    return turn * size * form.block_bytes / (time.perf_counter() - begun) / 1e9

        def compare() -> None:
            for tensor in (tensor for some in tensors for tensor in some):
                tensor[:, blocks:].zero_()
            torch.cuda.synchronize()
            for region in regions:
                all_ok(region.get(stay, range(blocks, 2 * blocks), timeout=30), f"shards {name}: get")
            if not all(torch.equal(tensor[:, :blocks], tensor[:, blocks:]) for some in tensors for tensor in some):
                raise Failure(f"shards {name}: other bits")

        for copying in [region.put(stay, range(blocks), timeout=30) for region in regions]:
            all_ok(copying, f"shards {name}: put")
        self.quiet(client)
        if any(status is not OK for status in namespace.pin(stay)):
            raise Failure("what shall stay can't be pinned")
        compare()
        for what, way in (("put", "out"), ("get", "in")):
            rate(what)  # The first turn maps memory.
            self.row(f"{what}_{name}", statistics.median(rate(what) for _ in range(3)), "GB/s", f"link_{way}", self.link[way])
        compare()
        print(f"shards {name}: {by_strategy(copied, copied_bytes(client))}", flush=True)
        namespace.clear()
        for region in regions:
            region.close()

    def expandable(self) -> None:
        """Tensors of torch's expandable segments, which have no IPC handles: the daemon maps what is passed to it."""
        if not self.gpu.is_real:
            return
        import kvtier.torch as ktorch
        from kvtier.torch import _cuda

        blocks, layers = 64 if self.quick else 1024, 32
        torch.cuda.empty_cache()
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        try:
            tensors = [torch.empty(2, blocks, 16, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(layers)]
            without = sum(_cuda.place_of(tensor.data_ptr(), 0) is None for tensor in tensors)
            # torch first gives out memory of cudaMalloc that earlier parts left.
            self.row("expandable_tensors_without_ipc_handle", without, f"of {layers}")
            if without == 0:
                raise Failure("expandable: torch gave memory of cudaMalloc alone")
            for tensor in tensors:
                tensor.normal_()
            half = blocks // 2
            keys = keys_of(half, 77)
            with self.daemon.client("expandable") as client:
                namespace = client.namespace("expandable", block_bytes=layers * 2 * 16 * 8 * 128 * 2)
                begun = time.perf_counter()
                with ktorch.register(namespace, tensors, block_axes=1) as region:
                    self.row("expandable_registered", (time.perf_counter() - begun) * 1e3, "ms")
                    all_ok(region.put(keys, range(half)), "expandable")
                    rates = []
                    for _ in range(5):
                        for tensor in tensors:
                            tensor[:, half:].zero_()
                        torch.cuda.synchronize()
                        begun = time.perf_counter()
                        all_ok(region.get(keys, range(half, 2 * half)), "expandable")
                        rates.append(half * namespace.block_bytes / (time.perf_counter() - begun) / 1e9)
                        if not all(torch.equal(tensor[:, :half], tensor[:, half:]) for tensor in tensors):
                            raise Failure("expandable: other bits")
                    self.row("expandable_get", statistics.median(rates), "GB/s", "link_in", self.link.get("in", math.nan))
                    self.expandable_of_a_sibling(namespace, tensors, keys, region)
                    self.daemon.kill()
                    self.daemon.start()
                    end = time.monotonic() + 20
                    while set(region.get(keys, range(half, 2 * half)).wait(20)) != {OK}:
                        if time.monotonic() > end:
                            raise Failure("expandable: not registered again")
                        time.sleep(0.05)
                    self.row("expandable_used_again_after_a_kill", 1, "yes")
                namespace.clear()
            del tensors
        finally:
            torch.cuda.empty_cache()
            torch.cuda.memory._set_allocator_settings("expandable_segments:False")

    def expandable_of_a_sibling(
        self, namespace: object, tensors: list[torch.Tensor], keys: list[bytes], region: object
    ) -> None:
        """From such memory on another GPU, into such memory here."""
        import kvtier.torch as ktorch

        if torch.cuda.device_count() < 2:
            return
        half = len(keys)
        twins = [tensor.to("cuda:1", copy=True) for tensor in tensors]
        torch.cuda.synchronize(1)
        with self.daemon.client("twin") as client, torch.cuda.device(1):
            theirs = client.namespace("expandable", block_bytes=namespace.block_bytes)
            with ktorch.register(theirs, twins, block_axes=1) as source:
                if source.advertise(keys, range(half), rank=1) != [OK] * half:
                    raise Failure("expandable: not advertised")
                with torch.cuda.device(0):
                    for tensor in tensors:
                        tensor[:, half:].zero_()
                    torch.cuda.synchronize(0)
                    before = client.counters()["hits_gpu"]
                    begun = time.perf_counter()
                    all_ok(region.get(keys, range(half, 2 * half)), "expandable")
                    seconds = time.perf_counter() - begun
                    if client.counters()["hits_gpu"] - before != half:
                        raise Failure("expandable: not all came from the sibling")
                    self.row("expandable_get_from_sibling", half * namespace.block_bytes / seconds / 1e9, "GB/s")
                    if not all(torch.equal(tensor[:, :half], tensor[:, half:]) for tensor in tensors):
                        raise Failure("expandable: other bits from a sibling")
                if set(source.revoke(keys)) != {OK}:
                    raise Failure("expandable: not revoked")

    def restart(self) -> None:
        """An error of CUDA's that lasts as long as the process: the daemon starts itself anew, and has what was in memory."""
        if not self.gpu.is_real:
            return
        self.daemon.kill()
        self.daemon.start(is_breakable=True, ssd__bytes=0, host__keep="5min")
        process = self.daemon.process.pid
        count = 512
        pool = Pool(self.gpu, "CBNHD", layers=32, blocks=2 * count, tokens=16, heads=8, dim=128)
        keys = keys_of(count, 88)
        others = range(count, 2 * count)
        with self.daemon.client("restart") as client, pool.region(client, "restart") as region:
            all_ok(region.put(keys, range(count)), "restart")
            self.quiet(client)

            def get_ms() -> float:
                begun = time.monotonic()
                all_ok(region.get(keys, others), "restart")
                return (time.monotonic() - begun) * 1e3

            before_ms = statistics.median(get_ms() for _ in range(9))
            begun = time.monotonic()
            self.daemon.breaks.touch()
            statuses: set[str] = set()
            while time.monotonic() < begun + 40:
                answers = region.get(keys, others).wait(20)
                statuses |= {status.name for status in answers}
                if set(answers) == {OK} and len(statuses) > 1:
                    break
                time.sleep(0.01)
            else:
                raise Failure(f"restart: only {statuses} in 40 s")
            self.row("restart_after_a_fault_of_the_gpu", time.monotonic() - begun, "s")
            # Nobody but the daemon could write the blocks: they are verified once, and that was the get above.
            after_ms = statistics.median(get_ms() for _ in range(9))
            self.row("restart_get_of_1_GiB_after", after_ms, "ms", "before the fault", before_ms)
            self.gpu.wait()
            for raw in pool.raw:
                view = raw.view(2, 2 * count, -1)
                if not torch.equal(view[:, :count], view[:, count:]):
                    raise Failure("restart: other bits")
            if self.daemon.process.poll() is not None or self.daemon.process.pid != process:
                raise Failure("restart: the process has ended")
            self.row("restart_answers_meanwhile", len(statuses - {"OK"}), "kinds: " + ", ".join(sorted(statuses)))
            self.row("restart_found_in_memory", client.counters()["found_host"], "blocks")

    def engines(self) -> None:
        """Four engine processes at once."""
        seconds = "2" if self.quick else "5"
        command = [sys.executable, "-m", "checks.gpu.daemon", "--socket", str(self.daemon.socket), "--seconds", seconds]
        if not self.gpu.is_real:
            command += ["--file-gpu", str(self.gpu.folder)]
        engines = [
            subprocess.Popen([*command, "--engine", str(number)], stdout=subprocess.PIPE, text=True) for number in range(1, 5)
        ]
        total = 0
        try:
            for engine in engines:
                out, _ = engine.communicate(timeout=120)
                answer = out.strip().splitlines()[-1] if out.strip() else "nothing"
                if not answer.startswith("ok "):
                    raise Failure(f"an engine of four: {answer}")
                total += int(answer.split()[1])
        finally:
            for engine in engines:
                engine.kill()
        self.row("four_engines_blocks_compared", total, "blocks")

    # ---- speed

    def limits(self) -> None:
        """Measures the link with one large copy at a time each way."""
        if not self.gpu.is_real:
            self.link = {"out": 1.0, "in": 1.0, "both": 1.0}
            return
        size = 1 << 30
        host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        device = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
        streams = [torch.cuda.Stream() for _ in range(2)]

        def rate(ways: str) -> float:
            best = 0.0
            for _ in range(4):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                if "o" in ways:
                    with torch.cuda.stream(streams[0]):
                        host[0].copy_(device[0], non_blocking=True)
                if "i" in ways:
                    with torch.cuda.stream(streams[1]):
                        device[1].copy_(host[1], non_blocking=True)
                torch.cuda.synchronize()
                best = max(best, len(ways) * size / (time.perf_counter() - begun) / 1e9)
            return best

        self.link = {"out": rate("o"), "in": rate("i"), "both": rate("oi")}
        for way, value in self.link.items():
            self.row(f"link_{way}", value, "GB/s")

    def speed(self) -> None:
        if not self.link:
            self.limits()
        # Without a lower tier: what falls out of memory is dropped, and no disk is measured.
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        self.speed_of()

    def speed_of(self, kind: str = "", **properties: object) -> None:
        """Puts and gets of blocks in runs of some lengths; `kind` comes before the lengths in the names of rows."""
        blocks = 32 if self.quick else 1600
        for length in self.runs:
            layers, tokens, order = RUNS[length]
            runs = f"{kind}_{length}" if kind else length
            with self.daemon.client() as client:
                pool = Pool(self.gpu, "CBNHD", layers=layers, blocks=2 * blocks, tokens=tokens, heads=8, dim=128, order=order)
                if kind:
                    pool.fill_with_values()
                namespace = client.namespace(f"speed-{runs}", block_bytes=pool.block_bytes, **properties)
                with pool.region(client, f"speed-{runs}", **properties) as region:
                    time.sleep(0 if self.quick else 1.5)  # the rest of the memory is being registered
                    self.put_and_get(namespace, region, runs, blocks, pool.block_bytes)
                    self.one_block(namespace, region, runs)
                    if length == "32KiB":
                        self.layerwise(namespace, region, runs, blocks)
                namespace.clear()
            del pool
            if self.gpu.is_real:
                torch.cuda.empty_cache()

    # ---- encoded blocks

    def encoded(self) -> None:
        """Blocks in fewer bytes: the GPU encodes what is put, and decodes what is got."""
        self.encoded_as("encoded")

    def fp8(self) -> None:
        """Blocks in about half of their bytes, with loss: the GPU encodes and decodes them."""
        self.encoded_as("fp8")

    def encoded_as(self, kind: str) -> None:
        encoding = ENCODINGS[kind]
        if not self.link:
            self.limits()
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        with self.daemon.client() as client:
            compared, errors = 0, []
            for axes, order in (("CBNHD", "LCHND"), ("CBHND", "LCHND"), ("BCNHD", "LCND"), ("BLCNHD", "LCHND"), ("CBHND", "CLHND")):
                count, error = self.encoded_both_ways(client, axes, order, encoding)
                compared += count
                errors.append(error)
            self.row(f"{kind}_blocks_compared", compared, "blocks")
            self.row(f"{kind}_relative_error_of_normal_values", max(errors) * 100, "%")
            compared = 0
            for writers in (1, 2, 4):
                for layers in (6, 2):
                    compared += self.encoded_by_ranks(client, writers, layers, encoding)
            self.row(f"{kind}_blocks_of_ranks_compared", compared, "blocks")
        # With another daemon: blocks in memory that a client may write are verified before they are got.
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        self.speed_of(kind, encoding=encoding)

    def encoded_both_ways(self, client: Client, axes: str, order: str, encoding: str) -> tuple[int, float]:
        """Compares blocks that the GPU encodes and the C core decodes, and the other way round. Returns how many blocks were compared, and
        the error of one that fits."""
        name = f"{encoding.split()[0]}-{axes}-{order}"
        count, unfit = 12, 2
        pool = Pool(self.gpu, axes, layers=6, blocks=48, tokens=16, heads=4, dim=128, order=order)
        pool.fill_with_values()
        for number in range(unfit):
            for part in pool.block(number, range(2, 3)):
                part.random_(0, 256)
        raw, expected, error = self.expected_of(client, f"{name}-raw", pool, count, unfit, encoding)
        before = client.counters()
        with pool.region(client, name, encoding=encoding) as region:
            namespace = client.namespace(name, block_bytes=pool.block_bytes, encoding=encoding)
            all_ok(region.put(keys_of(count, 1), range(count)), f"{name}: put")
            self.quiet(client)
            all_ok(region.get(keys_of(count, 1), range(count, 2 * count)), f"{name}: get")
            memory = bytearray(count * pool.block_bytes)
            if namespace.get(keys_of(count, 1), memory, verify=True).run != count:
                raise Failure(f"{name}: a host client does not get what a GPU has encoded")
            if memory != b"".join(expected):
                raise Failure(f"{name}: a host client gets other bytes of what a GPU has encoded")
            if any(status is not OK for status in namespace.put(keys_of(count, 2), raw)):
                raise Failure(f"{name}: a host client can't put")
            for layers in (range(3, 6), range(0, 3)):
                all_ok(region.get(keys_of(count, 2), range(2 * count, 3 * count), layers=layers), f"{name}: get of a host client's")
            self.gpu.wait()
            for first, what in ((count, "a GPU has encoded"), (2 * count, "a host client has encoded")):
                for number in range(count):
                    for a, b in zip(pool.block(3 * count + number, range(6)), pool.block(first + number, range(6))):
                        if not torch.equal(a, b):
                            raise Failure(f"{name}: {int((a != b).sum())} of {a.numel()} bytes of block {number} are others that {what}")
            after = client.counters()
            for counter, grown in (("put_encoded", 2 * (count - unfit)), ("put_raw", 2 * unfit)):
                if after[counter] - before[counter] != grown:
                    raise Failure(f"{name}: {counter} has grown by {after[counter] - before[counter]}, expected {grown}")
            namespace.clear()
        return 2 * count, error

    def expected_of(
        self, client: Client, name: str, pool: Pool, count: int, unfit: int, encoding: str
    ) -> tuple[list[bytes], list[bytes], float]:
        """Puts the pool's first blocks, as they are once the C core has encoded and decoded them, into its last ones.

        Args:
            name: of a namespace that keeps blocks as they are.
            unfit: how many of the first blocks can't be encoded.

        Returns: the first blocks, and what they become, in the order of their bytes, and the relative error of one that fits.
        """
        with pool.region(client, name) as region:
            namespace = client.namespace(name, block_bytes=pool.block_bytes)
            all_ok(region.put(keys_of(count, 1), range(count)), f"{name}: put")
            memory = bytearray(count * pool.block_bytes)
            if namespace.get(keys_of(count, 1), memory).run != count:
                raise Failure(f"{name}: a host client can't get")
            raw = [bytes(memory[at : at + pool.block_bytes]) for at in range(0, len(memory), pool.block_bytes)]
            expected = [kept(encoding, block) for block in raw]
            if [number for number in range(unfit) if expected[number] != raw[number]]:
                raise Failure(f"{name}: the C core encodes blocks of noise")
            if any(status is not OK for status in namespace.put(keys_of(count, 2), expected)):
                raise Failure(f"{name}: a host client can't put")
            all_ok(region.get(keys_of(count, 2), range(3 * count, 4 * count)), f"{name}: get")
            self.gpu.wait()
            namespace.clear()
        before, after = (torch.frombuffer(bytearray(one[-1]), dtype=torch.bfloat16).float() for one in (raw, expected))
        return raw, expected, float((before - after).abs().sum() / before.abs().sum())

    def encoded_by_ranks(self, client: Client, writers: int, layers: int, encoding: str) -> int:
        """Compares blocks that the GPU encodes for ranks of an engine, some layers at a time. The GPU decodes them for other ranks, and so does
        the C core."""
        name, count, heads, tokens = f"{encoding.split()[0]}-by-{writers}-{layers}-layers", 12, 4, 16
        whole = Pool(self.gpu, "CBHND", layers=6, blocks=2 * count, tokens=tokens, heads=heads, dim=128, order="LCHND")
        # It does not matter which parts of a raw block came encoded.
        whole.fill_with_values(are_kept=True)
        unfit = {0: 0, 1: heads - 1}
        for number, head in unfit.items():
            noise = whole.block(number, range(2, 3))[0][1, head].random_(0, 256)
            # Infinite: once in some thousand times, a head of noise fits the encoding fp8.
            noise[..., 0], noise[..., 1] = 0x80, 0x7F
        form = f"LCHND:6x{tokens}:2x{heads}x256"
        namespace = client.namespace(name, block_bytes=whole.block_bytes, encoding=encoding, form=form)
        ranks: dict[int, list[tuple[Pool, DeviceRegion]]] = {}
        for number in sorted({1, 2, 4, writers}):
            own = heads // number
            ranks[number] = []
            for first in range(0, heads, own):
                pool = Pool(self.gpu, "CBHND", layers=6, blocks=2 * count, tokens=tokens, heads=own, dim=128, order="LCHND")
                for mine, all_heads in zip(pool.views(), whole.views()):
                    mine[:, :count] = all_heads[:, :count, first : first + own]
                pool.part = replace(pool.part, block_heads=heads, first_head=first)
                self.gpu.wait()
                ranks[number].append((pool, DeviceRegion(namespace, pool.spec(), name)))
        before = client.counters()
        keys = keys_of(count, 3)
        for first in range(0, 6, layers):
            for copying in [region.put(keys, range(count), layers=range(first, first + layers)) for _, region in ranks[writers]]:
                all_ok(copying, f"{name}: put")
        self.quiet(client)
        after = client.counters()
        for counter, expected in (("put_encoded", count - len(unfit)), ("put_raw", len(unfit))):
            if after[counter] - before[counter] != expected:
                raise Failure(f"{name}: {counter} has grown by {after[counter] - before[counter]}, expected {expected}")
        memory = bytearray(count * whole.block_bytes)
        if namespace.get(keys, memory, verify=True).run != count:
            raise Failure(f"{name}: a host client does not get what ranks have encoded")
        for number in range(count):
            block = torch.stack([part.cpu() for part in whole.block(number, range(6))])
            if block.numpy().tobytes() != memory[number * whole.block_bytes : (number + 1) * whole.block_bytes]:
                raise Failure(f"{name}: a host client gets other bytes of block {number} than ranks have put")
        for readers, regions in ranks.items():
            for pool, region in regions:
                all_ok(region.get(keys, range(count, 2 * count)), f"{name}: get")
                self.gpu.wait()
                for view in pool.views():
                    if not torch.equal(view[:, :count], view[:, count:]):
                        raise Failure(f"{name}: one of {readers} ranks gets other bytes")
        namespace.clear()
        for _, region in (rank for regions in ranks.values() for rank in regions):
            region.close()
        return count * (len(ranks) + 1)

    def beside(self) -> None:
        """Copies beside an engine that computes: raw blocks and those of each encoding, as engines have them, in one run."""
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        rounds = 20 if self.quick else 60
        if self.gpu.is_real:
            passes = {name: partial(pass_ms, loop, rounds) for name, loop in loops().items()}
        else:
            passes = {"nothing": partial(slept_ms, 0.05)}
        size = 8 if self.quick else 200
        kinds = [("raw", "LCND", {})] + [(kind, "LCHND", {"encoding": encoding}) for kind, encoding in ENCODINGS.items()]
        for name, order, properties in kinds:
            with self.daemon.client() as client:
                pool = Pool(self.gpu, "CBNHD", layers=32, blocks=8 * size, tokens=16, heads=8, dim=128, order=order)
                pool.fill_with_values()
                namespace = client.namespace(f"beside-{name}", block_bytes=pool.block_bytes, **properties)
                with pool.region(client, f"beside-{name}", **properties) as region:
                    time.sleep(0 if self.quick else 1.5)  # the rest of the memory is being registered
                    stay = keys_of(4 * size, 1)
                    all_ok(region.put(stay, range(4 * size)), name)
                    self.quiet(client)
                    if any(status is not OK for status in namespace.pin(stay)):
                        raise Failure("what shall stay can't be pinned")
                    beside.measure(self, name, client, region, stay, size, passes)
                namespace.clear()

    def put_and_get(self, namespace: object, region: DeviceRegion, runs: str, blocks: int, block_bytes: int) -> None:
        rounds = 2 if self.quick else 3
        pid = self.daemon.process.pid

        def cpu() -> float:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        def threads() -> dict[str, int]:
            """Ticks of processor time, by the daemon's threads."""
            ticks = {}
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                ticks[name] = ticks.get(name, 0) + sum(map(int, fields.split()[11:13]))
            return ticks

        def timed(begin: object) -> tuple[float, float]:
            before, begun = cpu(), time.perf_counter()
            copies = begin()
            for copying in copies:
                all_ok(copying, runs)
            seconds = time.perf_counter() - begun
            moved = len(copies) * blocks * block_bytes
            return moved / seconds / 1e9, (cpu() - before) * 1e12 / moved

        def quiet() -> None:
            self.quiet(namespace._client)

        # A stream of operations, three of them at a time in each direction: puts of blocks that are new, gets of those that stay.
        size, ahead = max(8, blocks // 8), 3
        stay = keys_of(4 * size, 1)
        all_ok(region.put(stay, range(4 * size)), runs)
        quiet()
        if any(status is not OK for status in namespace.pin(stay)):
            raise Failure("what shall stay can't be pinned")
        number = 1000

        def stream(ways: str, seconds: float) -> int:
            nonlocal number
            waiting: list[tuple[str, Copying]] = []
            end, turn, done = time.perf_counter() + seconds, 0, 0
            while True:
                for way in ways:
                    while sum(1 for one, _ in waiting if one == way) < ahead and time.perf_counter() < end:
                        number, turn = number + 1, turn + 1
                        at = turn % 4 * size
                        if way == "o":
                            waiting.append((way, region.put(keys_of(size, number), range(at, at + size))))
                        else:
                            some = range(blocks + at, blocks + at + size)
                            waiting.append((way, region.get(stay[at : at + size], some)))
                if not waiting:
                    return done
                for entry in [one for one in waiting if one[1].done()] or waiting[:1]:
                    all_ok(entry[1], runs)
                    waiting.remove(entry)
                    done += 1

        spent: dict[str, dict[str, int]] = {"o": {}, "i": {}, "oi": {}}
        seconds_of = dict.fromkeys(spent, 0.0)

        def timed_stream(ways: str) -> tuple[float, float, float]:
            """GB/s, processor time in ms/GB, and GB/s where the checksums of what was put count as part of it."""
            quiet()
            before, before_by, begun = cpu(), threads(), time.perf_counter()
            moved = stream(ways, 0.3 if self.quick else 2.0) * size * block_bytes
            seconds = time.perf_counter() - begun
            quiet()
            to_the_end = time.perf_counter() - begun
            processor = (cpu() - before) * 1e12 / moved
            for name, ticks in threads().items():
                group = name.rstrip("0123456789")
                spent[ways][group] = spent[ways].get(group, 0) + ticks - before_by.get(name, 0)
            seconds_of[ways] += to_the_end
            return moved / seconds / 1e9, processor, moved / to_the_end / 1e9

        puts, gets, both, burst = [], [], [], []
        timed_stream("oi")
        for ways in spent:
            spent[ways], seconds_of[ways] = {}, 0.0
        for turn in range(rounds):
            puts.append(timed_stream("o"))
            gets.append(timed_stream("i"))
            both.append(timed_stream("oi"))
            burst.append(timed(lambda: [region.get(stay, range(blocks, blocks + 4 * size))]))
            burst[-1] = (burst[-1][0] * 4 * size / blocks, burst[-1][1])
        for ways, name in (("o", "put"), ("i", "get"), ("oi", "put_and_get")):
            for thread, ticks in sorted(spent[ways].items(), key=lambda one: -one[1])[:5]:
                share = ticks / os.sysconf("SC_CLK_TCK") / seconds_of[ways]
                self.row(f"{name}_of_{runs}_runs_cores_of_{thread.replace(' ', '_')}", share, "cores")
        for name, way, figures in (("put", "out", puts), ("put_and_get", "both", both)):
            kept_up = statistics.median(f[2] for f in figures)
            self.row(f"{name}_of_{runs}_runs_checksums_and_all", kept_up, "GB/s", f"link_{way}", self.link[way])
        gpu = namespace._client.stats()["gpus"][0]
        for strategy in ("plain", "batch", "staged", "kernel", "encoded"):
            self.row(f"{runs}_runs_by_{strategy}", gpu["copied_bytes"][strategy] / 1e9, "GB")
        namespace.clear()
        # The blocks for the other parts.
        all_ok(region.put(keys_of(blocks, 1), range(blocks)), runs)
        quiet()
        for name, way, figures in (("put", "out", puts), ("get", "in", gets), ("one_get", "in", burst), ("put_and_get", "both", both)):
            self.row(f"{name}_of_{runs}_runs", statistics.median(f[0] for f in figures), "GB/s", f"link_{way}", self.link[way])
            self.row(f"{name}_of_{runs}_runs_best", max(f[0] for f in figures), "GB/s", f"link_{way}", self.link[way])
            self.row(f"{name}_of_{runs}_runs_processor", statistics.median(f[1] for f in figures), "ms/GB")

    @staticmethod
    def quiet(client: Client) -> None:
        """Waits until the checksums of what was put are made."""
        while client.stats()["counters"]["host_slots_in_flight"] > 0:
            time.sleep(0.01)

    def one_block(self, namespace: object, region: DeviceRegion, runs: str) -> None:
        keys = keys_of(20, 1)
        for name in ("get", "put"):
            times = []
            for turn in range(60 if self.quick else 600):
                key = keys_of(1, 5000 + turn) if name == "put" else [keys[turn % 20]]
                begun = time.perf_counter()
                copying = region.put(key, [turn % 20]) if name == "put" else region.get(key, [30 + turn % 20])
                statuses = copying.wait(10)
                times.append((time.perf_counter() - begun) * 1e6)
                if statuses != [OK]:
                    raise Failure(f"one block, {name}: {statuses}")
            times = sorted(times[len(times) // 6 :])
            self.row(f"one_block_{name}_of_{runs}_runs_p50", statistics.median(times), "us")
            self.row(f"one_block_{name}_of_{runs}_runs_p99", times[int(len(times) * 0.99)], "us")

    def layerwise(self, namespace: object, region: DeviceRegion, runs: str, blocks: int) -> None:
        first, total, plain = [], [], []
        for _ in range(3):
            begun = time.perf_counter()
            copying = region.get(keys_of(blocks, 1), range(blocks, 2 * blocks))
            while copying.layers_done() == 0 and not copying.done():
                pass
            first.append((time.perf_counter() - begun) * 1e3)
            all_ok(copying, "layerwise")
            total.append((time.perf_counter() - begun) * 1e3)
        self.row(f"get_{blocks}_blocks_of_{runs}_runs_first_layer", statistics.median(first), "ms")
        self.row(f"get_{blocks}_blocks_of_{runs}_runs_all_layers", statistics.median(total), "ms")
        for _ in range(3):
            namespace.clear()
            begun = time.perf_counter()
            parts = [region.put(keys_of(blocks, 7000 + len(plain)), range(blocks), layers=range(i, i + 1)) for i in range(region.layers)]
            for part in parts:
                all_ok(part, "put by layers")
            plain.append((time.perf_counter() - begun) * 1e3)
        self.row(f"put_{blocks}_blocks_of_{runs}_runs_layer_by_layer", statistics.median(plain), "ms")

    # ---- from SSD

    def ssd(self) -> None:
        """Gets of blocks that are on SSD alone, against reads of the same files with nothing else."""
        self.daemon.kill()
        self.daemon.start(host__bytes="64MiB" if self.quick else "1GiB", host__slab_bytes="16MiB", host__keep=0)
        count = 64 if self.quick else 2048
        with self.daemon.client() as client:
            pool = Pool(self.gpu, "CBNHD", layers=32, blocks=count, tokens=16, heads=8, dim=128)
            namespace = client.namespace("ssd", block_bytes=pool.block_bytes)
            with pool.region(client, "ssd") as region:
                kept = [raw.clone() for raw in pool.raw]
                begun = time.perf_counter()
                all_ok(region.put(keys_of(count, 1), range(count)), "ssd: put")
                half = count // 2
                self.row("ssd_put_more_than_memory_has", count * pool.block_bytes / (time.perf_counter() - begun) / 1e9, "GB/s")
                # Each half pushes the other out of memory: in the end all are on SSD, and nothing is to be written any more.
                for part in (range(half), range(half, count), range(half), range(half, count)):
                    all_ok(region.get([keys_of(count, 1)[i] for i in part], part), "ssd: get")
                self.quiet(client)
                while client.stats()["counters"]["ssd_slots_in_flight"] > 0:
                    time.sleep(0.01)
                for raw in pool.raw:
                    raw.zero_()
                self.gpu.wait()
                begun = time.perf_counter()
                all_ok(region.get(keys_of(count, 1)[:half], range(half)), "ssd: get")
                seconds = time.perf_counter() - begun
                shape = (2, count, -1)
                if not all(torch.equal(a.view(shape)[:, :half], b.view(shape)[:, :half]) for a, b in zip(kept, pool.raw)):
                    raise Failure("other bits from SSD")
            self.row("ssd_limit", self.read_files(half * pool.block_bytes), "GB/s")
            self.row("ssd_get", half * pool.block_bytes / seconds / 1e9, "GB/s", "ssd", float(self.rows[-1]["value"]))
            namespace.clear()

    def read_files(self, most: int) -> float:
        """GB/s of eight threads that read the SSD tier's files past the page cache, 2 MiB at a time."""
        step = 2 << 20
        pieces = [
            (path, at) for path in sorted((self.folder / "ssd").rglob("*")) if path.is_file()
            for at in range(0, path.stat().st_size - step, step)
        ]  # fmt: skip
        random.Random(3).shuffle(pieces)
        pieces = pieces[: most // step]

        def read(share: list[tuple[pathlib.Path, int]]) -> None:
            buffer = mmap.mmap(-1, step)
            for path, at in share:
                file = os.open(path, os.O_RDONLY | os.O_DIRECT)
                os.preadv(file, [buffer], at)
                os.close(file)

        begun = time.perf_counter()
        with ThreadPoolExecutor(8) as readers:
            list(readers.map(read, [pieces[i::8] for i in range(8)]))
        return len(pieces) * step / (time.perf_counter() - begun) / 1e9

    # ---- faults

    def engine_dies(self) -> None:
        for what in ("put", "get"):
            before = self.gpu.used_mib()
            command = [sys.executable, "-m", "checks.gpu.daemon", "--socket", str(self.daemon.socket), "--dying", what]
            if not self.gpu.is_real:
                command += ["--file-gpu", str(self.gpu.folder)]
            engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            line = engine.stdout.readline()
            if line != "begin\n":
                raise Failure(f"the engine that shall die said {line!r}")
            time.sleep(0.4)
            self.row(f"engine_killed_in_{what}_had_memory", self.gpu.used_mib() - before, "MiB")
            engine.send_signal(signal.SIGKILL)
            begun = time.monotonic()
            engine.wait()
            with self.daemon.client() as client:
                while client.stats()["gpus"][0]["regions"] > 0 and time.monotonic() - begun < 10:
                    time.sleep(0.005)
                self.row(f"engine_killed_in_{what}_region_closed_after", (time.monotonic() - begun) * 1e3, "ms")
                while self.gpu.used_mib() - before > 64 and time.monotonic() - begun < 10:
                    time.sleep(0.05)
                self.row(f"engine_killed_in_{what}_memory_left", self.gpu.used_mib() - before, "MiB")
                counters = client.counters()
                self.row(f"engine_killed_in_{what}_operations_left", counters["operations"], "")
                client.namespace("dying", block_bytes=DYING_BLOCK_BYTES).clear()

    def daemon_dies(self) -> None:
        self.daemon.kill()
        self.daemon.start()
        with self.daemon.client() as client, Pool(self.gpu, "BD", layers=1, blocks=4, tokens=1, heads=1, dim=4096).region(client, "warm"):
            pass
        before = self.gpu.used_mib()
        with self.daemon.client() as client:
            pool = Pool(self.gpu, "CBNHD", layers=32, blocks=64 if self.quick else 512, tokens=16, heads=8, dim=128)
            half = pool.blocks // 2
            region = pool.region(client, "survives")
            keys = keys_of(half, 1)
            all_ok(region.put(keys, range(half)), "before the daemon dies")
            kept = [raw.clone() for raw in pool.raw]
            copies = [region.get(keys, range(half, 2 * half)), region.put(keys_of(half, 2), range(half))]
            time.sleep(0.005)
            with_daemon = self.gpu.used_mib()
            self.daemon.kill()
            begun = time.monotonic()
            answers = [copying.wait(10) for copying in copies]
            self.row("daemon_killed_engine_answered_after", (time.monotonic() - begun) * 1e3, "ms")
            if not all(status in (OK, Status.UNAVAILABLE) for answer in answers for status in answer):
                raise Failure(f"after the daemon's end: {[set(answer) for answer in answers]}")
            time.sleep(0.5)
            self.row("daemon_killed_device_memory_given_back", with_daemon - self.gpu.used_mib(), "MiB")
            self.row("daemon_restart", self.daemon.start(), "s")
            deadline = time.monotonic() + 30
            while region.get(keys[:1], [half]).wait(10) != [OK]:
                if time.monotonic() > deadline:
                    raise Failure("the region was not registered again")
                time.sleep(0.05)
            self.row("daemon_killed_first_get_after", (time.monotonic() - begun) * 1e3, "ms")
            for raw in pool.raw:
                raw.zero_()
            self.gpu.wait()
            all_ok(region.get(keys, range(half)), "after the restart")
            self.gpu.wait()
            for before_it, raw in zip(kept, pool.raw):
                shape = (2, pool.blocks, -1)
                if not torch.equal(before_it.view(shape)[:, :half], raw.view(shape)[:, :half]):
                    raise Failure("other bits after the restart")
            self.row("daemon_killed_blocks_that_survived", half, "blocks")
            region.close()
            client.namespace("survives", block_bytes=pool.block_bytes).clear()
        del pool, kept, before_it, raw
        if self.gpu.is_real:
            torch.cuda.empty_cache()
        self.row("device_memory_left_after_all", self.gpu.used_mib() - before, "MiB")

    # ---- time to the first token

    def ttft(self) -> None:
        if not self.gpu.is_real:
            return
        import transformers

        if not self.link:
            self.limits()
        config = transformers.LlamaConfig(
            hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336,
            vocab_size=32000, max_position_embeddings=65536, attn_implementation="sdpa",
        )  # fmt: skip
        begun = time.monotonic()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device("meta"):
                model = transformers.LlamaForCausalLM(config)
        finally:
            torch.set_default_dtype(torch.float32)
        model = model.to_empty(device="cuda").eval()
        generator = torch.Generator(device="cuda").manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.02, generator=generator)
                else:
                    parameter.fill_(1)
            # Buffers that are no parameters have no value yet.
            rope = type(model.model.rotary_emb)(config=config).to("cuda")
            model.model.rotary_emb = rope
        self.row("ttft_model_made", time.monotonic() - begun, "s")
        with self.daemon.client() as client, torch.inference_mode():
            for tokens in (2048,) if self.quick else (2048, 8192, 32768):
                self.one_prompt(client, model, tokens)
        del model
        torch.cuda.empty_cache()

    def one_prompt(self, client: Client, model: object, tokens: int) -> None:
        import kvtier.torch as ktorch

        ids = torch.randint(0, 32000, (1, tokens + 1), device="cuda")

        def timed(function: object, rounds: int = 3) -> tuple[float, object]:
            times, result = [], None
            for _ in range(rounds):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                result = function()
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begun) * 1e3)
            return statistics.median(times), result

        prefill_ms, out = timed(lambda: model(ids[:, :tokens], use_cache=True, logits_to_keep=1))
        cache = out.past_key_values
        layers = cache.layers
        kept = [(layer.keys.contiguous(), layer.values.contiguous()) for layer in layers]

        def next_token() -> torch.Tensor:
            for layer, (keys, values) in zip(layers, kept):
                layer.keys, layer.values = keys, values
            return model(ids[:, tokens:], past_key_values=cache, use_cache=True, logits_to_keep=1).logits

        timed(next_token, 6)
        decode_ms, before = timed(next_token)
        before = before.clone()
        same = lambda a, b: torch.equal(a.view(torch.int16), b.view(torch.int16))

        def share(what: object, times: int = 10) -> float:
            """How often it comes to the same logits."""
            return sum(same(before, what()) for _ in range(times)) / times

        alone = share(next_token)
        self.row(f"ttft_{tokens}_same_logits_without_a_restore", alone, "of 10")
        # Each layer's keys and values are [1, heads, tokens, dim], so a block has a run a head, 4 KiB, in each of 64 tensors.
        tensors = [tensor for pair in kept for tensor in pair]
        blocks = tokens // 16
        name = f"ttft-{tokens}"
        namespace = client.namespace(name, block_bytes=len(tensors) * 8 * 16 * 128 * 2)
        with ktorch.register(namespace, [tensor.view(8, blocks, 16 * 128) for tensor in tensors], block_axes=1) as region:
            keys = keys_of(blocks, tokens)
            begun = time.perf_counter()
            all_ok(region.put(keys, range(blocks)), name)
            put_ms = (time.perf_counter() - begun) * 1e3

            def get() -> None:
                all_ok(region.get(keys, range(blocks)), name)

            def get_and_first_token() -> torch.Tensor:
                get()
                return next_token()

            def first_token_behind_the_layers() -> torch.Tensor:
                """A layer is computed as soon as its keys and values are there, while those of later layers still come."""
                copying = region.get(keys, range(blocks))

                def arrived(number: int) -> None:
                    while copying.layers_done() < 2 * number + 2 and not copying.done():
                        pass

                hooks = [
                    layer.register_forward_pre_hook(lambda *_, number=number: arrived(number))
                    for number, layer in enumerate(model.model.layers)
                ]
                try:
                    logits = next_token()
                finally:
                    for hook in hooks:
                        hook.remove()
                all_ok(copying, name)
                return logits

            def token_beside_a_get() -> torch.Tensor:
                """Computes a token without a wait for the get: a lower bound of the time."""
                copying = region.get(keys, range(blocks))
                logits = next_token()
                all_ok(copying, name)
                return logits

            self.quiet(client)
            timed(get)
            beside = share(token_beside_a_get)
            self.row(f"ttft_{tokens}_same_logits_beside_a_get_of_the_same_bytes", beside, "of 10")
            figures = [("prefill", prefill_ms), ("put", put_ms), ("decode_one", decode_ms)]
            copies = [tensor.clone() for tensor in tensors]
            for way, restore in (("get_then_token", get_and_first_token), ("token_behind_layers", first_token_behind_the_layers)):
                times, right = [], 0
                for _ in range(6):
                    for tensor in tensors:
                        tensor.zero_()
                    milliseconds, after = timed(restore, 1)
                    times.append(milliseconds)
                    right += same(before, after)
                    # Sums in another order differ in the last bits; a layer computed from zeros differs in all.
                    if ((after - before).float().norm() > 0.05 * before.float().norm()).item():
                        raise Failure(f"{tokens} tokens: {way} came to other logits: a layer was computed before it was there")
                figures.append((way, statistics.median(times[1:])))
                wrong = [index for index, (a, b) in enumerate(zip(copies, tensors)) if not same(a, b)]
                if wrong:
                    raise Failure(f"{tokens} tokens: other bits in {len(wrong)} of {len(tensors)} tensors: {wrong[:8]}")
                self.row(f"ttft_{tokens}_same_logits_{way}", right / 6, "of 6")
                if right < 6 and alone == beside == 1:
                    self.problems.append(f"{tokens} tokens: other logits after {way} in {6 - right} of 6, of which no bit is another")
            del copies
            get_ms, _ = timed(get, 5)
            self.one_prompt_of_a_sibling(tensors, keys, name, timed, get, get_and_first_token)
            first_ms = []
            for _ in range(5):
                begun = time.perf_counter()
                copying = region.get(keys, range(blocks))
                while copying.layers_done() == 0 and not copying.done():
                    pass
                first_ms.append((time.perf_counter() - begun) * 1e3)
                all_ok(copying, name)
            figures += [("get_first_layer", statistics.median(first_ms)), ("get", get_ms)]
            for row, value in figures:
                self.row(f"ttft_{tokens}_{row}", value, "ms")
            moved = blocks * namespace.block_bytes
            self.row(f"ttft_{tokens}_get_speed", moved / get_ms / 1e6, "GB/s", "link_in", self.link.get("in", math.nan))
            for row, value in figures:
                if row in ("get", "get_then_token", "token_behind_layers"):
                    self.row(f"ttft_{tokens}_prefill_over_{row}", prefill_ms / value, "times")
        namespace.clear()

    # ---- streams that wait for layers

    def waits(self) -> None:
        """Kernels that are handed over before the layers are there, behind waits of their stream."""
        if not self.gpu.is_real:
            return
        import kvtier.torch as ktorch

        self.wake()
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        layers, blocks, per_layer = 32, 64 if self.quick else 512, 2 * 16 * 8 * 128 * 2
        client = self.daemon.client()
        tensors = [torch.randn(2, 2 * blocks, 16, 8, 128, device="cuda", dtype=torch.bfloat16) for _ in range(layers)]
        namespace = client.namespace("waits", block_bytes=layers * per_layer)
        region = ktorch.register(namespace, tensors, block_axes=1)
        keys = keys_of(blocks, 1)
        if any(status is not OK for status in region.put(keys, range(blocks)).wait(60)):
            raise Failure("waits: put")
        self.quiet(client)
        halves = [(tensor.view(torch.int16)[:, :blocks], tensor.view(torch.int16)[:, blocks:]) for tensor in tensors]
        wrong = torch.zeros(layers, dtype=torch.int64, device="cuda")
        self.chain(region, halves, wrong, keys)
        self.one_load(region, halves[-1], keys)
        self.many_loads(region, tensors, keys)
        self.failing_loads(region, keys, blocks)
        self.killed_and_closed(client, region, halves, keys, wrong)
        del tensors, halves
        torch.cuda.empty_cache()

    def wake(self) -> None:
        """From the word that is written to the end of the first kernel behind it, beside a kernel that the host launches then."""
        import ctypes

        word = torch.zeros(1024, dtype=torch.int32).pin_memory()
        at = ctypes.c_uint64()
        if self.gpu.cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(at), ctypes.c_void_p(word.data_ptr()), 0):
            raise Failure("no address of pinned memory")
        cell = ctypes.c_int32.from_address(word.data_ptr())
        stream, other = torch.cuda.Stream(), torch.cuda.Stream()
        out = torch.zeros(1024, device="cuda")
        by_stream, by_host, beside = [], [], []

        def kernel(on: torch.cuda.Stream) -> torch.cuda.Event:
            with torch.cuda.stream(on):
                out.add_(1)
                done = torch.cuda.Event()
                done.record()
            return done

        def until(done: torch.cuda.Event, begun: float) -> float:
            while not done.query():
                pass
            return (time.perf_counter() - begun) * 1e6

        # A kernel is loaded when it is launched first, which may wait for all that the GPU has.
        until(kernel(other), 0)
        for turn in range(1, 201):
            code = self.gpu.cuda.cuStreamWaitValue32_v2(ctypes.c_void_p(stream.cuda_stream), at, ctypes.c_uint32(turn), 0)
            if code != 0:
                raise Failure(f"cuStreamWaitValue32: CUDA error {code}")
            done = kernel(stream)
            # Others are not held up by a stream that waits.
            beside.append(until(kernel(other), time.perf_counter()))
            if done.query():
                raise Failure("a stream did not wait")
            begun = time.perf_counter()
            cell.value = turn
            by_stream.append(until(done, begun))
            begun = time.perf_counter()
            by_host.append(until(kernel(stream), begun))
        for name, times in (("behind_a_wait", by_stream), ("launched_then", by_host), ("beside_a_wait", beside)):
            self.row(f"waits_kernel_{name}_p50", statistics.median(times), "us")
            self.row(f"waits_kernel_{name}_p99", sorted(times)[int(len(times) * 0.99)], "us")

    def chain(self, region: object, halves: list[tuple[torch.Tensor, torch.Tensor]], wrong: torch.Tensor, keys: list[bytes]) -> None:
        """A kernel a layer that compares what came: all handed over at once, or one by one as the layers come, or all at the end."""
        blocks = len(keys)

        def compare(number: int) -> None:
            source, target = halves[number]
            wrong[number] += (source != target).sum()

        def run(way: str) -> tuple[float, float, float]:
            for _, target in halves:
                target.zero_()
            wrong.zero_()
            torch.cuda.synchronize()
            begun = time.perf_counter()
            copying = region.get(keys, range(blocks, 2 * blocks))
            events = []
            if way == "host_all":
                copying.wait(60)
            for number in range(len(halves)):
                if way == "stream":
                    copying.wait_layer(number)
                elif way == "host":
                    while copying.layers_done() <= number:
                        pass
                compare(number)
                event = torch.cuda.Event()
                event.record()
                events.append(event)
            handed = (time.perf_counter() - begun) * 1e3
            while not events[0].query():
                pass
            first = (time.perf_counter() - begun) * 1e3
            torch.cuda.synchronize()
            total = (time.perf_counter() - begun) * 1e3
            if any(status is not OK for status in copying.wait(60)):
                raise Failure(f"waits, {way}: {copying.wait()}")
            if int(wrong.sum()) != 0:
                raise Failure(f"waits, {way}: {[int(count) for count in wrong]} values of the layers were others when they were read")
            return handed, first, total

        for way in ("host_all", "host", "stream"):
            run(way)
            figures = [run(way) for _ in range(3 if self.quick else 10)]
            for index, name in enumerate(("handed_over", "first_layer_used", "all_layers_used")):
                self.row(f"waits_{way}_{name}", statistics.median(figure[index] for figure in figures), "ms")

    def one_load(self, region: object, last: tuple[torch.Tensor, torch.Tensor], keys: list[bytes]) -> None:
        """One block, and a kernel on its last layer."""
        blocks = len(keys)
        out = torch.zeros(1, device="cuda", dtype=torch.int64)

        def run(way: str, turn: int) -> float:
            torch.cuda.synchronize()
            place = blocks + turn % blocks
            begun = time.perf_counter()
            copying = region.get([keys[turn % blocks]], [place])
            if way == "stream":
                copying.wait_layer(31)
            else:
                copying.wait(60)
            if way != "alone":
                out.add_(last[1][0, turn % blocks, 0, 0, 0])
                done = torch.cuda.Event()
                done.record()
                while not done.query():
                    pass
            elapsed = (time.perf_counter() - begun) * 1e6
            if copying.wait(60) != [OK]:
                raise Failure(f"waits, one block: {copying.wait()}")
            return elapsed

        for way in ("alone", "host", "stream"):
            times = sorted(run(way, turn) for turn in range(50 if self.quick else 300))
            self.row(f"waits_one_block_{way}_p50", statistics.median(times), "us")
            self.row(f"waits_one_block_{way}_p99", times[int(len(times) * 0.99)], "us")

    def many_loads(self, region: object, tensors: list[torch.Tensor], keys: list[bytes]) -> None:
        """A thousand loads through the session's 256 words; the stream comes to the first waits late."""
        blocks, count = len(keys), 1000
        wrong = torch.zeros(1, device="cuda", dtype=torch.int64)
        first, last = (tensors[number].view(torch.int16) for number in (0, -1))
        waiting = []
        torch.cuda.synchronize()
        begun = time.perf_counter()
        torch.cuda._sleep(200_000_000)
        for turn in range(count):
            # A place is used again when the comparison before has been: the copy waits for what is recorded here.
            place = blocks + turn % blocks
            after = torch.cuda.Event()
            if turn >= blocks:
                after.record()
            copying = region.get([keys[turn % blocks]], [place], after=after if turn >= blocks else None, timeout=60)
            copying.wait_layer(0 if turn % 3 == 0 else 31)
            tensor = first if turn % 3 == 0 else last
            wrong += (tensor[:, place] != tensor[:, turn % blocks]).sum()
            tensor[:, place].zero_()
            waiting.append(copying)
            while len(waiting) > 100:
                if waiting.pop(0).wait(60) != [OK]:
                    raise Failure("waits: one of a thousand loads")
        torch.cuda.synchronize()
        self.row("waits_thousand_loads", count / (time.perf_counter() - begun), "loads/s")
        if any(copying.wait(60) != [OK] for copying in waiting):
            raise Failure("waits: one of the last loads")
        if int(wrong) != 0:
            raise Failure(f"waits: {int(wrong)} values of a thousand loads were others when they were read")

    def failing_loads(self, region: object, keys: list[bytes], blocks: int) -> None:
        """The stream goes on."""
        stream = torch.cuda.Stream()
        asleep = torch.cuda.Stream()
        never = torch.cuda.Event()
        with torch.cuda.stream(asleep):
            torch.cuda._sleep(4_000_000_000)
            never.record()
        for name, expected, begin in (
            ("missed", Status.MISS, lambda: region.get(keys_of(4, 99), range(4))),
            ("late", Status.DEADLINE, lambda: region.get(keys[:4], range(blocks, blocks + 4), after=never, timeout=0.1)),
            ("cancelled", Status.CANCELLED, lambda: region.get(keys[:4], range(blocks, blocks + 4), after=never, timeout=60)),
        ):
            begun = time.perf_counter()
            copying = begin()
            copying.wait_layer(31, stream)
            if name == "cancelled":
                copying.cancel()
            stream.synchronize()
            self.row(f"waits_load_{name}_stream_goes_on_after", (time.perf_counter() - begun) * 1e3, "ms")
            if set(copying.wait(60)) != {expected}:
                raise Failure(f"waits, a load that is {name}: {copying.wait()}")
        asleep.synchronize()

    def killed_and_closed(
        self, client: Client, region: object, halves: list[tuple[torch.Tensor, torch.Tensor]], keys: list[bytes], wrong: torch.Tensor
    ) -> None:
        """The daemon is killed while a stream waits; then the client is closed while one does."""
        blocks = len(keys)
        stream, asleep = torch.cuda.Stream(), torch.cuda.Stream()

        def waiting() -> tuple[object, torch.cuda.Event]:
            never = torch.cuda.Event()
            with torch.cuda.stream(asleep):
                torch.cuda._sleep(4_000_000_000)
                never.record()
            copying = region.get(keys[:4], range(blocks, blocks + 4), after=never, timeout=60)
            copying.wait_layer(31, stream)
            time.sleep(0.1)
            if stream.query() or never.query():
                raise Failure("waits: the stream did not wait")
            return copying, never

        def goes_on(name: str, copying: object, never: torch.cuda.Event, begun: float) -> None:
            stream.synchronize()
            if never.query():
                raise Failure(f"waits, {name}: the stream went on only when the load did")
            self.row(f"waits_{name}_stream_goes_on_after", (time.perf_counter() - begun) * 1e3, "ms")
            if set(copying.wait(60)) != {Status.UNAVAILABLE}:
                raise Failure(f"waits, {name}: {copying.wait()}")
            asleep.synchronize()

        copying, never = waiting()
        begun = time.perf_counter()
        self.daemon.process.kill()
        goes_on("daemon_killed", copying, never, begun)
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        end = time.monotonic() + 30
        while not set(region.put(keys, range(blocks)).wait(60)) <= {OK, Status.EXISTS}:
            if time.monotonic() > end:
                raise Failure("waits: the region is not registered again")
            time.sleep(0.1)
        halves[-1][1].zero_()
        wrong.zero_()
        torch.cuda.synchronize()
        copying = region.get(keys, range(blocks, 2 * blocks))
        copying.wait_layer(31)
        wrong[0] += (halves[-1][0] != halves[-1][1]).sum()
        if int(wrong[0]) != 0 or any(status is not OK for status in copying.wait(60)):
            raise Failure("waits: after a restart of the daemon")
        copying, never = waiting()
        begun = time.perf_counter()
        client.close()
        goes_on("client_closed", copying, never, begun)
        region.close()

    def one_prompt_of_a_sibling(
        self, tensors: list[torch.Tensor], keys: list[bytes], name: str, timed: object, get: object, get_and_first_token: object
    ) -> None:
        """Gets a prompt that an engine on another GPU has computed and advertises; without another GPU, on this one."""
        import kvtier.torch as ktorch

        ordinal = 1 if torch.cuda.device_count() > 1 else 0
        where = "sibling" if ordinal else "same_gpu"
        blocks = len(keys)
        twins = [tensor.to(f"cuda:{ordinal}", copy=True) for tensor in tensors]
        torch.cuda.synchronize(ordinal)
        with self.daemon.client("twin") as client, torch.cuda.device(ordinal):
            namespace = client.namespace(name, block_bytes=len(tensors) * 8 * 16 * 128 * 2)
            before = client.counters()["hits_gpu"]
            with ktorch.register(namespace, [twin.view(8, blocks, 16 * 128) for twin in twins], block_axes=1) as region:
                if region.advertise(keys, range(blocks), rank=1) != [OK] * blocks:
                    raise Failure(f"{name}: not advertised")
                with torch.cuda.device(0):
                    for tensor in tensors:
                        tensor.zero_()
                    torch.cuda.synchronize()
                    peer_ms, _ = timed(get, 5)
                    token_ms, _ = timed(get_and_first_token, 5)
                    for tensor, twin in zip(tensors, twins):
                        if not torch.equal(tensor.view(torch.int16), twin.to("cuda:0").view(torch.int16)):
                            raise Failure(f"{name}: other bits from a sibling")
                if set(region.revoke(keys)) != {OK}:
                    raise Failure(f"{name}: not revoked")
            if client.counters()["hits_gpu"] - before != 10 * blocks:
                raise Failure(f"{name}: {client.counters()['hits_gpu'] - before} blocks came from the sibling, not {10 * blocks}")
        host_ms, _ = timed(get, 5)
        host_token_ms, _ = timed(get_and_first_token, 5)
        self.row(f"{name}_get_from_{where}", peer_ms, "ms", "from_host", host_ms)
        self.row(f"{name}_get_then_token_from_{where}", token_ms, "ms", "from_host", host_token_ms)

    # ---- from one engine's memory to another's

    def peers(self) -> None:
        """Gets of blocks that another region advertises: on a sibling, where there is one, and on the same GPU."""
        self.daemon.kill()
        self.daemon.start(ssd__bytes=0, host__keep=0)
        has_sibling = not self.gpu.is_real or torch.cuda.device_count() > 1
        if has_sibling:
            self.peers_of("sibling", Gpu(self.gpu.folder, 1))
        self.peers_of("same_gpu", self.gpu)
        self.peers_owner_dies(1 if has_sibling else 0)

    def peers_link(self, where: str, owner: Gpu) -> float:
        """One large copy from the owner's GPU at a time."""
        if not owner.is_real:
            return 1.0
        size = 1 << 30
        source = torch.empty(size, dtype=torch.uint8, device=owner.device)
        target = torch.empty(size, dtype=torch.uint8, device=self.gpu.device)
        best = 0.0
        for _ in range(6):
            for ordinal in (0, owner.ordinal):
                torch.cuda.synchronize(ordinal)
            begun = time.perf_counter()
            for _ in range(4):
                target.copy_(source, non_blocking=True)
            for ordinal in (0, owner.ordinal):
                torch.cuda.synchronize(ordinal)
            best = max(best, 4 * size / (time.perf_counter() - begun) / 1e9)
        self.row(f"peers_{where}_one_large_copy", best, "GB/s")
        return best

    def peers_of(self, where: str, owner: Gpu) -> None:
        link = self.peers_link(where, owner)
        blocks = 32 if self.quick else 1024
        shape = {"layers": 32, "tokens": 16, "heads": 8, "dim": 128}
        if not self.gpu.is_real:
            shape = {"layers": 2, "tokens": 4, "heads": 2, "dim": 32}
        theirs = Pool(owner, "CBNHD", blocks=blocks, **shape)
        ours = Pool(self.gpu, "CBNHD", blocks=blocks, **shape)
        keys = keys_of(blocks, 7)
        name = f"peers-{where}"
        with self.daemon.client("owner") as owning, self.daemon.client("getter") as getting:
            with theirs.region(owning, name) as source, ours.region(getting, name) as target:
                begun = time.perf_counter()
                if source.advertise(keys, range(blocks), rank=3, timeout=60) != [OK] * blocks:
                    raise Failure("not advertised")
                self.row(f"peers_{where}_first_advertise_of_{blocks}", (time.perf_counter() - begun) * 1e3, "ms")
                found = getting.namespace(name, block_bytes=ours.block_bytes).lookup(keys).holder
                if found is None or found[0] != blocks or found[1] != source.id or found[3] != 3:
                    raise Failure(f"a lookup names {found}")
                all_ok(target.get(keys, range(blocks)), "peers")
                if getting.counters()["hits_gpu"] < blocks:
                    raise Failure("the blocks did not come from the other region: see daemon.log")
                self.same_blocks(ours, theirs, range(blocks), range(blocks))
                self.peers_speed(where, target, keys, blocks, ours.block_bytes, link)
                self.peers_revoked(where, source, target, theirs, ours, keys)
                self.peers_nothing_matches(where, source, target, getting.namespace(name, block_bytes=ours.block_bytes))
        del theirs, ours
        if self.gpu.is_real:
            torch.cuda.empty_cache()

    def same_blocks(self, ours: Pool, theirs: Pool, mine: object, others: object) -> None:
        for pool in (ours, theirs):
            pool.gpu.wait()
        for mine_view, other_view in zip(ours.views(), theirs.views()):
            if not torch.equal(mine_view[:, list(mine)], other_view[:, list(others)].to(mine_view.device)):
                raise Failure("other bits from another region")

    def peers_speed(self, where: str, target: DeviceRegion, keys: list[bytes], blocks: int, block_bytes: int, link: float) -> None:
        pid = self.daemon.process.pid

        def cpu() -> float:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        size, ahead = max(8, blocks // 4), 3

        def stream(seconds: float) -> tuple[float, float]:
            """Gets of a quarter of the blocks each, three of them at a time: GB/s, and processor time in ms/GB."""
            waiting: list[Copying] = []
            turn = done = 0
            before, begun = cpu(), time.perf_counter()
            while True:
                while len(waiting) < ahead and time.perf_counter() < begun + seconds:
                    at = turn % 4 * size
                    waiting.append(target.get(keys[at : at + size], range(at, at + size)))
                    turn += 1
                if not waiting:
                    break
                all_ok(waiting.pop(0), "peers")
                done += 1
            moved = done * size * block_bytes
            return moved / (time.perf_counter() - begun) / 1e9, (cpu() - before) * 1e12 / moved

        stream(1.0 if not self.quick else 0.2)
        rounds = [stream(2.0 if not self.quick else 0.2) for _ in range(3)]
        self.row(f"peers_{where}_get_of_32KiB_runs", statistics.median(r[0] for r in rounds), "GB/s", "one_large_copy", link)
        self.row(f"peers_{where}_get_of_32KiB_runs_best", max(r[0] for r in rounds), "GB/s", "one_large_copy", link)
        self.row(f"peers_{where}_get_of_32KiB_runs_processor", statistics.median(r[1] for r in rounds), "ms/GB")
        for count in (1, 8, 128, blocks):
            if count > blocks:
                continue
            times = []
            for _ in range(30):
                begun = time.perf_counter()
                all_ok(target.get(keys[:count], range(count)), "peers")
                times.append(time.perf_counter() - begun)
            seconds = statistics.median(times)
            self.row(f"peers_{where}_one_get_of_{count}", seconds * 1e3, "ms")
            self.row(f"peers_{where}_one_get_of_{count}_speed", count * block_bytes / seconds / 1e9, "GB/s", "one_large_copy", link)

    def peers_revoked(
        self, where: str, source: DeviceRegion, target: DeviceRegion, theirs: Pool, ours: Pool, keys: list[bytes]
    ) -> None:
        """The owner takes its blocks back while they are copied, and writes there at once."""
        half = len(keys) // 2
        kept = [view[:, :half].to(self.gpu.device if self.gpu.is_real else "cpu", copy=True) for view in theirs.views()]
        times, copied, missed = [], 0, 0
        for turn in range(5 if self.quick else 20):
            gets = [target.get(keys[:half], range(half)) for _ in range(1 + turn % 4)]
            begun = time.perf_counter()
            if source.revoke(keys[:half], timeout=30) != [OK] * half:
                raise Failure("not revoked")
            times.append(time.perf_counter() - begun)
            for view in theirs.views():
                view[:, :half].zero_()
            theirs.gpu.wait()
            statuses = [copying.wait(60) for copying in gets]
            self.gpu.wait()
            # A block that a get missed keeps the bytes of an earlier get.
            whole = [i for i in range(half) if any(answer[i] is OK for answer in statuses)]
            for answer in statuses:
                copied += answer.count(OK)
                missed += answer.count(Status.MISS)
                if set(answer) - {OK, Status.MISS}:
                    raise Failure(f"a get of blocks that were revoked: {set(answer)}")
            for before, view in zip(kept, ours.views()):
                if not torch.equal(before[:, whole], view[:, whole]):
                    raise Failure("other bits beside a revocation")
            for before, view in zip(kept, theirs.views()):
                view[:, :half].copy_(before)
            theirs.gpu.wait()
            if set(source.advertise(keys[:half], range(half))) != {OK}:
                raise Failure("not advertised again")
        self.row(f"peers_{where}_revoke_of_{half}_under_copies", statistics.median(times) * 1e3, "ms")
        self.row(f"peers_{where}_revoke_of_{half}_under_copies_longest", max(times) * 1e3, "ms")
        self.row(f"peers_{where}_blocks_copied_beside_revocations", copied, "blocks")
        self.row(f"peers_{where}_blocks_missed_beside_revocations", missed, "blocks")

    def peers_nothing_matches(self, where: str, source: DeviceRegion, target: DeviceRegion, namespace: object) -> None:
        """Measures lookups and gets of blocks that nobody advertises, while others are advertised and while none is."""
        count = min(target.blocks, 256)
        mine, others = keys_of(count, 70), keys_of(source.blocks, 7)
        all_ok(target.put(mine, range(count)), "put")
        self.quiet(namespace._client)
        figures: dict[tuple[str, bool], list[float]] = {}
        # Until the daemon's code for it is compiled.
        for _ in range(200 if self.quick else 5000):
            namespace.lookup(mine)
        for turn in range(10 if self.quick else 40):
            advertised = turn % 4 in (0, 3)
            if advertised:
                source.advertise(others, range(len(others)))
            elif set(source.revoke(others)) - {OK, Status.MISS}:
                raise Failure("not revoked")
            # One after the other: behind a get of some milliseconds a lookup measures how the daemon wakes up.
            for what, call in (
                ("lookup", lambda: namespace.lookup(mine)),
                ("get", lambda: all_ok(target.get(mine, range(count)), "get")),
            ):
                for _ in range(20):
                    begun = time.perf_counter()
                    call()
                    figures.setdefault((what, advertised), []).append(time.perf_counter() - begun)
        for what in ("lookup", "get"):
            none, some = (statistics.median(figures[what, advertised]) * 1e6 for advertised in (False, True))
            self.row(f"peers_{where}_{what}_of_{count}_none_match", some, "us", "none_advertised", none)
        namespace.clear()

    def peers_owner_dies(self, ordinal: int) -> None:
        """An owner is killed in the midst of copies from its memory."""
        command = [sys.executable, "-m", "checks.gpu.daemon", "--socket", str(self.daemon.socket), "--dying", "owner"]
        command += ["--ordinal", str(ordinal)]
        if not self.gpu.is_real:
            command += ["--file-gpu", str(self.gpu.folder)]
        blocks = DYING_OWNER_BLOCKS
        ours = Pool(self.gpu, "CBNHD", layers=32, blocks=2 * blocks, tokens=16, heads=8, dim=128)
        keys = keys_of(blocks, 9)
        with self.daemon.client("heir") as client, ours.region(client, "heirs") as target:
            engine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                if engine.stdout.readline().strip() != "begin":
                    raise Failure("the owner did not begin")
                all_ok(target.get(keys, range(blocks)), "of the owner that will die")
                gets = [target.get(keys, range(blocks, 2 * blocks)) for _ in range(8)]
            finally:
                engine.kill()
                engine.wait()
            begun = time.monotonic()
            statuses = [copying.wait(60) for copying in gets]
            if any(set(answer) - {OK, Status.MISS} for answer in statuses):
                raise Failure(f"after the owner's end: {[set(answer) for answer in statuses]}")
            namespace = client.namespace("heirs", block_bytes=ours.block_bytes)
            while namespace.lookup(keys).holder is not None or client.counters()["regions"] > 1:
                if time.monotonic() > begun + 10:
                    raise Failure("what the dead owner advertised is still there")
                time.sleep(0.01)
            self.row("peers_owner_killed_all_withdrawn_after", (time.monotonic() - begun) * 1e3, "ms")
            self.gpu.wait()
            whole = [i for i in range(blocks) if any(answer[i] is OK for answer in statuses)]
            for view in ours.views():
                if not torch.equal(view[:, whole], view[:, [blocks + i for i in whole]]):
                    raise Failure("other bits of an owner that was killed")
            self.row("peers_owner_killed_blocks_compared", len(whole), "blocks")
            if client.stats()["gpus"][0]["fence"] is not None:
                raise Failure("the GPU is fenced after the owner's end")

    def run(self, only: list[str]) -> int:
        for name, seconds in PARTS.items():
            part = getattr(self, name)
            if only and name not in only and name != "start":
                continue
            print(f"{name} ...", flush=True)

            def late(*_: object) -> None:
                raise Failure(f"not done in {seconds} s")  # noqa: B023

            signal.signal(signal.SIGALRM, late)
            signal.alarm(seconds)
            # A thread that stands in a call of CUDA's hears no signal.
            faulthandler.dump_traceback_later(seconds + 30, exit=True)
            try:
                part()
            except Exception as error:
                self.problems.append(f"{name}: {type(error).__name__}: {error}")
                traceback.print_exc()
                self.save()
            finally:
                signal.alarm(0)
                faulthandler.cancel_dump_traceback_later()
        return 1 if self.problems else 0

    def close(self) -> None:
        self.daemon.kill()
        log = self.folder / "daemon.log"
        if self.out and log.exists():
            shutil.copy(log, self.out.with_suffix(".log"))
        shutil.rmtree(self.folder, ignore_errors=True)
        for problem in self.problems:
            print(f"FAILED {problem}")
        print(f"{len(self.rows)} rows, {len(self.problems)} problems, {time.monotonic() - self.started:.0f} s")


DYING_OWNER_BLOCKS = 64

DYING_BLOCK_BYTES = 32 * 2 * 16 * 8 * 128 * 2


def be_engine(arguments: argparse.Namespace) -> None:
    """One of several engines: puts and gets until its time is over, and compares."""
    gpu = Gpu(arguments.file_gpu)
    number, chance = arguments.engine, random.Random(arguments.engine)
    compared = 0
    try:
        with Client(arguments.socket, name=f"engine-{number}", timeout=60) as client:
            pool = Pool(gpu, "CBNHD", layers=8, blocks=128, tokens=16, heads=8, dim=64)
            # Each has a namespace of its own: who ends first clears what others are about to get.
            name = f"engine-{number}"
            with pool.region(client, name) as region:
                end = time.monotonic() + arguments.seconds
                turn = 0
                while time.monotonic() < end:
                    turn += 1
                    keys = keys_of(64, 100_000 * number + turn)
                    puts, gets = chance.sample(range(64), 64), chance.sample(range(64, 128), 64)
                    all_ok(region.put(keys, puts), "put")
                    all_ok(region.get(keys, gets), "get")
                    gpu.wait()
                    views = [view.view(2, 128, -1) for view in pool.raw]
                    for view in views:
                        if not torch.equal(view[:, puts], view[:, gets]):
                            raise Failure(f"turn {turn}: other bits")
                        view[:, :64].random_(0, 256)
                    gpu.wait()
                    compared += 64
            client.namespace(name, block_bytes=pool.block_bytes).clear()
        print(f"ok {compared}", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)


def be_dying(arguments: argparse.Namespace) -> None:
    """The engine that is killed in mid-copy."""
    gpu = Gpu(arguments.file_gpu, arguments.ordinal)
    client = Client(arguments.socket, name="dying", timeout=60)
    if arguments.dying == "owner":
        pool = Pool(gpu, "CBNHD", layers=32, blocks=DYING_OWNER_BLOCKS, tokens=16, heads=8, dim=128)
        region = pool.region(client, "heirs")
        if set(region.advertise(keys_of(DYING_OWNER_BLOCKS, 9), range(DYING_OWNER_BLOCKS), timeout=60)) != {OK}:
            raise Failure("not advertised")
        print("begin", flush=True)
        while True:
            time.sleep(1)
    blocks = 2048 if gpu.is_real else 64
    pool = Pool(gpu, "CBNHD", layers=32, blocks=blocks, tokens=16, heads=8, dim=128)
    region = pool.region(client, "dying")
    half = blocks // 2
    all_ok(region.put(keys_of(half, 3), range(half)), "dying")
    print("begin", flush=True)
    turn = 10
    while True:
        turn += 1
        if arguments.dying == "get":
            copies = [region.get(keys_of(half, 3), range(half, blocks)) for _ in range(4)]
        else:
            copies = [region.put(keys_of(half, turn), range(half))]
        for copying in copies:
            copying.wait()


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    parser = Arguments(prog="gpu-check daemon", description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="little of everything, and of the lengths of runs the first: a trial, not a result")
    parser.add_argument("--only", type=some_of(PARTS), default=[], help=f"of {','.join(PARTS)}")
    parser.add_argument("--runs", type=some_of(RUNS), default=list(RUNS), help="of these lengths, in the part speed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the daemon's, for a comparison")
    parser.add_argument("--file-gpu", type=pathlib.Path, help="no GPU: tensors are files in this folder")
    for hidden, kind in (("--engine", int), ("--dying", str), ("--socket", str), ("--seconds", float)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--ordinal", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.runs = [name for name in arguments.runs if name == next(iter(RUNS))]
        if not arguments.runs:
            parser.error(f"--quick is of {next(iter(RUNS))} alone: --runs leaves nothing")
    for setting in arguments.set:
        if "=" not in setting:
            parser.error(f"--set is '{setting}', expected KEY=VALUE")
    return arguments


def main() -> int:
    arguments = arguments_of()
    if arguments.engine:
        be_engine(arguments)
        return 0
    if arguments.dying:
        be_dying(arguments)
        return 0
    check = Check(arguments)
    try:
        return check.run(arguments.only)
    finally:
        check.close()


if __name__ == "__main__":
    run_tool(main)
