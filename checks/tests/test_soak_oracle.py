"""The oracle of scripts/soak: which answers break a promise, and which do not."""

import contextlib
import hashlib
import os
import random
import shutil
import socket
import sys
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import eventually
from kvtier_testing.process import free_port

from checks.shared.checkout import ROOT
from checks.shared.pulse import Pulse
from checks.shared.raw_session import fuzzed
from checks.shared.s3_server import BUCKET, BadDay, S3Server
from checks.soak import excuses
from checks.soak import run as soak
from checks.soak.clients import Hand, Work
from checks.soak.content import Content, Space, key
from checks.soak.events import Trails
from checks.soak.oracle import CHECKSUM, Account
from checks.soak.samples import GROWTH_MAX, Poller, growth_findings
from checks.soak.spells import Spell, Spells, StoreWatch
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

GOLDEN = "0af2e3a6866926c94f978b662ba33d72580cb2cdfea592ea9f4b25c7357b45c5"


@pytest.fixture
def account() -> Account:
    return Account("client", Space("space", 4096), 100, 0)


def put(account: Account, numbers: list[int], status: str = "OK") -> None:
    account.answer(account.ask("put", numbers), [status] * len(numbers), {})


def test_accepted_andMissing_isLost(account: Account) -> None:
    put(account, [1, 2])
    account.found(1)
    account.missing(2, "now")
    assert account.seen.accepted == 2
    assert account.seen.ended == {"lost": 1}
    assert "client/space/2 (ACCEPTED) is missing now" in account.seen.lost[0]
    assert account.live() == [1]
    assert account.balance() == ""


def test_refused_orUnanswered_isNotPromised(account: Account) -> None:
    put(account, [1], "BUSY")
    asked = account.ask("put", [2])
    account.answer(asked, None, {})
    assert account.live() == []
    assert account.seen.unanswered == 1


def test_damagedPut_isAFinding_unlessTheWireLied(account: Account) -> None:
    account.answer(account.ask("put", [1]), ["CORRUPT"], {}, garbled=True)
    account.answer(account.ask("get", [1]), ["CORRUPT"], {})
    assert (account.seen.findings, account.seen.refused, account.unknown()) == ([], 0, [1])
    account.answer(account.ask("put", [2]), ["CORRUPT"], {})
    assert account.seen.findings == ["client/space: put was answered with CORRUPT"]
    assert (account.seen.refused, account.live()) == (0, [])


def test_memoryGoes_onlyWhatWasFlushedIsPromised(account: Account) -> None:
    put(account, [1])
    account.answer(account.ask("flush", []), ["OK"], {})
    put(account, [2])
    account.memory_goes()
    assert account.live() == [1]


def test_memoryGoes_alsoWithWhatWasFlushed_andIsOffTheDeviceAgain(account: Account) -> None:
    put(account, [1, 2])
    account.answer(account.ask("flush", []), ["OK"], {})
    account.memory_goes(lambda one: one == account.key(2))
    assert account.live() == [1]
    assert account.balance() == ""


def test_memoryGoes_betweenQuestionAndAnswer_isNotPromised(account: Account) -> None:
    put(account, [1])
    asked_put, asked_flush = account.ask("put", [2]), account.ask("flush", [])
    account.memory_goes()
    account.answer(asked_put, ["OK"], {})
    account.answer(asked_flush, ["OK"], {})
    assert account.live() == []


def test_flush_coversWhatWasAcceptedBeforeIt(account: Account) -> None:
    put(account, [1])
    asked = account.ask("flush", [])
    put(account, [2])
    account.answer(asked, ["OK"], {})
    account.memory_goes()
    assert account.live() == [1]


def test_damaged_mayBeLost_alsoAfterItWasFound_othersNot() -> None:
    damaged: set[bytes] = set()
    account = Account("client", Space("space", 4096), 100, 0, "seed", damaged)
    put(account, [1, 2])
    damaged.add(account.key(1))
    # Another copy may have been the one that was read.
    account.found(1)
    account.missing(1, "now")
    account.missing(2, "now")
    assert account.seen.ended == {"damaged": 1, "lost": 1}


