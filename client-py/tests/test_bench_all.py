"""bench/bench_all.py: medians over turns, verdicts on goals, curves, and the README's table, which is never edited by hand."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY, eventually

sys.path.append(str(REPOSITORY / "bench"))
import bench_all
import figures

REASON = re.compile(
    rf"{bench_all.LEFT_OUT}|{bench_all.BROKEN_OFF}|turn \d+ (ended with -?\d+|ended without figures|did not end within \d+ s)(; turn .+)*"
)
"""What the program says of a part that was not measured."""

BY_HAND = {("2026-11-22-2-cores-all", "engine-cpu")}
"""Parts that failed before the program kept with what; nobody writes another by hand."""


def row(name: str, value: float | None, limit: float | None = None, unit: str = "us") -> dict[str, Any]:
    ratio = None if value is None or limit is None else value / limit
    return {"part": "local", "name": name, "value": value, "unit": unit, "limit_name": "", "limit": limit, "ratio": ratio}


def found(rows: list[dict[str, Any]], failed: dict[str, str] | None = None) -> dict[str, Any]:
    how = {"date": "2020-01-02", "revision": "abc", "command": "scripts/bench all --turns 3", "turns": 3}
    return {
        "machine": bench_all.machine()[0], "measured": {one["part"]: how for one in rows},
        "rows": figures.median_rows([rows] * 3), "failed": failed or {},
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


def test_limitOfSomeTurns_hasItsName_notThatOfATurnWithout() -> None:
    turns = [[{**row("a", 1.0), "limit_name": "skipped: no fio"}], [{**row("a", 2.0, 4.0), "limit_name": "fio"}]]
    (merged,) = figures.median_rows(turns)
    assert (merged["limit"], merged["limit_name"]) == (4.0, "fio")


def test_limitOfSomeTurns_isShownWithTheValueOfTheseAlone() -> None:
    turns = [[row("a", 1.0)], [row("a", 9.0)], [row("a", 2.0, 4.0)], [row("a", 3.0, 5.0)]]
    (merged,) = figures.median_rows(turns)
    assert (merged["value"], merged["limit"], merged["ratio"], merged["turns"]) == (2.5, 4.5, 0.55, 2)


def test_nameOfTwoParts_isRefused_andTheirFiguresAreNotMixed() -> None:
    merged = figures.median_rows([[row("a", 1.0), {**row("a", 3.0), "part": "scaling"}]])
    assert [(one["part"], one["value"]) for one in merged] == [("local", 1.0), ("scaling", 3.0)]
    for shown in (figures.goals_table, figures.curves_of):
        with pytest.raises(ValueError, match="parts local and scaling both have a row a"):
            shown(merged)


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


def test_noteOfAGoal_isShownWhereItIsNotMet_andNotWhereNobodyMeasured() -> None:
    (goal,) = [goal for goal in json.loads(figures.GOALS.read_text()) if goal["row"] == "host_put_during_ssd_writes_gbps"]
    assert goal["note"] not in "".join(figures.goals_table([]))
    assert goal["note"] not in "".join(figures.goals_table([row(goal["row"], 9.6, 10.0)]))
    assert goal["note"] in "".join(figures.goals_table([row(goal["row"], 8.0, 10.0)]))


def test_notesOfGoals_haveNoFigures_asTheyAreShownOnEveryMachine() -> None:
    for goal in json.loads(figures.GOALS.read_text()):
        assert not re.search(r"\d", goal.get("note", "").replace(goal["row"], "")), goal["note"]


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


def test_curve_ofNothingButZeros_liesOnTheGround() -> None:
    drawing = figures.curve_svg("t", "n", "us", ("1", "2"), [("a", [0.0, 0.0])])
    assert 'points="90.0,320.0 560.0,320.0"' in drawing


def test_wordsOfADrawing_areEscaped() -> None:
    root = xml.etree.ElementTree.fromstring(figures.curve_svg("a < b & c", "n", "us", ("1", "2"), [("a", [1.0, 2.0])]))
    assert "a < b & c, us" in [one.text for one in root]


def test_readme_hasItsTableReplaced_andNothingElse() -> None:
    block = figures.readme_block(found([row("idle_daemon_cpu_percent", 0.125, 1.0, "%")]), "docs/x.md")
    before = f"head\n{figures.BEGIN}\nold\n{figures.END}\ntail\n"
    after = figures.with_block(before, block)
    assert after.startswith("head\n") and after.endswith("\ntail\n") and "old" not in after
    assert "| idle daemon, of a core | 0.12 % | 1.00 % | a promise |" in after
    assert "Not measured: acquire one block, Java / Python, p50;" in after
    assert figures.with_block(after, block) == after


def test_spanOfWhatWasMeasuredOnSeveralDays_isSaid() -> None:
    kept = found([row("idle_daemon_cpu_percent", 0.125, 1.0, "%"), {**row("b", 1.0), "part": "ssd"}])
    kept["measured"]["ssd"] = {"date": "2020-01-09", "revision": "def", "command": "scripts/bench all --turns 1 --only ssd", "turns": 1}
    block = figures.readme_block(kept, "docs/x.md")
    assert "2020-01-02 to 2020-01-09" in block and "of revision abc and def, medians of 1 to 3 turns" in block
    page = figures.page(kept, "x")
    assert "## ssd\n\n2020-01-09, `scripts/bench all --turns 1 --only ssd` of revision def, median of 1 turn." in page
    assert "## local\n\n2020-01-02, `scripts/bench all --turns 3` of revision abc, median of 3 turns." in page


def several(*measured: tuple[str, str]) -> dict[str, Any]:
    """Figures of as many parts, each of a day and a revision."""
    kept = found([{**row(part, 1.0), "part": part} for part in bench_all.PARTS[: len(measured)]])
    for part, (day, revision) in zip(kept["measured"], measured, strict=True):
        kept["measured"][part] = kept["measured"][part] | {"date": f"2020-01-0{day}", "revision": revision}
    return kept


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ([("1", "a"), ("1", "a")], "2020-01-01, machine, `scripts/bench all` of revision a, "),
        ([("1", "a"), ("1", "b"), ("1", "a")], "2020-01-01, machine, `scripts/bench all` of revision a and b, "),
        ([("1", "a"), ("2", "b"), ("3", "c"), ("2", "a")], "2020-01-01 to 2020-01-03, machine, `scripts/bench all` of revision a, b and c, "),
        ([("2", "b"), ("1", "a")], "2020-01-01 to 2020-01-02, machine, `scripts/bench all` of revision a and b, "),
    ],
)  # fmt: skip
def test_everyRevision_isNamed_alsoThatOfAPartInTheMiddle(measured: list[tuple[str, str]], said: str) -> None:
    assert said in figures.readme_block(several(*measured) | {"machine": "machine"}, "docs/x.md")


def test_figuresOfSomeParts_sayOfHowMany() -> None:
    some = found([row("a", 1.0)], {"ssd": "left out", "grpc": "turn 1 ended with 1", "local": "turn 2 ended with 1"})
    assert "median of 3 turns, 1 of 3 parts; [all of it]" in figures.readme_block(some, "docs/x.md")
    assert "the JSON beside it, 1 of 3 parts." in figures.page(some, "x")
    whole = found([row("a", 1.0)], {"local": "turn 2 ended with 1"})
    assert "median of 3 turns; [all of it]" in figures.readme_block(whole, "docs/x.md") and "of 1 parts" not in figures.page(whole, "x")


@pytest.mark.parametrize("text", ["", "only words", figures.BEGIN, figures.END + figures.BEGIN])
def test_readmeWithoutAPlace_isRefused_withWhatIsExpected(text: str) -> None:
    with pytest.raises(ValueError, match="no place for the figures"):
        figures.with_block(text, "block")


def test_render_writesPageCurvesAndReadme_fromTheFileAlone(tmp_path: Path) -> None:
    rows = [row(f"scaling_clients_{count}_acquire_per_s", 1000.0 * count, unit="1/s") for count in (1, 2)]
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "figures.json"
    file.write_text(json.dumps(found(rows, {"ssd": "left out", "local": "turn 2 ended with 1"})))
    file.with_name("figures-blocks.svg").write_text("of another run")
    readme = tmp_path / "README.md"
    readme.write_text(f"{figures.BEGIN}\n{figures.END}\n")
    written = figures.render(file, readme)
    assert [path.name for path in written] == ["figures.md", "figures-clients-rate.svg", "README.md"]
    page = written[0].read_text()
    assert "](figures-clients-rate.svg)" in page and "Not measured:\n\n- `ssd`: left out\n" in page and "| scaling_clients_2_acquire_per_s | 2,000 |" in page
    assert "Not measured in each turn:\n\n- `local`: turn 2 ended with 1\n" in page
    assert "[all of it](docs/figures.md)" in readme.read_text()
    assert [path.name for path in file.parent.glob("*.svg")] == ["figures-clients-rate.svg"]


def test_rowThatSomeTurnsLack_saysOfHowManyItIs() -> None:
    kept = found([row("a", 1.0), row("b", 2.0)])
    kept["rows"][1]["turns"] = 2
    assert "another number of turns:\n\n- `b`: 2\n" in figures.page(kept, "x")


def test_theReadmeAndItsPage_areWhatTheFileOfFiguresMakes() -> None:
    """No figure in them was typed by hand, or left behind by a run since."""
    readme = (REPOSITORY / "README.md").read_text()
    block = readme[readme.index(figures.BEGIN) : readme.index(figures.END)]
    page = block.split("[all of it](", 1)[1].split(")", 1)[0]
    file = (REPOSITORY / page).with_suffix(".json")
    kept = json.loads(file.read_text())
    assert figures.with_block(readme, figures.readme_block(kept, page)) == readme, f"run scripts/bench all --render {file.name}"
    assert (REPOSITORY / page).read_text() == figures.page(kept, file.stem)
    drawn = {f"{file.stem}-{curve}.svg": svg for curve, svg in figures.curves_of(kept["rows"]).items()}
    assert {one.name: one.read_text() for one in file.parent.glob(f"{file.stem}-*.svg")} == drawn
    assert kept["measured"].keys() == {one["part"] for one in kept["rows"]}
    assert all(REASON.fullmatch(why) or (file.stem, part) in BY_HAND for part, why in kept["failed"].items()), kept["failed"]
    assert kept["measured"].keys() | kept["failed"].keys() == set(bench_all.PARTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "lokal"], "there is no 'lokal'"), (["--only", ""], "at least one"), (["--only", "ssd,ssd"], "'ssd' is there twice"),
        (["--turns", "0"], "above 0"), (["--out", "/nowhere"], "no folder /nowhere"), (["--readme", "/nowhere.md"], "no file /nowhere.md"),
        (["--readme", "LICENSE"], "no place for the figures"), (["--render", "bench/goals.json"], "no figures of scripts/bench all"),
        (["--render", "/nowhere.json"], "no file /nowhere.json"), (["--into", "/nowhere.json"], "no file /nowhere.json"),
    ],
)  # fmt: skip
def test_badArguments_areRefused_withWhatIsExpected(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    with pytest.raises(SystemExit) as ended:
        bench_all.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


# ---- runs

README = f"{figures.BEGIN}\n{figures.END}\n"
Answers = Callable[[str, int], tuple[list[dict[str, Any]], str]]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a README that has a place for figures, and a scripts/bench that nobody has written yet."""
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "README.md").write_text(README)
    monkeypatch.setattr(bench_all, "ROOT", tmp_path)
    return tmp_path


