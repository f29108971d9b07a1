"""The numbers of decisions, and their parts."""

from pathlib import Path

from checks.documents import decisions

RIGHT = "# {}: A title\n\n## Context\n\n## Decision\n\n## Rejected because\n"


def check(tmp_path: Path, **pages: str) -> list[str]:
    folder = tmp_path / "docs/decisions"
    folder.mkdir(parents=True)
    for name, text in pages.items():
        (folder / f"{name[1:].replace('_', '-')}.md").write_text(text.format(name[1:5]))
    return [str(problem) for problem in decisions.check(tmp_path)]


def test_numbersInARow_areRight(tmp_path: Path) -> None:
    assert check(tmp_path, _0001_a=RIGHT, _0002_b=RIGHT) == []


def test_numberThatIsGivenTwice_isFound(tmp_path: Path) -> None:
    problems = check(tmp_path, _0001_a=RIGHT, _0002_b=RIGHT, _0002_c=RIGHT)
    assert len(problems) == 1 and problems[0].startswith("docs/decisions/0002-c.md:")


def test_numberThatIsLeftOut_isFound(tmp_path: Path) -> None:
    assert "no decision has number 0002" in check(tmp_path, _0001_a=RIGHT, _0003_c=RIGHT)[0]


def test_titleWithoutItsNumber_isFound(tmp_path: Path) -> None:
    assert "does not begin with '# 0001: '" in check(tmp_path, _0001_a=RIGHT.replace("{}: ", ""))[0]


def test_partThatIsMissing_isFound(tmp_path: Path) -> None:
    assert "## Rejected because" in check(tmp_path, _0001_a=RIGHT.replace("## Rejected because\n", ""))[0]


def test_state_namesTheLaterDecisions() -> None:
    text = "# 0009: T\n\nStatus: superseded in part by [0011](0011-a.md) (memory) and [0043](0043-b.md).\n\n## Context\n"
    assert decisions.state(text) == "superseded in part by 0011, 0043"
    assert decisions.state(RIGHT) == ""
