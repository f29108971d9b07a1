"""The context that requests are made in: the ids of a trace, as W3C's Recommendation Trace Context has them."""

import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kvtier._errors import InvalidArgument

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_REQUEST_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)

_chosen: ContextVar[bytes | None] = ContextVar("kvtier_request_context", default=None)


@contextmanager
def request_context(traceparent: str | None = None, *, request_id: str | None = None) -> Iterator[str]:
    """Operations that this thread or task begins inside belong to this context. The daemon's log names the request id, which
    is the trace id in hexadecimal. If the context is sampled, the daemon's spans are its children.

    Outside, the current span of OpenTelemetry is the context, if OpenTelemetry is in use.

    Args:
        traceparent: W3C's header. Without it and without a request_id there is a new id.
        request_id: 32 hexadecimal digits, such as a UUID has with hyphens or without; not sampled.

    Yields:
        The request id.

    Raises:
        InvalidArgument: one of them is malformed, or both are given.
    """
    context = _made(traceparent, request_id)
    token = _chosen.set(context)
    try:
        yield context[:16].hex()
    finally:
        _chosen.reset(token)


def _made(traceparent: str | None, request_id: str | None) -> bytes:
    if traceparent is not None:
        context = parse(traceparent)
        if context is None or request_id is not None:
            raise InvalidArgument(f"traceparent is {traceparent!r}; expected W3C's, and no request_id with it")
        return context
    trace = secrets.token_hex(16) if request_id is None else request_id.replace("-", "").lower()
    if not _REQUEST_ID.fullmatch(trace) or int(trace, 16) == 0:
        raise InvalidArgument(f"request_id is {request_id!r}; expected 32 hexadecimal digits, not all zero")
    return bytes.fromhex(trace) + (secrets.randbits(64) | 1).to_bytes(8, "big") + b"\x00"


def parse(traceparent: str) -> bytes | None:
    """Trace id, span id and flags, 25 bytes; None: it is no traceparent. Of a version to come what this one knows."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or int(trace, 16) == 0 or int(span, 16) == 0:
        return None
    return bytes.fromhex(trace + span + flags)


def current() -> bytes | None:
    """The context of what is done now, as `parse` has it; None: there is none."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    # Nobody has a span who has not imported this, and importing it takes long.
    trace = sys.modules.get("opentelemetry.trace")
    # Nor while another thread is still importing it.
    current_span = getattr(trace, "get_current_span", None)
    if current_span is None:
        return None
    span = current_span().get_span_context()
    if not span.is_valid:
        return None
    return bytes(span.trace_id.to_bytes(16, "big") + span.span_id.to_bytes(8, "big") + bytes([span.trace_flags & 0xFF]))
