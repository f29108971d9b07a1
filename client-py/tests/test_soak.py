"""A short run of bench/soak.py with a few faults; scripts/soak has more of them."""

import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

from conftest import REPOSITORY

FAULTS = ("kill_daemon", "kill_client", "s3_corrupt", "disk_corrupt")


def test_soak_everyPromiseIsKept(tmp_path: Path) -> None:
    plot, samples = tmp_path / "soak.svg", tmp_path / "soak.jsonl"
    first = [word for fault in FAULTS for word in ("--first", fault)]
    run = subprocess.run(
        [sys.executable, str(REPOSITORY / "bench" / "soak.py"), "--minutes", "0.1", "--seed", "3", "--rest", "2", *first]
        + ["--plot", str(plot), "--samples", str(samples), "--json"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert set(FAULTS) <= figures["faults_by_kind"].keys()
    assert figures["daemon_starts"] >= 2
    assert figures["accepted"] > 0
    assert figures["checked"] > 0
    assert figures["wrong_bytes"] == figures["accepted_lost"] == figures["deleted_back"] == figures["hangs"] == 0
    assert figures["deleted_unseen"] == figures["not_answered"] == figures["event_gaps"] == 0
    assert figures["accepted"] == sum(figures["accepted_blocks"].values())
    assert figures["accepted_blocks"]["there at the end"] > 0
    assert figures["copies_damaged"] > 0
    assert figures["events"] > 0
    assert figures["http_polls"] > 0
    assert json.loads(samples.read_text().splitlines()[0])["descriptors"] > 0
    assert xml.etree.ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_unknownFault_isNamedWithWhatThereIs() -> None:
    run = subprocess.run(
        [sys.executable, str(REPOSITORY / "bench" / "soak.py"), "--first", "disk_eaten"], capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "'disk_eaten'" in run.stderr and "disk_full" in run.stderr
