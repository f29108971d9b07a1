"""The operations over gRPC, written once for both front ends.

An operation is a generator. It yields a call and is sent its answer, or a `Failure`; the front end decides how to wait:

========  ======================================================
yields    meaning
========  ======================================================
`Call`    a message each way; the answer is sent
`Fetch`   a stream of answers, each of which goes to ``take``
`Store`   a stream of messages; the answer is sent
========  ======================================================
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kvtier import _core
from kvtier import _protocol as protocol
from kvtier._connection import NamespaceProperties
from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument
from kvtier._operations import check_annotations, check_memory, leading_run, spans, wrong_option
from kvtier._protocol import Status, Tier
from kvtier._types import Count, FoundNodes, Get, LoadReport, Lookup, NodeHold, Ping, Retained, checked_importance, lifetime_ns
from kvtier.client import as_keys
from kvtier.remote import _wire
from kvtier.remote._link import Failure, Registered
from kvtier.v1 import kvtier_pb2 as v1

T = TypeVar("T")
Operation: TypeAlias = Generator[Any, Any, T]

_OK = Status.OK
NODES_MAX = 1024
"""the most nodes that a daemon names in an answer"""
_LOOKED_UP_BYTES = 64 << 10
"""A put of this many bytes or more begins with a lookup, and sends only the blocks that are not there."""
_PRIORITIES = {
    protocol.REQUEST_PRIORITY_HIGH: v1.PRIORITY_HIGH,
    protocol.REQUEST_PRIORITY_LOW: v1.PRIORITY_LOW,
}


class Call(NamedTuple):
    """A message each way."""

    method: str
    request: Any


class Fetch(NamedTuple):
    """A Get, each of whose messages goes to `take`; the answer is None."""

    request: Any
    take: Callable[[bytes], None]


class Store(NamedTuple):
    """A Put of these messages."""

    messages: Callable[[], Iterator[bytes]]


class Context(NamedTuple):
    """The fields that the calls of an operation share."""

    registered: Registered
    properties: NamespaceProperties
    answer_by_ns: int
    priority: int
    group: int
    parent: bytes | None
    depth: int
    importance: int

    def keys(self, number: int, keys: Sequence[bytes], start: int, count: int) -> Any:
        """`keys[start:start + count]`: the key before them is their parent."""
        parent = keys[start - 1] if start else self.parent
        return v1.Keys(
            namespace_id=number,
            group=self.group,
            keys=keys[start : start + count],
            parent=b"" if parent is None else parent,
            depth=self.depth + start,
        )


def context_of(
    registered: Registered,
    properties: NamespaceProperties,
    answer_by_ns: int,
    *,
    timeout: float | None = None,
    deadline_ns: int | None = None,
    priority: int = protocol.REQUEST_PRIORITY_NORMAL,
    group: int = 0,
    parent: bytes | None = None,
    depth: int = 0,
    importance: int = protocol.REQUEST_IMPORTANCE_NORMAL,
    **unknown: object,
) -> Context:
    """The context of an operation with these options. `answer_by_ns` stands for the timeout or the deadline."""
    if unknown or not (isinstance(priority, int) and isinstance(group, int) and isinstance(depth, int)):
        raise wrong_option(unknown, priority=priority, group=group, depth=depth)
    return Context(registered, properties, answer_by_ns, priority, group, parent, depth, checked_importance(importance))


def checked(keys: Iterable[bytes]) -> Sequence[bytes]:
    """Keys that the protocol takes.

    Raises:
        InvalidArgument: their lengths differ, or are not 1 to 32 bytes.
        TypeError: one is not bytes.
    """
    keys = as_keys(keys)
    for key in keys:
        if not isinstance(key, bytes):
            raise TypeError(f"a key is {key!r}; expected bytes")
        if not 0 < len(key) <= protocol.KEY_BYTES_MAX or len(key) != len(keys[0]):
            raise InvalidArgument(
                f"a key has {len(key)} bytes; expected 1 to {protocol.KEY_BYTES_MAX}, and all keys of one length"
            )
    return keys


def _status(code: int) -> Status:
    return Status(code) if 0 <= code < len(Status) else Status.INTERNAL


def outcome_of(answer: Any) -> tuple[Status, str]:
    """The status of a call as a whole, and the reason in words."""
    if isinstance(answer, Failure):
        return answer.status, answer.text
    return _status(answer.outcome.status), answer.outcome.text


def ping(is_connected: bool) -> Operation[Ping]:
    """A client that is not connected asks twice: connecting is not part of the round trip."""
    if not is_connected:
        answer = yield Call("Ping", v1.PingRequest())
        if isinstance(answer, Failure):
            return Ping(answer.status, 0.0, answer.text)
    started_ns = monotonic_ns()
    answer = yield Call("Ping", v1.PingRequest())
    round_trip_ns = monotonic_ns() - started_ns
    status, text = outcome_of(answer)
    if status is not _OK:
        return Ping(status, 0.0, text or status.name)
    return Ping(status, round_trip_ns / 1e9, "", answer.version)


def stats() -> Operation[dict[str, Any]]:
    """The daemon's statistics; empty when it does not answer."""
    answer = yield Call("Stats", v1.StatsRequest())
    if outcome_of(answer)[0] is not _OK:
        return {}
    found: dict[str, Any] = json.loads(answer.json)
    return found


