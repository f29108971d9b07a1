"""A finding of a check: a place and a message."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to mend, with the place where it stands and what to do."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"
