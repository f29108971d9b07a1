"""vLLM's connector: what it promises an engine, by an engine that looks at every byte."""

import hashlib
import itertools
import logging
import random
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kvtier_testing import vllm_double
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import BLOCK_TOKENS, Blocks, Engine, KVConnectorRole, Request, SlidingWindowSpec, _connector, config

from kvtier import Client, InvalidArgument, KvtierError, Leases, Lookup, Status
from kvtier.annotations import of_tokens
from kvtier.engine import transfers
from kvtier.engine.search import Searches
from kvtier.engine.sharing import Sharing
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.transfers import Load as _Load
from kvtier.vllm import _engine, _scheduler, _versions
from kvtier.vllm._metrics import COUNTERS, KvtierStats
from kvtier.vllm._scheduler import Scheduler
from kvtier.vllm._settings import Settings

Make = Callable[..., Engine]
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines that share a namespace of this test's own."""
    made: list[Engine] = []
    namespace = f"engine-{next(_numbers)}"

    def make(extra: dict[str, Any] | None = None, at: Daemon = daemon, **options: Any) -> Engine:
        changed = {name: options.pop(name) for name in list(options) if "__" in name}
        settings = {"kvtier.socket": str(at.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0}
        engine = Engine(config(settings | (extra or {}), **changed), monkeypatch, **options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def tokens(count: int, seed: int = 1) -> list[int]:
    return [random.Random(seed).randrange(1000) + i for i in range(count)]


def request(count: int = 43, seed: int = 1, **more: Any) -> Request:
    return Request(f"request-{next(_numbers)}", tokens(count, seed), **more)


def stored(engine: Engine, one: Request) -> int:
    """Lets an engine compute a request, and everything be stored; how many blocks."""
    engine.run(one)
    engine.settle()
    return engine.stats.get("stored_blocks", 0)


def weigh(engine: Engine) -> None:
    """Has an engine say which weights it has, without a step."""
    engine.scheduler._scheduler.weighed(
        engine.scheduler._scheduler._epochs.question, {(0, 0): engine.workers[0].connector._worker._weigh()}
    )


# ---- what is found, and what is loaded ----


def test_secondEngine_loadsAllWholeBlocks(engines: Make) -> None:
    assert stored(engines(), request()) == 10
    second = engines()
    again = request()
    second.run(again)
    assert again.external_tokens == 40
    assert second.stats["loaded_blocks"] == 10


def test_promptOfWholeBlocks_isLoadedToItsEnd_andItsLastTokenComputed(engines: Make) -> None:
    stored(engines(), request(40))
    again = request(40)
    engines().run(again)
    assert again.external_tokens == 40


def test_onlyTheLastTokensBlockIsMissing_isComputed(engines: Make) -> None:
    stored(engines(), request(40))
    engine = engines()
    assert engine.scheduler.get_num_new_matched_tokens(request(40), 36) == (0, False)
    assert not engine.scheduler._scheduler.observed["lookups"]


def test_longerPrompt_loadsTheSharedBeginning(engines: Make) -> None:
    stored(engines(), request(20))
    longer = Request("longer", tokens(20) + [5] * 20)
    engine = engines()
    engine.run(longer)
    assert longer.external_tokens == 20
    engine.settle()
    assert engine.stats["stored_blocks"] == 5


def test_storedByAnother_afterTheRequestCame_isLoaded(engines: Make) -> None:
    engine = engines(blocks=11)
    filling = request(43, seed=9)
    engine.add(filling)
    engine.step_until(lambda: filling in engine.running)
    waiting = request()
    engine.add(waiting)
    engine.step()
    stored(engines(), request())
    time.sleep(0.6)  # longer than an answer is believed
    engine.finish(filling)
    engine.run_existing(waiting)
    assert waiting.external_tokens == 40


def test_engineHasTheBeginning_theRestIsLoaded(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    one = request()
    engine.scheduler.on_new_request(one)
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 12) == (28, True))
    engine.scheduler.update_state_after_alloc(one, Blocks(list(range(20, 31))), 28)
    plan = engine.scheduler._scheduler._loads[0]
    assert (plan.block_ids, plan.keys, plan.depth) == (list(range(23, 30)), one.block_hashes[3:10], 3)


def test_engineHasAPartOfABlock_nothingIsLoaded(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    assert engine.scheduler.get_num_new_matched_tokens(request(), 14) == (0, False)


def test_promptShorterThanABlock_isNeitherLookedUpNorStored(engines: Make) -> None:
    engine = engines()
    assert stored(engine, request(BLOCK_TOKENS - 1)) == 0
    assert "lookups" not in engine.stats and "stores" not in engine.stats


def test_twoRequestsOfOnePrompt_bothLoad(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    ones = [request(), request()]
    engine.run(*ones)
    assert [one.external_tokens for one in ones] == [40, 40]
    assert engine.stats["loaded_blocks"] == 20


def test_twoRequestsOfOnePrompt_areStoredOnce(engines: Make) -> None:
    engine = engines()
    engine.run(request(), request())
    engine.settle()
    assert (engine.stats["stored_blocks"], engine.stats["known_blocks"]) == (10, 10)


def _lose_before_hold(engine: Engine, one: Request, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the seventh block of a request be deleted when it was found, and before it is held."""
    shard = engine.workers[0].connector._mine[0]
    real = Searches._hold
    namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)

    def hold(self: Searches, search: Any, first_block: int) -> None:
        assert search.found == 10
        assert namespace.delete([one.block_hashes[6]]) == [Status.OK]
        real(self, search, first_block)

    monkeypatch.setattr(Searches, "_hold", hold)


def test_blockGoesBetweenLookupAndHold_isComputed(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engines()
    one = request()
    stored(first, one)
    second = engines()
    again = request()
    with Client(daemon.socket_path) as client:
        _lose_before_hold(first, one, client, monkeypatch)
        second.run(again)
        assert eventually(lambda: client.counters()["leases"] == 0)
    assert again.external_tokens == 10 * BLOCK_TOKENS
    assert second.stats["load_failed_blocks"] == 1
    assert second.recomputed == 4


@pytest.mark.parametrize("why", ["long ago", "must not fail", "on SSD"])
def test_blockGoesBetweenLookupAndHold_andTheHoldIsWaitedFor_whatIsHeldIsLoaded(
    engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    first = engines()
    one = request()
    stored(first, one)
    second = engines({"kvtier.load_failure": "fail"} if why == "must not fail" else {})
    again = request()
    if why == "long ago":
        monkeypatch.setattr("kvtier.engine.search._IN_MEMORY_S", -1.0)
    elif why == "on SSD":
        monkeypatch.setattr(Lookup, "are_in_memory", lambda _lookup, _blocks: False)
    with Client(daemon.socket_path) as client:
        _lose_before_hold(first, one, client, monkeypatch)
        second.run(again)
    assert again.external_tokens == 6 * BLOCK_TOKENS
    assert second.stats["load_failed_blocks"] == 0


def test_foundInMemory_isPromisedBeforeItIsHeld(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request())
    engine = engines()
    scheduler = engine.scheduler._scheduler
    one = request()
    held: list[bool] = []
    searches = scheduler._searches
    real = searches._will_be_held
    monkeypatch.setattr(
        searches, "_will_be_held", lambda *some: (held.append(searches._by_request[one.request_id].holds[0][0].done), real(*some))[1]
    )
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (40, True))
    assert held == [False]
    # Asked again, as where the engine has no room, it is what is held that counts.
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (40, True))
    search = searches._by_request[one.request_id]
    assert search.run == 10 and search.expires_ns > time.monotonic_ns()
    assert [call.outcome.run for call in search.holds[0]] == [10]


def test_anotherConnectorLoads_nothingIsHeld(engines: Make, daemon: Daemon) -> None:
    # As vLLM's MultiConnector does: it asks all, and one loads.
    stored(engines(), request())
    engine = engines()
    one = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (40, True))
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 10)
        engine.scheduler.update_state_after_alloc(one, Blocks(list(range(11))), 0)
        assert eventually(lambda: client.counters()["leases"] == 0)
    assert not engine.scheduler._scheduler._loads


def test_secondRunner_loadsBegunBehindTheForwardPass_areRight(engines: Make) -> None:
    stored(engines(), request())
    engine = engines(second_runner=True, step_tokens=8)
    other, again = request(60, seed=3), request()
    engine.run(other, again)
    assert again.external_tokens == 40
    assert engine.stats["loaded_blocks"] == 10


def test_draftModel_itsLayerIsStoredWithTheOthers(engines: Make) -> None:
    first = engines(drafts=True, step_tokens=16)
    assert stored(first, request()) == 10
    assert not first.scheduler._scheduler._stores_under_way
    again = request()
    engines(drafts=True).run(again)
    assert again.external_tokens == 40


def test_engineGetsMoreItself_whileTheRestIsBeingHeld_onlyThatIsLoaded(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request())
    monkeypatch.setattr("kvtier.engine.search._IN_MEMORY_S", -1.0)
    engine = engines({"kvtier.lookup_wait_s": 0.0})
    one = request()
    scheduler = engine.scheduler._scheduler
    engine.scheduler.on_new_request(one)
    while not scheduler._searches._by_request[one.request_id].holds:
        assert engine.scheduler.get_num_new_matched_tokens(one, 0)[0] is None
    answers: list[int | None] = [None]
    assert eventually(lambda: answers.append(engine.scheduler.get_num_new_matched_tokens(one, 12)[0]) or answers[-1] is not None)
    assert answers[-1] == 28


def test_engineWithoutOtherRequests_waitsLongerForAnAnswer(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines({"kvtier.lookup_wait_s": 0.001})
    scheduler = engine.scheduler._scheduler
    waited: list[float] = []
    monkeypatch.setattr(scheduler._polled, "wait", lambda _call, wait_s: waited.append(wait_s))
    monkeypatch.setattr(scheduler._polled, "poll", lambda *_: None)
    assert engine.scheduler.get_num_new_matched_tokens(request(seed=1), 0)[0] is None
    assert waited == [pytest.approx(0.01)]
    scheduler._tracked(request(seed=2))
    assert engine.scheduler.get_num_new_matched_tokens(request(seed=3), 0)[0] is None
    assert waited[1:] == [0.001]


def test_hole_endsTheRun(engines: Make, daemon: Daemon) -> None:
    first = engines()
    one = request()
    stored(first, one)
    shard = first.workers[0].connector._mine[0]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        assert namespace.delete([one.block_hashes[3]]) == [Status.OK]
    again = request()
    engines().run(again)
    assert again.external_tokens == 3 * BLOCK_TOKENS


def test_salt_separatesEqualPrompts(engines: Make) -> None:
    stored(engines(), request(salt="tenant a"))
    other = request(salt="tenant b")
    engines().run(other)
    assert other.external_tokens == 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_promptOfWholeBlocksThatIsThere_isNotOfferedAgain(engines: Make, ranks: int) -> None:
    engine = engines(ranks=ranks)
    assert stored(engine, request(40)) == 10 * ranks
    stores = engine.stats["stores"]
    # It is loaded; then the engine has all of it but what it computes for the last token.
    stored(engine, request(40))
    again, scheduler = on_device(engine)
    assert scheduler.plan(scheduled(again, 36)).stores == []
    scheduler.finished(again, (again.block_ids,))
    engine.settle()
    assert engine.stats["stores"] == stores


def on_device(engine: Engine) -> tuple[Request, Scheduler]:
    """A request of 40 tokens that the engine has on its device but for the last block; what is stored of it is known."""
    again = request(40)
    scheduler = engine.scheduler._scheduler
    scheduler.arrived(again)
    time.sleep(0.1)
    assert scheduler.matched(again, 36) == 0
    again.block_ids = list(range(10))
    scheduler.allocated(again, (again.block_ids,), 0)
    return again, scheduler


def step_of(*, new: Any = None, running: Any = None, tokens: int = 0) -> Any:
    """The output of the engine's scheduler for a step of this many tokens, with at most one request in it."""
    told = [one for one in (new, running) if one is not None]
    return SimpleNamespace(
        scheduled_new_reqs=[] if new is None else [new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[] if running is None else [running.req_id],
            resumed_req_ids={running.req_id} if running is not None and running.resumed else set(),
            new_block_ids=[] if running is None else [running.block_ids],
            num_computed_tokens=[] if running is None else [running.num_computed_tokens],
        ),
        num_scheduled_tokens={one.req_id: tokens for one in told},
        total_num_scheduled_tokens=tokens,
    )


def scheduled(one: Request, computed: int, *, as_new: bool = True) -> Any:
    """Its first step, or one in which it is resumed: what is not computed yet."""
    told = SimpleNamespace(req_id=one.request_id, block_ids=(list(one.block_ids),), num_computed_tokens=computed, resumed=True)
    return step_of(**{"new" if as_new else "running": told}, tokens=one.num_tokens - computed)


def goes_on(one: Request, computed: int, count: int) -> Any:
    """A step that computes so many tokens of a request that has blocks."""
    told = SimpleNamespace(req_id=one.request_id, block_ids=None, num_computed_tokens=computed, resumed=False)
    return step_of(running=told, tokens=count)


def test_promptOfWholeBlocksThatIsForgotten_isOfferedAgain(engines: Make) -> None:
    engine = engines()
    stored(engine, request(40))
    again, scheduler = on_device(engine)
    assert scheduler.reset()
    weigh(engine)
    (store,) = scheduler.plan(scheduled(again, 36)).stores
    assert store.keys == again.block_hashes[9:]


def test_lastBlockOfAPromptDoesNotCome_isOfferedAgain(engines: Make) -> None:
    stored(engines(), request(40))
    engine = engines()
    again = request(40)
    worker = engine.workers[0].connector._worker
    worker._regions[0] = LosingRegion(worker._regions[0], again.block_hashes[0], {9})
    engine.run(again)
    engine.settle()
    assert (again.external_tokens, engine.recomputed) == (40, 1)
    # It was not lost to others: they have it.
    assert (engine.stats["stores"], engine.stats["known_blocks"]) == (1, 1)


def test_lastBlockOfAPromptThatIsLost_isOfferedWhenTheNextOneComes(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    one = request(40)
    stored(engine, one)
    shard = engine.workers[0].connector._mine[0]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        assert namespace.delete(one.block_hashes[9:]) == [Status.OK]
    assert stored(engine, request(40)) == 11


def test_requestThatReadsNoCache_isComputed(engines: Make) -> None:
    stored(engines(), request())
    again = request()
    again.skip_reading_prefix_cache = True
    engines().run(again)
    assert again.external_tokens == 0


def plans_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The engine's plans from now on."""
    plans: list[Any] = []
    scheduler = engine.scheduler._scheduler
    real = scheduler.plan

    def plan(output: Any) -> Any:
        plans.append(real(output))
        return plans[-1]

    monkeypatch.setattr(scheduler, "plan", plan)
    return plans


def begun(engine: Engine, one: Request) -> Request:
    """A request whose prompt is computed and stored."""
    engine.add(one)
    engine.step_until(lambda: one in engine.running)
    engine.settle()
    return one


def generate(engine: Engine, one: Request, count: int) -> None:
    for _ in range(count):
        one.tokens.append(random.Random(len(one.tokens)).randrange(1000))
        engine.step()


def loads(engine: Engine, one: Request) -> int:
    """How many tokens an engine finds of a request that another one has computed; it looks at every byte."""
    again = Request(f"again-{next(_numbers)}", one.tokens)
    engine.run(again)
    return again.external_tokens


def generated(engine: Engine) -> Request:
    """One of 26 tokens, which are computed in 7 blocks, of which the first one is stored."""
    one = begun(engine, request(6))
    generate(engine, one, 20)
    return one


def test_generatedBlocks_areStoredTogether(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    one = begun(engine, request(6))
    plans = plans_of(engine, monkeypatch)
    generate(engine, one, 9 * BLOCK_TOKENS)
    stores = [store for plan in plans for store in plan.stores]
    # The rest of the prompt and what is generated are eight blocks when 36 tokens are computed.
    assert [(store.depth, store.keys) for store in stores] == [(1, one.block_hashes[1:9])]
    assert next(index for index, plan in enumerate(plans) if plan.stores) == 36 - 7
    assert stores[0].parent == one.block_hashes[0]
    engine.settle()
    assert loads(engines(), one) == 36


def test_lastTokenIsPlanned_theRestIsStoredWithIt(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    one = begun(engine, request(6, max_tokens=15))
    plans = plans_of(engine, monkeypatch)
    generate(engine, one, 14)
    assert [len(store.keys) for plan in plans for store in plan.stores] == [4]
    assert plans[-1].stores
    engine.finish(one)
    engine.settle()
    assert not any(plan.late for plan in plans)
    assert loads(engines(), one) == 20


def test_requestStops_theRestIsStoredBeforeOthersGetItsBlocks(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines(blocks=12)
    one = begun(engine, request(6))
    plans = plans_of(engine, monkeypatch)
    generate(engine, one, 20)
    assert not any(plan.stores for plan in plans)
    blocks = list(one.block_ids)
    engine.finish(one)
    other = request(40, seed=2)
    engine.run(other)
    (late,) = [store for plan in plans for store in plan.late]
    assert (late.depth, late.block_ids) == (1, blocks[1:6])
    assert not set(blocks).isdisjoint(plans[-1].reused)
    engine.settle()
    # The last of the 26 tokens was computed here, too, but no engine does that.
    assert loads(engines(), one) == 24
    assert loads(engines(), other) == 40


@pytest.mark.parametrize("annotate", [False, True])
def test_stoppedRequests_allTheirBlocksAreFoundOnce(engines: Make, daemon: Daemon, annotate: bool) -> None:
    engine = engines({"kvtier.annotate": annotate})
    ones = [begun(engine, request(7 + seed, seed=seed)) for seed in range(4)]
    for one in ones:
        generate(engine, one, 15)
    for one in ones:
        engine.finish(one)
    engine.settle()
    whole = [(one.num_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS for one in ones]
    assert engine.stats["stored_blocks"] * BLOCK_TOKENS == sum(whole)
    assert engine.stats.get("known_blocks", 0) == 0
    assert [loads(engines(), one) for one in ones] == whole


def test_preemptedAndThenAborted_nothingIsReadFromBlocksThatAreOthers(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines(blocks=24)
    one = generated(engine)
    plans = plans_of(engine, monkeypatch)
    engine.preempt(one)
    engine.waiting.remove(one)
    other = begun(engine, request(40, seed=2))
    engine.finish(one)
    engine.finish(other)
    engine.settle()
    assert not any(plan.late for plan in plans)
    assert loads(engines(), one) == 4


def test_abortedWhileItWaitsForItsBlocksAgain_nothingIsReadFromThem(engines: Make) -> None:
    engine = engines()
    one = generated(engine)
    blocks = list(one.block_ids)
    engine.preempt(one)
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (4, True))
    # Those that it had: they are free, and it is the next one.
    one.block_ids = blocks
    engine.scheduler.update_state_after_alloc(one, Blocks(one.block_ids), 4)
    one.state = "receiving"
    one.num_computed_tokens = 24
    engine.scheduler.request_finished(one, one.block_ids)
    assert not engine.scheduler._scheduler._late
    engine.step_until(lambda: one.state == "received")


@pytest.mark.parametrize("second_runner", [False, True])
def test_preempted_whatItHadNotStored_isStoredAgain(engines: Make, second_runner: bool) -> None:
    engine = engines(second_runner=second_runner)
    one = generated(engine)
    scheduler = engine.scheduler._scheduler
    tracked = scheduler._requests[one.request_id]
    assert tracked.blocks[0].stored == 1
    # It comes back, and the engine has found its first five blocks among those that nobody else has taken.
    scheduler.matched(one, 20)
    scheduler.allocated(one, (one.block_ids,), 0)
    scheduler.plan(scheduled(one, 20, as_new=second_runner))
    assert (tracked.blocks[0].stored, tracked.blocks[0].ids) == (1 if not second_runner else 6, one.block_ids)
    scheduler.finished(one, (one.block_ids,))
    late = [key for store in scheduler._late for key in store.keys]
    assert late == ([] if second_runner else one.block_hashes[1:6])
    scheduler._late.clear()


def test_resetBehindARequest_whatItHadNotStored_isForgotten(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    plans = plans_of(engine, monkeypatch)
    one, other = begun(engine, request(6)), begun(engine, request(6, seed=2))
    generate(engine, one, 20)
    generate(engine, other, 20)
    engine.finish(one)
    assert engine.scheduler.reset_cache() is True
    before = len(plans)
    generate(engine, other, 4)
    engine.finish(other)
    engine.settle()
    stores = [store for plan in plans[before:] for store in [*plan.late, *plan.stores]]
    # Nor anything of the other one, which has looked at what it had computed before.
    assert not stores
    # The weights have not changed, so the blocks stored before still hold.
    assert loads(engines(), one) == 4


def ended_with(engine: Engine, one: Request, **changed: Any) -> list[bytes]:
    """The keys that are stored of a request of 26 planned tokens, when it ends after the engine changed it."""
    scheduler = engine.scheduler._scheduler
    block_ids = changed.pop("block_ids", one.block_ids)
    for name, value in changed.items():
        setattr(one, name, value)
    scheduler.finished(one, (block_ids,))
    late = [key for store in scheduler._late for key in store.keys]
    scheduler._late.clear()
    return late


def test_requestEnds_onlyWhatItHasComputedRight_isStored(engines: Make) -> None:
    engine = engines()
    one = generated(engine)
    assert ended_with(engine, one) == one.block_hashes[1:6]
    # As many guesses were planned as tokens are there, and the last of them is another one.
    one = generated(engine)
    assert ended_with(engine, one, tokens=one.tokens[:16]) == one.block_hashes[1:3]
    # Behind a load that has failed it was to be computed again.
    one = generated(engine)
    assert ended_with(engine, one, num_computed_tokens=13) == one.block_hashes[1:3]
    one = generated(engine)
    assert ended_with(engine, one, block_ids=[0, 0, *one.block_ids[2:]]) == []
    one = generated(engine)
    assert ended_with(engine, one, block_ids=[]) == []


def test_slidingWindow_eachBlockIsStoredWhenItIsFull(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines(spec=SlidingWindowSpec)
    one = begun(engine, request(6))
    plans = plans_of(engine, monkeypatch)
    generate(engine, one, 10)
    assert [store.depth for plan in plans for store in plan.stores] == [1, 2, 3]


def test_engineThatPlansAhead_storesAsManyTogether(engines: Make) -> None:
    engine = engines()
    one = begun(engine, request(6))
    generate(engine, one, 29)
    one.block_ids += range(40, 50)
    engine.scheduler._scheduler._requests[one.request_id].blocks[0].ids = one.block_ids
    # The 36th token is computed, and not decided yet.
    assert not engine.scheduler._scheduler.plan(goes_on(one, 35, 1)).stores
    one.tokens.append(7)
    (store,) = engine.scheduler._scheduler.plan(goes_on(one, 36, 1)).stores
    assert store.keys == one.block_hashes[1:9]


def test_nobodyIsInAHurryForAnEndedRequestsBlocks_itsStoreBeginsBehindTheStep(engines: Make) -> None:
    engine = engines()
    one, other = begun(engine, request(6)), begun(engine, request(6, seed=2))
    generate(engine, one, 20)
    engine.finish(one)
    other.tokens.append(7)
    connector, worker = engine.workers[0].connector, engine.workers[0].connector._worker
    metadata = engine.scheduler.build_connector_meta(goes_on(other, 6, 1))
    assert len(metadata.plan.late) == 1
    connector.handle_preemptions(metadata)
    assert not worker._stores
    connector.bind_connector_metadata(metadata)
    connector.wait_for_save()
    assert len(worker._stores) == 1 and not worker._late
    engine.settle()
    assert loads(engines(), one) == 24


def test_stepThatComputesNothing_beginsAnEndedRequestsStore(engines: Make) -> None:
    engine = engines()
    one = generated(engine)
    engine.finish(one)
    # vLLM does not ask for stores behind it.
    engine.workers[0].connector.handle_preemptions(engine.scheduler.build_connector_meta(step_of()))
    assert len(engine.workers[0].connector._worker._stores) == 1
    engine.settle()
    assert loads(engines(), one) == 24


def test_anotherConnectorsLoad_getsAnEndedRequestsBlocks_whenTheyAreStored(engines: Make) -> None:
    engine = engines()
    one = generated(engine)
    blocks = list(one.block_ids)
    engine.finish(one)
    other = request(40, seed=2)
    # As `MultiConnector` does it for those that it has not chosen.
    engine.scheduler.update_state_after_alloc(other, Blocks([]), 0)
    metadata = engine.scheduler.build_connector_meta(step_of(tokens=1))
    assert metadata.plan.reuses_any
    worker = engine.workers[0]
    worker.connector.handle_preemptions(metadata)
    assert worker.connector._worker._stores and all(store.copying.done() for store in worker.connector._worker._stores)
    for tensor in worker.tensors:
        tensor.array[blocks] = 0
    assert not engine.scheduler.build_connector_meta(step_of()).plan.reuses_any
    engine.settle()
    assert loads(engines(), one) == 24


def test_anotherConnectorLoadsWithinTheStep_whatItWritesToIsReused(engines: Make) -> None:
    engine = engines()
    scheduler = engine.scheduler._scheduler
    engine.run(request())
    # The store may have ended already.
    scheduler._stores_under_way = max(1, scheduler._stores_under_way)
    other = request(40, seed=2)
    scheduler.matched(other, 8)
    other.block_ids = list(range(20, 30))
    scheduler.allocated(other, (other.block_ids,), 0)
    # Eight tokens were there, and sixteen more it loads. Whether it can is not known yet.
    plan = scheduler.plan(scheduled(other, 24))
    assert plan.reused == other.block_ids[2:] and not plan.stores
    engine.settle()


def test_anotherConnectorLoadsForWhoReadsNoCache_whatItWritesToIsReused(engines: Make) -> None:
    engine = engines()
    scheduler = engine.scheduler._scheduler
    engine.run(request())
    # Nobody needs to know what is written anew if nothing is being stored.
    scheduler._stores_under_way = max(1, scheduler._stores_under_way)
    other = request(40, seed=2)
    other.skip_reading_prefix_cache = True
    assert engine.scheduler.get_num_new_matched_tokens(other, 8) == (0, False)
    other.block_ids = list(range(20, 30))
    engine.scheduler.update_state_after_alloc(other, Blocks(other.block_ids), 0)
    assert scheduler.plan(scheduled(other, 24)).reused == other.block_ids[2:]
    engine.settle()


def test_anotherConnectorHasLoaded_theRestIsStored(engines: Make) -> None:
    engine = engines()
    scheduler = engine.scheduler._scheduler
    other = request(40, seed=2)
    scheduler.matched(other, 0)
    scheduler.allocated(other, [], 0)
    assert scheduler.plan(step_of()).reuses_any
    other.block_ids = list(range(20, 30))
    scheduler.allocated(other, (other.block_ids,), 0)
    (store,) = scheduler.plan(scheduled(other, 24)).stores
    assert store.keys == other.block_hashes[6:]


def test_promptThatGrows_onlyItsFirstPartIsStored(engines: Make) -> None:
    engine = engines()
    one = request(6)
    one.resumable = True
    begun(engine, one)
    generate(engine, one, 40)
    engine.finish(one)
    engine.settle()
    assert engine.stats["stored_blocks"] == 1


def test_promptThatGrew_isNotLookedUpAgain(engines: Make) -> None:
    engine = engines()
    one = request()
    one.resumable = True
    stored(engine, request())
    begun(engine, one)
    assert one.external_tokens == 40
    engine.preempt(one)
    assert engine.scheduler.get_num_new_matched_tokens(one, 0) == (0, False)


def test_resetWhileItLoads_nothingOfItIsStored(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    one = request()
    scheduler = engine.scheduler._scheduler
    assert eventually(lambda: scheduler.matched(one, 0) == 40)
    one.block_ids = list(range(11))
    scheduler.allocated(one, (one.block_ids,), 40)
    assert engine.scheduler.reset_cache() is True
    one.tokens += [7] * 20
    assert not scheduler.plan(scheduled(one, 40)).stores
    scheduler.loaded([one.request_id])


def test_resetWhileItWaitsForItsBlocksAgain_whatItLoadsIsNotStored(engines: Make) -> None:
    engine = engines()
    one = generated(engine)
    engine.preempt(one)
    scheduler = engine.scheduler._scheduler
    scheduler.matched(one, 20)
    one.block_ids = list(range(7))
    scheduler.allocated(one, (one.block_ids,), 0)
    assert engine.scheduler.reset_cache() is True
    weigh(engine)
    plan = scheduler.plan(scheduled(one, 20))
    assert [store.keys for store in plan.stores] == [one.block_hashes[5:6]]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("second_runner", [False, True])
def test_requestsComeStopAndArePreempted_othersFindTheirBytes(engines: Make, seed: int, second_runner: bool) -> None:
    chance = random.Random(seed)
    engine = engines(blocks=64, step_tokens=24, second_runner=second_runner)
    ended: list[Request] = []
    for _ in range(250):
        running = [one for one in engine.running if one.num_computed_tokens == one.num_tokens]
        what = chance.random()
        if what < 0.1 and len(engine.running) + len(engine.waiting) < 4:
            engine.add(request(chance.randrange(3, 30), seed=chance.randrange(6), max_tokens=chance.choice([1, 9, 1000])))
        elif what < 0.16 and running:
            ended.append(chance.choice(running))
            engine.finish(ended[-1])
        elif what < 0.2 and running:
            engine.preempt(chance.choice(running))
        elif what < 0.22 and engine.waiting and engine.waiting[-1].state == "waiting":
            engine.finish(engine.waiting.pop())
        for one in running:
            if one in engine.running and len(engine.free) > len(engine.running) and one.num_tokens < 60:
                one.tokens.append(chance.randrange(50))
        engine.step()
    engine.settle()
    assert len(ended) > 5
    for one in ended:
        assert loads(engines(), one) >= (one.num_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS


@pytest.mark.parametrize(("store", "blocks"), [("all", 4), ("prompt", 1), ("none", 0)])
def test_store_saysWhichBlocksAreKept(engines: Make, store: str, blocks: int) -> None:
    engine = engines({"kvtier.store": store})
    one = begun(engine, request(6))
    generate(engine, one, 11)
    engine.finish(one)
    engine.settle()
    assert engine.stats.get("stored_blocks", 0) == blocks


def test_chunkedPrefill_storesEachBlockOnce(engines: Make) -> None:
    engine = engines(step_tokens=10)
    assert stored(engine, request()) == 10
    assert engine.stats.get("known_blocks", 0) == 0


@pytest.mark.parametrize("annotate", [False, True])
def test_largeStore_isCutIntoPieces_theLastOnesFirst(engines: Make, monkeypatch: pytest.MonkeyPatch, annotate: bool) -> None:
    engine = engines({"kvtier.annotate": annotate})
    engine.scheduler._scheduler._stores._piece_blocks = [4]
    plans: list[Any] = []
    real = Scheduler.plan

    def plan(self: Scheduler, output: Any) -> Any:
        made = real(self, output)
        plans.append(made)
        return made

    monkeypatch.setattr(Scheduler, "plan", plan)
    one = request()
    assert stored(engine, one) == 10
    stores = [store for made in plans for store in made.stores]
    # Routers hear of a block behind its parent.
    assert [store.depth for store in stores] == ([0, 4, 8] if annotate else [8, 4, 0])
    by_depth = sorted(stores, key=lambda store: store.depth)
    assert [key for store in by_depth for key in store.keys] == one.block_hashes[:10]
    assert [store.parent for store in by_depth] == [None, one.block_hashes[3], one.block_hashes[7]]
    again = request()
    engines().run(again)
    assert again.external_tokens == 40


def test_loadBlocksMin_shorterRunsAreComputed(engines: Make) -> None:
    stored(engines(), request(12))
    again = request()
    engines({"kvtier.load_blocks_min": 4}).run(again)
    assert again.external_tokens == 0


def test_prefillSpeed_isThatOfTheBestLargeSteps() -> None:
    speed = PrefillSpeed()
    assert speed.seconds(1) == float("inf")
    speed.planned(1, 1000, 10.0)
    speed.ended(1, 10.1)
    assert speed.tokens_per_s == pytest.approx(10_000)
    speed.planned(2, 8, 499.9)  # few tokens say nothing
    speed.ended(2, 500.0)
    speed.planned(3, 2000, 500.0)
    speed.ended(3, 501.0)
    assert speed.tokens_per_s == pytest.approx(9_800)
    assert speed.seconds(980) == pytest.approx(0.1)


def test_prefillSpeed_stepsWhoseEndIsNotTold_areNotCountedAndNotKept() -> None:
    speed = PrefillSpeed()
    for number in range(1, 1001):
        speed.planned(number, 1000, 0.0)
    assert len(speed._planned) < 100
    speed.ended(1000, 10.0)
    assert speed.tokens_per_s == pytest.approx(100)
    speed.ended(999, 10.0)
    speed.ended(2000, 10.0)
    assert speed.tokens_per_s == pytest.approx(100)


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_engineThatPlansAhead_isAsFastAsItsStepsEnd(engines: Make, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    engine = engines()
    now_s = 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, monotonic_ns=time.monotonic_ns)
    monkeypatch.setattr("kvtier.vllm._scheduler.time", clock)
    monkeypatch.setattr("kvtier.engine.search.time", clock)
    output = step_of(tokens=1000)
    queue: list[Any] = []
    for _ in range(20):
        while len(queue) < ahead:
            queue.append(engine.scheduler.build_connector_meta(output))
            now_s += 0.0001
        now_s += 0.1
        engine.end(queue.pop(0))
    assert engine.scheduler._scheduler._speed.tokens_per_s == pytest.approx(10_000, rel=0.05)


def gains(at: Daemon, before: dict[str, int] | None = None) -> dict[str, int]:
    """What engines have saved since then, as the daemon counts."""
    with Client(at.socket_path, timeout=30) as client:
        now = client.counters()
    names = ("saved_tokens", "saved_prefill_ns", "spent_load_ns")
    return {name: now[name] - (before or {}).get(name, 0) for name in names}


def test_savings_ofAnEngineOfKnownSpeed_areTheTruth(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens_per_s, now_s = 20_000.0, 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, monotonic_ns=time.monotonic_ns)
    monkeypatch.setattr("kvtier.vllm._scheduler.time", clock)
    monkeypatch.setattr("kvtier.engine.search.time", clock)
    engine = engines(blocks=100)
    slowness = itertools.chain([8.0, 3.0], itertools.cycle([1.0, 1.01, 0.99]))  # it warms up first
    compute = engine._compute

    def take_time(worker: Any, output: Any, layers: Any) -> None:
        nonlocal now_s
        compute(worker, output, layers)
        now_s += 0.001 + max(0.0, output.total_num_scheduled_tokens / tokens_per_s - 0.001) * (
            next(slowness) if output.total_num_scheduled_tokens > 256 else 1
        )

    monkeypatch.setattr(engine, "_compute", take_time)
    before = gains(daemon)
    for seed in range(10):
        engine.run(request(302, seed))
    engine.settle()
    assert gains(daemon, before)["saved_tokens"] == 0
    again = [request(302, seed) for seed in range(10)]
    for one in again:
        engine.run(one)
    engine.settle()
    saved = sum(one.external_tokens for one in again)
    assert saved == 3000
    assert eventually(lambda: gains(daemon, before)["saved_tokens"] == saved)
    told = gains(daemon, before)
    assert told["saved_prefill_ns"] / 1e9 == pytest.approx(saved / tokens_per_s, rel=0.02)
    assert 0 < told["spent_load_ns"] / 1e9 < saved / tokens_per_s
    assert engine.stats["saved_tokens"] == saved
    assert engine.stats["saved_prefill_us"] / 1e6 == pytest.approx(saved / tokens_per_s, rel=0.02)


def test_savings_ofTheLastLoads_areRead_beforeTheEngineEnds(engines: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    engine.run(request())
    polled = engine.scheduler._scheduler._polled
    calls: list[Any] = []
    start = polled.start
    monkeypatch.setattr(polled, "start", lambda *arguments, **more: (calls.append(start(*arguments, **more)), calls[-1])[1])
    fresh_daemon.pause()
    resume = threading.Timer(0.1, fresh_daemon.signal, [signal.SIGCONT])
    resume.start()
    engine.scheduler.shutdown()
    resume.join()
    assert [call.outcome for call in calls] == [Status.OK]


def test_savings_ofABlockThatCouldNotBeLoaded_endBeforeIt(engines: Make) -> None:
    scheduler = engines().scheduler._scheduler
    one = request(43)
    scheduler._tracked(one).loaded_tokens = 40
    scheduler._under_way[one.request_id] = _scheduler._Load(list(range(20, 30)), 40, time.monotonic())
    scheduler.loaded([], invalid={27})  # one rank says so before the other has ended
    scheduler.loaded([one.request_id])
    (report,) = scheduler._savings.take(1000)
    assert (report.blocks, report.tokens) == (7, 28)
    assert not scheduler._invalid


def test_savings_ofARequestThatEnded_areNone(engines: Make) -> None:
    scheduler = engines().scheduler._scheduler
    one = request(43)
    scheduler._under_way[one.request_id] = _scheduler._Load(list(range(20, 30)), 40, time.monotonic())
    scheduler.finished(one, [])
    scheduler.loaded([one.request_id])
    assert not list(scheduler._savings.take(1000))


def test_idleStep_endsNoStepThatIsComputed(engines: Make) -> None:
    engine = engines()
    engine.run(request())
    engine.settle()
    assert not engine.scheduler._scheduler._speed._planned
    engine.step()
    assert not engine.scheduler._scheduler._speed._planned


def test_slowTier_isLeftAlone_unlessItIsWanted(engines: Make, fresh_daemon: Daemon) -> None:
    stored(engines(at=fresh_daemon), request())
    for wanted in (False, True):
        engine = engines({"kvtier.load_if_faster": not wanted}, at=fresh_daemon)
        scheduler = engine.scheduler._scheduler
        scheduler._speed.tokens_per_s = 1e6
        slow = Lookup(10, 1.0, [(Status.OK, 10, b"\0" * 40)])
        search = scheduler._searches._search(request(), 10, time.monotonic())
        search.lookup = SimpleNamespace(done=True, outcome=[slow])
        assert scheduler._searches._take_lookups(search, 0, time.monotonic())
        assert search.found == (10 if wanted else 0)


SMALL = {"host__bytes": "4MiB", "host__slab_bytes": "1MiB"}
"""a host tier with room for 20 of these blocks"""


@pytest.fixture
def wide_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the double's blocks be as long as 192 KiB."""

    def value(request: Request, position: int, layer: int, part: int) -> Any:
        prefix = repr((request.parent, request.tokens[: position + 1], layer, part)).encode()
        return np.tile(np.frombuffer(hashlib.blake2b(prefix).digest(), dtype=np.uint8), 256)

    monkeypatch.setattr(vllm_double, "TOKEN_BYTES", 64 * 256)
    monkeypatch.setattr(vllm_double, "value", value)


def shrunk(engine: Engine, at: Daemon, *prompts: Request) -> None:
    """Has these prompts stored, on SSD only."""
    for one in prompts:
        for end in range(8 * 4 + 3, one.num_tokens + 32, 32):
            engine.run(Request(f"part-{next(_numbers)}", one.tokens[:end]))
            engine.settle()
    assert at.command("evict", "--all", "--yes").returncode == 0


@pytest.mark.usefixtures("wide_blocks")
@pytest.mark.parametrize("policy", ["recompute", "fail"])
def test_promptLargerThanMemory_loadsWhatFits_andHoldsNobodyUp(engines: Make, stopped_daemon: Daemon, policy: str) -> None:
    stopped_daemon.start(**SMALL)
    extra = {"kvtier.load_failure": policy, "kvtier.load_if_faster": False, "kvtier.load_timeout_s": 600.0, "kvtier.put_timeout_s": 20.0}
    large, small = request(40 * 4 + 3, 7), request(8 * 4 + 3, 8)
    shrunk(engines(extra, at=stopped_daemon), stopped_daemon, large, small)
    second, third = engines(extra, at=stopped_daemon), engines(extra, at=stopped_daemon)
    second.add(large)
    third.add(small)
    # Neither waits for the time that a load may take.
    second.step_until(lambda: large.state != "waiting" or large in second.running)
    third.step_until(lambda: small.state != "waiting" or small in third.running)
    second.run_existing(large)
    third.run_existing(small)
    assert 0 < second.stats["loaded_blocks"] <= 20


def test_holdsThatTakeLong_areDecidedInTime(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(engines(), request(43, 11))
    engine = engines({"kvtier.lookup_s_max": 0.2, "kvtier.load_timeout_s": 600.0})
    scheduler = engine.scheduler._scheduler
    monkeypatch.setattr(scheduler._searches, "_will_be_held", lambda search, now_s: False)
    start = scheduler._polled.start

    def slow(properties: Any, make: Any, otherwise: Any, timeout_s: float, **options: Any) -> Any:
        call = start(properties, make, otherwise, timeout_s, **options)
        if timeout_s == 600.0:
            # As if its blocks were on their way from SSD.
            scheduler._polled._calls.clear()
            call.done = False
        return call

    monkeypatch.setattr(scheduler._polled, "start", slow)
    again = request(43, 11)
    engine.run(again)
    assert again.external_tokens == 40
    assert engine.stats["loaded_blocks"] == 10


@pytest.mark.parametrize("ranks", [1, 2])
def test_annotate_blocksAreKeptWithTheirTokens(engines: Make, daemon: Daemon, ranks: int, tmp_path: Path) -> None:
    engine = engines({"kvtier.annotate": True}, ranks=ranks)
    one = request(40, salt="tenant")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"ada")
    one.lora_request = SimpleNamespace(lora_int_id=3, lora_name="ada", lora_path=str(tmp_path))
    seen: list[list[bytes]] = []
    real = Scheduler.plan

    def plan(self: Scheduler, output: Any) -> Any:
        made = real(self, output)
        seen.extend(store.annotations for store in made.stores if store.annotations is not None)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Scheduler, "plan", plan)
        engine.step_tokens = 24
        engine.run(one)
        engine.settle()
    hashes = engine.scheduler._scheduler._keys.of(one, engine.scheduler._scheduler._groups[0], 0, 10)
    assert not set(hashes) & set(one.block_hashes)
    extra_keys = _engine.extra_keys(one, range(0, 41, 4))
    assert extra_keys is not None and "tenant" in str(extra_keys[0])
    assert [one for some in seen for one in some] == [
        of_tokens(
            one.tokens[4 * i : 4 * i + 4],
            parent=hashes[i - 1] if i else None,
            lora_id=3,
            lora_name="ada",
            extra_keys=extra_keys[i],
        )
        for i in range(10)
    ]
    assert len(seen) == 2
    for rank, worker in enumerate(engine.workers):
        # A block that has an annotation takes no other; those of further ranks have none.
        with Client(daemon.socket_path, timeout=60) as client:
            shard = worker.connector._mine[0]
            namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
            assert namespace.annotate(hashes, [b"other"] * 10) == (Status.OK, 10 if rank else 0)


def test_annotate_engineIsOtherInside_blocksAreKeptWithoutTheirTokens(
    engines: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **more: Any) -> Any:
        raise AttributeError("'Request' object has no attribute 'all_token_ids'")

    monkeypatch.setattr("kvtier.vllm._stores.of_blocks", fail)
    engine = engines({"kvtier.annotate": True})
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert stored(engine, request()) == 10
        stored(engine, request(seed=2))
    assert engine.stats["stored_blocks"] == 20
    assert [one.getMessage() for one in caplog.records if "without their tokens" in one.getMessage()] == [
        "kvtier.annotate does not work with this vLLM release, so blocks are stored without their tokens: AttributeError: 'Request' object has no attribute 'all_token_ids'"
    ]


# ---- ranks ----


def test_twoRanks_eachLoadsItsOwnPart(engines: Make) -> None:
    assert stored(engines(ranks=2), request()) == 20
    second = engines(ranks=2)
    again = request()
    second.run(again)
    assert again.external_tokens == 40
    assert second.stats["loaded_blocks"] == 20


def test_pipelineRanks_eachLoadsItsOwnPart(engines: Make) -> None:
    first = engines(ranks=2, pipeline=2)
    assert [worker.connector._mine[0].name.split("/")[-2] for worker in first.workers] == ["pp0tp0", "pp0tp1", "pp1tp0", "pp1tp1"]
    assert stored(first, request()) == 40
    second = engines(ranks=2, pipeline=2)
    again = request()
    second.run(again)
    assert again.external_tokens == 40
    assert second.stats["loaded_blocks"] == 40


@pytest.mark.parametrize("others", [{}, {(1, 0): object()}])
def test_handshakeOfTooFewRanks_servesWithout(
    engines: Make, caplog: pytest.LogCaptureFixture, others: dict[tuple[int, int], Any]
) -> None:
    engine = engines()
    made = config({"kvtier.namespace": "half"}, parallel_config__pipeline_parallel_size=2)
    connector = _connector.KvtierConnector(made, KVConnectorRole.SCHEDULER, engine.scheduler._kv_cache_config)
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        connector.set_xfer_handshake_metadata_pp_aware({(0, 0): engine.workers[0].connector.get_handshake_metadata(), **others})
    assert "1 of 2 workers can use it" in caplog.text
    assert connector.get_num_new_matched_tokens(request(), 0) == (0, False)


def test_hooksOfEachLayer_areNotAskedFor(engines: Make) -> None:
    connector = engines().workers[0].connector
    connector.bind_connector_metadata(object())
    assert not connector.has_connector_metadata()


def test_oneRanksPartMissing_isAMissForAll(engines: Make, daemon: Daemon) -> None:
    first = engines(ranks=2)
    one = request()
    stored(first, one)
    shard = first.workers[1].connector._mine[0]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        namespace.delete([one.block_hashes[0]])
        again = request()
        stored(engines(ranks=2), again)  # what it stores later would bring the next block back
        assert again.external_tokens == 0
        namespace.delete([one.block_hashes[5]])
        another = request()
        engines(ranks=2).run(another)
    assert another.external_tokens == 5 * BLOCK_TOKENS


def test_replicatedBlocks_areWrittenOnceAndReadByAll(engines: Make) -> None:
    first = engines(ranks=2, model_config__use_mla=True)
    assert stored(first, request()) == 10
    second = engines(ranks=2, model_config__use_mla=True)
    second.run(request())
    assert second.stats["loaded_blocks"] == 20


# ---- engines that must not mix ----


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model_config__dtype": "torch.bfloat16"}, "dtype"),
        ({"cache_config__cache_dtype": "fp8"}, "dtype"),
        ({"model_config__quantization": "fp8"}, "quantization"),
        ({"cache_config__prefix_caching_hash_algo": "sha256"}, "hash"),
    ],
)
def test_engineOfAnotherConfiguration_isRefusedWithTheDifference(engines: Make, changed: dict[str, Any], named: str) -> None:
    engines()
    with pytest.raises(RuntimeError, match=f"does not mix.*{named}"):
        engines(**changed)


def test_mismatchServe_startsWithout(engines: Make) -> None:
    stored(engines(), request())
    other = engines({"kvtier.mismatch": "serve"}, model_config__dtype="torch.bfloat16")
    again = request()
    other.run(again)
    assert again.external_tokens == 0


def test_otherHashSeed_isNamed(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engines()
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with pytest.raises(RuntimeError, match="different values of PYTHONHASHSEED"):
        engines()


def test_noHashSeed_isToldAndKeptApart(engines: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    engines()
    monkeypatch.delenv("PYTHONHASHSEED")
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        alone = engines(cache_config__prefix_caching_hash_algo="xxhash_cbor")
    assert "Set PYTHONHASHSEED=0" in caplog.text
    assert "unseeded" in alone.workers[0].connector._mine[0].name


# ---- what goes wrong ----


def test_daemonGone_computesAndComesBack(engines: Make, fresh_daemon: Daemon) -> None:
    engine = engines(at=fresh_daemon)
    stored(engine, request())
    fresh_daemon.kill()
    gone = request()
    engine.run(gone)
    assert gone.external_tokens == 0
    fresh_daemon.start()
    time.sleep(0.6)  # the longest back-off
    stored(engine, request(seed=2))
    again = request(seed=2)
    engine.run(again)
    assert again.external_tokens == 40


def test_daemonKilledBetweenLookupAndLoad_isComputed(engines: Make, fresh_daemon: Daemon) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    again = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(again, 0)[0] == 40)
    searches = engine.scheduler._scheduler._searches._by_request
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(again, 0)[0] == 40 and searches[again.request_id].run)
    fresh_daemon.kill()
    engine.run(again)
    assert again.external_tokens == 40
    assert engine.stats["load_failed_blocks"] == 10
    assert engine.recomputed == 10


class LosingRegion:
    """A region that finds other blocks than it was asked for, at these places of one request."""

    def __init__(self, region: Any, first: bytes, lost: set[int]) -> None:
        self._region = region
        self._first = first
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def get(self, keys: list[bytes], block_ids: list[int], **more: Any) -> Any:
        if keys[0] == self._first:
            keys = [bytes(len(key)) if i in self._lost else key for i, key in enumerate(keys)]
        return self._region.get(keys, block_ids, **more)


def test_load_isOfWholeBlocks(engines: Make) -> None:
    stored(engines(), request())
    engine = engines()
    worker = engine.workers[0].connector._worker
    asked: list[dict[str, Any]] = []
    get = worker._regions[0].get
    worker._regions[0].get = lambda keys, block_ids, **more: (asked.append(more), get(keys, block_ids, **more))[1]
    again = request()
    engine.run(again)
    assert again.external_tokens == 40
    assert asked and all(one["by_layer"] is False for one in asked)


@pytest.mark.parametrize("lost", [{0, 9}, {5, 9}, {9}])
@pytest.mark.parametrize("ranks", [1, 2])
def test_someBlocksOfOneRequestAreLost_fromTheFirstOnItIsComputed(engines: Make, ranks: int, lost: set[int]) -> None:
    first = engines(ranks=ranks)
    for seed in (1, 2, 3):
        stored(first, request(seed=seed))
    engine = engines(ranks=ranks)
    ones = [request(seed=seed) for seed in (1, 2, 3)]
    # One rank has lost them: for all ranks they are lost.
    worker = engine.workers[-1].connector._worker
    worker._regions[0] = LosingRegion(worker._regions[0], ones[1].block_hashes[0], lost)
    engine.run(*ones)
    assert [one.external_tokens for one in ones] == [40, 40, 40]
    assert engine.recomputed == 10 - min(lost)
    assert engine.stats["load_failed_blocks"] == len(lost)
    assert engine.stats["loaded_blocks"] == 30 * ranks - len(lost)
    assert all(not one.connector.get_block_ids_with_load_errors() for one in engine.workers)


def test_lostBlock_isStoredAgainOnceItIsComputed(engines: Make, daemon: Daemon) -> None:
    first = engines()
    one = request()
    stored(first, one)
    engine = engines()
    again = request()
    shard = first.workers[0].connector._mine[0]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        worker = engine.workers[0].connector._worker
        worker._regions[0] = LosingRegion(worker._regions[0], again.block_hashes[0], {4})
        engine.add(again)
        engine.step_until(lambda: again.state == "received")
        assert namespace.delete(one.block_hashes[4:10]) == [Status.OK] * 6
        engine.run_existing(again)
        engine.settle()
    assert engine.stats["stored_blocks"] == 6


class LateRegion:
    """A region whose last blocks come when they are let go; as if of other keys, where they are `lost`."""

    def __init__(self, engine: Engine, last: int = 3, rank: int = 0, lost: bool = False) -> None:
        self._worker = engine.workers[rank]
        side = self._worker.connector._worker
        self._region = side._regions[0]
        side._regions[0] = self
        self.last = last
        self.lost = lost
        self.let_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def get(self, keys: list[bytes], block_ids: list[int], **more: Any) -> Any:
        end = len(keys) - self.last
        last = [bytes(len(key)) for key in keys[end:]] if self.lost else keys[end:]
        return LateCopying(
            self._region.get(keys[:end], block_ids[:end], **more), lambda: self._region.get(last, block_ids[end:], **more), self, end
        )

    def write(self, block_ids: list[int], blocks: list[bytes]) -> None:
        for number, block in zip(block_ids, blocks, strict=True):
            cells = np.frombuffer(block, dtype=np.uint8).reshape(len(self._worker.tensors), BLOCK_TOKENS, -1)
            for tensor, cell in zip(self._worker.tensors, cells, strict=True):
                tensor.array[number] = cell


class LateCopying:
    def __init__(self, first: Any, begin_last: Callable[[], Any], region: LateRegion, end: int) -> None:
        self._first = first
        self._begin_last = begin_last
        self._last: Any = None
        self._region = region
        self._end = end
        self._is_given_up = False

    def last_blocks(self, least: int) -> int:
        return self._region.last

    def done(self) -> bool:
        if self._last is None and self._region.let_go.is_set():
            self._last = self._begin_last()
        return self._is_given_up or bool(self._first.done() and self._last is not None and self._last.done())

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        statuses = self._first.wait(timeout)
        if not self._is_given_up and (blocks is None or blocks > self._end):
            self._region.let_go.wait(timeout)
        self.done()
        if self._last is None:
            return list(statuses + [Status.UNAVAILABLE if self._is_given_up else Status.PENDING] * self._region.last)
        return list(statuses + self._last.wait(timeout))

    def cancel(self) -> None:
        raise AssertionError("it was cancelled")

    def give_up(self) -> None:
        assert not self.done()
        self._is_given_up = True


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of some KiB take as long as those of some GiB."""
    monkeypatch.setattr(transfers, "_HOLD_S_MIN", 5.0)
    monkeypatch.setattr(_connector, "_HOLD_TIMEOUT_S", 5.0)


@pytest.fixture
def trusted(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks in memory need no check, as if the daemon had written them from a GPU."""
    monkeypatch.setattr(Leases, "are_verified", property(lambda leases: leases.run == len(leases)))


def promised(engine: Engine, **late: Any) -> tuple[Request, LateRegion]:
    """A request of which the engine was told that it is loaded, and the last blocks are not there."""
    region = LateRegion(engine, **late)
    again = request()
    engine.add(again)
    engine.step_until(lambda: again.state == "received")
    assert not region.let_go.is_set() and again.external_tokens == 40
    return again, region


def soon(region: LateRegion) -> None:
    threading.Timer(0.1, region.let_go.set).start()


@pytest.mark.parametrize(
    "options", [{}, {"second_runner": True}, {"drafts": True}, {"ranks": 2}, {"ranks": 2, "late": 1}], ids=lambda one: "-".join(one) or "plain"
)
def test_lastBlocksStillUnderWay_engineIsTold_andWaitsBeforeItComputes(
    engines: Make, daemon: Daemon, trusted: None, options: dict[str, Any]
) -> None:
    late = options.get("late", 0)
    options = {name: value for name, value in options.items() if name != "late"}
    stored(engines(**options), request())
    engine = engines(**options)
    again, region = promised(engine, rank=late)
    soon(region)
    engine.run_existing(again)
    assert region.let_go.is_set()
    ranks = options.get("ranks", 1)
    assert (engine.stats["loaded_blocks"], engine.stats["loads"], engine.stats["load_failed_blocks"]) == (10 * ranks, ranks, 0)
    assert engine.stats["load_us"] < engine.stats["promise_us"] < 5e6
    assert "written_blocks" not in engine.stats
    engine.step()
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


def test_twoLoadsWithTheirLastBlocksUnderWay_bothAreWaitedFor(engines: Make, trusted: None) -> None:
    first = engines()
    stored(first, request())
    stored(first, request(seed=2))
    engine = engines()
    region = LateRegion(engine)
    worker = engine.workers[0].connector._worker
    hold, worker._hold = worker._hold, None
    both = [request(), request(seed=2)]
    for one in both:
        engine.add(one)
    engine.step_until(lambda: len(worker._loads) == 2)
    # An idle engine would be told of the first one before the second has come as far.
    for load in worker._loads.values():
        load.hold(hold, 1 << 30)
    assert eventually(lambda: all(load.may_be_promised for load in worker._loads.values()))
    engine.step_until(lambda: not worker._loads)
    assert len(worker._promised) == 2
    soon(region)
    engine.run_existing(*both)
    assert engine.stats["loaded_blocks"] == 20 and engine.recomputed == 0


def test_requestEndsWithItsLastBlocksUnderWay_whoGetsItsBlocksWaits(engines: Make, trusted: None) -> None:
    stored(engines(), request())
    engine = engines()
    again, region = promised(engine)
    engine.waiting.remove(again)
    engine.finish(again)
    soon(region)
    other = request(seed=2)
    engine.add(other)
    engine.step()
    assert region.let_go.is_set()
    other.tokens += tokens(3, 5)
    engine.run_existing(other)


def test_requestEndsWithItsLastBlocksUnderWay_anotherConnectorsLoadWaits(engines: Make, trusted: None) -> None:
    stored(engines(), request())
    engine = engines()
    again, region = promised(engine)
    engine.waiting.remove(again)
    engine.finish(again)
    engine.step()
    assert not region.let_go.is_set(), "nobody got blocks"
    soon(region)
    engine.scheduler.update_state_after_alloc(request(seed=2), Blocks([]), 0)
    engine.step()
    assert region.let_go.is_set()


def test_daemonKilledWithTheLastBlocksUnderWay_theyAreReadFromItsMemory(
    engines: Make, fresh_daemon: Daemon, trusted: None, caplog: pytest.LogCaptureFixture
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    again, region = promised(engine)
    fresh_daemon.kill()
    region.let_go.set()
    with caplog.at_level(logging.WARNING):
        engine.run_existing(again)
    assert "the worker read the missing blocks from its memory: UNAVAILABLE" in caplog.text
    assert (engine.stats["written_blocks"], engine.stats["loaded_blocks"], engine.recomputed) == (3, 10, 0)
    assert engine.stats["load_failed_blocks"] == 0


def test_daemonKilledWithTheLastBlocksOfAnEndedRequestUnderWay_engineGoesOn(engines: Make, fresh_daemon: Daemon, trusted: None) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    again, region = promised(engine)
    engine.waiting.remove(again)
    engine.finish(again)
    fresh_daemon.kill()
    region.let_go.set()
    engine.step_until(lambda: not engine.workers[0].connector._worker._promised)
    engine.step()
    assert engine.stats["written_blocks"] == 3
    engine.run(request(seed=2))


def test_lastBlocksAreNotFoundAnyMore_theyAreReadFromTheDaemonsMemory(engines: Make, trusted: None) -> None:
    stored(engines(), request())
    engine = engines()
    again, region = promised(engine, lost=True)
    region.let_go.set()
    engine.run_existing(again)
    assert (engine.stats["written_blocks"], engine.recomputed) == (3, 0)


def test_daemonHangsWithTheLastBlocksUnderWay_theyAreReadFromItsMemory(engines: Make, trusted: None) -> None:
    stored(engines(), request())
    engine = engines({"kvtier.load_timeout_s": 0.3})
    again, region = promised(engine)
    engine.run_existing(again)
    assert not region.let_go.is_set()
    assert engine.stats["written_blocks"] == 3 and engine.stats["promise_us"] >= 3e5


def test_lastBlocksAreLostAndDamaged_engineDoesNotCompute(
    engines: Make, fresh_daemon: Daemon, trusted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    _, region = promised(engine)
    fresh_daemon.kill()
    region.let_go.set()
    monkeypatch.setattr(Leases, "read", lambda leases, index: None)
    computed: list[Any] = []
    monkeypatch.setattr(engine.workers[0], "compute", lambda *arguments: computed.append(arguments))
    with pytest.raises(KvtierError, match="3 blocks were not loaded .UNAVAILABLE., and their bytes in the daemon's memory are damaged"):
        engine.step()
    assert computed == []


def test_blocksThatReadersMustVerify_areNotPromised(engines: Make, patient: None) -> None:
    stored(engines(), request())
    engine = engines()
    region = LateRegion(engine)
    again = request()
    engine.add(again)
    worker = engine.workers[0].connector._worker
    engine.step_until(lambda: bool(worker._loads))
    for _ in range(5):
        engine.step()
    assert again.state == "receiving"
    (load,) = worker._loads.values()
    assert load.last is not None and load.last.statuses == [Status.OK] * 3
    region.let_go.set()
    engine.run_existing(again)
    assert engine.stats["loaded_blocks"] == 10


def test_engineThatComputes_isToldWhenAllBlocksAreThere(engines: Make, trusted: None) -> None:
    stored(engines(), request())
    engine = engines(step_tokens=1)
    region = LateRegion(engine)
    busy = request(200, seed=7)
    engine.add(busy)
    engine.step()
    again = request()
    engine.add(again)
    worker = engine.workers[0].connector._worker
    engine.step_until(lambda: bool(worker._loads))
    # As if it had been idle until now.
    (load,) = worker._loads.values()
    load.hold(worker._hold, 1 << 30)
    assert load.needed == 7
    for _ in range(5):
        engine.step()
    assert again.state == "receiving" and 0 < busy.num_computed_tokens < 200
    region.let_go.set()
    engine.step_until(lambda: again.state == "received")


def test_stagesOfAPipeline_promiseNothing(engines: Make) -> None:
    assert engines().workers[0].connector._worker._hold is not None
    assert all(worker.connector._worker._hold is None for worker in engines(pipeline=2).workers)


def test_loadOfWhichAnyBlockHasFailed_isNotPromised() -> None:
    ok, pending, miss = Status.OK, Status.PENDING, Status.MISS

    class Told:
        def __init__(self, *statuses: Status) -> None:
            self.statuses = list(statuses)
            self.asked: list[int | None] = []

        def done(self) -> bool:
            return False

        def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
            self.asked.append(blocks)
            return self.statuses

    def load(*statuses: Status) -> _Load:
        return _Load(Told(*statuses), [b"k"] * 4, [0, 1, 2, 3], 0.0, 2)  # type: ignore[arg-type]

    assert load(ok, ok, pending, pending).may_be_promised
    assert load(ok, ok, ok, pending).may_be_promised
    assert not load(ok, pending, pending, pending).may_be_promised
    assert not load(ok, ok, miss, pending).may_be_promised
    failed = load(miss, ok, pending, pending)
    failed.wait(0.5)
    failed.wait(0.5)
    # From then on its end is waited for.
    assert failed.copying.asked == [2, 4] and not failed.may_be_promised  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", ["recompute", "fail"])
def test_loadFailure_isTheEnginesPolicy(engines: Make, policy: str) -> None:
    engine = engines({"kvtier.load_failure": policy})
    assert engine.scheduler._vllm_config.kv_transfer_config.kv_load_failure_policy == policy


def test_hangingDaemon_delaysALittle_andIsLeftAloneThen(engines: Make, fresh_daemon: Daemon) -> None:
    engine = engines({"kvtier.lookup_s_max": 0.1, "kvtier.put_timeout_s": 0.5}, at=fresh_daemon)
    stored(engine, request())
    fresh_daemon.pause()
    late = request()
    engine.run(late)
    assert late.external_tokens == 0
    assert engine.stats["lookups_late"] == 1
    at_once = request()
    engine.add(at_once)
    engine.step()
    assert at_once in engine.running and at_once.external_tokens == 0


def test_noDaemon_servesAndSaysSoOnce(
    engines: Make, stopped_daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        engine = engines(at=stopped_daemon)
        engine.run(request())
        engine.run(request())
        engine.settle()
    assert sum("no daemon listens at" in record.getMessage() for record in caplog.records) == 1


def test_whatIsNoDaemon_servesAndSaysSo(
    engines: Make, stopped_daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(stopped_daemon.socket_path))
        listening.listen()

        def answer() -> None:
            try:
                while True:
                    with listening.accept()[0] as channel:
                        channel.recv(4096)
                        channel.send(b"no daemon's answer")
            except OSError:
                pass

        threading.Thread(target=answer, daemon=True).start()
        with caplog.at_level(logging.WARNING):
            engine = engines(at=stopped_daemon)
            engine.run(request())
        listening.shutdown(socket.SHUT_RDWR)
    assert "is no kvtier daemon" in caplog.text


# ---- blocks that are used again ----


def test_blocksUsedAgain_whileTheyAreStored_areStoredRight(engines: Make) -> None:
    engine = engines(blocks=12)
    ones = [request(44, seed) for seed in range(30)]
    for one in ones:
        # Each takes the blocks of the one before, whose store has just begun.
        engine.run(one)
    engine.settle()
    second = engines(blocks=12)
    again = [request(44, seed) for seed in range(30)]
    for one in again:
        second.run(one)
    assert sum(one.external_tokens for one in again) >= 44 * 28


def test_preempted_isLoadedAgain(engines: Make) -> None:
    engine = engines(step_tokens=16)
    one = request(60)
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens >= 48)
    engine.settle()
    engine.preempt(one)
    engine.run_existing(one)
    assert one.external_tokens >= 44


def test_preemptedForASecondRunner_isLoadedAgain(engines: Make) -> None:
    engine = engines(step_tokens=16, second_runner=True)
    one = request(60)
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens >= 48)
    engine.settle()
    engine.preempt(one)
    engine.run_existing(one)
    assert one.external_tokens >= 44


def test_preempted_itsBlocksAreUsedAtOnce_bothAreRight(engines: Make) -> None:
    engine = engines(blocks=24, step_tokens=48)
    one, other = request(80), request(60, seed=2)
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens >= 48)
    engine.preempt(one)
    engine.waiting.clear()
    engine.run(other)
    engine.waiting.append(one)
    engine.run_existing(one)
    engine.settle()
    again = [request(80), request(60, seed=2)]
    for each in again:
        engines(blocks=24).run(each)
    assert [each.external_tokens for each in again] == [80, 60]


@pytest.mark.parametrize("second_runner", [False, True])
def test_preempted_whatTheDaemonHasLost_isStoredAgain(engines: Make, daemon: Daemon, second_runner: bool) -> None:
    engine = engines(step_tokens=16, second_runner=second_runner)
    one = request(60)
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens >= 48)
    engine.settle()
    engine.preempt(one)
    shard = engine.workers[0].connector._mine[0]
    with Client(daemon.socket_path) as client:
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        assert namespace.delete(one.block_hashes[3:12]) == [Status.OK] * 9
    engine.run_existing(one)
    engine.settle()
    assert one.external_tokens == 12
    again = request(60)
    engines().run(again)
    assert again.external_tokens == 60


def test_waitsForRoom_holdsAndLooksUpOnce(engines: Make) -> None:
    stored(engines(), request())
    engine = engines(blocks=11)
    filling = request(43, seed=9)
    engine.add(filling)
    engine.step_until(lambda: filling in engine.running)
    waiting = request()
    engine.add(waiting)
    for _ in range(20):
        engine.step()
    assert waiting.state == "waiting"
    assert engine.stats["lookups"] == 2
    engine.finish(filling)
    engine.run_existing(waiting)
    assert waiting.external_tokens == 40


def test_finishedWhileAskedFor_holdsNothing(engines: Make, daemon: Daemon) -> None:
    stored(engines(), request())
    engine = engines()
    gone = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(gone, 0)[0] == 40)
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 10)
        engine.finish(gone)
        assert eventually(lambda: client.counters()["leases"] == 0)


def test_leasesGrantedToWhoGaveThemUp_areGivenBackByALaterStep(
    engines: Make, fresh_daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(engines(at=fresh_daemon), request())
    engine = engines(at=fresh_daemon)
    gone = request()
    real = Searches._hold

    def hold(self: Searches, search: Any, first_block: int) -> None:
        fresh_daemon.pause()
        real(self, search, first_block)

    monkeypatch.setattr(Searches, "_hold", hold)
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(gone, 0)[0] == 40)
    engine.finish(gone)
    fresh_daemon.signal(signal.SIGCONT)
    with Client(fresh_daemon.socket_path) as client:
        client.ping()  # the daemon has come to the leases by now; the client cancels what nobody waits for
        engine.step()
        assert eventually(lambda: client.counters()["leases"] == 0, 5.0)  # and not only when they expire


def test_loaded_holdsNothing(engines: Make, daemon: Daemon) -> None:
    stored(engines(), request())
    engines().run(request())
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


def test_abortedWhileLoading_itsLoadEnds_andNothingIsHeld(engines: Make, daemon: Daemon) -> None:
    stored(engines(), request())
    engine = engines()
    gone = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(gone, 0) == (40, True))
    gone.block_ids = list(range(50, 61))
    engine.scheduler.update_state_after_alloc(gone, Blocks(gone.block_ids), 40)
    assert engine.scheduler.request_finished(gone, gone.block_ids) == (False, None)
    # vLLM keeps its blocks until the load is told to have ended.
    gone.state = "receiving"
    engine.waiting.append(gone)
    engine.step_until(lambda: gone.state == "received")
    engine.waiting.remove(gone)
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)
    scheduler = engine.scheduler._scheduler
    assert not scheduler._loading and not scheduler._requests and not scheduler._searches._by_request


def test_engineEndsWhileLoading_nothingIsHeld(engines: Make, daemon: Daemon) -> None:
    stored(engines(), request())
    engine = engines()
    one, other = request(), request()
    for each in (one, other):
        assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(each, 0) == (40, True))
    engine.scheduler.update_state_after_alloc(one, Blocks(list(range(11))), 40)
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] > 0)
        engine.close()
        assert eventually(lambda: client.counters()["leases"] == 0)


# ---- reset ----


def test_resetBeforeALoadBegins_whatItWouldHaveLoadedIsComputed(engines: Make, daemon: Daemon) -> None:
    stored(engines(), request())
    engine = engines()
    one = request()
    assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(one, 0) == (40, True))
    one.block_ids = list(range(50, 61))
    one.external_tokens = one.num_computed_tokens = 40
    engine.scheduler.update_state_after_alloc(one, Blocks(one.block_ids), 40)
    one.state = "receiving"
    engine.waiting.append(one)
    assert engine.scheduler.reset_cache() is True
    engine.run_existing(one)
    assert engine.stats["load_failed_blocks"] == engine.recomputed == 10
    with Client(daemon.socket_path) as client:
        assert eventually(lambda: client.counters()["leases"] == 0)


# ---- what is computed, though it could be loaded ----


@pytest.mark.parametrize(("load_s", "is_computed"), [(0.9, False), (1.1, True), (2.9, True)])
@pytest.mark.parametrize(("load_s_max", "load_timeout_s"), [(3.0, 1.0), (1.0, 3.0)])
def test_loadThatIsEstimatedToTakeLongerThanItMay_isComputed(
    load_s: float, is_computed: bool, load_s_max: float, load_timeout_s: float
) -> None:
    searches = Searches.__new__(Searches)
    searches._settings = Settings.of(
        {"kvtier.load_if_faster": False, "kvtier.load_s_max": load_s_max, "kvtier.load_timeout_s": load_timeout_s}
    )
    assert searches._is_sooner_computed(1, load_s) is is_computed


def test_byDefault_noLoadBeginsThatItsTimeoutWouldEnd() -> None:
    assert Settings().load_s_max <= Settings().load_timeout_s


# ---- what is told ----


def test_stats_addUpOverRanksAndTime() -> None:
    stats = _connector.KvtierConnector.build_kv_connector_stats()
    assert stats.is_empty() and stats.reduce() == {}
    stats.aggregate(KvtierStats(data={"loads": 1, "load_us": 20})).aggregate(KvtierStats(data={"loads": 2, "stores": 0}))
    assert stats.reduce() == {"loads": 3, "load_us": 20}
    assert not stats.is_empty()
    stats.reset()
    assert stats.is_empty()
    assert _connector.KvtierConnector.build_kv_connector_stats({"loads": 3}).data == {"loads": 3}


def test_stats_areOfTheTimeSinceTheLastOnes(engines: Make) -> None:
    engine = engines()
    stored(engine, request())
    assert set(engine.stats) <= set(COUNTERS)
    assert engine.scheduler.get_kv_connector_stats() is None
    assert engine.workers[0].connector.get_kv_connector_stats() is None


def test_prometheus_countsByEngine() -> None:
    counted: dict[tuple[str, str], float] = {}

    class Counter:
        def __init__(self, name: str, documentation: str, labelnames: list[str]) -> None:
            assert name.startswith("vllm:kvtier_") and documentation.endswith(".") and labelnames == ["engine"]
            self.name = name

        def labels(self, engine: str) -> Any:
            def inc(count: float) -> None:
                counted[self.name, engine] = counted.get((self.name, engine), 0) + count

            return SimpleNamespace(inc=inc)

    made = _connector.KvtierConnector.build_prom_metrics(
        config({}), defaultdict(lambda: Counter), ["engine"], {0: ["0"], 1: ["1"]}
    )
    made.observe({"loads": 2, "of_a_later_release": 1})
    made.observe({"loads": 1, "stores": 0}, 1)
    made.observe({"loads": 3})
    assert counted == {("vllm:kvtier_loads", "0"): 5, ("vllm:kvtier_loads", "1"): 1}


def test_workersTell_addsUpStoresOfAllRanks() -> None:
    one = _connector.KvtierWorkerMetadata(2, 7)
    assert one.aggregate(_connector.KvtierWorkerMetadata(1, 0)) == _connector.KvtierWorkerMetadata(3, 7)


# ---- settings ----


def test_settings_misuse_isNamed() -> None:
    with pytest.raises(InvalidArgument, match="did you mean kvtier.namespace"):
        Settings.of({"kvtier.namespaces": "x"})
    with pytest.raises(InvalidArgument, match="kvtier.store is 'some'; expected 'all' or 'prompt' or 'none'"):
        Settings.of({"kvtier.store": "some"})
    with pytest.raises(InvalidArgument, match="kvtier.put_timeout_s is 'soon'; expected a number of seconds"):
        Settings.of({"kvtier.put_timeout_s": "soon"})
    with pytest.raises(InvalidArgument, match="expected 0 or more"):
        Settings.of({"kvtier.load_timeout_s": -1.0})
    assert Settings.of({"other": 1, "kvtier.put_timeout_s": 3}).put_timeout_s == 3.0


def test_versions_olderAreRefused_newerAreToldOf() -> None:
    assert "this is vLLM 0.9.2, and kvtier.vllm supports 0.24 to 0.32: upgrade" in _versions.refusal("0.9.2")
    assert not _versions.refusal("0.24.0") and not _versions.warning("0.32.1+cpu")
    assert "this is vLLM 0.33.0" in _versions.warning("0.33.0")


def test_keysThatDontTellABlocksBytes_areServedWithout() -> None:
    class RSWASpec(SimpleNamespace):
        pass

    cache = SimpleNamespace(num_blocks=8, kv_cache_groups=[SimpleNamespace(kv_cache_spec=RSWASpec(block_size=BLOCK_TOKENS))])
    assert "RSWASpec" in _engine.unserved(config({}), cache)


def test_blocksThatTheEngineClears_andStagesThatGuess_areServedWithout() -> None:
    cache = SimpleNamespace(num_blocks=8, kv_cache_groups=[SimpleNamespace(kv_cache_spec=SlidingWindowSpec(block_size=BLOCK_TOKENS, sliding_window=8))])
    made = config({}, parallel_config__pipeline_parallel_size=2)
    assert not _engine.unserved(made, cache)
    made.speculative_config = SimpleNamespace()
    assert "speculative" in _engine.unserved(made, cache)
    made.parallel_config.pipeline_parallel_size = 1
    assert not _engine.unserved(made, cache)
    cache.needs_kv_cache_zeroing = True
    assert not _engine.unserved(made, cache)
    made.use_v2_model_runner = True
    assert "clears" in _engine.unserved(made, cache)


def test_modelOfAnUnknownKind_isServedWithout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=4))
    cache = SimpleNamespace(num_blocks=4, kv_cache_groups=[group, group])
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        made = config({"kvtier.socket": str(tmp_path / "none")})
        connector = _connector.KvtierConnector(made, KVConnectorRole.SCHEDULER, cache)
    assert "KV cache is of kind SimpleNamespace" in caplog.text
    assert connector.get_num_new_matched_tokens(request(), 0) == (0, False)


