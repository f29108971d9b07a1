"""scripts/demo: a wrong option ends it in one line before anything is built or started, and a run leaves nothing behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvtier_testing.daemon import importing

from checks.shared.checkout import ROOT


def demo(*arguments: str) -> tuple[int, str]:
    """The exit code, and the one line on standard error."""
    done = subprocess.run(
        [ROOT / "scripts" / "demo", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--nonsense", "unknown option '--nonsense'; there are --help --trace --requests"),
        ("--request 5", "unknown option '--request'; did you mean --requests?"),
        ("--request=5", "unknown option '--request'; did you mean --requests?"),
        ("requests 5", "unknown argument 'requests'; did you mean --requests?"),
        ("--json=yes", "--json takes no value"),
        ("--requests", "--requests needs a value"),
        ("--socket=", "--socket needs a value"),
        ("--requests 0", "--requests is '0', expected a whole number above 0"),
        ("--requests x", "--requests is 'x', expected a whole number above 0"),
        ("--block-bytes x", "--block-bytes is 'x', expected a whole number of B, KiB"),
        ("--block-bytes 0", "--block-bytes is '0', expected 1 B to 64 MiB"),
        ("--block-bytes 1GiB", "--block-bytes is '1GiB', expected 1 B to 64 MiB"),
        ("--host-bytes 1GB", "--host-bytes is '1GB', expected a whole number of B, KiB"),
        ("--host-bytes 1GB", "did you mean 1GiB?"),
        ("--host-bytes 2k", "did you mean 2KiB?"),
        ("--host-bytes 1073741824", "did you mean 1073741824B?"),
        ("--host-bytes 10MiB", "--host-bytes is '10MiB', expected a multiple of 64MiB, such as 64MiB"),
        ("--host-bytes 0", "--host-bytes is '0', expected 64 MiB or more"),
        ("--ssd-bytes 300MiB", "--ssd-bytes is '300MiB', expected a multiple of 256MiB, such as 256MiB"),
        ("--ssd-bytes 9000000TiB", "--ssd-bytes is '9000000TiB', expected at most 1024TiB"),
        ("--socket /tmp/x.sock --host-bytes 1GiB", "need a daemon that the demo starts"),
        ("--trace /nosuch/file", "--trace: cannot read the trace /nosuch/file: No such file"),
        (f"--trace {ROOT}/README.md", "README.md, line 1: expected a JSON object"),
    ],
)
def test_wrong_option_is_told_in_one_line(arguments: str, message: str) -> None:
    code, line = demo(*arguments.split())
    assert code == 2
    assert line.startswith("demo: ") and message in line


def test_no_daemon_at_the_socket_is_told_at_once(tmp_path: Path) -> None:
    code, line = demo("--socket", str(tmp_path / "none.sock"))
    assert code == 3
    assert f"no daemon at {tmp_path}/none.sock: start one there" in line


def test_replay_without_a_daemon_says_so_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.replay", "--requests", "1", "--socket", tmp_path / "none.sock"],
        env=importing(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.count("none.sock") == 1, done.stderr


def command_lines() -> Iterator[bytes]:
    """The command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended since they were listed
            yield path.read_bytes()


SMALL = ["--requests", "40", "--host-bytes", "128MiB", "--ssd-bytes", "256MiB"]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for temporary files. pytest's own folders have names that are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("more", [[], ["--object", "folder"]])
def test_demo_replays_andLeavesNothing(more: list[str], short: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "demo", "--json", *SMALL, *more], capture_output=True, text=True, timeout=600, check=False, env=os.environ | {"TMPDIR": str(short)}
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["requests"], figures["wrong_bytes"]) == (40, 0) and figures["puts"] > 0
    assert re.search(r"^kvtier: the dashboard: http://127\.0\.0\.1:\d+/ until the replay ends$", done.stderr, re.MULTILINE), done.stderr
    assert list(short.iterdir()) == []


def test_demo_stoppedAmidTheReplay_stopsItsDaemonAndLeavesNothing(short: Path) -> None:
    command = [ROOT / "scripts" / "demo", "--host-bytes", "128MiB", "--ssd-bytes", "256MiB"]
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(short)})
    assert demo.stderr is not None
    for line in demo.stderr:
        if "prefix hits" in line:
            break
    assert len(list(short.iterdir())) == 1
    demo.terminate()
    demo.stderr.read()
    assert demo.wait(60) == 128 + signal.SIGTERM
    assert list(short.iterdir()) == []
    assert not any(str(short).encode() in one for one in command_lines())
