"""bench/builds.py: two daemons at once, their clients in turns, and the ratio of each pair."""

import json
import sys
from pathlib import Path

import pytest

from bench import builds
from checks.shared.checkout import ROOT


def test_inTurns_eachBuildGoesFirstInEverySecondPair(tmp_path: Path) -> None:
    old, new = (builds.Build(Path(name), tmp_path, tmp_path) for name in ("old", "new"))
    measured: list[str] = []

    def measure(build: builds.Build) -> float:
        measured.append(build.root.name)
        return float(len(measured))

    assert builds.in_turns((old, new), measure, 2) == [(2.0, 1.0), (3.0, 4.0)]
    assert measured == ["new", "old", "old", "new"]


def test_buildAgainstItself_everyRowHasAllPairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "client_of", lambda root: Path(sys.executable))
    monkeypatch.setattr(builds, "WARM_S", 0.0)
    assert builds.main([str(ROOT), "--only", "latency,ssd", "--turns", "2", "--json", str(tmp_path / "rows.json")]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {"lookup of 256 blocks": 2, "get of 16 x 256 KiB from SSD": 4}.items() <= {row["name"]: row["pairs"] for row in rows}.items()
    assert all(row["ratio"] > 0 for row in rows)


def test_oldBuildWithoutAClient_isRefusedWithTheCure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        builds.main([str(tmp_path)])
    assert "run 'scripts/bench local --quick' in it first" in capsys.readouterr().err
