"""Sessions by hand, for clients that break the rules."""

import array
import mmap
import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from kvtier_testing import words
from kvtier_testing.peer import RINGS_OFFSET

from kvtier import Status
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

PAGE = 4096
TEXT = (Verb.REGISTER, Verb.ANNOTATE, Verb.REGISTER_REGION, Verb.REPORT_LOADS)
IDS = (Verb.COMMIT, Verb.ABORT, Verb.RELEASE)
PLAIN = (Verb.PING, Verb.UNREGISTER, Verb.CLEAR, Verb.FLUSH, Verb.CANCEL, Verb.STATS, Verb.UNREGISTER_REGION)
WITH_BLOCKS = (Verb.OFFLOAD, Verb.ONBOARD, Verb.ADVERTISE, Verb.LOOKUP_GROUPS)
HARMLESS = [verb for verb in Verb if verb is not Verb.ADMIN]
"""An administrator may have files written and the daemon drained: nothing to do blindly."""

EDGES = [0, 1, 7, 8, 63, 64, 2047, 2048, 2049, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 8, (1 << 32) - 1]
EDGES_64 = [*EDGES, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def connect(socket_path: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.connect(str(socket_path))
    channel.settimeout(10)
    return channel


def hello(request_bytes: int = protocol.RING_BYTES_MIN, completion_bytes: int = protocol.RING_BYTES_MIN, name: bytes = b"raw") -> bytes:
    magic = protocol.HANDSHAKE_HELLO_MAGIC
    return protocol.HANDSHAKE_HELLO.pack(magic, protocol.VERSION, request_bytes, completion_bytes, len(name), 0) + name


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
    fields = (length, verb, flags, correlation, deadline, namespace, group, 1, key_bytes, count, 0, argument)
    return protocol.REQUEST_HEADER.pack(*fields, 0, 0, 0, 0, 0, 0, 0) + body


class Raw:
    """A session by hand over a ring that wraps."""

    def __init__(self, socket_path: Path, ring_bytes: int = protocol.RING_BYTES_MIN) -> None:
        self.ring_bytes = ring_bytes
        self.socket = connect(socket_path)
        self.socket.sendall(hello(ring_bytes, ring_bytes))
        descriptors = self.receive()[1]
        self.memory_descriptor, self.doorbell, self.daemon_descriptor = descriptors
        self.memory = mmap.mmap(self.memory_descriptor, RINGS_OFFSET + 2 * ring_bytes)
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
        return words.word(self.memory, offset)

    def set_word(self, offset: int, value: int) -> None:
        words.set_word(self.memory, offset, value)

    def offer(self, request: bytes) -> bool:
        if self.tail - self.word(protocol.SESSION_REQUEST_HEAD_OFFSET) + len(request) > self.ring_bytes:
            return False
        at = self.tail % self.ring_bytes
        first = min(len(request), self.ring_bytes - at)
        begin = RINGS_OFFSET
        self.memory[begin + at : begin + at + first] = request[:first]
        self.memory[begin : begin + len(request) - first] = request[first:]
        self.tail += len(request)
        self.set_word(protocol.SESSION_REQUEST_TAIL_OFFSET, self.tail)
        os.eventfd_write(self.doorbell, 1)
        return True

    def answers(self) -> Iterator[bytes]:
        begin = RINGS_OFFSET + self.ring_bytes
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
        deadline = time.monotonic() + 10
        while not self.offer(record(verb, body, count, correlation=self.calls, **fields)):
            assert time.monotonic() < deadline, f"{Verb(verb).name} finds no room"
            time.sleep(0.0002)
        while time.monotonic() < deadline:
            for answer in self.answers():
                if struct.unpack_from("<Q", answer, protocol.COMPLETION_CORRELATION_OFFSET)[0] == self.calls:
                    return answer
            if self.word(protocol.SESSION_END_REASON_OFFSET) & 0xFFFFFFFF:
                break
            time.sleep(0.0002)
        raise AssertionError(f"{Verb(verb).name} got no answer; {self.ended()}")

    def ended(self) -> str:
        """Whether the daemon has ended the session, and why."""
        reason = self.word(protocol.SESSION_END_REASON_OFFSET) & 0xFFFFFFFF
        return f"the daemon ended the session: {Status(reason - 1).name}" if reason else "the session goes on"

    def register(self, name: str) -> int:
        text = f"name={name}".encode()
        return int(struct.unpack_from("<Q", self.call(Verb.REGISTER, text, len(text), argument=PAGE), protocol.COMPLETION_VALUE_OFFSET)[0])

    def reserve(self, namespace: int, some: list[bytes]) -> list[int]:
        return grants(self.call(Verb.RESERVE, b"".join(some), len(some), namespace=namespace))

    def put(self, namespace: int, some: list[bytes]) -> None:
        ids = self.reserve(namespace, some)
        assert status_of(self.call(Verb.COMMIT, struct.pack(f"<{len(ids)}Q", *ids), len(ids))) == Status.OK

    def map_slab(self, slab: int, writable: bool) -> mmap.mmap:
        self.socket.sendall(protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_MAP_SLAB_MAGIC, slab, writable))
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
    results = protocol.COMPLETION_LONG_RESULT.iter_unpack(answer[protocol.COMPLETION_HEADER_BYTES : protocol.COMPLETION_HEADER_BYTES + 32 * count])
    return [result[4] for result in results if result[0] == Status.OK]


def small_keys(count: int, first: int = 0) -> list[bytes]:
    return [struct.pack("<Q", index) for index in range(first, first + count)]


def fuzzed(rng: random.Random, namespace: int, ids: list[int]) -> bytes:
    verb = rng.choice([*HARMLESS, *HARMLESS, 0, 31, 255])
    flags = rng.choice([0] * 8 + [1, 2, 4, 8, 16, protocol.REQUEST_FLAG_ENCODED, rng.randrange(protocol.REQUEST_FLAGS_ALL + 1)])
    key_bytes = rng.choice([8] * 8 + [32, 1, 7, 9, 0, 33, 255])
    count = rng.choice([0, 1, 2, 5, 20] * 4 + EDGES)
    real = count if count <= protocol.KEYS_MAX else 3
    if verb in TEXT:
        body = rng.choice([b"name=fuzz", b"name=\xff\xfe", b"=\n\n", b"name=a\nname=b", b"a=b", b"name=e\nencoding=exact bf16 4096", b"name=i\nencoding=int4 bf16 4096", rng.randbytes(50)])
        count = len(body) if rng.random() < 0.9 else count
    elif verb in IDS:
        known = [rng.choice(ids or [0]) if rng.random() < 0.6 else rng.choice([*EDGES_64, rng.getrandbits(64)]) for _ in range(real)]
        body = b"".join(struct.pack("<Q", one) + (rng.randbytes(8) if flags & protocol.REQUEST_FLAG_CHECKSUMS else b"") for one in known)
    elif verb in PLAIN:
        body = b""
    else:
        stride = (key_bytes + 7) & ~7
        body = b"".join(struct.pack("<Q", rng.randrange(200)).ljust(stride, b"\0")[:stride] for _ in range(real + (flags & 1)))
        if verb in WITH_BLOCKS:
            body += b"".join(struct.pack("<I", rng.choice([0, 1, 7, *EDGES])) for _ in range(real))
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
