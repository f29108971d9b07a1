"""A program of another user in the place of the daemon gets no bytes."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvtier import Client, InvalidArgument, Unavailable, _daemon_user

OTHER = 4242

# Says when it listens, and how many bytes each who connects sends.
LISTENER = """
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen()
print("listens", flush=True)
while True:
    print(len(s.accept()[0].recv(4096)), flush=True)
"""

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start what others run")


class Stranger:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def stranger(socket: Path) -> Iterator[Stranger]:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER, str(socket), str(OTHER)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            started = Stranger(process)
            assert started.line() == "listens"
            yield started
        finally:
            process.kill()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.fixture
def folder_of_root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kvtier-test-", dir="/run"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@only_root
def test_anotherUserListens_isRefused_andNothingIsSent(open_folder: Path) -> None:
    socket = open_folder / "daemon.sock"
    with stranger(socket) as other:
        with Client(socket) as client, pytest.raises(Unavailable, match=f"set KVTIER_DAEMON_USER={OTHER}"):
            client.connect()
        assert other.line() == "0"


@only_root
def test_theUserIsExpected_saysHello(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, expected in enumerate((OTHER, f"root, {OTHER}", None)):
        monkeypatch.setenv("KVTIER_DAEMON_USER", str(OTHER) if expected is None else "4243")
        socket = open_folder / f"{number}.sock"
        with stranger(socket) as other, Client(socket, timeout=0.1, daemon_user=expected):
            assert int(other.line()) > 0


@only_root
def test_anotherUserIsExpected_isRefused(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTIER_DAEMON_USER", "4243")
    socket = open_folder / "daemon.sock"
    with stranger(socket), Client(socket) as client, pytest.raises(Unavailable, match="expected user 0 or 4243"):
        client.connect()


@only_root
def test_serviceUserHasAFolderOfItsOwn_saysHello_alsoThroughALinkOfRoots(folder_of_root: Path) -> None:
    service = folder_of_root / "service"
    service.mkdir()
    os.chown(service, OTHER, OTHER)
    link = folder_of_root / "link"
    link.symlink_to(f"../{folder_of_root.name}/service")
    for number, place in enumerate((service, link)):
        with stranger(service / f"{number}.sock") as other, Client(place / f"{number}.sock", timeout=0.1):
            assert int(other.line()) > 0


@only_root
def test_linkThatAnybodyCouldHaveMade_toAnothersFolder_isRefused(folder_of_root: Path, open_folder: Path) -> None:
    home = folder_of_root / "home"
    home.mkdir()
    os.chown(home, OTHER, OTHER)
    planted = open_folder / "planted"
    planted.symlink_to(home)
    with stranger(home / "daemon.sock") as other:
        with Client(planted / "daemon.sock") as client, pytest.raises(Unavailable, match="others could have put a socket"):
            client.connect()
        assert other.line() == "0"


@only_root
def test_userWithoutANumberHere_isRefused_andTheMessageSaysWhatToSet(
    folder_of_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overflow = tmp_path / "overflowuid"
    overflow.write_text(f"{OTHER}\n")
    monkeypatch.setattr(_daemon_user, "_OVERFLOW_USER", overflow)
    os.chown(folder_of_root, OTHER, OTHER)
    with stranger(folder_of_root / "daemon.sock"), Client(folder_of_root / "daemon.sock") as client:
        with pytest.raises(Unavailable, match=f"no number in this user namespace.*set KVTIER_DAEMON_USER={OTHER}"):
            client.connect()


def test_unknownUser_isRefusedInWords(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="daemon_user names user 'nobody-of-that-name'"):
        Client(tmp_path / "daemon.sock", daemon_user="nobody-of-that-name")
