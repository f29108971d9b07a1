"""Lets nodes find each other by a name and by multicast; run by cluster-check, as root.

Daemons in network namespaces on one bridge, each as a machine of its own. By name: a real name server has the addresses of the nodes that
run, as for a headless service of Kubernetes. The name does not exist before the first node runs; a node is killed, and comes back with
another address. By multicast: the nodes know nothing but a group. Each node must read a block of each other. Prints how long each step took.

Exit codes: 0 the nodes found each other, 1 they did not, 2 wrong usage.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from checks.cluster.networks import BLOCK_BYTES, Failed, NetworkNode, told
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool
from checks.shared.networks import Switched
from checks.shared.nodes import tls_settings
from kvtier import Status

# The last namespace has the name server.
NETWORKS = Switched("kvtier-discovery", "10.251.10", 5)
NAME_SERVER = 4
NAME = "nodes.kvtier.check"
GROUP = "239.192.44.1:7079"
FOUND_S_MAX = 60.0
"""Java remembers addresses of a name for 30 s, and for 10 s that there is no such name."""


class Node(NetworkNode):
    """A node with a block of its own."""

    def __init__(self, folder: Path, which: int, settings: Mapping[str, object]) -> None:
        super().__init__(folder, NETWORKS, which, settings)
        self.namespace = self.client.namespace("discovery", block_bytes=BLOCK_BYTES, model="check")

    def key(self) -> bytes:
        return (self.which + 1).to_bytes(8, "little") * 2

    def block(self) -> bytes:
        return bytes([self.which + 1]) * BLOCK_BYTES

    def put(self) -> None:
        if self.namespace.put([self.key()], self.block())[0] not in (Status.OK, Status.EXISTS):
            raise Failed(f"{self.name} takes no block")

    def reads(self, other: "Node") -> bool:
        """Whether it gets the block of another node, with the right bytes."""
        buffer = bytearray(BLOCK_BYTES)
        if self.namespace.get([other.key()], buffer, timeout=10).statuses != [Status.OK]:
            return False
        if bytes(buffer) != other.block():
            raise Failed(f"{self.name} read wrong bytes of {other.name}")
        return True


def until(what: str, holds: Callable[[], bool]) -> None:
    told(what, holds, FOUND_S_MAX)


def all_see_all(nodes: list[Node]) -> bool:
    everybody = {node.which for node in nodes}
    return all(node.sees() == everybody - {node.which} for node in nodes)


def read_each_other(nodes: list[Node]) -> None:
    for node in nodes:
        node.put()
    until("each reads a block of each other", lambda: all(one.reads(other) for one in nodes for other in nodes))


@contextlib.contextmanager
def name_server(folder: Path) -> Iterator[Path]:
    """A name server for all namespaces; returns the file of the addresses."""
    addresses = folder / "addresses"
    addresses.write_text("")
    resolvers = [Path("/etc/netns", name) for name in NETWORKS.names]
    for resolver in resolvers:
        resolver.mkdir(parents=True, exist_ok=True)
        (resolver / "resolv.conf").write_text(f"nameserver {NETWORKS.addresses[NAME_SERVER]}\noptions timeout:1 attempts:2\n")
    program = [sys.executable, str(ROOT / "checks" / "cluster" / "name_server.py"), NAME, str(addresses)]
    server = subprocess.Popen(NETWORKS.inside(NAME_SERVER, program), stdout=subprocess.PIPE, text=True)
    try:
        if server.stdout is None or server.stdout.readline() != "ready\n":
            raise Failed("the name server does not start")
        yield addresses
    finally:
        server.terminate()
        server.wait()
        for resolver in resolvers:
            (resolver / "resolv.conf").unlink(missing_ok=True)
            resolver.rmdir()


def by_name(folder: Path, security: Mapping[str, object]) -> None:
    print("by a name", flush=True)
    settings = {**security, "nodes.membership": "dns", "nodes.dns_name": NAME}
    with name_server(folder) as addresses, contextlib.ExitStack() as started:

        def start(which: int) -> Node:
            node = Node(folder, which, settings)
            started.callback(node.stop)
            return node

        def tell(*which: int) -> None:
            addresses.write_text("".join(f"{NETWORKS.addresses[one]}\n" for one in which))

        first = start(0)
        first.put()
        print("  a node serves while the name does not exist", flush=True)
        tell(0, 1)
        second = start(1)
        until("two nodes have found each other", lambda: all_see_all([first, second]))
        tell(0, 1, 2)
        third = start(2)
        nodes = [first, second, third]
        until("a third one is found", lambda: all_see_all(nodes))
        read_each_other(nodes)
        third.kill()
        until("a killed node is forgotten", lambda: first.sees() == {1} and second.sees() == {0})
        tell(0, 1, 3)
        fourth = start(3)
        nodes = [first, second, fourth]
        until("a node with another address is found", lambda: all_see_all(nodes))
        read_each_other(nodes)


def by_multicast(folder: Path, security: Mapping[str, object]) -> None:
    print("by multicast", flush=True)
    settings = {**security, "nodes.membership": "multicast", "nodes.multicast": GROUP}
    with contextlib.ExitStack() as started:
        nodes = []
        for which in range(3):
            nodes.append(Node(folder, which, settings))
            started.callback(nodes[-1].stop)
        until("three nodes have found each other", lambda: all_see_all(nodes))
        read_each_other(nodes)


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/cluster-check discovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("only root can make network namespaces")
    for way in (by_name, by_multicast):
        with tempfile.TemporaryDirectory(prefix="kvtier-discovery.") as name, NETWORKS.made():
            folder = Path(name)
            secure = tls_settings(folder, "DNS:nodes.check") | {"nodes.certificate_name": "nodes.check"}
            try:
                way(folder, secure)
            except Failed as error:
                print(f"cluster-check: {error}", file=sys.stderr)
                for log in sorted(folder.glob("*/daemon.log")):
                    print(f"{log.parent.name}:\n{log.read_text()[-3000:]}", file=sys.stderr)
                return 1
    print("cluster-check: the nodes found each other")
    return 0


if __name__ == "__main__":
    run_tool(main)
