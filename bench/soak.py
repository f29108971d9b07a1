"""Everything at once, and broken all the time: a daemon with three tiers, five clients, and a fault every few seconds.

Clients in Java, Python and over gRPC, two of them tenants at their quotas, put, get, flush and delete blocks whose bytes
follow from their keys. Meanwhile policies are swapped, traces recorded, the configuration is reloaded and the dashboard's
questions are asked. Faults strike one after the other, drawn from a seed. From time to time all clients pause, and every
block that was accepted and must be there is asked for.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage, 3 it could not be run.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from soak_clients import BATCH, Work
from soak_faults import FAULTS, Fault, missing_faults
from soak_oracle import Account
from soak_samples import SERIES, Poller, Samples, plot
from soak_world import World
from torture_clients import Broken

CHECK_EVERY_S = 300.0
QUIET_FROM, QUIET_TO = 0.35, 0.9
"""Between these parts of the time the daemon is not killed: what it takes of the machine is seen in one long life."""
FOUND_WITHIN_S = 60.0


class Chores(threading.Thread):
    """What operators do while a daemon runs: swaps of policies, traces, reloads."""

    _REST_S = 8.0

    def __init__(self, world: World) -> None:
        super().__init__(name="chores", daemon=True)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._world = world
        self._random = random.Random(f"{world.seed}/chores")
        self._end = threading.Event()

    def run(self) -> None:
        while not self._end.wait(self._REST_S * self._random.random()):
            chore = self._random.choice(("policy", "trace", "reload", "reload"))
            life = self._world.life
            if chore == "reload":
                worked = self._reload()
            elif chore == "policy":
                worked = self._command("policy", self._random.choice(("host", "ssd")), self._random.choice(("auto", "auto", "lru", "s3fifo")))
            else:
                trace = self._world.folder / "trace.gz"
                trace.unlink(missing_ok=True)
                worked = self._command("trace", "record", str(trace))
                time.sleep(1)
                worked = self._command("trace", "stop") and worked
            # A daemon that was killed meanwhile can't do it.
            (self.done if worked else self.refused).update([chore] if worked or life == self._world.life else [])

    def _reload(self) -> bool:
        dice = self._random
        self._world.write_configuration(scrub=dice.choice((4, 16, 64)), level=dice.choice(("info", "info", "warn")))
        return self._world.reload()

    def _command(self, *words: str) -> bool:
        try:
            return self._world.command(*words).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def close(self) -> None:
        self._end.set()
        self.join(60)


class Soak:
    """Fault after fault."""

    def __init__(self, world: World, out: Path) -> None:
        self.world = world
        self.samples = Samples(world, out / "samples.jsonl")
        self.struck: list[tuple[float, str]] = []
        self.checks = 0
        self.chores = Chores(world)
        self.poller = Poller(world)
        self._random = random.Random(f"{world.seed}/faults")
        self._began = time.monotonic()
        self.missing = missing_faults(world)
        self._ends = False
        self._faults = [fault for fault in FAULTS if fault.name not in self.missing]

    def minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    def run(self, minutes: float, rest_s: float, check_every_s: float, only: list[str]) -> None:
        """Breaks things until the time is over, then checks everything a last time."""
        self.world.start()
        self.chores.start()
        self.poller.start()
        self._began = time.monotonic()
        next_check = time.monotonic() + check_every_s
        queue: list[Fault] = [fault for fault in self._faults if fault.name in only]
        try:
            while (self.minutes() < minutes or queue) and not self._ends:
                time.sleep(rest_s * self._random.uniform(0.3, 1.0))
                self.samples.take_when_due()
                self._strike(queue.pop(0) if queue else self._choose(self.minutes() / minutes))
                self.world.look_after()
                self._say()
                if time.monotonic() > next_check:
                    self.check(f"after fault {len(self.struck)}")
                    next_check = time.monotonic() + check_every_s
            self.samples.take()
            self.check("at the end")
            self.samples.take()
        finally:
            self.chores.close()
            self.poller.close()

    def end_early(self) -> None:
        """No more faults; the last check and the figures come."""
        self._ends = True

    def _choose(self, part: float) -> Fault:
        possible = [fault for fault in self._faults if not (fault.kills_daemon and QUIET_FROM < part < QUIET_TO)]
        return self._random.choices(possible, [fault.weight for fault in possible])[0]

    def _strike(self, fault: Fault) -> None:
        self.struck.append((self.minutes(), fault.name))
        fault.strike(self.world, self._random)

    def _say(self) -> None:
        if len(self.struck) % 10 == 0:
            sums = self.sums()
            print(
                f"soak: {self.minutes():.1f} min, {len(self.struck)} faults, {sums['accepted']:,} accepted, {sums['hits']:,} hits, "
                f"{sums['accepted_lost']:,} lost, {sums['wrong_bytes']:,} wrong bytes",
                file=sys.stderr,
            )

    def check(self, when: str) -> None:
        """Asks for every block that must be there, with the clients at rest and everything mended."""
        self.checks += 1
        for work in self.world.works:
            work.pause()
        self.world.look_after_daemon()
        threads = [threading.Thread(target=self._check, args=(work, when)) for work in self.world.works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for work in self.world.works:
            work.go_on()

    def _check(self, work: Work, when: str) -> None:
        for account in work.accounts:
            left = account.live()
            deadline = time.monotonic() + FOUND_WITHIN_S
            while left:
                missed = self._found(work, account, left)
                # What failed on its way, or was told to be missing by a store that lied, may come yet.
                if len(missed) < len(left):
                    deadline = time.monotonic() + FOUND_WITHIN_S
                elif missed and time.monotonic() > deadline:
                    for number in missed:
                        account.missing(number, when)
                    break
                left = missed
                if left:
                    time.sleep(1)

    @staticmethod
    def _found(work: Work, account: Account, numbers: list[int]) -> list[int]:
        """Those that are not found."""
        missed = []
        for at in range(0, len(numbers), BATCH):
            batch = numbers[at : at + BATCH]
            statuses = work.ask(account, "get", batch) or []
            for number, status in zip(batch, statuses or ["NONE"] * len(batch), strict=True):
                if status == "OK":
                    account.found(number)
                else:
                    missed.append(number)
        return missed

    def sums(self) -> dict[str, int]:
        """The clients' figures in all."""
        names = ["accepted", "hits", "misses", "deleted", "refused", "unanswered", "checked"]
        names += ["wrong_bytes", "accepted_lost", "lost_to_damage", "deleted_back"]
        seen = [account.seen for _, account in self.world.accounts()]
        return {name: sum(getattr(one, name) for one in seen) for name in names}

    def findings(self) -> list[str]:
        """All that should not be, in words."""
        found = [finding for _, account in self.world.accounts() for finding in account.seen.findings]
        if self.sums()["accepted_lost"] > self._lost_to_outages():
            found += [lost for _, account in self.world.accounts() for lost in account.seen.lost]
        found += [hang for work in self.world.works for hang in work.hangs]
        found += [f"the daemon ended by itself; its log ended with\n{words}" for words in self.world.ended_by_itself]
        return found

    def _lost_to_outages(self) -> int:
        """How many lost blocks the daemons have counted as dropped, where the store was away: then what falls out is."""
        was_away = any(name.startswith("s3_") or name == "kill_s3" for _, name in self.struck)
        return min(self.sums()["accepted_lost"], self.poller.dropped()) if was_away else 0

    def figures(self) -> dict[str, Any]:
        rows = self.samples.longest_life()

        def ends(name: str) -> list[float] | None:
            with_it = [row[name] for row in rows if name in row]
            return [with_it[0], with_it[-1]] if with_it else None

        counters = self._counters()
        return {
            "seed": self.world.seed,
            "minutes": round(self.minutes(), 1),
            "faults": len(self.struck),
            "faults_by_kind": dict(sorted(Counter(name for _, name in self.struck).items())),
            "faults_missing": self.missing,
            **self.sums(),
            "accepted_lost": self.sums()["accepted_lost"] - self._lost_to_outages(),
            "lost_to_outages": self._lost_to_outages(),
            "dropped_by_daemons": self.poller.dropped(),
            "checks": self.checks,
            "hangs": sum(len(work.hangs) for work in self.world.works),
            "daemon_ended_by_itself": len(self.world.ended_by_itself),
            "machine_stalled_s": round(self.world.stalls.total_s, 1),
            "chores": dict(self.chores.done),
            "chores_refused": dict(self.chores.refused),
            "http_polls": self.poller.polls,
            "http_unanswered": dict(self.poller.unanswered),
            "daemon_starts": self.world.life,
            "longest_life_s": rows[-1]["life_s"] if rows else 0,
            **{f"{name}_first_last": ends(name) for name in SERIES},
            "last_life_counters": counters,
        }

    def _counters(self) -> dict[str, int]:
        names = ("dropped", "corrupt", "io_errors", "demotions", "promotions", "evictions", "object_stored", "object_fetched", "object_errors", "spilled")
        try:
            counters = json.loads(self.world.http("/api/v1/stats"))["counters"]
        except (OSError, ValueError, KeyError):
            return {}
        return {name: counters[name] for name in names if name in counters}


