"""Writes the JSON of `scripts/bench` as a table of Markdown: python3 bench/markdown_table.py FILE.json..."""

import json
import sys
from typing import Any


def amount(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) < 100:
        return f"{value:.2f}"
    return f"{value:,.0f}"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line a row, under two of head."""
    lines = ["| what | value | unit | limit in the same run | its value | ratio |", "| --- | ---: | --- | --- | ---: | ---: |"]
    for row in rows:
        limit_name = row.get("limit_name") or ""
        cells = (row["name"], amount(row["value"]), row["unit"], limit_name, amount(row.get("limit")), amount(row.get("ratio")))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            print("\n".join(table(json.load(file))))
        print()


if __name__ == "__main__":
    main()
