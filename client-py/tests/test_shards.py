"""Shards of blocks in tensors: engines with any parallelism and any order of axes exchange blocks."""

import ctypes
import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod

import pytest
from kvtier_testing.daemon import Daemon, eventually, in_a_folder

from kvtier import Client, InvalidArgument, Status
from kvtier.torch import Form, Region, Shard, form_of, register
from kvtier.torch._cuda import region_spec
from kvtier.torch._shards import cells_of

LAYERS, TOKENS, ELEMENTS, BLOCKS = 4, 32, 4, 3
TIMEOUT_S = 60.0


class Device:
    type = "cpu"

    def __str__(self) -> str:
        return "cpu"


class Tensor:
    """As much of torch's as `kvtier.torch` uses, on a bytearray: items of two bytes."""

    device = Device()

    def __init__(self, axes: str, **extents: int) -> None:
        """`axes` in the order of the memory, extents in the order of the shape."""
        self.axes = "".join(extents)
        self.shape = tuple(extents.values())
        stride = 1
        self.by_letter: dict[str, int] = {}
        for letter in reversed(axes):
            self.by_letter[letter] = stride
            stride *= extents[letter]
        self.memory = bytearray(2 * stride)

    def stride(self) -> tuple[int, ...]:
        return tuple(self.by_letter[letter] for letter in self.axes)

    def element_size(self) -> int:
        return 2

    def data_ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def places(self) -> Iterator[tuple[dict[str, int], int]]:
        """Each item's indices by letter, and its offset."""
        for indices in itertools.product(*(range(extent) for extent in self.shape)):
            at = dict(zip(self.axes, indices, strict=True))
            yield at, 2 * sum(self.by_letter[letter] * index for letter, index in at.items())


