"""The connection to the daemon: handshake, slab mappings, reconnecting. Both front ends stand on it."""

import array
import errno
import logging
import os
import re
import socket
import stat
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvtier import _protocol as protocol
from kvtier._core import Session, Slab, monotonic_ns
from kvtier._daemon_user import expected_users, why_not
from kvtier._encoding import PROPERTY, Encoding, encoding_of
from kvtier._errors import InvalidArgument, SessionError, Unavailable, VersionMismatch
from kvtier._protocol import Status

CLIENT_VERSION = "0.2.0"

_PATH_BYTES_MAX = 107
"""of a Unix socket"""

_VERSION_MINOR_ENCODED = 1
"""daemons know encoded blocks from it on"""
_VERSION_MINOR_FRESH = 2
"""daemons know lookups that must be fresh from it on"""

_VERSION_MINOR_EXPECTED = 3
"""daemons know gets of blocks that a node is going to have from it on"""

_CONNECT_AGAIN_NS = 5_000_000
_HANDSHAKE_TIMEOUT_NS = 1_000_000_000
_BACKOFF_FIRST_NS = 10_000_000
_BACKOFF_LAST_NS = 500_000_000

_ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
"""how Python shows what has no text of its own"""

_log = logging.getLogger("kvtier")


def default_socket_path() -> str:
    """Where the daemon of this user listens when nothing else is said: `$KVTIER_SOCKET`, or its usual places."""
    explicit = os.environ.get("KVTIER_SOCKET")
    if explicit:
        return explicit
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/kvtier.sock" if runtime else f"/tmp/kvtier-{os.getuid()}/kvtier.sock"


@dataclass(frozen=True, slots=True)
class NamespaceProperties:
    """The arguments of a registration: the namespace's text in the form of the protocol, and the bytes of a block."""

    name: str
    block_bytes: int
    text: bytes
    encoding: Encoding | None = None
    """how its blocks are encoded; None: they are not"""


def namespace_properties(name: str, block_bytes: int, properties: dict[str, object]) -> NamespaceProperties:
    """Checks and writes down a namespace's properties.

    Raises:
        InvalidArgument: a property holds a line feed or ``=`` in its name, or is an object without a text of its own,
            or all are longer than the protocol allows; or ``encoding`` is none that blocks of this size can have.
        TypeError: the name is no text, or ``block_bytes`` no number.
    """
    if not isinstance(name, str):
        raise TypeError(f"the namespace's name is {name!r}; expected text")
    if "name" in properties:
        raise InvalidArgument("'name' is not a further property: it is the namespace's name")
    if not name:
        raise InvalidArgument("the namespace has no name: give it one that all who share its blocks use")
    lines = {"name": name, **{key: str(value) for key, value in properties.items()}}
    for key, value in lines.items():
        if not key or not value or "\n" in key + value or "=" in key:
            raise InvalidArgument(f"property {key!r} = {value!r}: expected a name without '=', and one line each")
        if _ADDRESS.search(value):
            raise InvalidArgument(f"property {key!r} = {value!r}: an address, which no other process has; expected text")
    text = "\n".join(f"{key}={value}" for key, value in sorted(lines.items())).encode()
    if len(text) > protocol.TEXT_BYTES_MAX:
        raise InvalidArgument(f"the properties take {len(text)} bytes, at most {protocol.TEXT_BYTES_MAX} are possible")
    if not isinstance(block_bytes, int):
        raise TypeError(f"block_bytes is {block_bytes!r}; expected a number of bytes")
    if not 0 < block_bytes < 1 << 32:
        raise InvalidArgument(f"a block of {block_bytes} bytes: expected 1 to 4 GiB")
    encoding = encoding_of(lines[PROPERTY], block_bytes) if PROPERTY in lines else None
    return NamespaceProperties(name, block_bytes, text, encoding)


