"""Searches that somebody waits for: a thread with a hard deadline, a coroutine, or a loop that watches a descriptor.

`kvtier.engine.search` has the searches of an engine that asks in each of its steps.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

from kvtier._connection import Link
from kvtier._context import current
from kvtier._operations import Completion, Context, Hold, Operation, answer_of, context_of, instant_after, lookup_groups, margin_ns
from kvtier._operations import hold as hold_operation
from kvtier._protocol import COMPLETION_SHORT_RESULT_BYTES, Status
from kvtier._types import Held, Lookup
from kvtier.client import Client, run
from kvtier.engine.found import Found
from kvtier.engine.groups import Group
from kvtier.engine.guard import Guard
from kvtier.engine.keys import Keys, Prefix, Sought
from kvtier.engine.settings import Settings
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.units import Units, ending_statuses, sought_blocks

T = TypeVar("T")

_THREADS = 4
"""that wait for searches of the descriptor and of coroutines"""
_ASK_AGAIN_S = 0.001
_ANY_PREFIX = Prefix("", 0, ())


class _Held(Found):
    """What `Search` has found. Any thread may release it; whoever drops it releases it."""

    __slots__ = ()

    def __del__(self) -> None:
        self.release()


class Search:
    """Looks up what there is of a request, and holds it. No call raises for what the daemon does: what is wrong is a miss.

    - `find` waits, and has a hard deadline. Many threads may call it. `count` does so too, and holds nothing.
    - `find_async` is for a coroutine.
    - `begin` returns at once. When the search has ended, the descriptor `fileno()` can be read, and `ended` has the result.

    Every way out gives back the leases that nobody has taken: an error, the deadline, a cancelled coroutine, `close`.
    """

    def __init__(
        self,
        client: Client,
        groups: Sequence[Group],
        settings: Settings,
        unit_tokens: int,
        keys: Keys,
        guard: Guard,
        speed: PrefillSpeed | None = None,
    ) -> None:
        """
        Args:
            client: stays open as long as this is used.
            groups: those of the model.
            settings: say how long a search may take, and what is worth a load.
            unit_tokens: the engine restores whole units of so many tokens, which are whole blocks of each group.
            keys: makes the keys of requests' blocks.
            guard: judges what the daemon answers; its counters count the lookups.
            speed: how fast the engine computes what it does not load; None: nobody knows.
        """
        self.units = Units(groups, unit_tokens)
        self._client = client
        self._settings = settings
        self._keys = keys
        self._guard = guard
        self._speed = speed
        namespaces = groups[0].namespaces
        is_simple = self.units.is_plain and len(namespaces) == 1 and groups[0].block_hashes == 1
        self._only = namespaces[0] if is_simple else None
        """the namespace that has all pages, one for each hash; None: it is not as simple"""
        self._patience_ns = int(settings.lookup_s_max * 1e9)
        self._margin_ns = margin_ns(self._patience_ns)
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._event_fd = -1
        self._begun: dict[str, Future[Found]] = {}
        self._ended: list[tuple[str, Found]] = []

    # ---- a thread that waits ----

    def find(self, request: Sought, had_tokens: int = 0, *, timeout_s: float | None = None) -> Found:
        """What there is of a request behind the tokens that the engine has. Never raises.

        Args:
            had_tokens: so many tokens from the first the engine has itself.
            timeout_s: when it ends at the latest, whatever the daemon does; None: `Settings.lookup_s_max`.
        """
        nothing = Found.nothing(had_tokens, len(self.units.groups))
        try:
            asked = self._asked(request, had_tokens)
            if asked is None:
                return nothing
            first, keys = asked
            answer_by_ns = instant_after(self._settings.lookup_s_max if timeout_s is None else timeout_s)
            found = self._run(lambda context: self._holding(context, keys, first), answer_by_ns)
            if found is None:
                return nothing
            self._count_hit(found.blocks)
            return found
        except Exception as error:
            # An engine goes on whatever its cache does.
            self._guard.tell(f"cannot look up blocks: {error!r}")
            return nothing

    def count(self, request: Sought, *, waits_for_objects: bool = True) -> int:
        """How many tokens of a request, from the first, can be loaded. Nothing is held, so their blocks may be gone when they are loaded. It
        ends after `Settings.lookup_s_max` at the latest. Never raises.

        Args:
            waits_for_objects: whether it waits for what the daemon asks the object store; without, that is found the next time.
        """
        try:
            return self._count(request, waits_for_objects, instant_after(self._settings.lookup_s_max))
        except Exception as error:
            self._guard.tell(f"cannot look up blocks: {error!r}")
            return 0

    def count_pages(self, hashes: "Sequence[bytes | str | int]", *, waits_for_objects: bool = True) -> int:
        """As `count` for the prefix of these pages: how many of them, from the first, can be loaded. Never raises.

        Where one namespace has all pages and their hashes are hexadecimal digits, the usual answer takes few calls: a scheduler waits for
        it, and after a pause each call costs microseconds, because other threads have used the processor's caches.

        Args:
            hashes: one for each page, from the first, as `kvtier.engine.keys.hash_bytes` takes them.
            waits_for_objects: as `count` takes it.
        """
        try:
            if len(hashes) < max(1, self._settings.load_blocks_min) or not self._settings.load or not self._guard.may_ask():
                return 0
            answer_by_ns = time.monotonic_ns() + self._patience_ns
            link = self._client._connection.link(answer_by_ns)
            if link is None:
                return 0
            found = None if self._only is None else self._count_at_once(link, tuple(hashes), waits_for_objects, answer_by_ns)
            if found is None:
                prefix = Prefix.of("", hashes, self.units.tokens)
                found = self._count(prefix, waits_for_objects, answer_by_ns) // self.units.tokens
            return found
        except Exception as error:
            self._guard.tell(f"cannot look up blocks: {error!r}")
            return 0

    def _count(self, request: Sought, waits_for_objects: bool, answer_by_ns: int) -> int:
        asked = self._asked(request, 0)
        if asked is None:
            return 0
        _, keys = asked
        end = self._run(lambda context: self._counting(context, keys), answer_by_ns, waits_for_objects)
        if end is None:
            return 0
        self._count_hit(self.units.needed(0, end))
        return end * self.units.tokens

    def _count_at_once(
        self, link: Link, hashes: "tuple[bytes | str | int, ...]", waits_for_objects: bool, answer_by_ns: int
    ) -> int | None:
        """Asks with one call to the extension; None: it takes more than that."""
        number = None if self._only is None else link.namespaces.get(self._only)
        if number is None or self._keys.salt(_ANY_PREFIX) != b"":
            return None
        begun_ns = time.monotonic_ns()
        completion = link.session.lookup_digits(hashes, number, answer_by_ns - self._margin_ns, answer_by_ns, current())
        if completion is None:
            return None
        found = self._pages_of(link, completion, len(hashes), waits_for_objects, answer_by_ns)
        if found is not None:
            self._guard.count(lookups=1, lookup_us=(time.monotonic_ns() - begun_ns) // 1000, hit_blocks=found)
        return found

    def _pages_of(self, link: Link, completion: Completion, count: int, waits_for_objects: bool, answer_by_ns: int) -> int | None:
        """How many pages are worth a load by this answer to a lookup; None: it is not the last word."""
        status, run, load_ns, body, is_text, _ = completion
        is_usual = status is Status.OK and load_ns == 0 and not is_text and len(body) == count * COMPLETION_SHORT_RESULT_BYTES
        if is_usual and max(1, self._settings.load_blocks_min) <= run <= count:
            return run
        if link.session.ended:
            return None
        answers = [answer_of(link, completion, count)]
        found = self._end(answers, 0)
        if found is None and waits_for_objects and sought_blocks(answers) > 0 and _may_ask_again(answer_by_ns):
            time.sleep(_ASK_AGAIN_S)
            return None
        return found or 0

    def _asked(self, request: Sought, had_tokens: int) -> tuple[int, list[list[bytes]]] | None:
        """The question to the daemon: how many units the engine has, and the keys for each group; None: there is no question."""
        units = self.units
        first, rest = divmod(had_tokens, units.tokens)
        if rest or not self._settings.load or not self._guard.may_ask() or self._keys.salt(request) is None:
            return None
        limit = units.limit(request)
        if limit - first < max(1, self._settings.load_blocks_min):
            return None
        tokens = limit * units.tokens
        return first, [self._keys.of(request, group, 0, tokens // group.block_tokens) for group in units.groups]

    def _run(
        self, steps: Callable[[Context], Operation[tuple[list[Lookup], T | None]]], answer_by_ns: int, waits_for_objects: bool = True
    ) -> T | None:
        """Asks the daemon; again, if that finds more: as long as the object store is asked, and once in a new session. None: nothing was found."""
        begun_ns = time.monotonic_ns()
        try:
            return self._answer(steps, answer_by_ns, waits_for_objects)
        finally:
            self._guard.count(lookups=1, lookup_us=(time.monotonic_ns() - begun_ns) // 1000)

    def _answer(
        self, steps: Callable[[Context], Operation[tuple[list[Lookup], T | None]]], answer_by_ns: int, waits_for_objects: bool
    ) -> T | None:
        is_new = False
        while True:
            link = self._client._connection.link(answer_by_ns)
            if link is None:
                return None
            context = context_of(link, self.units.groups[0].namespaces[0], answer_by_ns)
            answers, found = run(context, steps(context))
            if found is None and link.session.ended and not is_new:
                # The session was that of a daemon which may have been started again since.
                is_new = True
                continue
            is_sought = found is None and waits_for_objects and sought_blocks(answers) > 0
            if not is_sought or not _may_ask_again(answer_by_ns):
                return found
            # The daemon asks the object store, and will know.
            time.sleep(_ASK_AGAIN_S)

    def _count_hit(self, blocks: Sequence[Sized]) -> None:
        self._guard.count(hit_blocks=sum(map(len, blocks)))

    def _counting(self, context: Context, keys: Sequence[Sequence[bytes]]) -> Operation[tuple[list[Lookup], int | None]]:
        """A lookup in all namespaces: how many units from the first are worth a load; None: none."""
        answers = yield from self._looked_up(context, keys)
        return answers, self._end(answers, 0)

    def _looked_up(self, context: Context, keys: Sequence[Sequence[bytes]]) -> Operation[list[Lookup]]:
        asked = [(one, some) for group, some in zip(self.units.groups, keys, strict=True) for one in group.namespaces]
        answers: list[Lookup] = yield from lookup_groups(context, asked)
        return answers

    def _end(self, answers: list[Lookup], first: int) -> int | None:
        """How many units from the first there are by these answers; None: none that are worth a load behind those that the engine has."""
        each = iter(answers)
        end = self.units.found([list(islice(each, len(group.namespaces))) for group in self.units.groups], first)
        if end - first < max(1, self._settings.load_blocks_min):
            self._guard.judge(ending_statuses(answers))
            return None
        return end if self._is_worth_it(end - first, max(one.estimated_load_s for one in answers)) else None

    def _holding(
        self, context: Context, keys: Sequence[Sequence[bytes]], first: int
    ) -> Operation[tuple[list[Lookup], Found | None]]:
        """A lookup in all namespaces, then leases in all of them."""
        units = self.units
        answers = yield from self._looked_up(context, keys)
        end = self._end(answers, first)
        if end is None:
            return answers, None
        holding: list[Held] = []
        try:
            runs = []
            expiries = []
            for group, some, blocks in zip(units.groups, keys, units.needed(first, end), strict=True):
                of_ranks = []
                for namespace in group.namespaces if blocks else ():
                    asking = context._replace(
                        properties=namespace, parent=some[blocks.start - 1] if blocks.start else None, depth=blocks.start
                    )
                    held: Hold = yield from hold_operation(asking, some[blocks.start : blocks.stop], 0)
                    if held.leases is not None:
                        holding.append(held.leases)
                        expiries.append(held.expires_ns)
                    if held.run == 0:
                        self._guard.judge([held.refusal])
                    of_ranks.append(held.run)
                runs.append(of_ranks)
            count = units.held(runs, first, end)
            if count < max(1, self._settings.load_blocks_min):
                return answers, None
            made = self._made(keys, first, first + count, holding, min(expiries, default=0))
            holding = []
            return answers, made
        finally:
            _release_all(holding)

    def _made(self, keys: Sequence[Sequence[bytes]], first: int, end: int, held: list[Held], expires_ns: int) -> Found:
        blocks = self.units.needed(first, end)
        needed = [some[these.start : these.stop] for some, these in zip(keys, blocks, strict=True)]
        return _Held(first * self.units.tokens, end * self.units.tokens, needed, blocks, partial(_release_all, held), expires_ns)

    def _is_worth_it(self, units: int, load_s: float) -> bool:
        """Whether the blocks are loaded, and not computed because that is faster."""
        is_slower = self._settings.load_if_faster and self._speed is not None and load_s > self._speed.seconds(units * self.units.tokens)
        if self._settings.may_load_in(load_s) and not is_slower:
            return True
        self._guard.count(declined_blocks=units)
        return False

    # ---- a coroutine that waits ----

    async def find_async(self, request: Sought, had_tokens: int = 0, *, timeout_s: float | None = None) -> Found:
        """As `find`. The loop goes on meanwhile; when the coroutine is cancelled, what is found is released."""
        future = self._submit(partial(self.find, request, had_tokens, timeout_s=timeout_s))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_release)
            raise

    # ---- a loop that watches a descriptor ----

    def fileno(self) -> int:
        """An eventfd that can be read when a search has ended that was begun with `begin`. It is closed by `close`."""
        with self._lock:
            if self._event_fd < 0:
                self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return self._event_fd

    def begin(self, request: Sought, had_tokens: int = 0, *, timeout_s: float | None = None) -> None:
        """Begins a search; a request has at most one. Arguments as of `find`."""
        self.fileno()
        request_id = request.request_id
        future = self._submit(partial(self.find, request, had_tokens, timeout_s=timeout_s))
        with self._lock:
            self._begun[request_id] = future
        future.add_done_callback(partial(self._note, request_id))

    def ended(self) -> list[tuple[str, Found]]:
        """The searches that have ended since the last call: (request's id, what was found). The caller releases it."""
        with self._lock:
            ended, self._ended = self._ended, []
            if self._event_fd >= 0:
                try:
                    os.eventfd_read(self._event_fd)
                except BlockingIOError:
                    pass
        return ended

    def drop(self, request_id: str) -> None:
        """Ends the search of a request that nobody waits for any more, and releases what it finds."""
        with self._lock:
            future = self._begun.pop(request_id, None)
            dropped = [found for one, found in self._ended if one == request_id]
            self._ended = [(one, found) for one, found in self._ended if one != request_id]
        if future is not None:
            future.cancel()
        for found in dropped:
            found.release()

    def _note(self, request_id: str, future: "Future[Found]") -> None:
        if future.cancelled():
            return
        with self._lock:
            is_wanted = self._begun.get(request_id) is future
            if is_wanted:
                del self._begun[request_id]
                self._ended.append((request_id, future.result()))
                os.eventfd_write(self._event_fd, 1)
        if not is_wanted:
            future.result().release()

    def _submit(self, work: Callable[[], Found]) -> "Future[Found]":
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kvtier-search")
        return self._pool.submit(work)

    def close(self) -> None:
        """Ends all searches, and releases what nobody has taken."""
        with self._lock:
            begun, self._begun = self._begun, {}
            ended, self._ended = self._ended, []
        for future in begun.values():
            future.cancel()
        for _, found in ended:
            found.release()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            if self._event_fd >= 0:
                os.close(self._event_fd)
                self._event_fd = -1


def _may_ask_again(answer_by_ns: int) -> bool:
    return time.monotonic_ns() + int(_ASK_AGAIN_S * 1e9) < answer_by_ns


def _release_all(held: Sequence[Held]) -> None:
    for one in held:
        one.release()


def _release(future: "Future[Found]") -> None:
    if not future.cancelled():
        future.result().release()
