"""Runs most benchmarks one after the other, several times in turns: scripts/bench all.

Writes a result file. All parts, without --quick, go to docs/benchmarks/results, and the page of all benchmarks is made anew from the
files there. Anything less is a trial, and goes to target/bench-all, unless --out or --into says otherwise. A part that fails is named
in the file and on the page, and the others stand.
"""

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import figures
from bench.figures import Row
from checks.documents import benchmarks
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, file, folder, run_tool, some_of, whole

PARTS = ("local", "grpc", "remote", "policies", "ssd", "demotion", "object", "tenants", "scaling", "engine-cpu")
"""All benchmarks except `directory`, whose rows `scaling` has, and `ledgers` and `codecs`, which compare libraries."""
PART_LIMIT_S = 3600
END_WITHIN_S = 20.0
LEFT_OUT = "left out"
BROKEN_OFF = "broken off"


def machine() -> tuple[str, str]:
    """The machine in words, and its part of a file name."""
    cores = os.cpu_count() or 1
    gib = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    kernel = os.uname().release.split("-")[0]
    return f"{models[0] if models else os.uname().machine}, {cores} cores, {gib} GiB, Linux {kernel}", f"{cores}-cores"


def revision() -> str:
    """The commit that is measured, and whether anything but documents was changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit}{'-dirty' * bool(git('status', '--porcelain', '--', '.', ':!docs', ':!*.md'))}" if commit else "an unknown revision"


def measure(part: str, quick: bool, out: Path, log: Path) -> tuple[list[Row], str]:
    """Runs a part; returns its rows, and the reason if there are none. It leaves no process behind."""
    out.unlink(missing_ok=True)
    command = [str(ROOT / "scripts" / "bench"), part, "--json", str(out)] + (["--quick"] if quick else [])
    running = None
    try:
        with log.open("w") as said, _held_back(signal.SIGINT, signal.SIGTERM):
            running = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        running.wait(PART_LIMIT_S)
    except subprocess.TimeoutExpired:
        return [], f"did not end within {PART_LIMIT_S} s"
    finally:
        if running is not None:
            _end_group(running)
    if running.returncode != 0:
        return [], f"ended with {running.returncode}"
    rows = json.loads(out.read_text()) if out.exists() else []
    return [{"part": part, **row} for row in rows], "" if rows else "ended without figures"


@contextlib.contextmanager
def _held_back(*numbers: int) -> Iterator[None]:
    """Delays signals until the block ends. A signal during the start of a process would leave a process that nobody ends."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def _end_group(leader: "subprocess.Popen[bytes]") -> None:
    """Ends a process with all its children: daemons and servers that would slow the next measurement down."""
    with contextlib.suppress(ProcessLookupError):
        if leader.poll() is None:
            os.killpg(leader.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                leader.wait(END_WITHIN_S)
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


class Run:
    """The figures of a run. They are written after each part, so that an interrupted run leaves its figures."""

    def __init__(self, file: Path, found: dict[str, Any], parts: list[str], how: dict[str, str]) -> None:
        """
        Args:
            found: the contents of the file so far.
            how: date, revision and command of this run.
        """
        self.failures: dict[str, list[str]] = {part: [] for part in parts}
        self._file = file
        self._found = found
        self._how = how
        self._turns: dict[str, list[list[Row]]] = {part: [] for part in parts}
        for part in PARTS:
            if part not in found["parts"]:
                found["failed"][part] = BROKEN_OFF if part in parts else found["failed"].get(part, LEFT_OUT)

    def note(self, part: str, turn: int, rows: list[Row], why: str) -> None:
        """Notes the result of a part in a turn."""
        found, turns, failures = self._found, self._turns[part], self.failures[part]
        if rows:
            turns.append(rows)
        if why:
            failures.append(f"turn {turn} {why}")
        found["failed"].pop(part, None)
        found["parts"].pop(part, None)
        if turns:
            found["parts"][part] = self._how | {"turns": len(turns)}
        if failures:
            found["failed"][part] = "; ".join(failures)
        found["rows"] = [row for row in found["rows"] if row["part"] != part] + figures.result_rows(figures.median_rows(turns))
        for name in ("parts", "failed"):
            found[name] = {one: found[name][one] for one in PARTS if one in found[name]}
        found["rows"].sort(key=lambda row: PARTS.index(row["part"]))
        if found["rows"]:
            # The file is replaced at once: a kill meanwhile leaves the old figures, which took hours.
            aside = self._file.with_suffix(".new")
            aside.write_text(json.dumps(figures.summarized(found), indent=1, ensure_ascii=False) + "\n")
            os.replace(aside, self._file)

    def has_measured(self) -> bool:
        """Whether any part has figures."""
        return any(self._turns.values())


def arguments_of(argv: list[str] | None) -> argparse.Namespace:
    """The command line, checked: a run takes hours, and what is wrong shows before."""
    parser = Arguments(prog="scripts/bench all", description="Measures everything, writes a result file and makes the page of all benchmarks.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a trial, not a result")
    parser.add_argument("--turns", type=whole, default=3, help="how often all parts are measured (default: 3)")
    parser.add_argument("--only", type=some_of(PARTS), default=list(PARTS), help="only these parts, with commas between: this is a trial, too")
    parser.add_argument("--out", type=folder, help="the folder of the result file (default: docs/benchmarks/results; of a trial, target/bench-all)")
    parser.add_argument("--into", type=file, metavar="FILE", help="measure these parts again, and replace their rows in FILE")
    arguments = parser.parse_args(argv)
    if arguments.quick and arguments.into is not None:
        parser.error("--quick measures a trial, and a trial cannot replace rows of a result: leave --quick or --into out")
    if arguments.into is not None:
        kept = _result_of(arguments.into)
        if not kept:
            parser.error(f"--into: {arguments.into} is no result of scripts/bench all")
        if kept["machine"] != machine()[0]:
            parser.error(f"--into: that result is of another machine: {kept['machine']}; this one is {machine()[0]}")
    return arguments


def _result_of(kept: Path) -> dict[str, Any]:
    """The contents of a result file of this program; empty for another file."""
    try:
        found: dict[str, Any] = json.loads(kept.read_text())
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("parts") else {}


def _command(arguments: argparse.Namespace) -> str:
    """The command line of this run, for any machine."""
    only = [] if arguments.only == list(PARTS) else ["--only", ",".join(arguments.only)]
    return " ".join(["scripts/bench all", "--turns", str(arguments.turns), *only, *(["--quick"] if arguments.quick else [])])


def _new_file(arguments: argparse.Namespace, begun: datetime.datetime, short: str) -> Path:
    """The path of the result file."""
    if arguments.out is None and (arguments.quick or set(arguments.only) != set(PARTS)):
        trials = ROOT / "target" / "bench-all"
        trials.mkdir(parents=True, exist_ok=True)
        return trials / f"{begun:%Y-%m-%d-%H%M%S}-{short}-all.json"
    out = ROOT / benchmarks.RESULTS if arguments.out is None else Path(arguments.out).resolve()
    return out / f"{begun:%Y-%m-%d}-{short}-all.json"


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a part failed, 2 for wrong usage, 130 where it was broken off."""
    arguments = arguments_of(argv)
    words, short = machine()
    begun = datetime.datetime.now(datetime.UTC)
    if arguments.into is not None:
        out = arguments.into.resolve()
        found = json.loads(out.read_text())
    else:
        out = _new_file(arguments, begun, short)
        if out.exists():
            print(f"{out} exists already: --into {os.path.relpath(out)} measures parts of it again, --out writes to another folder", file=sys.stderr)
            return 2
        found = {
            "id": out.stem, "title": f"Clients, SSD, S3 and engines without a GPU, {short.replace('-', ' ')}", "section": "hardware",
            "date": f"{begun:%Y-%m-%d}", "machine": words, "revision": "", "command": "", "parts": {}, "failed": {}, "rows": [],
        }  # fmt: skip
    run = Run(out, found, arguments.only, {"date": f"{begun:%Y-%m-%d}", "revision": revision(), "command": _command(arguments)})
    ends_by = signal.signal(signal.SIGTERM, signal.default_int_handler)
    logs = ROOT / "target" / "bench-all"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="kvtier-bench-all-") as name:
            for turn in range(1, arguments.turns + 1):
                for part in arguments.only:
                    print(f"{datetime.datetime.now(datetime.UTC):%H:%M:%S} turn {turn} of {arguments.turns}: {part}", flush=True)
                    log = logs / f"{part}-{turn}.log"
                    rows, why = measure(part, arguments.quick, Path(name) / f"{part}.json", log)
                    if why:
                        print(f"  {why}: {os.path.relpath(log)}", flush=True)
                    run.note(part, turn, rows, why)
    except KeyboardInterrupt:
        left = f"{os.path.relpath(out)} has what was measured" if run.has_measured() else "nothing was measured"
        print(f"broken off: {left}", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, ends_by)
    if not run.has_measured():
        print("nothing could be measured", file=sys.stderr)
        return 1
    print(out)
    if out.parent == ROOT / benchmarks.RESULTS:
        print(benchmarks.write(ROOT))
    return 1 if any(run.failures.values()) else 0


if __name__ == "__main__":
    run_tool(main)
