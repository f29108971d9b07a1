"""Tells the time in which this process ran from that in which the machine stood still."""

import threading
import time


class Pulse:
    """How long this process has run, and how long it has stood still, on a thread: what stands still with it is not to blame."""

    STEP_S = 0.1

    def __init__(self) -> None:
        self.ran_s = 0.0
        self.stood_s = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            time.sleep(self.STEP_S)
            now = time.monotonic()
            ran_s = min(now - before, 2 * self.STEP_S)
            self.ran_s += ran_s
            self.stood_s += now - before - ran_s
            before = now
