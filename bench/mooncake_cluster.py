"""Replays a trace over Mooncake's store on several nodes, as bench.cluster does over kvtier's daemons, and prints the row as JSON.

Runs in Mooncake's environment, which has no kvtier. A master and a client process for each node run on this machine; each node's engine
talks to its client process over shared memory, and the client processes talk over TCP. Every byte is checked.
"""

import ctypes
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.mooncake_worker import Sidecar
from bench.request_trace import read_trace
from checks.shared.content import Content

BATCH_BYTES = 16 << 20
LOCAL_BYTES = 64 << 20
SETUP_S = 30.0
LEASE = "1s"
"""how long a block that was looked up stays, at least: the replay is faster than the hour that the trace took, where 10 s is usual"""


class Node:
    """The engine of one node."""

    def __init__(self, store: Any, block_bytes: int, content: Content) -> None:
        self._store = store
        self._block_bytes = block_bytes
        self._content = content
        self._batch_blocks = BATCH_BYTES // block_bytes
        self._buffer = store.alloc_from_mem_pool(BATCH_BYTES)
        if store.register_buffer(self._buffer, BATCH_BYTES) != 0:
            raise RuntimeError("register_buffer fails")
        self.references = self.hits = self.lost = self.refused = 0
        self.lookup_ns: list[int] = []

    def request(self, block_ids: Sequence[int]) -> None:
        """Looks the blocks of a prompt up, gets those that are there, and puts the others."""
        keys = [f"cluster:{block_id}" for block_id in block_ids]
        begun = time.perf_counter_ns()
        found = self._store.batch_is_exist(keys)
        self.lookup_ns.append(time.perf_counter_ns() - begun)
        there = [key for key, is_there in zip(keys, found, strict=True) if is_there == 1]
        right: set[str] = set()
        for some in self._batches(there):
            right.update(self._get(some))
        self.references += len(keys)
        self.lost += len(there) - len(right)
        self.hits += next((nth for nth, key in enumerate(keys) if key not in right), len(keys))
        for some in self._batches([key for key in keys if key not in right]):
            self._put(some)

    def _batches(self, keys: Sequence[str]) -> Iterator[Sequence[str]]:
        return (keys[begin : begin + self._batch_blocks] for begin in range(0, len(keys), self._batch_blocks))

    def _places(self, count: int) -> list[int]:
        return [self._buffer + nth * self._block_bytes for nth in range(count)]

    def _get(self, keys: Sequence[str]) -> list[str]:
        # Bytes that an earlier get left in the buffer must not count as those of this get.
        ctypes.memset(self._buffer, 0, len(keys) * self._block_bytes)
        got = self._store.batch_get_into(list(keys), self._places(len(keys)), [self._block_bytes] * len(keys))
        right = []
        for key, place, length in zip(keys, self._places(len(keys)), got, strict=True):
            if length == self._block_bytes:
                if self._content.wrong_bytes(key.encode(), bytearray(ctypes.string_at(place, length)), 0):
                    raise RuntimeError(f"wrong bytes of {key} came back")
                right.append(key)
        return right

    def _put(self, keys: Sequence[str]) -> None:
        for key, place in zip(keys, self._places(len(keys)), strict=True):
            ctypes.memmove(place, self._content.block(key.encode()), self._block_bytes)
        put = self._store.batch_put_from(list(keys), self._places(len(keys)), [self._block_bytes] * len(keys))
        self.refused += sum(code != 0 for code in put)


def node(port: int, block_bytes: int, content: Content) -> Node:
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    end = time.monotonic() + SETUP_S
    while (code := store.setup_dummy(LOCAL_BYTES, LOCAL_BYTES, f"127.0.0.1:{port}")) != 0:
        if time.monotonic() > end:
            raise RuntimeError(f"setup_dummy answers {code}")
        time.sleep(0.2)
    return Node(store, block_bytes, content)


def row_of(nodes: Sequence[Node], seconds: float) -> dict[str, Any]:
    return {
        "hit_ratio": sum(one.hits for one in nodes) / sum(one.references for one in nodes),
        "lost": sum(one.lost for one in nodes),
        "refused": sum(one.refused for one in nodes),
        "lookup_p50_us": statistics.median(ns for one in nodes for ns in one.lookup_ns) / 1000,
        "seconds": seconds,
    }


def main() -> None:
    """Prints the row. The argument is a JSON object: trace, requests, nodes, block_bytes, node_bytes and seed."""
    options = json.loads(sys.argv[1])
    block_bytes = options["block_bytes"]
    trace = read_trace(Path(options["trace"]), options["requests"])
    content = Content(block_bytes)
    router = random.Random(options["seed"])
    # Text that the library prints must not mix with the row.
    answers = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sidecar = None
    try:
        sidecar = Sidecar(options["nodes"], f"{options['node_bytes'] >> 20} MB", f"--default_kv_lease_ttl={LEASE}")
        nodes = [node(port, block_bytes, content) for port in sidecar.ports]
        begun = time.monotonic()
        for block_ids in trace:
            router.choice(nodes).request(block_ids)
        row = row_of(nodes, time.monotonic() - begun)
    except Exception as error:  # noqa: BLE001 - whatever it is, the asker shows it
        row = {"error": f"{type(error).__name__}: {error}"}
    finally:
        if sidecar is not None:
            sidecar.stop()
    print(json.dumps(row), file=answers, flush=True)
    # The library's threads do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
