"""Runs a daemon with three tiers and five clients, with a fault every few seconds.

Clients in Java, Python and over gRPC, two of them tenants at their quotas, put, get, flush and delete blocks whose bytes
follow from their keys. Meanwhile policies are swapped, traces recorded, the configuration is reloaded and the dashboard's
questions are asked. Faults strike one after the other, drawn from a seed. From time to time all clients pause, and every
block that was accepted and must be there is asked for. A fault of this run must have taken each
missing block: the daemon's KV events tell when the block left the node.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage, 3 it could not be run.
"""

import argparse
import concurrent.futures
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

from checks.shared.command_line import Arguments, number, run_tool, table, tell
from checks.soak.clients import BATCH, HANG_S, Work
from checks.soak.excuses import STORE_AWAY, drops_findings, silence_findings
from checks.soak.faults import FAULTS, Fault, missing_faults
from checks.soak.oracle import MISSING, Account
from checks.soak.samples import NO_ANSWER, SERIES, Poller, Samples, growth_findings, plot
from checks.soak.world import World
from checks.torture.clients import Broken

CHECK_EVERY_S = 300.0
QUIET_FROM, QUIET_TO = 0.35, 0.9
"""Between these shares of the time the daemon is not killed: one long life shows its use of the machine."""
CHECK_BATCH = 2 * BATCH
FOUND_WITHIN_S = 60.0
"""The time for which a check asks for a missing block, after the last block that was found."""
EXPLAINED_WITHIN_S = 4.0
"""The least time for which a check asks for a missing block that was damaged, or that a fault took according to an event."""
CHORES = ("policy", "trace", "reload")


class Chores(threading.Thread):
    """An operator who swaps policies, takes traces and reloads the configuration."""

    _REST_S = 8.0

    def __init__(self, world: World) -> None:
        super().__init__(name="chores", daemon=True)
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._world = world
        self._random = random.Random(f"{world.seed}/chores")
        self._end = threading.Event()

    def run(self) -> None:
        try:
            while not self._end.wait(self._REST_S * self._random.random()):
                self._do(self._random.choice((*CHORES, "reload")))
        except BaseException as failure:  # noqa: BLE001 - the main thread must hear of it
            self.failure = failure

    def _do(self, chore: str) -> None:
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
        self._world.write_configuration(scrub=dice.choice((4, 16, 64)))
        return self._world.reload()

    def _command(self, *words: str) -> bool:
        try:
            return self._world.command(*words).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def findings(self) -> list[str]:
        """In words what operators could not do at all."""
        never = [f"each {chore} of {self.refused[chore]} was refused" for chore in CHORES if self.refused[chore] and not self.done[chore]]
        return never + ([] if self.failure is None else [f"the chores ended with {self.failure!r}"])

    def close(self) -> None:
        self._end.set()
        self.join(60)


