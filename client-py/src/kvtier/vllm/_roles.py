"""Prefill and decode in different engines: what an engine tells the one that goes on with a request."""

from dataclasses import dataclass
from typing import Any, Self

from kvtier.engine.wishes import NAME


@dataclass(frozen=True, slots=True)
class Roles:
    """What an engine's ``kv_role`` means to the connector. Every engine loads, and stores as ``kvtier.store`` says."""

    role: str
    """as vLLM has it"""

    @classmethod
    def of(cls, transfer: Any) -> Self:
        """The role in a ``KVTransferConfig``."""
        return cls(str(getattr(transfer, "kv_role", None) or "kv_both"))

    @property
    def for_engine(self) -> str:
        """The role that vLLM must take the engine for: of a producer it does not expect loads, and frees blocks too early for them."""
        return "kv_both" if self.role == "kv_producer" else self.role

    def continues(self, request: Any) -> bool:
        """Whether another engine goes on with a request. Routers for prefill and decode say so in the request."""
        said = getattr(request, "kv_transfer_params", None)
        asks = isinstance(said, dict) and bool(said.get("do_remote_decode"))
        return self.role == "kv_producer" or (self.role == "kv_both" and asks)

    @staticmethod
    def answer(tokens: int, store_s: float) -> dict[str, Any]:
        """What goes out with the last output of a request, as ``kv_transfer_params`` for the engine that goes on with it.

        Args:
            tokens: so many from the first are stored, or just being stored.
            store_s: how long that takes at most, in seconds.
        """
        return {NAME: {"expect_tokens": tokens, "expect_s": store_s}}
