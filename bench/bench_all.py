"""All benchmarks of this machine, one part after the other and all of that some times over: scripts/bench all.

Writes docs/benchmarks/DATE-N-cores-all.json, and from that the page, its curves and the README's table; `--render FILE` writes
these anew from a file that is there. A part that fails says so in the page, and the others stand.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import figures

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("local", "grpc", "directory", "policies", "ssd", "demotion", "object", "tenants", "scaling", "engine-cpu")
PART_LIMIT_S = 3600
SAID_MAX = 300


def machine() -> tuple[str, str]:
    """In words, and as a part of a file's name."""
    cores = os.cpu_count() or 1
    gib = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30))
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    kernel = os.uname().release.split("-")[0]
    return f"{models[0] if models else os.uname().machine}, {cores} cores, {gib} GiB, Linux {kernel}", f"{cores}-cores"


def measure(part: str, quick: bool, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """A part's rows, and why there are none."""
    out = folder / f"{part}.json"
    out.unlink(missing_ok=True)
    command = [str(ROOT / "scripts" / "bench"), part, "--json", str(out)] + (["--quick"] if quick else [])
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PART_LIMIT_S, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return [], f"did not end within {PART_LIMIT_S} s"
    if ended.returncode != 0 or not out.exists():
        said = " ".join(ended.stdout.replace(str(ROOT), ".").split())[-SAID_MAX:]
        return [], f"ended with {ended.returncode}: {said}"
    return [{"part": part, **row} for row in json.loads(out.read_text())], ""


def arguments_of(argv: list[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(prog="scripts/bench all", description="Measures everything and writes the pages of figures.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a trial, not a result")
    parser.add_argument("--turns", type=int, default=3, help="how often all parts are measured")
    parser.add_argument("--only", default=",".join(PARTS), help="not all parts, but these, with commas between")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="the folder for the page, below that of the README")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="whose table is written")
    parser.add_argument("--render", type=Path, metavar="FILE", help="measure nothing: write the page and the README's table from FILE")
    parser.add_argument("--into", type=Path, metavar="FILE", help="put what these parts measure into FILE, in the place of theirs in it")
    arguments = parser.parse_args(argv)
    arguments.only = [part for part in arguments.only.split(",") if part]
    for part in arguments.only:
        if part not in PARTS:
            parser.error(f"--only: there is no part '{part}'; expected some of {', '.join(PARTS)}")
    if not arguments.only:
        parser.error(f"--only: expected at least one of {', '.join(PARTS)}")
    if arguments.turns < 1:
        parser.error(f"--turns: expected at least 1, not {arguments.turns}")
    for option, file in (("--render", arguments.render), ("--into", arguments.into)):
        if file is not None and not file.is_file():
            parser.error(f"{option}: there is no file {file}")
    return arguments


def main(argv: list[str] | None = None) -> int:
    arguments = arguments_of(argv)
    if arguments.render is not None:
        for path in figures.render(arguments.render.resolve(), arguments.readme.resolve()):
            print(path)
        return 0
    words, short = machine()
    begun = datetime.datetime.now(datetime.UTC)
    revision = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    turns: list[list[dict[str, Any]]] = []
    failed: dict[str, str] = {}
    out = arguments.out.resolve() / f"{begun:%Y-%m-%d}-{short}-all.json"
    command = " ".join(["scripts/bench all", *(sys.argv[1:] if argv is None else argv)])
    found: dict[str, Any] = {
        "date": f"{begun:%Y-%m-%d}", "machine": words, "revision": revision, "command": command, "turns": 0, "rows": [], "failed": failed,
    }  # fmt: skip
    others: list[dict[str, Any]] = []
    if arguments.into is not None:
        out = arguments.into.resolve()
        found = json.loads(out.read_text())
        others = [row for row in found["rows"] if row["part"] not in arguments.only]
        failed = {part: why for part, why in found["failed"].items() if part not in arguments.only}
        found["failed"] = failed
    with tempfile.TemporaryDirectory(prefix="kvtier-bench-all-") as folder:
        for turn in range(arguments.turns):
            turns.append([])
            for part in arguments.only:
                print(f"{datetime.datetime.now(datetime.UTC):%H:%M:%S} turn {turn + 1} of {arguments.turns}: {part}", flush=True)
                rows, why = measure(part, arguments.quick, Path(folder))
                turns[-1] += rows
                if why:
                    failed[part] = why
                    print(f"  {why}", flush=True)
                # After each, so that a run that is broken off leaves what it has measured: --render makes the page of it.
                if any(turns):
                    found["turns"] = max(found["turns"], sum(map(bool, turns)))
                    found["rows"] = others + figures.median_rows(turns)
                    out.write_text(json.dumps(found, indent=1) + "\n")
    if not any(turns):
        print("nothing could be measured, and nothing was written", file=sys.stderr)
        return 1
    for path in [out, *figures.render(out, arguments.readme.resolve())]:
        print(path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
