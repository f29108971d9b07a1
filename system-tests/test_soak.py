"""A short run of scripts/soak with a few faults; scripts/soak has more of them."""

import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

from kvtier_testing.daemon import importing

FAULTS = ("kill_daemon", "kill_client", "s3_corrupt", "disk_corrupt")


def soak(*arguments: str) -> tuple[int, str, str]:
    """Runs a soak; returns its exit code and output. A run that takes too long is ended so that it stops its daemon and frees its disk."""
    run = subprocess.Popen(
        [sys.executable, "-m", "checks.soak.run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=importing()
    )
    try:
        said, errors = run.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        run.terminate()
        try:
            run.wait(180)
        finally:
            run.kill()
        raise
    return run.returncode, said, errors


def test_soak_everyPromiseIsKept(tmp_path: Path) -> None:
    plot, samples = tmp_path / "soak.svg", tmp_path / "soak.jsonl"
    first = [word for fault in FAULTS for word in ("--first", fault)]
    code, said, errors = soak(
        "--minutes", "0.1", "--seed", "3 & <4>", "--rest", "2", *first, "--plot", str(plot), "--samples", str(samples), "--json"
    )  # fmt: skip
    assert code == 0, errors
    figures = json.loads(said.splitlines()[-1])
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
    words = [one.text or "" for one in xml.etree.ElementTree.parse(plot).getroot()]
    assert any("seed 3 & <4>" in one for one in words)


def test_unknownFault_isNamedWithWhatThereIs() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "checks.soak.run", "--first", "disk_eaten"], capture_output=True, text=True, env=importing()
    )
    assert run.returncode == 2
    assert "'disk_eaten'" in run.stderr and "disk_full" in run.stderr
