"""Scripts and tools suggest a word for a mistyped one, and name a missing program in one line."""

import re
import subprocess
from pathlib import Path

import pytest

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("docs biuld", "did you mean build?"),
        ("docs --prot", "did you mean --port?"),
        ("package whels", "did you mean wheels?"),
        ("package imge", "did you mean image?"),
        ("package --arc arm64", "did you mean --arch?"),
        ("arm-check protocl", "did you mean protocol?"),
        ("image-check --agian", "did you mean --again?"),
        ("chart-check --wriet", "did you mean --write?"),
        ("package-check fiels", "did you mean files?"),
        ("release --dryrun", "did you mean --dry-run?"),
        ("soak-radosgw --round", "did you mean --rounds?"),
        ("fuzz gprc", "did you mean grpc?"),
        ("mutate polices", "did you mean policies?"),
        ("engine-check vlm", "did you mean vllm?"),
        ("generate notices", "did you mean notice?"),
        ("bench ssds", "did you mean ssd?"),
        ("demo --request 3", "did you mean --requests?"),
        ("demo --blok-bytes=1KiB", "did you mean --block-bytes?"),
        ("simulate --sed 3", "did you mean --seed?"),
        ("release --nothing-like-it", "there are --dry-run --arm64-jdk --out --help"),
    ],
)
def test_script_mistypedWord_isSuggestedAtOnce(command: str, meant: str) -> None:
    script, *words = command.split()
    ran = subprocess.run([str(ROOT / "scripts" / script), *words], capture_output=True, text=True, timeout=20, check=False)
    assert ran.returncode == 2, ran
    assert re.match(rf"{script}: (error: )?unknown ", ran.stderr) and meant in ran.stderr, ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr


@pytest.mark.parametrize("script", ["arm-check", "demo", "docs", "engine-check", "fuzz", "fuzz-http", "generate", "gpu-check", "image-check", "chart-check", "mutate", "package", "release", "simulate", "test", "wounds-check"])
def test_script_askedForHelp_tellsItsUsageAndDoesNothingElse(script: str) -> None:
    ran = subprocess.run([str(ROOT / "scripts" / script), "--help"], capture_output=True, text=True, timeout=20, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    assert f"scripts/{script}" in ran.stdout and "set -euo" not in ran.stdout, ran.stdout


def test_tool_mistypedOption_isSuggested(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Arguments(prog="tool")
    parser.add_argument("--seconds")
    parser.add_argument("--only")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--secnods=3"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "tool: error: unknown option '--secnods'; did you mean --seconds?\n"
    with pytest.raises(SystemExit):
        parser.parse_args(["surplus"])
    assert capsys.readouterr().err == "tool: error: unknown argument 'surplus'; there are --help --seconds --only\n"


@pytest.mark.parametrize(("words", "said"), [(["--only"], "--only needs a value"), (["--json=yes"], "--json takes no value")])
def test_tool_valueThatIsMissingOrTooMany_isTold(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    parser = Arguments(prog="tool")
    parser.add_argument("--only")
    parser.add_argument("--json", action="store_true")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"tool: error: {said}\n"


def test_tool_everyPublicOne_hasTheParserThatSuggests() -> None:
    for file in [*(ROOT / "bench").glob("*.py"), *(ROOT / "checks").glob("*/*.py")]:
        if file.name != "command_line.py" and file.parent.name != "tests":
            assert "argparse.ArgumentParser(" not in file.read_text(), file


def test_tool_programIsMissing_isOneLine(capfd: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        return subprocess.run(["nosuch-program"], check=False).returncode

    with pytest.raises(SystemExit) as ended:
        run_tool(main)
    assert ended.value.code == "error: the program 'nosuch-program' is missing: install it, or add its folder to PATH"


def test_tool_fileIsMissing_isADefect(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_tool(lambda: len((tmp_path / "nosuch-file").read_text()))
