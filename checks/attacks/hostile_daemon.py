"""A daemon under attack, its use of the machine, and honest clients beside the attackers; for all checks of this package."""

import os
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvtier_testing import process

from checks.shared.checkout import ROOT
from checks.shared.pulse import Pulse
from kvtier import Client, Status

PATIENCE_S = 30.0
CALL_TIMEOUT_S = 60.0
GIVEN_BACK_S = 60.0
DESCRIPTORS_LEFT_MAX = 8
HEAP_LEFT_KIB_MAX = 32 << 10
RESIDENT_LEFT_KIB_MAX = 128 << 10
BLOCK_BYTES = 4096

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
REFUSED_STREAM = struct.pack(">I", 7)
# The daemon sends all headers as text then.
NO_HEADER_TABLE = b"\0\1\0\0\0\0"
# The end of the message of an answer RESOURCE_EXHAUSTED.
TRY_AGAIN = b"try%20again"


class Wrong(Exception):
    """The daemon is not as it should be; the message says how."""


class Left(Wrong):
    """The daemon closed an honest connection."""


# ---- the little of HTTP/2 that a caller needs


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _integer(value: int, prefix_bits: int) -> bytes:
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([value])
    rest = value - most
    coded = [most]
    while rest >= 128:
        coded.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*coded, rest])


