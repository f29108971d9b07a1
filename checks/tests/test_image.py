"""The container image: its files, equal bytes for equal input, and its first process, which starts and stops the daemon."""

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kvtier_testing.daemon import eventually

from checks.packages import debs, image, image_check, oci
from checks.shared.checkout import ROOT

EPOCH = 1767225600

Health = Callable[..., "subprocess.CompletedProcess[str]"]


def tar_of(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def deb_of(name: str, files: dict[str, bytes], mode: int = 0o644) -> bytes:
    control = f"Package: {name}\nVersion: 1\nArchitecture: amd64\n".encode()
    members = {"debian-binary": b"2.0\n", "control.tar.xz": tar_of({"control": control}), "data.tar.xz": tar_of(files, mode)}
    deb = b"!<arch>\n"
    for member, content in members.items():
        deb += f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return deb


OURS = {
    "usr/bin/kvtierd": b"#!/bin/sh\n", "usr/lib/kvtier/jars/a.jar": b"jar", "etc/kvtier/kvtier.yaml": b"host: {}\n", "usr/share/man/man1/kvtier.1.gz": b"manual",
    "usr/lib/systemd/system/kvtierd.service": b"unit", "usr/share/doc/kvtier/THIRD-PARTY.txt": b"licences", "usr/share/doc/kvtier/docs/index.md": b"page",
}  # fmt: skip
DEBIAN = {
    "libc6": {"lib/x86_64-linux-gnu/libc.so.6": b"libc", "usr/share/doc/libc6/copyright": b"LGPL", "usr/share/man/man1/x.1": b"manual"},
    "busybox": {"usr/bin/busybox": b"busybox"},
    "ca-certificates": {"usr/share/ca-certificates/mozilla/B.crt": b"B", "usr/share/ca-certificates/mozilla/A.crt": b"A\n"},
}


def built() -> oci.Image:
    labels = image.labels_of("1.2.3", "abc", "2026-01-01T00:00:00Z", "")
    return image.build(deb_of("kvtier", OURS), {name: deb_of(name, files) for name, files in DEBIAN.items()}, labels, EPOCH)


def unpacked(tmp_path: Path) -> tuple[Path, dict[str, object]]:
    config = oci.unpack(built(), tmp_path)["config"]
    return tmp_path, config


def test_equalInput_givesEqualBytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    built().write(first, EPOCH)
    time.sleep(1.1)  # times of files have seconds
    built().write(second, EPOCH)
    assert first.read_bytes() == second.read_bytes()
    assert oci.opened(first).manifest == built().manifest


def test_order_ofFilesDoesNotMatter() -> None:
    one, other = oci.Layer(EPOCH), oci.Layer(EPOCH)
    for name in ("a/b", "c"):
        one.file(name, b"x")
    for name in ("c", "a/b"):
        other.file(name, b"x")
    assert one.tar() == other.tar()


def test_daemon_isNotRoot_andHasItsCommand(tmp_path: Path) -> None:
    root, config = unpacked(tmp_path)
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["/usr/bin/kvtierd-container"]
    assert (root / "usr/bin/kvtierd-container").stat().st_mode & 0o777 == 0o755
    assert "kvtier:x:10001:10001:" in (root / "etc/passwd").read_text()
    assert set(config["Volumes"]) == {"/run/kvtier", "/var/cache/kvtier"}  # type: ignore[call-overload]
    assert config["Healthcheck"]["Test"][1] == "/usr/bin/kvtierd-health"  # type: ignore[index]


def test_labels_sayVersionAndRevision_andNoEmptyAddress(tmp_path: Path) -> None:
    _, config = unpacked(tmp_path)
    labels = config["Labels"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.version"] == "1.2.3" and labels["org.opencontainers.image.revision"] == "abc"
    assert "org.opencontainers.image.url" not in labels


def test_revision_isTheCommit_unlessItIsGiven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        return subprocess.run(["git", "-C", str(tmp_path), *author, *words], capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.delenv("KVTIER_REVISION", raising=False)
    assert image.revision_of(tmp_path) == ""
    git("init", "--quiet")
    file = tmp_path / "file"
    file.write_text("committed")
    git("add", "file")
    git("commit", "--quiet", "--message", "First")
    commit = git("rev-parse", "HEAD")
    assert image.revision_of(tmp_path) == commit
    file.write_text("changed")
    assert image.revision_of(tmp_path) == f"{commit}-dirty"
    monkeypatch.setenv("KVTIER_REVISION", "abc")
    assert image.revision_of(tmp_path) == "abc"


def test_files_areWhatAContainerNeeds(tmp_path: Path) -> None:
    root, _ = unpacked(tmp_path)
    assert (root / "usr/lib/kvtier/jars/a.jar").read_bytes() == b"jar"
    assert "10001" in (root / "etc/kvtier/kvtier.yaml").read_text()
    assert (root / "usr/share/doc/kvtier/THIRD-PARTY.txt").exists() and (root / "usr/share/doc/libc6/copyright").exists()
    for left_out in ("usr/share/man", "usr/lib/systemd", "usr/share/doc/kvtier/docs"):
        assert not (root / left_out).exists(), left_out


def test_librariesBelowLib_areBelowUsrLib_wherePathsLead(tmp_path: Path) -> None:
    root, _ = unpacked(tmp_path)
    assert os.readlink(root / "lib") == "usr/lib"
    assert (root / "usr/lib/x86_64-linux-gnu/libc.so.6").read_bytes() == b"libc"


def test_certificates_areOneFile_inOrder(tmp_path: Path) -> None:
    root, _ = unpacked(tmp_path)
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text() == "A\nB\n"


def test_packages_areListedForScanners(tmp_path: Path) -> None:
    root, _ = unpacked(tmp_path)
    status = (root / "var/lib/dpkg/status").read_text()
    assert [line for line in status.splitlines() if line.startswith("Package:")] == ["Package: busybox", "Package: ca-certificates", "Package: libc6"]
    assert status.count("Status: install ok installed") == 3


def test_changedBlob_isRefused(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    found = built()
    blobs = dict(found.blobs)
    name = next(iter(blobs))
    blobs[name] = blobs[name][:-1] + bytes([blobs[name][-1] ^ 1])
    oci.Image(blobs, found.manifest, found.reference).write(archive, EPOCH)
    with pytest.raises(ValueError, match=name):
        oci.opened(archive)


@pytest.mark.parametrize(
    ("text", "message"),
    [("libc6 1 abc\n", "base.lock:1: expected a name"), ("# suite: trixie\nlibc6\n", "base.lock:2"), (f"libc6 1 {'0' * 64}\n", "# suite: NAME")],
)
def test_mistakenList_isRefusedWithItsLine(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "base.lock").write_text(text)
    with pytest.raises(debs.DebError, match=message):
        debs.Lock.read(tmp_path / "base.lock")


def test_list_ofTheProject_readsAsItIsWritten() -> None:
    assert debs.Lock.read(image.LOCK).text() == image.LOCK.read_text()


def test_fetchedPackage_ofOtherBytes_isRefused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mirror:
        def __init__(self, folder: Path, suite: str) -> None:
            pass

        def update(self) -> None:
            pass

        def download(self, one: debs.Locked) -> bytes:
            return b"another package"

    monkeypatch.setattr(debs, "Apt", Mirror)
    with pytest.raises(debs.DebError, match="libc6 1 has SHA-256"):
        debs.fetched(debs.Lock("trixie", (debs.Locked("libc6", "1", "0" * 64),)), tmp_path)


def test_noDeb_isRefused() -> None:
    with pytest.raises(debs.DebError, match="begin with"):
        debs.members(b"PK\x03\x04")
    with pytest.raises(debs.DebError, match="cut off"):
        debs.members(deb_of("a", {"b": b"c"})[:-10])


def test_containersOfTheCheck_shareNothingButTheirMounts() -> None:
    config = {"config": {"User": "10001:10001", "Env": [], "Entrypoint": ["/a"], "Cmd": ["b"]}}
    spec = image_check.bundle_spec(config, mounts={"/run/kvtier": (Path("/x"), "rw")})
    assert {one["type"] for one in spec["linux"]["namespaces"]} >= {"ipc", "pid", "network", "mount"}
    assert all("path" not in one for one in spec["linux"]["namespaces"])
    assert not any(spec["process"]["capabilities"].values()) and spec["root"]["readonly"]
    assert [one["source"] for one in spec["mounts"] if one["type"] == "bind"] == ["/x"]
    assert json.dumps(spec)


@pytest.fixture
def first_process(tmp_path: Path) -> tuple[list[str], dict[str, str], Path]:
    """The first process of a container, with a daemon that notes its starts and then runs the test's script."""
    starts = tmp_path / "starts"
    fake = tmp_path / "kvtierd"
    fake.write_text(f'#!/bin/sh\necho "$@" >>{starts}\n. {tmp_path}/behaviour\n')
    fake.chmod(0o755)
    return ["sh", str(ROOT / "packaging/image/kvtierd-container"), "--config", "x"], {**os.environ, "KVTIERD": str(fake)}, starts


def behave(starts: Path, text: str) -> None:
    (starts.parent / "behaviour").write_text(text)


def test_killedDaemon_startsAgain_inTheSameContainer(first_process: tuple[list[str], dict[str, str], Path]) -> None:
    words, environment, starts = first_process
    behave(starts, f"if [ $(wc -l <{starts}) -lt 2 ]; then kill -KILL $$; fi\nexit 2\n")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert starts.read_text().splitlines() == ["--config x"] * 2
    assert done.returncode == 2 and "exit code 137, and starts again" in done.stderr


def test_wrongConfiguration_endsTheContainer_atOnce(first_process: tuple[list[str], dict[str, str], Path]) -> None:
    words, environment, starts = first_process
    behave(starts, "exit 2\n")
    assert subprocess.run(words, env=environment, capture_output=True, timeout=60).returncode == 2
    assert len(starts.read_text().splitlines()) == 1


def test_daemonThatEndsTenTimesWithinAMinute_endsTheContainer(first_process: tuple[list[str], dict[str, str], Path]) -> None:
    words, environment, starts = first_process
    behave(starts, "exit 7\n")
    # The script rests a second between two starts.
    rest = starts.parent / "bin" / "sleep"
    rest.parent.mkdir()
    rest.write_text("#!/bin/sh\n")
    rest.chmod(0o755)
    done = subprocess.run(words, env=environment | {"PATH": f"{rest.parent}:{environment['PATH']}"}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7 and "the daemon ended 10 times within a minute" in done.stderr
    assert len(starts.read_text().splitlines()) == 10


def test_SIGHUP_reachesTheDaemon_andSIGTERM_stopsItAndThenTheContainer(first_process: tuple[list[str], dict[str, str], Path]) -> None:
    words, environment, starts = first_process
    ready, read_again, stopped = (starts.parent / name for name in ("ready", "read_again", "stopped"))
    traps = f"trap 'touch {read_again}' HUP\ntrap 'touch {stopped}; exit 143' TERM\n"
    behave(starts, f"{traps}touch {ready}\nwhile :; do sleep 0.1; done\n")
    # A shell can't trap a signal that was ignored when it began, as it is below nohup.
    with subprocess.Popen(words, env=environment, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)) as process:
        try:
            assert eventually(ready.exists)
            process.send_signal(signal.SIGHUP)
            assert eventually(read_again.exists)
            assert process.poll() is None and not stopped.exists()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert stopped.exists() and len(starts.read_text().splitlines()) == 1


@pytest.fixture
def health(tmp_path: Path) -> Health:
    """Runs the health check with a `wget` that says what busybox's says, and a `kvtier` that notes that it ran."""

    def run(*words: str, wget: str, kvtier: int = 0, **environment: str) -> "subprocess.CompletedProcess[str]":
        for name, text in (("wget", wget), ("kvtier", f"touch {tmp_path}/asked-the-socket; exit {kvtier}")):
            (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/{name}.words\n{text}\n')
            (tmp_path / name).chmod(0o755)
        found = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KVTIER": str(tmp_path / "kvtier"), **environment}
        return subprocess.run(
            ["sh", str(ROOT / "packaging/image/kvtierd-health"), *words], env=found, capture_output=True, text=True, timeout=60
        )

    return run


NOT_READY = 'echo "wget: server returned error: HTTP/1.1 503 Service Unavailable" >&2; exit 1'
REFUSED = 'echo "wget: can\'t connect to remote host (127.0.0.1): Connection refused" >&2; exit 1'


@pytest.mark.parametrize(
    ("words", "environment", "url"),
    [
        ((), {}, "http://127.0.0.1:7080/healthz"),
        (("live",), {"KVTIERD_HTTP_PORT": "81"}, "http://127.0.0.1:81/healthz"),
        (("ready", "82"), {"KVTIERD_HTTP_PORT": "81"}, "http://127.0.0.1:82/readyz"),
    ],
)
def test_health_daemonIsWell_endsWith0(tmp_path: Path, health: Health, words: tuple[str, ...], environment: dict[str, str], url: str) -> None:
    assert health(*words, wget="exit 0", **environment).returncode == 0
    assert (tmp_path / "wget.words").read_text().split()[-1] == url
    assert not (tmp_path / "asked-the-socket").exists()


def test_health_answerIs503_endsWith1_andDoesNotAskTheSocket(tmp_path: Path, health: Health) -> None:
    for word in ("live", "ready"):
        done = health(word, wget=NOT_READY)
        assert done.returncode == 1 and "503" in done.stderr
    assert not (tmp_path / "asked-the-socket").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_health_noHttp_isTheAnswerOfTheSocket(tmp_path: Path, health: Health, code: int) -> None:
    assert health("ready", wget=REFUSED, kvtier=code).returncode == code
    assert (tmp_path / "kvtier.words").read_text() == "status\n"


def test_health_unknownWord_endsWith2(health: Health) -> None:
    done = health("alive", wget="exit 0")
    assert done.returncode == 2 and "expected live or ready" in done.stderr
