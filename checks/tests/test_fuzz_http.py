"""The bounds that scripts/fuzz-http sets for a daemon after the requests."""

import os

import pytest

from checks.attacks import fuzz_http
from checks.attacks.fuzz_http import Found, Taken


@pytest.mark.parametrize(("resident_kib", "threads"), [(1000, 20), (1500, 36)])
def test_growth_withinItsBounds_passes(resident_kib: int, threads: int) -> None:
    fuzz_http.require_bounds(Taken(1000, 20), Taken(resident_kib, threads), 3)


@pytest.mark.parametrize(
    ("last", "words"),
    [(Taken(1501, 20), "grew from 1000 to 1501 KiB resident in 3 rounds"), (Taken(1000, 37), "threads grew from 20 to 37 in 3 rounds")],
)
def test_growth_beyondItsBounds_isFound(last: Taken, words: str) -> None:
    with pytest.raises(Found, match=words):
        fuzz_http.require_bounds(Taken(1000, 20), last, 3)


def test_taken_byThisProcess_isMoreThanNothing() -> None:
    taken = Taken.by(os.getpid())
    assert taken.resident_kib > 0 and taken.threads > 0


def test_taken_byAProcessThatEnded_isFound() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        with pytest.raises(Found, match="died"):
            Taken.by(child)
    finally:
        os.waitpid(child, 0)
    with pytest.raises(Found, match="died"):
        Taken.by(child)
