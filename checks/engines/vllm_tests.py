"""Runs vLLM's own connector tests on kvtier, and holds what comes of each to the list beside this file.

Started by scripts/engine-check, which has installed what is needed. The tests come from vLLM's source distribution, which is
downloaded once; vllm_tests_plugin.py puts our connector into them.
"""

import argparse
import contextlib
import hashlib
import html
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin

from kvtier_testing import process

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool

LIST = Path(__file__).with_name("vllm_tests_expected.json")
INDEX = "https://pypi.org/simple"
DOWNLOAD_TIMEOUT_S = 300
RUN_TIMEOUT_S = 3600
NO_TEST = 5
"""pytest's exit code where none was chosen"""
MODEL = "facebook/opt-125m"
MODEL_CONFIG = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "ffn_dim": 3072, "word_embed_proj_dim": 768, "max_position_embeddings": 10000, "torch_dtype": "float16",
    "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1,
}  # fmt: skip


class Failed(Exception):
    """The run can't go on."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a test, as it is listed or as it came out."""

    test: str
    """vLLM's FILE::TEST[CASE]"""
    outcome: str
    """'passed', 'failed' or 'skipped'"""
    why: str = ""
    at: str = ""
    """where it failed: FILE:LINE"""
    trace: str = ""
    blocks: int = 0
    """that were loaded"""

    @classmethod
    def listed(cls, test: str, entry: Any) -> Self:
        """The entry is "passed", or {"passed": BLOCKS} where some are loaded, or {"failed": WHY, "at": WHERE}, or {"skipped": WHY}."""
        if entry == "passed":
            return cls(test, "passed")
        if "passed" in entry:
            return cls(test, "passed", blocks=entry["passed"])
        outcome = "failed" if "failed" in entry else "skipped"
        return cls(test, outcome, entry[outcome], entry.get("at", ""))

    @classmethod
    def run(cls, row: dict[str, Any]) -> Self:
        """A row of the plugin's."""
        return cls(row["test"], row["outcome"], row["why"], row["at"], row["trace"], row["blocks"])

    def __str__(self) -> str:
        because = f" because {self.why}" if self.why else ""
        return f"passed with {self.blocks} blocks loaded" if self.outcome == "passed" else f"{self.outcome}{because}"

    def differs(self, listed: "Case") -> str:
        """How this one came out otherwise than listed; empty where it did not."""
        if self.outcome == "failed":
            if (self.outcome, self.at) == (listed.outcome, listed.at):
                return ""
            where = f", at {listed.at}" if listed.at else ""
            return f"failed at {self.at}, and was listed as {listed}{where}: {self.why}\n{self.trace}"
        return "" if str(self) == str(listed) else f"{self}, and was listed as {listed}: update the list"


def read_list(path: Path) -> dict[str, Case]:
    """The listed cases, by test: the file has them by file and name."""
    cases: dict[str, Case] = {}
    for file, tests in json.loads(path.read_text()).items():
        for name, entry in tests.items():
            cases[f"{file}::{name}"] = Case.listed(f"{file}::{name}", entry)
    return cases


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer:
        read: bytes = answer.read()
        return read


def download(version: str, sha256: str) -> bytes:
    """vLLM's source distribution. Not by pip, which would build it to learn what it needs."""
    index = os.environ.get("PIP_INDEX_URL", INDEX).rstrip("/") + "/vllm/"
    name = f"vllm-{version}.tar.gz"
    try:
        found = re.search(rf'href="([^"#]*/{re.escape(name)})[#"]', fetch(index).decode())
        if found is None:
            raise Failed(f"{index} has no {name}")
        packed = fetch(urljoin(index, html.unescape(found[1])))
    except OSError as error:
        raise Failed(f"{name} could not be downloaded from {index}: {error}") from error
    digest = hashlib.sha256(packed).hexdigest()
    if digest != sha256:
        raise Failed(f"{name} from {index} has the SHA-256 {digest}; expected {sha256}")
    return packed


def ensure_tests(folder: Path, version: str, sha256: str) -> Path:
    """The folder that has vLLM's tests, and none of its sources, which would hide what is installed."""
    there = folder / f"vllm-{version}"
    if not there.exists():
        print(f"downloading the tests of vLLM {version} (43 MiB)", flush=True)
        packed = download(version, sha256)
        with tempfile.TemporaryDirectory(dir=folder) as work, tarfile.open(fileobj=io.BytesIO(packed)) as files:
            tests = [one for one in files if one.name.startswith(f"{there.name}/tests/")]
            files.extractall(work, tests, filter="data")
            (Path(work) / there.name).rename(there)
    return there


