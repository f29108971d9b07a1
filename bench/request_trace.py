"""Reads a trace of LLM requests: JSON lines, plain or gz, whose ``hash_ids`` name the blocks of a prompt in prefix order.

As a program it checks a trace: ``request_trace.py FILE``. It needs nothing but Python, so that a wrong file is found
before anything is built. Exit codes: 0 it is a trace, 2 it is none; standard error says where and why.
"""

import gzip
import json
import sys
import zlib
from pathlib import Path


class TraceError(Exception):
    """The trace cannot be read; the message says where and why."""


def read_trace(path: Path, requests: int | None = None) -> list[list[int]]:
    """The block ids of each request, or of the first `requests` requests.

    Raises:
        TraceError: there is no such file, or a line of it is no request.
    """
    trace: list[list[int]] = []
    try:
        with open(path, "rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if compressed else open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if requests is not None and len(trace) == requests:
                    break
                if line.strip():
                    trace.append(_block_ids(line, f"{path}, line {number}"))
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"cannot read the trace {path}: {getattr(error, 'strerror', None) or error}") from None
    if not trace:
        raise TraceError(f"the trace {path} holds no requests")
    return trace


def _block_ids(line: bytes, where: str) -> list[int]:
    try:
        ids = json.loads(line)["hash_ids"]
    except (ValueError, KeyError, TypeError):
        raise TraceError(f'{where}: expected a JSON object with "hash_ids", such as the traces in bench/traces have') from None
    if not isinstance(ids, list) or not all(type(block_id) is int for block_id in ids):
        raise TraceError(f'{where}: expected "hash_ids" to be a list of integers')
    return ids


def main(arguments: list[str]) -> int:
    """The program; returns its exit code."""
    try:
        read_trace(Path(arguments[0]))
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
