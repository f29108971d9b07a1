"""The contract of adapters: what each connector of an engine must do when a daemon, a block or a rank is not as it should be.

A connector's tests derive a class from `AdapterContract`, say how to make an engine with the connector (`Driver`), and run it with pytest.
Nothing here imports an engine or pytest.

    class TestMine(AdapterContract):
        @pytest.fixture(autouse=True)
        def _begin(self, daemon: Daemon) -> Iterator[None]:
            self.begin(daemon)
            yield
            self.end()

        def make(self, wanted: Wanted) -> Driver:
            return MyEngine(wanted)
"""

import contextlib
import logging
import random
import signal
import socket
import tempfile
import threading
import time
import unittest
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from kvtier import _protocol as protocol
from kvtier._protocol import Status
from kvtier.client import Client
from kvtier.engine.groups import ALL, Need, longest

PATIENCE_S = 60.0
"""how long a condition is waited for"""

_KILL_AFTER_S = (0.0, 0.001, 0.004, 0.016)

_HASTY = {"lookup_s_max": 0.3, "load_timeout_s": 1.0, "put_timeout_s": 0.5}
"""time limits of an engine whose daemon is going to hang"""


class Daemon(Protocol):
    """A daemon under test, in a process of its own. It keeps its blocks over a restart in whatever tiers it likes."""

    socket_path: Any

    def start(self) -> None:
        """Starts it; returns when it answers."""

    def kill(self) -> None:
        """Kills it without warning, and waits until it is gone."""

    def pause(self) -> None:
        """Stops it (SIGSTOP); returns when none of its threads runs any more."""

    def signal(self, number: int) -> None:
        """Sends it a signal."""


class OtherNode(Daemon, Protocol):
    """The daemon of another node, which reads the memory of the daemon under test."""

    peer: str
    """the address of the node of the daemon under test"""

    def connect(self) -> None:
        """Waits until it is connected to that node."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An engine that a test wants. Engines with equal `namespace`, `weights` and `configuration` share blocks."""

    socket: str
    """of the daemon"""
    namespace: str
    """the first part of the namespaces' names"""
    weights: str = "one"
    """the name of its weights"""
    configuration: str = "one"
    """of another text: the engine has another element type, or something else that the connector tells daemons of"""
    mismatch: str = "fail"
    """as `kvtier.engine.settings.Settings.mismatch`"""
    ranks: int = 1
    """each has a part of every block"""
    pools: int = 1
    """how many kinds of KV cache the model has; the first one has full attention"""
    lookup_s_max: float = PATIENCE_S
    """as `Settings.lookup_s_max`; the others likewise. Only a daemon that hangs is waited for so long."""
    load_timeout_s: float = PATIENCE_S
    put_timeout_s: float = PATIENCE_S


class Part(NamedTuple):
    """One rank's part of a prompt's blocks in one pool, as the daemon knows them."""

    name: str
    """of the namespace"""
    block_bytes: int
    properties: dict[str, str]
    keys: Sequence[bytes]
    """of all whole blocks of the prompt, from the first"""


class Driver(ABC):
    """An engine with the connector under test. All calls come from one thread.

    The engine computes blocks whose bytes depend on all tokens before them, its weights, its rank and its pool. It looks at every byte
    that was loaded and raises `AssertionError` where one is wrong: so each test looks for wrong bytes.
    """

    unit_tokens: int
    """what the engine restores is a multiple of so many tokens"""
    needs: Sequence[Need]
    """of each pool"""
    loads_whole: bool = False
    """whether the engine loads all that it has found of a prompt or nothing, as one whose loads must not fail"""

    @abstractmethod
    def find(self, prompt: Sequence[int]) -> int:
        """Has the engine look a prompt up, as before it serves it, and not load it yet.

        Returns:
            How many tokens from the first the engine counts on.
        """

    @abstractmethod
    def serve(self, prompt: Sequence[int]) -> int:
        """Serves a prompt, which may have been looked up (`find`): loads what was found, computes the rest, and stores all whole blocks.
        Returns when nothing is under way. The engine's own cache is empty before.

        Returns:
            How many tokens were loaded and not computed.
        """

    @abstractmethod
    def abandon(self, prompt: Sequence[int]) -> None:
        """Ends a request that was looked up (`find`) and is never served."""

    @abstractmethod
    def parts(self, prompt: Sequence[int]) -> Sequence[Sequence[Part]]:
        """For each pool, the parts of all ranks. Ranks that put blocks together have one."""

    def lose(self, rank: int, block: int) -> None:
        """Has one rank alone fail to load a block, by its place, of the next prompt that is served. Only where an engine has ranks."""
        raise NotImplementedError

    def wish(self, wishes: dict[str, Any]) -> None:
        """Has the next request that is served say these wishes (`kvtier.engine.wishes`). Only where requests of the engine can."""
        raise NotImplementedError

    def ask(self, prompt: Sequence[int]) -> int | None:
        """Has the engine look a prompt up as `find` does, and asks once what was found; None: not known yet. Only where an engine waits for
        blocks that a request expects."""
        raise NotImplementedError

    def rest(self) -> None:
        """Lets the engine do what it does while it has no request."""
        return

    @abstractmethod
    def close(self) -> None:
        """Ends the engine."""


