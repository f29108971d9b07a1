"""Clients that keep to no rule: the daemon goes on, and a client beside them reads its own bytes in time."""

import array
import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from blocks import blocks, keys, wrong_blocks
from conftest import Daemon, eventually
from test_daemon import slots_balance

from kvtier import Client, Status
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

SEED = 20
PAGE = 4096
F_ADD_SEALS = 1033
F_SEAL_WRITE = 8
TEXT = (Verb.REGISTER,)
IDS = (Verb.COMMIT, Verb.ABORT, Verb.RELEASE)
PLAIN = (Verb.PING, Verb.UNREGISTER, Verb.CLEAR, Verb.FLUSH, Verb.CANCEL, Verb.STATS)
EDGES = [0, 1, 7, 8, 63, 64, 2047, 2048, 2049, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 8, (1 << 32) - 1]
EDGES_64 = [*EDGES, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def connect(daemon: Daemon) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(str(daemon.socket_path))
    channel.settimeout(10)
    return channel


def hello(request_bytes: int = protocol.RING_BYTES_MIN, completion_bytes: int = protocol.RING_BYTES_MIN, name: bytes = b"raw") -> bytes:
    magic = protocol.HANDSHAKE_HELLO_MAGIC
    return struct.pack("<QIIIHH", magic, protocol.VERSION, request_bytes, completion_bytes, len(name), 0) + name


def record(
    verb: int,
    body: bytes = b"",
    count: int = 0,
    *,
    flags: int = 0,
    key_bytes: int = 8,
    correlation: int = 1,
    deadline: int = 0,
    namespace: int = 0,
    group: int = 0,
    argument: int = 0,
    length: int | None = None,
) -> bytes:
    body += bytes(-len(body) % 8)
    length = protocol.REQUEST_HEADER_BYTES + len(body) if length is None else length
    fields = (length, verb, flags, 1, key_bytes, correlation, deadline, namespace, group, 0, count, 0, argument, 0, 0)
    return struct.pack("<IBBBBQQIHHIIQQQ", *fields) + body


class Raw:
    """A session by hand over a ring that wraps."""

    def __init__(self, daemon: Daemon, ring_bytes: int = protocol.RING_BYTES_MIN) -> None:
        self.ring_bytes = ring_bytes
        self.socket = connect(daemon)
        self.socket.sendall(hello(ring_bytes, ring_bytes))
        descriptors = self.receive()[1]
        self.memory_descriptor, self.doorbell, self.daemon_descriptor = descriptors
        self.memory = mmap.mmap(self.memory_descriptor, protocol.SESSION_HEADER_BYTES + 2 * ring_bytes)
        self.tail = 0
        self.head = 0
        self.calls = 1000

    def receive(self) -> tuple[bytes, list[int]]:
        message, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(64))
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        return message, list(descriptors)

    def word(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, offset)[0])

    def set_word(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self.memory, offset, value)

    def offer(self, request: bytes) -> bool:
        if self.tail - self.word(protocol.SESSION_REQUEST_HEAD_OFFSET) + len(request) > self.ring_bytes:
            return False
        at = self.tail % self.ring_bytes
        first = min(len(request), self.ring_bytes - at)
        begin = protocol.SESSION_HEADER_BYTES
        self.memory[begin + at : begin + at + first] = request[:first]
        self.memory[begin : begin + len(request) - first] = request[first:]
        self.tail += len(request)
        self.set_word(protocol.SESSION_REQUEST_TAIL_OFFSET, self.tail)
        os.eventfd_write(self.doorbell, 1)
        return True

    def answers(self) -> Iterator[bytes]:
        begin = protocol.SESSION_HEADER_BYTES + self.ring_bytes
        tail = self.word(protocol.SESSION_COMPLETION_TAIL_OFFSET)
        while self.head < tail:
            at = self.head % self.ring_bytes
            length = struct.unpack_from("<I", self.memory, begin + at)[0]
            assert length >= protocol.COMPLETION_HEADER_BYTES
            answer = self.memory[begin + at : begin + min(at + length, self.ring_bytes)]
            answer += self.memory[begin : begin + length - len(answer)]
            self.head += length
            self.set_word(protocol.SESSION_COMPLETION_HEAD_OFFSET, self.head)
            yield answer

    def call(self, verb: int, body: bytes = b"", count: int = 0, **fields: int) -> bytes:
        self.calls += 1
        assert eventually(lambda: self.offer(record(verb, body, count, correlation=self.calls, **fields)))
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for answer in self.answers():
                if struct.unpack_from("<Q", answer, protocol.COMPLETION_CORRELATION_OFFSET)[0] == self.calls:
                    return answer
            time.sleep(0.0002)
        pytest.fail(f"{Verb(verb).name} got no answer")

    def register(self, name: str) -> int:
        text = f"name={name}".encode()
        return int(struct.unpack_from("<Q", self.call(Verb.REGISTER, text, len(text), argument=PAGE), protocol.COMPLETION_VALUE_OFFSET)[0])

    def reserve(self, namespace: int, some: list[bytes]) -> list[int]:
        return grants(self.call(Verb.RESERVE, b"".join(some), len(some), namespace=namespace))

    def put(self, namespace: int, some: list[bytes]) -> None:
        ids = self.reserve(namespace, some)
        assert status_of(self.call(Verb.COMMIT, struct.pack(f"<{len(ids)}Q", *ids), len(ids))) == Status.OK

    def map_slab(self, slab: int, writable: bool) -> mmap.mmap:
        self.socket.sendall(struct.pack("<QII", protocol.HANDSHAKE_MAP_SLAB_MAGIC, slab, writable))
        descriptor = self.receive()[1][0]
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        mapping = mmap.mmap(descriptor, 8 << 20, prot=protection)
        os.close(descriptor)
        return mapping

    def close(self) -> None:
        self.socket.close()
        self.memory.close()
        for descriptor in (self.memory_descriptor, self.doorbell, self.daemon_descriptor):
            os.close(descriptor)


