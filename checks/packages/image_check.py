"""Runs the container image: two containers that share a folder and nothing else, one with the daemon, one with a client.

scripts/image-check starts it, with a bare Debian for the client's container. Needs root and runc. Each container has namespaces of its own (IPC, PID, network, mounts), no capability and a root file
system that can't be written.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.packages import oci
from checks.packages.image import MAX_BYTES, USER
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments

NAMESPACES = ("pid", "ipc", "uts", "mount", "network", "cgroup")
CLIENT_USER = 20002
BLOCKS = 1000
BLOCK_KIB = 64


class Failure(Exception):
    """A result that is not the expected one."""


def bundle_spec(image: dict[str, Any], *, arguments: list[str] | None = None, environment: dict[str, str] | None = None,
                mounts: dict[str, tuple[Path, str]] | None = None, user: tuple[int, int, list[int]] | None = None, memory: int = 0) -> dict[str, Any]:  # fmt: skip
    """A configuration of runc, as a container engine makes it from an image's configuration.

    Args:
        image: the configuration in the image.
        arguments: the whole command; the image's entrypoint and command if there is none.
        mounts: folders of this machine, by their places in the container, each with rw or ro.
        user: the numbers of the user, of its group, and of further groups; the image's user if there is none.
        memory: the limit of the control group; 0 for none.
    """
    config = image["config"]
    if user is None:
        uid, gid = (int(number) for number in config["User"].split(":"))
        user = (uid, gid, [])
    flags = ["nosuid", "nodev"]
    places = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*flags, "noexec", "mode=1777", "size=65536k"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*flags, "noexec", "ro"]},
        # Native libraries are unpacked there and loaded.
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [*flags, "mode=1777"]},
        {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": [*flags, "noexec", "relatime", "ro"]},
    ]
    places += [{"destination": place, "type": "bind", "source": str(folder), "options": ["bind", access, *flags]} for place, (folder, access) in (mounts or {}).items()]
    variables = [*config["Env"], *(f"{name}={value}" for name, value in (environment or {}).items())]
    return {
        "ociVersion": "1.0.2",
        "hostname": "container",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": user[0], "gid": user[1], "additionalGids": user[2]},
            "args": arguments or [*config.get("Entrypoint", []), *config.get("Cmd", [])],
            "env": variables,
            "cwd": config.get("WorkingDir") or "/",
            "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "ambient")},
            "noNewPrivileges": True,
            # The default of containers. The daemon wants more.
            "rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 8 << 20, "hard": 8 << 20}],
        },
        "mounts": places,
        "linux": {
            "namespaces": [{"type": one} for one in NAMESPACES],
            "resources": {"devices": [{"allow": False, "access": "rwm"}], **({"memory": {"limit": memory}} if memory else {})},
            "maskedPaths": ["/proc/kcore", "/proc/keys"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    }


class Container:
    """A container of runc; it runs while the object is in use."""

    def __init__(self, name: str, rootfs: Path, spec: dict[str, Any], work: Path) -> None:
        self.name = f"kvtier-check-{os.getpid()}-{name}"
        bundle = work / name
        bundle.mkdir()
        (bundle / "rootfs").symlink_to(rootfs)
        spec["root"]["path"] = str(rootfs)
        (bundle / "config.json").write_text(json.dumps(spec))
        self.log = bundle / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(["runc", "run", "--bundle", str(bundle), self.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            subprocess.run(["runc", "kill", self.name, "KILL"], capture_output=True)
            self.process.wait(30)
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in the container, beside its first process."""
        return subprocess.run(["runc", "exec", self.name, *words], capture_output=True, text=True, timeout=120)

    def ready(self, times: int = 1) -> None:
        def is_ready() -> bool:
            if self.process.poll() is not None:
                raise Failure(f"'{self.name}' has ended with {self.process.returncode}: {self.text()[-2000:]}")
            return self.text().count("kvtierd ready") >= times

        eventually(f"'{self.name}' is ready for the {times}. time", is_ready, self.text)

    def daemon(self) -> str:
        """The number of the daemon's process in the container."""
        return self.run("pidof", "java").stdout.strip()

    def stop(self) -> int:
        """Stops the container as a container engine does; returns the exit code."""
        subprocess.run(["runc", "kill", self.name, "TERM"], check=True)
        return self.process.wait(60)


