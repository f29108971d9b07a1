"""What this package raises. Expected outcomes are statuses; exceptions are for misuse and for set-up."""


class KvtierError(Exception):
    """The root of everything that this package raises on purpose."""


class InvalidArgument(KvtierError, ValueError):
    """An argument is out of its range, or a buffer has the wrong size or is read-only."""


class Unavailable(KvtierError):
    """No session with a daemon could be opened. Raised by ``connect`` only; operations answer ``UNAVAILABLE``."""


class VersionMismatch(Unavailable):
    """The daemon speaks another major version of the protocol; the message names both."""


class NamespaceMismatch(KvtierError):
    """A namespace of this name has other properties; the message names the one that differs."""


class SessionError(KvtierError):
    """The peer wrote what the protocol does not allow. It ends the session and does not leave this package."""
