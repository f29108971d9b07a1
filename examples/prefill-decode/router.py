"""A router for prefill and decode in different engines, with an interface like OpenAI's.

    python router.py --prefill http://10.0.0.7:8000 --decode http://10.0.0.8:8000

Each request goes to a prefill engine first, which computes the prompt, stores its blocks and generates one token. The engine's answer has
`kv_transfer_params`. The router passes them to a decode engine with the request, and passes the decode engine's answer on. If the prefill
engine fails, the decode engine computes the prompt.

With --at-once, the decode engine gets the request at the same time, with the name of the prefill engine's node. Its daemon then takes the
blocks from that node while the prompt is still being computed. The router learns the name from the first answer of each prefill engine.

It needs nothing but Python. It is an example: it knows nothing of load, of prefixes, or of engines that come and go.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import logging
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, urlsplit

_log = logging.getLogger("router")

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
PASSED_ON = ("/v1/models", "/health", "/version")
"""paths that the decode engine answers alone"""
BODY_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 64 << 10
_ALL_TOKENS = 1 << 30
"""more than any prompt has: all its whole blocks are expected"""
_EXPECT_S_MAX = 600.0
"""the longest time that an engine waits for blocks"""
_FAILURES = (OSError, http.client.HTTPException, ValueError)
"""what a request to a prefill engine raises that fails"""
_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
"""headers of one connection: the router makes its own for the other one"""


class Refused(Exception):
    """A request that no engine is asked about."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Options:
    """How engines are asked."""

    prefill_timeout_s: float = 60.0
    """a prefill engine that does not answer within this time has failed"""
    decode_timeout_s: float = 600.0
    """a decode engine that sends nothing for this time has failed"""
    at_once: bool = False
    """whether a decode engine gets a request while the prefill engine computes it"""


class Prefill:
    """The work of a prefill engine on one request, while a decode engine waits for its blocks. When no blocks come, the decode engine's
    connection is ended, unless its answer has begun: it would wait in vain."""

    def __init__(self, compute: Callable[[], Any], otherwise: dict[str, Any]) -> None:
        """
        Args:
            compute: the prefill engine's answer; raises where the engine fails.
            otherwise: the request for a decode engine that computes the prompt itself.
        """
        self.otherwise = otherwise
        self._compute = compute
        self._lock = threading.Lock()
        self._has_failed = False
        self._waiting: socket.socket | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            has_stored = bool(node_of(self._compute()))
        except _FAILURES:
            has_stored = False
        if not has_stored:
            with self._lock:
                self._has_failed = True
                end(self._waiting)

    def watch(self, waiting: socket.socket) -> None:
        """A decode engine waits at this connection."""
        with self._lock:
            self._waiting = waiting
            if self._has_failed:
                end(waiting)

    def let_go(self) -> bool:
        """The decode engine's answer has begun, or it waits no more; returns whether its connection was ended."""
        with self._lock:
            self._waiting = None
            return self._has_failed


def end(connection: socket.socket | None) -> None:
    """Wakes the thread that waits for an answer, if there is one."""
    if connection is not None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already


