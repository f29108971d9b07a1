"""The publisher's data: a missing value is reported as "not published", and a wrong value is refused with its name."""

from pathlib import Path

import pytest

from checks.packages import publisher


def values(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "publisher.properties"
    file.write_text(text)
    return publisher.read(file)


def test_empty_isNotPublished(tmp_path: Path) -> None:
    read = values(tmp_path, "# nobody yet\nproject.url=\n")
    assert publisher.shown(read, "project.url") == publisher.shown(read, "security.contact") == "not published"


def test_filledIn_isTaken(tmp_path: Path) -> None:
    read = values(tmp_path, "project.url = https://kv.example/\nmaintainer.name=Ada\nmaintainer.email=ada@kv.example\n")
    assert (read["project.url"], read["maintainer.name"]) == ("https://kv.example", "Ada")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("projekt.url=https://kv.example", "expected one of"),
        ("project.url=kv.example", "must be an address"),
        ("image.name=kvtier:1", "must be the name of an image"),
        ("maintainer.name=Ada", "both be filled in"),
        ("maintainer.name=Ada\nmaintainer.email=ada", "must be an e-mail address"),
    ],
)
def test_mistake_isRefused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(publisher.PublisherError, match=message):
        values(tmp_path, line + "\n")


def test_securityPage_hasTheContactBelowItsTitle(tmp_path: Path) -> None:
    page = "# Security\n\nReport in private.\n"
    assert publisher.with_contact(page, values(tmp_path, "")).splitlines()[2] == "Contact for reports of vulnerabilities: not published."
    filled = publisher.with_contact(page, values(tmp_path, "security.contact=security@kv.example\n"))
    assert filled == "# Security\n\nContact for reports of vulnerabilities: security@kv.example.\n\nReport in private.\n"
