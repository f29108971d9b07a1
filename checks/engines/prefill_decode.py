"""Prefill and decode in different engines, whose daemons are different nodes."""

import contextlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvtier_testing import process
from kvtier_testing.nodes import connected

from checks.engines.requests import times_of
from checks.engines.told import Daemon, Failed, Rows
from checks.engines.vllm_engine import Engine, engine, kvtier
from checks.shared import waits
from checks.shared.networks import Networks
from kvtier import Client

_BLOCK_TOKENS = 32
_CHUNK_TOKENS = 512
_PORT = 7076
_NETWORKS = Networks("kvtier-prefill-decode", "10.251.8")
_SHORT, _LONG, _TOKENS = 180, 20, 6
_AT_ONCE = 25
_TIMED = 8
_CONNECT_S = 30.0
_LOAD_S, _LOAD_RATE, _LOAD_TOKENS = 30, 3.0, 40
"""seconds of a load, requests a second, and tokens that each generates"""
_LOAD_LONG = 3
"""every third prompt is long"""
PROMISED_SHARE_MIN = 0.95
EXPECTED_SHARE_MIN = 0.9


def prompts_of(seed: int, short: int, long: int) -> list[list[int]]:
    """Short prompts that share beginnings, and long ones that share nothing and are computed in several steps. None ends with a block."""
    chosen = random.Random(seed)

    def tokens(count: int) -> list[int]:
        return [chosen.randrange(3, 4000) for _ in range(count)]

    beginnings = [tokens(chosen.randrange(70, 200)) for _ in range(8)]
    made = [beginnings[number % 8] + tokens(chosen.randrange(20, 70)) for number in range(short)]
    made += [tokens(chosen.randrange(1100, 1500)) for _ in range(long)]
    chosen.shuffle(made)
    return [one if len(one) % _BLOCK_TOKENS else [*one, 3] for one in made]


def whole(prompt: Sequence[int]) -> int:
    """How many tokens of a prompt are in whole blocks."""
    return len(prompt) // _BLOCK_TOKENS * _BLOCK_TOKENS


class Nodes:
    """Two daemons that read each other's memory: of the prefill engine, and of the decode engine."""

    def __init__(self, root: Path, folder: Path, addresses: Sequence[str], within: Sequence[Sequence[str]]) -> None:
        self.daemons = []
        for number, (address, words) in enumerate(zip(addresses, within, strict=True)):
            own = folder / f"node-{number}"
            own.mkdir()
            settings = {
                "nodes.name": f"node-{number}", "nodes.listen": address, "nodes.peers": ",".join(addresses), "nodes.security": "plaintext_without_tokens",
            }  # fmt: skip
            self.daemons.append(Daemon(root, own, settings=settings, within=words))

    def start(self) -> None:
        for daemon in self.daemons:
            daemon.start()
        self.connect()

    def connect(self) -> None:
        """Waits until both have found each other."""
        for daemon in self.daemons:
            with Client(daemon.socket, timeout=_CONNECT_S) as client:
                _until("the nodes have found each other", lambda client=client: bool(connected(client)))

    def stop(self) -> None:
        for daemon in self.daemons:
            daemon.stop()


