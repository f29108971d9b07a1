"""Waits for the start of a daemon."""

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

READY_TIMEOUT_S = 300.0  # the first start may have to build the daemon
_END_S = 10.0
_TOLD_CHARS = 4000


def wait_ready(process: subprocess.Popen[str], log: Path, failure: Callable[[str], BaseException], timeout_s: float = READY_TIMEOUT_S) -> str:
    """Waits until a daemon is ready, and returns the line that says so. The process is dead if this function raises.

    Args:
        process: the daemon. Its standard output is a pipe that nobody has read from.
        log: the file of its standard error. The failure quotes the end of this file.
        failure: makes the exception of a daemon that ends, or is not ready in time, from a text.
    """
    assert process.stdout is not None
    said = b""
    why = f"was not ready within {timeout_s:g} s"
    # Not with readline: select does not see lines that the pipe's buffer has read ahead.
    descriptor = process.stdout.fileno()
    end = time.monotonic() + timeout_s
    try:
        while (left_s := end - time.monotonic()) > 0 and select.select([descriptor], [], [], left_s)[0]:
            read = os.read(descriptor, 1 << 16)
            if not read:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_S)
                why = f"ended with {process.returncode} before it was ready"
                break
            said += read
            for line in said.split(b"\n")[:-1]:
                if line.startswith(b"kvtierd ready") or b'"kvtierd ready on ' in line:
                    return line.decode(errors="replace")
        told = log.read_text(errors="replace")[-_TOLD_CHARS:] if log.exists() else ""
        raise failure(f"the daemon {why}; it said\n{said.decode(errors='replace')[-_TOLD_CHARS:]}\nand its log ends with\n{told}")
    except BaseException:
        process.kill()
        process.wait()
        process.stdout.close()
        raise
