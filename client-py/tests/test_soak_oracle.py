"""The oracle of bench/soak.py: what it takes for a broken promise, and what not."""

import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))

from soak_content import Content, Space, key  # noqa: E402
from soak_oracle import Account  # noqa: E402


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
    assert account.seen.accepted_lost == 1
    assert "client/space/2 (ACCEPTED) is missing now" in account.seen.lost[0]
    assert account.live() == [1]


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


def test_damaged_mayBeLost_untilItIsFound(account: Account) -> None:
    put(account, [1, 2])
    assert account.damage(1) and account.damage(2) and not account.damage(3)
    account.found(2)
    account.missing(1, "now")
    account.missing(2, "now")
    assert (account.seen.lost_to_damage, account.seen.accepted_lost) == (1, 1)


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
    assert account.seen.findings == ["client/space: get was answered with INTERNAL"]


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


def test_notReadFromAFailingDisk_mayBeLost(account: Account) -> None:
    put(account, [1, 2, 3])
    account.answer(account.ask("get", [1]), ["MISS"], {}, reads_fail=True)
    account.answer(account.ask("get", [2]), ["MISS"], {})
    account.answer(account.ask("get", [3]), ["OK"], {}, reads_fail=True)
    for number in (1, 2, 3):
        account.missing(number, "now")
    assert (account.seen.lost_to_damage, account.seen.accepted_lost) == (1, 2)