class Router:
    """Chooses engines in turns. Threads share it."""

    def __init__(self, prefill: Sequence[SplitResult], decode: Sequence[SplitResult], options: Options) -> None:
        """`prefill` and `decode`: addresses of engines; without prefill engines all requests go to the decode engines alone."""
        self._prefill = itertools.cycle(prefill) if prefill else None
        self._decode = itertools.cycle(decode)
        self._options = options
        self._nodes: dict[SplitResult, str] = {}
        """by prefill engine, the name of its node; empty if its last answer had none"""

    def asked(self, path: str, said: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], Prefill | None]:
        """A request as the decode engine gets it, after a prefill engine has computed its prompt, or while one does."""
        if self._prefill is None or is_batch(said):
            return said, None
        engine = next(self._prefill)
        node = self._nodes.get(engine, "")
        if not self._options.at_once or not node:
            return self._prefilled(engine, path, said, headers), None
        prefill = Prefill(lambda: self._computed(engine, path, prefill_request(path, said), headers), said)
        expected = {"expect_tokens": _ALL_TOKENS, "expect_s": min(self._options.prefill_timeout_s, _EXPECT_S_MAX), "expect_from": node}
        return decode_request(said, {"kv_transfer_params": {"kvtier": expected}}), prefill

    def _prefilled(self, engine: SplitResult, path: str, said: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        try:
            return decode_request(said, self._computed(engine, path, prefill_request(path, said), headers))
        except _FAILURES:
            return said

    def _computed(self, engine: SplitResult, path: str, asked: dict[str, Any], headers: dict[str, str]) -> Any:
        """The answer of a prefill engine.

        Raises:
            OSError, http.client.HTTPException, ValueError: it has failed.
        """
        try:
            answer = self._answer(engine, path, asked, headers)
        except _FAILURES as error:
            self._nodes.pop(engine, None)
            _log.warning("prefill engine %s failed, so the decode engine computes the prompt: %s", engine.geturl(), error)
            raise
        self._nodes[engine] = node_of(answer)
        return answer

    def _answer(self, engine: SplitResult, path: str, asked: dict[str, Any], headers: dict[str, str]) -> Any:
        connection = connect(engine, self._options.prefill_timeout_s)
        try:
            connection.request("POST", engine.path.rstrip("/") + path, json.dumps(asked), headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"it answered {response.status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    def decoding(self) -> tuple[SplitResult, http.client.HTTPConnection]:
        """A decode engine, and a connection to it, which the caller closes."""
        engine = next(self._decode)
        return engine, connect(engine, self._options.decode_timeout_s)


def connect(engine: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if engine.scheme == "https" else http.client.HTTPConnection
    return kind(str(engine.hostname), engine.port, timeout=timeout_s)


def node_of(answer: Any) -> str:
    """The name of a prefill engine's node; empty if it says none, as of a prompt of which it stored nothing."""
    told = params_of(answer).get("kvtier") if isinstance(answer, dict) else None
    node = told.get("expect_from") if isinstance(told, dict) else None
    return node if isinstance(node, str) else ""


def is_batch(said: dict[str, Any]) -> bool:
    """Whether a request has several prompts: `kv_transfer_params` can be those of one prompt only."""
    prompt = said.get("prompt")
    return isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)


def prefill_request(path: str, said: dict[str, Any]) -> dict[str, Any]:
    """A request as the prefill engine gets it: with one token to generate."""
    asked = {name: value for name, value in said.items() if name not in ("stream_options", "min_tokens", "n", "best_of")}
    asked |= {"stream": False, "max_tokens": 1}
    if path == CHAT and "max_completion_tokens" in said:
        asked["max_completion_tokens"] = 1
    # An engine with kv_role kv_both answers kv_transfer_params only if it is asked to.
    asked["kv_transfer_params"] = {"do_remote_decode": True, "do_remote_prefill": False} | params_of(said)
    return asked


def decode_request(said: dict[str, Any], answer: Any) -> dict[str, Any]:
    """A request as the decode engine gets it, after the prefill engine's answer."""
    told = params_of(answer) if isinstance(answer, dict) else {}
    own = params_of(said)
    both = {name: told[name] | own[name] for name in told.keys() & own.keys() if isinstance(told[name], dict) and isinstance(own[name], dict)}
    params = told | own | both
    return said | {"kv_transfer_params": params} if params else said


def params_of(said: dict[str, Any]) -> dict[str, Any]:
    params = said.get("kv_transfer_params")
    return params if isinstance(params, dict) else {}


class Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    # Otherwise a token waits until the client has acknowledged the one before.
    disable_nagle_algorithm = True
    router: Router

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in PASSED_ON:
            self._refuse(Refused(404, f"there is no {self.path}; there are {', '.join((COMPLETIONS, CHAT, *PASSED_ON))}"))
            return
        self._pass_on("GET", None, {})

    def do_POST(self) -> None:
        try:
            if self.path not in (COMPLETIONS, CHAT):
                raise Refused(404, f"there is no {self.path}; there are {COMPLETIONS} and {CHAT}")
            said = self._said()
        except Refused as refused:
            self._refuse(refused)
            return
        headers = self._headers_for_engines()
        asked, prefill = self.router.asked(self.path, said, headers)
        self._pass_on("POST", asked, headers, prefill)

    def _said(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(411, "the request has no Content-Length; expected one")
        if int(length) > BODY_BYTES_MAX:
            raise Refused(413, f"the request has {length} bytes; expected at most {BODY_BYTES_MAX}")
        body = self.rfile.read(int(length))
        try:
            said = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the request is no JSON: {error}") from error
        if not isinstance(said, dict):
            raise Refused(400, f"the request is {body[:80].decode(errors='replace')}; expected a JSON object")
        return said

    def _headers_for_engines(self) -> dict[str, str]:
        made = {"Content-Type": "application/json", "X-Request-Id": self.headers.get("X-Request-Id") or uuid.uuid4().hex}
        if "Authorization" in self.headers:
            made["Authorization"] = self.headers["Authorization"]
        return made

    def _pass_on(self, method: str, asked: dict[str, Any] | None, headers: dict[str, str], prefill: Prefill | None = None) -> None:
        """Passes a request to a decode engine, and its answer to the client; a second time if the prefill engine fails meanwhile."""
        engine, connection = self.router.decoding()
        with contextlib.closing(connection):
            problem: Exception | None = None
            try:
                connection.request(method, engine.path.rstrip("/") + self.path, None if asked is None else json.dumps(asked).encode(), headers)
                if prefill is not None:
                    prefill.watch(connection.sock)
                response = connection.getresponse()
                rest = pieces(response)
                first = next(rest, b"")
            except (OSError, http.client.HTTPException) as error:
                problem = error
            # An answer of a connection that was ended has no body, or a part of one.
            if prefill is None or not prefill.let_go():
                if problem is None:
                    self._answer(engine, response, itertools.chain([first] if first else [], rest))
                else:
                    self._refuse(Refused(502, f"decode engine {engine.geturl()} does not answer: {problem}"))
                return
        self._pass_on(method, prefill.otherwise, headers)

    def _answer(self, engine: SplitResult, response: http.client.HTTPResponse, body: Iterable[bytes]) -> None:
        try:
            self._send(response, body)
        except (OSError, http.client.HTTPException) as error:
            # The client has gone, so that its engine stops; or the engine has, and the client sees an answer without an end.
            _log.warning("an answer of decode engine %s broke off: %s", engine.geturl(), error)
            self.close_connection = True

    def _send(self, response: http.client.HTTPResponse, body: Iterable[bytes]) -> None:
        """Passes an answer on piece by piece, as it comes."""
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        # A client of HTTP/1.0 knows no chunks: its answer ends with the connection.
        has_chunks = self.request_version != "HTTP/1.0"
        if has_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        for piece in body:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if has_chunks else piece)
        if has_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, refused: Refused) -> None:
        # The rest of a request that was not read must not be taken for the next request.
        self.close_connection = True
        body = json.dumps({"error": {"message": str(refused), "type": "router_error", "code": refused.status}}).encode()
        self.send_response(refused.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)


def pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The bytes of an answer as they arrive, until its end."""
    while piece := response.read1(_CHUNK_BYTES):
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


class Server(ThreadingHTTPServer):
    """The router's socket."""

    request_queue_size = 1024
    """how many clients can connect at a time; with the usual 5, a further one tries again after a second"""


def address(text: str) -> SplitResult:
    """An engine's address, checked."""
    url = urlsplit(text)
    try:
        is_good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise argparse.ArgumentTypeError(f"{text!r} is no address of an engine; expected one such as http://10.0.0.7:8000")
    return url


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; expected seconds, such as 60")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="router.py", description="Sends prompts to prefill engines, and then to decode engines.")
    parser.add_argument("--prefill", type=address, action="append", default=[], help="a prefill engine; can be repeated")
    parser.add_argument("--decode", type=address, action="append", required=True, help="a decode engine; can be repeated")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: a free one")
    parser.add_argument("--prefill-timeout", type=seconds, default=Options.prefill_timeout_s, metavar="SECONDS")
    parser.add_argument("--decode-timeout", type=seconds, default=Options.decode_timeout_s, metavar="SECONDS")
    parser.add_argument("--at-once", action="store_true", help="a decode engine gets a request while the prefill engine computes it")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    Handler.router = Router(chosen.prefill, chosen.decode, Options(chosen.prefill_timeout, chosen.decode_timeout, chosen.at_once))
    try:
        server = Server((chosen.host, chosen.port), Handler)
    except (OSError, OverflowError) as error:
        sys.exit(f"router.py: error: cannot listen at {chosen.host}:{chosen.port}: {error}")
    host, port = server.server_address[:2]
    print(f"router ready at http://{str(host)}:{port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
