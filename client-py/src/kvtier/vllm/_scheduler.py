"""The scheduler's side: what is looked up, held, loaded and stored, for which request. It never waits for the daemon."""

import logging
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeVar

from kvtier._operations import Hold
from kvtier._operations import hold as hold_operation
from kvtier._operations import lookup as lookup_operation
from kvtier._operations import report_loads as report_loads_operation
from kvtier._polled import Call, Polled
from kvtier._protocol import ANNOTATION_ANNOTATION_BYTES_MAX, Status, Tier
from kvtier._types import LoadReport, Lookup
from kvtier.annotations import of_blocks
from kvtier.device import PUT_WINDOW_BYTES, window_blocks
from kvtier.engine.groups import ALL, restorable
from kvtier.engine.savings import DECODE_TOKENS_MAX, STEP_TOKENS_MIN, Savings, TypicalSpeed
from kvtier.vllm._epochs import Adapters, Epochs, Resets, joined, salted
from kvtier.vllm._groups import Group
from kvtier.vllm._namespace import mismatch_text
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan, Transfer

T = TypeVar("T")

_log = logging.getLogger("vllm.kvtier")

_ANSWER_FRESH_S = 0.5
"""how long a miss stands, for a request that has to wait: only other engines' blocks can have come since"""
_IN_MEMORY_S = 0.05
"""how long it stands what a lookup says of blocks in memory: later more of them may have gone than a load is worth"""
_HOLD_SPARE_S = 5.0
_HOLD_S_MIN = 0.01
_IDLE_PATIENCE = 10
"""how many times as long an engine waits that has nothing to compute meanwhile: an empty step brings the answer no sooner"""
_PREFILL_FADING = 0.98
_STEPS_AHEAD_MAX = 64
"""more steps than any engine plans ahead"""
_PAUSE_S = 1.0
"""how long nothing is looked up after a daemon did not answer in time"""
_TOGETHER_BLOCKS = 8
"""of what is generated for a request: a store of one block takes the engine's thread about as long as one of several"""


class _Step(NamedTuple):
    """A step that the engine has planned, and not ended."""

    number: int
    tokens: int
    prefill_tokens: int
    """those of prompts"""
    planned_s: float
    ended_tokens: int
    """of all steps that had ended when it was planned"""


class PrefillSpeed:
    """How fast the engine has computed prompts, by the best of its steps; what it did long ago counts less and less.

    Engines plan steps ahead of those that they compute: what lies between two plans is the time of no step. So a step counts
    when it has ended, with all tokens of the steps that ended since it was planned.
    """

    def __init__(self) -> None:
        self.tokens_per_s = 0.0
        self.typical = TypicalSpeed()
        self._planned: deque[_Step] = deque(maxlen=_STEPS_AHEAD_MAX)
        self._ended_tokens = 0
        self._ended_s = 0.0

    def planned(self, number: int, tokens: int, now_s: float, prefill_tokens: int | None = None) -> None:
        """A step with so many tokens will be computed; numbers grow. None: all of them are of prompts."""
        prefill_tokens = tokens if prefill_tokens is None else prefill_tokens
        self._planned.append(_Step(number, tokens, prefill_tokens, now_s, self._ended_tokens))

    def ended(self, number: int, now_s: float) -> None:
        """A step has been computed. When those before it were that nobody has told of, nobody knows."""
        while self._planned and self._planned[0].number < number:
            self._planned.popleft()
        if not self._planned or self._planned[0].number != number:
            return
        step = self._planned.popleft()
        self._ended_tokens += step.tokens
        # A step that was planned ahead is computed when the one before it has ended.
        self.typical.saw(step.prefill_tokens, step.tokens, now_s - max(step.planned_s, self._ended_s))
        self._ended_s = now_s
        if step.tokens >= STEP_TOKENS_MIN and now_s > step.planned_s:
            seen = (self._ended_tokens - step.ended_tokens) / (now_s - step.planned_s)
            self.tokens_per_s = max(seen, self.tokens_per_s * _PREFILL_FADING)

    def seconds(self, tokens: int) -> float:
        """How long these would take; endless while nothing is known."""
        return tokens / self.tokens_per_s if self.tokens_per_s else float("inf")


class _Load(NamedTuple):
    """A load that is under way."""

    block_ids: list[int]
    tokens: int
    """that the engine does not compute when all is loaded"""
    begun_s: float


class _Search:
    """What is known about a request's blocks: looked up in all ranks' namespaces, then held in all of them."""

    __slots__ = (
        "asked_s", "begun_s", "expires_ns", "first", "found", "found_of", "found_s", "holds", "is_asked_again", "is_waited_for", "keys",
        "lookups", "run",
    )  # fmt: skip

    def __init__(self, keys: Sequence[Sequence[bytes]], now_s: float) -> None:
        self.keys = keys
        """for each group, of all whole blocks, from the first"""
        self.begun_s = now_s
        self.asked_s: float | None = None
        """since when the engine has wanted to know, and decides without an answer after `lookup_s_max`; None: not yet"""
        self.lookups: list[list[Call[Lookup]]] = []
        """for each group, those of its ranks"""
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
        return not (_are_done(self.lookups) and _are_done(self.holds))


