"""Blocks from the memory of other nodes' daemons: found, fetched and verified, on good days and on bad ones."""

import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kvtier_testing import blocks
from kvtier_testing.certificates import certificate
from kvtier_testing.counts import slots_balance
from kvtier_testing.daemon import PROGRAMS, Daemon, eventually
from kvtier_testing.process import free_ports

from checks.attacks.node_frames import MAGIC
from kvtier import Client, Namespace, Status, Tier, remote

BLOCK_BYTES = 256 * 1024
NAME = "nodes"


class Node:
    """A daemon that serves other nodes and reads from them, and a client of it."""

    def __init__(self, folder: Path, port: int, ports: list[int], **settings: str) -> None:
        folder.mkdir()
        self.daemon = Daemon(folder)
        self.port = port
        self.settings = {
            "ssd__bytes": "0",
            "nodes__name": folder.name,
            "nodes__listen": f"127.0.0.1:{port}",
            "nodes__peers": ",".join(f"127.0.0.1:{one}" for one in ports),
            **settings,
        }

    def start(self, **changed: str) -> "Node":
        self.daemon.start(**{**self.settings, **changed})
        self.client = Client(self.daemon.socket_path, timeout=60)
        self.namespace: Namespace = self.client.namespace("nodes", block_bytes=BLOCK_BYTES, model="m")
        return self

    def stop(self) -> None:
        self.client.close()
        self.daemon.stop()

    def put(self, count: int) -> list[bytes]:
        keys = blocks.keys(NAME, count)
        assert self.namespace.put(keys, blocks.blocks(keys, BLOCK_BYTES)) == [Status.OK] * count
        return keys

    def get(self, keys: list[bytes], timeout: float = 30) -> list[Status]:
        buffer = bytearray(BLOCK_BYTES * len(keys))
        statuses = list(self.namespace.get(keys, buffer, timeout=timeout).statuses)
        assert blocks.wrong_blocks(keys, statuses, buffer) == []
        return statuses

    def count(self, name: str) -> int:
        return self.client.counters()[name]

    def states(self) -> dict[int, str]:
        """The state of each peer, by its port."""
        told = self.daemon.command("nodes", "--json")
        assert told.returncode == 0, told.stderr
        return {int(peer["address"].rpartition(":")[2]): peer["state"] for peer in json.loads(told.stdout)["peers"]}

    def is_connected_to(self, *others: "Node") -> bool:
        states = self.states()
        return all(states.get(other.port) == "connected" for other in others)

    def transports(self) -> set[str]:
        """How the blocks of the others come."""
        peers = json.loads(self.daemon.command("nodes", "--json").stdout)["peers"]
        return {str(peer["transport"]) for peer in peers if peer["state"] == "connected"}

    def block_bytes(self) -> dict[str, dict[str, int]]:
        """The bytes of blocks that came and went, by transport."""
        moved: dict[str, dict[str, int]] = json.loads(self.daemon.command("nodes", "--json").stdout)["block_bytes"]
        return moved

    def incarnation_of(self, other: "Node") -> str:
        told = json.loads(self.daemon.command("nodes", "--json").stdout)
        return next(str(peer["incarnation"]) for peer in told["peers"] if peer["address"].endswith(f":{other.port}"))


PLAINTEXT = {"nodes__security": "plaintext_without_tokens"}
UCX_LIBRARY = Path(__file__).parents[1] / "target/ucx/libucx/lib/libucp.so.0"


