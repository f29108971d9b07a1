"""Strangers who have a daemon hold bytes: for a few seconds each, a few hundred connections of scripts/attacks-check's thousands."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks_check import ATTACKS, HEAP_BOUND_MIB, Attack, check
from conftest import in_a_folder
from connections_check import Beside, write_token
from hostile_daemon import Daemon

SECONDS = 4.0
CONNECTIONS_MAX = 300


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
        "large answers, never read",
        "bare HEADERS without a token",
        "bare HEADERS with a token",
        "HEADERS of no call",
        "answers without a window",
        "PINGs, never read",
        "a message byte by byte",
        "HTTP/1.1 where gRPC is",
    ],
)
def test_attack_daemonHoldsLittleAndHonestClientsAreAnswered(guarded: Daemon, name: str) -> None:
    attack: Attack = next(one for one in ATTACKS if one.name == name)
    attack = attack._replace(connections=min(attack.connections, CONNECTIONS_MAX))
    with ExitStack() as stack:
        check(attack, guarded, Beside(guarded, stack), SECONDS, HEAP_BOUND_MIB)
    guarded.require_well()
