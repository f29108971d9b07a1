"""Blocks between device memory that this process owns and the daemon, which copies them itself.

`DeviceRegion` works on raw device memory: a `RegionSpec` describes it, with CUDA's IPC handles. For torch tensors there is
`kvtier.torch`.

The daemon reads the device memory (`put`) or writes it (`get`) between the call and the end of its `Copying`: until then the
engine must neither reuse the blocks nor free the tensors. A `Copying` ends by itself, by its timeout at the latest.
"""

import itertools
import logging
import os
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from kvtier import _core, _operations
from kvtier import _protocol as protocol
from kvtier._connection import Link
from kvtier._context import current
from kvtier._errors import InvalidArgument, KvtierError, Unavailable
from kvtier._protocol import Status, Verb
from kvtier._types import importance_flags
from kvtier.client import Namespace, as_keys, run

HANDLE_BYTES = 64
"""of CUDA's IPC handles"""

REGISTER_TIMEOUT_S = 60.0
"""The first registration on a GPU has the daemon open it, measure it, and register its memory with the driver."""

PUT_WINDOW_BYTES = 64 << 20
"""A put asks for this much at a time, so that the daemon copies the first blocks while it makes room for the others."""

GET_WINDOW_BYTES = 256 << 20
"""A get of one layer, or without progress by layer, asks for this much at a time. A get by layer asks for all blocks at once."""

_WINDOW_BLOCKS_MIN = 16

STALL_S = 10.0
"""A copy that a stream waits for, and that has not ended so long after its deadline, ends with the session: the daemon hangs."""

_LOOK_EVERY_NS = 200_000
_WORD_MASK = 0xFFFFFFFF

_log = logging.getLogger("kvtier")
_OK = Status.OK


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of tensors: one with an axis L for the layers, or one for each layer, all of one shape.

    Axes are named by letters: L layer, C keys and values, B block, N token, H head, D element. A tensor without B has the
    tokens of all blocks in N, block after block. The elements of D lie side by side.
    """

    axes: str
    extents: Sequence[int]
    strides: Sequence[int]
    """in elements"""
    element_bytes: int
    name: str = "kv"
    block_heads: int = 0
    """how many heads a block has, where the tensors have only those of one rank; 0: as many as the tensors"""
    first_head: int = 0

    def text(self) -> str:
        """As the protocol has it."""
        numbers = [",".join(map(str, self.extents)), ",".join(map(str, self.strides)), str(self.element_bytes)]
        if self.block_heads:
            numbers += [str(self.block_heads), str(self.first_head)]
        return ":".join([self.name, self.axes, *numbers])


@dataclass(frozen=True, slots=True, eq=False)
class ExportedMemory:
    """Memory of CUDA's virtual memory management, as torch's expandable segments: allocations that lie one behind the other."""

    piece_bytes: Sequence[int]
    """the size of each allocation"""
    export: Callable[[int], int]
    """a new descriptor of an allocation (cuMemExportToShareableHandle), by its number here; it is closed when it is passed"""

    def text(self, first: int) -> str:
        """As the protocol has it: pieces of one size that follow one another are one group."""
        groups = []
        for size, group in itertools.groupby(self.piece_bytes):
            count = len(list(group))
            groups.append(f"{first}+{count}:{size}")
            first += count
        return "passed:" + ",".join(groups)


@dataclass(frozen=True, slots=True)
class RegionSpec:
    """What the daemon needs to know of device memory to copy blocks to and from it."""

    device: str
    """the GPU's UUID or PCI id: ordinals differ between processes"""
    layers: int
    blocks: int
    """how many blocks the tensors have room for"""
    block_tokens: int
    parts: Sequence[Part]
    tensors: Sequence[tuple[bytes | ExportedMemory, int]]
    """for each tensor, part by part and layer by layer, the IPC handle of its allocation, or the memory that it lies in, and its
    offset there, in bytes"""
    order: str = "LCND"
    """how a block's cells follow one another in the tiers, slowest axis first"""
    events: Sequence[bytes] = field(default_factory=tuple)
    """IPC handles of events that copies may wait for"""
    block_layers: int = 0
    """how many layers a block has, where the tensors have only those of one rank; 0: as many as the tensors"""
    first_layer: int = 0
    replica: tuple[int, int] = (0, 1)
    """(number, count) of the ranks with equal bytes"""

    def exported(self) -> list[ExportedMemory]:
        """The memory to pass before the registration, in the order of its numbers."""
        return [memory for memory in dict.fromkeys(memory for memory, _ in self.tensors) if isinstance(memory, ExportedMemory)]

    def text(self, first_passed: int = 0) -> bytes:
        """As the protocol has it.

        Args:
            first_passed: the number of the first descriptor that was passed for it.

        Raises:
            InvalidArgument: it is longer than the protocol allows, or a handle is none.
        """
        memories = list(dict.fromkeys(memory for memory, _ in self.tensors))
        for handle in [*memories, *self.events]:
            if isinstance(handle, bytes) and len(handle) != HANDLE_BYTES:
                raise InvalidArgument(f"an IPC handle of {len(handle)} bytes; expected {HANDLE_BYTES}")
        numbers = {memory: number for number, memory in enumerate(memories)}
        allocations = []
        for memory in memories:
            if isinstance(memory, ExportedMemory):
                allocations.append(memory.text(first_passed))
                first_passed += len(memory.piece_bytes)
            else:
                allocations.append(memory.hex())
        lines = [
            f"device={self.device}",
            f"layers={self.layers}",
            f"blocks={self.blocks}",
            f"block_tokens={self.block_tokens}",
            f"order={self.order}",
            *((f"block_layers={self.block_layers}", f"first_layer={self.first_layer}") if self.block_layers else ()),
            *((f"replica={self.replica[0]}/{self.replica[1]}",) if self.replica[1] > 1 else ()),
            *(f"part={part.text()}" for part in self.parts),
            *(f"allocation={allocation}" for allocation in allocations),
            *(f"tensor={numbers[memory]}+{offset}" for memory, offset in self.tensors),
            *(f"event={handle.hex()}" for handle in self.events),
        ]
        text = "\n".join(lines).encode()
        if len(text) > protocol.REGION_TEXT_BYTES_MAX:
            raise InvalidArgument(
                f"the region takes {len(text)} bytes to describe, at most {protocol.REGION_TEXT_BYTES_MAX} are possible"
            )
        return text


