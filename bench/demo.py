"""Replays a public trace of LLM requests against a daemon of its own, checks every byte that comes back, and prints the figures.

The daemon has the default configuration. Its socket and SSD files are in a temporary folder.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket as socket_module
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from kvtier_testing import process

from bench.request_trace import TraceError, read_trace
from checks.shared.checkout import ROOT, library
from checks.shared.command_line import Arguments, run_tool, say
from checks.shared.s3_server import BUCKET, S3Server

KIB, MIB = 1 << 10, 1 << 20
UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE_MAX = 1 << 50
ARGUMENTS = ["--trace", "--requests", "--block-bytes", "--host-bytes", "--ssd-bytes", "--object", "--socket"]
SOCKET_CHARS_MAX = 100
"""of the path of a socket: an address has 108 bytes"""
BESIDE_HOST = 400 * MIB
"""memory of a daemon beside its blocks: a small heap and tables"""
BESIDE_SSD = 64 * MIB
LESS = "--host-bytes 256MiB --ssd-bytes 512MiB"
ENVIRONMENT = """TMPDIR sets the parent of the temporary folder (default: /tmp, or /var/tmp where /tmp is in memory).
Exit codes: 0 every byte was right, 1 wrong bytes or a failed start, 2 wrong usage, 3 the daemon ended."""


class Failed(Exception):
    """The demo can't start; the message says why, and what to do."""


