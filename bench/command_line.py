"""What the programs of this folder take from a command line, and how they tell their figures."""

import argparse
import json
import re
import sys
from typing import Any

_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)?", re.IGNORECASE)
_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def whole(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)


def number(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return value


def size(text: str) -> int:
    """A size such as 64KiB, in bytes."""
    match = _SIZE.fullmatch(text.strip())
    value = int(match[1]) * _UNITS[(match[2] or "B").lower()] if match else 0
    if not value:
        raise argparse.ArgumentTypeError(f"expected a size such as 64KiB, not {text!r}")
    return value


def table(figures: dict[str, Any]) -> str:
    """A figure a line."""
    width = max(map(len, figures), default=0)
    return "\n".join(f"{name:<{width}}  {value:,}" if isinstance(value, int) else f"{name:<{width}}  {value}" for name, value in figures.items())


def tell(figures: dict[str, Any], words: str, as_json: bool) -> None:
    """Prints figures for people; with JSON, standard output is for programs, and has it as its last line."""
    print(words, file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps(figures), flush=True)
