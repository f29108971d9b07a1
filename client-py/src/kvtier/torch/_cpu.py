"""Tensors in this process's memory: copied to and from slots by the extension, on threads of their own."""

import ctypes
import os
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from itertools import accumulate, takewhile
from typing import Any, TypeAlias

from kvtier import _core
from kvtier._errors import InvalidArgument
from kvtier._operations import check_annotations, instant_after, spans
from kvtier._protocol import Status
from kvtier.client import Namespace
from kvtier.torch import Copying, Region
from kvtier.torch._layout import Plane, runs_of
from kvtier.torch._shards import Cells

HOST = "host"
"""The device of a region whose blocks its engine copies itself."""

PART_BYTES_MIN = 64 << 20
"""More than this is shared among threads."""

_THREADS_MAX = 4

_LAYER_GROUPS_MAX = 4
"""of a get by layer: for each group the blocks' checksums are looked at once more"""

Copy: TypeAlias = Callable[[int, int, _core.Tensors, int], list[Status]]
"""Copies some of an operation's blocks: (first, count, where they lie, deadline)"""


class _Group:
    """Some layers of all blocks of a copy, in parts."""

    def __init__(self, layers: range) -> None:
        self.layers = layers
        self.parts: list[tuple[int, Future[list[Status]]]] = []
        """(blocks, outcome), in order"""

    def done(self) -> bool:
        return all(part.done() for _, part in self.parts)

    def wait(self, timeout: float | None, blocks: int | None = None) -> None:
        firsts = accumulate((count for count, _ in self.parts), initial=0)
        wait_for([part for first, (_, part) in zip(firsts, self.parts) if blocks is None or first < blocks], timeout)

    def statuses(self) -> list[Status]:
        return [status for count, part in self.parts for status in _outcome(count, part)]


class CpuCopying(Copying):
    """A copy whose parts are carried out on the region's threads, one group of layers behind the other."""

    def __init__(self, groups: Sequence[_Group]) -> None:
        self.groups = groups
        """in order"""
        self._layers = sum(len(group.layers) for group in groups)
        self._cancelled = threading.Event()

    def begin(self, work: Callable[[], list[Status]], count: int) -> list[Status]:
        """Carries out a part, unless it is too late."""
        return [Status.CANCELLED] * count if self._cancelled.is_set() else work()

    def done(self) -> bool:
        return all(group.done() for group in self.groups)

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        end_s = None if timeout is None else time.monotonic() + timeout
        for group in self.groups:
            group.wait(None if end_s is None else max(0.0, end_s - time.monotonic()), blocks)
        statuses = [group.statuses() for group in self.groups]
        return statuses[0] if len(statuses) == 1 else [_together(of_block) for of_block in zip(*statuses, strict=True)]

    def layers_done(self) -> int:
        return sum(len(group.layers) for group in takewhile(_Group.done, self.groups))

    def wait_layers(self, layers: int, timeout: float | None = None) -> int:
        end_s = None if timeout is None else time.monotonic() + timeout
        done = 0
        for group in self.groups:
            if done >= layers:
                break
            group.wait(None if end_s is None else max(0.0, end_s - time.monotonic()))
            if not group.done():
                break
            done += len(group.layers)
        return done

    def wait_layer(self, layer: int, stream: Any = None) -> None:
        if not 0 <= layer < self._layers:
            raise InvalidArgument(f"layer {layer}; expected 0 to {self._layers - 1}")
        self.wait_layers(layer + 1)

    def cancel(self) -> None:
        self._cancelled.set()
        for group in self.groups:
            for _, part in group.parts:
                part.cancel()


def _outcome(count: int, part: Future[list[Status]]) -> list[Status]:
    if part.cancelled():
        return [Status.CANCELLED] * count
    return part.result() if part.done() else [Status.PENDING] * count


def _together(of_block: Sequence[Status]) -> Status:
    """What to say of a block whose layers have come so: that it failed if any has, and else that it is on its way if any is."""
    failed = next((status for status in of_block if status not in (Status.OK, Status.PENDING)), None)
    return failed or (Status.PENDING if Status.PENDING in of_block else Status.OK)


