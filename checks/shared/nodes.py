"""Daemons that are nodes of a cluster."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kvtier_testing import process
from kvtier_testing.certificates import certificate

from kvtier import Client

_MEMORY_ONLY = {"host.keep": 0, "ssd.bytes": 0, "http.enabled": "false", "grpc.enabled": "false"}


class NodeDaemon:
    """A daemon that keeps blocks in memory only, and a client of the daemon."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        failure: Callable[[str], BaseException],
        *,
        timeout_s: float,
        within: Callable[[list[str]], list[str]] = list,
    ) -> None:
        """Starts the daemon, and waits until it is ready.

        Args:
            folder: of its socket and its log; it is made.
            settings: in addition to those of a daemon without lower tiers.
            failure: makes the exception of a daemon that does not become ready, from a text.
            timeout_s: of the client's calls.
            within: makes the command that runs another command somewhere else, such as in a network namespace.
        """
        folder.mkdir(exist_ok=True)
        self.socket = folder / "kvtier.sock"
        self.log = folder / "daemon.log"
        self._command = within(process.command_of([str(process.PROGRAMS / "kvtierd")], self.socket, _MEMORY_ONLY | dict(settings)))
        self._failure = failure
        self._process, _ = process.start(self._command, self.log, failure)
        self._timeout_s = timeout_s
        self.client = Client(self.socket, timeout=timeout_s)

    def kill(self) -> None:
        """Ends the daemon at once, without its word."""
        self._process.kill()
        self._process.wait()

    def kill_and_start(self) -> None:
        """Kills the daemon without warning, and starts it again, without its blocks. The client is another one then."""
        self.kill()
        process.stop(self._process)
        self.client.close()
        self._process, _ = process.start(self._command, self.log, self._failure)
        # The counters of the old one would be those of the dead daemon's memory.
        self.client = Client(self.socket, timeout=self._timeout_s)

    def stop(self) -> None:
        self.client.close()
        process.stop(self._process)


def tls_settings(folder: Path, *names: str) -> dict[str, object]:
    """The settings of nodes that share one certificate, which they trust, and have no tokens.

    Args:
        folder: of the certificate and its key.
        names: in the certificate, as `kvtier_testing.certificates.certificate` takes them.
    """
    shared, key = certificate(folder, *names)
    return {"nodes.security": "tls_without_tokens", "nodes.ca": shared, "tls.certificate": shared, "tls.key": key}
