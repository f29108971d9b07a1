"""Packs the comparison of engines on a GPU into a folder, for a machine without a network.

    python -m checks.engines.pack FOLDER ENGINE [--of sglang]

FOLDER/run --out RESULTS runs it there. ENGINE holds the engine, packed: unpack.sh (sourced: sets PYTHONPATH), for vLLM ttft.py, and what
they need. FOLDER/engine may travel apart from the rest: ENGINE=ITS_PLACE FOLDER/run ...
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checks.gpu.pack import copy_checks, jlink, mib, pack
from checks.shared.command_line import Arguments, folder, run_tool

ENGINE_FILES = {"vllm": ("unpack.sh", "ttft.py"), "sglang": ("unpack.sh",)}
PROGRAMS = {"vllm": "checks.engines.gpu", "sglang": "checks.engines.sglang_gpu"}
RUN = """#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${ENGINE_WORK:-/tmp/engine-check}
mkdir -p "$work"
[ -d "$work/kvtier" ] || for part in "$here"/kvtier*.txz; do tar xJf "$part" -C "$work"; done
rm -rf "$work/checks"
cp -r "$here/checks" "$work/"
engine=${ENGINE:-$here/engine}
ln -sfn "$engine" "$work/engine"
set +eu
. "$engine/unpack.sh"
export PYTHONPATH="$work/kvtier/python:$work:$PYTHONPATH"
exec "${PYTHON3:-python3}" -P -m PROGRAM "$@"
"""


def store(jar: Path) -> None:
    """Writes a jar again without compression: the archive that it goes into compresses all of it."""
    with zipfile.ZipFile(jar) as packed:
        entries = [(entry, packed.read(entry)) for entry in packed.infolist()]
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as stored:
        for entry, data in entries:
            entry.compress_type = zipfile.ZIP_STORED
            stored.writestr(entry, data)


def pack_kvtier(archive: Path) -> None:
    """The daemon with a Java of its own and the Python client, in one small archive."""
    with tempfile.TemporaryDirectory() as name:
        whole, part = Path(name, "all"), Path(name, "kvtier")
        pack(whole)
        part.mkdir()
        for one in ("lib", "python"):
            (whole / one).rename(part / one)
        for jar in (part / "lib").glob("*.jar"):
            if jar.name.startswith("kvtier-bench"):
                jar.unlink()
            else:
                store(jar)
        listed = subprocess.run([whole / "runtime" / "bin" / "java", "--list-modules"], capture_output=True, text=True, check=True).stdout
        jlink(part / "runtime", ",".join(line.partition("@")[0] for line in listed.splitlines()), "--compress", "zip-0", "--vm", "server")
        for dump in (part / "runtime" / "lib" / "server").glob("*.jsa"):
            dump.unlink()
        subprocess.run(["tar", "cJf", archive, "-C", name, "kvtier"], env=os.environ | {"XZ_OPT": "-9 -T0"}, check=True)


def main() -> int:
    parser = Arguments(prog="scripts/engine-check gpu-pack", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="made where it is missing; what was packed there before is replaced")
    parser.add_argument("engine", metavar="ENGINE", type=folder, help="the folder of the packed engine")
    parser.add_argument("--of", choices=PROGRAMS, default="vllm", help="which engine it is (default: vllm)")
    given = parser.parse_args()
    missing = [name for name in ENGINE_FILES[given.of] if not (given.engine / name).is_file()]
    if missing:
        sys.exit(f"engine-check: {given.engine} has no {' and no '.join(missing)}: it is no packed engine")
    to = given.folder.resolve()
    for name in ("engine", "checks"):
        shutil.rmtree(to / name, ignore_errors=True)
    shutil.copytree(given.engine, to / "engine")
    pack_kvtier(to / "kvtier.txz")
    copy_checks(to, ["engines"])
    run = to / "run"
    run.write_text(RUN.replace("PROGRAM", PROGRAMS[given.of]))
    run.chmod(0o755)
    print(f"packed {mib(to)} MiB into {to}, {mib(to / 'engine')} of them in {to / 'engine'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run_tool(main)
