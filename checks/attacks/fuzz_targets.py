"""Sends the inputs of scripts/fuzz to a real daemon process."""

import array
import contextlib
import mmap
import os
import random
import select
import socket
import struct
import time
from collections.abc import Callable

from kvtier_testing import words
from kvtier_testing.peer import RINGS_OFFSET

from checks.attacks import fuzz_inputs as inputs
from checks.attacks.hostile_daemon import PING, Daemon, Wrong, frame
from checks.shared.checkout import ROOT
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

CORPORA = ROOT / "daemon" / "src" / "test" / "resources" / "fuzz"
ANSWER_S = 60.0


class Target:
    """A kind of inputs, and where to throw them."""

    def __init__(self, name: str, seeds: inputs.Seeds, new: Callable[[random.Random], bytes], changed: Callable[[random.Random, bytes], bytes]) -> None:
        self.name = name
        self.seeds = seeds
        self._new = new
        self._changed = changed

    def corpus(self) -> list[bytes]:
        return [file.read_bytes() for file in sorted((CORPORA / self.name).iterdir())]

    def next(self, rng: random.Random, corpus: list[bytes]) -> bytes:
        """Another input."""
        if rng.random() < 0.3:
            return self._new(rng)
        return self._changed(rng, rng.choice(corpus))[: inputs.INPUT_BYTES_MAX]

    def throw(self, daemon: Daemon, data: bytes) -> None:
        """Has the daemon take an input; returns when it has, and the connection is closed."""
        raise NotImplementedError


def received(channel: socket.socket) -> tuple[bytes, list[int]]:
    """A packet with its descriptors; an empty one at the end."""
    message, ancillary, _, _ = channel.recvmsg(4096, socket.CMSG_SPACE(64))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    return message, list(descriptors)


def connected(daemon: Daemon) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel.settimeout(ANSWER_S)
    end = time.monotonic() + ANSWER_S
    while True:
        try:
            channel.connect(str(daemon.socket_path))
            return channel
        except BlockingIOError:
            # The daemon's queue of connections to accept is full.
            if time.monotonic() > end:
                channel.close()
                raise
            time.sleep(0.01)


class Handshake(Target):
    """Packets on the Unix socket."""

    def __init__(self) -> None:
        super().__init__("handshake", inputs.handshake_seeds(), inputs.new_handshake, inputs.changed_handshake)
        self._passed = os.open("/dev/null", os.O_RDONLY)

    def throw(self, daemon: Daemon, data: bytes) -> None:
        with connected(daemon) as channel:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for packet in inputs.handshake_packets(data):
                    self._send(channel, packet)
                    self._take_answers(channel, 0.0)
            # A peer that says no more is waited for; what it said is answered until then.
            self._take_answers(channel, 0.002)

    def _send(self, channel: socket.socket, packet: bytes) -> None:
        if int.from_bytes(packet[:2], "little") & inputs.WITH_DESCRIPTOR:
            with contextlib.suppress(PermissionError):
                socket.send_fds(channel, [packet[2:]], [self._passed])
        else:
            channel.send(packet[2:])

    @staticmethod
    def _take_answers(channel: socket.socket, wait_s: float) -> None:
        with contextlib.suppress(ConnectionResetError):
            while select.select([channel], [], [], wait_s)[0]:
                message, descriptors = received(channel)
                for descriptor in descriptors:
                    os.close(descriptor)
                if not message:
                    return


class Ring(Target):
    """Steps of a client in the memory that it shares with the daemon."""

    WORDS = (
        protocol.SESSION_REQUEST_TAIL_OFFSET,
        protocol.SESSION_REQUEST_HEAD_OFFSET,
        protocol.SESSION_COMPLETION_TAIL_OFFSET,
        protocol.SESSION_COMPLETION_HEAD_OFFSET,
        protocol.SESSION_CLIENT_WAITING_OFFSET,
        protocol.SESSION_END_REASON_OFFSET,
        protocol.SESSION_MAGIC_OFFSET,
        protocol.SESSION_SESSION_ID_OFFSET,
        protocol.SESSION_REQUEST_RING_BYTES_OFFSET,
        protocol.SESSION_COMPLETION_RING_BYTES_OFFSET,
    )

    def __init__(self) -> None:
        super().__init__("ring", inputs.ring_seeds(), inputs.new_ring, inputs.changed_ring)

    def throw(self, daemon: Daemon, data: bytes) -> None:
        client = RingClient(daemon)
        try:
            for step in inputs.ring_steps(data)[:200]:
                payload = step[1:]
                match step[0]:
                    case inputs.RECORD if len(payload) > 2:
                        client.offer(payload[2:])
                    case inputs.WORK:
                        client.wait()
                    case inputs.WORD if len(payload) == 9:
                        client.set_word(self.WORDS[payload[0] % len(self.WORDS)], int.from_bytes(payload[1:], "little"))
                    case inputs.TAKE:
                        client.take()
                    case inputs.POKE if len(payload) == 3:
                        client.poke(*struct.unpack("<HB", payload))
                    case inputs.SESSION:
                        client.close()
                        client = RingClient(daemon)
            client.wait()
        finally:
            client.close()