def answers(monkeypatch: pytest.MonkeyPatch, answer: Answers) -> None:
    """Has each part measured by a function of its name and of how often it was asked before."""
    asked: dict[str, int] = {}

    def measure(part: str, quick: bool, out: Path, log: Path) -> tuple[list[dict[str, Any]], str]:
        asked[part] = asked.get(part, 0) + 1
        return answer(part, asked[part])

    monkeypatch.setattr(bench_all, "measure", measure)


def one_row(part: str, turn: int) -> tuple[list[dict[str, Any]], str]:
    return [{**row(f"of_{part}", float(turn)), "part": part}], ""


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


def test_runOfAllParts_isPublished_withTheMediansOfItsTurns(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, one_row)
    assert bench_all.main([]) == 0
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert file.parent == checkout / "docs" / "benchmarks"
    assert [(one["part"], one["value"], one["turns"]) for one in kept["rows"]] == [(part, 2.0, 3) for part in bench_all.PARTS]
    assert kept["failed"] == {} and kept["measured"]["ssd"]["turns"] == 3
    assert f"benchmarks/{file.stem}.md" in (checkout / "README.md").read_text()


@pytest.mark.parametrize("arguments", [["--quick"], ["--only", "ssd,local"]])
def test_trial_goesToTarget_andNotToTheReadme(arguments: list[str], checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, one_row)
    assert bench_all.main(arguments) == 0
    (file,) = files(checkout, ".json")
    assert file.parent == checkout / "target" / "bench-all"
    assert (checkout / "README.md").read_text() == README


