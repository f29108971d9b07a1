"""Compares two builds of kvtier: scripts/bench builds OLD.

The daemons of both builds run at once. Their clients work in turns of a fraction of a second, so what else the machine does meets both
builds alike. A row is the median, over the turns, of the new build's speed divided by the old build's speed in the neighbouring turn.
"""

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvtier_testing import process

from bench.rows_tool import Failed, add_json, run_rows_tool, write_rows
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, folder, say, some_of, whole

KIB, MIB = 1 << 10, 1 << 20
SLICE_MS = 150
LOWER_SLICE_MS = 400
WARM_S = 20.0
KEPT_BLOCKS = 1_000_000
KEPT_BLOCK_BYTES = 1 * KIB


@dataclass
class Build:
    """A daemon of one build, and its client."""

    root: Path
    python: Path
    folder: Path
    daemon: "subprocess.Popen[str] | None" = None
    client: "subprocess.Popen[str] | None" = None

    @property
    def socket(self) -> Path:
        return self.folder / "kvtier.sock"

    def start(self, settings: dict[str, object]) -> None:
        """Starts the daemon and its client."""
        self.folder.mkdir(exist_ok=True)
        own = {"http.enabled": "false", "grpc.enabled": "false", "ssd.bytes": 0} | settings
        command = process.command_of([str(self.root / "scripts" / "kvtierd")], self.socket, own)
        self.daemon, _ = process.start(command, self.folder / "daemon.log", Failed)
        self.connect()

    def connect(self) -> None:
        """Starts the client."""
        self.client = subprocess.Popen(
            [str(self.python), "-P", str(Path(__file__).with_name("build_worker.py")), str(self.socket)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, command: str) -> float:
        """What the client answers to a command."""
        assert self.client is not None and self.client.stdin is not None and self.client.stdout is not None
        self.client.stdin.write(command + "\n")
        self.client.stdin.flush()
        word, _, text = self.client.stdout.readline().strip().partition(" ")
        if word != "ok":
            raise Failed(f"{self.root}: {text or 'the client ended'}")
        return float(text)

    def disconnect(self) -> None:
        """Ends the client."""
        if self.client is not None:
            self.client.kill()
            self.client.wait()
            self.client = None

    def kill(self) -> None:
        """Kills the daemon, which leaves its memory to the next one."""
        self.disconnect()
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()

    def stop(self) -> None:
        """Ends the client and the daemon."""
        self.disconnect()
        if self.daemon is not None:
            process.stop(self.daemon)


Pairs = list[tuple[float, float]]
Builds = tuple[Build, Build]


def client_of(root: Path) -> Path:
    """The Python with the client of a checkout."""
    return root / "target" / "venv-bench" / "bin" / "python"


def in_turns(builds: Builds, measure: Callable[[Build], float], turns: int) -> Pairs:
    """Measures the old and the new build, in pairs. Each build goes first in every second pair."""
    pairs = []
    for turn in range(turns):
        old, new = builds
        if turn % 2:
            first = measure(old)
            pairs.append((first, measure(new)))
        else:
            first = measure(new)
            pairs.append((measure(old), first))
    return pairs


def asked(builds: Builds, command: str, turns: int) -> Pairs:
    """The answers of both clients to a command, in turns and with warm daemons."""
    ends = time.monotonic() + WARM_S
    while time.monotonic() < ends:
        for build in builds:
            build.ask(command)
    return in_turns(builds, lambda build: build.ask(command), turns)


@contextmanager
def running(builds: Builds, settings: Callable[[Build], dict[str, object]]) -> Iterator[None]:
    """Both daemons, until the end of the block."""
    with ExitStack() as ends:
        for build in builds:
            ends.callback(shutil.rmtree, build.folder, ignore_errors=True)
            ends.callback(build.stop)
            build.start(settings(build))
        yield


def latency(builds: Builds, turns: int) -> Iterator[tuple[str, Pairs]]:
    """Leases and lookups of small blocks."""
    with running(builds, lambda build: {"host.bytes": "256MiB", "host.keep": 0}):
        for build in builds:
            build.ask(f"use {4 * KIB}")
            build.ask("fill 4096")
        for name, command in (
            ("lease of one block", f"acquire {SLICE_MS} 1"), ("leases of one block, 64 at once", f"pipelined {SLICE_MS}"),
            ("lookup of 256 blocks", f"lookup {SLICE_MS} 256"), ("lease of 256 blocks", f"acquire {SLICE_MS} 256"),
            ("put of 64 x 4 KiB", f"put_cleared {SLICE_MS} 64"), ("get of 64 x 4 KiB", f"get {SLICE_MS} 64"),
        ):  # fmt: skip
            yield name, asked(builds, command, turns)


def copies(builds: Builds, turns: int) -> Iterator[tuple[str, Pairs]]:
    """Puts and gets with copies, in host memory."""
    with running(builds, lambda build: {"host.bytes": "1GiB", "host.keep": 0}):
        for size, words, batch in ((256 * KIB, "256 KiB", 16), (MIB, "1 MiB", 8), (4 * MIB, "4 MiB", 4)):
            for build in builds:
                build.ask(f"use {size}")
                build.ask(f"fill {(256 * MIB) // size}")
            for verb, command in (("put", "put_cleared"), ("get", "get")):
                yield f"{verb} of {batch} x {words}", asked(builds, f"{command} {SLICE_MS} {batch}", turns)


def ssd(builds: Builds, turns: int) -> Iterator[tuple[str, Pairs]]:
    """Puts beyond the host memory, gets from SSD, and puts beyond the SSD."""

    def settings(build: Build) -> dict[str, object]:
        return {"host.bytes": "256MiB", "host.keep": 0, "ssd.directory": build.folder, "ssd.bytes": "1GiB"}

    size, batch, lower_turns = 256 * KIB, 16, max(4, turns // 4)
    with running(builds, settings):
        for build in builds:
            build.ask(f"use {size}")
            build.ask(f"fill {768 * MIB // size}")
        yield "get of 16 x 256 KiB from SSD", asked(builds, f"get {LOWER_SLICE_MS} {batch}", lower_turns)
        yield "put of 16 x 256 KiB, host memory and SSD full", asked(builds, f"put {LOWER_SLICE_MS} {batch}", lower_turns)


def start(builds: Builds, turns: int) -> Iterator[tuple[str, Pairs]]:
    """Starts with a million blocks in kept memory: 1 / seconds from the start of the process to its first hit."""

    def settings(build: Build) -> dict[str, object]:
        return {"host.bytes": "2GiB", "host.directory": build.folder / "keeper"}

    def start_again(build: Build) -> float:
        build.kill()
        begun = time.monotonic()
        build.start(settings(build))
        build.ask(f"use {KEPT_BLOCK_BYTES}")
        build.ask(f"assume {KEPT_BLOCKS}")
        return 1 / (time.monotonic() - begun)

    with running(builds, settings):
        for build in builds:
            build.ask(f"use {KEPT_BLOCK_BYTES}")
            build.ask(f"fill {KEPT_BLOCKS}")
        yield f"start with {KEPT_BLOCKS} kept blocks", in_turns(builds, start_again, max(3, turns // 8))


PARTS = {"latency": latency, "copies": copies, "ssd": ssd, "start": start}


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/bench builds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", type=folder, help="the checkout of the old build, in which scripts/bench has run once")
    parser.add_argument("--only", type=some_of(PARTS), default=list(PARTS), metavar="PART,...", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--turns", type=whole, default=40, help="pairs of turns for each row (default: 40)")
    add_json(parser)
    options = parser.parse_args(argv)
    old = options.old.resolve()
    python = client_of(old)
    if not python.is_file():
        parser.error(f"{old} has no Python client in target/venv-bench; run 'scripts/bench local --quick' in it first")
    rows = []
    with tempfile.TemporaryDirectory(prefix="kvtier-builds.") as name:
        builds = (Build(old, python, Path(name) / "old"), Build(ROOT, client_of(ROOT), Path(name) / "new"))
        print(f"{'row':<46} {'old':>10} {'new':>10} {'new/old':>8} {'quarter':>8} {'pairs':>6}")
        for part in options.only:
            say(f"{part}: {PARTS[part].__doc__}")
            for what, pairs in PARTS[part](builds, options.turns):
                ratios = sorted(new / before for before, new in pairs)
                before, new = (statistics.median(side) for side in zip(*pairs, strict=True))
                row = {"name": what, "old_per_s": before, "new_per_s": new, "ratio": statistics.median(ratios), "pairs": len(pairs)}
                rows.append(row)
                print(
                    f"{what:<46} {before:>10.4g} {new:>10.4g} {row['ratio']:>8.3f} {ratios[len(ratios) // 4]:>8.3f} {len(pairs):>6}", flush=True
                )
    write_rows(options.json, rows, old=str(old))
    return 0


if __name__ == "__main__":
    run_rows_tool(main)
