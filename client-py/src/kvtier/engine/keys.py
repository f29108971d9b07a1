"""The keys under which the daemon knows the blocks of requests.

An engine hashes each block of a request, with all tokens before it. The hash is the block's key, unless the engine's weights have
changed since its namespace was made: then keys are made of hashes and weights (`kvtier.engine.epochs`).
"""

from collections.abc import Sequence
from typing import Protocol

from kvtier.engine.epochs import Epochs, salted
from kvtier.engine.groups import Group


class Sought(Protocol):
    """A request, as far as a search looks at it. An engine's own class of requests may be one."""

    @property
    def request_id(self) -> str:
        """Tells it from the engine's other requests."""

    @property
    def num_tokens(self) -> int:
        """How many tokens it has now. The last one is computed in any case."""

    @property
    def block_hashes(self) -> Sequence[bytes]:
        """The hashes of its blocks, from the first, as far as they are known."""


class Keys:
    """The keys of blocks with the weights that the engine has now."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def salt(self, request: Sought) -> bytes | None:
        """Of the keys of what is computed for a request now; None: nobody knows with which weights that is.

        An engine with adapters overrides it: their blocks are others (`kvtier.engine.epochs.Adapters`).
        """
        return self._epochs.salt

    def of(self, request: Sought, group: Group, begin: int, end: int) -> list[bytes]:
        """The keys of a request's blocks of a group, from `begin` to `end`."""
        each = group.block_hashes
        hashes = request.block_hashes[begin:end] if each == 1 else request.block_hashes[(begin + 1) * each - 1 : end * each : each]
        return salted(self.salt(request) or b"", hashes)