def is_clean(figures: dict[str, Any]) -> bool:
    return not any(figures[name] for name in ("wrong_bytes", "accepted_lost", "deleted_back", "hangs", "daemon_ended_by_itself"))


def table(figures: dict[str, Any]) -> str:
    width = max(map(len, figures))
    return "\n".join(f"{name:<{width}}  {value:,}" if isinstance(value, int) else f"{name:<{width}}  {value}" for name, value in figures.items())


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return value


def _fault(text: str) -> str:
    if text not in {fault.name for fault in FAULTS}:
        raise argparse.ArgumentTypeError(f"there is no fault {text!r}, only {', '.join(fault.name for fault in FAULTS)}")
    return text


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="soak",
        description="Runs a daemon with all its tiers and clients, breaks something every few seconds, and holds it to its promises.",
        epilog="Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage, 3 it could not be run. The folder of a run "
        "that found something is kept. SIGTERM ends it early, with the last check and the figures.",
    )
    parser.add_argument("--hours", metavar="H", type=_positive, help="how long faults strike")
    parser.add_argument("--minutes", metavar="M", type=_positive, help="the same, added to the hours (default: 5, without --hours)")
    parser.add_argument("--seed", metavar="S", help="of faults and of all that clients ask (default: another each time)")
    parser.add_argument("--rest", metavar="SECONDS", type=_positive, default=4.0, help="the longest between two faults (default: 4)")
    parser.add_argument("--check", metavar="SECONDS", type=_positive, default=CHECK_EVERY_S, help="between two looks at all blocks (default: 300)")
    parser.add_argument("--first", metavar="FAULT", type=_fault, action="append", default=[], help="strikes first; may be given again")
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where a folder for the run is made (default: $TMPDIR)")
    parser.add_argument("--samples", metavar="FILE", type=Path, help="where the samples go, as lines of JSON")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="where the samples go, as SVG")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object, the last line of standard output")
    options = parser.parse_args(None if arguments is None else list(arguments))
    minutes = (options.hours or 0) * 60 + (options.minutes or 0) or 5.0
    seed = options.seed or str(random.SystemRandom().getrandbits(31))
    print(f"soak: seed {seed}, {minutes:g} minutes", file=sys.stderr)
    os.environ |= {"AWS_ACCESS_KEY_ID": "soak", "AWS_SECRET_ACCESS_KEY": "soak"}
    folder = Path(tempfile.mkdtemp(prefix="kvtier-soak-", dir=options.folder))
    world = World(folder, seed)
    soak = Soak(world, folder)
    # A mounted disk and other processes are not left behind, and what was seen is told.
    signal.signal(signal.SIGTERM, lambda number, frame: soak.end_early())
    code = 0
    for name, reason in soak.missing.items():
        print(f"soak: without {name}: {reason}", file=sys.stderr)
    try:
        soak.run(minutes, options.rest, options.check, options.first)
        figures = soak.figures()
    except (Broken, RuntimeError, OSError) as broken:
        print(f"soak: {broken}", file=sys.stderr)
        code, figures = 3, soak.figures()
    finally:
        world.close()
    findings = soak.findings()
    for finding in findings[:30]:
        print(f"soak: {finding}", file=sys.stderr)
    code = code or (0 if is_clean(figures) and not findings else 1)
    if options.samples is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(folder / "samples.jsonl", options.samples)
    if options.plot is not None:
        title = f"scripts/soak, seed {seed}: {figures['minutes']} minutes, {figures['faults']:,} faults"
        options.plot.write_text(plot(soak.samples.rows, soak.struck, title))
    if code:
        print(f"soak: all is left in {folder}; the seed was {seed}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    # With --json, standard output is for programs.
    print(table(figures), file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(figures))
    return code


if __name__ == "__main__":
    sys.exit(main())
