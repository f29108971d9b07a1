"""Disks that fail under a daemon: full, read-only, cut off, not there. Nothing may be wrong, and nothing may hang."""

import errno
import json
import os
import resource
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvtier_testing.blocks import block, keys, put_all, wrong_blocks
from kvtier_testing.daemon import Daemon, eventually, in_a_folder
from kvtier_testing.process import free_port

from kvtier import Client, Namespace, Status

BLOCK_BYTES = 4096
DISK_MIB = 112
TIMEOUT_S = 60.0
# A fence opens again after 5 s.
RECOVERS_S = 40.0


class Disk:
    """A small file system of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True)

    def fill(self) -> None:
        """Takes all space that is left."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def free(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    folder = Path(tempfile.mkdtemp(prefix="kvtier-disk-"))
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "kvtier-test", str(folder)],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture
def daemon_on(disk: Disk, stopped_daemon: Daemon) -> Daemon:
    """A daemon with its SSD tier on the small disk."""
    start(stopped_daemon, disk)
    return stopped_daemon


def start(daemon: Daemon, disk: Disk) -> None:
    daemon.start(ssd__directory=str(disk.folder / "ssd"), ssd__bytes="64MiB", ssd__admission="all", host__bytes="32MiB")


def namespace_of(client: Client) -> Namespace:
    return client.namespace("disk", block_bytes=BLOCK_BYTES, model="m")


def found(namespace: Namespace, of: list[bytes]) -> int:
    """How many blocks are there; each is held to its content."""
    count = 0
    for at in range(0, len(of), 256):
        batch = of[at : at + 256]
        buffer = bytearray(len(batch) * BLOCK_BYTES)
        statuses = namespace.get(batch, buffer).statuses
        assert set(statuses) <= {Status.OK, Status.MISS, Status.BUSY}, set(statuses)
        assert wrong_blocks(batch, statuses, buffer) == []
        count += statuses.count(Status.OK)
    return count


def put_some(namespace: Namespace, of: list[bytes]) -> list[bytes]:
    """Puts blocks once; those that were accepted."""
    accepted = []
    for at in range(0, len(of), 256):
        batch = of[at : at + 256]
        statuses = namespace.put(batch, [block(one, BLOCK_BYTES) for one in batch], timeout=5.0)
        assert set(statuses) <= {Status.OK, Status.BUSY, Status.DEADLINE}, set(statuses)
        accepted += [one for one, status in zip(batch, statuses, strict=True) if status is Status.OK]
    return accepted


def test_diskFull_storesFail_nothingIsWrong_recoversByItself(disk: Disk, daemon_on: Daemon) -> None:
    with Client(daemon_on.socket_path, timeout=TIMEOUT_S) as client:
        namespace = namespace_of(client)
        before = keys("before", 1000)
        put_all(namespace, before)
        assert namespace.flush().status is Status.OK
        disk.fill()
        during: list[bytes] = []
        # The ledger's log has some space taken ahead, which lasts for a while; what it gives back is taken, too.
        for turn in range(200):
            disk.fill()
            during = put_some(namespace, keys("during", 1000, 1000 * turn))
            if client.counters()["io_errors"] > 0:
                break
        assert client.counters()["io_errors"] > 0
        assert found(namespace, during) > 0
        began = time.monotonic()
        namespace.flush(timeout=30.0)
        assert time.monotonic() - began < 100
        disk.free()
        after = keys("after", 500)
        put_all(namespace, after)
        assert eventually(lambda: namespace.flush().status is Status.OK, RECOVERS_S)
        assert found(namespace, after) == len(after)
        stored = client.counters()["demotions"]
        later = keys("later", 100)
        put_all(namespace, later)
        assert eventually(lambda: client.counters()["demotions"] >= stored + 100, RECOVERS_S)
        assert eventually(lambda: namespace.flush().status is Status.OK, RECOVERS_S)
    daemon_on.kill()
    start(daemon_on, disk)
    with Client(daemon_on.socket_path, timeout=TIMEOUT_S) as client:
        # Older blocks may have left the full tier: the blocks that failed at first were stored after them.
        assert found(namespace_of(client), later) == len(later)


