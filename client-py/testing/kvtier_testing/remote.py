"""A daemon that also serves gRPC over TLS, with tokens."""

import subprocess
from typing import Any

from kvtier_testing.certificates import certificate
from kvtier_testing.daemon import Daemon
from kvtier_testing.process import PROGRAMS, free_port


class RemoteDaemon(Daemon):
    """A daemon with a port for gRPC over TLS, whose callers bring a token. It keeps all three when it is started again."""

    port = 0

    def start(self, **changed: str) -> None:
        if not self.port:
            self.port = free_port()
            self.certificate, self.key = certificate(self.folder)
            self.tokens = self.folder / "tokens"
            self.token_file = self.folder / "token"
            self.token_file.write_text(self.make_token("write"))
        super().start(
            **{
                "grpc__enabled": "true",
                "grpc__port": str(self.port),
                "tls__certificate": str(self.certificate),
                "tls__key": str(self.key),
                "access__tokens": str(self.tokens),
            }
            | changed
        )

    def make_token(self, role: str) -> str:
        """A token with a role, which the daemon knows from now on."""
        command = [str(PROGRAMS / "kvtier"), "token", "make", "--name", role, "--file", str(self.tokens), "--role", role]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        return next(word for word in made.stdout.split() if word.startswith("kvt_"))

    @property
    def address(self) -> str:
        return f"grpcs://127.0.0.1:{self.port}"

    @property
    def credentials(self) -> dict[str, Any]:
        """The arguments of a client of this daemon: its token, and the certificate to trust."""
        return {"token_file": self.token_file, "ca": self.certificate}
