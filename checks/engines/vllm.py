"""Compares vLLM on kvtier with vLLM without it: generated tokens, restored blocks, and times.

scripts/engine-check installs the programs, and starts this one.
"""

import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvtier_testing import process

from checks.engines.prefill_decode import PrefillDecode
from checks.engines.run import BLOCK_TOKENS, prompts
from checks.engines.switch import share
from checks.engines.told import Daemon, Failed
from checks.engines.vllm_engine import engine, kvtier
from checks.shared.command_line import Arguments, run_tool, some_of

TURNS_TIMEOUT_S = 1800
HITS_SHARE_MIN = 0.98
ZERO_SHARE_MIN = 0.98
ENCODED_SHARE_MAX = 0.8
ROUNDING_MAX = 1e-4
"""of a log probability: what a batch of other requests changes"""
_FEW_BLOCKS = {"window": 130, "state": 112, "tiny": 130}
_LONG = {"long": True, "tokens": 100}
_LATE_S = 0.02
"""each part of a copy comes so much later: a tiny model's come faster than it computes"""
LOCAL_HITS = "prefix_cache_hits"
HITS = "external_prefix_cache_hits"


def _processors() -> int:
    return len(os.sched_getaffinity(0))


class Check(PrefillDecode):
    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(root, folder)
        self._reference: dict[str, Any] | None = None
        self._plain: dict[str, Any] = {}

    def reference(self) -> dict[str, Any]:
        """The engine's answers without kvtier."""
        if self._reference is None:
            with engine(self.root, self.folder, "none", None, 0) as plain:
                self._plain = plain.hello
                self._reference = plain.run(**{"pass": "none", "serial": True})
            self._ttft("without kvtier", self._reference)
        return self._reference

    def _ttft(self, name: str, answer: dict[str, Any]) -> None:
        median = statistics.median(answer["ttft_ms"])
        self.rows.append({"row": "ttft", "case": name, "tokens": 2016, "median_ms": median})
        self.say(f"         TTFT of 2,016 tokens, {name}: {median:.0f} ms")

    def _same(self, case: str, answer: dict[str, Any]) -> None:
        self.hold(f"tokens, {case}", answer["tokens"] == self.reference()["tokens"], "as without kvtier")

    def _hits(self, case: str, answer: dict[str, Any], most: int) -> None:
        hits = answer["counters"][HITS]
        # The engine did not ask for blocks that it found in its own cache.
        most -= int(answer["counters"][LOCAL_HITS])
        text = f"{hits:,.0f} of {most:,} that can be ({hits / most:.3f})"
        self.hold(f"hits, {case}", hits >= HITS_SHARE_MIN * most, text, hits=hits, most=most)

    def identity(self) -> None:
        self.reference()
        for mode in (0, 1):
            self.say(f"engine core {'in a process of its own' if mode else 'in the process'}")
            with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
                daemon = Daemon(self.root, Path(folder))
                daemon.start()
                try:
                    self._identity(daemon, mode)
                finally:
                    daemon.stop()

    def _identity(self, daemon: Daemon, mode: int) -> None:
        kv = kvtier(daemon.socket, f"check-{mode}")
        with engine(self.root, self.folder, f"kvtier-{mode}", kv, mode) as first:
            most = first.hello["loadable"]
            cold = first.run(**{"pass": "cold", "serial": True})
            self._same("cold", cold)
            self._ttft(f"cold, storing ({mode})", cold)
            warm = first.run(**{"pass": "warm", "reset": True, "serial": True})
            self._same("warm", warm)
            self._hits("warm", warm, most)
            daemon.stop()
            daemon.start()
            again = first.run(**{"pass": "daemon restarted", "reset": True})
            self._same("after a daemon restart", again)
            self._hits("after a daemon restart", again, most)
            first.begin(**{"pass": "daemon killed", "reset": True})
            time.sleep(0.25)
            daemon.kill()
            killed = first.end_of_run()
            self._same("daemon killed in mid-run", killed)
            failed = killed["counters"].get("kvtier_load_failed_blocks", 0)
            self.say(f"         {killed['counters'][HITS]:,.0f} of {most:,} tokens were found; {failed:.0f} blocks then had to be computed")
            daemon.start()
            after = first.run(**{"pass": "after the kill", "reset": True})
            self._same("after the kill", after)
            self._hits("after the kill, the daemon back", after, most)
        with engine(self.root, self.folder, f"kvtier-{mode}-again", kv, mode) as second:
            fresh = second.run(**{"pass": "engine restarted", "serial": False})
            self._same("after an engine restart", fresh)
            self._hits("after an engine restart", fresh, most)
            self._ttft(f"restored by a fresh engine ({mode})", second.run(**{"pass": "ttft", "reset": True, "serial": True}))
            if mode == 0:
                zeroed = second.run(**{"pass": "zeroed", "reset": True, "zero": True})["tokens"]
                text = "other tokens when what is loaded is zeroed"
                self.hold("the check sees wrong blocks", zeroed != self.reference()["tokens"], text)

    def wishes(self) -> None:
        """Requests that say what they ask of the cache."""
        self.reference()
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                self._wishes(daemon)
            finally:
                daemon.stop()

    def _wishes(self, daemon: Daemon) -> None:
        with engine(self.root, self.folder, "wishes", kvtier(daemon.socket, "wishes"), 0) as one:
            most = one.hello["loadable"]

            def hits(case: str, wishes: dict[str, Any]) -> float:
                answer = one.run(**{"pass": case, "reset": True, "wishes": wishes})
                self._same(case, answer)
                return float(answer["counters"][HITS])

            hits("store nothing", {"store": False})
            found = hits("keep", {"keep_s": 600, "priority": 3})
            self.hold("store: false", found == 0, f"{found:,.0f} tokens were loaded of what was not to be stored")
            # Each step of the engine takes the answers of the one before.
            one.run(**{"pass": "goes on", "long": True})
            blocks, retained = self._different_blocks(), self._retained(daemon)
            self.hold("keep_s", retained == blocks, f"{retained} blocks are retained, of {blocks} different ones")
            found = hits("load nothing", {"load": False})
            self.hold("load: false", found == 0, f"{found:,.0f} tokens were loaded")
            found = hits("load 64 tokens", {"load_max_tokens": 64})
            self.hold("load_max_tokens", 0 < found <= 64 * len(prompts()[0]), f"{found:,.0f} tokens were loaded, at most 64 a prompt")
            self._hits("a request without wishes", one.run(**{"pass": "usual", "reset": True}), most)

    def _different_blocks(self) -> int:
        """How many whole blocks all prompts and their answers have, without the last token, which is not computed."""
        answered = zip(prompts()[0], self.reference()["tokens"], strict=True)
        sequences = [[*prompt, *tokens[:-1]] for prompt, tokens in answered]
        return len({tuple(one[:end]) for one in sequences for end in range(BLOCK_TOKENS, len(one) + 1, BLOCK_TOKENS)})

    def _retained(self, daemon: Daemon) -> int:
        return int(self._told_by(_RETAINED, daemon))

    def _told_by(self, program: str, daemon: Daemon) -> str:
        """The output of a program that asks the daemon something."""
        python = self.root / "target" / "venv-vllm" / "bin" / "python"
        command = [str(python), "-c", program, str(daemon.socket)]
        return subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout

    def ranks(self) -> None:
        """Two tensor-parallel ranks, each with its part of every block."""
        with engine(self.root, self.folder, "ranks-none", None, 1, 2) as plain:
            without = plain.run(**{"pass": "none"})
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                kv = kvtier(daemon.socket, "ranks")
                with engine(self.root, self.folder, "ranks", kv, 1, 2) as first:
                    most = first.hello["loadable"]
                    cold = first.run(**{"pass": "cold"})
                    warm = first.run(**{"pass": "warm", "reset": True})
                with engine(self.root, self.folder, "ranks-again", kv, 1, 2) as second:
                    again = second.run(**{"pass": "engine restarted"})
            finally:
                daemon.stop()
        for case, answer in (("cold", cold), ("warm", warm), ("after an engine restart", again)):
            self.hold(f"tokens of two ranks, {case}", answer["tokens"] == without["tokens"], "as of two ranks without kvtier")
        self._hits("two ranks, warm", warm, most)
        self._hits("two ranks, after an engine restart", again, most)

    def resharding(self) -> None:
        """An engine with one rank loads what one with two ranks has stored, and the reverse, also after the daemon's restart."""
        tokens: dict[int, Any] = {}
        for ranks in (1, 2):
            with engine(self.root, self.folder, f"files-none-{ranks}", None, 1, ranks) as plain:
                tokens[ranks] = plain.run(**{"pass": "none"})["tokens"]
        self.hold("tokens of one rank and of two", tokens[1] == tokens[2], "equal without kvtier, so that they can be compared")
        for writer, reader in ((2, 1), (1, 2)):
            with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
                daemon = Daemon(self.root, Path(folder))
                daemon.start()
                try:
                    kv = kvtier(daemon.socket, f"resharding-{writer}")
                    with engine(self.root, self.folder, f"files-{writer}-writes", kv, 1, writer) as first:
                        most = first.hello["loadable"]
                        first.run(**{"pass": "cold"})
                    with engine(self.root, self.folder, f"files-{reader}-reads", kv, 1, reader) as second:
                        cold = second.run(**{"pass": "other ranks"})
                        daemon.stop()
                        daemon.start()
                        again = second.run(**{"pass": "daemon restarted", "reset": True})
                finally:
                    daemon.stop()
            what = f"{writer} to {reader} ranks"
            for when, answer in ((what, cold), (f"{what}, daemon restarted", again)):
                self.hold(f"tokens, {when}", answer["tokens"] == tokens[reader], "as without kvtier")
                self._hits(when, answer, most)

    def hybrid(self) -> None:
        """Models with several kinds of KV cache: a sliding window and full attention, a convolution's state and full attention."""
        for size in ("window", "state"):
            self.say(f"model with a {size}")
            with engine(self.root, self.folder, f"hybrid-{size}-none", None, 0, size=size) as plain:
                right = plain.run(**{"pass": "none", "logprobs": True})["logprobs"]
                again = plain.run(**{"pass": "again", "reset": True, "logprobs": True})
                self._logprobs(f"{size}, without kvtier once more", again, right)
                most = plain.hello["loadable_long"]
            with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
                daemon = Daemon(self.root, Path(folder))
                daemon.start()
                try:
                    self._hybrid(size, daemon, kvtier(daemon.socket, f"hybrid-{size}"), right, most)
                finally:
                    daemon.stop()

    def _hybrid(self, size: str, daemon: Daemon, kv: dict, right: list, most: int) -> None:
        with engine(self.root, self.folder, f"hybrid-{size}-first", kv, 0, size=size) as first:
            self._logprobs(f"{size}, cold, in chunks", first.run(**{"pass": "cold", "logprobs": True}), right)
            warm = first.run(**{"pass": "warm", "reset": True, "logprobs": True})
            self._logprobs(f"{size}, restored", warm, right)
            self._hits(f"{size}, restored", warm, most)
            daemon.stop()
            daemon.start()
            again = first.run(**{"pass": "daemon restarted", "reset": True, "logprobs": True})
            self._logprobs(f"{size}, daemon restarted", again, right)
            self._hits(f"{size}, daemon restarted", again, most)
            first.begin(**{"pass": "daemon killed", "reset": True, "logprobs": True})
            time.sleep(0.5)
            daemon.kill()
            killed = first.end_of_run()
            self._logprobs(f"{size}, daemon killed in mid-run", killed, right)
            self.say(f"         {killed['counters'][HITS]:,.0f} of {most:,} tokens were found")
            daemon.start()
        with engine(self.root, self.folder, f"hybrid-{size}-second", kv, 0, size=size) as second:
            fresh = second.run(**{"pass": "engine restarted", "logprobs": True})
            self._logprobs(f"{size}, engine restarted", fresh, right)
            self._hits(f"{size}, engine restarted", fresh, most)
            zeroed = second.run(**{"pass": "zeroed", "reset": True, "logprobs": True, "zero": True})["logprobs"]
            differing = sum(one != other for one, other in zip(zeroed, right, strict=True))
            text = f"{differing} of {len(right)} prompts have other log probabilities when what is loaded is zeroed"
            self.hold(f"the check sees wrong blocks, {size}", differing == len(right), text)
        # Few blocks, so that requests are preempted, and come back.
        kv["kv_connector_extra_config"]["kvtier.namespace"] += "-few"
        with engine(self.root, self.folder, f"hybrid-{size}-few", kv, 0, size=size, blocks=_FEW_BLOCKS[size]) as few:
            counted = [few.run(**{"pass": "preempted", "long": True, "reset": True, "tokens": 300})["counters"] for _ in range(2)]
            count, loads = (sum(one.get(name, 0) for one in counted) for name in ("num_preemptions", "kvtier_loads"))
            self.hold(f"preempted, {size}", count > 0, f"{count:.0f} times within two runs, {loads:.0f} loads", preemptions=count, loads=loads)
            # Requests that lost their blocks and came back have stored right blocks. The comparison holds only if vLLM computes a batch
            # as it computes one prompt. It does not for states: vLLM's own cache gives other log probabilities after a batch.
            after = few.run(**{"pass": "restored", "reset": True, "logprobs": True})
            furthest = _furthest(after["logprobs"], right)
            self.tell(f"log probabilities, {size}, after preemptions", f"the furthest differs by {furthest:g}", furthest=furthest)
            if size == "window":
                self.hold(f"log probabilities, {size}, after preemptions", furthest < ROUNDING_MAX, f"nearer than {ROUNDING_MAX:g}")

    def _logprobs(self, case: str, answer: dict[str, Any], right: list, whose: str = "without kvtier") -> None:
        furthest = _furthest(answer["logprobs"], right)
        self.hold(f"log probabilities, {case}", answer["logprobs"] == right, f"those {whose}; the furthest differs by {furthest:g}")

    def layers(self) -> None:
        """Loads that come by layer: the engine computes the first layers while blocks of the others come."""
        with engine(self.root, self.folder, "layers-none", None, 0) as plain:
            right, right_long = (plain.run(**{"pass": "none"} | some)["tokens"] for some in ({}, _LONG))
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                self._one_by_layer(daemon, right)
                self._few_by_layer(daemon, right_long)
                self._ranks_by_layer(daemon, right)
            finally:
                daemon.stop()

    def _one_by_layer(self, daemon: Daemon, right: list) -> None:
        """One engine, whose daemon is killed while layers come."""
        kv = kvtier(daemon.socket, "layers", load_by_layer="on")
        with engine(self.root, self.folder, "layers", kv, 0) as one:
            most = one.hello["loadable"]
            one.run(**{"pass": "cold"})
            self._by_layer("by layer", one.run(**{"pass": "warm", "reset": True}), right, most)
            self._by_layer("by layer, late", one.run(**{"pass": "late", "reset": True, "late_s": _LATE_S}), right, most)
            assert daemon.process is not None
            killed = one.run(**{"pass": "killed", "reset": True, "late_s": _LATE_S, "kill": daemon.process.pid})
            daemon.kill()
            self.hold("tokens, daemon killed while layers come", killed["tokens"] == right, "as without kvtier")
            written = killed["counters"]["kvtier_written_blocks"]
            self.hold("daemon killed while layers come", written > 0, f"{written:.0f} blocks were read from its memory", written=written)
            daemon.start()
            one.run(**{"pass": "stored again", "reset": True})
            zeroed = one.run(**{"pass": "zeroed", "reset": True, "late_s": _LATE_S, "zero": True})
            self.hold("the check sees wrong layers", zeroed["tokens"] != right, "other tokens when what is loaded is zeroed")

    def _by_layer(self, case: str, answer: dict[str, Any], right: list, most: int) -> None:
        self.hold(f"tokens, {case}", answer["tokens"] == right, "as without kvtier")
        self._hits(case, answer, most)
        loads, wait_us = (answer["counters"][f"kvtier_{name}"] for name in ("loads_by_layer", "layer_wait_us"))
        self.hold(f"loads, {case}", loads > 0, f"{loads:.0f}; the engine waited {wait_us / 1e3:.1f} ms for layers", loads=loads, wait_us=wait_us)

    def _few_by_layer(self, daemon: Daemon, right: list) -> None:
        """An engine with few blocks: requests are preempted, and come back."""
        kv = kvtier(daemon.socket, "layers-few", load_by_layer="on")
        with engine(self.root, self.folder, "layers-few", kv, 0, blocks=_FEW_BLOCKS["tiny"]) as few:
            answers = [few.run(**{"pass": "preempted", "reset": True, "late_s": _LATE_S} | _LONG) for _ in range(2)]
        count, loads = (sum(one["counters"].get(name, 0) for one in answers) for name in ("num_preemptions", "kvtier_loads_by_layer"))
        self.hold("tokens, by layer, preempted", all(one["tokens"] == right for one in answers), "as without kvtier")
        text = f"{count:.0f} times within two runs, {loads:.0f} loads by layer"
        self.hold("preempted, by layer", count > 0 and loads > 0, text, preemptions=count, loads=loads)

    def _ranks_by_layer(self, daemon: Daemon, right: list) -> None:
        """Two tensor-parallel ranks, each of which waits for its layers."""
        kv = kvtier(daemon.socket, "layers-ranks", load_by_layer="on")
        with engine(self.root, self.folder, "layers-ranks", kv, 1, 2) as two:
            most = two.hello["loadable"]
            two.run(**{"pass": "cold"})
            self._by_layer("by layer, two ranks", two.run(**{"pass": "warm", "reset": True}), right, most)

    def encoding(self) -> None:
        """Blocks in fewer bytes: an engine that loads them computes what it computes with raw ones, to the last bit."""
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                raw = self._restored(daemon, "none", [])
                exact = self._restored(daemon, "exact", raw)
                self._encoded_blocks(daemon)
                daemon.stop()
                daemon.start()
                kv = kvtier(daemon.socket, "encoding", encoding="exact")
                with engine(self.root, self.folder, "encoding-again", kv, 0, dtype="bfloat16") as second:
                    again = second.run(**{"pass": "both restarted", "logprobs": True})
                    self._logprobs("exact, engine and daemon restarted", again, exact, "before")
                    self._hits("exact, engine and daemon restarted", again, second.hello["loadable_long"])
                    zeroed = second.run(**{"pass": "zeroed", "reset": True, "logprobs": True, "zero": True})
                    self.hold("the check sees wrong blocks, exact", zeroed["logprobs"] != exact, "other log probabilities when what is loaded is zeroed")
            finally:
                daemon.stop()

    def _restored(self, daemon: Daemon, encoding: str, right: list) -> list:
        """The log probabilities of an engine that has loaded all prompts; held to the right ones, where there are any."""
        kv = kvtier(daemon.socket, "encoding", encoding=encoding)
        with engine(self.root, self.folder, f"encoding-{encoding}", kv, 0, dtype="bfloat16") as one:
            cold = one.run(**{"pass": "cold", "logprobs": True})
            hits = cold["counters"][HITS]
            self.hold(f"cold, {encoding}", hits == 0, f"{hits:,.0f} tokens were loaded: engines with another encoding have other blocks")
            warm = one.run(**{"pass": "warm", "reset": True, "logprobs": True})
            self._hits(f"{encoding}, restored", warm, one.hello["loadable_long"])
            if right:
                self._logprobs(f"{encoding}, restored", warm, right, "with raw blocks restored")
            answer: list = warm["logprobs"]
            return answer

    def _encoded_blocks(self, daemon: Daemon) -> None:
        counted = json.loads(self._told_by(_COUNTERS, daemon))
        encoded, unfit, share = counted["put_encoded"], counted["put_raw"], counted["put_encoded_bytes"] / max(1, counted["put_encoded_raw_bytes"])
        text = f"{encoded:,} blocks are encoded, in {share:.3f} of their bytes, and {unfit:,} did not fit"
        self.hold("encoded blocks", encoded > 0 and share <= ENCODED_SHARE_MAX, text, encoded=encoded, raw=unfit, share=share)

    def lmcache(self) -> None:
        """Compares the hits with LMCache's for equal prompts: kvtier must not find less."""
        self.reference()
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                ours = self._cold_and_restarted("beside LMCache", kvtier(daemon.socket, "check-beside"))
            finally:
                daemon.stop()
        port = process.free_port()
        server = self._lmcache_server(port)
        try:
            extra = {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": port}
            kv = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
            theirs = self._cold_and_restarted("LMCache", kv)
        finally:
            server.terminate()
            server.wait(30)
        for when in ("cold", "restarted"):
            text = f"{ours[when]:,.0f} tokens from a cache; LMCache {theirs[when]:,.0f}"
            self.hold(f"beside LMCache, {when}", ours[when] >= theirs[when], text, kvtier=ours[when], lmcache=theirs[when])

    def _cold_and_restarted(self, name: str, kv: dict) -> dict[str, float]:
        with engine(self.root, self.folder, name.replace(" ", "-"), kv, 0) as first:
            cold = first.run(**{"pass": "cold", "serial": True})
            time.sleep(1)
        with engine(self.root, self.folder, name.replace(" ", "-") + "-again", kv, 0) as second:
            restarted = second.run(**{"pass": "restarted", "serial": True})
        self._same(f"{name}, restarted", restarted)
        self._ttft(f"{name}, cold", cold)
        self._ttft(f"{name}, restored by a fresh engine", restarted)
        return {"cold": cold["cached"], "restarted": restarted["cached"]}

    def _lmcache_server(self, port: int) -> subprocess.Popen:
        log = open(self.folder / "lmcache.log", "w")  # noqa: SIM115
        command = [
            str(self.root / "target" / "venv-lmcache" / "bin" / "lmcache"), "server", "--l1-size-gb", "2", "--chunk-size", "32",
            "--supported-transfer-mode", "auto", "--shm-name", f"lmcache-check-{os.getpid()}", "--no-l1-use-lazy",
            "--eviction-policy", "LRU", "--host", "127.0.0.1", "--port", str(port),
        ]  # fmt: skip
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"LMCACHE_TRACK_USAGE": "false"})
        deadline = time.monotonic() + 120
        while "Application startup complete" not in (self.folder / "lmcache.log").read_text(errors="replace"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"LMCache's server did not start: {self.folder / 'lmcache.log'}")
            time.sleep(0.5)
        return server

    def absent(self) -> None:
        """A daemon that is not there, or too old: the engine starts as fast, says so once, and serves."""
        self.reference()
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            old = Path(folder) / "old.sock"
            for case, path, words in (
                ("no daemon", Path(folder) / "none.sock", "no daemon listens at"),
                ("a daemon of another version", old, "speaks protocol 9.0"),
            ):
                with _old_daemon(old), engine(self.root, self.folder, case.replace(" ", "-"), kvtier(path, "absent"), 0) as one:
                    self._same(case, one.run(**{"pass": case}))
                    later_s = one.hello["started_s"] - self._plain["started_s"]
                    self.hold(f"start, {case}", later_s < 10, f"{later_s:+.1f} s against an engine without kvtier")
                    told = sum(words in line for line in one.log().splitlines())
                    self.hold(f"log, {case}", told == 1, f"said {told} times")

    def zero(self) -> None:
        """Prompts that nobody has seen, with kvtier and without, in turns."""
        few = max(1, _processors() - 1)
        reached, text = self._turns("small", few, 12)
        self.hold("zero hits", reached >= ZERO_SHARE_MIN, f"{text}, with a processor left for the daemon", share=reached)
        # Every moment of the daemon's is then one in which all threads of the engine wait for each other.
        reached, text = self._turns("small", _processors(), 8)
        self.tell("zero hits, the engine on all processors", text, share=reached)
        reached, text = self._turns("tiny", few, 8)
        self.tell("zero hits, a model that computes next to nothing for its blocks", text, share=reached)

    def _turns(self, size: str, threads: int, groups: int) -> tuple[float, str]:
        """The engine's throughput with kvtier, of that without, beside a daemon that has run for a while."""
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
            daemon = Daemon(self.root, Path(folder))
            daemon.start()
            try:
                self._warm(daemon)
                kv = kvtier(daemon.socket, "zero")
                with engine(self.root, self.folder, f"zero-{size}-{threads}", kv, 0, threads=threads, size=size) as one:
                    one.begin(turns=groups)
                    taken = one.end_of_run(TURNS_TIMEOUT_S)
            finally:
                daemon.stop()
        faster, medians = share(taken["without"], taken["with"])
        return faster, (
            f"throughput {faster:.3f} of that without kvtier, by the faster half of {len(taken['with'])} rounds each; "
            f"by their medians {medians:.3f}"
        )

    def _warm(self, daemon: Daemon) -> None:
        """At an engine's rate of requests a daemon's code is compiled for a quarter of an hour, which takes ten seconds of a
        processor."""
        python = self.root / "target" / "venv-vllm" / "bin" / "python"
        subprocess.run([str(python), "-c", _WARMING, str(daemon.socket)], check=True, timeout=120)