# ---- blocks that other engines get from this one's memory ----


class Siblings:
    """What engines on other GPUs would read: blocks of one rank's tensors, which nobody may change meanwhile."""

    registrations = 1

    def __init__(self, engine: Engine, rank: int = 0) -> None:
        self.worker = engine.workers[rank]
        self.advertised: dict[bytes, tuple[int, bytes]] = {}
        self.revoked = 0
        worker = self.worker.connector._worker
        worker._sharing = worker._transfers._sharing = Sharing([self], rank)
        engine.scheduler._scheduler._shares = True
        compute = self.worker.compute

        def checked(*arguments: Any) -> None:
            compute(*arguments)
            self.check()

        self.worker.compute = checked  # type: ignore[method-assign]

    def advertise(self, keys: list[bytes], block_ids: list[int], *, rank: int = 0) -> list[Status]:
        for key, block in zip(keys, block_ids, strict=True):
            self.advertised.setdefault(key, (block, self._bytes(block)))
        return [Status.OK if self.advertised[key][0] == block else Status.BUSY for key, block in zip(keys, block_ids, strict=True)]

    def revoke(self, keys: list[bytes]) -> list[Status]:
        self.check()
        self.revoked += len(keys)
        return [Status.MISS if self.advertised.pop(key, None) is None else Status.OK for key in keys]

    def check(self) -> None:
        for key, (block, content) in self.advertised.items():
            assert self._bytes(block) == content, f"block {block} was written to while others may read {key.hex()}"

    def check_keys(self, spare: int) -> None:
        """Each block has the bytes that kvtier has under its key."""
        region = self.worker.connector._worker._regions[0]
        for key, (_, content) in self.advertised.items():
            assert region.get([key], [spare]).wait() == [Status.OK]
            assert self._bytes(spare) == content

    def _bytes(self, block: int) -> bytes:
        return b"".join(tensor.array[block].tobytes() for tensor in self.worker.tensors)


