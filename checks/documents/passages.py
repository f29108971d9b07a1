"""The documents of the repository, and the prose in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
TABLE_RULE = re.compile(r"^\s*\|?[\s:|-]+\|?\s*$")
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
IMAGE_OR_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]*)(?:\s+\"[^\"]*\")?\)")
ATTRIBUTES = re.compile(r"\{[:#.][^}]*\}")
HTML = re.compile(r"<[^<>]+>")

# Folders that hold no document of ours.
SKIPPED = {"target", "node_modules", "build", "dist", "site"}


@dataclass(frozen=True)
class Passage:
    """A paragraph, a list item, a heading or a cell of a table, on one line, with the line where it begins."""

    line: int
    text: str


def documents(root: Path) -> list[Path]:
    """Every Markdown file of the repository, hidden folders and build outputs left out."""
    found = []
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in SKIPPED or part.endswith(".egg-info") or (part.startswith(".") and part != ".github") for part in parts):
            found.append(path)
    return found


def without_code(text: str) -> list[str]:
    """The lines of a document; those of fenced blocks and of comments are empty."""
    lines = []
    fence = ""
    comment = False
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1] == fence:
                fence = ""
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        elif comment:
            comment = "-->" not in line
            lines.append("")
        elif line.lstrip().startswith("<!--"):
            comment = "-->" not in line
            lines.append("")
        else:
            lines.append(line)
    return lines


def passages(text: str) -> Iterator[Passage]:
    """What a reader reads in one go, in the order of the document. Code blocks are left out."""
    gathered: list[str] = []
    start = 0

    def flush() -> Iterator[Passage]:
        if gathered:
            yield Passage(start, " ".join(gathered))
            gathered.clear()

    for number, line in enumerate(without_code(text), 1):
        heading = HEADING.match(line)
        if not line.strip() or TABLE_RULE.match(line):
            yield from flush()
        elif heading:
            yield from flush()
            yield Passage(number, heading[1])
        elif line.lstrip().startswith("|"):
            yield from flush()
            for cell in line.strip().strip("|").split("|"):
                if cell.strip():
                    yield Passage(number, cell.strip())
        else:
            if LIST_ITEM.match(line):
                yield from flush()
                line = LIST_ITEM.sub("", line)
            if not gathered:
                start = number
            gathered.append(line.strip())
    yield from flush()


def plain(text: str) -> str:
    """A passage as it is spoken: links are their text, and code is one word."""
    text = CODE.sub("CODE", text)
    text = IMAGE_OR_LINK.sub(r"\1", text)
    text = ATTRIBUTES.sub("", text)
    text = HTML.sub(" ", text)
    return text.replace("**", "").replace("__", "").replace("*", "")


def headings(text: str) -> Iterator[tuple[int, str]]:
    """The headings of a document with their lines."""
    for number, line in enumerate(without_code(text), 1):
        found = HEADING.match(line)
        if found:
            yield number, found[1]
