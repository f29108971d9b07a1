"""Blocks of an 8B Llama between an engine's tensors in memory and kvtier, beside LMCache, in turns.

Started by scripts/bench engine-cpu, in a Python with torch. A request has 2,048 tokens: 128 blocks of 2 MiB, of 32 layers.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from kvtier_testing import process

from checks.shared.command_line import Arguments, run_tool
from kvtier import Client, Status
from kvtier import torch as kvtier_torch
from kvtier._connection import namespace_properties
from kvtier._polled import Polled
from kvtier.engine.groups import ALL, Group
from kvtier.engine.transfers import Transfer
from kvtier.vllm._scheduler import Scheduler
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan
from kvtier.vllm._worker import Worker

LAYERS = 32
SHAPE = (2, 1024, 16, 8, 128)
BLOCK_TOKENS = 16
BLOCKS = 128
TOKENS = BLOCKS * BLOCK_TOKENS
BLOCK_BYTES = LAYERS * 2 * 16 * 8 * 128 * 2
REQUESTS = 3


class Kvtier:
    """The connector's two sides over real tensors."""

    def __init__(self, socket_path: Path) -> None:
        self.tensors = [torch.empty(SHAPE, dtype=torch.bfloat16).uniform_() for _ in range(LAYERS)]
        self._numbers = 0
        self._parts = contextlib.ExitStack()
        try:
            self._connect(socket_path)
        except BaseException:
            self.close()
            raise

    def _connect(self, socket_path: Path) -> None:
        client = self._parts.enter_context(Client(socket_path, name="bench", timeout=10))
        self.namespace = client.namespace("bench", block_bytes=BLOCK_BYTES)
        region = kvtier_torch.register(self.namespace, self.tensors, block_axes=1)
        settings = Settings(lookup_wait_s=1.0)
        self.worker = Worker(regions=[region], settings=settings, writes=[True], annotates=False, event=lambda: None, hold=None, weigh=str)
        self._parts.callback(self.worker.close)
        polled = Polled(str(socket_path), "bench scheduler", 1 << 20)
        group = Group(
            number=0, block_tokens=BLOCK_TOKENS, block_hashes=1, rule=ALL, is_offered=False,
            namespaces=[namespace_properties("bench", BLOCK_BYTES, {})], writers=1,
        )  # fmt: skip
        self.scheduler = Scheduler(
            polled=polled, groups=[group], settings=settings, unit_tokens=BLOCK_TOKENS,
            extra_keys=lambda request, places: [], began={},
        )  # fmt: skip
        self._parts.callback(self.scheduler.close)
        polled.connection.open_within(2)

    def close(self) -> None:
        """Gives back all that it holds of the daemon's."""
        self._parts.close()

    def request(self) -> Any:
        self._numbers += 1
        keys = [hashlib.sha256(f"{self._numbers}/{i}".encode()).digest() for i in range(BLOCKS)]
        first = BLOCKS * (self._numbers % (SHAPE[1] // BLOCKS))
        return SimpleNamespace(
            request_id=f"r{self._numbers}", block_hashes=keys, num_tokens=TOKENS, block_ids=list(range(first, first + BLOCKS))
        )

    def store(self, request: Any) -> float:
        plan = Plan(stores=[Transfer(request.request_id, request.block_hashes, request.block_ids, 0)])
        begun = time.perf_counter()
        self.worker.start_stores(plan)
        while not self.worker.take_stores_ended():
            self.worker.finished(True)
            time.sleep(0.0002)
        taken = time.perf_counter() - begun
        if self.worker.observed["stored_blocks"] != BLOCKS:
            raise SystemExit(f"stored {dict(self.worker.observed)}; expected {BLOCKS} blocks")
        self.worker.observed.clear()
        return taken

    def retrieve(self, request: Any) -> float:
        kept = [tensor[:, request.block_ids].clone() for tensor in self.tensors]
        for tensor in self.tensors:
            tensor[:, request.block_ids] = 0
        plan = Plan(loads=[Transfer(request.request_id, request.block_hashes, request.block_ids, 0)])
        begun = time.perf_counter()
        self.worker.start_loads(plan)
        while not self.worker.finished(True):
            pass
        taken = time.perf_counter() - begun
        if not all(torch.equal(tensor[:, request.block_ids], old) for tensor, old in zip(self.tensors, kept, strict=True)):
            raise SystemExit("wrong bytes")
        return taken

    def lookup(self, request: Any) -> float:
        """Looks blocks up as the engine's scheduler does: found blocks are held. Returns the seconds."""
        begun = time.perf_counter()
        while (found := self.scheduler.matched(request, 0)) is None:
            pass
        taken = time.perf_counter() - begun
        if found != TOKENS:
            raise SystemExit(f"found {found} tokens of {TOKENS}")
        self.scheduler.finished(request, (request.block_ids,))
        return taken

    def round(self) -> dict[str, float]:
        made = [self.request() for _ in range(REQUESTS)]
        stored = [self.store(one) for one in made]
        looked_up = [self.lookup(one) for one in made for _ in range(5)]
        retrieved = [self.retrieve(one) for one in made]
        for one in made:
            if set(self.namespace.delete(one.block_hashes)) != {Status.OK}:
                raise SystemExit("a block is gone")
        return {
            "store": statistics.median(stored), "retrieve": statistics.median(retrieved), "lookup": statistics.median(looked_up),
        }  # fmt: skip


class Copy:
    """Copies an equal number of bytes from one piece of memory to another."""

    def __init__(self) -> None:
        self._from, self._to = ((ctypes.c_char * (BLOCKS * BLOCK_BYTES))() for _ in range(2))

    def seconds(self) -> float:
        begun = time.perf_counter()
        ctypes.memmove(self._to, self._from, len(self._from))
        return time.perf_counter() - begun


def end(process: "subprocess.Popen[Any]") -> None:
    """Ends a process, however it takes it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class PeerFailed(Exception):
    """LMCache's own benchmark failed; the message says why."""


class LMCache:
    """LMCache's server, and its own benchmark of the server."""

    def __init__(self, command: str, folder: Path) -> None:
        self.command = command
        self.folder = folder
        self._start = 0
        self._open()

    def _open(self) -> None:
        command, folder = self.command, self.folder
        self.port, self.http = process.free_port(), process.free_port()
        self.log = folder / "lmcache.log"
        arguments = [
            command, "server", "--l1-size-gb", "3", "--supported-transfer-mode", "auto", "--shm-name", f"lmcache-bench-{os.getpid()}",
            "--no-l1-use-lazy", "--eviction-policy", "LRU", "--host", "127.0.0.1", "--port", str(self.port), "--http-port", str(self.http),
        ]  # fmt: skip
        with open(self.log, "w") as log:
            self.server = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT, env=_quiet())
        try:
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + 120
        while "Application startup complete" not in self.log.read_text(errors="replace"):
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"LMCache's server did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)

    def round(self) -> dict[str, float]:
        """Seconds by operation.

        Raises:
            PeerFailed: it timed out, as it does now and then where cores are few; with a new server it may go on.
        """
        out = self.folder / f"lmcache-{self._start}.json"
        arguments = [
            self.command, "bench", "server", "--mode", "cpu", "--transfer-mode", "lmcache_driven", "--rpc-url", f"tcp://127.0.0.1:{self.port}",
            "--url", f"http://127.0.0.1:{self.http}", "--num-tokens", str(TOKENS), "--kvcache-shape-spec", "(2,1024,16,8,128):bfloat16:32",
            "--start", str(self._start), "--end", str(self._start + REQUESTS), "--interval", "0.05", "--format", "json", "--output", str(out),
        ]  # fmt: skip
        self._start += REQUESTS
        try:
            ran = subprocess.run(arguments, capture_output=True, text=True, env=_quiet(), timeout=300)
        except subprocess.TimeoutExpired as late:
            raise PeerFailed(str(late)) from late
        if not out.exists():
            raise PeerFailed(f"LMCache's bench failed: {ran.stdout[-3000:]} {ran.stderr[-2000:]}")
        return figures_of(json.loads(out.read_text()), ran.stdout + ran.stderr)

    def start_anew(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        end(self.server)


def figures_of(report: Any, text: str) -> dict[str, float]:
    """Seconds by operation, out of LMCache's report."""
    flat: dict[str, float] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}/{key}".lower())
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, f"{path}/{index}")
        elif isinstance(value, (int, float)):
            flat[path] = float(value)

    walk(report, "")
    found = {}
    for what in ("store", "retrieve", "lookup"):
        named = [key for key in flat if re.search(what, key) and re.search(r"p50|median", key)] or [
            key for key in flat if re.search(what, key) and re.search(r"mean|avg", key)
        ]
        if not named:
            raise PeerFailed(f"no {what} in LMCache's report: {json.dumps(report)[:2000]} {text[-2000:]}")
        found[what] = flat[named[0]] / 1e3
    return found


