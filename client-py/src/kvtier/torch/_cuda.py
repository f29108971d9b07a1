"""Tensors in GPU memory: the daemon opens them, and copies blocks itself.

What this process does is to name blocks: no byte passes through it, and no kernel of its own runs.

Streams: ``after`` makes a copy wait for what was recorded; one without it begins at once. `wait_layer` makes a stream wait for
a layer of a get; else use what a get brought when `done` or `layers_done` says so. Leave alone what a put reads until it is
done: no stream waits for that.
"""

import ctypes
import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kvtier._core import monotonic_ns
from kvtier._errors import InvalidArgument, KvtierError
from kvtier._protocol import Status
from kvtier.client import Namespace
from kvtier.device import Copying as DeviceCopying
from kvtier.device import DeviceRegion, ExportedMemory, Part, RegionSpec
from kvtier.torch import Copying, Region, SharedEvent
from kvtier.torch._exported import Exported, driver
from kvtier.torch._layout import Plane, runs_of
from kvtier.torch._shards import Cells
from kvtier.torch._waits import StreamWaits

EVENTS = 32
"""How many copies can wait for events at a time. If there are more, this process waits itself."""

_OUTER_AXES = "CNH"

_IDLE_GPU_NS = 50_000
"""A GPU with nothing else to do has come to an event by then: that takes it a few microseconds, and more to have the daemon
wait for another one."""


class CudaCopying(Copying):
    """Blocks on their way between this process's GPU memory and the daemon."""

    counts_failed_layers = True

    def __init__(self, copying: DeviceCopying, region: "CudaRegion", layers: int) -> None:
        self._copying = copying
        self._region = region
        self._layers = layers

    def done(self) -> bool:
        return self._copying.done()

    def last_blocks(self, least: int) -> int:
        return self._copying.last_blocks(least)

    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        return self._copying.wait(timeout, blocks)

    def layers_done(self) -> int:
        return self._copying.layers_done()

    def wait_layers(self, layers: int, timeout: float | None = None) -> int:
        return self._copying.wait_layers(layers, timeout)

    def wait_layer(self, layer: int, stream: Any = None) -> None:
        if not 0 <= layer < self._layers:
            raise InvalidArgument(f"layer {layer}; expected 0 to {self._layers - 1}")
        self._region.stream_until(self._copying, layer + 1, stream)

    def cancel(self) -> None:
        self._copying.cancel()

    def give_up(self) -> None:
        self._copying.give_up()


class _Events:
    """Events that the daemon can wait for: what a copy waits for is recorded in one, which nothing else is recorded in until
    all copies have ended that wait for it."""

    def __init__(self, device: Any) -> None:
        torch = _torch()
        self._torch = torch
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream()
            self._events = [torch.cuda.Event(interprocess=True) for _ in range(EVENTS)]
            for event in self._events:
                event.record(self._stream)
            self.handles = [bytes(event.ipc_handle()) for event in self._events]
        self._free = list(range(EVENTS, 0, -1))
        self._users = [0] * (EVENTS + 1)
        self._last: SharedEvent | None = None
        self._last_number = 0
        self._waiting: list[DeviceCopying] = []
        self._lock = threading.Lock()

    def take(self, after: Any, patience_ns: int, are_open: bool) -> int:
        """The number of an event that is done when `after` is; 0: it is done already.

        Args:
            patience_ns: how long to look whether it is done.
            are_open: whether the daemon has opened the events; if not, this process waits.
        """
        shared = after if isinstance(after, SharedEvent) else None
        if shared is not None:
            with self._lock:
                if are_open and shared is self._last and self._users[self._last_number]:
                    self._users[self._last_number] += 1
                    return self._last_number
            after = shared.event
        if after is None or after.query():
            return 0
        until_ns = monotonic_ns() + patience_ns
        while monotonic_ns() < until_ns:
            if after.query():
                return 0
        for copying in list(self._waiting):
            copying.done()
        with self._lock:
            self._last = None
            number = self._free.pop() if are_open and self._free else 0
            if number:
                self._users[number] = 1
        if number == 0:
            after.synchronize()
            return 0
        with self._torch.cuda.device(self._device):
            self._stream.wait_event(after)
            self._events[number - 1].record(self._stream)
        with self._lock:
            self._last, self._last_number = shared, number
        return number

    def give_back(self, number: int) -> None:
        """One copy less waits for the event."""
        if number:
            with self._lock:
                self._users[number] -= 1
                if not self._users[number]:
                    self._free.append(number)

    def until(self, copying: DeviceCopying, number: int) -> None:
        """The copy waits for the event until that is over."""
        if number == 0:
            return
        with self._lock:
            self._waiting.append(copying)

        def over() -> None:
            self.give_back(number)
            with self._lock:
                if copying in self._waiting:
                    self._waiting.remove(copying)

        copying.when_over(over)


