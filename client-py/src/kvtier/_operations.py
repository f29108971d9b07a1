"""The operations, written once for both front ends.

An operation is a generator. It yields what it needs done and is sent the outcome; the front end decides how to wait:

====================  ==================================  ==========================
yields                meaning                             is sent
====================  ==================================  ==========================
a request (tuple)     submit it, wait for its completion  the completion
`Submit`              submit it                           its ticket
a ticket (int)        wait for its completion             the completion
`Work`                run a function that may take long   what the function returned
====================  ==================================  ==========================

A ticket below zero is the negative of the status that says why nothing was submitted. Whatever a generator holds when
it is closed early it gives back without waiting.
"""

import json
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kvtier import _core
from kvtier import _protocol as protocol
from kvtier._connection import Link, NamespaceProperties
from kvtier._context import current
from kvtier._encoding import Encoding
from kvtier._errors import InvalidArgument, SessionError
from kvtier._protocol import Status, Tier, Verb
from kvtier._types import Count, Get, Held, Holder, Lease, Leases, LoadReport, Lookup, Options, Retained, importance_flags, lifetime_ns

T = TypeVar("T")

_Whole: TypeAlias = tuple[int, int, int, int, int, int, int, int, Sequence[bytes] | bytes | None, int, int, bytes | None]
Request: TypeAlias = (
    _Whole | tuple[int, int, int, int, int, int, int, int, Sequence[bytes] | bytes | None, int, int, bytes | None, int]
)
"""(verb, flags, priority, deadline_ns, namespace, group, depth, argument, body, start, count, parent); of a shard of blocks also
the number of its region, and where each key has a number (region, first layer, end of the layers, event, progress word, numbers)"""

Completion: TypeAlias = tuple[Status, int, int, bytes, bool, int]
"""(status, run, value, body, whether the body is text, verb)"""


class Submit(NamedTuple):
    """Submit this request and do not wait for it."""

    request: Request


class Work(NamedTuple):
    """Run this function; `cost_bytes` tells how long it may take."""

    cost_bytes: int
    function: Callable[[], Any]


Operation: TypeAlias = Generator[Any, Any, T]

WINDOW_BYTES = 16 << 20
"""A put reserves, copies and commits this much at a time, so that the daemon works behind the copy; a get leases it, so
that it does not hold all of a small host tier."""

_MARGIN_NS_MAX = 10_000_000
_COMMITS_OUTSTANDING_MAX = 8
_OK = Status.OK
_INVALID = Status.INVALID_ARGUMENT


class Context(NamedTuple):
    """What an operation's requests have in common."""

    link: Link
    properties: NamespaceProperties
    answer_by_ns: int
    """when the caller gets its answer at the latest"""
    deadline_ns: int
    """what the daemon is told: a little earlier, so that its answer still arrives"""
    priority: int
    group: int
    parent: bytes | None
    depth: int
    trace: bytes | None = None
    """what its requests are made in, where the daemon takes that: trace id, span id and flags"""
    importance_flags: int = 0
    """of the requests that bring blocks"""

    def request(
        self, verb: int, namespace: int, keys: Sequence[bytes], start: int, count: int, flags: int = 0, argument: int = 0
    ) -> _Whole:
        """A request for `keys[start:start + count]`: the key before them is their parent."""
        parent = keys[start - 1] if start else self.parent
        return (
            verb, flags, self.priority, self.deadline_ns, namespace, self.group, self.depth + start, argument, keys,
            start, count, parent,
        )  # fmt: skip

    @property
    def encoding(self) -> Encoding | None:
        """How blocks are encoded; None: not in this namespace, or not with this daemon."""
        return self.properties.encoding if self.link.encodes else None

    @property
    def granules(self) -> tuple[str, int]:
        """The kind of encoding, and the elements of a granule; an empty kind: blocks are not encoded."""
        return ("", 0) if self.encoding is None else (self.encoding.kind, self.encoding.granule_elements)

    def reserve_request(
        self, namespace: int, keys: Sequence[bytes], start: int, count: int, shard: int, encoded: bool = False
    ) -> Request:
        """RESERVE of `keys[start:start + count]`: of whole blocks that are copied and checksummed here, or of a shard."""
        if not shard:
            form = protocol.REQUEST_FLAG_ENCODED if encoded else 0
            flags = protocol.REQUEST_FLAG_CHECKSUMS | form | self.importance_flags
            return self.request(Verb.RESERVE, namespace, keys, start, count, flags)
        whole = self.request(Verb.RESERVE, namespace, keys, start, count, self.importance_flags)
        return (*whole, shard)

    def commit_request(self, namespace: int, pairs: bytes, is_shard: bool = False) -> Request:
        """COMMIT of pairs of a reservation's id and its block's CRC32C, 8 bytes each. A shard has no checksum."""
        if is_shard:
            return self.ids_request(Verb.COMMIT, namespace, b"".join(pairs[at : at + 8] for at in range(0, len(pairs), 16)))
        flags = protocol.REQUEST_FLAG_CHECKSUMS
        return (
            Verb.COMMIT, flags, self.priority, self.deadline_ns, namespace, self.group, 0, 0, pairs, 0, len(pairs) >> 4, None
        )  # fmt: skip

    def ids_request(self, verb: int, namespace: int, ids: bytes) -> Request:
        return (
            verb, 0, self.priority, self.deadline_ns, namespace, self.group, 0, 0, ids, 0, len(ids) >> 3, None
        )  # fmt: skip


