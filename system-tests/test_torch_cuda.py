"""`kvtier.torch` on GPU memory, as far as that goes without one: the daemon's GPU is files, and tensors lie in them."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from file_gpu import UUID, GpuDaemon, gpu_daemon, handle_of
from kvtier_testing import vllm_double
from kvtier_testing.blocks import keys
from kvtier_testing.tensors import Tensor, random_tensor

from kvtier import Client, InvalidArgument, KvtierError, Namespace, Status
from kvtier import torch as kvtier_torch
from kvtier.device import DeviceRegion
from kvtier.engine.transfers import Transfer
from kvtier.torch import _cuda, _layout
from kvtier.torch._cuda import region_spec
from kvtier.vllm._saves import GPU_CUT, Pool
from kvtier.vllm._settings import Settings
from kvtier.vllm._steps import Plan

BLOCKS = 12
LAYOUTS = {
    "blocks first": ((BLOCKS, 16, 8, 4), None, 0),
    "keys and values apart": ((2, BLOCKS, 16, 2, 32), None, 1),
    "heads before tokens, seen the other way round": ((2, BLOCKS, 4, 16, 32), (0, 1, 3, 2, 4), 1),
    "blocks in the middle": ((3, 5, BLOCKS, 64), None, 2),
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[GpuDaemon]:
    with gpu_daemon() as started:
        yield started


class Files:
    """Tensors' memory copied to files, and back."""

    def __init__(self, daemon: GpuDaemon, name: str, tensors: list[Tensor]) -> None:
        self.maps: list[Any] = []
        self.places = {}
        self.tensors = tensors
        for index, tensor in enumerate(tensors):
            path = daemon.gpu / f"{name}{index}"
            base = tensor.array.base if tensor.array.base is not None else tensor.array
            raw = numpy.frombuffer(memoryview(numpy.ascontiguousarray(base)).cast("B"), dtype=numpy.uint8)
            memory = numpy.memmap(path, dtype=numpy.uint8, mode="w+", shape=raw.shape)
            memory[:] = raw
            self.maps.append((memory, base))
            self.places[tensor.data_ptr()] = (handle_of(path), 0)

    def load(self) -> None:
        for memory, base in self.maps:
            base.view(numpy.uint8).reshape(-1)[:] = memory

    def region(self, namespace: Namespace, axis: int) -> DeviceRegion:
        planes = _layout.planes(self.tensors, axis)
        return DeviceRegion(namespace, region_spec(planes, device=UUID, place=lambda address, _: self.places[address]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_device_and_memory_agree_on_the_bytes_of_a_block(daemon: GpuDaemon, client: Client, layout: str) -> None:
    shape, order, axis = LAYOUTS[layout]
    source = [random_tensor(shape, index, order) for index in range(3)]
    target = [random_tensor(shape, 100 + index, order) for index in range(3)]
    block_bytes = sum(tensor.select(axis, 0).numel() * tensor.element_size() for tensor in source)
    namespace = client.namespace(f"cuda/{layout}", block_bytes=block_bytes)
    number = list(LAYOUTS).index(layout)
    names, taken, given = keys(layout, 5), [7, 0, 3, 11, 4], [1, 2, 9, 0, 10]
    files = Files(daemon, f"s{number}-", source)
    with files.region(namespace, axis) as region:
        assert region.put(names, taken).wait(60) == [Status.OK] * 5
    with kvtier_torch.register(namespace, target, block_axes=axis) as memory:
        assert memory.get(names, given).wait() == [Status.OK] * 5
    for before, after in zip(source, target, strict=True):
        for from_block, to_block in zip(taken, given, strict=True):
            assert numpy.array_equal(before.array.take(from_block, axis), after.array.take(to_block, axis))
    others = keys(f"{layout} back", 5)
    with kvtier_torch.register(namespace, target, block_axes=axis) as memory:
        assert memory.put(others, given).wait() == [Status.OK] * 5
    with files.region(namespace, axis) as region:
        back = [8, 1, 2, 10, 5]
        assert region.get(others, back, layers=range(1)).wait(60) == [Status.OK] * 5
        assert region.get(others, back, layers=range(1, 3)).wait(60) == [Status.OK] * 5
    files.load()
    for before, after in zip(source, target, strict=True):
        for to_block, from_block in zip(back, given, strict=True):
            assert numpy.array_equal(before.array.take(to_block, axis), after.array.take(from_block, axis))


def test_tensors_of_several_shapes_are_one_block(daemon: GpuDaemon, client: Client) -> None:
    source = [random_tensor((2, BLOCKS, 16, 32), 1, None), random_tensor((BLOCKS, 16, 48), 2, None)]
    axes = [1, 0]
    planes = _layout.planes(source, axes)
    block_bytes = sum(plane.part_bytes for plane in planes)
    namespace = client.namespace("cuda/several", block_bytes=block_bytes)
    files = Files(daemon, "several", source)
    spec = region_spec(planes, device=UUID, place=lambda address, _: files.places[address])
    assert spec.layers == 1
    names = keys("several", 2)
    with DeviceRegion(namespace, spec) as region:
        assert region.put(names, [3, 5]).wait(60) == [Status.OK] * 2
    target = [random_tensor((2, BLOCKS, 16, 32), 3, None), random_tensor((BLOCKS, 16, 48), 4, None)]
    with kvtier_torch.register(namespace, target, block_axes=axes) as memory:
        assert memory.get(names, [0, 1]).wait() == [Status.OK] * 2
    assert numpy.array_equal(source[0].array[:, 3], target[0].array[:, 0])
    assert numpy.array_equal(source[1].array[5], target[1].array[1])


def test_what_a_gpu_cannot_copy_is_refused() -> None:
    cut = Tensor(random_tensor((BLOCKS, 4, 4, 4, 4, 4), 1).array[:, :3, :3, :3, :3, :3])
    with pytest.raises(InvalidArgument, match="at most 3 on a GPU"):
        region_spec(_layout.planes([cut], 0), device=UUID, place=lambda address, tensor: (bytes(64), 0))
    several = [Tensor(random_tensor((BLOCKS, 4, 4, 4), 1).array[:, :3, :3, :3]), random_tensor((BLOCKS, 64), 2)]
    with pytest.raises(InvalidArgument, match="several shapes"):
        region_spec(_layout.planes(several, 0), device=UUID, place=lambda address, tensor: (bytes(64), 0))


class _Event:
    """An event that the device never reaches."""

    def __init__(self, interprocess: bool = False) -> None:
        self.waited = 0

    def record(self, stream: object) -> None:
        pass

    def ipc_handle(self) -> bytes:
        return bytes(64)

    def query(self) -> bool:
        return False

    def synchronize(self) -> None:
        self.waited += 1


synchronized: list[str] = []


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., _cuda.CudaRegion]]:
    """Makes a region of a device that has no daemon behind it."""
    cuda = SimpleNamespace(
        device=lambda device: nullcontext(),
        Stream=lambda: SimpleNamespace(wait_event=lambda event: None),
        Event=_Event,
        synchronize=synchronized.append,
        get_device_properties=lambda device: SimpleNamespace(uuid="0"),
    )
    synchronized.clear()
    monkeypatch.setattr(_cuda, "_torch", lambda: SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(_cuda, "place_of", lambda address, tensor: (bytes(64), 0))
    monkeypatch.setattr(_cuda, "driver", lambda: None)
    tensor: Any = random_tensor((BLOCKS, 64), 1)
    tensor.device = "cuda:0"
    namespace: Any = SimpleNamespace(block_bytes=64)

    def make(device_region: Any, tensors: list[Any] | None = None, axis: int = 0, block_bytes: int = 64) -> _cuda.CudaRegion:
        monkeypatch.setattr(_cuda, "DeviceRegion", lambda *arguments: device_region)
        namespace.block_bytes = block_bytes
        for one in tensors or ():
            one.device = "cuda:0"
        chosen = tensors or [tensor]
        return _cuda.CudaRegion(namespace, chosen, _layout.planes(chosen, axis), "begun")

    yield make


def test_a_put_that_is_refused_keeps_no_event(begun: Callable[[Any], _cuda.CudaRegion]) -> None:
    class Refusing:
        takes_events = True

        def put(self, *arguments: object, **options: object) -> None:
            raise InvalidArgument("no")

    region = begun(Refusing())
    after = _Event()
    for _ in range(_cuda.EVENTS + 1):
        for one in (after, kvtier_torch.SharedEvent(after)):
            with pytest.raises(InvalidArgument, match="no"):
                region.put([b"k"], [0], after=one)
    assert after.waited == 0
    with pytest.raises(InvalidArgument, match=f"block id {BLOCKS}"):
        region.put([b"k"], [BLOCKS])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_this_process_writes_is_what_the_daemon_copies(
    begun: Callable[..., _cuda.CudaRegion], client: Client, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, order, axis = LAYOUTS[layout]
    source = [random_tensor(shape, index, order) for index in range(2)]
    target = [random_tensor(shape, 100 + index, order) for index in range(2)]
    block_bytes = sum(tensor.select(axis, 0).numel() * tensor.element_size() for tensor in source)
    namespace = client.namespace(f"written/{layout}", block_bytes=block_bytes)
    names, taken, given = keys(f"written {layout}", 3), [7, 0, 11], [1, 9, 4]
    with kvtier_torch.register(namespace, source, block_axes=axis) as memory:
        assert memory.put(names, taken).wait() == [Status.OK] * 3
    held = bytearray(3 * block_bytes)
    assert namespace.get(names, held).statuses == [Status.OK] * 3
    blocks = [bytes(held[at : at + block_bytes]) for at in range(0, len(held), block_bytes)]
    others = [number for number in range(BLOCKS) if number not in given]
    before = [tensor.array.copy() for tensor in target]
    code = 0

    def copy(address: Any, run: bytes, size: Any) -> int:
        if not code:
            ctypes.memmove(address.value, run, size.value)
        return code

    monkeypatch.setattr(_cuda, "driver", lambda: SimpleNamespace(cuMemcpyHtoD_v2=copy))
    region = begun(None, target, axis, block_bytes)
    region.write(given, blocks)
    assert synchronized == ["cuda:0", "cuda:0"], "at its beginning, and when the bytes are with the driver"
    for one, two, old in zip(source, target, before, strict=True):
        for from_block, to_block in zip(taken, given, strict=True):
            assert numpy.array_equal(one.array.take(from_block, axis), two.array.take(to_block, axis))
        assert numpy.array_equal(old.take(others, axis), two.array.take(others, axis))
    with pytest.raises(InvalidArgument, match=f"block id {BLOCKS}"):
        region.write([BLOCKS], blocks[:1])
    with pytest.raises(InvalidArgument, match=f"a block of 5 bytes; expected {block_bytes}"):
        region.write([0], [b"short"])
    code = 700
    with pytest.raises(KvtierError, match="block 0 can't be written to the GPU .CUDA error 700"):
        region.write([0], blocks[:1])


class _Waiting:
    """A device's region whose copies end when they are told to."""

    takes_events = True

    def __init__(self) -> None:
        self.events: list[int] = []
        self.over: list[Callable[[], None]] = []

    def put(self, *arguments: object, event: int, **options: object) -> Any:
        self.events.append(event)
        return SimpleNamespace(done=lambda: False, when_over=self.over.append)

    get = put


def test_event_of_an_idle_device_is_none_to_wait_for(begun: Callable[[Any], _cuda.CudaRegion], monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = _Waiting()
    region = begun(waiting)
    now_ns = 0

    class Soon(_Event):
        """An event that the device reaches at a given time."""

        def __init__(self, at_ns: int) -> None:
            super().__init__()
            self.at_ns = at_ns

        def query(self) -> bool:
            nonlocal now_ns
            now_ns += 1000
            return now_ns >= self.at_ns

    monkeypatch.setattr(_cuda, "monotonic_ns", lambda: now_ns)
    region.get([b"k"], [0], after=Soon(20_000))
    now_ns = 0
    region.get([b"k"], [0], after=kvtier_torch.SharedEvent(Soon(_cuda._IDLE_GPU_NS - 1000)))
    assert waiting.events == [0, 0]
    now_ns = 0
    region.get([b"k"], [0], after=Soon(1_000_000))
    assert waiting.events[-1] == 1 and now_ns == pytest.approx(_cuda._IDLE_GPU_NS, abs=2000)
    # A put comes behind what the device computes.
    now_ns = 0
    region.put([b"k"], [0], after=Soon(20_000))
    assert waiting.events[-1] == 2 and now_ns == 1000


@pytest.mark.parametrize("is_open", [True, False])
def test_region_tells_whether_its_copies_wait_for_events(begun: Callable[[Any], _cuda.CudaRegion], is_open: bool) -> None:
    waiting = _Waiting()
    waiting.takes_events = is_open
    region, event = begun(waiting), _Event()
    assert region.takes_events == is_open
    region.put([b"k"], [0], after=event)
    assert (waiting.events, event.waited) == (([1], 0) if is_open else ([0], 1))


def test_copies_that_wait_for_a_shared_event_take_one(begun: Callable[[Any], _cuda.CudaRegion]) -> None:
    waiting = _Waiting()
    region = begun(waiting)
    event = _Event()
    shared = kvtier_torch.SharedEvent(event)
    for _ in range(2 * _cuda.EVENTS):
        region.put([b"k"], [0], after=shared)
    assert set(waiting.events) == {1} and event.waited == 0
    # An event that is not shared may have been recorded again since.
    region.put([b"k"], [0], after=event)
    region.put([b"k"], [0], after=event)
    region.put([b"k"], [0], after=kvtier_torch.SharedEvent(event))
    assert waiting.events[-3:] == [2, 3, 4]


def test_shared_event_is_free_again_when_the_last_copy_has_ended(begun: Callable[[Any], _cuda.CudaRegion]) -> None:
    waiting = _Waiting()
    region = begun(waiting)
    shared = kvtier_torch.SharedEvent(_Event())
    region.put([b"k"], [0], after=shared)
    region.put([b"k"], [0], after=shared)
    waiting.over[0]()
    other = _Event()
    region.put([b"k"], [0], after=other)
    waiting.over[1]()
    region.put([b"k"], [0], after=other)
    # Another event has the number now: this one must be recorded anew.
    region.put([b"k"], [0], after=shared)
    assert waiting.events == [1, 1, 2, 1, 3]


def test_vllms_stores_by_layer_never_wait_for_a_late_device(begun: Callable[..., _cuda.CudaRegion]) -> None:
    layers = 16
    region = begun(_Waiting(), [random_tensor((BLOCKS, 64), number) for number in range(layers)], 0, layers * 128)
    events: list[_Event] = []

    def event() -> kvtier_torch.SharedEvent:
        events.append(_Event())
        return kvtier_torch.SharedEvent(events[-1])

    pool = Pool({f"layer {number}": number for number in range(layers)}, layers, layers * 128)
    worker = vllm_double._connector.Worker(
        [region], Settings(), [True], False, event, None, str, pools=[pool], cut=replace(GPU_CUT, part_bytes=1, put_bytes=1)
    )
    for step in range(1, 13):
        plan = Plan(step, stores=[Transfer("one", [bytes([step]) * 16], [0], 0, by_layer=True)])
        worker.begin_forward(plan, lambda: True)
        for name in pool.numbers:
            worker.layer_computed(name)
        worker.start_stores(plan)
    assert [one.waited for one in events] == [0] * (2 * GPU_CUT.groups_max + 10), "two steps by layer, the others whole"
