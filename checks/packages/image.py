"""Makes the container image: a small Debian, the files of the .deb, and the scripts of packaging/image.

python3 -m checks.packages.image build --deb FILE --version VERSION --out FILE [--work FOLDER]
python3 -m checks.packages.image update-base [--work FOLDER]
python3 -m checks.packages.image digest FILE

The same .deb, list of Debian packages (packaging/image/base.lock) and SOURCE_DATE_EPOCH give the same bytes.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from checks.packages import debs, oci, publisher
from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments

FOLDER = ROOT / "packaging/image"
LOCK = FOLDER / "base.lock"
USER = 10001
MAX_BYTES = 150 << 20
"""of the compressed image"""

# Files that no container needs: documents except licences, translations, character sets.
BASE_LEFT_OUT = re.compile(
    r"usr/share/(man|info|lintian|bug|doc-base|locale|common-licenses/?$|initramfs-tools)(/|$)|usr/share/doc/(?!.*/copyright$)[^/]+/.|"
    r"usr/lib/x86_64-linux-gnu/gconv(/|$)|usr/sbin/(zic|iconvconfig)$|etc/(motd|update-motd\.d|init|init\.d|initramfs)(/|$)|(proc|sys|dev|boot|home|media|mnt|srv|lost\+found)(/|$)"
)
APP_LEFT_OUT = re.compile(
    r"usr/share/(man|bash-completion|zsh|fish)(/|$)|usr/lib/(systemd|sysusers\.d|tmpfiles\.d)(/|$)|etc/default(/|$)|etc/kvtier/kvtier\.yaml$|"
    r"usr/lib/kvtier/train$|usr/share/doc/kvtier/(?!(THIRD-PARTY\.txt|NOTICE|copyright|sbom\.cdx\.json|licences)(/|$))."
)
# Commands of busybox: those of the scripts, and those that help a person who inspects a container.
APPLETS = (
    "[ awk basename cat chgrp chmod chown clear cp cut date dd df dirname dmesg du echo env expr false find free getopt grep gunzip gzip head hostname id "
    "kill less ln ls md5sum mkdir mktemp more mount mv nc netstat nproc od pidof ping printf ps pwd readlink realpath rm rmdir sed sh sha256sum sleep sort "
    "stat stty sync tail tar tee test timeout top touch tr true tty umount uname uniq vi watch wc wget which whoami xargs"
).split()
PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    f"kvtier:x:{USER}:{USER}:kvtier daemon:/var/lib/kvtier:/usr/sbin/nologin\n"
)
GROUP = f"root:x:0:\nnogroup:x:65534:\nkvtier:x:{USER}:\n"


def base_layer(packages: dict[str, bytes], epoch: int) -> oci.Layer:
    """A Debian without a package manager. Vulnerability scanners find the packages in dpkg's list."""
    layer = oci.Layer(epoch)
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64"):
        layer.folder(name)
        # Links come before Debian's own files: files below /lib belong below /usr/lib.
        layer.link(name.removeprefix("usr/"), name)
    installed = []
    certificates: dict[str, bytes] = {}
    for name, deb in sorted(packages.items()):
        installed.append(debs.control(deb).replace("\n", "\nStatus: install ok installed\n", 1))
        for entry, content in debs.data(deb):
            entry.name = re.sub(r"^(bin|sbin|lib|lib64)/", r"usr/\1/", entry.name)
            if entry.name in ("bin", "sbin", "lib", "lib64") or BASE_LEFT_OUT.match(entry.name):
                continue
            if entry.name.startswith("usr/share/ca-certificates/mozilla/") and entry.isreg():
                certificates[entry.name] = content
            layer.add(entry, content)
    if "busybox" in packages:
        for applet in APPLETS:
            layer.link(f"usr/bin/{applet}", "busybox")
    layer.file("etc/ssl/certs/ca-certificates.crt", b"".join(one if one.endswith(b"\n") else one + b"\n" for _, one in sorted(certificates.items())))
    layer.file("var/lib/dpkg/status", "\n".join(installed).encode())
    layer.file("etc/passwd", PASSWD.encode())
    layer.file("etc/group", GROUP.encode())
    layer.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\nservices: files\n")
    for name in ("proc", "sys", "dev", "etc", "var/tmp", "root"):
        layer.folder(name)
    layer.folder("tmp", 0o1777)
    return layer


