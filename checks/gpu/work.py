"""What an engine computes, as loops of two kinds, and how long a pass of a loop takes: copies beside them slow them down."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

Loop = Callable[[], object]


def loops() -> dict[str, Loop]:
    """A product of matrices, which needs multiprocessors, and a copy within device memory, which needs its bandwidth."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    big = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    other = torch.empty_like(big)
    made: dict[str, Loop] = {"matmul": lambda: torch.matmul(a, b, out=product), "memory": lambda: other.copy_(big)}
    for loop in made.values():
        pass_ms(loop, 40)
    return made


def pass_ms(loop: Loop, rounds: int) -> float:
    """Milliseconds of one pass, the median."""
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(4):
            loop()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 4)
    return statistics.median(times)
