"""The publisher of kvtier and the addresses of the project, from publisher.properties.

    python -m checks.packages.publisher KEY    prints the value, or "not published" where it is empty
"""

import re
import sys
from pathlib import Path

from checks.shared.checkout import ROOT

FILE = ROOT / "publisher.properties"
NOT_PUBLISHED = "not published"
KEYS = ("project.url", "repository.url", "issues.url", "security.contact", "maintainer.name", "maintainer.email", "image.name")
URLS = ("project.url", "repository.url", "issues.url")


class PublisherError(Exception):
    """The file is wrong; the message describes the fault."""


def read(file: Path = FILE) -> dict[str, str]:
    """Every key with its value; those that are not filled in are empty."""
    values = dict.fromkeys(KEYS, "")
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, mark, value = (part.strip() for part in line.partition("="))
        if not mark or key not in KEYS:
            raise PublisherError(f"{file.name}:{number}: expected one of {', '.join(KEYS)}, each with '=', and found '{line}'")
        if key in URLS and value and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
            raise PublisherError(f"{file.name}:{number}: {key} must be an address that begins with https:// or http://, and is '{value}'")
        if key == "maintainer.email" and value and not re.fullmatch(r"[^\s<>@]+@[^\s<>@]+", value):
            raise PublisherError(f"{file.name}:{number}: {key} must be an e-mail address, and is '{value}'")
        if key == "image.name" and value and not re.fullmatch(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+", value):
            raise PublisherError(f"{file.name}:{number}: image.name must be the name of an image with its registry and without a tag, and is '{value}'")
        values[key] = value.rstrip("/") if key in URLS else value
    if bool(values["maintainer.name"]) != bool(values["maintainer.email"]):
        raise PublisherError(f"{file.name}: maintainer.name and maintainer.email must both be filled in, or neither")
    return values


def shown(values: dict[str, str], key: str) -> str:
    """A value for people."""
    return values[key] or NOT_PUBLISHED


def with_contact(security: str, values: dict[str, str]) -> str:
    """SECURITY.md with the contact below its title."""
    title, _, rest = security.partition("\n")
    return f"{title}\n\nContact for reports of vulnerabilities: {shown(values, 'security.contact')}.\n{rest}"


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in KEYS:
        print(f"publisher: expected one of {', '.join(KEYS)}", file=sys.stderr)
        return 2
    try:
        print(shown(read(), sys.argv[1]))
    except PublisherError as e:
        print(f"kvtier: error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