def instant_after(timeout: float) -> int:
    """The instant, on the monotonic clock in ns, that lies so many seconds ahead.

    Raises:
        TypeError: it is no number.
        InvalidArgument: it is not a length of time.
    """
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {timeout!r}; expected seconds")
    if not 0 <= timeout < 1e9:
        raise InvalidArgument(f"timeout is {timeout!r}; expected seconds, from 0 and below 1e9")
    return _core.monotonic_ns() + int(timeout * 1e9)


def answer_by(timeout_s: float, options: Options) -> int:
    """When an operation ends at the latest, CLOCK_MONOTONIC ns."""
    deadline_ns = options.get("deadline_ns")
    if deadline_ns is not None:
        if not isinstance(deadline_ns, int):
            raise TypeError(f"deadline_ns is {deadline_ns!r}; expected CLOCK_MONOTONIC in ns, a whole number")
        return deadline_ns
    return instant_after(options.get("timeout", timeout_s))


def context_of(
    link: Link,
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
    """The context of an operation with these options."""
    if unknown or not (isinstance(priority, int) and isinstance(group, int) and isinstance(depth, int)):
        raise wrong_option(unknown, priority=priority, group=group, depth=depth)
    deadline_ns = answer_by_ns - max(margin_ns(answer_by_ns - _core.monotonic_ns()), 0)
    flags = importance_flags(importance)
    return Context(link, properties, answer_by_ns, deadline_ns, priority, group, parent, depth, current(), flags)


def margin_ns(left_ns: int) -> int:
    """The daemon answers by so many ns before the caller's deadline: its answer must still arrive in time."""
    return min(left_ns >> 4, _MARGIN_NS_MAX)


def wrong_option(unknown: dict[str, object], **numbers: object) -> TypeError:
    """The error about an option that does not exist, or else about a number that is none."""
    if unknown:
        return TypeError(
            f"unknown option {next(iter(unknown))!r}; there are timeout, deadline_ns, priority, group, parent, depth, importance "
            "(and leading_run, no_wait, lease_s for acquire and get)"
        )
    name, value = next((name, value) for name, value in numbers.items() if not isinstance(value, int))
    expected = ", a kvtier.Priority" if name == "priority" else ""
    return TypeError(f"{name} is {value!r}; expected a whole number{expected}")


def made(status: Status) -> Completion:
    """A completion that no daemon sent."""
    return (status, 0, 0, b"", False, 0)


def plain_request(verb: int, namespace: int = 0, deadline_ns: int = 0, argument: int = 0, text: bytes = b"") -> _Whole:
    """A request without keys."""
    return (verb, 0, 1, deadline_ns, namespace, 0, 0, argument, text, 0, len(text), None)


def cancel_request(ticket: int) -> Request:
    """CANCEL of what was submitted under this ticket; nobody hears of its outcome."""
    request = plain_request(Verb.CANCEL, argument=ticket)
    return request[:1] + (protocol.REQUEST_FLAG_SILENT,) + request[2:]


def check_annotations(annotations: Sequence[bytes | None], count: int) -> None:
    """What is to be kept with blocks: bytes or nothing for each.

    Raises:
        InvalidArgument: their number is not that of the keys, or one of them is too long.
    """
    if len(annotations) != count:
        raise InvalidArgument(f"{len(annotations)} annotation{'s' * (len(annotations) != 1)} for {count} key{'s' * (count != 1)}")
    for index, annotation in enumerate(annotations):
        if annotation is not None and len(annotation) > protocol.ANNOTATION_ANNOTATION_BYTES_MAX:
            raise InvalidArgument(
                f"annotation {index} has {len(annotation)} bytes, at most "
                f"{protocol.ANNOTATION_ANNOTATION_BYTES_MAX} are possible"
            )


def annotation_requests(
    context: Context, namespace: int, keys: Sequence[bytes], annotations: Sequence[bytes | None]
) -> Iterator[Request]:
    """ANNOTATE of the keys that have an annotation, as many requests as it takes."""
    body = b""
    for key, annotation in zip(keys, annotations, strict=True):
        if not annotation:
            continue
        entry = protocol.ANNOTATION_ENTRY.pack(len(key), 0, len(annotation), 0)
        entry += key + bytes(-len(key) & 7) + annotation + bytes(-len(annotation) & 7)
        if len(body) + len(entry) > protocol.ANNOTATION_BODY_BYTES_MAX:
            yield _annotation_request(context, namespace, body)
            body = b""
        body += entry
    if body:
        yield _annotation_request(context, namespace, body)


def _annotation_request(context: Context, namespace: int, body: bytes) -> Request:
    return (
        Verb.ANNOTATE, 0, context.priority, context.deadline_ns, namespace, context.group, 0, 0, body, 0, len(body), None
    )  # fmt: skip


def annotate(context: Context, keys: Sequence[bytes], annotations: Sequence[bytes | None]) -> Operation[Count]:
    """ANNOTATE: how many blocks have got one."""
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Count(status, 0)
    annotated = 0
    for request in annotation_requests(context, namespace, keys, annotations):
        status, _, value, _, _, _ = yield request
        if status is not _OK:
            return Count(status, annotated)
        annotated += value
    return Count(_OK, annotated)


def _annotate_written(
    context: Context,
    namespace: int,
    keys: Sequence[bytes],
    annotations: Sequence[bytes | None],
    written: list[Status],
) -> Operation[None]:
    """Before their commit, so that the blocks have them when they become visible; nobody waits for the answers."""
    wanted = [annotation if status is _OK else None for annotation, status in zip(annotations, written, strict=True)]
    for request in annotation_requests(context, namespace, keys, wanted):
        ticket = yield Submit(request)
        if ticket > 0:
            context.link.forget(ticket)


def spans(count: int, most: int) -> list[tuple[int, int]]:
    """`count` things in order, at most `most` at a time, as (start, count)."""
    return [(start, min(most, count - start)) for start in range(0, count, most)]


def leading_run(statuses: list[Status]) -> int:
    """How many from the first are OK."""
    if statuses.count(_OK) == len(statuses):
        return len(statuses)
    return next(index for index, status in enumerate(statuses) if status is not _OK)


def _checked(link: Link, completion: Completion, count: int, unit: int) -> Completion:
    """The completion, or what stands for it when it does not have a result for each block."""
    if completion[0] is not _OK:
        if completion[3] and not completion[4] and unit == protocol.COMPLETION_LONG_RESULT_BYTES:
            link.session.give_back(completion[5], _core.granted_ids(completion[3]))
    elif completion[4] or len(completion[3]) != count * unit:
        link.session.fail(f"an answer of {len(completion[3])} bytes for {count} blocks of {unit} bytes each")
        return made(Status.UNAVAILABLE)
    return completion


def short_statuses(link: Link, completion: Completion, count: int) -> list[Status]:
    """A status for each block of a completion with short results."""
    completion = _checked(link, completion, count, protocol.COMPLETION_SHORT_RESULT_BYTES)
    return _core.short_statuses(completion[3]) if completion[0] is _OK else [completion[0]] * count


def register(link: Link, properties: NamespaceProperties, deadline_ns: int) -> Operation[tuple[Status, str]]:
    """Makes the namespace known to the link's session. Why not, in words, comes with a status that is not OK."""
    status, _, value, body, is_text, _ = yield plain_request(
        Verb.REGISTER, 0, deadline_ns, properties.block_bytes, properties.text
    )
    if status is _OK:
        link.namespaces[properties] = value
    return status, body.decode(errors="replace") if is_text else ""


def _namespace_id(context: Context) -> Operation[tuple[int, Status]]:
    """The namespace's id in this session: after a reconnect it is registered again here."""
    known = context.link.namespaces.get(context.properties)
    if known is None:
        status, _ = yield from register(context.link, context.properties, context.deadline_ns)
        if status is not _OK:
            return 0, status
        known = context.link.namespaces[context.properties]
    return known, _OK


def _shard_id(context: Context, namespace: int, text: bytes) -> Operation[tuple[int, Status]]:
    """The region's id in this session: after a reconnect it is registered again here."""
    known = context.link.shards.get((context.properties, text))
    if known is None:
        request = plain_request(Verb.REGISTER_REGION, namespace, context.deadline_ns, 0, text)
        status, _, value, body, is_text, _ = yield request
        if status is _INVALID and is_text:
            raise InvalidArgument(body.decode(errors="replace"))
        if status is not _OK:
            return 0, status
        known = context.link.shards[context.properties, text] = value
    return known, _OK


def register_shard(context: Context, text: bytes) -> Operation[Status]:
    """Registers a region in host memory.

    Raises:
        InvalidArgument: the daemon refuses it; the message says why.
    """
    namespace, status = yield from _namespace_id(context)
    if status is _OK:
        _, status = yield from _shard_id(context, namespace, text)
    return status


def for_keys(context: Context, verb: Verb, keys: Sequence[bytes]) -> Operation[list[Status]]:
    """PREFETCH, PIN, UNPIN, DELETE: a status for each key."""
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return [status] * len(keys)
    statuses: list[Status] = []
    for start, count in spans(len(keys), protocol.KEYS_MAX):
        completion = yield context.request(verb, namespace, keys, start, count)
        statuses += short_statuses(context.link, completion, count)
    return statuses


def retain(context: Context, keys: Sequence[bytes], lifetime_s: float) -> Operation[Retained]:
    """RETAIN: a status for each key, and why the daemon refused."""
    lifetime = lifetime_ns(lifetime_s)
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Retained([status] * len(keys), "")
    statuses: list[Status] = []
    reason = ""
    for start, count in spans(len(keys), protocol.KEYS_MAX):
        completion = yield context.request(Verb.RETAIN, namespace, keys, start, count, argument=lifetime)
        if completion[4] and not reason:
            reason = completion[3].decode(errors="replace")
        statuses += short_statuses(context.link, completion, count)
    return Retained(statuses, reason)


def lookup(context: Context, keys: Sequence[bytes], fresh: bool = False) -> Operation[Lookup]:
    """LOOKUP. With `fresh` other nodes are asked again about blocks that they did not have a moment ago."""
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Lookup.of_status(status, len(keys))
    run = 0
    load_ns = 0
    parts: list[tuple[Status, int, bytes]] = []
    holder: Holder | None = None
    for start, count in spans(len(keys), protocol.KEYS_MAX):
        completion = yield context.request(Verb.LOOKUP, namespace, keys, start, count, _fresh_flag(context, fresh))
        completion, found = _holder_of(completion, count)
        if found is not None and start == 0:
            holder = found
        elif found is not None and holder is not None and holder.run == start and found.region == holder.region:
            holder = holder._replace(run=start + found.run)
        completion = _checked(context.link, completion, count, protocol.COMPLETION_SHORT_RESULT_BYTES)
        if run == start:
            run += completion[1]
            load_ns += completion[2]
        parts.append((completion[0], count, completion[3]))
    return Lookup(run, load_ns / 1e9, parts, holder)


def answer_of(link: Link, completion: Completion, count: int) -> Lookup:
    """What a LOOKUP of `count` keys was answered."""
    completion, holder = _holder_of(completion, count)
    status, run, load_ns, body, _, _ = _checked(link, completion, count, protocol.COMPLETION_SHORT_RESULT_BYTES)
    return Lookup(run, load_ns / 1e9, [(status, count, body)], holder)


def _fresh_flag(context: Context, fresh: bool) -> int:
    return protocol.REQUEST_FLAG_FRESH if fresh and context.link.asks_nodes_again else 0


def lookup_groups(
    context: Context, groups: Sequence[tuple[NamespaceProperties, Sequence[bytes]]], fresh: bool = False
) -> Operation[list[Lookup]]:
    """As `lookup` of several namespaces, with one request for each `KEYS_MAX` keys. The namespace of the context is not used."""
    if len(groups) == 1:
        properties, keys = groups[0]
        answer = yield from lookup(context if context.properties is properties else context._replace(properties=properties), keys, fresh)
        return [answer]
    numbers: list[int] = []
    refusals: list[Status] = []
    for properties, _ in groups:
        number, status = yield from _namespace_id(context._replace(properties=properties))
        numbers.append(number)
        refusals.append(status)
    asked = [at for at, (_, keys) in enumerate(groups) if refusals[at] is _OK and keys]
    together: list[bytes] = []
    of_keys = array("I")
    for at in asked:
        together += groups[at][1]
        of_keys += array("I", [numbers[at]]) * len(groups[at][1])
    body = b""
    load_ns = 0
    for start, count in spans(len(together), protocol.KEYS_MAX):
        request = context.request(Verb.LOOKUP_GROUPS, numbers[asked[0]], together, start, count, _fresh_flag(context, fresh))
        completion = yield (*request[:-1], None, (0, 0, 0, 0, 0, of_keys[start : start + count].tobytes()))
        completion = _checked(context.link, completion, count, protocol.COMPLETION_SHORT_RESULT_BYTES)
        if completion[0] is not _OK:
            return [Lookup.of_status(completion[0], len(keys)) for _, keys in groups]
        body += completion[3]
        load_ns += completion[2]
    found = []
    begin = 0
    for at, (_, keys) in enumerate(groups):
        if refusals[at] is not _OK or not keys:
            found.append(Lookup.of_status(refusals[at], len(keys)))
            continue
        end = begin + len(keys) * protocol.COMPLETION_SHORT_RESULT_BYTES
        answer = Lookup(0, load_ns / 1e9, [(_OK, len(keys), body[begin:end])])
        gap = answer.present.find(0)
        answer.run = len(keys) if gap < 0 else gap
        found.append(answer)
        begin = end
    return found


def _holder_of(completion: Completion, count: int) -> tuple[Completion, Holder | None]:
    """Takes what stands behind the results from them."""
    status, run, value, body, is_text, verb = completion
    results = count * protocol.COMPLETION_SHORT_RESULT_BYTES
    if status is not _OK or is_text or len(body) != results + protocol.COMPLETION_PEERS_BYTES:
        return completion, None
    return (status, run, value, body[:results], is_text, verb), Holder(*protocol.COMPLETION_PEERS.unpack_from(body, results))


def _ends_run(completion: Completion, count: int, flags: int) -> bool:
    """Whether only the leading run is wanted and one of these blocks is nowhere: then nothing further is asked for."""
    return (
        completion[1] < count
        and bool(flags & protocol.REQUEST_FLAG_LEADING_RUN)
        and Status.MISS in _core.long_statuses(completion[3])
    )


def get(
    context: Context, keys: Sequence[bytes], into: object, flags: int, lease_ns: int, verify_all: bool
) -> Operation[Get]:
    """Acquire, copy out, release; the next window is acquired while this one is copied."""
    link = context.link
    session = link.session
    block_bytes = context.properties.block_bytes
    flags = _reading(context, flags)
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Get(0, [status] * len(keys))
    windows = deque(spans(len(keys), max(1, min(protocol.KEYS_MAX, WINDOW_BYTES // block_bytes))))
    statuses = [Status.UNAVAILABLE] * len(keys)
    ticket = 0
    try:
        while windows:
            start, count = windows.popleft()
            if ticket == 0:
                completion = yield context.request(Verb.ACQUIRE, namespace, keys, start, count, flags, lease_ns)
            else:
                completion = yield ticket
                ticket = 0
            completion = _checked(link, completion, count, protocol.COMPLETION_LONG_RESULT_BYTES)
            if completion[0] is not _OK:
                statuses[start : start + count] = [completion[0]] * count
                continue
            body = completion[3]
            if _ends_run(completion, count, flags):
                # Only what memory had no room for before is still asked for.
                behind = start + count
                statuses[behind:] = [Status.MISS] * (len(keys) - behind)
                windows = deque(window for window in windows if window[0] < start)
            ids = _core.granted_ids(body)
            held = Held(session, [ids], set(), context.trace)
            try:
                if windows:
                    ticket = yield Submit(context.request(Verb.ACQUIRE, namespace, keys, *windows[0], flags, lease_ns))
                copied = _core.long_statuses(body) if completion[1] < count else []
                if 0 < completion[1] < count and copied[completion[1]] is Status.BUSY:
                    # There is room for the rest when this is given back.
                    windows.append((start + completion[1], count - completion[1]))
                if ids:
                    mapped = yield from _map(context, body, False)
                    arguments = (session, link.read_slabs, body, start, into, block_bytes, completion[2], verify_all, *context.granules)
                    if count * block_bytes <= _INLINE_BYTES:
                        copied = _core.gather(*arguments)
                    else:
                        copied = yield Work(count * block_bytes, lambda: _core.gather(*arguments))  # noqa: B023
                    if Status.CORRUPT in copied:
                        for lease, outcome in zip(_core.long_results(body), copied, strict=True):
                            if lease[0] is _OK and outcome is Status.CORRUPT:
                                held.add_corrupt(lease[4])
                    copied = _explained(copied, mapped)
                statuses[start : start + count] = copied
            finally:
                held.release()
    except SessionError as error:
        session.fail(str(error))
    finally:
        if ticket > 0:
            link.forget(ticket)
    return Get(leading_run(statuses), statuses)


_INLINE_BYTES = 128 << 10


def _reading(context: Context, flags: int) -> int:
    """The flags of an ACQUIRE whose blocks are read by this client, or copied for it."""
    return flags | (protocol.REQUEST_FLAG_ENCODED if context.encoding is not None else 0)


def _map(context: Context, body: bytes, writable: bool) -> Operation[Status]:
    """Maps the slabs that granted blocks lie in. OK, or what to say of blocks in slabs that stay unmapped."""
    link = context.link
    missing = _core.granted_slabs(body) - (link.write_slabs if writable else link.read_slabs).keys()
    if not missing:
        return _OK
    # Mapping asks the daemon on the socket, and its first pages are touched by the copy: never inline.
    outcome: Status = yield Work(1 << 30, lambda: link.map_slabs(missing, writable, context.answer_by_ns))
    return outcome


def _explained(statuses: list[Status], mapped: Status) -> list[Status]:
    """The statuses, where STALE may stand for a slab that could not be mapped for another reason."""
    if mapped is _OK:
        return statuses
    return [mapped if status is Status.STALE else status for status in statuses]


def put(
    context: Context,
    keys: Sequence[bytes],
    source: object,
    annotations: Sequence[bytes | None] | None = None,
    shard_text: bytes = b"",
) -> Operation[list[Status]]:
    """Reserve, copy in, commit. The next window is reserved, and the last ones become visible, behind the copy.

    Args:
        shard_text: the region whose shard of each block is put; empty: whole blocks.
    """
    namespace, status = yield from _namespace_id(context)
    shard = 0
    if status is _OK and shard_text:
        shard, status = yield from _shard_id(context, namespace, shard_text)
    if status is not _OK:
        return [status] * len(keys)
    link = context.link
    session = link.session
    block_bytes = context.properties.block_bytes
    encoded = context.encoding is not None and not shard
    windows = deque(spans(len(keys), max(1, min(protocol.KEYS_MAX, WINDOW_BYTES // block_bytes))))
    unfit: deque[tuple[int, int]] = deque()
    statuses: list[Status] = [Status.UNAVAILABLE] * len(keys)
    commits: deque[_Commit] = deque()
    ticket = 0
    try:
        while windows or unfit:
            if not windows:
                # The statuses of the commits under way stand for these blocks, too.
                yield from _settle_commits(context.link, commits, statuses, 0)
                windows, unfit, encoded = unfit, windows, False
            start, count = windows.popleft()
            if ticket == 0:
                completion = yield context.reserve_request(namespace, keys, start, count, shard, encoded)
            else:
                completion = yield ticket
                ticket = 0
            if windows:
                ticket = yield Submit(context.reserve_request(namespace, keys, *windows[0], shard, encoded))
            completion = _checked(context.link, completion, count, protocol.COMPLETION_LONG_RESULT_BYTES)
            if completion[0] is not _OK:
                statuses[start : start + count] = [completion[0]] * count
                continue
            written, ids = yield from _write(context, completion[3], start, source, not windows)
            if encoded:
                unfit.extend((start + first, length) for first, length in _runs_of(_UNFIT, written))
            if not ids:
                statuses[start : start + count] = written
                continue
            if annotations is not None:
                span = slice(start, start + count)
                yield from _annotate_written(context, namespace, keys[span], annotations[span], written)
            commit = context.commit_request(namespace, ids, is_shard=shard != 0)
            if not windows and not commits:
                statuses[start : start + count] = _merged(context.link, written, (yield commit), len(ids) >> 4)
                continue
            commits.append((start, written, (yield Submit(commit)), len(ids) >> 4))
            yield from _settle_commits(context.link, commits, statuses, _COMMITS_OUTSTANDING_MAX if windows else 0)
        yield from _settle_commits(context.link, commits, statuses, 0)
    except SessionError as error:
        session.fail(str(error))
    finally:
        if ticket > 0:
            link.forget(ticket)
        for _, _, committed, _ in commits:
            if committed > 0:
                link.forget(committed)
    return statuses


_Commit: TypeAlias = tuple[int, list[Status], int, int]
"""(the window's first block, its statuses, the commit's ticket, how many blocks it commits)"""


def _settle_commits(link: Link, commits: deque[_Commit], statuses: list[Status], outstanding: int) -> Operation[None]:
    """Waits for the first commits, until so many are left."""
    while len(commits) > outstanding:
        place, written, committed, committed_count = commits.popleft()
        answer = yield committed
        statuses[place : place + len(written)] = _merged(link, written, answer, committed_count)


_UNFIT = Status.TOO_LARGE
"""a block that does not fit its encoded slot, and is put raw then"""


def _runs_of(status: Status, statuses: list[Status]) -> list[tuple[int, int]]:
    """The runs of blocks with this status, as (first, how many)."""
    runs: list[tuple[int, int]] = []
    for index, one in enumerate(statuses):
        if one is not status:
            continue
        if runs and sum(runs[-1]) == index:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs


def _write(
    context: Context, body: bytes, start: int, source: object, is_last: bool
) -> Operation[tuple[list[Status], bytes]]:
    """Copies a window into its slots: statuses, and the ids to commit with their checksums. What was not written is aborted."""
    link = context.link
    granted = _core.granted_ids(body)
    if not granted:
        return _core.long_statuses(body), b""
    block_bytes = context.properties.block_bytes
    ids = b""
    if not link.session.begin_writing():
        return [Status.UNAVAILABLE] * (len(body) // protocol.COMPLETION_LONG_RESULT_BYTES), b""
    try:
        mapped = yield from _map(context, body, True)
        arguments = (link.write_slabs, body, start, source, block_bytes)
        # Nobody waits for a commit that is not the last.
        announced = (link.session if is_last else None, *context.granules)
        cost_bytes = (len(granted) >> 3) * block_bytes
        if cost_bytes <= _INLINE_BYTES:
            statuses, ids = _core.scatter(*arguments, *announced)
        else:
            statuses, ids = yield Work(cost_bytes, lambda: _core.scatter(*arguments, *announced))
        return _explained(statuses, mapped), ids
    finally:
        link.session.end_writing()
        if len(ids) != 2 * len(granted):
            kept = {ids[at : at + 8] for at in range(0, len(ids), 16)}
            every = (granted[at : at + 8] for at in range(0, len(granted), 8))
            link.session.give_back(Verb.RESERVE, b"".join(one for one in every if one not in kept))


def _merged(link: Link, statuses: list[Status], committed: Completion, count: int) -> list[Status]:
    """The statuses of a window: of what was written, what its commit says."""
    answers = short_statuses(link, committed, count)
    if count == len(statuses):
        return answers
    following = iter(answers)
    return [next(following) if status is _OK else status for status in statuses]


def acquire(
    context: Context, keys: Sequence[bytes], flags: int, lease_ns: int, node: str = "", decodes: bool = True
) -> Operation[Leases]:
    """Leases on all windows; they end with the earliest of them. With a node, blocks that are nowhere yet are expected from there.

    Args:
        decodes: whether encoded blocks are decoded now. If not, only `Leases.read` gives their bytes.
    """
    link = context.link
    session = link.session
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Leases.of_status(status, len(keys), context.properties.block_bytes)
    flags = _reading(context, flags)
    leases: list[Lease] = []
    held: list[bytes] = []
    expires_ns = 0
    unmapped = Status.STALE
    windows = spans(len(keys), protocol.KEYS_MAX)
    tickets: deque[int] = deque()
    try:
        if node and link.expects:
            # The blocks of all windows are expected at once: the node writes the first layers of all of them first.
            for start, count in windows:
                tickets.append((yield Submit(_expecting(context.request(Verb.ACQUIRE, namespace, keys, start, count, flags, lease_ns), node))))
        for start, count in windows:
            completion = yield (
                tickets.popleft() if tickets else context.request(Verb.ACQUIRE, namespace, keys, start, count, flags, lease_ns)
            )
            completion = _checked(link, completion, count, protocol.COMPLETION_LONG_RESULT_BYTES)
            if completion[0] is not _OK:
                leases += [Lease(completion[0])] * count
                continue
            body = completion[3]
            ids = _core.granted_ids(body)
            if ids:
                held.append(ids)
                expires_ns = min(expires_ns or completion[2], completion[2])
                mapped = yield from _map(context, body, False)
                if mapped is not _OK:
                    unmapped = mapped
            leases += [Lease(*fields) for fields in _core.long_results(body)]
            if _ends_run(completion, count, flags):
                leases += [Lease(Status.MISS)] * (len(keys) - start - count)
                break
            if completion[1] < count and Status.BUSY in _core.long_statuses(body):
                # The blocks leased so far fill the memory: further blocks would wait in vain.
                leases += [Lease(Status.BUSY)] * (len(keys) - start - count)
                break
        properties = context.properties
        result = Leases(session, link.read_slabs, leases, held, expires_ns, properties.block_bytes, unmapped, context.trace)
        held = []
        encoding = properties.encoding
        if encoding is not None:
            result.expect(encoding)
            if decodes:
                yield Work(len(keys) * properties.block_bytes, result.decode)
        return result
    except SessionError as error:
        session.fail(str(error))
        return Leases.of_status(Status.UNAVAILABLE, len(keys), context.properties.block_bytes)
    finally:
        for ticket in tickets:
            if ticket > 0:
                link.forget(ticket)
        for ids in held:
            session.give_back(Verb.ACQUIRE, ids)


def _expecting(request: _Whole, node: str) -> Request:
    """An ACQUIRE of blocks that a node is going to have."""
    return (*request[:1], request[1] | protocol.REQUEST_FLAG_EXPECTED, *request[2:], _core.crc32c(node.encode()))


class Hold(NamedTuple):
    """Leases that keep blocks in host memory, for somebody else to read them there."""

    run: int
    """how many blocks from the first are held"""
    statuses: list[Status]
    leases: Held | None
    expires_ns: int
    """when the leases end, CLOCK_MONOTONIC; 0: there are none"""
    refusal: Status = Status.OK
    """why nothing, or nothing more, was asked for; OK: the daemon has answered for each block"""


def hold(context: Context, keys: Sequence[bytes], lease_ns: int, node: str = "") -> Operation[Hold]:
    """Leases on the leading run, as `acquire` takes them, but without mapped slabs.

    Args:
        node: the node from which blocks that are nowhere yet are expected; with a node there are at most KEYS_MAX keys.
    """
    if node and not context.link.expects:
        return Hold(0, [Status.MISS] * len(keys), None, 0, Status.VERSION_MISMATCH)
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Hold(0, [status] * len(keys), None, 0, status)
    statuses: list[Status] = []
    refusal = _OK
    held = Held(context.link.session, [], set())
    expires_ns = 0
    try:
        for start, count in spans(len(keys), protocol.KEYS_MAX):
            flags = _reading(context, protocol.REQUEST_FLAG_LEADING_RUN)
            request = context.request(Verb.ACQUIRE, namespace, keys, start, count, flags, lease_ns)
            completion = yield _expecting(request, node) if node else request
            completion = _checked(context.link, completion, count, protocol.COMPLETION_LONG_RESULT_BYTES)
            if completion[0] is not _OK:
                refusal = completion[0]
                statuses.append(refusal)
                break
            statuses += _core.long_statuses(completion[3])
            ids = _core.granted_ids(completion[3])
            if ids:
                held.ids.append(ids)
                expires_ns = min(expires_ns or completion[2], completion[2])
            if completion[1] < count:
                break
        answer = Hold(leading_run(statuses), statuses, held if held.ids else None, expires_ns, refusal)
        held = Held(context.link.session, [], set())
        return answer
    finally:
        held.release()


class Reserved(NamedTuple):
    """Slots to be written: what `reserve` hands to a front end."""

    namespace: int
    statuses: list[Status]
    ids: list[int]
    views: list[memoryview | None]


def reserve(context: Context, keys: Sequence[bytes]) -> Operation[Reserved]:
    link = context.link
    session = link.session
    block_bytes = context.properties.block_bytes
    namespace, status = yield from _namespace_id(context)
    nothing = Reserved(namespace, [status] * len(keys), [0] * len(keys), [None] * len(keys))
    if status is not _OK:
        return nothing
    reserved = Reserved(namespace, [], [], [])
    held: list[bytes] = []
    try:
        for start, count in spans(len(keys), protocol.KEYS_MAX):
            completion = yield context.request(Verb.RESERVE, namespace, keys, start, count, context.importance_flags)
            completion = _checked(link, completion, count, protocol.COMPLETION_LONG_RESULT_BYTES)
            if completion[0] is not _OK:
                mapped = _OK
                results = [(completion[0], Tier.NONE, 0, 0, 0, 0, 0, 0)] * count
            else:
                held.append(_core.granted_ids(completion[3]))
                mapped = yield from _map(context, completion[3], True)
                results = _core.long_results(completion[3])
            for status, _, _, _, identity, slab, length, offset in results:
                view = None
                if status is _OK:
                    view = slot_view(link.write_slabs, slab, offset, length, block_bytes)
                    if view is None:
                        session.give_back(Verb.RESERVE, identity.to_bytes(8, "little"))
                        status, identity = mapped if mapped is not _OK else Status.STALE, 0
                reserved.statuses.append(status)
                reserved.ids.append(identity)
                reserved.views.append(view)
        held = []
        if any(view is not None for view in reserved.views) and not session.begin_writing():
            # The slots may be others' already.
            return nothing._replace(statuses=[Status.UNAVAILABLE] * len(keys))
        return reserved
    except SessionError as error:
        session.fail(str(error))
        return nothing._replace(statuses=[Status.UNAVAILABLE] * len(keys))
    finally:
        for ids in held:
            session.give_back(Verb.RESERVE, ids)


def commit(context: Context, namespace: int, ids: bytes) -> Operation[list[Status]]:
    statuses: list[Status] = []
    for start, count in spans(len(ids) >> 3, protocol.KEYS_MAX):
        completion = yield context.ids_request(Verb.COMMIT, namespace, ids[8 * start : 8 * (start + count)])
        statuses += short_statuses(context.link, completion, count)
    return statuses


def slot_view(
    slabs: dict[int, _core.Slab], slab: int, offset: int, length: int, block_bytes: int
) -> memoryview | None:
    """The bytes of a slot; None where its slab could not be mapped.

    Raises:
        SessionError: the slot does not lie in its slab or has not a block's length.
    """
    mapped = slabs.get(slab)
    if mapped is None:
        return None
    if length != block_bytes or offset + length > len(mapped):
        raise SessionError(f"block of {length} bytes at offset {offset} of slab {slab}, expected {block_bytes} bytes")
    return memoryview(mapped)[offset : offset + length]


def counted(context: Context, verb: Verb) -> Operation[Count]:
    """CLEAR, FLUSH: how many blocks."""
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return Count(status, 0)
    status, _, value, _, _, _ = yield plain_request(verb, namespace, context.deadline_ns)
    return Count(status, value if status is _OK else 0)


def node_name(context: Context) -> Operation[str]:
    """STATS: the name by which other nodes know the daemon; empty if it serves none, or if there is no answer."""
    status, _, _, body, _, _ = yield plain_request(Verb.STATS, 0, context.deadline_ns)
    name = json.loads(body).get("node") if status is _OK else None
    return name if isinstance(name, str) else ""


def report_loads(context: Context, report: LoadReport) -> Operation[Status]:
    """REPORT_LOADS."""
    blocks, tokens, prefill_ns, load_ns = report.checked()
    namespace, status = yield from _namespace_id(context)
    if status is not _OK:
        return status
    body = protocol.LOAD_REPORT.pack(blocks, 0, tokens, prefill_ns, load_ns)
    completion = yield plain_request(Verb.REPORT_LOADS, namespace, context.deadline_ns, text=body)
    answered: Status = completion[0]
    return answered


def check_memory(memory: object, count: int, block_bytes: int, is_written: bool) -> None:
    """The caller's buffers: one for all blocks, or a list or tuple with one for each; also of blocks that would not be copied.

    Raises:
        InvalidArgument: their number is not that of the keys, or one has the wrong size, or is to be written and read-only.
        TypeError: one of them is no memory.
    """
    if isinstance(memory, (list, tuple)) and len(memory) != count:
        raise InvalidArgument(f"{len(memory)} buffers for {count} keys")
    index = _core.check_memory(memory, count, block_bytes, is_written)
    if index >= 0:
        wrong, name = memory, "the buffer of all blocks"
        if isinstance(memory, (list, tuple)):
            wrong, name = memory[index], f"the buffer of block {index}"
        raise TypeError(f"{name} is a {type(wrong).__name__}; expected memory, such as bytes, a bytearray or an array")
