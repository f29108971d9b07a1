"""Groups: the layers of a model with one kind of KV cache, and how much of a sequence can be restored.

Models may have several kinds of KV cache: full attention, attention within a window, a state. Layers of one kind are a group. A group
has blocks of its own, under the keys of the sequence's blocks. Which of them an engine needs to go on at a length, the group's rule
says: of full attention all before it, of a window the last ones, of a state the last one. A sequence can be restored to a length at
which the blocks are there that every group needs.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from kvtier._errors import InvalidArgument


class Rule(NamedTuple):
    """Which tokens' KV a group needs so that an engine can go on behind a length. Make one with `ALL`, `LAST`, `window`, `chunk`."""

    text: str
    """as a namespace's property says it"""
    first_needed: Callable[[int], int]
    """gives, for a length in tokens above 0, the first token whose KV is needed; from there on all are, to the length"""


ALL = Rule("all", lambda tokens: 0)
"""full attention: each token sees all before it"""

LAST = Rule("last", lambda tokens: tokens - 1)
"""a state: it stands for all tokens before it"""


def window(tokens: int) -> Rule:
    """Attention within a window: each token sees itself and those before it, so many together.

    Raises:
        InvalidArgument: the window is empty.
    """
    _check("window", tokens)
    return Rule(f"window {tokens}", lambda length: max(0, length - tokens + 1))


def chunk(tokens: int) -> Rule:
    """Attention within chunks: each token sees those of its own chunk, which begins at a multiple of so many tokens.

    Raises:
        InvalidArgument: the chunk is empty.
    """
    _check("chunk", tokens)
    return Rule(f"chunk {tokens}", lambda length: length // tokens * tokens)


def _check(what: str, tokens: int) -> None:
    if tokens < 1:
        raise InvalidArgument(f"{what} is {tokens} tokens; expected 1 or more")


class Need(NamedTuple):
    """What of a group is looked at: how long its blocks are, and which of them a length needs."""

    block_tokens: int
    rule: Rule

    def blocks(self, tokens: int, had_tokens: int = 0) -> range:
        """The blocks, by their place in the sequence, that are needed at a length.

        Args:
            tokens: the length, a multiple of `block_tokens`.
            had_tokens: of so many tokens from the first the engine has what it needs already; a multiple of `block_tokens`.
        """
        if tokens <= had_tokens:
            return range(0)
        first = max(had_tokens, self.rule.first_needed(tokens))
        return range(min(first, tokens) // self.block_tokens, tokens // self.block_tokens)


def restorable(
    needs: Sequence[Need], present: Sequence[Sequence[bool]], unit_tokens: int, had_tokens: int = 0, most_tokens: int | None = None
) -> list[int]:
    """All lengths to which a sequence can be restored, in tokens, from the shortest. Lengths are multiples of `unit_tokens`.

    Args:
        needs: of each group.
        present: for each group, which of its blocks are there, from the sequence's first block on. Those behind the end are not.
        unit_tokens: a multiple of each group's `block_tokens`.
        had_tokens: so many tokens from the first the engine has already, with the blocks that all groups need to go on there.
        most_tokens: no length is longer; None: no limit.

    Returns:
        Lengths above `had_tokens`.

    Raises:
        InvalidArgument: `unit_tokens` or `had_tokens` is no multiple of a group's `block_tokens`, or there is no group.
    """
    if not needs or len(needs) != len(present):
        raise InvalidArgument(f"there are {len(needs)} groups, and blocks of {len(present)}; expected as many, and at least one")
    for need in needs:
        for what, tokens in (("unit_tokens", unit_tokens), ("had_tokens", had_tokens)):
            if tokens % need.block_tokens or unit_tokens < 1:
                raise InvalidArgument(f"{what} is {tokens}; expected a multiple of the group's block of {need.block_tokens} tokens")
    end = max(need.block_tokens * len(blocks) for need, blocks in zip(needs, present, strict=True))
    if most_tokens is not None:
        end = min(end, most_tokens)
    # How many of the blocks before each place are missing.
    missing = [[0, *accumulate(not one for one in blocks)] for blocks in present]

    def is_there(need: Need, missing: list[int], tokens: int) -> bool:
        blocks = need.blocks(tokens, had_tokens)
        return not blocks or (blocks.stop < len(missing) and missing[blocks.stop] == missing[blocks.start])

    first = had_tokens // unit_tokens * unit_tokens + unit_tokens
    return [
        tokens
        for tokens in range(first, end + 1, unit_tokens)
        if all(is_there(need, lacks, tokens) for need, lacks in zip(needs, missing, strict=True))
    ]
