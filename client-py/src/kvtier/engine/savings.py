"""What loads save an engine: the tokens that it does not compute, and the time that computing them would have taken.

That time follows from the speed of the engine's own prefill: the median of its latest large steps, weighted by their tokens. The
median leaves out steps that something slowed down: the first ones, in which an engine compiles, and ones that waited. Steps with
few tokens, or with many tokens of decoding, say little of prefill and are left out.
"""

from collections import deque
from collections.abc import Iterator

from kvtier import _protocol as protocol
from kvtier._types import LoadReport

STEP_TOKENS_MIN = 256
"""a step with fewer says nothing of how fast prompts are computed"""
DECODE_TOKENS_MAX = 8
"""a request with more tokens in a step computes its prompt; with speculative decoding a request has several"""
LAST_REPORT_S = 0.5
"""how long an engine that ends waits for the daemon to read its last report"""
_DECODE_SHARE_MAX = 0.1
_STEPS_KEPT = 64
_STEPS_MIN = 5
_TOKENS_HELD_MAX = 1 << 24


class TypicalSpeed:
    """How fast an engine computes prompts, tokens a second."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque(maxlen=_STEPS_KEPT)

    def saw(self, prefill_tokens: int, tokens: int, seconds: float) -> None:
        """A step has ended that took so long.

        Args:
            prefill_tokens: those of prompts.
            tokens: all tokens of the step.
            seconds: of this step alone.
        """
        if prefill_tokens >= STEP_TOKENS_MIN and tokens - prefill_tokens <= prefill_tokens * _DECODE_SHARE_MAX and seconds > 0:
            self._steps.append((prefill_tokens / seconds, prefill_tokens))

    @property
    def tokens_per_s(self) -> float:
        """0: not known yet."""
        if len(self._steps) < _STEPS_MIN:
            return 0.0
        half = sum(tokens for _, tokens in self._steps) / 2
        for speed, tokens in sorted(self._steps):
            half -= tokens
            if half <= 0:
                return speed
        raise AssertionError("the steps have more than half of their tokens")


class Savings:
    """The loads that the daemon was not told of yet. They wait until the engine knows its speed, but not beyond all bounds."""

    def __init__(self) -> None:
        self._blocks = 0
        self._tokens = 0
        self._load_s = 0.0

    def add(self, blocks: int, tokens: int, load_s: float) -> None:
        """A load has ended; of a failed one only the time counts."""
        self._blocks += blocks
        self._tokens += tokens
        self._load_s += load_s

    def take(self, tokens_per_s: float) -> Iterator[LoadReport]:
        """The reports for the daemon; none while the speed is not known, 0."""
        if not (self._blocks or self._load_s) or (not tokens_per_s and self._tokens < _TOKENS_HELD_MAX):
            return
        yield from self.take_all(tokens_per_s)

    def take_all(self, tokens_per_s: float) -> Iterator[LoadReport]:
        """The reports for the daemon, now."""
        while self._blocks or self._load_s:
            blocks = min(self._blocks, protocol.LOAD_REPORT_BLOCKS_MAX)
            tokens = self._tokens if blocks == self._blocks else self._tokens * blocks // self._blocks
            load_s = min(self._load_s, protocol.LOAD_REPORT_LOADS_S_MAX)
            prefill_s = tokens / tokens_per_s if tokens_per_s else 0.0
            self._blocks -= blocks
            self._tokens -= tokens
            self._load_s -= load_s
            yield LoadReport(blocks, tokens, min(prefill_s, tokens * protocol.LOAD_REPORT_TOKEN_S_MAX), load_s)
