"""`kvtier.torch` on tensors in memory: every byte in its place, for the layouts that engines use."""

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from kvtier_testing.blocks import keys
from kvtier_testing.daemon import Daemon
from kvtier_testing.tensors import Tensor, random_tensor

from kvtier import Client, InvalidArgument, Namespace, Status
from kvtier import torch as kvtier_torch
from kvtier.torch import Copying, Region
from kvtier.torch._cpu import CpuCopying

BLOCKS = 12
LAYOUTS = {
    "blocks first": ((BLOCKS, 16, 8, 4), None, 0),
    "keys and values apart": ((2, BLOCKS, 16, 2, 32), None, 1),
    "heads before tokens, seen the other way round": ((2, BLOCKS, 4, 16, 32), (0, 1, 3, 2, 4), 1),
    "short runs": ((BLOCKS, 3, 16, 5), (0, 2, 1, 3), 0),
    "runs of more than 128 KiB": ((BLOCKS, 300, 512), None, 0),
}


def _tensors(shape: tuple[int, ...], order: tuple[int, ...] | None, count: int, seed: int) -> list[Tensor]:
    return [random_tensor(shape, 100 * seed + index, order) for index in range(count)]


def _block_bytes(tensors: list[Tensor], axis: int) -> int:
    return sum(tensor.select(axis, 0).numel() * tensor.element_size() for tensor in tensors)


@pytest.fixture
def namespaces(client: Client, request: pytest.FixtureRequest) -> Iterator[Any]:
    def make(block_bytes: int) -> Namespace:
        return client.namespace(f"torch/{request.node.name}", block_bytes=block_bytes)

    yield make


@pytest.fixture
def roomy_daemon(stopped_daemon: Daemon) -> Daemon:
    stopped_daemon.start(host__bytes="512MiB", host__slab_bytes="64MiB")
    return stopped_daemon


@pytest.mark.parametrize("layout", LAYOUTS)
def test_putThenGet_otherTensors_sameBytesInTheAskedBlocksAndNoOthers(namespaces: Any, layout: str) -> None:
    shape, order, axis = LAYOUTS[layout]
    source = _tensors(shape, order, 3, seed=1)
    target = _tensors(shape, order, 3, seed=2)
    before = [tensor.array.copy() for tensor in target]
    namespace = namespaces(_block_bytes(source, axis))
    names = keys(layout, 5)
    taken, given = [7, 0, 3, 11, 4], [1, 2, 9, 0, 10]
    with kvtier_torch.register(namespace, source, block_axes=axis) as region:
        assert region.put(names, taken, annotations=[None, *([b"kept"] * 4)]).wait() == [Status.OK] * 5
    assert namespace.annotate(names, [b"late"] * 5) == (Status.OK, 1)
    with kvtier_torch.register(namespace, target, block_axes=axis) as region:
        copying = region.get(names, given)
        assert copying.wait() == [Status.OK] * 5
        assert copying.done() and copying.layers_done() == 3
    for ours, theirs, old in zip(source, target, before, strict=True):
        for block in range(BLOCKS):
            place = given.index(block) if block in given else None
            expected = old.take(block, axis) if place is None else ours.array.take(taken[place], axis)
            assert numpy.array_equal(theirs.array.take(block, axis), expected), block


def test_get_someLayers_leavesTheOthers(namespaces: Any) -> None:
    source = _tensors((BLOCKS, 16, 8), None, 4, seed=1)
    target = _tensors((BLOCKS, 16, 8), None, 4, seed=2)
    before = [tensor.array.copy() for tensor in target]
    namespace = namespaces(_block_bytes(source, 0))
    names = keys("layers", 2)
    with kvtier_torch.register(namespace, source) as region:
        assert region.put(names, [0, 1]).wait() == [Status.OK] * 2
    with kvtier_torch.register(namespace, target) as region:
        assert region.get(names, [4, 5], layers=range(1, 3)).wait() == [Status.OK] * 2
    for layer in range(4):
        expected = source[layer].array[:2] if layer in (1, 2) else before[layer][4:6]
        assert numpy.array_equal(target[layer].array[4:6], expected), layer


def _by_layer(region: Region, names: list[bytes], ids: list[int], let_go: list[threading.Event]) -> Copying:
    """A get whose groups of layers come when they are let go."""
    waits = iter(let_go)

    def begin(copying: CpuCopying, work: Callable[[], list[Status]], count: int) -> list[Status]:
        assert next(waits).wait(30)
        return _begin(copying, work, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpuCopying, "begin", begin)
        return region.get(names, ids, by_layer=True)


_begin = CpuCopying.begin


