"""Strangers who have a daemon hold bytes: for a few seconds each, a few hundred connections of scripts/attacks-check's thousands."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attacks_check import ATTACKS, HEAP_BOUND_MIB, Attack, check
from connections_check import Beside, write_token
from hostile_daemon import Daemon

SECONDS = 4.0
CONNECTIONS_MAX = 300


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with a heap of 256 MiB."""
    write_token(tmp_path / "tokens")
    daemon = Daemon(tmp_path, access__tokens=str(tmp_path / "tokens"))
    yield daemon
    daemon.stop()


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
