"""Opens thousands of connections to each of a daemon's listeners: silent, slow or with too many bytes; run by connections-check.

Honest clients go on meanwhile, on older connections and on new ones. Afterwards the daemon must have given everything back.

Exit codes: 0 honest clients were answered and everything was given back, 1 otherwise, 2 wrong usage.
"""

import argparse
import contextlib
import errno
import hashlib
import resource
import socket
import sys
import tempfile
import time
import urllib.request
from http.client import RemoteDisconnected
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError

from kvtier_testing.process import free_port

from checks.attacks import fuzz_inputs, node_frames
from checks.attacks.hostile_daemon import (
    CALL_TIMEOUT_S,
    END_HEADERS,
    HEADERS,
    PREFACE,
    SETTINGS,
    Bystander,
    Daemon,
    GrpcCaller,
    Left,
    LocalCaller,
    Wrong,
    authorization,
    call_headers,
    frame,
)
from checks.shared.command_line import Arguments, number, run_tool
from kvtier import Client, Status

DRIP_S = 0.5


class Manner(NamedTuple):
    """The bytes that a bad client sends: some at once, then the others one by one. The client never reads."""

    name: str
    first: bytes
    then: bytes = b""


# The token that the daemon knows. Honest clients have it, and bad clients whose fault is another than a missing token.
TOKEN = f"kvt_{'0' * 12}_{'A' * 43}"


def write_token(file: Path) -> None:
    salt = bytes(16)
    digest = hashlib.sha256(salt + TOKEN.encode()).hexdigest()
    file.write_text(f"id={'0' * 12} name=honest role=write sha256={salt.hex()}:{digest}\n")
    file.chmod(0o600)


