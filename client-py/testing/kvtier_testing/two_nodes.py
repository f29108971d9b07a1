"""Daemons under test that are nodes and read each other's memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvtier import Client
from kvtier_testing.daemon import Daemon, eventually, in_a_folder
from kvtier_testing.nodes import connected
from kvtier_testing.process import free_ports


class NodeDaemon(Daemon):
    """A daemon that keeps its name and its peers over a restart."""

    def __init__(self, folder: Path, name: str, port: int, peer: int) -> None:
        super().__init__(folder)
        self.name = name
        self.peer = f"127.0.0.1:{peer}"
        self._settings = {
            "nodes__name": name,
            "nodes__listen": f"127.0.0.1:{port}",
            "nodes__peers": self.peer,
            "nodes__security": "plaintext_without_tokens",
        }

    def start(self, **changed: str) -> None:
        super().start(**(self._settings | changed))

    def connect(self) -> None:
        """Waits until this daemon can read from the other one."""
        with Client(self.socket_path, timeout=60) as client:
            assert eventually(lambda: self.peer in connected(client))


@contextmanager
def two_nodes() -> Iterator[tuple[NodeDaemon, NodeDaemon]]:
    """Two daemons that read each other's memory."""
    ports = free_ports(2)
    with (
        in_a_folder(lambda folder: NodeDaemon(folder, "node-0", ports[0], ports[1])) as first,
        in_a_folder(lambda folder: NodeDaemon(folder, "node-1", ports[1], ports[0])) as second,
    ):
        first.start()
        second.start()
        first.connect()
        second.connect()
        yield first, second
