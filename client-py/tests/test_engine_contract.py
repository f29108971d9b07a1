"""An adapter made of `kvtier.engine` alone keeps the contract of adapters, whether it waits for searches or asks again."""

from collections.abc import Iterator

import pytest
from kvtier_testing.daemon import Daemon
from kvtier_testing.direct_engine import DirectEngine

from kvtier.engine.testing import AdapterContract, Driver, Wanted


class Direct(AdapterContract):
    RANKS = 2
    POOLS = 2
    FACE = ""

    @pytest.fixture(autouse=True)
    def _begin(self, daemon: Daemon) -> Iterator[None]:
        self.begin(daemon)
        yield
        self.end()

    def make(self, wanted: Wanted) -> Driver:
        return DirectEngine(wanted, self.FACE)


class TestBlocking(Direct):
    FACE = "blocking"


class TestPolled(Direct):
    FACE = "polled"
