"""bench/builds.py: two daemons at once, their clients in turns, and the ratio of each pair."""

import json
import sys
from pathlib import Path

import pytest

from bench import builds
from checks.shared.checkout import ROOT


class Scripted:
    """A build whose client answers from a list, and writes down when it was asked."""

    def __init__(self, name: str, answers: list[float], asked: list[str]) -> None:
        self.root = Path(name)
        self._answers = answers
        self._asked = asked

    def ask(self, _command: str) -> float:
        self._asked.append(self.root.name)
        return self._answers.pop(0)


def test_inTurns_eachBuildGoesFirstInEverySecondPair() -> None:
    asked: list[str] = []
    pair = (Scripted("old", [1.0, 2.0], asked), Scripted("new", [3.0, 4.0], asked))
    assert builds.in_turns(pair, "lookup", 2) == [(1.0, 3.0), (2.0, 4.0)]  # type: ignore[arg-type]
    assert asked == ["new", "old", "old", "new"]


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
