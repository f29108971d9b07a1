"""Frames that daemons of several nodes send each other, and an honest node; for the checks of this package."""

import socket
import struct

from checks.attacks.hostile_daemon import CALL_TIMEOUT_S, Left, Wrong

HELLO, WELCOME, ASK, PING, PONG, PUSH, ANNOUNCE, LOCATE = 1, 2, 4, 10, 11, 17, 20, 22
KEYS_MAX = 2048
ENTRIES_MAX = 4096
_MAGIC = 0x324E564B
# Magic, type, the numbers of both starts, request, lengths of body and block, checksum, status, lease, zero.
_HEAD = struct.Struct("<IIQQQIIIIQQ")
_OWN_START = 7
# Stands for the number of the daemon's start. Attackers learn that number before they send.
START = struct.pack("<Q", 0x5452415453544152)


def frame(kind: int, body: bytes = b"", number: int = 1, body_bytes: int | None = None, block_bytes: int = 0) -> bytes:
    """A frame, to the daemon's present start unless it is a HELLO. body_bytes: the length that the frame says, if it is not the body's."""
    receiver = 0 if kind == HELLO else struct.unpack("<Q", START)[0]
    said = len(body) if body_bytes is None else body_bytes
    return _HEAD.pack(_MAGIC, kind, _OWN_START, receiver, number, said, block_bytes, 0, 0, 0, 0) + body


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


class NodeCaller:
    """A connection of an honest node."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=CALL_TIMEOUT_S)
        self._rest = b""
        self._socket.sendall(hello())
        kind, self.start = self._next()
        if kind != WELCOME:
            raise Wrong(f"the honest node was answered with a frame {kind}")

    def ping(self) -> None:
        self._socket.sendall(frame(PING).replace(START, struct.pack("<Q", self.start)))
        kind, _ = self._next()
        if kind != PONG:
            raise Wrong(f"the honest node was answered with a frame {kind}")

    def _next(self) -> tuple[int, int]:
        """The type of the next frame, and the number of the start of the daemon that sent it."""
        _, kind, sender, _, _, body_bytes, *_ = _HEAD.unpack(self._take(_HEAD.size))
        self._take(body_bytes)
        return kind, sender

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
