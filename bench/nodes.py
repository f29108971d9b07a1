"""Reads blocks of another node between two network namespaces: scripts/bench nodes, as root.

Each row stands beside C programs that move the same bytes over plain sockets in the same run. `iperf3` is one more row where it is
installed. The blocks go from the memory of one daemon to the memory of the other, with their checksums; nobody copies them further.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kvtier_testing import process

from bench.rows_tool import Failed, add_json, run_rows_tool, write_rows
from checks.shared.command_line import Arguments, say, whole
from checks.shared.networks import Networks
from checks.shared.nodes import NodeDaemon, tls_settings
from kvtier import Namespace, Status

KIB, MIB = 1 << 10, 1 << 20
NETWORKS = Networks("kvtier-bench", "10.251.7")
ADDRESSES = NETWORKS.addresses
PORT, RAW_PORT, IPERF_PORT = 7076, 7077, 7078
UCX_LIBRARY = Path(__file__).parents[1] / "target/ucx/libucx/lib/libucp.so.0"
UCX_SETTINGS: dict[str, object] = {"nodes.transport": "ucx", "nodes.ucx_library": str(UCX_LIBRARY)}
MEMORY = {2 * MIB: 1200 * MIB, 64 * KIB: 300 * MIB}
WAYS = {"plain": "in plaintext, two connections", "tls": "with mutual TLS", "ucx": "by UCX over TCP, in plaintext"}
KEYS_AT_ONCE = 1000
PINGS = 3000
WARM_S = 10.0
"""of reads before the first is measured: by then the daemons' code is compiled, and their memory touched"""


def output(which: int, command: list[str]) -> str:
    return subprocess.run(NETWORKS.inside(which, command), check=True, capture_output=True, text=True).stdout


@contextmanager
def running(command: list[str], which: int) -> Iterator[None]:
    """A server that says `ready`, or nothing."""
    server = subprocess.Popen(NETWORKS.inside(which, command), stdout=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


class Node(NodeDaemon):
    """A daemon in one of the network namespaces."""

    def __init__(self, folder: Path, which: int, settings: dict[str, object]) -> None:
        own = {
            "host.bytes": "1536MiB",
            "host.slab_bytes": "64MiB",
            "nodes.name": NETWORKS.names[which],
            # A read that takes longer than usual must be slow, not failed.
            "nodes.fetch_timeout": "30s",
        }
        super().__init__(folder, own | settings, Failed, timeout_s=60, within=lambda command: NETWORKS.inside(which, command))

    def peers(self) -> list[dict[str, object]]:
        command = [str(process.PROGRAMS / "kvtier"), "nodes", "--json"]
        told = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"KVTIER_SOCKET": str(self.socket)})
        peers: list[dict[str, object]] = json.loads(told.stdout)["peers"]
        return peers

    def namespace(self, block_bytes: int) -> Namespace:
        return self.client.namespace(f"bench-{block_bytes}", block_bytes=block_bytes, model="bench")


def put(namespace: Namespace, block_bytes: int, count: int) -> list[bytes]:
    keys = [index.to_bytes(8, "little") * 2 for index in range(1, count + 1)]
    block = os.urandom(block_bytes)
    for begin in range(0, count, 100):
        some = keys[begin : begin + 100]
        if namespace.put(some, block * len(some)) != [Status.OK] * len(some):
            raise Failed("the first daemon does not take the blocks")
    return keys


def await_found(namespace: Namespace, keys: list[bytes]) -> None:
    """Until the second node knows that the first has all these blocks."""
    end = time.monotonic() + 30
    while namespace.lookup(keys).run < len(keys):
        if time.monotonic() > end:
            raise Failed("the second daemon does not find the blocks of the first")
        time.sleep(0.005)


def read(namespace: Namespace, keys: list[bytes]) -> float:
    """Leases all blocks, which come from the other node; returns blocks per second."""
    namespace.clear()
    await_found(namespace, keys)
    begun = time.monotonic()
    for begin in range(0, len(keys), KEYS_AT_ONCE):
        with namespace.acquire(keys[begin : begin + KEYS_AT_ONCE]) as leases:
            if leases.statuses != [Status.OK] * len(leases.statuses):
                raise Failed(f"a read failed: {set(leases.statuses)}")
    return len(keys) / (time.monotonic() - begun)


def first_reads_ns(namespace: Namespace, keys: list[bytes]) -> float:
    """The median time of a get of one block that the other node has."""
    namespace.clear()
    await_found(namespace, keys)
    buffer = bytearray(4 * KIB)
    took = []
    for key in keys:
        begun = time.perf_counter_ns()
        statuses = namespace.get([key], buffer).statuses
        took.append(time.perf_counter_ns() - begun)
        if statuses != [Status.OK]:
            raise Failed(f"a get failed: {statuses}")
    return statistics.median(took)