def test_missing_withAnExcuse_isNotLost(account: Account) -> None:
    put(account, [1])
    account.missing(1, "now", "dropped while the store was away")
    assert account.seen.ended == {"dropped while the store was away": 1}
    assert account.seen.lost == []


def test_notAnswered_isAFinding_andStaysPromised(account: Account) -> None:
    put(account, [1])
    account.not_answered(1, "UNAVAILABLE", "now")
    assert account.live() == [1]
    assert account.seen.not_answered == 1
    assert account.seen.findings == ["client/space/1 was not answered now: UNAVAILABLE"]


def test_deleted_thatWasNotRead_isCounted(account: Account) -> None:
    put(account, [1, 2])
    account.answer(account.ask("get", [1, 2]), ["OK", "MISS"], {})
    account.answer(account.ask("delete", [1, 2]), ["OK", "MISS"], {})
    assert account.seen.deleted_unseen == 1
    assert account.seen.ended == {"deleted": 2}


def test_deleteRefused_isPromisedStill(account: Account) -> None:
    put(account, [1])
    account.answer(account.ask("delete", [1]), ["BUSY"], {})
    assert account.live() == [1]


def test_deleteRefused_whileTheMemoryWent_isNotPromised(account: Account) -> None:
    put(account, [1])
    asked = account.ask("delete", [1])
    account.memory_goes()
    account.answer(asked, ["BUSY"], {})
    assert account.live() == []
    assert account.balance() == ""


def test_changedOnAWireThatLied_isNotPromised(account: Account) -> None:
    put(account, [1, 2])
    account.answer(account.ask("put", [3]), ["OK"], {}, garbled=True)
    account.answer(account.ask("delete", [1]), ["OK"], {}, garbled=True)
    account.answer(account.ask("flush", []), ["OK"], {}, garbled=True)
    assert (account.live(), account.deleted(), sorted(account.unknown())) == ([2], [], [1, 3])
    account.memory_goes()
    assert account.live() == []
    assert account.balance() == ""


def test_putAgain_afterADelete_isPromised_andThereBefore_isBack() -> None:
    damaged: set[bytes] = set()
    account = Account("client", Space("space", 4096), 100, 0, "seed", damaged)
    put(account, [1, 2, 3])
    account.answer(account.ask("delete", [1, 2, 3]), ["OK", "OK", "OK"], {})
    damaged.add(account.key(3))
    assert account.again(10) == [1, 2]
    put(account, [1])
    put(account, [2], "EXISTS")
    assert account.live() == [1]
    assert (account.seen.put_again, account.seen.deleted_back) == (1, 1)
    assert account.balance() == ""


def test_balance_ofAllThatCanHappen(account: Account) -> None:
    dice = random.Random(1)
    for turn in range(2000):
        match dice.randrange(6):
            case 0 | 1:
                asked, statuses = account.ask("put", account.again(2) or account.fresh(2)), ["OK", "EXISTS", "BUSY", "UNAVAILABLE"]
            case 2:
                asked, statuses = account.ask("delete", dice.sample(account.live(), min(2, len(account.live())))), ["OK", "MISS", "BUSY", "UNAVAILABLE"]
            case 3:
                asked, statuses = account.ask("get", account.live()[:3]), ["OK", "MISS"]
            case 4:
                asked, statuses = account.ask("delete", account.unknown()[:2]), ["OK", "BUSY"]
            case _:
                for number in account.live()[:1]:
                    account.missing(number, "now", dice.choice((None, "excused")))
                account.forget()
                continue
        if turn % 50 == 0:
            account.memory_goes()
        answers = None if dice.random() < 0.1 else [dice.choice(statuses) for _ in asked.before]
        account.answer(asked, answers, {}, garbled=dice.random() < 0.1)
        assert account.balance() == ""
    assert len(account.seen.ended) >= 5


def test_deleted_andFound_isBack(account: Account) -> None:
    put(account, [1])
    account.answer(account.ask("delete", [1]), ["OK"], {})
    account.answer(account.ask("get", [1]), ["MISS"], {})
    assert account.seen.deleted_back == 0
    account.answer(account.ask("get", [1]), ["OK"], {})
    assert account.seen.deleted_back == 1