_OPENED = PREFACE + frame(SETTINGS, 0, 0)
_LOOKUP = b"/kvtier.v1.Kvtier/Lookup"
_HEADERS = frame(HEADERS, END_HEADERS, 1, call_headers(_LOOKUP, authorization(TOKEN)))
_REFUSED = b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * i, call_headers(_LOOKUP)) for i in range(200))
GRPC = [
    Manner("silent", b""),
    Manner("slow preface", PREFACE[:3], PREFACE[3:] + frame(SETTINGS, 0, 0)),
    Manner("opened, no call", _OPENED),
    Manner("slow headers", _OPENED + _HEADERS[:12], _HEADERS[12:]),
    Manner("slow message", _OPENED + _HEADERS, b"".join(frame(0, 0, 1, bytes([b])) for b in b"\0\0\0\x10\0" + bytes(100))),
    # Calls without a token, which never come to their end.
    Manner("many refused calls", _OPENED + _REFUSED),
]
# Those that have not said which node they are.
NODES = [
    Manner("silent", b""),
    Manner("half of a frame", node_frames.hello()[:40]),
    Manner("slow hello", node_frames.hello()[:1], node_frames.hello()[1:]),
]
_METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
HTTP = [
    Manner("silent", b""),
    Manner("slow headers", b"GET /metrics HTTP/1.1\r\n", b"X-Slow: " + b"y" * 200),
    Manner("kept alive", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Manner("asks and never reads", 10 * _METRICS),
]
UNIX = [Manner("silent", b""), Manner("hello", fuzz_inputs.hello())]
# From how many addresses they come.
LISTENERS = {"gRPC": (GRPC, (1, 100)), "HTTP": (HTTP, (1, 100)), "nodes": (NODES, (1, 100)), "Unix socket": (UNIX, (1,))}
OPENINGS = 10


def open_to_nodes() -> dict[str, str]:
    """Settings of a daemon that every node may read."""
    return {"nodes__listen": f"127.0.0.1:{free_port()}", "nodes__security": "plaintext_without_tokens", "nodes__directory": "on", "nodes__directory_bytes": "1MiB"}


class Party(NamedTuple):
    """A crowd of one manner, at one of the listeners."""

    listener: str
    manner: Manner
    sources: int

    def __str__(self) -> str:
        return f"{self.listener}, {self.manner.name}, from {self.sources} addresses"


def parties(only: str) -> list[Party]:
    """The parties with this text in their names."""
    every = [Party(name, manner, count) for name, (manners, sources) in LISTENERS.items() for manner in manners for count in sources]
    return [party for party in every if only in str(party)]


def openings(connections: int) -> list[int]:
    """How many are opened at a time."""
    return [connections * (i + 1) // OPENINGS - connections * i // OPENINGS for i in range(OPENINGS)]


class Crowd:
    """Many connections."""

    def __init__(self, address: tuple[str, int] | str, sources: int) -> None:
        self._address = address
        self._sources = sources
        self._channels: list[socket.socket] = []
        self._dripped = 0
        self.refused = 0

    def open(self, count: int, manner: Manner) -> None:
        for i in range(count):
            channel = self._connect(i)
            if channel is not None:
                self._channels.append(channel)
                self._say(channel, manner.first)

    def _connect(self, number: int) -> socket.socket | None:
        if isinstance(self._address, str):
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        else:
            channel = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Unread bytes shall wait in the daemon, not in the buffers of this socket.
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host = number % self._sources
            # All of 127/8 is this machine: addresses for as many peers as are wanted.
            channel.bind((f"127.0.{host >> 8}.{1 + (host & 0xFF) % 254}", 0))
        channel.settimeout(10)
        try:
            channel.connect(self._address)
        except OSError as e:
            channel.close()
            if e.errno in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EAGAIN, errno.ETIMEDOUT) or isinstance(e, TimeoutError):
                self.refused += 1
                return None
            raise
        channel.setblocking(False)
        return channel

    @staticmethod
    def _say(channel: socket.socket, words: bytes) -> None:
        if words:
            with contextlib.suppress(OSError):
                channel.send(words)

    def drip(self, manner: Manner) -> None:
        """Another byte from each."""
        if self._dripped < len(manner.then):
            for channel in self._channels:
                self._say(channel, manner.then[self._dripped : self._dripped + 1])
            self._dripped += 1

    def still_open(self) -> int:
        """How many the daemon has not closed."""
        return sum(1 for channel in self._channels if not self._is_closed(channel))

    @staticmethod
    def _is_closed(channel: socket.socket) -> bool:
        try:
            while True:
                if not channel.recv(1 << 16):
                    return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self._channels.clear()


class Beside:
    """Honest clients: some from before, and some that come anew for each question."""

    def __init__(self, daemon: Daemon, stack: contextlib.ExitStack, tls: bool = False) -> None:
        """Ended by the stack. Of a daemon with TLS, those on the socket. Other nodes are beside if the daemon has a port for them."""
        self._daemon = daemon
        local = stack.enter_context(contextlib.closing(LocalCaller(daemon)))
        self._all = [Bystander("local client", local.ask), Bystander("new local client", self._new_local, 0.05)]
        if not tls:
            remote = stack.enter_context(contextlib.closing(GrpcCaller(daemon.grpc_port, TOKEN)))
            self._all += [
                Bystander("gRPC client", remote.ping),
                Bystander("new gRPC client", self._new_remote, 0.05),
                Bystander("new HTTP client", self._new_http, 0.05),
            ]
            if daemon.node_port:
                node = stack.enter_context(contextlib.closing(node_frames.NodeCaller(daemon.node_port)))
                self._all += [Bystander("node", node.ping), Bystander("new node", self._new_node, 0.05)]
        for one in self._all:
            stack.callback(one.end)

    def _new_remote(self) -> None:
        while True:
            with contextlib.suppress(ConnectionError, Left):
                with contextlib.closing(GrpcCaller(self._daemon.grpc_port, TOKEN)) as caller:
                    caller.ping()
                    return
            time.sleep(0.01)

    def _new_node(self) -> None:
        while True:
            # The oldest connections that have not said who they are make place for others. This one then connects again.
            with contextlib.suppress(ConnectionError, Left):
                with contextlib.closing(node_frames.NodeCaller(self._daemon.node_port)) as caller:
                    caller.ping()
                    return
            time.sleep(0.01)

    def _new_http(self) -> None:
        while True:
            # Among thousands of connections this one may be closed before it has asked. It then connects again.
            with contextlib.suppress(ConnectionError, URLError, RemoteDisconnected):
                with urllib.request.urlopen(f"http://127.0.0.1:{self._daemon.http_port}/healthz", timeout=CALL_TIMEOUT_S) as answer:
                    answer.read()
                return
            time.sleep(0.01)

    def _new_local(self) -> None:
        with Client(self._daemon.socket_path, name="new", timeout=CALL_TIMEOUT_S) as client:
            # A client gives up a handshake after a second and tries again with the next call; so does this.
            while client.ping().status is not Status.OK:
                time.sleep(0.01)

    def require_well(self) -> None:
        for one in self._all:
            one.require_well()

    def answered(self) -> list[int]:
        return [one.answered for one in self._all]

    def figures(self) -> dict[str, str]:
        return {one.name: one.percentiles() for one in self._all}


def address_of(listener: str, daemon: Daemon) -> tuple[str, int] | str:
    return {
        "gRPC": ("127.0.0.1", daemon.grpc_port),
        "HTTP": ("127.0.0.1", daemon.http_port),
        "nodes": ("127.0.0.1", daemon.node_port),
        "Unix socket": str(daemon.socket_path),
    }[listener]


def check(daemon: Daemon, beside: Beside, party: Party, options: argparse.Namespace) -> None:
    before = daemon.figures()
    beside.figures()
    time.sleep(options.calm)
    calm = beside.figures()
    crowd = Crowd(address_of(party.listener, daemon), party.sources)
    most_descriptors, most_resident = 0, 0
    try:
        begun = time.monotonic()
        for count in openings(options.connections):
            crowd.open(count, party.manner)
            daemon.require_well()
            beside.require_well()
            most_descriptors = max(most_descriptors, daemon.descriptors())
        took_s = time.monotonic() - begun
        end = time.monotonic() + options.hold
        answered = None
        # And until all of those beside were answered once more, each of whom waits for a limited time.
        while answered is None or any(now == then for now, then in zip(beside.answered(), answered, strict=True)):
            crowd.drip(party.manner)
            daemon.require_well()
            beside.require_well()
            most_descriptors = max(most_descriptors, daemon.descriptors())
            most_resident = max(most_resident, daemon.resident_kib())
            if answered is None and time.monotonic() > end:
                answered = beside.answered()
            time.sleep(DRIP_S)
        left = crowd.still_open()
    finally:
        crowd.close()
    during = beside.figures()
    print(f"{party}: {options.connections:,} connections in {took_s:.1f} s, {crowd.refused:,} refused at once,")
    print(f"  {left:,} open after {time.monotonic() - begun:.0f} s; the daemon had at most {most_descriptors:,} descriptors and {most_resident >> 10} MiB")
    for who in calm:
        print(f"  {who}: {calm[who]} before; {during[who]} during")
    after = daemon.require_given_back(before)
    print(f"  before: {before}\n  after:  {after}")
    # The daemon may have logged a failure while it cleaned up after the crowd.
    daemon.require_well()
    beside.require_well()


def main() -> int:
    parser = Arguments(prog="connections-check", description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000, help="to each listener, in each manner")
    parser.add_argument("--hold", type=number, default=15, help="seconds for which they stay")
    parser.add_argument("--calm", type=number, default=5, help="seconds before, to compare with")
    parser.add_argument("--only", default="", help="listeners and manners that have this in their names")
    options = parser.parse_args()
    if options.connections < OPENINGS:
        parser.error(f"--connections is {options.connections}, expected {OPENINGS} or more: so many times they are opened")
    chosen = parties(options.only)
    if not chosen:
        parser.error(f"--only is '{options.only}', which is in none of these: {'; '.join(map(str, parties('')))}")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.connections + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        parser.error(f"--connections {options.connections} takes {needed} descriptors, of which this process may have {hard}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvtier-")))
            write_token(folder / "tokens")
            daemon = Daemon(folder, access__tokens=str(folder / "tokens"), **open_to_nodes())
            stack.callback(daemon.stop)
            beside = Beside(daemon, stack)
            for party in chosen:
                check(daemon, beside, party, options)
    except Wrong as e:
        print(f"connections-check: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    run_tool(main)