def _furthest(logprobs: list, right: list) -> float:
    return max(abs(one - other) for some, others in zip(logprobs, right, strict=True) for one, other in zip(some, others, strict=True))


_RETAINED = """
import sys
from kvtier import Client
with Client(sys.argv[1], timeout=30) as client:
    print(client.stats()["retained"]["blocks"])
"""

_COUNTERS = """
import json, sys
from kvtier import Client
with Client(sys.argv[1], timeout=30) as client:
    print(json.dumps(client.counters()))
"""

_WARMING = """
import os, sys, time
from kvtier import Client
end = time.monotonic() + 20
with Client(sys.argv[1], timeout=30) as client:
    namespace = client.namespace("warming", block_bytes=128 << 10)
    blocks = os.urandom(24 * (128 << 10))
    while time.monotonic() < end:
        keys = [os.urandom(32) for _ in range(24)]
        namespace.lookup(keys)
        namespace.put(keys, blocks)
        namespace.delete(keys)
        for _ in range(20):
            namespace.lookup([os.urandom(32) for _ in range(24)])
"""


@contextlib.contextmanager
def _old_daemon(path: Path) -> Iterator[None]:
    """A daemon of another major version, which refuses every client."""
    import threading

    magic, status = 0x4B4F52454954564B, 14
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path.unlink(missing_ok=True)
    listening.bind(str(path))
    listening.listen(16)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                channel, _ = listening.accept()
                with channel:
                    channel.recv(4096)
                    text = b"this daemon is of version 9"
                    channel.sendall(struct.pack("<QIHHQQII", magic, 9 << 16, status, len(text), 0, 0, 0, 0) + text)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def main() -> int:
    cases = ("identity", "wishes", "ranks", "resharding", "hybrid", "layers", "encoding", "prefill_decode", "prefill_decode_ranks", "prefill_decode_load", "lmcache", "absent", "zero")
    parser = Arguments(prog="scripts/engine-check vllm")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="writes the rows to this file")
    parser.add_argument("--only", type=some_of(cases), default=list(cases), help=f"of {', '.join(cases)}")
    arguments = parser.parse_args()
    folder = arguments.root / "target" / "engine-check"
    folder.mkdir(parents=True, exist_ok=True)
    return Check(arguments.root, folder).run(arguments.only, arguments.json, folder)


if __name__ == "__main__":
    run_tool(main)