def counters() -> Operation[dict[str, int]]:
    """The daemon's counters; empty when it does not answer."""
    answer = yield Call("Stats", v1.StatsRequest())
    if outcome_of(answer)[0] is not _OK:
        return {}
    return {name: answer.counters[name] for name in protocol.COUNTERS if name in answer.counters}


def register(registered: Registered, properties: NamespaceProperties) -> Operation[tuple[Status, str]]:
    """Makes the namespace known to the daemon."""
    lines = dict(line.split("=", 1) for line in properties.text.decode().split("\n"))
    name = lines.pop("name")
    answer = yield Call(
        "Register", v1.RegisterRequest(name=name, block_bytes=properties.block_bytes, properties=lines)
    )
    status, text = outcome_of(answer)
    if status is _OK:
        registered.add(properties, answer.namespace_id, answer.chunk_bytes_max)
    return status, text


def known(context: Context, call: Callable[[int], Operation[tuple[Status, Any]]]) -> Operation[tuple[Status, Any]]:
    """Carries out a call that names the namespace by its number. A restarted daemon has forgotten the number: the call
    then did nothing, and is made once more with a new number."""
    for _ in range(2):
        number = context.registered.number(context.properties)
        if number is None:
            status, _ = yield from register(context.registered, context.properties)
            if status is not _OK:
                return status, None
            number = context.registered.number(context.properties)
            if number is None:
                continue  # the daemon has forgotten this number, too
        status, answer = yield from call(number)
        if status is not Status.NAMESPACE_UNKNOWN:
            return status, answer
        context.registered.forget(context.properties, number)
    return Status.NAMESPACE_UNKNOWN, None


def _asked(call: Any) -> Operation[tuple[Status, Any]]:
    answer = yield call
    return outcome_of(answer)[0], answer


def _statuses(status: Status, answer: Any, count: int) -> list[Status]:
    """A status for each block of an answer."""
    if status is not _OK:
        return [status] * count
    if len(answer.blocks) != count:
        return [Status.INTERNAL] * count
    return [_status(block.status) for block in answer.blocks]


def for_keys(context: Context, method: str, keys: Iterable[bytes]) -> Operation[list[Status]]:
    """Prefetch, Pin, Unpin, Delete: a status for each key."""
    keys = checked(keys)
    statuses: list[Status] = []
    for start, count in spans(len(keys), protocol.KEYS_MAX):
        status, answer = yield from _part(context, method, keys, start, count)
        statuses += _statuses(status, answer, count)
    return statuses


def retain(context: Context, keys: Iterable[bytes], lifetime_s: float) -> Operation[Retained]:
    """Retain: a status for each key, and why the daemon refused."""
    keys = checked(keys)
    lifetime = lifetime_ns(lifetime_s)
    statuses: list[Status] = []
    reason = ""
    for start, count in spans(len(keys), protocol.KEYS_MAX):

        def ask(number: int, start: int = start, count: int = count) -> Operation[tuple[Status, Any]]:
            request = v1.RetainRequest(keys=context.keys(number, keys, start, count), lifetime_ns=lifetime)
            return (yield from _asked(Call("Retain", request)))

        status, answer = yield from known(context, ask)
        if status is not _OK and answer is not None and not reason:
            reason = outcome_of(answer)[1]
        statuses += _statuses(status, answer, count)
    return Retained(statuses, reason)


def _part(
    context: Context, method: str, keys: Sequence[bytes], start: int, count: int
) -> Operation[tuple[Status, Any]]:
    """Makes a call about `keys[start:start + count]`."""

    def ask(number: int) -> Operation[tuple[Status, Any]]:
        request = v1.KeysRequest(keys=context.keys(number, keys, start, count))
        return (yield from _asked(Call(method, request)))

    return (yield from known(context, ask))


