"""What the programs say on a processor architecture that kvtier does not know."""

import os
import subprocess
from pathlib import Path

import pytest
from kvtier_testing.daemon import PROGRAMS

UNKNOWN = "-Dos.arch=riscv64"
REFUSAL = "this Java runtime is for the processor architecture 'riscv64'; expected x86-64 or 64-bit Arm"


@pytest.mark.parametrize(
    ("program", "words", "variable"),
    [
        ("kvtierd", ("--set", "host.bytes=64MiB"), "KVTIERD_JAVA_OPTS"),
        ("kvtierd", ("doctor",), "KVTIERD_JAVA_OPTS"),
        ("kvtier", ("status",), "KVTIER_JAVA_OPTS"),
    ],
)
def test_unknownArchitecture_isRefusedByItsName(program: str, words: tuple[str, ...], variable: str, tmp_path: Path) -> None:
    command = [str(PROGRAMS / program), *words, *(() if words == ("doctor",) else ("--socket", str(tmp_path / "sock")))]
    done = subprocess.run(command, env=os.environ | {variable: UNKNOWN}, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert f"{program}: {REFUSAL}" in done.stderr
    assert "Exception" not in done.stderr
