"""How often a daemon is asked about blocks that another engine computes."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from kvtier._operations import Hold
from kvtier._protocol import KEYS_MAX, Status
from kvtier.engine.expected import Expectations, Expected
from kvtier.engine.inbound import Inbounds
from kvtier.engine.wishes import Wishes


def asked_at(expected: Expected, seconds: float, waiting: int = 1, status: Status = Status.MISS) -> list[float]:
    """When the daemon is asked, if its answer is always this one."""
    times = []
    for ms in range(int(seconds * 1000)):
        if expected.is_due(ms / 1000):
            times.append(ms / 1000)
            assert not expected.has_answer([status], 1.0, ms / 1000, waiting)
    return times


def test_missingBlock_isAskedForOftenAtFirst_thenTwentyTimesASecond() -> None:
    times = asked_at(Expected(4, 0.0, 60.0), 10.0)
    assert len([one for one in times if one < 0.1]) >= 5
    assert 19 <= len([one for one in times if 5 <= one < 6]) <= 21


@pytest.mark.parametrize("waiting", [100, 1000])
def test_manyThatWait_askTogetherAThousandTimesASecond(waiting: int) -> None:
    times = asked_at(Expected(4, 0.0, 60.0), 10.0, waiting)
    assert len(times) * waiting <= 10_000 + 2 * waiting


def test_answerOnItsWay_isAskedForAtOnce_andNotOfTheNodesAgain() -> None:
    expected = Expected(4, 0.0, 60.0)
    assert expected.is_fresh
    assert not expected.has_answer([Status.PENDING], 1.0, 0.0, 1)
    assert expected.is_due(0.0) and not expected.is_fresh
    assert not expected.has_answer([Status.MISS], 1.0, 0.0, 1)
    assert not expected.is_due(0.0) and expected.is_fresh


def test_answerThatStaysAway_isAskedForLessOften() -> None:
    times = asked_at(Expected(4, 0.0, 60.0), 10.0, 1, Status.PENDING)
    assert len([one for one in times if 5 <= one < 6]) <= 100


def test_lastBlockIsThere_theOthersAreWaitedForShortly() -> None:
    expected = Expected(4, 0.0, 60.0)
    assert expected.has_answer([Status.OK, Status.OK], 2.0, 10.0, 1)
    assert expected.until_s == 12.0 and expected.is_fresh


@pytest.mark.parametrize("status", [Status.UNAVAILABLE, Status.DEADLINE, Status.NAMESPACE_MISMATCH])
def test_daemonThatDoesNotServe_isNotWaitedFor(status: Status) -> None:
    expected = Expected(4, 0.0, 60.0)
    assert expected.has_answer([status], 2.0, 10.0, 1)
    assert expected.until_s == 10.0


def test_requestWaitsOnce_untilItEnds() -> None:
    counted: Counter[str] = Counter()
    expectations = Expectations(16, 10.0, counted)
    wishes = Wishes(expect_tokens=70)
    first = expectations.of("a", wishes, 100, 0.0)
    assert first is not None and first.units == 4 and first.until_s == 10.0
    assert expectations.of("a", wishes, 100, 5.0) is first and expectations.waiting == 1
    expectations.end(first, 3, 6.0)
    assert expectations.of("a", wishes, 100, 7.0) is None and expectations.waiting == 0
    assert counted == {"expected_prompts": 1, "expected_us": 6_000_000, "expected_late": 1}
    expectations.forget("a")
    assert expectations.of("a", wishes, 100, 8.0) is not None and expectations.waiting == 1
    expectations.forget("a")
    assert expectations.waiting == 0


def test_requestThatGoesOnWithoutItsBlocks_doesNotSlowTheOthers_andIsCountedOnce() -> None:
    expectations = Expectations(16, 10.0, Counter())
    first = expectations.of("a", Wishes(expect_tokens=70), 100, 0.0)
    assert first is not None
    expectations.give_up(first)
    assert expectations.waiting == 0 and expectations.of("a", Wishes(expect_tokens=70), 100, 1.0) is None
    expectations.forget("a")
    assert expectations.waiting == 0


def test_lessThanAUnit_orNothingThatMayBeLookedFor_isNotWaitedFor() -> None:
    expectations = Expectations(16, 10.0, Counter())
    assert expectations.of("a", Wishes(expect_tokens=15), 100, 0.0) is None
    assert expectations.of("a", Wishes(expect_tokens=64), 0, 0.0) is None
    limited = expectations.of("b", Wishes(expect_tokens=64, expect_s=0.5), 2, 0.0)
    assert limited is not None and limited.units == 2 and limited.until_s == 0.5


class PolledDouble:
    """Begins gets, and notes what becomes of them."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, dict[str, Any]]] = []
        self.calls: list[Any] = []
        self.cancelled: list[Any] = []

    def start(self, properties: Any, make: Any, otherwise: Hold, timeout_s: float, **options: Any) -> Any:
        self.begun.append((len(otherwise.statuses), options))
        self.calls.append(SimpleNamespace(done=False, outcome=otherwise))
        return self.calls[-1]

    def cancel(self, call: Any) -> None:
        self.cancelled.append(call)

    def answer(self, call: Any, statuses: list[Status]) -> list[str]:
        """Answers a get. The list that is returned notes when the leases of the answer are released."""
        done: list[str] = []
        leases: Any = SimpleNamespace(release=lambda: done.append("released"))
        run = next((at for at, one in enumerate(statuses) if one is not Status.OK), len(statuses))
        call.done, call.outcome = True, Hold(run, statuses, leases, 1)
        return done


def begun(inbounds: Inbounds, blocks: range) -> Any:
    keys = [number.to_bytes(8, "little") for number in range(blocks.stop)]
    return inbounds.begin("node", [("namespace", keys, blocks)], 10.0)  # type: ignore[list-item]


def test_gets_endWhenAllHaveAnswered_andGiveTheirLeasesBackOnce() -> None:
    polled = PolledDouble()
    inbound = begun(Inbounds(polled), range(3, KEYS_MAX + 5))  # type: ignore[arg-type]
    assert [count for count, _ in polled.begun] == [KEYS_MAX, 2]
    assert [(options["depth"], options["parent"]) for _, options in polled.begun] == [
        (at, (at - 1).to_bytes(8, "little")) for at in (3, KEYS_MAX + 3)
    ]
    first = polled.answer(polled.calls[0], [Status.OK] * KEYS_MAX)
    assert inbound.is_open and not inbound.has_all
    second = polled.answer(polled.calls[1], [Status.OK, Status.MISS])
    assert not inbound.is_open and not inbound.has_all
    inbound.end()
    inbound.end()
    assert first == second == ["released"] and not polled.cancelled


def test_getsThatAreOpen_areCancelledAtTheEnd() -> None:
    polled = PolledDouble()
    inbound = begun(Inbounds(polled), range(4))  # type: ignore[arg-type]
    inbound.end()
    assert polled.cancelled == polled.calls


def test_tooManyGets_waitForTheEndOfOthers() -> None:
    polled = PolledDouble()
    inbounds = Inbounds(polled)  # type: ignore[arg-type]
    assert begun(inbounds, range(10_000)) is not None, "one alone is never too many"
    assert begun(inbounds, range(1)) is None
    first = begun(Inbounds(polled), range(1))  # type: ignore[arg-type]
    assert first is not None
    other = Inbounds(polled)  # type: ignore[arg-type]
    some = [begun(other, range(1024)) for _ in range(5)]
    assert all(some[:4]) and some[4] is None
    some[0].end()
    assert begun(other, range(1024)) is not None
