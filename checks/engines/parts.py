"""What comparisons of an engine on a GPU share: their parts and figures, kvtier's daemon, and the link to the GPU."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvtier_testing import process

from checks.shared.checkout import ROOT

BYTES_OF_TOKEN = 32 * 2 * 8 * 128 * 2
"""of the model that the engines have: layers, keys and values, heads, elements, bytes of one"""


class Server:
    """A process that is ready when its output says so; ended with everything it started."""

    def __init__(self, command: list[str], ready: str, log: Path, timeout_s: float) -> None:
        with open(log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        begun = time.monotonic()
        while ready not in log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() - begun > timeout_s:
                self.stop()
                raise RuntimeError(f"{command[0]} did not start: {log.read_text(errors='replace')[-800:]}")
            time.sleep(0.1)
        self.started_s = time.monotonic() - begun

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            os.killpg(self.process.pid, number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                continue


class Parts:
    """The figures by turn and name. A part that runs again adds figures, and replaces none."""

    def __init__(self, out: Path, work: Path, arguments: argparse.Namespace) -> None:
        self.out = out
        self.work = work
        self.lens = arguments.lens
        self.reps = arguments.reps
        self.host = arguments.host
        self.link_bytes_per_ms = 0.0
        self.turn = 0
        self.found: dict[str, Any] = {}
        self.has_failed = False

    def part(self, name: str) -> None:
        """Runs one of PARTS."""
        self.turn += 1
        try:
            getattr(self, name)()
        except Exception as error:  # noqa: BLE001 - the others are to run
            self.has_failed = True
            self.note(f"{name} failed", error=repr(error)[-1500:])

    def file(self, name: str, suffix: str) -> Path:
        """The path of a file of this turn."""
        return self.out / f"{self.turn}-{name}{suffix}"

    def measure(
        self, name: str, command: list[str], timeout_s: float, settings: Mapping[str, str], told: Callable[[str], dict[str, Any]] = lambda _: {}
    ) -> None:
        """Runs an engine's program, and notes the rows that it writes.

        Args:
            command: takes ``--out FILE`` behind it.
            settings: of its environment.
            told: what its log says beside the rows.
        """
        out = self.file(name, ".json")
        out.unlink(missing_ok=True)  # of an earlier run into the same folder
        begun = time.monotonic()
        with self.file(name, ".log").open("w") as log:
            run = subprocess.Popen(
                [*command, "--out", str(out)], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **settings}, start_new_session=True
            )
            try:
                code = run.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = 124
            # An engine's own processes would keep the GPU's memory.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        self.has_failed |= code != 0
        self.note(name, code=code, seconds=time.monotonic() - begun, **self._rows(name, code, told))

    def _rows(self, name: str, code: int, told: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """The rows of a run; of a failed run the end of its log, as its rows may be incomplete."""
        path = self.file(name, ".json")
        log = self.file(name, ".log").read_text(errors="replace")
        if code == 0 and path.exists():
            rows = [row | self._of_limit(row) for row in json.loads(path.read_text())["rows"]]
            return {"rows": rows} | told(log)
        return {"log": log[-1500:]}

    def _of_limit(self, row: dict[str, Any]) -> dict[str, float]:
        """How many times as long a restore took as can be: a hit in the device's cache, and the link."""
        if not self.link_bytes_per_ms or not row.get("restored_tokens"):
            return {}
        link_ms = row["restored_tokens"] * BYTES_OF_TOKEN / self.link_bytes_per_ms
        return {"link_ms": link_ms, "of_limit": row["restored_ms"] / (row["device_hit_ms"] + link_ms)}

    def note(self, name: str, **what: Any) -> None:
        self.found[f"{self.turn}-{name}"] = what
        (self.out / "found.json").write_text(json.dumps(self.found, indent=1))
        print(f"{self.turn}-{name}", json.dumps(what), flush=True)

    def link(self) -> None:
        """Measures the link to the GPU. Restores of later parts are compared with it."""
        told = subprocess.run([sys.executable, "-c", _LINK], capture_output=True, text=True, timeout=60)
        if told.returncode != 0:
            raise RuntimeError(f"one copy to the GPU: {(told.stdout + told.stderr)[-800:]}")
        self.link_bytes_per_ms = float(told.stdout.split()[-1])
        self.note("link", gb_per_s=self.link_bytes_per_ms / 1e6)

    def train(self) -> list[str]:
        """Makes the cache for quick starts, as an installation does once; returns the flags to use it."""
        cache = self.work / "kvtierd.aot"
        if not cache.exists():
            server = self._daemon("training", "256MiB", "256MiB", [f"-XX:AOTCacheOutput={cache}"])
            try:
                subprocess.run([sys.executable, "-c", _TRAINING, str(self.work / "sock")], check=True, timeout=60)
            finally:
                server.stop()
            shutil.rmtree(self.work / "ssd", ignore_errors=True)
        # A daemon also starts without a cache; the figures then name a cache of 0 bytes.
        self.note("training", cache_bytes=cache.stat().st_size if cache.exists() else 0)
        return [f"-XX:AOTCache={cache}"] if cache.exists() else []

    def daemon(self, name: str, host: str, ssd: str, socket: Path | None = None, settings: Mapping[str, str] | None = None) -> Server:
        """A daemon with so much memory and SSD. `socket`: `sock` of the working folder if None; `settings`: further ones."""
        return self._daemon(name, host, ssd, self.train(), socket, settings)

    def _daemon(
        self, name: str, host: str, ssd: str, more: list[str], socket: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> Server:
        runtime = ROOT / "kvtier" / "runtime" / "bin" / "java"
        flags = [
            "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-XX:+UseSerialGC",
            "-XX:+UseCompactObjectHeaders", "-XX:-UsePerfData", "-Xmx512m",
        ]  # fmt: skip
        settings = {
            "host.bytes": host, "host.keep": "0", "ssd.bytes": ssd, "ssd.directory": str(self.work / "ssd"), "ssd.admission": "all",
            "grpc.enabled": "false",
            "http.enabled": "false",
        } | dict(settings or {})  # fmt: skip
        (self.work / "ssd").mkdir(exist_ok=True)
        command = [str(runtime), *flags, *more, "-cp", f"{ROOT}/kvtier/lib/*", "io.kvtier.daemon.Kvtierd"]
        made = Server(process.command_of(command, socket or self.work / "sock", settings), "kvtierd ready", self.file(name, ".log"), 90)
        self.note(name, started_s=made.started_s)
        return made

    def link_ms(self, tokens: int) -> float:
        return tokens * BYTES_OF_TOKEN / self.link_bytes_per_ms if self.link_bytes_per_ms else 0.0


def run(kind: type[Parts], arguments: argparse.Namespace) -> int:
    """Runs the parts that `arguments.only` names, in its order, with the results in `arguments.out`; returns 1 where one failed."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvtier-") as work:
        parts = kind(arguments.out, Path(work), arguments)
        for name in arguments.only:
            parts.part(name)
    return 1 if parts.has_failed else 0


_TRAINING = """
import sys
from kvtier import Client
with Client(sys.argv[1], timeout=30) as client:
    namespace = client.namespace("training", block_bytes=4096)
    for batch in range(64):
        keys = [(batch * 256 + i).to_bytes(32, "little") for i in range(256)]
        namespace.lookup(keys)
        namespace.put(keys, bytes(256 * 4096))
        namespace.get(keys, bytearray(256 * 4096))
    many = [i.to_bytes(32, "little") for i in range(2048)]
    for _ in range(200):
        namespace.lookup(many)
        namespace.acquire(many).release()
"""

# One contiguous copy from pinned memory, bytes a millisecond.
_LINK = """
import statistics, time, torch
host = torch.empty(4 << 30, dtype=torch.uint8, pin_memory=True)
device = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
def copied():
    torch.cuda.synchronize()
    begun = time.perf_counter()
    device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    return (4 << 30) / (time.perf_counter() - begun) / 1e3
print(statistics.median(copied() for _ in range(7)))
"""
