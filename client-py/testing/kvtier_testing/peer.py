"""The daemon's side of a session's memory, which a test writes itself, and records as the protocol has them."""

import mmap
import os
import socket
import struct
from typing import Any

from kvtier import _core
from kvtier import _protocol as protocol
from kvtier._protocol import Verb
from kvtier_testing import words

RING_BYTES = protocol.RING_BYTES_MIN
# The rings begin at the first byte of a page.
RINGS_OFFSET = max(protocol.SESSION_HEADER_BYTES, mmap.PAGESIZE)
SECOND_NS = 1_000_000_000


class Peer:
    """The daemon's side of one session's memory, and nothing that answers by itself."""

    def __init__(self) -> None:
        region_bytes = RINGS_OFFSET + 2 * RING_BYTES
        self.memory_fd = memory(region_bytes)
        self.daemon_fd = memory(protocol.DAEMON_REGION_BYTES)
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.memory = mmap.mmap(self.memory_fd, region_bytes)
        self.daemon = mmap.mmap(self.daemon_fd, protocol.DAEMON_REGION_BYTES)
        self.socket, self.client_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        struct.pack_into(
            "<QIIQQQQ", self.memory, 0, protocol.SESSION_MAGIC, protocol.VERSION, 1, 7, region_bytes, RING_BYTES,
            RING_BYTES,
        )  # fmt: skip
        struct.pack_into("<QIIQ", self.daemon, 0, protocol.DAEMON_MAGIC, protocol.VERSION, 1, 42)
        struct.pack_into("<I", self.daemon, protocol.DAEMON_COUNTER_COUNT_OFFSET, len(protocol.COUNTERS))
        self.head = 0
        self.tail = 0

    def session(self) -> _core.Session:
        return _core.Session(self.memory_fd, self.doorbell, self.daemon_fd, self.client_socket.fileno())

    def word(self, offset: int) -> int:
        return words.word(self.memory, offset)

    def set_word(self, offset: int, value: int) -> None:
        words.set_word(self.memory, offset, value)

    def request(self) -> bytes:
        """The next request, taken."""
        assert self.word(protocol.SESSION_REQUEST_TAIL_OFFSET) > self.head
        length = struct.unpack("<I", self._at(self.head, 4))[0]
        record = self._at(self.head, length)
        self.head += length
        self.set_word(protocol.SESSION_REQUEST_HEAD_OFFSET, self.head)
        return record

    def _at(self, position: int, count: int) -> bytes:
        ring = self.memory[RINGS_OFFSET : RINGS_OFFSET + RING_BYTES]
        offset = position % RING_BYTES
        return (ring + ring)[offset : offset + count]

    def publish(self, record: bytes, tail: int | None = None) -> None:
        base = RINGS_OFFSET + RING_BYTES
        for i, byte in enumerate(record):
            self.memory[base + (self.tail + i) % RING_BYTES] = byte
        self.tail += len(record)
        self.set_word(protocol.SESSION_COMPLETION_TAIL_OFFSET, self.tail if tail is None else tail)

    def close(self) -> None:
        self.socket.close()
        self.client_socket.close()
        for fd in (self.memory_fd, self.daemon_fd, self.doorbell):
            os.close(fd)


def memory(size: int) -> int:
    """A descriptor of memory of this size."""
    fd = os.memfd_create("test")
    os.ftruncate(fd, size)
    return fd


def request(verb: int, body: object = None, count: int = 0, start: int = 0, parent: bytes | None = None, flags: int = 0,
            argument: int = 0) -> tuple[Any, ...]:  # fmt: skip
    return (verb, flags, 1, 0, 0, 0, 0, argument, body, start, count, parent)


def completion(verb: int, correlation: int, body: bytes = b"", *, status: int = 0, count: int | None = None, run: int = 0,
               value: int = 0, flags: int = 0, length: int | None = None) -> bytes:  # fmt: skip
    size = protocol.COMPLETION_LONG_RESULT_BYTES if verb in (Verb.ACQUIRE, Verb.RESERVE) else 4
    if flags & protocol.COMPLETION_FLAG_TEXT:
        size = 1
    padded = body + bytes(-len(body) % 8)
    return protocol.COMPLETION_HEADER.pack(
        protocol.COMPLETION_HEADER_BYTES + len(padded) if length is None else length, verb, flags,
        correlation, len(body) // size if count is None else count, run, value, status, 0, 0, 0,
    ) + padded  # fmt: skip


def lease(slab: int = 0, offset: int = 0, length: int = 4096, identity: int = 1, crc: int = 0, flags: int = 0,
          status: int = 0) -> bytes:  # fmt: skip
    return protocol.COMPLETION_LONG_RESULT.pack(status, 2, flags, crc, identity, slab, length, offset)


def slab_of(size: int, writable: bool = True) -> tuple[_core.Slab, int]:
    fd = memory(size)
    return _core.Slab(fd, size, writable), fd
