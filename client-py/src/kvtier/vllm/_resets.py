"""When vLLM has reset its own prefix cache: where the weights may have changed (`kvtier.engine.epochs`)."""

import logging
from typing import Any

_log = logging.getLogger("vllm.kvtier")


class Resets:
    """Sees when the engine has reset its own prefix cache, also where it tells no connector."""

    def __init__(self, pool: Any) -> None:
        """`pool`: vLLM's ``BlockPool``; it makes a new table when it is reset."""
        self._pool = pool
        self._table = getattr(pool, "cached_block_hash_to_block", None)
        if self._table is None:
            _log.warning(
                "kvtier: this vLLM release does not show when it resets its prefix cache. After each change of weights, call "
                "reset_prefix_cache(reset_connector=True)."
            )

    def take(self) -> bool:
        """Whether there was a reset since the last call."""
        if self._table is None:
            return False
        before, self._table = self._table, self._pool.cached_block_hash_to_block
        return before is not self._table