class Link:
    """One session with one daemon, from its handshake to its end; never used again after that."""

    def __init__(
        self,
        session: Session,
        channel: socket.socket,
        slab_bytes: int,
        slab_count: int,
        daemon: str,
        words: Slab | None = None,
        version_minor: int = protocol.VERSION_MINOR,
    ) -> None:
        self.session = session
        self.encodes = version_minor >= _VERSION_MINOR_ENCODED
        """whether the daemon knows encoded blocks"""
        self.asks_nodes_again = version_minor >= _VERSION_MINOR_FRESH
        """whether the daemon knows lookups that must be fresh"""
        self.expects = version_minor >= _VERSION_MINOR_EXPECTED
        """whether the daemon knows gets of blocks that a node is going to have"""
        self.words = words
        """the page of the session's memory with the words that count layers, mapped once more: a GPU may look at it for longer
        than the session lasts"""
        self.slab_bytes = slab_bytes
        self.slab_count = slab_count
        self.daemon = daemon
        self.read_slabs: dict[int, Slab] = {}
        self.write_slabs: dict[int, Slab] = {}
        self.namespaces: dict[NamespaceProperties, int] = {}
        self.shards: dict[tuple[NamespaceProperties, bytes], int] = {}
        """the regions in host memory, by namespace and description"""
        self.forget: Callable[[int], None] = session.forget
        """lets go of a correlation id, as the front end needs it done"""
        self.progress_words: deque[int] | None = None
        """which words that count layers are free; made when one is needed first"""
        self.progress_lock = threading.Lock()
        self._channel = channel
        self._lock = threading.Lock()
        self._answers_overdue = 0
        self._passed = 0

    def map_slabs(self, indices: Iterable[int], writable: bool, deadline_ns: int) -> Status:
        """Maps what is not mapped yet. OK, or the status of the blocks in slabs that stay unmapped."""
        slabs = self.write_slabs if writable else self.read_slabs
        if not self._lock.acquire(timeout=max(0, deadline_ns - monotonic_ns()) / 1e9):
            return Status.DEADLINE
        outcome = Status.OK
        try:
            for index in sorted(indices):
                if index in slabs or self.session.ended:
                    continue
                if index >= self.slab_count:
                    raise SessionError(f"slab {index} of {self.slab_count}")
                slab = self._map_slab(index, writable, deadline_ns)
                if isinstance(slab, Slab):
                    slabs[index] = slab
                else:
                    outcome = slab
        except (OSError, SessionError) as error:
            self.session.fail(f"mapping a slab failed: {error}")
        finally:
            self._lock.release()
        return Status.UNAVAILABLE if self.session.ended else outcome

    def numbers_to_pass(self, count: int) -> int:
        """The first of so many numbers for `pass_memory` that nobody else gets."""
        with self._lock:
            first = self._passed
            self._passed += count
            return first

    def pass_memory(self, number: int, descriptor: int, deadline_ns: int) -> Status:
        """Gives the daemon a copy of a descriptor of device memory; DENIED where it takes none, as one without a GPU does."""
        if not self._lock.acquire(timeout=max(0, deadline_ns - monotonic_ns()) / 1e9):
            return Status.DEADLINE
        try:
            status, _ = self._ask(protocol.HANDSHAKE_PASS_MEMORY_MAGIC, number, 0, deadline_ns, descriptor)
        except PermissionError:
            return Status.DENIED
        except (OSError, SessionError) as error:
            self.session.fail(f"passing device memory failed: {error}")
            return Status.UNAVAILABLE
        finally:
            self._lock.release()
        return status

    def _map_slab(self, index: int, writable: bool, deadline_ns: int) -> Slab | Status:
        status, descriptors = self._ask(protocol.HANDSHAKE_MAP_SLAB_MAGIC, index, writable, deadline_ns)
        try:
            if status is not Status.OK or len(descriptors) != 1:
                return Status.INTERNAL if status is Status.OK else status
            return Slab(descriptors[0], self.slab_bytes, writable)
        finally:
            _close_all(descriptors)

    def _ask(
        self, magic: int, number: int, word: int, deadline_ns: int, descriptor: int | None = None
    ) -> tuple[Status, list[int]]:
        """Asks over the socket; the descriptors of the answer are the caller's."""
        question = protocol.HANDSHAKE_QUESTION.pack(magic, number, word)
        try:
            self._channel.settimeout(_seconds_until(deadline_ns))
            if descriptor is None:
                self._channel.sendall(question)
            else:
                socket.send_fds(self._channel, [question], [descriptor])
            self._answers_overdue += 1
            while True:
                self._channel.settimeout(_seconds_until(deadline_ns))
                message, descriptors = _receive(self._channel)
                self._answers_overdue -= 1
                if self._answers_overdue == 0:
                    break
                # The answer to a question whose asker went away at its deadline.
                _close_all(descriptors)
        except TimeoutError:
            return Status.DEADLINE, []
        try:
            if len(message) < protocol.HANDSHAKE_ANSWER.size:
                raise SessionError(f"an answer of {len(message)} bytes over the socket")
            answers, answered, status, _ = protocol.HANDSHAKE_ANSWER.unpack_from(message)
            if answers != magic or answered != number:
                raise SessionError(f"an answer about {answered}, asked about {number}")
        except SessionError:
            _close_all(descriptors)
            raise
        return Status(status) if 0 <= status < len(Status) else Status.INTERNAL, descriptors

    def close(self) -> None:
        """Ends the session; what waits in it answers UNAVAILABLE. The daemon's memory is let go of as soon as nobody reads it."""
        self.session.close()
        self._channel.close()
        self.read_slabs, self.write_slabs = {}, {}

    def abandon(self) -> None:
        """In a forked child: lets go without ending the parent's session."""
        self.session.abandon()
        self._channel.close()