class Soak:
    """Fault after fault.

    Attributes:
        struck: when which faults did, in minutes.
        broken: what ended it before its time, in words.
    """

    def __init__(self, world: World, out: Path) -> None:
        self.world = world
        self.samples = Samples(world, out / "samples.jsonl")
        self.struck: list[tuple[float, str]] = []
        self.checks_s: list[float] = []
        self.chores = Chores(world)
        self.poller = Poller(world)
        self._random = random.Random(f"{world.seed}/faults")
        self._began = time.monotonic()
        self.missing = missing_faults(world)
        self._ends = False
        self._has_started = False
        self._has_ended = False
        self.broken: list[str] = []
        self._faults = [fault for fault in FAULTS if fault.name not in self.missing]
        self._told: Counter[str] = Counter()

    def minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    def run(self, minutes: float, rest_s: float, check_every_s: float, only: list[str]) -> None:
        """Breaks things until the time is over, then checks everything a last time."""
        try:
            self._run(minutes, rest_s, check_every_s, only)
        except (Broken, RuntimeError) as broken:
            # A failed start is a fault of this machine. A later end is a fault of the daemon or of a client.
            if not self._has_started:
                raise
            self.broken.append(f"it could not go on: {broken}")

    def _run(self, minutes: float, rest_s: float, check_every_s: float, only: list[str]) -> None:
        self.world.start()
        self._has_started = True
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
                self._tell_news()
                if time.monotonic() > next_check:
                    self.check(f"after fault {len(self.struck)}")
                    next_check = time.monotonic() + check_every_s
            self.samples.take()
            self.check("at the end")
            self.samples.take()
            self._has_ended = True
            # Nothing changes any more under those who count.
            self.world.pause_clients()
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
                f"{self.ended()[STORE_AWAY]:,} dropped by right, {sums['accepted_lost']:,} lost, {sums['wrong_bytes']:,} wrong bytes",
                file=sys.stderr,
            )

    def _tell_news(self) -> None:
        """Prints the clients' new findings with the time and the last faults, which help to find the cause."""
        found = Counter(self._clients_findings())
        faults = ", ".join(name for at, name in self.struck if self.minutes() - at < HANG_S / 60)
        for finding in (found - self._told).elements():
            print(f"soak: {self.minutes():.1f} min, after {faults}: {finding}", file=sys.stderr)
        self._told = found

    def check(self, when: str) -> None:
        """Asks for every block that must be there, with the clients at rest and everything mended."""
        begun = time.monotonic()
        with self.world.clients_at_rest():
            self.world.look_after()
            with concurrent.futures.ThreadPoolExecutor(len(self.world.works)) as threads:
                running = [threads.submit(self._check, work, when) for work in self.world.works]
                while concurrent.futures.wait(running, timeout=0.2).not_done:
                    self.world.look_after_daemon()
                for one in running:
                    one.result()
            self.world.trails.prune(begun)
            self.world.note_drops()
        self.checks_s.append(time.monotonic() - begun)

    def _check(self, work: Work, when: str) -> None:
        for account in work.accounts:
            left = self._not_found(work, account, account.live())
            explained_from = time.monotonic() + EXPLAINED_WITHIN_S
            deadline = time.monotonic() + FOUND_WITHIN_S
            while left:
                time.sleep(0.5)
                # A block may still come: an answer was lost, or a store lied.
                now_left = self._not_found(work, account, list(left))
                if len(now_left) < len(left):
                    deadline = time.monotonic() + FOUND_WITHIN_S
                left = self._judge(account, now_left, when, time.monotonic() > explained_from, time.monotonic() > deadline)

    def _judge(self, account: Account, left: dict[int, str], when: str, is_explained: bool, is_over: bool) -> dict[int, str]:
        """Judges blocks that were not found; returns those to be asked for again."""
        if is_explained and not self.world.follower.catch_up():
            is_explained = False
        again = {}
        for one, status in left.items():
            key = account.key(one)
            excuse = self.world.taken_by(key)
            if status in MISSING and (is_over or (is_explained and (excuse is not None or key in self.world.damaged))):
                account.missing(one, when, excuse, self.world.trails.words(key))
            elif is_over:
                account.not_answered(one, status, when)
            else:
                again[one] = status
        return again

    @staticmethod
    def _not_found(work: Work, account: Account, numbers: list[int]) -> dict[int, str]:
        """The answers for the blocks that are not found."""
        not_found = {}
        for at in range(0, len(numbers), CHECK_BATCH):
            batch = numbers[at : at + CHECK_BATCH]
            statuses = work.ask(account, "get", batch) or ["UNANSWERED"] * len(batch)
            for one, status in zip(batch, statuses, strict=True):
                if status == "OK":
                    account.found(one)
                else:
                    not_found[one] = status
        return not_found

    def sums(self) -> dict[str, int]:
        """The clients' figures in all."""
        names = ["accepted", "put_again", "hits", "misses", "refused", "unanswered", "checked", "wrong_bytes"]
        names += ["deleted_unseen", "deleted_back", "not_answered"]
        seen = [account.seen for _, account in self.world.accounts()]
        return {name: sum(getattr(one, name) for one in seen) for name in names} | {"accepted_lost": self.ended()["lost"]}

    def ended(self) -> Counter[str]:
        """Accepted blocks that are no longer promised, counted by their end."""
        return sum((account.ended() for _, account in self.world.accounts()), Counter())

    def statuses(self) -> Counter[str]:
        return sum((account.statuses() for _, account in self.world.accounts()), Counter())

    def findings(self) -> list[str]:
        """All that should not be, in words."""
        found = self._clients_findings()
        found += [wrong for _, account in self.world.accounts() if (wrong := account.balance())]
        found += [f"the daemon ended by itself; its log ended with\n{words}" for words in self.world.ended_by_itself]
        found += self.chores.findings()
        found += [] if self.poller.failure is None else [f"the poller ended with {self.poller.failure!r}"]
        found += [f"{times} times {words}" for words, times in self.poller.errors.items()]
        found += drops_findings(self.world.dropped(), self.ended()) + silence_findings(self.world.silent_s())
        return self.broken + found + growth_findings(self.samples.longest_life()) + self._nothing_findings()

    def _clients_findings(self) -> list[str]:
        seen = [account.seen for _, account in self.world.accounts()]
        found = [hang for work in self.world.works for hang in work.hangs]
        return found + [finding for one in seen for finding in one.findings] + [lost for one in seen for lost in one.lost]

    def _nothing_findings(self) -> list[str]:
        """Findings where the run did too little to show anything."""
        if not self._has_ended:
            return []
        found = []
        for _, account in self.world.accounts():
            found += [f"{account}: no block was {what}" for what, count in (("accepted", account.seen.accepted), ("got", account.seen.hits)) if not count]
        done = {
            "looks at blocks": self.sums()["checked"],
            "events": self.world.trails.events,
            "answers over HTTP": self.poller.polls,
            "samples": len(self.samples.rows),
        }
        return found + [f"there were no {what}" for what, count in done.items() if not count]

    def figures(self) -> dict[str, Any]:
        rows = self.samples.longest_life()

        def ends(name: str) -> list[float] | None:
            with_it = [row[name] for row in rows if name in row]
            return [with_it[0], with_it[-1]] if with_it else None

        live = sum(len(account.live()) for _, account in self.world.accounts())
        return {
            "seed": self.world.seed,
            "minutes": round(self.minutes(), 1),
            "faults": len(self.struck),
            "faults_by_kind": dict(sorted(Counter(name for _, name in self.struck).items())),
            "faults_missing": self.missing,
            **self.sums(),
            "accepted_blocks": {"there at the end": live, **self.ended()},
            "copies_damaged": len(self.world.damaged),
            "dropped_by_daemons": dict(self.world.dropped()),
            "store_silent_s": [round(one, 1) for one in self.world.silent_s()],
            "events": self.world.trails.events,
            "event_gaps": self.world.follower.gaps,
            "answers": dict(sorted(self.statuses().items())),
            "checks": len(self.checks_s),
            "check_s_max": round(max(self.checks_s, default=0.0), 1),
            "hangs": sum(len(work.hangs) for work in self.world.works),
            "daemon_ended_by_itself": len(self.world.ended_by_itself),
            "machine_stalled_s": round(self.world.pulse.stood_s, 1),
            "chores": dict(self.chores.done),
            "chores_refused": dict(self.chores.refused),
            "http_polls": self.poller.polls,
            "http_unanswered": dict(self.poller.unanswered),
            "daemon_starts": self.world.life,
            "longest_life_s": rows[-1]["life_s"] if rows else 0,
            **{f"{name}_first_last": ends(name) for name in SERIES},
            "last_life_counters": self._counters(),
        }

    def _counters(self) -> dict[str, int]:
        names = ("dropped", "corrupt", "io_errors", "demotions", "promotions", "evictions", "object_stored", "object_fetched", "object_errors", "spilled")
        try:
            counters = json.loads(self.world.http("/api/v1/stats"))["counters"]
        except (*NO_ANSWER, KeyError):
            return {}
        return {name: counters[name] for name in names if name in counters}


