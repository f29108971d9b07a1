"""bench/bench_all.py: medians over turns, the result file that it writes, and the page of all benchmarks, which is made anew."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvtier_testing.daemon import eventually

from bench import bench_all, figures
from checks.documents import benchmarks
from checks.shared.checkout import ROOT

REASON = re.compile(
    rf"{bench_all.LEFT_OUT}|{bench_all.BROKEN_OFF}|turn \d+ (ended with -?\d+|ended without figures|did not end within \d+ s)(; turn .+)*"
)
"""The reasons of the program for a part that was not measured."""

def row(name: str, value: float | None, limit: float | None = None, unit: str = "us") -> dict[str, Any]:
    ratio = None if value is None or limit is None else value / limit
    return {"part": "local", "name": name, "value": value, "unit": unit, "limit_name": "", "limit": limit, "ratio": ratio}


def found(rows: list[dict[str, Any]], failed: dict[str, str] | None = None) -> dict[str, Any]:
    how = {"date": "2020-01-02", "revision": "abc", "command": "scripts/bench all --turns 3", "turns": 3}
    return figures.summarized({
        "id": "2020-01-02-x-all", "title": "t", "section": "hardware", "date": "2020-01-02", "machine": bench_all.machine()[0],
        "parts": {one["part"]: how for one in rows}, "failed": failed or {}, "rows": figures.result_rows(figures.median_rows([rows] * 3)),
    })  # fmt: skip


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


def test_rowOfAResult_saysInWordsWhatItIs_andWhatIsBetter() -> None:
    (one,) = figures.result_rows(figures.median_rows([[row("python_get_copy_1MiB_gbps", 9.0, 10.0, "GB/s")]]))
    assert (one["what"], one["compared_with"], one["better"]) == ("Get blocks of 1 MiB with a copy, Python", "memcpy of the same blocks", "higher")
    assert (one["value"], one["compared_value"], one["ratio"], one["goal"]) == (9.0, 10.0, 0.9, {"ratio_at_least": 0.85})
    assert "shown" not in one


def test_rowOfAHiddenSize_isShownWhereItsGoalIsMissed() -> None:
    name = "python_put_copy_4MiB_gbps"
    (met,) = figures.result_rows(figures.median_rows([[row(name, 9.0, 10.0, "GB/s")]]))
    (missed,) = figures.result_rows(figures.median_rows([[row(name, 8.0, 10.0, "GB/s")]]))
    assert met["shown"] is False and "shown" not in missed


def test_goalInPlaceOfALimit_isNoMeasuredValue() -> None:
    (one,) = figures.result_rows(figures.median_rows([[row("idle_daemon_cpu_percent", 0.2, 1.0, "%")]]))
    assert (one["compared_with"], one["compared_value"], one["ratio"], one["goal"]) == ("", None, None, {"at_most": 1})


def test_rowThatNobodyNamed_isDataOnly_andATimeIsBetterLow() -> None:
    (one,) = figures.result_rows(figures.median_rows([[row("a", 1.0)]]))
    assert (one["what"], one["better"], one["shown"]) == ("a", "lower", False)


def test_rowAgainstAPeer_hasThePeersRow_inPlaceOfItsLimit() -> None:
    rows = figures.median_rows([[row("python_get_4KiB_per_s", 100.0, 9000.0, "1/s"), row("mooncake_get_4KiB_per_s", 10.0, None, "1/s")]])
    one = figures.result_rows(rows)[0]
    assert (one["compared_with"], one["compared_value"], one["ratio"]) == ("Mooncake", 10.0, 10.0)
    alone = figures.result_rows(figures.median_rows([[row("python_get_4KiB_per_s", 100.0, 9000.0, "1/s")]]))[0]
    assert (alone["compared_with"], alone["compared_value"], alone["ratio"]) == ("", None, None)


def test_noteOfAGoal_isKeptWhereItIsMissed_andNowhereElse() -> None:
    (goal,) = [goal for goal in json.loads(figures.GOALS.read_text()) if goal["row"] == "host_put_during_ssd_writes_gbps"]
    for value, note in ((8.0, goal["note"]), (9.6, ""), (None, "")):
        (one,) = figures.result_rows(figures.median_rows([[row(goal["row"], value, 10.0)]]))
        assert one["note"] == note


@pytest.mark.parametrize(
    ("goal", "value", "ratio", "is_missed"),
    [
        ({"at_most": 5}, 5.0, None, False), ({"at_most": 5}, 5.1, None, True), ({"at_least": 5}, 5.0, None, False), ({"at_least": 5}, 4.9, None, True),
        ({"ratio_at_least": 0.9}, 9.0, 0.9, False), ({"ratio_at_least": 0.9}, 8.9, 0.89, True), ({"ratio_at_most": 1.2}, 12.0, 1.2, False),
        ({"ratio_at_most": 1.2}, 12.1, 1.21, True), ({"at_most": 5}, None, None, False), ({"ratio_at_least": 0.9}, 9.0, None, False), ({}, 9.0, 0.9, False),
    ],
)  # fmt: skip
def test_goal_isMissed_asThePageSays(goal: dict[str, float], value: float | None, ratio: float | None, is_missed: bool) -> None:
    assert benchmarks.is_missed({"goal": goal, "value": value, "ratio": ratio}) == is_missed
    assert ("missed" in benchmarks.verdict({"goal": goal, "value": value, "ratio": ratio})) == is_missed


def test_notesOfGoals_haveNoFigures_asTheyAreShownOnEveryMachine() -> None:
    for goal in json.loads(figures.GOALS.read_text()):
        assert not re.search(r"\d", goal.get("note", "").replace(goal["row"], "")), goal["note"]


def several(*revisions: str) -> dict[str, Any]:
    """A result of as many parts, each of a revision."""
    kept = found([{**row(part, 1.0), "part": part} for part in bench_all.PARTS[: len(revisions)]])
    for part, revision in zip(kept["parts"], revisions, strict=True):
        kept["parts"][part] = kept["parts"][part] | {"revision": revision, "turns": len(revisions)}
    return figures.summarized(kept)


@pytest.mark.parametrize(
    ("revisions", "said"), [(("a", "a"), "a"), (("a", "b", "a"), "a and b"), (("a", "b", "c", "a"), "a, b and c")],
)  # fmt: skip
def test_everyRevision_isNamed_alsoThatOfAPartInTheMiddle(revisions: tuple[str, ...], said: str) -> None:
    assert several(*revisions)["revision"] == said


def test_turns_areTold_alsoWhereTheyDiffer() -> None:
    assert several("a", "b")["summary"] == ["Each value is the median of 2 turns."]
    kept = several("a", "b")
    kept["parts"]["grpc"] = kept["parts"]["grpc"] | {"turns": 1}
    assert figures.summarized(kept)["summary"] == ["Each value is the median of 1 to 2 turns."]
    assert several("a")["summary"] == ["Each value was measured once."]


def test_resultsOfThisProgram_keepTheSchema_andNoReasonWasTypedByHand() -> None:
    for file in sorted((ROOT / benchmarks.RESULTS).glob("*-all.json")):
        kept = json.loads(file.read_text())
        assert kept["parts"].keys() == {one["part"] for one in kept["rows"]}
        assert all(REASON.fullmatch(why) for why in kept["failed"].values()), kept["failed"]
        assert kept["parts"].keys() | kept["failed"].keys() == set(bench_all.PARTS)
        assert kept == figures.summarized(kept)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "lokal"], "there is no 'lokal'"), (["--only", ""], "at least one"), (["--only", "ssd,ssd"], "'ssd' is there twice"),
        (["--turns", "0"], "above 0"), (["--out", "/nowhere"], "no folder /nowhere"),
        (["--into", "bench/goals.json"], "no result of scripts/bench all"), (["--into", "/nowhere.json"], "no file /nowhere.json"),
    ],
)  # fmt: skip
def test_badArguments_areRefused_withWhatIsExpected(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        bench_all.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


# ---- runs

Answers = Callable[[str, int], tuple[list[dict[str, Any]], str]]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without any result, and with a scripts/bench that nobody has written yet."""
    (tmp_path / benchmarks.RESULTS).mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
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
    assert file.parent == checkout / benchmarks.RESULTS
    assert benchmarks.wrong_in(kept, file.stem) == []
    assert [(one["part"], one["value"], one["turns"]) for one in kept["rows"]] == [(part, 2.0, 3) for part in bench_all.PARTS]
    assert kept["failed"] == {} and kept["parts"]["ssd"]["turns"] == 3
    assert kept["title"] in (checkout / benchmarks.PAGE).read_text() and benchmarks.check(checkout) == []


