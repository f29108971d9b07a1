"""What requests ask of the cache: read, checked, and never a reason to fail."""

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import BLOCK_TOKENS, Engine, Request, config

from kvtier import Client
from kvtier.engine.guard import Guard
from kvtier.engine.wishes import Wishes, WishReader

PROMPT = list(range(6 * BLOCK_TOKENS + 3))


@pytest.fixture
def reader() -> WishReader:
    return WishReader(Guard(logging.getLogger("kvtier")))


def test_allWishes_areRead(reader: WishReader) -> None:
    said = {
        "store": False, "load": False, "load_max_tokens": 4096, "keep_s": 600, "priority": 3, "expect_tokens": 512, "expect_s": 2,
        "expect_from": "prefill-0",
    }  # fmt: skip
    assert reader.of({"kvtier": said, "other": 1}) == Wishes(False, False, 4096, 600.0, 3, 512, 2.0, "prefill-0")


def test_nothingSaid_isUsual(reader: WishReader) -> None:
    usual = Wishes(True, True, sys.maxsize, 0.0, 1, 0, None, "")
    for source in (None, {}, {"kvtier": None}, {"kvtier": {}}, [], "kvtier", 5):
        assert reader.of(source) == usual
    assert reader.of() == usual


def test_twoSources_theFirstCountsForEachWish(reader: WishReader) -> None:
    assert reader.of({"kvtier": {"store": False}}, {"kvtier": {"store": True, "keep_s": 5}}) == Wishes(store=False, keep_s=5.0)


def test_text_isReadAsJson(reader: WishReader) -> None:
    assert reader.of({"kvtier": '{"priority": 0, "keep_s": 1.5}'}) == Wishes(keep_s=1.5, priority=0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"store": 1}, "store=1, which is ignored; expected true or false"),
        ({"load": "yes"}, "load='yes', which is ignored; expected true or false"),
        ({"load_max_tokens": -1}, "load_max_tokens=-1, which is ignored; expected a whole number of tokens, 0 or more"),
        ({"load_max_tokens": True}, "load_max_tokens=True"),
        ({"keep_s": float("nan")}, "keep_s=nan, which is ignored; expected seconds, from 0 and below 1e9"),
        ({"keep_s": 1e9}, "keep_s=1000000000.0"),
        ({"priority": 4}, "priority=4, which is ignored; expected a whole number from 0 to 3"),
        ({"priority": 1.0}, "priority=1.0"),
        ({"expect_tokens": 1.5}, "expect_tokens=1.5, which is ignored; expected a whole number of tokens, 0 or more"),
        ({"expect_s": 601}, "expect_s=601, which is ignored; expected seconds, from 0 to 600"),
        ({"expect_s": True}, "expect_s=True"),
        ({"expect_from": 7}, "expect_from=7, which is ignored; expected the name or the address of a node"),
        ({"expect_from": "n" * 256}, "which is ignored; expected the name or the address of a node, at most 255 characters"),
        ({"ttl": 5}, "asks for 'ttl', which is ignored; it can ask for store, load, load_max_tokens, keep_s, expect_tokens, expect_s, expect_from, priority"),
        ([1], "'kvtier' of a request is [1]; expected a dictionary"),
        ("{", "'kvtier' of a request is '{'; expected a dictionary, or one as a text in JSON"),
        ("x" * 1000, "x..."),
    ],
)
def test_wishWithoutSense_isIgnoredAndToldOnce(
    reader: WishReader, caplog: pytest.LogCaptureFixture, said: Any, told: str
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert reader.of({"kvtier": said}) == Wishes()
    assert len(caplog.messages) == 1 and told in caplog.messages[0]


def test_wishWithoutSense_leavesTheOthers(reader: WishReader) -> None:
    assert reader.of({"kvtier": {"priority": "high", "keep_s": 3}}) == Wishes(keep_s=3.0)


def made(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, name: str) -> Engine:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    return Engine(config({"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": name, "kvtier.weights": "one"}), monkeypatch)


def test_vllm_readsSamplingArgumentsToo(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = made(daemon, monkeypatch, "sampling")
    request = Request("a", PROMPT)
    request.sampling_params = SimpleNamespace(extra_args={"kvtier": '{"keep_s": 300}'})
    try:
        engine.run(request)
        engine.settle()
        with Client(daemon.socket_path, timeout=60) as client:
            assert eventually(lambda: engine.step() is None and client.stats()["retained"]["blocks"] >= 6)
    finally:
        engine.close()


def test_vllm_keptPromptThatItHasItself_isRetainedAllTheSame(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own cache has the prompt, so nothing is loaded or stored."""
    first = made(daemon, monkeypatch, "own")
    try:
        first.run(Request("a", PROMPT))
        first.settle()
        wishing = Request("b", PROMPT)
        wishing.kv_transfer_params = {"kvtier": {"keep_s": 300, "store": False, "load": False}}
        first.run(wishing)
        with Client(daemon.socket_path, timeout=60) as client:
            before = client.stats()["retained"]["blocks"]
            assert eventually(lambda: first.step() is None and client.stats()["retained"]["blocks"] >= 6), before
    finally:
        first.close()


def test_vllm_moreThanTheQuota_isToldAndServed(
    stopped_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped_daemon.start(limits__retained="0")
    engine = made(stopped_daemon, monkeypatch, "over")
    try:
        for number in range(3):
            request = Request(f"r{number}", [number, *PROMPT])
            request.kv_transfer_params = {"kvtier": {"keep_s": 300}}
            engine.run(request)
            engine.settle()
        assert eventually(lambda: engine.step() is None and "of the quota of 0 B" in caplog.text)
        assert caplog.text.count("are not kept as long as it asks for") == 1
    finally:
        engine.close()