def status_of(answer: bytes) -> int:
    return int(struct.unpack_from("<H", answer, protocol.COMPLETION_STATUS_OFFSET)[0])


def grants(answer: bytes) -> list[int]:
    count = struct.unpack_from("<I", answer, protocol.COMPLETION_COUNT_OFFSET)[0]
    results = struct.iter_unpack("<HBBIQIIQ", answer[protocol.COMPLETION_HEADER_BYTES : protocol.COMPLETION_HEADER_BYTES + 32 * count])
    return [result[4] for result in results if result[0] == Status.OK]


def small_keys(count: int, first: int = 0) -> list[bytes]:
    return [struct.pack("<Q", index) for index in range(first, first + count)]


@contextmanager
def bystander(daemon: Daemon, name: str) -> Iterator[Client]:
    """A client that has blocks before something happens, and reads them unharmed afterwards."""
    with Client(daemon.socket_path, name="bystander", timeout=60) as client:
        namespace = client.namespace(name, block_bytes=16384)
        some = keys(name, 16)
        namespace.put(some, blocks(some, 16384))
        yield client
        into = bytearray(16 * 16384)
        answer = namespace.get(some, into)
        assert answer.run == 16 and wrong_blocks(some, answer.statuses, into) == []
        assert client.connected


def fuzzed(rng: random.Random, namespace: int, ids: list[int]) -> bytes:
    verb = rng.choice([*range(1, 18), *range(1, 18), 0, 18, 255])
    flags = rng.choice([0] * 8 + [1, 2, 4, 8, 16, rng.randrange(256)])
    key_bytes = rng.choice([8] * 8 + [32, 1, 7, 9, 0, 33, 255])
    count = rng.choice([0, 1, 2, 5, 20] * 4 + EDGES)
    real = count if count <= protocol.KEYS_MAX else 3
    if verb in TEXT:
        body = rng.choice([b"name=fuzz", b"name=\xff\xfe", b"=\n\n", b"name=a\nname=b", b"a=b", rng.randbytes(50)])
        count = len(body) if rng.random() < 0.9 else count
    elif verb in IDS:
        known = [rng.choice(ids or [0]) if rng.random() < 0.6 else rng.choice([*EDGES_64, rng.getrandbits(64)]) for _ in range(real)]
        body = b"".join(struct.pack("<Q", one) + (rng.randbytes(8) if flags & protocol.REQUEST_FLAG_CHECKSUMS else b"") for one in known)
    elif verb in PLAIN:
        body = b""
    else:
        stride = (key_bytes + 7) & ~7
        body = b"".join(struct.pack("<Q", rng.randrange(200)).ljust(stride, b"\0")[:stride] for _ in range(real + (flags & 1)))
    if rng.random() < 0.1:
        body = rng.randbytes(rng.randrange(400))
    return record(
        verb,
        body,
        count,
        flags=flags,
        key_bytes=key_bytes,
        correlation=rng.choice([1, 2, rng.getrandbits(64)]),
        deadline=rng.choice([0] * 6 + EDGES_64),
        namespace=rng.choice([namespace] * 8 + EDGES),
        group=rng.choice([0] * 8 + [1, 65535]),
        argument=rng.choice([0, 0, PAGE, *EDGES_64]),
        length=rng.choice(EDGES) if rng.random() < 0.05 else None,
    )