class CudaRegion(Region):
    """Tensors that the daemon has opened. Close it before they are freed: until then the driver keeps their memory."""

    def __init__(
        self, namespace: Namespace, tensors: list[Any], planes: list[Plane], name: str, cells: Cells | None = None
    ) -> None:
        torch = _torch()
        self.blocks = planes[0].blocks
        self.block_bytes = namespace.block_bytes
        self.layers = len(planes) if cells is None else cells.layers
        self._namespace = namespace
        self._tensors = tensors  # kept alive: the daemon has mapped their memory
        self._planes = planes
        device = tensors[0].device
        torch.cuda.synchronize(device)  # makes the device's context this thread's
        self._events = _Events(device)
        spec = region_spec(
            planes,
            device=f"GPU-{torch.cuda.get_device_properties(device).uuid}",
            place=places_of(planes, device),
            events=self._events.handles,
            cells=cells,
        )
        self._is_layered = spec.layers == self.layers
        self.puts_layers = self._is_layered and self.layers > 1
        self._device = device
        self._waits = StreamWaits(driver(), lambda: torch.cuda.synchronize(device))
        self._region = DeviceRegion(namespace, spec, name)

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
        self._check(block_ids)
        chosen = self._layers_of(layers)
        return self._begin(
            lambda event: self._region.put(
                keys,
                block_ids,
                layers=chosen,
                event=event,
                timeout=timeout,
                parent=parent,
                depth=depth,
                annotations=annotations,
                importance=importance,
            ),
            after,
            layers,
        )

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
        self._check(block_ids)
        chosen = self._layers_of(layers)
        return self._begin(
            lambda event: self._region.get(
                keys, block_ids, layers=chosen, event=event, timeout=timeout, by_layer=by_layer is not False
            ),
            after,
            layers,
            _IDLE_GPU_NS,
        )

    def stream_until(self, copying: DeviceCopying, layers: int, stream: Any) -> None:
        """Has a stream wait until so many leading tensors are there."""
        if stream is None:
            stream = _torch().cuda.current_stream(self._device)
        # Those of several shapes are one layer to the daemon.
        self._waits.until(copying, layers if self._is_layered else 1, stream.cuda_stream)

    def write(self, block_ids: Sequence[int], blocks: Sequence[bytes]) -> None:
        torch = _torch()
        with torch.cuda.device(self._device):
            for number, block in zip(block_ids, blocks, strict=True):
                for address, run in runs_of(self._planes, number, block, self.block_bytes):
                    code = driver().cuMemcpyHtoD_v2(ctypes.c_uint64(address), run, ctypes.c_size_t(len(run)))
                    if code != 0:
                        raise KvtierError(f"block {number} can't be written to the GPU (CUDA error {code})")
            # The driver returns when it has taken the bytes, and the engine's streams don't wait for its own.
            torch.cuda.synchronize(self._device)

    @property
    def takes_events(self) -> bool:
        return self._region.takes_events

    @property
    def registrations(self) -> int:
        return self._region.registrations

    def advertise(self, keys: Sequence[bytes], block_ids: Sequence[int], *, rank: int = 0) -> list[Status]:
        self._check(block_ids)
        return self._region.advertise(keys, block_ids, rank=rank)

    def revoke(self, keys: Sequence[bytes]) -> list[Status]:
        return self._region.revoke(keys)

    def close(self) -> None:
        self._region.close()
        self._waits.close()
        self._tensors = []

    def _begin(
        self, copy: Callable[[int], DeviceCopying], after: Any, layers: range | None, patience_ns: int = 0
    ) -> CudaCopying:
        event = self._events.take(after, patience_ns, self.takes_events)
        try:
            copying = copy(event)
        except BaseException:
            self._events.give_back(event)
            raise
        self._events.until(copying, event)
        return CudaCopying(copying, self, self.layers if layers is None else len(layers))

    def _check(self, block_ids: Sequence[int]) -> None:
        for number in (min(block_ids), max(block_ids)) if len(block_ids) else ():
            if not 0 <= number < self.blocks:
                raise InvalidArgument(f"block id {number}; expected 0 to {self.blocks - 1}")

    def _layers_of(self, layers: range | None) -> range | None:
        if layers is None or self._is_layered:
            return layers
        if len(layers) != self.layers:
            raise InvalidArgument(f"layers is {layers}; expected all {self.layers}: these tensors are of several shapes")
        return None