def app_layer(deb: bytes, epoch: int) -> oci.Layer:
    """The files of kvtier's own package, and the container's scripts, configuration and folders."""
    layer = oci.Layer(epoch)
    for entry, content in debs.data(deb):
        if not APP_LEFT_OUT.match(entry.name):
            layer.add(entry, content)
    layer.file("etc/kvtier/kvtier.yaml", (FOLDER / "kvtier.yaml").read_bytes())
    for name in ("kvtierd-container", "kvtierd-health"):
        layer.file(f"usr/bin/{name}", (FOLDER / name).read_bytes(), 0o755)
    for name in ("run/kvtier", "var/cache/kvtier", "var/lib/kvtier"):
        layer.folder(name, 0o755 if name == "run/kvtier" else 0o700, USER, USER)
    return layer


def configuration(labels: dict[str, str]) -> dict[str, Any]:
    return {
        "User": f"{USER}:{USER}",
        "Env": [
            "PATH=/usr/sbin:/usr/bin", "HOME=/var/lib/kvtier", "KVTIER_SOCKET=/run/kvtier/kvtier.sock",
            # For the container runtime of NVIDIA: the daemon sees every GPU, and allocates none.
            "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ],
        "Entrypoint": ["/usr/bin/kvtierd-container"],
        "Cmd": ["--config", "/etc/kvtier/kvtier.yaml"],
        "WorkingDir": "/var/lib/kvtier",
        "ExposedPorts": {"7075/tcp": {}, "7080/tcp": {}},
        "Volumes": {"/run/kvtier": {}, "/var/cache/kvtier": {}},
        "StopSignal": "SIGTERM",
        "Labels": labels,
        # Only Docker reads the health check. Times are nanoseconds.
        "Healthcheck": {
            "Test": ["CMD", "/usr/bin/kvtierd-health", "live"],
            "Interval": 30 * 10**9, "Timeout": 10 * 10**9, "StartPeriod": 60 * 10**9, "Retries": 3,
        },
    }  # fmt: skip


def labels_of(version: str, revision: str, created: str, url: str) -> dict[str, str]:
    labels = {
        "title": "kvtier", "version": version, "licenses": "Apache-2.0", "created": created, "revision": revision, "url": url,
        "description": "KV cache of LLM inference engines in host memory, on SSD and in an object store",
    }  # fmt: skip
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items() if value}


def build(deb: bytes, packages: dict[str, bytes], labels: dict[str, str], epoch: int) -> oci.Image:
    layers = [("Debian packages of packaging/image/base.lock", base_layer(packages, epoch)), ("kvtier", app_layer(deb, epoch))]
    created = labels["org.opencontainers.image.created"]
    return oci.image(layers, configuration(labels), labels, created, labels["org.opencontainers.image.version"])


def revision_of(root: Path) -> str:
    """KVTIER_REVISION, else the commit, with a mark where files differ from it; empty outside of a checkout."""
    given = os.environ.get("KVTIER_REVISION", "")
    if given:
        return given
    words = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--match=", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run_build(arguments: argparse.Namespace) -> int:
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    packages = debs.fetched(debs.Lock.read(LOCK), arguments.work)
    labels = labels_of(arguments.version, revision_of(ROOT), created, publisher.read()["project.url"])
    made = build(arguments.deb.read_bytes(), packages, labels, epoch)
    if made.compressed_bytes > MAX_BYTES:
        raise debs.DebError(f"the image has {made.compressed_bytes} bytes, expected at most {MAX_BYTES}: find the file that has grown")
    made.write(arguments.out, epoch)
    print(f"{made.manifest} {made.compressed_bytes / (1 << 20):.1f} MiB compressed", file=sys.stderr)
    return 0


def main() -> int:
    parser = Arguments(prog="checks.packages.image", description="Makes the container image.")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build")
    making.add_argument("--deb", type=Path, required=True)
    making.add_argument("--version", required=True)
    making.add_argument("--out", type=Path, required=True)
    updating = commands.add_parser("update-base")
    for one in (making, updating):
        one.add_argument("--work", type=Path, default=ROOT / "target/package/debian")
    commands.add_parser("digest").add_argument("file", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "digest":
            print(oci.opened(arguments.file).manifest)
            return 0
        arguments.work.mkdir(parents=True, exist_ok=True)
        if arguments.command == "build":
            return run_build(arguments)
        LOCK.write_text(debs.renewed(debs.Lock.read(LOCK), arguments.work).text(), encoding="utf-8")
        return 0
    except (debs.DebError, ValueError, OSError) as error:
        print(f"kvtier: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
