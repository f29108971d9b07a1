"""Prefill and decode in different engines: the words of an engine to the one that goes on with a request."""

from dataclasses import dataclass
from typing import Any, Self

from kvtier.engine.wishes import NAME


@dataclass(frozen=True, slots=True)
class Roles:
    """An engine's ``kv_role``, as the connector takes it. Every engine loads, and stores as ``kvtier.store`` says."""

    role: str
    """the value in vLLM's configuration"""

    @classmethod
    def of(cls, transfer: Any) -> Self:
        """The role in a ``KVTransferConfig``."""
        return cls(str(getattr(transfer, "kv_role", None) or "kv_both"))

    @property
    def for_engine(self) -> str:
        """The role that vLLM is told. From a producer vLLM expects no loads, and frees blocks too early for them."""
        return "kv_both" if self.role == "kv_producer" else self.role

    def continues(self, request: Any) -> bool:
        """Whether another engine goes on with a request. Routers for prefill and decode say so in the request."""
        said = getattr(request, "kv_transfer_params", None)
        asks = isinstance(said, dict) and bool(said.get("do_remote_decode"))
        return self.role == "kv_producer" or (self.role == "kv_both" and asks)

    @staticmethod
    def answer(tokens: int, store_s: float, node: str) -> dict[str, Any]:
        """The ``kv_transfer_params`` in the last output of a request, for the engine that goes on with it.

        Args:
            tokens: the number of tokens, from the first, that are stored or just being stored.
            store_s: the longest time that storing them takes, in seconds.
            node: the name of this engine's node; empty if it serves no other nodes.
        """
        said = {"expect_tokens": tokens, "expect_s": store_s}
        return {NAME: said | {"expect_from": node} if node else said}
