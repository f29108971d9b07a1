"""An adapter made of `kvtier.engine` alone keeps the contract of adapters, whether it waits for searches or asks again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from kvtier_testing.daemon import Daemon
from kvtier_testing.direct_engine import BLOCK_TOKENS, DirectEngine

from kvtier.engine import Found, Identity, Keys, Prefix, Search, testing
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


class IgnoresHoles(DirectEngine):
    """Takes all that was found for loaded."""

    def _load(self, request: Prefix, found: Found) -> int:
        super()._load(request, found)
        return found.tokens


class GoesByItsFirstRank(DirectEngine):
    """Does not ask the others what they have loaded."""

    def _load(self, request: Prefix, found: Found) -> int:
        ranks = self.transfers
        first = super()._load
        self.transfers = ranks[1:]
        first(request, found)
        self.transfers = ranks[:1]
        tokens = first(request, found)
        self.transfers = ranks
        return tokens


class GoesByItsFirstPool(DirectEngine):
    """Looks for blocks in one pool only, and loads what it can of the others."""

    def _found(self, request: Prefix, search: Search) -> Found:
        found = super()._found(request, Search(self.pools[0]._client, self.pools[0].groups[:1], self.settings, BLOCK_TOKENS, Keys(), self.guard))
        blocks = [need.blocks(found.tokens) for need in self.needs]
        keys = [list(request.block_hashes[these.start : these.stop]) for these in blocks]
        return Found(0, found.tokens, keys, blocks, found.release)

    def _load(self, request: Prefix, found: Found) -> int:
        super()._load(request, found)
        return found.tokens


class KeepsLeases(DirectEngine):
    """Never gives back what it holds."""

    def abandon(self, prompt: Sequence[int]) -> None:
        self._kept = self._begun.pop(tuple(prompt))


class Raises(DirectEngine):
    """Tells its engine that there is no daemon."""

    def _found(self, request: Prefix, search: Search) -> Found:
        found = super()._found(request, search)
        if self.client is not None and not self.client.connected:
            raise ConnectionError("no daemon")
        return found


class ForgetsItsWeights(DirectEngine):
    """Blocks of all weights are the same to it."""

    def _register(self, identity: Identity) -> None:
        super()._register(replace(identity, weights="named one"))


class ForgetsItsDtype(DirectEngine):
    """It finds blocks of engines with another element type."""

    def _register(self, identity: Identity) -> None:
        super()._register(replace(identity, dtype="one"))


@pytest.mark.parametrize(
    ("faulty", "test"),
    [
        (IgnoresHoles, "test_rankFailsAlone_allRanksComputeFromThere"),
        (GoesByItsFirstRank, "test_rankFailsAlone_allRanksComputeFromThere"),
        (GoesByItsFirstPool, "test_blockOfOnePoolIsMissing_theLongestLengthIsRestoredThatDoesWithout"),
        (KeepsLeases, "test_requestEndsBetweenLookupAndLoad_nothingStaysHeld"),
        (Raises, "test_noDaemon_engineComputes_andSaysSoOnce"),
        (ForgetsItsWeights, "test_otherWeights_findNothing"),
        (ForgetsItsDtype, "test_otherConfiguration_isRefused_andTheDifferenceNamed"),
    ],
)
def test_contract_noticesAnAdapterWithAFault(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, faulty: type[DirectEngine], test: str) -> None:
    class Contract(AdapterContract):
        RANKS = 2
        POOLS = 2

        def make(self, wanted: Wanted) -> Driver:
            return faulty(wanted)

    monkeypatch.setattr(testing, "PATIENCE_S", 2.0)
    contract = Contract()
    contract.begin(daemon)
    try:
        with pytest.raises((AssertionError, ConnectionError)):
            getattr(contract, test)()
    finally:
        contract.end()
