"""The Python client of kvtier: KV-cache blocks in host memory, on SSD and in an object store, shared by the engines of one machine.

`Client` blocks, `kvtier.aio.Client` is for asyncio; `kvtier.hashing` makes block keys from tokens.
"""

from kvtier._connection import CLIENT_VERSION as __version__
from kvtier._context import request_context
from kvtier._errors import InvalidArgument, KvtierError, NamespaceMismatch, Unavailable, VersionMismatch
from kvtier._protocol import Status, Tier
from kvtier._types import Count, FoundNodes, Get, Holder, Leases, LoadReport, Lookup, NodeHold, Options, Ping, Priority, Retained
from kvtier.client import Client, Namespace, Reservations

__all__ = [
    "Client",
    "Count",
    "FoundNodes",
    "Get",
    "Holder",
    "InvalidArgument",
    "KvtierError",
    "Leases",
    "LoadReport",
    "Lookup",
    "Namespace",
    "NamespaceMismatch",
    "NodeHold",
    "Options",
    "Ping",
    "Priority",
    "Reservations",
    "Retained",
    "Status",
    "Tier",
    "Unavailable",
    "VersionMismatch",
    "__version__",
    "request_context",
]
