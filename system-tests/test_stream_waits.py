"""Streams that wait for layers: with a GPU of shared memory whose streams are lists, and real processes."""

import ctypes
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from file_gpu import UUID, GpuDaemon, Tensors, gpu_daemon, handle_of, keys_of
from kvtier_testing.daemon import eventually
from kvtier_testing.tensors import random_tensor

from kvtier import Client, InvalidArgument, Status, device
from kvtier import _protocol as protocol
from kvtier.device import Copying, DeviceRegion, Word
from kvtier.torch import _cuda, _layout, _waits
from kvtier.torch._waits import StreamWaits

OK = Status.OK
STREAM = 0x5712
MEMORY_OPERATIONS = 122


class FakeDriver:
    """CUDA as far as streams wait for words: the GPU sees memory where it is, and looks at a stream when it is asked to."""

    def __init__(self, *attributes: int) -> None:
        self.attributes = attributes or (MEMORY_OPERATIONS,)
        self.registered: dict[int, int] = {}
        self.streams: dict[int, deque[tuple[int, int]]] = {}
        self.waits: list[tuple[int, int]] = []
        self.pushed = 0
        self.fails: dict[str, int] = {}

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = 77
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:
        device._obj.value = 1
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        assert device.value == 1 and attribute == MEMORY_OPERATIONS
        value._obj.value = int(attribute in self.attributes)
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        assert context.value == 77
        self.pushed += 1
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.pushed -= 1
        return 0

    def cuMemHostRegister_v2(self, address: Any, size: Any, flags: int) -> int:
        assert self.pushed == 1 and flags == 3 and address.value % 4096 == 0
        if address.value in self.registered:
            return 712
        if "cuMemHostRegister_v2" not in self.fails:
            self.registered[address.value] = size.value
        return self.fails.get("cuMemHostRegister_v2", 0)

    def cuMemHostGetDevicePointer_v2(self, pointer: Any, address: Any, flags: int) -> int:
        pointer._obj.value = address.value
        return self.fails.get("cuMemHostGetDevicePointer_v2", 0)

    def cuMemHostUnregister(self, address: Any) -> int:
        assert self.pushed == 1 and not any(self.streams.values()), "a stream may still look there"
        del self.registered[address.value]
        return 0

    def cuStreamWaitValue32_v2(self, stream: Any, address: Any, value: Any, flags: int) -> int:
        assert self.pushed == 1 and flags == 0
        assert any(at <= address.value < at + size for at, size in self.registered.items())
        self.waits.append((address.value, value.value))
        self.streams.setdefault(stream.value or 0, deque()).append((address.value, value.value))
        return self.fails.get("cuStreamWaitValue32_v2", 0)

    def left(self, stream: int = STREAM) -> int:
        """The waits that a stream stands before, after a look at the first ones."""
        queue = self.streams.get(stream, deque())
        while queue:
            address, value = queue[0]
            there = ctypes.c_uint32.from_address(address).value
            if ctypes.c_int32((there - value) & 0xFFFFFFFF).value < 0:
                break
            queue.popleft()
        return len(queue)

    def has_passed(self) -> bool:
        return self.left() == 0

    def synchronize(self) -> None:
        for stream in self.streams:
            assert eventually(lambda stream=stream: self.left(stream) == 0)


@pytest.fixture(scope="module")
def daemon() -> Iterator[GpuDaemon]:
    with gpu_daemon() as started:
        yield started


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def waits(driver: FakeDriver) -> StreamWaits:
    return StreamWaits(driver, driver.synchronize)


def never(daemon: GpuDaemon) -> bytes:
    """The handle of an event that is not done."""
    path = daemon.gpu / "never"
    path.write_bytes(bytes(4))
    return handle_of(path)


def region_of(daemon: GpuDaemon, client: Client, name: str, **changed: Any) -> DeviceRegion:
    """With two blocks put, and an event that is never done."""
    region = Tensors(daemon, name, seed=len(name), **changed).region(client, name, events=[never(daemon)])
    assert {*region.put(keys_of(2), [0, 1]).wait(60)} <= {OK, Status.EXISTS}
    return region


