"""The object tier with real daemons: shared by several, over restarts, and on the store's bad days."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvtier_testing import blocks
from kvtier_testing import vllm_double as double
from kvtier_testing.daemon import Daemon, eventually
from s3 import BUCKET, AnyS3, BadDay, ElsewhereS3, S3Server

from checks.shared.checkout import ROOT
from kvtier import Client, Namespace, Status, Tier

BLOCK_BYTES = 256 * 1024
# The host tier of the tests' daemon has 64 MiB: half of the blocks fit.
BLOCKS = 400


def key(number: int) -> bytes:
    return blocks.key("object", number)


def content(number: int) -> bytes:
    return blocks.block(key(number), BLOCK_BYTES)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture(scope="module")
def server() -> Iterator[AnyS3]:
    elsewhere = os.environ.get("KVTIER_S3_ENDPOINT")
    if elsewhere is not None:
        yield ElsewhereS3(elsewhere)
        return
    with tempfile.TemporaryDirectory(prefix="kvtier-s3-") as folder:
        started = S3Server(Path(folder))
        started.start()
        yield started
        started.kill()


class Node:
    """A daemon with an object tier, and a client of it."""

    def __init__(self, folder: Path, endpoint: str, prefix: str, **settings: str) -> None:
        folder.mkdir()
        self.daemon = Daemon(folder)
        self.settings = {
            "object__store": "s3",
            "object__s3__endpoint": endpoint,
            "object__s3__bucket": BUCKET,
            "object__s3__prefix": prefix,
            "object__admission": "all",
            "object__directory": str(folder / "object"),
            "object__absent_for": "100ms",
            "object__breaker_open": "100ms",
            "object__breaker_open_max": "200ms",
            "ssd__bytes": "0",
            **settings,
        }

    def start(self, **changed: str) -> "Node":
        self.daemon.start(**{**self.settings, **changed})
        self.client = Client(self.daemon.socket_path, timeout=60)
        self.namespace: Namespace = self.client.namespace("objects", block_bytes=BLOCK_BYTES, model="m")
        return self

    def restart(self, **changed: str) -> "Node":
        self.client.close()
        self.daemon.kill()
        return self.start(**changed)

    def stop(self) -> None:
        self.client.close()
        self.daemon.stop()

    def put(self, numbers: range) -> None:
        for number in numbers:
            assert self.namespace.put([key(number)], [content(number)]) == [Status.OK]

    def found(self, numbers: range, timeout: float = 30) -> list[int]:
        """The blocks that are there; each is held to its content."""
        there = []
        buffer = bytearray(BLOCK_BYTES)
        for number in numbers:
            if self.namespace.get([key(number)], buffer, timeout=timeout).statuses == [Status.OK]:
                assert buffer == content(number), f"wrong bytes in block {number}"
                there.append(number)
        return there

    def count(self, name: str) -> int:
        return self.client.counters()[name]

    def kvtier(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The operator's command."""
        return subprocess.run(
            [str(ROOT / "scripts" / "kvtier"), *words, "--socket", str(self.daemon.socket_path)],
            capture_output=True,
            text=True,
            check=False,
        )

    def log(self) -> str:
        return (self.daemon.folder / "daemon.log").read_text()

    def await_stored(self, blocks_stored: int) -> None:
        assert eventually(lambda: self.count("object_stored") >= blocks_stored, 60)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvtier-") as made:
        yield Path(made)


@pytest.fixture
def nodes(folder: Path, server: AnyS3) -> Iterator[list[Node]]:
    made = [Node(folder / name, server.endpoint, folder.name) for name in "ab"]
    yield made
    for node in made:
        if node.daemon.process is not None:
            node.stop()


PATIENT = {"object__probe_timeout": "20s"}
"""for a daemon that has to answer its first request: on a busy machine it takes more than a second to reach the store"""


def test_whatOneNodeStored_anotherFinds(nodes: list[Node]) -> None:
    a, b = nodes[0].start(), nodes[1].start(**PATIENT)
    a.put(range(50))
    a.await_stored(50)
    assert b.found(range(60)) == list(range(50))
    assert b.count("hits_object") == 50
    assert b.count("misses") == 10
    # Now they are its own, too.
    assert b.found(range(50)) == list(range(50))
    assert b.count("hits_host") == 50
    assert b.count("object_stored") == 0


