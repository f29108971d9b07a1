"""Which blocks of an engine's GPU memory stand there for other engines of the host, which get them from GPU to GPU.

An engine keeps a block in its memory until it needs the place. Here is the book on it: a block is advertised when its bytes are
complete, and taken back before the engine writes to its place. The daemon infers nothing of that.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from kvtier._protocol import Status

_log = logging.getLogger("kvtier.engine")

_PAUSE_S = 1.0
"""after the daemon was not there"""

_GONE = (Status.OK, Status.MISS, Status.UNAVAILABLE)
"""answers to a revocation after which nothing reads the block: nobody could find it, or its session has ended"""


class Memory(Protocol):
    """The memory of one group of blocks; `kvtier.torch.Region` is one."""

    @property
    def registrations(self) -> int:
        """How often the daemon was told of it: a daemon that was started again knows no block in it."""
        ...

    def advertise(self, keys: Sequence[bytes], block_ids: Sequence[int], *, rank: int = 0) -> list[Status]: ...
    def revoke(self, keys: Sequence[bytes]) -> list[Status]: ...


class Coming:
    """Blocks that are to be advertised when they are complete."""

    __slots__ = ("block_ids", "group", "keys")

    def __init__(self, group: int, keys: Sequence[bytes], block_ids: Sequence[int]) -> None:
        self.group = group
        self.keys = keys
        self.block_ids = block_ids


class _Book:
    """The blocks of one group, by their place."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.registrations = memory.registrations
        self.coming: dict[int, Coming] = {}
        self.complete: dict[int, bytes] = {}
        """and not advertised yet"""
        self.advertised: dict[int, bytes] = {}


class Sharing:
    """The blocks of one rank. All calls come from the engine's own thread.

    Args:
        memories: of each group; None: its blocks are not shared.
        rank: what lookups call this engine.
    """

    def __init__(self, memories: Sequence[Memory | None], rank: int) -> None:
        self._books = [None if memory is None else _Book(memory) for memory in memories]
        self._rank = rank
        self._paused_until_s = 0.0
        self.observed: Counter[str] = Counter()
        """what happened since somebody looked"""

    def begin(self, group: int, keys: Sequence[bytes], block_ids: Sequence[int]) -> Coming:
        """Bytes of these blocks come to these places, or are being stored from there."""
        coming = Coming(group, keys, block_ids)
        book = self._books[group]
        if book is not None:
            book.coming.update(dict.fromkeys(block_ids, coming))
        return coming

    def end(self, coming: Coming, complete: Sequence[bool]) -> None:
        """They are there or not, one by one. Those whose places were written to since `begin` are others by now."""
        book = self._books[coming.group]
        if book is None:
            return
        for key, block, is_complete in zip(coming.keys, coming.block_ids, complete, strict=True):
            if book.coming.get(block) is coming:
                del book.coming[block]
                if is_complete and block not in book.advertised:
                    book.complete[block] = key

    def tell(self) -> None:
        """Advertises what has become complete. Never raises: others then get these blocks from host memory."""
        if time.monotonic() < self._paused_until_s:
            return
        for number, book in enumerate(self._books):
            if book is None:
                continue
            if book.registrations != book.memory.registrations:
                book.registrations = book.memory.registrations
                book.complete = book.advertised | book.complete
                book.advertised = {}
            if book.complete:
                try:
                    self._advertise(book)
                except Exception as error:
                    self._books[number] = None
                    _log.warning("blocks are not shared between GPUs: %r", error)

    def _advertise(self, book: _Book) -> None:
        blocks, keys = list(book.complete), list(book.complete.values())
        statuses = book.memory.advertise(keys, blocks, rank=self._rank)
        if Status.UNAVAILABLE in statuses or Status.DEADLINE in statuses:
            self._paused_until_s = time.monotonic() + _PAUSE_S
        for block, key, status in zip(blocks, keys, statuses, strict=True):
            if status is Status.UNAVAILABLE:
                continue
            del book.complete[block]
            # An answer that did not come in time may be any.
            if status in (Status.OK, Status.EXISTS, Status.DEADLINE):
                book.advertised[block] = key
                self.observed["advertised_blocks"] += 1

    def take_back(self, block_ids: Iterable[int] | None) -> None:
        """These places are written to from now on; None: any. Waits until nothing reads them.

        That takes as long as copies that are under way, and as long as a daemon that hangs. Whoever wrote to a block before would
        have the others compute with wrong bytes.
        """
        for book in self._books:
            if book is None:
                continue
            if block_ids is None:
                back = list(book.advertised.values())
                book.coming.clear()
                book.complete.clear()
                book.advertised.clear()
            else:
                back = []
                for block in block_ids:
                    book.coming.pop(block, None)
                    book.complete.pop(block, None)
                    key = book.advertised.pop(block, None)
                    if key is not None:
                        back.append(key)
            if back:
                self._revoke(book.memory, back)

    def _revoke(self, memory: Memory, keys: list[bytes]) -> None:
        begun_s = time.monotonic()
        self.observed["revoked_blocks"] += len(keys)
        has_told = False
        while keys:
            statuses = memory.revoke(keys)
            keys = [key for key, status in zip(keys, statuses, strict=True) if status not in _GONE]
            if keys and not has_told:
                has_told = True
                _log.warning("the engine waits for the daemon: %d blocks that it advertises may still be read", len(keys))
        self.observed["revoke_us"] += int((time.monotonic() - begun_s) * 1e6)
