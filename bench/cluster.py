"""Replays a trace over several nodes that a router chooses at random: scripts/bench cluster.

Each node has a daemon on this machine, with little memory. Three rows: the nodes read blocks from each other, they do not, and one daemon
has the memory of all. The gap between the last two is what separate memories lose; the first row says how much of it reading closes.
Where it is installed, Mooncake's store has a row: as many client processes with the same memory. Every byte is checked.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kvtier_testing import process
from kvtier_testing.nodes import connected

from bench.replay import DEFAULT_TRACE, Replay
from bench.request_trace import TraceError, read_trace
from bench.rows_tool import Failed, add_json, run_rows_tool, write_rows
from checks.shared.command_line import Arguments, say, size, whole
from checks.shared.content import Content
from checks.shared.nodes import NodeDaemon
from kvtier import Client, Lookup, Status

MIB = 1 << 20
SLAB_BYTES = MIB
PATIENCE_S = 30.0
ASK_AGAIN_S = 0.0005
LOOKUP_S_MAX = 0.5
"""as engines wait for an answer that is not complete"""


class ReplayOfNode(Replay):
    """The requests that reach one node. A lookup is repeated while other nodes are asked."""

    def lookup(self, keys: Sequence[bytes]) -> Lookup:
        end = time.monotonic() + LOOKUP_S_MAX
        while True:
            found = super().lookup(keys)
            if Status.PENDING not in found.statuses or time.monotonic() > end:
                return found
            time.sleep(ASK_AGAIN_S)


@contextmanager
def daemons(folder: Path, count: int, host_bytes: int, are_connected: bool) -> Iterator[list[Client]]:
    """Starts `count` daemons with `host_bytes` of memory each, and returns a client of each."""
    folder.mkdir()
    ports = process.free_ports(count)
    peers = ",".join(f"127.0.0.1:{port}" for port in ports)
    with ExitStack() as started:
        clients = []
        for number, port in enumerate(ports):
            settings: dict[str, object] = {"host.bytes": f"{host_bytes}B", "host.slab_bytes": f"{SLAB_BYTES}B"}
            if are_connected:
                settings |= {
                    "nodes.listen": f"127.0.0.1:{port}", "nodes.peers": peers, "nodes.name": f"node-{number}",
                    "nodes.security": "plaintext_without_tokens",
                }  # fmt: skip
            node = NodeDaemon(folder / str(number), settings, Failed, timeout_s=PATIENCE_S)
            started.callback(node.stop)
            clients.append(node.client)
        if are_connected:
            for client in clients:
                await_connected(client, count - 1)
        yield clients


def await_connected(client: Client, others: int) -> None:
    """Waits until the daemon is connected to the other nodes, of which there are `others`."""
    end = time.monotonic() + PATIENCE_S
    while len(found := connected(client)) < others:
        if time.monotonic() > end:
            raise Failed(f"a node did not connect to {others} others within {PATIENCE_S:g} s, only to {sorted(found)}")
        time.sleep(0.05)


def row(name: str, clients: Sequence[Client], trace: Sequence[Sequence[int]], block_bytes: int, seed: int) -> dict[str, Any]:
    """The figures of a replay over these daemons."""
    router = random.Random(seed)
    content = Content(block_bytes)
    replays = [ReplayOfNode(one.namespace("bench", block_bytes=block_bytes, model="bench"), content, "cluster") for one in clients]
    begun = time.monotonic()
    for block_ids in trace:
        router.choice(replays).request(block_ids)
    seconds = time.monotonic() - begun
    tallies = [one.tally for one in replays]
    references, hits, wrong = (sum(getattr(one, what) for one in tallies) for what in ("block_references", "prefix_hits", "wrong_bytes"))
    if wrong:
        raise Failed(f"{wrong} wrong bytes came back")
    counters = [one.counters() for one in clients]
    return {
        "name": name,
        "hit_ratio": hits / references,
        "node_ratio": sum(one.get("hits_node", 0) for one in counters) / references,
        "lost": sum(one.lost_after_lookup for one in tallies),
        "lookup_p50_us": statistics.median(ns for one in tallies for ns in one.lookup_ns) / 1000,
        "seconds": seconds,
    }


def show(one: dict[str, Any]) -> None:
    by_nodes = f"{one['node_ratio']:>9.3f}" if "node_ratio" in one else f"{'':>9}"
    print(f"{one['name']:<40} {one['hit_ratio']:>7.3f} {by_nodes} {one['lost']:>6} {one['lookup_p50_us']:>8.0f} us {one['seconds']:>8.1f}", flush=True)


def mooncake_rows(options: argparse.Namespace, requests: int, node_bytes: int) -> list[dict[str, Any]]:
    """The figures of the same replay over Mooncake's store; none if that fails."""
    asked = {
        "trace": str(options.trace.resolve()), "requests": requests, "nodes": options.nodes, "block_bytes": options.block_bytes,
        "node_bytes": node_bytes, "seed": options.seed,
    }  # fmt: skip
    ran = subprocess.run([options.mooncake, "-P", "-m", "bench.mooncake_cluster", json.dumps(asked)], capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {"error": ran.stderr[-300:]}
    if "error" in answer:
        say(f"without Mooncake: {answer['error']}")
        return []
    one = {"name": f"Mooncake's store on {options.nodes} nodes", **answer}
    show(one)
    return [one]


def measure(folder: Path, trace: Sequence[Sequence[int]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """The three rows."""
    different = len({block_id for one in trace for block_id in one})
    slabs = max(1, round(options.memory * different * options.block_bytes / options.nodes / 100 / SLAB_BYTES))
    each = slabs * SLAB_BYTES
    say(f"{len(trace):,} requests, {different:,} different blocks; {options.nodes} nodes of {each // MIB} MiB")
    rows = []
    print(f"{'row':<40} {'hits':>7} {'by nodes':>9} {'lost':>6} {'lookup p50':>11} {'seconds':>8}")
    setups = [
        (f"{options.nodes} nodes that read from each other", options.nodes, each, True),
        (f"{options.nodes} nodes by themselves", options.nodes, each, False),
        ("one daemon with the memory of all", 1, options.nodes * each, False),
    ]
    for number, (name, count, host_bytes, are_connected) in enumerate(setups):
        with daemons(folder / str(number), count, host_bytes, are_connected) as clients:
            one = row(name, clients, trace, options.block_bytes, options.seed)
        rows.append(one)
        show(one)
    connected, alone, together = (one["hit_ratio"] for one in rows)
    closed = (connected - alone) / (together - alone) if together > alone else 1.0
    print(f"reading from other nodes closes {closed:.3f} of the gap of {together - alone:.3f}")
    rows.append({"name": "closed", "of_the_gap": closed})
    if options.mooncake:
        rows += mooncake_rows(options, len(trace), each)
    return rows


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/bench cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=whole, default=8, help="2 to 32 (default: 8)")
    parser.add_argument("--requests", metavar="N", type=whole, default=2000, help="the first N requests of the trace (default: 2000)")
    parser.add_argument("--trace", metavar="FILE", type=Path, default=DEFAULT_TRACE, help="JSON lines, plain or gz")
    parser.add_argument("--block-bytes", metavar="SIZE", type=size, default=size("16KiB"), help="default: 16KiB")
    parser.add_argument("--memory", metavar="PERCENT", type=whole, default=50, help="of all nodes, of the different blocks' bytes (default: 50)")
    parser.add_argument("--seed", type=whole, default=1, help="of the router (default: 1)")
    parser.add_argument("--mooncake", metavar="PYTHON", default=os.environ.get("KVTIER_BENCH_MOONCAKE", ""), help="the Python of an environment that has Mooncake; empty: no row of it")
    add_json(parser)
    options = parser.parse_args(argv)
    if not 2 <= options.nodes <= 32:
        parser.error(f"--nodes is {options.nodes}; expected 2 to 32")
    try:
        trace = read_trace(options.trace, options.requests)
    except TraceError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="kvtier-cluster.") as name:
        rows = measure(Path(name), trace, options)
    write_rows(options.json, rows)
    return 0


if __name__ == "__main__":
    run_rows_tool(main)