@pytest.fixture
def ucx(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings of nodes whose blocks go by UCX."""
    if not UCX_LIBRARY.exists() and "KVTIER_TESTS_NEED_UCX" not in os.environ:
        pytest.skip("scripts/test has not installed UCX in target/ucx")
    # The daemons are on one machine, and UCX must not use its memory.
    monkeypatch.setenv("UCX_TLS", "tcp")
    return {"nodes__transport": "ucx", "nodes__ucx_library": str(UCX_LIBRARY), **PLAINTEXT}


def finding(folder: Path, count: int, **settings: str) -> list[Node]:
    """Nodes that find each other: the port for members of the first is the seed of all. None has started."""
    ports = free_ports(2 * count)
    return [
        Node(
            folder / f"node-{number}",
            ports[number],
            [],
            **{
                "nodes__membership": "list",
                "nodes__member_listen": f"127.0.0.1:{ports[count + number]}",
                "nodes__seeds": f"127.0.0.1:{ports[count]}",
                **settings,
            },
        )
        for number in range(count)
    ]


@contextlib.contextmanager
def cluster(folder: Path, count: int, **settings: str) -> Iterator[list[Node]]:
    ports = free_ports(count)
    nodes = [Node(folder / f"node-{number}", port, ports, **settings) for number, port in enumerate(ports)]
    with contextlib.ExitStack() as started:
        for node in nodes:
            node.start()
            started.callback(node.stop)
        for node in nodes:
            assert eventually(lambda node=node: node.is_connected_to(*(each for each in nodes if each is not node)))
        yield nodes


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folders: their names are too long for a socket.
    with tempfile.TemporaryDirectory(prefix="kvtier-") as made:
        yield Path(made)


def test_threeNodes_readEachOthersBlocks(folder: Path) -> None:
    with cluster(folder, 3, **PLAINTEXT) as (first, second, third):
        keys = first.put(40)
        assert eventually(lambda: second.namespace.lookup(keys).run == len(keys), 10)
        assert second.namespace.lookup(keys).tiers == [Tier.NODE] * len(keys)
        assert second.get(keys) == [Status.OK] * len(keys)
        assert second.count("hits_node") == second.count("node_fetched") == len(keys)
        assert second.count("node_read_bytes") == len(keys) * BLOCK_BYTES
        assert second.namespace.lookup(keys).tiers == [Tier.HOST] * len(keys)
        # A get asks by itself.
        assert third.get(keys) == [Status.OK] * len(keys)
        assert first.count("node_served") + second.count("node_served") == 2 * len(keys)
        # What no node has is a miss, and what a node gets to know later is found.
        missing = [blocks.key(NAME, 1000)]
        assert third.get(missing) == [Status.MISS]
        first.namespace.put(missing, blocks.blocks(missing, BLOCK_BYTES))
        assert eventually(lambda: third.get(missing) == [Status.OK], 10)
        for node in (first, second, third):
            assert eventually(lambda node=node: slots_balance(node.client.counters()))
            assert node.count("corrupt") == node.count("node_errors") == 0


def test_routers_findTheNodesThatHaveMost(folder: Path) -> None:
    with cluster(folder, 3, **PLAINTEXT) as (first, second, third):
        grpc_port, http_port = free_ports(2)
        third.stop()
        third.start(grpc__enabled="true", grpc__port=str(grpc_port), http__enabled="true", http__port=str(http_port))
        assert eventually(lambda: third.is_connected_to(first, second))
        keys = first.put(12)
        assert second.get(keys[:5]) == [Status.OK] * 5
        expected = {"node-0": (12, 12), "node-1": (5, 5)}
        # Over the socket, over HTTP and over gRPC, from the node that has none of the blocks.
        words = ["nodes", "find", "--namespace", "nodes", *(key.hex() for key in keys)]
        told = third.daemon.command(*words, "--json")
        assert told.returncode == 0, told.stderr
        assert _holds(json.loads(told.stdout)["nodes"]) == expected
        assert "node-0" in third.daemon.command(*words).stdout
        query = urllib.parse.urlencode({"namespace": "nodes", "keys": ",".join(key.hex() for key in keys)})
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/api/v1/nodes/find?{query}", timeout=30) as answer:
            nodes = json.load(answer)["nodes"]
        assert _holds(nodes) == expected
        assert list(_holds(nodes)) == ["node-0", "node-1"]  # the best first
        with remote.Client(f"grpc://127.0.0.1:{grpc_port}", timeout=30) as client:
            namespace = client.namespace("nodes", block_bytes=BLOCK_BYTES, model="m")
            found = namespace.find_nodes(keys)
            assert found.status is Status.OK
            assert {node.name: (node.run, node.memory_run) for node in found.nodes} == expected
            assert len(namespace.find_nodes(keys, limit=1).nodes) == 1
            assert namespace.find_nodes(blocks.keys("absent", 2)).nodes == []
        told = subprocess.run(
            [str(PROGRAMS / "kvtier"), *words, "--json", "--address", f"grpc://127.0.0.1:{grpc_port}"],
            capture_output=True, text=True, check=False,
        )
        assert told.returncode == 0, told.stderr
        assert _holds(json.loads(told.stdout)["nodes"]) == expected
        # Nothing was looked up, leased or fetched.
        assert third.count("node_fetched") == third.count("lookup_blocks") == 0
        assert third.daemon.command("nodes", "find", "--namespace", "other", keys[0].hex()).returncode == 1


def test_directory_blocksAreFoundWithoutAskingAll(folder: Path) -> None:
    with cluster(folder, 3, nodes__directory="on", nodes__directory_bytes="1MiB", **PLAINTEXT) as (first, second, third):
        keys = first.put(40)
        assert eventually(lambda: second.namespace.lookup(keys).run == len(keys), 20)
        assert second.get(keys[:20]) == [Status.OK] * 20
        assert eventually(lambda: third.get(keys) == [Status.OK] * len(keys), 20)
        entries = [json.loads(node.daemon.command("nodes", "--json").stdout)["directory"] for node in (first, second, third)]
        assert [part["nodes"] for part in entries] == [3] * 3
        assert all(part["entries"] for part in entries)
        # A node that was killed and is back, with other blocks, is known by these.
        first.client.close()
        first.daemon.kill()
        first.start()
        assert eventually(lambda: second.is_connected_to(first) and third.is_connected_to(first))
        others = blocks.keys("others", 30)
        assert first.namespace.put(others, blocks.blocks(others, BLOCK_BYTES)) == [Status.OK] * 30
        assert eventually(lambda: second.namespace.lookup(others).run == len(others), 20)
        words = ["nodes", "find", "--namespace", "nodes", *(key.hex() for key in others)]
        assert eventually(lambda: "node-0" in third.daemon.command(*words).stdout, 20)
        assert second.count("corrupt") == third.count("corrupt") == 0


def _holds(nodes: list[dict[str, object]]) -> dict[object, tuple[object, object]]:
    return {node["node"]: (node["run"], node["memory_run"]) for node in nodes}


def test_killedNode_isAMissAtOnce_andIsReadAgainAfterItsRestart(folder: Path) -> None:
    with cluster(folder, 2, nodes__fetch_timeout="20s", **PLAINTEXT) as (first, second):
        keys = first.put(20)
        assert eventually(lambda: second.namespace.lookup(keys).run == len(keys), 10)
        first.client.close()
        first.daemon.kill()
        # Hints are no truth: the blocks are gone, and the gets end long before their deadline.
        begun = time.monotonic()
        assert second.get(keys, timeout=30) == [Status.MISS] * len(keys)
        assert time.monotonic() - begun < 10
        first.start()
        assert eventually(lambda: second.is_connected_to(first))
        assert first.put(20) == keys
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        assert eventually(lambda: slots_balance(second.client.counters()))
        assert second.count("corrupt") == 0


def test_silentNode_isAMissAfterItsTimeout_andFreesAllSlots(folder: Path) -> None:
    with cluster(folder, 2, nodes__fetch_timeout="500ms", **PLAINTEXT) as (first, second):
        keys = first.put(20)
        assert eventually(lambda: second.namespace.lookup(keys).run == len(keys), 10)
        first.daemon.pause()
        try:
            begun = time.monotonic()
            assert second.get(keys, timeout=30) == [Status.MISS] * len(keys)
            assert time.monotonic() - begun < 10
            assert eventually(lambda: slots_balance(second.client.counters()))
        finally:
            first.daemon.signal(signal.SIGCONT)
        assert eventually(lambda: second.is_connected_to(first))
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)


def test_nodeThatFallsSilentWhileItsBlocksComeByUcx_isAMissAfterItsTimeout_andFreesAllSlots(folder: Path, ucx: dict[str, str]) -> None:
    with cluster(folder, 2, nodes__fetch_timeout="500ms", host__bytes="256MiB", **ucx) as (first, second):
        keys = first.put(800)
        assert eventually(lambda: second.transports() == {"ucx"})
        statuses: list[Status] = []
        with ThreadPoolExecutor(1) as pool:
            # On a fast machine, all blocks can come before the node stops.
            for _ in range(20):
                if Status.MISS in statuses:
                    break
                second.namespace.clear()
                assert eventually(lambda: second.namespace.lookup(keys).run == len(keys), 20)
                fetched = second.count("node_fetched")
                reading = pool.submit(second.get, keys)
                assert eventually(lambda: second.count("node_fetched") > fetched)
                first.daemon.pause()
                try:
                    statuses = reading.result()
                    assert eventually(lambda: slots_balance(second.client.counters()))
                finally:
                    first.daemon.signal(signal.SIGCONT)
        assert set(statuses) == {Status.OK, Status.MISS}
        moved = second.block_bytes()
        assert moved["ucx"]["received"] > 0 and moved["tcp"] == {"received": 0, "sent": 0} and first.block_bytes()["ucx"]["sent"] > 0
        assert second.count("corrupt") == 0
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        assert eventually(lambda: slots_balance(first.client.counters()))


def test_threeNodes_findEachOtherFromOneSeed_andAKilledOneLeavesAndComesBack(folder: Path) -> None:
    nodes = finding(folder, 3, **PLAINTEXT)
    first, second, third = nodes
    with contextlib.ExitStack() as started:
        for node in nodes:
            begun = time.monotonic()
            node.start()
            started.callback(node.stop)
            # It serves before it has found anybody.
            assert node.get([blocks.key(NAME, 1000)]) == [Status.MISS]
            assert time.monotonic() - begun < 20
        for node in nodes:
            assert eventually(lambda node=node: node.is_connected_to(*(each for each in nodes if each is not node)), 60)
        keys = second.put(20)
        assert eventually(lambda: third.get(keys) == [Status.OK] * len(keys), 20)
        before = first.incarnation_of(third)
        third.client.close()
        third.daemon.kill()
        assert eventually(lambda: third.port not in first.states() and third.port not in second.states(), 30)
        assert first.count("nodes") == second.count("nodes") == 1
        assert first.count("nodes_left") >= 1
        # Gets go on, and the blocks of the other node are found.
        assert eventually(lambda: first.get(keys) == [Status.OK] * len(keys), 20)
        third.start()
        assert eventually(lambda: first.is_connected_to(third) and second.is_connected_to(third), 60)
        assert first.incarnation_of(third) != before
        assert eventually(lambda: third.get(keys) == [Status.OK] * len(keys), 20)
        assert "members" in third.daemon.command("nodes").stdout
        for node in nodes:
            assert eventually(lambda node=node: slots_balance(node.client.counters()))
            assert node.count("corrupt") == 0


def make_token(file: Path, *more: str) -> str:
    made = subprocess.run(
        [str(PROGRAMS / "kvtier"), "token", "make", "--name", "node", "--file", str(file), "--role", "read", *more],
        capture_output=True,
        text=True,
        check=True,
    )
    return next(word for word in made.stdout.split() if word.startswith("kvt_"))


def secure_settings(folder: Path) -> dict[str, str]:
    """Settings of nodes that share a certificate, which is its own authority, and a token."""
    (folder / "tls").mkdir()
    mine, key = certificate(folder / "tls")
    tokens = folder / "tokens"
    shown = folder / "token"
    shown.write_text(make_token(tokens))
    return {
        "tls__certificate": str(mine),
        "tls__key": str(key),
        "nodes__ca": str(mine),
        "access__tokens": str(tokens),
        "nodes__token_file": str(shown),
    }


def test_nodesWithCertificatesAndTokens_trustEachOther_andNobodyElse(folder: Path) -> None:
    (folder / "other").mkdir()
    other, other_key = certificate(folder / "other")
    secure = secure_settings(folder)
    with cluster(folder, 2, **secure) as (first, second):
        keys = first.put(20)
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        second.stop()
        wrong = folder / "wrong"
        wrong.write_text("kvt_" + "a" * 43)
        for change, state in (
            ({"nodes__token_file": str(wrong)}, "refused"),
            ({"tls__certificate": str(other), "tls__key": str(other_key)}, "unreachable"),
            ({"nodes__ca": str(other)}, "unreachable"),
            ({"nodes__security": "plaintext_without_tokens"}, "unreachable"),
        ):
            refused = first.count("node_refused")
            second.start(**change)
            assert eventually(lambda state=state: second.states()[first.port] == state), change
            assert eventually(lambda refused=refused: first.count("node_refused") > refused), change
            assert second.get(keys[:1]) == [Status.MISS]
            second.stop()
        second.start()
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)


def said_to(port: int, words: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """Says something to a node, and returns what comes until the node hangs up."""
    heard = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError), socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
        with context.wrap_socket(plain) if context else plain as channel:
            channel.sendall(words)
            while more := channel.recv(1 << 16):
                heard += more
    return heard


def frame_of(kind: int, body: bytes = b"", receiver: int = 0) -> bytes:
    return struct.pack("<IIQQQIIIIQQ", MAGIC, kind, 7, receiver, 1, len(body), 0, 0, 0, 0, 0) + body


def hello(token: str = "") -> bytes:
    return frame_of(1, struct.pack("<I", 4) + b"node" + struct.pack("<I", len(token)) + token.encode())


def test_nodeWithoutACertificate_hearsNothing_andIsCounted(folder: Path) -> None:
    secure = secure_settings(folder)
    with cluster(folder, 1, **secure) as (only,):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        token = Path(secure["nodes__token_file"]).read_text()
        refused = only.count("node_refused")
        assert said_to(only.port, hello(token), context) == b""
        assert eventually(lambda: only.count("node_refused") == refused + 1)
        # A node with the certificate is answered with WELCOME: only the certificate was missing.
        context.load_cert_chain(secure["tls__certificate"], secure["tls__key"])
        with socket.create_connection(("127.0.0.1", only.port), timeout=20) as plain, context.wrap_socket(plain) as channel:
            channel.sendall(hello(token))
            assert struct.unpack_from("<II", channel.recv(1 << 16)) == (MAGIC, 2)
        assert only.count("node_refused") == refused + 1


def test_nodeWithTheTokenOfAnotherTenant_seesNoBlock(folder: Path) -> None:
    secure = {**secure_settings(folder), "tenants": "name=blue"}
    blue = folder / "blue"
    blue.write_text(make_token(Path(secure["access__tokens"]), "--tenant", "blue"))
    with cluster(folder, 2, **secure) as (first, second):
        keys = first.put(5)
        second.stop()
        second.start(nodes__token_file=str(blue))
        assert eventually(lambda: second.is_connected_to(first))
        assert second.get(keys) == [Status.MISS] * len(keys)
        assert first.count("node_served") == 0
        second.stop()
        second.start()
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)


class Recorder:
    """Stands between a node and those that connect to it, and keeps what they have said."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.said: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                came, _ = self._listening.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                self.said.append(bytearray())
                threading.Thread(target=self._pass, args=(came, there, self.said[-1]), daemon=True).start()
                threading.Thread(target=self._pass, args=(there, came, bytearray()), daemon=True).start()

    @staticmethod
    def _pass(source: socket.socket, to: socket.socket, said: bytearray) -> None:
        with contextlib.suppress(OSError):
            while more := source.recv(1 << 16):
                said += more
                to.sendall(more)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listening.close()


def test_handshakeThatIsSaidAgain_isRefused_andCounted(folder: Path) -> None:
    with cluster(folder, 2, **secure_settings(folder)) as (first, second), contextlib.closing(Recorder(first.port)) as between:
        keys = first.put(5)
        second.stop()
        second.start(nodes__peers=f"127.0.0.1:{between.port}")
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        second.stop()
        served, refused = first.count("node_served"), first.count("node_refused")
        assert between.said
        for words in between.said:
            # The handshake, HELLO and requests, byte for byte.
            heard = said_to(first.port, bytes(words))
            assert struct.pack("<I", MAGIC) not in heard
        assert eventually(lambda: first.count("node_refused") == refused + len(between.said))
        assert first.count("node_served") == served
        second.start()


def test_garbageOfANodeThatWasLetIn_endsItsConnection_andLeavesNothing(folder: Path) -> None:
    with cluster(folder, 2, nodes__tokenless_role="write", nodes__directory="on", nodes__directory_bytes="1MiB", **PLAINTEXT) as (first, second):
        keys = first.put(5)
        assert eventually(lambda: second.get(keys) == [Status.OK] * len(keys), 20)
        start = int(second.incarnation_of(first), 16)
        pong = struct.pack("<II", MAGIC, 11)
        huge = struct.pack("<QQIIII", 1, 2, 0, 8, 1 << 30, 0)
        refused = (
            (4, b""),  # ASK without keys
            (4, huge + bytes(64)),
            (4, struct.pack("<QQIIII", 1, 2, 0, 33, 1, 0) + bytes(33)),  # a key that is too long
            (4, struct.pack("<QQIIII", 1, 2, 0, 8, (1 << 32) - 1, 0)),
            (6, struct.pack("<QQIIII", 1, 2, 0, 8, 1, (1 << 32) - 1) + bytes(8)),  # FETCH of a negative length
            (6, b"\0" * 31),
            (6, struct.pack("<QQIIII", 1, 2, 0, 8, 65, 4096) + bytes(8 * 65)),  # more blocks than one FETCH may name
            (6, struct.pack("<QQIIII", 1, 2, 0, 8, 64, 4096) + bytes(8 * 63)),
            (9, b""),  # RELEASE of no lease
            (9, bytes(12)),
            (9, bytes(8 * 65)),
            (12, bytes(15)),  # SPACE
            (13, bytes(40)),  # RESERVE
            (20, bytes(7)),  # ANNOUNCE
            (20, struct.pack("<q", -1)),
            (20, bytes(8 * 4098)),
            (22, b""),  # LOCATE
            (22, bytes(8 * 2049)),
            (2, b""),  # WELCOME, which only a holder says
            (7, b""),  # BLOCK
            (21, b""),  # NOTED
        )
        harmless = (
            (13, struct.pack("<IIQ", 3, 1, 99) + struct.pack("<QQIIII", 1, 2, 0, 8, 1, (1 << 31) - 1) + bytes(8)),
            (17, b""),  # PUSH of nothing that was reserved
            (19, bytes(9)),  # ABORT
        )
        noise = (12, bytes(16) + os.urandom(64))  # SPACE, which the node may refuse or answer
        for kind, body in (*refused, *harmless, noise):
            heard = b""
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", first.port), timeout=20) as node:
                node.sendall(hello())
                assert node.recv(1 << 16)[:8] == struct.pack("<II", MAGIC, 2), "it was let in"
                node.sendall(frame_of(kind, body, start) + frame_of(10, b"", start))
                # Either the node answers the PING behind the frame, or it hangs up.
                while pong not in heard and (more := node.recv(1 << 16)):
                    heard += more
            assert (kind, body) == noise or (pong in heard) == ((kind, body) in harmless), (kind, len(body))
            first.daemon.command("status").check_returncode()
        counters = first.client.counters()
        assert eventually(lambda: slots_balance(first.client.counters())), counters
        assert counters["reservations"] == 0
        assert second.get(keys) == [Status.OK] * len(keys)
        assert first.get(keys) == [Status.OK] * len(keys)


def test_attackers_areCutOff_counted_andLockNobodyOut(folder: Path) -> None:
    with cluster(folder, 2, nodes__connections="20", **PLAINTEXT) as (first, second):
        keys = first.put(5)
        refused = first.count("node_refused")
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n" + bytes(100),
            os.urandom(4096),
            struct.pack("<IIQQQIIIIQQ", MAGIC, 1, 7, 0, 1, 1 << 30, 0, 0, 0, 0, 0),
            struct.pack("<IIQQQIIIIQQ", MAGIC, 7, 7, 0, 1, 0, 1 << 30, 0, 0, 0, 0),
            frame_of(99),
            frame_of(1),
        ):
            with socket.create_connection(("127.0.0.1", first.port)) as attacker:
                attacker.sendall(garbage)
                attacker.settimeout(20)
                with contextlib.suppress(ConnectionResetError):
                    assert attacker.recv(1 << 16) == b""
        assert eventually(lambda: first.count("node_refused") >= refused + 6)
        with contextlib.ExitStack() as held:
            for _ in range(200):
                held.enter_context(socket.create_connection(("127.0.0.1", first.port)))
            assert second.get(keys) == [Status.OK] * len(keys)
            assert second.is_connected_to(first)
        descriptors = len(os.listdir(f"/proc/{first.daemon.pid}/fd"))
        assert descriptors < 200