def test_garbageInEveryField_daemonAndBystanderGoOn(daemon: Daemon) -> None:
    rng = random.Random(SEED)
    offsets = [value for name, value in vars(protocol).items() if name.startswith("SESSION_") and name.endswith("_OFFSET")]
    with bystander(daemon, "fuzz-bystander") as client:
        for _ in range(120):
            raw = Raw(daemon)
            namespace = raw.register("fuzz-pages")
            ids: list[int] = []
            for _ in range(rng.randrange(1, 60)):
                raw.offer(fuzzed(rng, namespace, ids))
                if rng.random() < 0.02:
                    raw.set_word(rng.choice(offsets), rng.choice(EDGES_64))
                    break
                if rng.random() < 0.8:
                    for answer in raw.answers():
                        if answer[protocol.COMPLETION_VERB_OFFSET] in (Verb.RESERVE, Verb.ACQUIRE) and not answer[protocol.COMPLETION_FLAGS_OFFSET]:
                            ids = (ids + grants(answer))[-100:]
            if rng.random() < 0.5:
                try:
                    raw.socket.send(rng.randbytes(rng.randrange(64)))
                except OSError:
                    pass  # ended already
            raw.close()
        assert client.ping().status is Status.OK
        assert eventually(lambda: client.counters()["sessions"] == 1 and slots_balance(client.counters()))


@pytest.mark.parametrize("namespace", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF])
def test_unregister_anyNumber_isUnknown(daemon: Daemon, namespace: int) -> None:
    raw = Raw(daemon)
    assert status_of(raw.call(Verb.UNREGISTER, namespace=namespace)) == Status.NAMESPACE_UNKNOWN
    raw.close()


def test_garbageOnTheSocket_daemonAndBystanderGoOn(daemon: Daemon) -> None:
    rng = random.Random(SEED)
    descriptors = os.listdir(f"/proc/{daemon.pid}/fd")
    with bystander(daemon, "socket-bystander") as client:
        silent = [connect(daemon) for _ in range(50)]
        for _ in range(300):
            channel = connect(daemon)
            whole = hello(1 << rng.randrange(32), 1 << rng.randrange(32), b"\x1b\n\xff" * rng.randrange(80))
            flipped = bytearray(whole)
            for _ in range(rng.randrange(6)):
                flipped[rng.randrange(len(flipped))] = rng.randrange(256)
            try:
                channel.send(rng.choice([rng.randbytes(rng.randrange(1, 5000)), whole[: rng.randrange(1, 24)], bytes(flipped)]))
                channel.send(struct.pack("<QII", protocol.HANDSHAKE_MAP_SLAB_MAGIC, rng.getrandbits(32), 1))
            except OSError:
                pass  # cut off already
            channel.close()
        # A peer that asks and never reads is cut off; nobody waits for it.
        deaf = Raw(daemon)
        deaf.socket.setblocking(False)
        with pytest.raises(OSError):
            while True:
                deaf.socket.send(struct.pack("<QII", protocol.HANDSHAKE_MAP_SLAB_MAGIC, 0, 0))
        deaf.close()
        for channel in silent:
            channel.close()
        assert eventually(lambda: client.counters()["sessions"] == 1)
    assert eventually(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= len(descriptors))


