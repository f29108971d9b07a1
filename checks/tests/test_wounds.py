"""The guards of scripts/wounds-check, and the judgement about each run of their tests."""

import argparse
import dataclasses

import pytest

from checks.code.wounds import GUARDS, NEVER_ENDED, ROOT, Guard, Ran, problem_with, wound


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.number:02d}")
def test_guard_standsOnceInItsSource(guard: Guard) -> None:
    assert (ROOT / guard.source).read_text().count(guard.text) == 1
    assert guard.text != guard.without


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.number:02d}")
def test_guard_hasATest(guard: Guard) -> None:
    sources = ROOT / guard.module / "src" / "test" / "java"
    assert f"void {guard.test}()" in (sources / (guard.suite.replace(".", "/") + ".java")).read_text()


@pytest.mark.parametrize("text", ["0", "13", "01", "three", ""])
def test_wound_thatThereIsNot_isRefused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"no wound '{text}': expected 1 to 12"):
        wound(text)


SPEAKS = dataclasses.replace(GUARDS[0], says="wrong bytes")


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.number:02d}")
@pytest.mark.parametrize(
    "words",
    [
        "org.opentest4j.AssertionFailedError: expected: <[OK]> but was: <[OK, MISS]>",
        "org.opentest4j.AssertionFailedError: expected: <0> but was: <1>",
        "org.opentest4j.AssertionFailedError: Expected io.kvtier.client.KvtierException to be thrown, but nothing was thrown.",
        "org.opentest4j.AssertionFailedError: Expected java.lang.IllegalStateException to be thrown, but nothing was thrown.",
    ],
)
def test_guard_isNotShownByWordsThatEveryFailureHas(guard: Guard, words: str) -> None:
    assert problem_with(guard, Ran("FAILED", words)) is not None


def test_problemWith_failsAsItShould_isNone() -> None:
    assert problem_with(SPEAKS, Ran("FAILED", "org.opentest4j.AssertionFailedError: wrong bytes ==> expected: <true>")) is None


@pytest.mark.parametrize(
    ("guard", "ran"),
    [
        (SPEAKS, Ran("SUCCESSFUL")),
        (SPEAKS, Ran("ABORTED", "wrong bytes")),
        (SPEAKS, Ran("FAILED", "java.lang.IllegalStateException: the daemon did not start")),
        (SPEAKS, NEVER_ENDED),
    ],
)
def test_problemWith_endsOtherwise_isTold(guard: Guard, ran: Ran) -> None:
    assert problem_with(guard, ran) is not None
