"""How often a daemon is asked about blocks that another engine computes."""

from collections import Counter

import pytest

from kvtier._protocol import Status
from kvtier.engine.expected import Expectations, Expected
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
