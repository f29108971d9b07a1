"""What connectors of all engines share, without an engine."""

import asyncio
import itertools
import json
import logging
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.direct_engine import DirectEngine

import kvtier.engine
from kvtier import Client, InvalidArgument, NamespaceMismatch, Status
from kvtier.engine import (
    ALL, LAST, Found, Guard, Identity, Need, Place, Pools, PoolText, Prefix, Settings, Texts, Transfer, Transfers, find, hash_bytes, refuse,
    usable_tokens, window,
)  # fmt: skip
from kvtier.engine.find import Search
from kvtier.engine.keys import Keys, all_hash_bytes
from kvtier._protocol import Verb
from kvtier.engine.testing import PATIENCE_S, Wanted

_numbers = itertools.count()
Make = Callable[..., DirectEngine]


@pytest.fixture
def engines(daemon: Daemon) -> Iterator[Make]:
    """Makes engines that share namespaces of this test's own."""
    made: list[DirectEngine] = []
    namespace = f"shared-{next(_numbers)}"

    def make(at: Daemon = daemon, **wanted: Any) -> DirectEngine:
        engine = DirectEngine(Wanted(str(at.socket_path), namespace, **wanted))
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def prompt(count: int = 43, seed: int = 1) -> list[int]:
    return [seed * 1000 + at for at in range(count)]


def request_of(engine: DirectEngine, tokens: Sequence[int]) -> Prefix:
    return engine._request(tokens)


def leases_end(daemon: Daemon) -> bool:
    with Client(daemon.socket_path, timeout=30) as client:
        return eventually(lambda: client.counters()["leases"] == 0)


# ---- the package ----


