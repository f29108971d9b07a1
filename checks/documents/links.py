"""Links between documents: files that are not there, and headings that are not there."""

import re
import unicodedata
from pathlib import Path

from checks.documents.passages import CODE, IMAGE_OR_LINK, documents, headings, plain, without_code
from checks.documents.problem import Problem

ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")
# Pages that exist on the site alone. Documents outside of docs/ cannot link to them.
MADE = ("docs/reference/", "docs/decisions/index.md")
EXPLICIT = re.compile(r"\{[^}]*#([\w.-]+)[^}]*\}|<a\s+(?:id|name)=\"([^\"]+)\"")


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = unicodedata.normalize("NFC", plain(CODE.sub(r"\2", heading))).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a document; a heading that comes again has a number behind it."""
    found: set[str] = set()
    for _, heading in headings(text):
        explicit = EXPLICIT.search(heading)
        if explicit:
            found.add(explicit[1] or explicit[2])
            continue
        name = base = slug(heading)
        again = 0
        while name in found:
            again += 1
            name = f"{base}-{again}"
        found.add(name)
    found.update(one[1] or one[2] for one in EXPLICIT.finditer(text))
    return found


def check(root: Path) -> list[Problem]:
    """Every link of every document leads to a file of the repository, and to a heading of it."""
    found = []
    known: dict[Path, set[str]] = {}
    for path in documents(root):
        name = str(path.relative_to(root))
        lines = without_code(path.read_text(encoding="utf-8"))
        for number, line in enumerate(lines, 1):
            for link in IMAGE_OR_LINK.finditer(CODE.sub("CODE", line)):
                target, _, anchor = link[2].partition("#")
                if ELSEWHERE.match(target):
                    continue
                if target.startswith("/"):
                    found.append(Problem(name, number, f"the link to {target} depends on the site's address: make it relative"))
                    continue
                file = (path.parent / target).resolve() if target else path
                if not file.exists():
                    if not (name.startswith("docs/") and is_made(root, file)):
                        found.append(Problem(name, number, f"the link leads to {target}, which is not there"))
                elif anchor and file.suffix == ".md":
                    if file not in known:
                        known[file] = anchors(file.read_text(encoding="utf-8"))
                    if anchor not in known[file]:
                        found.append(Problem(name, number, f"the link leads to {target}#{anchor}, and no heading has that anchor"))
    return found


def is_made(root: Path, file: Path) -> bool:
    """Whether the build of the site makes this page. That build checks the links to it."""
    path = file.relative_to(root.resolve()).as_posix() if file.is_relative_to(root.resolve()) else ""
    return path.startswith(MADE)
