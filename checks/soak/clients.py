"""The clients of the soak: a process each, and a thread here that tells it what to do."""

import random
import select
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from checks.shared.pulse import Pulse
from checks.soak.oracle import Account

CALL_TIMEOUT_S = 10
HANG_S = 75.0
"""A call that takes longer hangs. Clients answer earlier by themselves. Time in which the machine stood still does not count."""

BATCH = 12
DEATHS_MAX = 5
"""A client that dies more often in a row, and never answers, does not work at all."""


class Hang(Exception):
    """A client was not answered in any way."""


class Hand:
    """A client's process: one question, one answer."""

    def __init__(self, command: list[str], log: Path, pulse: Pulse) -> None:
        self._pulse = pulse
        with log.open("a") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0)

    def ask(self, line: str) -> str | None:
        """The answer, or None where the process has died over it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except OSError:
            return None
        begun_s = self._pulse.ran_s
        answer = b""
        while not answer.endswith(b"\n"):
            if select.select([self._process.stdout], [], [], 1.0)[0]:
                piece = self._process.stdout.read(1 << 16)
                if not piece:
                    return None
                answer += piece
            elif self._pulse.ran_s - begun_s > HANG_S:
                raise Hang(f"no answer to {line[:60]!r} within {HANG_S:.0f} s")
        return answer.decode().rstrip("\n")

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Work(threading.Thread):
    """Has one client put, get, flush and delete, and holds the daemon to what it answers."""

    _REST_S = 0.05

    def __init__(
        self,
        name: str,
        command: list[str],
        accounts: list[Account],
        log: Path,
        pulse: Pulse,
        seed: str,
        garbled: Callable[[float], bool],
    ) -> None:
        """
        Args:
            garbled: whether a wire of this client has lied since a moment.
        """
        super().__init__(name=name, daemon=True)
        self.accounts = accounts
        self.hangs: list[str] = []
        self._deaths = 0
        self.failure: BaseException | None = None
        self._command = command
        self._log = log
        self._pulse = pulse
        self._garbled = garbled
        self._random = random.Random(f"{seed}/{name}")
        self._hand = Hand(command, log, pulse)
        self._may_work = threading.Event()
        self._may_work.set()
        self._rests = threading.Event()
        self._ends = False

    def run(self) -> None:
        try:
            while not self._ends:
                if not self._may_work.is_set():
                    self._rests.set()
                    self._may_work.wait()
                    continue
                self._turn()
                time.sleep(self._REST_S * self._random.random())
        except BaseException as failure:  # noqa: BLE001 - the main thread must hear of it
            self.failure = failure
        finally:
            self._rests.set()

    def _turn(self) -> None:
        account = self._random.choice(self.accounts)
        live = account.live()
        dice = self._random.random()
        if len(live) > account.blocks:
            self._delete_seen(account, self._random.sample(live, min(len(live), 2 * BATCH)))
        elif dice < 0.02:
            self.ask(account, "flush", [])
        elif dice < 0.05 and (deleted := account.deleted()):
            self.ask(account, "get", self._random.sample(deleted, min(len(deleted), BATCH)))
        elif dice < 0.15 and len(unknown := account.unknown()) > BATCH:
            # Nobody asks for them any more: left there, they would fill the tiers.
            self.ask(account, "delete", unknown[: 2 * BATCH])
            account.forget()
        elif dice < 0.5 and live:
            self.ask(account, "get", self._random.sample(live, min(len(live), self._random.randint(1, BATCH))))
        else:
            count = self._random.randint(1, BATCH)
            again = account.again(count) if self._random.random() < 0.1 else []
            self.ask(account, "put", again or account.fresh(count))

    def _delete_seen(self, account: Account, numbers: list[int]) -> None:
        """Deletes blocks that are there. Those that are not found stay promised, until a check has looked for them."""
        statuses = self.ask(account, "get", numbers) or []
        seen = [number for number, status in zip(numbers, statuses, strict=False) if status == "OK"]
        if seen:
            self.ask(account, "delete", seen)
            account.forget()

    def ask(self, account: Account, verb: str, numbers: list[int]) -> list[str] | None:
        """One question and its answer; a client that died is started again."""
        asked = account.ask(verb, numbers)
        begun = time.monotonic()
        try:
            text = self._hand.ask(f"{verb} {account.space.name} {','.join(map(str, numbers))}")
        except Hang as hang:
            self.hangs.append(f"{self.name}: {hang}")
            text = None
        statuses, wrong = self._parse(text) if text is not None else (None, {})
        self._deaths = 0 if text is not None else self._deaths
        if statuses is not None and "UNANSWERED" in statuses:
            if not self._garbled(begun):
                self.hangs.append(f"{self.name}: a {verb} was never answered, within {time.monotonic() - begun:.0f} s")
            statuses = None
        elif text is None:
            self._deaths += 1
            if self._deaths > DEATHS_MAX:
                raise RuntimeError(f"client {self.name} dies again and again; its log is {self._log}")
            self._hand.close()
            if not self._ends:
                self._hand = Hand(self._command, self._log, self._pulse)
        account.answer(asked, statuses, wrong, self._garbled(begun))
        return statuses

    @staticmethod
    def _parse(text: str) -> tuple[list[str], dict[int, int]]:
        statuses, _, wrong = text.partition(" |")
        pairs = [one.split(":") for one in wrong.split()]
        return statuses.split(" "), {int(number): int(bad) for number, bad in pairs}

    def kill(self) -> None:
        """Ends the client's process with SIGKILL, whatever it does."""
        self._hand.kill()

    def pause(self) -> None:
        """Returns when it asks nothing any more; the caller may then ask in its place."""
        self._rests.clear()
        self._may_work.clear()
        while not self._rests.wait(0.2) and self.is_alive():
            pass
        self.require_well()

    def require_well(self) -> None:
        """An error where it does not work any more."""
        if self.failure is not None:
            raise RuntimeError(f"client {self.name} failed: {self.failure}") from self.failure

    def go_on(self) -> None:
        self._may_work.set()

    def end(self) -> None:
        self._ends = True
        self._may_work.set()
        self._hand.kill()
        if self.is_alive():
            self.join(10)
        self._hand.close()
