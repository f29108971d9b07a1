"""The build of the C core for Java, on machines whose compilers are not complete."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OTHER = {"x86_64": "aarch64", "aarch64": "x86-64"}[platform.machine()]


def build(folder: Path, cross_compiler: str) -> "subprocess.CompletedProcess[str]":
    """Builds a source for this machine, and for the other architecture with this program as its compiler."""
    programs = folder / "programs"
    programs.mkdir()
    compiler = programs / f"{OTHER}-linux-gnu-gcc"
    compiler.write_text(f"#!/bin/sh\n{cross_compiler}\n")
    compiler.chmod(0o755)
    source = folder / "one.c"
    source.write_text("int one(void);\nint one(void) { return 1; }\n")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [str(ROOT / "protocol/src/main/native/build"), str(folder / "native"), str(source)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def libraries(folder: Path) -> set[str]:
    return {one.parent.name for one in (folder / "native").glob("*/libkvtier_core.so")}


def test_crossCompilerWithoutHeaders_onlyThisMachineIsBuilt_andTheBuildSaysSo(tmp_path: Path) -> None:
    made = build(tmp_path, "exit 1")
    assert made.returncode == 0
    assert "finds no C headers" in made.stderr
    assert libraries(tmp_path) == {f"linux-{platform.machine()}"}


def test_crossCompilerWithHeaders_bothAreBuilt(tmp_path: Path) -> None:
    made = build(tmp_path, 'exec cc "$@"')
    assert (made.returncode, made.stderr) == (0, "")
    assert libraries(tmp_path) == {"linux-x86_64", "linux-aarch64"}
