"""The examples of the documents run as they are written, in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kvtier_testing.daemon import Daemon, in_a_folder
from kvtier_testing.remote import RemoteDaemon

from checks.shared.checkout import ROOT, java_home

PYTHON_DOCUMENTS = ("client-py/README.md", "docs/get-started/without-an-engine.md")
JAVA_DOCUMENT = "client-java/README.md"


def blocks(document: str, language: str) -> list[str]:
    """The code of a document in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def run(command: list[str], daemon: Daemon, folder: Path) -> str:
    """The output of a program that finds the daemon through its environment."""
    ended = subprocess.run(
        command, cwd=folder, env=os.environ | {"KVTIER_SOCKET": str(daemon.socket_path)}, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("document", "number", "printed"),
    [
        ("client-py/README.md", 0, "4 blocks can be loaded\n4 blocks were loaded\n"),
        ("client-py/README.md", 1, "1 block was stored in fewer bytes\n"),
        ("client-py/README.md", 2, "[4, 4] blocks were loaded\n"),
        ("client-py/README.md", 3, "1 block was read in place\n"),
        ("docs/get-started/without-an-engine.md", 0, "4 blocks can be loaded\n4 blocks were loaded\n"),
        ("docs/get-started/without-an-engine.md", 1, "4 blocks were loaded\n"),
        ("docs/develop/adapters.md", 0, "160 tokens need not be computed\n"),
    ],
)
def test_pythonExample_runs(daemon: Daemon, tmp_path: Path, document: str, number: int, printed: str) -> None:
    program = tmp_path / "example.py"
    program.write_text(blocks(document, "python")[number])
    assert run([sys.executable, str(program)], daemon, tmp_path).endswith(printed)


def test_pythonExampleOverGrpc_runs(tmp_path: Path) -> None:
    with in_a_folder(RemoteDaemon) as daemon:
        daemon.start()
        code = blocks("docs/get-started/without-an-engine.md", "python")[2]
        for shown, real in [
            ("cache-1:7075", f"127.0.0.1:{daemon.port}"),
            ("/etc/kvtier/token", str(daemon.token_file)),
            ("/etc/kvtier/ca.pem", str(daemon.certificate)),
        ]:
            assert shown in code
            code = code.replace(shown, real)
        program = tmp_path / "example.py"
        program.write_text(code)
        assert "OK" in run([sys.executable, str(program)], daemon, tmp_path)


def test_everyPythonExample_isRun() -> None:
    assert [len(blocks(document, "python")) for document in PYTHON_DOCUMENTS] == [4, 3]


def test_javaExample_compilesAndRuns(daemon: Daemon, tmp_path: Path) -> None:
    (code,) = blocks(JAVA_DOCUMENT, "java")
    (tmp_path / "Example.java").write_text(code)
    printed = run(
        [f"{java_home()}/bin/java", "--enable-native-access=ALL-UNNAMED", "-cp", f"{ROOT}/cli/target/lib/*", "Example.java"], daemon, tmp_path
    )
    assert "put: OK\n2 blocks can be loaded\n2 blocks were loaded" in printed
