"""bench/bench_all.py: medians over turns, verdicts on goals, curves, and the README's table, which is never edited by hand."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
import bench_all
import figures


def row(name: str, value: float | None, limit: float | None = None, unit: str = "us") -> dict[str, Any]:
    ratio = None if value is None or limit is None else value / limit
    return {"part": "local", "name": name, "value": value, "unit": unit, "limit_name": "", "limit": limit, "ratio": ratio}


def found(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "date": "2030-01-02", "machine": "a machine", "revision": "abc", "command": "scripts/bench all", "turns": 3,
        "rows": figures.median_rows([rows]), "failed": {},
    }  # fmt: skip


def test_median_isOfEachFieldByItself_andTheRatioOfTheTurnsOwn() -> None:
    turns = [[row("a", 1.0, 10.0)], [row("a", 9.0, 20.0)], [row("a", 3.0, 2.0)]]
    (merged,) = figures.median_rows(turns)
    assert (merged["value"], merged["limit"], merged["ratio"], merged["turns"]) == (3.0, 10.0, 0.45, 3)


def test_rowThatATurnLacks_isTheMedianOfTheOthers_andSaysOfHowMany() -> None:
    turns = [[row("a", None)], [row("b", 7.0), row("a", 4.0)]]
    merged = {one["name"]: one for one in figures.median_rows(turns)}
    assert (merged["a"]["value"], merged["a"]["turns"]) == (4.0, 1)
    assert (merged["b"]["value"], merged["b"]["turns"]) == (7.0, 1)


def test_rowThatNoTurnHas_keepsWhyNot() -> None:
    (merged,) = figures.median_rows([[{**row("a", None), "limit_name": "skipped: no server"}]])
    assert (merged["value"], merged["turns"], merged["limit_name"]) == (None, 0, "skipped: no server")


@pytest.mark.parametrize(
    ("goal", "value", "limit", "met"),
    [
        ({"at_most": 5}, 5.0, None, "yes"), ({"at_most": 5}, 5.1, None, "**no**"),
        ({"at_least": 5}, 5.0, None, "yes"), ({"at_least": 5}, 4.9, None, "**no**"),
        ({"ratio_at_least": 0.9}, 9.0, 10.0, "yes"), ({"ratio_at_least": 0.9}, 8.9, 10.0, "**no**"),
        ({"ratio_at_most": 1.2}, 12.0, 10.0, "yes"), ({"ratio_at_most": 1.2}, 12.1, 10.0, "**no**"),
        ({"at_most": 5}, None, None, "not measured"), ({"ratio_at_least": 0.9}, 9.0, None, "not measured"),
    ],
)  # fmt: skip
def test_verdict(goal: dict[str, float], value: float | None, limit: float | None, met: str) -> None:
    assert figures.verdict({"row": "a", **goal}, row("a", value, limit))[2] == met


def test_goalWithoutARow_isNotMeasured() -> None:
    assert figures.verdict({"row": "a", "at_most": 5}, None)[2] == "not measured"


def test_curves_areDrawnOfWhatWasMeasured_andOfNothingElse() -> None:
    rows = [row(f"scaling_clients_{count}_acquire_per_s", 1000.0 * count, unit="1/s") for count in (1, 2, 4)]
    drawn = figures.curves_of(rows)
    assert list(drawn) == ["clients-rate"]
    points = drawn["clients-rate"].count("<circle")
    assert points == 3
    assert "4,000" in drawn["clients-rate"], "the highest value's line"


def test_curve_ofTwoPlaces_liesWhereTheValuesAre() -> None:
    svg = figures.curve_svg("t", "n", "us", ("1", "2", "3"), [("a", [0.0, None, 10.0])])
    assert 'points="90.0,320.0 560.0,44.0"' in svg


def test_readme_hasItsTableReplaced_andNothingElse() -> None:
    block = figures.readme_block(found([row("idle_daemon_cpu_percent", 0.125, 1.0, "%")]), "docs/x.md")
    before = f"head\n{figures.BEGIN}\nold\n{figures.END}\ntail\n"
    after = figures.with_block(before, block)
    assert after.startswith("head\n") and after.endswith("\ntail\n") and "old" not in after
    assert "| idle daemon, of a core | 0.12 % | 1.00 % | a promise |" in after
    assert figures.with_block(after, block) == after


@pytest.mark.parametrize("text", ["", "only words", figures.BEGIN, figures.END + figures.BEGIN])
def test_readmeWithoutAPlace_isRefused_withWhatIsExpected(text: str) -> None:
    with pytest.raises(ValueError, match="no place for the figures"):
        figures.with_block(text, "block")


def test_render_writesPageCurvesAndReadme_fromTheFileAlone(tmp_path: Path) -> None:
    rows = [row(f"scaling_clients_{count}_acquire_per_s", 1000.0 * count, unit="1/s") for count in (1, 2)]
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "figures.json"
    file.write_text(json.dumps({**found(rows), "failed": {"ssd": "no fio"}}))
    readme = tmp_path / "README.md"
    readme.write_text(f"{figures.BEGIN}\n{figures.END}\n")
    written = figures.render(file, readme)
    assert [path.name for path in written] == ["figures.md", "figures-clients-rate.svg", "README.md"]
    page = written[0].read_text()
    assert "](figures-clients-rate.svg)" in page and "- `ssd`: no fio" in page and "| scaling_clients_2_acquire_per_s | 2,000 |" in page
    assert "[all of it](docs/figures.md)" in readme.read_text()


def test_theReadmeAndItsPage_areWhatTheFileOfFiguresMakes() -> None:
    """No figure in them was typed by hand, or left behind by a run since."""
    readme = (REPOSITORY / "README.md").read_text()
    block = readme[readme.index(figures.BEGIN) : readme.index(figures.END)]
    page = block.split("[all of it](", 1)[1].split(")", 1)[0]
    file = (REPOSITORY / page).with_suffix(".json")
    kept = json.loads(file.read_text())
    assert figures.with_block(readme, figures.readme_block(kept, page)) == readme, f"run scripts/bench all --render {file.name}"
    assert (REPOSITORY / page).read_text() == figures.page(kept, file.stem)
    for curve, svg in figures.curves_of(kept["rows"]).items():
        assert file.with_name(f"{file.stem}-{curve}.svg").read_text() == svg


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "lokal"], "there is no part 'lokal'"), (["--only", ""], "at least one"), (["--turns", "0"], "at least 1"),
        (["--render", "/nowhere.json"], "no file /nowhere.json"), (["--into", "/nowhere.json"], "no file /nowhere.json"),
    ],
)  # fmt: skip
def test_badArguments_areRefused_withWhatIsExpected(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench_all.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_partMeasuredAgain_takesThePlaceOfItsRows_andOfItsFailure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures.json"
    kept = found([row("a", 1.0), {**row("b", 2.0), "part": "ssd"}])
    file.write_text(json.dumps({**kept, "failed": {"ssd": "no fio", "grpc": "no port"}}))
    (tmp_path / "README.md").write_text(f"{figures.BEGIN}\n{figures.END}\n")
    monkeypatch.setattr(bench_all, "measure", lambda part, quick, folder: ([{**row("b", 7.0), "part": part}], ""))
    code = bench_all.main(["--only", "ssd", "--turns", "1", "--into", str(file), "--readme", str(tmp_path / "README.md")])
    after = json.loads(file.read_text())
    assert {one["name"]: one["value"] for one in after["rows"]} == {"a": 1.0, "b": 7.0}
    assert (code, after["failed"], after["turns"]) == (1, {"grpc": "no port"}, 3)


def test_partThatFails_saysHowItEnded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "scripts" / "bench"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho no fio here; exit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(bench_all, "ROOT", tmp_path)
    assert bench_all.measure("ssd", False, tmp_path) == ([], "ended with 3: no fio here")
