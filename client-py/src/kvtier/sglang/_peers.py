"""The ranks of an engine that have parts of the same pages, and must decide alike."""

import importlib
from typing import Any, Self


class Peers:
    """One rank among them. All ranks call the same methods in the same order; each call waits for the others."""

    def __init__(self, group: Any = None, rank: int = 0, size: int = 1) -> None:
        """`group`: a process group of torch for tensors in host memory; None: this rank is alone."""
        self._group = group
        self.rank = rank
        self.size = size

    @classmethod
    def of(cls, params: Any) -> Self:
        """Those that SGLang agrees with about a prefix. `params`: its ``CacheInitParams``."""
        group = getattr(params, "attn_tp_cache_group", None)
        if group is None:
            group = getattr(params, "tp_cache_group", None)
        if group is None:
            return cls()
        distributed = importlib.import_module("torch.distributed")
        return cls(group, int(distributed.get_rank(group=group)), int(distributed.get_world_size(group=group)))

    def gathered(self, mine: str) -> list[str]:
        """What all ranks say, in their order."""
        if self.size == 1:
            return [mine]
        told: list[Any] = [None] * self.size
        importlib.import_module("torch.distributed").all_gather_object(told, mine, group=self._group)
        return [str(one) for one in told]

    def agreed(self, mine: bool) -> bool:
        """Whether all ranks say yes."""
        if self.size == 1:
            return mine
        torch = importlib.import_module("torch")
        answer = torch.tensor([int(mine)], dtype=torch.int)
        torch.distributed.all_reduce(answer, op=torch.distributed.ReduceOp.MIN, group=self._group)
        return bool(answer.item())