def header_block(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Headers as HPACK literals without a table."""
    return b"".join(b"\0" + _integer(len(name), 7) + name + _integer(len(value), 7) + value for name, value in headers)


def call_headers(path: bytes, more: list[tuple[bytes, bytes]] | None = None) -> bytes:
    named = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"fuzz")]
    return header_block([*named, (b"content-type", b"application/grpc"), (b"te", b"trailers"), *(more or [])])


def authorization(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + token.encode())] if token else []


def message(body: bytes, compressed: int = 0, length: int | None = None) -> bytes:
    return struct.pack(">BI", compressed, len(body) if length is None else length) + body


class GrpcCaller:
    """A connection on which one call follows the other, as an honest client makes them."""

    def __init__(self, port: int, token: str = "") -> None:
        """A token: where the daemon wants one."""
        self._more = authorization(token)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        window = struct.pack(">I", (1 << 31) - 1 - 65535)
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, NO_HEADER_TABLE) + frame(WINDOW_UPDATE, 0, 0, window))
        self._stream = -1
        self._rest = b""

    def ping(self) -> None:
        """Has a Ping answered; raises what goes wrong. A call that the daemon refuses for now comes again, as honest clients do."""
        until = time.monotonic() + CALL_TIMEOUT_S
        while not self._ping_once():
            if time.monotonic() > until:
                raise Wrong(f"the honest caller was told to try again for {CALL_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def _ping_once(self) -> bool:
        """Whether the call was answered; false if it must be sent again."""
        self._stream += 2
        headers = call_headers(b"/kvtier.v1.Kvtier/Ping", self._more)
        self._socket.sendall(frame(HEADERS, END_HEADERS, self._stream, headers) + frame(DATA, END_STREAM, self._stream, message(b"")))
        has_answer = False
        while True:
            kind, flags, stream, payload = self._next()
            if kind == SETTINGS and not flags & ACK:
                self._socket.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self._socket.sendall(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                last, error = struct.unpack(">II", payload[:8])
                if error:
                    raise Wrong(f"the honest caller was sent away: {payload!r}")
                if last < self._stream:
                    raise Left("the honest caller's connection is no longer of use")
            elif stream == self._stream and kind == DATA:
                has_answer = True
            if stream == self._stream and (kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM)):
                if has_answer:
                    return True
                if (kind == RST_STREAM and payload == REFUSED_STREAM) or (kind == HEADERS and TRY_AGAIN in payload):
                    return False
                raise Wrong(f"the honest caller got no answer: frame {kind}, {payload!r}")

    def _next(self) -> tuple[int, int, int, bytes]:
        header = self._take(9)
        length = int.from_bytes(header[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", header[3:])
        return kind, flags, stream & 0x7FFFFFFF, self._take(length)

    def _take(self, count: int) -> bytes:
        while len(self._rest) < count:
            received = self._socket.recv(65536)
            if not received:
                raise Left("the honest caller's connection was closed")
            self._rest += received
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def close(self) -> None:
        self._socket.close()


# ---- the daemon


# Log lines that are harmless.
_HARMLESS = (
    # Vert.x 5.0.7 throws at itself where it ends a connection for headers that can't be decoded, and answers to other calls wait to be sent.
    'java.lang.NullPointerException: Cannot read field "context" because "stream" is null',
)
# Not in the names of methods, which the lines of a stack trace have.
_TROUBLE = re.compile(rf"^(?!\tat |{'|'.join(map(re.escape, _HARMLESS))}$).*(?:\bERROR\b|\w*(?:Exception|Error)\b).*$", re.MULTILINE)


def trouble_in(log: str) -> int | None:
    """The place of the first line in a log about a failure that must not happen."""
    found = _TROUBLE.search(log)
    return found.start() if found else None


@dataclass(frozen=True)
class Figures:
    """The resources of a daemon after a garbage collection."""

    resident_kib: int
    heap_kib: int
    descriptors: int
    threads: int

    def beyond(self, before: "Figures") -> str | None:
        """The first resource that grew by more than a JVM keeps for itself, in words."""
        for grown, most, words in (
            (self.descriptors - before.descriptors, DESCRIPTORS_LEFT_MAX, "descriptors are"),
            (self.heap_kib - before.heap_kib, HEAP_LEFT_KIB_MAX, "KiB of heap are"),
            (self.resident_kib - before.resident_kib, RESIDENT_LEFT_KIB_MAX, "KiB of memory are"),
        ):
            if grown > most:
                return f"{grown} {words}"
        return None

    def __str__(self) -> str:
        return f"{self.resident_kib >> 10} MiB resident, {self.heap_kib >> 10} MiB of heap used, {self.descriptors} descriptors, {self.threads} threads"


class Daemon:
    """A daemon of this checkout with small tiers in memory, and the ports of gRPC and HTTP."""

    def __init__(self, folder: Path, **settings: str) -> None:
        """Settings are named with two underscores in place of the dot."""
        self.socket_path = folder / "sock"
        self._log = folder / "log"
        self._log_read = 0
        chosen = {
            "host.bytes": "64MiB",
            "host.slab_bytes": "4MiB",
            "host.keep": "0",
            "ssd.bytes": "0",
            "limits.blocks": "32768",
            "grpc.port": "0",
            "http.port": "0",
        } | {name.replace("__", "."): value for name, value in settings.items()}
        command = process.command_of([str(ROOT / "scripts" / "kvtierd")], self.socket_path, chosen)
        # All of the heap is resident from the beginning: growth is somewhere else.
        heap = {"KVTIERD_JAVA_OPTS": "-Xms256m -Xmx256m -XX:+AlwaysPreTouch -XX:MaxDirectMemorySize=256m"}
        self._process, self._ready = process.start(command, self._log, Wrong, heap)
        self.grpc_port = self._port("gRPC")
        self.http_port = self._port("HTTP")
        self.node_port = int(chosen.get("nodes.listen", ":0").rpartition(":")[2])

    def _port(self, name: str) -> int:
        found = re.search(name + r" on [^ ,]*:(\d+)", self._ready)
        return int(found.group(1)) if found else 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def require_well(self) -> None:
        """Raises if the daemon is dead, or has logged a failure that must not happen."""
        has_ended = self._process.poll() is not None
        new = self.new_log(has_ended)
        if has_ended:
            assert self._process.stdout is not None
            raise Wrong(f"the daemon died with {self._process.returncode}: {self._process.stdout.read()}its log ends with\n{new[-3000:]}")
        if (at := trouble_in(new)) is not None:
            raise Wrong(f"the daemon logged\n{new[at : at + 3000]}")

    def new_log(self, to_its_end: bool = False) -> str:
        """The whole lines that were logged since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._log_read)
            new = log.read()
        if not to_its_end:
            new = new[: new.rfind(b"\n") + 1]
        self._log_read += len(new)
        return new.decode(errors="replace")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_kib(self) -> int:
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        found = re.search(rf"^{name}:\s*(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        return int(found.group(1)) if found else 0

    def figures(self) -> Figures:
        for _ in range(2):
            self._ask_jvm("GC.run")
        used = sum(int(number) for number in re.findall(r"(?:DefNew|Tenured).* used (\d+)K", self._ask_jvm("GC.heap_info")))
        return Figures(self.resident_kib(), used, self.descriptors(), self._status("Threads"))

    def _ask_jvm(self, command: str) -> str:
        jcmd = Path(f"/proc/{self.pid}/exe").resolve().parent / "jcmd"
        asked = subprocess.run([jcmd, str(self.pid), command], capture_output=True, check=False, text=True)
        if asked.returncode:
            self.require_well()
            raise Wrong(f"its JVM does not answer jcmd {command}: {asked.stdout}{asked.stderr}")
        return asked.stdout

    def require_given_back(self, before: Figures) -> Figures:
        """Waits until the daemon has given its resources back, and returns the figures. Raises if cleaning up takes too long."""
        end = time.monotonic() + GIVEN_BACK_S
        while (kept := (after := self.figures()).beyond(before)) is not None:
            if time.monotonic() > end:
                raise Wrong(f"{kept} not given back: {before} before, {after} after")
            time.sleep(1)
        return after

    def stop(self) -> None:
        process.stop(self._process, 30)


# ---- those beside


class Bystander:
    """An honest client that asks again and again on its own thread. Each answer must come in time and be right."""

    _PULSE = Pulse()

    def __init__(self, name: str, ask: Callable[[], None], pause_s: float = 0.005) -> None:
        self.name = name
        self.failure: str | None = None
        self.answered = 0
        self._ask = ask
        self._pause_s = pause_s
        self._took_s: list[float] = []
        self._begun_at: float | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends and self.failure is None:
            self._begun_at = self._PULSE.ran_s
            begun = time.monotonic()
            try:
                self._ask()
            except Exception as e:  # noqa: BLE001 - whatever it is, it is the finding
                self.failure = f"the {self.name} beside failed: {e!r}"
            self._begun_at = None
            self.answered += 1
            self._took_s.append(time.monotonic() - begun)
            time.sleep(self._pause_s)

    def require_well(self) -> None:
        begun = self._begun_at
        if self.failure is None and begun is not None and self._PULSE.ran_s - begun > PATIENCE_S:
            self.failure = f"the {self.name} beside waits for more than {PATIENCE_S:.0f} s"
        if self.failure is not None:
            raise Wrong(self.failure)

    def percentiles(self) -> str:
        """Count and times of the answers since the last call."""
        took, self._took_s = sorted(self._took_s), []
        if not took:
            return "no answers"
        at = lambda share: took[min(len(took) - 1, int(share * len(took)))] * 1000  # noqa: E731
        return f"{len(took)} answers, p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, longest {took[-1] * 1000:.1f} ms"

    def end(self) -> None:
        self._ends = True
        self._thread.join(PATIENCE_S)


class LocalCaller:
    """An honest client on the Unix socket, with blocks of its own."""

    BLOCKS = 8

    def __init__(self, daemon: Daemon) -> None:
        self._client = Client(daemon.socket_path, name="beside", timeout=CALL_TIMEOUT_S)
        self._namespace = self._client.namespace("beside", block_bytes=BLOCK_BYTES)
        self._keys = [b"beside-%08d" % i for i in range(self.BLOCKS)]
        self._blocks = [bytes([i + 1]) * BLOCK_BYTES for i in range(self.BLOCKS)]
        self._into = bytearray(self.BLOCKS * BLOCK_BYTES)

    def ask(self) -> None:
        """Reads its blocks, and puts those again that others drove out."""
        answer = self._namespace.get(self._keys, self._into)
        for i, status in enumerate(answer.statuses):
            if status is Status.OK:
                if self._into[i * BLOCK_BYTES : (i + 1) * BLOCK_BYTES] != self._blocks[i]:
                    raise Wrong(f"block {i} has other bytes")
            elif status not in (Status.MISS, Status.PENDING, Status.BUSY):
                raise Wrong(f"block {i} is {status.name}")
        if any(status is Status.MISS for status in answer.statuses):
            self._namespace.put(self._keys, b"".join(self._blocks))
        if not self._client.connected:
            raise Wrong("its session was ended")

    def close(self) -> None:
        self._client.close()
