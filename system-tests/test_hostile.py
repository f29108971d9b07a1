"""Clients that break the rules: the daemon goes on, and a client beside them reads its own bytes in time."""

import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from kvtier_testing.blocks import blocks, keys, wrong_blocks
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import Daemon, eventually

from checks.shared.raw_session import EDGES_64, PAGE, Raw, connect, fuzzed, grants, hello, record, small_keys, status_of
from kvtier import Client, Status
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

SEED = 20
F_ADD_SEALS = 1033
F_SEAL_WRITE = 8


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


def test_garbageInEveryField_daemonAndBystanderGoOn(daemon: Daemon) -> None:
    rng = random.Random(SEED)
    offsets = [value for name, value in vars(protocol).items() if name.startswith("SESSION_") and name.endswith("_OFFSET")]
    with bystander(daemon, "fuzz-bystander") as client:
        for _ in range(120):
            raw = Raw(daemon.socket_path)
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
    raw = Raw(daemon.socket_path)
    assert status_of(raw.call(Verb.UNREGISTER, namespace=namespace)) == Status.NAMESPACE_UNKNOWN
    raw.close()


def test_garbageOnTheSocket_daemonAndBystanderGoOn(daemon: Daemon) -> None:
    rng = random.Random(SEED)
    descriptors = os.listdir(f"/proc/{daemon.pid}/fd")
    with bystander(daemon, "socket-bystander") as client:
        silent = [connect(daemon.socket_path) for _ in range(50)]
        for _ in range(300):
            channel = connect(daemon.socket_path)
            whole = hello(1 << rng.randrange(32), 1 << rng.randrange(32), b"\x1b\n\xff" * rng.randrange(80))
            flipped = bytearray(whole)
            for _ in range(rng.randrange(6)):
                flipped[rng.randrange(len(flipped))] = rng.randrange(256)
            try:
                channel.send(rng.choice([rng.randbytes(rng.randrange(1, 5000)), whole[: rng.randrange(1, 24)], bytes(flipped)]))
                channel.send(protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_MAP_SLAB_MAGIC, rng.getrandbits(32), 1))
            except OSError:
                pass  # cut off already
            channel.close()
        # A peer that asks and never reads is cut off; nobody waits for it.
        deaf = Raw(daemon.socket_path)
        deaf.socket.setblocking(False)
        with pytest.raises(OSError):
            while True:
                deaf.socket.send(protocol.HANDSHAKE_QUESTION.pack(protocol.HANDSHAKE_MAP_SLAB_MAGIC, 0, 0))
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
            channel = connect(daemon.socket_path)
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
            Raw(daemon.socket_path).close()
            assert time.monotonic() - started < 15, "it waits for the other socket's 20 s"
            sending.close()
            unread.close()
            channel.close()


def test_sharedMemory_keepsItsSizeAndItsRights(daemon: Daemon) -> None:
    with bystander(daemon, "seal-bystander"):
        raw = Raw(daemon.socket_path)
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
        raw = Raw(daemon.socket_path)
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


def test_session_by_hand_gets_an_answer_to_every_call(daemon: Daemon) -> None:
    """The other tests' sessions must not be ended for what a test did not mean: a word that the daemon sees half written."""
    raw = Raw(daemon.socket_path)
    for _ in range(6_000):
        for _ in range(20):  # the daemon looks at the ring's tail while it changes
            assert raw.offer(record(Verb.PING))
        assert status_of(raw.call(Verb.PING)) == Status.OK
    raw.close()


def inverse_of_mix(mixed: int) -> int:
    word = (1 << 64) - 1
    first = mixed ^ mixed >> 29 ^ mixed >> 58
    second = first * pow(0xD6E8FEB86659FD93, -1, 1 << 64) & word
    return (second ^ second >> 32) * pow(0x9E3779B97F4A7C15, -1, 1 << 64) & word


MUCH_LONGER = 20
"""The bound for a ratio of times. With a broken promise the ratio would be in the hundreds, on any machine."""


