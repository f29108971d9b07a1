"""The channel to a daemon: its address, the credentials of its client, and the calls that are repeated. For both front ends."""

import json
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from kvtier._address import Address, parse
from kvtier._connection import CLIENT_VERSION, NamespaceProperties
from kvtier._context import current
from kvtier._errors import InvalidArgument
from kvtier._protocol import Status
from kvtier.v1 import kvtier_pb2 as v1

_SERVICE = "kvtier.v1.Kvtier"
_MESSAGE_BYTES_MAX = 8 << 20
"""more than the largest message that a daemon can be configured to send"""
_KEEPALIVE_MS = 20_000
_CONNECT_AGAIN_MS = (50, 500)
_REPEATED = ("Ping", "Register", "Lookup", "FindNodes", "Get", "Prefetch", "Stats")
"""Calls with the same effect when they are made twice. gRPC repeats them when the connection breaks, or when the daemon has
no place for a call."""
_TOKEN = re.compile(r"kvt_\S+", re.ASCII)

UNARY: dict[str, Any] = {
    "Ping": v1.PingResponse,
    "Register": v1.RegisterResponse,
    "Lookup": v1.LookupResponse,
    "FindNodes": v1.FindNodesResponse,
    "Prefetch": v1.BlocksResponse,
    "Pin": v1.BlocksResponse,
    "Unpin": v1.BlocksResponse,
    "Retain": v1.BlocksResponse,
    "Delete": v1.BlocksResponse,
    "Clear": v1.CountResponse,
    "Flush": v1.CountResponse,
    "ReportLoads": v1.OutcomeResponse,
    "Stats": v1.StatsResponse,
}
"""the methods with a message each way, and the classes of their answers"""

_STATUS_OF = {
    grpc.StatusCode.UNAVAILABLE: Status.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Status.DEADLINE,
    grpc.StatusCode.CANCELLED: Status.CANCELLED,
    grpc.StatusCode.UNAUTHENTICATED: Status.DENIED,
    grpc.StatusCode.PERMISSION_DENIED: Status.DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Status.BUSY,
    grpc.StatusCode.INVALID_ARGUMENT: Status.INVALID_ARGUMENT,
}


