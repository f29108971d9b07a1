"""Certificates for TLS."""

import subprocess
from pathlib import Path


def certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """A certificate that has signed itself, and its key, as files in the folder.

    Args:
        names: of the host in the certificate, such as `IP:10.0.0.1` or `DNS:node`; none: this machine's loopback.
    """
    files = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kvtier"]
        + ["-addext", f"subjectAltName={','.join(names or ('IP:127.0.0.1', 'DNS:localhost'))}"]
        + ["-out", str(files[0]), "-keyout", str(files[1])],
        check=True,
        capture_output=True,
    )
    return files
