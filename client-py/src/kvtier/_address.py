"""The addresses of daemons on other machines."""

import os
from typing import NamedTuple

from kvtier._errors import InvalidArgument

_SCHEMES = {"grpc://": False, "grpcs://": True}
PORT = 7075
"""the port of gRPC by default"""


class Address(NamedTuple):
    """Where a daemon serves gRPC."""

    host: str
    port: int
    has_tls: bool

    @property
    def target(self) -> str:
        """The address in the form of gRPC."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        return f"{'grpcs' if self.has_tls else 'grpc'}://{self.target}"


def is_remote(place: str | os.PathLike[str] | None) -> bool:
    """Whether this is an address for gRPC, and not the path of a socket."""
    return isinstance(place, str) and place.startswith(tuple(_SCHEMES))


def parse(place: str) -> Address:
    """Reads an address: ``grpcs://HOST[:PORT]`` with TLS, ``grpc://HOST[:PORT]`` without.

    Raises:
        InvalidArgument: the address has another form.
    """
    for scheme, has_tls in _SCHEMES.items():
        if place.startswith(scheme):
            host, port = _split(place[len(scheme) :])
            if host and 0 < port < 1 << 16:
                return Address(host, port, has_tls)
    raise InvalidArgument(
        f"the address is {place!r}; expected grpcs://HOST[:PORT] with TLS, or grpc://HOST[:PORT] without"
    )


def _split(rest: str) -> tuple[str, int]:
    """Host and port; an empty host or port 0 if the text is malformed."""
    host, colon, port = rest.rpartition(":")
    if rest.endswith("]") or not colon:
        host, port = rest, str(PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return "", 0
    is_plain = not any(character in host for character in "/?#@ ")
    return (host if is_plain else ""), int(port) if port.isascii() and port.isdigit() else 0
