"""Searches: lookups for requests, their answers, and leases on the blocks that will be loaded."""

import time
from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from kvtier._operations import Hold
from kvtier._operations import hold as hold_operation
from kvtier._operations import lookup_groups
from kvtier._polled import Call, Polled
from kvtier._protocol import Status
from kvtier._types import Lookup
from kvtier.engine.expected import Expectations, Expected
from kvtier.engine.found import Found
from kvtier.engine.groups import Group
from kvtier.engine.guard import Guard
from kvtier.engine.inbound import Inbound, Inbounds
from kvtier.engine.keys import Keys, Sought
from kvtier.engine.settings import Settings
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.units import Units, ending_statuses, sought_blocks, stored_run
from kvtier.engine.wishes import USUAL, Wishes

T = TypeVar("T")

_ANSWER_FRESH_S = 0.5
"""how long a miss stands, for a request that has to wait: only other engines' blocks can have come since"""
_IN_MEMORY_S = 0.05
"""how long it stands what a lookup says of blocks in memory: later more of them may have gone than a load is worth"""
_HOLD_SPARE_S = 5.0
_HOLD_S_MIN = 0.01
_QUESTIONS_MAX = 4
"""how many answers an engine waits for within a step: one behind the other"""
_IDLE_PATIENCE = 10
"""how many times as long an engine waits that has nothing to compute meanwhile: an empty step brings the answer no sooner"""


def _usual(request: Sought) -> Wishes:
    return USUAL


class _Search:
    """The knowledge about a request's blocks. They are looked up in all ranks' namespaces, then held in all of them."""

    __slots__ = (
        "asked_s", "begun_s", "expected", "expires_ns", "first", "found", "found_of", "found_s", "holds", "inbound", "is_asked_again", "is_waited_for",
        "keys", "lookup", "run",
    )  # fmt: skip

    def __init__(self, keys: Sequence[Sequence[bytes]], now_s: float, expected: Expected | None) -> None:
        self.keys = keys
        """for each group, of all whole blocks, from the first"""
        self.expected = expected
        """what it waits for; None: nothing, or not any more"""
        self.inbound: Inbound | None = None
        """the gets of these blocks from the node that is going to have them, and their leases until the request has its own; None: none"""
        self.begun_s = now_s
        self.asked_s: float | None = None
        """since when the engine has wanted to know, and decides without an answer after `lookup_s_max`; None: not yet"""
        self.lookup: Call[list[Lookup]] | None = None
        """of all groups, and in each group of all namespaces of its ranks; None: not begun yet"""
        self.is_waited_for = False
        self.is_asked_again = False
        self.found: int | None = None
        """how many units from the first can be restored; None: not known yet"""
        self.found_of = 0
        """how many units the engine had itself when that was found out"""
        self.found_s = 0.0
        """when that became known"""
        self.first = 0
        """the first unit that is held: those before it the engine has"""
        self.holds: list[list[Call[Hold]]] = []
        """for each group, those of its ranks; none for a group of which nothing is needed"""
        self.run: int | None = None
        """how many units are held, and can be loaded; None: not known yet"""
        self.expires_ns = 0

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return not (self.is_answered and _are_done(self.holds))

    @property
    def is_answered(self) -> bool:
        """Whether the lookup has ended."""
        return self.lookup is not None and self.lookup.done