def test_a_stream_goes_on_layer_by_layer_and_finds_the_bytes(waits: StreamWaits, driver: FakeDriver) -> None:
    with gpu_daemon(delay_ms=20) as slow, Client(slow.socket_path, timeout=60) as client:
        # A layer of all blocks has 4 MiB, of one 128 KiB: each is counted alone.
        tensors = Tensors(slow, "layers", layers=4, blocks=64, tokens=64, heads=8, dim=64, seed=3)
        with tensors.region(client, "layers") as region:
            keys = keys_of(32)
            assert region.put(keys, range(32)).wait(60) == [OK] * 32
            expected = [[tensors.block(i, range(n, n + 1)) for i in range(32)] for n in range(4)]
            for turn in range(3):
                for layer in tensors.layer:
                    layer[:, 32:] = turn
                copying = region.get(keys, range(32, 64))
                for layers in range(1, 5):
                    waits.until(copying, layers, STREAM)
                for n in range(4):
                    assert eventually(lambda n=n: driver.left() <= 3 - n)
                    assert [tensors.block(32 + i, range(n, n + 1)) for i in range(32)] == expected[n]
                assert copying.wait(60) == [OK] * 32
        waits.close()
        assert driver.registered == {}
        # Each load counts on from the one before.
        assert len({value for _, value in driver.waits}) > 4 or len({at for at, _ in driver.waits}) > 1


def test_a_stream_does_not_wait_for_what_is_there(
    daemon: GpuDaemon, client: Client, waits: StreamWaits, driver: FakeDriver
) -> None:
    with region_of(daemon, client, "there") as region:
        copying = region.get(keys_of(2), [4, 5])
        assert copying.wait(60) == [OK] * 2
        waits.until(copying, 4, STREAM)
        assert driver.waits == [] and driver.registered == {}
        waits.close()


def cancelled(copying: Copying) -> None:
    copying.cancel()


def untouched(copying: Copying) -> None:
    pass


@pytest.mark.parametrize(
    ("end", "keys", "options", "statuses"),
    [
        (cancelled, keys_of(2), {"event": 1}, [Status.CANCELLED] * 2),
        (untouched, keys_of(2), {"event": 1, "timeout": 0.1}, [Status.DEADLINE] * 2),
        (untouched, keys_of(2, seed=9), {}, [Status.MISS] * 2),
        (untouched, keys_of(2), {"event": 2}, [Status.INVALID_ARGUMENT] * 2),
        (untouched, keys_of(2), {"layers": range(1, 3), "event": 1, "timeout": 0.1}, [Status.DEADLINE] * 2),
    ],
    ids=["cancelled", "too late", "nothing there", "refused", "some layers"],
)
def test_a_stream_goes_on_when_the_load_fails(
    daemon: GpuDaemon,
    client: Client,
    waits: StreamWaits,
    driver: FakeDriver,
    end: Callable[[Copying], None],
    keys: list[bytes],
    options: dict[str, Any],
    statuses: list[Status],
) -> None:
    with region_of(daemon, client, "fails") as region:
        copying = region.get(keys, [4, 5], **options)
        waits.until(copying, len(options.get("layers", range(4))), STREAM)
        end(copying)
        # Nobody asks for the answer.
        assert eventually(driver.has_passed)
        assert copying.wait(60) == statuses
        waits.close()


def test_a_stream_goes_on_when_the_gpu_fails(waits: StreamWaits, driver: FakeDriver) -> None:
    with gpu_daemon(delay_ms=50) as daemon, Client(daemon.socket_path, timeout=60) as client:
        with region_of(daemon, client, "broken") as region:
            (daemon.gpu / "fail").touch()
            copying = region.get(keys_of(2), [4, 5])
            waits.until(copying, 4, STREAM)
            assert eventually(driver.has_passed)
            assert copying.wait(60) == [Status.IO_ERROR] * 2
            waits.close()


