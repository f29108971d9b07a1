"""What `acquire` and `reserve` hand out over gRPC: memory of this process in place of the daemon's."""

from collections.abc import Iterable
from typing import Any

from kvtier._protocol import Status, Tier
from kvtier._types import Lease, Leases

_NEVER_NS = (1 << 63) - 1


class CopiedLeases(Leases):
    """Copies of blocks, which no lease of the daemon keeps: they stay until `release`, and are checked already."""

    def __init__(self, statuses: list[Status], copies: bytes | bytearray, block_bytes: int) -> None:
        leases = [Lease(status, Tier.HOST if status is Status.OK else Tier.NONE) for status in statuses]
        is_any = Status.OK in statuses
        super().__init__(None, {}, leases, [], _NEVER_NS if is_any else 0, block_bytes)
        whole = memoryview(copies).toreadonly()
        self.views = [
            whole[index * block_bytes : (index + 1) * block_bytes] if status is Status.OK else None
            for index, status in enumerate(statuses)
        ]

    def check(self) -> list[Status]:
        """OK for what was copied; STALE after `release`."""
        return [
            Status.STALE if status is Status.OK and view is None else status
            for status, view in zip(self.statuses, self.views, strict=True)
        ]

    @property
    def are_verified(self) -> bool:
        return all(status is Status.OK for status in self.statuses)

    def read(self, index: int) -> bytes | None:
        view = self.views[index]
        return None if view is None else bytes(view)


class LocalSlots:
    """Memory to write blocks into, which `commit` sends. Mixed into both front ends' reservations."""

    statuses: list[Status]
    views: list[memoryview | None]
    _memory: bytearray
    _block_bytes: int

    def fill(self, statuses: list[Status], block_bytes: int) -> None:
        """Memory for each block that is to be written."""
        self.statuses = statuses
        self._block_bytes = block_bytes
        self._memory = bytearray(len(statuses) * block_bytes)
        whole = memoryview(self._memory)
        self.views = [
            whole[index * block_bytes : (index + 1) * block_bytes] if status is Status.OK else None
            for index, status in enumerate(statuses)
        ]

    def take(self, indices: Iterable[int] | None) -> list[int]:
        """The slots that are written, which cannot be written any more."""
        chosen = range(len(self.statuses)) if indices is None else indices
        taken = [index for index in chosen if self.views[index] is not None]
        for index in taken:
            view = self.views[index]
            if view is not None:
                view.release()
            self.views[index] = None
        return taken

    def bytes_of(self, index: int) -> memoryview:
        return memoryview(self._memory)[index * self._block_bytes : (index + 1) * self._block_bytes]


def reserved(found: Any, count: int) -> list[Status]:
    """What reservations say of blocks, by what a lookup found."""
    return [
        Status.EXISTS if status is Status.OK else Status.OK if status is Status.MISS else status
        for status in (found.statuses if count else [])
    ]