class RingClient:
    """A session that its client leads by hand."""

    RING_BYTES = protocol.RING_BYTES_MIN
    WAIT_S = 0.001

    def __init__(self, daemon: Daemon) -> None:
        self._channel = connected(daemon)
        self._channel.sendall(inputs.hello())
        message, descriptors = received(self._channel)
        if len(descriptors) != 3:
            self._channel.close()
            raise Wrong(f"no session was opened: {message[protocol.HANDSHAKE_WELCOME_TEXT_OFFSET :]!r}")
        memory, self._doorbell, counters = descriptors
        self._memory = mmap.mmap(memory, RINGS_OFFSET + 2 * self.RING_BYTES)
        os.close(memory)
        os.close(counters)
        self._tail = 0
        self._head = 0
        self._ids: list[int] = []

    def _word(self, offset: int) -> int:
        return words.word(self._memory, offset)

    def set_word(self, offset: int, value: int) -> None:
        words.set_word(self._memory, offset, value)

    def poke(self, at: int, value: int) -> None:
        self._memory[RINGS_OFFSET + at % self.RING_BYTES] = value

    def offer(self, data: bytes) -> None:
        data += bytes(-len(data) % 8)
        verb = data[protocol.REQUEST_VERB_OFFSET] if len(data) > protocol.REQUEST_VERB_OFFSET else 0
        # An administrator may have files written and the daemon drained: nothing to do blindly.
        if verb == Verb.ADMIN or self._tail - self._word(protocol.SESSION_REQUEST_HEAD_OFFSET) + len(data) > self.RING_BYTES:
            return
        if verb in inputs.IDS and self._ids:
            data = self._with_ids(data)
        at = self._tail % self.RING_BYTES
        first = min(len(data), self.RING_BYTES - at)
        begin = RINGS_OFFSET
        self._memory[begin + at : begin + at + first] = data[:first]
        self._memory[begin : begin + len(data) - first] = data[first:]
        self._tail += len(data)
        self.set_word(protocol.SESSION_REQUEST_TAIL_OFFSET, self._tail)
        os.eventfd_write(self._doorbell, 1)

    def _with_ids(self, data: bytes) -> bytes:
        out = bytearray(data)
        for at in range(protocol.REQUEST_HEADER_BYTES, len(out) - 7, 8):
            low, high = struct.unpack_from("<II", out, at)
            if high == inputs.ID_MARK:
                struct.pack_into("<Q", out, at, self._ids[low % len(self._ids)])
        return bytes(out)

    def wait(self) -> None:
        """Gives the daemon a moment to answer."""
        end = time.monotonic() + self.WAIT_S
        while self._word(protocol.SESSION_COMPLETION_TAIL_OFFSET) == self._head and time.monotonic() < end:
            time.sleep(0.0001)

    def take(self) -> None:
        tail = self._word(protocol.SESSION_COMPLETION_TAIL_OFFSET)
        begin = RINGS_OFFSET + self.RING_BYTES
        while self._head < tail <= self._head + self.RING_BYTES:
            at = self._head % self.RING_BYTES
            length = struct.unpack_from("<I", self._memory, begin + at)[0]
            if length < protocol.COMPLETION_HEADER_BYTES or length > tail - self._head or length % 8:
                return  # after a word of the header was written over
            answer = self._memory[begin + at : begin + min(at + length, self.RING_BYTES)]
            answer += self._memory[begin : begin + length - len(answer)]
            self._keep_ids(answer)
            self._head += length
        self.set_word(protocol.SESSION_COMPLETION_HEAD_OFFSET, self._head)

    def _keep_ids(self, answer: bytes) -> None:
        if answer[protocol.COMPLETION_VERB_OFFSET] in (Verb.RESERVE, Verb.ACQUIRE) and not answer[protocol.COMPLETION_FLAGS_OFFSET]:
            results = answer[protocol.COMPLETION_HEADER_BYTES :]
            each = protocol.COMPLETION_LONG_RESULT.size
            # With words of the header written over, it is read at a place where no completion begins.
            for result in protocol.COMPLETION_LONG_RESULT.iter_unpack(results[: len(results) // each * each]):
                if result[0] == 0:
                    self._ids.append(result[4])

    def close(self) -> None:
        self._channel.close()
        self._memory.close()
        os.close(self._doorbell)


class Grpc(Target):
    """Bytes on a TCP connection."""

    def __init__(self) -> None:
        super().__init__("grpc", inputs.grpc_seeds(), inputs.new_grpc, inputs.changed_grpc)

    # A ping behind all else: its answer says that what came before was read.
    LAST = frame(PING, 0, 0, b"the last")
    QUIET_S = 0.003
    UNREAD_S = 0.03

    def corpus(self) -> list[bytes]:
        """In the tree as inputs of a whole connection."""
        return [file.read_bytes() for file in sorted((CORPORA / "http2").iterdir())]

    def throw(self, daemon: Daemon, data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", daemon.grpc_port), timeout=ANSWER_S) as channel:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                channel.sendall(data + self.LAST)
                answer = b""
                wait_s = self.UNREAD_S
                while select.select([channel], [], [], wait_s)[0]:
                    taken = channel.recv(1 << 16)
                    if not taken:
                        break
                    answer = answer[-16:] + taken
                    if b"the last" in answer:
                        wait_s = self.QUIET_S


TARGETS: dict[str, Callable[[], Target]] = {"ring": Ring, "handshake": Handshake, "grpc": Grpc}