@dataclass(frozen=True)
class Engine:
    tp: int
    pp: int
    is_head_first: bool
    pages: int
    """of a block"""
    heads: int = 4
    """1: as a model with one latent head"""
    is_apart: bool = False
    """whether keys and values are tensors of their own"""
    order: str = "LCND"

    def ranks(self) -> Iterator[tuple[Shard, list[Tensor]]]:
        for stage, rank in itertools.product(range(self.pp), range(self.tp)):
            heads = max(1, self.heads // self.tp)
            replicas = max(1, self.tp // self.heads)
            planes = 1 if self.heads == 1 else 2
            apart = planes if self.is_apart else 1
            extents = {"C": planes // apart, "B": BLOCKS, "M": self.pages, "N": TOKENS // self.pages, "H": heads, "D": ELEMENTS}
            order = "BMHCND" if self.is_head_first else "CBMNHD"
            if self.is_apart:
                del extents["C"]
                order = order.replace("C", "")
            tensors = [Tensor(order, **extents) for _ in range(LAYERS // self.pp * apart)]
            yield (
                Shard(
                    [tensor.axes for tensor in tensors], TOKENS, self.heads, rank // replicas * heads, LAYERS,
                    stage * LAYERS // self.pp, (rank % replicas, replicas), self.order, apart,
                ),
                tensors,
            )  # fmt: skip


def items(shard: Shard, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, int, bytes]]:
    """Each item of a rank's tensors, and the bytes that it has in the model, whichever rank has it."""
    layers = len(tensors) // shard.planes
    for number, tensor in enumerate(tensors):
        page = tensor.shape[tensor.axes.index("N")]
        for at, offset in tensor.places():
            token = at["M"] * page + at["N"]
            name = (at["B"], shard.first_layer + number % layers, number // layers + at.get("C", 0), token, shard.first_head + at["H"], at["D"])
            yield tensor, offset, random.Random(repr(name)).randbytes(2)


def fill(shard: Shard, tensors: Sequence[Tensor]) -> None:
    for tensor, offset, value in items(shard, tensors):
        tensor.memory[offset : offset + 2] = value


def check(shard: Shard, tensors: Sequence[Tensor]) -> None:
    for tensor, offset, value in items(shard, tensors):
        assert tensor.memory[offset : offset + 2] == value


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with in_a_folder(Daemon) as made:
        made.start(host__bytes="64MiB", ssd__bytes="0", limits__lease="2s")
        yield made


class Running:
    """The ranks of an engine, each with a session of its own."""

    def __init__(self, daemon: Daemon, name: str, engine: Engine, stack: ExitStack) -> None:
        self.ranks = list(engine.ranks())
        self.regions: list[Region] = []
        for shard, tensors in self.ranks:
            client = stack.enter_context(Client(daemon.socket_path, timeout=TIMEOUT_S))
            form = form_of(tensors, shard)
            namespace = client.namespace(name, block_bytes=form.block_bytes, form=form.text)
            self.regions.append(stack.enter_context(register(namespace, tensors, shard=shard)))
            self.namespace = namespace

    def put(self, keys: list[bytes]) -> list[list[Status]]:
        copies = [region.put(keys, range(len(keys))) for region in self.regions]
        return [copying.wait(TIMEOUT_S) for copying in copies]

    def get(self, keys: list[bytes]) -> None:
        for region, (_, tensors) in zip(self.regions, self.ranks, strict=True):
            for tensor in tensors:
                tensor.memory[:] = bytes(len(tensor.memory))
            assert region.get(keys, range(len(keys))).wait(TIMEOUT_S) == [Status.OK] * len(keys)


ENGINES = [
    Engine(tp, pp, is_head_first, pages)
    for tp, pp, is_head_first, pages in itertools.product((1, 2, 4, 8), (1, 2), (False, True), (1, 2))
]


@pytest.mark.parametrize("order", ["LCND", "CLND"])
@pytest.mark.parametrize("heads", [4, 1])
def test_everyEngine_readsTheBytesThatAnotherOneWrote(daemon: Daemon, heads: int, order: str) -> None:
    chosen = random.Random(f"{heads} {order}")
    name = f"pairs{heads}{order}"

    def engines() -> list[Engine]:
        return [replace(one, heads=heads, order=order, is_apart=chosen.random() < 0.5) for one in chosen.sample(ENGINES, 6)]

    for number, writer in enumerate(engines()):
        keys = [b"%d/%d/%d" % (heads, number, block) for block in range(BLOCKS)]
        with ExitStack() as ranks:
            source = Running(daemon, name, writer, ranks)
            for shard, tensors in source.ranks:
                fill(shard, tensors)
            for statuses in source.put(keys):
                assert set(statuses) <= {Status.OK, Status.PENDING, Status.EXISTS}
            assert source.namespace.lookup(keys).run == BLOCKS
        for reader in engines():
            with ExitStack() as ranks:
                target = Running(daemon, name, reader, ranks)
                target.get(keys)
                for shard, tensors in target.ranks:
                    check(shard, tensors)


def test_layersOfKeysAndValuesApart_areCopiedAlone(daemon: Daemon) -> None:
    for tp in (1, 2):
        engine = Engine(tp, 1, False, 1, is_apart=True, order="CLND")
        keys = [b"layers%d/%d" % (tp, block) for block in range(BLOCKS)]
        with ExitStack() as stack:
            running = Running(daemon, "layers", engine, stack)
            for shard, tensors in running.ranks:
                fill(shard, tensors)
            running.put(keys)
            for region, (shard, tensors) in zip(running.regions, running.ranks, strict=True):
                for tensor in tensors:
                    tensor.memory[:] = bytes(len(tensor.memory))
                assert region.layers == LAYERS
                assert region.get(keys, range(BLOCKS), layers=range(1, 3)).wait(TIMEOUT_S) == [Status.OK] * BLOCKS
                for tensor, offset, value in items(shard, tensors):
                    is_copied = tensors.index(tensor) % LAYERS in (1, 2)
                    assert tensor.memory[offset : offset + 2] == (value if is_copied else bytes(2))


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("is_apart", [False, True])
def test_layersOfBlocks_arePutAlone_inAnyOrder(daemon: Daemon, tp: int, is_apart: bool) -> None:
    engine = Engine(tp, 1, False, 1, is_apart=is_apart, order="CLND" if is_apart else "LCND")
    keys = [b"put%d/%d/%d" % (tp, is_apart, block) for block in range(BLOCKS)]
    with ExitStack() as stack:
        running = Running(daemon, f"put-layers{is_apart}", engine, stack)
        for shard, tensors in running.ranks:
            fill(shard, tensors)
        parts = [(region, layers) for region in running.regions for layers in (range(1), range(1, 3), range(3, LAYERS))]
        random.Random(tp).shuffle(parts)
        for region, layers in parts:
            assert region.puts_layers and running.namespace.lookup(keys).run == 0
            assert region.put(keys, range(BLOCKS), layers=layers).wait(TIMEOUT_S) == [Status.OK] * BLOCKS
        assert running.namespace.lookup(keys).run == BLOCKS
        assert running.regions[0].put(keys, range(BLOCKS), layers=range(1)).wait(TIMEOUT_S) == [Status.EXISTS] * BLOCKS
        running.get(keys)
        for shard, tensors in running.ranks:
            check(shard, tensors)


def test_blocksThatTheOwnerWrites_areThoseThatItWouldHaveGot(daemon: Daemon) -> None:
    engine = Engine(2, 1, False, 1, is_apart=True, order="CLND")
    keys = [b"written%d" % block for block in range(BLOCKS)]
    with ExitStack() as stack:
        running = Running(daemon, "written", engine, stack)
        for shard, tensors in running.ranks:
            fill(shard, tensors)
        running.put(keys)
        leases = stack.enter_context(running.namespace.acquire(keys))
        blocks = [block for index in range(BLOCKS) if (block := leases.read(index)) is not None]
        for region, (shard, tensors) in zip(running.regions, running.ranks, strict=True):
            for tensor in tensors:
                tensor.memory[:] = bytes(len(tensor.memory))
            region.write(range(BLOCKS), blocks)
            check(shard, tensors)
            with pytest.raises(InvalidArgument, match=f"block id {BLOCKS}; expected 0 to {BLOCKS - 1}"):
                region.write([BLOCKS], blocks[:1])
            with pytest.raises(InvalidArgument, match="a block of 1 bytes; expected"):
                region.write([0], [b"x"])


def test_rankThatDoesNotPut_noBlockIsVisible_andNothingStays(daemon: Daemon) -> None:
    with ExitStack() as stack:
        engine = Running(daemon, "incomplete", Engine(2, 1, False, 1), stack)
        keys = [b"incomplete%d" % block for block in range(BLOCKS)]
        assert engine.regions[0].put(keys, range(BLOCKS)).wait(TIMEOUT_S) == [Status.OK] * BLOCKS
        assert engine.namespace.lookup(keys).run == 0
        assert eventually(lambda: engine.namespace._client.counters()["partial_expired"] == BLOCKS)
        assert engine.namespace.lookup(keys).statuses == [Status.MISS] * BLOCKS
        for statuses in engine.put(keys):
            assert statuses == [Status.OK] * BLOCKS
        assert engine.namespace.lookup(keys).run == BLOCKS


def test_replicas_storeOneEach(daemon: Daemon) -> None:
    with ExitStack() as stack:
        engine = Running(daemon, "replicas", Engine(8, 1, False, 1, heads=1), stack)
        keys = [b"replicas%d" % block for block in range(BLOCKS)]
        statuses = engine.put(keys)
        assert [[rank[block] for rank in statuses].count(Status.OK) for block in range(BLOCKS)] == [1] * BLOCKS


def test_shard_afterTheDaemonsRestart_isRegisteredAgain(daemon: Daemon) -> None:
    with in_a_folder(Daemon) as restarted, ExitStack() as stack:
        restarted.start(host__bytes="16MiB", ssd__bytes="0")
        engine = Running(restarted, "again", Engine(2, 1, True, 1), stack)
        keys = [b"again%d" % block for block in range(BLOCKS)]
        restarted.kill()
        restarted.start(host__bytes="16MiB", ssd__bytes="0")
        assert eventually(lambda: all(rank == [Status.OK] * BLOCKS or rank == [Status.EXISTS] * BLOCKS for rank in engine.put(keys)))


def tensor(**changed: int) -> Tensor:
    return Tensor("CBNHD", **({"C": 2, "B": BLOCKS, "N": TOKENS, "H": 2, "D": ELEMENTS} | changed))


@pytest.mark.parametrize(
    ("shard", "reason"),
    [
        (Shard(["CBNHD"], 16, 4), "a block has 32 tokens in a tensor of shape .* expected 16"),
        (Shard(["CBNHD"], TOKENS, 4, 3), "heads 3 to 5 of a block of 4"),
        (Shard(["CBNHD"], TOKENS, 4, 0, 1, 1), "layers 1 to 2 of a block of 1"),
        (Shard(["CBNH"], TOKENS, 4), "axes 'CBNH' of a tensor of shape"),
        (Shard(["CCNHD"], TOKENS, 4), "different letters"),
        (Shard(["CNNHX"], TOKENS, 4), "different letters"),
        (Shard(["CBNHD"] * 2, TOKENS, 4), "axes of 2 tensors for 1 tensors"),
        (Shard(["CBNHD"], TOKENS, 4, order="LXND"), "order is 'LXND'"),
        (Shard(["CBNHD"], TOKENS, 4, planes=2), "1 tensors of 2 planes; expected as many of each plane"),
    ],
)
def test_shardThatTheTensorsAreNot_isRefused(shard: Shard, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        form_of([tensor()], shard)


def test_tensorsThatDiffer_areRefused() -> None:
    with pytest.raises(InvalidArgument, match="tensor 1 differs from tensor 0"):
        form_of([tensor(), tensor(H=4)], Shard(["CBNHD"] * 2, TOKENS, 4))


def test_planesThatAreNotApart_areRefused() -> None:
    with pytest.raises(InvalidArgument, match="planes is 2, and the tensors have an axis C"):
        form_of([tensor(), tensor()], Shard(["CBNHD"] * 2, TOKENS, 4, planes=2))
    with pytest.raises(InvalidArgument, match="4 tensors with an axis of layers; expected 2"):
        layers = [Tensor("LBNHD", L=2, B=BLOCKS, N=TOKENS, H=4, D=ELEMENTS) for _ in range(4)]
        form_of(layers, Shard(["LBNHD"] * 4, TOKENS, 4, planes=2))


def test_form_isThatOfTheWholeModel() -> None:
    (shard, tensors), *_ = Engine(4, 2, True, 2).ranks()
    assert form_of(tensors, shard) == Form(
        f"LCNHD:{LAYERS}x{TOKENS}:2x4x{2 * ELEMENTS}", prod((LAYERS, TOKENS, 2, 4, 2 * ELEMENTS))
    )


def spec_of(engine: Engine) -> str:
    """What the daemon is told of the last rank's tensors, as if they were on a GPU."""
    *_, (shard, tensors) = engine.ranks()
    cells = cells_of(tensors, shard)
    places = itertools.count()
    return region_spec(cells.planes(), device="GPU-0", place=lambda _address, _tensor: (bytes(64), next(places)), cells=cells).text().decode()


def test_tensorsApartOnAGpu_areAPartForEachPlane() -> None:
    lines = spec_of(Engine(2, 1, False, 1, is_apart=True, order="CLND")).splitlines()
    part = f"part=kv:BHND:{BLOCKS},2,{TOKENS},{2 * ELEMENTS}:{TOKENS * 4 * ELEMENTS},{2 * ELEMENTS},{4 * ELEMENTS},1:1:4:2"
    assert [line for line in lines if line.startswith("part=")] == [part, part]
    assert [line for line in lines if line.startswith("tensor=")] == [f"tensor=0+{number}" for number in range(2 * LAYERS)]
    assert f"layers={LAYERS}" in lines and "order=CLNHD" in lines


def test_tensorsApartOnAGpu_inAnOrderThatTheyCannotHave_areRefused() -> None:
    with pytest.raises(InvalidArgument, match="expected one that begins with C, such as 'CLND'"):
        spec_of(Engine(2, 1, False, 1, is_apart=True))


def test_namespaceWithAnotherForm_refusesTheRegion(daemon: Daemon) -> None:
    (shard, tensors), *_ = Engine(2, 1, False, 1).ranks()
    form = form_of(tensors, shard)
    with Client(daemon.socket_path, timeout=TIMEOUT_S) as client:
        other = client.namespace("other-form", block_bytes=form.block_bytes, form=form.text.replace("LCNHD", "LCHND"))
        with pytest.raises(InvalidArgument, match="have the form LCHND"):
            register(other, tensors, shard=shard)
        without = client.namespace("without-form", block_bytes=form.block_bytes)
        with pytest.raises(InvalidArgument, match="has no property 'form'"):
            register(without, tensors, shard=shard)
