"""The command line of checks and benchmarks, and the output of their figures."""

import argparse
import difflib
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)?", re.IGNORECASE)
_SURPLUS_VALUE = re.compile(r"argument (\S+): ignored explicit argument .*", re.DOTALL)
_MISSING_VALUE = re.compile(r"argument (\S+): expected one argument")
_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


class Arguments(argparse.ArgumentParser):
    """A parser that suggests the option for a mistyped one, and accepts no abbreviations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            word = message.removeprefix(prefix).split(" ", 1)[0].split("=", 1)[0]
            known = [option for option in self._option_string_actions if option.startswith("--")]
            close = difflib.get_close_matches(word, known, 1)
            kind = "option" if word.startswith("-") else "argument"
            hint = f"did you mean {close[0]}?" if close else f"there are {' '.join(known)}"
            message = f"unknown {kind} '{word}'; {hint}"
        elif value := _SURPLUS_VALUE.fullmatch(message):
            message = f"{value[1]} takes no value"
        elif missing := _MISSING_VALUE.fullmatch(message):
            message = f"{missing[1]} needs a value"
        self.exit(2, f"{self.prog}: error: {message}\n")


def run_tool(main: Callable[[], int | None]) -> NoReturn:
    """Ends the process with the exit code of main. A missing program and Ctrl-C end it without a stack trace."""
    try:
        sys.exit(main())
    except FileNotFoundError as error:
        if not traceback.extract_tb(error.__traceback__)[-1].filename.endswith("subprocess.py"):
            raise
        sys.exit(f"error: the program '{error.filename}' is missing: install it, or add its folder to PATH")
    except KeyboardInterrupt:
        sys.exit(130)


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


def file(text: str) -> Path:
    """A file that is there."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {path}")
    return path


def folder(text: str) -> Path:
    """A folder that is there."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path}")
    return path


def some_of(known: Iterable[str], again: bool = False) -> Callable[[str], list[str]]:
    """At least one of these names, with commas between.

    Args:
        again: whether one may come more than once.
    """
    names = list(known)

    def read(text: str) -> list[str]:
        given = [name for name in text.split(",") if name]
        if not given:
            raise argparse.ArgumentTypeError(f"expected at least one of {', '.join(names)}")
        for place, name in enumerate(given):
            if name not in names:
                raise argparse.ArgumentTypeError(f"there is no {name!r}; expected some of {', '.join(names)}")
            if not again and name in given[:place]:
                raise argparse.ArgumentTypeError(f"{name!r} is there twice")
        return given

    return read


def say(words: str) -> None:
    """Prints a step for people, as the shell scripts do; standard output is for results."""
    print(f"kvtier: {words}", file=sys.stderr, flush=True)


def table(figures: dict[str, Any]) -> str:
    """A figure a line."""
    width = max(map(len, figures), default=0)
    return "\n".join(f"{name:<{width}}  {value:,}" if isinstance(value, int) else f"{name:<{width}}  {value}" for name, value in figures.items())


def tell(figures: dict[str, Any], words: str, as_json: bool) -> None:
    """Prints figures for people; with JSON, standard output is for programs, and has it as its last line."""
    print(words, file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps(figures), flush=True)
