"""The example of a router for prefill and decode, between doubles of engines."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kvtier_testing.daemon import eventually

from checks.shared.checkout import ROOT

ROUTER = ROOT / "examples" / "prefill-decode" / "router.py"
TOLD = {"kvtier": {"expect_tokens": 512, "expect_s": 2.0, "expect_from": "node-0"}}
STREAM = [b'data: {"choices": [{"text": "a"}]}\n\n', b'data: {"choices": [{"text": "b"}]}\n\n', b"data: [DONE]\n\n"]


class EngineDouble:
    """A server in place of an engine, which notes each request."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                double.asked.append((self.path, said))
                double.headers.append(dict(self.headers))
                answer(self, said)

            def do_GET(self) -> None:
                double.asked.append((self.path, {}))
                answer(self, {})

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "EngineDouble":
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def prefills(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 200, json.dumps({"choices": [{"text": "a"}], "kv_transfer_params": TOLD}).encode())


def decodes(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 200, b'{"choices": [{"text": "ab"}]}')


@contextlib.contextmanager
def router(*arguments: str) -> Iterator[int]:
    """A router in a process of its own; its port."""
    process = subprocess.Popen(
        [sys.executable, str(ROUTER), "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("router ready at http://127.0.0.1:"), ready + process.communicate()[1]
        yield int(ready.rpartition(":")[2])
    finally:
        process.terminate()
        process.communicate(timeout=30)


def ask(port: int, said: Any, path: str = "/v1/completions", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        connection.request("POST", path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_prompt_isPrefilled_andWhatIsSaidOfIt_reachesTheDecodeEngine(path: str) -> None:
    said = {"model": "m", "prompt": "p", "max_tokens": 50, "max_completion_tokens": 50, "stream_options": {}, "n": 2, "min_tokens": 9, "seed": 1}
    with EngineDouble(prefills) as prefill, EngineDouble(decodes) as decode, router("--prefill", prefill.url, "--decode", decode.url) as port:
        assert ask(port, said, path, {"Authorization": "Bearer key"}) == (200, b'{"choices": [{"text": "ab"}]}')
    (first,), (second,) = prefill.asked, decode.asked
    assert first[0] == second[0] == path
    assert first[1]["max_tokens"] == 1 and first[1]["stream"] is False and first[1]["seed"] == 1
    assert first[1]["max_completion_tokens"] == (1 if "chat" in path else 50)
    assert not first[1].keys() & {"stream_options", "n", "min_tokens"}
    assert first[1]["kv_transfer_params"] == {"do_remote_decode": True, "do_remote_prefill": False}
    assert second[1] == said | {"kv_transfer_params": TOLD}
    assert prefill.headers[0]["Authorization"] == decode.headers[0]["Authorization"] == "Bearer key"
    assert prefill.headers[0]["X-Request-Id"] == decode.headers[0]["X-Request-Id"]


def test_wishesOfTheClient_areKept() -> None:
    said = {"prompt": "p", "kv_transfer_params": {"kvtier": {"keep_s": 60, "expect_s": 5}, "other": 1}}
    with EngineDouble(prefills) as prefill, EngineDouble(decodes) as decode, router("--prefill", prefill.url, "--decode", decode.url) as port:
        ask(port, said)
    assert prefill.asked[0][1]["kv_transfer_params"]["kvtier"] == {"keep_s": 60, "expect_s": 5}
    assert decode.asked[0][1]["kv_transfer_params"] == {"kvtier": {"expect_tokens": 512, "expect_s": 5, "expect_from": "node-0", "keep_s": 60}, "other": 1}


def test_stream_isPassedOnPieceByPiece() -> None:
    """The decode engine sends a piece only when the client has the one before."""
    received = threading.Semaphore(0)

    def streams(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for number, piece in enumerate(STREAM):
            assert number == 0 or received.acquire(timeout=60)
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    with EngineDouble(prefills) as prefill, EngineDouble(streams) as decode, router("--prefill", prefill.url, "--decode", decode.url) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "p", "stream": True}))
            response = connection.getresponse()
            assert response.getheader("Content-Type") == "text/event-stream"
            for piece in STREAM:
                assert response.read1(1 << 16) == piece
                received.release()
            assert response.read1(1 << 16) == b""


def refuses(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 500, b'{"error": "no memory"}')


def babbles(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 200, b"<html>")


def hangs_up(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def is_silent(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    time.sleep(1)
    hangs_up(handler, said)


def says_nonsense(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 200, b'{"kv_transfer_params": [1]}')


@pytest.mark.parametrize("failure", [refuses, babbles, hangs_up, is_silent, says_nonsense])
def test_prefillEngineFails_theDecodeEngineComputes(failure: Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]) -> None:
    with EngineDouble(failure) as prefill, EngineDouble(decodes) as decode:
        with router("--prefill", prefill.url, "--decode", decode.url, "--prefill-timeout", "0.5") as port:
            assert ask(port, {"prompt": "p"})[0] == 200
        assert len(prefill.asked) == 1 and decode.asked == [("/v1/completions", {"prompt": "p"})]


def test_noPrefillEngineListens_theDecodeEngineComputes() -> None:
    with EngineDouble(prefills) as gone:
        url = gone.url
    with EngineDouble(decodes) as decode, router("--prefill", url, "--decode", decode.url) as port:
        assert ask(port, {"prompt": "p"})[0] == 200
    assert decode.asked == [("/v1/completions", {"prompt": "p"})]


@pytest.mark.parametrize(("prompt", "is_prefilled"), [(["a", "b"], False), ([[1, 2], [3]], False), (["a"], True), ([1, 2, 3], True)])
def test_severalPrompts_areNotPrefilled(prompt: Any, is_prefilled: bool) -> None:
    with EngineDouble(prefills) as prefill, EngineDouble(decodes) as decode, router("--prefill", prefill.url, "--decode", decode.url) as port:
        assert ask(port, {"prompt": prompt})[0] == 200
    assert len(prefill.asked) == is_prefilled and len(decode.asked) == 1


def test_severalEngines_takeTurns() -> None:
    with contextlib.ExitStack() as stack:
        prefill, decode = ([stack.enter_context(EngineDouble(answer)) for _ in range(2)] for answer in (prefills, decodes))
        named = [word for kind, some in (("--prefill", prefill), ("--decode", decode)) for one in some for word in (kind, one.url)]
        port = stack.enter_context(router(*named))
        for _ in range(4):
            assert ask(port, {"prompt": "p"})[0] == 200
    assert [len(one.asked) for one in (*prefill, *decode)] == [2, 2, 2, 2]


def test_atOnce_theDecodeEngineHasTheRequestBeforeThePrefillEngineAnswers() -> None:
    """The first request teaches the router the name of the prefill engine's node."""
    decoding = threading.Event()

    def prefills_late(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        if said["prompt"] == "second":
            assert decoding.wait(60)
        prefills(handler, said)

    def decodes_second(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        if said["prompt"] == "second":
            decoding.set()
        decodes(handler, said)

    with EngineDouble(prefills_late) as prefill, EngineDouble(decodes_second) as decode:
        with router("--prefill", prefill.url, "--decode", decode.url, "--at-once", "--prefill-timeout", "30") as port:
            assert ask(port, {"prompt": "first"})[0] == 200
            said = {"prompt": "second", "kv_transfer_params": {"kvtier": {"priority": 2}}}
            assert ask(port, said) == (200, b'{"choices": [{"text": "ab"}]}')
        assert eventually(lambda: len(prefill.asked) == 2)
    first, second = (one["kv_transfer_params"]["kvtier"] for _, one in decode.asked)
    assert first == TOLD["kvtier"]
    assert second == {"expect_tokens": 1 << 30, "expect_s": 30, "expect_from": "node-0", "priority": 2}


def says_nothing(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
    send(handler, 200, b'{"choices": [{"text": "a"}]}')


@pytest.mark.parametrize(("has_begun", "ends_by_close"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("failure", [refuses, hangs_up, is_silent, says_nothing])
def test_atOnce_prefillEngineFails_theDecodeEngineComputes_unlessItHasBegun(
    failure: Callable[[BaseHTTPRequestHandler, dict[str, Any]], None], has_begun: bool, ends_by_close: bool
) -> None:
    failed, received = threading.Event(), threading.Event()

    def prefills_once(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        if said["prompt"] == "first":
            prefills(handler, said)
            return
        assert not has_begun or received.wait(60)
        failure(handler, said)
        failed.set()

    def waits(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        """An engine that sends its head at once, and waits for blocks."""
        if "expect_tokens" not in said.get("kv_transfer_params", {}).get("kvtier", {}) or said["prompt"] == "first":
            decodes(handler, said)
            return
        handler.send_response(200)
        handler.send_header(*(("Connection", "close") if ends_by_close else ("Transfer-Encoding", "chunked")))
        handler.end_headers()
        if has_begun:
            handler.wfile.write(b"5\r\nbegun\r\n")
        assert failed.wait(60)
        handler.connection.settimeout(60)
        if has_begun:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            assert handler.rfile.read(1) == b"", "the router did not end the request"
            handler.close_connection = True

    with EngineDouble(prefills_once) as prefill, EngineDouble(waits) as decode:
        with router("--prefill", prefill.url, "--decode", decode.url, "--at-once", "--prefill-timeout", "0.5") as port:
            assert ask(port, {"prompt": "first"})[0] == 200
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "second"}))
                response = connection.getresponse()
                received.set()
                assert response.read() == (b"begun" if has_begun else b'{"choices": [{"text": "ab"}]}')
            # The decode engine may note a request that was ended behind the one that was sent again.
            assert eventually(lambda: len(decode.asked) == (2 if has_begun else 3))
            assert [one.get("kv_transfer_params") for _, one in decode.asked[1:]].count(None) == (0 if has_begun else 1)

            def takes_turns() -> bool:
                before = len(decode.asked)
                ask(port, {"prompt": "third"})
                return [one.get("kv_transfer_params") for _, one in decode.asked[before:]] == [None]

            assert eventually(takes_turns), "the router still believes that the prefill engine stores blocks"


def test_decodeEngineFails_theClientIsTold() -> None:
    with EngineDouble(decodes) as gone:
        url = gone.url
    with EngineDouble(prefills) as prefill, router("--prefill", prefill.url, "--decode", url) as port:
        status, body = ask(port, {"prompt": "p"})
        assert status == 502 and f"decode engine {url} does not answer" in json.loads(body)["error"]["message"]


def test_decodeEngineRefuses_theClientSeesItsAnswer() -> None:
    with EngineDouble(refuses) as decode, router("--decode", decode.url) as port:
        assert ask(port, {"prompt": "p"}) == (500, b'{"error": "no memory"}')


def test_streamBreaksOff_theClientSeesNoEnd() -> None:
    def breaks_off(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(STREAM[0]), STREAM[0]))
        hangs_up(handler, said)

    with EngineDouble(breaks_off) as decode, router("--decode", decode.url) as port:
        with pytest.raises(http.client.IncompleteRead):
            ask(port, {"prompt": "p", "stream": True})


def test_clientGoes_theDecodeEngineSeesIt() -> None:
    gone = threading.Event()

    def streams_forever(handler: BaseHTTPRequestHandler, said: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(STREAM[0]), STREAM[0]))
                time.sleep(0.01)
        except OSError:
            gone.set()
            handler.close_connection = True

    with EngineDouble(streams_forever) as decode, router("--decode", decode.url) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "p", "stream": True}))
        assert connection.getresponse().read1(10)
        connection.close()
        assert eventually(gone.is_set)


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v1/completions", b"{", 400, "the request is no JSON"),
        ("/v1/completions", b"\xff\xfe", 400, "the request is no JSON"),
        ("/v1/completions", b"[" * 200_000, 400, "the request is no JSON"),
        ("/v1/completions", b"[1]", 400, "the request is [1]; expected a JSON object"),
        ("/v1/embeddings", b"{}", 404, "there is no /v1/embeddings"),
    ],
)
def test_badRequest_isRefused_andNoEngineIsAsked(path: str, body: bytes, status: int, text: str) -> None:
    with EngineDouble(prefills) as prefill, EngineDouble(decodes) as decode, router("--prefill", prefill.url, "--decode", decode.url) as port:
        answered, said = ask(port, body, path)
        assert answered == status and text in json.loads(said)["error"]["message"]
        assert not prefill.asked and not decode.asked
        assert ask(port, {"prompt": "p"})[0] == 200


@pytest.mark.parametrize(("header", "status"), [("", b"411"), ("Content-Length: many\r\n", b"411"), (f"Content-Length: {1 << 40}\r\n", b"413")])
def test_requestWithoutAProperLength_isRefused(header: str, status: bytes) -> None:
    with EngineDouble(decodes) as decode, router("--decode", decode.url) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: a\r\n{header}\r\n".encode())
            assert client.recv(4096).startswith(b"HTTP/1.1 " + status)
        assert not decode.asked


def test_clientOfHttp10_getsAnAnswerWithoutChunks() -> None:
    with EngineDouble(decodes) as decode, router("--decode", decode.url) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
            with client.makefile("rb") as answer:
                head, _, body = answer.read().partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head and body == b'{"choices": [{"text": "ab"}]}'


def test_models_areThoseOfTheDecodeEngine() -> None:
    with EngineDouble(decodes) as decode, router("--decode", decode.url) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/v1/models")
            assert connection.getresponse().read() == b'{"choices": [{"text": "ab"}]}'
            connection.request("GET", "/metrics")
            assert connection.getresponse().status == 404
    assert decode.asked == [("/v1/models", {})]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: --decode"),
        (["--decode", "10.0.0.8:8000"], "'10.0.0.8:8000' is no address of an engine; expected one such as http://10.0.0.7:8000"),
        (["--decode", "http://a:99999"], "is no address of an engine"),
        (["--decode", "http://a:1", "--prefill-timeout", "nan"], "'nan' is no time; expected seconds, such as 60"),
        (["--decode", "http://a:1", "--port", "70000"], "cannot listen at 127.0.0.1:70000"),
    ],
)
def test_badArguments_areRefused(arguments: list[str], text: str) -> None:
    ended = subprocess.run([sys.executable, str(ROUTER), *arguments], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and text in ended.stderr
