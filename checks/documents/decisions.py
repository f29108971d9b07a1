"""Decisions: each number is given once, none is left out without a reason, and each page has the same parts."""

import re
from pathlib import Path

from checks.documents.problem import Problem

# Numbers that no decision ever had.
NEVER_USED = ("0022",)
PARTS = ("## Context", "## Decision", "## Rejected because")
# The line below the title, which names later decisions.
STATUS = re.compile(r"^Status: (superseded(?: in part)? by) (\[.*)$", re.MULTILINE)
LINK = re.compile(r"\[(\d{4})\]\(\1-[^)]+\.md\)")


def state(text: str) -> str:
    """The state of a decision in words; empty if the decision holds unchanged."""
    found = STATUS.search(text.split("\n## ", 1)[0])
    return f"{found[1]} {', '.join(LINK.findall(found[2]))}" if found else ""


def check(root: Path) -> list[Problem]:
    """Two decisions that came at one time may both have taken the next number."""
    found = []
    numbers: dict[str, str] = {}
    for path in sorted((root / "docs/decisions").glob("[0-9]*.md")):
        page = f"docs/decisions/{path.name}"
        number = path.name[:4]
        other = numbers.setdefault(number, path.name)
        if other != path.name:
            found.append(Problem(page, 1, f"{other} has this number, too: take the next one that is free"))
        text = path.read_text(encoding="utf-8")
        if not text.startswith(f"# {number}: "):
            found.append(Problem(page, 1, f"the title does not begin with '# {number}: '"))
        missing = [part for part in PARTS if f"\n{part}\n" not in text]
        if missing:
            found.append(Problem(page, 1, f"no heading {', '.join(repr(part) for part in missing)}"))
    for one in range(1, int(max(numbers, default="0"))):
        if f"{one:04}" not in numbers and f"{one:04}" not in NEVER_USED:
            found.append(Problem("docs/decisions", 1, f"no decision has number {one:04}: write it, or add the number to NEVER_USED"))
    return found
