"""Writes the Python client's `kvtier.v1`, the messages and the stub of the `.proto` file, with grpcio-tools.

    python3 -m checks.code.stubs            says whether they are what the file says
    python3 -m checks.code.stubs --write    writes them
"""

import sys
import tempfile
from pathlib import Path

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments

PROTOS = ROOT / "protocol" / "src" / "main" / "proto"
PACKAGE = ROOT / "client-py" / "src" / "kvtier" / "v1"


def generate(folder: Path) -> Path:
    """Makes them in a folder; returns the folder of the package."""
    from grpc_tools import protoc

    outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{PROTOS}", *outputs, "kvtier/v1/kvtier.proto"]) != 0:
        raise RuntimeError(f"protoc cannot read {PROTOS}/kvtier/v1/kvtier.proto")
    return folder / "kvtier" / "v1"


def stale() -> list[Path]:
    """The files that are not what the `.proto` file says."""
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder))
        return [
            PACKAGE / one.name
            for one in sorted(made.iterdir())
            if not (PACKAGE / one.name).exists() or (PACKAGE / one.name).read_bytes() != one.read_bytes()
        ]


def main() -> int:
    parser = Arguments(prog="python3 -m checks.code.stubs", description="The Python client's gRPC stubs.")
    parser.add_argument("--write", action="store_true", help="write them")
    if parser.parse_args().write:
        with tempfile.TemporaryDirectory() as folder:
            for one in generate(Path(folder)).iterdir():
                (PACKAGE / one.name).write_bytes(one.read_bytes())
        return 0
    found = stale()
    for path in found:
        print(f"{path.relative_to(ROOT)} is stale: run python3 -m checks.code.stubs --write", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
