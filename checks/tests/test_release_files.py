"""Files of a release: NOTICE, the changelogs and the publisher's data."""

from pathlib import Path

import pytest

from checks.documents import notice
from checks.packages import contents as package
from checks.shared.checkout import ROOT


def check(tmp_path: Path, jars: list[str], text: str) -> list[str]:
    for jar in jars:
        path = tmp_path / "daemon/target/lib" / jar
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "NOTICE").write_text(text)
    return [problem.text.split(":")[0] for problem in notice.check(tmp_path)]


def test_allNamed_isRight_alsoWithAClassifier(tmp_path: Path) -> None:
    jars = ["a-1.0.jar", "b-2-linux-x86_64.jar", "kvtier-tiers-0.2.0.jar"]
    assert check(tmp_path, jars, "MIT:\n  org.a:a 1.0\n  org.b:b 2\n") == []


def test_missingAndForeign_areFound(tmp_path: Path) -> None:
    assert check(tmp_path, ["a-1.1.jar"], "MIT:\n  org.a:a 1.0\n") == ["a-1.1.jar is bundled and not named", "a-1.0 is named and not bundled"]


CHANGELOG = """# Changes

## 1.1.0 (not released yet)

### Breaks

### Added

- Something that is told in a line so long that it does not fit within the width that a Debian changelog has.

## 1.0.0 (2026-01-31)

### Added

- All of it.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "publisher.properties").write_text("")
    return tmp_path


def test_notes_areOneVersions_withoutEmptyHeadings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package.notes(project, "1.1.0")
    text = capsys.readouterr().out
    assert "Project page: not published." in text and "### Added" in text
    assert "### Breaks" not in text and "All of it" not in text


def test_debianChangelog_hasEveryVersion_andNobodyMadeUp(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package.debian_changelog(project, "1.1.0+check1")
    text = capsys.readouterr().out
    assert text.startswith("kvtier (1.1.0+check1) UNRELEASED; urgency=medium\n")
    assert "kvtier (1.0.0) stable; urgency=medium\n\n  * Added: All of it.\n\n -- not published <>  Sat, 31 Jan 2026 00:00:00 +0000\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_debianControl_namesAMaintainerOnlyWhereThereIsOne(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package.control(project)
    assert capsys.readouterr().out == "Maintainer: not published\n"
    (project / "publisher.properties").write_text("maintainer.name=Ada\nmaintainer.email=ada@kv.example\nproject.url=https://kv.example\n")
    package.control(project)
    assert capsys.readouterr().out == "Maintainer: Ada <ada@kv.example>\nHomepage: https://kv.example\n"


def test_changelogWithoutAVersion_isRefused(project: Path) -> None:
    with pytest.raises(SystemExit, match="no section for 9.9.9"):
        package.notes(project, "9.9.9")


def test_documentsOfThePackages_linkToOneAnotherOnly(tmp_path: Path) -> None:
    package.documents(ROOT, tmp_path)
    assert {"CHANGELOG.md", "SECURITY.md", "upgrade.md"} <= {document.name for document in tmp_path.iterdir()}
    package.links(tmp_path)
