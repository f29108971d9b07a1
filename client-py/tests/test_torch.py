"""`kvtier.torch` on tensors in memory: every byte in its place, for the layouts that engines use."""

from collections.abc import Iterator
from typing import Any

import pytest
from blocks import keys
from conftest import Daemon

from kvtier import Client, InvalidArgument, Namespace, Status
from kvtier import torch as kvtier_torch

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

BLOCKS = 12
LAYOUTS = {
    "blocks first": ((BLOCKS, 16, 8, 4), None, 0),
    "keys and values apart": ((2, BLOCKS, 16, 2, 32), None, 1),
    "heads before tokens, seen the other way round": ((2, BLOCKS, 4, 16, 32), (0, 1, 3, 2, 4), 1),
    "short runs": ((BLOCKS, 3, 16, 5), (0, 2, 1, 3), 0),
    "runs of more than 128 KiB": ((BLOCKS, 300, 512), None, 0),
}


def _tensors(shape: tuple[int, ...], order: tuple[int, ...] | None, count: int, seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randint(0, 1 << 15, shape, dtype=torch.int16, generator=generator).view(torch.bfloat16) for _ in range(count)]
    return made if order is None else [tensor.permute(order) for tensor in made]


def _block_bytes(tensors: list[Any], axis: int) -> int:
    return sum(tensor.select(axis, 0).numel() * tensor.element_size() for tensor in tensors)


def _bits(tensor: Any) -> Any:
    """Comparable also where a number is NaN."""
    return tensor.contiguous().view(torch.int16)


@pytest.fixture
def namespaces(client: Client, request: pytest.FixtureRequest) -> Iterator[Any]:
    def make(block_bytes: int) -> Namespace:
        return client.namespace(f"torch/{request.node.name}", block_bytes=block_bytes)

    yield make


@pytest.mark.parametrize("layout", LAYOUTS)
def test_putThenGet_otherTensors_sameBytesInTheAskedBlocksAndNoOthers(namespaces: Any, layout: str) -> None:
    shape, order, axis = LAYOUTS[layout]
    source = _tensors(shape, order, 3, seed=1)
    target = _tensors(shape, order, 3, seed=2)
    before = [tensor.clone() for tensor in target]
    namespace = namespaces(_block_bytes(source, axis))
    names = keys(layout, 5)
    taken, given = [7, 0, 3, 11, 4], [1, 2, 9, 0, 10]
    with kvtier_torch.register(namespace, source, block_axes=axis) as region:
        assert region.put(names, taken).wait() == [Status.OK] * 5
    with kvtier_torch.register(namespace, target, block_axes=axis) as region:
        copying = region.get(names, given)
        assert copying.wait() == [Status.OK] * 5
        assert copying.done() and copying.layers_done() == 3
    for ours, theirs, old in zip(source, target, before, strict=True):
        for block in range(BLOCKS):
            place = given.index(block) if block in given else None
            expected = old.select(axis, block) if place is None else ours.select(axis, taken[place])
            assert torch.equal(_bits(theirs.select(axis, block)), _bits(expected)), block


def test_get_someLayers_leavesTheOthers(namespaces: Any) -> None:
    source = _tensors((BLOCKS, 16, 8), None, 4, seed=1)
    target = _tensors((BLOCKS, 16, 8), None, 4, seed=2)
    before = [tensor.clone() for tensor in target]
    namespace = namespaces(_block_bytes(source, 0))
    names = keys("layers", 2)
    with kvtier_torch.register(namespace, source) as region:
        assert region.put(names, [0, 1]).wait() == [Status.OK] * 2
    with kvtier_torch.register(namespace, target) as region:
        assert region.get(names, [4, 5], layers=range(1, 3)).wait() == [Status.OK] * 2
    for layer in range(4):
        expected = source[layer][:2] if layer in (1, 2) else before[layer][4:6]
        assert torch.equal(_bits(target[layer][4:6]), _bits(expected)), layer


def test_put_bytesAreInTheOrderOfTensorsAndAddresses(namespaces: Any) -> None:
    tensors = _tensors((2, BLOCKS, 4, 16, 32), (0, 1, 3, 2, 4), 2, seed=3)
    namespace = namespaces(_block_bytes(tensors, 1))
    names = keys("order", 1)
    with kvtier_torch.register(namespace, tensors, block_axes=1) as region:
        assert region.put(names, [5]).wait() == [Status.OK]
    into = bytearray(namespace.block_bytes)
    assert namespace.get(names, into, verify=True).run == 1
    stored = [tensor.permute((0, 1, 3, 2, 4)) for tensor in tensors]
    assert bytes(into) == b"".join(_bits(tensor[:, 5]).numpy().tobytes() for tensor in stored)


def test_put_largeEnoughForSeveralThreads_allBytes(namespaces: Any) -> None:
    tensors = [torch.randint(0, 1 << 30, (40, 1 << 16), dtype=torch.int32) for _ in range(2)]
    namespace = namespaces(1 << 19)
    # What is in the host tier at a time is less than this.
    names = keys("threads", 40)
    with kvtier_torch.register(namespace, tensors) as region:
        assert region.put(names, range(40), timeout=30).wait() == [Status.OK] * 40
        copies = [tensor.clone() for tensor in tensors]
        for tensor in tensors:
            tensor.zero_()
        assert region.get(names, range(40), timeout=30).wait() == [Status.OK] * 40
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))


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
    tensors = [torch.zeros((64, 1 << 20), dtype=torch.uint8)]
    with Client(fresh_daemon.socket_path, timeout=5) as client:
        namespace = client.namespace("torch", block_bytes=1 << 20)
        with kvtier_torch.register(namespace, tensors) as region:
            names = keys("killed", 64)
            copying = region.put(names, range(64))
            fresh_daemon.kill()
            assert set(copying.wait(20)) <= {Status.OK, Status.UNAVAILABLE, Status.BUSY}
            assert region.get(names, range(64)).wait(20) == [Status.UNAVAILABLE] * 64


def test_cancel_beforeItBegan_touchesNothing(namespaces: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 1, seed=1)
    namespace = namespaces(_block_bytes(tensors, 0))
    with kvtier_torch.register(namespace, tensors) as region:
        under_way = [region.put(keys(f"cancel/{i}", 4), [0, 1, 2, 3]) for i in range(50)]
        for copying in under_way:
            copying.cancel()
        for copying in under_way:
            assert set(copying.wait(20)) <= {Status.OK, Status.CANCELLED}
            assert copying.done()


def test_misuse_isNamed(namespaces: Any) -> None:
    tensors = _tensors((BLOCKS, 16, 8), None, 2, seed=1)
    namespace = namespaces(512)
    with pytest.raises(InvalidArgument, match="256 bytes in these tensors, and 512"):
        kvtier_torch.register(namespace, tensors[:1])
    with pytest.raises(InvalidArgument, match="no axis 3"):
        kvtier_torch.register(namespace, tensors, block_axes=3)
    with pytest.raises(InvalidArgument, match="tensor 1 has 6 blocks along axis 0, tensor 0 12"):
        kvtier_torch.register(namespace, [tensors[0], tensors[1][:6]])
    with pytest.raises(InvalidArgument, match="share memory"):
        kvtier_torch.register(namespace, [tensors[0][:1].expand(BLOCKS, 16, 8)] * 2)
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
