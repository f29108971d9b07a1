"""Attacks of scripts/attacks-check: some that make a daemon hold bytes, and all on encoded blocks, for a few seconds each."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kvtier_testing.daemon import in_a_folder

from checks.attacks import encodings
from checks.attacks.connections import TOKEN, Beside, write_token
from checks.attacks.hostile_daemon import DATA, END_HEADERS, END_STREAM, HEADERS, Daemon, frame, message
from checks.attacks.memory import ATTACKS, HEAP_BOUND_MIB, LARGE_TABLE, call_of, check

SECONDS = 8.0
ENCODINGS_SECONDS = 3.0


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
        "answers without a window",
        "halves of messages",
    ],
)
def test_attack_daemonHoldsLittleAndHonestClientsAreAnswered(guarded: Daemon, name: str) -> None:
    attack = next(one for one in ATTACKS if one.name == name)
    with ExitStack() as stack:
        check(attack, guarded, Beside(guarded, stack), SECONDS, HEAP_BOUND_MIB)
    guarded.require_well()


@pytest.mark.parametrize("attack", encodings.ATTACKS, ids=lambda attack: attack.name)
def test_attackOnEncodedBlocks_noReaderGetsAWrongByte(attack: encodings.Attack) -> None:
    with in_a_folder(encodings.daemon_in) as daemon:
        encodings.check(attack, daemon, ENCODINGS_SECONDS, seed=1)


def test_callerAllowsALargeTableOfHeaders_theDaemonKeepsToTheSmallOne(guarded: Daemon) -> None:
    """The daemon announces the size of its table of headers in its first headers (RFC 7541, 6.3): 4,096 bytes."""
    with closing(socket.create_connection(("127.0.0.1", guarded.grpc_port), timeout=60)) as channel:
        channel.sendall(LARGE_TABLE)
        channel.sendall(frame(HEADERS, END_HEADERS, 1, call_of("Ping", TOKEN)) + frame(DATA, END_STREAM, 1, message(b"")))
        received = b""
        while b"application/grpc" not in received:
            some = channel.recv(65536)
            assert some, received
            received += some
    assert b"\x3f\xe1\x1f" in received
