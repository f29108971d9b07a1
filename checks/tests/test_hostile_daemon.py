"""`checks/attacks/hostile_daemon.py`: faults of a daemon that fuzzing and attacks must notice."""

import contextlib
import random
import re
import socket
import struct
import time
from pathlib import Path
from typing import cast

import pytest
from kvtier_testing import daemon as tested
from kvtier_testing.daemon import eventually
from kvtier_testing.process import free_port

from checks.attacks import connections as connections_check
from checks.attacks import hostile_daemon
from checks.attacks.fuzz_daemon import Throwers
from checks.attacks.fuzz_targets import RingClient, Target
from checks.attacks.hostile_daemon import Daemon, Figures, Wrong, trouble_in
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

USUAL = """\
2026-11-22 05:00:00.000 INFO  Daemon: 65536 blocks at most; engine errors are none, exceptions are not made
2026-11-22 05:00:00.001 WARN  SessionConductor: process 12 (user 0) refused: 3 bytes, expected 24
2026-11-22 05:00:00.002 INFO  SessionConductor: session 7 closed
2026-11-22 05:00:00.003 WARN  DefaultPromise: An exception was thrown by io.netty.handler.X$1.operationComplete()
java.lang.NullPointerException: Cannot read field "context" because "stream" is null
\tat io.vertx.core.http.impl.Http2ConnectionBase.onConnectionError(Http2ConnectionBase.java:115)
\tat io.netty.channel.AbstractChannelHandlerContext.invokeExceptionCaught(AbstractChannelHandlerContext.java:289)
"""


def test_troubleIn_usualLog_isNone() -> None:
    assert trouble_in(USUAL) is None


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-22 05:00:00.003 ERROR IndexRunner: the index is broken; the daemon stops",
        "java.lang.NullPointerException: Cannot invoke \"Object.hashCode()\"",
        "java.io.IOException",
        'java.lang.NullPointerException: Cannot read field "context" because "stream" is null, or another',
        "java.lang.OutOfMemoryError: Java heap space",
        "Exception in thread \"front-1\" java.lang.StackOverflowError",
        "Error: Could not find or load main class",
        "Caused by: io.netty.handler.codec.http2.Http2Exception$StreamException: no such stream",
        "2026-11-22 05:00:00.003 WARN  Http2: an error, java.lang.AssertionError, was not handled",
    ],
)
def test_troubleIn_lineOfAFailure_isFound(line: str) -> None:
    assert trouble_in(f"{USUAL}{line}\n\tat io.kvtier.X.y(X.java:1)\n") == len(USUAL)


def test_newLog_lineThatIsStillWritten_comesWithItsEnd(tmp_path: Path) -> None:
    daemon = Daemon.__new__(Daemon)
    daemon._log = tmp_path / "log"
    daemon._log_read = 0
    daemon._log.write_text("first\njava.lang.NullPoin")
    assert daemon.new_log() == "first\n"
    daemon._log.write_text("first\njava.lang.NullPointerException\nlast")
    assert daemon.new_log() == "java.lang.NullPointerException\n"
    assert daemon.new_log(to_its_end=True) == "last"


