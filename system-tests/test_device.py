"""Blocks between device memory and the daemon, with a GPU of shared memory and real processes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from file_gpu import UUID, GpuDaemon, Tensors, gpu_daemon, handle_of, keys_of
from kvtier_testing.daemon import eventually, importing
from kvtier_testing.encodings import kept

from kvtier import Client, InvalidArgument, Status, _operations
from kvtier._encoding import KINDS
from kvtier._protocol import KEYS_MAX
from kvtier.device import Copying, DeviceRegion, ExportedMemory, Part, Word

OK = Status.OK


@pytest.fixture(scope="module")
def daemon() -> Iterator[GpuDaemon]:
    with gpu_daemon() as started:
        yield started


def test_the_first_blocks_can_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = {1}
    asked = []

    class Session:
        def has(self, ticket: int, deadline_ns: int) -> bool:
            asked.append(ticket)
            return ticket in over

        def take(self, ticket: int, deadline_ns: int) -> int:
            return ticket

    monkeypatch.setattr(_operations, "short_statuses", lambda link, completion, count: [OK] * count)
    link: Any = SimpleNamespace(session=Session())
    copying = Copying(link, [(1, 2, Word(0, 0)), (2, 3, Word(0, 0)), (3, 1, Word(0, 0))], 1)
    assert [copying.last_blocks(least) for least in (0, 1, 2, 4, 5, 6)] == [0, 1, 4, 4, 4, 4]
    for blocks in (1, 2):
        assert copying.wait(0, blocks) == [OK] * 2 + [Status.PENDING] * 4
    assert asked == [1]
    assert copying.wait(0, 3) == [OK] * 2 + [Status.PENDING] * 4
    assert asked == [1, 2]
    over |= {2}
    assert copying.wait(0, 5) == [OK] * 5 + [Status.PENDING]
    assert not copying.done() and asked == [1, 2, 2, 3]
    over |= {3}
    assert copying.wait(0, 6) == [OK] * 6 and copying.done()
    assert Copying(link, [(1, 2, Word(0, 0))], 1).last_blocks(1) == 0
    assert Copying(None, [], 1).last_blocks(1) == 0


def gpu_of(client: Client) -> dict[str, object]:
    return client.stats()["gpus"][0]


# ---- what is copied


def test_put_then_get_into_other_blocks_is_bit_exact(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "a", seed=1)
    with tensors.region(client, "exact") as region:
        keys = keys_of(8)
        before = [tensors.block(i) for i in range(8)]
        assert region.put(keys, range(8)).wait(60) == [OK] * 8
        assert client.namespace("exact", block_bytes=tensors.block_bytes).lookup(keys).run == 8
        others = [tensors.block(i) for i in range(8)]
        got = region.get(keys, [15, 14, 13, 12, 11, 10, 9, 8])
        assert got.wait(60) == [OK] * 8
        assert got.layers_done() == 4
        assert [tensors.block(15 - i) for i in range(8)] == before
        assert [tensors.block(i) for i in range(8)] == others


def test_host_clients_and_devices_see_the_same_bytes(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "host", seed=2)
    namespace = client.namespace("host", block_bytes=tensors.block_bytes)
    with tensors.region(client, "host") as region:
        from_device, from_host = keys_of(3), keys_of(3, seed=2)
        assert region.put(from_device, [4, 5, 6]).wait(60) == [OK] * 3
        buffer = bytearray(3 * tensors.block_bytes)
        assert namespace.get(from_device, buffer).statuses == [OK] * 3
        assert bytes(buffer) == b"".join(tensors.block(i) for i in (4, 5, 6))
        noise = random.Random(3).randbytes(3 * tensors.block_bytes)
        assert namespace.put(from_host, noise) == [OK] * 3
        assert region.get(from_host, [7, 8, 9]).wait(60) == [OK] * 3
        assert b"".join(tensors.block(i) for i in (7, 8, 9)) == noise


def test_a_host_block_that_was_written_to_later_is_not_given_to_a_device(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "late", seed=4)
    namespace = client.namespace("late", block_bytes=tensors.block_bytes)
    with tensors.region(client, "late") as region:
        [key] = keys_of(1)
        reserved = namespace.reserve([key])
        view = reserved.views[0]
        assert view is not None
        address = np.frombuffer(view, dtype=np.uint8)
        address[:] = 7
        assert reserved.commit() == [OK]
        assert region.get([key], [0]).wait(60) == [OK]
        before = tensors.block(1)
        address[100] = 8
        assert region.get([key], [1]).wait(60) == [Status.MISS]
        assert tensors.block(1) == before
        assert namespace.lookup([key]).statuses == [Status.MISS]


def test_leases_say_whose_bytes_they_are_and_read_what_is_right() -> None:
    # A daemon of its own: in none of its memory has a client written yet.
    with gpu_daemon() as daemon, Client(daemon.socket_path) as client:
        tensors = Tensors(daemon, "leases", seed=8)
        namespace = client.namespace("leases", block_bytes=tensors.block_bytes)
        with tensors.region(client, "leases") as region, Client(daemon.socket_path) as other:
            from_device, [from_host] = keys_of(2), keys_of(1, seed=2)
            assert region.put(from_device, [4, 5]).wait(60) == [OK] * 2
            with namespace.acquire(from_device) as leases:
                assert leases.are_verified
                assert [leases.read(i) for i in range(2)] == [tensors.block(4), tensors.block(5)]
            assert [leases.read(i) for i in range(2)] == [None, None]
            with namespace.acquire([from_device[0], *keys_of(1, seed=3)]) as some:
                assert not some.are_verified
                assert some.read(1) is None
            reserved = other.namespace("leases", block_bytes=tensors.block_bytes).reserve([from_host])
            view = reserved.views[0]
            assert view is not None
            address = np.frombuffer(view, dtype=np.uint8)
            address[:] = 7
            assert reserved.commit() == [OK]
            with namespace.acquire([from_device[0], from_host]) as both:
                assert not both.are_verified
                assert both.read(1) == bytes([7]) * tensors.block_bytes
                address[100] = 8
                assert both.read(1) is None and both.read(0) == tensors.block(4)


def test_what_is_here_is_not_put_again_and_what_is_not_is_a_miss(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "twice", seed=5)
    with tensors.region(client, "twice") as region:
        keys = keys_of(4)
        assert region.put(keys[:2], [0, 1]).wait(60) == [OK] * 2
        assert region.put(keys, [0, 1, 2, 3]).wait(60) == [Status.EXISTS, Status.EXISTS, OK, OK]
        unknown = keys_of(1, seed=9)
        assert region.get([keys[0], *unknown, keys[1]], [8, 9, 10]).wait(60) == [OK, Status.MISS, OK]
        run = region.get([keys[0], *unknown, keys[1]], [8, 9, 10], leading_run=True)
        assert run.wait(60) == [OK, Status.MISS, Status.MISS]


def test_annotations_are_kept_with_the_blocks(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "annotated", seed=16)
    namespace = client.namespace("annotated", block_bytes=tensors.block_bytes)
    with tensors.region(client, "annotated") as region:
        keys = keys_of(16)
        annotations = [None if i % 4 == 3 else bytes([i]) * 2000 for i in range(16)]
        assert region.put(keys, range(16), annotations=annotations).wait(60) == [OK] * 16
        # Only those that have none take another one.
        assert namespace.annotate(keys, [b"late"] * 16) == (OK, 4)
        with pytest.raises(InvalidArgument, match="annotation 1 has 2049 bytes"):
            region.put(keys_of(2, seed=99), [0, 1], annotations=[None, bytes(2049)])


def test_annotations_that_fail_leave_the_copies_to_who_asked_for_them(
    daemon: GpuDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise KeyError("the namespace is not registered any more")

    tensors = Tensors(daemon, "unannotated", seed=26)
    with tensors.region(client, "unannotated") as region:
        monkeypatch.setattr("kvtier._operations.annotation_requests", fail)
        keys = keys_of(4, seed=26)
        # Raised, it would look as if no copy had begun, and what the copies wait for were free.
        assert region.put(keys, range(4), annotations=[b"a"] * 4).wait(60) == [OK] * 4


def test_more_keys_than_a_request_takes(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "many", layers=2, blocks=4096, tokens=1, heads=1, dim=16, seed=6)
    with tensors.region(client, "many") as region:
        keys = keys_of(3000)
        assert region.put(keys, range(3000)).wait(60) == [OK] * 3000
        before = [tensors.block(i) for i in range(3000)]
        tensors.memory[:] = 0
        copying = region.get(keys, [4095 - i for i in range(3000)])
        assert copying.last_blocks(1) == 3000 - KEYS_MAX
        assert copying.wait(60, 1)[:KEYS_MAX] == [OK] * KEYS_MAX
        assert copying.wait(60) == [OK] * 3000
        assert [tensors.block(4095 - i) for i in range(3000)] == before


def test_get_that_nobody_counts_layers_of_is_asked_for_in_pieces(
    daemon: GpuDaemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtier.device.GET_WINDOW_BYTES", 1)
    for number, (layers, by_layer, requests) in enumerate([(1, True, 4), (2, True, 1), (2, False, 4)]):
        tensors = Tensors(daemon, f"pieces{number}", layers=layers, blocks=64, seed=number)
        with tensors.region(client, f"pieces{number}") as region:
            keys = keys_of(50, seed=number)
            assert region.put(keys[:20] + keys[21:], range(49)).wait(60) == [OK] * 49
            before = [tensors.block(i) for i in range(49)]
            tensors.memory[:] = 0
            got = region.get(keys, range(63, 13, -1), by_layer=by_layer)
            assert len(got._parts) == requests
            # A caller that waits for single layers although there are none sees all at the end.
            got.wait_layers(1)
            assert by_layer or got.done()
            assert got.wait(60) == [OK] * 20 + [Status.MISS] + [OK] * 29
            assert [tensors.block(i) for i in range(63, 43, -1)] == before[:20]
            assert [tensors.block(i) for i in range(42, 13, -1)] == before[20:]
            # A get that ends at the first hole is one request.
            run = region.get(keys, range(63, 13, -1), leading_run=True, by_layer=by_layer)
            assert len(run._parts) == 1
            assert run.wait(60)[:21] == [OK] * 20 + [Status.MISS]


def test_blocks_that_left_memory_are_loaded_and_copied_on() -> None:
    with gpu_daemon(ssd__bytes="512MiB") as daemon, Client(daemon.socket_path, timeout=60) as client:
        # Blocks of 1 MiB: more than the 64 MiB of memory, and not more than SSD has slots for.
        tensors = Tensors(daemon, "large", layers=4, blocks=160, tokens=64, heads=8, dim=128, seed=7)
        with tensors.region(client, "large") as region:
            keys = keys_of(160)
            assert region.put(keys, range(160)).wait(60) == [OK] * 160
            before = [hash(tensors.block(i)) for i in range(160)]
            tensors.memory[:] = 0
            for start in range(0, 160, 20):
                blocks = list(range(start, start + 20))
                assert region.get(keys[start : start + 20], blocks).wait(60) == [OK] * 20, client.counters()
            assert [hash(tensors.block(i)) for i in range(160)] == before
            assert client.counters()["promotions"] > 0


@pytest.mark.parametrize("seed", range(6))
def test_any_layers_in_any_order_are_bit_exact(daemon: GpuDaemon, client: Client, seed: int) -> None:
    chance = random.Random(seed)
    layers = chance.randint(1, 9)
    tensors = Tensors(
        daemon, f"layers{seed}", layers=layers, blocks=chance.randint(8, 40), tokens=chance.choice([1, 4, 16]),
        heads=chance.choice([1, 2]), dim=chance.choice([8, 64]), seed=seed,
    )  # fmt: skip
    namespace = client.namespace(f"layers{seed}", block_bytes=tensors.block_bytes)
    with tensors.region(client, f"layers{seed}") as region:
        count = chance.randint(1, tensors.blocks // 2)
        keys = keys_of(count)
        sources = chance.sample(range(tensors.blocks), count)
        edges = sorted({0, layers, *(chance.randint(0, layers) for _ in range(3))})
        cuts = [range(a, b) for a, b in zip(edges, edges[1:], strict=False)]
        chance.shuffle(cuts)
        for number, cut in enumerate(cuts):
            assert namespace.lookup(keys).run == 0, "visible before all layers are there"
            assert region.put(keys, sources, layers=cut).wait(60) == [OK] * count, number
        assert namespace.lookup(keys).run == count
        before = {source: tensors.block(source) for source in sources}
        tensors.memory[:] = 0
        targets = chance.sample(range(tensors.blocks), count)
        chance.shuffle(cuts)
        for cut in cuts:
            assert region.get(keys, targets, layers=cut).wait(60) == [OK] * count
            for source, target in zip(sources, targets, strict=True):
                part = tensors.block(target, cut)
                whole = before[source]
                layer = len(whole) // layers
                assert part == whole[cut.start * layer : cut.stop * layer]
        assert [tensors.block(target) for target in targets] == [before[source] for source in sources]
        assert not any(tensors.block(i).strip(b"\0") for i in set(range(tensors.blocks)) - set(targets))


def test_layers_are_counted_while_they_come(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "count", layers=8, blocks=64, tokens=64, heads=4, dim=64, seed=8)
    with tensors.region(client, "count") as region:
        keys = keys_of(32)
        assert region.put(keys, range(32)).wait(60) == [OK] * 32
        before = [tensors.block(i) for i in range(32)]
        tensors.memory[:] = 0
        copying = region.get(keys, range(32, 64))
        seen = 0
        while not copying.done():
            done = copying.layers_done()
            assert seen <= done <= 8
            for layer in range(seen, done):
                for i in range(32):
                    layer_bytes = tensors.block_bytes // 8
                    expected = before[i][layer * layer_bytes : (layer + 1) * layer_bytes]
                    assert tensors.block(32 + i, range(layer, layer + 1)) == expected
            seen = done
        assert copying.layers_done() == 8
        assert copying.wait() == [OK] * 32


def test_a_copy_waits_for_its_event_and_holds_up_no_other(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "event", seed=9)
    path = daemon.gpu / "event.word"
    word = np.memmap(path, dtype=np.uint32, mode="w+", shape=(1,))
    with tensors.region(client, "event", events=[handle_of(path)]) as region:
        keys = keys_of(2)
        late = region.put(keys[:1], [0], event=1, timeout=60)
        assert region.put(keys[1:], [1]).wait(60) == [OK]
        assert not late.done()
        assert late.wait(0.05) == [Status.PENDING]
        tensors.layer[0][:, 0] = 77
        expected = tensors.block(0)
        word[0] = 1
        assert late.wait(60) == [OK]
        assert region.get(keys[:1], [5]).wait(60) == [OK]
        assert tensors.block(5) == expected


def test_a_copy_whose_event_never_comes_ends_with_its_deadline_or_by_cancel(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "never", seed=10)
    path = daemon.gpu / "never.word"
    np.memmap(path, dtype=np.uint32, mode="w+", shape=(1,))
    namespace = client.namespace("never", block_bytes=tensors.block_bytes)
    with tensors.region(client, "never", events=[handle_of(path)]) as region:
        keys = keys_of(2)
        assert region.put(keys, [0, 1], event=1, timeout=0.2).wait(60) == [Status.DEADLINE] * 2
        waiting = region.put(keys, [0, 1], event=1, timeout=60)
        assert waiting.wait(0.05) == [Status.PENDING] * 2
        waiting.cancel()
        assert waiting.wait(60) == [Status.CANCELLED] * 2
        assert namespace.lookup(keys).statuses == [Status.MISS] * 2
        assert region.put(keys, [0, 1]).wait(60) == [OK] * 2


def test_layers_that_never_come_give_the_slot_back() -> None:
    with gpu_daemon(limits__lease="200ms") as daemon, Client(daemon.socket_path, timeout=60) as client:
        tensors = Tensors(daemon, "half", seed=11)
        namespace = client.namespace("half", block_bytes=tensors.block_bytes)
        with tensors.region(client, "half") as region:
            keys = keys_of(1)
            assert region.put(keys, [0], layers=range(2)).wait(60) == [OK]
            assert namespace.lookup(keys).statuses == [Status.PENDING]
            assert eventually(lambda: namespace.lookup(keys).statuses == [Status.MISS])
            assert eventually(lambda: client.counters()["host_bytes_used"] == 0)


def test_two_engines_at_once(daemon: GpuDaemon) -> None:
    problems: list[str] = []

    def engine(number: int) -> None:
        chance = random.Random(number)
        with Client(daemon.socket_path, name=f"engine{number}", timeout=60) as client:
            tensors = Tensors(daemon, f"engine{number}", blocks=64, seed=number)
            with tensors.region(client, "engines") as region:
                for turn in range(20):
                    keys = keys_of(16, seed=100 * number + turn)
                    sources = chance.sample(range(32), 16)
                    expected = [tensors.block(i) for i in sources]
                    targets = chance.sample(range(32, 64), 16)
                    put = region.put(keys, sources).wait(60)
                    got = region.get(keys, targets).wait(60)
                    if put != [OK] * 16 or got != [OK] * 16:
                        problems.append(f"engine {number}, turn {turn}: {put}, {got}")
                    elif [tensors.block(i) for i in targets] != expected:
                        problems.append(f"engine {number}, turn {turn}: other bytes")
                    tensors.memory[:] = np.random.default_rng(turn).integers(0, 256, len(tensors.memory), dtype=np.uint8)

    threads = [threading.Thread(target=engine, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_many_ask_for_the_same_blocks(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "same", blocks=256, seed=12)
    with tensors.region(client, "same") as region:
        keys = keys_of(16)
        assert region.put(keys, range(16)).wait(60) == [OK] * 16
        gets = [region.get(keys, range(16 * i, 16 * i + 16)) for i in range(1, 16)]
        assert [get.wait(60) for get in gets] == [[OK] * 16] * 15
        for i in range(1, 16):
            assert [tensors.block(16 * i + j) for j in range(16)] == [tensors.block(j) for j in range(16)]
        assert client.stats()["sessions"][0]["leases"] == 0


def test_two_put_the_same_key_at_once(daemon: GpuDaemon) -> None:
    with Client(daemon.socket_path, timeout=20) as one, Client(daemon.socket_path, timeout=60) as other:
        first, second = Tensors(daemon, "race1", seed=13), Tensors(daemon, "race2", seed=13)
        with first.region(one, "race") as a, second.region(other, "race") as b:
            for turn in range(30):
                keys = keys_of(8, seed=turn)
                copies = [a.put(keys, range(8)), b.put(keys, range(8))]
                statuses = [copy.wait(60) for copy in copies]
                assert {*statuses[0], *statuses[1]} <= {OK, Status.EXISTS, Status.PENDING}
                assert all(OK in pair for pair in zip(*statuses, strict=True))
                assert a.get(keys, range(8, 16)).wait(60) == [OK] * 8
                assert [first.block(8 + i) for i in range(8)] == [first.block(i) for i in range(8)]


# ---- memory without IPC handles


class Pieces:
    """The bytes of some tensors, copied into several files of memory that lie one behind the other in address only."""

    def __init__(self, of: Tensors, sizes: list[int]) -> None:
        assert sum(sizes) == len(of.memory)
        self.descriptors = [os.memfd_create("kvtier-test-piece") for _ in sizes]
        at = 0
        for descriptor, size in zip(self.descriptors, sizes, strict=True):
            os.write(descriptor, of.memory[at : at + size].tobytes())
            at += size
        self.exports = 0
        self.memory = ExportedMemory(sizes, self._export)

    def _export(self, number: int) -> int:
        self.exports += 1
        return os.dup(self.descriptors[number])

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def in_pieces(of: Tensors) -> Pieces:
    return Pieces(of, [8192] * 3 + [4096, len(of.memory) - 7 * 4096])


def pieces_open_in(daemon: GpuDaemon) -> int:
    folder = Path(f"/proc/{daemon.pid}/fd")
    return sum("kvtier-test-piece" in os.readlink(each) for each in folder.iterdir() if each.is_symlink())


def test_memory_in_pieces_is_passed_and_used(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "pieces", seed=30)
    pieces = in_pieces(tensors)
    places = [(pieces.memory, offset) for _, offset in tensors.spec().tensors]
    with tensors.region(client, "pieces", tensors=places) as region, tensors.region(client, "pieces") as whole:
        assert pieces.exports == 5
        assert pieces_open_in(daemon) == 0
        keys = keys_of(8, seed=30)
        assert region.put(keys, range(8)).wait(60) == [OK] * 8
        assert whole.get(keys, range(8, 16)).wait(60) == [OK] * 8
        assert [tensors.block(8 + i) for i in range(8)] == [tensors.block(i) for i in range(8)]
    pieces.close()


def test_memory_in_pieces_of_which_nothing_comes_is_let_go(daemon: GpuDaemon) -> None:
    tensors = Tensors(daemon, "dropped", seed=31)
    pieces = in_pieces(tensors)
    places = [(pieces.memory, offset) for _, offset in tensors.spec().tensors]
    with Client(daemon.socket_path, timeout=20) as client:
        assert "is not seen here" in refusal(client, tensors, tensors=places, device="GPU-none")
        assert "expected 16, the blocks" in refusal(
            client, tensors, tensors=places, parts=[Part("CBNHD", (2, 8, 4, 2, 32), tensors.strides(), 2)]
        )
        assert pieces_open_in(daemon) == 0
        link = client._connection.open(time.monotonic_ns() + 10**9)
        first = link.numbers_to_pass(3)
        deadline_ns = time.monotonic_ns() + 10**10
        assert link.pass_memory(first, pieces.descriptors[0], deadline_ns) is OK
        assert link.pass_memory(first, pieces.descriptors[0], deadline_ns) is Status.EXISTS
        assert link.pass_memory(first + 1, pieces.descriptors[1], deadline_ns) is OK
        assert pieces_open_in(daemon) == 2
    assert eventually(lambda: pieces_open_in(daemon) == 0)
    pieces.close()


def test_memory_in_pieces_is_registered_again_after_a_restart() -> None:
    with gpu_daemon() as daemon, Client(daemon.socket_path, timeout=30) as client:
        tensors = Tensors(daemon, "again", seed=32)
        pieces = in_pieces(tensors)
        places = [(pieces.memory, offset) for _, offset in tensors.spec().tensors]
        with tensors.region(client, "again", tensors=places) as region:
            daemon.kill()
            daemon.start()
            keys = keys_of(2, seed=32)
            assert eventually(lambda: region.put(keys, range(2)).wait(10) == [OK] * 2)
            assert pieces.exports == 10
        pieces.close()


# ---- what is refused


def refusal(client: Client, of: Tensors, /, **changed: object) -> str:
    with pytest.raises(InvalidArgument) as raised:
        of.region(client, "refused", **changed)
    return str(raised.value)


def test_wrong_regions_are_refused_with_the_reason(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "wrong", seed=14)
    good = tensors.spec()
    handle = handle_of(tensors.path)
    size = len(tensors.memory)
    assert "is not seen here" in refusal(client, tensors, device="GPU-00000000-1111-2222-3333-444444444444")
    assert "is not within its allocation" in refusal(
        client, tensors, tensors=[*good.tensors[:3], (handle, size - 100)]
    )
    assert "is not within its allocation" in refusal(client, tensors, tensors=[*good.tensors[:3], (handle, -1)])
    assert "tensors 0 and 1 overlap" in refusal(client, tensors, tensors=[good.tensors[0], *good.tensors[:3]])
    assert "3 tensors: expected 4" in refusal(client, tensors, tensors=good.tensors[:3])
    assert "CUDA_ERROR_INVALID_VALUE" in refusal(
        client, tensors, tensors=[(handle_of(daemon.gpu / "none"), offset) for _, offset in good.tensors]
    )
    assert "of this very process" in refusal(
        client, tensors, tensors=[(handle_of(Path("own")), offset) for _, offset in good.tensors]
    )
    assert "has 8192 bytes, one of namespace 'refused' 4096" in refusal(client, tensors, layers=4, parts=[
        Part("CBNHD", tensors.shape, tensors.strides(), 4)
    ])  # fmt: skip
    assert "makes elements overlap" in refusal(
        client, tensors, parts=[Part("CBNHD", tensors.shape, [4096, 256, 32, 32, 1], 2)]
    )
    assert "expected 16, the blocks" in refusal(
        client, tensors, parts=[Part("CBNHD", (2, 8, 4, 2, 32), tensors.strides(), 2)]
    )
    assert "0 layers: expected 1 or more" in refusal(client, tensors, layers=0)
    assert "at most 512" in refusal(client, tensors, layers=513)
    elsewhere = daemon.gpu / "on-another"
    elsewhere.write_bytes(bytes(size))
    assert "but on another" in refusal(
        client, tensors, tensors=[(handle_of(elsewhere), offset) for _, offset in good.tensors]
    )
    assert gpu_of(client)["regions"] == 0
    with tensors.region(client, "refused") as region:
        assert region.put(keys_of(1), [0]).wait(60) == [OK]


def test_wrong_requests_are_refused_and_the_session_goes_on(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "bounds", seed=15)
    with tensors.region(client, "bounds") as region:
        keys = keys_of(2)
        invalid = [Status.INVALID_ARGUMENT] * 2
        assert region.put(keys, [0, 16]).wait(60) == invalid
        assert region.get(keys, [0, 0xFFFFFFFF]).wait(60) == invalid
        assert region.put(keys, [0, 1], event=1).wait(60) == invalid
        known = region._registered
        assert known is not None
        for layers, number in ((range(4), known[1] + 1), (range(3, 5), known[1]), (range(2, 2), known[1])):
            region._registered = (known[0], number)
            region.__class__.layers = property(lambda _: 9)  # type: ignore[assignment]
            try:
                if len(layers):
                    assert region.put(keys, [0, 1], layers=layers).wait(60) == invalid
            finally:
                region.__class__.layers = property(lambda self: self._spec.layers)  # type: ignore[assignment]
                region._registered = known
        with pytest.raises(InvalidArgument, match="2 keys and 1 block ids"):
            region.put(keys, [0])
        with pytest.raises(InvalidArgument, match="layers"):
            region.put(keys, [0, 1], layers=range(2, 5))
        assert region.put(keys, [0, 1]).wait(60) == [OK] * 2


def test_a_region_is_its_sessions_own(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "own", seed=16)
    with tensors.region(client, "own") as region, Client(daemon.socket_path, timeout=60) as stranger:
        with Tensors(daemon, "own2", seed=17).region(stranger, "own") as other:
            assert region._registered is not None and other._registered is not None
            other._registered = (other._registered[0], region._registered[1])
            assert other.put(keys_of(1), [0]).wait(60) == [Status.INVALID_ARGUMENT]
            assert other.get(keys_of(1), [0]).wait(60) == [Status.INVALID_ARGUMENT]


def test_halves_of_a_blocks_heads_are_got_and_are_put_together(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "rank", heads=4, seed=18)
    whole = client.namespace("ranks", block_bytes=tensors.block_bytes, form="LCNHD:4x4:2x4x64")
    keys = keys_of(1)
    noise = random.Random(1).randbytes(tensors.block_bytes)
    assert whole.put(keys, noise) == [OK]

    def rank(name: str, first_head: int) -> tuple[Tensors, DeviceRegion]:
        half = Tensors(daemon, name, heads=2, seed=19 + first_head)
        part = Part("CBNHD", half.shape, half.strides(), 2, block_heads=4, first_head=first_head)
        return half, DeviceRegion(whole, half.spec(parts=[part]))

    right, right_region = rank("rank-right", 2)
    left, left_region = rank("rank-left", 0)
    with right_region, left_region:
        assert right_region.get(keys, [3]).wait(60) == [OK]
        expected = np.frombuffer(noise, dtype=np.uint16).reshape(4, 2, 4, 4, 32)[:, :, :, 2:]
        assert right.block(3) == expected.tobytes()
        other = keys_of(1, seed=2)
        assert right_region.put(other, [5]).wait(60) == [OK]
        assert whole.lookup(other).run == 0
        assert right_region.put(other, [5]).wait(60) == [Status.PENDING]
        assert left_region.put(other, [6]).wait(60) == [OK]
        together = bytearray(tensors.block_bytes)
        assert whole.get(other, together).statuses == [OK]
        heads = np.frombuffer(together, dtype=np.uint16).reshape(4, 2, 4, 4, 32)
        assert left.block(6) == heads[:, :, :, :2].tobytes()
        assert right.block(5) == heads[:, :, :, 2:].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_gpu_encodes_host_clients_decode_and_the_other_way_round(daemon: GpuDaemon, client: Client, kind: str) -> None:
    name = f"encoded-{kind}"
    tensors = Tensors(daemon, name, heads=4, dim=64, seed=20)
    values = np.random.default_rng(20)
    for layer in tensors.layer:
        layer[:] = (values.standard_normal(layer.shape, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    # One block has elements of any size.
    tensors.layer[2][1, 6] = values.integers(0, 1 << 16, tensors.layer[2][1, 6].shape)
    tensors.layer[2][1, 6].reshape(-1)[0] = 0x7F80
    namespace = client.namespace(name, block_bytes=tensors.block_bytes, encoding=f"{kind} bf16 1024")
    with DeviceRegion(namespace, tensors.spec()) as region:
        before = client.counters()
        from_device, from_host = keys_of(3), keys_of(3, seed=2)
        blocks = b"".join(tensors.block(i) for i in (4, 5, 6))
        stored = b"".join(kept(f"{kind} bf16 1024", tensors.block(i)) for i in (4, 5, 6))
        assert (stored == blocks) == (kind == "exact")
        assert region.put(from_device, [4, 5, 6]).wait(60) == [OK] * 3
        assert region.put(keys_of(1, seed=3), [4], layers=range(0, 1)).wait(60) == [OK]
        buffer = bytearray(len(blocks))
        assert namespace.get(from_device, buffer).statuses == [OK] * 3
        assert buffer == stored
        assert namespace.put(from_host, blocks) == [OK] * 3
        assert region.get(from_host, [7, 8, 9]).wait(60) == [OK] * 3
        assert b"".join(tensors.block(i) for i in (7, 8, 9)) == stored
        assert region.get(from_device, [10, 11, 12], layers=range(1, 3)).wait(60) == [OK] * 3
        assert tensors.block(10, range(1, 3)) == tensors.block(7, range(1, 3))
        after = client.counters()
        assert after["put_encoded"] - before["put_encoded"] == 4
        assert after["put_raw"] - before["put_raw"] == 2
        assert gpu_of(client)["copied_bytes"]["encoded"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_encode_their_parts_of_blocks_that_any_client_and_any_ranks_decode(
    daemon: GpuDaemon, client: Client, kind: str
) -> None:
    # Blocks of other sizes have all regions of the daemon's memory, so a block that becomes raw needs a region of theirs.
    count, heads = 4, 4
    whole = Tensors(daemon, f"{kind}-ranks-whole", heads=heads, dim=128, seed=24)
    values = np.random.default_rng(24)
    for layer in whole.layer:
        # All encodings keep these values, so it does not matter which parts of a raw block came encoded.
        normal = values.standard_normal(layer.shape, dtype=np.float32)
        normal[np.abs(normal) < 2**-9] = 0
        layer[:] = (normal.view(np.uint32) >> 16 & 0xFFF0).astype(np.uint16)
    # Of two blocks, one rank's part does not fit: the first rank's of one block, the last rank's of the other.
    for number, head in ((0, 0), (1, heads - 1)):
        noise = whole.layer[2][1, number, :, head]
        noise[:] = values.integers(0, 1 << 16, noise.shape)
        noise[0, 0] = 0x7F80
    properties = {"form": "LCHND:4x4:2x4x256", "encoding": f"{kind} bf16 1024"}

    def rank(ranks: int, number: int) -> tuple[Client, Tensors, DeviceRegion]:
        first, own = number * heads // ranks, heads // ranks
        part = Tensors(daemon, f"{kind}-ranks-{number}-of-{ranks}", heads=own, dim=128, seed=25)
        for mine, all_heads in zip(part.layer, whole.layer, strict=True):
            mine[:, :count] = all_heads[:, :count, :, first : first + own]
        session = Client(daemon.socket_path, timeout=60)
        shape = Part("CBNHD", part.shape, part.strides(), 2, block_heads=heads, first_head=first)
        namespace = session.namespace(f"{kind}-ranks", block_bytes=whole.block_bytes, **properties)
        return session, part, DeviceRegion(namespace, part.spec(order="LCHND", parts=[shape]))

    engines = {ranks: [rank(ranks, number) for number in range(ranks)] for ranks in (1, 2, 4)}
    namespace = client.namespace(f"{kind}-ranks", block_bytes=whole.block_bytes, **properties)
    blocks = b"".join(
        np.stack([layer[:, number].transpose(0, 2, 1, 3) for layer in whole.layer]).tobytes() for number in range(count)
    )  # fmt: skip
    for writers, engine in engines.items():
        for layers in (None, [range(0, 1), range(1, 4)]):
            before = client.counters()
            keys = keys_of(count, seed=10 * writers + (layers is None))
            for some in layers or [range(4)]:
                copies = [region.put(keys, range(count), layers=some) for _, _, region in engine]
                assert [copying.wait(60) for copying in copies] == [[OK] * count] * writers
            together = bytearray(len(blocks))
            assert namespace.get(keys, together).statuses == [OK] * count
            assert together == blocks
            for readers, others in engines.items():
                for _, part, region in others:
                    assert region.get(keys, range(count, 2 * count)).wait(60) == [OK] * count
                    for layer in part.layer:
                        assert (layer[:, count : 2 * count] == layer[:, :count]).all(), f"{writers} ranks wrote, {readers} read"
                        layer[:, count : 2 * count] = 0
            after = client.counters()
            assert after["put_encoded"] - before["put_encoded"] == count - 2
            assert after["put_raw"] - before["put_raw"] == 2
    for session, _, region in (rank for engine in engines.values() for rank in engine):
        region.close()
        session.close()


def test_regions_whose_blocks_cannot_be_encoded_are_refused_with_the_reason(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "unencodable", heads=4, dim=64)
    namespace = client.namespace("unencodable", block_bytes=tensors.block_bytes, encoding="exact bf16 8192")
    with pytest.raises(InvalidArgument, match="pieces of 4096 bytes, which are not whole granules of 8192 bytes"):
        DeviceRegion(namespace, tensors.spec())


def test_half_of_a_blocks_heads_in_a_namespace_without_a_form_is_refused(daemon: GpuDaemon, client: Client) -> None:
    half = Tensors(daemon, "rank-formless", heads=2, seed=23)
    formless = client.namespace("formless", block_bytes=2 * half.block_bytes)
    spec = half.spec(parts=[Part("CBNHD", half.shape, half.strides(), 2, block_heads=4, first_head=2)])
    with pytest.raises(InvalidArgument, match="has no property 'form'"):
        DeviceRegion(formless, spec)


def test_copy_of_a_daemon_that_hangs_can_be_given_up() -> None:
    with gpu_daemon() as daemon, Client(daemon.socket_path) as client:
        tensors = Tensors(daemon, "hang", seed=9)
        with tensors.region(client, "hang") as region:
            keys = keys_of(4)
            assert region.put(keys, range(4)).wait(60) == [OK] * 4
            over = region.get(keys, range(4, 8))
            assert over.wait(60) == [OK] * 4
            over.give_up()
            assert client.connected
            daemon.pause()
            late = region.get(keys, range(8, 12))
            assert late.wait(0.05) == [Status.PENDING] * 4
            late.give_up()
            assert late.done() and late.wait(0) == [Status.UNAVAILABLE] * 4
            daemon.signal(signal.SIGCONT)
            assert eventually(lambda: region.get(keys, range(4, 8)).wait(10) == [OK] * 4)


def test_without_a_gpu_a_region_is_refused_with_the_reason(stopped_daemon: GpuDaemon) -> None:
    stopped_daemon.start(gpu__enabled="off")
    with Client(stopped_daemon.socket_path, timeout=60) as client, gpu_folder() as folder:
        tensors = Tensors(folder, "none", seed=20)
        assert "gpu.enabled is off" in refusal(client, tensors)
        assert client.stats()["gpus"] == []


class gpu_folder:
    """A folder for tensors, without a GPU."""

    def __enter__(self) -> GpuDaemon:
        self.made = GpuDaemon(Path("/nonexistent"))
        return self.made

    def __exit__(self, *exception: object) -> None:
        self.made.stop()


# ---- what fails

ENGINE = """
import sys
from pathlib import Path
from file_gpu import Tensors, keys_of
from kvtier import Client
class Folder:
    gpu = Path(sys.argv[2])