class Options:
    """The options of the demo, from the command line. Wrong usage ends the process."""

    def __init__(self, arguments: list[str]) -> None:
        parser = Arguments(
            prog="demo", usage="scripts/demo [OPTION]...", description=__doc__, epilog=ENVIRONMENT,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        parser.add_argument("--trace", metavar="FILE", help="the trace, JSON lines, plain or gz (default: the slice in bench/traces)")
        parser.add_argument("--requests", metavar="N", help="only the first N requests")
        parser.add_argument("--block-bytes", metavar="SIZE", help="the size of a block (default: 64KiB)")
        parser.add_argument("--host-bytes", metavar="SIZE", help="host memory of the daemon (default: 1GiB)")
        parser.add_argument("--ssd-bytes", metavar="SIZE", help="SSD space of the daemon (default: 4GiB); 0: none")
        parser.add_argument(
            "--object", metavar="STORE",
            help="also use an object store: s3 (the demo starts a server) or folder. The other tiers are then small (256MiB and 1GiB), "
            "so that blocks reach the store, and 2000 requests are replayed",
        )  # fmt: skip
        parser.add_argument(
            "--encoding", choices=("none", "exact", "fp8"),
            help="blocks have values of bf16; exact: they are stored in about 0.76 of their bytes, fp8: in about 0.51, with a loss",
        )  # fmt: skip
        parser.add_argument("--socket", metavar="PATH", help="use the running daemon with this socket")
        parser.add_argument("--json", action="store_true", help="print the figures as a JSON object in the last line of standard output")
        given = parser.parse_args(arguments)
        self._parser = parser
        for name in ARGUMENTS:
            if getattr(given, name.removeprefix("--").replace("-", "_")) == "":
                self._refuse(f"{name} needs a value")
        if given.object not in (None, "s3", "folder"):
            self._refuse(f"--object is '{given.object}', expected s3 or folder")
        if given.socket and (given.host_bytes or given.ssd_bytes or given.object):
            self._refuse("--host-bytes, --ssd-bytes and --object need a daemon that the demo starts: leave them or --socket out")
        self.object = given.object
        self.socket = Path(given.socket) if given.socket else None
        self.replay = ["--json"] if given.json else []
        if given.encoding:
            self.replay += ["--encoding", given.encoding]
        self.settings: dict[str, object] = {}
        self.host_bytes, slab_bytes = self._tier("host", given.host_bytes, "256MiB", "slab_bytes")
        self.ssd_bytes, _ = self._tier("ssd", given.ssd_bytes, "1GiB", "file_bytes")
        if self.host_bytes == 0:
            self._refuse(f"--host-bytes is '{given.host_bytes}', expected {slab_bytes // MIB} MiB or more")
        self._requests(given.requests)
        self._block_bytes(given.block_bytes, slab_bytes)
        if given.trace:
            try:
                read_trace(Path(given.trace))
            except TraceError as error:
                self._refuse(f"--trace: {error}")
            self.replay += ["--trace", given.trace]

    def _refuse(self, words: str) -> NoReturn:
        self._parser.error(words)

    def _tier(self, tier: str, given: str | None, beside_object: str, unit_key: str) -> tuple[int, int]:
        """The bytes of a tier, and of the unit in which it takes its space."""
        option = f"--{tier}-bytes"
        text = given or (beside_object if self.object else default_size(tier, "bytes"))
        taken, unit = self._size(option, text), self._size(f"{tier}.{unit_key}", default_size(tier, unit_key))
        if taken % unit:
            near = max(unit, taken // unit * unit)
            self._refuse(f"{option} is '{text}', expected a multiple of {unit // MIB}MiB, such as {near // MIB}MiB")
        if given or self.object:
            self.settings[f"{tier}.bytes"] = text
        return taken, unit

    def _requests(self, given: str | None) -> None:
        if given is not None and not (re.fullmatch("[0-9]+", given) and int(given)):
            self._refuse(f"--requests is '{given}', expected a whole number above 0")
        text = given or ("2000" if self.object else None)
        if text:
            self.replay += ["--requests", text]

    def _block_bytes(self, given: str | None, slab_bytes: int) -> None:
        if given is None:
            return
        taken = self._size("--block-bytes", given)
        if taken == 0 or (self.socket is None and taken > slab_bytes):
            self._refuse(f"--block-bytes is '{given}', expected 1 B to {slab_bytes // MIB} MiB, the size of a slab")
        self.replay += ["--block-bytes", f"{taken}B"]

    def _size(self, option: str, text: str) -> int:
        """The bytes of a size such as 4GiB; only 0 needs no unit."""
        found = re.fullmatch(r"([0-9]*)(.*)", text, re.DOTALL)
        assert found is not None
        number, unit = found[1], found[2]
        if not number or (unit not in UNITS and text != "0"):
            hint = ""
            if number and not unit:
                hint = f"; did you mean {number}B?"
            elif number and re.fullmatch("[kmgt](i?b)?", unit, re.IGNORECASE):
                hint = f"; did you mean {number}{unit[0].upper()}iB?"
            self._refuse(f"{option} is '{text}', expected a whole number of B, KiB, MiB, GiB or TiB, such as 512MiB{hint}")
        taken = int(number) * UNITS.get(unit, 1)
        if taken > SIZE_MAX:
            self._refuse(f"{option} is '{text}', expected at most 1024TiB")
        return taken


def default_size(section: str, key: str) -> str:
    """The default of a size, from the daemon's configuration file."""
    found = re.search(rf"^{section}:\n(?:(?: .*|#.*)?\n)*?  {key}: *(\S+)", (ROOT / "config" / "kvtier.yaml").read_text(), re.MULTILINE)
    assert found is not None, (section, key)
    return found[1]


def parent_folder() -> Path:
    """The parent of the temporary folder."""
    if os.environ.get("TMPDIR"):
        return Path(os.environ["TMPDIR"])
    # SSD files must be on a disk, not in memory.
    kind = subprocess.run(["stat", "-f", "-c", "%T", "/tmp"], capture_output=True, text=True, check=False).stdout.strip()
    return Path("/var/tmp" if kind in ("tmpfs", "ramfs") and os.access("/var/tmp", os.W_OK) else "/tmp")


def require_space(options: Options, folder: Path) -> None:
    """Refuses to start a daemon that is larger than the free memory or the free disk space."""
    found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    needed = options.host_bytes + BESIDE_HOST
    if found and int(found[1]) * KIB < needed:
        available = int(found[1]) // KIB
        raise Failed(f"too little memory: {needed // MIB} MiB are needed, {available} MiB are available.\n  Give it less: scripts/demo {LESS}")
    free = shutil.disk_usage(folder).free
    if free < options.ssd_bytes + BESIDE_SSD:
        raise Failed(
            f"too little disk space in {folder.parent}: {options.ssd_bytes // MIB} MiB are needed, {free // MIB} MiB are free.\n"
            f"  Give it less: scripts/demo {LESS}\n  or name another place: TMPDIR=/a/folder scripts/demo"
        )


def free_port() -> int:
    """A port of this machine for the dashboard: a user's own daemon may have the default one."""
    with socket_module.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def object_store(options: Options, folder: Path) -> Iterator[dict[str, object]]:
    """The settings of the object store, whose server runs until the block ends."""
    # The user's own daemon has its own folder of known objects.
    known = {"object.directory": folder / "object"}
    if options.object == "folder":
        yield known | {"object.store": "folder", "object.folder": folder / "objects"}
    elif options.object == "s3":
        server = S3Server(folder / "s3")
        try:
            server.start()
            yield known | {"object.store": "s3", "object.s3.endpoint": server.endpoint, "object.s3.bucket": BUCKET}
        except RuntimeError as error:
            raise Failed(f"{error}.") from None
        finally:
            server.kill()
    else:
        yield {}


def log_end(log: Path) -> str:
    return "\n".join(f"  | {line}" for line in log.read_text(errors="replace").splitlines()[-15:])


def replay(socket: Path, options: Options) -> int:
    say(
        "replaying the trace: each request looks up its blocks, gets those that are there and puts the others "
        "(20 s to a minute; several minutes on a busy machine or a slow disk)"
    )
    python = ROOT / "target" / "venv-bench" / "bin" / "python"
    return subprocess.run([python, "-P", "-m", "bench.replay", "--socket", str(socket), *options.replay], check=False).returncode


def replay_with_own_daemon(options: Options) -> int:
    """Starts a daemon, replays, and stops it; the exit code."""
    parent = parent_folder()
    try:
        made = tempfile.TemporaryDirectory(prefix="kvtier-demo.", dir=parent)
    except OSError as error:
        raise Failed(f"cannot make a folder in {parent}: {error.strerror}.") from None
    with made as name:
        folder = Path(name)
        socket, log = folder / "kvtier.sock", folder / "daemon.log"
        if len(str(socket)) > SOCKET_CHARS_MAX:
            raise Failed(f"the path of the socket is too long: {socket}\n  Set TMPDIR to a shorter path.")
        require_space(options, folder)
        (folder / "ssd").mkdir()
        with object_store(options, folder) as store:
            own = {"ssd.directory": folder / "ssd", "host.keep": 0, "grpc.enabled": "false", "http.port": free_port()}
            command = process.command_of([str(ROOT / "scripts" / "kvtierd")], socket, own | options.settings | store)
            keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"} if options.object == "s3" else {}
            try:
                daemon, line = process.start(command, log, Failed, keys)
            except Failed as error:
                raise Failed(f"{error}\n  Where memory or disk space is short, give it less: scripts/demo {LESS}") from None
            try:
                say(line)
                say(f"the dashboard: http://127.0.0.1:{own['http.port']}/ until the replay ends")
                code = replay(socket, options)
                if daemon.poll() is not None:
                    print(log_end(log), file=sys.stderr)
                    say("the daemon ended during the replay; the end of its log is above")
                    code = 3
                return code
            finally:
                process.stop(daemon, 10)


def end_with_signal(number: int, _frame: object) -> None:
    """Stops everything that was started, and ends the process with the exit code of the signal."""
    raise SystemExit(128 + number)


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    options = Options(list(sys.argv[1:] if arguments is None else arguments))
    # A missing daemon is reported before anything is built.
    if options.socket is not None and not options.socket.is_socket():
        if options.socket.exists():
            say(f"error: {options.socket} is not a socket: name the socket of a daemon, or leave --socket out")
        else:
            say(f"error: no daemon at {options.socket}: start one there (scripts/kvtierd --socket {options.socket}), or leave --socket out")
        return 3
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_with_signal)
    try:
        if options.socket is not None:
            library("find_python3; ensure_client")
            return replay(options.socket, options)
        library("find_python3; find_jdk25; build_java; ensure_client")
        return replay_with_own_daemon(options)
    except Failed as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    run_tool(main)
