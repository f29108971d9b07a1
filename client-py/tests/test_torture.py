"""A few kills of bench/torture.py; scripts/torture has more of them."""

import json
import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY


def test_torture_everyPromiseIsKept(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(REPOSITORY / "bench" / "torture.py"), "--kills", "5", "--seed", "3", "--json"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert figures["kills"] == 5
    assert figures["kills_with_memory"] > 0
    assert figures["acknowledged"] > 0
    assert figures["blocks_hit"] > 0
    assert figures["acknowledged_lost"] == figures["wrong_bytes"] == figures["deleted_back"] == 0