def _quiet() -> dict[str, str]:
    return os.environ | {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1", "LMCACHE_LOG_LEVEL": "INFO"}


def start_daemon(root: Path, folder: Path) -> tuple[subprocess.Popen, Path]:
    path = folder / "kvtier.sock"
    settings = {"host.bytes": "2GiB", "host.keep": "0", "ssd.bytes": "0", "grpc.enabled": "false", "http.enabled": "false"}
    daemon, _ = process.start(process.command_of([str(root / "scripts" / "kvtierd")], path, settings), folder / "daemon.log", SystemExit)
    return daemon, path


def main() -> None:
    parser = Arguments(prog="scripts/bench engine-cpu")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--lmcache", default="", help="LMCache's command; empty: without it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rounds = 2 if arguments.quick else 7
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    failures = 0
    copies: list[float] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvtier-")))
        daemon, path = start_daemon(arguments.root, folder)
        stack.callback(end, daemon)
        kvtier = stack.enter_context(contextlib.closing(Kvtier(path)))
        kvtier.round()
        copy = Copy()
        copy.seconds()
        peer = stack.enter_context(contextlib.closing(LMCache(arguments.lmcache, folder))) if arguments.lmcache else None
        for _ in range(rounds):
            ours.append(kvtier.round())
            copies.append(copy.seconds())
            if peer is not None:
                try:
                    theirs.append(peer.round())
                except PeerFailed as failed:
                    failures += 1
                    print(f"a round of LMCache's failed: {str(failed)[:600]}", file=sys.stderr)
                    peer.start_anew()
        if peer is not None and not theirs:
            raise SystemExit(f"none of LMCache's {rounds} rounds came to an end")
    rows = []
    copied_s = statistics.median(copies)
    for what in ("store", "retrieve", "lookup"):
        value = statistics.median(one[what] for one in ours)
        limit = statistics.median(one[what] for one in theirs) if theirs else None
        rows.append(_row(f"engine_cpu_{what}_ms", value, "LMCache, the same blocks" if theirs else "LMCache was not asked", limit))
        if what != "lookup":
            rows.append(_row(f"engine_cpu_{what}_against_memcpy_ms", value, "memcpy of as many bytes", copied_s))
    for row in rows:
        limit = "" if row["limit"] is None else f"{row['limit']:10.3f}  {row['ratio']:.3f} of {row['limit_name']}"
        print(f"{row['name']:38} {row['value']:10.3f} ms {limit}")
    if failures:
        print(f"{failures} of {rounds} rounds of LMCache's failed, and are left out")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def _row(name: str, seconds: float, limit_name: str, limit: float | None) -> dict[str, Any]:
    return {
        "name": name, "value": 1e3 * seconds, "unit": "ms", "limit_name": limit_name,
        "limit": None if limit is None else 1e3 * limit, "ratio": None if limit is None else seconds / limit,
    }  # fmt: skip


if __name__ == "__main__":
    run_tool(main)
