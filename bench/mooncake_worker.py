"""Mooncake's sidecar as a peer: starts its master and its client process, and carries out the commands on the standard
input as worker.py does. All run on this machine and talk over shared memory."""

import os
import random
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

SEGMENT = "1 GB"
LOCAL_BYTES = 64 << 20
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0

Answer = dict[str, float]


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Sidecar:
    """The processes that Mooncake needs beside engines: a master, and a client process on each node. All run on this machine."""

    def __init__(self, nodes: int = 1, segment: str = SEGMENT, *of_master: str) -> None:
        """
        Args:
            nodes: how many client processes there are.
            segment: the memory of each, such as ``1 GB``.
            of_master: more options of the master.
        """
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="kvtier-bench-")
        master, metadata, metrics, *self.ports = (free_port() for _ in range(3 + nodes))
        self._start(
            "mooncake_master",
            f"--rpc_port={master}",
            "--enable_http_metadata_server=true",
            f"--http_metadata_server_port={metadata}",
            f"--metrics_port={metrics}",
            *of_master,
        )
        self._await_port(master)
        self._await_port(metadata)
        for port in self.ports:
            self._start(
                "mooncake_client",
                "--host=127.0.0.1",
                f"--port={port}",
                f"--master_server_address=127.0.0.1:{master}",
                f"--metadata_server=http://127.0.0.1:{metadata}/metadata",
                "--protocol=tcp",
                "--threads=2",  # with one thread its puts fail
                f"--global_segment_size={segment}",
            )
        for port in self.ports:
            self._await_port(port)

    def _start(self, program: str, *arguments: str) -> None:
        path = Path(sysconfig.get_path("scripts"), program)
        log = open(Path(self._folder.name, f"{program}.log"), "ab")  # noqa: SIM115
        self._processes.append(subprocess.Popen([path, *arguments], stdout=log, stderr=log))

    def _await_port(self, port: int) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self._processes):
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        logs = " ".join(path.read_text(errors="replace")[-300:] for path in Path(self._folder.name).glob("*.log"))
        self.stop()
        raise RuntimeError(f"Mooncake's processes do not come up: {logs}")

    def stop(self) -> None:
        """Ends the processes, the client's before the master's."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()


class Worker:
    """The commands, one method each."""

    def __init__(self) -> None:
        self.sidecar: Sidecar | None = None
        self.store: Any
        self.keys: list[str] = []
        self.block = b""
        self.buffer = 0
        self.turn = 0
        self.next_put = 0

    def open(self, block_bytes: str, blocks: str) -> Answer:
        """Starts the processes, connects, and puts the blocks that will be got."""
        from mooncake.store import MooncakeDistributedStore

        self.sidecar = Sidecar()
        self.store = MooncakeDistributedStore()
        deadline = time.monotonic() + READY_TIMEOUT_S
        while (code := self.store.setup_dummy(4 * LOCAL_BYTES, LOCAL_BYTES, f"127.0.0.1:{self.sidecar.ports[0]}")) != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"setup_dummy answers {code}")
            time.sleep(0.2)
        self.block = b"\x5a" * int(block_bytes)
        self.buffer = self.store.alloc_from_mem_pool(len(self.block))
        if self.store.register_buffer(self.buffer, len(self.block)) != 0:
            raise RuntimeError("register_buffer fails")
        self.keys = [f"get-{number}" for number in range(int(blocks))]
        for key in self.keys:
            self._require(self.store.put(key, self.block) == 0, f"put of {key}")
        random.Random(7).shuffle(self.keys)
        return {}

    @staticmethod
    def _require(condition: bool, what: str) -> None:
        if not condition:
            raise RuntimeError(f"{what} fails")

    def get(self, duration_ms: str) -> Answer:
        """Its two ways to get a block: as new bytes, and into registered memory."""
        half_ns = int(duration_ms) * 500_000
        clock = time.perf_counter_ns
        calls = took = 0
        while took < half_ns:
            key = self._next_key()
            started = clock()
            block = self.store.get(key)
            took += clock() - started
            calls += 1
            self._require(block == self.block, f"get of {key}")
        answer = {"get": calls * 1e9 / took}
        calls = took = 0
        while took < half_ns:
            key = self._next_key()
            started = clock()
            got = self.store.get_into(key, self.buffer, len(self.block))
            took += clock() - started
            calls += 1
            self._require(got == len(self.block), f"get_into of {key}")
        answer["get_into"] = calls * 1e9 / took
        return answer

    def _next_key(self) -> str:
        self.turn = (self.turn + 1) % len(self.keys)
        return self.keys[self.turn]

    def put(self, duration_ms: str) -> Answer:
        """Its two ways to put a block: from bytes, and from registered memory."""
        half_ns = int(duration_ms) * 500_000
        clock = time.perf_counter_ns
        fresh: list[str] = []
        calls = took = 0
        while took < half_ns:
            key = self._fresh_key(fresh)
            started = clock()
            code = self.store.put(key, self.block)
            took += clock() - started
            calls += 1
            self._require(code == 0, f"put of {key}")
        answer = {"put": calls * 1e9 / took}
        calls = took = 0
        while took < half_ns:
            key = self._fresh_key(fresh)
            started = clock()
            code = self.store.put_from(key, self.buffer, len(self.block))
            took += clock() - started
            calls += 1
            self._require(code == 0, f"put_from of {key}")
        answer["put_from"] = calls * 1e9 / took
        for key in fresh:
            self.store.remove(key)
        return answer

    def _fresh_key(self, fresh: list[str]) -> str:
        self.next_put += 1
        fresh.append(f"put-{self.next_put}")
        return fresh[-1]


def main() -> None:
    """Until the standard input ends."""
    # What the library prints must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w")
    errors = open(os.devnull, "w")  # noqa: SIM115
    os.dup2(errors.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    worker = Worker()
    try:
        for line in sys.stdin:
            name, *arguments = line.split()
            try:
                answer = getattr(worker, name)(*arguments)
                text = " ".join(["ok", *(f"{key}={value!r}" for key, value in answer.items())])
            except Exception as error:  # noqa: BLE001 - whatever it is, the asker shows it
                text = f"error Mooncake: {type(error).__name__}: {error}".replace("\n", " ")
            print(text, file=answers, flush=True)
    finally:
        if worker.sidecar is not None:
            worker.sidecar.stop()


if __name__ == "__main__":
    main()