def region_spec(
    planes: Sequence[Plane],
    *,
    device: str,
    place: Callable[[int, int], tuple[bytes | ExportedMemory, int]],
    events: Sequence[bytes] = (),
    cells: Cells | None = None,
) -> RegionSpec:
    """The description of planes that the daemon gets.

    Args:
        place: the memory and the offset of an address; its second argument is the tensor's number, for messages.
        cells: what the planes have of each block; None: all, in the order of their addresses.

    Raises:
        InvalidArgument: the daemon can't copy blocks of this kind.
    """
    tensors = [place(plane.address, index) for index, plane in enumerate(planes)]
    blocks = planes[0].blocks
    if cells is not None:
        return _shard_spec(cells, device, tensors, events)
    parts = [_part(plane, index) for index, plane in enumerate(planes)]
    if all(part == parts[0] for part in parts):
        tokens = dict(zip(parts[0].axes, parts[0].extents, strict=True)).get("N", 1)
        return RegionSpec(device, len(planes), blocks, tokens, parts[:1], tensors, events=events)
    if any(set(part.axes) & set("NH") for part in parts):
        raise InvalidArgument(
            "tensors of several shapes, in which a block is cut into runs along several axes: register those of one shape apart"
        )
    # Parts of one layer each, one behind the other.
    return RegionSpec(device, 1, blocks, 1, parts, tensors, events=events)


def _shard_spec(
    cells: Cells, device: str, tensors: Sequence[tuple[bytes | ExportedMemory, int]], events: Sequence[bytes]
) -> RegionSpec:
    axes = {"B": (cells.blocks, cells.block_stride)}
    for letter, (*outer, inner) in cells.strides.items():
        for count, stride in outer:
            if stride != inner[0] * inner[1]:
                raise InvalidArgument("a block consists of several pages that do not lie side by side, which a GPU's copies can't follow")
            inner = (count * inner[0], inner[1])
        axes[letter] = inner
    return cells.spec(device, axes, tensors, events)


def _part(plane: Plane, index: int) -> Part:
    if len(plane.axes) > len(_OUTER_AXES):
        raise InvalidArgument(
            f"tensor {index}: a block's runs lie along {len(plane.axes)} axes, at most {len(_OUTER_AXES)} on a GPU"
        )
    letters = _OUTER_AXES[: len(plane.axes)]
    return Part(
        axes=f"B{letters}D",
        extents=(plane.blocks, *(count for count, _, _ in plane.axes), plane.run_bytes),
        strides=(plane.block_stride, *(stride for _, stride, _ in plane.axes), 1),
        element_bytes=1,
    )


def _torch() -> Any:
    # By name: who checks types here need not have it.
    return importlib.import_module("torch")


def places_of(planes: Sequence[Plane], device: Any) -> Callable[[int, int], tuple[bytes | ExportedMemory, int]]:
    """Where the daemon finds an address of some planes, whatever allocator their memory is of."""
    exported: list[Exported] = []

    def place(address: int, tensor: int) -> tuple[bytes | ExportedMemory, int]:
        found = place_of(address, tensor)
        if found is not None:
            return found
        if not exported:
            exported.append(Exported([(plane.address, plane.address + plane.span_bytes) for plane in planes], device))
        return exported[0].place(address)

    return place


def place_of(address: int, tensor: int) -> tuple[bytes, int] | None:
    """The IPC handle of the allocation that holds an address of device memory, and the address's offset in it; None where it
    is no allocation of cudaMalloc."""
    base = ctypes.c_uint64()
    size = ctypes.c_size_t()
    handle = (ctypes.c_ubyte * 64)()
    code = driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    if code != 0:
        raise KvtierError(f"tensor {tensor} is not in a GPU's memory (CUDA error {code})")
    code = driver().cuIpcGetMemHandle(ctypes.byref(handle), base)
    return None if code != 0 else (bytes(handle), address - base.value)
