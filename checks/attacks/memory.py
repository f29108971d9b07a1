"""Attacks that make a daemon with a small heap hold bytes, beside honest clients; a part of attacks-check.

The attackers ask and never read, open and never end, and connect again when they are cut off. Under each
attack the daemon must live, keep its memory below a bound, and answer honest clients. The attackers talk to 127.0.0.1 alone.
"""

import contextlib
import multiprocessing
import os
import resource
import select
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvtier_testing.certificates import certificate

from checks.attacks import node_frames
from checks.attacks.connections import TOKEN, Beside, open_to_nodes, write_token
from checks.attacks.hostile_daemon import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Daemon,
    Wrong,
    authorization,
    call_headers,
    frame,
    header_block,
    message,
)

CONTINUATION = 9
LOOPBACK = "127.0.0.1"
# Bounds of the daemon, whose heap has 256 MiB: used heap after a garbage collection, and resident memory beyond the calm daemon's.
HEAP_BOUND_MIB = 192
RESIDENT_BOUND_MIB = 192
CONNECT_S = 0.2
SEND_BYTES = 1 << 16
OPEN_AT_ONCE = 64
DESCRIPTORS_MAX = 12_000


class Attack(NamedTuple):
    """The bytes that each of many connections sends: some once, then others again and again. It never reads."""

    name: str
    listener: str
    connections: int
    first: Callable[[], bytes]
    then: Callable[[int], bytes] = lambda turn: b""
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.listener}, {self.name}"


# ---- HTTP


def get(path: str, token: str = "", headers: str = "") -> bytes:
    more = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}{headers}\r\n".encode()


def chunked() -> bytes:
    return b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


HTTP = [
    Attack("pipelined GETs, never read", "HTTP", 1000, lambda: b"", lambda turn: get("/healthz") * 100),
    Attack("pipelined GETs by TLS, never read", "HTTP", 150, lambda: b"", lambda turn: get("/healthz") * 100, tls=True),
    Attack("large answers, never read", "HTTP", 1000, lambda: get("/metrics", TOKEN) * 8),
    Attack("headers without an end", "HTTP", 1000, lambda: b"GET / HTTP/1.1\r\n", lambda turn: b"X-%d: %s\r\n" % (turn, b"y" * 900)),
    Attack("a body without an end", "HTTP", 1000, chunked, lambda turn: b"1\r\nx\r\n" * 1000),
    Attack("upgrades to WebSocket", "HTTP", 1000, lambda: get("/", headers="Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n") * 8),
    Attack("halves of TLS handshakes", "HTTP", 1000, lambda: b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(1000), tls=True),
]

# ---- gRPC

_OPENED = PREFACE + frame(SETTINGS, 0, 0)


def calls(turn: int, count: int, headers: bytes, flags: int = END_HEADERS, then: Callable[[int], bytes] = lambda stream: b"") -> bytes:
    """Calls on new streams, the first of which are of turn 0."""
    streams = range(1 + 2 * count * turn, 1 + 2 * count * (turn + 1), 2)
    return b"".join(frame(HEADERS, flags, stream, headers) + then(stream) for stream in streams)


def call_of(method: str, token: str = "") -> bytes:
    return call_headers(b"/kvtier.v1.Kvtier/" + method.encode(), authorization(token))


