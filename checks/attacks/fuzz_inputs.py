"""Inputs for scripts/fuzz: the first ones, new ones, and changed ones.

Each kind of input is a form of bytes, so that one file in a corpus is one input:

- ring: steps of a client that writes into its session's memory, as RingFuzz (in the daemon's tests) describes them;
- handshake: packets for the Unix socket, each behind a u16 with its length, whose upper bit says that a descriptor goes with it;
- grpc: the bytes of a TCP connection.
"""

import random
import struct
from collections.abc import Callable

from checks.attacks.hostile_daemon import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, call_headers, frame, message
from kvtier import _protocol as protocol
from kvtier._protocol import Verb

Seeds = dict[str, bytes]

SLOT_BYTES = 4096
EDGES = [0, 1, 7, 8, 63, 64, 255, 2047, 2048, 2049, 4095, 4096, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
EDGES_64 = [*EDGES, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
INPUT_BYTES_MAX = 16 << 10


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """A few changes that know nothing of the form."""
    out = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.randrange(256)
            case 2:
                width = rng.choice([1, 2, 4, 8])
                value = rng.choice(EDGES_64) & ((1 << 8 * width) - 1)
                out[at : at + width] = value.to_bytes(width, rng.choice(["little", "big"]))
            case 3:
                out[at:at] = rng.randbytes(rng.randrange(1, 16))
            case 4:
                del out[at : at + rng.randrange(1, 16)]
            case _:
                begin = rng.randrange(len(out) + 1)
                out[at:at] = out[begin : begin + rng.randrange(1, 64)]
    return bytes(out[:INPUT_BYTES_MAX])


def changed_parts(rng: random.Random, parts: list[bytes], new: Callable[[], bytes]) -> list[bytes]:
    """Parts of an input that are left out, doubled, moved, replaced, or changed themselves."""
    parts = list(parts)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(parts) + 1)
        match rng.randrange(6):
            case 0:
                del parts[at : at + 1]
            case 1:
                parts[at:at] = parts[at : at + 3]
            case 2 if parts:
                parts.insert(at, parts.pop(rng.randrange(len(parts))))
            case 3:
                parts.insert(at, new())
            case _ if at < len(parts):
                parts[at] = changed_bytes(rng, parts[at])
    return parts


# ---- ring

RECORD, WORK, WORD, TAKE, POKE, SESSION = range(6)
ID_MARK = 0x1D1D1D1D
IDS = (Verb.COMMIT, Verb.ABORT, Verb.RELEASE)
TEXTS = (Verb.REGISTER, Verb.ANNOTATE, Verb.REGISTER_REGION, Verb.REPORT_LOADS)
ONES_WITH_BLOCKS = (Verb.OFFLOAD, Verb.ONBOARD, Verb.ADVERTISE, Verb.LOOKUP_GROUPS)
WITHOUT_BODY = (Verb.PING, Verb.UNREGISTER, Verb.CLEAR, Verb.FLUSH, Verb.CANCEL, Verb.STATS, Verb.UNREGISTER_REGION)


def record(verb: int, body: bytes = b"", count: int = 0, length: int | None = None, **fields: int) -> bytes:
    """A request record; the other fields are those of the header."""
    body += bytes(-len(body) % 8)
    length = protocol.REQUEST_HEADER_BYTES + len(body) if length is None else length
    get = fields.get
    return (
        protocol.REQUEST_HEADER.pack(
            length,
            verb,
            get("flags", 0),
            get("correlation", 1),
            get("deadline", 0),
            get("namespace", 0),
            get("group", 0),
            get("priority", 1),
            get("key_bytes", 8),
            count,
            get("depth", 0),
            get("argument", 0),
            get("region", 0),
            get("first_layer", 0),
            get("end_layer", 0),
            get("event", 0),
            get("progress", 0),
            get("shard", 0),
            get("reserved", 0),
        )
        + body
    )


def step(which: int, payload: bytes = b"") -> bytes:
    return bytes([which]) + (struct.pack("<H", len(payload)) if which == RECORD else b"") + payload


def keys(*numbers: int) -> bytes:
    return b"".join(struct.pack("<Q", number) for number in numbers)


def context(flags: int) -> bytes:
    """The end of a record with a trace context."""
    return bytes(range(1, 25)) + struct.pack("<QQ", 0, flags)


def marks(count: int, checksums: bool = False) -> bytes:
    return b"".join(struct.pack("<II", i, ID_MARK) + (bytes(8) if checksums else b"") for i in range(count))


def register(name: bytes = b"name=test", block_bytes: int = SLOT_BYTES) -> bytes:
    return step(RECORD, record(Verb.REGISTER, name, len(name), argument=block_bytes))


def load_reports() -> list[bytes]:
    """Bodies of REPORT_LOADS: true ones, and ones that nobody can have measured."""
    pack = protocol.LOAD_REPORT.pack
    most = (1 << 64) - 1
    return [pack(3, 0, 48, 5_000_000, 1_000_000), pack(1, 0, 16, 0, 7), pack(0xFFFFFFFF, 0, most, most, most), pack(0, 0, 1, 1, 1 << 63), b"short"]


def ring_seeds() -> Seeds:
    work, take, session = step(WORK), step(TAKE), step(SESSION)
    answer = work + take
    reserve = register() + answer + step(RECORD, record(Verb.RESERVE, keys(1, 2, 3), 3)) + answer
    commit = reserve + step(RECORD, record(Verb.COMMIT, marks(3), 3)) + answer
    acquire = commit + step(RECORD, record(Verb.ACQUIRE, keys(1, 2, 3, 4), 4)) + answer

    def plain(verb: Verb, **fields: int) -> bytes:
        return step(RECORD, record(verb, **fields)) + answer

    def keyed(verb: Verb, **fields: int) -> bytes:
        return step(RECORD, record(verb, keys(1, 2, 9), 3, **fields)) + answer

    annotation = struct.pack("<BBHI", 8, 0, 5, 0) + keys(1) + b"notes\0\0\0"
    wide = b"".join(bytes([i]) * 32 for i in range(4))
    region = b"device=GPU-0\nlayers=2\nblocks=8\nblock_tokens=4\npart=kv:LCBNHD:2,2,8,4,1,8:512,256,32,8,8,1:2\nallocation=" + b"0" * 128
    return {
        "put-get-release": acquire + step(RECORD, record(Verb.RELEASE, marks(6)[24:], 3)) + answer,
        "commit-with-checksums": reserve + step(RECORD, record(Verb.COMMIT, marks(3, True), 3, flags=protocol.REQUEST_FLAG_CHECKSUMS)) + answer,
        "abort": reserve + step(RECORD, record(Verb.ABORT, marks(3), 3)) + answer + keyed(Verb.LOOKUP),
        "pins": commit + keyed(Verb.PIN) + keyed(Verb.PIN) + keyed(Verb.UNPIN) + keyed(Verb.DELETE) + plain(Verb.CLEAR),
        "lookups": commit + keyed(Verb.LOOKUP) + keyed(Verb.PREFETCH) + keyed(Verb.LOOKUP, group=1),
        "flags": commit + keyed(Verb.ACQUIRE, flags=12) + step(RECORD, record(Verb.RESERVE, keys(1, 5, 6), 2, flags=1)) + answer,
        "flush-stats": commit + plain(Verb.FLUSH) + plain(Verb.STATS) + plain(Verb.UNREGISTER) + plain(Verb.PING),
        "cancel": reserve + step(RECORD, record(Verb.FLUSH, correlation=5)) + plain(Verb.CANCEL, argument=5),
        "corrupt": acquire + step(RECORD, record(Verb.RELEASE, marks(6), 6, flags=32)) + answer + keyed(Verb.LOOKUP),
        "silent": acquire + step(RECORD, record(Verb.RELEASE, marks(6), 6, flags=2)) + answer + session + register(),
        "annotate": reserve + step(RECORD, record(Verb.ANNOTATE, annotation, len(annotation))) + answer + keyed(Verb.LOOKUP),
        "report-loads": acquire + b"".join(step(RECORD, record(Verb.REPORT_LOADS, one, len(one))) + answer for one in load_reports()),
        "long-keys": register() + answer + step(RECORD, record(Verb.RESERVE, wide, 4, key_bytes=32)) + answer,
        "two-sizes": commit + register(b"name=larger", 2 * SLOT_BYTES) + answer + keyed(Verb.RESERVE, namespace=1) + keyed(Verb.LOOKUP, namespace=1),
        "full": register() + answer + b"".join(step(RECORD, record(Verb.RESERVE, keys(*range(8 * i, 8 * i + 8)), 8)) + answer for i in range(4)),
        "region": register() + answer + step(RECORD, record(Verb.REGISTER_REGION, region, len(region))) + answer,
        "offload": commit + step(RECORD, record(Verb.OFFLOAD, keys(4, 5) + struct.pack("<II", 0, 1), 2, region=1)) + answer,
        "onboard": commit + step(RECORD, record(Verb.ONBOARD, keys(1, 2) + struct.pack("<II", 0, 1), 2, region=1)) + answer,
        "words": commit + b"".join(step(WORD, struct.pack("<BQ", which, 64)) + work for which in range(10)),
        "poke": commit + step(RECORD, record(Verb.LOOKUP, keys(1), 1)) + step(POKE, struct.pack("<HB", 300, 255)) + answer,
        "admin": register() + answer + step(RECORD, record(Verb.ADMIN, b"pin 0 00 test", 13)) + answer,
        "sessions": (commit + session) * 3,
        "shard": commit + keyed(Verb.LOOKUP, shard=1) + keyed(Verb.ACQUIRE, shard=0xFFFFFFFF) + keyed(Verb.LOOKUP),
        "reserved": commit + keyed(Verb.LOOKUP, reserved=1) + session + register() + answer,
        "context": commit
        + step(RECORD, record(Verb.ACQUIRE, keys(1, 2, 9) + context(1), 3, flags=protocol.REQUEST_FLAG_CONTEXT))
        + answer
        + step(RECORD, record(Verb.PING, context(255), flags=protocol.REQUEST_FLAG_CONTEXT))
        + answer
        + step(RECORD, record(Verb.PING, bytes(protocol.REQUEST_CONTEXT_BYTES), flags=protocol.REQUEST_FLAG_CONTEXT))
        + answer,
    }


def new_step(rng: random.Random) -> bytes:
    match rng.randrange(16):
        case 0 | 1:
            return step(WORK)
        case 2 | 3:
            return step(TAKE)
        case 4:
            return step(WORD, struct.pack("<BQ", rng.randrange(10), rng.choice(EDGES_64)))
        case 5:
            return step(POKE, struct.pack("<HB", rng.randrange(4096), rng.randrange(256)))
        case 6:
            return step(SESSION)
        case _:
            return step(RECORD, new_record(rng))


def new_record(rng: random.Random) -> bytes:
    verb = rng.choice([*Verb, *Verb, *Verb, 0, 23, 31, 255])
    flags = rng.choice([0] * 12 + [1, 2, 4, 8, 16, 32, rng.randrange(256)])
    key_bytes = rng.choice([8] * 12 + [32, 1, 7, 9, 0, 33, 255])
    count = rng.choice([1, 2, 5, 20] * 5 + EDGES)
    real = count if count <= 64 else 3
    if verb in TEXTS:
        body = rng.choice([b"name=fuzz", b"name=test", b"name=\xff\xfe", b"=\n\n", b"name=a\nname=b", b"a=b", rng.randbytes(50)])
        count = len(body) if rng.random() < 0.9 else count
    elif verb in IDS:
        both = flags & protocol.REQUEST_FLAG_CHECKSUMS != 0
        body = marks(real, both) if rng.random() < 0.8 else rng.randbytes(8 * real)
    elif verb in WITHOUT_BODY:
        body, count = b"", count if rng.random() < 0.2 else 0
    else:
        stride = (key_bytes + 7) & ~7
        body = b"".join(struct.pack("<Q", rng.randrange(40)).ljust(stride, b"\0")[:stride] for _ in range(real + (flags & 1)))
        if verb in ONES_WITH_BLOCKS:
            body += b"".join(struct.pack("<I", rng.choice([0, 1, 7, *EDGES])) for _ in range(real))
    return record(
        verb,
        body,
        count,
        rng.choice(EDGES) if rng.random() < 0.05 else None,
        flags=flags,
        key_bytes=key_bytes,
        correlation=rng.choice([1, 2, 5, rng.getrandbits(64)]),
        deadline=rng.choice([0] * 6 + EDGES_64),
        namespace=rng.choice([0] * 8 + [1, *EDGES]),
        group=rng.choice([0] * 8 + [1, 65535]),
        depth=rng.choice([0, 0, *EDGES]),
        argument=rng.choice([0, 0, 5, SLOT_BYTES, *EDGES_64]),
        region=rng.choice([0, 0, 1, 2, *EDGES]),
        first_layer=rng.choice([0] * 6 + [1, 2, 65535]),
        end_layer=rng.choice([0] * 6 + [1, 2, 65535]),
        event=rng.choice([0, 0, 1, *EDGES]),
        progress=rng.choice([0, 0, 1, 256, *EDGES]),
        shard=rng.choice([0] * 20 + [1, *EDGES]),
        reserved=rng.choice([0] * 40 + [1]),
    )


def ring_steps(data: bytes) -> list[bytes]:
    """An input, step by step."""
    steps = []
    at = 0
    while at < len(data):
        which = data[at] % 6
        length = {RECORD: 2, WORD: 9, POKE: 3}.get(which, 0)
        if which == RECORD:
            length += int.from_bytes(data[at + 1 : at + 3], "little")
        steps.append(bytes([which]) + data[at + 1 : at + 1 + length])
        at += 1 + length
    return steps


def new_ring(rng: random.Random) -> bytes:
    begin = register() + step(WORK) + step(TAKE) if rng.random() < 0.9 else b""
    return begin + b"".join(new_step(rng) for _ in range(rng.randrange(1, 60)))


def changed_ring(rng: random.Random, data: bytes) -> bytes:
    return b"".join(changed_parts(rng, ring_steps(data), lambda: new_step(rng)))


# ---- handshake

WITH_DESCRIPTOR = 0x8000


def packet(data: bytes, flag: int = 0) -> bytes:
    return struct.pack("<H", len(data) & 0x7FFF | flag) + data[:0x7FFF]


def hello(
    request_bytes: int = protocol.RING_BYTES_MIN,
    completion_bytes: int = protocol.RING_BYTES_MIN,
    name: bytes = b"fuzz",
    name_bytes: int | None = None,
    version: int = protocol.VERSION,
    magic: int = protocol.HANDSHAKE_HELLO_MAGIC,
) -> bytes:
    length = len(name) if name_bytes is None else name_bytes
    return protocol.HANDSHAKE_HELLO.pack(magic, version, request_bytes, completion_bytes, length, 0) + name


def map_slab(slab: int, writable: int = 0, magic: int = protocol.HANDSHAKE_MAP_SLAB_MAGIC) -> bytes:
    return protocol.HANDSHAKE_QUESTION.pack(magic, slab, writable)


def handshake_seeds() -> Seeds:
    whole = packet(hello())
    return {
        "hello": whole,
        "map": whole + packet(map_slab(0)) + packet(map_slab(1, 1)) + packet(map_slab(0xFFFFFFFF)),
        "twice": whole + whole,
        "map-first": packet(map_slab(0)) + whole,
        "empty": packet(b""),
        "short": packet(hello()[:23]),
        "long-name": packet(hello(name=b"n" * 5000)),
        "name-longer-than-it-is": packet(hello(name_bytes=65535)),
        "name-not-utf8": packet(hello(name=b"\xff\xfe\x1b[31m\n\0")),
        "no-ring": packet(hello(0, 0)),
        "ring-of-2-gib": packet(hello(1 << 31, 1 << 31)),
        "ring-no-power": packet(hello(protocol.RING_BYTES_MIN + 8)),
        "next-version": packet(hello(version=protocol.VERSION + 65536)),
        "no-version": packet(hello(version=0)),
        "other-magic": packet(hello(magic=protocol.HANDSHAKE_MAP_SLAB_MAGIC)),
        "descriptor": packet(hello(), WITH_DESCRIPTOR) + packet(map_slab(0), WITH_DESCRIPTOR),
        "many-maps": whole + packet(map_slab(0)) * 64,
    }


def handshake_packets(data: bytes) -> list[bytes]:
    packets = []
    at = 0
    while at + 2 <= len(data):
        length = int.from_bytes(data[at : at + 2], "little") & 0x7FFF
        packets.append(data[at : at + 2 + length])
        at += 2 + length
    return packets


def new_packet(rng: random.Random) -> bytes:
    flag = WITH_DESCRIPTOR if rng.random() < 0.05 else 0
    match rng.randrange(4):
        case 0:
            return packet(map_slab(rng.choice([0, 1, 15, 16, *EDGES]), rng.choice([0, 1, 1 << 31])), flag)
        case 1:
            return packet(rng.randbytes(rng.choice([0, 1, 8, 16, 24, rng.randrange(5000)])), flag)
        case _:
            sizes = [protocol.RING_BYTES_MIN] * 4 + [1 << rng.randrange(32), protocol.RING_BYTES_MAX * 2, *EDGES]
            name = rng.choice([b"", b"fuzz", rng.randbytes(rng.randrange(300)), b"\x1b\n\xff" * 40])
            shown = rng.choice([None, None, *EDGES])
            version = rng.choice([protocol.VERSION] * 6 + [0, 1, 65536, 0x20000, 0xFFFFFFFF])
            made = hello(rng.choice(sizes), rng.choice(sizes), name, shown if shown is None else shown & 0xFFFF, version)
            return packet(made, flag)


def new_handshake(rng: random.Random) -> bytes:
    return b"".join(new_packet(rng) for _ in range(rng.randrange(1, 6)))


def changed_handshake(rng: random.Random, data: bytes) -> bytes:
    return b"".join(changed_parts(rng, handshake_packets(data), lambda: new_packet(rng)))


# ---- grpc

METHODS = ("Ping", "Register", "Unregister", "Lookup", "Get", "Put", "Prefetch", "Pin", "Unpin", "Delete", "Clear", "Flush", "Cancel", "Stats")
OPENING = PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24))


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    """A varint field, or one of bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def key_batch(count: int = 2, namespace: int = 0, key_bytes: int = 16) -> bytes:
    return field(1, namespace) + b"".join(field(3, bytes([i + 1]) * key_bytes) for i in range(count))


def call(method: str, *messages: bytes, stream: int = 1, ends: bool = True, more: list[tuple[bytes, bytes]] | None = None) -> bytes:
    out = frame(HEADERS, END_HEADERS, stream, call_headers(b"/kvtier.v1.Kvtier/" + method.encode(), more))
    body = b"".join(message(one) for one in messages)
    chunks = [body[i : i + 16384] for i in range(0, len(body), 16384)] or [b""]
    for chunk in chunks[:-1]:
        out += frame(DATA, 0, stream, chunk)
    return out + frame(DATA, END_STREAM if ends else 0, stream, chunks[-1])


def put_messages(count: int = 2, block_bytes: int = SLOT_BYTES) -> list[bytes]:
    header = field(1, field(1, key_batch(count)) + field(2, 7))
    return [header, *(field(2, field(1, i) + field(2, 0) + field(3, bytes([i]) * block_bytes)) for i in range(count))]


REGISTER_BODY = field(1, b"test") + field(2, SLOT_BYTES)


def grpc_seeds() -> Seeds:
    opened = OPENING + call("Register", REGISTER_BODY)
    put = opened + call("Put", *put_messages(), stream=3)
    one = field(1, key_batch())
    halves = [frame(DATA, 0, 3, message(one)[i : i + 1]) for i in range(len(message(one)))]
    keyed = b"".join(call(method, one, stream=5 + 2 * i) for i, method in enumerate(("Lookup", "Prefetch", "Pin", "Unpin", "Delete")))
    annotated = field(1, field(1, key_batch()) + field(3, b"a note") + field(3, b""))
    return {
        "ping-stats": OPENING + call("Ping", b"") + call("Stats", b"", stream=3),
        "register": opened + call("Register", REGISTER_BODY + field(3, field(1, b"model") + field(2, b"m")), stream=3) + call("Unregister", b"", stream=5),
        "put-get": put + call("Get", field(1, key_batch(3)) + field(3, 1), stream=5),
        "put-without-end": opened + call("Put", *put_messages(), stream=3, ends=False),
        "put-chunk-first": opened + call("Put", *reversed(put_messages()), stream=3),
        "put-half": opened + call("Put", *put_messages(2, 100), stream=3),
        "put-with-checksum": opened + call("Put", put_messages(1)[0], field(2, field(3, bytes(SLOT_BYTES)) + varint(4 << 3 | 5) + bytes(4)), stream=3),
        "put-annotated": opened + call("Put", annotated, stream=3),
        "keyed": put + keyed,
        "clear-flush": put + call("Flush", b"", stream=5) + call("Clear", b"", stream=7),
        "report-loads": put
        + call("Get", field(1, key_batch()), stream=5)
        + call("ReportLoads", field(2, 2) + field(3, 32) + field(4, 10**9) + field(5, 10**6), stream=7)
        + call("ReportLoads", field(2, (1 << 32) - 1) + field(3, (1 << 64) - 1) + field(4, 1 << 63), stream=9),
        "cancel": opened + call("Flush", field(2, 9), stream=3, ends=False) + call("Cancel", field(1, 9), stream=5),
        "bytewise": opened + frame(HEADERS, END_HEADERS, 3, call_headers(b"/kvtier.v1.Kvtier/Lookup")) + b"".join(halves) + frame(DATA, END_STREAM, 3),
        "timeout": opened + call("Lookup", one, stream=3, more=[(b"grpc-timeout", b"99999999H")]) + call("Get", one, stream=5, more=[(b"grpc-timeout", b"1n")]),
        "traceparent": opened
        + call("Lookup", one, stream=3, more=[(b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
        + call("Lookup", one, stream=5, more=[(b"traceparent", b"00-4bf92f35-\xff-01"), (b"traceparent", b"")]),
        "compressed": opened + call("Lookup", one, stream=3, more=[(b"grpc-encoding", b"gzip")]),
        "oversize": OPENING + frame(HEADERS, END_HEADERS, 1, call_headers(b"/kvtier.v1.Kvtier/Lookup")) + frame(DATA, 0, 1, b"\0\x7f\xff\xff\xff"),
        "no-method": OPENING + call("Nothing", b""),
        "no-call": OPENING + frame(HEADERS, END_HEADERS | END_STREAM, 1, call_headers(b"/")),
        "resets": opened + b"".join(call("Lookup", one, stream=s, ends=False) + frame(3, 0, s, struct.pack(">I", 8)) for s in range(3, 40, 2)),
        "http1": b"POST /kvtier.v1.Kvtier/Ping HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0",
        "upgrade": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "empty-key": opened + call("Lookup", field(1, field(3, b"")), stream=3) + call("Lookup", field(1, field(3, b"k" * 33)), stream=5),
    }


def new_message(rng: random.Random, depth: int = 0) -> bytes:
    """Fields as the methods have them, with values as none should send them."""
    out = b""
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        number = rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 19, (1 << 29) - 1])
        match rng.randrange(8):
            case 0 | 1:
                out += field(number, rng.choice([0, 1, 7, SLOT_BYTES, *EDGES_64]))
            case 2:
                out += field(number, key_batch(rng.choice([0, 1, 2, 40]), rng.choice([0, 0, 0, 1, *EDGES]), rng.choice([16, 16, 1, 32, 33, 0])))
            case 3:
                out += field(number, rng.randbytes(rng.choice([0, 1, 16, 100, SLOT_BYTES])))
            case 4 if depth < 4:
                out += field(number, new_message(rng, depth + 1))
            case 5:
                out += varint(number << 3 | rng.randrange(8)) + rng.randbytes(rng.randrange(10))
            case 6:
                out += rng.choice(put_messages(rng.choice([1, 2, 3]), rng.choice([0, 1, 100, SLOT_BYTES])))
            case _:
                out += field(1, key_batch())
    return out


def new_call(rng: random.Random) -> bytes:
    messages = [new_message(rng) for _ in range(rng.choice([1, 1, 1, 0, 2, 5]))]
    more = rng.choice([None] * 6 + [[(b"grpc-timeout", rng.choice([b"1n", b"1S", b"99999999H", b"-1S", b"", b"9" * 9 + b"S", b"x"]))]])
    return call(rng.choice(METHODS), *messages, stream=rng.choice([1, 3, 5, 7, 9, 11]), ends=rng.random() < 0.8, more=more)


def new_frame(rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return new_call(rng)
    stream = rng.choice([0, 1, 3, 5, 2, (1 << 31) - 1, 1 << 31])
    payload = rng.choice([b"", bytes(4), bytes(8), rng.randbytes(rng.randrange(64)), struct.pack(">HI", rng.randrange(8), rng.choice(EDGES))])
    return frame(rng.choice([*range(10), *range(10), 255]), rng.randrange(256), stream, payload)


def grpc_frames(data: bytes) -> list[bytes]:
    """The preface, then frame by frame; the rest as one."""
    if not data.startswith(PREFACE):
        return [data]
    frames = [PREFACE]
    at = len(PREFACE)
    while at < len(data):
        length = 9 + int.from_bytes(data[at : at + 3], "big")
        frames.append(data[at : at + length])
        at += length
    return frames


def new_grpc(rng: random.Random) -> bytes:
    calls = b"".join(call(rng.choice(METHODS), *(new_message(rng) for _ in range(rng.choice([1, 1, 1, 4]))), stream=3 + 2 * i) for i in range(rng.randrange(1, 6)))
    return OPENING + call("Register", REGISTER_BODY) + calls


def changed_grpc(rng: random.Random, data: bytes) -> bytes:
    frames = grpc_frames(data)
    if rng.random() < 0.7:
        # A changed frame that says its length right is read further than one that does not.
        changed = changed_parts(rng, frames, lambda: new_frame(rng))
        return b"".join(one if one == PREFACE or len(one) < 9 else struct.pack(">I", min(len(one) - 9, 16384))[1:] + one[3:] for one in changed)
    return b"".join(changed_parts(rng, frames, lambda: new_frame(rng)))
