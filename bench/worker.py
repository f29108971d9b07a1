"""The Python side of the benchmarks: carries out the commands on its standard input, and answers each with one line."""

import asyncio
import mmap
import random
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from kvtier import Client, Namespace, Status, aio

KEY = struct.Struct("<QQQQ")
NUMBER = struct.Struct("<Q")
QUESTION = struct.Struct(">II")
GOLDEN = 0x9E3779B97F4A7C15
UNMARKED = (1 << 64) - 1
GET_TAG = 1
PUT_TAG = 2
TIMEOUT_S = 30.0
BLOCKS_OF_JAVA = 1 << 10  # the least that the Java side has put, where it has put any
SAMPLES_MIN = 10
RIDE_BLOCKS = 64
RIDE_PAUSE_S = 0.0005

Answer = dict[str, float]


def key_of(tag: int, number: int) -> bytes:
    """The key that io.kvtier.bench.BenchKeys makes too."""
    return KEY.pack(number * GOLDEN & 0xFFFFFFFFFFFFFFFF, tag, number, 0)


def require(condition: bool, what: object) -> None:
    """Ends the command with an error; `assert` can be switched off."""
    if not condition:
        raise RuntimeError(what)


class WorkingSet:
    """Blocks in private memory, in batches, and the random order of those on the other side."""

    def __init__(self, block_bytes: int, blocks: int, batch: int) -> None:
        self.block_bytes = block_bytes
        self.batch = batch
        # Private and without huge pages, as the Java side's.
        self._memory = mmap.mmap(-1, block_bytes * blocks, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        view = memoryview(self._memory)
        for at in range(0, len(view), 1 << 20):
            view[at : at + (1 << 20)] = bytes(min(1 << 20, len(view) - at))
        step = block_bytes * batch
        self.batches = [view[at : at + step] for at in range(0, len(view), step)]
        order = list(range(blocks))
        random.Random(7).shuffle(order)
        self.numbers = [order[at : at + batch] for at in range(0, blocks, batch)]
        self.keys = [[key_of(GET_TAG, number) for number in numbers] for numbers in self.numbers]

    def mark(self, index: int) -> None:
        """Writes the numbers of a batch's blocks into their first and last bytes."""
        for place, number in enumerate(self.numbers[index]):
            NUMBER.pack_into(self.batches[index], place * self.block_bytes, number)
            NUMBER.pack_into(self.batches[index], (place + 1) * self.block_bytes - 8, number)

    def unmark(self, index: int) -> None:
        """Takes the numbers out of a batch's blocks, and touches no more of them."""
        for at in range(0, self.block_bytes * self.batch, self.block_bytes):
            NUMBER.pack_into(self.batches[index], at, UNMARKED)
            NUMBER.pack_into(self.batches[index], at + self.block_bytes - 8, UNMARKED)

    def check(self, index: int) -> None:
        """Fails when other blocks came than were asked for."""
        for place, number in enumerate(self.numbers[index]):
            first = NUMBER.unpack_from(self.batches[index], place * self.block_bytes)[0]
            last = NUMBER.unpack_from(self.batches[index], (place + 1) * self.block_bytes - 8)[0]
            require(first == number == last, f"block {number} came with the bytes of {first} and {last}")


class Worker:
    """The commands, one method each."""

    def __init__(self) -> None:
        self.socket = ""
        self.client: Client
        self.gets: Namespace
        self.puts: Namespace
        self.block_bytes = 0
        self.set: WorkingSet
        self.turn = 0
        self.next_put = 0
        self.held: object = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.bare_get: Callable[..., Iterable[bytes]]
        self.bare_put: Callable[..., bytes]
        self.async_client: aio.Client

    def open(self, socket: str, token_file: str = "", ca: str = "") -> Answer:
        """Connects to a daemon: to a socket, or over gRPC with a token and a certificate to trust."""
        self.socket = socket
        credentials = {"token_file": token_file, "ca": ca} if token_file else {}
        self.client = Client(socket, name="bench", timeout=TIMEOUT_S, **credentials)  # type: ignore[arg-type]
        self.client.connect()
        return {}

    def namespace(self, block_bytes: str) -> Answer:
        """Uses the blocks that the Java side has put."""
        self.block_bytes = int(block_bytes)
        self.gets = self.client.namespace(f"bench-get-{block_bytes}", block_bytes=self.block_bytes, purpose="kvtier bench")
        self.puts = self.client.namespace(f"bench-put-{block_bytes}", block_bytes=self.block_bytes, purpose="kvtier bench")
        return {}

    def fill(self, block_bytes: str, blocks: str, batch: str) -> Answer:
        """Makes a working set and puts it into the daemon."""
        self.namespace(block_bytes)
        self.set = WorkingSet(int(block_bytes), int(blocks), int(batch))
        for index, keys in enumerate(self.set.keys):
            self.set.mark(index)
            statuses = self.gets.put(keys, self.set.batches[index])
            require(all(status is Status.OK for status in statuses), statuses)
        return {}

    def latency(self, what: str, keys: str, gap_ms: str, duration_ms: str) -> Answer:
        """Times one operation after the other."""
        count = int(keys)
        batches = [
            [key_of(GET_TAG, (batch * count + i) % BLOCKS_OF_JAVA) for i in range(count)] for batch in range(64)
        ]
        operation, afterwards = self._operation(what, count)
        gap_s = int(gap_ms) / 1000
        clock = time.perf_counter_ns
        samples: list[int] = []
        end = clock() + int(duration_ms) * 1_000_000
        turn = 0
        started = 0
        while started < end or len(samples) < SAMPLES_MIN:
            chosen = batches[turn & 63]
            turn += 1
            if gap_s:
                time.sleep(gap_s)
            started = clock()
            result = operation(chosen)
            samples.append(clock() - started)
            afterwards(result)
        samples.sort()
        return {"p50": samples[len(samples) // 2] / 1000, "p99": samples[len(samples) * 99 // 100] / 1000}

    def _operation(self, what: str, count: int) -> tuple[Callable[[list[bytes]], object], Callable[[object], None]]:
        namespace = self.gets

        def acquire_release(keys: list[bytes]) -> int:
            leases = namespace.acquire(keys)
            run = leases.run
            leases.release()
            return run

        def release(leases: object) -> None:
            require(leases.run == count, leases)  # type: ignore[attr-defined]
            leases.release()  # type: ignore[attr-defined]

        def check_run(lookup: object) -> None:
            require(lookup.run == count, lookup)  # type: ignore[attr-defined]

        def check_ping(ping: object) -> None:
            require(ping.status is Status.OK, ping)  # type: ignore[attr-defined]

        match what:
            case "acquire":
                return namespace.acquire, release
            case "acquire_release":
                return acquire_release, lambda run: require(run == count, run)
            case "lookup":
                return namespace.lookup, check_run
            case "ping":
                return lambda keys: self.client.ping(), check_ping
        raise ValueError(what)

    def get(self, duration_ms: str) -> Answer:
        """Copies batches out for a while."""
        taken = self.set
        calls = took = 0
        clock = time.perf_counter_ns
        while took < int(duration_ms) * 1_000_000:
            index = self.turn
            self.turn = (self.turn + 1) % len(taken.keys)
            into = taken.batches[index]
            taken.unmark(index)
            started = clock()
            result = self.gets.get(taken.keys[index], into)
            took += clock() - started
            calls += 1
            require(result.run == taken.batch, result)
            taken.check(index)
        return self._rate(calls, took)

    def put(self, duration_ms: str) -> Answer:
        """Copies fresh blocks in for a while, but no more than the working set, and clears them."""
        taken = self.set
        calls = took = 0
        clock = time.perf_counter_ns
        while took < int(duration_ms) * 1_000_000 and calls < len(taken.keys):
            keys = [key_of(PUT_TAG, self.next_put + i) for i in range(taken.batch)]
            self.next_put += taken.batch
            started = clock()
            statuses = self.puts.put(keys, taken.batches[calls])
            took += clock() - started
            calls += 1
            require(all(status is Status.OK for status in statuses), statuses)
        cleared = self.puts.clear()
        require(cleared.blocks == calls * taken.batch, cleared)
        return self._rate(calls, took)

    def _rate(self, calls: int, took_ns: int) -> Answer:
        moved = calls * self.set.batch * self.set.block_bytes
        return {"gbps": moved / took_ns, "per_s": calls * 1e9 / took_ns}

    def open_bare(self, address: str, ca: str) -> Answer:
        """Connects to the server of `io.kvtier.bench.BareGrpc`, which only moves bytes."""
        import grpc  # type: ignore[import-untyped] # here, because only the client over gRPC needs it

        credentials = grpc.ssl_channel_credentials(Path(ca).read_bytes())
        channel = grpc.secure_channel(address, credentials, [("grpc.max_receive_message_length", 8 << 20)])
        self.bare_get = channel.unary_stream("/bench.Bare/Get")
        self.bare_put = channel.stream_unary("/bench.Bare/Put")
        return {}

    def get_bare(self, duration_ms: str) -> Answer:
        """Copies messages of the size of a block out for a while."""
        size, batch = self.block_bytes, self.set.batch

        def get(index: int) -> None:
            into = self.set.batches[index]
            filled = 0
            for message in self.bare_get(QUESTION.pack(batch, size)):
                into[filled : filled + size] = message
                filled += size
            require(filled == size * batch, filled)

        return self._bare(get, duration_ms)

    def put_bare(self, duration_ms: str) -> Answer:
        """Sends messages of the size of a block for a while."""
        size = self.block_bytes
        messages = [bytes(self.set.batches[0][at : at + size]) for at in range(0, size * self.set.batch, size)]
        return self._bare(lambda index: self.bare_put(iter(messages)), duration_ms)

    def _bare(self, call: Callable[[int], object], duration_ms: str) -> Answer:
        calls = took = 0
        while took < int(duration_ms) * 1_000_000:
            started = time.perf_counter_ns()
            call(calls % len(self.set.batches))
            took += time.perf_counter_ns() - started
            calls += 1
        return self._rate(calls, took)

    def ride(self, block_bytes: str, timeout_s: str) -> Answer:
        """Gets and puts while the daemon is killed and started again: the first answer that says so, the next hit."""
        size = int(block_bytes)
        client = Client(self.socket, name="bench-ride", timeout=float(timeout_s))
        namespace = client.namespace("bench-ride-python", block_bytes=size, purpose="kvtier bench")
        keys = [key_of(GET_TAG, number) for number in range(RIDE_BLOCKS)]
        contents = [NUMBER.pack(number) * (size // NUMBER.size) for number in range(RIDE_BLOCKS)]
        into = bytearray(size)
        gone_ns = hit_ns = longest_ns = turn = 0
        while hit_ns == 0:
            turn = (turn + 1) % RIDE_BLOCKS
            started_ns = time.monotonic_ns()
            status = namespace.get([keys[turn]], into).statuses[0]
            answered_ns = time.monotonic_ns()
            longest_ns = max(longest_ns, answered_ns - started_ns)
            if status is Status.OK:
                require(into == contents[turn], f"block {turn} came with other bytes")
                hit_ns = answered_ns if gone_ns else 0
            elif status is Status.UNAVAILABLE:
                gone_ns = gone_ns or answered_ns
                time.sleep(RIDE_PAUSE_S)
            else:
                require(status is Status.MISS, status)
                put = namespace.put([keys[turn]], [contents[turn]])[0]
                longest_ns = max(longest_ns, time.monotonic_ns() - answered_ns)
                if put is Status.UNAVAILABLE:
                    gone_ns = gone_ns or time.monotonic_ns()
                turn -= 1
        client.close()
        return {"gone_ns": gone_ns, "hit_ns": hit_ns, "longest_ns": longest_ns}

    def hold(self, leases: str, reservations: str) -> Answer:
        """Leases blocks, reserves slots, writes half of one, and keeps all that until it is killed."""
        count = int(leases)
        held = self.gets.acquire([key_of(GET_TAG, number) for number in range(count)])
        require(held.run == count, held)
        reserved = self.puts.reserve([key_of(PUT_TAG, number) for number in range(int(reservations))])
        view = reserved.views[0]
        require(view is not None, reserved)
        half = self.block_bytes // 2
        view[:half] = bytes(half)  # type: ignore[index]
        self.held = (held, reserved)
        return {}

    def pipelined(self, in_flight: str, duration_ms: str) -> Answer:
        """Single-block acquires of the asyncio client, that many at once."""
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            self.async_client = aio.Client(self.socket, name="bench-aio", timeout=TIMEOUT_S)
        return self.loop.run_until_complete(self._pipelined(int(in_flight), int(duration_ms)))

    async def _pipelined(self, in_flight: int, duration_ms: int) -> Answer:
        namespace = await self.async_client.namespace(self.gets.name, block_bytes=self.block_bytes, purpose="kvtier bench")
        keys = [[key_of(GET_TAG, number)] for number in range(BLOCKS_OF_JAVA)]
        done = 0
        started = time.perf_counter_ns()
        end = started + duration_ms * 1_000_000

        async def one_after_the_other(first: int) -> None:
            nonlocal done
            turn = first
            while time.perf_counter_ns() < end:
                leases = await namespace.acquire(keys[turn % len(keys)])
                require(leases.run == 1, leases.statuses)
                leases.release()
                turn += in_flight
                done += 1

        await asyncio.gather(*(one_after_the_other(first) for first in range(in_flight)))
        return {"per_s": done * 1e9 / (time.perf_counter_ns() - started)}


def main() -> None:
    """Until the standard input ends."""
    worker = Worker()
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            answer = getattr(worker, name)(*arguments)
            print("ok", *(f"{key}={value!r}" for key, value in answer.items()), flush=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker shows it
            print(f"error {name}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
