"""A request that the engine works on: where its blocks lie, and how many of them are computed, stored and loaded."""

import sys
from collections.abc import Sequence
from typing import Any

from kvtier.engine.groups import Group
from kvtier.engine.wishes import USUAL, Wishes


class Blocks:
    """A request's blocks of one group."""

    __slots__ = ("ids", "stored")

    def __init__(self) -> None:
        self.ids: list[int] = []
        """where they lie, in the order of the sequence. Those that a window has left behind may be others' by now."""
        self.stored = 0
        """how many from the first are stored, or were there"""


class Tracked:
    """A request that the engine works on."""

    __slots__ = (
        "asked_s", "blocks", "computed_tokens_max", "had_tokens", "known", "loaded_tokens", "own_tokens", "planned_tokens", "prompt_tokens",
        "request", "stored_tokens_max", "was_loaded", "was_planned", "wishes",
    )  # fmt: skip

    def __init__(self, request: Any, store: str, groups: int, wishes: Wishes = USUAL) -> None:
        """`store`: as `Settings` have it."""
        self.request = request
        self.wishes = wishes
        self.prompt_tokens = int(request.num_prompt_tokens)
        self.computed_tokens_max = self.prompt_tokens + int(request.max_tokens) - 1
        """nobody computes the last token that is generated"""
        # A prompt that comes in parts: the next one takes the place of the last token that was generated before it, and vLLM
        # 0.24 keeps the hash of the block that ended with that.
        only_prompt = store == "prompt" or getattr(request, "resumable", False)
        may_store = store != "none" and wishes.store
        self.stored_tokens_max = 0 if not may_store else self.prompt_tokens if only_prompt else sys.maxsize
        """of its tokens only so many from the first are stored"""
        self.asked_s: float | None = None
        """since when it waits to be told which weights the engine has; None: it does not"""
        self.had_tokens: int | None = None
        """how many from the first it had when it was asked for what there is behind them; None: nobody has asked"""
        self.own_tokens = 0
        """how many from the first it had when it was begun, neither loaded nor computed for it"""
        self.blocks = [Blocks() for _ in range(groups)]
        self.planned_tokens = 0
        """how many from the first are computed in the steps that were planned, in the blocks that it has since; 0: in none"""
        self.was_planned = False
        self.known = 0
        """how many units from the first are in all ranks' namespaces, as far as is known"""
        self.loaded_tokens = 0
        """how many from the first the engine has when all is loaded that was to be"""
        self.was_loaded = False
        """whether the blocks that it has now were loaded here"""

    def lose_blocks(self) -> None:
        """It waits for blocks: if it has been computed before, it was preempted."""
        for blocks in self.blocks:
            blocks.ids = []
        self.planned_tokens = 0

    def begin(self, block_ids: Sequence[Sequence[int]], computed_tokens: int, groups: Sequence[Group]) -> list[int]:
        """It is computed in these blocks of each group, and has so many tokens in the first ones. Those that were its own already
        may not be stored.

        Returns:
            The blocks that are written from now on.
        """
        if not self.was_planned:
            self.own_tokens = computed_tokens if self.had_tokens is None else min(self.had_tokens, computed_tokens)
        written = computed_tokens
        if self.had_tokens is not None and self.had_tokens < computed_tokens and not self.was_loaded:
            # Another connector loads within this step. When it fails, that is told when others have read what we stored.
            written = self.had_tokens
            self.stored_tokens_max = 0
        self.had_tokens = None
        fresh: list[int] = []
        for group, blocks, ids in zip(groups, self.blocks, block_ids, strict=True):
            computed_blocks = computed_tokens // group.block_tokens
            blocks.ids = list(ids)
            blocks.stored = min(blocks.stored, computed_blocks) if self.was_planned else computed_blocks
            fresh += ids[written // group.block_tokens :]
        self.was_planned = True
        return fresh

    def found_tokens(self, computed_tokens: int, unit_tokens: int, groups: Sequence[Group]) -> int:
        """How many tokens of the prompt, from the first, are in the daemon or on their way to it, in whole units.

        Args:
            computed_tokens: how many from the first are computed, in blocks that are stored, or are just being stored.
        """
        if not self.was_planned:
            return 0
        tokens = min(computed_tokens, self.prompt_tokens, self.stored_tokens_max)
        if self.own_tokens > self.known * unit_tokens:
            # Blocks of its own that nobody has found in the daemon: the prefix ends there for others.
            tokens = min(tokens, self.known * unit_tokens)
        states = [blocks.stored * group.block_tokens for group, blocks in zip(groups, self.blocks, strict=True) if group.is_offered]
        return min([tokens, *states]) // unit_tokens * unit_tokens

    def forget(self) -> None:
        """Blocks that the request has computed until now are not stored, and no later ones."""
        self.asked_s = None
        self.known = 0
        for blocks in self.blocks:
            blocks.stored = sys.maxsize
        self.was_planned = False
        if self.was_loaded and not self.planned_tokens:
            self.stored_tokens_max = 0
