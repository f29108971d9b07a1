"""What checks of engines share: an engine in a process of its own that does what it is told, a daemon, and the rows of a check."""

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvtier_testing import process

START_TIMEOUT_S = 900
PASS_TIMEOUT_S = 600


class Failed(Exception):
    """The check can't go on."""


class Daemon:
    """kvtierd with memory and SSD of its own."""

    def __init__(
        self, root: Path, folder: Path, host_bytes: str = "1GiB", settings: Mapping[str, str] | None = None, within: Sequence[str] = ()
    ) -> None:
        """`settings`: more of them; `within`: the command that runs it, such as one that enters a network namespace."""
        self.root = root
        self.host_bytes = host_bytes
        self.settings = dict(settings or {})
        self.within = list(within)
        self.folder = folder
        self.socket = folder / "kvtier.sock"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        (self.folder / "ssd").mkdir(exist_ok=True)
        settings = {
            "host.bytes": self.host_bytes, "host.keep": "2min", "ssd.bytes": "1GiB", "ssd.directory": str(self.folder / "ssd"),
            "ssd.admission": "all", "grpc.enabled": "false", "http.enabled": "false",
        } | self.settings  # fmt: skip
        command = process.command_of([*self.within, str(self.root / "scripts" / "kvtierd")], self.socket, settings)
        self.process, _ = process.start(command, self.folder / "daemon.log", Failed)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            process.stop(self.process)


class Told:
    """One engine process, told what to do line by line. It answers on the descriptor that its ``--answers`` names."""

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log_path = log
        answers, given = os.pipe()
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                [*command, "--answers", str(given)], env={**os.environ, **settings}, stdin=subprocess.PIPE, stdout=out,
                stderr=subprocess.STDOUT, pass_fds=(given,), text=True,
            )  # fmt: skip
        os.close(given)
        self.answers = os.fdopen(answers, "rb", buffering=0)
        self._rest = b""
        try:
            self.hello = self._answer(START_TIMEOUT_S)
        except Failed:
            self.close()
            raise

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise Failed(f"engine {self.name!r} did not answer in {timeout_s} s: {self.log_path}")
            read = os.read(self.answers.fileno(), 1 << 20)
            if not read:
                raise Failed(f"engine {self.name!r} ended: {self.log_path}\n{self.log()[-1500:]}")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def begin(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def run(self, **command: Any) -> dict[str, Any]:
        self.begin(**command)
        return self.end_of_run()

    def end_of_run(self, timeout_s: float = PASS_TIMEOUT_S) -> dict[str, Any]:
        return self._answer(timeout_s)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.begin(end=True)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.answers.close()


class Rows:
    """What a check has found."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failures = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def hold(self, what: str, passed: bool, text: str, **figures: Any) -> None:
        self.failures += not passed
        self.rows.append({"check": what, "passed": passed, "text": text, **figures})
        self.say(f"  {'ok    ' if passed else 'FAILED'} {what}: {text}")

    def tell(self, what: str, text: str, **figures: Any) -> None:
        """Prints a figure without a bound."""
        self.rows.append({"check": what, "text": text, **figures})
        self.say(f"  told   {what}: {text}")

    def run(self, cases: Sequence[str], to: Path | None, folder: Path) -> int:
        """Runs methods by their names; returns the exit code."""
        begun = time.monotonic()
        try:
            for case in cases:
                self.say(f"{case} ({time.monotonic() - begun:.0f} s)")
                try:
                    getattr(self, case)()
                except Failed as error:
                    self.hold(case, False, str(error))
        finally:
            if to:
                to.write_text(json.dumps(self.rows, indent=1) + "\n")
        passed = sum(row.get("passed", False) for row in self.rows)
        self.say(f"{passed} passed, {self.failures} failed; logs in {folder}")
        return 1 if self.failures else 0