def test_storedBlocks_areAdvertised_untilTheirPlacesAreWrittenAnew(engines: Make) -> None:
    engine = engines(blocks=14)
    siblings = Siblings(engine)
    one = request()
    stored(engine, one)
    engine.step()
    assert list(siblings.advertised) == one.block_hashes
    siblings.check_keys(13)
    other = request(seed=2)
    stored(engine, other)
    engine.step()
    # It has the places of the first one.
    assert list(siblings.advertised) == other.block_hashes and siblings.revoked == 10


def test_loadedBlocks_areAdvertised_butForTheOneWhoseLastTokenIsComputedAgain(engines: Make) -> None:
    stored(engines(), request(40))
    engine = engines()
    siblings = Siblings(engine)
    again = request(40)
    engine.run(again)
    engine.step()
    assert again.external_tokens == 40
    assert list(siblings.advertised) == again.block_hashes[:9] and siblings.revoked == 1


def test_loadOfWhichABlockFailed_isComputedInItsPlace_andNotAdvertised(engines: Make) -> None:
    stored(engines(), request())
    engine = engines(ranks=2)
    siblings = [Siblings(engine, rank) for rank in range(2)]
    stored(engines(ranks=2), request())
    again = request()
    worker = engine.workers[1].connector._worker
    worker._regions[0] = LosingRegion(worker._regions[0], again.block_hashes[0], {4})
    engine.run(again)
    engine.settle()
    engine.step()
    assert engine.recomputed == 6
    # The first rank has loaded all; from the fifth on its blocks were written anew. They were known, and are not stored again.
    assert list(siblings[0].advertised) == again.block_hashes[:4] and siblings[0].revoked == 6
    assert siblings[1].advertised == {}


