"""What a search has found."""

from collections.abc import Callable, Sequence
from typing import Self


class Found:
    """What a search has found, and holds until it is released: a context manager.

    What is held stays in host memory, in the namespaces of all ranks, until `expires_ns`. A load that begins meanwhile finds it.
    """

    __slots__ = ("_give_back", "begun_s", "blocks", "expires_ns", "had_tokens", "keys", "tokens")

    def __init__(
        self,
        had_tokens: int,
        tokens: int,
        keys: Sequence[Sequence[bytes]],
        blocks: Sequence[range],
        give_back: Callable[[], None] | None = None,
        expires_ns: int = 0,
        begun_s: float = 0.0,
    ) -> None:
        self._give_back = give_back
        self.had_tokens = had_tokens
        """how many tokens from the first the engine had itself"""
        self.tokens = tokens
        """how many tokens from the first the engine can have with what was found; `had_tokens`: nothing was found"""
        self.keys = keys
        """for each group, the keys of the blocks that a load must bring"""
        self.blocks = blocks
        """for each group, these blocks, by their place in the sequence"""
        self.expires_ns = expires_ns
        """when the leases end, CLOCK_MONOTONIC; 0: there are none, or they are just being granted"""
        self.begun_s = begun_s
        """when the search began, on the clock of `time.monotonic`"""

    @classmethod
    def nothing(cls, had_tokens: int, groups: int) -> Self:
        """A miss."""
        return cls(had_tokens, had_tokens, [()] * groups, [range(0)] * groups)

    def release(self) -> None:
        """Gives the leases back; a second time does nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __bool__(self) -> bool:
        return self.tokens > self.had_tokens

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
