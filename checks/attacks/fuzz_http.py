"""Sends allowed and forbidden HTTP requests to a daemon (schemathesis), and checks the answers against the OpenAPI file.

Afterwards the daemon must be healthy, and must not have grown.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from kvtier_testing import process

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool, whole

EXAMPLES = 200
GROWTH_MAX = 1.5
"""of resident memory: the heap and the pools may still grow to their limits. A leak with each request grows by more"""
THREADS_MORE_MAX = 16
REPORT_LINES = 80
# A forbidden request may also have a first line that is too long: 414.
CONFIGURATION = """[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 414, 415, 422, 428, 429, "5xx"]
"""


class Found(Exception):
    """A fault of the daemon; the message describes it."""


@dataclass(frozen=True)
class Taken:
    """The memory and the threads of a process."""

    resident_kib: int
    threads: int

    @classmethod
    def by(cls, pid: int) -> "Taken":
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except FileNotFoundError:
            raise Found("the daemon died") from None
        resident, threads = (re.search(rf"^{name}:\s*(\d+)", text, re.MULTILINE) for name in ("VmRSS", "Threads"))
        if resident is None or threads is None:
            raise Found("the daemon died")
        return cls(int(resident[1]), int(threads[1]))


def requests(url: str, seed: int, folder: Path) -> str:
    """Sends one round of requests, and returns the summary line of schemathesis.

    Raises:
        Found: an answer that the OpenAPI file does not allow.
    """
    (folder / "schemathesis.toml").write_text(CONFIGURATION)
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml", "run", str(ROOT / "config" / "openapi.yaml"),
        "--url", url, "--checks", "all", "--mode", "all", "--max-examples", str(EXAMPLES), "--suppress-health-check", "all",
        "--seed", str(seed), "--generation-database", "none",
    ]  # fmt: skip
    # schemathesis keeps notes in its working folder.
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = ran.stdout.splitlines()
    if ran.returncode:
        print("\n".join(lines[-REPORT_LINES:]))
        raise Found(f"schemathesis found something in round {seed} (seed {seed}); its report is above")
    summaries = [line.strip() for line in lines if re.search("generated|passed|failed", line)]
    return summaries[-1] if summaries else ""


def require_bounds(first: Taken, last: Taken, rounds: int) -> None:
    """Compares the daemon's memory and threads with those after the first round, which warms the JVM up."""
    if last.resident_kib > GROWTH_MAX * first.resident_kib:
        raise Found(f"the daemon grew from {first.resident_kib} to {last.resident_kib} KiB resident in {rounds} rounds")
    if last.threads > first.threads + THREADS_MORE_MAX:
        raise Found(f"the daemon's threads grew from {first.threads} to {last.threads} in {rounds} rounds")


def require_health(url: str) -> None:
    with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
        if not json.load(answer)["live"]:
            raise Found("the daemon says that it is not live")
    with urllib.request.urlopen(f"{url}/api/v1/errors", timeout=5) as answer:
        errors = json.load(answer)["errors"]
    if errors:
        raise Found(f"the daemon logged: {errors}")


def fuzz(seconds: int, folder: Path) -> None:
    settings = {"host.bytes": "64MiB", "host.keep": 0, "ssd.bytes": 0, "grpc.enabled": "false", "http.port": 0}
    command = process.command_of([str(ROOT / "scripts" / "kvtierd")], folder / "sock", settings)
    daemon, line = process.start(command, folder / "log", Found)
    url = f"http://{process.http_address(line)}"
    begun = time.monotonic()
    first = last = None
    rounds = 0
    try:
        while time.monotonic() - begun < seconds:
            rounds += 1
            summary = requests(url, rounds, folder)
            last = Taken.by(daemon.pid)
            first = first or last
            print(f"round {rounds}: {summary}; {last.resident_kib} KiB resident, {last.threads} threads", flush=True)
        assert first is not None and last is not None
        require_bounds(first, last, rounds)
        require_health(url)
    finally:
        process.stop(daemon)
    taken_s = time.monotonic() - begun
    print(f"{rounds} rounds in {taken_s:.0f} s; resident memory {first.resident_kib} KiB after the first, {last.resident_kib} KiB at the end")


def main() -> int:
    parser = Arguments(prog="scripts/fuzz-http", description=__doc__)
    parser.add_argument("seconds", metavar="SECONDS", type=whole, nargs="?", default=300, help="for how long at least (default: 300)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        try:
            fuzz(arguments.seconds, Path(folder))
        except Found as found:
            print(f"fuzz-http: {found}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    run_tool(main)
