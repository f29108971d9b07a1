"""The users whose daemon a client accepts: it gives blocks to that daemon and reads its bytes."""

import os
import pwd
import socket
import stat
import struct
from pathlib import Path

from kvtier._errors import InvalidArgument

VARIABLE = "KVTIER_DAEMON_USER"

_UCRED = struct.Struct("3i")
_OVERFLOW_USER = Path("/proc/sys/kernel/overflowuid")
_LINKS_MAX = 40
_WRITABLE_BY_OTHERS = 0o022


def expected_users(daemon_user: str | int | None) -> frozenset[int] | None:
    """The users that are named, by the argument or by `$KVTIER_DAEMON_USER`; None where nobody names any.

    Raises:
        InvalidArgument: there is no such user on this machine.
    """
    where = "daemon_user"
    if daemon_user is None:
        daemon_user = os.environ.get(VARIABLE) or None
        where = VARIABLE
    if daemon_user is None:
        return None
    return frozenset(_number(item.strip(), where) for item in str(daemon_user).split(","))


def _number(item: str, where: str) -> int:
    if item.isascii() and item.isdigit() and int(item) < 1 << 32:
        return int(item)
    try:
        return pwd.getpwnam(item).pw_uid
    except KeyError:
        raise InvalidArgument(
            f"{where} names user {item!r}, which this machine does not know; expected names or numbers, with commas between them"
        ) from None


def why_not(channel: socket.socket, path: str, expected: frozenset[int] | None) -> str | None:
    """Why what listens at the other end of a connected socket is not to be trusted with blocks; None where it is."""
    # The credentials are those of the process that listens, as they were when it began to.
    peer = _UCRED.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1] & 0xFFFFFFFF
    own = os.geteuid()
    if peer in (own, 0) or (expected is not None and peer in expected):
        return None
    wanted = " or ".join(str(user) for user in sorted({own, 0, *(expected or ())}))
    if expected is not None:
        return f"the daemon at {path} belongs to user {peer}; expected user {wanted}. {VARIABLE} names the accepted users"
    if peer == _overflow_user():
        return (
            f"the user of the daemon at {path} has no number in this user namespace (it shows as {peer}); "
            f"expected user {wanted}. If you trust everyone who can put a socket there, set {VARIABLE}={peer}"
        )
    if _was_put_there_for(path, peer, own):
        return None
    return (
        f"the daemon at {path} belongs to user {peer}, and others could have put a socket there; "
        f"expected user {wanted}. If user {peer} runs your daemon, set {VARIABLE}={peer}"
    )


def _overflow_user() -> int:
    try:
        return int(_OVERFLOW_USER.read_text())
    except (OSError, ValueError):
        return 65534


def _was_put_there_for(path: str, peer: int, own: int) -> bool:
    """Whether only root, this user and the peer could have put a socket at a path, the peer in a folder that it was given.

    So it is with a service's folder below /run, and not with one in /tmp, which anybody can make.
    """
    at = "/"
    left = [part for part in os.path.join(os.getcwd(), path).split("/") if part][::-1]
    links = 0
    try:
        while left:
            status = os.lstat(at)
            if status.st_uid not in (0, own):
                return status.st_uid == peer
            if status.st_mode & _WRITABLE_BY_OTHERS:
                return False
            part = left.pop()
            if part in (".", ".."):
                at = os.path.dirname(at) if part == ".." else at
                continue
            entry = os.path.join(at, part)
            if not stat.S_ISLNK(os.lstat(entry).st_mode):
                at = entry
                continue
            links += 1
            if links > _LINKS_MAX:
                return False
            target = os.readlink(entry)
            at = "/" if target.startswith("/") else at
            left += [one for one in target.split("/") if one][::-1]
    except OSError:
        return False
    return True
