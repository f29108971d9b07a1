"""Strangers who have a daemon hold bytes: some of scripts/attacks-check, for a few seconds each."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks_check import ATTACKS, HEAP_BOUND_MIB, check
from conftest import in_a_folder
from connections_check import Beside, write_token
from hostile_daemon import Daemon

SECONDS = 8.0


def _with_tokens(folder: Path) -> Daemon:
    write_token(folder / "tokens")
    return Daemon(folder, access__tokens=str(folder / "tokens"))


@pytest.fixture
def guarded() -> Iterator[Daemon]:
    """A daemon with a heap of 256 MiB."""
    with in_a_folder(_with_tokens) as daemon:
        yield daemon


@pytest.mark.parametrize(
    "name",
    [
        "pipelined GETs, never read",
        "HEADERS of no call",
        "halves of messages",
    ],
)
def test_attack_daemonHoldsLittleAndHonestClientsAreAnswered(guarded: Daemon, name: str) -> None:
    attack = next(one for one in ATTACKS if one.name == name)
    with ExitStack() as stack:
        check(attack, guarded, Beside(guarded, stack), SECONDS, HEAP_BOUND_MIB)
    guarded.require_well()
