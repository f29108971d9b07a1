"""Kills a daemon at random moments, starts it again, and checks everything that it had acknowledged.

A writer puts, flushes, deletes and clears; a reader gets blocks; both are processes of their own. Meanwhile the
daemon is killed with SIGKILL: while it works, while it starts, and in every other case together with the process that
keeps its memory. After each start every block is asked for:

- a block whose put was answered with OK must be there, as long as the memory was kept;
- a block that a flush with the answer OK covered must be there, after any kill;
- a block whose delete or clear was answered with OK must not be there;
- each block must have the bytes that follow from its key.

The tiers are larger than all blocks together, so that nothing may be dropped for want of room.

Exit codes: 0 every promise was kept, 1 something was lost, wrong or back, 2 wrong usage, 3 the daemon does not start.
"""

import argparse
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checks.shared.command_line import Arguments, number, run_tool, size, table, tell, whole
from checks.torture.clients import CALL_TIMEOUT_S, Blocks, Broken, State, Worker
from checks.torture.daemon import Daemon
from checks.torture.promises import Promises, Tally
from checks.torture.restart import Restart
from kvtier import Client


class Torture:
    """Kill after kill."""

    COUNTERS = ("dropped", "ssd_evictions", "corrupt", "io_errors", "found_host", "found_ssd", "found_untrue", "evictions")
    COUNTERS += ("demotions", "promotions")

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.tally = Tally()
        self._daemon = daemon
        self._seed = seed
        self._random = random.Random(seed)
        self._promises = Promises(self.tally)
        self._writer = Worker("writer", daemon.socket_path)
        self._reader = Worker("reader", daemon.socket_path)
        self._start_s = 2.0

    def run(self, kills: int, minutes: float | None) -> None:
        """Kills as often as asked, as long as time remains; then checks a last time."""
        end = None if minutes is None else time.monotonic() + 60 * minutes
        try:
            self._start(memory_gone=False)
            while self.tally.kills < kills and (end is None or time.monotonic() < end) and self.tally.is_clean():
                self._round(kills)
                self._tell(kills)
        finally:
            self._writer.close()
            self._reader.close()

    def _tell(self, kills: int) -> None:
        tally = self.tally
        print(
            f"torture: {tally.kills} of {kills} kills, {tally.acknowledged:,} acknowledged, "
            f"{tally.acknowledged_lost:,} lost, {tally.wrong_bytes:,} wrong bytes",
            file=sys.stderr,
        )

    def _round(self, kills: int) -> None:
        tally = self.tally
        seed = self._random.getrandbits(32)
        for worker in (self._writer, self._reader):
            worker.go(self._seed, self._promises.round(seed))
        if not self._writer.has_told(CALL_TIMEOUT_S):
            raise Broken("the writer has not begun")
        # Mostly short: much happens at the beginning, and more kills find more.
        time.sleep(self._random.choice((0.05, 0.3, 1.0, 2.0)) * self._random.random())
        if not self._daemon.is_alive():
            raise Broken(f"the daemon ended by itself; its log ends with\n{self._daemon.log_end()}")
        self._count()
        takes_memory = self._random.random() < 0.5
        if self._random.random() < 0.06:
            tally.stops += 1
            self._daemon.kill(signal.SIGTERM)
        else:
            tally.kills += 1
            self._daemon.kill()
        memory_gone = takes_memory
        if takes_memory:
            tally.kills_with_memory += self._daemon.kill_keeper()
        for worker in (self._writer, self._reader):
            for event in worker.events():
                self._promises.hear(event)
        while tally.kills < kills and self._random.random() < 0.25:
            memory_gone |= self._kill_during_start()
        self._start(memory_gone)

    def _settings(self) -> dict[str, str]:
        return {
            "ssd__admission": self._random.choice(("evicted", "all")),
            "ssd__engine": self._random.choice(("auto", "auto", "pread")),
        }

    def _kill_during_start(self) -> bool:
        """Kills a daemon while it starts; returns whether the memory went, too."""
        self._daemon.spawn(**self._settings())
        time.sleep(self._start_s * 1.1 * self._random.random())
        self._daemon.kill()
        self.tally.kills += 1
        self.tally.kills_during_start += 1
        takes_memory = self._random.random() < 0.3
        if takes_memory:
            self.tally.kills_with_memory += self._daemon.kill_keeper()
        return takes_memory

    def _start(self, memory_gone: bool) -> None:
        if memory_gone:
            self._promises.memory_went()
        wanted = self._promises.some_present()
        begun = time.monotonic()
        self._daemon.spawn(**self._settings())
        if wanted is not None:
            blocks = Blocks(self._daemon.socket_path, self._seed, "first")
            space, number = wanted
            self.tally.first_hit_ms.append(
                1000 * self._daemon.first_answer_s(begun, blocks.client, lambda: blocks.get(space, [number])[0])
            )
            blocks.close()
        self._daemon.wait_ready()
        self._start_s = time.monotonic() - begun
        blocks = Blocks(self._daemon.socket_path, self._seed, "checker")
        try:
            when = f"after kill {self.tally.kills}" + (", memory gone" if memory_gone else "")
            self._promises.check(blocks, when, State.STORED if memory_gone else State.ACCEPTED)
        finally:
            blocks.close()

    def _count(self) -> None:
        """Adds the daemon's counters, which end with it."""
        with Client(self._daemon.socket_path, timeout=CALL_TIMEOUT_S) as client:
            counters = client.counters()
        self.tally.counters.update({name: counters.get(name, 0) for name in self.COUNTERS})