class Searches:
    """The searches of the requests that wait for their blocks, for an engine that asks in each of its steps. A request has at most one.

    All calls come from one thread, and wait a moment at most (`Settings.lookup_wait_s`). The engine tells of a request (`begin`), and
    asks what can be loaded (`matched`) until it is told. What was found is held from then on: by leases in all namespaces, until
    the engine has got blocks for it (`take`, and `Found.release` when the load has ended) or lets the request go (`drop`).
    """

    def __init__(
        self,
        polled: Polled,
        groups: Sequence[Group],
        settings: Settings,
        unit_tokens: int,
        keys: Keys,
        guard: Guard,
        speed: PrefillSpeed,
        working: Sized,
        wishes: Callable[[Sought], Wishes] = _usual,
    ) -> None:
        """
        Args:
            polled: a connection that nobody else polls.
            groups: those of the model.
            unit_tokens: the engine restores whole units of so many tokens, which are whole blocks of each group.
            keys: makes the keys of requests' blocks.
            guard: judges what the daemon answers; its counters count the lookups.
            speed: how fast the engine computes what it does not load.
            working: the requests that the engine works on; while it has none, an answer is waited for longer.
            wishes: what a request asks for: how many tokens are looked for, and which of them it waits for.
        """
        self._polled = polled
        self._groups = list(groups)
        self.units = Units(groups, unit_tokens)
        self._settings = settings
        self._keys = keys
        self._guard = guard
        self._speed = speed
        self._working = working
        self._wishes = wishes
        self._observed = guard.observed
        self._by_request: dict[str, _Search] = {}
        self._expectations = Expectations(unit_tokens, settings.load_timeout_s, self._observed)
        self._inbounds = Inbounds(polled)

    # ---- the search of a request ----

    def begin(self, request: Sought) -> None:
        """Looks up the blocks of a request that has come, unless that has been done or is not worth it."""
        if request.request_id in self._by_request or not self.may_look():
            return
        limit = self.limit(request, 0)
        if limit:
            self._search(request, limit, time.monotonic())

    def poll(self, request_id: str) -> None:
        """Takes the answers that have come, if this request needs any."""
        search = self._by_request.get(request_id)
        if search is None or search.is_waiting:
            self._polled.poll()

    def matched(self, request: Sought, first: int) -> int | None:
        """How many units behind the first ones, which the engine has, can be loaded; None: not known yet, ask again.

        The caller has made sure that the request may be looked up: `may_look` and `limit` say so.
        """
        request_id = request.request_id
        search = self._by_request.get(request_id)
        now_s = time.monotonic()
        if search is None or self._is_stale(search, first, now_s):
            self.drop(request_id)
            search = self._search(request, self.limit(request, 0), now_s)
        if search.asked_s is None:
            search.asked_s = now_s
        # All requests that wait for other engines hold a step up for no longer than one request.
        wait_s = self._wait_s() / (1 if search.expected is None else max(1, self._expectations.waiting))
        run = self._advance(search, first, now_s, wait_s)
        for _ in range(_QUESTIONS_MAX):
            if run is not None or search.is_waited_for:
                break
            # A moment is cheaper than another step.
            search.is_waited_for = True
            question = search.lookup or (None if search.expected is None else search.expected.call)
            if question is not None:
                self._polled.wait(question, wait_s)
            run = self._advance(search, first, now_s, wait_s)
        if run is None and search.expected is None:
            self._observed["lookups_again"] += 1
        return run

    def take(self, request_id: str, units: int) -> Found | None:
        """What was found of a request that has got its blocks, so many units of it; its search ends here. The caller releases it, in this
        thread, when its load has ended. None: nothing was offered to it."""
        search = self._by_request.pop(request_id, None)
        if search is None or not search.holds:
            return None
        first, tokens = search.first, self.units.tokens
        blocks = self.units.needed(first, first + units)
        keys = [some[these.start : these.stop] for some, these in zip(search.keys, blocks, strict=True)]
        give_back = partial(self._give_back, search.holds, search.inbound)
        return Found(first * tokens, (first + units) * tokens, keys, blocks, give_back, search.expires_ns, search.begun_s)

    def drop(self, request_id: str) -> None:
        """Ends the search of a request, and gives back what it holds."""
        search = self._by_request.pop(request_id, None)
        if search is not None:
            self._let_go(search)

    def forget(self, request_id: str) -> None:
        """Ends the search of a request that has ended."""
        self.drop(request_id)
        self._expectations.forget(request_id)

    def drop_all(self) -> None:
        for request_id in list(self._by_request):
            self.drop(request_id)

    def _give_back(self, holds: Sequence[Sequence[Call[Hold]]], inbound: Inbound | None) -> None:
        """Gives leases back, those too that are just being granted."""
        for call in _all(holds):
            if not self._polled.wait(call, self._wait_s()):
                self._polled.cancel(call)
            elif call.outcome.leases is not None:
                call.outcome.leases.release()
        if inbound is not None:
            inbound.end()

    def found(self, request_id: str) -> int:
        """How many units from the first all ranks have said are there. Nothing is said of several groups."""
        search = self._by_request.get(request_id)
        if search is None or not self.units.is_plain or not search.is_answered:
            return 0
        return min(one.run for one in self._answers(search)[0])

    def stored(self, request: Sought, units: int) -> int:
        """How many of the first units of a request all ranks' namespaces have, or are just getting; 0 if that is not known in a moment, or
        of several groups."""
        if not self.units.is_plain or not self._guard.may_ask():
            return 0
        group = self._groups[0]
        call = self._asked([self._keys.of(request, group, 0, units * self.units.tokens // group.block_tokens)], False)
        if not self._polled.wait(call, _IDLE_PATIENCE * self._settings.lookup_wait_s):
            self._polled.cancel(call)
            return 0
        return min(stored_run(one) for one in call.outcome)

    # ---- what may be searched for ----

    def may_look(self) -> bool:
        """Whether anything may be looked up now."""
        return self._settings.load and self._guard.may_ask()

    def limit(self, request: Sought, first: int) -> int:
        """How many units of a request may be looked for when the engine has the first ones; 0: none that is worth it."""
        tokens = self.units.tokens
        if self._keys.salt(request) is None:
            return 0
        limit = min(self.units.limit(request), self._wishes(request).load_max_tokens // tokens)
        # The last token is computed in any case: for it alone its block is not worth a load.
        if first >= (request.num_tokens - 1) // tokens or limit - first < max(1, self._settings.load_blocks_min):
            return 0
        return limit

    # ---- how a search goes on ----

    def _search(self, request: Sought, limit: int, now_s: float) -> _Search:
        tokens = limit * self.units.tokens
        keys = [self._keys.of(request, group, 0, tokens // group.block_tokens) for group in self._groups]
        search = _Search(keys, now_s, self._expectations.of(request.request_id, self._wishes(request), limit, now_s))
        self._by_request[request.request_id] = search
        self._observed["lookups"] += 1
        if search.expected is None or self._has_last(search, search.expected, 0, now_s):
            self._look_up(search)
        return search

    def _look_up(self, search: _Search, fresh: bool = False) -> None:
        search.lookup = self._asked(search.keys, fresh)

    def _asked(self, keys: Sequence[Sequence[bytes]], fresh: bool) -> Call[list[Lookup]]:
        """A lookup of blocks of each group, in the namespaces of all ranks."""
        asked = [(one, some) for group, some in zip(self._groups, keys, strict=True) for one in group.namespaces if some]
        otherwise = [Lookup.of_status(Status.UNAVAILABLE, 1)] * len(asked)
        return self._polled.start(asked[0][0], partial(lookup_groups, groups=asked, fresh=fresh), otherwise, self._settings.lookup_s_max)

    def _answers(self, search: _Search) -> list[list[Lookup]]:
        """For each group, those of its ranks' namespaces."""
        assert search.lookup is not None
        answers = iter(search.lookup.outcome)
        return [list(islice(answers, len(group.namespaces))) for group in self._groups]

    def _is_stale(self, search: _Search, first: int, now_s: float) -> bool:
        if search.holds and search.first != first:
            return True
        if search.run:
            return search.expires_ns < time.monotonic_ns() + int(_HOLD_SPARE_S * 1e9)
        # Others may have stored blocks since; what was found is held or is not.
        return search.found is not None and search.found <= first and now_s - search.begun_s > _ANSWER_FRESH_S

    def _advance(self, search: _Search, first: int, now_s: float, wait_s: float) -> int | None:
        """Goes on with a search as far as it can: the run that can be loaded, or None."""
        if search.expected is not None:
            if not self._has_last(search, search.expected, first, now_s):
                return None
            if search.lookup is None and search.expected.is_due(now_s):
                search.is_waited_for = False
                self._look_up(search, search.expected.is_fresh)
        if (search.found is None or not self._is_found_of(search, first)) and not self._take_lookups(search, first, now_s):
            return None
        assert search.found is not None
        if search.found - first < max(1, self._settings.load_blocks_min):
            self._let_go(search)
            return 0
        if not search.holds:
            self._hold(search, first)
            if self._will_be_held(search, now_s):
                # The daemon comes to the leases before it comes to the load, which is asked for behind them.
                return search.found - first
            for call in _all(search.holds):
                self._polled.wait(call, wait_s)
        if search.run is None:
            if not _are_done(search.holds):
                # They go on to be brought to memory: the load waits for them where they are.
                return None if self._may_wait(search, now_s) else self._promised(search)
            self._take_holds(search)
        return search.run

    def _promised(self, search: _Search) -> int:
        """How many blocks may be loaded while some of them are still on their way to memory."""
        assert search.found is not None
        if self._settings.load_failure != "recompute":
            # Each must be held; the leases that are there by now end the wait in a moment (`_hold_timeout_s`).
            return 0
        answered = [
            (call.outcome.run, len(blocks))
            for calls, blocks in zip(search.holds, self.units.needed(search.first, search.found), strict=True)
            for call in calls
            if call.done
        ]
        if self.units.is_plain:
            return min([search.found - search.first, *(run for run, _ in answered)])
        return search.found - search.first if all(run == wanted for run, wanted in answered) else 0

    def _take_lookups(self, search: _Search, first: int, now_s: float) -> bool:
        """Whether all ranks' answers are there, and say something to an engine that has the first units."""
        if not search.is_answered:
            return False
        by_group = self._answers(search)
        answers = [one for some in by_group for one in some]
        run = self.units.found(by_group, first)
        if search.expected is not None and self._waits_for_rest(search, search.expected, answers, max(run, first), now_s):
            return False
        if self._ask_again(search, answers, run, now_s):
            return False
        search.found_of = first
        search.found_s = time.monotonic()
        self._observed["lookup_us"] += int((search.found_s - search.begun_s) * 1e6)
        if run and self._is_sooner_computed(run, max(one.estimated_load_s for one in answers)):
            self._observed["declined_blocks"] += run
            run = 0
        search.found = run
        return True

    # ---- blocks that another engine is computing ----

    def _has_last(self, search: _Search, expected: Expected, first: int, now_s: float) -> bool:
        """Whether the last of the blocks that are expected are there, or are not waited for any more."""
        if expected.node:
            self._begin_inbound(search, expected, now_s)
        is_coming = search.inbound is not None and search.inbound.is_open
        if expected.call is not None and expected.call.done:
            statuses = [status for one in expected.call.outcome for status in one.statuses]
            # Blocks that a get brings from another node can be under way after they were stored there.
            rest_s = self._settings.put_timeout_s + (self._settings.load_timeout_s if is_coming else 0)
            expected.has_last = expected.has_answer(statuses, rest_s, now_s, self._expectations.waiting)
        if first >= expected.units or now_s >= expected.until_s or (search.inbound is not None and search.inbound.has_all):
            expected.has_last = True
            return True
        if not expected.has_last and expected.call is None and expected.is_due(now_s):
            ends = [blocks.stop for blocks in self.units.needed(0, expected.units)]
            last = [keys[end - 1 : end] if end else [] for keys, end in zip(search.keys, ends, strict=True)]
            expected.call = self._asked(last, expected.is_fresh and not is_coming)
            search.is_waited_for = False
        return expected.has_last and not is_coming

    def _begin_inbound(self, search: _Search, expected: Expected, now_s: float) -> None:
        """Has the daemon get the blocks from the node that is going to have them, unless too much is under way."""
        wanted = [
            (namespace, keys, blocks)
            for group, keys, blocks in zip(self._groups, search.keys, self.units.needed(0, expected.units), strict=True)
            for namespace in group.namespaces
        ]
        search.inbound = self._inbounds.begin(expected.node, wanted, expected.until_s - now_s)
        if search.inbound is not None:
            expected.node = ""
            self._observed["expected_gets"] += 1

    def _waits_for_rest(self, search: _Search, expected: Expected, answers: Sequence[Lookup], run: int, now_s: float) -> bool:
        """Whether blocks that are expected are still missing, and waited for."""
        if run < expected.units and now_s < expected.until_s:
            expected.missed(ending_statuses(answers), now_s, self._expectations.waiting)
            search.lookup = None
            return True
        self._expectations.end(expected, run, now_s)
        self._observed["expected_got"] += search.inbound is not None and search.inbound.has_all
        search.expected = None
        # The next lookup of this request is an ordinary one.
        search.begun_s = search.asked_s = now_s
        return False

    # ---- what the answers say ----

    def _is_found_of(self, search: _Search, first: int) -> bool:
        """Whether what was found is right for an engine that has the first units."""
        return self.units.is_plain or search.found_of == first

    def _is_sooner_computed(self, run: int, load_s: float) -> bool:
        if not self._settings.may_load_in(load_s):
            return True
        return self._settings.load_if_faster and load_s > self._speed.seconds(run * self.units.tokens)

    def _ask_again(self, search: _Search, answers: list[Lookup], run: int, now_s: float) -> bool:
        """Whether more may be found than these answers say: then it was asked for again."""
        statuses = ending_statuses(answers)
        is_old = now_s - search.begun_s > _ANSWER_FRESH_S
        if run == 0 and is_old and not search.is_asked_again and Status.DEADLINE not in statuses:
            # The answer is as old as the request: it waited for the engine.
            search.is_asked_again = True
            self._look_up(search)
            return True
        # The daemon was started again, maybe.
        lost = run == 0 and Status.UNAVAILABLE in statuses and self._polled.may_connect()
        sought = sought_blocks(answers)
        if (lost or (sought and self._is_worth_waiting(search, sought, now_s))) and self._may_wait(search, now_s):
            self._look_up(search)
            return True
        if run == 0:
            self._guard.judge(statuses)
        return False

    def _is_worth_waiting(self, search: _Search, blocks: int, now_s: float) -> bool:
        """Whether the engine would take longer to compute these blocks than it has waited for news of them."""
        compute_s = self._speed.seconds(blocks * self._groups[0].block_tokens)
        return not self._settings.load_if_faster or self._waited_s(search, now_s) < compute_s

    def _hold(self, search: _Search, first: int) -> None:
        assert search.found is not None
        search.first = first
        search.run = None
        timeout_s = self._hold_timeout_s(search)
        search.holds = [
            [
                self._polled.start(
                    namespace,
                    partial(hold_operation, keys=keys[blocks.start : blocks.stop], lease_ns=0),
                    Hold(0, [Status.UNAVAILABLE], None, 0, Status.UNAVAILABLE),
                    timeout_s,
                    parent=keys[blocks.start - 1] if blocks.start else None,
                    depth=blocks.start,
                )
                for namespace in (group.namespaces if blocks else ())
            ]
            for group, keys, blocks in zip(self._groups, search.keys, self.units.needed(first, search.found), strict=True)
        ]

    def _will_be_held(self, search: _Search, now_s: float) -> bool:
        """Whether all that was found was in memory a moment ago, in all ranks: then nobody need wait for the leases. A block
        that went since is a load that fails, which must not fail the request."""
        assert search.found is not None
        return (
            self._settings.load_failure == "recompute"
            and now_s - search.found_s < _IN_MEMORY_S
            and all(
                one.are_in_memory(blocks)
                for of_ranks, blocks in zip(self._answers(search), self.units.needed(search.first, search.found), strict=True)
                for one in of_ranks
            )
        )

    def _take_holds(self, search: _Search) -> None:
        held = [call.outcome for call in _all(search.holds)]
        assert search.found is not None
        runs = [[call.outcome.run for call in calls] for calls in search.holds]
        search.run = self.units.held(runs, search.first, search.found)
        if search.inbound is not None:
            # All that is loaded has leases of its own.
            search.inbound.end()
            search.inbound = None
        search.expires_ns = min((one.expires_ns for one in held if one.expires_ns), default=0)
        if search.run == 0:
            self._guard.judge([one.refusal for one in held])
            search.found = 0
            self._let_go(search)

    # ---- how long is waited ----

    def _wait_s(self) -> float:
        return self._settings.lookup_wait_s * (1 if self._working else _IDLE_PATIENCE)

    def _hold_timeout_s(self, search: _Search) -> float:
        """How long leases may be waited for. Where a load must not fail, only those are loaded that are there in time."""
        if self._settings.load_failure == "recompute":
            return self._settings.load_timeout_s
        return max(_HOLD_S_MIN, self._settings.lookup_s_max - self._waited_s(search, time.monotonic()))

    def _waited_s(self, search: _Search, now_s: float) -> float:
        """For how long the engine has wanted to know."""
        return 0.0 if search.asked_s is None else now_s - search.asked_s

    def _may_wait(self, search: _Search, now_s: float) -> bool:
        """Whether the engine can still put its decision off."""
        return self._waited_s(search, now_s) < self._settings.lookup_s_max

    # ---- what ends ----

    def _let_go(self, search: _Search) -> None:
        if search.lookup is not None and not search.lookup.done:
            self._polled.cancel(search.lookup)
        if search.expected is not None:
            # The engine goes on without these blocks, or the request has ended.
            self._expectations.give_up(search.expected)
            if search.expected.call is not None:
                self._polled.cancel(search.expected.call)
                search.expected.call = None
        self._give_back(search.holds, search.inbound)
        search.holds = []
        search.inbound = None


def _all(of_groups: Sequence[Sequence[Call[T]]]) -> Iterable[Call[T]]:
    return chain.from_iterable(of_groups)


def _are_done(of_groups: Sequence[Sequence[Call[Any]]]) -> bool:
    return all(call.done for call in _all(of_groups))