def held(daemon: GpuDaemon, client: Client, waits: StreamWaits, driver: FakeDriver) -> tuple[DeviceRegion, Copying]:
    """A load that does not come, and a stream that waits for it."""
    region = region_of(daemon, client, "held")
    copying = region.get(keys_of(2), [4, 5], event=1, timeout=600)
    waits.until(copying, 4, STREAM)
    assert driver.left() == 1
    return region, copying


def test_a_stream_goes_on_when_the_daemon_is_killed_and_python_does_not_run(
    waits: StreamWaits, driver: FakeDriver
) -> None:
    with gpu_daemon() as daemon, Client(daemon.socket_path, timeout=60) as client:
        region, copying = held(daemon, client, waits, driver)
        interval = sys.getswitchinterval()
        # With the GIL, which nobody else gets, as a launch may stand that waits for room in its stream.
        sys.setswitchinterval(1000)
        try:
            usleep = ctypes.PyDLL(None).usleep
            os.kill(daemon.pid, signal.SIGKILL)
            for _ in range(6000):
                if driver.has_passed():
                    break
                usleep(10_000)
            assert driver.has_passed()
        finally:
            sys.setswitchinterval(interval)
        assert copying.wait(60) == [Status.UNAVAILABLE] * 2
        region.close()
        waits.close()
        daemon.kill()


def test_a_stream_goes_on_when_the_client_is_closed(daemon: GpuDaemon, waits: StreamWaits, driver: FakeDriver) -> None:
    client = Client(daemon.socket_path, timeout=60)
    _, copying = held(daemon, client, waits, driver)
    client.close()
    assert eventually(driver.has_passed)
    assert copying.wait(60) == [Status.UNAVAILABLE] * 2
    waits.close()


def test_a_stream_goes_on_when_everything_is_let_go(daemon: GpuDaemon, waits: StreamWaits, driver: FakeDriver) -> None:
    client = Client(daemon.socket_path, timeout=60)
    region, copying = held(daemon, client, waits, driver)
    del region, copying, client
    assert eventually(driver.has_passed)
    with Client(daemon.socket_path, timeout=60) as other:
        assert eventually(lambda: len(other.stats()["sessions"]) == 1)


def test_a_stream_goes_on_when_the_daemon_hangs(
    waits: StreamWaits, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "STALL_S", -599.8)
    with gpu_daemon() as daemon, Client(daemon.socket_path, timeout=60) as client:
        region, copying = held(daemon, client, waits, driver)
        daemon.pause()
        assert eventually(driver.has_passed)
        assert copying.wait(60) == [Status.UNAVAILABLE] * 2
        daemon.signal(signal.SIGCONT)
        assert eventually(lambda: region.put(keys_of(1, seed=4), [0]).wait(60) in ([OK], [Status.EXISTS]))
        region.close()
        waits.close()


def test_a_forked_child_does_not_keep_the_session(daemon: GpuDaemon, waits: StreamWaits, driver: FakeDriver) -> None:
    client = Client(daemon.socket_path, timeout=60)
    held(daemon, client, waits, driver)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        with Client(daemon.socket_path, timeout=60) as other:
            assert eventually(lambda: len(other.stats()["sessions"]) == 2)
            client.close()
            assert eventually(lambda: len(other.stats()["sessions"]) == 1)
        assert eventually(driver.has_passed)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_words_are_used_again_under_a_stream_that_is_late(
    daemon: GpuDaemon, client: Client, waits: StreamWaits, driver: FakeDriver
) -> None:
    with region_of(daemon, client, "again") as region:
        keys = keys_of(2)
        seen = 0
        for turn in range(1000):
            waiting = turn % 50 == 0
            copying = region.get(keys, [4, 5], **({"event": 1, "timeout": 600} if waiting else {}))
            waits.until(copying, 1 + turn % 4, STREAM)
            if waiting:
                # The counts of earlier loads do not count for this one.
                waits.until(copying, 1, STREAM + 1 + turn)
                assert driver.left(STREAM + 1 + turn) == 1
                copying.cancel()
                assert copying.wait(60) == [Status.CANCELLED] * 2
                assert driver.left(STREAM + 1 + turn) == 0
            else:
                assert copying.wait(60) == [OK] * 2
            seen = max(seen, len(driver.streams[STREAM]))
        # The first one was not looked at until now.
        assert seen > 20
        assert len({address for address, _ in driver.waits}) <= protocol.SESSION_PROGRESS_WORDS
        assert driver.has_passed()
        waits.close()
        assert len(driver.registered) == 0


