"""The speed of an engine's prefill, and what loads saved at that speed."""

import pytest

from kvtier import LoadReport
from kvtier.engine.savings import Savings, TypicalSpeed


def speed_of(*steps: tuple[int, int, float]) -> float:
    speed = TypicalSpeed()
    for prefill_tokens, tokens, seconds in steps:
        speed.saw(prefill_tokens, tokens, seconds)
    return speed.tokens_per_s


def test_speed_fewSteps_isNotKnown() -> None:
    assert speed_of(*[(1000, 1000, 0.1)] * 4) == 0
    assert speed_of(*[(1000, 1000, 0.1)] * 5) == pytest.approx(10_000)


def test_speed_warmUpAndStalls_changeNothing() -> None:
    assert speed_of((1000, 1000, 9.0), (1000, 1000, 2.0), *[(1000, 1000, 0.1)] * 10, (1000, 1000, 30.0)) == pytest.approx(10_000)


def test_speed_smallStepsAndStepsOfDecoding_sayNothing() -> None:
    decoding = [(0, 200, 0.05), (300, 450, 0.05), (255, 255, 0.01)] * 20
    assert speed_of(*decoding) == 0
    assert speed_of(*decoding, *[(1000, 1090, 0.1)] * 5) == pytest.approx(10_000)


def test_speed_largeStepsWeighMore() -> None:
    assert speed_of(*[(300, 300, 0.1)] * 8, *[(8000, 8000, 0.8)] * 2) == pytest.approx(10_000)


def test_speed_becomesAnother_isFollowed() -> None:
    assert speed_of(*[(1000, 1000, 0.1)] * 100, *[(1000, 1000, 0.2)] * 64) == pytest.approx(5_000)


def test_savings_waitForTheSpeed() -> None:
    savings = Savings()
    savings.add(3, 48, 0.5)
    savings.add(1, 16, 0.25)
    assert not list(savings.take(0))
    assert list(savings.take(64)) == [LoadReport(4, 64, 1.0, 0.75)]
    assert not list(savings.take(64))


def test_savings_ofAnEngineWhoseSpeedStaysUnknown_areTokensOnly() -> None:
    savings = Savings()
    savings.add(1 << 16, 1 << 24, 1.0)
    assert list(savings.take(0)) == [LoadReport(1 << 16, 1 << 24, 0.0, 1.0)]


def test_savings_failedLoad_isTimeOnly() -> None:
    savings = Savings()
    savings.add(0, 0, 0.5)
    assert list(savings.take(100)) == [LoadReport(0, 0, 0.0, 0.5)]


def test_savings_moreThanOneReportHolds_areSeveral_andAllArePossible() -> None:
    savings = Savings()
    savings.add(100_000, 1_600_000, 100_000.0)
    reports = list(savings.take(0.5))
    for report in reports:
        report.checked()
    assert [sum(one) for one in zip(*reports, strict=True)][:2] == [100_000, 1_600_000]
    assert sum(report.load_s for report in reports) == pytest.approx(100_000)
