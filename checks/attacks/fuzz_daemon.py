"""Sends inputs to a daemon for some time, beside honest clients; run by scripts/fuzz.

Exit codes: 0 nothing was found, 1 something was (its inputs are kept), 2 wrong usage.
"""

import collections
import contextlib
import random
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from checks.attacks.fuzz_targets import CORPORA, TARGETS, Target
from checks.attacks.hostile_daemon import Bystander, Daemon, GrpcCaller, LocalCaller, Wrong
from checks.shared.command_line import Arguments, number, run_tool

SECONDS_MIN = 10.0
WARM_UP_S_MAX = 60.0
CHECK_S = 1.0
TELL_S = 60.0
KEPT = 400


class Throwers:
    """Some threads that throw inputs: one would wait most of its time."""

    def __init__(self, target: Target, daemon: Daemon, seed: int, count: int) -> None:
        self.last: collections.deque[bytes] = collections.deque(maxlen=KEPT)
        self.thrown = 0
        self.failure: str | None = None
        self._target = target
        self._daemon = daemon
        self._corpus = target.corpus()
        self._ends = False
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(random.Random(seed + i),), daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, rng: random.Random) -> None:
        try:
            while not self._ends and self.failure is None:
                data = self._target.next(rng, self._corpus)
                self.last.append(data)
                self._target.throw(self._daemon, data)
                with self._lock:
                    self.thrown += 1
        except BaseException as e:  # noqa: BLE001 - whatever it is, this thread throws no more
            self.failure = f"an input was not taken, or could not be thrown: {e!r}\n{traceback.format_exc()}"

    def end(self) -> None:
        self._ends = True
        for thread in self._threads:
            thread.join()

    def require_well(self) -> None:
        if self.failure is not None:
            raise Wrong(self.failure)


def fuzz(name: str, seconds: float, seed: int, folder: Path) -> None:
    target = TARGETS[name]()
    with contextlib.ExitStack() as stack:
        daemon = Daemon(folder)
        stack.callback(daemon.stop)
        local = stack.enter_context(contextlib.closing(LocalCaller(daemon)))
        remote = stack.enter_context(contextlib.closing(GrpcCaller(daemon.grpc_port)))
        beside = [Bystander("local client", local.ask), Bystander("gRPC client", remote.ping)]
        for one in beside:
            stack.callback(one.end)
        throwers = Throwers(target, daemon, seed, 3)
        stack.callback(throwers.end)
        try:
            throw(name, daemon, throwers, beside, seconds, seed)
        except Wrong as e:
            kept = Path("target", "fuzz", name, time.strftime("%Y%m%d-%H%M%S"))
            kept.mkdir(parents=True)
            for i, data in enumerate(list(throwers.last)):
                (kept / f"{i:04d}").write_bytes(data)
            raise Wrong(f"{e}\nthe last {len(throwers.last)} inputs are in {kept}; the last ones come last") from e


def throw(name: str, daemon: Daemon, throwers: Throwers, beside: list[Bystander], seconds: float, seed: int) -> None:
    """Watches the daemon and the clients for this time; raises a finding."""
    begin = time.monotonic()
    warm = None
    tell_at = begin + TELL_S
    while (now := time.monotonic()) < begin + seconds:
        time.sleep(CHECK_S)
        daemon.require_well()
        throwers.require_well()
        for one in beside:
            one.require_well()
        if warm is None and now - begin > min(WARM_UP_S_MAX, seconds / 5):
            warm = daemon.figures()
        if now > tell_at:
            tell_at += TELL_S
            print(f"fuzz {name}: {throwers.thrown:,} inputs in {now - begin:.0f} s; {daemon.resident_kib() >> 10} MiB resident", file=sys.stderr)
    throwers.end()
    throwers.require_well()
    time.sleep(2)
    daemon.require_well()
    if warm is None:
        raise Wrong(f"nothing was measured to hold growth against: the machine stood still for most of {seconds:.0f} s")
    last = daemon.require_given_back(warm)
    print(f"fuzz {name}: {throwers.thrown:,} inputs thrown at a daemon in {seconds:.0f} s (seed {seed}): it lives")
    for one in beside:
        one.require_well()
        print(f"  the {one.name} beside: {one.percentiles()}")
    print(f"  warm: {warm}\n  last: {last}")


def write_seeds() -> None:
    """Writes the inputs to begin with anew: after a change of a layout."""
    for name, make in TARGETS.items():
        folder = CORPORA / ("http2" if name == "grpc" else name)
        folder.mkdir(parents=True, exist_ok=True)
        for seed, data in make().seeds.items():
            (folder / seed).write_bytes(data)


def main() -> int:
    parser = Arguments(prog="fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "seeds"], help="the part that gets the inputs; seeds: write the first inputs")
    parser.add_argument("--seconds", type=number, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.target == "seeds":
        write_seeds()
        return 0
    if options.seconds < SECONDS_MIN:
        parser.error(f"--seconds is {options.seconds:g}, too short to see growth: expected {SECONDS_MIN:g} or more")
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        try:
            fuzz(options.target, options.seconds, options.seed, Path(folder))
        except Wrong as e:
            print(f"fuzz {options.target}: found: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    run_tool(main)
