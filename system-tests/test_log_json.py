"""With log.format json every line that a daemon prints is a JSON object with the documented fields."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from kvtier_testing.daemon import Daemon

FIELDS = {"timestamp", "level", "threadName", "loggerName", "formattedMessage", "throwable"}


def objects(text: str) -> list[dict[str, Any]]:
    """Each line as an object with the fields of the log; fails on a line that is none."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert set(line) <= FIELDS, line
        assert {"timestamp", "level", "loggerName", "formattedMessage"} <= set(line), line
    return lines


def test_startAndStop_everyLineIsAnObject(stopped_daemon: Daemon) -> None:
    stopped_daemon.start(log__format="json", log__level="info", http__enabled="true", http__port="0")
    process = stopped_daemon.process
    assert process is not None and process.stdout is not None
    stopped_daemon.signal(signal.SIGTERM)
    stopped = objects(process.stdout.read())
    assert stopped[-1]["formattedMessage"].startswith("kvtierd stopped; ")
    assert stopped[-1]["level"] == "INFO"
    objects((stopped_daemon.folder / "daemon.log").read_text())


def test_startThatFails_isToldAsAnObject(stopped_daemon: Daemon) -> None:
    taken = stopped_daemon.folder / "file"
    taken.write_text("this is no folder")
    for setting, words in (
        ("host.bytes=1024", "it has no unit"),
        ("nosuch.key=1", "unknown key 'nosuch.key'"),
        (f"ssd.directory={taken}", str(taken)),
    ):
        failed = failed_start(stopped_daemon, "--set", "log.format=json", "--set", setting)
        assert failed.returncode in (1, 2), failed.stderr
        told = objects(failed.stdout + failed.stderr)
        assert [line for line in told if words in line["formattedMessage"] and line["level"] == "ERROR"], (setting, told)


def test_startThatFails_withoutJson_isText(stopped_daemon: Daemon) -> None:
    failed = failed_start(stopped_daemon, "--set", "nosuch.key=1")
    assert failed.stderr.startswith("kvtierd: --set: unknown key 'nosuch.key'"), failed.stderr


def failed_start(daemon: Daemon, *arguments: str) -> "subprocess.CompletedProcess[str]":
    socket = Path(daemon.folder) / "failed.sock"
    return subprocess.run([*daemon.program(), "--socket", str(socket), *arguments], capture_output=True, text=True, timeout=300, check=False)