class PrefillDecode(Rows):
    """The cases of prefill and decode."""

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__()
        self.root = root
        self.folder = folder

    @contextlib.contextmanager
    def _nodes(self) -> Iterator[Nodes]:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvtier-")))
            if os.geteuid() == 0:
                stack.enter_context(_NETWORKS.made())
                addresses = [f"{one}:{_PORT}" for one in _NETWORKS.addresses]
                nodes = Nodes(self.root, folder, addresses, [_NETWORKS.inside(which, []) for which in range(2)])
                self.say("two network namespaces")
            else:
                addresses = [f"127.0.0.1:{process.free_port()}" for _ in range(2)]
                nodes = Nodes(self.root, folder, addresses, [[], []])
                self.say("two ports of the loopback: only root can make network namespaces")
            stack.callback(nodes.stop)
            nodes.start()
            yield nodes

    def _engine(self, name: str, daemon: Daemon | None, role: str, ranks: int = 1) -> contextlib.AbstractContextManager[Engine]:
        stores = "on" if role == "kv_producer" else "off"
        kv = None if daemon is None else kvtier(daemon.socket, "prefill-decode", role, load_if_faster=False, store_by_layer=stores)
        processors = sorted(os.sched_getaffinity(0))
        # Threads of two engines on one processor wait for each other.
        half = len(processors) // 2
        own = processors if role == "" else processors[half:] if role == "kv_consumer" else processors[: max(1, half)]
        return engine(self.root, self.folder, f"pd-{name}", kv, int(ranks > 1), ranks, chunk=_CHUNK_TOKENS, processors=own)

    def prefill_decode(self) -> None:
        """Tokens as of one engine, and all whole blocks found; what is aborted, and what is killed."""
        prompts = prompts_of(45, _SHORT, _LONG)
        lost = prompts_of(46, 20, 5)
        timed = prompts_of(47, 0, _TIMED)
        with self._engine("none", None, "") as plain:
            right, right_lost, right_timed = (_generated(plain, some) for some in (prompts, lost, timed))
            computed_ms = [1e3 * plain.run(requests=[{"tokens": one}], tokens=1, reset=True)["first_s"][0] for one in timed]
        with self._nodes() as nodes:
            here, there = nodes.daemons
            with self._engine("prefill", here, "kv_producer") as prefill, self._engine("decode", there, "kv_consumer") as decode:
                self._all(prefill, decode, there, prompts, right)
                self._timed(prefill, decode, timed, right_timed, computed_ms)
                self._waiting(prefill, decode)
                self._at_once(prefill, decode, here, there)
                self._killed(prefill, decode, here, lost, right_lost)

    def _all(self, prefill: Engine, decode: Engine, there: Daemon, prompts: list[list[int]], right: list[Any]) -> None:
        """All prompts, some at a time; with each of them some requests whose blocks never come, and that are aborted."""
        never = prompts_of(48, 0, len(prompts) // _AT_ONCE)
        tokens: list[Any] = []
        params_of_all: list[Any] = []
        cached: list[int] = []
        hits = local = late = expected_us = gets = got = 0.0
        for begin in range(0, len(prompts), _AT_ONCE):
            some = prompts[begin : begin + _AT_ONCE]
            params = prefill.run(requests=[{"tokens": one} for one in some], tokens=1)["params"]
            params_of_all += params
            aborted = never[begin // _AT_ONCE % len(never)]
            requests: list[dict[str, Any]] = [{"tokens": one, "params": said} for one, said in zip(some, params, strict=True)]
            requests.append({"tokens": aborted, "params": {"kvtier": _expected_of("node-0")}, "abort_s": 0.2})
            answer = decode.run(requests=requests, tokens=_TOKENS)
            tokens += answer["tokens"][:-1]
            cached += answer["cached"][:-1]
            hits += answer["counters"]["external_prefix_cache_hits"]
            local += answer["counters"]["prefix_cache_hits"]
            late += answer["counters"].get("kvtier_expected_late", 0)
            expected_us += answer["counters"].get("kvtier_expected_us", 0)
            gets += answer["counters"].get("kvtier_expected_gets", 0)
            got += answer["counters"].get("kvtier_expected_got", 0)
        same = sum(one == other for one, other in zip(tokens, right, strict=True))
        self.hold("tokens, prefill and decode apart", same == len(prompts), f"{same} of {len(prompts)} prompts as of one engine")
        self._promises("prefill and decode apart", prompts, params_of_all, cached)
        text = f"{hits:,.0f} tokens from the other node, {local:,.0f} of the engine's own cache; {late:.0f} prompts late"
        self.hold("hits from the other node", hits > 0, text, hits=hits, local=local, late=late)
        asked = [one for one in params_of_all if one]
        named = sum(one["kvtier"].get("expect_from") == "node-0" for one in asked)
        self.hold("the prefill engine names its node", named == len(asked) > 0, f"in {named} of {len(asked)} answers")
        # A prompt whose blocks the engine has itself goes on before its get ends.
        text = f"{got:.0f} of {len(asked)} prompts came whole by a get that expected them; {gets:.0f} such gets with those of aborted requests"
        all_asked = len(asked) + -(-len(prompts) // _AT_ONCE)
        self.hold("gets of expected blocks", gets == all_asked and got >= EXPECTED_SHARE_MIN * len(asked), text, gets=gets, got=got)
        self._rests(there)
        self.tell("prompts waited for their blocks", f"{expected_us / 1e3 / len(prompts):.1f} ms on average", expected_us=expected_us)

    def _promises(self, case: str, prompts: list[list[int]], params: list[Any], cached: list[int]) -> None:
        """The decode engine has at least what the prefill engine has promised, of each prompt."""
        promised = [said["kvtier"]["expect_tokens"] if said else 0 for said in params]
        most = sum(map(whole, prompts))
        # Blocks of the prefill engine's own cache are not promised if its daemon does not have them yet, or does not answer in time.
        text = f"{sum(promised):,} of {most:,} tokens in whole blocks"
        are_right = all(one <= whole(prompt) for one, prompt in zip(promised, prompts, strict=True))
        self.hold(f"promises, {case}", are_right and sum(promised) >= PROMISED_SHARE_MIN * most, text, promised=sum(promised), most=most)
        broken = sum(have < one for have, one in zip(cached, promised, strict=True))
        text = f"{sum(cached):,} of {most:,} tokens in whole blocks; {broken} prompts have less than was promised"
        self.hold(f"hits, {case}", broken == 0, text, hits=sum(cached), most=most, broken=broken)

    def _timed(self, prefill: Engine, decode: Engine, prompts: list[list[int]], right: list[Any], computed_ms: list[float]) -> None:
        """From the prefill engine's answer to the first token of the decode engine, one prompt at a time."""
        first_ms, tokens = [], []
        for prompt in prompts:
            params = prefill.run(requests=[{"tokens": prompt}], tokens=1)["params"][0]
            answer = decode.run(requests=[{"tokens": prompt, "params": params}], tokens=_TOKENS)
            first_ms.append(1e3 * answer["first_s"][0])
            tokens += answer["tokens"]
        self.hold("tokens, one prompt at a time", tokens == right, "as of one engine")
        first, computed = statistics.median(first_ms), statistics.median(computed_ms)
        text = (
            f"{first:.0f} ms from the prefill engine's answer (min {min(first_ms):.0f}, max {max(first_ms):.0f}), "
            f"{computed:.0f} ms if the engine computes ({sum(map(len, prompts)) // len(prompts):,} tokens on average)"
        )
        self.tell("first token of the decode engine", text, first_ms=first_ms, computed_ms=computed_ms)

    def _waiting(self, prefill: Engine, decode: Engine) -> None:
        """The decode engine has the requests before the prefill engine has begun."""
        prompts = prompts_of(49, 6, 6)
        params = {"kvtier": {"expect_tokens": 10**6, "expect_s": 60}}
        decode.begin(requests=[{"tokens": one, "params": params} for one in prompts], tokens=_TOKENS)
        time.sleep(0.5)
        begun = time.monotonic()
        right = prefill.run(requests=[{"tokens": one} for one in prompts], tokens=_TOKENS)["tokens"]
        prefilled_s = time.monotonic() - begun
        answer = decode.end_of_run()
        self.hold("tokens, the decode engine waits", answer["tokens"] == right, f"as of the prefill engine, which took {1e3 * prefilled_s:.0f} ms")
        counters = answer["counters"]
        hits, most = counters["external_prefix_cache_hits"] + counters["prefix_cache_hits"], sum(map(whole, prompts))
        text = f"{hits:,.0f} of {most:,} tokens in whole blocks, {counters.get('kvtier_expected_late', 0):.0f} prompts late"
        self.hold("hits, the decode engine waits", hits == most, text, hits=hits, most=most)

    def _at_once(self, prefill: Engine, decode: Engine, here: Daemon, there: Daemon) -> None:
        """Both engines get a request at the same time: layers of blocks move while the next ones are computed."""
        prompts = prompts_of(51, 0, _TIMED)
        first_ms, early, tokens, right = [], [], [], []
        expected = 0
        stores = 0.0
        pieces = _counter(there, "node_pieces")
        for prompt in prompts:
            before = _counter(there, "node_expected")
            decode.begin(requests=[{"tokens": prompt, "params": {"kvtier": _expected_of("node-0")}}], tokens=_TOKENS)
            begun = time.monotonic()
            # The prefill engine's daemon knows what is expected before its engine begins.
            _until("the prefill node hears which blocks are expected", lambda: _counter(here, "followed") > 0)
            prefilled = prefill.run(requests=[{"tokens": prompt}], tokens=1)
            ended = time.monotonic()
            right += prefilled["tokens"]
            stores += prefilled["counters"].get("kvtier_stores_by_layer", 0)
            early.append(_counter(there, "node_expected") - before)
            answer = decode.end_of_run()
            first_ms.append(1e3 * (begun + answer["first_s"][0] - ended))
            tokens += [one[:1] for one in answer["tokens"]]
            expected += _counter(there, "node_expected") - before
        self.hold("tokens, both engines at once", tokens == right, "the first token as of the prefill engine")
        blocks = sum(map(whole, prompts)) // _BLOCK_TOKENS
        self.hold("blocks that came while they were expected", expected == blocks, f"{expected} of {blocks}", expected=expected, blocks=blocks)
        pieces = _counter(there, "node_pieces") - pieces
        text = f"{blocks} blocks in {pieces} pieces, from {stores:.0f} stores by layer"
        self.hold("blocks that came layer by layer", pieces > blocks and stores > 0, text, pieces=pieces, stores=stores)
        text = f"{sum(early)} of {blocks} when the prefill engine answered"
        self.hold("blocks that came while the prompt was computed", sum(early) > 0, text, early=early)
        text = f"{statistics.median(first_ms):.0f} ms from the prefill engine's answer (min {min(first_ms):.0f}, max {max(first_ms):.0f})"
        self.tell("first token of the decode engine, both at once", text, first_ms=first_ms)
        self._rests(there)

    def _rests(self, daemon: Daemon) -> None:
        """Nothing is held or expected any more."""
        _until("no lease and no expected block is left", lambda: _counter(daemon, "leases") == _counter(daemon, "expected") == 0)

    def _killed(self, prefill: Engine, decode: Engine, here: Daemon, prompts: list[list[int]], right: list[Any]) -> None:
        """The prefill engine's daemon is killed while the decode engine reads."""
        params = prefill.run(requests=[{"tokens": one} for one in prompts], tokens=1)["params"]
        decode.begin(requests=[{"tokens": one, "params": said} for one, said in zip(prompts, params, strict=True)], tokens=_TOKENS)
        time.sleep(0.1)
        here.kill()
        begun = time.monotonic()
        answer = decode.end_of_run()
        hits = answer["counters"]["external_prefix_cache_hits"]
        text = f"as of one engine, {time.monotonic() - begun:.1f} s later; {hits:,.0f} of {sum(map(whole, prompts)):,} tokens had been found"
        self.hold("tokens, the prefill node is killed", answer["tokens"] == right, text, hits=hits)

    def prefill_decode_ranks(self) -> None:
        """A prefill engine with two ranks and a decode engine with one, and the reverse."""
        prompts = prompts_of(50, 12, 4)
        tokens = {}
        for ranks in (1, 2):
            with self._engine(f"none-{ranks}", None, "", ranks) as plain:
                tokens[ranks] = _generated(plain, prompts)
        self.hold("tokens of one rank and of two", tokens[1] == tokens[2], "equal without kvtier, so that they can be compared")
        for writer, reader in ((2, 1), (1, 2)):
            with self._nodes() as nodes:
                here, there = nodes.daemons
                with self._engine(f"prefill-{writer}", here, "kv_producer", writer) as prefill:
                    with self._engine(f"decode-{reader}", there, "kv_consumer", reader) as decode:
                        params = prefill.run(requests=[{"tokens": one} for one in prompts], tokens=1)["params"]
                        requests = [{"tokens": one, "params": said} for one, said in zip(prompts, params, strict=True)]
                        answer = decode.run(requests=requests, tokens=_TOKENS)
            what = f"prefill with {writer}, decode with {reader}"
            self.hold(f"tokens, {what}", answer["tokens"] == tokens[reader], "as of one engine")
            self._promises(what, prompts, params, answer["cached"])

    def prefill_decode_load(self) -> None:
        """Short and long prompts at a fixed rate: the times between tokens with prefill apart, and in one engine on both halves."""
        warm, requests = _load(52, 10), _load(53, _LOAD_S)
        with self._engine("none", None, "") as plain:
            plain.run(requests=warm, tokens=_LOAD_TOKENS)
            mixed = plain.run(requests=requests, tokens=_LOAD_TOKENS)
        with self._nodes() as nodes:
            here, there = nodes.daemons
            with self._engine("prefill", here, "kv_producer") as prefill, self._engine("decode", there, "kv_consumer") as decode:
                for some in (warm, requests):
                    decode.begin(requests=[one | {"params": {"kvtier": _expected_of("node-0")}} for one in some], tokens=_LOAD_TOKENS)
                    prefill.run(requests=some, tokens=1)
                    apart = decode.end_of_run()
        same = sum(one == other for one, other in zip(apart["tokens"], mixed["tokens"], strict=True))
        self.hold("tokens, prompts at a fixed rate", same == len(requests), f"{same} of {len(requests)} prompts as of one engine")
        for what, answer in (("in one engine", mixed), ("prefill apart", apart)):
            times = times_of(answer)
            text = (
                f"p50 {times['p50_ms']:.1f} ms, p99 {times['p99_ms']:.1f} ms, at most {times['max_ms']:.1f} ms; "
                f"first token after {times['first_ms']:.0f} ms (median)"
            )
            self.tell(f"times between tokens, {what}", text, **times)


def _load(seed: int, seconds: float) -> list[dict[str, Any]]:
    """Requests at a fixed rate."""
    chosen = random.Random(seed)
    made = []
    for number in range(int(seconds * _LOAD_RATE)):
        length = chosen.randrange(1100, 1500) if number % _LOAD_LONG == 0 else chosen.randrange(70, 200)
        made.append({"tokens": [chosen.randrange(3, 4000) for _ in range(length)], "at_s": number / _LOAD_RATE})
    return made


def _expected_of(node: str) -> dict[str, Any]:
    """The wishes of a request whose blocks a node is going to have."""
    return {"expect_tokens": 10**6, "expect_s": 60, "expect_from": node}


def _counter(daemon: Daemon, name: str) -> int:
    with Client(daemon.socket, timeout=_CONNECT_S) as client:
        return int(client.stats()["counters"][name])


def _until(what: str, holds: Callable[[], bool]) -> None:
    waits.until(what, holds, _CONNECT_S, Failed)


def _generated(one: Engine, prompts: list[list[int]]) -> list[Any]:
    tokens: list[Any] = one.run(requests=[{"tokens": prompt} for prompt in prompts], tokens=_TOKENS, reset=True)["tokens"]
    return tokens