class Connection:
    """Opens links to the daemon behind one socket path, one at a time, and remembers why there is none."""

    def __init__(
        self,
        socket_path: str | os.PathLike[str] | None,
        name: str,
        reconnect: bool,
        ring_bytes: int,
        log_level: int = logging.WARNING,
        daemon_user: str | int | None = None,
    ) -> None:
        self._expected_users = expected_users(daemon_user)
        self.socket_path = default_socket_path() if socket_path is None else os.fsdecode(socket_path)
        if not self.socket_path or "\0" in self.socket_path:
            raise InvalidArgument(
                f"socket_path is {self.socket_path!r}; expected the path of the daemon's socket, "
                "or None for its usual places"
            )
        self.name = name
        self.reason = "not connected yet"
        self._reconnect = reconnect
        self._ring_bytes = ring_bytes
        self._log_level = log_level
        self._link: Link | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._tried = False
        self._warned = False
        self._backoff_ns = _BACKOFF_FIRST_NS
        self._retry_at_ns = 0
        _connections.add(self)

    @property
    def closed(self) -> bool:
        return self._closed

    def current(self) -> Link | None:
        """The live link, without trying anything."""
        link = self._link
        return link if link is not None and not link.session.ended else None

    def may_try(self) -> bool:
        """Whether opening a link now is allowed by the back-off."""
        return not self._closed and (self._reconnect or not self._tried) and monotonic_ns() >= self._retry_at_ns

    def link(self, deadline_ns: int) -> Link | None:
        """The live link; a new one when there is none and the back-off allows. None otherwise. Never raises."""
        link = self._link
        if link is not None and not link.session.ended:
            return link
        if link is not None:
            self._let_go(link)
        if not self.may_try():
            if self._closed and not self._warned:
                self._warned = True
                _log.log(self._log_level, "this client is used after it was closed: its calls answer UNAVAILABLE")
            return None
        try:
            return self.open(deadline_ns)
        except Unavailable as error:
            self.warn(error)
            return None

    def warn(self, error: Unavailable) -> None:
        """Logs why there is no link, once until there was one again: the calls answer with a status alone."""
        if not self._warned and self.reason == str(error):
            self._warned = True
            _log.log(self._log_level, "%s. Calls answer UNAVAILABLE until a daemon answers.", error)

    def open_within(self, timeout_s: float) -> Link:
        """As `open`."""
        return self.open(monotonic_ns() + int(timeout_s * 1e9))

    def open(self, deadline_ns: int) -> Link:
        """The live link, or a new one at once.

        Raises:
            VersionMismatch: the daemon speaks another major version.
            Unavailable: no daemon answers, or it refuses; the message says why.
        """
        if not self._lock.acquire(timeout=max(0, deadline_ns - monotonic_ns()) / 1e9):
            raise Unavailable(f"the daemon at {self.socket_path} does not answer: another thread is still connecting")
        try:
            if self._closed:
                raise Unavailable("this client was closed")
            link = self.current()
            if link is not None:
                return link
            self._tried = True
            try:
                link = _open_link(self.socket_path, self.name, self._ring_bytes, deadline_ns, self._expected_users)
            except Unavailable as error:
                self.reason = str(error)
                self._retry_at_ns = monotonic_ns() + self._backoff_ns
                self._backoff_ns = min(2 * self._backoff_ns, _BACKOFF_LAST_NS)
                raise
            self._backoff_ns = _BACKOFF_FIRST_NS
            self._warned = False
            self._link = link
            return link
        finally:
            self._lock.release()

    def _let_go(self, link: Link) -> None:
        with self._lock:
            if self._link is link:
                self._link = None
                self.reason = f"the session with {self.socket_path} ended: {link.session.end_text}"
                if not self._closed:
                    _log.log(self._log_level, "%s (%s)", self.reason, link.session.end_status.name)
        link.close()

    def close(self) -> None:
        """Ends the link for good."""
        with self._lock:
            self._closed = True
            self._warned = False
            self.reason = "this client was closed"
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def after_fork_in_child(self) -> None:
        """The parent's session stays the parent's; locks that its threads held are made anew."""
        self._lock = threading.Lock()
        self._retry_at_ns = 0
        self._tried = False
        link, self._link = self._link, None
        if link is not None:
            link.abandon()


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for connection in list(_connections):
        connection.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _is_other_file(path: str) -> bool:
    """Whether something else than a socket is there; not where a daemon that starts has just taken it away."""
    try:
        return not stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _connect(channel: socket.socket, path: str, deadline_ns: int) -> None:
    """Connects; while the daemon's queue of new connections is full, it tries again until the deadline (TimeoutError)."""
    while True:
        try:
            channel.connect(path)
            return
        except BlockingIOError:
            if monotonic_ns() + _CONNECT_AGAIN_NS > deadline_ns:
                raise TimeoutError from None
            time.sleep(_CONNECT_AGAIN_NS / 1e9)


