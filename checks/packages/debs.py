"""Debian packages: reads them without dpkg, and fetches the packages that a list names.

A list (packaging/image/base.lock) has one package a line: name, version, SHA-256. A '# suite:' line says which release of Debian they
are from. Its packages come from the mirrors that this machine's apt uses, and apt checks their signatures.
"""

import hashlib
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRRORS = ("KVTIER_DEBIAN_MIRROR", "KVTIER_DEBIAN_SECURITY_MIRROR")
AR_MAGIC = b"!<arch>\n"
AR_HEADER_BYTES = 60


class DebError(Exception):
    """A package or a list is wrong; the message describes the fault."""


@dataclass(frozen=True)
class Locked:
    """One package of a list."""

    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}.deb"


@dataclass(frozen=True)
class Lock:
    """A list of packages of one release of Debian."""

    suite: str
    packages: tuple[Locked, ...]

    @staticmethod
    def read(file: Path) -> "Lock":
        suite = ""
        packages: list[Locked] = []
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("# suite:"):
                suite = line.split(":", 1)[1].strip()
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 3 or not re.fullmatch("[0-9a-f]{64}", words[2]):
                raise DebError(f"{file.name}:{number}: expected a name, a version and a SHA-256, and found '{line}'")
            packages.append(Locked(*words))
        if not suite:
            raise DebError(f"{file.name}: expected a line '# suite: NAME', and found none")
        return Lock(suite, tuple(packages))

    def text(self) -> str:
        lines = [
            "# The Debian packages in the container image. 'scripts/package image --update-base' writes this file.",
            f"# suite: {self.suite}",
        ]
        return "\n".join([*lines, *(f"{one.name} {one.version} {one.sha256}" for one in self.packages)]) + "\n"


def members(deb: bytes) -> dict[str, bytes]:
    """The members of an ar archive, which a .deb is."""
    if not deb.startswith(AR_MAGIC):
        raise DebError("this is no .deb: it does not begin with '!<arch>'")
    found: dict[str, bytes] = {}
    at = len(AR_MAGIC)
    while at + AR_HEADER_BYTES <= len(deb):
        header = deb[at : at + AR_HEADER_BYTES]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        at += AR_HEADER_BYTES
        if at + size > len(deb):
            raise DebError(f"this .deb is cut off in its member {name}")
        found[name] = deb[at : at + size]
        at += size + size % 2
    return found


def _tar(deb: bytes, name: str) -> tarfile.TarFile:
    parts = members(deb)
    for ending in (".xz", ".gz", ""):
        if name + ending in parts:
            return tarfile.open(fileobj=io.BytesIO(parts[name + ending]))
    raise DebError(f"this .deb has no {name} in xz or gz: it has {', '.join(parts)}")


def data(deb: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The files that a .deb installs; their names begin without './'."""
    with _tar(deb, "data.tar") as archive:
        for entry in archive:
            entry.name = entry.name.removeprefix("./").rstrip("/")
            content = archive.extractfile(entry) if entry.isreg() else None
            if entry.name not in ("", "."):
                yield entry, b"" if content is None else content.read()


def control(deb: bytes) -> str:
    """The control paragraph of a .deb."""
    with _tar(deb, "control.tar") as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.name.lstrip("./") == "control" else None
            if content is not None:
                return content.read().decode().rstrip("\n") + "\n"
    raise DebError("this .deb has no control file")


def mirrors(environment: Mapping[str, str]) -> tuple[str, str]:
    """The addresses of Debian's archive and of its security updates: those of the environment, else those of this machine's apt."""
    main, security = (environment.get(name, "") for name in MIRRORS)
    if not main:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for line in sorted(set(listed.splitlines())):
            origin, label, address = line.split("|", 2)
            if origin == "Debian" and label == "Debian":
                main = main or address
            elif origin == "Debian" and label == "Debian-Security":
                security = security or address
    if not main:
        raise DebError(f"this machine's apt has no mirror of Debian: run apt-get update, or set {MIRRORS[0]} and {MIRRORS[1]}")
    return main, security


class Apt:
    """apt-get in a folder of its own, for another release than this machine's."""

    def __init__(self, folder: Path, suite: str) -> None:
        if not KEYRING.exists():
            raise DebError(f"there is no {KEYRING}: install debian-archive-keyring")
        self.folder = folder
        for part in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        main, security = mirrors(os.environ)
        lines = [f"deb [arch=amd64 signed-by={KEYRING}] {main} {suite} main"]
        if security:
            lines.append(f"deb [arch=amd64 signed-by={KEYRING}] {security} {suite}-security main")
        (folder / "sources.list").write_text("\n".join(lines) + "\n")
        (folder / "status").touch()
        self._options = [
            f"-oDir::Etc::SourceList={folder / 'sources.list'}", "-oDir::Etc::SourceParts=-", f"-oDir::State::Lists={folder / 'lists'}",
            f"-oDir::Cache={folder / 'cache'}", f"-oDir::State::status={folder / 'status'}", "-oAPT::Architecture=amd64",
            "-oAPT::Architectures=amd64", "-oAPT::Sandbox::User=root", "-oAcquire::Languages=none", "-oDpkg::Use-Pty=0",
        ]  # fmt: skip

    def run(self, *words: str) -> str:
        done = subprocess.run([words[0], *self._options, *words[1:]], cwd=self.folder / "debs", capture_output=True, text=True)
        if done.returncode != 0:
            raise DebError(f"'{' '.join(words)}' failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def update(self) -> None:
        self.run("apt-get", "update", "-qq")

    def newest(self, name: str) -> Locked:
        shown = self.run("apt-cache", "show", "--no-all-versions", name)
        fields = dict(re.findall(r"^(Version|SHA256): (.*)$", shown, re.MULTILINE))
        return Locked(name, fields["Version"], fields["SHA256"])

    def download(self, one: Locked) -> bytes:
        before = set((self.folder / "debs").iterdir())
        try:
            self.run("apt-get", "download", "-qq", f"{one.name}={one.version}")
        except DebError as error:
            raise DebError(
                f"Debian's mirror no longer has {one.name} {one.version}, which the image is made of: run "
                f"'scripts/package image --update-base', and commit packaging/image/base.lock ({error})"
            ) from None
        (file,) = set((self.folder / "debs").iterdir()) - before
        content = file.read_bytes()
        file.unlink()
        return content


def fetched(lock: Lock, folder: Path) -> dict[str, bytes]:
    """The packages of a list, by name. Packages that are in the folder are not fetched again."""
    found: dict[str, bytes] = {}
    apt: Apt | None = None
    for one in lock.packages:
        file = folder / one.file
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != one.sha256:
            if apt is None:
                apt = Apt(folder / "apt", lock.suite)
                apt.update()
            file.write_bytes(apt.download(one))
        found[one.name] = file.read_bytes()
        digest = hashlib.sha256(found[one.name]).hexdigest()
        if digest != one.sha256:
            raise DebError(f"{one.name} {one.version} has SHA-256 {digest}, expected {one.sha256}")
    return found


def renewed(lock: Lock, folder: Path) -> Lock:
    """A list with the names of this one, and the newest versions on the mirrors."""
    apt = Apt(folder / "apt", lock.suite)
    apt.update()
    return Lock(lock.suite, tuple(apt.newest(one.name) for one in lock.packages))
