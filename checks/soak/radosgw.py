"""Runs the tests of the object tier against Ceph's S3 server: one monitor, one OSD in memory and one radosgw, all on the loopback.

Ceph must be installed. Its data is in a temporary folder, which is removed at the end.
"""

import argparse
import base64
import contextlib
import email.utils
import hashlib
import hmac
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from kvtier_testing.process import free_port

from checks.shared.checkout import ROOT, library
from checks.shared.command_line import Arguments, run_tool, say, whole
from checks.shared.s3_server import BUCKET

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph", "monmaptool", "radosgw", "radosgw-admin")
START_S = 60.0
CALL_S = 5.0
LOG_LINES = 20
USERS = {"tester": "secret", "test": "test"}
"""the keys of the Java tests and of the Python tests, with their secrets"""

# One copy of all data, and no authentication: only this machine can connect.
CONFIGURATION = """[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{mon_port}]
auth cluster required = none
auth service required = none
auth client required = none
public addr = 127.0.0.1
run dir = {folder}
admin socket = {folder}/$name.$pid.asok
pid file = {folder}/$name.pid
log file = {folder}/$name.own.log
keyring = {folder}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
mon warn on pool no redundancy = false
ms bind ipv6 = false
[mon.a]
mon data = {folder}/mon
[osd]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd scrub begin hour = 0
[client.rgw]
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{rgw_port}
rgw enable usage log = false
rgw thread pool size = 64
"""


class Failed(Exception):
    """Ceph can't be started; the message says why."""


class Ceph:
    """A Ceph in a folder, with a bucket for blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mon_port, rgw_port = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{rgw_port}"
        self._fsid = str(uuid.uuid4())
        self._processes: list[subprocess.Popen[bytes]] = []
        configuration = folder / "ceph.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, fsid=self._fsid, mon_port=self._mon_port, rgw_port=rgw_port))
        self._environment = os.environ | {"CEPH_CONF": str(configuration)}
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir()

    def start(self) -> None:
        monmap = str(self._folder / "monmap")
        self._run("monmap", "monmaptool", "--create", "--clobber", "--fsid", self._fsid, "--addv", "a", f"[v1:127.0.0.1:{self._mon_port}]", monmap)
        self._run("mon", "ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self._begin("mon", "ceph-mon", "-f", "-i", "a")
        self._await("mon", lambda: self._answer("ceph", "status") is not None)
        osd = str(uuid.uuid4())
        self._run("osd", "ceph", "osd", "new", osd, "0")
        self._run("osd", "ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        self._run("osd", "ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=here")
        self._begin("osd", "ceph-osd", "-f", "-i", "0")
        self._await("osd", lambda: "1 up" in (self._answer("ceph", "osd", "stat") or ""))
        self._begin("radosgw", "radosgw", "-f", "-n", "client.rgw")
        for key, secret in USERS.items():
            made = ["user", "create", "--display-name", "tests"] if key == "tester" else ["key", "create", "--key-type", "s3"]
            self._run("radosgw-admin", "radosgw-admin", *made, "--uid", "tests", "--access-key", key, "--secret", secret)
        # radosgw listens as soon as the bucket can be made.
        self._await("radosgw", self._make_bucket)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _run(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            ran = subprocess.run(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if ran.returncode:
            raise Failed(f"{' '.join(command[:2])} ended with {ran.returncode}; its log ends with\n{self._log_end(name)}")

    def _begin(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _answer(self, *command: str) -> str | None:
        """The output of a command; None if the command fails or takes too long."""
        with contextlib.suppress(subprocess.SubprocessError):
            ran = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=CALL_S, check=True)
            return ran.stdout
        return None

    def _await(self, name: str, is_ready: Callable[[], bool]) -> None:
        """Waits until the process that began last is ready."""
        deadline = time.monotonic() + START_S
        while not is_ready():
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name} did not start; its log ends with\n{self._log_end(name)}")
            time.sleep(0.2)

    def _log_end(self, name: str) -> str:
        lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-LOG_LINES:])

    def _make_bucket(self) -> bool:
        date = email.utils.formatdate(usegmt=True)
        signature = base64.b64encode(hmac.digest(b"secret", f"PUT\n\n\n{date}\n/{BUCKET}".encode(), hashlib.sha1)).decode()
        headers = {"Date": date, "Authorization": f"AWS tester:{signature}"}
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT", headers=headers), timeout=10).close()
            return True
        return False


@contextlib.contextmanager
def ceph() -> Iterator[Ceph]:
    """A Ceph that is ready, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="kvtier-ceph.") as folder:
        made = Ceph(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()


def tests(endpoint: str) -> bool:
    """One run of the tests of the object tier; whether all passed."""
    environment = os.environ | {"KVTIER_S3_ENDPOINT": endpoint}
    maven = ["bash", "-c", '. scripts/lib.sh; find_jdk25; find_mvn; exec "$MVN" "$@"', "mvn"]
    java = [*maven, "-B", "-ntp", "-pl", "tiers", "-am", "-Dtest=S3*Test", "-Dsurefire.failIfNoSpecifiedTests=false", "verify"]
    python = [str(ROOT / "target" / "venv" / "bin" / "python"), "-m", "pytest", "system-tests/test_object.py"]
    codes = [subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode for command in (java, python)]
    return codes == [0, 0]


def main() -> int:
    parser = Arguments(prog="soak-radosgw", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", metavar="N", type=whole, default=1, help="number of runs (default: 1)")
    parser.add_argument("--start-only", action="store_true", help="start Ceph, print how to reach it, and wait for Ctrl-C")
    options = parser.parse_args()
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        say(f"error: Ceph is not installed: {' '.join(missing)}\n  Debian and Ubuntu: apt-get install --no-install-recommends ceph-mon ceph-osd ceph-common radosgw")
        return 1
    if not options.start_only:
        library("find_python3; find_jdk25; build_java; ensure_tests")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    say("starting Ceph (a quarter of a minute)")
    try:
        with ceph() as started:
            say(f"radosgw answers at {started.endpoint}: bucket {BUCKET}, access key test, secret test")
            if options.start_only:
                say("^C ends it")
                signal.pause()
            passed = []
            for number in range(1, options.rounds + 1):
                say(f"round {number} of {options.rounds}")
                passed.append(tests(started.endpoint))
    except Failed as failed:
        say(f"error: {failed}")
        return 1
    return 0 if all(passed) else 1


if __name__ == "__main__":
    run_tool(main)