def lookup(context: Context, keys: Iterable[bytes]) -> Operation[Lookup]:
    keys = checked(keys)
    run = 0
    load_ns = 0
    parts: list[tuple[Status, int, bytes]] = []
    for start, count in spans(len(keys), protocol.KEYS_MAX):
        status, answer = yield from _part(context, "Lookup", keys, start, count)
        if status is _OK and len(answer.blocks) != count:
            status = Status.INTERNAL
        if status is not _OK:
            parts.append((status, count, b""))
            continue
        if run == start:
            run += min(answer.leading_run, count)
            load_ns += answer.estimated_load_ns
        parts.append((_OK, count, b"".join(_short(block) for block in answer.blocks)))
    return Lookup(run, load_ns / 1e9, parts)


def find_nodes(context: Context, keys: Iterable[bytes], limit: int) -> Operation[FoundNodes]:
    keys = checked(keys)
    if not 1 <= len(keys) <= protocol.KEYS_MAX:
        raise InvalidArgument(f"{len(keys)} keys; expected 1 to {protocol.KEYS_MAX}")
    if not 1 <= limit <= NODES_MAX:
        raise InvalidArgument(f"limit is {limit!r}; expected 1 to {NODES_MAX}")

    def ask(number: int) -> Operation[tuple[Status, Any]]:
        request = v1.FindNodesRequest(keys=context.keys(number, keys, 0, len(keys)), limit=limit)
        return (yield from _asked(Call("FindNodes", request)))

    status, answer = yield from known(context, ask)
    if status is not _OK:
        return FoundNodes(status, [], "" if answer is None else outcome_of(answer)[1])
    nodes = [
        NodeHold(node.name, node.address, node.is_self, node.run, node.memory_run, node.estimated_load_ns / 1e9)
        for node in answer.nodes
    ]
    return FoundNodes(_OK, nodes, "")


def _short(block: Any) -> bytes:
    """A block's result in the form of the local protocol."""
    tier = block.tier if 0 <= block.tier < len(Tier) else Tier.NONE
    return (_status(block.status) | tier << 16).to_bytes(protocol.COMPLETION_SHORT_RESULT_BYTES, "little")


def counted(context: Context, method: str) -> Operation[Count]:
    """Clear, Flush: how many blocks."""

    def ask(number: int) -> Operation[tuple[Status, Any]]:
        return (yield from _asked(Call(method, v1.NamespaceRequest(namespace_id=number))))

    status, answer = yield from known(context, ask)
    return Count(status, answer.blocks if status is _OK else 0)


def report_loads(context: Context, report: LoadReport) -> Operation[Status]:
    blocks, tokens, prefill_ns, load_ns = report.checked()

    def ask(number: int) -> Operation[tuple[Status, Any]]:
        request = v1.ReportLoadsRequest(
            namespace_id=number, blocks=blocks, tokens=tokens, prefill_ns=prefill_ns, load_ns=load_ns
        )
        return (yield from _asked(Call("ReportLoads", request)))

    status, _ = yield from known(context, ask)
    return status


def part_of(memory: Any, index: int, block_bytes: int) -> memoryview:
    """The bytes of one block in a caller's memory."""
    if isinstance(memory, (list, tuple)):
        return memoryview(memory[index]).cast("B")
    return memoryview(memory).cast("B")[index * block_bytes : (index + 1) * block_bytes]


class _Sink:
    """Takes the messages of a Get, and checks their places and lengths: the daemon may be hostile."""

    def __init__(self, into: object, start: int, count: int, block_bytes: int) -> None:
        self.statuses: list[Status] = [Status.UNAVAILABLE] * count
        self.refusal: Status | None = None
        self._into = into
        self._start = start
        self._block_bytes = block_bytes
        self._block = -1
        self._filled = 0
        self._crc = 0
        self._view: memoryview | None = None

    def take(self, received: bytes) -> None:
        message, data = _wire.split(received)
        if message.HasField("refusal"):
            self.refusal = _status(message.refusal.status)
            return
        index = message.block
        if not 0 <= index < len(self.statuses):
            raise ValueError(f"bytes of block {index}, of {len(self.statuses)}")
        if index != self._block:
            self._block = index
            self._filled = 0
            self._crc = 0
            self._view = part_of(self._into, self._start + index, self._block_bytes)
        view = self._view
        assert view is not None
        size = len(data)
        if size:
            end = self._filled + size
            if message.offset != self._filled or end > self._block_bytes:
                raise ValueError(f"{size} bytes at {message.offset} of a block, of which {self._filled} have come")
            self._crc = _core.copy_crc32c(view[self._filled : end], data, self._crc)
            self._filled = end
        if message.last:
            self.statuses[index] = self._ended(message)

    def _ended(self, message: Any) -> Status:
        status = _status(message.status)
        if status is not _OK:
            return status
        if self._filled != self._block_bytes or self._crc != message.crc32c:
            return Status.CORRUPT
        return _OK