class _Blocks:
    """A request's blocks of one group."""

    __slots__ = ("ids", "stored")

    def __init__(self) -> None:
        self.ids: list[int] = []
        """where they lie, in the order of the sequence. Those that a window has left behind may be others' by now."""
        self.stored = 0
        """how many from the first are stored, or were there"""


class _Tracked:
    """A request that the engine works on."""

    __slots__ = (
        "asked_s", "blocks", "computed_tokens_max", "had_tokens", "known", "loaded_tokens", "planned_tokens", "prompt_tokens", "request",
        "stored_tokens_max", "was_loaded", "was_planned",
    )  # fmt: skip

    def __init__(self, request: Any, store: str, groups: int) -> None:
        """`store`: as `Settings` have it."""
        self.request = request
        self.prompt_tokens = int(request.num_prompt_tokens)
        self.computed_tokens_max = self.prompt_tokens + int(request.max_tokens) - 1
        """nobody computes the last token that is generated"""
        # A prompt that comes in parts: the next one takes the place of the last token that was generated before it, and vLLM
        # 0.24 keeps the hash of the block that ended with that.
        only_prompt = store == "prompt" or getattr(request, "resumable", False)
        self.stored_tokens_max = 0 if store == "none" else self.prompt_tokens if only_prompt else sys.maxsize
        """of its tokens only so many from the first are stored"""
        self.asked_s: float | None = None
        """since when it waits to be told which weights the engine has; None: it does not"""
        self.had_tokens: int | None = None
        """how many from the first it had when it was asked for what there is behind them; None: nobody has asked"""
        self.blocks = [_Blocks() for _ in range(groups)]
        self.planned_tokens = 0
        """how many from the first are computed in the steps that were planned, in the blocks that it has since; 0: in none"""
        self.was_planned = False
        self.known = 0
        """how many units from the first are in all ranks' namespaces, as far as is known"""
        self.loaded_tokens = 0
        """how many from the first the engine has when all is loaded that was to be"""
        self.was_loaded = False
        """whether the blocks that it has now were loaded here"""

    def lose_blocks(self) -> None:
        """It waits for blocks: if it has been computed before, it was preempted."""
        for blocks in self.blocks:
            blocks.ids = []
        self.planned_tokens = 0

    def begin(self, block_ids: Sequence[Sequence[int]], computed_tokens: int, groups: Sequence[Group]) -> list[int]:
        """It is computed in these blocks of each group, and has so many tokens in the first ones. Those that were its own already
        may not be stored.

        Returns:
            The blocks that are written from now on.
        """
        written = computed_tokens
        if self.had_tokens is not None and self.had_tokens < computed_tokens and not self.was_loaded:
            # Another connector loads within this step. When it fails, that is told when others have read what we stored.
            written = self.had_tokens
            self.stored_tokens_max = 0
        self.had_tokens = None
        fresh: list[int] = []
        for group, blocks, ids in zip(groups, self.blocks, block_ids, strict=True):
            computed_blocks = computed_tokens // group.block_tokens
            blocks.ids = list(ids)
            blocks.stored = min(blocks.stored, computed_blocks) if self.was_planned else computed_blocks
            fresh += ids[written // group.block_tokens :]
        self.was_planned = True
        return fresh

    def forget(self) -> None:
        """What it has computed until now is not to be stored, and nothing that is computed behind it."""
        self.asked_s = None
        self.known = 0
        for blocks in self.blocks:
            blocks.stored = sys.maxsize
        self.was_planned = False
        if self.was_loaded and not self.planned_tokens:
            self.stored_tokens_max = 0


class Scheduler:
    """One engine's scheduler. All calls come from the engine's own thread."""

    def __init__(
        self,
        polled: Polled,
        groups: Sequence[Group],
        settings: Settings,
        unit_tokens: int,
        extra_keys: Callable[[Any, Sequence[int]], list[Any] | None],
        keeps_blocks: bool,
        began: Mapping[tuple[int, int], str],
    ) -> None:
        """The engine restores whole units of `unit_tokens`, which are whole blocks of each group. `extra_keys` tells what else
        than their tokens the hashes of a request's blocks were made of, given the tokens where they begin and end.
        `keeps_blocks`: a request has its blocks until it ends. `began`: by rank, the weights that were in memory when the
        namespaces were made, as `Epochs` takes them."""
        self._polled = polled
        self._groups = list(groups)
        self._needs = [group.need for group in groups]
        self._is_plain = len(groups) == 1 and groups[0].rule is ALL
        """whether a run from the first block is all that can be restored; a unit is then a block"""
        self._annotated = next((group.number for group in groups if group.rule is ALL), groups[0].number)
        """the group whose blocks the events are of"""
        self._settings = settings
        self._unit_tokens = unit_tokens
        self._null_block: int | None = None
        """stands for blocks that the engine no longer has"""
        self._extra_keys = extra_keys
        self._annotates = settings.annotate
        self._together_blocks = _TOGETHER_BLOCKS if keeps_blocks else 1
        self._piece_blocks = [
            window_blocks(PUT_WINDOW_BYTES, max(one.block_bytes for one in group.namespaces)) for group in self._groups
        ]
        """of a store of each group: one request to the daemon, and what the engine waits for before it writes one of them anew"""
        self._searches: dict[str, _Search] = {}
        self._requests: dict[str, _Tracked] = {}
        self._loads: list[Transfer] = []
        self._late: list[Transfer] = []
        self._had_tokens: dict[str, int] = {}
        """of each request that waits for its blocks; `_Tracked`"""
        self._allocated: set[str] = set()
        """the requests that got blocks since the last plan"""
        self._loading: dict[str, list[list[Call[Hold]]]] = {}
        self._under_way: dict[str, _Load] = {}
        """of each request that waits for its load"""
        self._invalid: set[int] = set()
        """blocks of these that could not be loaded"""
        self._savings = Savings()
        self._stores_under_way = 0
        self._paused_until_s = 0.0
        self._epochs = Epochs(began)
        self._adapters = Adapters()
        self._resets: Resets | None = None
        self._void: list[str] = []
        """requests whose loads must fail"""
        self._is_awaited = False
        """whether a request waits to be told which weights the engine has"""
        self._has_old_blocks = False
        """whether the engine's own cache may hold blocks of earlier weights"""
        self._refused = False
        self._speed = PrefillSpeed()
        self._steps = 0
        self.observed: Counter[str] = Counter()

    # ---- which blocks can be loaded ----

    def arrived(self, request: Any) -> None:
        """A request has come: what there is of it is known when it is scheduled, and does not hold up its step."""
        self._notice_reset()
        if request.request_id in self._searches or not self._may_load():
            return
        limit = self._limit(request, 0)
        if limit:
            self._search(request, limit, time.monotonic())

    def matched(self, request: Any, computed_tokens: int) -> int | None:
        """How many tokens behind those that the engine has can be loaded; None: not known yet, ask again."""
        tokens = self._unit_tokens
        request_id = request.request_id
        first = computed_tokens // tokens
        self._notice_reset()
        self.had(request, computed_tokens)
        if self._is_session(request):
            self._drop(request_id)
            return 0
        if self._awaits_weights(request, first, computed_tokens):
            return None
        search = self._searches.get(request_id)
        if search is None or search.is_waiting:
            self._polled.poll()
        if not self._may_load() or computed_tokens % tokens or not self._limit(request, first):
            self._tracked(request).known = self._found(request_id)
            self._drop(request_id)
            return 0
        now_s = time.monotonic()
        if search is None or self._is_stale(search, first, now_s):
            self._drop(request_id)
            search = self._search(request, self._limit(request, 0), now_s)
        if search.asked_s is None:
            search.asked_s = now_s
        wait_s = self._wait_s()
        run = self._advance(search, first, now_s, wait_s)
        if run is None and not search.is_waited_for:
            # A moment is cheaper than another step.
            search.is_waited_for = True
            for call in _all(search.lookups):
                self._polled.wait(call, wait_s)
            run = self._advance(search, first, now_s, wait_s)
        if run is None:
            self.observed["lookups_again"] += 1
            return None
        return run * tokens

    def had(self, request: Any, computed_tokens: int) -> None:
        """So many tokens of a request the engine has itself, before any connector loads what is behind them."""
        self._had_tokens[request.request_id] = computed_tokens

    def _salt(self, request: Any) -> bytes | None:
        """Of the keys of what is computed for a request now; None: nobody knows with which weights that is."""
        adapted = getattr(request, "lora_request", None)
        if adapted is None:
            return self._epochs.salt
        adapter = self._adapters.salt(adapted)
        return None if adapter is None else joined(self._epochs.salt, adapter)

    def _keys(self, request: Any, group: Group, begin: int, end: int) -> list[bytes]:
        """The keys of some of its blocks of a group, as the daemon knows them."""
        each = group.block_hashes
        hashes = request.block_hashes[begin:end] if each == 1 else request.block_hashes[(begin + 1) * each - 1 : end * each : each]
        return salted(self._salt(request) or b"", hashes)

    def _is_session(self, request: Any) -> bool:
        """Whether its prompt has grown, maybe: then its hashes may be those of other tokens (`_Tracked`)."""
        tracked = self._requests.get(request.request_id)
        return tracked is not None and tracked.was_planned and getattr(request, "resumable", False)

    def _found(self, request_id: str) -> int:
        """How many units from the first all ranks have said are there. Nothing is said of several groups."""
        search = self._searches.get(request_id)
        if search is None or not self._is_plain or not _are_done(search.lookups):
            return 0
        return min(call.outcome.run for call in search.lookups[0])

    def _wait_s(self) -> float:
        return self._settings.lookup_wait_s * (1 if self._requests else _IDLE_PATIENCE)

    def _may_load(self) -> bool:
        return (
            self._settings.load
            and not self._refused
            and not self._is_unsettled()
            and time.monotonic() >= self._paused_until_s
        )

    def _limit(self, request: Any, first: int) -> int:
        """How many units of a request may be looked for when the engine has the first ones; 0: none that is worth it."""
        tokens = self._unit_tokens
        if self._salt(request) is None:
            return 0
        # The last token is computed in any case, and a state must not have seen it before.
        most = int(request.num_tokens) - (not self._is_plain)
        hashes = tokens // self._groups[0].block_tokens * self._groups[0].block_hashes
        limit = min(len(request.block_hashes) // hashes, most // tokens)
        # The last token is computed in any case: for it alone its block is not worth a load.
        if first >= (request.num_tokens - 1) // tokens or limit - first < max(1, self._settings.load_blocks_min):
            return 0
        return limit

    def _is_stale(self, search: _Search, first: int, now_s: float) -> bool:
        if search.holds and search.first != first:
            return True
        if search.run:
            return search.expires_ns < time.monotonic_ns() + int(_HOLD_SPARE_S * 1e9)
        # Others may have stored blocks since; what was found is held or is not.
        return search.found is not None and search.found <= first and now_s - search.begun_s > _ANSWER_FRESH_S

    def _search(self, request: Any, limit: int, now_s: float) -> _Search:
        tokens = limit * self._unit_tokens
        keys = [self._keys(request, group, 0, tokens // group.block_tokens) for group in self._groups]
        search = _Search(keys, now_s)
        self._searches[request.request_id] = search
        self.observed["lookups"] += 1
        self._look_up(search)
        return search

    def _look_up(self, search: _Search) -> None:
        search.lookups = [
            [
                self._polled.start(
                    namespace, partial(lookup_operation, keys=keys), Lookup.of_status(Status.UNAVAILABLE, 1), self._settings.lookup_s_max
                )
                for namespace in group.namespaces
            ]
            for group, keys in zip(self._groups, search.keys, strict=True)
        ]

    def _advance(self, search: _Search, first: int, now_s: float, wait_s: float) -> int | None:
        """Goes on with a search as far as it can: the run that can be loaded, or None."""
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
            for calls, blocks in zip(search.holds, self._needed(search.first, search.found), strict=True)
            for call in calls
            if call.done
        ]
        if self._is_plain:
            return min([search.found - search.first, *(run for run, _ in answered)])
        return search.found - search.first if all(run == wanted for run, wanted in answered) else 0

    def _needed(self, first: int, end: int) -> list[range]:
        """The blocks of each group that a load brings, for an engine that has the first units and is to have those before the end."""
        return [need.blocks(end * self._unit_tokens, first * self._unit_tokens) for need in self._needs]

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

    def _will_be_held(self, search: _Search, now_s: float) -> bool:
        """Whether all that was found was in memory a moment ago, in all ranks: then nobody need wait for the leases. A block
        that went since is a load that fails, which must not fail the request."""
        assert search.found is not None
        return (
            self._settings.load_failure == "recompute"
            and now_s - search.found_s < _IN_MEMORY_S
            and all(
                call.outcome.are_in_memory(blocks)
                for calls, blocks in zip(search.lookups, self._needed(search.first, search.found), strict=True)
                for call in calls
            )
        )

    def _take_holds(self, search: _Search) -> None:
        held = [call.outcome for call in _all(search.holds)]
        search.run = self._held_units(search)
        search.expires_ns = min((one.expires_ns for one in held if one.expires_ns), default=0)
        if search.run == 0:
            self._judge([one.refusal for one in held])
            search.found = 0
            self._let_go(search)

    def _held_units(self, search: _Search) -> int:
        """How many units behind the first can be loaded with what is held: all ranks' parts of a block, or none of it."""
        assert search.found is not None
        if self._is_plain:
            return min(call.outcome.run for call in search.holds[0])
        there = []
        for calls, blocks in zip(search.holds, self._needed(search.first, search.found), strict=True):
            held = min((call.outcome.run for call in calls), default=0)
            there.append([blocks.start <= at < blocks.start + held for at in range(blocks.stop)])
        return self._longest(there, search.first, search.found) - search.first

    def _longest(self, there: Sequence[Sequence[bool]], first: int, most: int) -> int:
        """How many units can be restored at most with these blocks of each group; `first`, if none behind the first."""
        tokens = self._unit_tokens
        return max(restorable(self._needs, there, tokens, first * tokens, most * tokens), default=first * tokens) // tokens

    def _is_found_of(self, search: _Search, first: int) -> bool:
        """Whether what was found is right for an engine that has the first units."""
        return self._is_plain or search.found_of == first

    def _units(self, search: _Search, answers: Sequence[Sequence[Lookup]], first: int) -> int:
        """How many units from the first can be restored, by these answers."""
        if self._is_plain:
            return min(one.run for one in answers[0])
        there = []
        for of_ranks, keys in zip(answers, search.keys, strict=True):
            statuses = [one.statuses for one in of_ranks]
            if any(len(some) != len(keys) for some in statuses):
                return 0
            there.append([all(status is Status.OK for status in of_block) for of_block in zip(*statuses, strict=True)])
        found = self._longest(there, first, len(search.keys[0]) * self._groups[0].block_tokens // self._unit_tokens)
        return found if found > first else 0

    def _take_lookups(self, search: _Search, first: int, now_s: float) -> bool:
        """Whether all ranks' answers are there, and say something to an engine that has the first units."""
        if not _are_done(search.lookups):
            return False
        by_group = [[call.outcome for call in calls] for calls in search.lookups]
        answers = [one for some in by_group for one in some]
        run = self._units(search, by_group, first)
        if self._ask_again(search, answers, run, now_s):
            return False
        search.found_of = first
        search.found_s = time.monotonic()
        self.observed["lookup_us"] += int((search.found_s - search.begun_s) * 1e6)
        if run and self._is_sooner_computed(run, max(one.estimated_load_s for one in answers)):
            self.observed["declined_blocks"] += run
            run = 0
        search.found = run
        return True

    def _is_sooner_computed(self, run: int, load_s: float) -> bool:
        if load_s > min(self._settings.load_s_max, self._settings.load_timeout_s):
            # A load that is estimated to take longer than its timeout would fail.
            return True
        return self._settings.load_if_faster and load_s > self._speed.seconds(run * self._unit_tokens)

    def _ask_again(self, search: _Search, answers: list[Lookup], run: int, now_s: float) -> bool:
        """Whether more may be found than these answers say: then it was asked for again."""
        # Only ranks that have no longer run keep the others waiting.
        blocks = min(one.run for one in answers)
        shortest = [one for one in answers if one.run == blocks]
        ends = [end for one in shortest if (end := one.at(blocks)) is not None]
        statuses = [status for status, _ in ends]
        is_old = now_s - search.begun_s > _ANSWER_FRESH_S
        if run == 0 and is_old and not search.is_asked_again and Status.DEADLINE not in statuses:
            # The answer is as old as the request: it waited for the engine.
            search.is_asked_again = True
            self._look_up(search)
            return True
        # The daemon was started again, maybe.
        lost = run == 0 and Status.UNAVAILABLE in statuses and self._polled.may_connect()
        # It asks the object store, and will know.
        is_sought = bool(ends) and all(end == (Status.PENDING, Tier.OBJECT) for end in ends)
        sought = min(one.sought_from(blocks) for one in shortest) if is_sought else 0
        if (lost or (sought and self._is_worth_waiting(search, sought, now_s))) and self._may_wait(search, now_s):
            self._look_up(search)
            return True
        if run == 0:
            self._judge(statuses)
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
            for group, keys, blocks in zip(self._groups, search.keys, self._needed(first, search.found), strict=True)
        ]

    def _judge(self, statuses: list[Status]) -> None:
        """What an answer says about the daemon, beside the blocks."""
        if Status.DEADLINE in statuses:
            self.observed["lookups_late"] += 1
            self._paused_until_s = time.monotonic() + _PAUSE_S
        if Status.NAMESPACE_MISMATCH in statuses and not self._refused:
            self._refused = True
            _log.error("%s Until then this engine neither loads nor stores blocks.", mismatch_text("the daemon has this namespace with other properties"))

    def _drop(self, request_id: str) -> None:
        search = self._searches.pop(request_id, None)
        if search is not None:
            self._let_go(search)

    def _let_go(self, search: _Search) -> None:
        for call in _all(search.lookups):
            if not call.done:
                self._polled.cancel(call)
        self._release(search.holds)
        search.holds = []

    def _release(self, holds: Sequence[Sequence[Call[Hold]]]) -> None:
        """Gives leases back, those too that are just being granted."""
        for call in _all(holds):
            if not self._polled.wait(call, self._wait_s()):
                self._polled.cancel(call)
            elif call.outcome.leases is not None:
                call.outcome.leases.release()

    # ---- what the engine decided ----

    def allocated(self, request: Any, block_ids: Sequence[Sequence[int]], external_tokens: int) -> None:
        """The engine has blocks for a request, of each group; so many tokens of it are to be loaded."""
        request_id = request.request_id
        tracked = self._tracked(request)
        tracked.lose_blocks()
        if request_id in self._had_tokens:
            tracked.had_tokens = self._had_tokens.pop(request_id)
            tracked.was_loaded = external_tokens > 0
        self._allocated.add(request_id)
        if external_tokens == 0:
            self._drop(request_id)
            return
        found = self._found(request_id)
        search = self._searches.pop(request_id, None)
        if search is None or not search.holds:
            raise RuntimeError(f"request {request_id}: vLLM asks to load {external_tokens} tokens that the connector did not offer")
        first, tokens = search.first, self._unit_tokens
        count = -(-external_tokens // tokens)
        tracked.known = min(found, first + count)
        tracked.loaded_tokens = min((first + count) * tokens, int(request.num_tokens) - 1)
        loaded: list[int] = []
        blocks_loaded = 0
        for number, (keys, blocks) in enumerate(zip(search.keys, self._needed(first, first + count), strict=True)):
            if blocks:
                ids = list(block_ids[number][blocks.start : blocks.stop])
                self._loads.append(Transfer(request_id, list(keys[blocks.start : blocks.stop]), ids, blocks.start, group=number))
                loaded += ids
                blocks_loaded += len(ids)
        saved = max(0, tracked.loaded_tokens - first * tokens)
        self._under_way[request_id] = _Load(loaded, saved, time.monotonic())
        self._loading[request_id] = search.holds
        self.observed["hit_blocks"] += blocks_loaded
        found_ms = (time.monotonic() - search.begun_s) * 1e3
        _log.debug("kvtier: request %s: found %d blocks within %.2f ms", request_id, blocks_loaded, found_ms)

    def _tracked(self, request: Any) -> _Tracked:
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            tracked = self._requests[request.request_id] = _Tracked(request, self._settings.store, len(self._groups))
        return tracked

    def plan(self, output: Any) -> Plan:
        """What the workers do in the step that was just scheduled."""
        self._notice_reset()
        self._polled.poll()
        self._steps += 1
        plan = Plan(self._steps, idle=output.total_num_scheduled_tokens == 0, allocates=bool(self._allocated))
        plan.loads, self._loads = self._loads, []
        plan.late, self._late = self._late, []
        plan.void, self._void = self._void, []
        if not plan.idle or self._is_awaited:
            # Not before: who resets an engine may change its weights as long as it computes nothing.
            plan.weigh = self._epochs.question
            self._is_awaited = False
        if not plan.idle:
            total = output.total_num_scheduled_tokens
            self._speed.planned(plan.step, total, time.monotonic(), _prefill_tokens(output) if total >= STEP_TOKENS_MIN else 0)
        self._report(self._savings.take(self._speed.typical.tokens_per_s))
        groups = self._groups
        state = getattr(output, "kv_connector_block_state", None)
        written = _written_between_requests(output)
        for new in output.scheduled_new_reqs:
            tracked = self._requests.get(new.req_id)
            if tracked is None:
                continue
            computed = new.num_computed_tokens
            written += tracked.begin(new.block_ids, computed, groups)
            if computed < tracked.loaded_tokens:
                tracked.known = 0
            tracked.planned_tokens = computed + output.num_scheduled_tokens[new.req_id]
            plan.stores += self._stores(tracked, tracked.planned_tokens, state)
        cached = output.scheduled_cached_reqs
        together = self._together_blocks
        for index, request_id in enumerate(cached.req_ids):
            tracked = self._requests.get(request_id)
            if tracked is None:
                continue
            fresh = cached.new_block_ids[index]
            computed = cached.num_computed_tokens[index]
            if request_id in cached.resumed_req_ids:
                # What it has to compute again was not found: it is stored again, whatever became of it.
                written += tracked.begin(fresh or [()] * len(groups), computed, groups)
                tracked.known = 0
            elif fresh:
                for blocks, ids in zip(tracked.blocks, fresh, strict=True):
                    blocks.ids += ids
                    written += ids
            computed += output.num_scheduled_tokens[request_id]
            tracked.planned_tokens = computed
            if not self._is_plain:
                plan.stores += self._stores(tracked, computed, state)
                continue
            stored = tracked.blocks[0].stored
            filled = min(computed, tracked.stored_tokens_max) // groups[0].block_tokens - stored
            if filled >= together:
                # Of an engine that plans ahead the last one has no hash yet.
                filled = min(filled, len(tracked.request.block_hashes) // groups[0].block_hashes - stored)
            # Most steps of most requests fill no block.
            if filled >= together or (filled > 0 and not tracked.prompt_tokens < computed < tracked.computed_tokens_max):
                plan.stores += self._stores(tracked, computed)
        self._stores_under_way += self._ends_of(plan.late)
        if self._allocated:
            # Who got blocks and is neither computed nor loaded here is loaded by another connector: that writes to them from
            # now on, and not when they are computed on.
            self._allocated.difference_update(output.num_scheduled_tokens, [load.request_id for load in plan.loads])
            plan.reuses_any = bool(self._allocated)
            for request_id in self._allocated & self._requests.keys():
                self._requests[request_id].had_tokens = None
            self._allocated.clear()
        if self._stores_under_way:
            plan.reused = written
            for load in plan.loads:
                plan.reused += load.block_ids
        self._stores_under_way += self._ends_of(plan.stores)
        return plan

    def _ends_of(self, stores: Sequence[Transfer]) -> int:
        """How often the ranks will tell that one of these has ended."""
        return sum(self._groups[store.group].writers for store in stores)

    def _stores(self, tracked: _Tracked, computed_tokens: int, state: Any = None) -> list[Transfer]:
        """Of the blocks that are whole when so many tokens from the first are computed, those that are not stored yet.

        Args:
            state: vLLM's ``KVConnectorBlockState`` of the step: where the request's blocks lie now, and states that it offers.
        """
        request = tracked.request
        if self._refused or self._is_unsettled() or self._salt(request) is None:
            return []
        computed_tokens = min(computed_tokens, tracked.stored_tokens_max)
        now = None if state is None or self._is_plain else state.get_block_ids(request.request_id)
        stores: list[Transfer] = []
        for group, blocks in zip(self._groups, tracked.blocks, strict=True):
            if group.is_offered:
                stores += self._offered(group, tracked, computed_tokens, state)
            else:
                stores += self._filled(group, tracked, blocks, computed_tokens, blocks.ids if now is None else now[group.number])
        return stores

    def _offered(self, group: Group, tracked: _Tracked, computed_tokens: int, state: Any) -> list[Transfer]:
        """The states of a request that the engine has at the ends of blocks when the step is computed."""
        offers = () if state is None else state.boundary_state_offloads.get(tracked.request.request_id, ())
        stores = []
        for number, block_id, tokens in offers:
            at = tokens // group.block_tokens
            has_hash = at * group.block_hashes <= len(tracked.request.block_hashes)
            if number != group.number or tokens % group.block_tokens or tokens > computed_tokens or not has_hash:
                continue
            if tokens > tracked.loaded_tokens:
                stores.append(self._piece(group, tracked, [block_id], at - 1, at))
        return stores

    def _filled(self, group: Group, tracked: _Tracked, blocks: _Blocks, computed_tokens: int, ids: Sequence[int]) -> list[Transfer]:
        """The blocks of a group that are whole and not stored yet. `ids`: where the blocks lie."""
        request = tracked.request
        tokens = group.block_tokens
        # A block has a hash when its last token is decided: what is only guessed has none.
        end = min(computed_tokens // tokens, len(request.block_hashes) // group.block_hashes, len(ids))
        begin = blocks.stored
        if begin >= end:
            return []
        blocks.stored = end
        if begin == end - 1 and end * tokens == request.num_prompt_tokens and end <= tracked.known:
            # A prompt of whole blocks that is there to its end: the last one is computed all the same, for its last token.
            return []
        step = self._piece_blocks[group.number]
        pieces = [
            self._piece(group, tracked, ids[at : min(at + step, last)], at, min(at + step, last))
            for first, last in _held(ids, begin, end, self._null_block)
            for at in range(first, last, step)
        ]
        # An engine frees a sequence's blocks from its last one, and uses those first that it freed first: the next request
        # waits for the last ones. But who reads events wants to hear of a block behind its parent.
        return pieces if self._annotates else pieces[::-1]

    def _piece(self, group: Group, tracked: _Tracked, ids: Sequence[int], begin: int, end: int) -> Transfer:
        request = tracked.request
        keys = self._keys(request, group, max(0, begin - 1), end)
        parent = keys.pop(0) if begin else None
        is_annotated = self._annotates and group.number == self._annotated
        annotations = self._annotations(request, group, begin, keys, parent) if is_annotated else None
        return Transfer(request.request_id, keys, list(ids), begin, parent, annotations, group.number)

    def _annotations(
        self, request: Any, group: Group, begin: int, keys: list[bytes], parent: bytes | None
    ) -> list[bytes | None] | None:
        tokens = group.block_tokens
        end = begin + len(keys)
        adapter = request.lora_request
        try:
            made = of_blocks(
                request.all_token_ids[begin * tokens : end * tokens],
                keys,
                parent=parent,
                lora_id=None if adapter is None else adapter.lora_int_id,
                lora_name=None if adapter is None else adapter.lora_name,
                extra_keys=self._extra_keys(request, range(begin * tokens, end * tokens + 1, tokens)),
            )
        except Exception as error:
            # What it is made of is the engine's own, and changes with it; the blocks are worth more than their events.
            _log.warning("kvtier.annotate does not work with this vLLM release, so blocks are stored without their tokens: %s: %s", type(error).__name__, error)
            self._annotates = False
            return None
        # Blocks of very many tokens, or images: their events would not fit, and the blocks are worth more.
        return [one if len(one) <= ANNOTATION_ANNOTATION_BYTES_MAX else None for one in made]

    def loaded(self, request_ids: Sequence[str], invalid: Collection[int] = (), failed: Collection[str] = ()) -> None:
        """Loads have ended in all ranks. `invalid`: blocks that some rank could not load. `failed`: requests of which nothing
        that was loaded counts."""
        self._invalid.update(invalid)
        for request_id in request_ids:
            self._release(self._loading.pop(request_id, []))
            load = self._under_way.pop(request_id, None)
            if load is not None:
                self._account(load, request_id in failed)
        if not self._under_way:
            self._invalid.clear()

    def _account(self, load: _Load, has_failed: bool) -> None:
        """The engine computes from the first block on that could not be loaded."""
        blocks = next((at for at, block in enumerate(load.block_ids) if block in self._invalid), len(load.block_ids))
        tokens = min(load.tokens, blocks * self._groups[0].block_tokens) if self._is_plain else load.tokens
        if has_failed:
            blocks = tokens = 0
        self._savings.add(blocks, tokens, time.monotonic() - load.begun_s)
        self.observed["saved_tokens"] += tokens

    def _report(self, reports: Iterable[LoadReport]) -> None:
        """Tells the daemon. Blocks are whole ones: the ranks' parts of a block are one."""
        for report in reports:
            self.observed["saved_prefill_us"] += int(report.prefill_s * 1e6)
            self._polled.start(
                self._groups[0].namespaces[0], partial(report_loads_operation, report=report), Status.UNAVAILABLE, self._settings.lookup_s_max
            )

    def step_ended(self, step: int) -> None:
        """All ranks have computed a step."""
        self._speed.ended(step, time.monotonic())

    def stores_ended(self, count: int) -> None:
        self._stores_under_way = max(0, self._stores_under_way - count)

    def finished(self, request: Any, block_ids: Sequence[Sequence[int]]) -> None:
        """The engine is done with a request, which has these blocks until now. What is being loaded for it stays held until it
        has ended. What it has computed and is not stored is planned with the next step, the first that can write there."""
        self._drop(request.request_id)
        self._had_tokens.pop(request.request_id, None)
        self._under_way.pop(request.request_id, None)
        tracked = self._requests.pop(request.request_id, None)
        if tracked is None:
            return
        # The last token has not been computed. Of what was guessed wrongly, or its load has failed, the engine takes back what
        # was planned; and blocks that are behind a sliding window.
        computed = min(tracked.planned_tokens, int(request.num_computed_tokens), int(request.num_tokens) - 1)
        if all(
            group.is_offered or _are_equal(blocks.ids, ids, blocks.stored, computed // group.block_tokens)
            for group, blocks, ids in zip(self._groups, tracked.blocks, block_ids, strict=True)
        ):
            self._late += self._stores(tracked, computed)

    # ---- other weights ----

    def watch(self, pool: Any) -> None:
        """Takes resets of the engine's own prefix cache for resets. `pool`: as `Resets` has it."""
        self._resets = Resets(pool)
        null = getattr(pool, "null_block", None)
        self._null_block = None if null is None else int(null.block_id)

    def _notice_reset(self) -> None:
        if self._resets is not None and self._resets.take():
            self._begin_anew(False)

    def reset(self) -> bool:
        """The weights may be others from now on, or become others before the next step that computes. Until the workers have
        said which they are, nothing is loaded or stored. What there is in the daemon stays."""
        # The engine resets its own cache first; where it could not, blocks of before are still in use.
        self._begin_anew(self._resets is not None and not self._resets.take())
        return True

    def _begin_anew(self, has_old_blocks: bool) -> None:
        self._has_old_blocks = has_old_blocks
        for request_id in list(self._searches):
            self._drop(request_id)
        for tracked in self._requests.values():
            tracked.forget()
        self._late = []
        self._void += self._loading
        self._epochs.ask()

    def weighed(self, question: int, weights: Mapping[tuple[int, int], str]) -> None:
        """The workers have said which weights they have."""
        before = self._epochs.salt
        if not self._epochs.answer(question, weights):
            return
        if self._epochs.salt == before:
            self._has_old_blocks = False
            return
        self.observed["epochs"] += 1
        _log.info("kvtier: the weights of this engine have changed. Its blocks now have other keys than those of the earlier weights.")
        if self._has_old_blocks:
            _log.warning(
                "kvtier: the weights of this engine have changed, but its own prefix cache could not be reset, because requests hold its "
                "blocks. kvtier neither loads nor stores blocks until reset_prefix_cache succeeds."
            )

    def _is_unsettled(self) -> bool:
        """Whether it is not known which weights the blocks are of that the engine computes now."""
        return self._has_old_blocks or self._epochs.question != 0

    def _awaits_weights(self, request: Any, first: int, computed_tokens: int) -> bool:
        """Whether a request is to ask again when the workers have said which weights they have."""
        if not self._epochs.question or not self._settings.load or computed_tokens % self._unit_tokens:
            return False
        if not self._limit(request, first):
            return False
        tracked = self._tracked(request)
        now_s = time.monotonic()
        if tracked.asked_s is None:
            tracked.asked_s = now_s
        if now_s - tracked.asked_s > self._settings.lookup_s_max:
            return False
        self._is_awaited = True
        self.observed["lookups_again"] += 1
        return True

    def close(self) -> None:
        for request_id in list(self._searches):
            self._drop(request_id)
        self._under_way.clear()
        self.loaded(list(self._loading))
        self._report(self._savings.take_all(self._speed.typical.tokens_per_s))
        self._polled.close()


def _prefill_tokens(output: Any) -> int:
    """How many tokens of a step are of prompts."""
    return sum(count for count in output.num_scheduled_tokens.values() if count > DECODE_TOKENS_MAX)


def _all(of_groups: Sequence[Sequence[Call[T]]]) -> Iterable[Call[T]]:
    return chain.from_iterable(of_groups)


def _are_done(of_groups: Sequence[Sequence[Call[Any]]]) -> bool:
    return all(call.done for call in _all(of_groups))


def _are_equal(ids: Sequence[int], others: Sequence[int], begin: int, end: int) -> bool:
    return list(ids[begin:end]) == list(others[begin:end])


def _held(ids: Sequence[int], begin: int, end: int, null: int | None) -> Iterable[tuple[int, int]]:
    """The runs of blocks that the engine has, of those from `begin` to `end`."""
    if null is None or null not in ids[begin:end]:
        return [(begin, end)]
    runs = []
    for is_null, places in groupby(range(begin, end), lambda at: ids[at] == null):
        if not is_null:
            some = list(places)
            runs.append((some[0], some[-1] + 1))
    return runs


def _written_between_requests(output: Any) -> list[int]:
    """Blocks that the engine writes to in this step, beside those that it gave to requests: it clears or copies them."""
    copies = getattr(output, "kv_cache_block_copies", None) or ()
    return [*(getattr(output, "new_block_ids_to_zero", None) or ()), *(one.dst_block_id for one in copies)]
