"""Decisions: no number is given twice."""

from pathlib import Path

from checks.problem import Problem


def check(root: Path) -> list[Problem]:
    """Two decisions that came at one time may both have taken the next number."""
    found = []
    numbers: dict[str, str] = {}
    for path in sorted((root / "docs/decisions").glob("[0-9]*.md")):
        other = numbers.setdefault(path.name[:4], path.name)
        if other != path.name:
            found.append(Problem(f"docs/decisions/{path.name}", 1, f"{other} has this number, too: take the next one that is free"))
    return found