def test_partsThatWereNotAskedFor_areLeftOut(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, one_row)
    bench_all.main(["--only", "ssd,local"])
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert list(kept["measured"]) == ["local", "ssd"]
    assert kept["failed"] == {part: "left out" for part in bench_all.PARTS if part not in ("local", "ssd")}


def test_fileThatIsThere_isNotOverwritten(checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers(monkeypatch, one_row)
    bench_all.main(["--turns", "1"])
    (file,) = files(checkout, ".json")
    before = file.read_text()
    assert bench_all.main([]) == 2
    assert file.read_text() == before
    assert "is there already" in capsys.readouterr().err


def test_partThatFailsInATurn_keepsTheOthers_andSaysSo(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda part, turn: ([], "ended with 3") if (part, turn) == ("ssd", 2) else one_row(part, turn))
    assert bench_all.main([]) == 1
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert kept["failed"] == {"ssd": "turn 2 ended with 3"} and REASON.fullmatch(kept["failed"]["ssd"])
    assert kept["measured"]["ssd"]["turns"] == 2
    assert "Not measured in each turn:\n\n- `ssd`" in file.with_suffix(".md").read_text()


def test_whereNothingCanBeMeasured_nothingIsWritten(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda part, turn: ([], "ended with 3"))
    assert bench_all.main([]) == 1
    assert files(checkout, ".json") == [] and (checkout / "README.md").read_text() == README


def test_runThatIsBrokenOff_leavesWhatItMeasured_andSaysOfTheRest(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_off(part: str, turn: int) -> tuple[list[dict[str, Any]], str]:
        if part == "policies":
            raise KeyboardInterrupt
        return one_row(part, turn)

    answers(monkeypatch, broken_off)
    assert bench_all.main([]) == 130
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert list(kept["measured"]) == ["local", "grpc"]
    assert kept["failed"] == {part: "broken off" for part in bench_all.PARTS[2:]}


def into(checkout: Path, kept: dict[str, Any]) -> Path:
    file = checkout / "docs" / "benchmarks" / "figures.json"
    file.write_text(json.dumps(kept))
    return file


def test_partMeasuredAgain_takesThePlaceOfItsRows_andOfItsFailure_andSaysWhenAndHow(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = found([row("of_local", 1.0), {**row("old", 2.0), "part": "scaling"}], {"ssd": "turn 1 ended with 1", "grpc": "left out"})
    file = into(checkout, kept)
    answers(monkeypatch, one_row)
    monkeypatch.setattr(bench_all, "revision", lambda: "def")
    assert bench_all.main(["--only", "ssd,scaling", "--turns", "1", "--into", str(file)]) == 0
    after = json.loads(file.read_text())
    assert {one["name"]: one["value"] for one in after["rows"]} == {"of_local": 1.0, "of_ssd": 1.0, "of_scaling": 1.0}
    assert after["measured"]["local"] == kept["measured"]["local"]
    again = after["measured"]["ssd"]
    assert (again["revision"], again["command"], again["turns"]) == ("def", "scripts/bench all --turns 1 --only ssd,scaling", 1)
    assert "ssd" not in after["failed"] and after["failed"]["grpc"] == "left out"
    assert "of revision abc and def" in (checkout / "README.md").read_text()


def test_partMeasuredAgain_thatFails_hasNoRowsAnyMore(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = into(checkout, found([row("of_local", 1.0), {**row("old", 2.0), "part": "ssd"}]))
    answers(monkeypatch, lambda part, turn: ([], "ended with 3"))
    assert bench_all.main(["--only", "ssd", "--turns", "1", "--into", str(file)]) == 1
    after = json.loads(file.read_text())
    assert [one["name"] for one in after["rows"]] == ["of_local"]
    assert after["failed"]["ssd"] == "turn 1 ended with 3" and "ssd" not in after["measured"]


def test_keptFigures_areThereWhole_whenTheirWriterIsKilled(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = found([row("of_local", 1.0)])
    file = into(checkout, kept)
    write = Path.write_text

    def killed(path: Path, text: str) -> int:
        if "of_ssd" not in text:
            return write(path, text)
        write(path, text[: len(text) // 2])
        raise KeyboardInterrupt

    answers(monkeypatch, one_row)
    monkeypatch.setattr(Path, "write_text", killed)
    assert bench_all.main(["--only", "ssd", "--into", str(file)]) == 130
    assert json.loads(file.read_text()) == kept


ALL = [{**row(f"of_{part}", 1.0), "part": part} for part in bench_all.PARTS]


def again(date: str, more: str = "") -> dict[str, Any]:
    """Figures of all parts, of another day."""
    kept = found(ALL)
    kept["measured"] = {part: how | {"date": date, "command": f"scripts/bench all --turns 3{more}"} for part, how in kept["measured"].items()}
    return kept


@pytest.mark.parametrize(
    ("other", "is_shown"),
    [
        (again("2020-01-03"), True),
        (again("2020-01-01"), False),
        (again("2020-01-03", " --quick"), False),
        (again("2020-01-03") | {"machine": "another"}, False),
        (found([row("of_local", 1.0)], {"ssd": "left out"}), False),
        # What it was given today does not make the rest of it newer.
        ((older := again("2020-01-01")) | {"measured": older["measured"] | {"ssd": again("2020-01-09")["measured"]["ssd"]}}, False),
    ],
)  # fmt: skip
def test_readme_showsAnotherFile_onlyWhereThatIsNewer_andOfItsMachine(
    other: dict[str, Any], is_shown: bool, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = into(checkout, found(ALL))
    assert bench_all.main(["--render", str(shown)]) == 0
    before = (checkout / "README.md").read_text()
    assert "(docs/benchmarks/figures.md)" in before
    file = shown.with_name("others.json")
    file.write_text(json.dumps(other))
    capsys.readouterr()
    assert bench_all.main(["--render", str(file)]) == 0
    assert file.with_suffix(".md").exists()
    told = capsys.readouterr().err
    if is_shown:
        assert "(docs/benchmarks/others.md)" in (checkout / "README.md").read_text() and told == ""
    else:
        assert (checkout / "README.md").read_text() == before and "the README goes on showing figures.json: --readme" in told
    assert bench_all.main(["--render", str(file), "--readme", str(checkout / "README.md")]) == 0
    assert "(docs/benchmarks/others.md)" in (checkout / "README.md").read_text()


@pytest.mark.parametrize(("quick", "machine", "words"), [(True, None, "--quick is a trial"), (False, "another", "of another machine: another")])
def test_figuresOfOthers_areNotTakenIn(
    quick: bool, machine: str | None, words: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = found([row("a", 1.0)])
    file = into(checkout, kept | ({} if machine is None else {"machine": machine}))
    with pytest.raises(SystemExit):
        bench_all.main(["--only", "ssd", "--into", str(file), *(["--quick"] if quick else [])])
    assert words in capsys.readouterr().err


def bench(checkout: Path, script: str) -> None:
    (checkout / "scripts" / "bench").write_text(f"#!/bin/sh\n{script}\n")
    (checkout / "scripts" / "bench").chmod(0o755)


def test_partThatFails_saysHowItEnded_andNothingOfThisMachine(checkout: Path) -> None:
    bench(checkout, "echo no fio in $PWD; exit 3")
    assert bench_all.measure("ssd", False, checkout / "ssd.json", checkout / "log") == ([], "ended with 3")
    assert "no fio" in (checkout / "log").read_text()


@pytest.mark.parametrize("script", ["exit 0", "echo '[]' >$3"])
def test_partWithoutFigures_saysSo(script: str, checkout: Path) -> None:
    bench(checkout, script)
    assert bench_all.measure("ssd", False, checkout / "ssd.json", checkout / "log") == ([], "ended without figures")


def is_there(pid: int) -> bool:
    """Whether a process runs; one that ended, and of which nobody heard yet, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


STARTS_ANOTHER = "sleep 600 & echo $! >other.pid.part; mv other.pid.part other.pid"


def other_pid(checkout: Path) -> int:
    return int((checkout / "other.pid").read_text())


@pytest.mark.parametrize(("rest", "why"), [("wait", "did not end within 1 s"), ("exit 3", "ended with 3")])
def test_whatAPartStarted_endsWithIt(rest: str, why: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_all, "PART_LIMIT_S", 1)
    bench(checkout, f"cd {checkout}; {STARTS_ANOTHER}; {rest}")
    assert bench_all.measure("ssd", False, checkout / "ssd.json", checkout / "log") == ([], why)
    assert eventually(lambda: not is_there(other_pid(checkout)))


def test_whatAPartStarted_endsWhereTheRunIsBrokenOff_beforeItsStartIsOver(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(checkout, f"cd {checkout}; {STARTS_ANOTHER}; wait")
    begin = subprocess.Popen

    def broken_off(*words: Any, **how: Any) -> Any:
        if not how.get("start_new_session"):
            return begin(*words, **how)
        started = begin(*words, **how)
        assert eventually((checkout / "other.pid").exists)
        os.kill(os.getpid(), signal.SIGTERM)
        return started

    monkeypatch.setattr(subprocess, "Popen", broken_off)
    assert bench_all.main(["--only", "ssd"]) == 130
    assert eventually(lambda: not is_there(other_pid(checkout)))


def test_whatAPartStarted_endsWhereTheRunIsBrokenOff(checkout: Path) -> None:
    bench(checkout, f"cd {checkout}; {STARTS_ANOTHER}; wait")

    def end() -> None:
        eventually((checkout / "other.pid").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    ends = threading.Thread(target=end)
    ends.start()
    assert bench_all.main(["--only", "ssd"]) == 130
    ends.join()
    assert eventually(lambda: not is_there(other_pid(checkout)))
