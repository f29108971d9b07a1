"""Prints the platform tag of a wheel: the oldest manylinux whose C and C++ libraries have all that its native libraries ask for.

Reads the wheel's own libraries and those in its jars, with objdump.
"""

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator

# The highest GLIBCXX version of each platform (PEP 600), by the version of the C library that names the platform.
CXX = {(2, 17): (3, 4, 19), (2, 24): (3, 4, 22), (2, 28): (3, 4, 25), (2, 31): (3, 4, 28), (2, 34): (3, 4, 29), (2, 35): (3, 4, 30), (2, 39): (3, 4, 33)}


def libraries(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith(".jar"):
                yield from libraries(archive.read(name))
            elif name.endswith(".so"):
                yield archive.read(name)


def needed(library: bytes, prefix: str) -> list[tuple[int, ...]]:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library)
        file.flush()
        listed = subprocess.run(["objdump", "-T", file.name], check=True, capture_output=True, text=True).stdout
    return [tuple(map(int, version.split("."))) for version in re.findall(rf"\b{prefix}_([0-9.]+)\b", listed)]


def main() -> None:
    c: tuple[int, ...] = (2, 17)
    cxx: tuple[int, ...] = (0,)
    with open(sys.argv[1], "rb") as wheel:
        for library in libraries(wheel.read()):
            c = max([c, *needed(library, "GLIBC")])
            cxx = max([cxx, *needed(library, "GLIBCXX")])
    for platform, has in sorted(CXX.items()):
        if platform >= c[:2] and has >= cxx:
            print(f"manylinux_{platform[0]}_{platform[1]}_x86_64")
            return
    sys.exit(f"kvtier: error: no manylinux platform has GLIBC {c} and GLIBCXX {cxx}")


if __name__ == "__main__":
    main()