def only(turns: int, words: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda turn: words(turn) if turn < turns else b""


_NO_WINDOW = PREFACE + frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0")
LARGE_TABLE = PREFACE + frame(SETTINGS, 0, 0, b"\0\1\x7f\xff\xff\xff")
_STRANGE = header_block([(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"x")])


def _unknown_method(turn: int) -> bytes:
    path = b"/%08d-" % turn + b"x" * 2000
    return calls(turn, 1, call_headers(path, authorization(TOKEN)), END_HEADERS | END_STREAM)


def _one_byte_frames(turn: int) -> bytes:
    head = frame(DATA, 0, 1, message(b"", length=100_000)) if turn == 0 else b""
    return head + frame(DATA, 0, 1, b"x") * 500


GRPC = [
    Attack("connections without a call", "gRPC", 6000, lambda: _OPENED),
    Attack("bare HEADERS without a token", "gRPC", 1500, lambda: _OPENED, only(1, lambda turn: calls(turn, 256, call_of("Lookup")))),
    Attack("bare HEADERS with a token", "gRPC", 900, lambda: _OPENED, only(1, lambda turn: calls(turn, 256, call_of("Lookup", TOKEN)))),
    Attack("bare HEADERS of Gets", "gRPC", 900, lambda: _OPENED, only(1, lambda turn: calls(turn, 256, call_of("Get", TOKEN)))),
    Attack("HEADERS of no call", "gRPC", 1500, lambda: _OPENED, only(1, lambda turn: calls(turn, 256, _STRANGE))),
    Attack("answers without a window", "gRPC", 900, lambda: _NO_WINDOW, only(1, lambda turn: calls(turn, 256, call_of("Ping", TOKEN), then=lambda stream: frame(DATA, END_STREAM, stream, message(b""))))),
    Attack("answered calls, never read", "gRPC", 900, lambda: _OPENED, lambda turn: calls(turn, 50, call_of("Ping", TOKEN), then=lambda stream: frame(DATA, END_STREAM, stream, message(b"")))),
    Attack("refused calls, never read", "gRPC", 1500, lambda: _OPENED, lambda turn: calls(turn, 50, call_of("Ping"), END_HEADERS | END_STREAM)),
    Attack("PINGs, never read", "gRPC", 1500, lambda: _OPENED, lambda turn: frame(PING, 0, 0, bytes(8)) * 1000),
    Attack("SETTINGS, never read", "gRPC", 1500, lambda: _OPENED, lambda turn: frame(SETTINGS, 0, 0, b"\0\4\0\1\0\0") * 1000),
    Attack("rapid reset", "gRPC", 300, lambda: _OPENED, lambda turn: calls(turn, 50, call_of("Lookup", TOKEN), then=lambda stream: frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))),
    Attack("CONTINUATIONs without an end", "gRPC", 1500, lambda: _OPENED + frame(HEADERS, 0, 1, call_of("Lookup", TOKEN)), lambda turn: frame(CONTINUATION, 0, 1, header_block([(b"x-%d" % turn, b"y" * 500)]))),
    Attack("a large table of headers", "gRPC", 300, lambda: LARGE_TABLE, _unknown_method),
    Attack("halves of messages", "gRPC", 900, lambda: _OPENED, only(1, lambda turn: calls(turn, 60, call_of("Lookup", TOKEN), then=lambda stream: frame(DATA, 0, stream, message(b"x" * 16_000, length=100_000))))),
    Attack("halves of Puts", "gRPC", 300, lambda: _OPENED, only(1, lambda turn: calls(turn, 4, call_of("Put", TOKEN), then=lambda stream: frame(DATA, 0, stream, message(b"\x12" + b"x" * 16_000, length=1_000_000)) + frame(DATA, 0, stream, bytes(16_000)) * 60))),
    Attack("a message byte by byte", "gRPC", 900, lambda: _OPENED + frame(HEADERS, END_HEADERS, 1, call_of("Lookup", TOKEN)), _one_byte_frames),
    Attack("HTTP/1.1 where gRPC is", "gRPC", 1500, lambda: b"", lambda turn: get("/") * 100),
    Attack("halves of TLS handshakes at gRPC", "gRPC", 1500, lambda: b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(1000), tls=True),
]

# ---- other nodes, of which 256 may connect


NODES = [
    Attack("connections without a word", "nodes", 10_000, lambda: b""),
    Attack("halves of frames", "nodes", 10_000, lambda: node_frames.hello()[:40]),
    Attack("bytes that are no frames", "nodes", 1000, lambda: os.urandom(4096)),
    Attack("lengths out of range", "nodes", 1000, lambda: node_frames.frame(node_frames.HELLO, body_bytes=1 << 30)),
    Attack("blocks that nobody asked for", "nodes", 200, lambda: node_frames.hello() + node_frames.frame(node_frames.PUSH, block_bytes=1 << 20), lambda turn: bytes(SEND_BYTES)),
    Attack("PINGs, never read", "nodes", 200, node_frames.hello, lambda turn: node_frames.frame(node_frames.PING) * 1000),
    Attack("questions, never read", "nodes", 200, node_frames.hello, lambda turn: node_frames.ask(node_frames.KEYS_MAX) * 4),
    Attack("questions to the directory, never read", "nodes", 200, node_frames.hello, lambda turn: node_frames.locate(node_frames.KEYS_MAX) * 4),
    Attack("lists without an end", "nodes", 200, node_frames.hello, lambda turn: node_frames.announce(turn, node_frames.ENTRIES_MAX)),
    Attack("lists that begin anew", "nodes", 200, node_frames.hello, lambda turn: node_frames.announce(0, 1) * 100),
    Attack("halves of TLS handshakes of nodes", "nodes", 1500, lambda: b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(1000), tls=True),
    Attack("nodes without a certificate", "nodes", 150, node_frames.hello, lambda turn: node_frames.frame(node_frames.PING) * 100, tls=True),
]
ATTACKS = HTTP + GRPC + NODES


# ---- an attacker: a process of its own, so that it takes no time of the honest ones'