def ensure_model(folder: Path) -> Path:
    """The file that leads vLLM from the model that the tests name to one without weights: they look at its configuration alone."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(MODEL_CONFIG))
    redirect = folder / "redirect.tsv"
    redirect.write_text(f"{MODEL}\t{model}\n")
    return redirect


@contextlib.contextmanager
def daemon(root: Path, folder: Path) -> Iterator[Path]:
    """The socket of a daemon with memory alone, which ends with the block."""
    socket, log = folder / "kvtier.sock", folder / "daemon.log"
    settings = {"host.bytes": "256MiB", "host.keep": "0", "ssd.bytes": "0", "grpc.enabled": "false", "http.enabled": "false"}
    command = process.command_of([str(root / "scripts" / "kvtierd")], socket, settings)
    started, _ = process.start(command, log, Failed)
    try:
        yield socket
    finally:
        process.stop(started)


class Run:
    """One run of pytest over the files of the listed tests."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder

    def rows(self, tests: Path, listed: Iterable[str], chosen: str) -> dict[str, Any]:
        """The plugin's output: the rows, and the listed tests that are missing in the files."""
        names, rows = self._folder / "listed.json", self._folder / "rows.json"
        names.write_text(json.dumps(list(listed)))
        rows.unlink(missing_ok=True)
        redirect = ensure_model(self._folder)
        with tempfile.TemporaryDirectory(prefix="kvtier-") as place, daemon(self._root, Path(place)) as socket:
            command = self._command(tests, socket, names, rows)
            if chosen:
                command += ["-k", chosen]
            command += sorted({name.partition("::")[0] for name in listed})
            code = self._pytest(command, tests, redirect)
        if code == NO_TEST:
            raise Failed("no listed test was chosen")
        if code not in (0, 1) or not rows.exists():
            raise Failed(f"pytest ended with {code}; its reason is above")
        written: dict[str, Any] = json.loads(rows.read_text())
        return written

    def _command(self, tests: Path, socket: Path, names: Path, rows: Path) -> list[str]:
        # No configuration of a folder above is read.
        return [
            str(self._root / "target" / "venv-vllm" / "bin" / "python"), "-m", "pytest", "-q", "--tb=short", "--show-capture=no",
            "--no-summary", "-W", "ignore", "-p", "no:cacheprovider", "-p", "checks.engines.vllm_tests_plugin", "-c", os.devnull, "--rootdir", str(tests),
            "--kvtier-socket", str(socket), "--kvtier-listed", str(names), "--kvtier-rows", str(rows),
        ]  # fmt: skip

    def _pytest(self, command: list[str], tests: Path, redirect: Path) -> int:
        settings = {
            "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1",
            "VLLM_MODEL_REDIRECT_PATH": str(redirect), "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1",
        }  # fmt: skip
        try:
            return subprocess.run(command, cwd=tests, env=os.environ | settings, timeout=RUN_TIMEOUT_S).returncode
        except subprocess.TimeoutExpired:
            raise Failed(f"pytest did not end within {RUN_TIMEOUT_S} s") from None


def counted(name: str, cases: list[Case]) -> str:
    """A row of the table. A test whose cases came out differently counts in several."""
    return f"| {name} | {len({one.test.partition('[')[0] for one in cases})} | {len(cases)} |"


def table(cases: list[Case], otherwise: set[str]) -> str:
    """The table of docs/develop/vllm-connector-tests.md."""
    as_listed = [one for one in cases if one.test not in otherwise]
    passed, failed, skipped = ([one for one in as_listed if one.outcome == outcome] for outcome in ("passed", "failed", "skipped"))
    lines = [
        "| | tests | cases |", "| --- | --- | --- |", counted("run, passed", passed),
        counted("run, failed, for what kvtier does otherwise on purpose", failed),
        counted("otherwise than listed", [one for one in cases if one.test in otherwise]),
    ]  # fmt: skip
    for why, _ in Counter(one.why for one in skipped).most_common():
        lines.append(counted(f"skipped: {why}", [one for one in skipped if one.why == why]))
    loading = [one.blocks for one in passed if one.blocks]
    lines += ["", f"In {len(loading)} of the {len(passed)} cases that passed blocks are loaded, {sum(loading):,} in all."]
    return "\n".join(lines)


def check(arguments: argparse.Namespace) -> int:
    folder = arguments.root / "target" / "vllm-tests"
    folder.mkdir(parents=True, exist_ok=True)
    listed = read_list(LIST)
    tests = ensure_tests(folder, arguments.version, arguments.sha256)
    written = Run(arguments.root, folder).rows(tests, listed, arguments.k)
    if arguments.json:
        arguments.json.write_text(json.dumps(written["rows"], indent=1) + "\n")
    cases = [Case.run(row) for row in written["rows"]]
    different = {one.test: words for one in cases if (words := one.differs(listed[one.test]))}
    print(table(cases, set(different)))
    for test in written["missing"]:
        different[test] = "vLLM has no such test: update the list"
    for test, words in different.items():
        print(f"FAILED {test}: {words}")
    return 1 if different else 0


def main() -> int:
    parser = Arguments(prog="scripts/engine-check vllm-tests")
    parser.add_argument("--root", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--version", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--sha256", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="writes what came of each case to this file")
    parser.add_argument("-k", default="", metavar="EXPR", help="only the tests that pytest's -k chooses")
    # A SIGTERM ends the running tests, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        return check(parser.parse_args())
    except Failed as error:
        print(f"FAILED: {error}")
        return 1


if __name__ == "__main__":
    run_tool(main)