def test_regions_of_one_session_share_its_page(daemon: GpuDaemon, client: Client, driver: FakeDriver) -> None:
    first, second = (StreamWaits(driver, driver.synchronize) for _ in range(2))
    regions = [region_of(daemon, client, name) for name in ("one", "two")]
    copies = [region.get(keys_of(2), [4, 5], event=1, timeout=600) for region in regions]
    first.until(copies[0], 4, STREAM)
    second.until(copies[1], 4, STREAM)
    assert len(driver.registered) == 1 and driver.left() == 2
    for copying in copies:
        copying.cancel()
    assert eventually(driver.has_passed)
    first.close()
    assert len(driver.registered) == 1
    second.close()
    assert driver.registered == {}
    for region in regions:
        region.close()


# ---- what there is no daemon for


class FakeSession:
    """One that answers when it is told to."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.gave_up = False
        self.words = {number: 0 for number in range(1, protocol.SESSION_PROGRESS_WORDS + 1)}
        self.guarded: list[tuple[int, int, int]] = []

    def has(self, ticket: int, deadline_ns: int) -> bool:
        return self.answer is not None

    def take(self, ticket: int, deadline_ns: int) -> Any:
        return self.answer

    def progress(self, number: int) -> int:
        return self.words[number]

    def guard(self, number: int, end: int, by_ns: int) -> bool:
        self.guarded.append((number, end, by_ns))
        return not self.gave_up


def link_of(session: FakeSession) -> Any:
    words: deque[int] = deque()
    return SimpleNamespace(
        session=session, progress_words=words, progress_lock=nullcontext(), words=None
    )


def answer_of(count: int) -> tuple[Status, int, int, bytes, bool, int]:
    return OK, count, 0, bytes(protocol.COMPLETION_SHORT_RESULT_BYTES * count), False, int(protocol.Verb.ONBOARD)


def test_an_answer_behind_words_that_were_given_up_counts_for_nothing() -> None:
    for gave_up in (False, True):
        session = FakeSession()
        session.words[3] = 100
        copying = Copying(link_of(session), [(7, 2, Word(3, 100))], 4, 1_000_000_000)
        assert copying.words_until(2) == [(3, 102)]
        assert session.guarded == [(3, 104, 11_000_000_000)]
        session.gave_up = gave_up
        session.answer = answer_of(2)
        assert copying.wait(0) == [Status.UNAVAILABLE if gave_up else OK] * 2


def test_layers_count_on_over_the_end_of_numbers() -> None:
    session = FakeSession()
    copying = Copying(link_of(session), [(7, 2, Word(3, 0xFFFFFFFE))], 4, 0)
    session.words[3] = 0xFFFFFFFE
    assert copying.layers_done() == 0
    assert copying.words_until(3) == [(3, 1)]
    assert session.guarded[0][:2] == (3, 2)
    session.words[3] = 1
    assert copying.layers_done() == 3
    assert copying.words_until(3) == []
    assert copying.words_until(4) == [(3, 2)]


def test_words_are_taken_in_turns_and_count_on() -> None:
    session = FakeSession()
    link = link_of(session)
    link.progress_words = None
    session.words[1], session.words[2] = 70, 80
    first, second = device._take_word(link), device._take_word(link)
    assert (first, second) == (Word(1, 70), Word(2, 80))
    device._give_word(link, first)
    taken = [device._take_word(link) for _ in range(protocol.SESSION_PROGRESS_WORDS)]
    assert taken[-2] == Word(1, 70)
    assert taken[-1] == Word(0, 0)


def test_copies_without_a_word_are_waited_for_here(waits: StreamWaits, driver: FakeDriver) -> None:
    session = FakeSession()
    copying = Copying(link_of(session), [(7, 2, Word(0, 0))], 4, 0)
    assert copying.words_until(1) is None
    session.answer = answer_of(2)
    waits.until(copying, 1, STREAM)
    assert driver.waits == []


CALLS = {
    "registration": "cuMemHostRegister_v2",
    "pointer": "cuMemHostGetDevicePointer_v2",
    "wait": "cuStreamWaitValue32_v2",
}


@pytest.mark.parametrize("missing", ["operations", "function", "registration", "pointer", "wait"])
def test_a_gpu_that_cannot_is_told_of_once_and_threads_wait(
    daemon: GpuDaemon, client: Client, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    driver = FakeDriver(*([1] if missing == "operations" else []))
    if missing == "function":
        driver.cuStreamWaitValue32_v2 = None  # type: ignore[assignment, method-assign]
    elif missing != "operations":
        driver.fails = {CALLS[missing]: 801}
    waits = StreamWaits(driver, lambda: None)
    with caplog.at_level(logging.WARNING, "kvtier"), region_of(daemon, client, missing) as region:
        for _ in range(3):
            copying = region.get(keys_of(2), [4, 5], event=1, timeout=0.1)
            waits.until(copying, 4, STREAM)
            assert copying.layers_done() == 4
            assert copying.wait(60) == [Status.DEADLINE] * 2
    driver.streams.clear()
    waits.close()
    assert len([record for record in caplog.records if "a stream can't wait" in record.message]) == 1
    assert driver.registered == {}


@pytest.mark.parametrize("failing", CALLS.values())
def test_an_error_that_passes_is_not_for_good(
    daemon: GpuDaemon, client: Client, waits: StreamWaits, driver: FakeDriver, failing: str
) -> None:
    with region_of(daemon, client, "passes") as region:
        for fails, waiting in (({}, True), ({failing: 999}, False), ({}, True)):
            driver.fails = fails
            driver.waits.clear()
            copying = region.get(keys_of(2), [4, 5], event=1, timeout=0.2)
            waits.until(copying, 4, STREAM)
            assert copying.wait(60) == [Status.DEADLINE] * 2
            assert eventually(driver.has_passed)
            assert bool(driver.waits) == (waiting or failing == CALLS["wait"])
            waits.close()
            assert driver.registered == {}


# ---- torch's tensors


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> Any:
    """torch and CUDA, as far as they are needed."""
    event = SimpleNamespace(record=lambda stream: None, ipc_handle=lambda: bytes(64))
    made = SimpleNamespace(
        device=lambda device: nullcontext(),
        Stream=lambda: SimpleNamespace(wait_event=lambda event: None),
        Event=lambda interprocess: event,
        synchronize=lambda device: driver.synchronize(),
        current_stream=lambda device: SimpleNamespace(cuda_stream=STREAM),
        get_device_properties=lambda device: SimpleNamespace(uuid="0"),
    )
    monkeypatch.setattr(_cuda, "_torch", lambda: SimpleNamespace(cuda=made))
    monkeypatch.setattr(_cuda, "driver", lambda: driver)
    monkeypatch.setattr(_cuda, "place_of", lambda address, tensor: (bytes(64), 0))
    return made


@pytest.mark.parametrize("shapes", ["alike", "several"])
def test_wait_layer_of_tensors(
    cuda: Any, driver: FakeDriver, daemon: GpuDaemon, client: Client, monkeypatch: pytest.MonkeyPatch, shapes: str
) -> None:
    tensors: list[Any] = [random_tensor((12, 64), 1), random_tensor((12, 64 if shapes == "alike" else 32), 2)]
    for tensor in tensors:
        tensor.device = "cuda:0"
    planes = _layout.planes(tensors, 0)
    raw = np.zeros(1 << 16, dtype=np.uint8)
    path = daemon.gpu / f"torch-{shapes}"
    path.write_bytes(raw.tobytes())

    def region(namespace: Any, spec: Any, name: str) -> DeviceRegion:
        places = [(handle_of(path), 4096 * index) for index in range(2)]
        changed = {field: getattr(spec, field) for field in ("layers", "blocks", "block_tokens", "parts")}
        return DeviceRegion(namespace, device.RegionSpec(UUID, tensors=places, events=[never(daemon)], **changed), name)

    monkeypatch.setattr(_cuda, "DeviceRegion", region)
    namespace = client.namespace(f"torch/{shapes}", block_bytes=sum(plane.part_bytes for plane in planes))
    made = _cuda.CudaRegion(namespace, tensors, planes, "torch")
    assert made.put(keys_of(1), [1]).wait(60) == [OK]
    after = SimpleNamespace(query=lambda: False)
    copying = made.get(keys_of(1), [0], after=after, timeout=600)
    with pytest.raises(InvalidArgument, match="layer 2; expected 0 to 1"):
        copying.wait_layer(2)
    other = SimpleNamespace(cuda_stream=STREAM + 1)
    copying.wait_layer(0)
    copying.wait_layer(1, other)
    base = driver.waits[0][1] - 1
    assert [value - base for _, value in driver.waits] == ([1, 2] if shapes == "alike" else [1, 1])
    assert list(driver.streams) == [STREAM, STREAM + 1]
    copying.cancel()
    assert eventually(driver.has_passed)
    assert copying.wait(60) == [Status.CANCELLED]
    made.close()
    assert driver.left(STREAM + 1) == 0


def test_copies_wait_here_where_the_daemon_cannot_open_events(
    cuda: Any, driver: FakeDriver, daemon: GpuDaemon, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tensors: list[Any] = [random_tensor((12, 64), 1)]
    tensors[0].device = "cuda:0"
    planes = _layout.planes(tensors, 0)
    path = daemon.gpu / "torch-no-events"
    path.write_bytes(bytes(1 << 16))

    def region(namespace: Any, spec: Any, name: str) -> DeviceRegion:
        changed = {field: getattr(spec, field) for field in ("layers", "blocks", "block_tokens", "parts")}
        elsewhere = handle_of(daemon.gpu / "in-another-container")
        return DeviceRegion(namespace, device.RegionSpec(UUID, tensors=[(handle_of(path), 0)], events=[elsewhere], **changed), name)

    monkeypatch.setattr(_cuda, "DeviceRegion", region)
    namespace = client.namespace("torch/no-events", block_bytes=planes[0].part_bytes)
    made = _cuda.CudaRegion(namespace, tensors, planes, "torch")
    assert "can't open the events of region 'torch'" in caplog.text
    waited: list[str] = []
    after = SimpleNamespace(query=lambda: False, synchronize=lambda: waited.append("here"))
    assert made.put(keys_of(1), [1], after=after).wait(60) == [OK]
    assert made.get(keys_of(1), [0], after=_cuda.SharedEvent(after)).wait(60) == [OK]
    assert waited == ["here", "here"]
    made.close()


def test_wait_layer_of_memory_waits_here(client: Client) -> None:
    from kvtier import torch as kvtier_torch

    tensors = [random_tensor((4, 64), 1)]
    namespace = client.namespace("waits/cpu", block_bytes=64 * tensors[0].element_size())
    with kvtier_torch.register(namespace, tensors) as region:
        copying = region.put(keys_of(1), [0])
        assert copying.wait() == [OK]
        copying = region.get(keys_of(1), [1])
        copying.wait_layer(0)
        assert copying.done()
        with pytest.raises(InvalidArgument, match="layer 1"):
            copying.wait_layer(1)


def test_pages_of_regions_that_nobody_closed_stay(
    daemon: GpuDaemon, client: Client, driver: FakeDriver
) -> None:
    before = len(_waits._pages)
    waits = StreamWaits(driver, driver.synchronize)
    region, copying = held(daemon, client, waits, driver)
    del waits
    assert len(_waits._pages) == before + 1
    assert driver.left() == 1
    copying.cancel()
    assert eventually(driver.has_passed)
    region.close()