def get(
    context: Context, keys: Iterable[bytes], into: object, leading_run_only: bool, no_wait: bool, expected_from: str = ""
) -> Operation[Get]:
    keys = checked(keys)
    block_bytes = context.properties.block_bytes
    check_memory(into, len(keys), block_bytes, True)
    statuses: list[Status] = []
    for start, count in spans(len(keys), protocol.KEYS_MAX):

        def ask(number: int, start: int = start, count: int = count) -> Operation[tuple[Status, list[Status]]]:
            sink = _Sink(into, start, count, block_bytes)
            answer = yield Fetch(
                v1.GetRequest(
                    keys=context.keys(number, keys, start, count),
                    leading_run=leading_run_only,
                    no_wait=no_wait,
                    priority=_PRIORITIES.get(context.priority, v1.PRIORITY_NORMAL),
                    expected_from=expected_from,
                ),
                sink.take,
            )
            if sink.refusal is not None:
                return sink.refusal, []
            if isinstance(answer, Failure):
                # Blocks that came before the failure are whole, and checked.
                sink.statuses = [answer.status if one is Status.UNAVAILABLE else one for one in sink.statuses]
            return _OK, sink.statuses

        status, answers = yield from known(context, ask)
        statuses += answers if status is _OK else [status] * count
        if leading_run_only and Status.MISS in statuses[start:]:
            statuses += [Status.MISS] * (len(keys) - start - count)
            break
    return Get(leading_run(statuses), statuses)


def put(
    context: Context, keys: Iterable[bytes], source: object, annotations: Sequence[bytes | None] | None = None
) -> Operation[list[Status]]:
    """Sends the bytes of those blocks that are not there."""
    keys = checked(keys)
    block_bytes = context.properties.block_bytes
    check_memory(source, len(keys), block_bytes, False)
    if annotations is not None:
        check_annotations(annotations, len(keys))
    statuses: list[Status] = []
    for start, count in spans(len(keys), protocol.KEYS_MAX):

        def ask(number: int, start: int = start, count: int = count) -> Operation[tuple[Status, list[Status]]]:
            named = context.keys(number, keys, start, count)
            is_there = [False] * count
            if count * block_bytes >= _LOOKED_UP_BYTES:
                status, answer = yield from _asked(Call("Lookup", v1.KeysRequest(keys=named)))
                if status is Status.NAMESPACE_UNKNOWN:
                    return status, []
                is_there = [one is _OK for one in _statuses(status, answer, count)]
                if all(is_there):
                    return _OK, [Status.EXISTS] * count
            kept = [] if annotations is None else [one or b"" for one in annotations[start : start + count]]
            header = v1.PutHeader(keys=named, annotations=kept, importance=context.importance)
            chunk_bytes = context.registered.chunk_bytes
            answer = yield Store(lambda: _messages(header, source, start, is_there, block_bytes, chunk_bytes))
            status, _ = outcome_of(answer)
            written = _statuses(status, answer, count)
            return status, [
                Status.EXISTS if skipped and one is Status.MISS else one
                for skipped, one in zip(is_there, written, strict=True)
            ]

        status, answers = yield from known(context, ask)
        statuses += answers if status is _OK else [status] * count
    return statuses


def _messages(
    header: Any, source: object, start: int, is_there: list[bool], block_bytes: int, chunk_bytes: int
) -> Iterator[bytes]:
    """The messages of a Put: the header, then the chunks of the blocks that are not there."""
    yield v1.PutRequest(header=header).SerializeToString()
    for index, skipped in enumerate(is_there):
        if skipped:
            continue
        view = part_of(source, start + index, block_bytes)
        crc = 0
        for offset in range(0, block_bytes, chunk_bytes):
            end = min(offset + chunk_bytes, block_bytes)
            message, crc = _wire.chunk(index, offset, view[offset:end], end == block_bytes, crc)
            yield message
