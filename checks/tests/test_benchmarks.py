"""The page of all benchmarks: the schema of its files, what it shows, and that it is never stale."""

import json
from pathlib import Path
from typing import Any

import pytest

from checks.documents import benchmarks


def row(what: str, value: float | None, peer: str = "", other: float | None = None, **more: Any) -> dict[str, Any]:
    ratio = value / other if value is not None and other else None
    return {"what": what, "value": value, "unit": "ms", "compared_with": peer, "compared_value": other, "ratio": ratio, "better": "lower", "note": ""} | more


def result(name: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": name, "title": f"title of {name}", "section": "hardware", "date": name[:10], "machine": "m", "revision": "r", "command": "c", "rows": list(rows),
    } | more  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / benchmarks.RESULTS).mkdir(parents=True)
    return tmp_path


def add(root: Path, one: dict[str, Any], name: str = "") -> None:
    (root / benchmarks.RESULTS / f"{name or one['id']}.json").write_text(json.dumps(one))


def test_pageThatIsOlderThanItsFiles_isFound(root: Path) -> None:
    add(root, result("2020-01-01-a", row("x", 1.0)))
    assert [problem.file for problem in benchmarks.check(root)] == [benchmarks.PAGE]
    benchmarks.write(root)
    assert benchmarks.check(root) == []
    add(root, result("2020-01-01-a", row("x", 2.0)))
    assert "older than its result files" in str(benchmarks.check(root)[0])


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (result("2020-01-01-b", row("x", 1.0)), "expected was 2020-01-01-a"),
        (result("2020-01-01-a", row("x", 1.0), section="speed"), "section 'speed'"),
        (result("2020-01-01-a", {"what": "x"}), "row 0 ('x') lacks better"),
        (result("2020-01-01-a", row("x", 1.0, better="up")), "better 'up'"),
        (result("2020-01-01-a", row("x", 1.0, "y", 2.0, ratio=0.7)), "the ratio 0.7, and 1 / 2 is 0.5"),
        (result("2020-01-01-a", row("x", 1.0, goal={"most": 1})), "a goal that is none of at_most"),
        ({"id": "2020-01-01-a"}, "expected an object with the fields command"),
    ],
)  # fmt: skip
def test_fileThatBreaksTheSchema_isFound(one: dict[str, Any], words: str, root: Path) -> None:
    add(root, one, "2020-01-01-a")
    (problem,) = benchmarks.check(root)
    assert words in problem.text


def test_ofOneSeries_theNewestIsShown() -> None:
    page = benchmarks.page([result("2020-01-01-a", row("old", 1.0)), result("2020-01-02-a", row("new", 1.0)), result("2020-01-01-b", row("other", 1.0))])
    assert "new" in page and "other" in page and "| old |" not in page


def test_whereAPeerIsFaster_isListed() -> None:
    page = benchmarks.page([result("2020-01-01-a", row("x", 3.0, "LMCache", 2.0), row("y", 1.0, "LMCache", 2.0))])
    behind = page.split("## Where kvtier is slower")[1]
    assert "| x, against LMCache | 3 ms | 2 ms | 0.667 |" in behind and "| y," not in behind
    assert "| y | 1 ms | 2 ms | 2 |" in page


def test_goalThatIsMissed_isListed_alsoOfARowThatIsDataOnly() -> None:
    rows = (row("x", 3.0, goal={"at_most": 2}, shown=False), row("y", 1.0, goal={"at_most": 2}), row("z", None, goal={"at_most": 2}))
    page = benchmarks.page([result("2020-01-01-a", *rows)])
    behind = page.split("## Where kvtier is slower")[1]
    assert "1 of 3 goals are missed" in behind and "| x | 3 ms | at most 2 |" in behind and "| y |" not in behind
    assert "at most 2: met" in page and "at most 2: not measured" in page
    assert "Rows that the tables leave out have 1 of these goals" in behind
    assert "leave out" not in benchmarks.page([result("2020-01-01-a", *rows[1:], row("w", 3.0, goal={"at_most": 2}))])


def test_goalOfARowUnderAPeer_isShownThere() -> None:
    page = benchmarks.page([result("2020-01-01-a", row("x", 1.0, "LMCache", 2.0, goal={"at_most": 2}))])
    assert "| x | 1 ms | 2 ms | 2 | at most 2: met |" in page


def test_headline_isOfTheNewestRun_andAllRunsAreListed() -> None:
    def restore(name: str, own: float, peer: float) -> dict[str, Any]:
        return result(
            name, row("restored by kvtier", own, benchmarks.COMPUTED, 1000.0), row("restored", own, benchmarks.OFFLOADING, peer), section="restore"
        )

    page = benchmarks.page([restore("2020-01-01-a", 200.0, 150.0), restore("2020-01-02-b", 100.0, 150.0)])
    headline, runs = page.split("### All runs")
    assert "| restored by vLLM's own offloading | 150 |" in headline and "**100**" in headline and "200" not in headline
    assert runs.index("| 2020-01-02 | m | 1,000 | 150 | 100 |") < runs.index("| 2020-01-01 | m | 1,000 | 150 | 200 |")


@pytest.mark.parametrize(
    ("value", "words"), [(None, ""), (0.0, "0"), (0.248, "0.248"), (8.86, "8.86"), (114.2, "114.2"), (1183.1, "1,183"), (65743400.0, "65,743,400")]
)  # fmt: skip
def test_number(value: float | None, words: str) -> None:
    assert benchmarks.number(value) == words