class Failing(Target):
    """Cannot make its second input."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.made = 0

    def corpus(self) -> list[bytes]:
        return [b""]

    def next(self, rng: random.Random, corpus: list[bytes]) -> bytes:
        self.made += 1
        if self.made > 1:
            raise self.failure
        return b""

    def throw(self, daemon: Daemon, data: bytes) -> None:
        pass


@pytest.mark.parametrize("failure", [OSError(), struct.error("not whole"), KeyError(1), SystemExit(1)])
def test_throwers_oneCanThrowNoMore_isToldInTheEnd(failure: BaseException) -> None:
    throwers = Throwers(Failing(failure), cast(Daemon, None), 1, 1)
    assert eventually(lambda: throwers.failure is not None)
    throwers.end()
    with pytest.raises(Wrong, match=type(failure).__name__):
        throwers.require_well()


@pytest.mark.parametrize("length", [0, 8, 40, 64, 72])
def test_ringClient_completionThatIsNoWholeResults_keepsThoseThatAre(length: int) -> None:
    client = RingClient.__new__(RingClient)
    client._ids = []
    answer = bytearray(protocol.COMPLETION_HEADER_BYTES + length)
    answer[protocol.COMPLETION_VERB_OFFSET] = Verb.RESERVE
    client._keep_ids(bytes(answer))
    assert len(client._ids) == length // protocol.COMPLETION_LONG_RESULT_BYTES


class Grown(Daemon):
    """A daemon with given figures."""

    def __init__(self, *figures: Figures) -> None:
        self._figures = list(figures)

    def figures(self) -> Figures:
        return self._figures.pop(0) if len(self._figures) > 1 else self._figures[0]


BEFORE = Figures(resident_kib=300 << 10, heap_kib=70 << 10, descriptors=180, threads=27)


def test_requireGivenBack_afterAWhile_isTheFigures() -> None:
    after = Figures(310 << 10, 71 << 10, 181, 27)
    assert Grown(Figures(310 << 10, 200 << 10, 400, 27), after).require_given_back(BEFORE) == after


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (Figures(310 << 10, 70 << 10, 400, 27), "220 descriptors are not given back"),
        (Figures(310 << 10, 170 << 10, 180, 27), "102400 KiB of heap are not given back"),
        (Figures(500 << 10, 70 << 10, 180, 27), "204800 KiB of memory are not given back"),
    ],
)
def test_requireGivenBack_staysMore_isWrong(monkeypatch: pytest.MonkeyPatch, after: Figures, words: str) -> None:
    monkeypatch.setattr(hostile_daemon, "GIVEN_BACK_S", 0.0)
    with pytest.raises(Wrong, match=words):
        Grown(after).require_given_back(BEFORE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--only", "typo"], "in none of these.*gRPC, silent"), (["--connections", "5"], "expected 10 or more"), (["--connections", "-1"], "expected 10 or more")],
)
def test_connectionsCheck_nothingToDo_isWrongUsage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    monkeypatch.setattr("sys.argv", ["connections-check", *arguments])
    with pytest.raises(SystemExit) as ended:
        connections_check.main()
    assert ended.value.code == 2
    assert re.search(words, capsys.readouterr().err, re.DOTALL)


@pytest.mark.parametrize("connections", [10, 15, 10_000])
def test_connectionsCheck_openings_areAllConnections(connections: int) -> None:
    assert sum(connections_check.openings(connections)) == connections
    assert min(connections_check.openings(connections)) > 0


def test_parties_partOfAName_areThose() -> None:
    assert {str(party) for party in connections_check.parties("HTTP, silent")} == {"HTTP, silent, from 1 addresses", "HTTP, silent, from 100 addresses"}
    assert len(connections_check.parties("")) > len(connections_check.parties("gRPC")) > 0


def test_calls_that_say_nothing_keep_nobody_from_calling(stopped_daemon: tested.Daemon) -> None:
    port = free_port()
    stopped_daemon.start(grpc__enabled="true", grpc__port=str(port))
    opened = hostile_daemon.PREFACE + hostile_daemon.frame(hostile_daemon.SETTINGS, 0, 0)
    headers = hostile_daemon.call_headers(b"/kvtier.v1.Kvtier/Lookup")
    with contextlib.ExitStack() as all_of_them:
        # More than there may be at once, some to a connection.
        for _ in range(30):
            channel = all_of_them.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            calls = b"".join(
                hostile_daemon.frame(hostile_daemon.HEADERS, hostile_daemon.END_HEADERS, 1 + 2 * i, headers) for i in range(50)
            )
            channel.sendall(opened + calls)
        time.sleep(0.2)
        caller = all_of_them.enter_context(contextlib.closing(hostile_daemon.GrpcCaller(port)))
        for _ in range(20):
            caller.ping()