def readiness(port: int) -> dict[str, object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
        body = json.load(answer)
    assert isinstance(body, dict)
    return body


def test_ledgerTakesNoRows_healthSaysSo_putsGoOn_recoversByItself(stopped_daemon: Daemon) -> None:
    port = free_port()
    stopped_daemon.start(ssd__bytes="32MiB", host__bytes="16MiB", http__enabled="true", http__port=str(port))
    with Client(stopped_daemon.socket_path, timeout=TIMEOUT_S) as client:
        namespace = client.namespace("disk", block_bytes=64 << 10, model="m")

        def put(name: str) -> set[Status]:
            some = keys(name, 8)
            return set(namespace.put(some, [block(one, 64 << 10) for one in some], timeout=2.0))

        before = keys("before", 100)
        namespace.put(before, [block(one, 64 << 10) for one in before])
        assert namespace.flush().status is Status.OK
        # No file can grow, as on a full file system. The slots' files have their space already, the ledger's files do not.
        pid = stopped_daemon.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        numbers = iter(range(1 << 30))
        assert eventually(lambda: put(f"during{next(numbers)}") is not None and bool(readiness(port)["degraded"]), RECOVERS_S)
        assert eventually(lambda: put(f"during{next(numbers)}") == {Status.OK}, RECOVERS_S)
        until = time.monotonic() + 12.0
        while time.monotonic() < until:
            assert put(f"during{next(numbers)}") == {Status.OK}
            health = readiness(port)
            assert health["degraded"], "a trial that fails is no recovery"
            assert "file too large" in str(health["troubles"]).lower(), health
            assert "LimitFSIZE" in str(health["troubles"]), health
        assert client.counters()["dropped"] > 0
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        assert eventually(lambda: not readiness(port)["degraded"], RECOVERS_S), readiness(port)
        assert eventually(lambda: namespace.flush().status is Status.OK, RECOVERS_S)


class FewDescriptors(Daemon):
    """A daemon that may open only 256 files."""

    def program(self) -> list[str]:
        return ["prlimit", "--nofile=256:256", *super().program()]


def test_tooFewDescriptors_daemonNamesTheLimit() -> None:
    with in_a_folder(FewDescriptors) as daemon:
        with pytest.raises(pytest.fail.Exception) as refused:
            daemon.start(host__bytes="512MiB", host__slab_bytes="1MiB")
        assert "LimitNOFILE" in str(refused.value)
        assert "lower host.bytes" not in str(refused.value)


def test_filesCutOff_readsAreMisses_nothingIsWrong(disk: Disk, daemon_on: Daemon) -> None:
    with Client(daemon_on.socket_path, timeout=TIMEOUT_S) as client:
        namespace = namespace_of(client)
        # More than the host tier's 8,192: the first are on SSD alone.
        before = keys("before", 9000)
        put_all(namespace, before)
        assert namespace.flush().status is Status.OK
        for file in (disk.folder / "ssd").glob("slots-*.dat"):
            os.truncate(file, 0)
        there = found(namespace, before)
        assert 0 < there < len(before)
        assert client.counters()["io_errors"] > 0
        # The files grow again where something is written.
        after = keys("after", 500)
        put_all(namespace, after)
        assert eventually(lambda: namespace.flush().status is Status.OK, RECOVERS_S)
        assert found(namespace, after) == len(after)


def test_diskReadOnly_daemonSaysWhich(disk: Disk, stopped_daemon: Daemon) -> None:
    disk.remount("ro")
    refused = refusal(stopped_daemon, disk.folder / "ssd")
    assert f"'{disk.folder}/ssd'" in refused
    assert "Read-only file system" in refused


def test_oneDirectoryOfTwoCannotBeHad_daemonSaysWhich(disk: Disk, stopped_daemon: Daemon) -> None:
    (disk.folder / "file").write_text("no directory")
    refused = refusal(stopped_daemon, disk.folder / "ssd", disk.folder / "file")
    assert f"'{disk.folder}/file' is there already as a file" in refused


def refusal(daemon: Daemon, *directories: Path) -> str:
    """The message of a daemon that does not start."""
    with pytest.raises(pytest.fail.Exception) as refused:
        daemon.start(ssd__directory=",".join(map(str, directories)), ssd__bytes="64MiB")
    return str(refused.value)