def test_get_byLayer_theFirstLayersAreThereBeforeTheOthers(namespaces: Any) -> None:
    source = _tensors((BLOCKS, 16, 8), None, 6, seed=1)
    target = _tensors((BLOCKS, 16, 8), None, 6, seed=2)
    namespace = namespaces(_block_bytes(source, 0))
    names = keys("by layer", 3)
    with kvtier_torch.register(namespace, source) as region:
        assert region.put(names, [0, 1, 2]).wait() == [Status.OK] * 3
    # Four groups at most: of two layers each, and so three.
    let_go = [threading.Event() for _ in range(3)]
    with kvtier_torch.register(namespace, target) as region:
        copying = _by_layer(region, names, [4, 5, 6], let_go)
        assert copying.wait_layers(1, 0.01) == 0 and not copying.done()
        for group in range(2):
            let_go[group].set()
            there = 2 * group + 2
            assert copying.wait_layers(there) == copying.layers_done() == there
            assert copying.wait(0) == [Status.PENDING] * 3
            for layer in range(there):
                assert numpy.array_equal(target[layer].array[4:7], source[layer].array[:3]), layer
        let_go[2].set()
        copying.wait_layer(5)
        assert copying.wait() == [Status.OK] * 3 and copying.layers_done() == copying.wait_layers(6) == 6
        with pytest.raises(InvalidArgument, match="layer 6; expected 0 to 5"):
            copying.wait_layer(6)
        whole = region.get(names, [7, 8, 9])
        assert isinstance(whole, CpuCopying) and len(whole.groups) == 1 and whole.wait() == [Status.OK] * 3


def test_get_byLayer_aBlockThatOneGroupDoesNotBring_hasNotCome(namespaces: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 4, seed=1)
    namespace = namespaces(_block_bytes(tensors, 0))
    names = keys("by layer gone", 2)
    let_go = [threading.Event() for _ in range(4)]
    with kvtier_torch.register(namespace, tensors) as region:
        assert region.put(names, [0, 1]).wait() == [Status.OK] * 2
        copying = _by_layer(region, names, [2, 3], let_go)
        let_go[0].set()
        assert copying.wait_layers(1) == 1
        assert namespace.delete([names[1]]) == [Status.OK]
        let_go[1].set()
        assert copying.wait_layers(2) == 2
        assert copying.wait(0) == [Status.PENDING, Status.MISS]
        copying.cancel()
        for one in let_go:
            one.set()
        assert copying.wait() == [Status.CANCELLED, Status.MISS]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_write_putsTheBytesOfBlocksWhereAGetWould(namespaces: Any, layout: str) -> None:
    shape, order, axis = LAYOUTS[layout]
    source, target, other = (_tensors(shape, order, 3, seed=seed) for seed in (1, 2, 2))
    namespace = namespaces(_block_bytes(source, axis))
    names = keys("written", 2)
    with kvtier_torch.register(namespace, source, block_axes=axis) as region:
        assert region.put(names, [7, 0]).wait() == [Status.OK] * 2
    block = bytearray(2 * namespace.block_bytes)
    assert namespace.get(names, block).run == 2
    blocks = [bytes(block[: namespace.block_bytes]), bytes(block[namespace.block_bytes :])]
    with kvtier_torch.register(namespace, target, block_axes=axis) as region:
        region.write([3, 11], blocks)
        with pytest.raises(InvalidArgument, match="block id 12; expected 0 to 11"):
            region.write([12], blocks[:1])
        with pytest.raises(InvalidArgument, match=f"a block of 1 bytes; expected {namespace.block_bytes}"):
            region.write([0], [b"x"])
    with kvtier_torch.register(namespace, other, block_axes=axis) as region:
        assert region.get(names, [3, 11]).wait() == [Status.OK] * 2
    assert all(numpy.array_equal(one.array, two.array) for one, two in zip(target, other, strict=True))


def test_put_bytesAreInTheOrderOfTensorsAndAddresses(namespaces: Any) -> None:
    tensors = _tensors((2, BLOCKS, 4, 16, 32), (0, 1, 3, 2, 4), 2, seed=3)
    namespace = namespaces(_block_bytes(tensors, 1))
    names = keys("order", 1)
    with kvtier_torch.register(namespace, tensors, block_axes=1) as region:
        assert region.put(names, [5]).wait() == [Status.OK]
    into = bytearray(namespace.block_bytes)
    assert namespace.get(names, into, verify=True).run == 1
    stored = [tensor.permute((0, 1, 3, 2, 4)).array for tensor in tensors]
    assert bytes(into) == b"".join(array[:, 5].tobytes() for array in stored)


