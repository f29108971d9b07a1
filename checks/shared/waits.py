"""Waiting for something that another process does."""

import time
from collections.abc import Callable

_PAUSE_S = 0.02


def until(what: str, holds: Callable[[], object], limit_s: float, failure: Callable[[str], BaseException]) -> float:
    """Waits until something holds; returns the seconds that it took.

    Args:
        what: that it holds, in words.
        failure: makes the exception that is raised after the limit, from a text.
    """
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > limit_s:
            raise failure(f"{what}: not within {limit_s:g} s")
        time.sleep(_PAUSE_S)
    return time.monotonic() - begun
