"""Tells the time in which this process ran from that in which the machine stood still."""

import threading
import time


class Pulse:
    """How long this process has run, and how long it has stood still, until it is closed.

    It counts on a thread of its own: what stands still with that is not to blame.
    """

    STEP_S = 0.1

    def __init__(self) -> None:
        self.ran_s = 0.0
        self.stood_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends its thread; what it has counted stays."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(self.STEP_S):
            now = time.monotonic()
            ran_s = min(now - before, 2 * self.STEP_S)
            self.ran_s += ran_s
            self.stood_s += now - before - ran_s
            before = now
