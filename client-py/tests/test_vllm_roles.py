"""The roles of vLLM's engines: what a prefill engine tells the engine that decodes, and that this one waits for it."""

import itertools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.process import free_port
from kvtier_testing.vllm_double import BLOCK_TOKENS, Engine, Request, config

from kvtier import Client
from kvtier import _operations as operations
from kvtier.engine import search
from kvtier.vllm._roles import Roles

PROMPT = list(range(6 * BLOCK_TOKENS + 3))
WHOLE = 6 * BLOCK_TOKENS
_numbers = itertools.count()


class Engines:
    """Engines of one daemon that share blocks."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONHASHSEED", "0")
        self._daemon = daemon
        self._monkeypatch = monkeypatch
        self._made: list[Engine] = []
        self._namespace = f"roles-{next(_numbers)}"

    def make(self, role: str, **extra: Any) -> Engine:
        settings = {"socket": str(self._daemon.socket_path), "namespace": self._namespace, "weights": "one"} | extra
        made_config = config({f"kvtier.{name}": value for name, value in settings.items()})
        made_config.kv_transfer_config.kv_role = role
        made = Engine(made_config, self._monkeypatch)
        self._made.append(made)
        return made

    def close(self) -> None:
        for one in self._made:
            one.close()


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    made = Engines(daemon, monkeypatch)
    yield made
    made.close()


def answered(engine: Engine, tokens: list[int], params: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Computes a prompt, and returns what the engine says at its end."""
    request = Request(f"request-{next(_numbers)}", tokens)
    request.kv_transfer_params = params
    engine.add(request)
    engine.step_until(lambda: request.num_computed_tokens == request.num_tokens)
    request.tokens.append(1)
    _, answer = engine.scheduler.request_finished(request, request.block_ids)
    engine.running.remove(request)
    engine.free += request.block_ids
    engine.settle()
    return answer


def test_producer_saysWhatTheOtherEngineExpects(engines: Engines) -> None:
    engine = engines.make("kv_producer", put_timeout_s=3)
    assert answered(engine, PROMPT) == {"kvtier": {"expect_tokens": WHOLE, "expect_s": 3.0}}


