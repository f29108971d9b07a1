"""Nodes in network namespaces, each as a machine of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kvtier_testing.nodes import connected

from checks.shared.networks import Switched
from checks.shared.nodes import NodeDaemon
from checks.shared.waits import until

PORT, MEMBER_PORT = 7076, 7077
BLOCK_BYTES = 16 << 10


class Failed(Exception):
    """A promise was broken; the text says which."""


class NetworkNode(NodeDaemon):
    """A daemon in a network namespace."""

    def __init__(self, folder: Path, networks: Switched, which: int, settings: Mapping[str, object]) -> None:
        """`folder`: the one of all nodes; `which`: the number of the network namespace."""
        self.which = which
        self.name = networks.names[which]
        self._addresses = networks.addresses
        own = {
            "host.bytes": "64MiB",
            "host.slab_bytes": "8MiB",
            "nodes.name": self.name,
            "nodes.listen": f"{networks.addresses[which]}:{PORT}",
            "nodes.member_listen": f"{networks.addresses[which]}:{MEMBER_PORT}",
        }
        super().__init__(folder / self.name, own | dict(settings), Failed, timeout_s=60, within=lambda command: networks.inside(which, command))

    def sees(self) -> set[int]:
        """The other nodes to which it is connected."""
        return {self._addresses.index(address.rpartition(":")[0]) for address in connected(self.client)}


def told(what: str, holds: Callable[[], object], limit_s: float) -> float:
    """Waits until something holds, prints how long that took, and returns the seconds."""
    took = until(what, holds, limit_s, Failed)
    print(f"  {what:<66} {took:6.1f} s", flush=True)
    return took
