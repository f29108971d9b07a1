"""The client's side of the golden session, which the daemon's tests replay byte for byte."""

import struct

from kvtier_testing.peer import Peer

from checks.shared.checkout import ROOT
from kvtier import _core
from kvtier import _protocol as protocol
from kvtier._protocol import Status, Verb

GOLDEN = ROOT / "protocol/src/test/resources/golden/session.txt"
DEADLINE_NS = 2_000_000_000
CONTEXT = bytes.fromhex("4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b701")
FIRST, SECOND = bytes([1]) * 20, bytes([2]) * 20
ENTRY = bytes([len(FIRST), 0, 10, 0, 0, 0, 0, 0]) + FIRST + bytes(4) + b"annotation" + bytes(6)
RESERVATION, LEASE = 0x1_0000_0001, 0x2_0000_0001


def _transcript() -> tuple[list[bytes], list[bytes]]:
    sides: dict[str, list[bytes]] = {">": [], "<": []}
    side = ">"
    for line in GOLDEN.read_text().splitlines():
        if line[:1] in sides:
            side = line[0]
            sides[side].append(b"")
        elif line and not line.startswith("#"):
            sides[side][-1] += bytes.fromhex(line)
    return sides[">"], sides["<"]


def _request(verb: int, body: object = None, count: int = 0, *, flags: int = 0, namespace: int = 0, depth: int = 0,
             argument: int = 0) -> tuple:  # fmt: skip
    return (verb, flags, 1, DEADLINE_NS, namespace, 0, depth, argument, body, 0, count, None)


def test_golden_session_requestsByteForByte_completionsUnderstood() -> None:
    requests, completions = _transcript()
    text = b"name=golden\n"
    region = b"device=GPU-0\nlayers=4\n"
    asked = [
        _request(Verb.REGISTER, text, len(text), argument=4096),
        _request(Verb.LOOKUP, [FIRST, SECOND], 2, depth=7),
        _request(Verb.RESERVE, [FIRST], 1),
        _request(Verb.COMMIT, RESERVATION.to_bytes(8, "little"), 1),
        _request(Verb.ACQUIRE, [FIRST, SECOND], 2),
        _request(Verb.RELEASE, LEASE.to_bytes(8, "little"), 1, flags=2),
        _request(Verb.RELEASE, LEASE.to_bytes(8, "little"), 1),
        _request(Verb.DELETE, [FIRST], 1),
        _request(Verb.LOOKUP, [FIRST], 1, namespace=9),
        _request(Verb.PING),
        _request(Verb.REGISTER_REGION, region, len(region)),
        (*_request(Verb.ONBOARD, [FIRST, SECOND], 2), (1, 2, 4, 3, 7, (5).to_bytes(4, "little") + (6).to_bytes(4, "little"))),
        _request(Verb.ANNOTATE, ENTRY, len(ENTRY)),
        _request(Verb.RESERVE, [FIRST], 1),
        _request(Verb.ANNOTATE, ENTRY, len(ENTRY)),
        _request(Verb.ANNOTATE, ENTRY, len(ENTRY)),
    ]
    peer = Peer()
    try:
        session = peer.session()
        tickets = [session.submit(fields, 0) for fields in asked]
        tickets.append(session.submit(_request(Verb.LOOKUP, [FIRST], 1), 0, CONTEXT))
        blocks = (5).to_bytes(4, "little") + (6).to_bytes(4, "little")
        advertise = _request(Verb.ADVERTISE, [FIRST, SECOND], 2, argument=3)
        tickets.append(session.submit((*advertise, (1, 0, 0, 0, 0, blocks)), 0))
        tickets.append(session.submit(_request(Verb.REVOKE, [FIRST], 1, argument=1), 0))
        report = protocol.LOAD_REPORT.pack(1, 0, 16, 5_000_000, 1_000_000)
        tickets += [session.submit(_request(Verb.REPORT_LOADS, report, len(report)), 0) for _ in range(2)]
        for record in requests:
            written = bytearray(peer.request())
            if written[protocol.REQUEST_FLAGS_OFFSET] & protocol.REQUEST_FLAG_CONTEXT:
                at = len(written) - protocol.REQUEST_CONTEXT_BYTES + protocol.REQUEST_CONTEXT_WRITTEN_OFFSET
                assert 0 < struct.unpack_from("<Q", written, at)[0] <= _core.monotonic_ns()
                written[at : at + 8] = bytes(8)
            assert written.hex(" ", 8) == record.hex(" ", 8)
        for record in completions:
            peer.publish(record)
        answers = {}
        while len(answers) < len(completions):
            answers.update(session.poll(_core.monotonic_ns() + 1_000_000_000))
        # status, leading run, value, body, is it text, verb
        assert answers[tickets[0]][:3] == (Status.OK, 0, 0)
        assert _core.short_statuses(answers[tickets[1]][3]) == [Status.MISS, Status.MISS]
        assert answers[tickets[4]][:3] == (Status.OK, 1, 31_000_000_000)
        assert answers[tickets[6]][0] == Status.OK
        assert _core.short_statuses(answers[tickets[6]][3]) == [Status.STALE]
        assert answers[tickets[8]][0] == Status.NAMESPACE_UNKNOWN
        assert bytes(answers[tickets[8]][3]).startswith(b"namespace 9 is not registered")
        assert answers[tickets[9]][:3] == (Status.OK, 0, 0)
        assert answers[tickets[10]][0] == Status.INVALID_ARGUMENT
        assert answers[tickets[11]][:4] == (Status.INVALID_ARGUMENT, 0, 0, b"the session has no region 1")
        assert tickets[5] not in answers
        assert _core.short_statuses(answers[tickets[16]][3]) == [Status.PENDING]
        assert [answers[tickets[at]][2] for at in (12, 14, 15)] == [0, 1, 0]
        assert all(answers[tickets[at]][3] == b"the session has no region 1" for at in (17, 18))
        assert answers[tickets[19]][:3] == (Status.OK, 0, 0)
        assert answers[tickets[20]][0] == Status.INVALID_ARGUMENT
        assert bytes(answers[tickets[20]][3]).startswith(b"the report is about 1 block, expected at most 0")
    finally:
        peer.close()