def test_lookup_neverWaits_andKnowsSoon(nodes: list[Node]) -> None:
    a, b = nodes[0].start(), nodes[1].start()
    a.put(range(10))
    a.await_stored(10)
    keys = [key(number) for number in range(12)]
    first = b.namespace.lookup(keys)
    assert first.statuses == [Status.PENDING] * 12
    assert first.tiers == [Tier.OBJECT] * 12
    assert eventually(lambda: b.namespace.lookup(keys).run == 10)
    known = b.namespace.lookup(keys)
    assert known.tiers[:10] == [Tier.OBJECT] * 10
    assert known.estimated_load_s > 0
    # Blocks behind a hole are of no use to a prompt, and cost it nothing.
    behind = b.namespace.lookup([key(99), *keys[:10]])
    assert behind.run == 0 and behind.estimated_load_s == 0
    assert known.statuses[10] in (Status.MISS, Status.PENDING)
    assert b.count("object_fetched") == 0


def test_coldNode_findsAllOfAPrompt_withItsFirstRequest(folder: Path, server: AnyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    far = BadDay(server.address)
    far.delay_s = 0.02
    warm = Node(folder / "warm", server.endpoint, folder.name).start()
    cold = Node(folder / "cold", far.endpoint, folder.name)
    prompt = list(range(256 * double.BLOCK_TOKENS + 3))
    engines: list[double.Engine] = []

    def engine(node: Node) -> double.Engine:
        # A busy machine has no say in what is found.
        extra = {"kvtier.socket": str(node.daemon.socket_path), "kvtier.lookup_s_max": 60.0, "kvtier.load_timeout_s": 60.0}
        engines.append(double.Engine(double.config(extra), monkeypatch, blocks=300, step_tokens=2000))
        return engines[-1]

    try:
        first = engine(warm)
        first.run(double.Request("first", prompt))
        first.settle()
        warm.await_stored(256)
        far.mode = "slow"
        cold.start()
        second = engine(cold)
        asked = double.Request("second", prompt)
        second.run(asked)
        assert asked.external_tokens == 256 * double.BLOCK_TOKENS
        assert second.stats["loaded_blocks"] == 256
        nobody_has = double.Request("third", prompt[::-1])
        second.run(nobody_has)
        assert nobody_has.external_tokens == 0
    finally:
        for one in engines:
            one.close()
        for node in (warm, cold):
            if node.daemon.process is not None:
                node.stop()
        far.shutdown()
        far.server_close()


def test_prefetch_bringsItUp(nodes: list[Node]) -> None:
    a, b = nodes[0].start(), nodes[1].start()
    a.put(range(10))
    a.await_stored(10)
    keys = [key(number) for number in range(10)]
    assert b.namespace.prefetch(keys) == [Status.OK] * 10
    assert eventually(lambda: b.namespace.lookup(keys).tiers == [Tier.HOST] * 10)


def test_restart_whatIsOnlyInObjectsIsFound(nodes: list[Node]) -> None:
    a = nodes[0].start()
    a.put(range(50))
    a.await_stored(50)
    a.restart()
    assert a.count("found_host") == 0
    assert a.found(range(50)) == list(range(50))
    assert a.count("hits_object") == 50


def test_evicted_allTiers_nothingIsDropped(nodes: list[Node]) -> None:
    a = nodes[0].start(object__admission="evicted", ssd__bytes="32MiB", ssd__file_bytes="8MiB")
    a.put(range(2 * BLOCKS))
    assert a.count("dropped") == 0
    assert a.count("spilled") > 0
    # The latest first: those are still in memory.
    latest_first = range(2 * BLOCKS - 1, -1, -1)
    assert a.found(latest_first) == list(latest_first)
    assert a.count("hits_host") > 0
    assert a.count("hits_ssd") > 0
    assert a.count("hits_object") > 0
    assert a.count("dropped") == 0


def test_evicted_noSsd_nothingIsDropped(nodes: list[Node]) -> None:
    a = nodes[0].start(object__admission="evicted")
    a.put(range(BLOCKS))
    assert a.found(range(BLOCKS)) == list(range(BLOCKS))
    assert a.count("dropped") == 0


def test_flush_noSsd_everythingIsAnObject(nodes: list[Node]) -> None:
    a = nodes[0].start(object__admission="evicted")
    a.put(range(50))
    a.namespace.flush()
    assert a.count("object_stored") == 50


def test_deleted_isGoneForAll(nodes: list[Node]) -> None:
    a, b = nodes[0].start(), nodes[1].start()
    a.put(range(20))
    a.await_stored(20)
    assert a.namespace.delete([key(number) for number in range(0, 20, 2)]) == [Status.OK] * 10
    assert b.found(range(20)) == list(range(1, 20, 2))
    assert a.found(range(20)) == list(range(1, 20, 2))
    # Nobody here has seen these: their objects go all the same.
    b.restart()
    assert len(b.namespace.delete([key(number) for number in range(1, 20, 2)])) == 10
    a.restart()
    assert a.found(range(20)) == []


def test_deletedOnItsWayUp_isGone(nodes: list[Node]) -> None:
    a = nodes[0].start()
    for turn in range(20):
        a.put(range(turn, turn + 1))
        assert a.namespace.delete([key(turn)]) == [Status.OK]
    a.restart()
    assert a.found(range(20)) == []


def test_cleared_isGoneForAll_othersStay(nodes: list[Node], server: AnyS3) -> None:
    a, b = nodes[0].start(), nodes[1].start()
    other = a.client.namespace("another", block_bytes=BLOCK_BYTES, model="m")
    assert other.put([key(0)], [content(0)]) == [Status.OK]
    a.put(range(20))
    a.await_stored(21)
    a.namespace.clear(timeout=30)
    assert b.found(range(20)) == []
    assert sum(nodes[0].settings["object__s3__prefix"] in str(one) for one in server.objects()) == 1
    a.put(range(5))
    a.await_stored(26)
    assert b.found(range(20)) == list(range(5))


def test_nodeKilledAmidUploads_othersFindWholeBlocksOnly(nodes: list[Node]) -> None:
    a, b = nodes[0].start(), nodes[1].start()
    stored = 0
    for turn in range(3):
        numbers = range(100 * turn, 100 * turn + 100)
        a.put(numbers)
        stored += len(b.found(numbers))
        a.restart()
    found = b.found(range(300))
    assert len(found) >= stored > 0


def test_codec_andAnotherCodec_findEachOthersBlocks(nodes: list[Node]) -> None:
    a, b = nodes[0].start(object__codec="zstd"), nodes[1].start(object__codec="planes")
    a.put(range(10))
    b.put(range(10, 20))
    a.await_stored(10)
    b.await_stored(10)
    assert a.found(range(20)) == list(range(20))
    assert b.found(range(20)) == list(range(20))


def test_folder_isShared(folder: Path, nodes: list[Node]) -> None:
    settings = {"object__store": "folder", "object__folder": str(folder / "shared")}
    a, b = nodes[0].start(**settings), nodes[1].start(**settings)
    a.put(range(50))
    a.await_stored(50)
    assert b.found(range(60)) == list(range(50))


def test_serverKilled_getsAreMisses_localTiersGoOn_andItComesBack(folder: Path) -> None:
    server = S3Server(folder / "s3")
    server.start()
    node = Node(folder / "a", server.endpoint, "p", object__load_timeout="2s", object__store_timeout="2s").start()
    try:
        node.put(range(20))
        node.await_stored(20)
        node.restart()
        assert node.found(range(5)) == list(range(5))
        server.kill()
        started = time.monotonic()
        assert node.found(range(5, 20)) == []
        # Once it is known that nobody answers, nobody waits for that.
        assert time.monotonic() - started < 28
        assert node.found(range(5)) == list(range(5))
        node.put(range(100, 120))
        assert node.found(range(100, 120)) == list(range(100, 120))
        server.start()
        assert eventually(lambda: node.found(range(5, 20)) == list(range(5, 20)), 30)
        node.put(range(200, 220))
        stored = node.count("object_stored")
        assert eventually(lambda: node.count("object_stored") >= stored + 1, 30)
    finally:
        node.stop()
        server.kill()


def test_storeThatRefusesForATime_hasTheBlocksLater(folder: Path, server: AnyS3) -> None:
    """A store refuses while credentials have expired, until they are renewed."""
    proxy = BadDay(server.address)
    node = Node(folder / "a", proxy.endpoint, folder.name)
    node.start()
    try:
        proxy.mode = 403
        node.put(range(10))
        assert eventually(lambda: node.count("object_errors") >= 1)
        proxy.mode = "pass"
        assert eventually(lambda: node.namespace.flush(timeout=30).status is Status.OK, 60)
        assert node.count("object_stored") >= 10
    finally:
        node.stop()
        proxy.shutdown()
        proxy.server_close()


@pytest.mark.parametrize(("mode", "reasons"), [(503, {"store_away"}), (403, {"store_away", "refused"})])
def test_droppedWhileTheStoreIsAway_isCountedByItsReason(folder: Path, server: AnyS3, mode: int, reasons: set[str]) -> None:
    proxy = BadDay(server.address)
    node = Node(folder / "a", proxy.endpoint, folder.name).start()
    try:
        proxy.mode = mode
        node.put(range(BLOCKS))
        assert eventually(lambda: node.count("dropped") > 0)
        assert eventually(lambda: sum(node.client.stats()["drops"].values()) == node.count("dropped"))
        assert {reason for reason, count in node.client.stats()["drops"].items() if count} <= reasons
    finally:
        node.stop()
        proxy.shutdown()
        proxy.server_close()


@pytest.mark.parametrize("mode", ["reset", "stall", "truncate", "corrupt", 403, 404, 412, 429, 500, 503])
def test_badDay_getsAreMisses_neverWrongBytes_andItPasses(folder: Path, server: AnyS3, mode: str | int) -> None:
    proxy = BadDay(server.address)
    node = Node(folder / "a", proxy.endpoint, folder.name, object__load_timeout="1s", object__probe_timeout="500ms")
    node.start()
    try:
        node.put(range(20))
        node.await_stored(20)
        node.restart()
        node.put(range(100, 110))
        keys = [key(number) for number in range(20)]
        assert eventually(lambda: node.namespace.lookup(keys).run == 20)
        proxy.mode = mode
        assert node.found(range(20), timeout=5) == []
        assert node.found(range(100, 110)) == list(range(100, 110))
        proxy.mode = "pass"
        assert eventually(lambda: node.found(range(20)) == list(range(20)), 30)
    finally:
        node.stop()
        proxy.shutdown()
        proxy.server_close()


def test_slowDay_blocksStillCome(folder: Path, server: AnyS3) -> None:
    proxy = BadDay(server.address)
    node = Node(folder / "a", proxy.endpoint, folder.name, object__load_timeout="20s", object__probe_timeout="5s").start()
    try:
        node.put(range(5))
        node.await_stored(5)
        node.restart()
        proxy.mode = "slow"
        assert node.found(range(5)) == list(range(5))
    finally:
        node.stop()
        proxy.shutdown()
        proxy.server_close()


def test_noSuchBucket_isSaid_andLocalTiersServe(nodes: list[Node]) -> None:
    a = nodes[0].start(object__s3__bucket="nobody-made-it")
    a.put(range(10))
    assert a.found(range(20), timeout=5) == list(range(10))
    log = (a.daemon.folder / "daemon.log").read_text()
    assert "nobody-made-it" in log and "does not answer as it should" in log


def test_restart_whatItStored_isKnownWithoutAsking(folder: Path, server: AnyS3) -> None:
    proxy = BadDay(server.address)
    node = Node(folder / "a", proxy.endpoint, folder.name, object__probe_timeout="60s").start()
    try:
        node.put(range(20))
        node.await_stored(20)
        # The node writes its known objects a moment later.
        time.sleep(1)
        proxy.mode = "stall"
        node.restart()
        keys = [key(number) for number in range(20)]
        assert eventually(lambda: node.namespace.lookup(keys).run == 20)
        node.restart(object__ledger_bytes="0")
        assert node.namespace.lookup(keys).run == 0
    finally:
        node.stop()
        proxy.shutdown()
        proxy.server_close()


def key_file(folder: Path, name: str, mode: int = 0o600) -> str:
    path = folder / name
    path.write_bytes(os.urandom(32))
    path.chmod(mode)
    return str(path)


def test_encrypted_nobodyReadsThemWithoutTheKey(folder: Path, nodes: list[Node], server: AnyS3) -> None:
    first, second = key_file(folder, "first"), key_file(folder, "second")
    a = nodes[0].start(object__encryption__key_file=first)
    plain = b"known to the thief" * 20_000
    assert a.namespace.put([key(1000)], [plain[:BLOCK_BYTES]]) == [Status.OK]
    a.put(range(10))
    a.await_stored(11)
    stored = [one.read_bytes() for one in server.objects() if nodes[0].settings["object__s3__prefix"] in str(one)]
    assert len(stored) >= 11
    assert not any(b"known to the thief" in one for one in stored)
    b = nodes[1].start(object__encryption__key_file=second)
    assert b.found(range(10)) == []
    b.restart()
    assert b.found(range(10)) == []
    b.restart(object__encryption__key_file=second, object__encryption__read_key_files=first, **PATIENT)
    assert b.found(range(10)) == list(range(10))


def test_keyFileOfOthers_isRefused(folder: Path, nodes: list[Node]) -> None:
    with pytest.raises(pytest.fail.Exception, match="chmod 600"):
        nodes[0].start(object__encryption__key_file=key_file(folder, "key", 0o644))


def test_gc_holdsTheCap_andDuCounts(nodes: list[Node]) -> None:
    a = nodes[0].start(object__bytes="10MiB", object__gc_grace="1ms")
    a.put(range(100))
    a.await_stored(100)
    time.sleep(1.1)  # the store tells times in seconds
    counted = json.loads(a.kvtier("object", "du", "--json").stdout)
    assert counted["state"] == "done"
    assert counted["namespaces"][0]["objects"] == 100
    collected = a.kvtier("object", "gc", "--yes", "--json")
    assert collected.returncode == 0, collected.stderr
    report = json.loads(collected.stdout)
    assert report["left"]["bytes"] <= 10 << 20
    assert report["deleted"]["objects"] >= 60
    a.restart()
    assert 20 < len(a.found(range(100))) <= 40
    assert "namespace" in a.kvtier("object", "du").stdout


def test_putAgainAfterGc_isKept(nodes: list[Node]) -> None:
    a = nodes[0].start(object__bytes="8MiB", object__gc_grace="1ms", object__admission="evicted")
    a.put(range(BLOCKS))
    assert a.found(range(BLOCKS)) == list(range(BLOCKS))
    time.sleep(1.1)  # the store tells times in seconds
    assert a.kvtier("object", "gc", "--yes").returncode == 0
    dropped = a.count("dropped")
    gone = [number for number in range(BLOCKS) if number not in a.found(range(number, number + 1))]
    assert len(gone) > 100
    for number in gone[:100]:
        a.put(range(number, number + 1))
    assert a.count("dropped") == dropped
    assert [number for number in gone[:100] if a.found(range(number, number + 1)) == []] == []


def test_anotherStore_nothingIsRememberedOfTheFirst(folder: Path, nodes: list[Node]) -> None:
    settings = {"object__store": "folder", "object__folder": str(folder / "first")}
    a = nodes[0].start(**settings)
    a.put(range(20))
    a.await_stored(20)
    time.sleep(1)
    a.restart(**{**settings, "object__folder": str(folder / "second")})
    assert eventually(lambda: a.namespace.lookup([key(0)]).statuses == [Status.MISS])
    a.put(range(20))
    a.await_stored(20)


def test_verify_findsTheDamagedObject(nodes: list[Node], server: AnyS3) -> None:
    a = nodes[0].start()
    a.put(range(10))
    a.await_stored(10)
    assert a.kvtier("object", "verify").returncode == 0
    damaged = [
        one
        for one in server.objects()
        if nodes[0].settings["object__s3__prefix"] in str(one) and one.stat().st_size > BLOCK_BYTES
    ][3]
    content_of_it = bytearray(damaged.read_bytes())
    content_of_it[100_000] ^= 1
    damaged.write_bytes(content_of_it)
    asked = a.kvtier("object", "verify", "--delete")
    assert asked.returncode == 2 and "add --yes" in asked.stderr
    found = a.kvtier("object", "verify", "--json")
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert report["corrupt"]["objects"] == 1 and len(report["corrupt_names"]) == 1
    a.kvtier("object", "verify", "--delete", "--yes")
    assert a.kvtier("object", "verify").returncode == 0
    a.restart()
    assert len(a.found(range(10))) == 9


def test_objectCommand_wrongWords_areExplained(nodes: list[Node]) -> None:
    a = nodes[0].start()
    wrong = a.kvtier("object", "defrag")
    assert wrong.returncode == 2 and "expected gc, du" in wrong.stderr
    for words, expected in {
        ("verify", "most"): "no fraction",
        ("verify", "2"): "not 2.0",
        ("gc", "now"): "expected gc, du",
        ("remove-namespace",): "remove-namespace needs --namespace NAME",
        ("remove-namespace", "objects"): "remove-namespace needs --namespace NAME",
        ("du", "--namespace", "objects"): "--namespace is for remove-namespace only",
    }.items():
        wrong = a.kvtier("object", *words)
        assert wrong.returncode == 2 and expected in wrong.stderr
    idle = a.kvtier("object", "cancel")
    assert idle.returncode == 1 and "no task is under way" in idle.stderr


def test_removeNamespace_byItsName_othersStay(nodes: list[Node]) -> None:
    a = nodes[0].start()
    other = a.client.namespace("the others", block_bytes=BLOCK_BYTES)
    a.put(range(10))
    assert other.put([key(0)], [content(0)]) == [Status.OK]
    a.await_stored(11)
    unknown = a.kvtier("object", "remove-namespace", "--namespace", "nobodys", "--yes")
    assert unknown.returncode == 1 and "knows no namespace 'nobodys'" in unknown.stderr
    assert a.kvtier("object", "remove-namespace", "--namespace", "the others", "--yes").returncode == 0
    counted = json.loads(a.kvtier("object", "du", "--json").stdout)["namespaces"]
    assert [(one["name"], one["objects"]) for one in counted] == [("objects", 10)]
    shown = json.loads(a.kvtier("tiers", "--json").stdout)
    assert counted[0]["namespace"] in [one["fingerprint"] for one in shown["namespaces"]]
    assert shown["object"]["store"].startswith("s3://")
    assert a.kvtier("object", "remove-namespace", "--namespace", counted[0]["namespace"], "--yes").returncode == 0
    assert "objects" not in a.kvtier("object", "du").stdout


def test_folderGone_isSaidOnce_andDuFails_andItComesBack(folder: Path, nodes: list[Node]) -> None:
    shared = folder / "shared"
    a = nodes[0].start(object__store="folder", object__folder=str(shared))
    a.put(range(20))
    a.await_stored(20)
    shared.rename(folder / "elsewhere")
    a.put(range(20, 60))
    gone = f"the folder {shared} takes no blocks: the folder {shared} is gone"
    assert eventually(lambda: gone in a.log())
    status = a.kvtier("status").stdout
    assert f"the object store does not answer: the folder {shared} is gone" in status
    counted = a.kvtier("object", "du")
    assert counted.returncode == 1 and f"the folder {shared} is gone" in counted.stdout
    (folder / "elsewhere").rename(shared)

    def comes_back() -> bool:
        a.namespace.delete([key(1000)])
        a.put(range(1000, 1001))
        return f"the folder {shared} takes blocks again" in a.log()

    assert eventually(comes_back, 30)
    assert a.log().count(gone) == 1
    assert "does not answer" not in a.kvtier("status").stdout
    assert a.kvtier("object", "du").returncode == 0


def test_folderThatCantBe_isRefusedInWords(folder: Path, nodes: list[Node]) -> None:
    for place, expected in {
        str(folder / "not-mounted" / "kvtier"): f"'{folder}/not-mounted' does not exist: is its file system mounted?",
        "/proc/x": "'/proc' takes no folders",
    }.items():
        with pytest.raises(pytest.fail.Exception) as refused:
            nodes[0].start(object__store="folder", object__folder=place)
        assert f"object.folder '{place}' can't be used: {expected}" in str(refused.value)
    assert not (folder / "not-mounted").exists()


def test_directoryOfAnotherDaemon_isRefused_andNoMemoryIsKept(nodes: list[Node]) -> None:
    a, b = nodes
    a.start(object__node="a")
    directory = a.settings["object__directory"]
    state = b.daemon.folder / "state"
    with pytest.raises(pytest.fail.Exception) as refused:
        b.start(object__s3__prefix=a.settings["object__s3__prefix"], object__directory=directory, host__keep="10min", host__directory=str(state))
    assert f"object.directory '{directory}' can't be used: ledger in '{directory}" in str(refused.value)
    assert "is in use by another daemon" in str(refused.value)
    assert not state.exists()
