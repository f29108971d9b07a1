"""Prints PIT's report: a table of the changes to the code that tests noticed, and a list of the others."""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

NOTICED = ("KILLED", "TIMED_OUT", "MEMORY_ERROR", "RUN_ERROR")


class Change(NamedTuple):
    """One change to the code."""

    of: str
    line: int
    method: str
    what: str
    status: str


def read(report: Path) -> list[Change]:
    """The changes of a report, in the order of the code."""
    changes = []
    for one in ElementTree.parse(report).getroot():
        text = {child.tag: child.text or "" for child in one}
        name = text["mutatedClass"].rpartition(".")[2].partition("$")[0]
        changes.append(
            Change(name, int(text["lineNumber"]), text["mutatedMethod"], text["description"], one.attrib["status"])
        )
    return sorted(changes)


def table(changes: list[Change]) -> str:
    """Counts of noticed changes: a line for each class, and one for all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for change in changes:
        kind = "noticed" if change.status in NOTICED else "unasked" if change.status == "NO_COVERAGE" else "unnoticed"
        counts[change.of][kind] += 1
    rows = [(name, counts[name]) for name in sorted(counts)]
    rows.append(("all", sum((count for _, count in rows), Counter())))
    width = max(len(name) for name, _ in rows)
    lines = [f"{'class':<{width}}  changes  noticed  unnoticed  no test there"]
    for name, count in rows:
        every = sum(count.values())
        lines.append(
            f"{name:<{width}}  {every:7,}  {count['noticed'] / max(1, every):7.1%}  {count['unnoticed']:9,}  {count['unasked']:13,}"
        )
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """The program; returns its exit code."""
    if len(words) != 1:
        print("usage: python -m checks.code.mutations REPORT", file=sys.stderr)
        return 2
    changes = read(Path(words[0]))
    for change in changes:
        if change.status not in NOTICED:
            where = "no test there" if change.status == "NO_COVERAGE" else "unnoticed"
            print(f"{change.of}:{change.line} {change.method}: {change.what} ({where})")
    print()
    print(table(changes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