def local_ns(namespace: Namespace, keys: list[bytes]) -> float:
    """The median time of a get of one block that is in memory."""
    buffer = bytearray(4 * KIB)
    took = []
    for key in keys:
        begun = time.perf_counter_ns()
        namespace.get([key], buffer)
        took.append(time.perf_counter_ns() - begun)
    return statistics.median(took)


def speeds(first: Node, second: Node, raw: str, rounds: int, rows: list[dict[str, object]]) -> None:
    for block_bytes, memory in MEMORY.items():
        keys = put(first.namespace(block_bytes), block_bytes, memory // block_bytes)
        namespace = second.namespace(block_bytes)
        warm = time.monotonic() + WARM_S
        while time.monotonic() < warm:
            read(namespace, keys)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(read(namespace, keys) * block_bytes)
            theirs.append(float(output(1, [raw, "read", ADDRESSES[0], str(RAW_PORT), str(block_bytes), "2", "0.5"])))
        first.namespace(block_bytes).clear()
        namespace.clear()
        show(rows, f"read {block_bytes // KIB} KiB blocks, GB/s", statistics.median(ours) / 1e9, statistics.median(theirs) / 1e9)


def await_ucx(node: Node) -> None:
    """Until the node's peer sends blocks by UCX."""
    end = time.monotonic() + 30
    while any(peer["transport"] != "ucx" for peer in node.peers()):
        if time.monotonic() > end:
            raise Failed("the nodes do not agree on UCX")
        time.sleep(0.05)


def show(rows: list[dict[str, object]], name: str, ours: float, theirs: float) -> None:
    rows.append({"name": name, "kvtier": ours, "raw": theirs, "ratio": ours / theirs})
    print(f"{name:<52} {ours:>10.2f} {theirs:>10.2f} {ours / theirs:>7.2f}", flush=True)


def settings_of(way: str, folder: Path) -> dict[str, object]:
    """The settings of both nodes for one way of blocks."""
    if way == "tls":
        return tls_settings(folder, *(f"IP:{address}" for address in ADDRESSES))
    return {"nodes.security": "plaintext_without_tokens"} | (UCX_SETTINGS if way == "ucx" else {})


def measure(folder: Path, raw: str, rounds: int, way: str, rows: list[dict[str, object]]) -> None:
    secure = settings_of(way, folder)
    with ExitStack() as started:
        first = Node(folder / "a", 0, {"nodes.listen": f"{ADDRESSES[0]}:{PORT}"} | secure)
        started.callback(first.stop)
        second = Node(folder / "b", 1, {"nodes.peers": f"{ADDRESSES[0]}:{PORT}"} | secure)
        started.callback(second.stop)
        if way == "ucx":
            await_ucx(second)
        speeds(first, second, raw, rounds, rows)
        keys = put(first.namespace(4 * KIB), 4 * KIB, PINGS)
        small = second.namespace(4 * KIB)
        remote_us = first_reads_ns(small, keys) / 1e3
        here_us = local_ns(small, keys) / 1e3
        ping_us = float(output(1, [raw, "ping", ADDRESSES[0], str(RAW_PORT), "4096", str(PINGS)])) / 1e3
        show(rows, "get of 4 KiB, us; raw round trip", remote_us, ping_us)
        show(rows, "the same without a get from memory, us", remote_us - here_us, ping_us)


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/bench nodes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole, default=7, help="reads of all blocks for each row (default: 7)")
    add_json(parser)
    options = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("only root can make network namespaces")
    # The daemons are on one machine, and UCX must not use its memory.
    os.environ["UCX_TLS"] = "tcp"
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="kvtier-nodes.") as name, NETWORKS.made():
        folder = Path(name)
        raw = str(folder / "raw_tcp")
        subprocess.run(["cc", "-O2", "-o", raw, str(Path(__file__).with_name("raw_tcp.c")), "-lpthread"], check=True)
        print(f"{'row':<52} {'kvtier':>10} {'raw':>10} {'ratio':>7}")
        with running([raw, "serve", str(RAW_PORT)], 0):
            for way, words in WAYS.items():
                say(words)
                (folder / way).mkdir()
                measure(folder / way, raw, options.rounds, way, rows)
        if shutil.which("iperf3"):
            with running(["iperf3", "-s", "-p", str(IPERF_PORT)], 0):
                told = json.loads(output(1, ["iperf3", "-c", ADDRESSES[0], "-p", str(IPERF_PORT), "-R", "-P", "2", "-t", "3", "-J"]))
                print(f"{'iperf3, two connections, GB/s':<52} {told['end']['sum_received']['bits_per_second'] / 8e9:>10.2f}")
    write_rows(options.json, rows)
    return 0


if __name__ == "__main__":
    run_rows_tool(main)