BROKEN = ("wrong_bytes", "accepted_lost", "deleted_unseen", "deleted_back", "not_answered", "hangs", "daemon_ended_by_itself")


def exit_code(ended: bool, figures: dict[str, Any], findings: list[str]) -> int:
    """The exit code: 1 for a broken promise, also in a run that was cut short; 3 for another run that was cut short."""
    if findings or any(figures.get(name) for name in BROKEN):
        return 1
    return 0 if ended else 3


def _fault(text: str) -> str:
    if text not in {fault.name for fault in FAULTS}:
        raise argparse.ArgumentTypeError(f"there is no fault {text!r}, only {', '.join(fault.name for fault in FAULTS)}")
    return text


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = Arguments(
        prog="soak",
        description="Runs a daemon with all its tiers and clients, breaks something every few seconds, and holds it to its promises.",
        epilog="Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage, 3 it could not be run. The folder of a run "
        "that found something is kept. SIGTERM ends it early, with the last check and the figures.",
    )
    parser.add_argument("--hours", metavar="H", type=number, help="how long faults strike")
    parser.add_argument("--minutes", metavar="M", type=number, help="the same, added to the hours (default: 5, without --hours)")
    parser.add_argument("--seed", metavar="S", help="of faults and of all that clients ask (default: another each time)")
    parser.add_argument("--rest", metavar="SECONDS", type=number, default=3.0, help="the longest between two faults (default: 3)")
    parser.add_argument("--check", metavar="SECONDS", type=number, default=CHECK_EVERY_S, help="between two looks at all blocks (default: 300)")
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
    ended, figures, findings = False, {}, []
    # A mounted disk and other processes are not left behind, whatever happens, and whenever.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.closing(World(folder, seed)) as world:
            soak = Soak(world, folder)
            signal.signal(signal.SIGTERM, lambda number, frame: soak.end_early())
            for name, reason in soak.missing.items():
                print(f"soak: without {name}: {reason}", file=sys.stderr)
            try:
                soak.run(minutes, options.rest, options.check, options.first)
                ended = True
            finally:
                # The figures are printed also after a failure.
                figures, findings = soak.figures(), soak.findings()
                _write(soak, options, figures)
    except (Broken, RuntimeError, OSError, subprocess.SubprocessError) as broken:
        print(f"soak: {broken}", file=sys.stderr)
        ended = False
    except KeyboardInterrupt:
        print("soak: broken off", file=sys.stderr)
        ended = False
    (folder / "findings").write_text("".join(f"{finding}\n" for finding in findings))
    for finding in findings[:30]:
        print(f"soak: {finding}", file=sys.stderr)
    code = exit_code(ended, figures, findings)
    if code:
        print(f"soak: all is left in {folder}; the seed was {seed}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    tell(figures, table(figures), options.json)
    return code


def _write(soak: Soak, options: argparse.Namespace, figures: dict[str, Any]) -> None:
    """The files that were asked for."""
    if options.samples is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(soak.samples.file, options.samples)
    if options.plot is not None:
        title = f"scripts/soak, seed {figures['seed']}: {figures['minutes']} minutes, {figures['faults']:,} faults"
        options.plot.write_text(plot(soak.samples.rows, soak.struck, title))


if __name__ == "__main__":
    run_tool(main)