class CpuRegion(Region):
    """Tensors that this process can read and write by address."""

    def __init__(
        self, namespace: Namespace, tensors: list[Any], planes: list[Plane], name: str, cells: Cells | None = None
    ) -> None:
        self.blocks = planes[0].blocks
        self.block_bytes = namespace.block_bytes
        self.layers = len(planes) if cells is None else len(planes) // cells.shard.planes
        self.puts_layers = cells is not None and self.layers > 1 and namespace._properties.encoding is None
        self._cells = cells
        self._namespace = namespace
        self._shard_texts: dict[range, bytes] = {}
        text = self._shard_text(range(self.layers))
        self._is_part = bool(text)
        """whether the tensors have a part of each block"""
        if text:
            namespace._register_shard(text)
        self._tensors = tensors  # kept alive: the extension knows their addresses only
        self._planes = planes
        self._packed = [plane.packed() for plane in planes]
        self._threads = max(1, min(_THREADS_MAX, len(os.sched_getaffinity(0))))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=f"kvtier-{name or 'copy'}")

    def put(
        self,
        keys: Sequence[bytes],
        block_ids: Sequence[int],
        *,
        layers: range | None = None,
        after: Any = None,
        timeout: float | None = None,
        parent: bytes | None = None,
        depth: int = 0,
        annotations: Sequence[bytes | None] | None = None,
        importance: int = 1,
    ) -> Copying:
        if annotations is not None:
            check_annotations(annotations, len(keys))
        chosen = self._chosen(layers)
        if len(chosen) != self.layers and not self.puts_layers:
            raise InvalidArgument(
                f"layers is {layers}; expected all {self.layers}: a block in host memory is put whole, unless it is registered as a shard, in a "
                "namespace without an encoding"
            )
        text = self._shard_text(chosen)
        copy = self._putting(keys, parent, depth, 0, annotations, importance, text)
        return self._begin(copy, keys, block_ids, chosen, after, timeout, is_part=bool(text))

    def get(
        self,
        keys: Sequence[bytes],
        block_ids: Sequence[int],
        *,
        layers: range | None = None,
        after: Any = None,
        timeout: float | None = None,
        by_layer: bool | None = None,
    ) -> Copying:
        copy = self._getting(keys, 0)
        chosen = self._chosen(layers)
        return self._begin(copy, keys, block_ids, chosen, after, timeout, min(len(chosen), _LAYER_GROUPS_MAX) if by_layer else 1, is_part=self._is_part)

    def write(self, block_ids: Sequence[int], blocks: Sequence[bytes]) -> None:
        for number, block in zip(block_ids, blocks, strict=True):
            for address, run in runs_of(self._planes, number, block, self.block_bytes):
                ctypes.memmove(address, run, len(run))

    def put_group(self, keys: Sequence[bytes], block_ids: Sequence[int], group: int, timeout: float) -> CpuCopying:
        """As `put`, in a KV-cache group; what precedes the first key is not known."""
        copy = self._putting(keys, None, 0, group, None, 1, self._shard_text(range(self.layers)))
        return self._begin(copy, keys, block_ids, range(self.layers), None, timeout, is_part=self._is_part)

    def get_group(self, keys: Sequence[bytes], block_ids: Sequence[int], group: int, timeout: float) -> CpuCopying:
        """As `get`, in a KV-cache group."""
        copy = self._getting(keys, group)
        return self._begin(copy, keys, block_ids, range(self.layers), None, timeout, is_part=self._is_part)

    def _putting(
        self,
        keys: Sequence[bytes],
        parent: bytes | None,
        depth: int,
        group: int,
        annotations: Sequence[bytes | None] | None,
        importance: int,
        region_text: bytes,
    ) -> Copy:
        def copy(start: int, count: int, memory: _core.Tensors, deadline_ns: int) -> list[Status]:
            before = keys[start - 1] if start else parent
            return self._namespace._put(
                keys[start : start + count],
                memory,
                None if annotations is None else annotations[start : start + count],
                region_text,
                {"parent": before, "depth": depth + start, "group": group, "deadline_ns": deadline_ns, "importance": importance},
            )

        return copy

    def _getting(self, keys: Sequence[bytes], group: int) -> Copy:
        def copy(start: int, count: int, memory: _core.Tensors, deadline_ns: int) -> list[Status]:
            some = keys[start : start + count]
            return self._namespace.get(some, memory, group=group, deadline_ns=deadline_ns).statuses

        return copy

    def _shard_text(self, layers: range) -> bytes:
        """The region that the daemon knows for puts of these layers; empty: it needs to know none, as blocks are put whole."""
        if self._cells is None:
            return b""
        if layers not in self._shard_texts:
            cells = self._cells if len(layers) == self.layers else self._cells.part_of(layers)
            self._shard_texts[layers] = b"" if are_put_whole(cells) else shard_text(cells)
        return self._shard_texts[layers]

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._tensors = []

    def _chosen(self, layers: range | None) -> range:
        if layers is None:
            return range(self.layers)
        if layers.step != 1 or not 0 <= layers.start < layers.stop <= self.layers:
            raise InvalidArgument(f"layers is {layers}; expected some of range({self.layers}), one after the other")
        return layers

    def _begin(
        self,
        copy: Copy,
        keys: Sequence[bytes],
        block_ids: Sequence[int],
        layers: range,
        after: Any,
        timeout: float | None,
        layer_groups: int = 1,
        *,
        is_part: bool,
    ) -> CpuCopying:
        if after is not None:
            raise InvalidArgument("after is for tensors on a device; these are in memory")
        if len(block_ids) != len(keys):
            raise InvalidArgument(f"{len(block_ids)} block ids for {len(keys)} keys")
        deadline_ns = instant_after(self._namespace.timeout_s if timeout is None else timeout)
        each = -(-len(layers) // layer_groups)
        groups = [_Group(layers[first : first + each]) for first in range(0, len(layers), each)]
        copying = CpuCopying(groups)
        for group in groups:
            self._submit(copying, group, copy, len(keys), block_ids, deadline_ns, is_part)
        return copying

    def _submit(
        self, copying: CpuCopying, group: _Group, copy: Copy, blocks: int, block_ids: Sequence[int], deadline_ns: int, is_part: bool
    ) -> None:
        """Gives the parts of a group to the threads, which take them in this order. `is_part`: others put the rest of each block."""
        numbers = group.layers if self._cells is None else self._cells.tensors_of(group.layers)
        planes = b"".join(self._packed[number] for number in numbers)
        group_bytes = blocks * self.block_bytes * len(group.layers) // self.layers
        parts = max(1, min(self._threads, group_bytes // PART_BYTES_MIN))
        for start, count in spans(blocks, -(-blocks // parts) or 1):
            ids = array("q", block_ids[start : start + count])
            memory = _core.Tensors(planes, ids, self.block_bytes, is_part)

            def work(start: int = start, count: int = count, memory: _core.Tensors = memory) -> list[Status]:
                statuses = copy(start, count, memory, deadline_ns)
                if statuses.count(Status.UNAVAILABLE) == count:
                    # The session may be that of a daemon which was started again since.
                    statuses = copy(start, count, memory, deadline_ns)
                return statuses

            group.parts.append((count, self._pool.submit(copying.begin, work, count)))


def are_put_whole(cells: Cells) -> bool:
    """Whether the tensors have all of each block, plane by plane in the order of its bytes. Then a block is put as one piece, and the daemon
    needs to know no region."""
    end = 0
    for plane in cells.planes():
        if plane.offset != end or not plane.is_dense:
            return False
        end += plane.part_bytes
    return cells.is_whole and end == cells.form.block_bytes


def shard_text(cells: Cells) -> bytes:
    """The description of a rank's shard in host memory that the daemon gets: no place of any byte, as this process copies."""
    extents = {"B": 1, "C": cells.block_planes, "N": cells.shard.block_tokens, "H": cells.extents.get("H", 1)}
    axes: dict[str, tuple[int, int]] = {}
    stride = cells.cell_bytes
    for letter, extent in reversed(extents.items()):
        axes[letter] = (extent, stride)
        stride *= extent
    return cells.spec(HOST, axes).text()