def test_answersThatShouldNotBe_areFindings_unlessTheWireLied(account: Account) -> None:
    account.answer(account.ask("get", [1]), ["INTERNAL"], {}, garbled=True)
    assert account.seen.findings == []
    account.answer(account.ask("get", [1]), ["INTERNAL"], {})
    account.answer(account.ask("get", [1]), [CHECKSUM], {})
    assert account.seen.findings == ["client/space: get was answered with INTERNAL", "client/space: get was answered with CHECKSUM"]


def test_wrongBytes_areCounted(account: Account) -> None:
    account.answer(account.ask("get", [1]), ["OK"], {1: 7}, garbled=False)
    assert account.seen.wrong_bytes == 7


@pytest.mark.parametrize("block_bytes", [100, 4096, 40_000, 96 << 10])
def test_content_dependsOnNothingButTheKey(block_bytes: int) -> None:
    content = Content(block_bytes)
    one, other = key("s", "space", 1), key("s", "space", 2)
    block = content.block(one)
    assert len(block) == block_bytes
    assert block == Content(block_bytes).block(one) != content.block(other)
    damaged = bytearray(b"x" + block)
    assert content.wrong_bytes(one, damaged, 1) == 0
    damaged[1 + block_bytes // 2] ^= 1
    assert content.wrong_bytes(one, damaged, 1) == 1


def test_content_isTheSameInJava() -> None:
    """SpaceTest has the same sum."""
    block = Content(40_000).block(key("golden", "space", 7))
    assert hashlib.sha256(block).hexdigest() == GOLDEN


# ---- events


def event(kind: str, medium: str, *keys: bytes) -> dict[str, object]:
    return {"type": kind, "block_hashes": list(keys), "medium": medium}


def test_dropped_isWhatLeftTheLastTier_andIsNoObject() -> None:
    trails = Trails()
    trails.tell(event("BlockStored", "CPU", b"a", b"b", b"c"), 1.0, 1)
    trails.tell(event("BlockStored", "DISK", b"a"), 2.0, 1)
    trails.tell(event("BlockStored", "STORAGE", b"c"), 2.0, 1)
    trails.tell(event("BlockRemoved", "CPU", b"a", b"b", b"c"), 3.0, 1)
    assert [trails.dropped_at(one) for one in (b"a", b"b", b"c", b"d")] == [None, 3.0, None, None]
    trails.tell(event("BlockRemoved", "DISK", b"a"), 4.0, 1)
    trails.tell(event("BlockStored", "CPU", b"b"), 4.0, 1)
    assert [trails.dropped_at(one) for one in (b"a", b"b")] == [4.0, None]
    trails.prune(5.0)
    assert trails.dropped_at(b"a") is None


def test_whatWasAnObjectWhenItLeft_wasNotDropped_alsoIfItTurnsOutToBeNone() -> None:
    trails = Trails()
    trails.tell(event("BlockStored", "CPU", b"a"), 1.0, 1)
    trails.tell(event("BlockStored", "STORAGE", b"a"), 2.0, 1)
    trails.tell(event("BlockRemoved", "CPU", b"a"), 3.0, 1)
    trails.tell(event("BlockRemoved", "STORAGE", b"a"), 4.0, 1)
    assert (trails.dropped_at(b"a"), trails.stored_at(b"a")) == (None, (2.0,))


def test_whatWasAnObjectWhenTheMemoryWent_wasSaidToBeOne_alsoIfItTurnsOutToBeNone() -> None:
    trails = Trails()
    trails.tell(event("BlockStored", "CPU", b"a"), 1.0, 1)
    trails.tell(event("BlockStored", "STORAGE", b"a"), 2.0, 1)
    trails.begin_life()
    trails.tell(event("BlockRemoved", "STORAGE", b"a"), 4.0, 2)
    assert (trails.dropped_at(b"a"), trails.stored_at(b"a")) == (None, (2.0,))


def test_whatWentOverAStart_wasNotDropped() -> None:
    trails = Trails()
    trails.tell(event("BlockStored", "CPU", b"a"), 1.0, 1)
    trails.begin_life()
    assert trails.dropped_at(b"a") is None
    assert "no tier" in trails.words(b"a")


@pytest.mark.parametrize(
    ("media", "is_only_there"), [(["CPU"], (True, True)), (["CPU", "DISK"], (False, True)), (["DISK"], (False, False)), (["CPU", "STORAGE"], (False, False))]
)
def test_onlyInMemory_isWhatNoOtherTierHas_orMayHaveLost(media: list[str], is_only_there: tuple[bool, bool]) -> None:
    trails = Trails()
    for medium in media:
        trails.tell(event("BlockStored", medium, b"a"), 1.0, 1)
    assert (trails.is_only_in_memory(b"a", True), trails.is_only_in_memory(b"a", False)) == is_only_there


def test_storedAt_isToldOnceALife() -> None:
    trails = Trails()
    trails.tell(event("BlockStored", "STORAGE", b"a"), 1.0, 1)
    trails.tell(event("BlockStored", "STORAGE", b"a"), 2.0, 1)
    assert trails.stored_at(b"a") == (1.0,)
    trails.tell(event("BlockStored", "STORAGE", b"a"), 3.0, 2)
    assert trails.stored_at(b"a") == (1.0, 3.0)
    trails.tell(event("BlockRemoved", "STORAGE", b"a"), 4.0, 2)
    assert trails.stored_at(b"a") == ()


def test_spell_lastsUntilItHasSettled() -> None:
    spells = Spells()
    before = time.monotonic()
    with spells.during(Spell.STORE_AWAY, 3600):
        assert spells.is_on(Spell.STORE_AWAY)
    assert spells.is_on(Spell.STORE_AWAY) and not spells.is_on(Spell.DISK_FAILS)
    assert not spells.covers(Spell.STORE_AWAY, before - 1) and not spells.covers(Spell.STORE_AWAY, time.monotonic() + 3601)
    with spells.during(Spell.DISK_FAILS, 0):
        pass
    assert spells.was_on(Spell.DISK_FAILS, before) and not spells.was_on(Spell.DISK_FAILS, time.monotonic() + 1)
    spells.wait_until_over(Spell.DISK_FAILS)


def test_storeWatch_hearsWhenTheDaemonGivesTheStoreARest(tmp_path: Path) -> None:
    spells = Spells()
    watch = StoreWatch(tmp_path / "log", spells)
    pipeline = (ROOT / "tiers/src/main/java/io/kvtier/tiers/object/ObjectPipeline.java").read_text()
    assert '"{} takes no blocks: {}. ' in pipeline and '"{} takes blocks again"' in pipeline, "the daemon has other words now"
    watch.hear("06:54:51 WARN  ObjectPipeline: s3://b takes no blocks: no answer in time. Until it takes blocks, those that no other tier has space for are dropped")
    assert spells.is_on(Spell.STORE_SILENT)
    watch.hear("06:54:52 INFO  ObjectPipeline: s3://b takes blocks again")
    assert spells.is_on(Spell.STORE_SILENT)
    assert not spells.covers(Spell.STORE_SILENT, time.monotonic() + 2)


# ---- excuses


class Told:
    """Trails of one block."""

    def __init__(self, dropped_at: float | None, stored_at: tuple[float, ...]) -> None:
        self._dropped_at, self._stored_at = dropped_at, stored_at

    def dropped_at(self, key: bytes) -> float | None:
        return self._dropped_at

    def stored_at(self, key: bytes) -> tuple[float, ...]:
        return self._stored_at


AWAY, SILENT, LIES, FAILS, WIRE = Spell.STORE_AWAY, Spell.STORE_SILENT, Spell.STORE_LIES, Spell.DISK_FAILS, Spell.WIRE_LIES


@pytest.mark.parametrize(
    ("on", "dropped", "stored", "excuse"),
    [
        ({AWAY}, True, False, excuses.STORE_AWAY), ({AWAY, SILENT}, True, False, excuses.STORE_AWAY), ({FAILS}, True, False, excuses.UNREADABLE),
        ({AWAY, FAILS}, True, False, excuses.STORE_OR_DISK), ({SILENT}, True, False, excuses.STORE_SILENT),
        ({FAILS, SILENT}, True, False, excuses.UNREADABLE), ({LIES}, False, True, excuses.LIED), ({LIES}, True, True, excuses.LIED),
        (set(), True, True, None), (set(), False, False, None), ({WIRE}, True, True, None), ({LIES}, True, False, None),
        ({AWAY, FAILS, SILENT}, False, True, None), (set(Spell), False, False, None),
    ],
)  # fmt: skip
def test_takenBy(on: set[Spell], dropped: bool, stored: bool, excuse: str | None) -> None:
    spells = Spells()
    for spell in on:
        with spells.during(spell, 10):
            pass
    now, before = time.monotonic(), time.monotonic() - 100
    told: Any = Told(now if dropped else None, (before, now) if stored else ())
    assert excuses.taken_by(spells, told, b"a") == excuse
    # Nothing was broken at that time.
    told = Told(before if dropped else None, (before,) if stored else ())
    assert excuses.taken_by(spells, told, b"a") is None


@pytest.mark.parametrize(
    ("dropped", "ended", "found"),
    [
        ({}, {}, 0), ({"no_room": 1}, {}, 1), ({"store_away": 3}, {excuses.STORE_AWAY: 3}, 0), ({"store_away": 3}, {excuses.STORE_AWAY: 4}, 2),
        ({"store_away": 1, "refused": 1, "being_deleted": 1}, {excuses.STORE_AWAY: 2, excuses.STORE_SILENT: 1}, 0),
        ({"store_away": 1}, {excuses.STORE_AWAY: 1, excuses.STORE_SILENT: 1}, 2), ({"unreadable": 2}, {excuses.UNREADABLE: 2}, 0),
        ({"store_away": 9, "unreadable": 1}, {excuses.UNREADABLE: 2}, 1), ({"unreadable": 9}, {excuses.STORE_AWAY: 1}, 1),
        ({"unreadable": 1}, {excuses.STORE_OR_DISK: 1}, 0), ({"store_away": 1, "unreadable": 1}, {excuses.STORE_OR_DISK: 3}, 1),
        ({}, {"deleted": 5, "lost": 1, "went with the memory": 2}, 0),
    ],
)  # fmt: skip
def test_dropsFindings(dropped: dict[str, int], ended: dict[str, int], found: int) -> None:
    assert len(excuses.drops_findings(Counter(dropped), Counter(ended))) == found


def test_storeThatIsThere_andSaidToBeSilentForLong_isAFinding() -> None:
    assert excuses.silence_findings([0.1, excuses.SILENT_MAX_S]) == []
    assert len(excuses.silence_findings([excuses.SILENT_MAX_S + 1])) == 1


def test_silenceThatCounts_isThatWithoutAnOutage(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("checks.soak.spells.time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    spells = Spells()
    spells.begin(Spell.STORE_SILENT, 50)  # from 50 on
    with spells.during(Spell.STORE_AWAY, 10):  # from 100 to 120
        now = 110.0
    now = 130.0
    assert spells.alone_s(Spell.STORE_SILENT, Spell.STORE_AWAY) == [60.0]
    spells.end(Spell.STORE_SILENT, 5)
    now = 200.0
    assert spells.alone_s(Spell.STORE_SILENT, Spell.STORE_AWAY) == [65.0]


def test_waitForASilence_hasAnEnd() -> None:
    spells = Spells()
    spells.begin(Spell.STORE_SILENT, 0)
    spells.wait_until_over(Spell.STORE_SILENT, at_most_s=0.1)
    assert spells.is_on(Spell.STORE_SILENT)


@pytest.mark.parametrize("name", soak.BROKEN)
def test_exitCode_ofEachPromise_is1_howeverItEnded(name: str) -> None:
    figures = dict.fromkeys(soak.BROKEN, 0)
    assert (soak.exit_code(True, figures, []), soak.exit_code(False, figures, [])) == (0, 3)
    assert [soak.exit_code(ended, figures | {name: 1}, []) for ended in (True, False)] == [1, 1]
    assert [soak.exit_code(ended, figures, ["something"]) for ended in (True, False)] == [1, 1]


# ---- what the daemon takes


def life(*rows: tuple[int, int, int]) -> list[dict[str, Any]]:
    return [{"life": 1, "life_s": life_s, "descriptors": descriptors, "threads": threads} for life_s, descriptors, threads in rows]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], 0), (life((60, 10, 10)), 0), (life((180, 100, 50), (4000, 150, 60)), 0), (life((60, 10, 10), (180, 900, 10), (900, 1000, 10)), 0),
        (life((180, 100, 50), (900, 101 + GROWTH_MAX["descriptors"], 50)), 1), (life((180, 100, 50), (900, 100, 51 + GROWTH_MAX["threads"])), 1),
        (life((180, 100, 50), (400, 9000, 9000)), 0),
    ],
)  # fmt: skip
def test_growth(rows: list[dict[str, Any]], found: int) -> None:
    assert len(growth_findings(rows)) == found