def test_producerOfANode_saysWhichNodeItIs(stopped_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    stopped_daemon.start(nodes__name="prefill-0", nodes__listen=f"127.0.0.1:{port}", nodes__security="plaintext_without_tokens")
    made = Engines(stopped_daemon, monkeypatch)
    try:
        engine = made.make("kv_producer")
        answered(engine, [1, 2])
        assert eventually(lambda: engine.step() is None and engine.scheduler._scheduler.node == "prefill-0")
        assert answered(engine, PROMPT) == {"kvtier": {"expect_tokens": WHOLE, "expect_s": 2.0, "expect_from": "prefill-0"}}
        # The next session may be one with another daemon.
        stopped_daemon.stop()
        stopped_daemon.start(nodes__name="prefill-1", nodes__listen=f"127.0.0.1:{port}", nodes__security="plaintext_without_tokens")
        said: list[Any] = []
        numbers = itertools.count(100)
        assert eventually(lambda: said.append(answered(engine, [next(numbers), *PROMPT])) or "prefill-1" in str(said[-1]))
    finally:
        made.close()


def test_producer_isToldToVllmAsOneThatAlsoLoads(engines: Engines) -> None:
    engine = engines.make("kv_producer")
    assert engine.scheduler._kv_transfer_config.kv_role == "kv_both"
    answered(engine, PROMPT)
    second = engines.make("kv_producer")
    request = Request("again", PROMPT)
    second.run(request)
    assert request.external_tokens == WHOLE


def test_consumer_storesToo_andSaysNothing(engines: Engines) -> None:
    consumer = engines.make("kv_consumer")
    assert consumer.scheduler._kv_transfer_config.kv_role == "kv_consumer"
    assert answered(consumer, PROMPT) is None
    request = Request("other", PROMPT)
    engines.make("kv_both").run(request)
    assert request.external_tokens == WHOLE


def test_both_saysItOnlyOfRequestsThatAnotherEngineDecodes(engines: Engines) -> None:
    engine = engines.make("kv_both")
    assert answered(engine, PROMPT) is None
    params = {"do_remote_decode": True, "do_remote_prefill": False}
    assert answered(engine, [7, *PROMPT[1:]], params) == {"kvtier": {"expect_tokens": WHOLE, "expect_s": 2.0}}


@pytest.mark.parametrize(("tokens", "wishes"), [(PROMPT, {"store": False}), (PROMPT[: BLOCK_TOKENS - 1], {})])
def test_nothingStored_nothingIsSaid(engines: Engines, tokens: list[int], wishes: dict[str, Any]) -> None:
    assert answered(engines.make("kv_producer"), tokens, {"kvtier": wishes}) is None


def test_noDaemon_nothingIsSaid(stopped_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Engines(stopped_daemon, monkeypatch)
    try:
        assert answered(made.make("kv_producer"), PROMPT) is None
    finally:
        made.close()


@pytest.mark.parametrize("is_looked_up", [True, False])
@pytest.mark.parametrize(("deleted", "promised"), [(None, WHOLE), (2, 2 * BLOCK_TOKENS), (0, None)])
def test_promptOfTheEnginesOwnCache_isPromisedOnlyAsFarAsTheDaemonHasIt(
    engines: Engines, daemon: Daemon, deleted: int | None, promised: int | None, is_looked_up: bool
) -> None:
    """The engine does not store anew what it has in its own cache."""
    engine = engines.make("kv_producer")
    answered(engine, PROMPT)
    request = Request("again", PROMPT)
    if deleted is not None:
        delete(daemon, engine, request.block_hashes[deleted])
    had = 5 * BLOCK_TOKENS
    if is_looked_up:
        engine.scheduler.on_new_request(request)
        assert eventually(lambda: engine.scheduler.get_num_new_matched_tokens(request, had)[0] is not None)
    blocks = engine.free[:7]
    engine.scheduler.update_state_after_alloc(request, SimpleNamespace(get_block_ids=lambda: (blocks,)), 0)
    scheduler = engine.scheduler._scheduler
    tracked = scheduler._requests[request.request_id]
    tracked.begin([blocks], had, scheduler._groups)
    tracked.planned_tokens = request.num_computed_tokens = len(PROMPT)
    request.tokens.append(1)
    _, answer = engine.scheduler.request_finished(request, blocks)
    assert answer == (promised and {"kvtier": {"expect_tokens": promised, "expect_s": 2.0}})


def delete(daemon: Daemon, engine: Engine, key: bytes) -> None:
    shard = engine.workers[0].connector._mine[0]
    with Client(daemon.socket_path, timeout=60) as client:
        client.namespace(shard.name, block_bytes=shard.block_bytes, **dict(shard.properties)).delete([key])


def test_decodeEngine_waitsForWhatThePrefillEngineSaid(engines: Engines) -> None:
    """The decode engine hears of the request before the prefill engine has stored anything of it."""
    prefill, decode = engines.make("kv_producer"), engines.make("kv_consumer")
    request = Request("decode", PROMPT)
    request.kv_transfer_params = {"kvtier": {"expect_tokens": WHOLE, "expect_s": 60}}
    decode.add(request)
    for _ in range(20):
        decode.step()
    assert request.state == "waiting" and not request.block_ids
    assert answered(prefill, PROMPT) == {"kvtier": {"expect_tokens": WHOLE, "expect_s": 2.0}}
    decode.run_existing(request)
    assert request.external_tokens == WHOLE
    counted = Counter(decode.stats) + decode.scheduler._scheduler.observed
    assert counted["expected_prompts"] == 1 and counted["expected_us"] > 0 and counted["expected_late"] == 0


def test_decodeEngine_asksForOneBlockWhileItWaits_andNodesAgain(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []

    def noted(context: Any, groups: Any, fresh: bool = False) -> Any:
        asked.append((sum(len(keys) for _, keys in groups), fresh))
        return operations.lookup_groups(context, groups, fresh)

    prefill, decode = engines.make("kv_producer"), engines.make("kv_consumer")
    answered(prefill, [1, 2])
    monkeypatch.setattr(search, "lookup_groups", noted)
    request = Request("decode", PROMPT)
    request.kv_transfer_params = {"kvtier": {"expect_tokens": WHOLE, "expect_s": 60}}
    decode.add(request)
    decode.step_until(lambda: len(asked) >= 3)
    assert set(asked) == {(1, True)}
    asked.clear()
    request_of_others = Request("other", [9, *PROMPT[1:]])
    decode.run(request_of_others)
    assert set(asked) >= {(6, False)}
    answered(prefill, PROMPT)
    decode.run_existing(request)
    assert asked[-1] == (6, True) and request.external_tokens == WHOLE


def test_daemonThatExpectsNoBlocks_isAskedAgain(engines: Engines) -> None:
    """A daemon before version 2.3 of the protocol knows no such gets."""
    prefill, decode = engines.make("kv_producer"), engines.make("kv_consumer")
    answered(decode, [1, 2])
    decode.scheduler._scheduler._polled.connection.current().expects = False
    request = Request("decode", PROMPT)
    request.kv_transfer_params = {"kvtier": {"expect_tokens": WHOLE, "expect_s": 60, "expect_from": "node-0"}}
    decode.add(request)
    for _ in range(20):
        decode.step()
    assert request.state == "waiting"
    answered(prefill, PROMPT)
    decode.run_existing(request)
    assert request.external_tokens == WHOLE
    counted = Counter(decode.stats) + decode.scheduler._scheduler.observed
    assert counted["expected_gets"] == 1 and counted["expected_got"] == 0 and counted["expected_late"] == 0


def test_decodeEngine_countsWhatDidNotCome_andDoesNotWaitAgain(engines: Engines) -> None:
    decode = engines.make("kv_consumer")
    request = Request("decode", PROMPT)
    request.kv_transfer_params = {"kvtier": {"expect_tokens": WHOLE, "expect_s": 0.1}}
    decode.run(request)
    counted = Counter(decode.stats) + decode.scheduler._scheduler.observed
    assert counted["expected_prompts"] == 1 and counted["expected_late"] == 1 and request.external_tokens == 0
    assert not decode.scheduler._scheduler._searches._expectations._by_request


def test_decodeEngineHasThePromptItself_itDoesNotWait(engines: Engines) -> None:
    decode = engines.make("kv_consumer")
    answered(decode, [1, 2])
    request = Request("decode", PROMPT)
    request.kv_transfer_params = {"kvtier": {"expect_tokens": WHOLE, "expect_s": 60}}
    decode.scheduler.on_new_request(request)
    expectations = decode.scheduler._scheduler._searches._expectations
    assert expectations.waiting == 1
    assert eventually(lambda: decode.scheduler.get_num_new_matched_tokens(request, WHOLE)[0] == 0)
    assert expectations.waiting == 0


def test_unknownRole_isOneThatSaysNothingUnasked() -> None:
    assert Roles.of(SimpleNamespace(kv_role=None)) == Roles("kv_both")
    assert not Roles("kv_both").continues(SimpleNamespace(kv_transfer_params=None))
    assert not Roles("kv_consumer").continues(SimpleNamespace(kv_transfer_params={"do_remote_decode": True}))


@pytest.mark.parametrize("said", ["do_remote_decode", ["do_remote_decode"], 1])
def test_parametersThatAreNoDictionary_sayNothing(said: Any) -> None:
    assert not Roles("kv_both").continues(SimpleNamespace(kv_transfer_params=said))
    assert Roles("kv_producer").continues(SimpleNamespace(kv_transfer_params=said))
