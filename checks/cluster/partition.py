"""Cuts one of three nodes off for a minute, and joins them again; run by cluster-check, as root.

Three daemons in network namespaces on one bridge find each other from one seed. Then the third is cut off: its packets are dropped, and
nobody is told. Meanwhile all three serve puts and gets. While they are apart, all blocks are dropped and put again with other bytes, so
that a stale hit is seen by its bytes. Prints how long each step took, and what the gets found.

Exit codes: 0 all promises were kept, 1 one was not, 2 wrong usage.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from checks.cluster.networks import BLOCK_BYTES, MEMBER_PORT, Failed, NetworkNode, told
from checks.shared.command_line import Arguments, number, run_tool
from checks.shared.networks import Switched
from checks.shared.nodes import tls_settings
from kvtier import Status

NETWORKS = Switched("kvtier-partition", "10.251.9", 3)
KEYS = 256
MERGED_S_MAX = 15.0
CUT_S_MIN = 20.0
FOUND_S_MAX = 60.0
GET_S_MAX = 5.0


def key(index: int) -> bytes:
    return index.to_bytes(8, "little") * 2


def block(index: int, age: int) -> bytes:
    return random.Random(index * 1000 + age).randbytes(BLOCK_BYTES)


class Node(NetworkNode):
    """A node, and a thread of puts and gets."""

    def __init__(self, folder: Path, which: int, security: dict[str, object]) -> None:
        membership = {"nodes.membership": "list", "nodes.seeds": f"{NETWORKS.addresses[0]}:{MEMBER_PORT}"}
        super().__init__(folder, NETWORKS, which, membership | security)
        self.namespace = self.client.namespace("partition", block_bytes=BLOCK_BYTES, model="check")
        self.random = random.Random(which)
        self.is_ended = False
        self.is_paused = threading.Event()
        self.found: Counter[str] = Counter()
        self.slowest_s = 0.0
        self.failure: Exception | None = None
        self.age = 0
        self.thread = threading.Thread(target=self._load, daemon=True)
        self.lock = threading.Lock()

    def stop(self) -> None:
        self.is_ended = True
        if self.thread.ident:
            self.thread.join(60)
        super().stop()

    def known(self) -> int:
        """The number of other nodes that it knows."""
        return self.client.counters()["nodes"]

    def _load(self) -> None:
        buffer = bytearray(BLOCK_BYTES)
        try:
            while not self.is_ended:
                with self.lock:
                    index = self.random.randrange(KEYS)
                    if self.random.random() < 0.1:
                        self.namespace.put([key(index)], block(index, self.age))
                        self.found["put"] += 1
                        continue
                    begun = time.monotonic()
                    status = self.namespace.get([key(index)], buffer, timeout=30).statuses[0]
                    self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
                    if status == Status.OK:
                        self._judge(index, bytes(buffer))
                    else:
                        self.found["miss"] += 1
                time.sleep(0.001)
        except Exception as error:
            self.failure = error

    def _judge(self, index: int, got: bytes) -> None:
        if got == block(index, self.age):
            self.found["hit"] += 1
        elif self.age and got == block(index, self.age - 1):
            self.found["stale"] += 1
        else:
            self.found["wrong"] += 1

    def take(self) -> Counter[str]:
        """The results of puts and gets since the last call. Raises where they break a promise."""
        with self.lock:
            found, self.found = self.found, Counter()
            slowest, self.slowest_s = self.slowest_s, 0.0
        if self.failure:
            raise Failed(f"{self.name} does not serve: {self.failure!r}")
        print(f"    {self.name:<16} {dict(sorted(found.items()))}, slowest get {slowest:.2f} s", flush=True)
        if found["stale"] or found["wrong"]:
            raise Failed(f"{self.name} delivered stale or wrong bytes")
        if slowest > GET_S_MAX:
            raise Failed(f"a get took {slowest:.1f} s")
        if not found["put"] or not found["hit"]:
            raise Failed(f"{self.name} served nothing")
        return found


def renew(nodes: list[Node]) -> None:
    """Drops all blocks of all nodes. Later blocks have other bytes."""
    with contextlib.ExitStack() as held:
        for node in nodes:
            held.enter_context(node.lock)
        for node in nodes:
            node.namespace.clear()
            node.age += 1


def part_and_merge(nodes: list[Node], seconds: float) -> None:
    first, second, third = nodes
    everybody = {node.which for node in nodes}

    def are_one() -> bool:
        return all(node.known() == 2 for node in nodes) and all(node.sees() == everybody - {node.which} for node in nodes)

    told("three nodes have found each other from one seed", are_one, FOUND_S_MAX)
    for node in nodes:
        node.thread.start()
    time.sleep(5)
    print("  together:")
    for node in nodes:
        node.take()
    cut = time.monotonic()
    NETWORKS.cut_off(2)
    told("the cut is noticed on both sides", lambda: first.known() == second.known() == 1 and third.known() == 0, FOUND_S_MAX)
    renew(nodes)
    print("  while the cut was noticed:")
    for node in nodes:
        node.take()
    time.sleep(max(0.0, seconds - (time.monotonic() - cut)))
    print(f"  apart, for {time.monotonic() - cut:.0f} s:")
    for node in nodes:
        node.take()
    NETWORKS.join_again(2)
    merged = told("the halves are one cluster again", are_one, FOUND_S_MAX)
    if merged > MERGED_S_MAX:
        raise Failed(f"the halves were one after {merged:.1f} s, expected at most {MERGED_S_MAX:.0f} s")
    time.sleep(5)
    print("  together again:")
    for node in nodes:
        node.take()
        if node.client.counters()["corrupt"]:
            raise Failed(f"{node.name} found damaged blocks")
    fetched = [node.client.counters()["node_fetched"] for node in nodes]
    print(f"  blocks fetched from other nodes: {fetched}")
    if not all(fetched):
        raise Failed("a node fetched nothing from the others")


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/cluster-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=number, default=60.0, help=f"how long the node is cut off (default: 60, at least {CUT_S_MIN:g})")
    options = parser.parse_args(argv)
    if options.seconds < CUT_S_MIN:
        parser.error(f"--seconds is {options.seconds:g}, expected {CUT_S_MIN:g} or more: the nodes need some of them to notice the cut")
    if os.geteuid() != 0:
        parser.error("only root can make network namespaces")
    with tempfile.TemporaryDirectory(prefix="kvtier-cluster.") as name, NETWORKS.made(), contextlib.ExitStack() as started:
        folder = Path(name)
        secure = tls_settings(folder, "DNS:nodes.check") | {"nodes.certificate_name": "nodes.check"}
        nodes = []
        try:
            for which in range(len(NETWORKS.names)):
                nodes.append(Node(folder, which, secure))
                started.callback(nodes[-1].stop)
            part_and_merge(nodes, options.seconds)
        except Failed as error:
            print(f"cluster-check: {error}", file=sys.stderr)
            for node in nodes:
                print(node.log.read_text()[-3000:], file=sys.stderr)
            return 1
    print("cluster-check: every promise was kept")
    return 0


if __name__ == "__main__":
    run_tool(main)
