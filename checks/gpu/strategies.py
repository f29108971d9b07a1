"""How a daemon has copied blocks to and from its first GPU: a part's figures mean little without the strategies that copied."""

from __future__ import annotations

from collections.abc import Mapping

from kvtier import Client


def copied_bytes(client: Client) -> dict[str, int]:
    """Bytes that the first GPU's copies have moved, by strategy."""
    copied: dict[str, int] = client.stats()["gpus"][0]["copied_bytes"]
    return copied


def by_strategy(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """The bytes between two readings of `copied_bytes`, by strategy, in words."""
    return ", ".join(f"{strategy}_{(after[strategy] - before[strategy]) >> 20}_MiB" for strategy in after if after[strategy] > before[strategy])
