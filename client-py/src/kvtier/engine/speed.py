"""How fast the engine computes prompts, as the scheduler's side sees it."""

from collections import deque
from typing import NamedTuple

from kvtier.engine.savings import STEP_TOKENS_MIN, TypicalSpeed

_PREFILL_FADING = 0.98
_STEPS_AHEAD_MAX = 64
"""more steps than any engine plans ahead"""


class _Step(NamedTuple):
    """A step that the engine has planned, and not ended."""

    number: int
    tokens: int
    prefill_tokens: int
    """those of prompts"""
    planned_s: float
    ended_tokens: int
    """of all steps that had ended when it was planned"""


class PrefillSpeed:
    """How fast the engine has computed prompts, by the best of its steps; what it did long ago counts less and less.

    Engines plan steps ahead of those that they compute: what lies between two plans is the time of no step. So a step counts
    when it has ended, with all tokens of the steps that ended since it was planned.
    """

    def __init__(self) -> None:
        self.tokens_per_s = 0.0
        self.typical = TypicalSpeed()
        self._planned: deque[_Step] = deque(maxlen=_STEPS_AHEAD_MAX)
        self._ended_tokens = 0
        self._ended_s = 0.0

    def planned(self, number: int, tokens: int, now_s: float, prefill_tokens: int | None = None) -> None:
        """A step with so many tokens will be computed; numbers grow. None: all of them are of prompts."""
        prefill_tokens = tokens if prefill_tokens is None else prefill_tokens
        self._planned.append(_Step(number, tokens, prefill_tokens, now_s, self._ended_tokens))

    def ended(self, number: int, now_s: float) -> None:
        """A step has been computed. When those before it were that nobody has told of, nobody knows."""
        while self._planned and self._planned[0].number < number:
            self._planned.popleft()
        if not self._planned or self._planned[0].number != number:
            return
        step = self._planned.popleft()
        self._ended_tokens += step.tokens
        # A step that was planned ahead is computed when the one before it has ended.
        self.typical.saw(step.prefill_tokens, step.tokens, now_s - max(step.planned_s, self._ended_s))
        self._ended_s = now_s
        if step.tokens >= STEP_TOKENS_MIN and now_s > step.planned_s:
            seen = (self._ended_tokens - step.ended_tokens) / (now_s - step.planned_s)
            self.tokens_per_s = max(seen, self.tokens_per_s * _PREFILL_FADING)

    def seconds(self, tokens: int) -> float:
        """How long these would take; endless while nothing is known."""
        return tokens / self.tokens_per_s if self.tokens_per_s else float("inf")