client = Client(sys.argv[1], timeout=60)
tensors = Tensors(Folder, "dying", blocks=512, seed=1)
region = tensors.region(client, "dying")
if sys.argv[3] == "get":
    region.put(keys_of(64, seed=3), range(64)).wait(30)
print("begin", flush=True)
while True:
    if sys.argv[3] == "get":
        copies = [region.get(keys_of(64, seed=3), range(64 * i, 64 * i + 64)) for i in range(1, 8)]
    else:
        copies = [region.put(keys_of(64, seed=10 + i), range(64 * i, 64 * i + 64)) for i in range(8)]
    [copy.wait() for copy in copies]
"""


@pytest.mark.parametrize("what", ["put", "get"])
def test_an_engine_that_dies_in_mid_copy_leaves_nothing(what: str) -> None:
    with gpu_daemon(delay_ms=30) as daemon, Client(daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("dying", block_bytes=Tensors(daemon, "probe").block_bytes)
        engine = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(daemon.socket_path), str(daemon.gpu), what],
            stdout=subprocess.PIPE, text=True, env=importing(),
        )  # fmt: skip
        assert engine.stdout is not None
        assert engine.stdout.readline() == "begin\n"
        time.sleep(0.02)
        assert gpu_of(client)["regions"] == 1
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        engine.stdout.close()
        assert eventually(lambda: gpu_of(client)["regions"] == 0)
        assert eventually(lambda: client.counters()["operations"] == 0)
        assert len(client.stats()["sessions"]) == 1
        # Every slot is free, or holds a block that somebody can find.
        counters = client.counters
        assert eventually(lambda: counters()["host_slots_in_flight"] == 0)
        namespace.clear()
        assert eventually(lambda: counters()["host_slots_free"] == counters()["host_slots_total"])


def test_a_region_is_registered_again_after_a_restart(fresh_gpu_daemon: GpuDaemon) -> None:
    daemon = fresh_gpu_daemon
    with Client(daemon.socket_path, timeout=60) as client:
        tensors = Tensors(daemon, "again", seed=21)
        region = tensors.region(client, "again")
        keys = keys_of(4)
        assert region.put(keys, range(4)).wait(60) == [OK] * 4
        daemon.kill()
        assert region.get(keys, range(4)).wait(60) == [Status.UNAVAILABLE] * 4
        daemon.start()
        assert eventually(lambda: region.put(keys_of(4, seed=5), range(4)).wait(60) == [OK] * 4)
        region.close()


def test_a_region_that_is_closed_while_it_is_registered_again_stays_closed(
    fresh_gpu_daemon: GpuDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = fresh_gpu_daemon
    with Client(daemon.socket_path, timeout=60) as client:
        tensors = Tensors(daemon, "closed", seed=36)
        region = tensors.region(client, "closed")
        begun, may_go_on = threading.Event(), threading.Event()
        register = region._register

        def slowly(*arguments: Any) -> None:
            begun.set()
            assert may_go_on.wait(60)
            register(*arguments)

        monkeypatch.setattr(region, "_register", slowly)
        daemon.kill()
        daemon.start()
        assert eventually(lambda: region.put(keys_of(1), [0]).wait(60) == [Status.UNAVAILABLE] and begun.is_set())
        renewal = next(thread for thread in threading.enumerate() if thread.name == "kvtier-region")
        closing = threading.Thread(target=region.close)
        closing.start()
        assert eventually(lambda: region._closed)
        may_go_on.set()
        closing.join(60)
        # The region is closed: its memory may be freed.
        assert not renewal.is_alive()
        assert gpu_of(client)["regions"] == 0


def test_the_daemon_dies_in_mid_copy(fresh_gpu_daemon: GpuDaemon) -> None:
    daemon = fresh_gpu_daemon
    with Client(daemon.socket_path, timeout=60) as client:
        tensors = Tensors(daemon, "killed", blocks=256, seed=22)
        path = daemon.gpu / "killed.word"
        np.memmap(path, dtype=np.uint32, mode="w+", shape=(1,))
        with tensors.region(client, "killed", events=[handle_of(path)]) as region:
            # One is under way whatever the others have come to: its event never comes.
            held = region.put(keys_of(32), range(32), event=1)
            copies = [region.put(keys_of(32, seed=100 + i), range(32 * i, 32 * i + 32)) for i in range(1, 8)]
            assert held.wait(0.05) == [Status.PENDING] * 32
            os.kill(daemon.pid, signal.SIGKILL)
            daemon.kill()
            assert held.wait(60) == [Status.UNAVAILABLE] * 32
            for copy in copies:
                assert {*copy.wait(60)} <= {OK, Status.UNAVAILABLE}


def test_an_error_of_cuda_fences_the_gpu_and_nothing_else(fresh_gpu_daemon: GpuDaemon) -> None:
    daemon = fresh_gpu_daemon
    with Client(daemon.socket_path, timeout=60) as client:
        tensors = Tensors(daemon, "fence", seed=23)
        namespace = client.namespace("fence", block_bytes=tensors.block_bytes)
        with tensors.region(client, "fence") as region:
            keys = keys_of(4)
            assert region.put(keys, range(4)).wait(60) == [OK] * 4
            (daemon.gpu / "fail").touch()
            assert region.put(keys_of(4, seed=2), range(4)).wait(60) == [Status.IO_ERROR] * 4
            assert "ILLEGAL_ADDRESS" in str(gpu_of(client)["fence"])
            assert region.get(keys, range(4)).wait(60) in ([Status.IO_ERROR] * 4, [OK] * 4)
            buffer = bytearray(4 * tensors.block_bytes)
            assert namespace.get(keys, buffer).statuses == [OK] * 4
            assert bytes(buffer) == b"".join(tensors.block(i) for i in range(4))
            assert namespace.lookup(keys_of(4, seed=2)).statuses == [Status.MISS] * 4
            assert "is not used any more" in refusal(client, tensors)


def test_an_error_of_cuda_starts_the_daemon_anew() -> None:
    def logged(words: str) -> bool:
        return words in (daemon.folder / "daemon.log").read_text()

    with gpu_daemon(host__keep="1min") as daemon, Client(daemon.socket_path, timeout=60) as client:
        process = daemon.pid
        tensors = Tensors(daemon, "anew", seed=24)
        namespace = client.namespace("anew", block_bytes=tensors.block_bytes)
        with tensors.region(client, "anew") as region:
            keys = keys_of(4)
            assert region.put(keys, range(4)).wait(60) == [OK] * 4
            fail = daemon.gpu / "fail"
            fail.touch()
            assert region.put(keys_of(4, seed=2), range(4)).wait(60) == [Status.IO_ERROR] * 4
            fail.unlink()
            # The process and its memory stay, and the GPU is used again.
            assert eventually(lambda: logged("started anew because GPU 0 is not used any more"))
            assert eventually(lambda: region.get(keys, range(8, 12)).wait(60) == [OK] * 4)
            assert [tensors.block(8 + i) for i in range(4)] == [tensors.block(i) for i in range(4)]
            assert daemon.pid == process and daemon.process is not None and daemon.process.poll() is None
            assert gpu_of(client)["fence"] is None
            assert client.counters()["found_host"] == 4
            # A GPU that fails again has the daemon start no second time.
            fail.touch()
            assert region.put(keys_of(4, seed=3), range(4)).wait(60) == [Status.IO_ERROR] * 4
            assert eventually(lambda: logged("is not started anew: it was started anew at"))
            assert "ILLEGAL_ADDRESS" in str(gpu_of(client)["fence"])
            buffer = bytearray(4 * tensors.block_bytes)
            assert namespace.get(keys, buffer).statuses == [OK] * 4


@pytest.fixture
def fresh_gpu_daemon() -> Iterator[GpuDaemon]:
    with gpu_daemon() as started:
        yield started


# ---- from one engine's memory to another's


def test_advertised_blocks_are_got_from_a_sibling(daemon: GpuDaemon, client: Client) -> None:
    ours, theirs = Tensors(daemon, "p", seed=31), Tensors(daemon, "p-other", seed=32)
    namespace = client.namespace("peers", block_bytes=ours.block_bytes)
    with (
        Client(daemon.socket_path, name="sibling", timeout=60) as sibling,
        ours.region(client, "peers") as owner,
        theirs.region(sibling, "peers") as getter,
    ):
        keys = keys_of(8)
        assert namespace.lookup(keys).holder is None
        assert owner.advertise(keys[:4], [3, 2, 1, 0], rank=5) == [OK] * 4
        assert owner.advertise(keys[:1], [3]) == [Status.EXISTS]
        assert owner.advertise(keys[:1], [9]) == [Status.BUSY]
        before = client.counters()["hits_gpu"]
        got = getter.get(keys, range(8, 16))
        assert got.wait(60) == [OK] * 4 + [Status.MISS] * 4
        assert [theirs.block(8 + i) for i in range(4)] == [ours.block(3 - i) for i in range(4)]
        eventually(lambda: client.counters()["hits_gpu"] == before + 4)
        found = namespace.lookup(keys)
        assert found.run == 0 and found.statuses == [Status.MISS] * 8
        assert found.holder == (4, owner.id, 0, 0)
        assert owner.advertise(keys[4:5], [4], rank=7) == [OK]
        assert namespace.lookup(keys).holder == (5, owner.id, 0, 7)
        assert owner.revoke([keys[2], keys[7]]) == [OK, Status.MISS]
        assert namespace.lookup(keys).holder == (2, owner.id, 0, 7)
        assert getter.get(keys[2:3], [0]).wait(60) == [Status.MISS]
        with pytest.raises(InvalidArgument, match="block 16 is not in region"):
            owner.advertise(keys[5:6], [16])
        with pytest.raises(InvalidArgument, match="expected one for each"):
            owner.advertise(keys[5:6], [])
        with pytest.raises(InvalidArgument, match="rank"):
            owner.advertise(keys[5:6], [5], rank=-1)
    assert namespace.lookup(keys).holder is None


def test_an_owner_that_goes_takes_its_blocks_with_it(daemon: GpuDaemon, client: Client) -> None:
    theirs = Tensors(daemon, "d-other", seed=34)
    with theirs.region(client, "mortal") as getter:
        ours = Tensors(daemon, "d", seed=33)
        namespace = client.namespace("mortal", block_bytes=ours.block_bytes)
        owning = Client(daemon.socket_path, name="mortal", timeout=60)
        owner = ours.region(owning, "mortal")
        keys = keys_of(4)
        assert owner.advertise(keys, range(4)) == [OK] * 4
        copies = [getter.get(keys, range(4, 8)) for _ in range(8)]
        owning.close()
        for copying in copies:
            assert set(copying.wait(60)) <= {OK, Status.MISS}
        eventually(lambda: namespace.lookup(keys).holder is None)
        assert getter.get(keys, range(4)).wait(60) == [Status.MISS] * 4


def test_stats_tell_of_each_gpu(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "stats", seed=24)
    with tensors.region(client, "stats") as region:
        before = gpu_of(client)
        assert region.put(keys_of(4, seed=77), range(4)).wait(60) == [OK] * 4
        assert region.get(keys_of(4, seed=77), range(4)).wait(60) == [OK] * 4
        after = gpu_of(client)
        assert after["uuid"] == UUID
        assert after["offloaded_bytes"] - before["offloaded_bytes"] == 4 * tensors.block_bytes
        assert after["onboarded_bytes"] - before["onboarded_bytes"] == 4 * tensors.block_bytes
        ways = ("plain", "batch", "staged", "kernel")
        copied = [after["copied_bytes"][way] - before["copied_bytes"][way] for way in ways]
        assert sum(copied) == 8 * tensors.block_bytes
        assert after["regions"] == 1
        assert after["staging_bytes"] == 128 << 20


def test_region_is_open_without_events_that_the_daemon_cannot_open(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "no-events")
    with tensors.region(client, "no-events", events=[handle_of(daemon.gpu / "in-another-container")]) as region:
        assert not region.takes_events
        assert region.put(keys_of(2), [1, 2]).wait(60) == [OK, OK]
        # The caller chose an event while another daemon could open the events.
        assert region.put(keys_of(1, 2), [1], event=1).wait(60) == [Status.UNAVAILABLE]


def test_memory_that_cannot_be_opened_is_refused_with_its_own_reason(daemon: GpuDaemon, client: Client) -> None:
    tensors = Tensors(daemon, "no-memory")
    places = [(handle_of(daemon.gpu / "gone"), 0) for _ in range(tensors.layers)]
    with pytest.raises(InvalidArgument, match="tensor 0"):
        tensors.region(client, "no-memory", tensors=places, events=[handle_of(daemon.gpu / "in-another-container")])