class Failure:
    """A call that was not carried out at all."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        self.text = text

    @classmethod
    def of(cls, error: Any) -> "Failure":
        """The failure that an error of gRPC stands for."""
        code = error.code()
        words = error.details() or code.name
        return cls(_STATUS_OF.get(code, Status.INTERNAL), words)


@dataclass(frozen=True)
class Settings:
    """The address of a daemon, and the credentials of its client."""

    address: Address
    name: str = ""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None

    @classmethod
    def of(
        cls,
        address: str,
        name: str,
        token: str | None,
        token_file: str | os.PathLike[str] | None,
        ca: str | os.PathLike[str] | None,
        certificate: str | os.PathLike[str] | None,
        key: str | os.PathLike[str] | None,
        server_name: str | None,
    ) -> "Settings":
        """Checks the arguments of a client.

        Raises:
            InvalidArgument: the address is malformed, a file cannot be read, or a token would go over the network unencrypted.
        """
        where = parse(address)
        if token is not None and token_file is not None:
            raise InvalidArgument("both a token and a token_file are given; expected one of them")
        if (token is not None or token_file is not None) and not where.has_tls and not where.is_loopback:
            raise InvalidArgument(f"a token would go to {where} unencrypted: use grpcs:// with a daemon that has TLS")
        if (certificate is None) != (key is None):
            raise InvalidArgument("a client certificate needs both certificate and key")
        if not where.has_tls and (ca is not None or certificate is not None or server_name is not None):
            raise InvalidArgument(f"ca, certificate, key and server_name are for TLS, and {where} is without: use grpcs://")
        files = [None if file is None else os.fsdecode(file) for file in (token_file, ca, certificate, key)]
        settings = cls(where, name, token, files[0], files[1], files[2], files[3], server_name)
        settings.bearer()
        settings.credentials()
        return settings

    def bearer(self) -> str | None:
        """The token, read anew from its file: it may have been replaced."""
        text = self.token
        if self.token_file is not None:
            text = _read(self.token_file, "token_file").decode(errors="replace").strip()
        if text is None:
            return None
        if not _TOKEN.fullmatch(text):
            raise InvalidArgument(
                f"{'the token' if self.token_file is None else self.token_file} is no token; expected kvt_..., "
                "as 'kvtier token make' prints it"
            )
        return text

    def credentials(self) -> Any:
        """The credentials of TLS; None: the address is without TLS."""
        if not self.address.has_tls:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=None if self.ca is None else _read(self.ca, "ca"),
            private_key=None if self.key is None else _read(self.key, "key"),
            certificate_chain=None if self.certificate is None else _read(self.certificate, "certificate"),
        )

    def channel(self, api: Any) -> Any:
        """A new channel to the daemon, of `grpc` or of `grpc.aio`."""
        credentials = self.credentials()
        target, options = self.address.target, self.options()
        if credentials is None:
            return api.insecure_channel(target, options)
        return api.secure_channel(target, credentials, options)

    def options(self) -> list[tuple[str, object]]:
        """The options of a channel."""
        repeats = {
            "name": [{"service": _SERVICE, "method": method} for method in _REPEATED],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            },
        }
        options: list[tuple[str, object]] = [
            ("grpc.service_config", json.dumps({"methodConfig": [repeats]})),
            ("grpc.primary_user_agent", f"kvtier-py/{CLIENT_VERSION} {self.name}".rstrip()),
            ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.initial_reconnect_backoff_ms", _CONNECT_AGAIN_MS[0]),
            ("grpc.max_reconnect_backoff_ms", _CONNECT_AGAIN_MS[1]),
            # Each client has a connection of its own: pins belong to it.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.server_name))
        return options

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call: the token of its caller, and its trace context."""
        bearer = self.bearer()
        trace = current()
        metadata: tuple[tuple[str, str], ...] = ()
        if bearer is not None:
            metadata += (("authorization", f"Bearer {bearer}"),)
        if trace is not None:
            metadata += (("traceparent", f"00-{trace[:16].hex()}-{trace[16:24].hex()}-{trace[24:25].hex()}"),)
        return metadata


def _read(file: str, what: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{what} {file!r} cannot be read: {error.strerror}") from None


class Registered:
    """The numbers that the daemon gave the namespaces of a client."""

    def __init__(self) -> None:
        self.chunk_bytes = 0
        self._numbers: dict[NamespaceProperties, int] = {}
        self._lock = threading.Lock()

    def number(self, properties: NamespaceProperties) -> int | None:
        with self._lock:
            return self._numbers.get(properties)

    def add(self, properties: NamespaceProperties, number: int, chunk_bytes: int) -> None:
        with self._lock:
            self._numbers[properties] = number
            self.chunk_bytes = max(1, min(chunk_bytes, _MESSAGE_BYTES_MAX // 2))

    def forget(self, properties: NamespaceProperties, number: int) -> None:
        """Takes out a number that the daemon does not know any more."""
        with self._lock:
            if self._numbers.get(properties) == number:
                del self._numbers[properties]


def methods(channel: Any) -> dict[str, Any]:
    """The calls of a channel, by their names."""
    calls = {
        name: channel.unary_unary(
            f"/{_SERVICE}/{name}",
            request_serializer=_serialized,
            response_deserializer=answer.FromString,
        )
        for name, answer in UNARY.items()
    }
    # The messages with the bytes of blocks are made and read by `_wire`.
    calls["Get"] = channel.unary_stream(f"/{_SERVICE}/Get", request_serializer=_serialized)
    calls["Put"] = channel.stream_unary(f"/{_SERVICE}/Put", response_deserializer=v1.PutResponse.FromString)
    return calls


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
