"""What each operation costs the daemon: CPU time, switches and system calls by thread, allocation.

    python -m bench.profile_daemon SOCKET PID [--json]

The daemon is one that is already running, with nobody else at it; SSD tier and host tier of their default sizes or larger
than the working set. Each operation is repeated; what the daemon's threads used meanwhile is divided by the number of blocks.
"""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import kvtier
from checks.shared.command_line import Arguments, run_tool, whole

BLOCK_BYTES = 256 * 1024
BLOCKS = 512


def threads(pid: int) -> dict[str, tuple[int, int, int]]:
    """CPU time in ns, voluntary and involuntary switches, by the first words of the thread's name."""
    used: dict[str, tuple[int, int, int]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            cpu = int((task / "schedstat").read_text().split()[0])
            status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        except (OSError, ValueError):
            continue
        switches = (int(status["voluntary_ctxt_switches"]), int(status["nonvoluntary_ctxt_switches"]))
        before = used.get(name, (0, 0, 0))
        used[name] = (before[0] + cpu, before[1] + switches[0], before[2] + switches[1])
    return used


def keys(prefix: str, count: int) -> list[bytes]:
    return [hashlib.sha256(f"{prefix}/{i}".encode()).digest() for i in range(count)]


class Profile:
    """Runs operations and notes what they cost."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.rows: list[dict[str, object]] = []

    def run(self, name: str, blocks: int, work: Callable[[], object]) -> None:
        before = threads(self.pid)
        own = time.process_time_ns()
        start = time.perf_counter_ns()
        work()
        wall = time.perf_counter_ns() - start
        own = time.process_time_ns() - own
        after = threads(self.pid)
        by_thread = {}
        for thread, (cpu, voluntary, involuntary) in after.items():
            was = before.get(thread, (0, 0, 0))
            if cpu - was[0] > 1000 * blocks // 100:
                by_thread[thread] = {
                    "cpu_ns": round((cpu - was[0]) / blocks),
                    "switches": round((voluntary - was[1] + involuntary - was[2]) / blocks, 3),
                }
        self.rows.append(
            {
                "operation": name,
                "blocks": blocks,
                "wall_ns": round(wall / blocks),
                "client_cpu_ns": round(own / blocks),
                "daemon_cpu_ns": sum(one["cpu_ns"] for one in by_thread.values()),
                "threads": by_thread,
            }
        )


def main() -> int:
    parser = Arguments(prog="bench.profile_daemon", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("socket")
    parser.add_argument("pid", type=whole)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    profile = Profile(arguments.pid)
    with kvtier.Client(arguments.socket, timeout=60) as client:
        namespace = client.namespace("profile", block_bytes=BLOCK_BYTES)
        source = bytearray(b"\5" * (BLOCK_BYTES * 64))
        target = bytearray(BLOCK_BYTES * 64)
        # The daemon compiles what is hot only after a while.
        for turn in (*["warm"] * 8, "measured"):
            names = keys(f"{turn}/{time.time_ns()}", BLOCKS)
            batches = [names[i : i + 64] for i in range(0, BLOCKS, 64)]
            steps: list[tuple[str, int, Callable[[], object]]] = [
                ("put", BLOCKS, lambda b=batches: [namespace.put(one, source) for one in b]),
                ("lookup of 256", 256 * 400, lambda n=names: [namespace.lookup(n[:256]) for _ in range(400)]),
                ("lookup of 1", 4000, lambda n=names: [namespace.lookup(n[:1]) for _ in range(4000)]),
                ("acquire and release of 1", 4000, lambda n=names: [acquire(namespace, n[:1]) for _ in range(4000)]),
                ("acquire and release of 64", 6400, lambda n=names: [acquire(namespace, n[:64]) for _ in range(100)]),
                ("get", BLOCKS, lambda b=batches: [namespace.get(one, target) for one in b]),
                ("demote (flush)", BLOCKS, namespace.flush),
            ]
            for name, blocks, work in steps:
                if turn == "measured":
                    profile.run(name, blocks, work)
                else:
                    work()
            if turn == "measured":
                # What comes after pushes them out of memory.
                for i in range(12):
                    pushed = keys(f"push/{i}/{time.time_ns()}", BLOCKS)
                    for at in range(0, BLOCKS, 64):
                        namespace.put(pushed[at : at + 64], source)
                profile.run("promote (get from SSD)", BLOCKS, lambda b=batches: [namespace.get(one, target) for one in b])
    if arguments.json:
        print(json.dumps(profile.rows))
        return 0
    print("| operation, a block | client CPU | daemon CPU | of it, by thread (switches a block) |\n| --- | ---: | ---: | --- |")
    for row in profile.rows:
        by_thread = row["threads"]
        assert isinstance(by_thread, dict)
        parts = [f"{name} {one['cpu_ns'] / 1000:.2f} ({one['switches']})" for name, one in sorted(by_thread.items(), key=lambda item: -item[1]["cpu_ns"])]
        print(f"| {row['operation']} | {row['client_cpu_ns'] / 1000:.2f} µs | {row['daemon_cpu_ns'] / 1000:.2f} µs | {', '.join(parts[:4])} |")
    return 0


def acquire(namespace: kvtier.Namespace, names: list[bytes]) -> None:
    with namespace.acquire(names):
        pass


if __name__ == "__main__":
    run_tool(main)
