"""The lines that scripts/fuzz prints about a finding of Jazzer."""

from checks.attacks import jazzer


def test_said_ofAFinding_beginsWithIt() -> None:
    lines = ["#1 INITED", "== Java Exception: java.lang.IllegalStateException: x", *(f"at {number}" for number in range(60))]
    assert jazzer.said(lines) == lines[1 : 2 + jazzer.FOUND_LINES]


def test_said_withoutAFinding_isTheEnd() -> None:
    lines = [str(number) for number in range(60)]
    assert jazzer.said(lines) == lines[-jazzer.FOUND_LINES :]