def _open_link(
    path: str, name: str, ring_bytes: int, deadline_ns: int, expected: frozenset[int] | None
) -> Link:
    deadline_ns = min(deadline_ns, monotonic_ns() + _HANDSHAKE_TIMEOUT_NS)
    try:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"cannot connect to the daemon at {path}: {error}") from None
    try:
        channel.settimeout(_seconds_until(deadline_ns))
        try:
            _connect(channel, path, deadline_ns)
            stranger = why_not(channel, path, expected)
            if stranger is not None:
                raise Unavailable(stranger)
            channel.sendall(_hello(name, ring_bytes))
            message, descriptors = _receive(channel)
        except FileNotFoundError:
            raise Unavailable(f"no daemon listens at {path}: the socket does not exist") from None
        except ConnectionRefusedError:
            if _is_other_file(path):
                raise Unavailable(f"no daemon listens at {path}: it is no socket") from None
            raise Unavailable(f"no daemon listens at {path}: the socket was left behind by one that ended") from None
        except PermissionError:
            raise Unavailable(
                f"no permission to use {path}: the daemon serves another user or group (its socket.users, groups and mode)"
            ) from None
        except (ConnectionResetError, BrokenPipeError):
            raise Unavailable(f"the daemon at {path} ended while this client connected") from None
        except TimeoutError:
            raise Unavailable(f"the daemon at {path} accepts connections but does not answer in time") from None
        except OSError as error:
            if error.errno == errno.EPROTOTYPE:
                raise Unavailable(f"no daemon listens at {path}: it is a socket of another kind") from None
            path_bytes = len(os.fsencode(path))
            if path_bytes > _PATH_BYTES_MAX:
                raise Unavailable(
                    f"no daemon listens at {path}: the path has {path_bytes} bytes; Linux allows at most {_PATH_BYTES_MAX}"
                ) from None
            raise Unavailable(f"cannot connect to the daemon at {path}: {error}") from None
        try:
            return _welcome(message, descriptors, channel, path)
        finally:
            _close_all(descriptors)
    except BaseException:
        channel.close()
        raise