def test_put_largeEnoughForSeveralThreads_allBytes(roomy_daemon: Daemon) -> None:
    tensors = _tensors((40, 1 << 21), None, 2, seed=4)
    names = keys("threads", 40)
    with Client(roomy_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("threads", block_bytes=1 << 23)
        with kvtier_torch.register(namespace, tensors) as region:
            copying = region.put(names, range(40))
            assert len(copying.groups[0].parts) > 1
            assert copying.wait() == [Status.OK] * 40
            copies = [tensor.array.copy() for tensor in tensors]
            for tensor in tensors:
                tensor.array[:] = 0
            assert region.get(names, range(40)).wait() == [Status.OK] * 40
    assert all(numpy.array_equal(tensor.array, copy) for tensor, copy in zip(tensors, copies, strict=True))


def test_get_missing_saysWhichAndLoadsTheOthers(namespaces: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 1, seed=1)
    namespace = namespaces(_block_bytes(tensors, 0))
    names = keys("missing", 3)
    with kvtier_torch.register(namespace, tensors) as region:
        assert region.put([names[0], names[2]], [0, 2]).wait() == [Status.OK] * 2
        assert region.get(names, [3, 4, 5]).wait() == [Status.OK, Status.MISS, Status.OK]


def test_copies_withoutADaemon_areUnavailable(tmp_path: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 1, seed=1)
    with Client(tmp_path / "none.sock") as nobody:
        namespace = nobody.namespace("torch", block_bytes=256)
        with kvtier_torch.register(namespace, tensors) as region:
            assert region.put(keys("gone", 2), [0, 1]).wait() == [Status.UNAVAILABLE] * 2
            assert region.get(keys("gone", 2), [0, 1]).wait() == [Status.UNAVAILABLE] * 2


def test_copies_daemonKilled_endWithinTheDeadline(fresh_daemon: Daemon) -> None:
    tensors = [random_tensor((64, 1 << 19), 7)]
    with Client(fresh_daemon.socket_path, timeout=5) as client:
        namespace = client.namespace("torch", block_bytes=1 << 20)
        with kvtier_torch.register(namespace, tensors) as region:
            names = keys("killed", 64)
            copying = region.put(names, range(64))
            fresh_daemon.kill()
            assert set(copying.wait(60)) <= {Status.OK, Status.UNAVAILABLE, Status.BUSY}
            assert region.get(names, range(64)).wait(60) == [Status.UNAVAILABLE] * 64


def test_cancel_beforeItBegan_touchesNothing(fresh_daemon: Daemon) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 1, seed=1)
    there, asked = keys("there", 4), [keys(f"cancel/{i}", 4) for i in range(25)]
    with Client(fresh_daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("cancel", block_bytes=_block_bytes(tensors, 0))
        with kvtier_torch.register(namespace, tensors) as region:
            assert region.put(there, [0, 1, 2, 3]).wait() == [Status.OK] * 4
            before = tensors[0].array.copy()
            # The region has at most four threads: four copies wait for the daemon, and the others for a thread.
            fresh_daemon.pause()
            puts = [region.put(names, [0, 1, 2, 3]) for names in asked]
            gets = [region.get(there, [8, 9, 10, 11]) for _ in range(25)]
            for copying in puts + gets:
                copying.cancel()
            fresh_daemon.signal(signal.SIGCONT)
            put = [copying.wait(60) for copying in puts]
            assert all(copying.done() for copying in puts)
            assert [copying.wait(60) for copying in gets] == [[Status.CANCELLED] * 4] * 25
            assert put[4:] == [[Status.CANCELLED] * 4] * 21
            assert numpy.array_equal(tensors[0].array, before)
        assert all(namespace.lookup(names).statuses == [Status.MISS] * 4 for names in asked[4:])


def test_misuse_isNamed(namespaces: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 2, seed=1)
    namespace = namespaces(512)
    with pytest.raises(InvalidArgument, match="256 bytes in these tensors, and 512"):
        kvtier_torch.register(namespace, tensors[:1])
    with pytest.raises(InvalidArgument, match="no axis 3"):
        kvtier_torch.register(namespace, tensors, block_axes=3)
    with pytest.raises(InvalidArgument, match="tensor 1 has 6 blocks along axis 0, tensor 0 12"):
        kvtier_torch.register(namespace, [tensors[0], Tensor(tensors[1].array[:6])])
    with pytest.raises(InvalidArgument, match="share memory"):
        kvtier_torch.register(namespace, [Tensor(numpy.broadcast_to(tensors[0].array[:1], (BLOCKS, 16, 8)))] * 2)
    with kvtier_torch.register(namespace, tensors) as region:
        with pytest.raises(InvalidArgument, match="block id 12: the tensors have 12 blocks"):
            region.get(keys("misuse", 1), [12])
        with pytest.raises(InvalidArgument, match="block id -1"):
            region.put(keys("misuse", 1), [-1])
        with pytest.raises(InvalidArgument, match="2 block ids for 1 keys"):
            region.get(keys("misuse", 1), [1, 2])
        with pytest.raises(InvalidArgument, match="expected some of range\\(2\\)"):
            region.get(keys("misuse", 1), [1], layers=range(1, 3))
        with pytest.raises(InvalidArgument, match="put whole"):
            region.put(keys("misuse", 1), [1], layers=range(1))


def test_torchsOwnTensors_sameBytes(namespaces: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: the other tests have tensors of NumPy")
    source = torch.randn((2, BLOCKS, 4, 16, 8)).to(torch.bfloat16).permute(0, 1, 3, 2, 4)
    target = torch.zeros_like(source)
    namespace = namespaces(2 * 4 * 16 * 8 * 2)
    with kvtier_torch.register(namespace, source, block_axes=1) as region:
        assert region.put(keys("torch", 2), [3, 4]).wait() == [Status.OK] * 2
    with kvtier_torch.register(namespace, target, block_axes=1) as region:
        assert region.get(keys("torch", 2), [0, 1]).wait() == [Status.OK] * 2
    assert torch.equal(target[:, :2], source[:, 3:5])
    assert not target[:, 2:].any()
