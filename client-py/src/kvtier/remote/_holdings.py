"""The results of `acquire` and `reserve` over gRPC: memory of this process in place of the daemon's."""

from collections.abc import Iterable, Sequence

from kvtier._operations import Reserved
from kvtier._protocol import Status, Tier
from kvtier._types import Lease, Leases, Lookup, Options
from kvtier.client import as_keys
from kvtier.remote import _operations as operations
from kvtier.remote._operations import Context, Operation

_NEVER_NS = (1 << 63) - 1


class CopiedLeases(Leases):
    """Copies of blocks, which are verified and stay until `release`. The daemon knows of no lease."""

    def __init__(self, statuses: list[Status], copies: bytearray, block_bytes: int) -> None:
        leases = [Lease(status, Tier.HOST if status is Status.OK else Tier.NONE) for status in statuses]
        is_any = Status.OK in statuses
        super().__init__(None, {}, leases, [], _NEVER_NS if is_any else 0, block_bytes)
        self.views = _views(memoryview(copies).toreadonly(), statuses, block_bytes)

    def check(self) -> list[Status]:
        """OK for a copied block; STALE after `release`."""
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


class Slots:
    """Memory for blocks that `commit` sends."""

    def __init__(self, keys: Sequence[bytes], found: Lookup, block_bytes: int) -> None:
        statuses = [
            Status.EXISTS if status is Status.OK else Status.OK if status is Status.MISS else status
            for status in found.statuses
        ]
        self._keys = keys
        self._block_bytes = block_bytes
        self._memory = memoryview(bytearray(len(keys) * block_bytes))
        self.reserved = Reserved(0, statuses, [0] * len(keys), _views(self._memory, statuses, block_bytes))

    def send(self, context: Context, places: Iterable[int]) -> Operation[dict[int, Status]]:
        """Puts written blocks: one put for blocks that follow each other. The key before them is their parent."""
        statuses: dict[int, Status] = {}
        for begin, end in runs(places):
            blocks = [operations.part_of(self._memory, index, self._block_bytes) for index in range(begin, end)]
            if begin:
                context = context._replace(parent=self._keys[begin - 1])
            answers = yield from operations.put(
                context._replace(depth=context.depth + begin), self._keys[begin:end], blocks
            )
            statuses.update(zip(range(begin, end), answers, strict=True))
        return statuses


def _views(memory: memoryview, statuses: list[Status], block_bytes: int) -> list[memoryview | None]:
    """The memory of each block that is OK."""
    return [
        operations.part_of(memory, index, block_bytes) if status is Status.OK else None
        for index, status in enumerate(statuses)
    ]


def acquire(
    context: Context, keys: Iterable[bytes], leading_run_only: bool, no_wait: bool, expected_from: str = ""
) -> Operation[CopiedLeases]:
    keys = as_keys(keys)
    block_bytes = context.properties.block_bytes
    copies = bytearray(len(keys) * block_bytes)
    answer = yield from operations.get(context, keys, copies, leading_run_only, no_wait, expected_from)
    return CopiedLeases(answer.statuses, copies, block_bytes)


def reserve(context: Context, keys: Iterable[bytes]) -> Operation[Slots]:
    keys = as_keys(keys)
    found = yield from operations.lookup(context, keys)
    return Slots(keys, found, context.properties.block_bytes)


def options_of_commit(first: Options, later: Options) -> Options:
    """The options of `reserve`, and over them those of `commit`."""
    told: Options = {**first, **later}
    if "timeout" in later:
        told.pop("deadline_ns", None)
    return told


def runs(places: Iterable[int]) -> list[tuple[int, int]]:
    """Places as (begin, end) of those that follow each other."""
    found: list[tuple[int, int]] = []
    for place in sorted(set(places)):
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found
