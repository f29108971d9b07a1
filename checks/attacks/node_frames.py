"""Frames that daemons of several nodes send each other, and an honest node; for the checks of this package."""

import hashlib
import socket
import struct
from typing import NamedTuple

from checks.attacks.hostile_daemon import CALL_TIMEOUT_S, Left, Wrong

HELLO, WELCOME, ASK, PING, PONG, SPACE, RESERVE, GO, HAVE, NO, PUSH, PUSHED, ANNOUNCE, LOCATE = 1, 2, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22
_ENCODED = 4
KEYS_MAX = 2048
ENTRIES_MAX = 4096
MAGIC = 0x334E564B
"""of the frames of nodes: the letters KVN3"""
# Magic, type, the numbers of both starts, request, lengths of body and block, checksum, status, lease, zero.
_HEAD = struct.Struct("<IIQQQIIIIQQ")
_OWN_START = 7
# Stands for the number of the daemon's start. Attackers learn that number before they send.
START = struct.pack("<Q", 0x5452415453544152)


def frame(kind: int, body: bytes = b"", number: int = 1, body_bytes: int | None = None, block_bytes: int = 0, checksum: int = 0) -> bytes:
    """A frame, to the daemon's present start unless it is a HELLO. body_bytes: the length that the frame says, if it is not the body's."""
    receiver = 0 if kind == HELLO else struct.unpack("<Q", START)[0]
    said = len(body) if body_bytes is None else body_bytes
    return _HEAD.pack(MAGIC, kind, _OWN_START, receiver, number, said, block_bytes, checksum, 0, 0, 0) + body


def hello(token: str = "") -> bytes:
    name = b"node"
    return frame(HELLO, struct.pack("<I", len(name)) + name + struct.pack("<I", len(token)) + token.encode())


def ask(keys: int) -> bytes:
    """A question about blocks that nobody has."""
    return frame(ASK, struct.pack("<QQIIII", 1, 2, 0, 8, keys, 0) + bytes(8 * keys))


def locate(blocks: int) -> bytes:
    """A question to the directory."""
    return frame(LOCATE, struct.pack(f"<{blocks}Q", *(number << 50 | number << 16 for number in range(1, blocks + 1))))


def announce(sequence: int, entries: int) -> bytes:
    """Tells of blocks that are at no other node."""
    first = 1 + sequence * entries
    return frame(ANNOUNCE, struct.pack(f"<{entries + 1}Q", sequence, *((number << 16 | 1) & (1 << 64) - 1 for number in range(first, first + entries))))


def space(block_bytes: int, properties: dict[str, str]) -> tuple[bytes, bytes]:
    """The fingerprint of a namespace, as frames have it, and the text that a SPACE tells."""
    text = "\n".join([str(block_bytes), *(f"{name}={value}" for name, value in sorted(properties.items()))]).encode()
    return struct.pack("<QQ", *struct.unpack(">QQ", hashlib.sha256(text).digest()[:16])), text


def reserve(fingerprint: bytes, key: bytes, block_bytes: int, is_encoded: bool) -> bytes:
    """The body of a RESERVE."""
    return struct.pack("<IIQ", 0, 1 | (_ENCODED if is_encoded else 0), 0) + fingerprint + struct.pack("<IIII", 0, len(key), 1, block_bytes) + key


class Answer(NamedTuple):
    """A frame of the daemon; start is the number of its start."""

    kind: int
    start: int
    status: int
    body: bytes


class NodeCaller:
    """A connection of an honest node."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_TIMEOUT_S)
        self._rest = b""
        self._socket.sendall(hello())
        answer = self._next()
        if answer.kind != WELCOME:
            raise Wrong(f"the honest node was answered with a frame {answer.kind}")
        self.start = answer.start

    def ping(self) -> None:
        answer = self.call(PING)
        if answer.kind != PONG:
            raise Wrong(f"the honest node was answered with a frame {answer.kind}")

    def call(self, kind: int, body: bytes = b"", block: bytes = b"", checksum: int = 0) -> Answer:
        """Sends a frame, and perhaps the bytes of a block behind it; the answer."""
        head = frame(kind, body, block_bytes=len(block), checksum=checksum).replace(START, struct.pack("<Q", self.start), 1)
        self._socket.sendall(head + block)
        return self._next()

    def _next(self) -> Answer:
        _, kind, sender, _, _, body_bytes, _, _, status, *_ = _HEAD.unpack(self._take(_HEAD.size))
        return Answer(kind, sender, status, self._take(body_bytes))

    def _take(self, count: int) -> bytes:
        while len(self._rest) < count:
            received = self._socket.recv(65536)
            if not received:
                raise Left("the honest node's connection was closed")
            self._rest += received
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def close(self) -> None:
        self._socket.close()
