"""The completions and manual pages that packages contain, in the shells that are installed here."""

import gzip
import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.shared.checkout import ROOT

_GENERATE = """
. scripts/lib.sh
find_jdk25
build_java
java=$JAVA_HOME/bin/java
for part in cli:io.kvtier.cli.Kvtier daemon:io.kvtier.daemon.Kvtierd; do
  "$java" -cp "$(class_path "${part%%:*}")" packaging/Completions.java "${part#*:}" "$1/bash" "$1/zsh" "$1/fish"
done
"$java" -cp "$(class_path cli)" packaging/ManPages.java io.kvtier.cli.Kvtier 1 "$1/man"
"$java" -cp "$(class_path daemon)" packaging/ManPages.java io.kvtier.daemon.Kvtierd 8 "$1/man"
"$java" -cp "$(reference_class_path)" io.kvtier.reference.ConfigurationManual "$1/man/kvtier.yaml.5"
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("generated")
    for part in ("bash", "zsh", "fish", "man"):
        (folder / part).mkdir()
    subprocess.run(["bash", "-ec", _GENERATE, "bash", str(folder)], cwd=ROOT, check=True, timeout=600)
    yield folder


def shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_bash_completesCommandsAndOptions(generated: Path) -> None:
    script = f"""
    source {generated}/bash/kvtier
    COMP_WORDS=(kvtier tra); COMP_CWORD=1; _complete_kvtier; echo "${{COMPREPLY[*]}}"
    COMP_WORDS=(kvtier lookup --name); COMP_CWORD=2; _complete_kvtier; echo "${{COMPREPLY[*]}}"
    """
    ran = subprocess.run([shell("bash"), "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["trace", "--namespace"], ran


def test_fish_completesCommandsAndOptions(generated: Path) -> None:
    fish = shell("fish")
    for file in (generated / "fish").iterdir():
        subprocess.run([fish, "--no-execute", str(file)], check=True)

    def completed(line: str) -> list[str]:
        script = f"source {generated}/fish/kvtier.fish; source {generated}/fish/kvtierd.fish; complete -C '{line}'"
        ran = subprocess.run([fish, "-c", script], capture_output=True, text=True, check=True)
        return [one.split("\t")[0] for one in ran.stdout.splitlines()]

    assert completed("kvtier tra") == ["trace"]
    assert completed("kvtier trace ") == ["record", "stop"]
    assert completed("kvtier lookup --name") == ["--namespace"]
    assert "remove-namespace" in completed("kvtier object ")
    assert completed("kvtierd --print") == ["--print-config"]
    assert "/etc/hosts" in completed("kvtierd --config /etc/hos")


def test_zsh_completesCommandsAndOptions(generated: Path) -> None:
    zsh = shell("zsh")
    for file in (generated / "zsh").iterdir():
        subprocess.run([zsh, "-n", str(file)], check=True)
    for typed, expected in (
        ("kvtier tra\t", "kvtier trace "),
        ("kvtier trace rec\t", "kvtier trace record "),
        ("kvtier lookup --name\t", "kvtier lookup --namespace="),
        ("kvtierd --pri\t", "kvtierd --print-config "),
    ):
        shown = typed_in_zsh(zsh, generated / "zsh", typed)
        assert expected in shown, (typed, shown)


def typed_in_zsh(zsh: str, completions: Path, typed: str) -> str:
    """The text on a terminal after a word was typed at a prompt."""
    process, terminal = pty.fork()
    if process == 0:
        os.execve(zsh, [zsh, "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "> ", "HOME": str(completions)})
    try:
        os.write(terminal, f"unsetopt zle_bracketed_paste; fpath=({completions} $fpath); autoload -U compinit; compinit -u -D; echo set-up\n".encode())
        shown = read_until(terminal, "\nset-up")
        os.write(terminal, typed.encode())
        shown = read_until(terminal, "", 2)
    finally:
        os.close(terminal)
        os.waitpid(process, 0)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\x07\x08]", "", shown)


def read_until(terminal: int, end: str, seconds: float = 30) -> str:
    shown = ""
    limit = time.monotonic() + seconds
    while (left := limit - time.monotonic()) > 0 and not (end and end in shown.replace("\r", "")):
        if select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def test_manualPages_haveTheirSections(generated: Path) -> None:
    daemon = (generated / "man" / "kvtierd.8").read_text()
    for section in ("FILES", "ENVIRONMENT", "SIGNALS", "SEE ALSO"):
        assert f".SH {section}\n" in daemon, section
    assert "\\fBkvtier.yaml\\fR(5)" in daemon
    assert ".SH ENVIRONMENT\n" in (generated / "man" / "kvtier.1").read_text()
    assert ".SH ENVIRONMENT\n" not in (generated / "man" / "kvtier-status.1").read_text()


def test_manualPageOfTheConfiguration_isShownWithoutAWarning(generated: Path, tmp_path: Path) -> None:
    file = tmp_path / "kvtier.yaml.5.gz"
    file.write_bytes(gzip.compress((generated / "man" / "kvtier.yaml.5").read_bytes()))
    ran = subprocess.run([shell("man"), "--warnings", "-l", str(file)], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "120"}, check=True)
    assert ran.stderr == "" and "host.bytes (default: 1GiB)" in ran.stdout, ran.stderr
