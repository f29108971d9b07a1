"""Packs the GPU checks into a folder, for a machine with a GPU and Python, without a JDK, Maven and network; its `run` starts them.

    python -m checks.gpu.pack FOLDER

The folder is laid out as a checkout is: `checks/` with this package, `python/` with the client, `lib/` with jars, and `runtime/`,
which is a Java of its own.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import kvtier_testing

import kvtier
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool

JAVA_MODULES = "java.base,java.logging,java.management,java.xml,jdk.management,jdk.unsupported"
JAVA_LEFT_OUT = "/java.base/lib/classlist,/java.base/lib/libsimdsort.so,/java.base/lib/security/**"
DRIVER = "lib/libJCudaDriver-12.6.0-linux-x86_64.so"
MIB_MAX = 62
RUN = """#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/python:$here"
case ${1:-} in
  daemon | containers | granules) part=$1; shift ;;
  *) part=copies ;;
esac
exec "${PYTHON3:-python3}" -P -m "checks.gpu.$part" "$@"
"""

GPU_JARS = ("kvtier-layout", "kvtier-tiers", "kvtier-protocol", "jcuda-1", "slf4j-api", "logback-classic", "logback-core")
DAEMON_JARS = (
    "kvtier-policies", "jctools", "caffeine", "minimal-json", "opentelemetry-api", "opentelemetry-context", "opentelemetry-sdk-common",
    "opentelemetry-sdk-trace", "picocli", "snakeyaml",
)  # fmt: skip
"""what the daemon needs without object stores and gRPC"""


def jars(folder: Path, name: str) -> list[Path]:
    """The jars whose names begin so."""
    found = sorted(folder.glob(f"{name}*.jar"))
    if not found:
        sys.exit(f"gpu-check: {folder} has no {name}*.jar: which name has changed?")
    return found


def some_of(jar: Path, to: Path, beginnings: Iterable[str]) -> None:
    """Writes a jar with the entries of another that begin with one of these words."""
    wanted = tuple(beginnings)
    with zipfile.ZipFile(jar) as whole, zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as part:
        names = [name for name in whole.namelist() if name.startswith(wanted) and not name.endswith("/")]
        if not names:
            sys.exit(f"gpu-check: {jar.name} has nothing that begins with {' or '.join(wanted)}")
        for name in names:
            part.writestr(name, whole.read(name))


def jlink(to: Path, modules: str, *more: str) -> None:
    """A Java runtime with these modules alone."""
    program = Path(os.environ["JAVA_HOME"], "bin", "jlink")
    subprocess.run([program, "--add-modules", modules, "--strip-debug", "--no-header-files", "--no-man-pages", *more, "--output", to], check=True)


def copy_python(package: Path, to: Path) -> None:
    shutil.copytree(package, to / package.name, ignore=shutil.ignore_patterns("__pycache__"))


def copy_checks(to: Path, names: Iterable[str]) -> None:
    """Packs parts of the package `checks`, with what all of them share."""
    (to / "checks").mkdir()
    shutil.copy(ROOT / "checks" / "__init__.py", to / "checks")
    for name in ("shared", *names):
        copy_python(ROOT / "checks" / name, to / "checks")


def pack(folder: Path) -> None:
    """Packs all into a folder, where nothing else of these names may stay."""
    for name in ("runtime", "lib", "python", "checks"):
        shutil.rmtree(folder / name, ignore_errors=True)
    lib = folder / "lib"
    lib.mkdir(parents=True)
    jlink(folder / "runtime", JAVA_MODULES, "--compress", "zip-9", "--exclude-files", JAVA_LEFT_OUT)
    for module, names in (("bench", GPU_JARS), ("daemon", DAEMON_JARS)):
        target = ROOT / module / "target"
        for jar in [*jars(target, f"kvtier-{module}-"), *(jar for name in names for jar in jars(target / "lib", name))]:
            shutil.copy(jar, lib)
    some_of(jars(ROOT / "bench" / "target" / "lib", "jcuda-natives-*-linux-x86_64")[0], lib / "jcuda-driver.jar", [DRIVER])
    daemon_lib = ROOT / "daemon" / "target" / "lib"
    # RocksDB's jar has a library for each platform: 92 MB.
    some_of(jars(daemon_lib, "rocksdbjni-")[0], lib / "rocksdb.jar", ["org/", "librocksdbjni-linux64.so"])
    # The daemon's commands speak JSON in Vert.x's classes.
    some_of(jars(daemon_lib, "vertx-core-[0-9]")[0], lib / "vertx-json.jar", ["io/vertx/core/json/", "io/vertx/core/shareddata/"])
    (folder / "python").mkdir()
    for package in (kvtier, kvtier_testing):
        copy_python(Path(package.__file__ or "").parent, folder / "python")
    copy_checks(folder, ["gpu"])
    run = folder / "run"
    run.write_text(RUN)
    run.chmod(0o755)


def mib(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) >> 20


def main() -> int:
    parser = Arguments(prog="scripts/gpu-check pack", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="made where it is missing; what was packed there before is replaced")
    folder = parser.parse_args().folder.resolve()
    pack(folder)
    size = mib(folder)
    if size > MIB_MAX:
        print(f"gpu-check: {folder} has {size} MiB, expected at most {MIB_MAX}: which jar or module has grown?", file=sys.stderr)
        return 1
    print(f"packed {size} MiB into {folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run_tool(main)
