"""Links that lead nowhere, and anchors as GitHub makes them."""

from pathlib import Path

from checks.documents import links


def check(tmp_path: Path, **pages: str) -> list[str]:
    for name, text in pages.items():
        path = tmp_path / (name.replace("__", "/") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [str(problem) for problem in links.check(tmp_path)]


def test_linkToAFileAndAHeading_isRight(tmp_path: Path) -> None:
    assert check(tmp_path, a="[b](docs/b.md#two-words)\n", docs__b="# Two words\n\n[a](../a.md)\n") == []


def test_linkToNoFile_isFoundWithItsLine(tmp_path: Path) -> None:
    assert check(tmp_path, a="Text.\n\n[b](b.md)\n") == ["a.md:3: the link leads to b.md, which is not there"]


def test_linkToNoHeading_isFound(tmp_path: Path) -> None:
    assert "no heading has that anchor" in check(tmp_path, a="[b](#b)\n")[0]


def test_linkFromTheRootOfTheSite_isFound(tmp_path: Path) -> None:
    assert "make it relative" in check(tmp_path, a="[b](/b.md)\n")[0]


def test_linkInCode_isNone(tmp_path: Path) -> None:
    assert check(tmp_path, a="`[b](b.md)`\n\n```\n[c](c.md)\n```\n") == []


def test_linkToAGeneratedPage_isRightWithinTheSiteAlone(tmp_path: Path) -> None:
    assert check(tmp_path, docs__a="[m](reference/metrics.md)\n") == []
    assert len(check(tmp_path, README="[m](docs/reference/metrics.md)\n")) == 1


def test_anchors_areGitHubs() -> None:
    assert links.anchors("# A `b_c` – (d), E!\n## Same\n## Same\n### X {#own.id}\n") == {"a-b_c--d-e", "same", "same-1", "own.id"}
