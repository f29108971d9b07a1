"""Sends blocks to a decode node while a prefill node writes them: scripts/bench prefill-decode.

Two daemons on this machine, over loopback in plaintext. The prefill side writes the layers of all blocks of a prompt one after the
other, at a rate. Each row is one rate, in the same run with layers that are sent as they are written (`by layer`) and with whole blocks
that are read afterwards (`whole`). The limit is the longer one of the prefill and of the transfer, each alone, and one group of layers.
"""

import argparse
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kvtier_testing import process
from kvtier_testing.layers import LayerWriter
from kvtier_testing.nodes import connected

from bench.rows_tool import Failed, add_json, run_rows_tool, write_rows
from checks.shared.command_line import Arguments, whole
from checks.shared.nodes import NodeDaemon
from kvtier import Leases, Namespace, Status

MIB = 1 << 20
LAYERS, GROUPS, BLOCK_TOKENS, HEADS, HEAD_BYTES = 32, 8, 16, 8, 256
"""of one block: 2 MiB, keys and values"""
TIMEOUT_S = 120.0


class Node(NodeDaemon):
    """A daemon with a name."""

    def __init__(self, folder: Path, name: str, memory: int, settings: dict[str, object]) -> None:
        self.name = name
        own = {
            "host.bytes": f"{memory // MIB + 128}MiB",
            "host.slab_bytes": "64MiB",
            "nodes.name": name,
            "nodes.security": "plaintext_without_tokens",
            "nodes.fetch_timeout": "60s",
            "limits.deadline_max": "120s",
        }
        super().__init__(folder, own | settings, Failed, timeout_s=TIMEOUT_S)


class Times(NamedTuple):
    """Of one prompt, in seconds."""

    prefill: float
    total: float


def write(writer: LayerWriter, keys: list[bytes], rate: float) -> float:
    """Writes all layers at a rate in bytes a second; returns how long it took."""
    begun = time.monotonic()
    for group in range(writer.groups):
        statuses = writer.write(group, keys, TIMEOUT_S)
        if statuses != [Status.OK] * len(keys):
            raise Failed(f"the prefill node does not take layers: {set(statuses)}")
        due = begun + writer.group_bytes * len(keys) * (group + 1) / rate
        time.sleep(max(0.0, due - time.monotonic()))
    return time.monotonic() - begun


def keys_of(number: int, blocks: int) -> list[bytes]:
    return [number.to_bytes(8, "little") + index.to_bytes(8, "little") for index in range(blocks)]


def check(writer: LayerWriter, leases: Leases) -> None:
    """All blocks are here, and the first and the last have the bytes that were written."""
    with leases:
        if leases.statuses != [Status.OK] * len(leases.statuses):
            raise Failed(f"blocks did not come: { {status: leases.statuses.count(status) for status in set(leases.statuses)} }")
        if not (writer.is_right(leases.views[0]) and writer.is_right(leases.views[-1])):
            raise Failed("a block has other bytes than were written")


def read_whole(writer: LayerWriter, prefill: Namespace, decode: Namespace, keys: list[bytes]) -> float:
    """Reads blocks that the prefill node has; returns how long it took."""
    while prefill.lookup(keys).run < len(keys):
        time.sleep(0.001)
    begun = time.monotonic()
    leases = decode.acquire(keys)
    took = time.monotonic() - begun
    check(writer, leases)
    return took


def by_layer(writer: LayerWriter, decode: Namespace, keys: list[bytes], rate: float, node: str) -> Times:
    """Blocks are expected before they are written."""
    done: list[float] = []
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            leases = decode.acquire(keys, expected_from=node)
            done.append(time.monotonic())
            check(writer, leases)
        except BaseException as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    begun = time.monotonic()
    took = write(writer, keys, rate)
    waiting.join()
    if failed:
        raise failed[0]
    return Times(took, done[0] - begun)


def measure(folder: Path, blocks: int, rates: list[int], rounds: int, rows: list[dict[str, object]]) -> None:
    port = process.free_port()
    memory = 2 * blocks * LAYERS * 2 * BLOCK_TOKENS * HEADS * HEAD_BYTES
    with ExitStack() as started:
        first = Node(folder / "a", "prefill", memory, {"nodes.listen": f"127.0.0.1:{port}"})
        started.callback(first.stop)
        second = Node(folder / "b", "decode", memory, {"nodes.peers": f"127.0.0.1:{port}"})
        started.callback(second.stop)
        writer = LayerWriter(
            first.client, "bench", blocks, layers=LAYERS, groups=GROUPS, tokens=BLOCK_TOKENS, heads=HEADS, head_bytes=HEAD_BYTES
        )
        started.callback(writer.close)
        here, there = writer.namespace(first.client), writer.namespace(second.client)
        while not connected(second.client):
            time.sleep(0.01)
        print(f"{blocks} blocks of {writer.block_bytes // MIB} MiB, {LAYERS} layers in {GROUPS} groups; medians of {rounds}")
        print(f"{'prefill at':<14} {'prefill':>9} {'transfer':>9} {'limit':>9} {'whole':>9} {'by layer':>9} {'of limit':>9}   (s)")
        number = 0
        for at, rate in enumerate(rates):
            figures: list[tuple[float, float, float, float, float]] = []
            # The first prompt of all warms up, and does not count.
            for turn in range(rounds + (at == 0)):
                number += 2
                keys = keys_of(number, blocks)
                alone = write(writer, keys, rate * MIB)
                transfer = read_whole(writer, here, there, keys)
                here.clear()
                there.clear()
                times = by_layer(writer, there, keys_of(number + 1, blocks), rate * MIB, first.name)
                here.clear()
                there.clear()
                limit = max(alone, transfer) + max(alone, transfer) / GROUPS
                if at > 0 or turn > 0:
                    figures.append((alone, transfer, limit, alone + transfer, times.total))
            alone, transfer, limit, apart, total = (statistics.median(column) for column in zip(*figures, strict=True))
            rows.append(
                {"name": f"prefill at {rate} MiB/s", "prefill_s": alone, "transfer_s": transfer, "limit_s": limit}
                | {"whole_s": apart, "by_layer_s": total, "ratio": total / limit}
            )
            print(f"{rate:>8} MiB/s {alone:>9.3f} {transfer:>9.3f} {limit:>9.3f} {apart:>9.3f} {total:>9.3f} {total / limit:>9.2f}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/bench prefill-decode", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short prompt, and one round")
    parser.add_argument("--blocks", type=whole, default=256, help="blocks of the prompt (default: 256)")
    parser.add_argument("--rates", type=whole, nargs="+", default=[200, 400, 800], metavar="MIB", help="MiB/s of the prefill (default: 200 400 800)")
    parser.add_argument("--rounds", type=whole, default=3, help="prompts for each rate (default: 3)")
    add_json(parser)
    options = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="kvtier-prefill-decode.") as name:
        blocks, rounds = (64, 1) if options.quick else (options.blocks, options.rounds)
        measure(Path(name), blocks, options.rates, rounds, rows)
    write_rows(options.json, rows)
    return 0


if __name__ == "__main__":
    run_rows_tool(main)