def _hello(name: str, ring_bytes: int) -> bytes:
    text = f"kvtier-py/{CLIENT_VERSION} {name}".rstrip().encode()[:512]
    header = protocol.HANDSHAKE_HELLO.pack(
        protocol.HANDSHAKE_HELLO_MAGIC, protocol.VERSION, ring_bytes, ring_bytes, len(text), 0
    )
    return header + text


def _welcome(message: bytes, descriptors: list[int], channel: socket.socket, path: str) -> Link:
    if not message:
        raise Unavailable(f"the daemon at {path} closed the connection without an answer")
    if len(message) < protocol.HANDSHAKE_WELCOME.size:
        raise Unavailable(f"what listens at {path} is no kvtier daemon: it answered {len(message)} bytes")
    magic, version, code, text_bytes, _, slab_bytes, slab_count, _ = protocol.HANDSHAKE_WELCOME.unpack_from(message)
    if magic != protocol.HANDSHAKE_WELCOME_MAGIC:
        raise Unavailable(f"what listens at {path} is no kvtier daemon: magic {magic:#x}")
    text = message[protocol.HANDSHAKE_WELCOME.size : protocol.HANDSHAKE_WELCOME.size + text_bytes].decode(errors="replace")
    if version >> 16 != protocol.VERSION_MAJOR:
        older = "kvtierd and restart it" if version < protocol.VERSION else "the client"
        raise VersionMismatch(
            f"the daemon at {path} speaks protocol {_version_text(version)}, the client protocol "
            f"{_version_text(protocol.VERSION)}: upgrade {older}, so that both have the same version of kvtier"
        )
    if code != Status.OK:
        status = Status(code) if code < len(Status) else Status.INTERNAL
        raise Unavailable(f"the daemon at {path} refuses this client: {status.name}, {text}")
    if len(descriptors) != 3:
        raise Unavailable(f"the daemon at {path} sent {len(descriptors)} descriptors, expected 3")
    memory, doorbell, daemon = descriptors
    try:
        session = Session(memory, doorbell, daemon, channel.fileno())
        words = Slab(memory, protocol.SESSION_HEADER_BYTES, True)
    except (OSError, SessionError) as error:
        raise Unavailable(f"the session's memory from {path} cannot be used: {error}") from error
    return Link(session, channel, slab_bytes, slab_count, text, words, version & 0xFFFF)


def _version_text(version: int) -> str:
    return f"{version >> 16}.{version & 0xFFFF}"


def _seconds_until(deadline_ns: int) -> float:
    # Zero would mean a non-blocking socket.
    return max((deadline_ns - monotonic_ns()) / 1e9, 1e-4)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One message and its descriptors, which the caller closes. No bytes: the peer has gone."""
    descriptors = array.array("i")
    message, ancillary, flags, _ = channel.recvmsg(
        protocol.HANDSHAKE_MESSAGE_BYTES_MAX, socket.CMSG_SPACE(16 * descriptors.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        _close_all(descriptors)
        raise OSError("a message of the daemon is longer than the protocol allows")
    return message, list(descriptors)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
