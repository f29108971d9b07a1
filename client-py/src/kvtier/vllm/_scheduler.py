"""The scheduler's side: what is looked up, held, loaded and stored, for which request. It never waits for the daemon."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kvtier._operations import report_loads as report_loads_operation
from kvtier._polled import Polled
from kvtier._protocol import Status
from kvtier._types import LoadReport
from kvtier.engine.epochs import Epochs
from kvtier.engine.found import Found
from kvtier.engine.groups import Group, is_plain, leading
from kvtier.engine.guard import Guard
from kvtier.engine.inbound import OwnNode
from kvtier.engine.retainer import Retainer
from kvtier.engine.savings import DECODE_TOKENS_MAX, LAST_REPORT_S, STEP_TOKENS_MIN, Savings
from kvtier.engine.search import Searches
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.transfers import Transfer
from kvtier.engine.wishes import Wishes, WishReader
from kvtier.vllm._keys import Keys
from kvtier.vllm._namespace import TEXTS
from kvtier.vllm._resets import Resets
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan
from kvtier.vllm._stores import Stores
from kvtier.vllm._tracked import Tracked

_log = logging.getLogger("vllm.kvtier")

_BY_LAYER_BYTES_MIN = 512 << 20
"""of one rank's load that comes by layer where that is to pay: a GPU's link takes 10 ms for them"""
_TOGETHER_BLOCKS = 8
"""of what is generated for a request: a store of one block takes the engine's thread about as long as one of several"""


class _Load(NamedTuple):
    """A load that is under way."""

    block_ids: list[int]
    """of the leading group"""
    tokens: int
    """that the engine does not compute when all is loaded"""
    begun_s: float