@pytest.mark.parametrize("arguments", [["--quick"], ["--only", "ssd,local"]])
def test_trial_goesToTarget_andNotToThePage(arguments: list[str], checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, one_row)
    assert bench_all.main(arguments) == 0
    (file,) = files(checkout, ".json")
    assert file.parent == checkout / "target" / "bench-all"
    assert not (checkout / benchmarks.PAGE).exists()


def test_partsThatWereNotAskedFor_areLeftOut(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, one_row)
    bench_all.main(["--only", "ssd,local"])
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert list(kept["parts"]) == ["local", "ssd"]
    assert kept["failed"] == {part: "left out" for part in bench_all.PARTS if part not in ("local", "ssd")}


def test_fileThatIsThere_isNotOverwritten(checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers(monkeypatch, one_row)
    bench_all.main(["--turns", "1"])
    (file,) = files(checkout, ".json")
    before = file.read_text()
    assert bench_all.main([]) == 2
    assert file.read_text() == before
    assert "exists already" in capsys.readouterr().err


def test_partThatFailsInATurn_keepsTheOthers_andSaysSo(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda part, turn: ([], "ended with 3") if (part, turn) == ("ssd", 2) else one_row(part, turn))
    assert bench_all.main([]) == 1
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert kept["failed"] == {"ssd": "turn 2 ended with 3"} and REASON.fullmatch(kept["failed"]["ssd"])
    assert kept["parts"]["ssd"]["turns"] == 2
    assert "`ssd` (turn 2 ended with 3)" in (checkout / benchmarks.PAGE).read_text()


def test_whereNothingCanBeMeasured_nothingIsWritten(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lambda part, turn: ([], "ended with 3"))
    assert bench_all.main([]) == 1
    assert files(checkout, ".json") == [] and not (checkout / benchmarks.PAGE).exists()


def test_runThatIsBrokenOff_leavesWhatItMeasured_andSaysOfTheRest(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_off(part: str, turn: int) -> tuple[list[dict[str, Any]], str]:
        if part == "policies":
            raise KeyboardInterrupt
        return one_row(part, turn)

    answers(monkeypatch, broken_off)
    assert bench_all.main([]) == 130
    (file,) = files(checkout, ".json")
    kept = json.loads(file.read_text())
    assert list(kept["parts"]) == ["local", "grpc", "remote"]
    assert kept["failed"] == {part: "broken off" for part in bench_all.PARTS[3:]}


def into(checkout: Path, kept: dict[str, Any]) -> Path:
    file = checkout / benchmarks.RESULTS / f"{kept['id']}.json"
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
    assert after["parts"]["local"] == kept["parts"]["local"]
    again = after["parts"]["ssd"]
    assert (again["revision"], again["command"], again["turns"]) == ("def", "scripts/bench all --turns 1 --only ssd,scaling", 1)
    assert "ssd" not in after["failed"] and after["failed"]["grpc"] == "left out"
    assert "revision abc and def" in (checkout / benchmarks.PAGE).read_text()


def test_partMeasuredAgain_thatFails_hasNoRowsAnyMore(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = into(checkout, found([row("of_local", 1.0), {**row("old", 2.0), "part": "ssd"}]))
    answers(monkeypatch, lambda part, turn: ([], "ended with 3"))
    assert bench_all.main(["--only", "ssd", "--turns", "1", "--into", str(file)]) == 1
    after = json.loads(file.read_text())
    assert [one["name"] for one in after["rows"]] == ["of_local"]
    assert after["failed"]["ssd"] == "turn 1 ended with 3" and "ssd" not in after["parts"]


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


@pytest.mark.parametrize(("quick", "machine", "words"), [(True, None, "--quick measures a trial"), (False, "another", "of another machine: another")])
def test_resultsOfOthers_areNotTakenIn(
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
    """Whether a process runs. A zombie does not run."""
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
