"""The keys under which the daemon knows the blocks of requests."""

from typing import Any

from kvtier.engine.epochs import Adapters, Epochs, joined, salted
from kvtier.engine.groups import Group


class Keys:
    """The keys of blocks with the weights, and the adapters, that the engine has now."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._adapters = Adapters()

    def salt(self, request: Any) -> bytes | None:
        """Of the keys of what is computed for a request now; None: nobody knows with which weights that is."""
        adapted = getattr(request, "lora_request", None)
        if adapted is None:
            return self._epochs.salt
        adapter = self._adapters.salt(adapted)
        return None if adapter is None else joined(self._epochs.salt, adapter)

    def of(self, request: Any, group: Group, begin: int, end: int) -> list[bytes]:
        """The keys of a request's blocks of a group, from `begin` to `end`."""
        each = group.block_hashes
        hashes = request.block_hashes[begin:end] if each == 1 else request.block_hashes[(begin + 1) * each - 1 : end * each : each]
        return salted(self.salt(request) or b"", hashes)
