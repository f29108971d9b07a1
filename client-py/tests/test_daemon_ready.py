"""How tests and checks wait for a daemon."""

import subprocess
import sys
from pathlib import Path

import pytest
from kvtier_testing.daemon import all_stopped, eventually, importing
from kvtier_testing.ready import wait_ready


def test_startChild_killedWithItsTests_ends() -> None:
    script = "import time; from kvtier_testing import daemon; print(daemon.start_child(['sleep', '600']).pid, flush=True); time.sleep(600)"
    tests = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=importing()
    )
    assert tests.stdout is not None
    child = Path("/proc") / tests.stdout.readline().strip() / "stat"
    assert child.exists()
    tests.kill()
    tests.communicate()
    assert eventually(lambda: _has_ended(child))


def _has_ended(stat: Path) -> bool:
    try:
        # A zombie's parent has not looked yet.
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def started(code: str, log: Path) -> "subprocess.Popen[str]":
    """A process that is no daemon."""
    with log.open("w") as errors:
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, text=True)


@pytest.mark.parametrize("before", ["", "a warning of the JVM\\n", "no kvtierd ready yet\\n" * 3])
def test_waitReady_severalLinesAtOnce_isTheReadyOne(tmp_path: Path, before: str) -> None:
    process = started(f"import time; print('{before}kvtierd ready on /sock, HTTP on 127.0.0.1:7\\nmore', flush=True); time.sleep(600)", tmp_path / "log")
    try:
        assert wait_ready(process, tmp_path / "log", RuntimeError, 60) == "kvtierd ready on /sock, HTTP on 127.0.0.1:7"
    finally:
        process.kill()
        process.wait()


def test_waitReady_ends_tellsWhatItSaidAndLogged(tmp_path: Path) -> None:
    process = started("import sys; print('said'); sys.stderr.write('logged'); sys.exit(3)", tmp_path / "log")
    with pytest.raises(RuntimeError, match="(?s)ended with 3 before it was ready; it said\nsaid\n.*logged"):
        wait_ready(process, tmp_path / "log", RuntimeError)


def test_waitReady_saysNothing_isKilled(tmp_path: Path) -> None:
    process = started("import time; time.sleep(600)", tmp_path / "log")
    with pytest.raises(RuntimeError, match="not ready within 0.5 s"):
        wait_ready(process, tmp_path / "log", RuntimeError, 0.5)
    assert process.returncode is not None


@pytest.mark.parametrize(("states", "expected"), [(["T", "T"], True), (["T", "S"], False), (["T", None], False)])
def test_allStopped_threadThatEndedMeanwhile_isNotYet(tmp_path: Path, states: list[str | None], expected: bool) -> None:
    for number, state in enumerate(states):
        (tmp_path / str(number)).mkdir()
        if state is not None:
            (tmp_path / str(number) / "stat").write_text(f"{number} (a) name) {state} 1 2")
    assert all_stopped(tmp_path) == expected
