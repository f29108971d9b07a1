"""A prefill engine and a decode engine on two GPUs of one host, whose daemons are different nodes. A part of gpu.py, for a machine with
two GPUs; --tiny tries the program where there is none."""

import contextlib
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvtier_testing import process

from checks.engines.parts import Server
from checks.engines.requests import times_of
from checks.engines.several import TOKENS, Engine
from checks.shared import waits
from kvtier import Client

NODES = ("prefill", "decode")
_CONNECT_S = 30.0
_EXPECT_S = 60
_LOAD, _LOAD_RATE, _LOAD_TOKENS, _LOAD_SHORT = 60, 4.0, 100, 512
"""requests of a load, how many come in a second, tokens that each generates, and those of a short prompt"""
_LOAD_LONG = 3
"""every third prompt is long"""
_WARM = (1, 2)
"""prompts of the greatest length, before all others: they fill a device's cache"""
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
"""vLLM's own connector between a prefill engine and a decode engine"""
_PULLED = {
    "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None, "remote_host": None, "remote_port": None,
}  # fmt: skip
"""a prompt whose blocks the prefill engine keeps for the decode engine of NIXL"""
_EXPECTS = {"kvtier": {"expect_tokens": 10**6, "expect_s": _EXPECT_S, "expect_from": NODES[0]}}
_MODES = ("new", "answer", "at_once")
"""how a prompt comes: computed by the decode engine; sent to it with the prefill engine's answer; sent to both engines at once"""


@contextlib.contextmanager
def nodes(start: Callable[[str, Path, dict[str, str]], Server], folder: Path) -> Iterator[list[Path]]:
    """Two daemons that read each other's memory over the loopback; yields their sockets.

    Args:
        start: a daemon with this name, socket and settings.
    """
    addresses = [f"127.0.0.1:{process.free_port()}" for _ in NODES]
    sockets = [folder / f"sock-{name}" for name in NODES]
    with contextlib.ExitStack() as stack:
        for name, address, socket in zip(NODES, addresses, sockets, strict=True):
            settings = {
                "nodes.name": name, "nodes.listen": address, "nodes.peers": ",".join(addresses), "nodes.security": "plaintext_without_tokens",
            }  # fmt: skip
            stack.callback(start(name, socket, settings).stop)
        _connect(*sockets)
        yield sockets


def _connect(holder: Path, reader: Path) -> None:
    """Waits until one node finds a block of the other."""
    key = bytes(32)
    with Client(holder, timeout=_CONNECT_S) as here, Client(reader, timeout=_CONNECT_S) as there:
        here.namespace("connect", block_bytes=4096).put([key], bytes(4096))
        blocks = there.namespace("connect", block_bytes=4096)
        waits.until("the nodes have found each other", lambda: blocks.lookup([key]).run == 1, _CONNECT_S, RuntimeError)


class Apart:
    """Measures the times of both engines, prompt by prompt."""

    def __init__(
        self, prefill: Engine, decode: Engine, counters: Sequence[Callable[[], dict[str, int]]], seeds: Iterator[int]
    ) -> None:
        """`counters`: of the nodes; `seeds`: of the prompts, each of which is new to both nodes."""
        self._engines = prefill, decode
        self._seeds = seeds
        self._prefill_counters, self._decode_counters = counters

    def row(self, mode: str, tokens: int) -> dict[str, Any]:
        """One new prompt in one of the modes: milliseconds from the prefill engine's answer to the decode engine's first token."""
        seed = next(self._seeds)
        prefill, decode = self._engines
        before = self._decode_counters()
        if mode == "new":
            told = decode.run(seed, tokens)
            return {"first_ms": told["ms"], "cached": told["cached"]} | self._again(seed, tokens, prefill.run(seed, tokens, TOKENS))
        if mode == "answer":
            filled = prefill.run(seed, tokens)
            told = decode.ask(prompt=[seed, tokens], params=filled["params"])
        else:
            followed = self._prefill_counters()["followed"]
            decode.tell(prompt=[seed, tokens], params=_EXPECTS)
            waits.until("the prefill node hears of the blocks", lambda: self._prefill_counters()["followed"] > followed, _CONNECT_S, RuntimeError)
            filled = prefill.run(seed, tokens)
            told = decode.answer()
        after = self._decode_counters()
        came = {name: after[name] - before[name] for name in ("node_expected", "node_pieces")}
        row = {"first_ms": (told["ended_s"] - filled["ended_s"]) * 1e3, "prefill_ms": filled["ms"], "cached": told["cached"], **came}
        return row | self._again(seed, tokens, prefill.run(seed, tokens, TOKENS))

    def load(self, tokens: int) -> dict[str, Any]:
        """Short and long prompts at a fixed rate, to the decode engine alone, and to both engines: the times between tokens."""
        prefill, decode = self._engines
        found: dict[str, Any] = {"tokens": tokens, "rate": _LOAD_RATE}
        for mode in ("mixed", "apart"):
            requests = [
                {"prompt": [next(self._seeds), _LOAD_SHORT if number % _LOAD_LONG else tokens], "at_s": number / _LOAD_RATE}
                for number in range(_LOAD)
            ]
            if mode == "apart":
                decode.tell(requests=[one | {"params": _EXPECTS} for one in requests], tokens=_LOAD_TOKENS)
                prefill.ask(requests=requests, tokens=1)
                told = decode.answer()
            else:
                told = decode.ask(requests=requests, tokens=_LOAD_TOKENS)
            found[mode] = times_of(told) | {"cached": sum(told["cached"])}
        return found

    def _again(self, seed: int, tokens: int, right: dict[str, Any]) -> dict[str, Any]:
        decode = self._engines[1]
        hit = decode.run(seed, tokens)
        return {"hit_ms": hit["ms"], "same": decode.run(seed, tokens, TOKENS)["tokens"] == right["tokens"]}


