"""The version comes from one place."""

import shutil
from pathlib import Path

import pytest

from checks.documents import version
from checks.shared.checkout import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that have the version, and a document."""
    for file in ["pom.xml", *version.PLACES, *(str(pom.relative_to(ROOT)) for pom in ROOT.glob("*/pom.xml"))]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "README.md").write_text(f"`kvtier_{version.version()}_amd64.deb` on Linux 6.18.44\n")
    (tmp_path / "CHANGELOG.md").write_text("kvtier-0.0.1 came first\n")
    return tmp_path


def test_checkout_hasOneVersion() -> None:
    assert version.check(ROOT) == []


def test_changedInPomAlone_isFoundEverywhereElse(copy: Path) -> None:
    pom = copy / "pom.xml"
    pom.write_text(version.IN_POM.sub(r"\g<1>9.8.7\3", pom.read_text()))
    wrong = {problem.file for problem in version.check(copy)}
    assert wrong == {*version.PLACES, "README.md", *(str(one.relative_to(copy)) for one in copy.glob("*/pom.xml"))}


def test_write_bringsItToAllPlaces_andToNothingElse(copy: Path) -> None:
    version.write(copy, "9.8.7")
    assert version.check(copy) == []
    assert (copy / "README.md").read_text() == "`kvtier_9.8.7_amd64.deb` on Linux 6.18.44\n"
    assert (copy / "CHANGELOG.md").read_text() == "kvtier-0.0.1 came first\n"


def test_placeWithoutAVersion_isFound(copy: Path) -> None:
    (copy / "server-py/pyproject.toml").write_text("[project]\n")
    assert ["no version found" in problem.text for problem in version.check(copy)] == [True]
