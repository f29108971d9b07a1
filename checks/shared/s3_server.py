"""An S3 server of our own, and a proxy that makes what servers and wires do on bad days."""

import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from kvtier_testing.process import free_port

from checks.shared.checkout import ROOT, java_home

BUCKET = "blocks"
_START_TIMEOUT_S = 300.0


class S3Server:
    """s3proxy over a folder, which outlives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "objects").mkdir(parents=True)

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        configuration = self._folder / "s3proxy.conf"
        configuration.write_text(
            f"s3proxy.endpoint={self.endpoint}\n"
            "s3proxy.authorization=none\n"
            "jclouds.provider=filesystem-nio2\n"
            "jclouds.identity=test\n"
            "jclouds.credential=test\n"
            f"jclouds.filesystem.basedir={self._folder / 'objects'}\n"
        )
        logging = self._folder / "s3proxy-logback.xml"
        logging.write_text('<configuration><root level="OFF"/></configuration>')
        java = java_home()
        self._process = subprocess.Popen(
            [
                f"{java}/bin/java",
                "-Xmx512m",
                f"-Dlogback.configurationFile={logging}",
                "-cp",
                f"{ROOT}/bench/target/lib/*",
                "org.gaul.s3proxy.Main",
                "--properties",
                str(configuration),
            ],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._make_bucket():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("the S3 server did not start")
            time.sleep(0.01)

    def _make_bucket(self) -> bool:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT"))
        except urllib.error.HTTPError:
            return True  # it is there already
        except urllib.error.URLError:
            return False
        return True

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def objects(self) -> list[Path]:
        """The files of whole objects. A folder that goes meanwhile, with its last object, has none."""
        top = self._folder / "objects" / BUCKET
        return [Path(folder, name) for folder, _, names in os.walk(top) for name in names]


class BadDay(socketserver.ThreadingTCPServer):
    """Passes connections on to a server, or does what ``mode`` says with what they ask.

    Modes: ``pass``; ``reset``; ``stall`` (takes the request and is silent; a connection that lost something breaks when that is
    over); ``slow`` (``delay_s``, half a second, before each
    answer); ``truncate`` (closes amid the answer); ``corrupt`` (turns a bit of what is sent back); ``corrupt_requests``
    (turns a bit of what is asked); a number: that status.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.server = server
        self.mode: str | int = "pass"
        self.delay_s = 0.5
        self.clients: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def break_connections(self) -> None:
        """Ends all connections there are: after a turned bit, the two sides of one may wait for each other for ever."""
        for client in list(self.clients):
            _end(client)


class _Connection(socketserver.BaseRequestHandler):
    server: BadDay

    def handle(self) -> None:
        self.server.clients.add(self.request)
        try:
            self._handle()
        except OSError:
            pass
        finally:
            self.server.clients.discard(self.request)

    def _handle(self) -> None:
        with socket.create_connection(self.server.server) as upstream:
            answers = threading.Thread(target=self._answers, args=(upstream,), daemon=True)
            answers.start()
            try:
                self._requests(upstream)
            finally:
                # Closing alone would end nothing as long as the other thread reads.
                _end(upstream)
                answers.join(5)

    def _requests(self, upstream: socket.socket) -> None:
        while data := self.request.recv(1 << 16):
            mode = self.server.mode
            if mode == "stall":
                self._swallow()
            if mode in ("reset", "stall"):
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self.request.close()
                return
            if isinstance(mode, int):
                reason = f"<Error><Code>Test{mode}</Code><Message>as it was told to</Message></Error>".encode()
                self.request.sendall(
                    b"HTTP/1.1 %d Test\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n"
                    b"Connection: close\r\n\r\n%s" % (mode, len(reason), reason)
                )
                # The rest of the body is read: otherwise a reset would lose the answer.
                self.request.settimeout(1)
                self.request.shutdown(socket.SHUT_WR)
                while self.request.recv(1 << 16):
                    pass
                return
            upstream.sendall(_turned(data) if mode == "corrupt_requests" else data)

    def _swallow(self) -> None:
        """Takes what comes, as long as the mode says so."""
        self.request.settimeout(0.1)
        while self.server.mode == "stall":
            try:
                if not self.request.recv(1 << 16):
                    return
            except TimeoutError:
                pass

    def _answers(self, upstream: socket.socket) -> None:
        try:
            while data := upstream.recv(1 << 16):
                mode = self.server.mode
                if mode == "slow":
                    time.sleep(self.server.delay_s)
                if mode == "truncate" and len(data) > 2000:
                    self.request.sendall(data[: len(data) // 2])
                    break
                if mode == "corrupt":
                    data = _turned(data)
                self.request.sendall(data)
        except OSError:
            pass
        finally:
            # Also of a reset: a client that has asked, and has nothing more to say, would wait for ever.
            _end(self.request)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _turned(data: bytes) -> bytes:
    """With one bit turned amid a piece of bulk."""
    if len(data) <= 8000:
        return data
    turned = bytearray(data)
    turned[len(data) // 2] ^= 4
    return bytes(turned)
