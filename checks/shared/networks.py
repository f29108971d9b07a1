"""Two network namespaces, as two machines have them. Only root can make them."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Networks:
    """Two network namespaces, by their names, and the address that each has."""

    def __init__(self, name: str, subnet: str) -> None:
        """`name`: what the names of the namespaces begin with; `subnet`: three bytes of their addresses, such as ``10.251.7``."""
        self.names = f"{name}-a", f"{name}-b"
        self.addresses = f"{subnet}.1", f"{subnet}.2"

    def inside(self, which: int, command: Sequence[str]) -> list[str]:
        """A command, as it runs in one of them."""
        return ["ip", "netns", "exec", self.names[which], *command]

    @contextmanager
    def made(self) -> Iterator[None]:
        """Both exist meanwhile, joined by a pair of virtual Ethernet devices."""
        self._delete()
        try:
            for name in self.names:
                _ip("netns", "add", name)
            devices = "kvtier-a", "kvtier-b"
            _ip("link", "add", devices[0], "netns", self.names[0], "type", "veth", "peer", "name", devices[1], "netns", self.names[1])
            for name, device, address in zip(self.names, devices, self.addresses, strict=True):
                _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
                _ip("-n", name, "link", "set", device, "up")
                _ip("-n", name, "link", "set", "lo", "up")
            yield
        finally:
            self._delete()

    def _delete(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