def eventually(what: str, holds: Callable[[], bool], told: Callable[[], str] = lambda: "") -> None:
    until = time.monotonic() + 60
    while not holds():
        if time.monotonic() > until:
            raise Failure(f"not within 60 s: {what}\n{told()[-2000:]}")
        time.sleep(0.1)


def expect(what: str, found: object, expected: object) -> None:
    print(f"  {what}: {found}")
    if found != expected:
        raise Failure(f"{what} is {found}, expected {expected}")


class Check:
    """The checks, with the root file systems of both containers."""

    def __init__(self, image: oci.Image, wheel: Path, debian: Path, work: Path) -> None:
        self.work = work
        self.rootfs = work / "image"
        self.rootfs.mkdir()
        self.config = oci.unpack(image, self.rootfs)
        self.client_rootfs = debian
        self.client_files = work / "client-files"
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self.client_files)
        shutil.copy(ROOT / "checks/packages/client.py", self.client_files)
        self.number = 0

    def folder(self, name: str) -> Path:
        made = self.work / name
        made.mkdir(exist_ok=True)
        os.chown(made, USER, USER)
        return made

    def daemon(self, name: str, mounts: dict[str, Path], *, memory: int = 0, **environment: str) -> Container:
        wanted = {"KVTIERD_HOST_BYTES": "256MiB", "KVTIERD_SSD_BYTES": "0", **environment}
        return Container(name, self.rootfs, bundle_spec(self.config, mounts={place: (one, "rw") for place, one in mounts.items()}, environment=wanted, memory=memory), self.work)

    def client(self, sockets: Path, *words: str) -> dict[str, int]:
        """Runs a client in another container, which shares only the folder of the socket; returns the client's figures."""
        self.number += 1
        spec = bundle_spec(
            {"config": {"Env": ["PATH=/usr/bin", "PYTHONPATH=/tmp/client", "KVTIER_SOCKET=/run/kvtier/kvtier.sock", "HOME=/tmp"]}},
            arguments=["python3", "/tmp/client/client.py", *words],
            mounts={"/run/kvtier": (sockets, "ro"), "/tmp/client": (self.client_files, "ro")},
            user=(CLIENT_USER, CLIENT_USER, [USER]),
        )
        with Container(f"client-{self.number}", self.client_rootfs, spec, self.work) as client:
            code = client.process.wait(120)
            said = client.text().strip()
            print(f"  client {' '.join(words)}: {said.splitlines()[-1] if said else ''}")
            try:
                found: dict[str, int] = json.loads(said.splitlines()[-1])
            except (IndexError, ValueError):
                raise Failure(f"the client ended with {code}: {said[-2000:]}") from None
            return found

    def exchange(self) -> None:
        print("two containers exchange blocks, and the daemon adopts its memory after each end")
        sockets = self.folder("sockets")
        with self.daemon("daemon", {"/run/kvtier": sockets}) as daemon:
            daemon.ready()
            expect("runs as user", daemon.run("id", "-u").stdout.strip(), str(USER))
            expect("alive", daemon.run("/usr/bin/kvtierd-health", "live").returncode, 0)
            expect("ready", daemon.run("/usr/bin/kvtierd-health", "ready").returncode, 0)
            expect("put", self.client(sockets, "put", str(BLOCKS))["put"], BLOCKS)
            expect("right", self.client(sockets, "get", str(BLOCKS))["right"], BLOCKS)
            for times, signal in enumerate(("KILL", "TERM"), 2):
                before = daemon.daemon()
                daemon.run("kill", f"-{signal}", before)
                daemon.ready(times)
                expect(f"another process after SIG{signal}", daemon.daemon() != before, True)
                expect("right", self.client(sockets, "get", str(BLOCKS))["right"], BLOCKS)
            doctor = daemon.run("/usr/bin/kvtierd", "doctor", "--config", "/etc/kvtier/kvtier.yaml")
            if "memlock" not in doctor.stdout:
                raise Failure(f"the doctor says nothing of memlock: {doctor.stdout} {doctor.stderr}")
            expect("exit code of a stop", daemon.stop(), 0)
        with self.daemon("anew", {"/run/kvtier": sockets}) as daemon:
            daemon.ready()
            expect("blocks in memory after a new container", self.client(sockets, "get", str(BLOCKS))["right"], 0)

    def disk(self) -> None:
        print("blocks on SSD outlive the container")
        sockets, cache = self.folder("sockets"), self.folder("cache")
        settings = {"KVTIERD_SSD_BYTES": "512MiB", "KVTIERD_SSD_ADMISSION": "all", "KVTIERD_SSD_FILE_BYTES": "64MiB"}
        mounts = {"/run/kvtier": sockets, "/var/cache/kvtier": cache}
        with self.daemon("ssd", mounts, **settings) as daemon:
            daemon.ready()
            expect("put", self.client(sockets, "put", str(BLOCKS))["put"], BLOCKS)
            expect("flush", daemon.run("/usr/bin/kvtier", "flush").returncode, 0)
            expect("exit code of a stop", daemon.stop(), 0)
        with self.daemon("ssd-anew", mounts, **settings) as daemon:
            daemon.ready()
            expect("right", self.client(sockets, "get", str(BLOCKS))["right"], BLOCKS)

    def limits(self) -> None:
        print("memory of blocks counts against the container's limit")
        sockets = self.folder("sockets")
        with self.daemon("small", {"/run/kvtier": sockets}, memory=512 << 20, KVTIERD_HOST_BYTES="1GiB") as daemon:
            expect("exit code with more memory than the limit", daemon.process.wait(60), 2)
            expect("names the key and the limit", "host.bytes" in daemon.text() and "control group" in daemon.text(), True)

    def failing(self) -> None:
        print("a daemon that can't start ends its container")
        with self.daemon("failing", {"/run/kvtier": self.folder("sockets")}, KVTIERD_LOG_LEVEL="loud") as daemon:
            expect("exit code of a wrong configuration", daemon.process.wait(60), 2)


