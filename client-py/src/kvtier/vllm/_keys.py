"""The keys under which the daemon knows the blocks of vLLM's requests."""

import logging
from typing import Any

from kvtier.engine import keys
from kvtier.engine.epochs import Adapters, Epochs, joined

_log = logging.getLogger("vllm.kvtier")


class Keys(keys.Keys):
    """The keys of blocks with the weights, and the adapters, that the engine has now."""

    def __init__(self, epochs: Epochs) -> None:
        super().__init__(epochs)
        self._adapters = Adapters(_log)

    def salt(self, request: Any) -> bytes | None:
        adapted = getattr(request, "lora_request", None)
        if adapted is None:
            return self._epochs.salt
        adapter = self._adapters.salt(adapted)
        return None if adapter is None else joined(self._epochs.salt, adapter)
