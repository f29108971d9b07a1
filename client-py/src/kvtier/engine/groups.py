"""Groups: the layers of a model with one kind of KV cache, and how much of a sequence can be restored.

A model may have several kinds of KV cache: full attention, attention within a window, a state. Layers of one kind are a group. A
group has blocks of its own, under the keys of the sequence's blocks. The group's rule says which of its blocks an engine needs to go on
at a length: of full attention all, of a window the last ones, of a state the last one. A sequence can be restored to a length at which
the blocks that every group needs are there.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtier._connection import NamespaceProperties
from kvtier._errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Rule:
    """Which tokens' KV a group needs so that an engine can go on behind a length. `ALL`, `LAST`, `window` and `chunk` are the rules."""

    kind: str
    tokens: int = 0
    """of a window or a chunk"""

    @property
    def text(self) -> str:
        """The rule as a namespace's property has it."""
        return f"{self.kind} {self.tokens}" if self.tokens else self.kind

    def first_needed(self, length: int) -> int:
        """The first token whose KV is needed at a length in tokens above 0. All tokens from there to the length are needed."""
        match self.kind:
            case "last":
                return length - 1
            case "window":
                return max(0, length - self.tokens + 1)
            case "chunk":
                return length // self.tokens * self.tokens
        return 0


ALL = Rule("all")
"""full attention: each token sees all before it"""

LAST = Rule("last")
"""a state: it stands for all tokens before it"""


def window(tokens: int) -> Rule:
    """Attention within a window: each token sees itself and those before it, so many together.

    Raises:
        InvalidArgument: the window is empty.
    """
    return _sized("window", tokens)


def chunk(tokens: int) -> Rule:
    """Attention within chunks: each token sees those of its own chunk, which begins at a multiple of so many tokens.

    Raises:
        InvalidArgument: the chunk is empty.
    """
    return _sized("chunk", tokens)


def _sized(kind: str, tokens: int) -> Rule:
    if tokens < 1:
        raise InvalidArgument(f"{kind} is {tokens} tokens; expected 1 or more")
    return Rule(kind, tokens)


class Need(NamedTuple):
    """How long the blocks of a group are, and which of them a length needs."""

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


class Group(NamedTuple):
    """What a search knows of one group of layers."""

    number: int
    """its place among the engine's groups"""
    block_tokens: int
    block_hashes: int
    """how many of the engine's hashes a block has; the last one is its key"""
    rule: Rule
    is_offered: bool
    """whether the engine says in each step which blocks may be stored; otherwise those that are full"""
    namespaces: list[NamespaceProperties]
    """those of its ranks; one where they put blocks together"""
    writers: int
    """how many ranks store; each tells of every store that has ended"""

    @property
    def need(self) -> Need:
        return Need(self.block_tokens, self.rule)


def of_all_ranks(of_ranks: "Sequence[Sequence[Group]]") -> list[Group]:
    """The groups of a model whose ranks have parts of each: a block is there when all parts are.

    Args:
        of_ranks: for each rank, its groups (`kvtier.engine.pools.Pools.groups`).
    """
    return [
        some[0]._replace(
            namespaces=list({one.name: one for group in some for one in group.namespaces}.values()), writers=sum(group.writers for group in some)
        )
        for some in zip(*of_ranks, strict=True)
    ]


def is_plain(rules: Sequence[Rule | None]) -> bool:
    """Whether the model has one group, with full attention. A request then has all its blocks until it ends, a unit of what is restored
    is a block, and each run from the first block can be restored.

    Args:
        rules: those of all groups.
    """
    return list(rules) == [ALL]


def leading(rules: Sequence[Rule | None]) -> int:
    """The number of the group whose blocks stand for the sequence, in KV events and in figures: one with full attention, if there is
    one. The others have no blocks at some places.

    Args:
        rules: those of all groups.
    """
    return next((number for number, rule in enumerate(rules) if rule == ALL), 0)


def restorable(
    needs: Sequence[Need], present: Sequence[Iterable[int]], unit_tokens: int, had_tokens: int = 0, most_tokens: int | None = None
) -> list[int]:
    """All lengths to which a sequence can be restored, in tokens, from the shortest. Lengths are multiples of `unit_tokens`.

    Args:
        needs: of each group.
        present: for each group, whether each of its blocks is there, from the sequence's first block on. Bytes of 0 and 1 are taken as
            they are (`Lookup.present`). Blocks behind the end are not there.
        unit_tokens: a multiple of each group's `block_tokens`.
        had_tokens: so many tokens from the first the engine has already, with the blocks that all groups need to go on there.
        most_tokens: no length is longer; None: no limit.

    Returns:
        Lengths above `had_tokens`.

    Raises:
        InvalidArgument: `unit_tokens` or `had_tokens` is no multiple of a group's `block_tokens`, or there is no group.
    """
    return list(_lengths(needs, present, unit_tokens, had_tokens, most_tokens))[::-1]


def longest(
    needs: Sequence[Need], present: Sequence[Iterable[int]], unit_tokens: int, had_tokens: int = 0, most_tokens: int | None = None
) -> int:
    """The longest of the lengths that `restorable` gives for these arguments; `had_tokens`, if there is none. Raises what `restorable` raises."""
    return next(_lengths(needs, present, unit_tokens, had_tokens, most_tokens), had_tokens)


def _lengths(
    needs: Sequence[Need], present: Sequence[Iterable[int]], unit_tokens: int, had_tokens: int, most_tokens: int | None
) -> Iterator[int]:
    """The lengths, from the longest."""
    if not needs or len(needs) != len(present):
        raise InvalidArgument(f"there are {len(needs)} groups, and blocks of {len(present)}; expected as many, and at least one")
    for need in needs:
        for what, tokens in (("unit_tokens", unit_tokens), ("had_tokens", had_tokens)):
            if tokens % need.block_tokens or unit_tokens < 1:
                raise InvalidArgument(f"{what} is {tokens}; expected a multiple of the group's block of {need.block_tokens} tokens")
    there = [blocks if isinstance(blocks, bytes) else bytes(map(bool, blocks)) for blocks in present]
    end = max(need.block_tokens * len(blocks) for need, blocks in zip(needs, there, strict=True))
    if most_tokens is not None:
        end = min(end, most_tokens)
    for need, blocks in zip(needs, there, strict=True):
        if need.rule == ALL:
            gap = blocks.find(0, had_tokens // need.block_tokens)
            end = min(end, need.block_tokens * (len(blocks) if gap < 0 else gap))

    def has(need: Need, blocks: bytes, tokens: int) -> bool:
        needed = need.blocks(tokens, had_tokens)
        return not needed or (needed.stop <= len(blocks) and blocks.find(0, needed.start, needed.stop) < 0)

    for tokens in range(end // unit_tokens * unit_tokens, had_tokens, -unit_tokens):
        if all(has(need, blocks, tokens) for need, blocks in zip(needs, there, strict=True)):
            yield tokens
