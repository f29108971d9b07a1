"""Clients of a daemon on another machine, over gRPC, with the verbs and types of the local clients. They need `kvtier[remote]`.

`Client` blocks; `kvtier.remote.aio.Client` is for asyncio. `kvtier.Client("grpcs://host")` also makes a `Client`.
"""

try:
    import grpc as _grpc  # noqa: F401
except ImportError as error:
    raise ImportError("kvtier.remote needs grpcio and protobuf: install kvtier[remote]") from error

from kvtier.remote._client import Client, Namespace, Reservations

__all__ = ["Client", "Namespace", "Reservations"]