class Word(NamedTuple):
    """One that counts the layers of a copy: which, and from what on."""

    number: int
    """from 1; 0: none"""
    base: int


_NO_WORD = Word(0, 0)


def window_blocks(window_bytes: int, part_bytes: int) -> int:
    """How many blocks of a copy are asked for at a time, if this many bytes of each are copied."""
    return min(protocol.KEYS_MAX, max(_WINDOW_BLOCKS_MIN, window_bytes // part_bytes))


class Copying:
    """Blocks on their way. Never blocks but in `wait` and `wait_layers`."""

    def __init__(
        self, link: Link | None, parts: list[tuple[int, int, Word]], layers: int, answer_by_ns: int = 0
    ) -> None:
        self._link = link
        self._parts = parts
        """(correlation id or the negative status that says why there is none, blocks, what counts their layers)"""
        self._layers = layers
        self._answer_by_ns = answer_by_ns
        self._guarded = False
        self._results: list[list[Status] | None] = [None] * len(parts)
        self._ended: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        for index, (ticket, count, _) in enumerate(parts):
            if ticket <= 0:
                self._results[index] = [Status(-ticket)] * count

    @property
    def link(self) -> Link | None:
        """The session that it goes through; None: there is none."""
        return self._link

    @classmethod
    def of_status(cls, status: Status, count: int, layers: int) -> Self:
        """One that is over, for one reason."""
        return cls(None, [(-int(status), count, _NO_WORD)], layers)

    def last_blocks(self, least: int) -> int:
        """How many blocks at the end are asked for behind all others: at least so many, or all that are; 0: there are none."""
        count = 0
        for _, blocks, _ in reversed(self._parts[1:]):
            if count >= least:
                break
            count += blocks
        return count

    def done(self) -> bool:
        """Whether it is over: `wait` would not wait, and the engine may use the blocks."""
        return self._collect(0)

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        """Waits until it is over, or so many seconds.

        Args:
            timeout: seconds; None: as long as it takes.
            blocks: how many blocks from the first are waited for; None: all.

        Returns:
            A status for each block, in order. PENDING: it is still on its way, and the engine must leave it alone.
        """
        self._collect(_operations.instant_after(1e8 if timeout is None else timeout), blocks)
        statuses: list[Status] = []
        for (_, count, _), result in zip(self._parts, self._results, strict=True):
            statuses += [Status.PENDING] * count if result is None else result
        return statuses

    def layers_done(self) -> int:
        """How many layers from the first of those asked for are there, for all blocks that will be."""
        if self._collect(0):
            return self._layers
        least = self._layers
        for (_, _, word), result in zip(self._parts, self._results, strict=True):
            if result is None:
                least = min(least, self._counted(word))
        return least

    def _counted(self, word: Word) -> int:
        """The layers of one part that are there."""
        if not word.number or self._link is None:
            return 0
        return min(self._layers, (self._link.session.progress(word.number) - word.base) & _WORD_MASK)

    def wait_layers(self, layers: int, timeout: float | None = None) -> int:
        """Waits here until this many leading layers are there, or the copy is over, or so many seconds.

        Returns:
            How many are there, as `layers_done`.
        """
        end_ns = _operations.instant_after(1e8 if timeout is None else timeout)
        while (done := self.layers_done()) < layers and (now_ns := _core.monotonic_ns()) < end_ns:
            self._collect(min(end_ns, now_ns + _LOOK_EVERY_NS))
        return done

    def words_until(self, layers: int) -> list[tuple[int, int]] | None:
        """The words that a GPU's stream waits for until this many leading layers are there: words of the session's memory
        (`Link.words`), by number, each with the value that it gets to (the difference as a signed number, as CUDA compares).

        From then on each gets there in any case and with nobody awake: with the copy's end, whatever came of it; with the
        session's, or `STALL_S` after the deadline of a copy that does not end, and then all of its blocks are UNAVAILABLE.

        Returns:
            None: there is no such word; use `wait_layers`.

        Raises:
            OSError: this process may have no further thread or mapping.
        """
        link = self._link
        if self._collect(0) or link is None:
            return []
        found = []
        # With the lock a part that is not over stays so, and its word its own.
        with self._lock:
            for (_, _, word), result in zip(self._parts, self._results, strict=True):
                if result is not None:
                    continue
                if not word.number:
                    return None
                self._guarded = True
                end = (word.base + self._layers) & _WORD_MASK
                stalled_ns = self._answer_by_ns + int(STALL_S * 1e9)
                if link.session.guard(word.number, end, stalled_ns) and self._counted(word) < layers:
                    found.append((word.number, (word.base + layers) & _WORD_MASK))
        return found

    def cancel(self) -> None:
        """Gives up what has not begun. It is over when `done` says so, and not before."""
        for (ticket, _, _), result in zip(self._parts, self._results, strict=True):
            if result is None and self._link is not None:
                session = self._link.session
                answer = session.submit(
                    _operations.plain_request(Verb.CANCEL, argument=ticket), _operations.instant_after(1.0)
                )
                if answer > 0:
                    self._link.forget(answer)

    def give_up(self) -> None:
        """Ends the session, where the daemon hangs: what is not over is UNAVAILABLE then (`DeviceRegion` says what that means)."""
        if self._link is not None and not self.done():
            self._link.session.fail("a copy did not end: the daemon hangs")

    def when_over(self, function: Callable[[], None]) -> None:
        """Has a function called once, by whoever notices that it is over."""
        self._ended.append(function)
        self._collect(0)

    def _collect(self, deadline_ns: int, blocks: int | None = None) -> bool:
        """Takes what has ended, at most so many blocks from the first; whether all has."""
        link = self._link
        first = 0
        for index, (ticket, count, word) in enumerate(self._parts):
            if blocks is not None and first >= blocks:
                return False
            first += count
            if self._results[index] is not None or link is None:
                continue
            if not link.session.has(ticket, deadline_ns):
                return False
            with self._lock:
                if self._results[index] is None:
                    completion = link.session.take(ticket, deadline_ns)
                    statuses = _operations.short_statuses(link, completion, count)
                    # Looked at behind the completion: one that came first was preceded by the daemon's own last word.
                    if self._guarded and link.session.gave_up:
                        statuses = [Status.UNAVAILABLE] * count
                    self._results[index] = statuses
                    _give_word(link, word)
        with self._lock:
            ended, self._ended = self._ended, []
        for function in ended:
            function()
        return True


def _take_word(link: Link) -> Word:
    """A word that counts layers, of those that nobody uses the one that was used longest ago; none when all are in use.

    It counts on from what it holds. So a stream that has not come to its wait for an earlier copy yet finds it satisfied:
    the difference is taken for that of numbers that wrap, and would have to be 2^31 layers to be misread.
    """
    with link.progress_lock:
        if link.progress_words is None:
            link.progress_words = deque(range(1, protocol.SESSION_PROGRESS_WORDS + 1))
        number = link.progress_words.popleft() if link.progress_words else 0
    if not number:
        return _NO_WORD
    return Word(number, link.session.progress(number))


def _give_word(link: Link, word: Word) -> None:
    if word.number:
        with link.progress_lock:
            if link.progress_words is not None:
                link.progress_words.append(word.number)


class DeviceRegion:
    """Device memory of this process that the daemon has opened. Close it before the memory is freed.

    When the daemon was restarted, the region is registered again in the background; until then its calls answer
    UNAVAILABLE.

    UNAVAILABLE does not say that the memory may be used again: the session has ended, and nobody is left to say when the
    copies are over that the daemon had begun. A daemon that lives hears of the end, begins no more, and is through with
    the others in the milliseconds that they take; those of one that was killed end with its process. Only where its
    process hangs, or its GPU does, can bytes come later, without a bound: who can't rule that out uses the memory again
    when that process has ended.
    """

    def __init__(self, namespace: Namespace, spec: RegionSpec, name: str = "") -> None:
        """Registers.

        Raises:
            InvalidArgument: the daemon refuses; the message says why.
            Unavailable: no daemon answers, or not in time.
        """
        self._namespace = namespace
        self._spec = spec
        spec.text()  # refuses what is wrong with it before anything is passed
        self._name = name
        self._lock = threading.Lock()
        self._registered: tuple[Link, int] | None = None
        self._takes_events = False
        self._registrations = 0
        self._renewal: threading.Thread | None = None
        self._closed = False
        answer_by_ns = _operations.instant_after(REGISTER_TIMEOUT_S)
        link = namespace._client._connection.open(answer_by_ns)
        self._register(link, answer_by_ns)

    @property
    def takes_events(self) -> bool:
        """Whether the daemon has opened the events of the spec. If not, copies can't wait for an event: the caller waits itself.

        CUDA keeps what processes share of an event in a file in /dev/shm that only the user who made the event can open. A daemon of
        another user, or in another container, can't.
        """
        return self._takes_events

    @property
    def registrations(self) -> int:
        """How often it was registered: once, and again after each restart of the daemon, which then knows no advertised block."""
        return self._registrations

    @property
    def blocks(self) -> int:
        """How many blocks the memory has room for."""
        return self._spec.blocks

    @property
    def block_bytes(self) -> int:
        """The bytes of one block."""
        return self._namespace.block_bytes

    @property
    def layers(self) -> int:
        """How many layers a block has."""
        return self._spec.layers

    def put(
        self,
        keys: Iterable[bytes],
        block_ids: Iterable[int],
        *,
        layers: range | None = None,
        event: int = 0,
        timeout: float | None = None,
        parent: bytes | None = None,
        depth: int = 0,
        priority: int = protocol.REQUEST_PRIORITY_NORMAL,
        group: int = 0,
        annotations: Sequence[bytes | None] | None = None,
        importance: int = protocol.REQUEST_IMPORTANCE_NORMAL,
    ) -> Copying:
        """Copies blocks of this memory to the daemon, which keeps them.

        A block can be put a few layers at a time; it is there for others when all of its layers have come.

        Args:
            keys: what the blocks are known by, in prefix order.
            block_ids: for each key the block's number in this memory.
            layers: which layers; None: all.
            event: the number of the event of the spec that the copies wait for, from 1; 0: none.
            timeout: seconds, after which what has not begun is given up.
            parent: the key before the first one.
            depth: the place of the first key in its sequence.
            annotations: for each block at most 2048 bytes that are kept with it, or None; `kvtier.annotations`.
            importance: of the blocks to eviction policies, as `kvtier.Options.importance`.

        Returns:
            A `Copying`, whose statuses are OK (these layers are copied), EXISTS and PENDING (nothing to do: it is here, or
            another client is putting it), or BUSY (there was no room).
        """
        keys = as_keys(keys)
        if annotations is not None:
            _operations.check_annotations(annotations, len(keys))
        copying = self._copy(
            Verb.OFFLOAD, keys, block_ids, layers, event, timeout, priority, group,
            parent=parent, depth=depth, flags=importance_flags(importance),
        )  # fmt: skip
        if annotations is not None:
            try:
                self._annotate(copying, keys, annotations, timeout, priority, group)
            except Exception:
                # The copies have begun: whoever called must get to know when they are over.
                _log.warning("blocks are kept without their annotations", exc_info=True)
        return copying

    def _annotate(
        self,
        copying: Copying,
        keys: Sequence[bytes],
        annotations: Sequence[bytes | None],
        timeout: float | None,
        priority: int,
        group: int,
    ) -> None:
        """Right behind the requests that offload the blocks; nobody waits for the answers."""
        link = copying.link
        if link is None:
            return
        properties = self._namespace._properties
        answer_by_ns = self._answer_by_ns(timeout)
        context = _operations.context_of(link, properties, answer_by_ns, priority=priority, group=group)
        for request in _operations.annotation_requests(context, link.namespaces[properties], keys, annotations):
            ticket = link.session.submit(request, answer_by_ns, context.trace)
            if ticket > 0:
                link.forget(ticket)

    def _answer_by_ns(self, timeout: float | None) -> int:
        return _operations.instant_after(self._namespace._client._timeout_s if timeout is None else timeout)

    def get(
        self,
        keys: Iterable[bytes],
        block_ids: Iterable[int],
        *,
        layers: range | None = None,
        event: int = 0,
        timeout: float | None = None,
        priority: int = protocol.REQUEST_PRIORITY_NORMAL,
        group: int = 0,
        leading_run: bool = False,
        by_layer: bool = True,
    ) -> Copying:
        """Copies blocks that the daemon keeps to this memory; from lower tiers they are loaded first.

        Args: see `put`. leading_run: stop at the first block that is in no tier. by_layer: copy the first layer of all
            blocks, then the next, and count them, for who computes behind them. False: whole blocks, which all are there
            sooner, by about a millisecond for a thousand.

        Returns:
            A `Copying`. By layer it counts the layers that are there for all blocks while it goes on, for the CPU and the
            GPU; otherwise only the CPU can wait, for all of them. Only the blocks that are OK have their bytes; the memory
            of the others has no meaning.
        """
        return self._copy(
            Verb.ONBOARD, keys, block_ids, layers, event, timeout, priority, group, leading_run=leading_run, by_layer=by_layer
        )  # fmt: skip

    @property
    def id(self) -> int:
        """The daemon's number of this region, as a lookup's `Holder` has it; 0 while there is no session."""
        known = self._known()
        return 0 if known is None else known[1]

    def advertise(
        self,
        keys: Iterable[bytes],
        block_ids: Iterable[int],
        *,
        rank: int = 0,
        timeout: float | None = None,
        group: int = 0,
    ) -> list[Status]:
        """Says which blocks stand in this memory, for other regions to get them from here: over NVLink, or on this GPU.

        Their bytes must be there now, and stay unchanged until `revoke` has answered: what others get is what is read
        here, and nothing checks it. Other regions' `get` prefers them to the tiers. They are withdrawn all at once when
        the region or the session ends; a region that is registered again after a restart has none.

        Args:
            keys: what the blocks are known by.
            block_ids: for each key the block's number in this memory.
            rank: what lookups call this engine, 0 to 2^32 - 1; the last one given is that of all.
            timeout: seconds; the first call on a region has other GPUs map it, which takes milliseconds.

        Returns:
            A status for each block: OK, EXISTS (this region advertises the key in this block already), BUSY (there is no
            room; or this region has advertised it before, in another block or until somebody deleted it, and has not
            revoked it, or its revocation is under way), or UNAVAILABLE (no daemon, or one that is too old).

        Raises:
            InvalidArgument: the daemon refuses: a number is none of the region's, or its blocks are not whole ones.
        """
        keys = as_keys(keys)
        numbers = array("I", block_ids)
        if len(numbers) != len(keys):
            raise InvalidArgument(f"{len(keys)} keys and {len(numbers)} block ids; expected one for each")
        if not 0 <= rank < 1 << 32:
            raise InvalidArgument(f"rank {rank}; expected 0 to 2^32 - 1")

        def request(namespace: int, region: int, deadline_ns: int, start: int, count: int) -> Any:
            return (
                Verb.ADVERTISE, 0, protocol.REQUEST_PRIORITY_NORMAL, deadline_ns, namespace, group, 0, rank, keys, start, count,
                None, (region, 0, 0, 0, 0, numbers[start : start + count].tobytes()),
            )  # fmt: skip

        return self._say(keys, request, timeout)

    def revoke(self, keys: Iterable[bytes], *, timeout: float | None = None, group: int = 0) -> list[Status]:
        """Takes blocks back that are advertised; waits until no copy of them is under way.

        Args:
            keys: what they are known by.
            timeout: seconds; copies take milliseconds.

        Returns:
            A status for each block. OK and MISS (it was not advertised): nothing reads it here any more, and its place
            can be used again. Any other: it can not yet, and this is to be called again; DEADLINE is the daemon's
            silence. After UNAVAILABLE the session has ended, and what `DeviceRegion` says of copies under way holds.
        """
        keys = as_keys(keys)

        def request(namespace: int, region: int, deadline_ns: int, start: int, count: int) -> Any:
            return (
                Verb.REVOKE, 0, protocol.REQUEST_PRIORITY_NORMAL, deadline_ns, namespace, group, 0, region, keys, start, count,
                None,
            )  # fmt: skip

        return self._say(keys, request, timeout)

    def _say(
        self,
        keys: Sequence[bytes],
        request: Callable[[int, int, int, int, int], Any],
        timeout: float | None,
    ) -> list[Status]:
        """Has requests about blocks of this region answered."""
        ready = self._session_of_now()
        if ready is None:
            return [Status.UNAVAILABLE] * len(keys)
        link, region = ready
        namespace = link.namespaces[self._namespace._properties]
        answer_by_ns = self._answer_by_ns(timeout)
        statuses: list[Status] = []
        for start, count in _operations.spans(len(keys), protocol.KEYS_MAX):
            completion = link.session.call(
                request(namespace, region, answer_by_ns, start, count), answer_by_ns, current()
            )
            if completion[0] is Status.INVALID_ARGUMENT:
                raise InvalidArgument(completion[3].decode(errors="replace"))
            statuses += _operations.short_statuses(link, completion, count)
        return statuses

    def _copy(
        self,
        verb: Verb,
        keys: Iterable[bytes],
        block_ids: Iterable[int],
        layers: range | None,
        event: int,
        timeout: float | None,
        priority: int,
        group: int,
        *,
        parent: bytes | None = None,
        depth: int = 0,
        leading_run: bool = False,
        by_layer: bool = False,
        flags: int = 0,
    ) -> Copying:
        keys = as_keys(keys)
        numbers = array("I", block_ids)
        if len(numbers) != len(keys):
            raise InvalidArgument(f"{len(keys)} keys and {len(numbers)} block ids; expected one for each")
        asked = range(self.layers) if layers is None else layers
        if asked.step != 1 or asked.start < 0 or asked.stop > self.layers or len(asked) == 0:
            raise InvalidArgument(f"layers {layers}; expected neighbours of the {self.layers} that there are")
        ready = self._session_of_now()
        if not keys:
            return Copying(None, [], len(asked))
        if ready is None:
            return Copying.of_status(Status.UNAVAILABLE, len(keys), len(asked))
        link, region = ready
        if event and self._spec.events and not self._takes_events:
            # The daemon that could open the events has ended since the caller asked.
            return Copying.of_status(Status.UNAVAILABLE, len(keys), len(asked))
        namespace = link.namespaces[self._namespace._properties]
        answer_by_ns = self._answer_by_ns(timeout)
        flags |= protocol.REQUEST_FLAG_LEADING_RUN if leading_run else 0
        parts: list[tuple[int, int, Word]] = []
        part_bytes = max(1, self.block_bytes * len(asked) // self.layers)
        window = protocol.KEYS_MAX
        if verb is Verb.OFFLOAD:
            window = window_blocks(PUT_WINDOW_BYTES, part_bytes)
        elif (len(asked) == 1 or not by_layer) and not leading_run:
            window = window_blocks(GET_WINDOW_BYTES, part_bytes)
        for start, count in _operations.spans(len(keys), window):
            word = _take_word(link) if by_layer else _NO_WORD
            blocks = numbers[start : start + count].tobytes()
            request = (
                verb, flags, priority, answer_by_ns, namespace, group, depth + start, 0, keys, start, count,
                keys[start - 1] if start else parent, (region, asked.start, asked.stop, event, word.number, blocks),
            )  # fmt: skip
            ticket = link.session.submit(request, answer_by_ns, current())
            if ticket <= 0:
                _give_word(link, word)
            parts.append((ticket, count, word))
        return Copying(link, parts, len(asked), answer_by_ns)

    def _session_of_now(self) -> tuple[Link, int] | None:
        """The session and the region's number there; None while there is none."""
        known = self._known()
        if known is not None and not self._closed:
            return known
        with self._lock:
            if self._closed:
                raise KvtierError("this region was closed")
            if self._renewal is not None and self._renewal.is_alive():
                return None
            # One that has just ended has registered it: a second registration would be nobody's to close.
            known = self._known()
            if known is None:
                self._renewal = threading.Thread(target=self._renew, name="kvtier-region", daemon=True)
                self._renewal.start()
            return known

    def _known(self) -> tuple[Link, int] | None:
        known = self._registered
        return known if known is not None and not known[0].session.ended else None

    def _renew(self) -> None:
        """Registers in the session that there is after a restart of the daemon."""
        try:
            answer_by_ns = _operations.instant_after(REGISTER_TIMEOUT_S)
            link = self._namespace._client._connection.link(answer_by_ns)
            if link is not None and not self._closed:
                self._register(link, answer_by_ns)
        except KvtierError as error:
            _log.warning("region %r is not registered again: %s", self._name, error)

    def _register(self, link: Link, answer_by_ns: int) -> None:
        properties = self._namespace._properties
        if properties not in link.namespaces:
            context = _operations.context_of(link, properties, answer_by_ns)
            status, why = run(context, _operations.register(link, properties, context.deadline_ns))
            if status is not _OK:
                raise InvalidArgument(f"namespace {properties.name!r} was refused: {status.name}, {why}")
        status, value, why = self._register_spec(link, self._spec, answer_by_ns)
        takes_events = bool(self._spec.events)
        if status is Status.INVALID_ARGUMENT and takes_events:
            refused = why
            status, value, why = self._register_spec(link, replace(self._spec, events=()), answer_by_ns)
            takes_events = False
            if status is _OK:
                _log.warning(
                    "the daemon can't open the events of region %r (%s): this process waits for its GPU itself before each copy, which is "
                    "slower; a daemon of the same user with the same /dev/shm can open them",
                    self._name, refused,
                )  # fmt: skip
        if status is Status.INVALID_ARGUMENT:
            raise InvalidArgument(f"the daemon can't use this device memory: {why}")
        if status is not _OK:
            raise Unavailable(f"the device memory was not registered: {why}")
        self._takes_events = takes_events
        self._registrations += 1
        self._registered = (link, value)

    def _register_spec(self, link: Link, spec: RegionSpec, answer_by_ns: int) -> tuple[Status, int, str]:
        """Asks once; the region's number, or the reason against it. What was passed for it is used up either way."""
        text = spec.text(self._pass(link, answer_by_ns))
        namespace = link.namespaces[self._namespace._properties]
        request = _operations.plain_request(Verb.REGISTER_REGION, namespace, answer_by_ns, 0, text)
        status, _, value, body, is_text, _ = link.session.call(request, answer_by_ns)
        return status, value, body.decode(errors="replace") if is_text else status.name

    def _pass(self, link: Link, answer_by_ns: int) -> int:
        """Passes the memory that has no IPC handle; the number of its first piece."""
        memories = self._spec.exported()
        first = number = link.numbers_to_pass(sum(len(memory.piece_bytes) for memory in memories))
        for memory in memories:
            for piece in range(len(memory.piece_bytes)):
                descriptor = memory.export(piece)
                try:
                    status = link.pass_memory(number, descriptor, answer_by_ns)
                finally:
                    os.close(descriptor)
                if status is not _OK:
                    raise Unavailable(f"the daemon did not take the device memory: {status.name}; DENIED where it has no GPU")
                number += 1
        return first

    def close(self) -> None:
        """Has the daemon close its mappings, after the copies that are under way. Where it opens them again after a restart,
        that is waited for."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            renewal = self._renewal
        if renewal is not None:
            # The memory may be freed next: the daemon must not open it after that.
            renewal.join(REGISTER_TIMEOUT_S)
        known = self._known()
        if known is not None:
            link, region = known
            answer_by_ns = _operations.instant_after(REGISTER_TIMEOUT_S)
            link.session.call(
                _operations.plain_request(Verb.UNREGISTER_REGION, 0, answer_by_ns, region), answer_by_ns
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