class Attacker:
    """All the connections of an attack."""

    def __init__(self, attack: Attack, port: int, start: bytes) -> None:
        """start: the number of the daemon's start, as frames of nodes have it."""
        self._attack = attack
        self._port = port
        self._start = start
        self._poll = select.epoll()
        self._channels: dict[int, socket.socket] = {}
        self._unsent: dict[int, bytes] = {}
        self._turns: dict[int, int] = {}
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def run(self) -> None:
        """Goes on until somebody ends this process."""
        while True:
            self._open()
            for descriptor, events in self._poll.poll(0.01):
                if events & (select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP):
                    self._forget(descriptor)
                elif events & select.EPOLLOUT:
                    self._send(descriptor)

    def _open(self) -> None:
        for _ in range(min(OPEN_AT_ONCE, self._attack.connections - len(self._channels))):
            channel = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            channel.settimeout(CONNECT_S)
            try:
                channel.connect((LOOPBACK, self._port))
                if self._attack.tls and self._attack.then(0):
                    channel = self._context.wrap_socket(channel)
            except OSError:
                channel.close()
                return
            channel.setblocking(False)
            descriptor = channel.fileno()
            self._channels[descriptor] = channel
            self._unsent[descriptor] = self._attack.first()
            self._turns[descriptor] = 0
            self._poll.register(descriptor, select.EPOLLOUT | select.EPOLLRDHUP)

    def _forget(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            self._poll.unregister(descriptor)
        self._channels.pop(descriptor).close()

    def _send(self, descriptor: int) -> None:
        if not self._unsent[descriptor]:
            self._unsent[descriptor] = self._attack.then(self._turns[descriptor]).replace(node_frames.START, self._start)
            self._turns[descriptor] += 1
            if not self._unsent[descriptor]:
                # The attack has no more bytes for this connection, which stays open.
                self._poll.modify(descriptor, select.EPOLLRDHUP)
                return
        try:
            sent = self._channels[descriptor].send(self._unsent[descriptor][:SEND_BYTES])
            self._unsent[descriptor] = self._unsent[descriptor][sent:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self._forget(descriptor)


def attack_by_name(name: str, connections: int, port: int, start: bytes) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS_MAX) if hard != resource.RLIM_INFINITY else DESCRIPTORS_MAX, hard))
    attack = next(attack for attack in ATTACKS if attack.name == name)
    Attacker(attack._replace(connections=connections), port, start).run()


def start_of(daemon: Daemon, attack: Attack) -> bytes:
    """The number of the daemon's start, if the attack is one of nodes that are let in."""
    if attack.listener != "nodes" or attack.tls:
        return node_frames.START
    with contextlib.closing(node_frames.NodeCaller(daemon.node_port)) as caller:
        return struct.pack("<Q", caller.start)


@contextlib.contextmanager
def attackers(attack: Attack, daemon: Daemon) -> Iterator[None]:
    port = {"gRPC": daemon.grpc_port, "HTTP": daemon.http_port, "nodes": daemon.node_port}[attack.listener]
    process = multiprocessing.get_context("spawn").Process(target=attack_by_name, args=(attack.name, attack.connections, port, start_of(daemon, attack)), daemon=True)
    process.start()
    try:
        yield
        if not process.is_alive():
            raise Wrong(f"the attackers of '{attack.name}' gave up: {process.exitcode}")
    finally:
        process.kill()
        process.join()


# ---- the check


def check(attack: Attack, daemon: Daemon, beside: Beside | None, seconds: float, heap_bound_mib: int) -> None:
    calm = daemon.figures()
    if beside is not None:
        beside.figures()
    most_resident = 0
    with attackers(attack, daemon):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            daemon.require_well()
            if beside is not None:
                beside.require_well()
            most_resident = max(most_resident, daemon.resident_kib())
            time.sleep(0.2)
        during = {} if beside is None else beside.figures()
        under = daemon.figures()
    most_resident = max(most_resident, under.resident_kib)
    resident_bound_mib = (calm.resident_kib >> 10) + RESIDENT_BOUND_MIB
    print(
        f"{attack.listener}, {attack.name}: {attack.connections:,} connections for {seconds:.0f} s: "
        f"heap {under.heap_kib >> 10} of {heap_bound_mib} MiB (calm {calm.heap_kib >> 10}), "
        f"resident {most_resident >> 10} of {resident_bound_mib} MiB (calm {calm.resident_kib >> 10})"
    )
    for who, what in during.items():
        print(f"  {who}: {what}")
        if what == "no answers":
            raise Wrong(f"the {who} had no answer in {seconds:.0f} s of '{attack.name}'")
    if under.heap_kib >> 10 > heap_bound_mib or most_resident >> 10 > resident_bound_mib:
        raise Wrong(f"'{attack.name}' has the daemon hold more than it may")
    daemon.require_given_back(calm)
    daemon.require_well()


def check_all(chosen: list[Attack], seconds: float, heap_bound_mib: int) -> int:
    wrong = 0
    for tls in (False, True):
        ours = [attack for attack in chosen if attack.tls == tls]
        if not ours:
            continue
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvtier-")))
            write_token(folder / "tokens")
            settings = {"access__tokens": str(folder / "tokens")} | open_to_nodes()
            if tls:
                shared, key = certificate(folder)
                settings |= {"tls__certificate": str(shared), "tls__key": str(key), "nodes__ca": str(shared), "nodes__security": "tls_without_tokens"}
            for attack in ours:
                try:
                    with contextlib.ExitStack() as one:
                        daemon = Daemon(folder, **settings)
                        one.callback(daemon.stop)
                        beside = Beside(daemon, one, tls=tls)
                        check(attack, daemon, beside, seconds, heap_bound_mib)
                except Wrong as e:
                    print(f"attacks-check: {attack.listener}, {attack.name}: {e}", file=sys.stderr)
                    wrong += 1
    return wrong