class Scheduler:
    """One engine's scheduler. All calls come from the engine's own thread."""

    def __init__(
        self,
        polled: Polled,
        groups: Sequence[Group],
        settings: Settings,
        unit_tokens: int,
        extra_keys: Callable[[Any, Sequence[int]], list[Any] | None],
        began: Mapping[tuple[int, int], str],
        shares: bool = False,
        continues: Callable[[Any], bool] = lambda _request: False,
    ) -> None:
        """The engine restores whole units of `unit_tokens`, which are whole blocks of each group. `extra_keys` tells what else
        than their tokens the hashes of a request's blocks were made of, given the tokens where they begin and end.
        `began`: by rank, the weights that were in memory when the
        namespaces were made, as `Epochs` takes them. `shares`: other engines read blocks where they lie, so the workers hear of each
        block that is written anew. `continues`: whether another engine goes on with a request."""
        self._polled = polled
        self._groups = list(groups)
        rules = [group.rule for group in groups]
        self._is_plain = is_plain(rules)
        self._leading = self._groups[leading(rules)]
        self._settings = settings
        self._unit_tokens = unit_tokens
        self._shares = shares
        self._together_blocks = _TOGETHER_BLOCKS if self._is_plain else 1
        self._requests: dict[str, Tracked] = {}
        self._loads: list[Transfer] = []
        self._by_layer: set[str] = set()
        """requests whose loads come by layer, that have their blocks, and that have not been computed since"""
        self._late: list[Transfer] = []
        self._had_tokens: dict[str, int] = {}
        """of each request that waits for its blocks; `Tracked`"""
        self._allocated: set[str] = set()
        """the requests that got blocks since the last plan"""
        self._loading: dict[str, Found] = {}
        self._under_way: dict[str, _Load] = {}
        """of each request that waits for its load"""
        self._invalid: set[int] = set()
        """blocks of these that could not be loaded"""
        self._savings = Savings()
        self._stores_under_way = 0
        self._epochs = Epochs(began)
        self._resets: Resets | None = None
        self._void: list[str] = []
        """requests whose loads must fail"""
        self._is_awaited = False
        """whether a request waits to be told which weights the engine has"""
        self._has_old_blocks = False
        """whether the engine's own cache may hold blocks of earlier weights"""
        self._speed = PrefillSpeed()
        self._steps = 0
        self._guard = Guard(_log, TEXTS.mismatch("the daemon has this namespace with other properties"))
        self.observed = self._guard.observed
        self._keys = Keys(self._epochs)
        self._own_node = OwnNode(polled, self._leading.namespaces[0])
        self._searches = Searches(
            polled, groups, settings, unit_tokens, self._keys, self._guard, self._speed, self._requests,
            self._wishes_of,
        )  # fmt: skip
        self._continues = continues
        self._stores = Stores(groups, self._keys, extra_keys, settings.annotate, self._stores_by_layer)
        self._wish_reader = WishReader(self._guard)
        self._retainer = Retainer(polled, groups, self._guard, settings.lookup_s_max)

    # ---- which blocks can be loaded ----

    def arrived(self, request: Any) -> None:
        """A request has come: what there is of it is known when it is scheduled, and does not hold up its step."""
        self._notice_reset()
        self._own_node.ask()
        if not self._is_unsettled() and self._wishes_of(request).load:
            self._searches.begin(request)

    def matched(self, request: Any, computed_tokens: int) -> int | None:
        """How many tokens behind those that the engine has can be loaded; None: not known yet, ask again."""
        tokens = self._unit_tokens
        request_id = request.request_id
        first = computed_tokens // tokens
        self._notice_reset()
        self.had(request, computed_tokens)
        if self._is_session(request):
            self._searches.drop(request_id)
            return 0
        if self._awaits_weights(request, first, computed_tokens):
            return None
        self._searches.poll(request_id)
        may_load = self._wishes_of(request).load and not self._is_unsettled() and self._searches.may_look()
        if not may_load or computed_tokens % tokens or not self._searches.limit(request, first):
            self._tracked(request).known = self._searches.found(request_id)
            self._searches.drop(request_id)
            return 0
        run = self._searches.matched(request, first)
        return None if run is None else run * tokens

    def _wishes_of(self, request: Any) -> Wishes:
        tracked = self._requests.get(request.request_id)
        return self._wish_reader.of(*_said_by(request)) if tracked is None else tracked.wishes

    def had(self, request: Any, computed_tokens: int) -> None:
        """So many tokens of a request the engine has itself, before any connector loads what is behind them."""
        self._had_tokens[request.request_id] = computed_tokens

    def _is_session(self, request: Any) -> bool:
        """Whether its prompt has grown, maybe: then its hashes may be those of other tokens (`Tracked`)."""
        tracked = self._requests.get(request.request_id)
        return tracked is not None and tracked.was_planned and getattr(request, "resumable", False)

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
            tracked.known = max(tracked.known, self._searches.found(request_id))
            self._searches.drop(request_id)
            return
        known = self._searches.found(request_id)
        found = self._searches.take(request_id, -(-external_tokens // self._unit_tokens))
        if found is None:
            raise RuntimeError(f"request {request_id}: vLLM asks to load {external_tokens} tokens that the connector did not offer")
        tracked.known = min(known, found.tokens // self._unit_tokens)
        tracked.loaded_tokens = min(found.tokens, int(request.num_tokens) - 1)
        leading_ids: list[int] = []
        blocks_loaded = 0
        for number, (keys, blocks) in enumerate(zip(found.keys, found.blocks, strict=True)):
            if blocks:
                ids = list(block_ids[number][blocks.start : blocks.stop])
                self._loads.append(Transfer(request_id, list(keys), ids, blocks.start, group=number))
                blocks_loaded += len(ids)
                if number == self._leading.number:
                    leading_ids = ids
        saved = max(0, tracked.loaded_tokens - found.had_tokens)
        self._under_way[request_id] = _Load(leading_ids, saved, time.monotonic())
        self._loading[request_id] = found
        self.observed["hit_blocks"] += blocks_loaded
        found_ms = (time.monotonic() - found.begun_s) * 1e3
        _log.debug("kvtier: request %s: found %d blocks within %.2f ms", request_id, blocks_loaded, found_ms)

    def _tracked(self, request: Any) -> Tracked:
        tracked = self._requests.get(request.request_id)
        if tracked is None:
            wishes = self._wish_reader.of(*_said_by(request))
            tracked = self._requests[request.request_id] = Tracked(request, self._settings.store, len(self._groups), wishes)
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
        plan.by_layer = self._choose_by_layer(plan)
        if self._by_layer:
            plan.computed = [request_id for request_id in self._by_layer if request_id in output.num_scheduled_tokens]
            self._by_layer.difference_update(plan.computed)
            plan.waiting = list(self._by_layer)
        self._by_layer.update(plan.by_layer)
        if not plan.idle or self._is_awaited:
            # Not before: who resets an engine may change its weights as long as it computes nothing.
            plan.weigh = self._epochs.question
            self._is_awaited = False
        if not plan.idle:
            total = output.total_num_scheduled_tokens
            self._speed.planned(plan.step, total, time.monotonic(), _prefill_tokens(output) if total >= STEP_TOKENS_MIN else 0)
        self._report(self._savings.take(self._speed.typical.tokens_per_s))
        groups = self._groups
        may_store = self._may_store()
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
            if may_store:
                plan.stores += self._stores.of(tracked, tracked.planned_tokens, state)
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
            if not may_store:
                continue
            if not self._is_plain:
                plan.stores += self._stores.of(tracked, computed, state)
                continue
            stored = tracked.blocks[0].stored
            filled = min(computed, tracked.stored_tokens_max) // groups[0].block_tokens - stored
            if filled >= together:
                # Of an engine that plans ahead the last one has no hash yet.
                filled = min(filled, len(tracked.request.block_hashes) // groups[0].block_hashes - stored)
            # Most steps of most requests fill no block.
            if filled >= together or (filled > 0 and not tracked.prompt_tokens < computed < tracked.computed_tokens_max):
                plan.stores += self._stores.of(tracked, computed)
        self._stores_under_way += self._stores.ends_of(plan.late)
        if self._allocated:
            # Who got blocks and is neither computed nor loaded here is loaded by another connector: that writes to them from
            # now on, and not when they are computed on.
            self._allocated.difference_update(output.num_scheduled_tokens, [load.request_id for load in plan.loads])
            plan.reuses_any = bool(self._allocated)
            for request_id in self._allocated & self._requests.keys():
                self._requests[request_id].had_tokens = None
            self._allocated.clear()
        if self._stores_under_way or self._shares:
            plan.reused = written
            for load in plan.loads:
                plan.reused += load.block_ids
        self._stores_under_way += self._stores.ends_of(plan.stores)
        return plan

    def _choose_by_layer(self, plan: Plan) -> list[str]:
        """The requests of the plan's loads that should bring the first layers of all blocks first."""
        choice = self._settings.load_by_layer
        if choice == "off" or not plan.loads or not self._is_plain:
            return []
        if choice == "auto":
            # It saves at most the load's time, and others would wait for it.
            block_bytes = sum(one.block_bytes for one in self._leading.namespaces) // max(1, self._leading.writers)
            load_bytes = sum(len(load.keys) for load in plan.loads) * block_bytes
            if not plan.idle or len(self._under_way) > 1 or load_bytes < _BY_LAYER_BYTES_MIN:
                return []
        return [load.request_id for load in plan.loads]

    def _stores_by_layer(self, request: Any) -> bool:
        """Whether the first layers of a request's blocks should be stored before the others are computed."""
        choice = self._settings.store_by_layer
        return choice == "on" or (choice == "auto" and self._continues(request))

    def _may_store(self) -> bool:
        """Whether what is computed now may be stored."""
        return not self._guard.is_refused and not self._is_unsettled()

    def loaded(self, request_ids: Sequence[str], invalid: Collection[int] = (), failed: Collection[str] = ()) -> None:
        """Loads have ended in all ranks. `invalid`: blocks that some rank could not load. `failed`: requests of which nothing
        that was loaded counts."""
        self._invalid.update(invalid)
        for request_id in request_ids:
            found = self._loading.pop(request_id, None)
            if found is not None:
                found.release()
            load = self._under_way.pop(request_id, None)
            if load is not None:
                self._account(load, request_id in failed)
        if not self._under_way:
            self._invalid.clear()

    def _account(self, load: _Load, has_failed: bool) -> None:
        """The engine computes from the first block on that could not be loaded."""
        blocks = next((at for at, block in enumerate(load.block_ids) if block in self._invalid), len(load.block_ids))
        tokens = min(load.tokens, blocks * self._leading.block_tokens) if self._is_plain else load.tokens
        if has_failed:
            blocks = tokens = 0
        self._savings.add(blocks, tokens, time.monotonic() - load.begun_s)
        self.observed["saved_tokens"] += tokens

    def _report(self, reports: Iterable[LoadReport]) -> None:
        """Tells the daemon. Blocks are whole ones, and those of the leading group: the daemon refuses more than it has given there."""
        for report in reports:
            self.observed["saved_prefill_us"] += int(report.prefill_s * 1e6)
            self._polled.start(
                self._leading.namespaces[0], partial(report_loads_operation, report=report), Status.UNAVAILABLE, self._settings.lookup_s_max
            )

    def step_ended(self, step: int) -> None:
        """All ranks have computed a step."""
        self._speed.ended(step, time.monotonic())

    def stores_ended(self, count: int) -> None:
        self._stores_under_way = max(0, self._stores_under_way - count)
        if count:
            self._retainer.stored()

    def finished(self, request: Any, block_ids: Sequence[Sequence[int]]) -> int:
        """The engine is done with a request, which has these blocks until now. What is being loaded for it stays held until it
        has ended. What it has computed and is not stored is planned with the next step, the first that can write there.

        Returns:
            How many tokens of its prompt, from the first, an engine that goes on with it finds in whole blocks, now or as soon as they are
            stored; 0: no engine does.
        """
        self._searches.forget(request.request_id)
        self._had_tokens.pop(request.request_id, None)
        self._under_way.pop(request.request_id, None)
        self._by_layer.discard(request.request_id)
        tracked = self._requests.pop(request.request_id, None)
        if tracked is None:
            return 0
        # The last token has not been computed. Of what was guessed wrongly, or its load has failed, the engine takes back what
        # was planned; and blocks that are behind a sliding window.
        computed = min(tracked.planned_tokens, int(request.num_computed_tokens), int(request.num_tokens) - 1)
        if self._may_store() and all(
            group.is_offered or _are_equal(blocks.ids, ids, blocks.stored, computed // group.block_tokens)
            for group, blocks, ids in zip(self._groups, tracked.blocks, block_ids, strict=True)
        ):
            self._late += self._stores.of(tracked, computed)
        if tracked.wishes.keep_s and self._may_store() and self._keys.salt(request) is not None:
            self._retainer.keep([self._whole_blocks(request, group, computed) for group in self._groups], tracked.wishes.keep_s)
        has_daemon = self._polled.connection.current() is not None
        if not self._continues(request) or not has_daemon or not self._may_store() or self._keys.salt(request) is None:
            return 0
        own = tracked.own_tokens // self._unit_tokens
        if own > tracked.known:
            # The engine has not stored these blocks for this request, but maybe for another one.
            tracked.known = self._searches.stored(request, own)
        return tracked.found_tokens(computed, self._unit_tokens, self._groups)

    @property
    def node(self) -> str:
        """The name of this engine's node, for the engine that goes on with a request; empty if other nodes can't get blocks from it."""
        return self._own_node.name

    def _whole_blocks(self, request: Any, group: Group, tokens: int) -> list[bytes]:
        """The keys of a group's blocks that are whole when so many tokens from the first are computed."""
        return self._keys.of(request, group, 0, min(tokens // group.block_tokens, len(request.block_hashes) // group.block_hashes))

    # ---- other weights ----

    def watch(self, pool: Any) -> None:
        """Takes resets of the engine's own prefix cache for resets. `pool`: as `Resets` has it."""
        self._resets = Resets(pool)
        null = getattr(pool, "null_block", None)
        self._stores.null_block = None if null is None else int(null.block_id)

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
        self._searches.drop_all()
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
        if not self._searches.limit(request, first):
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
        self._searches.drop_all()
        self._under_way.clear()
        self.loaded(list(self._loading))
        self._report(self._savings.take_all(self._speed.typical.tokens_per_s))
        self._polled.close(LAST_REPORT_S)


def _prefill_tokens(output: Any) -> int:
    """How many tokens of a step are of prompts."""
    return sum(count for count in output.num_scheduled_tokens.values() if count > DECODE_TOKENS_MAX)


def _are_equal(ids: Sequence[int], others: Sequence[int], begin: int, end: int) -> bool:
    return list(ids[begin:end]) == list(others[begin:end])


def _written_between_requests(output: Any) -> list[int]:
    """Blocks that the engine writes to in this step, beside those that it gave to requests: it clears or copies them."""
    copies = getattr(output, "kv_cache_block_copies", None) or ()
    return [*(getattr(output, "new_block_ids_to_zero", None) or ()), *(one.dst_block_id for one in copies)]


def _said_by(request: Any) -> tuple[object, object]:
    """Where a request may say what it asks of the cache: what it tells connectors, and the further arguments of its sampling."""
    return getattr(request, "kv_transfer_params", None), getattr(getattr(request, "sampling_params", None), "extra_args", None)