def inspect(archive: Path, again: Path | None) -> oci.Image:
    image = oci.opened(archive)
    print(f"{archive.name}: {image.manifest}, {image.compressed_bytes / (1 << 20):.1f} MiB compressed")
    expect("at most 150 MiB", image.compressed_bytes <= MAX_BYTES, True)
    if again is not None:
        expect("digest of a second build", oci.opened(again).manifest, image.manifest)
        expect("the same bytes", again.read_bytes() == archive.read_bytes(), True)
    if shutil.which("skopeo"):
        shown = subprocess.run(["skopeo", "inspect", "--format", "{{.Digest}}", f"oci-archive:{archive}"], capture_output=True, text=True, check=True)
        expect("digest that skopeo reads", shown.stdout.strip(), image.manifest)
    return image


def main() -> int:
    parser = Arguments(prog="checks.packages.image_check", description="Runs the container image.")
    parser.add_argument("image", type=Path)
    parser.add_argument("--again", type=Path, help="the same image, built again: its bytes must be the same")
    parser.add_argument("--wheel", type=Path, required=True, help="the Python client")
    parser.add_argument("--debian", type=Path, required=True, help="the root file system of the client's container; it has Python")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvtier-image-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        try:
            check = Check(inspect(arguments.image, arguments.again), arguments.wheel, arguments.debian, work)
            check.exchange()
            check.disk()
            check.limits()
            check.failing()
        except Failure as failure:
            print(f"kvtier: error: {failure}", file=sys.stderr)
            return 1
    print("image-check: all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
