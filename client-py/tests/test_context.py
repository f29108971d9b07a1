"""The context of requests: what is read of it, who has it when, and what of it comes to the daemon."""

import asyncio
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest
from kvtier_testing.peer import Peer, request
from test_operations import KEYS, PROPERTIES, Driven, driven, granted  # noqa: F401

from kvtier import InvalidArgument, _core, request_context
from kvtier import _operations as operations
from kvtier import _protocol as protocol
from kvtier._context import current, parse
from kvtier._protocol import Status, Verb

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_parse_ofW3csExample_idsAndFlags() -> None:
    assert parse(PARENT) == bytes.fromhex(TRACE + SPAN + "01")
    assert parse(f"cc-{TRACE}-{SPAN}-02-what-comes-then") == bytes.fromhex(TRACE + SPAN + "02")


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE[:-1]}\u0661-{SPAN}-01",
    ],
)
def test_parse_ofWhatIsNone_none(text: str) -> None:
    assert parse(text) is None
    with pytest.raises(InvalidArgument, match="traceparent is"), request_context(text):
        pass


def test_request_context_ofARequestId_isTheTraceIdAndNotSampled() -> None:
    with request_context(request_id="4BF92F35-77b3-4da6-a3ce-929d0e0e4736") as request_id:
        assert request_id == TRACE
        context = current()
        assert context is not None and context[:16].hex() == TRACE and any(context[16:24]) and context[24] == 0
    assert current() is None


@pytest.mark.parametrize("request_id", ["", "chatcmpl-1", "0" * 32, TRACE + "0"])
def test_request_context_ofWhatIsNoRequestId_refused(request_id: str) -> None:
    with pytest.raises(InvalidArgument, match="request_id is"), request_context(request_id=request_id):
        pass


def test_request_context_ofNothing_isNewEachTime() -> None:
    with request_context() as first, request_context() as second:
        assert first != second
        chosen = current()
        assert chosen is not None and chosen[:16].hex() == second


def test_request_context_otherThreadsAndTasks_haveTheirOwn() -> None:
    seen: list[bytes | None] = []
    with request_context(PARENT):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [None]

    async def one(request_id: str) -> bytes | None:
        with request_context(request_id=request_id):
            await asyncio.sleep(0)
            return current()

    async def both() -> list[bytes | None]:
        return list(await asyncio.gather(one("1" * 32), one("2" * 32)))

    assert [context[:16].hex() for context in asyncio.run(both()) if context] == ["1" * 32, "2" * 32]


def opentelemetry(valid: bool) -> ModuleType:
    span = SimpleNamespace(is_valid=valid, trace_id=int(TRACE, 16), span_id=int(SPAN, 16), trace_flags=1)
    module = ModuleType("opentelemetry.trace")
    module.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: span)  # type: ignore[attr-defined]
    return module


def test_current_whereOpenTelemetryHasASpan_isItsContext(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", opentelemetry(True))
    assert current() == parse(PARENT)
    with request_context(request_id="1" * 32):
        context = current()
        assert context is not None and context[:16].hex() == "1" * 32
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", opentelemetry(False))
    assert current() is None


def test_current_whileOpenTelemetryIsImported_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", ModuleType("opentelemetry.trace"))
    assert current() is None


def test_current_withTheRealApi_isItsSpansContext() -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    assert current() is None
    context = trace.SpanContext(int(TRACE, 16), int(SPAN, 16), True, trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert current() == parse(PARENT)


def test_submit_context_standsBehindTheBody(driven: Driven) -> None:  # noqa: F811
    with request_context(PARENT):
        context = operations.context_of(driven.link, PROPERTIES, _core.monotonic_ns() + 10**9)
    assert context.trace == parse(PARENT)
    lookup = operations.lookup(context, KEYS[:3])
    driven.session.submit(next(lookup), 0, context.trace)
    record = driven.peer.request()
    assert record[protocol.REQUEST_FLAGS_OFFSET] == protocol.REQUEST_FLAG_CONTEXT
    assert len(record) == protocol.REQUEST_HEADER_BYTES + 3 * 8 + protocol.REQUEST_CONTEXT_BYTES
    body, context = record[protocol.REQUEST_HEADER_BYTES : -protocol.REQUEST_CONTEXT_BYTES], record[-protocol.REQUEST_CONTEXT_BYTES :]
    assert body == b"".join(KEYS[:3])
    assert context[:24].hex() == TRACE + SPAN and context[32:] == b"\x01" + bytes(7)


def check_reader_told(driven: Driven) -> None:  # noqa: F811
    record = driven.peer.request()
    flags = protocol.REQUEST_FLAG_CORRUPT | protocol.REQUEST_FLAG_SILENT | protocol.REQUEST_FLAG_CONTEXT
    assert record[protocol.REQUEST_FLAGS_OFFSET] == flags
    body = record[protocol.REQUEST_HEADER_BYTES :]
    assert body[:8] == (1).to_bytes(8, "little") and body[8:32].hex() == TRACE + SPAN


def test_get_ofCorruptBytes_releaseSaysWhoReadThem(driven: Driven) -> None:  # noqa: F811
    with request_context(PARENT):
        context = operations.context_of(driven.link, PROPERTIES, _core.monotonic_ns() + 10**10)
    get = operations.get(context, KEYS[:1], bytearray(PROPERTIES.block_bytes), 0, 0, True)
    next(get)
    copy = get.send(granted(1, crc=1))
    with pytest.raises(StopIteration) as stop:
        get.send(copy.function())
    assert stop.value.value == (0, [Status.CORRUPT])
    check_reader_told(driven)


def test_leases_ofCorruptBytes_releaseSaysWhoAcquiredThem(driven: Driven) -> None:  # noqa: F811
    with request_context(PARENT):
        context = operations.context_of(driven.link, PROPERTIES, _core.monotonic_ns() + 10**10)
    acquire = operations.acquire(context, KEYS[:1], 0, 0)
    next(acquire)
    with pytest.raises(StopIteration) as stop:
        acquire.send(granted(1, crc=1, flags=protocol.COMPLETION_BLOCK_FLAG_VERIFY))
    assert stop.value.value.check() == [Status.CORRUPT]
    with request_context(request_id="1" * 32):
        stop.value.value.release()
    check_reader_told(driven)


@pytest.mark.parametrize("context", ["x" * 25, b"x" * 24, 7])
def test_submit_contextOfAnotherKind_refused(context: object) -> None:
    peer = Peer()
    try:
        with pytest.raises(TypeError, match="a context is"):
            peer.session().submit(request(Verb.PING), 0, context)  # type: ignore[arg-type]
    finally:
        peer.close()


def test_submit_flagWithoutContext_refused() -> None:
    peer = Peer()
    try:
        with pytest.raises(InvalidArgument):
            peer.session().submit(request(Verb.PING, flags=protocol.REQUEST_FLAG_CONTEXT), 0)
    finally:
        peer.close()