def apart(
    start: Callable[[int, str, str, dict[str, Any]], Engine], counters: Sequence[Callable[[], dict[str, int]]], note: Callable[..., None],
    lens: Sequence[int], reps: int,
) -> bool:  # fmt: skip
    """The first token of a decode engine behind the answer of a prefill engine, which stores whole blocks after each step, and by layer.

    Args:
        start: an engine of this node, with that role, name and settings.
        counters: those of the nodes.
        note: takes the figures of one mode.

    Returns:
        Whether all blocks came, and all tokens are right.
    """
    right = True
    seeds = itertools.count(max(_WARM) + 1)
    decode = start(1, "kv_consumer", "apart-decode", {})
    try:
        for turn, stores in enumerate(("off", "on")):
            prefill = start(0, "kv_producer", f"apart-prefill-{stores}", {"store_by_layer": stores})
            try:
                for engine in (decode, prefill) if turn == 0 else (prefill,):
                    engine.ready()
                    for seed in _WARM:
                        engine.run(seed, lens[-1])
                one = Apart(prefill, decode, counters, seeds)
                for tokens in lens:
                    for mode in _MODES[turn and 1 :]:
                        rows = [one.row(mode, tokens) for _ in range(reps)]
                        # Two GPUs that compute one prompt may round differently.
                        right &= mode == "new" or all(row["same"] and row["cached"] >= tokens - 32 for row in rows)
                        middle = {name: statistics.median(row[name] for row in rows) for name in rows[0] if name.endswith("_ms")}
                        note("apart", tokens=tokens, stores_by_layer=stores, mode=mode, **middle, rows=rows)
                note("apart-load", stores_by_layer=stores, **one.load(lens[0]))
            finally:
                prefill.close()
    finally:
        decode.close()
    return right


def apart_by_nixl(start: Callable[[int, str], Engine], note: Callable[..., None], lens: Sequence[int], reps: int) -> bool:
    """As `apart`, with vLLM's NIXL connector: the decode engine pulls the blocks from the prefill engine's GPU once that has answered.

    Args:
        start: an engine with this number and name.
        note: takes the figures of one length.

    Returns:
        Whether all blocks came, and all tokens are right.
    """
    seeds = itertools.count(max(_WARM) + 1)
    with contextlib.ExitStack() as stack:
        engines = []
        for number, name in enumerate(NODES):
            engines.append(start(number, f"nixl-{name}"))
            stack.callback(engines[-1].close)
        prefill, decode = engines
        for engine in engines:
            engine.ready()
            for seed in _WARM:
                engine.run(seed, lens[-1])
        right = True
        for tokens in lens:
            rows = [_pulled(prefill, decode, next(seeds), tokens) for _ in range(reps + 1)]
            right &= all(row["same"] and row["cached"] >= tokens - 32 for row in rows)
            # The first one connects both engines.
            middle = {name: statistics.median(row[name] for row in rows[1:]) for name in rows[0] if name.endswith("_ms")}
            note("apart-nixl", tokens=tokens, **middle, rows=rows)
    return right


def _pulled(prefill: Engine, decode: Engine, seed: int, tokens: int) -> dict[str, Any]:
    filled = prefill.ask(prompt=[seed, tokens], tokens=1, params=_PULLED)
    told = decode.ask(prompt=[seed, tokens], tokens=1, params=filled["params"])
    right = prefill.run(seed, tokens, TOKENS)["tokens"]
    return {
        "first_ms": (told["ended_s"] - filled["ended_s"]) * 1e3, "prefill_ms": filled["ms"], "cached": told["cached"],
        "same": decode.run(seed, tokens, TOKENS)["tokens"] == right,
    }  # fmt: skip
