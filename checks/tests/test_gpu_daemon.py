"""The arguments of scripts/gpu-check daemon. The other parts of the program need a GPU."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.delitem(sys.modules, "checks.gpu.daemon", raising=False)
    return importlib.import_module("checks.gpu.daemon")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "sdd"], "--only: there is no 'sdd'; expected some of start, limits"),
        (["--only", "ssd,typo"], "--only: there is no 'typo'"),
        (["--runs", "64KiB"], "--runs: there is no '64KiB'; expected some of 32KiB, 8KiB, 256B"),
        (["--runs", ""], "--runs: expected at least one of 32KiB, 8KiB, 256B"),
        (["--quick", "--runs", "8KiB"], "--runs leaves nothing"),
        (["--set", "host.bytes"], "--set is 'host.bytes', expected KEY=VALUE"),
    ],
)
def test_arguments_thatCheckNothing_areWrongUsage(check: Any, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as ended:
        check.arguments_of(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_arguments_none_areAllRuns(check: Any) -> None:
    assert check.arguments_of([]).runs == ["32KiB", "8KiB", "256B"]
    assert check.arguments_of(["--quick"]).runs == ["32KiB"]
    assert check.arguments_of(["--only", "ssd"]).only == ["ssd"]


def test_parts_haveAMethodEach(check: Any) -> None:
    assert all(callable(getattr(check.Check, name)) for name in check.PARTS)


def test_settings_whatAPartNeeds_standsOverWhatIsCompared(check: Any, tmp_path: Path) -> None:
    daemon = check.Daemon(tmp_path, None, 10, 6, ["host.bytes=20GiB", "ssd.policy=lru"])
    assert daemon.values({})["host.bytes"] == "20GiB"
    values = daemon.values({"host__bytes": "1GiB"})
    assert (values["host.bytes"], values["ssd.policy"], values["ssd.bytes"]) == ("1GiB", "lru", "6144MiB")