@pytest.mark.parametrize(("code", "is_error"), [(500, True), (502, True), (503, False), (401, False)])
def test_answersOverHttp_thatAreErrorsOfTheDaemon_areCounted(code: int, is_error: bool) -> None:
    def http(path: str) -> bytes:
        raise urllib.error.HTTPError(path, code, "words", Message(), None)

    world: Any = SimpleNamespace(http=http)
    poller = Poller(world)
    poller._poll("/metrics")
    assert poller.polls == 0 and poller.unanswered.total() == 1
    assert list(poller.errors) == ([f"/metrics was answered with {code}"] if is_error else [])


# ---- a whole soak, without its world


@pytest.fixture
def told(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A soak that is over, of one account, in which all went well."""
    monkeypatch.setattr(soak, "missing_faults", lambda world: {})
    work = SimpleNamespace(accounts=[account], hangs=[])
    world: Any = SimpleNamespace(
        seed="s", works=[work], accounts=lambda: [(work, account)], ended_by_itself=[], dropped=Counter, silent_s=list, trails=SimpleNamespace(events=1)
    )  # fmt: skip
    made = soak.Soak(world, tmp_path)
    put(account, [1])
    account.answer(account.ask("get", [1]), ["OK"], {})
    account.found(1)
    made.poller.polls = 1
    made.samples.rows = life((60, 1, 1))
    made._has_ended = True
    assert made.findings() == []
    return made


def test_soakInWhichNothingWorks_isNone(told: Any, account: Account) -> None:
    account.seen.hits = account.seen.checked = told.world.trails.events = told.poller.polls = 0
    told.samples.rows = []
    assert told.findings() == [
        "client/space: no block was got", "there were no looks at blocks", "there were no events", "there were no answers over HTTP", "there were no samples",
    ]  # fmt: skip
    told._has_ended = False
    assert told.findings() == [], "of a run that did not begin"


def test_findings_areOfAllThatTells(told: Any, account: Account) -> None:
    told.world.works[0].hangs.append("a hang")
    account.seen.findings.append("odd")
    account.seen.accepted += 1
    told.world.ended_by_itself.append("words")
    told.world.dropped = lambda: Counter(no_room=1)
    told.world.silent_s = lambda: [1000.0]
    told.poller.errors["/metrics was answered with 500"] += 2
    told.poller.failure = OSError()
    told.chores.refused["policy"] += 1
    told.broken.append("broken")
    told.samples.rows = life((180, 1, 1), (900, 1000, 1))
    assert len(told.findings()) == 11


def test_news_areToldOnce_withTheFaultsBeforeThem(told: Any, account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    told.struck += [(0.1, "grpc_stall"), (0.2, "kill_s3")]
    told._tell_news()
    account.seen.findings.append("odd")
    told._tell_news()
    told.world.works[0].hangs.append("a hang")
    account.seen.findings.append("odd")
    told._tell_news()
    told._tell_news()
    words = [line.split(" min, ")[1] for line in capsys.readouterr().err.splitlines()]
    assert words[0] == "after grpc_stall, kill_s3: odd"
    assert sorted(words[1:]) == ["after grpc_stall, kill_s3: a hang", "after grpc_stall, kill_s3: odd"]


@pytest.mark.parametrize("fails", ["start", "later"])
def test_daemonThatDoesNotStart_isAFinding_onceOneHas(fails: str, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: Any) -> None:
        raise soak.Broken("the daemon did not start")

    told._has_ended = False
    told.world.start = broken if fails == "start" else lambda: None
    monkeypatch.setattr(told.chores, "start", broken)
    if fails == "start":
        with pytest.raises(soak.Broken):
            told.run(1, 1, 1, [])
        assert told.findings() == []
    else:
        told.run(1, 1, 1, [])
        assert told.findings() == ["it could not go on: the daemon did not start"]


# ---- clients


HAND = """
import sys
for line in sys.stdin:
    numbers = line.split()[2:]
    print(*["STATUS"] * len((numbers or ["x"])[0].split(",")), flush=True)
"""


@pytest.fixture
def work(tmp_path: Path, account: Account) -> Iterator[Work]:
    command = [sys.executable, "-c", HAND.replace("STATUS", "MISS")]
    with contextlib.closing(Pulse()) as pulse:
        made = Work("client", command, [account], tmp_path / "log", pulse, "seed", lambda since: False)
        yield made
        made.end()


def test_deletes_onlyWhatWasFound(work: Work, account: Account) -> None:
    put(account, [1, 2, 3])
    work._delete_seen(account, [1, 2, 3])
    assert account.live() == [1, 2, 3]
    assert "delete MISS" not in account.seen.statuses


def test_pause_ofAClientThatHasFailed_isAnError(work: Work, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "blocks", None)  # each turn compares with it
    work.start()
    work.join(10)
    with pytest.raises(RuntimeError, match="client client failed"):
        work.pause()


def test_hand_ofAProcessThatEnds_hasNoAnswer(tmp_path: Path) -> None:
    with contextlib.closing(Pulse()) as pulse:
        hand = Hand([sys.executable, "-c", ""], tmp_path / "log", pulse)
        assert hand.ask("get space 1") is None
        hand.close()


# ---- wires


def test_stall_neverPassesTheRestOn() -> None:
    """With a part of it missing, what comes later on a connection would be read as something else."""
    heard: list[bytes] = []
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as listener:

        def listen() -> None:
            with listener.accept()[0] as one:
                while data := one.recv(1 << 16):
                    heard.append(data)

        threading.Thread(target=listen, daemon=True).start()
        wire = BadDay(("127.0.0.1", port))
        try:
            with socket.create_connection(wire.server_address[:2]) as client:
                client.settimeout(10)
                client.sendall(b"before")
                assert eventually(lambda: heard == [b"before"])
                wire.mode = "stall"
                client.sendall(b"lost")
                time.sleep(0.3)
                wire.mode = "pass"
                with pytest.raises(ConnectionResetError):
                    while client.recv(1):
                        pass
        finally:
            wire.shutdown()
            wire.server_close()
    assert heard == [b"before"]


def test_objects_folderGoesWhileTheyAreListed_theOthersAreToldOf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server(tmp_path)
    for folder in ("a/b", "a/c", "d"):
        place = tmp_path / "objects" / BUCKET / folder
        place.mkdir(parents=True)
        (place / "object").write_bytes(b"x")
    scandir = os.scandir

    def gone(path: Any) -> Any:
        if str(path).endswith("/a/c"):
            shutil.rmtree(path)
        return scandir(path)

    assert len(server.objects()) == 3
    monkeypatch.setattr(os, "scandir", gone)
    assert sorted(one.parent.name for one in server.objects()) == ["b", "d"]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's and a server's end of one connection over a wire."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = BadDay(listener.getsockname())
        try:
            with socket.create_connection(wire.server_address[:2]) as client, listener.accept()[0] as server:
                client.settimeout(20)
                server.settimeout(20)
                client.sendall(b"question")
                assert server.recv(100) == b"question"
                yield client, server
        finally:
            wire.shutdown()
            wire.server_close()


@pytest.mark.parametrize("who", ["client", "server"])
def test_resetOfOneSide_endsTheOther(who: str, ends: tuple[socket.socket, socket.socket]) -> None:
    """A process that is killed before it has read all resets its connections; who waits for its answer would do so for ever."""
    client, server = ends
    one, other = (client, server) if who == "client" else (server, client)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    one.close()
    try:
        assert other.recv(1) == b""
    except ConnectionResetError:
        pass  # that is an end, too


def test_hostileRequests_areOfAllVerbsButOne() -> None:
    dice = random.Random(1)
    verbs = {fuzzed(dice, 0, [])[protocol.REQUEST_VERB_OFFSET] for _ in range(3000)}
    assert verbs >= set(Verb) - {Verb.ADMIN} and Verb.ADMIN not in verbs
