"""The book on blocks that other engines get from an engine's own memory: no block changes while they may read it."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kvtier import Status
from kvtier.engine.sharing import Coming, Sharing

PLACES = 12


class Memory:
    """Places with contents, and what the daemon was told of them. `refuses`: the answers to the next advertisements."""

    def __init__(self) -> None:
        self.contents: list[bytes] = [b""] * PLACES
        self.advertised: dict[bytes, int] = {}
        self.registrations = 1
        self.rank = -1
        self.refuses: list[Status] = []
        self.late = 0
        """how many revocations are answered too late"""
        self.calls: list[str] = []

    def advertise(self, keys: Sequence[bytes], block_ids: Sequence[int], *, rank: int = 0) -> list[Status]:
        self.calls.append("advertise")
        self.rank = rank
        statuses = []
        for key, block in zip(keys, block_ids, strict=True):
            status = self.refuses.pop(0) if self.refuses else Status.OK
            if status is Status.OK and key in self.advertised:
                status = Status.EXISTS if self.advertised[key] == block else Status.BUSY
            if status in (Status.OK, Status.DEADLINE):
                self.advertised[key] = block
            statuses.append(status)
        return statuses

    def revoke(self, keys: Sequence[bytes]) -> list[Status]:
        self.calls.append("revoke")
        if self.late:
            self.late -= 1
            return [Status.DEADLINE] * len(keys)
        return [Status.MISS if self.advertised.pop(key, None) is None else Status.OK for key in keys]

    def restart(self) -> None:
        self.advertised.clear()
        self.registrations += 1

    def write(self, block: int, content: bytes) -> None:
        assert block not in self.advertised.values(), f"others may read block {block}, which is written to"
        self.contents[block] = content

    def check(self) -> None:
        for key, block in self.advertised.items():
            assert self.contents[block] == key, f"block {block} was advertised as {key!r}, and is {self.contents[block]!r}"


def shared(sharing: Sharing, memory: Memory, keys: Sequence[bytes], blocks: Sequence[int]) -> Coming:
    """As an engine computes blocks and stores them."""
    sharing.take_back(blocks)
    for key, block in zip(keys, blocks, strict=True):
        memory.write(block, key)
    coming = sharing.begin(0, keys, blocks)
    sharing.end(coming, [True] * len(keys))
    return coming


def test_completeBlocks_areAdvertisedTogetherUnderTheirRank() -> None:
    memory = Memory()
    sharing = Sharing([memory], 7)
    shared(sharing, memory, [b"a", b"b"], [3, 4])
    shared(sharing, memory, [b"c"], [5])
    sharing.tell()
    sharing.tell()
    assert memory.advertised == {b"a": 3, b"b": 4, b"c": 5}
    assert memory.calls == ["advertise"] and memory.rank == 7
    assert sharing.observed["advertised_blocks"] == 3


def test_blockThatIsNotComplete_isNotAdvertised() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    coming = sharing.begin(0, [b"a", b"b"], [1, 2])
    sharing.tell()
    assert memory.calls == []
    sharing.end(coming, [True, False])
    sharing.tell()
    assert memory.advertised == {b"a": 1}


def test_placeIsWrittenAnewWhileItsBlockIsBeingStored_theBlockIsNotAdvertised() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    first = sharing.begin(0, [b"a"], [1])
    sharing.take_back([1])
    # The same tokens again, of which some are still to be computed.
    sharing.begin(0, [b"a"], [1])
    sharing.end(first, [True])
    sharing.tell()
    assert memory.calls == []


def test_takenBack_onlyWhatWasAdvertisedIsRevoked() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    sharing.take_back([1, 2])
    assert memory.calls == []
    shared(sharing, memory, [b"a", b"b"], [1, 2])
    sharing.tell()
    sharing.take_back([2, 9])
    assert memory.advertised == {b"a": 1}
    sharing.take_back([2])
    assert memory.calls == ["advertise", "revoke"]
    sharing.take_back(None)
    assert memory.advertised == {}


def test_daemonDoesNotAnswerARevocation_theEngineAsksUntilItDoes() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    shared(sharing, memory, [b"a"], [1])
    sharing.tell()
    memory.late = 3
    sharing.take_back([1])
    assert memory.advertised == {} and memory.calls.count("revoke") == 4


def test_keyStandsInTwoPlaces_oneIsAdvertised_andTheOtherMayBeWrittenTo() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    shared(sharing, memory, [b"a"], [1])
    sharing.tell()
    shared(sharing, memory, [b"a"], [2])
    sharing.tell()
    sharing.take_back([2])
    assert memory.advertised == {b"a": 1}


def test_daemonIsStartedAgain_allIsAdvertisedAgain() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    shared(sharing, memory, [b"a", b"b"], [1, 2])
    sharing.tell()
    memory.restart()
    sharing.take_back([2])
    sharing.tell()
    assert memory.advertised == {b"a": 1}


def test_noDaemon_itIsNotAskedAtEachStep_andAsksLater(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kvtier.engine.sharing.time.monotonic", lambda: now[0])
    memory = Memory()
    sharing = Sharing([memory], 0)
    shared(sharing, memory, [b"a"], [1])
    memory.refuses = [Status.UNAVAILABLE]
    sharing.tell()
    sharing.tell()
    assert memory.calls == ["advertise"]
    now[0] += 2
    sharing.tell()
    assert memory.advertised == {b"a": 1}


def test_advertisementWithoutAnAnswer_isRevokedAllTheSame() -> None:
    memory = Memory()
    sharing = Sharing([memory], 0)
    shared(sharing, memory, [b"a"], [1])
    memory.refuses = [Status.DEADLINE]
    sharing.tell()
    shared(sharing, memory, [b"b"], [1])
    memory.check()
    assert memory.advertised == {}


def test_memoryThatCantBeShared_isLeftAlone() -> None:
    class Refusing(Memory):
        def advertise(self, keys: Sequence[bytes], block_ids: Sequence[int], *, rank: int = 0) -> list[Status]:
            self.calls.append("advertise")
            raise ValueError("no such block")

    refusing, memory = Refusing(), Memory()
    sharing = Sharing([refusing, None, memory], 0)
    for group in range(3):
        sharing.end(sharing.begin(group, [b"a"], [group]), [True])
    sharing.tell()
    sharing.end(sharing.begin(0, [b"b"], [5]), [True])
    sharing.end(sharing.begin(1, [b"b"], [5]), [True])
    sharing.tell()
    sharing.take_back([0, 1, 5])
    assert refusing.calls == ["advertise"] and memory.advertised == {b"a": 2}


@pytest.mark.parametrize("seed", range(200))
def test_anyOrderOfEvents_noBlockChangesWhileOthersMayReadIt(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory()
    sharing = Sharing([memory], 0)
    under_way: list[Any] = []

    def compute() -> None:
        blocks = chance.sample(range(PLACES), chance.randint(1, 4))
        # An engine waits for what is being stored from a place before it writes there; it may hear of it later.
        sharing.take_back(blocks)
        keys = [bytes([chance.randrange(6)]) for _ in blocks]
        for key, block in zip(keys, blocks, strict=True):
            memory.write(block, key)
        under_way.append((sharing.begin(0, keys, blocks), [chance.random() < 0.8 for _ in blocks]))

    def ended() -> None:
        if under_way:
            sharing.end(*under_way.pop(chance.randrange(len(under_way))))

    def refused() -> None:
        memory.refuses = [chance.choice([Status.BUSY, Status.DEADLINE, Status.OK]) for _ in range(3)]

    for _ in range(120):
        chance.choice([compute, compute, ended, ended, sharing.tell, sharing.tell, refused, memory.restart])()
        sharing._paused_until_s = 0.0
        memory.check()
    sharing.take_back(None)
    assert memory.advertised == {}