def test_passedDescriptorThatLingers_holdsNobodyUp(daemon: Daemon) -> None:
    """The last close of a socket that lingers takes as long as its sender likes."""
    with bystander(daemon, "linger-bystander"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sending = socket.create_connection(listener.getsockname())
            unread, _ = listener.accept()
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
            sending.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    sending.send(bytes(65536))
            daemon.pause()  # so that its copy is the last one when it looks
            channel = connect(daemon)
            try:
                socket.send_fds(channel, [b"not a hello"], [sending.fileno()])
            except PermissionError:
                # The kernel keeps descriptors away from the daemon; and this close shall not linger.
                sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            else:
                os.close(sending.detach())
            finally:
                daemon.signal(signal.SIGCONT)
            time.sleep(0.1)
            started = time.monotonic()
            Raw(daemon).close()
            assert time.monotonic() - started < 15, "it waits for the other socket's 20 s"
            sending.close()
            unread.close()
            channel.close()


def test_sharedMemory_keepsItsSizeAndItsRights(daemon: Daemon) -> None:
    with bystander(daemon, "seal-bystander"):
        raw = Raw(daemon)
        for descriptor in (raw.memory_descriptor, raw.daemon_descriptor):
            for size in (0, 4096, 1 << 30):
                with pytest.raises(OSError):
                    os.ftruncate(descriptor, size)
            with pytest.raises(OSError):
                fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE)
        with pytest.raises(OSError):
            mmap.mmap(raw.daemon_descriptor, 4096)
        raw.close()


def test_mappingOutlivesItsSession_readersVerify(daemon: Daemon) -> None:
    """A session's end takes no mapping away: what its process writes later must be found out."""
    with Client(daemon.socket_path, timeout=60) as client:
        raw = Raw(daemon)
        namespace_id = raw.register("outlived")
        mappings = []
        # A slot in a slab of its own, and so the next session's slots are there too.
        answer = raw.call(Verb.RESERVE, b"".join(small_keys(1)), 1, namespace=namespace_id)
        slab = struct.unpack_from("<I", answer, protocol.COMPLETION_HEADER_BYTES + protocol.COMPLETION_BLOCK_SLAB_OFFSET)[0]
        mappings.append(raw.map_slab(slab, writable=True))
        raw.close()
        assert eventually(lambda: client.counters()["sessions"] == 1)
        namespace = client.namespace("outlived", block_bytes=PAGE)
        some = keys("outlived", 64)
        assert namespace.put(some, blocks(some, PAGE)) == [Status.OK] * 64
        for mapping in mappings:
            mapping[:] = b"\x66" * len(mapping)
        into = bytearray(64 * PAGE)
        answers = namespace.get(some, into)
        assert wrong_blocks(some, answers.statuses, into) == []
        namespace.clear()


def inverse_of_mix(mixed: int) -> int:
    word = (1 << 64) - 1
    first = mixed ^ mixed >> 29 ^ mixed >> 58
    second = first * pow(0xD6E8FEB86659FD93, -1, 1 << 64) & word
    return (second ^ second >> 32) * pow(0x9E3779B97F4A7C15, -1, 1 << 64) & word