def test_package_importsNoEngine() -> None:
    source = (
        "import sys, json, pkgutil, importlib, kvtier.engine\n"
        "for one in pkgutil.walk_packages(kvtier.engine.__path__, 'kvtier.engine.'): importlib.import_module(one.name)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, text=True).stdout)
    assert "kvtier.engine.testing" in loaded
    foreign = {"vllm", "sglang", "lmcache", "torch", "pytest"}
    assert not [name for name in loaded if name.split(".")[0] in foreign or name.startswith("kvtier.vllm")]


def test_publicNames_areThereAndSayWhatTheyAre() -> None:
    assert len(set(kvtier.engine.__all__)) == len(kvtier.engine.__all__)
    for name in kvtier.engine.__all__:
        one = getattr(kvtier.engine, name)
        if callable(one):
            assert one.__doc__ and one.__module__.startswith("kvtier."), name


# ---- keys ----


@pytest.mark.parametrize(
    ("value", "expected"), [(b"\1" * 32, b"\1" * 32), ("01ff", b"\1\xff"), (258, bytes(14) + b"\1\2"), ((1 << 128) - 1, b"\xff" * 16)]
)
def test_hash_ofAnyForm_isBytes(value: bytes | str | int, expected: bytes) -> None:
    assert hash_bytes(value) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "has 0 bytes; expected 1 to 32"), (b"x" * 33, "has 33 bytes"), ("0g", "'0g'; expected hexadecimal"), (-1, "-1; expected a number from 0"),
        (1 << 128, "below 2"), (1.5, "1.5; expected bytes"), (True, "True; expected bytes"),
    ],
)  # fmt: skip
def test_hash_thatIsNone_isNamed(value: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        hash_bytes(value)


@pytest.mark.parametrize(
    "values", [["01ff", "02FF"], ["01ff", "02"], ["01ff", b"\2"], [b"\1", "02ff"], ["ab  ", "cdef"], ["01ff", 7], [1, 2], [], ["ff" * 32] * 3]
)
def test_hashes_allAtOnce_areThoseOfEach(values: list[Any]) -> None:
    assert all_hash_bytes(values) == [hash_bytes(one) for one in values]


@pytest.mark.parametrize("values", [["01ff", "0g02"], ["", ""], ["ff" * 33] * 2, ["01ff", 1.5], ["0 1f", "02ff"], ["01f"] * 2])
def test_hashes_ofWhichOneIsNone_areRefused(values: list[Any]) -> None:
    with pytest.raises(InvalidArgument):
        all_hash_bytes(values)


# ---- identities ----


def identity(**changed: Any) -> Identity:
    given: dict[str, Any] = {
        "engine": "mine", "model": "org/model", "model_config": "c0ffee", "weights": "commit 1 of org/model", "dtype": "bfloat16", "page_tokens": 16,
        "hash": "sha256", "hash_seed": "none", "alone": "4711",
    }  # fmt: skip
    return Identity(**(given | changed))


def test_identity_wholeModel_namesItsNamespace() -> None:
    named = identity().of_model("bfloat16 plain", "2 layers")
    assert named.name == "mine/org/model/weights-23e5920a1013"
    assert named.properties == {
        "engine": "mine", "model_config": "c0ffee", "weights": "commit 1 of org/model", "processor": "none", "dtype": "bfloat16", "block_tokens": "16",
        "hash": "sha256", "hash_seed": "none", "lora": "by content", "salt": "in keys", "layout": "bfloat16 plain", "form": "2 layers",
    }  # fmt: skip


def test_identity_ranksAndPools_haveNamespacesOfTheirOwn() -> None:
    pool = PoolText.of(1, 2, 32, ["layers.1", "layers.3"], window(100))
    named = identity().of_rank("bfloat16[2x16]", Place(1, 2, 3, 4), pool)
    assert named.name.startswith("mine/org/model/group-1/pp1tp3/weights-")
    told = named.properties
    assert (told["pipeline"], told["tensor"], told["group"], told["rule"], told["block_tokens"]) == ("1 of 2", "3 of 4", "1 of 2", "window 100", "32")
    assert "form" not in told and PoolText.of(0, 1, 16, ["a"], ALL).properties == {}


def test_identity_otherWeights_haveAnotherName() -> None:
    names = {identity(weights=weights).of_model("l", "f").name for weights in ("one", "other", "")}
    assert len(names) == 3
    # Where nobody knows them, they are those of one engine alone.
    assert identity(weights="", alone="a").suffix != identity(weights="", alone="b").suffix


def test_identity_hashesThatNobodyElseCanMake_areKeptApart() -> None:
    named = identity(hash_seed=None, unseeded="engine-3").of_model("l", "f")
    assert named.name.startswith("mine/org/model/unseeded-engine-3/") and named.properties["hash_seed"] == "none, of this engine alone"


def test_identity_textsOfSeveralLines_areOne() -> None:
    named = identity(model="a\n b", dtype="x\ny").of_model("", "f")
    assert named.name.startswith("mine/a b/") and named.properties["dtype"] == "x y" and named.properties["layout"] == "none"


@pytest.mark.parametrize("policy", ["fail", "serve"])
def test_mismatch_isToldInTheWordsOfTheEngine(policy: str, caplog: pytest.LogCaptureFixture) -> None:
    texts = Texts("the file X", "SEED")
    error = NamespaceMismatch("namespace 'n' is registered with other properties: hash_seed is '1'")
    log = logging.getLogger("kvtier")
    if policy == "serve":
        refuse(error, policy, texts, log)
        text = caplog.text
    else:
        with pytest.raises(RuntimeError) as raised:
            refuse(error, policy, texts, log)
        text = str(raised.value)
    assert "hash_seed is '1'" in text and "different values of SEED" in text and "set another kvtier.namespace in the file X" in text


@pytest.mark.parametrize(
    ("changed", "property_name"),
    [({"dtype": "float16"}, "dtype"), ({"page_tokens": 32}, "block_tokens"), ({"hash": "xxh3"}, "hash"), ({"adapters": "none"}, "lora"),
     ({"salt": "none"}, "salt"), ({"engine": "other", "namespace": "one"}, "engine"), ({"model_config": "0"}, "model_config")],
)  # fmt: skip
def test_engineThatDiffers_isRefused_andTheDifferenceNamed(daemon: Daemon, changed: dict[str, str], property_name: str) -> None:
    space = f"mismatch-{next(_numbers)}"
    with Client(daemon.socket_path) as client:
        first = identity(namespace=space).of_model("l", "f")
        Pools(client).add(first, numpy.zeros((2, 64), numpy.uint8), block_tokens=16, block_bytes=64)
        other = identity(**({"namespace": space} | changed | {"namespace": space})).of_model("l", "f")
        with pytest.raises(NamespaceMismatch, match=f"{property_name} is"):
            Pools(client).add(other, numpy.zeros((2, 64), numpy.uint8), block_tokens=16, block_bytes=64)


# ---- pools ----


def test_pool_ofABuffer_copiesItsBlocks(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        memory = bytearray(b"ab" * 64)
        pools = Pools(client)
        named = identity(namespace=f"buffer-{next(_numbers)}").of_model("l", "f")
        pool = pools.add(named, memory, block_tokens=16, block_bytes=32, rule=LAST)
        assert (pool.group.number, pool.group.rule, pool.group.is_offered, pool.region.blocks) == (0, LAST, True, 4)
        transfers = Transfers(pools.regions, Settings(), Guard(logging.getLogger("kvtier")))
        assert transfers.put(Transfer("r", [b"k" * 8], [1], 0)) == [Status.OK]
        memory[32:64] = bytes(32)
        assert transfers.get([Transfer("r", [b"k" * 8], [3], 0), Transfer("r", [b"n" * 8], [2], 1)]) == [Status.OK, Status.MISS]
        assert bytes(memory[96:]) == b"ab" * 16
        pools.close()
        assert len(pools) == 0


@pytest.mark.parametrize(
    ("memory", "text"), [(bytes(64), "read-only or has gaps"), (bytearray(60), "60 bytes; expected a multiple of the 32"), (bytearray(), "0 bytes")]
)
def test_pool_ofABufferThatDoesNotFit_saysSo(daemon: Daemon, memory: Any, text: str) -> None:
    with Client(daemon.socket_path) as client, pytest.raises(InvalidArgument, match=text):
        Pools(client).add(identity().of_model("l", "f"), memory, block_tokens=16, block_bytes=32)


def test_pools_haveNames(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as client:
        pools = Pools(client)
        named = [identity(namespace=f"named-{next(_numbers)}").of_model("l", "f") for _ in range(2)]
        pools.add(named[0], bytearray(64), name="kv", block_tokens=16, block_bytes=32)
        states = pools.add(named[1], bytearray(64), name="states", block_tokens=16, block_bytes=64, rule=LAST)
        assert pools.named("states") is states is pools[1] and [group.number for group in pools.groups] == [0, 1]
        with pytest.raises(InvalidArgument, match="two pools 'kv'"):
            pools.add(named[0], bytearray(64), block_tokens=16, block_bytes=32)
        with pytest.raises(InvalidArgument, match="no pool 'index'; there are 'kv', 'states'"):
            pools.named("index")


def test_weights_areTheBestThatIsKnown() -> None:
    texts = Texts("the file X")
    known = {"named": "n", "files": "commit 1 of m", "loaded": "d1"}
    found = []
    for missing in ("", "named", "files", "loaded"):
        known |= {missing: ""} if missing else {}
        found.append(texts.weights("m", **known))
    assert [one.text for one in found] == ["named n", "commit 1 of m", "loaded d1", ""]
    assert [bool(one.advice) for one in found] == [False, False, True, True]
    assert "Set kvtier.weights in the file X" in found[-1].advice


# ---- transfers ----


def load_of(*parts: tuple[int, int, int]) -> list[Transfer]:
    """(pool, first block, blocks) of each."""
    return [Transfer("r", [bytes([at]) for at in range(count)], list(range(count)), depth, group=pool) for pool, depth, count in parts]


OK, MISS = Status.OK, Status.MISS
FULL, WINDOW = Need(4, ALL), Need(4, window(6))


@pytest.mark.parametrize(
    ("statuses", "had", "expected"),
    [([OK] * 4, 0, 16), ([OK, MISS, OK, OK], 0, 4), ([MISS, OK, OK, OK], 0, 0), ([OK, OK], 8, 16), ([OK, MISS], 8, 12), ([MISS, OK], 8, 8)],
)  # fmt: skip
def test_usableTokens_endAtTheFirstHole(statuses: list[Status], had: int, expected: int) -> None:
    assert usable_tokens([FULL], load_of((0, had // 4, len(statuses))), statuses, 4, had) == expected


def test_usableTokens_countAPage_whenAllItsPoolsAreIn() -> None:
    # At 16 tokens the window needs its last two blocks.
    parts = load_of((0, 0, 4), (1, 2, 2))
    assert usable_tokens([FULL, WINDOW], parts, [OK] * 6, 4) == 16
    # Before the window nothing was loaded, so that no shorter length does.
    assert usable_tokens([FULL, WINDOW], parts, [OK] * 5 + [MISS], 4) == 0
    assert usable_tokens([FULL, WINDOW], load_of((0, 0, 4), (1, 0, 4)), [OK] * 7 + [MISS], 4) == 12


def test_transfers_withoutADaemon_areStatuses(tmp_path: Path) -> None:
    with Client(tmp_path / "none.sock", timeout=0.1) as client:
        pools = Pools(client)
        pools.add(identity().of_model("l", "f"), bytearray(64), block_tokens=16, block_bytes=32)
        guard = Guard(logging.getLogger("kvtier"))
        transfers = Transfers(pools.regions, Settings(), guard)
        assert transfers.put(Transfer("r", [b"k"], [0], 0)) == [Status.UNAVAILABLE]
        assert transfers.get([Transfer("r", [b"k"], [0], 0)]) == [Status.UNAVAILABLE]
        assert guard.observed["refused_blocks"] == guard.observed["load_failed_blocks"] == 1


def test_transfers_thatMakeNoSense_areStatuses_andToldOnce(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines()
    for _ in range(3):
        assert engine.transfers[0].get([Transfer("r", [b"k"], [10_000], 0)]) == [Status.UNAVAILABLE]
    assert caplog.text.count("cannot load blocks") == 1


# ---- searches ----


def test_search_holdsWhatItFinds_untilItIsReleased(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.search is not None
    with Client(daemon.socket_path) as client, engine.search.find(request_of(engine, prompt())) as found:
        assert found and (found.tokens, found.had_tokens, list(found.blocks[0])) == (40, 0, list(range(10)))
        assert eventually(lambda: client.counters()["leases"] == 10) and found.expires_ns > 0
    assert leases_end(daemon)
    found.release()


def test_count_isOfWhatASearchFinds_andHoldsNothing(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    assert engine.search is not None
    assert engine.search.count(request_of(engine, prompt())) == 0
    engine.serve(prompt())
    assert engine.search.count(request_of(engine, prompt())) == 40
    with Client(daemon.socket_path) as client:
        assert client.counters()["leases"] == 0


def test_count_ofWhatIsNoKey_isAMiss_andTold(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.search is not None
    assert engine.search.count(request_of(engine, prompt())._replace(block_hashes=["no key"] * 10)) == 0
    assert "cannot look up blocks" in caplog.text


def digits_of(engine: DirectEngine, tokens: Sequence[int]) -> list[str]:
    return [one.hex() for one in request_of(engine, tokens).block_hashes]


def test_countPages_isOfWhatCountFinds_whateverTheHashesAreWrittenAs(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    search = engine.search
    assert search is not None
    digits = digits_of(engine, prompt())
    assert search.count_pages(digits) == 0 and search.count_pages([]) == 0
    engine.serve(prompt())
    others = digits_of(engine, prompt(seed=2))
    for hashes in (digits, tuple(digits), [bytes.fromhex(one) for one in digits], [*digits[:-1], bytes.fromhex(digits[-1])]):
        assert search.count_pages(hashes) == search.count(Prefix.of("", hashes, 4)) // 4 == 10
        assert search.count_pages(hashes, waits_for_objects=False) == 10
    assert search.count_pages(digits[:6] + others[6:]) == 6 and search.count_pages(others) == 0
    with Client(daemon.socket_path) as client:
        assert client.counters()["leases"] == 0


def test_countPages_ofAModelWithTwoPools_isWhatCountFinds(engines: Make) -> None:
    engine = engines(pools=2)
    assert engine.search is not None
    engine.serve(prompt())
    assert engine.search.count_pages(digits_of(engine, prompt())) == engine.search.count(request_of(engine, prompt())) // 4 == 10


@pytest.mark.parametrize("seed", [1, 2])
def test_countPages_asksOnce_alsoForAMiss(engines: Make, daemon: Daemon, seed: int) -> None:
    engine = engines()
    search = engine.search
    assert search is not None
    engine.serve(prompt())
    digits = digits_of(engine, prompt(seed=seed))
    with Client(daemon.socket_path) as client:
        before, observed = client.counters()["lookup_blocks"], engine.guard.observed["lookups"]
        assert search.count_pages(digits) == (10 if seed == 1 else 0)
        assert client.counters()["lookup_blocks"] == before + 10 and engine.guard.observed["lookups"] == observed + 1
    assert engine.guard.observed["hit_blocks"] == (10 if seed == 1 else 0)


@pytest.mark.parametrize("waits", [True, False])
def test_countPages_asksAgain_ifItWaitsForTheObjectStore(engines: Make, daemon: Daemon, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines(lookup_s_max=2.0)
    assert engine.search is not None
    engine.serve(prompt())
    digits = digits_of(engine, prompt(seed=2))
    told = iter([1, 1, 0])
    monkeypatch.setattr(find, "sought_blocks", lambda answers: next(told))
    with Client(daemon.socket_path) as client:
        before = client.counters()["lookup_blocks"]
        assert engine.search.count_pages(digits, waits_for_objects=waits) == 0
        assert client.counters()["lookup_blocks"] == before + (30 if waits else 10)


@pytest.mark.parametrize(("changed", "expected"), [({"load": False}, 0), ({"load_blocks_min": 11}, 0), ({"load_blocks_min": 10}, 10)])
def test_countPages_followsTheSettings_andAsksOnlyForWhatCanBeLoaded(
    engines: Make, daemon: Daemon, changed: dict[str, Any], expected: int
) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.client is not None
    search = Search(engine.client, engine.pools[0].groups, replace(engine.settings, **changed), 4, Keys(), Guard(logging.getLogger("kvtier")))
    with Client(daemon.socket_path) as client:
        before = client.counters()["lookup_blocks"]
        assert search.count_pages(digits_of(engine, prompt())) == expected
        assert client.counters()["lookup_blocks"] == before + expected
    search.close()


def test_countPages_hasOneDeadline_howeverOftenItAsks(engines: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines(lookup_s_max=0.2)
    assert engine.search is not None
    engine.serve(prompt())
    deadlines_ns: list[int] = []
    may_ask_again = find._may_ask_again

    def noted(answer_by_ns: int) -> bool:
        deadlines_ns.append(answer_by_ns)
        return may_ask_again(answer_by_ns)

    monkeypatch.setattr(find, "sought_blocks", lambda answers: 1)
    monkeypatch.setattr(find, "_may_ask_again", noted)
    assert engine.search.count_pages(digits_of(engine, prompt(seed=2))) == 0
    assert len(deadlines_ns) > 2 and len(set(deadlines_ns)) == 1


@pytest.mark.parametrize(
    ("run", "load_s", "is_text", "expected", "declined"),
    [(10, 0.0, False, 10, 0), (10, 0.4, False, 10, 0), (10, 0.6, False, 0, 10), (3, 0.6, False, 0, 3), (10, 0.0, True, 0, 0)],
)  # fmt: skip
def test_countPages_judgesTheEstimateOfTheAnswer_andRefusesAnotherForm(
    engines: Make, monkeypatch: pytest.MonkeyPatch, run: int, load_s: float, is_text: bool, expected: int, declined: int
) -> None:
    engine = engines()
    assert engine.client is not None
    connection = engine.client._connection
    link = connection.link(time.monotonic_ns() + 10**9)
    assert link is not None
    failures: list[str] = []
    results = struct.pack("<HBB", Status.OK, 2, 0) * run + struct.pack("<HBB", Status.MISS, 0, 0) * (10 - run)
    session = SimpleNamespace(
        lookup_digits=lambda *_: (Status.OK, run, int(load_s * 1e9), results, is_text, Verb.LOOKUP), ended=False, fail=failures.append
    )
    monkeypatch.setattr(connection, "link", lambda deadline_ns: SimpleNamespace(session=session, namespaces=link.namespaces))
    settings = replace(engine.settings, load_s_max=0.5)
    search = Search(engine.client, engine.pools[0].groups, settings, 4, Keys(), Guard(logging.getLogger("kvtier")))
    assert search.count_pages(digits_of(engine, prompt())) == expected
    assert search._guard.observed["declined_blocks"] == declined and bool(failures) is is_text
    search.close()


def test_countPages_ofWhatIsNoHash_isAMiss_andTold(engines: Make, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines()
    assert engine.search is not None
    assert engine.search.count_pages(["no key"] * 10) == engine.search.count_pages(["00", "0000"]) == 0
    assert caplog.text.count("cannot look up blocks") == 2


@pytest.mark.parametrize("state", ["killed", "hangs", "started again"])
def test_countPages_hasItsAnswerInTime(fresh_daemon: Daemon, state: str) -> None:
    lookup_s_max = 1.0 if state == "hangs" else PATIENCE_S
    engine = DirectEngine(Wanted(str(fresh_daemon.socket_path), "pages", lookup_s_max=lookup_s_max))
    search = engine.search
    assert search is not None
    try:
        engine.serve(prompt())
        digits = digits_of(engine, prompt())
        if state == "hangs":
            fresh_daemon.pause()
        else:
            fresh_daemon.kill()
        if state == "started again":
            fresh_daemon.start()
        assert search.count_pages(digits) == 0
        if state == "started again":
            engine.serve(prompt())
            assert search.count_pages(digits) == 10
        assert bool(engine.guard.observed["lookups_late"]) is (state == "hangs")
        # A daemon that did not answer is not asked for a while, and one that is absent not at all.
        before = engine.guard.observed["lookups"]
        assert state == "started again" or (search.count_pages(digits) == 0 and engine.guard.observed["lookups"] == before)
    finally:
        engine.close()


def test_search_ofAnEngineThatHasTheBeginning_holdsTheRest(engines: Make) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.search is not None
    with engine.search.find(request_of(engine, prompt()), 12) as found:
        assert (found.tokens, list(found.blocks[0]), len(found.keys[0])) == (40, list(range(3, 10)), 7)
    assert not engine.search.find(request_of(engine, prompt()), 40)
    assert not engine.search.find(request_of(engine, prompt()), 13)


def test_search_thatNobodyKeeps_isReleased(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.search is not None
    assert engine.search.find(request_of(engine, prompt())).tokens == 40
    assert leases_end(daemon)


def test_search_inManyThreads_findsTheSame(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    engine.serve(prompt())
    search, request = engine.search, request_of(engine, prompt())
    assert search is not None
    seen: list[int] = []

    def ask() -> None:
        for _ in range(50):
            with search.find(request) as found:
                seen.append(found.tokens)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [40] * 200 and engine.guard.observed["lookups"] == 201
    assert leases_end(daemon)


@pytest.mark.parametrize("face", ["blocking", "asyncio", "eventfd"])
@pytest.mark.parametrize("state", ["there", "killed", "hangs"])
def test_everyFace_hasItsAnswerInTime(fresh_daemon: Daemon, face: str, state: str) -> None:
    lookup_s_max = 1.0 if state == "hangs" else PATIENCE_S
    engine = DirectEngine(Wanted(str(fresh_daemon.socket_path), "faces", lookup_s_max=lookup_s_max), face)
    try:
        engine.serve(prompt())
        if state == "killed":
            fresh_daemon.kill()
        elif state == "hangs":
            fresh_daemon.pause()
        assert engine.find(prompt()) == (40 if state == "there" else 0)
        assert bool(engine.guard.observed["lookups_late"]) is (state == "hangs")
        # A daemon that did not answer is not asked for a while.
        before = engine.guard.observed["lookups"]
        assert state != "hangs" or (engine.find(prompt(seed=2)) == 0 and engine.guard.observed["lookups"] == before)
    finally:
        engine.close()


def test_coroutineThatIsCancelled_releasesWhatWasFound(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    engine.serve(prompt())
    search, request = engine.search, request_of(engine, prompt())
    assert search is not None
    begun, go_on = threading.Event(), threading.Event()
    real = search.find

    def slow(*arguments: Any, **more: Any) -> Found:
        found = real(*arguments, **more)
        begun.set()
        assert go_on.wait(30)
        return found

    monkeypatch.setattr(search, "find", slow)

    async def ask() -> None:
        task = asyncio.ensure_future(search.find_async(request))
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())
    go_on.set()
    assert leases_end(daemon)


def test_descriptor_canBeRead_whenASearchHasEnded(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    engine.serve(prompt())
    search = engine.search
    assert search is not None
    assert not select.select([search.fileno()], [], [], 0)[0]
    requests = [request_of(engine, prompt()) for _ in range(3)]
    for one in requests:
        search.begin(one)
    ended: dict[str, Found] = {}
    while len(ended) < 3:
        assert select.select([search.fileno()], [], [], 30)[0]
        ended |= dict(search.ended())
    assert {one.request_id for one in requests} == set(ended) and {one.tokens for one in ended.values()} == {40}
    assert not select.select([search.fileno()], [], [], 0)[0]
    for one in ended.values():
        one.release()
    assert leases_end(daemon)


def test_searchesThatAreDropped_orNeverTaken_areReleased(engines: Make, daemon: Daemon) -> None:
    engine = engines()
    engine.serve(prompt())
    search = engine.search
    assert search is not None
    requests = [request_of(engine, prompt()) for _ in range(4)]
    for one in requests:
        search.begin(one)
    search.drop(requests[0].request_id)
    assert select.select([search.fileno()], [], [], 30)[0]
    search.drop(requests[1].request_id)
    search.close()
    assert leases_end(daemon)


def test_slowTier_isComputed_unlessItIsWanted(engines: Make) -> None:
    engine = engines()
    engine.serve(prompt())
    assert engine.search is not None
    assert engine.search._is_worth_it(10, 0.5)
    assert not engine.search._is_worth_it(10, 20.0)
    assert engine.guard.observed["declined_blocks"] == 10


# ---- the guard ----


def test_guard_leavesADaemonAlone_thatHasOtherProperties(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(logging.getLogger("kvtier"), "they differ.")
    assert guard.may_ask()
    for _ in range(2):
        guard.judge([Status.OK, Status.NAMESPACE_MISMATCH])
    assert guard.is_refused and not guard.may_ask()
    assert caplog.text.count("they differ. Until then") == 1


def test_guard_tellsADifferentTextOnce_andNotEndlessly(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(logging.getLogger("kvtier"))
    for number in range(100):
        guard.tell(f"text {number}.")
        guard.tell(f"text {number}.")
    assert caplog.text.count("kvtier: text") == 64