def report(tally: Tally, seed: int, seconds: float) -> dict[str, Any]:
    """The figures of a run."""
    times = sorted(tally.first_hit_ms)
    figures: dict[str, Any] = {
        "seed": seed,
        "seconds": round(seconds, 1),
        "kills": tally.kills,
        "kills_with_memory": tally.kills_with_memory,
        "kills_during_start": tally.kills_during_start,
        "stops": tally.stops,
        "acknowledged": tally.acknowledged,
        "acknowledged_lost": tally.acknowledged_lost,
        "wrong_bytes": tally.wrong_bytes,
        "deleted": tally.deleted,
        "deleted_back": tally.deleted_back,
        "odd_answers": sum(tally.odd.values()),
        "unanswered_calls": tally.unanswered,
        "blocks_checked": tally.checked,
        "blocks_hit": tally.hits_checked,
        "restart_to_first_hit_ms_p50": round(times[len(times) // 2]) if times else None,
        "restart_to_first_hit_ms_max": round(times[-1]) if times else None,
    }
    figures.update({name: tally.counters[name] for name in Torture.COUNTERS})
    return figures


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = Arguments(
        prog="torture",
        description="Kills a daemon again and again, and holds it to what it had acknowledged.",
        epilog="Exit codes: 0 every promise was kept, 1 something was lost, wrong or back, 2 wrong usage, 3 the daemon "
        "does not start or a client hangs. The folder of a run that found something is kept.",
    )
    parser.add_argument("--kills", metavar="N", type=whole, default=20, help="default: 20")
    parser.add_argument("--minutes", metavar="M", type=number, help="kill no more when they are over")
    parser.add_argument("--seed", metavar="S", type=int, help="of the kills' moments and of all keys (default: another each time)")
    parser.add_argument("--directories", metavar="N", type=whole, default=2, help="of the SSD tier (default: 2)")
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where a folder for the run is made (default: $TMPDIR)")
    parser.add_argument("--restart", metavar="BLOCKS", type=whole, help="instead: fill with this number of blocks, kill once")
    parser.add_argument("--block-bytes", metavar="SIZE", type=size, default=size("1MiB"), help="of --restart (default: 1MiB)")
    parser.add_argument("--host-bytes", metavar="SIZE", default="1280MiB", help="of --restart (default: 1280MiB)")
    parser.add_argument("--ssd-bytes", metavar="SIZE", default="2GiB", help="of --restart (default: 2GiB)")
    parser.add_argument("--memory-gone", action="store_true", help="of --restart: the kill takes the memory along")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args(None if arguments is None else list(arguments))
    logging.getLogger("kvtier").addHandler(logging.NullHandler())
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    print(f"torture: seed {seed}", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="kvtier-torture-", dir=options.folder))
    if options.restart is None:
        code, figures = _torture(options, folder, seed)
    else:
        code, figures = _restart(options, folder, seed)
    if code:
        print(f"torture: all is left in {folder}; repeat with --seed {seed}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    tell(figures, table(figures), options.json)
    return code


def _restart(options: argparse.Namespace, folder: Path, seed: int) -> tuple[int, dict[str, Any]]:
    daemon = Daemon(
        folder,
        directories=1,
        host__bytes=options.host_bytes,
        host__slab_bytes="64MiB",
        ssd__bytes=options.ssd_bytes,
        ssd__file_bytes="256MiB",
        limits__blocks=str(options.restart * 5 // 4 + 1000),
    )
    try:
        figures = Restart(daemon, seed, options.restart, options.block_bytes, options.memory_gone).run()
    except Broken as broken:
        print(f"torture: {broken}", file=sys.stderr)
        return 3, {}
    finally:
        daemon.end()
    return (1 if figures["acknowledged_lost"] or figures["wrong_bytes"] else 0), figures


def _torture(options: argparse.Namespace, folder: Path, seed: int) -> tuple[int, dict[str, Any]]:
    daemon = Daemon(folder, options.directories)
    torture = Torture(daemon, seed)
    begun = time.monotonic()
    code = 0
    try:
        torture.run(options.kills, options.minutes)
    except Broken as broken:
        print(f"torture: {broken}", file=sys.stderr)
        code = 3
    finally:
        daemon.end()
    tally = torture.tally
    for finding in tally.findings[:20]:
        print(f"torture: {finding}", file=sys.stderr)
    if tally.odd:
        print(f"torture: answers that should not be: {dict(tally.odd)}", file=sys.stderr)
    return code or (0 if tally.is_clean() else 1), report(tally, seed, time.monotonic() - begun)


if __name__ == "__main__":
    run_tool(main)
