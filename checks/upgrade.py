"""Puts a daemon of one release in the place of another's, under load, and asks clients of both for what was accepted.

It upgrades to this checkout and goes back to the other, each once by SIGTERM, as a service manager does it, and once by SIGKILL. Clients
in Python and Java of both releases put, get, flush and delete all the time, and check the daemon against its answers. In the end each
client reads the blocks of the others. A release that cannot use the data of another must refuse it in words, and must serve no wrong bytes.

Exit codes: 0 nothing was lost, wrong or unanswered, 1 something was, 2 wrong usage, 3 a daemon did not start.
"""

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks.shared.checkout import ROOT, java_home
from checks.shared.command_line import Arguments, folder, number, run_tool, table, tell
from checks.shared.pulse import Pulse
from checks.soak.clients import CALL_TIMEOUT_S, Hand, Work
from checks.soak.content import Space
from checks.soak.oracle import Account
from checks.torture.clients import Broken
from checks.torture.daemon import Daemon
from kvtier import Client, Status

SEED = "upgrade"
BLOCKS = 300
SPACE = Space("shared", 64 << 10)
_BATCH = 64
_ASKED_AGAIN_S = 20.0
_WORKS_WITHIN_S = 120.0


class Release:
    """A checkout that is built, with its Python client."""

    def __init__(self, name: str, root: Path, python: Path | None = None) -> None:
        """
        Args:
            python: one that has the client; without, the one that the checkout's scripts make.
        """
        self.name = name
        self.root = root
        self._python = python or root / "target" / "venv-bench" / "bin" / "python"

    def build(self) -> None:
        """Builds the release with its own script, which builds what is missing."""
        made = subprocess.run([str(self.root / "scripts" / "torture"), "--help"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Broken(f"{self.root} can't be built: {made.stderr[-2000:]}")

    def python(self, socket_path: Path) -> list[str]:
        return [str(self._python), "-m", "checks.soak.hand", str(socket_path), str(CALL_TIMEOUT_S), SEED, str(SPACE)]

    def java(self, socket_path: Path) -> list[str]:
        classes = f"{next((self.root / 'bench' / 'target').glob('kvtier-bench-*.jar'))}:{self.root}/bench/target/lib/*"
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED", "-cp", classes]
        return [f"{java_home()}/bin/java", *flags, "io.kvtier.bench.soak.SoakHand", "local", str(socket_path), "-", str(CALL_TIMEOUT_S), SEED, str(SPACE)]

    def clients(self, socket_path: Path) -> dict[str, list[str]]:
        return {f"{self.name}-python": self.python(socket_path), f"{self.name}-java": self.java(socket_path)}


@dataclass
class Outcome:
    """The result of one change of daemons."""

    accepted: int = 0
    read_by_others: int = 0
    lost: int = 0
    wrong_bytes: int = 0
    back_s: float = 0.0
    findings: list[str] = field(default_factory=list)


class Change:
    """One daemon in the place of another."""

    def __init__(self, before: Release, after: Release, number: signal.Signals, folder: Path) -> None:
        self.name = f"{before.name} to {after.name} by {number.name}"
        self.outcome = Outcome()
        self._before = before
        self._after = after
        self._number = number
        self._folder = folder
        self._daemon = Daemon(folder, 2, host__bytes="64MiB", object__store="folder", object__folder=str(folder / "objects"), object__directory=str(folder / "known"))
        self._commands = before.clients(self._daemon.socket_path) | after.clients(self._daemon.socket_path)
        self._works: list[Work] = []
        self._pulse = Pulse()

    def run(self, seconds: float) -> Outcome:
        (self._folder / "objects").mkdir()
        try:
            self._daemon.checkout = self._before.root
            self._daemon.spawn()
            self._daemon.wait_ready()
            with self._load():
                self._await_puts()
                time.sleep(seconds)
                begun = time.monotonic()
                self._daemon.kill(self._number)
                self._daemon.checkout = self._after.root
                self._daemon.spawn()
                self._daemon.wait_ready()
                self._await_session(begun)
                self._await_puts()
                time.sleep(seconds)
                for work in self._works:
                    work.pause()
                self._read_all()
            self._sum_up()
        finally:
            self._daemon.end()
            self._pulse.close()
        return self.outcome

    @contextlib.contextmanager
    def _load(self) -> Iterator[None]:
        for place, (name, command) in enumerate(self._commands.items()):
            account = Account(name, SPACE, BLOCKS, place << 24, SEED)
            self._works.append(Work(name, command, [account], self._folder / f"{name}.log", self._pulse, SEED, lambda since: False))
        try:
            for work in self._works:
                work.start()
            yield
        finally:
            for work in self._works:
                work.end()

    def _await_puts(self) -> None:
        """Until each client has put something more: on a busy machine a JVM takes seconds to start."""
        before = [work.accounts[0].seen.accepted for work in self._works]
        deadline = time.monotonic() + _WORKS_WITHIN_S
        while any(work.accounts[0].seen.accepted == count for work, count in zip(self._works, before, strict=True)):
            for work in self._works:
                work.require_well()
            if time.monotonic() > deadline:
                raise Broken(f"some client of {', '.join(self._commands)} put nothing within {_WORKS_WITHIN_S:.0f} s; {self._folder} has their logs")
            time.sleep(0.05)

    def _await_session(self, begun: float) -> None:
        with Client(self._daemon.socket_path, timeout=CALL_TIMEOUT_S) as client:
            while client.ping().status is not Status.OK:
                if not self._daemon.is_alive():
                    raise Broken(f"the daemon of {self._after.name} did not start; its log ends with\n{self._daemon.log_end()}")
                time.sleep(0.01)
        self.outcome.back_s = time.monotonic() - begun

    def _read_all(self) -> None:
        """Each client's blocks, by the next client, which is of another release for every second one, and by itself."""
        names = list(self._commands)
        for place, work in enumerate(self._works):
            account = work.accounts[0]
            other = names[(place + 2) % len(names)]
            self._read_by(other, account)
            deadline = time.monotonic() + _ASKED_AGAIN_S
            left = self._missing(work, account)
            while left and time.monotonic() < deadline:
                time.sleep(0.5)
                left = {number: status for number, status in self._missing(work, account).items() if number in left}
            for number, status in left.items():
                self.outcome.findings.append(f"{account}/{number} is {status}")
            self.outcome.lost += len(left)

    @staticmethod
    def _missing(work: Work, account: Account) -> dict[int, str]:
        live = account.live()
        missing: dict[int, str] = {}
        for at in range(0, len(live), _BATCH):
            batch = live[at : at + _BATCH]
            statuses = work.ask(account, "get", batch) or ["UNANSWERED"] * len(batch)
            missing |= {number: status for number, status in zip(batch, statuses, strict=True) if status != "OK"}
        return missing

    def _read_by(self, other: str, account: Account) -> None:
        hand = Hand(self._commands[other], self._folder / f"{other}-reader.log", self._pulse)
        try:
            live = account.live()
            for at in range(0, len(live), _BATCH):
                batch = live[at : at + _BATCH]
                answer = hand.ask(f"get {SPACE.name} {','.join(map(str, batch))}") or "UNANSWERED"
                statuses, _, wrong = answer.partition(" |")
                self.outcome.read_by_others += statuses.split().count("OK")
                self.outcome.findings += [f"{other} was told wrong bytes of {account}/{one}" for one in wrong.split()]
                self.outcome.wrong_bytes += len(wrong.split())
        finally:
            hand.close()

    def _sum_up(self) -> None:
        for work in self._works:
            work.require_well()
            seen = work.accounts[0].seen
            self.outcome.accepted += seen.accepted
            self.outcome.wrong_bytes += seen.wrong_bytes
            self.outcome.findings += [*seen.findings, *work.hangs]
            self.outcome.findings += [f"{work.accounts[0]}: nothing was {what}" for what, count in (("accepted", seen.accepted), ("got", seen.hits)) if not count]
        if not self.outcome.read_by_others:
            self.outcome.findings.append("no client of one release read what the other's had put")


def checkout_of(revision: str, into: Path) -> Path:
    """A checkout of a revision of this repository, made if it is not there."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], capture_output=True, text=True, check=False)
    if commit.returncode != 0:
        raise argparse.ArgumentTypeError(f"{revision!r} is no folder, and no revision of this repository")
    root = into / commit.stdout.strip()
    if not root.exists():
        into.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(root)], check=True)
        subprocess.run(["git", "-C", str(root), "checkout", "--quiet", "--detach", commit.stdout.strip()], check=True)
    return root


def other(text: str) -> Path:
    """The other release: a folder with a checkout, or a revision."""
    return folder(text).resolve() if Path(text).is_dir() else checkout_of(text, ROOT / "target" / "releases")


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = Arguments(prog="upgrade-check", description=__doc__.split("\n", 1)[0], epilog=__doc__.rsplit("\n\n", 1)[1])
    parser.add_argument("other", metavar="REVISION", type=other, help="the other release: a revision of this repository, or a folder with a checkout")
    parser.add_argument("--seconds", metavar="S", type=number, default=15.0, help="of load before and after each change (default: 15)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object, the last line of standard output")
    options = parser.parse_args(None if arguments is None else list(arguments))
    one, two = Release("other", options.other), Release("this", ROOT)
    figures: dict[str, Any] = {}
    findings: list[str] = []
    sums: Counter[str] = Counter()
    folder_of_all = Path(tempfile.mkdtemp(prefix="kvtier-upgrade-"))
    try:
        for release in (one, two):
            release.build()
        for place, (before, after, how) in enumerate([(one, two, signal.SIGTERM), (one, two, signal.SIGKILL), (two, one, signal.SIGTERM), (two, one, signal.SIGKILL)]):
            work_folder = folder_of_all / str(place)
            work_folder.mkdir()
            change = Change(before, after, how, work_folder)
            outcome = change.run(options.seconds)
            findings += [f"{change.name}: {finding}" for finding in outcome.findings]
            for name in ("accepted", "read_by_others", "lost", "wrong_bytes"):
                figures[f"{change.name}: {name}"] = getattr(outcome, name)
                sums[name] += getattr(outcome, name)
            figures[f"{change.name}: back_s"] = round(outcome.back_s, 2)
    except Broken as broken:
        print(f"upgrade-check: {broken}; all is left in {folder_of_all}", file=sys.stderr)
        return 3
    for finding in findings[:30]:
        print(f"upgrade-check: {finding}", file=sys.stderr)
    if findings:
        print(f"upgrade-check: all is left in {folder_of_all}", file=sys.stderr)
    else:
        shutil.rmtree(folder_of_all)
    figures |= {**sums, "findings": len(findings)}
    tell(figures, table(figures), options.json)
    return 1 if findings else 0


if __name__ == "__main__":
    run_tool(main)
