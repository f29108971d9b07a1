"""Opens thousands of connections to each of a daemon's listeners, which say nothing, little or slowly; run by connections-check.

Beside them honest clients go on: on connections from before, and on new ones. Afterwards the daemon must have given everything
back.

Exit codes: 0 all of it was so, 1 something was not, 2 wrong usage.
"""

import argparse
import contextlib
import errno
import resource
import socket
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from http.client import RemoteDisconnected
from pathlib import Path
from urllib.error import URLError

import fuzz_inputs
from hostile_daemon import CALL_TIMEOUT_S, END_HEADERS, HEADERS, PREFACE, SETTINGS, Bystander, Daemon, Figures, GrpcCaller, Left, LocalCaller, Wrong, call_headers, frame

from kvtier import Client, Status

GIVEN_BACK_S = 60.0
DESCRIPTORS_LEFT_MAX = 8
RESIDENT_LEFT_KIB_MAX = 128 << 10
DRIP_S = 0.5


@dataclass(frozen=True)
class Manner:
    """What a bad client says: this first, and then byte by byte."""

    name: str
    first: bytes
    then: bytes = b""


_OPENED = PREFACE + frame(SETTINGS, 0, 0)
_HEADERS = frame(HEADERS, END_HEADERS, 1, call_headers(b"/kvtier.v1.Kvtier/Lookup"))
GRPC = [
    Manner("silent", b""),
    Manner("slow preface", PREFACE[:3], PREFACE[3:] + frame(SETTINGS, 0, 0)),
    Manner("opened, no call", _OPENED),
    Manner("slow headers", _OPENED + _HEADERS[:12], _HEADERS[12:]),
    Manner("slow message", _OPENED + _HEADERS, b"".join(frame(0, 0, 1, bytes([b])) for b in b"\0\0\0\x10\0" + bytes(100))),
]
HTTP = [
    Manner("silent", b""),
    Manner("slow headers", b"GET /metrics HTTP/1.1\r\n", b"X-Slow: " + b"y" * 200),
    Manner("kept alive", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
]
UNIX = [Manner("silent", b""), Manner("hello", fuzz_inputs.hello())]


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

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._local = LocalCaller(daemon)
        self._remote = GrpcCaller(daemon.grpc_port)
        self._all = [
            Bystander("local client", self._local.ask),
            Bystander("gRPC client", self._remote.ping),
            Bystander("new gRPC client", self._new_remote, 0.05),
            Bystander("new HTTP client", self._new_http, 0.05),
            Bystander("new local client", self._new_local, 0.05),
        ]

    def _new_remote(self) -> None:
        while True:
            with contextlib.suppress(ConnectionError, Left):
                caller = GrpcCaller(self._daemon.grpc_port)
                try:
                    caller.ping()
                    return
                finally:
                    caller.close()
            time.sleep(0.01)

    def _new_http(self) -> None:
        while True:
            # Where thousands come at once, one may have to leave before it has asked: it comes again.
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

    def figures(self) -> dict[str, str]:
        return {one.name: one.percentiles() for one in self._all}

    def close(self) -> None:
        for one in self._all:
            one.end()
        self._local.close()
        self._remote.close()


def check(daemon: Daemon, beside: Beside, name: str, address: tuple[str, int] | str, manner: Manner, options: argparse.Namespace, sources: int) -> None:
    before = daemon.figures()
    beside.figures()
    time.sleep(options.calm)
    calm = beside.figures()
    crowd = Crowd(address, sources)
    most_descriptors, most_resident = 0, 0
    try:
        begun = time.monotonic()
        for _ in range(10):
            crowd.open(options.connections // 10, manner)
            most_descriptors = max(most_descriptors, daemon.descriptors())
            beside.require_well()
        took_s = time.monotonic() - begun
        end = time.monotonic() + options.hold
        while time.monotonic() < end:
            crowd.drip(manner)
            most_descriptors = max(most_descriptors, daemon.descriptors())
            most_resident = max(most_resident, daemon.resident_kib())
            daemon.require_well()
            beside.require_well()
            time.sleep(DRIP_S)
        left = crowd.still_open()
    finally:
        crowd.close()
    during = beside.figures()
    print(f"{name}, {manner.name}, from {sources} addresses: {options.connections:,} connections in {took_s:.1f} s, {crowd.refused:,} refused at once,")
    print(f"  {left:,} open after {options.hold:.0f} s; the daemon had at most {most_descriptors:,} descriptors and {most_resident >> 10} MiB")
    for who in calm:
        print(f"  {who}: {calm[who]} before; {during[who]} during")
    require_given_back(daemon, before)


def require_given_back(daemon: Daemon, before: Figures) -> None:
    end = time.monotonic() + GIVEN_BACK_S
    while True:
        after = daemon.figures()
        descriptors = after.descriptors - before.descriptors
        if descriptors <= DESCRIPTORS_LEFT_MAX:
            break
        if time.monotonic() > end:
            raise Wrong(f"{descriptors} descriptors are not given back: {before} before, {after} after")
        time.sleep(1)
    print(f"  before: {before}\n  after:  {after}")
    if after.resident_kib - before.resident_kib > RESIDENT_LEFT_KIB_MAX:
        raise Wrong(f"memory is not given back: {before} before, {after} after")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000, help="to each listener, in each manner")
    parser.add_argument("--hold", type=float, default=15, help="seconds for which they stay")
    parser.add_argument("--calm", type=float, default=5, help="seconds before, to compare with")
    parser.add_argument("--only", default="", help="listeners and manners that have this in their names")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.connections + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        parser.error(f"--connections {options.connections} takes {needed} descriptors, of which this process may have {hard}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        daemon = Daemon(Path(folder))
        beside = Beside(daemon)
        try:
            for name, address, manners, sources in (
                ("gRPC", ("127.0.0.1", daemon.grpc_port), GRPC, (1, 100)),
                ("HTTP", ("127.0.0.1", daemon.http_port), HTTP, (1, 100)),
                ("Unix socket", str(daemon.socket_path), UNIX, (1,)),
            ):
                for manner in manners:
                    for count in sources:
                        if options.only in f"{name}, {manner.name}, {count}":
                            check(daemon, beside, name, address, manner, options, count)
        except Wrong as e:
            print(f"connections-check: {e}", file=sys.stderr)
            return 1
        finally:
            beside.close()
            daemon.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