def test_nodesAreOff_byDefault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "plain").mkdir()
    loaded = folder / "classes"
    monkeypatch.setenv("KVTIERD_JAVA_OPTS", f"-Xlog:class+load:file={loaded}")
    daemon = Daemon(folder / "plain")
    daemon.start()
    try:
        names = {task.joinpath("comm").read_text().strip() for task in Path(f"/proc/{daemon.pid}/task").iterdir()}
        assert not any(name.startswith(("kvtier-node", "kvtier-member", "jgroups")) for name in names)
        # The library that finds nodes is not even loaded.
        classes = loaded.read_text()
        assert "io.kvtier.daemon.Daemon" in classes
        assert "org.jgroups" not in classes
        assert "nodes" in daemon.command("nodes").stderr
    finally:
        daemon.stop()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nodes__listen": "127.0.0.1:0"}, "nodes.ca"),
        ({"nodes__peers": "127.0.0.1"}, "nodes.peers"),
        ({"nodes__listen": "127.0.0.1:1", "nodes__membership": "list", "nodes__member_listen": "127.0.0.1:2", **PLAINTEXT}, "nodes.seeds"),
        ({"nodes__listen": "127.0.0.1:0", "nodes__security": "none"}, "plaintext_without_tokens"),
    ],
)
def test_configurationThatTrustsAnybody_isRefused_withoutTheWords(folder: Path, settings: dict[str, str], expected: str) -> None:
    (folder / "open").mkdir()
    daemon = Daemon(folder / "open")
    with pytest.raises(pytest.fail.Exception, match=expected):
        daemon.start(**settings)
