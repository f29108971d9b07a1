"""The numbers of decisions."""

from pathlib import Path

from checks import decisions


def test_numberThatIsGivenTwice_isFound(tmp_path: Path) -> None:
    folder = tmp_path / "docs/decisions"
    folder.mkdir(parents=True)
    for name in ("0001-a.md", "0002-b.md", "0002-c.md"):
        (folder / name).touch()
    assert [problem.file for problem in decisions.check(tmp_path)] == ["docs/decisions/0002-c.md"]
