"""Blocks that another engine computes and stores for a request, while the request waits for them."""

from collections import Counter
from collections.abc import Collection

from kvtier._polled import Call
from kvtier._protocol import Status
from kvtier._types import Lookup
from kvtier.engine.wishes import Wishes

_PAUSE_S_MIN = 0.002
_PAUSE_S_MAX = 0.05
_PAUSE_GROWTH = 1.5
_PAUSE_S_OF_EACH = 0.001
"""for each request that waits, so that all of them together ask 1,000 times a second"""


class Expected:
    """The blocks that one request waits for, and when the daemon is asked about them next.

    At first it is asked about the last of these blocks alone, whatever the length of the prompt. When that is there, it is asked about
    all blocks: they are stored in any order.
    """

    __slots__ = ("_again_s", "_pause_s", "begun_s", "call", "has_last", "is_fresh", "is_over", "node", "units", "until_s")

    def __init__(self, units: int, begun_s: float, wait_s: float, node: str = "") -> None:
        self.units = units
        """the number of its blocks' units, from the first"""
        self.until_s = begun_s + wait_s
        """until when the request waits, on the clock of `time.monotonic`"""
        self.node = node
        """the node that is going to have these blocks; empty: unknown, or its blocks have been asked for"""
        self.call: Call[list[Lookup]] | None = None
        """the question about the last blocks"""
        self.has_last = False
        """whether the last blocks were there, or are not waited for any more"""
        self.is_fresh = True
        """whether other nodes are asked again about blocks that they did not have"""
        self.is_over = False
        """whether the request does not wait any more"""
        self.begun_s = begun_s
        """when the request came"""
        self._pause_s = _PAUSE_S_MIN
        self._again_s = begun_s

    def is_due(self, now_s: float) -> bool:
        """Whether the daemon may be asked now."""
        return now_s >= min(self._again_s, self.until_s)

    def has_answer(self, statuses: Collection[Status], rest_s: float, now_s: float, waiting: int) -> bool:
        """Takes the answer about the last blocks.

        Args:
            statuses: one for each of them.
            rest_s: how long blocks may come later than the last one.
            waiting: as `missed` has it.

        Returns:
            Whether all blocks are to be looked up now.
        """
        self.call = None
        if all(one is Status.OK for one in statuses):
            self.until_s = min(self.until_s, now_s + rest_s)
            self.is_fresh = True
        else:
            self.missed(statuses, now_s, waiting)
        return now_s >= self.until_s or all(one is Status.OK for one in statuses)

    def missed(self, statuses: Collection[Status], now_s: float, waiting: int) -> None:
        """Not all blocks are there yet.

        Args:
            statuses: of those that are missing, or of all.
            waiting: how many requests wait for blocks of other engines.
        """
        if not all(one in (Status.OK, Status.MISS, Status.PENDING) for one in statuses):
            # There is no daemon, or none that answers.
            self.until_s = now_s
        self.is_fresh = Status.MISS in statuses
        if not self.is_fresh and now_s - self._again_s < _PAUSE_S_MIN:
            # The answer of other nodes comes in a moment.
            return
        self._again_s = now_s + max(self._pause_s, waiting * _PAUSE_S_OF_EACH)
        self._pause_s = min(self._pause_s * _PAUSE_GROWTH, _PAUSE_S_MAX)


class Expectations:
    """What the requests of an engine wait for. Each request waits once, from its arrival on."""

    def __init__(self, unit_tokens: int, wait_s: float, observed: Counter[str]) -> None:
        """
        Args:
            unit_tokens: the engine restores whole units of so many tokens.
            wait_s: how long a request waits that does not say it.
            observed: counts the requests that wait.
        """
        self._unit_tokens = unit_tokens
        self._wait_s = wait_s
        self._observed = observed
        self._by_request: dict[str, Expected] = {}
        self.waiting = 0
        """how many requests wait"""

    def of(self, request_id: str, wishes: Wishes, limit: int, now_s: float) -> Expected | None:
        """What a request waits for from now on, of the units that can be looked for; None: nothing, or not any more."""
        known = self._by_request.get(request_id)
        if known is None:
            units = min(wishes.expect_tokens // self._unit_tokens, limit)
            if not units:
                return None
            known = Expected(units, now_s, self._wait_s if wishes.expect_s is None else wishes.expect_s, wishes.expect_from)
            self._by_request[request_id] = known
            self.waiting += 1
            self._observed["expected_prompts"] += 1
        return None if known.is_over else known

    def end(self, expected: Expected, units: int, now_s: float) -> None:
        """A request goes on with so many units from the first."""
        self.give_up(expected)
        self._observed["expected_us"] += int((now_s - expected.begun_s) * 1e6)
        self._observed["expected_late"] += units < expected.units

    def give_up(self, expected: Expected) -> None:
        """A request does not wait any more, whatever became of its blocks."""
        if not expected.is_over:
            expected.is_over = True
            self.waiting -= 1

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        known = self._by_request.pop(request_id, None)
        if known is not None:
            self.give_up(known)
