"""checks/upgrade.py with this release as both releases."""

import argparse
import signal
import sys
from pathlib import Path

import pytest
from kvtier_testing.daemon import importing

from checks import upgrade
from checks.shared.checkout import ROOT
from checks.torture.daemon import Daemon


@pytest.fixture(autouse=True)
def _clients_find_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", importing()["PYTHONPATH"])


def change(folder: Path) -> upgrade.Change:
    one, two = (upgrade.Release(name, ROOT, Path(sys.executable)) for name in ("one", "two"))
    return upgrade.Change(one, two, signal.SIGTERM, folder)


def test_change_losesNothing(tmp_path: Path) -> None:
    outcome = change(tmp_path).run(1.0)
    assert outcome.findings == []
    assert (outcome.lost, outcome.wrong_bytes) == (0, 0)
    assert min(outcome.accepted, outcome.read_by_others, outcome.back_s) > 0


def test_releaseThatDoesNotFindWhatTheOtherLeft_isFound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawn, starts = Daemon.spawn, []

    def elsewhere(self: Daemon) -> None:
        starts.append(self)
        place = tmp_path / str(len(starts))
        for name in ("state", "ssd", "objects", "known"):
            (place / name).mkdir(0o700, parents=True)
        places = {"host.directory": "state", "ssd.directory": "ssd", "object.folder": "objects", "object.directory": "known"}
        spawn(self, **{name: str(place / folder) for name, folder in places.items()})

    monkeypatch.setattr(Daemon, "spawn", elsewhere)
    monkeypatch.setattr(upgrade, "_ASKED_AGAIN_S", 1.0)
    # A client with more blocks than this deletes before it puts. No block shall be deleted, so that every lost block is found.
    monkeypatch.setattr(upgrade, "BLOCKS", 1 << 20)
    outcome = change(tmp_path).run(1.0)
    assert outcome.lost > 0 and len(outcome.findings) >= outcome.lost


def test_other_thatIsNeitherFolderNorRevision_isNamed() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="'nonsense-0' is no folder, and no revision"):
        upgrade.other("nonsense-0")
