"""Network namespaces, each as a machine of its own has it. Only root can make them."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from string import ascii_lowercase

_DEVICE = "node"


class Networks:
    """Two network namespaces, joined by a pair of virtual Ethernet devices."""

    def __init__(self, name: str, subnet: str, count: int = 2) -> None:
        """`name`: the beginning of the namespaces' names; `subnet`: three bytes of their addresses, such as ``10.251.7``."""
        self.names = tuple(f"{name}-{letter}" for letter in ascii_lowercase[:count])
        self.addresses = tuple(f"{subnet}.{number}" for number in range(1, count + 1))

    def inside(self, which: int, command: Sequence[str]) -> list[str]:
        """The command that runs `command` in one of the namespaces."""
        return ["ip", "netns", "exec", self.names[which], *command]

    @contextmanager
    def made(self) -> Iterator[None]:
        """The namespaces exist meanwhile."""
        self._delete()
        try:
            for name in self._all():
                _ip("netns", "add", name)
            self._join()
            for name, address in zip(self.names, self.addresses, strict=True):
                _ip("-n", name, "address", "add", f"{address}/24", "dev", _DEVICE)
                _ip("-n", name, "link", "set", _DEVICE, "up")
                _ip("-n", name, "link", "set", "lo", "up")
            yield
        finally:
            self._delete()

    def _all(self) -> Sequence[str]:
        return self.names

    def _join(self) -> None:
        first, second = self.names
        _ip("link", "add", _DEVICE, "netns", first, "type", "veth", "peer", "name", _DEVICE, "netns", second)

    def _delete(self) -> None:
        for name in self._all():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


class Switched(Networks):
    """Network namespaces, joined by a bridge in a namespace of its own. Each can be cut off."""

    def __init__(self, name: str, subnet: str, count: int) -> None:
        super().__init__(name, subnet, count)
        self._switch = f"{name}-switch"

    def cut_off(self, which: int) -> None:
        """Packets of a namespace are dropped at the bridge. Its own device stays up."""
        _ip("-n", self._switch, "link", "set", f"port{which}", "nomaster")

    def join_again(self, which: int) -> None:
        """Packets of a namespace pass again."""
        _ip("-n", self._switch, "link", "set", f"port{which}", "master", "bridge")

    def _all(self) -> Sequence[str]:
        return (*self.names, self._switch)

    def _join(self) -> None:
        switch = self._switch
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for which, name in enumerate(self.names):
            _ip("link", "add", _DEVICE, "netns", name, "type", "veth", "peer", "name", f"port{which}", "netns", switch)
            _ip("-n", switch, "link", "set", f"port{which}", "master", "bridge", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
