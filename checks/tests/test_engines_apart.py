"""The figures of a prefill engine and a decode engine on two GPUs, with doubles of both engines. The other parts need GPUs."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from checks.engines import apart
from checks.engines.requests import times_of

PREFILL_MS, COMPUTE_MS, HIT_MS, ANSWER_MS, AT_ONCE_MS = 100.0, 200.0, 5.0, 30.0, 20.0
BLOCK_TOKENS = 16


class Host:
    """Two nodes, and what their engines do, in order."""

    def __init__(self, lost: int = 0, wrong: bool = False) -> None:
        """`lost`: tokens of each prompt that the decode engine does not get; `wrong`: it generates other tokens."""
        self.lost = lost
        self.wrong = wrong
        self.now_s = 0.0
        self.done: list[str] = []
        self.closed: list[str] = []
        self.prompts: list[int] = []
        """the seeds of the prompts that the decode engine was given for the first time, or with parameters, in order"""
        self.nodes: list[dict[str, int]] = [{"followed": 0, "node_expected": 7, "node_pieces": 7} for _ in range(2)]
        self.counters: list[Callable[[], dict[str, int]]] = [lambda node=node: dict(node) for node in self.nodes]

    def ended(self, ms: float, seed: int, tokens: int = 1, cached: int = 0) -> dict[str, Any]:
        self.now_s += ms / 1e3
        return {"ms": ms, "ended_s": self.now_s, "cached": cached, "tokens": [seed] * tokens, "params": {"of": seed}}


class Double:
    """An engine whose prompts take a fixed time each."""

    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.name = name
        self._is_prefill = "prefill" in name
        self._there: set[int] = set()
        self._told: dict[str, Any] = {}

    def ready(self) -> "Double":
        return self

    def close(self) -> None:
        self.host.closed.append(self.name)

    def run(self, seed: int, tokens: int, generated: int = 1) -> dict[str, Any]:
        self.host.done.append(f"{self.name} runs")
        if self._is_prefill:
            return self.host.ended(PREFILL_MS, seed, generated)
        is_hit = seed in self._there
        self.host.prompts += [] if is_hit else [seed]
        self._there.add(seed)
        return self.host.ended(HIT_MS if is_hit else COMPUTE_MS, seed + self.host.wrong, generated, tokens if is_hit else 0)

    def tell(self, **words: Any) -> None:
        self.host.done.append(f"{self.name} is told")
        self._told = words
        if not self._is_prefill:
            self.host.prompts += [seed for seed, _ in (one["prompt"] for one in words.get("requests", [words]))]
        if "prompt" in words and words["params"] == apart._EXPECTS:
            self.host.nodes[0]["followed"] += 1

    def answer(self) -> dict[str, Any]:
        self.host.done.append(f"{self.name} answers")
        if "requests" in self._told:
            return self._served(self._told["requests"])
        (seed, tokens), params = self._told["prompt"], self._told["params"]
        if self._is_prefill:
            assert params == apart._PULLED
            return self.host.ended(PREFILL_MS, seed, 1)
        self._there.add(seed)
        is_known = params == {"of": seed}
        assert is_known or params == apart._EXPECTS
        self.host.nodes[1]["node_expected"] += tokens // BLOCK_TOKENS
        self.host.nodes[1]["node_pieces"] += tokens // BLOCK_TOKENS * (1 if is_known else 8)
        return self.host.ended(ANSWER_MS if is_known else AT_ONCE_MS, seed, 1, tokens - self.host.lost)

    def ask(self, **words: Any) -> dict[str, Any]:
        self.tell(**words)
        return self.answer()

    def _served(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        expects = [one.get("params") == apart._EXPECTS for one in requests]
        assert len(set(expects)) == 1
        return {
            "gaps_s": [[0.01, 0.03], [0.02]], "first_s": [0.1 if expects[0] else 0.4] * 3,
            "cached": [one["prompt"][1] for one in requests],
        }  # fmt: skip


@pytest.fixture
def host() -> Host:
    return Host()


def both(host: Host) -> apart.Apart:
    return apart.Apart(Double(host, "prefill"), Double(host, "decode"), host.counters, itertools.count(5))  # type: ignore[arg-type]


def test_promptThatTheDecodeEngineComputes_takesItsOwnTime(host: Host) -> None:
    row = both(host).row("new", 64)
    assert row == {"first_ms": COMPUTE_MS, "cached": 0, "hit_ms": HIT_MS, "same": True}
    assert host.done[0] == "decode runs"


def test_firstTokenBehindAnAnswer_isCountedFromTheEndOfThePrefill(host: Host) -> None:
    row = both(host).row("answer", 64)
    assert row.pop("first_ms") == pytest.approx(ANSWER_MS)
    assert row == {"prefill_ms": PREFILL_MS, "cached": 64, "node_expected": 4, "node_pieces": 4, "hit_ms": HIT_MS, "same": True}


def test_decodeEngineThatIsToldAtOnce_waitsBeforeThePrefillBegins(host: Host) -> None:
    row = both(host).row("at_once", 64)
    assert row.pop("first_ms") == pytest.approx(AT_ONCE_MS)
    assert row == {"prefill_ms": PREFILL_MS, "cached": 64, "node_expected": 4, "node_pieces": 32, "hit_ms": HIT_MS, "same": True}
    assert host.done[:3] == ["decode is told", "prefill runs", "decode answers"]


@pytest.mark.parametrize("mode", apart._MODES)
def test_tokensThatDiffer_areTold(mode: str) -> None:
    assert both(Host(wrong=True)).row(mode, 64)["same"] is False


def test_load_goesToTheDecodeEngineAlone_andToBoth(host: Host) -> None:
    found = both(host).load(4096)
    times = {"p50_ms": pytest.approx(20), "p99_ms": pytest.approx(20), "max_ms": pytest.approx(30)}
    cached = 20 * 4096 + 40 * 512
    assert found["mixed"] == times | {"first_ms": pytest.approx(400), "cached": cached}
    assert found["apart"] == times | {"first_ms": pytest.approx(100), "cached": cached}
    assert host.done == ["decode is told", "decode answers", "decode is told", "prefill is told", "prefill answers", "decode answers"]


def test_timesBetweenTokens_areOfAllRequests() -> None:
    gaps_s = [number / 1000 for number in range(1, 202)]
    random.Random(3).shuffle(gaps_s)
    times = times_of({"gaps_s": [gaps_s[:90], [], gaps_s[90:]], "first_s": [0.3, 0.1, 0.25]})
    assert times == {"p50_ms": pytest.approx(101), "p99_ms": pytest.approx(199), "max_ms": pytest.approx(201), "first_ms": pytest.approx(250)}


def test_noPromptIsKnown_whenItsTimeIsTaken(host: Host) -> None:
    reps, lens = 11, [64, 128]
    start = lambda _node, _role, name, _settings: Double(host, name)  # noqa: E731
    rows: list[dict[str, Any]] = []
    assert apart.apart(start, host.counters, lambda _name, **figures: rows.extend(figures.get("rows", [])), lens, reps)  # type: ignore[arg-type]
    assert len(rows) == 5 * len(lens) * reps and {row["first_ms"] for row in rows if "node_pieces" not in row} == {COMPUTE_MS}
    assert len(host.prompts) == len(set(host.prompts)) == len(apart._WARM) + len(rows) + 2 * 2 * apart._LOAD


@pytest.mark.parametrize(("lost", "wrong", "right"), [(0, False, True), (32, False, True), (33, False, False), (0, True, False)])
def test_engines_areRight_ifAllBlocksCame_andAllTokensAreRight(lost: int, wrong: bool, right: bool) -> None:
    host = Host(lost, wrong)
    notes: list[tuple[str, dict[str, Any]]] = []
    started: list[tuple[str, int, str, dict[str, Any]]] = []

    def start(node: int, role: str, name: str, settings: dict[str, Any]) -> Double:
        started.append((node, role, settings))
        return Double(host, name)

    def note(name: str, **figures: Any) -> None:
        notes.append((name, figures))

    assert apart.apart(start, host.counters, note, [64, 128], 2) is right  # type: ignore[arg-type]
    assert started == [
        (1, "kv_consumer", {}), (0, "kv_producer", {"store_by_layer": "off"}), (0, "kv_producer", {"store_by_layer": "on"}),
    ]  # fmt: skip
    assert host.closed == ["apart-prefill-off", "apart-prefill-on", "apart-decode"]
    rows = [(told["stores_by_layer"], told["tokens"], told["mode"]) for name, told in notes if name == "apart"]
    modes = [("off", mode) for mode in apart._MODES] + [("on", mode) for mode in apart._MODES if mode != "new"]
    assert sorted(rows) == sorted((stores, tokens, mode) for stores, mode in modes for tokens in (64, 128))
    assert [told["stores_by_layer"] for name, told in notes if name == "apart-load"] == ["off", "on"]
    answered = next(told for name, told in notes if name == "apart" and told["mode"] == "answer")
    assert (answered["first_ms"], answered["prefill_ms"], len(answered["rows"])) == (pytest.approx(ANSWER_MS), PREFILL_MS, 2)


@pytest.mark.parametrize(("lost", "wrong"), [(0, False), (64, False), (0, True)])
def test_nixlsTimes_beginWithTheAnswerOfThePrefillEngine_andAllTokensMustCome(lost: int, wrong: bool) -> None:
    host = Host(lost, wrong)
    rows: list[dict[str, Any]] = []
    right = apart.apart_by_nixl(lambda _number, name: Double(host, name), lambda _name, **figures: rows.append(figures), [64, 128], 3)  # type: ignore[arg-type, return-value]
    assert right == (not lost and not wrong)
    assert [(row["tokens"], row["first_ms"], row["prefill_ms"], len(row["rows"])) for row in rows] == [
        (64, pytest.approx(ANSWER_MS), PREFILL_MS, 4), (128, pytest.approx(ANSWER_MS), PREFILL_MS, 4),
    ]  # fmt: skip
    assert sorted(host.closed) == ["nixl-decode", "nixl-prefill"]