class AdapterContract:
    """Tests that a connector passes. A test that needs more ranks or pools than the connector has is skipped."""

    RANKS = 1
    """how many ranks `make` can make"""
    POOLS = 1
    """how many pools"""
    HAS_WISHES = False
    """whether requests can say what they ask of the cache"""
    WAITS_FOR_EXPECTED = False
    """whether the engine waits for blocks that a request expects of another engine"""

    def make(self, wanted: Wanted) -> Driver:
        """An engine with the connector under test.

        Raises:
            Exception: what the connector raises where its configuration does not fit others'.
        """
        raise NotImplementedError

    def begin(self, daemon: Daemon, other: OtherNode | None = None) -> None:
        """Before each test. `daemon` runs, and nobody else uses it. With `other`, both are nodes, and `other` reads the memory of `daemon`."""
        self.daemon = daemon
        self.other = other
        self._killed: list[Daemon] = []
        self._made: list[Driver] = []
        self._namespace = f"contract-{random.getrandbits(64):x}"

    def end(self) -> None:
        """After each test: ends all engines that it made. The daemon runs again."""
        for one in self._made:
            one.close()
        for daemon in list(self._killed):
            self._start(daemon)

    # ---- what is there ----

    def test_anotherEngine_getsAllWholeBlocks(self) -> None:
        prompt = self._prompt()
        self._is(self._engine().serve(prompt), 0)
        second = self._engine()
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_longerPrompt_getsTheBeginningThatItShares(self) -> None:
        first = self._engine()
        prompt = self._prompt(first)
        first.serve(prompt)
        second = self._engine()
        self._is(second.serve([*prompt[: 2 * second.unit_tokens], *self._prompt(seed=2)]), 2 * second.unit_tokens)

    def test_hole_givesExactlyThePrefixBeforeIt(self) -> None:
        for hole in (0, 1, 3):
            first = self._engine()
            prompt = self._prompt(first, seed=hole)
            first.serve(prompt)
            self._delete(first, prompt, 0, 0, hole)
            second = self._engine()
            self._is(second.serve(prompt), second.needs[0].block_tokens * hole // second.unit_tokens * second.unit_tokens)

    def test_otherWeights_findNothing(self) -> None:
        prompt = self._prompt()
        self._engine().serve(prompt)
        self._is(self._engine(weights="other").serve(prompt), 0)

    def test_twoEnginesAtATime_shareBlocks(self) -> None:
        first, second = self._engine(), self._engine()
        prompts = [self._prompt(seed=seed) for seed in range(4)]
        for prompt in prompts[:2]:
            first.serve(prompt)
        for prompt in prompts[2:]:
            second.serve(prompt)
        for prompt in prompts:
            self._is(first.serve(prompt), self._whole(first, prompt))
            self._is(second.serve(prompt), self._whole(second, prompt))

    # ---- what goes between lookup and load ----

    def test_blockGoesBetweenLookupAndLoad_isComputed(self) -> None:
        first = self._engine()
        prompt = self._prompt(first)
        first.serve(prompt)
        second = self._engine()
        self._is(second.find(prompt), self._whole(second, prompt))
        self._delete(first, prompt, 0, 0, 3)
        # A lease may keep its bytes until the load.
        self._is(second.serve(prompt), *self._before(second, 3), self._whole(second, prompt))
        self._rests(second)

    def test_requestEndsBetweenLookupAndLoad_nothingStaysHeld(self) -> None:
        prompt = self._prompt()
        self._engine().serve(prompt)
        second = self._engine()
        second.find(prompt)
        second.abandon(prompt)
        self._rests(second)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_daemonKilledBetweenLookupAndLoad_isComputed(self) -> None:
        prompt = self._prompt()
        self._engine().serve(prompt)
        second = self._engine()
        second.find(prompt)
        self._kill()
        # Memory that the engine has mapped outlives the daemon: a connector may complete the load from there.
        self._is(second.serve(prompt), 0, self._whole(second, prompt))

    def test_daemonHangsBetweenLookupAndLoad_isComputed(self) -> None:
        prompt = self._prompt()
        self._engine().serve(prompt)
        second = self._engine(**_HASTY)
        second.find(prompt)
        self.daemon.pause()
        try:
            self._is(second.serve(prompt), 0, self._whole(second, prompt))
        finally:
            self.daemon.signal(signal.SIGCONT)

    # ---- a daemon that is not there ----

    def test_noDaemon_engineComputes_andSaysSoOnce(self) -> None:
        self._kill()
        engine = self._engine()
        self._is(engine.serve(self._prompt()), 0)
        with _Lines() as lines:
            for seed in range(5):
                self._is(engine.serve(self._prompt(seed=seed)), 0)
        _expect(len(lines.texts) <= 2, f"an engine without a daemon logged {len(lines.texts)} lines for 5 prompts: {lines.texts}")

    def test_daemonOfAnotherVersion_engineComputes(self) -> None:
        with _OtherVersion() as path:
            engine = self._engine(socket=path)
            self._is(engine.serve(self._prompt()), 0)
            self._is(engine.serve(self._prompt()), 0)

    def test_daemonKilledUnderAnEngine_isUsedAgainWhenItIsBack(self) -> None:
        engine = self._engine()
        engine.serve(self._prompt())
        self._kill()
        self._is(engine.serve(self._prompt(seed=2)), 0)
        self._start()
        self._is_used(engine)

    def test_daemonKilledAtAnyMoment_noByteIsWrong(self) -> None:
        engine, prompt = self._engine(), self._prompt()
        for after_s in _KILL_AFTER_S:
            self._is_used(engine, prompt)
            killer = threading.Timer(after_s, self._kill)
            killer.start()
            engine.serve(prompt)
            engine.serve(self._prompt(seed=2))
            killer.join()
            self._start()
        self._is_used(engine)

    def test_daemonHangs_engineComputes_andUsesItWhenItGoesOn(self) -> None:
        engine, prompt = self._engine(**_HASTY), self._prompt()
        engine.serve(prompt)
        self.daemon.pause()
        try:
            self._is(engine.serve(prompt), 0)
            self._is(engine.serve(self._prompt(seed=2)), 0)
        finally:
            self.daemon.signal(signal.SIGCONT)
        self._is_used(engine)
        self._rests(engine)

    # ---- engines that do not fit ----

    def test_otherConfiguration_isRefused_andTheDifferenceNamed(self) -> None:
        self._engine().serve(self._prompt())
        try:
            self._engine(configuration="other")
        except Exception as error:
            text = str(error)
            _expect("kvtier does not mix blocks" in text, f"the refusal does not say what is wrong: {text!r}")
            _expect("=" in text or "dtype" in text or "layout" in text, f"the refusal names no property: {text!r}")
        else:
            raise AssertionError("an engine with another configuration started in the namespace of others")

    def test_otherConfiguration_thatIsToServe_computes(self) -> None:
        prompt = self._prompt()
        self._engine().serve(prompt)
        other = self._engine(configuration="other", mismatch="serve")
        self._is(other.serve(prompt), 0)
        self._is(other.serve(prompt), 0)

    # ---- ranks ----

    def test_ranks_getAllWholeBlocksTogether(self) -> None:
        self._needs(ranks=2)
        prompt = self._prompt()
        self._engine(ranks=2).serve(prompt)
        second = self._engine(ranks=2)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_rankFailsAlone_allRanksComputeFromThere(self) -> None:
        self._needs(ranks=2)
        for rank, block in ((0, 2), (1, 0), (1, 3)):
            prompt = self._prompt(seed=10 * rank + block)
            self._engine(ranks=2).serve(prompt)
            second = self._engine(ranks=2)
            second.lose(rank, block)
            self._is(second.serve(prompt), *self._before(second, block), *((self._whole(second, prompt),) if second.loads_whole else ()))
            self._rests(second)

    def test_partOfOneRankIsMissing_endsThePrefixForAll(self) -> None:
        self._needs(ranks=2)
        first = self._engine(ranks=2)
        prompt = self._prompt(first)
        first.serve(prompt)
        self._delete(first, prompt, 0, -1, 2)
        second = self._engine(ranks=2)
        self._is(second.serve(prompt), second.needs[0].block_tokens * 2 // second.unit_tokens * second.unit_tokens)

    # ---- pools ----

    def test_pools_areRestoredTogether(self) -> None:
        self._needs(pools=2)
        prompt = self._prompt()
        self._engine(pools=2).serve(prompt)
        second = self._engine(pools=2)
        self._is(second.serve(prompt), self._whole(second, prompt))
        self._rests(second)

    def test_blockOfOnePoolIsMissing_theLongestLengthIsRestoredThatDoesWithout(self) -> None:
        self._needs(pools=2)
        for pool, block in ((0, 2), (0, 0), (1, -1), (1, 0)):
            first = self._engine(pools=2)
            prompt = self._prompt(first, seed=10 * pool + block % 7)
            first.serve(prompt)
            count = len(first.parts(prompt)[pool][0].keys)
            self._delete(first, prompt, pool, 0, block % count)
            second = self._engine(pools=2)
            expected = self._restorable(second, prompt)
            self._is(second.serve(prompt), expected)

    def test_blockOfOnePoolGoesBetweenLookupAndLoad_noByteIsWrong(self) -> None:
        self._needs(pools=2)
        for pool in (0, 1):
            first = self._engine(pools=2)
            prompt = self._prompt(first, seed=pool)
            first.serve(prompt)
            second = self._engine(pools=2)
            second.find(prompt)
            count = len(first.parts(prompt)[pool][0].keys)
            self._delete(first, prompt, pool, 0, count - 1)
            second.serve(prompt)
            self._rests(second)

    # ---- what a request asks for ----

    def test_requestThatIsNotToBeStored_isNotFound(self) -> None:
        engine, prompt = self._wishing({"store": False})
        self._is(engine.serve(prompt), 0)
        self._is(self._engine().serve(prompt), 0)

    def test_requestThatIsNotToBeLoaded_isComputed(self) -> None:
        self._engine().serve(self._prompt())
        engine, prompt = self._wishing({"load": False})
        self._is(engine.serve(prompt), 0)
        self._is(engine.serve(prompt), self._whole(engine, prompt))

    def test_requestWithALimit_loadsNoMore(self) -> None:
        self._engine().serve(self._prompt())
        engine, prompt = self._wishing({})
        for tokens in (0, 2 * engine.unit_tokens + 1, 10**9):
            engine.wish({"load_max_tokens": tokens})
            self._is(engine.serve(prompt), min(tokens // engine.unit_tokens * engine.unit_tokens, self._whole(engine, prompt)))
            self._rests(engine)

    def test_requestWithALimit_ofSeveralPools_isRestoredAtThatLength(self) -> None:
        self._needs(pools=2)
        self._engine(pools=2).serve(self._prompt())
        engine, prompt = self._wishing({}, pools=2)
        engine.wish({"load_max_tokens": 3 * engine.unit_tokens + 1})
        self._is(engine.serve(prompt), 3 * engine.unit_tokens)
        self._rests(engine)

    def test_requestThatIsToBeKept_isRetained(self) -> None:
        engine, prompt = self._wishing({"keep_s": 300})
        engine.serve(prompt)
        part = engine.parts(prompt)[0][0]
        with Client(self.daemon.socket_path, timeout=PATIENCE_S) as client:

            def is_kept() -> bool:
                engine.rest()
                return bool(client.stats()["retained"]["blocks"] >= len(part.keys))

            _until(is_kept, "the blocks are retained")
            namespace = client.namespace(part.name, block_bytes=part.block_bytes, **part.properties)
            _expect(set(namespace.retain(part.keys, 0).statuses) == {Status.OK}, "blocks that were to be kept are not there")
            _until(lambda: client.stats()["retained"]["blocks"] < len(part.keys), "the retentions end")

    def test_wishesWithoutSense_areIgnored_andToldOnce(self) -> None:
        self._engine().serve(self._prompt())
        engine, prompt = self._wishing({})
        with _Lines() as lines:
            for _ in range(3):
                engine.wish({"store": "no", "keep_s": -1, "priority": 9, "colour": "blue", "load": True})
                self._is(engine.serve(prompt), self._whole(engine, prompt))
        _expect(len(lines.texts) == 4, f"4 wishes without sense were told of in {len(lines.texts)} lines: {lines.texts}")

    # ---- blocks that another engine computes ----

    def test_expectedBlocks_areWaitedFor_andLoaded(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": PATIENCE_S})
        for _ in range(20):
            _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        first.serve(prompt)
        _until(lambda: second.ask(prompt) is not None, "the engine knows of the blocks")
        self._is(second.serve(prompt), self._whole(second, prompt))
        self._rests(second)

    def test_expectedBlocksThatAreThere_areLoadedAtOnce(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 10**6})
        first.serve(prompt)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_expectedBlocksThatNeverCome_areComputed(self) -> None:
        _, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": 0.2})
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        self._is(second.serve(prompt), 0)
        self._rests(second)

    def test_expectedBlocksOfWhichSomeCome_areLoadedAsFarAsTheyGo(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": 0.5})
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        first.serve(prompt[: 2 * first.unit_tokens])
        self._is(second.serve(prompt), 2 * second.unit_tokens)

    def test_expectedBlocksWithAHole_areLoadedUpToIt(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": 0.5})
        first.serve(prompt)
        self._delete(first, prompt, 0, 0, 3)
        self._is(second.serve(prompt), *self._before(second, 3))

    def test_fewerBlocksExpectedThanThePromptHas_onlyTheseAreWaitedFor(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 1, "expect_s": PATIENCE_S})
        expected = 2 * first.unit_tokens
        second.wish({"expect_tokens": expected + 1, "expect_s": PATIENCE_S})
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        first.serve(prompt[:expected])
        self._is(second.serve(prompt), expected)

    def test_expectedBlocks_ofARequestThatEnds_nothingStaysHeld(self) -> None:
        first, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": PATIENCE_S})
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        second.abandon(prompt)
        first.serve(prompt)
        self._rests(second)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_daemonKilledWhileBlocksAreExpected_isComputed(self) -> None:
        _, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": PATIENCE_S})
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        self._kill()
        self._is(second.serve(prompt), 0)

    def test_expectedBlocksOfSeveralPools_areWaitedFor(self) -> None:
        self._needs(pools=2)
        first, second, prompt = self._expecting({"expect_tokens": 10**6, "expect_s": PATIENCE_S}, pools=2)
        _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
        first.serve(prompt)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_blocksExpectedFromANode_comeWhileTheyAreStored(self) -> None:
        self._comeFromTheOtherNode(1)

    def test_blocksOfSeveralPoolsExpectedFromANode_comeWhileTheyAreStored(self) -> None:
        self._needs(pools=2)
        self._comeFromTheOtherNode(2)

    def _comeFromTheOtherNode(self, pools: int) -> None:
        first, second, prompt, other = self._apart(pools)
        self._hears(second, prompt)
        before = self._counter(other, "node_expected")
        first.serve(prompt)
        # The engine has not asked since: its daemon got the blocks.
        _until(lambda: self._counter(other, "expected") == 0, "all expected blocks come to the other node")
        _expect(self._counter(other, "node_expected") > before, "no block came while it was stored")
        fetched = self._counter(other, "node_fetched")
        self._is(second.serve(prompt), self._whole(second, prompt))
        _expect(self._counter(other, "node_fetched") == fetched, "a block of some pool came only when it was loaded")
        self._rests(second, other)
        _until(lambda: self._counter(self.daemon, "leases") == 0, "nothing stays held for the other node")

    def test_blocksExpectedFromANode_ofARequestThatEnds_nothingStaysHeld(self) -> None:
        first, second, prompt, other = self._apart()
        self._hears(second, prompt)
        second.abandon(prompt)
        self._rests(second, other)
        _until(lambda: self._counter(other, "expected") == self._counter(self.daemon, "followed") == 0, "no block is expected any more")
        first.serve(prompt)
        self._is(second.serve(prompt), self._whole(second, prompt))

    def test_blocksExpectedFromANodeThatDies_areComputed(self) -> None:
        _, second, prompt, _ = self._apart(expect_s=2)
        self._hears(second, prompt)
        self._kill()
        self._is(second.serve(prompt), 0)

    def test_daemonKilledWhileItExpectsBlocksFromANode_isComputed(self) -> None:
        _, second, prompt, other = self._apart()
        self._hears(second, prompt)
        self._kill(other)
        self._is(second.serve(prompt), 0)
        _until(lambda: self._counter(self.daemon, "followed") == 0, "no block is expected any more")

    def test_blocksExpectedFromAnUnknownNode_areLookedUpUntilTheyAreThere(self) -> None:
        first, second, prompt, other = self._apart(node="unknown")
        before = self._counter(other, "node_expected_unreachable")

        def is_refused() -> bool:
            _expect(second.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
            return self._counter(other, "node_expected_unreachable") > before

        _until(is_refused, "the daemon says that there is no such node")
        for _ in range(3):
            _expect(second.ask(prompt) is None, "an engine waits no more because the node is unknown")
        first.serve(prompt)
        _until(lambda: second.ask(prompt) is not None, "the engine knows of the blocks")
        self._is(second.serve(prompt), self._whole(second, prompt))

    def _apart(self, pools: int = 1, node: str = "", expect_s: float = 10 * PATIENCE_S) -> tuple[Driver, Driver, list[int], OtherNode]:
        """An engine that computes, and one on another node whose next request expects its blocks from there."""
        other = self.other
        if other is None or not self.WAITS_FOR_EXPECTED:
            raise unittest.SkipTest("needs a second node, and an engine that waits for blocks that a request expects")
        other.connect()
        second = self._engine(pools=pools, socket=str(other.socket_path))
        second.wish({"expect_tokens": 10**6, "expect_s": expect_s, "expect_from": node or other.peer})
        return self._engine(pools=pools), second, self._prompt(), other

    def _hears(self, driver: Driver, prompt: Sequence[int]) -> None:
        """An engine of the other node waits for a prompt, until the daemon has heard which blocks are expected."""

        def is_followed() -> bool:
            _expect(driver.ask(prompt) is None, "an engine did not wait for blocks that another one was to store")
            return self._counter(self.daemon, "followed") > 0

        _until(is_followed, "the daemon hears which blocks the other node expects")

    def _counter(self, daemon: Daemon, name: str) -> int:
        with Client(daemon.socket_path, timeout=PATIENCE_S) as client:
            # The values that `Client.counters` reads can be a moment old.
            return int(client.stats()["counters"][name])

    def _expecting(self, wishes: dict[str, Any], pools: int = 1) -> tuple[Driver, Driver, list[int]]:
        """An engine that computes, and one whose next request expects its blocks."""
        if not self.WAITS_FOR_EXPECTED:
            raise unittest.SkipTest("this engine does not wait for blocks that a request expects")
        second, prompt = self._wishing(wishes, pools)
        return self._engine(pools=pools), second, prompt

    def _wishing(self, wishes: dict[str, Any], pools: int = 1) -> tuple[Driver, list[int]]:
        if not self.HAS_WISHES:
            raise unittest.SkipTest("requests of this engine say nothing to its cache")
        engine = self._engine(pools=pools)
        engine.wish(wishes)
        return engine, self._prompt()

    # ---- how tests ask ----

    def _engine(self, **changed: Any) -> Driver:
        made = self.make(replace(Wanted(str(self.daemon.socket_path), self._namespace), **changed))
        self._made.append(made)
        return made

    def _kill(self, daemon: Daemon | None = None) -> None:
        self._killed.append(daemon or self.daemon)
        (daemon or self.daemon).kill()

    def _start(self, daemon: Daemon | None = None) -> None:
        (daemon or self.daemon).start()
        self._killed.remove(daemon or self.daemon)

    def _needs(self, ranks: int = 1, pools: int = 1) -> None:
        if ranks > self.RANKS or pools > self.POOLS:
            raise unittest.SkipTest(f"needs {ranks} ranks and {pools} pools; this connector's tests have {self.RANKS} and {self.POOLS}")

    def _prompt(self, driver: Driver | None = None, seed: int = 1) -> list[int]:
        """Several whole units, and a part of one."""
        unit = 16 if driver is None else driver.unit_tokens
        dice = random.Random(f"{self._namespace} {seed}")
        return [dice.randrange(1000) for _ in range(max(59, 6 * unit + 3))]

    def _whole(self, driver: Driver, prompt: Sequence[int]) -> int:
        return len(prompt) // driver.unit_tokens * driver.unit_tokens

    def _before(self, driver: Driver, block: int) -> Sequence[int]:
        """The tokens that are loaded of a prompt that was found, if one of its blocks can't be loaded."""
        return (0,) if driver.loads_whole else (driver.needs[0].block_tokens * block // driver.unit_tokens * driver.unit_tokens,)

    def _is(self, tokens: int, *expected: int) -> None:
        _expect(tokens in expected, f"{tokens} tokens were loaded; expected {' or '.join(map(str, expected))}")

    def _is_used(self, driver: Driver, prompt: Sequence[int] | None = None) -> None:
        """Serves a prompt until all of it is loaded: whatever was wrong, it is over."""
        prompt = self._prompt(seed=3) if prompt is None else prompt
        _until(lambda: driver.serve(prompt) == self._whole(driver, prompt), "the engine loads blocks again")

    def _rests(self, driver: Driver, daemon: Daemon | None = None) -> None:
        """Nothing is held when nothing is under way."""
        with Client((daemon or self.daemon).socket_path, timeout=PATIENCE_S) as client:

            def is_free() -> bool:
                driver.rest()
                # What `Client.counters` reads may be of a moment ago.
                return bool(client.stats().get("counters", {}).get("leases") == 0)

            _until(is_free, "all leases are given back")

    def _delete(self, driver: Driver, prompt: Sequence[int], pool: int, rank: int, block: int) -> None:
        """Has the daemon lose a block."""
        part = driver.parts(prompt)[pool][rank]
        with Client(self.daemon.socket_path, timeout=PATIENCE_S) as client:
            namespace = client.namespace(part.name, block_bytes=part.block_bytes, **part.properties)
            statuses = namespace.delete([part.keys[block]])
        _expect(statuses == [Status.OK], f"block {block} of namespace {part.name} could not be deleted: {statuses}")

    def _restorable(self, driver: Driver, prompt: Sequence[int]) -> int:
        """How many tokens can be restored with what the daemon has."""
        present = []
        with Client(self.daemon.socket_path, timeout=PATIENCE_S) as client:
            for of_ranks in driver.parts(prompt):
                each = []
                for part in of_ranks:
                    namespace = client.namespace(part.name, block_bytes=part.block_bytes, **part.properties)
                    each.append(namespace.lookup(part.keys).present)
                present.append(bytes(map(min, zip(*each, strict=True))))
        most = len(prompt) if [need.rule for need in driver.needs] == [ALL] else len(prompt) - 1
        return longest(driver.needs, present, driver.unit_tokens, 0, most)


class _OtherVersion:
    """What listens as a daemon that speaks an older version of the protocol."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = f"{self._folder.name}/kvtier.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self._path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        version = protocol.VERSION_MAJOR - 1 << 16
        magic = protocol.HANDSHAKE_WELCOME_MAGIC
        welcome = protocol.HANDSHAKE_WELCOME.pack(magic, version, Status.VERSION_MISMATCH, 0, 0, 0, 0, 0)
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:
                return
            with channel, contextlib.suppress(OSError):
                channel.recv(4096)
                channel.send(welcome)

    def __enter__(self) -> str:
        return self._path

    def __exit__(self, *exception: object) -> None:
        # Only this wakes a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._folder.cleanup()


class _Lines(logging.Handler):
    """What kvtier logs that an operator sees."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "kvtier" in record.name:
            self.texts.append(record.getMessage())

    def __enter__(self) -> "_Lines":
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)


_LOGGERS = ("kvtier", "vllm.kvtier", "sglang.kvtier")


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_S:g} s in vain until {what}")
        time.sleep(0.01)
