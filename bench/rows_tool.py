"""The frame of benchmarks that start daemons and can write their rows as JSON."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bench.bench_all import revision
from checks.shared.command_line import run_tool


class Failed(Exception):
    """A program that does not do what it must; the text says which."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option --json."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also writes the rows as JSON")


def write_rows(path: Path | None, rows: Sequence[Any], **more: str) -> None:
    """Writes rows with the revision that was measured, and with `more`; nothing without a path."""
    if path is not None:
        path.write_text(json.dumps({"revision": revision(), **more, "rows": rows}, indent=1) + "\n")


def run_rows_tool(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code of main, or with the text of what failed."""
    try:
        run_tool(main)
    except Failed as error:
        sys.exit(f"error: {error}")
