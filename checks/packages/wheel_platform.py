"""Says on which systems native libraries run: the oldest C and C++ libraries that have all that they ask for.

    python3 -m checks.packages.wheel_platform wheel FILE     the platform tag of a wheel: the oldest manylinux
    python3 -m checks.packages.wheel_platform depends FOLDER the Debian packages that the libraries below a folder need

Reads libraries and those in jars, with objdump.
"""

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checks.packages import architecture

# The highest GLIBCXX version of each platform (PEP 600), by the version of the C library that names the platform.
CXX = {(2, 17): (3, 4, 19), (2, 24): (3, 4, 22), (2, 28): (3, 4, 25), (2, 31): (3, 4, 28), (2, 34): (3, 4, 29), (2, 35): (3, 4, 30), (2, 39): (3, 4, 33)}
# The first version of Debian's libstdc++6 with these symbols.
CXX_PACKAGES = {(3, 4, 22): "6", (3, 4, 25): "8", (3, 4, 28): "9", (3, 4, 29): "11", (3, 4, 30): "12", (3, 4, 33): "13.2"}
# Debian packages of libraries that a Java runtime may need, beside those of every system.
PACKAGES = {"libz.so.1": "zlib1g"}


@dataclass
class Needs:
    """What libraries ask for."""

    c: tuple[int, ...] = (2, 17)
    cxx: tuple[int, ...] = (0,)
    names: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)

    def add(self, library: bytes) -> None:
        of = architecture.of_library(library)
        if of is not None:
            self.kernels.add(of.kernel)
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(library)
            file.flush()
            listed = subprocess.run(["objdump", "-T", "-p", file.name], check=True, capture_output=True, text=True).stdout
        self.c = max([self.c, *versions(listed, "GLIBC")])
        self.cxx = max([self.cxx, *versions(listed, "GLIBCXX")])
        self.names.update(re.findall(r"^ +NEEDED +(\S+)$", listed, re.MULTILINE))


def versions(listed: str, prefix: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, version.split("."))) for version in re.findall(rf"\b{prefix}_([0-9.]+)\b", listed)]


def libraries(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith(".jar"):
                yield from libraries(archive.read(name))
            elif name.endswith(".so"):
                yield archive.read(name)


def platform(wheel: bytes) -> str:
    """The platform tag of a wheel. Its libraries are of one architecture."""
    needs = Needs()
    for library in libraries(wheel):
        needs.add(library)
    if len(needs.kernels) != 1:
        sys.exit(f"kvtier: error: expected libraries of one architecture in a wheel, and found {sorted(needs.kernels)}")
    for version, has in sorted(CXX.items()):
        if version >= needs.c[:2] and has >= needs.cxx:
            return f"manylinux_{version[0]}_{version[1]}_{needs.kernels.pop()}"
    sys.exit(f"kvtier: error: no manylinux platform has GLIBC {needs.c} and GLIBCXX {needs.cxx}")


def depends(folder: Path) -> str:
    """The packages of libraries that the programs and jars below a folder need, as a Debian control file has them."""
    needs = Needs()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix == ".jar":
            for library in libraries(data):
                needs.add(library)
        elif data[:4] == b"\x7fELF":
            needs.add(data)
    cxx = next((package for version, package in sorted(CXX_PACKAGES.items()) if version >= needs.cxx), None)
    if cxx is None:
        sys.exit(f"kvtier: error: no libstdc++6 is known with GLIBCXX {needs.cxx}")
    own = {path.name for path in folder.rglob("*.so*")}
    more = sorted(PACKAGES[name] for name in needs.names & PACKAGES.keys() - own)
    return ", ".join([f"libc6 (>= {'.'.join(map(str, needs.c))})", "libgcc-s1", f"libstdc++6 (>= {cxx})", *more])


def main() -> None:
    kind, path = sys.argv[1], Path(sys.argv[2])
    print(depends(path) if kind == "depends" else platform(path.read_bytes()))


if __name__ == "__main__":
    main()
