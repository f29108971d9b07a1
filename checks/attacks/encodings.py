"""Forges encoded blocks, and asks for what no encoding has, beside honest clients; a part of attacks-check.

No reader may get a wrong byte: a damaged block is a miss, which the daemon counts, and a request that contradicts an encoding is refused
with a reason. Readers are a local client, whose C core decodes, and one over gRPC, for which the daemon decodes.
"""

import contextlib
import functools
import itertools
import mmap
import multiprocessing
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from checks.attacks import node_frames
from checks.attacks.connections import open_to_nodes
from checks.attacks.granules import ENCODED_BYTES, GRANULE_BYTES, KINDS, damages_of, decoded, forged, property_of
from checks.attacks.hostile_daemon import CALL_TIMEOUT_S, Bystander, Daemon, GrpcCaller, LocalCaller, Wrong
from checks.shared.content import KvContent
from checks.shared.raw_session import Raw, status_of
from kvtier import Client, InvalidArgument, Namespace, NamespaceMismatch, Status, _core, remote
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

GRANULES = 4
BLOCK_BYTES = GRANULES * GRANULE_BYTES
BATCH = 16
HONEST_BLOCKS = 32
AGAIN = 8
"""blocks of earlier batches that are read once more with each batch, often from SSD"""
COUNTED_WITHIN_S = 30.0
HEAP_BOUND_MIB = 192


class Granted(NamedTuple):
    """A slot that the daemon gives for a block, or a block that it leases."""

    status: int
    is_encoded: bool
    id: int
    slab: int
    bytes: int
    offset: int


def granted(answer: bytes) -> list[Granted]:
    """The results of a RESERVE or an ACQUIRE."""
    if status_of(answer) != Status.OK:
        raise Wrong(f"a request of the forger was answered {Status(status_of(answer)).name}")
    results = protocol.COMPLETION_LONG_RESULT.iter_unpack(answer[protocol.COMPLETION_HEADER_BYTES :])
    encoded = protocol.COMPLETION_BLOCK_FLAG_ENCODED
    return [Granted(status, bool(flags & encoded), one, slab, count, offset) for status, _, flags, _, one, slab, count, offset in results]


def text_of(answer: bytes) -> str:
    """The words in an answer."""
    return answer[protocol.COMPLETION_HEADER_BYTES :].rstrip(b"\0").decode(errors="replace")