def test_keysMadeFromWhatTheDaemonTells_doNotCollide(daemon: Daemon) -> None:
    """Whoever knew the seed of the directory's hash could make every lookup a walk through all of his keys."""
    raw = Raw(daemon, 1 << 20)
    namespace = raw.register("collide")
    generation = struct.unpack_from("<Q", mmap.mmap(raw.daemon_descriptor, 4096, prot=mmap.PROT_READ), protocol.DAEMON_GENERATION_OFFSET)[0]

    def colliding(index: int) -> bytes:
        half = index * 2654435761 & 0x7FFFFFFF
        mixed = half << 32 | half  # both halves fold to zero
        for _ in range(4):
            mixed = inverse_of_mix(mixed)
        return struct.pack("<Q", mixed ^ generation ^ (namespace << 32 | 8))

    chosen = [colliding(index + 1) for index in range(8192)]
    for first in range(0, 8192, 2048):
        raw.reserve(namespace, chosen[first : first + 2048])

    def lookup_s(some: list[bytes]) -> float:
        times = []
        for _ in range(20):
            started = time.monotonic()
            raw.call(Verb.LOOKUP, b"".join(some), len(some), namespace=namespace)
            times.append(time.monotonic() - started)
        return min(times)

    ordinary_s = lookup_s(small_keys(2048))
    chosen_s = lookup_s(chosen[:2048])
    raw.close()
    assert chosen_s < 5 * ordinary_s + 0.01


def test_oneThatHoldsMuch_isAnsweredSoonAllTheSame(daemon: Daemon) -> None:
    """What one client holds must not make the next request long, neither its own nor another's."""
    some = small_keys(2048)
    unpin_s, delete_s = [], []
    for _ in range(5):  # the best of some: a busy machine makes each of them long
        raw = Raw(daemon, 1 << 20)
        namespace = raw.register("much")
        raw.put(namespace, some)
        for _ in range(30):
            raw.call(Verb.ACQUIRE, b"".join(some[:1] * 2048), 2048, namespace=namespace)
        started = time.monotonic()
        raw.call(Verb.UNPIN, b"".join(some[:1] * 2048), 2048, namespace=namespace)
        unpin_s.append(time.monotonic() - started)
        raw.call(Verb.PIN, b"".join(some), 2048, namespace=namespace)
        started = time.monotonic()
        raw.call(Verb.DELETE, b"".join(some), 2048, namespace=namespace)
        delete_s.append(time.monotonic() - started)
        raw.close()
    assert min(unpin_s) < 0.1 and min(delete_s) < 0.3


def test_crowdThatSaysNothing_makesRoom(daemon: Daemon) -> None:
    """Those who connect and say nothing take few descriptors, and leave for those who say hello."""
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    with bystander(daemon, "crowd-bystander") as client:
        silent = []
        for _ in range(700):
            silent.append(connect(daemon))
        Raw(daemon).close()
        assert eventually(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) < before + 300, 4), "those who came first are still there"
        for channel in silent:
            channel.close()
        assert eventually(lambda: client.counters()["sessions"] == 1)


def test_outOfDescriptors_waitsQuietly_andGoesOn(fresh_daemon: Daemon) -> None:
    with bystander(fresh_daemon, "descriptors-bystander"):
        used = max(int(name) for name in os.listdir(f"/proc/{fresh_daemon.pid}/fd"))
        limits = resource.prlimit(fresh_daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(fresh_daemon.pid, resource.RLIMIT_NOFILE, (used + 4, limits[1]))
        many = [connect(fresh_daemon) for _ in range(40)]
        log = fresh_daemon.folder / "daemon.log"
        assert eventually(lambda: "can't be accepted" in log.read_text())
        before = log.read_text().count("can't be accepted")
        time.sleep(0.5)
        assert log.read_text().count("can't be accepted") - before < 20
        for channel in many:
            channel.close()
        resource.prlimit(fresh_daemon.pid, resource.RLIMIT_NOFILE, limits)
        assert eventually(lambda: _can_open(fresh_daemon))


def _can_open(daemon: Daemon) -> bool:
    try:
        Raw(daemon).close()
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.ETIMEDOUT, None)
        return False
    return True


def test_nameWithLineBreaks_forgesNoLine(daemon: Daemon) -> None:
    with Client(daemon.socket_path, name="a\nb\x1b[31m") as client:
        names = [session["name"] for session in client.stats()["sessions"]]
    assert any("a?b?[31m" in name for name in names), names
