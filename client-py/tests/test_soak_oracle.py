"""The oracle of bench/soak.py: what it takes for a broken promise, and what not."""

import hashlib
import random
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import REPOSITORY

from kvtier import _protocol as protocol
from kvtier._protocol import Verb

sys.path.append(str(REPOSITORY / "bench"))

from pulse import Pulse  # noqa: E402
from raw_session import fuzzed  # noqa: E402
from s3_server import BadDay, free_port  # noqa: E402
from soak_clients import Hand, Work  # noqa: E402
from soak_content import Content, Space, key  # noqa: E402
from soak_events import Trails  # noqa: E402
from soak_oracle import CHECKSUM, Account  # noqa: E402
from soak_spells import Spell, Spells, StoreWatch  # noqa: E402

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
    assert (trails.dropped_at(b"a"), trails.stored_at(b"a")) == (None, 2.0)


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
    assert trails.stored_at(b"a") == 1.0
    trails.tell(event("BlockStored", "STORAGE", b"a"), 3.0, 2)
    assert trails.stored_at(b"a") == 3.0


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
    watch.hear("06:54:51 WARN  ObjectPipeline: s3://b takes no blocks: no answer in time; until it does, those that no other tier has room for are dropped")
    assert spells.is_on(Spell.STORE_SILENT)
    watch.hear("06:54:52 INFO  ObjectPipeline: s3://b takes blocks again")
    assert spells.is_on(Spell.STORE_SILENT)
    assert not spells.covers(Spell.STORE_SILENT, time.monotonic() + 2)


# ---- clients


HAND = """
import sys
for line in sys.stdin:
    numbers = line.split()[2:]
    print(*["STATUS"] * len((numbers or ["x"])[0].split(",")), flush=True)
"""


@pytest.fixture
def work(tmp_path: Path, account: Account) -> Work:
    command = [sys.executable, "-c", HAND.replace("STATUS", "MISS")]
    return Work("client", command, [account], tmp_path / "log", Pulse(), "seed", lambda since: False)


def test_deletes_onlyWhatWasFound(work: Work, account: Account) -> None:
    put(account, [1, 2, 3])
    work._delete_seen(account, [1, 2, 3])
    assert account.live() == [1, 2, 3]
    assert "delete MISS" not in account.seen.statuses
    work.end()


def test_pause_ofAClientThatHasFailed_isAnError(work: Work, account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "blocks", None)  # each turn compares with it
    work.start()
    work.join(10)
    with pytest.raises(RuntimeError, match="client client failed"):
        work.pause()
    work.end()


def test_hand_ofAProcessThatEnds_hasNoAnswer(tmp_path: Path) -> None:
    hand = Hand([sys.executable, "-c", ""], tmp_path / "log", Pulse())
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
                while heard != [b"before"]:
                    time.sleep(0.01)
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


def test_hostileRequests_areOfAllVerbsButOne() -> None:
    dice = random.Random(1)
    verbs = {fuzzed(dice, 0, [])[protocol.REQUEST_VERB_OFFSET] for _ in range(3000)}
    assert verbs >= set(Verb) - {Verb.ADMIN} and Verb.ADMIN not in verbs