def taken(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


def times_as_long(seconds: Callable[[bool], float], rounds: int) -> float:
    """The median of the suspected case, divided by that of the ordinary case. They take turns, so that a busy machine slows both."""
    turns = [(seconds(True), seconds(False)) for _ in range(rounds)]
    suspected, ordinary = zip(*turns, strict=True)
    return statistics.median(suspected) / statistics.median(ordinary)


def test_keysMadeFromWhatTheDaemonTells_doNotCollide(daemon: Daemon) -> None:
    """A client that knew the seed of the directory's hash could make every lookup a walk through all its keys."""
    raw = Raw(daemon.socket_path, 1 << 20)
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

    def lookup_s(is_chosen: bool) -> float:
        some = chosen[:2048] if is_chosen else small_keys(2048)
        return taken(lambda: raw.call(Verb.LOOKUP, b"".join(some), len(some), namespace=namespace))

    assert times_as_long(lookup_s, 41) < MUCH_LONGER
    raw.close()


def test_lookupOfSeveralGroups_numberThatIsNotRegistered_isUnknown(daemon: Daemon) -> None:
    with Client(daemon.socket_path) as owner:
        owner.namespace("of another session", block_bytes=512)
        raw = Raw(daemon.socket_path)
        mine = raw.register("mine")
        body = b"".join(key.ljust(8) for key in (b"a", b"b", b"c"))
        answer = raw.call(Verb.LOOKUP_GROUPS, body + struct.pack("<3I", mine, 0xFFFFFFFF, mine), 3)
        codes = [code & 0xFFFF for code in struct.unpack_from("<3I", answer, protocol.COMPLETION_HEADER_BYTES)]
        assert codes == [Status.MISS, Status.NAMESPACE_UNKNOWN, Status.MISS]
        raw.close()


@pytest.mark.parametrize("verb", [Verb.UNPIN, Verb.DELETE])
def test_oneThatHoldsMuch_isAnsweredSoonAllTheSame(daemon: Daemon, verb: Verb) -> None:
    """Leases and pins of one client must not slow a request down, neither its own nor another's."""
    some = small_keys(2048)
    first_block = b"".join(some[:1] * 2048)

    def seconds(holds_much: bool) -> float:
        """Seconds of the verb for a client that holds the first block 30 times 2048 times, or not."""
        raw = Raw(daemon.socket_path, 1 << 20)
        namespace = raw.register("much")
        raw.put(namespace, some)
        for _ in range(30 if holds_much else 0):
            raw.call(Verb.ACQUIRE, first_block, 2048, namespace=namespace)
        if verb is Verb.DELETE:
            raw.call(Verb.PIN, b"".join(some), 2048, namespace=namespace)
        lasted = taken(lambda: raw.call(verb, first_block if verb is Verb.UNPIN else b"".join(some), 2048, namespace=namespace))
        raw.close()
        return lasted

    assert times_as_long(seconds, 7) < MUCH_LONGER


def test_crowdThatSaysNothing_makesRoom(daemon: Daemon) -> None:
    """Silent connections take few descriptors, and are closed for clients that say hello."""
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    with bystander(daemon, "crowd-bystander") as client:
        silent = []
        most = 0
        for _ in range(700):
            silent.append(connect(daemon.socket_path))
            most = max(most, len(os.listdir(f"/proc/{daemon.pid}/fd")))
        Raw(daemon.socket_path).close()
        assert most < before + 400, "those who came first are still there"
        for channel in silent:
            channel.close()
        assert eventually(lambda: client.counters()["sessions"] == 1)


def test_outOfDescriptors_waitsQuietly_andGoesOn(fresh_daemon: Daemon) -> None:
    with bystander(fresh_daemon, "descriptors-bystander"):
        used = max(int(name) for name in os.listdir(f"/proc/{fresh_daemon.pid}/fd"))
        limits = resource.prlimit(fresh_daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(fresh_daemon.pid, resource.RLIMIT_NOFILE, (used + 4, limits[1]))
        many = [connect(fresh_daemon.socket_path) for _ in range(40)]
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
        Raw(daemon.socket_path).close()
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.ETIMEDOUT, None)
        return False
    return True


def test_nameWithLineBreaks_forgesNoLine(daemon: Daemon) -> None:
    with Client(daemon.socket_path, name="a\nb\x1b[31m") as client:
        names = [session["name"] for session in client.stats()["sessions"]]
    assert any("a\\u000ab\\u001b[31m" in name for name in names), names


def test_sessions_that_ask_for_nothing_keep_nobody_out(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(limits__sessions="8")
    path = str(stopped_daemon.socket_path)
    with ExitStack() as idle:
        used = idle.enter_context(Client(path, timeout=20))
        assert used.ping().status is Status.OK
        for _ in range(7):
            idle.enter_context(closing(Raw(stopped_daemon.socket_path)))
        time.sleep(0.2)
        newcomers = [idle.enter_context(Client(path, timeout=20)) for _ in range(7)]
        for one in newcomers:
            assert eventually(lambda: one.ping().status is Status.OK)  # noqa: B023
        # They are all of use now: the next one is refused, and nobody leaves for it.
        with Client(path, timeout=1) as late:
            assert late.ping().status is Status.UNAVAILABLE
            assert "the limit of 8 sessions is reached" in late._connection.reason
        assert all(one.ping().status is Status.OK for one in [used, *newcomers])
