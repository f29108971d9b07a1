"""Named buffers that go with a request."""

import array
import hashlib
import random

import pytest
from kvtier_testing.daemon import Daemon

from kvtier import Client, InvalidArgument, KvtierError, NamespaceMismatch, Status
from kvtier.extras import Extra, Extras, pack, unpack

MAX_BYTES = 64 << 10


@pytest.fixture
def extras(client: Client) -> Extras:
    return Extras(client, "model/extras", max_bytes=MAX_BYTES, model="m")


def test_pack_hasTheGoldenBytes() -> None:
    packed = pack({"token": b"\x07\x00\x00\x00", "é": b""}, 64)
    head = "4b5645580100" + "0200" + "0500" + "0400000000000000" + "0200" + "0000000000000000" + b"token".hex() + "c3a9"
    assert packed.hex() == (head + "00" * 13 + "07000000").ljust(128, "0")


def test_buffersOfAnySize_areUnpackedAsTheyWere() -> None:
    chance = random.Random(1)
    for _ in range(300):
        buffers = {f"{number}" * chance.randrange(5): chance.randbytes(chance.randrange(200)) for number in range(chance.randrange(6))}
        assert unpack(bytes(pack(buffers, 2048))) == buffers


def test_changedBytes_areNoBuffers_orOthers_andNeverMoreThanTheBlock() -> None:
    chance = random.Random(2)
    whole = bytes(pack({"hidden": chance.randbytes(40), "token": b"1234"}, 128))
    refused = 0
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(50)] = chance.randrange(256)
        try:
            assert sum(map(len, unpack(bytes(changed)).values())) <= len(whole)
        except ValueError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("block", [b"", b"KVEX", b"KVEX\x02\x00\x00\x00", b"KVEX\x01\x00\x01\x00", bytes(64)])
def test_unpack_otherBytes_areRefused(block: bytes) -> None:
    with pytest.raises(ValueError, match="block"):
        unpack(block)


def test_get_findsWhatWasPut_andNothingAfterForget(extras: Extras) -> None:
    hidden = array.array("f", range(1000))
    assert extras.get("request-1") == Extra(Status.MISS, {})
    assert extras.put("request-1", {"hidden": hidden, "token": b"\x2a"}) is Status.OK
    assert extras.put("request-1", {"token": b"other"}) is Status.EXISTS
    assert extras.put("request-2", {}) is Status.OK
    assert extras.get("request-1") == Extra(Status.OK, {"hidden": hidden.tobytes(), "token": b"\x2a"})
    assert extras.get("request-2") == Extra(Status.OK, {})
    assert extras.forget("request-1") is Status.OK
    assert extras.get("request-1") == Extra(Status.MISS, {})


def test_put_tooManyBytes_saysHowManyFit(extras: Extras) -> None:
    with pytest.raises(InvalidArgument, match=f"buffers of {MAX_BYTES + 32} bytes with their names: expected at most {MAX_BYTES}"):
        extras.put("large", {"hidden": bytes(MAX_BYTES)})
    with pytest.raises(InvalidArgument, match="the name of a buffer has 70000 bytes: expected at most 65535"):
        extras.put("named", {"n" * 70000: b""})
    with pytest.raises(InvalidArgument, match="expected contiguous buffers"):
        extras.put("text", {"token": "forty-two"})
    assert extras.put("fits", {"hidden": bytes(MAX_BYTES - 32)}) is Status.OK


def test_get_blockOfAnotherProgram_isAnErrorThatNamesTheRequest(client: Client, extras: Extras) -> None:
    assert extras.put("mine", {"token": b"1"}) is Status.OK
    other = client.namespace("model/extras", block_bytes=MAX_BYTES, extras=1, model="m")
    assert other.put([hashlib.sha256(b"theirs").digest()], bytes(MAX_BYTES)) == [Status.OK]
    with pytest.raises(KvtierError, match="request theirs in namespace model/extras: the block begins with 0000000000000000"):
        extras.get("theirs")
    assert extras.get("mine").status is Status.OK


def test_otherMaxBytes_areRefused(client: Client, extras: Extras) -> None:
    assert extras.put("one", {}) is Status.OK
    with pytest.raises(NamespaceMismatch):
        Extras(client, "model/extras", max_bytes=2 * MAX_BYTES, model="m")


def test_withoutADaemon_thereAreNone(stopped_daemon: Daemon) -> None:
    with Client(stopped_daemon.socket_path, timeout=5) as client:
        extras = Extras(client, "model/extras", max_bytes=MAX_BYTES)
        assert extras.put("one", {"token": b"1"}) is Status.UNAVAILABLE
        assert extras.get("one") == Extra(Status.UNAVAILABLE, {})
        assert extras.forget("one") is Status.UNAVAILABLE