class Forger:
    """A client that writes whatever it likes to its slots, and to all memory that it was ever given to write."""

    def __init__(self, socket_path: Path) -> None:
        self._raw = Raw(socket_path)
        self.slabs: dict[int, mmap.mmap] = {}

    def register(self, name: str, block_bytes: int, **properties: str) -> tuple[int, int, str]:
        """The status, the number of the namespace, and the words about a refusal."""
        text = "\n".join(f"{key}={value}" for key, value in (properties | {"name": name}).items()).encode()
        answer = self._raw.call(Verb.REGISTER, text, len(text), argument=block_bytes)
        return status_of(answer), struct.unpack_from("<Q", answer, protocol.COMPLETION_VALUE_OFFSET)[0], text_of(answer)

    def reserve(self, namespace: int, keys: list[bytes]) -> list[Granted]:
        flags = protocol.REQUEST_FLAG_ENCODED | protocol.REQUEST_FLAG_CHECKSUMS
        body = b"".join(key.ljust(-(-len(key) // 8) * 8, b"\0") for key in keys)
        return granted(self._raw.call(Verb.RESERVE, body, len(keys), namespace=namespace, flags=flags, key_bytes=len(keys[0])))

    def put(self, namespace: int, keys: list[bytes], blocks: list[bytes]) -> list[bool]:
        """Stores bytes as encoded blocks, with their right checksums; whether each was taken."""
        slots = self.reserve(namespace, keys)
        pairs = b""
        for slot, block in zip(slots, blocks, strict=True):
            if slot.status == Status.OK:
                if not slot.is_encoded or slot.bytes != len(block):
                    raise Wrong(f"the forger has a slot {slot} for an encoded block of {len(block)} bytes")
                self.slab(slot.slab)[slot.offset : slot.offset + len(block)] = block
                pairs += struct.pack("<QQ", slot.id, _core.crc32c(block))
        if pairs:
            answer = self._raw.call(Verb.COMMIT, pairs, len(pairs) // 16, namespace=namespace, flags=protocol.REQUEST_FLAG_CHECKSUMS)
            if status_of(answer) != Status.OK:
                raise Wrong(f"the forger's COMMIT was answered {Status(status_of(answer)).name}")
        return [slot.status == Status.OK for slot in slots]

    def lease(self, namespace: int, keys: list[bytes]) -> list[Granted]:
        """The places of encoded blocks, which are given back at once."""
        body = b"".join(key.ljust(-(-len(key) // 8) * 8, b"\0") for key in keys)
        answer = self._raw.call(Verb.ACQUIRE, body, len(keys), namespace=namespace, flags=protocol.REQUEST_FLAG_ENCODED, key_bytes=len(keys[0]))
        leases = [one for one in granted(answer) if one.status == Status.OK]
        if leases:
            self._raw.call(Verb.RELEASE, b"".join(struct.pack("<Q", one.id) for one in leases), len(leases))
        return leases

    def abort(self, slots: list[Granted]) -> None:
        ids = [one.id for one in slots if one.status == Status.OK]
        self._raw.call(Verb.ABORT, b"".join(struct.pack("<Q", one) for one in ids), len(ids))

    def slab(self, number: int) -> mmap.mmap:
        """The memory of a slab in which the forger has a slot, or had one."""
        if number not in self.slabs:
            self.slabs[number] = self._raw.map_slab(number, writable=True)
        return self.slabs[number]

    def call(self, verb: Verb, body: bytes = b"", count: int = 0, **fields: int) -> bytes:
        return self._raw.call(verb, body, count, **fields)

    def close(self) -> None:
        self._raw.close()


class ForgerOf:
    """A forger's puts to one namespace."""

    def __init__(self, daemon: Daemon, name: str, kind: str) -> None:
        self._forger = Forger(daemon.socket_path)
        _, self._namespace, _ = self._forger.register(name, BLOCK_BYTES, encoding=property_of(kind))

    def put(self, keys: list[bytes], blocks: list[bytes]) -> list[bool]:
        return self._forger.put(self._namespace, keys, blocks)

    def close(self) -> None:
        self._forger.close()


class ForgingNode:
    """A node that pushes whatever it likes to one namespace."""

    def __init__(self, daemon: Daemon, name: str, kind: str) -> None:
        self._caller = node_frames.NodeCaller(daemon.node_port)
        properties = {"name": name, "encoding": property_of(kind)}
        self._space, text = node_frames.space(BLOCK_BYTES, properties)
        self._require(self._caller.call(node_frames.SPACE, self._space + text), node_frames.GO, "SPACE")
        for value, block_bytes in _wrong_namespaces():
            other, text = node_frames.space(block_bytes, {"name": "none", "encoding": value})
            words = self._refused(self._caller.call(node_frames.SPACE, other + text), f"encoding '{value}'")
            _require("encoding is '" in words, f"a node's encoding '{value}' was refused without a reason: {words}")
        self._refused(self._caller.call(node_frames.SPACE, bytes(16) + text), "namespace of another fingerprint")
        self._plain, text = node_frames.space(BLOCK_BYTES, {"name": f"{name}/plain"})
        self._require(self._caller.call(node_frames.SPACE, self._plain + text), node_frames.GO, "SPACE")

    def put(self, keys: list[bytes], blocks: list[bytes]) -> list[bool]:
        """Pushes encoded blocks, and tries what no namespace has before; whether each was taken."""
        self._ask_for_wrong_forms(keys[0], len(blocks[0]))
        taken = []
        for key, block in zip(keys, blocks, strict=True):
            checksum = _core.crc32c(block)
            body = node_frames.reserve(self._space, key, len(block), is_encoded=True)
            reserved = self._caller.call(node_frames.RESERVE, body, checksum=checksum)
            if reserved.kind == node_frames.NO:
                taken.append(False)
                continue
            self._require(reserved, node_frames.GO, "RESERVE")
            pushed = self._caller.call(node_frames.PUSH, block=block, checksum=checksum)
            self._require(pushed, node_frames.PUSHED, "PUSH")
            taken.append(pushed.status == Status.OK)
        return taken

    def _ask_for_wrong_forms(self, key: bytes, encoded_bytes: int) -> None:
        for of, count, is_encoded in (
            (self._plain, BLOCK_BYTES, True),
            (self._plain, encoded_bytes, True),
            (self._plain, encoded_bytes, False),
            (self._space, BLOCK_BYTES, True),
            (self._space, encoded_bytes, False),
            (self._space, encoded_bytes - 1, True),
        ):
            what = f"block of {count} bytes, encoded: {is_encoded},"
            words = self._refused(self._caller.call(node_frames.RESERVE, node_frames.reserve(of, key, count, is_encoded)), what)
            _require("expected" in words, f"a node's {what} was refused without a reason: {words}")

    def _refused(self, answer: node_frames.Answer, what: str) -> str:
        """The words of a refusal, which are behind the free bytes."""
        self._require(answer, node_frames.NO, what)
        return answer.body[8:].decode()

    @staticmethod
    def _require(answer: node_frames.Answer, kind: int, what: str) -> None:
        _require(answer.kind == kind, f"a node's {what} was answered by {answer}")

    def close(self) -> None:
        self._caller.close()


class Readers:
    """Honest readers of a namespace with an encoding."""

    def __init__(self, daemon: Daemon, stack: contextlib.ExitStack, name: str, kind: str) -> None:
        self.client = stack.enter_context(Client(daemon.socket_path, name="reader", timeout=CALL_TIMEOUT_S))
        over_grpc = stack.enter_context(contextlib.closing(remote.Client(f"grpc://127.0.0.1:{daemon.grpc_port}", timeout=CALL_TIMEOUT_S)))
        self.local: Namespace = self.client.namespace(name, block_bytes=BLOCK_BYTES, encoding=property_of(kind))
        self._all = {"local": self.local, "gRPC": over_grpc.namespace(name, block_bytes=BLOCK_BYTES, encoding=property_of(kind))}
        self._into = bytearray()
        self.right = 0
        self.refused = 0

    def read(self, rng: random.Random, keys: list[bytes], expected: list[bytes | None], may_be_damaged: bool) -> list[bool]:
        """Has all readers get blocks, in any order, and compares them; whether each block was right for some reader.

        Args:
            expected: what a block is decoded to; None: it is damaged.
            may_be_damaged: whether a block of which the bytes are known may be damaged meanwhile.
        """
        found = [False] * len(keys)
        for who, namespace in rng.sample(list(self._all.items()), len(self._all)):
            # Bytes of an earlier get must not pass for this one's.
            self._into[:] = b"\x5a" * (len(keys) * BLOCK_BYTES)
            statuses = namespace.get(keys, self._into).statuses
            for at, (status, block) in enumerate(zip(statuses, expected, strict=True)):
                read = bytes(self._into[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES])
                if status is Status.OK:
                    if read != block:
                        raise Wrong(f"the {who} reader got wrong bytes of block {keys[at].hex()}: " + ("it is damaged" if block is None else "others were put"))
                    self.right += 1
                    found[at] = True
                elif status is Status.CORRUPT and (block is None or may_be_damaged):
                    self.refused += 1
                elif status not in (Status.MISS, Status.PENDING, Status.BUSY):
                    raise Wrong(f"block {keys[at].hex()} is {status.name} for the {who} reader, and is not damaged")
        return found

    def require_counted(self, before: int, least: int) -> None:
        """Waits until the daemon has counted damaged blocks."""
        end = time.monotonic() + COUNTED_WITHIN_S
        while (counted := self.client.counters()["corrupt"] - before) < least:
            if time.monotonic() > end:
                raise Wrong(f"the daemon counts {counted} damaged blocks, and readers found {least}")
            time.sleep(0.01)


def encoded(content: KvContent, kind: str, key: bytes) -> bytes:
    """A key's block as the C core encodes it, with some escapes in each granule."""
    raw = bytearray(content.block(key))
    for at in range(0, len(raw), GRANULE_BYTES):
        for place in range(3):
            raw[at + 2 * place : at + 2 * place + 2] = struct.pack("<H", 60 + place << 7)
    to = bytearray(GRANULES * ENCODED_BYTES[kind])
    if _core.encode(kind, to, raw, GRANULE_BYTES // 2)[0] != GRANULES:
        raise Wrong(f"a block does not fit the encoding {kind}")
    return bytes(to)


def turns(seconds: float, daemon: Daemon, beside: Callable[[], None]) -> Iterator[int]:
    """Turns of an attack until its time is over, at least one. The daemon and those beside must be well at each."""
    end = time.monotonic() + seconds
    for turn in itertools.count():
        yield turn
        daemon.require_well()
        beside()
        if time.monotonic() > end:
            return


# ---- the attacks


def put_damaged(
    writer: Callable[[Daemon, str, str], ForgerOf | ForgingNode], kind: str, daemon: Daemon, seconds: float, seed: int, beside: Callable[[], None]
) -> str:
    """Stores damaged bytes as encoded blocks: each kind of damage, with right and with wrong checksums of the granules."""
    rng = random.Random(seed)
    content = KvContent(BLOCK_BYTES)
    damages = itertools.cycle(damages_of(kind))
    earlier: list[tuple[bytes, bytes | None]] = []
    blocks = damaged = 0
    with contextlib.ExitStack() as stack:
        name = f"forged/{kind}"
        readers = Readers(daemon, stack, name, kind)
        forger = stack.enter_context(contextlib.closing(writer(daemon, name, kind)))
        for turn in turns(seconds, daemon, beside):
            before = readers.client.counters()["corrupt"]
            keys = [b"%016d" % (turn * BATCH + at) for at in range(BATCH)]
            stored = [forged(rng, kind, encoded(content, kind, key), next(damages)) for key in keys]
            expected = [decoded(kind, block) for block in stored]
            taken = forger.put(keys, stored)
            mine = [(key, block) for key, block, is_taken in zip(keys, expected, taken, strict=True) if is_taken]
            some = mine + rng.sample(earlier, min(AGAIN, len(earlier)))
            refused = readers.refused
            readers.read(rng, [key for key, _ in some], [block for _, block in some], may_be_damaged=False)
            # Both readers may refuse a block before the daemon has dropped it.
            readers.require_counted(before, (readers.refused - refused + 1) // 2)
            blocks += len(mine)
            damaged += sum(block is None for _, block in mine)
            earlier = (earlier + mine)[-20_000:]
    if not readers.refused or not readers.right:
        raise Wrong(f"of {blocks:,} blocks, readers refused {readers.refused:,} and read {readers.right:,}")
    return f"{blocks:,} blocks, {damaged:,} of them damaged: {readers.refused:,} reads refused, {readers.right:,} right"


def scribble(socket_path: Path, kind: str, seed: int, ready: Event) -> None:
    """Goes on damaging the blocks of an honest client, until somebody ends this process."""
    rng = random.Random(seed)
    other = encoded(KvContent(BLOCK_BYTES), kind, b"of another key")
    damages = damages_of(kind)
    # The slabs of a session that has ended are those of others then. The mappings stay.
    earlier = Forger(socket_path)
    _, namespace, _ = earlier.register(f"honest/{kind}", BLOCK_BYTES, encoding=property_of(kind))
    for slot in earlier.reserve(namespace, [b"scribble%08d" % at for at in range(BATCH)]):
        earlier.slab(slot.slab)
    earlier.close()
    forger = Forger(socket_path)
    _, namespace, _ = forger.register(f"honest/{kind}", BLOCK_BYTES, encoding=property_of(kind))
    ready.set()
    while True:
        for lease in forger.lease(namespace, honest_keys()):
            memory = earlier.slabs.get(lease.slab)
            if memory is not None and lease.is_encoded and rng.random() < 0.2:
                was = memory[lease.offset : lease.offset + lease.bytes]
                now = other if rng.random() < 0.2 else forged(rng, kind, was, rng.choice(damages))
                memory[lease.offset : lease.offset + lease.bytes] = now
                if rng.random() < 0.5:
                    # The bytes change while somebody reads them.
                    memory[lease.offset : lease.offset + lease.bytes] = was


def honest_keys() -> list[bytes]:
    return [b"honest%010d" % at for at in range(HONEST_BLOCKS)]


def write_over(kind: str, daemon: Daemon, seconds: float, seed: int, beside: Callable[[], None]) -> str:
    """Writes over blocks of an honest client while they are read, also with the sound granules of another block."""
    rng = random.Random(seed)
    content = KvContent(BLOCK_BYTES)
    keys = honest_keys()
    blocks = b"".join(content.block(key) for key in keys)
    with contextlib.ExitStack() as stack:
        readers = Readers(daemon, stack, f"honest/{kind}", kind)
        kept: list[bytes | None] = []
        for key in keys:
            to = bytearray(GRANULES * ENCODED_BYTES[kind])
            _core.encode(kind, to, content.block(key), GRANULE_BYTES // 2)
            kept.append(decoded(kind, bytes(to)))
        before = readers.client.counters()["corrupt"]
        spawning = multiprocessing.get_context("spawn")
        ready = spawning.Event()
        process = spawning.Process(target=scribble, args=(daemon.socket_path, kind, seed, ready), daemon=True)
        process.start()
        stack.callback(process.join)
        stack.callback(process.kill)
        if not ready.wait(CALL_TIMEOUT_S):
            raise Wrong("the scribbler does not begin")
        readers.local.put(keys, blocks)
        puts = 0
        for _ in turns(seconds, daemon, beside):
            found = readers.read(rng, keys, kept, may_be_damaged=True)
            if not all(found):
                puts += 1
                readers.local.put(keys, blocks)
            if not process.is_alive():
                raise Wrong(f"the scribbler gave up: {process.exitcode}")
        counted = readers.client.counters()["corrupt"] - before
    if not counted or not readers.right:
        raise Wrong(f"{counted:,} blocks were counted as damaged, and {readers.right:,} reads were right")
    return f"{readers.refused:,} reads refused, {readers.right:,} right, {counted:,} blocks counted as damaged, {puts:,} times put again"


def _wrong_namespaces() -> list[tuple[str, int]]:
    """Values of the property, and raw bytes of a block, that no encoding has."""
    values = ["", " ", "exact", "exact bf16", "exact bf16 4096 ", "EXACT bf16 4096", "int4 bf16 4096", "zip bf16 4096", "exact fp16 4096", "fp8 fp8 4096"]
    values += ["exact bf16 -4096", "exact bf16 0", "exact bf16 4095", "fp8 bf16 512", "fp8 bf16 65536", "fp8 bf16 999999999999", "fp8 bf16 4096 x" * 30]
    return [(value, 1 << 16) for value in values] + [("exact bf16 4096", 6144), ("fp8 bf16 4096", 4095), ("exact bf16 4096", 1)]


def ask_for_what_is_not(daemon: Daemon, seconds: float, seed: int, beside: Callable[[], None]) -> str:
    """Asks for unknown encodings, for sizes and forms that a namespace does not have, and brings wrong checksums."""
    refused = 0
    with contextlib.ExitStack() as stack:
        readers = Readers(daemon, stack, "known", "exact")
        plain = readers.client.namespace("plain", block_bytes=BLOCK_BYTES)
        over_grpc = stack.enter_context(contextlib.closing(remote.Client(f"grpc://127.0.0.1:{daemon.grpc_port}", timeout=CALL_TIMEOUT_S)))
        content = KvContent(BLOCK_BYTES)
        forger = stack.enter_context(contextlib.closing(Forger(daemon.socket_path)))
        for turn in turns(seconds, daemon, beside):
            for value, block_bytes in _wrong_namespaces():
                status, _, words = forger.register("none", block_bytes, encoding=value)
                _require(status == Status.INVALID_ARGUMENT and "encoding is '" in words, f"encoding '{value}' with {block_bytes} bytes: {status}, {words}")
                with _refused(InvalidArgument, f"gRPC, encoding '{value}' with {block_bytes} bytes"):
                    over_grpc.namespace("none", block_bytes=block_bytes, encoding=value)
                refused += 2
            status, _, words = forger.register("known", BLOCK_BYTES, encoding=property_of("fp8"))
            _require(status == Status.NAMESPACE_MISMATCH and "encoding" in words, f"another encoding of a known namespace: {status}, {words}")
            with _refused(NamespaceMismatch, "gRPC, another encoding of a known namespace"):
                over_grpc.namespace("known", block_bytes=BLOCK_BYTES, encoding=property_of("fp8"))
            refused += 2
            refused += _wrong_forms(forger, readers, plain, content, turn)
            for verb in (Verb.LOOKUP, Verb.RELEASE, Verb.PIN):
                with contextlib.closing(Forger(daemon.socket_path)) as bold:
                    words = _ended(bold, verb)
                    _require("ended the session" in words, f"{verb.name} with the flag of encoded blocks: {words}")
                refused += 1
    return f"{refused:,} requests refused, each with a reason"


def _wrong_forms(forger: Forger, readers: Readers, plain: Namespace, content: KvContent, turn: int) -> int:
    """Slots of a form that a namespace does not have, a reader of the other form, and wrong checksums; how many were refused."""
    key = b"%016d" % turn
    # Registered by the honest client, so that its properties are known.
    _, of_plain, _ = forger.register("plain", BLOCK_BYTES)
    slots = forger.reserve(of_plain, [key])
    _require(not slots[0].is_encoded and slots[0].bytes == BLOCK_BYTES, f"a namespace without an encoding gives {slots[0]}")
    forger.abort(slots)
    _, known, _ = forger.register("known", BLOCK_BYTES, encoding=property_of("exact"))
    forger.put(known, [key], [encoded(content, "exact", key)])
    before = readers.client.counters()
    answer = forger.call(Verb.ACQUIRE, key, 1, namespace=known, key_bytes=len(key))
    result = protocol.COMPLETION_LONG_RESULT.unpack_from(answer, protocol.COMPLETION_HEADER_BYTES)
    _require(result[0] == Status.MISS, f"a reader of raw blocks got an encoded one: {Status(result[0]).name}")
    _require(readers.client.counters()["misses_encoded"] > before["misses_encoded"], "no miss of an encoded block was counted")
    # The encoded bytes of the other kind fill a part of the slot, and the checksum is that of other bytes.
    other = b"%016d" % (turn + (1 << 40))
    slot = forger.reserve(known, [other])[0]
    forger.slab(slot.slab)[slot.offset : slot.offset + GRANULES * ENCODED_BYTES["fp8"]] = encoded(content, "fp8", other)
    words = struct.pack("<QQ", slot.id, _core.crc32c(b"other bytes"))
    answer = forger.call(Verb.COMMIT, words, 1, namespace=known, flags=protocol.REQUEST_FLAG_CHECKSUMS)
    status = status_of(answer)
    _require(status == Status.OK, f"a block with another checksum is not taken, so nobody reads it: {Status(status).name}")
    refused = readers.refused
    readers.read(random.Random(turn), [other], [None], may_be_damaged=False)
    readers.require_counted(before["corrupt"], (readers.refused - refused + 1) // 2)
    into = bytearray(BLOCK_BYTES)
    _require(plain.get([key], into).statuses == [Status.MISS], "a namespace has a block of another one")
    return 4


def _ended(forger: Forger, verb: Verb) -> str:
    """How the daemon answers a request with a flag that it can't have."""
    try:
        answer = forger.call(verb, bytes(8), 1, flags=protocol.REQUEST_FLAG_ENCODED)
        return f"answered {Status(status_of(answer)).name}"
    except AssertionError as e:
        return str(e)


def _require(is_right: bool, words: str) -> None:
    if not is_right:
        raise Wrong(words)


@contextlib.contextmanager
def _refused(how: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except how as e:
        _require("encoding" in str(e), f"{what} was refused without a reason: {e}")
    else:
        raise Wrong(f"{what} was not refused")


class Attack(NamedTuple):
    """An attack on encoded blocks, and what it counts, in words."""

    name: str
    run: Callable[[Daemon, float, int, Callable[[], None]], str]

    def __str__(self) -> str:
        return f"encodings, {self.name}"


ATTACKS = [
    *(Attack(f"damaged blocks of {kind}", functools.partial(put_damaged, ForgerOf, kind)) for kind in KINDS),
    *(Attack(f"damaged blocks of {kind} that a node pushes", functools.partial(put_damaged, ForgingNode, kind)) for kind in KINDS),
    *(Attack(f"blocks of {kind} written over while they are read", functools.partial(write_over, kind)) for kind in KINDS),
    Attack("requests that contradict an encoding", ask_for_what_is_not),
]


# ---- the check


def daemon_in(folder: Path) -> Daemon:
    """A daemon with little memory, so that forged blocks go to SSD and come back."""
    (folder / "ssd").mkdir(exist_ok=True)
    tiers = {"host__slab_bytes": "8MiB", "host__bytes": "32MiB", "ssd__bytes": "256MiB", "ssd__directory": str(folder / "ssd")}
    return Daemon(folder, **tiers, **open_to_nodes(), nodes__tokenless_role="write")


def check(attack: Attack, daemon: Daemon, seconds: float, seed: int) -> None:
    """Carries an attack out beside honest clients; raises what is wrong."""
    with contextlib.ExitStack() as stack:
        local = stack.enter_context(contextlib.closing(LocalCaller(daemon)))
        over_grpc = stack.enter_context(contextlib.closing(GrpcCaller(daemon.grpc_port)))
        beside = [Bystander("local client", local.ask), Bystander("gRPC client", over_grpc.ping)]
        for one in beside:
            stack.callback(one.end)

        def require_well() -> None:
            for one in beside:
                one.require_well()

        calm = daemon.figures()
        told = attack.run(daemon, seconds, seed, require_well)
        under = daemon.figures()
        print(f"{attack} for {seconds:.0f} s: {told}; heap {under.heap_kib >> 10} of {HEAP_BOUND_MIB} MiB (calm {calm.heap_kib >> 10})")
        for one in beside:
            print(f"  {one.name}: {one.percentiles()}")
        if under.heap_kib >> 10 > HEAP_BOUND_MIB:
            raise Wrong(f"'{attack.name}' has the daemon hold more than it may")
        daemon.require_well()


def check_all(chosen: list[Attack], seconds: float) -> int:
    """Carries attacks out, each on a daemon of its own; how many found something."""
    wrong = 0
    for attack in chosen:
        with tempfile.TemporaryDirectory(prefix="kvtier-") as folder, contextlib.ExitStack() as stack:
            try:
                daemon = daemon_in(Path(folder))
                stack.callback(daemon.stop)
                check(attack, daemon, seconds, seed=1)
            except Wrong as e:
                print(f"attacks-check: {attack}: {e}", file=sys.stderr)
                wrong += 1
    return wrong
