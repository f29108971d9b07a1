"""Only the daemon's own user can read the daemon's files, with any umask at the start."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvtier_testing.daemon import Daemon

from kvtier import Client, Status

BLOCK_BYTES = 64 << 10


@pytest.fixture
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def settings(folder: Path, engine: str) -> dict[str, str]:
    return {
        "ssd__engine": engine,
        "ssd__admission": "all",
        "ssd__directory": str(folder / "ssd"),
        "object__store": "folder",
        "object__folder": str(folder / "objects"),
        "object__directory": str(folder / "known"),
        "object__admission": "all",
        "host__keep": "1s",
        "host__directory": str(folder / "state"),
    }


def put_blocks(daemon: Daemon) -> None:
    keys = [bytes([i]) * 16 for i in range(8)]
    with Client(daemon.socket_path, timeout=60) as client:
        namespace = client.namespace("modes", block_bytes=BLOCK_BYTES, model="m")
        assert set(namespace.put(keys, bytes(8 * BLOCK_BYTES))) == {Status.OK}
        assert namespace.flush().status is Status.OK


def entries(folder: Path) -> Iterator[tuple[Path, int]]:
    """All files and folders below a folder with their modes, without links and sockets."""
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(at, name)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                yield path, mode


def open_to_others(folder: Path) -> list[str]:
    return [f"{stat.filemode(mode)} {path.relative_to(folder)}" for path, mode in entries(folder) if mode & 0o077]


@pytest.mark.parametrize("engine", ["auto", "rocksdb"])
def test_allFiles_underTheLoosestUmask_areTheOwnersAlone(stopped_daemon: Daemon, loose_umask: None, engine: str) -> None:
    made = stopped_daemon.folder / "made"
    made.mkdir(mode=0o700)
    stopped_daemon.start(**settings(made, engine))
    put_blocks(stopped_daemon)
    stopped_daemon.stop()
    assert {path.name for path, _ in entries(made)} >= {"ssd", "known", "state", "objects", "lock"}
    assert open_to_others(made) == []
    assert not (stopped_daemon.folder / "kvtier.sock.lock").stat().st_mode & 0o077


def test_filesOfAnEarlierVersion_areOutOfOthersReachAfterTheNextStart(stopped_daemon: Daemon) -> None:
    made = stopped_daemon.folder / "made"
    made.mkdir(mode=0o700)
    stopped_daemon.start(**settings(made, "rocksdb"))
    put_blocks(stopped_daemon)
    stopped_daemon.stop()
    for path, mode in entries(made):
        if made / "state" not in (path, *path.parents):
            path.chmod(0o755 if stat.S_ISDIR(mode) else 0o644)
    stopped_daemon.start(**settings(made, "rocksdb"))
    stopped_daemon.stop()
    # A file is unreachable for others if they cannot enter a folder above it.
    reached = [
        path
        for path, mode in entries(made)
        if mode & 0o077 and all(above.stat().st_mode & 0o011 for above in path.parents if made in above.parents)
    ]
    assert [path.relative_to(made) for path in reached if path.is_file()] == []