def test_reuseOfBlocks_isToldOnlyWhereTheyAreShared(engines: Make) -> None:
    engine = engines()
    engine.scheduler._scheduler._stores_under_way = 0
    one = request()
    engine.add(one)
    assert engine.scheduler._scheduler.plan(engine._schedule()).reused == []


@pytest.mark.parametrize("seed", range(12))
def test_manyRequests_noAdvertisedBlockIsWrittenTo(engines: Make, seed: int) -> None:
    chance = random.Random(seed)
    engine = engines({"kvtier.store": chance.choice(["all", "prompt"])}, blocks=64, step_tokens=chance.choice([16, 1000]))
    siblings = Siblings(engine)
    for _ in range(60):
        running = [one for one in engine.running if one.num_computed_tokens == one.num_tokens]
        event = chance.randrange(6)
        if event == 0 and len(engine.waiting) + len(engine.running) < 3:
            engine.add(request(chance.randint(5, 50), seed=chance.randrange(4)))
        elif event == 1 and running:
            engine.finish(chance.choice(running))
        elif event == 2 and engine.running and not engine.waiting:
            engine.preempt(chance.choice(engine.running))
        elif event == 3 and running:
            chance.choice(running).tokens.append(7)
        engine.step()
    for one in list(engine.running):
        engine.finish(one)
    engine.settle()
    engine.step()
    siblings.check()
    assert siblings.advertised or siblings.revoked
