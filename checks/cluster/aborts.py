"""Aborts transfers of expected blocks between two nodes, while both daemons are killed at random; run by cluster-check.

A writer gives a prefill node blocks layer by layer. Clients of a decode node expect these blocks, and most of them cancel, die, or wait for
blocks that nobody writes. Memory is small, so slots are used again at once. All bytes depend on the block's key: what is written late into a
slot of another block is seen. At the end no slot may be missing and no lease left on either node. Then thousands of transfers are aborted
at once, beside the puts and gets of another process.

Exit codes: 0 all promises were kept, 1 one was not, 2 wrong usage.
"""

import argparse
import contextlib
import logging
import multiprocessing
import os
import queue
import random
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from kvtier_testing import process
from kvtier_testing.counts import slots_balance
from kvtier_testing.layers import LayerWriter
from kvtier_testing.nodes import connected

from checks.cluster.networks import Failed
from checks.shared import waits
from checks.shared.command_line import Arguments, number, run_tool
from checks.shared.nodes import NodeDaemon
from kvtier import Client, KvtierError, Namespace, Status
from kvtier._polled import Polled
from kvtier.engine.inbound import Inbound, Inbounds

GROUPS, KEY_BYTES = 4, 16
SHAPE = {"layers": 4, "groups": GROUPS, "tokens": 16, "heads": 2, "head_bytes": 64}
"""of blocks of 16 KiB"""
BLOCKS_MAX = 16
"""of a transfer"""
UNDER_WAY = 32
CLIENTS = 3
GET_S = 4.0
HANG_S = 30.0
"""longer than any call here may take, also while a daemon starts"""
PAUSE_S = (2.0, 8.0)
"""between two kills"""
SMALL, LARGE = "16MiB", "160MiB"
BURSTS, BURST_GETS = 3, 400
BURST_BLOCKS = 10
SHARE_MIN = 0.9
WINDOWS, WINDOW_S = 5, 5.0
_PAUSE_WITHOUT_S = 0.02
"""while there is no daemon"""
_SHOWN = ("host_slots", "leases", "reservations", "expected", "followed", "pins")
"""the beginnings of the counters that say what is held"""


class Pair:
    """A prefill node and a decode node."""

    def __init__(self, folder: Path, memory: str) -> None:
        ports = process.free_ports(2)
        self.nodes = []
        for which, name in enumerate(("prefill", "decode")):
            settings = {
                "host.bytes": memory,
                "host.slab_bytes": "8MiB",
                "nodes.name": name,
                "nodes.listen": f"127.0.0.1:{ports[which]}",
                "nodes.peers": f"127.0.0.1:{ports[1 - which]}",
                "nodes.security": "plaintext_without_tokens",
                "limits.reservation": "2s",
            }
            self.nodes.append(NodeDaemon(folder / name, settings, Failed, timeout_s=HANG_S))
        self.prefill, self.decode = self.nodes
        until("the nodes have found each other", lambda: all(connected(node.client) for node in self.nodes))

    def check_rest(self) -> None:
        """Nothing is held, expected or missing when nothing is under way."""
        for node in self.nodes:
            counts = node.client.counters
            name = node.socket.parent.name
            try:
                until(f"nothing is expected at node {name} any more", lambda: counts()["expected"] == counts()["followed"] == 0)
                until(f"node {name} has all its slots again", lambda: slots_balance(counts()))
            except Failed as failure:
                raise Failed(f"{failure}: { {key: value for key, value in counts().items() if key.startswith(_SHOWN)} }") from failure

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def _count(node: NodeDaemon, name: str) -> int:
    return node.client.counters()[name]


def until(what: str, holds: Callable[[], bool]) -> None:
    waits.until(what, holds, HANG_S, Failed)


def pattern(key: bytes, group: int) -> bytes:
    """The bytes of a group of layers of a block, again and again."""
    return bytes(byte ^ (group + 1) for byte in key)


class Writer(threading.Thread):
    """An engine of the prefill node: it writes what it is told layer by layer, and now and then only a part of it."""

    def __init__(self, node: NodeDaemon) -> None:
        super().__init__(daemon=True)
        self.client = Client(node.socket, timeout=HANG_S)
        self.layers = LayerWriter(self.client, "aborts", BLOCKS_MAX, **SHAPE)
        self.work: queue.Queue[list[bytes] | None] = queue.Queue(4 * UNDER_WAY)
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def run(self) -> None:
        dice = random.Random(1)
        try:
            while (keys := self.work.get()) is not None:
                groups = GROUPS if dice.random() < 0.8 else dice.randrange(GROUPS)
                for group in range(groups):
                    for at, key in enumerate(keys):
                        self.layers.fill(group, at, pattern(key, group))
                    with contextlib.suppress(KvtierError):
                        statuses = self.layers.write(group, keys, GET_S)
                        self.counts.update(status.name for status in statuses)
                        if Status.UNAVAILABLE in statuses:
                            time.sleep(_PAUSE_WITHOUT_S)
                            break
        except BaseException as error:
            self.failure = error

    def close(self) -> None:
        self.work.put(None)
        self.join(2 * HANG_S)
        if self.is_alive():
            raise Failed("a put hangs")
        self.layers.close()
        self.client.close()


class Transfer:
    """A transfer under way."""

    def __init__(self, inbound: Inbound, keys: list[bytes], ends_s: float, begun_s: float) -> None:
        self.inbound = inbound
        self.keys = keys
        self.ends_s = ends_s
        self.begun_s = begun_s


class Aborter(threading.Thread):
    """An engine of the decode node, whose requests expect blocks and are aborted."""

    def __init__(self, number: int, pair: Pair, writer: Writer, until_s: float) -> None:
        super().__init__(daemon=True)
        self.dice = random.Random(100 + number)
        self.writer = writer
        self.until_s = until_s
        self.socket = pair.decode.socket
        self.client = Client(self.socket, timeout=HANG_S)
        self.namespace: Namespace = writer.layers.namespace(self.client)
        self.counts: Counter[str] = Counter()
        self.seen: deque[bytes] = deque(maxlen=256)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self.until_s:
                self._live(min(self.until_s, time.monotonic() + self.dice.uniform(0.5, 3)))
        except BaseException as error:
            self.failure = error
        finally:
            self.client.close()

    def _live(self, until_s: float) -> None:
        """One life of the engine: it ends with transfers under way."""
        polled = Polled(str(self.socket), "aborts", 1 << 20)
        inbounds = Inbounds(polled)
        under_way: list[Transfer] = []
        while (now := time.monotonic()) < until_s:
            has_daemon = polled.connection.current() is not None
            # Without a daemon one get is enough to look for it.
            while len(under_way) < (UNDER_WAY if has_daemon else 1) and (begun := self._begin(inbounds, now)) is not None:
                under_way.append(begun)
            polled.poll(0.002)
            if not has_daemon:
                time.sleep(_PAUSE_WITHOUT_S)
            under_way = [one for one in under_way if not self._is_over(one, now)]
            if self.seen and self.dice.random() < 0.02:
                self._look([self.dice.choice(self.seen) for _ in range(BLOCKS_MAX)])
        self.counts["aborted by the end of an engine"] += len(under_way)
        self.counts["blocks of aborted transfers"] += sum(len(one.keys) for one in under_way)
        polled.close()

    def _begin(self, inbounds: Inbounds, now_s: float) -> Transfer | None:
        keys = [self.dice.randbytes(KEY_BYTES) for _ in range(self.dice.randrange(1, BLOCKS_MAX))]
        wanted = [(self.namespace._properties, keys, range(len(keys)))]
        inbound = inbounds.begin("prefill", wanted, GET_S)
        if inbound is None:
            return None
        if self.dice.random() < 0.8:
            with contextlib.suppress(queue.Full):
                self.writer.work.put_nowait(keys)
        ends_s = now_s + (self.dice.uniform(0, 0.05) if self.dice.random() < 0.8 else HANG_S)
        return Transfer(inbound, keys, ends_s, now_s)

    def _is_over(self, one: Transfer, now_s: float) -> bool:
        if not one.inbound.is_open:
            if one.inbound.has_all:
                self._look(one.keys)
                self.seen += one.keys
            else:
                # The nodes may not have found each other again: asking without a pause would take the processors from them.
                time.sleep(0.002)
            self.counts["whole" if one.inbound.has_all else "lost"] += 1
        elif now_s >= one.ends_s:
            self.counts["cancelled"] += 1
            self.counts["blocks of aborted transfers"] += len(one.keys)
        elif now_s > one.begun_s + HANG_S:
            raise Failed(f"a get with a timeout of {GET_S:g} s has not ended after {HANG_S:g} s")
        else:
            return False
        one.inbound.end()
        return True

    def _look(self, keys: list[bytes]) -> None:
        """Reads blocks, wherever they are, and looks at all their bytes."""
        bytes_each = self.namespace.block_bytes
        buffer = bytearray(bytes_each * len(keys))
        for at, status in enumerate(self.namespace.get(keys, buffer, timeout=GET_S).statuses):
            if status is not Status.OK:
                continue
            self.counts["blocks looked at"] += 1
            right = b"".join(pattern(keys[at], group) * (bytes_each // GROUPS // KEY_BYTES) for group in range(GROUPS))
            if buffer[at * bytes_each : (at + 1) * bytes_each] != right:
                raise Failed(f"block {keys[at].hex()} has wrong bytes")


def abort_at_random(folder: Path, seconds: float) -> None:
    pair = Pair(folder, SMALL)
    try:
        writer = Writer(pair.prefill)
        writer.start()
        until_s = time.monotonic() + seconds
        aborters = [Aborter(which, pair, writer, until_s) for which in range(CLIENTS)]
        for one in aborters:
            one.start()
        dice = random.Random(2)
        kills = 0
        while time.monotonic() + PAUSE_S[1] < until_s and not any(one.failure for one in aborters):
            time.sleep(dice.uniform(*PAUSE_S))
            dice.choice(pair.nodes).kill_and_start()
            kills += 1
        for one in aborters:
            one.join(max(0.0, until_s - time.monotonic()) + 2 * HANG_S)
            if one.is_alive():
                raise Failed("a client hangs")
        writer.close()
        for failure in (writer.failure, *(one.failure for one in aborters)):
            if failure is not None:
                raise failure
        counts = sum((one.counts for one in aborters), Counter())
        aborted = counts["cancelled"] + counts["aborted by the end of an engine"]
        print(f"  {dict(sorted(counts.items()))}", flush=True)
        print(f"  the writer's puts: {dict(sorted(writer.counts.items()))}", flush=True)
        print(f"{aborted:,} aborted transfers of {counts['blocks of aborted transfers']:,} blocks, {kills} kills: no wrong bytes", flush=True)
        if not (counts["whole"] and counts["cancelled"]):
            raise Failed("no transfer came whole, or none was aborted: this has shown nothing")
        pair.check_rest()
        print("no slot is missing, and nothing is held or expected on either node", flush=True)
    finally:
        pair.stop()


# ---- many at once, beside another client


def traffic(socket: str, operations: "Synchronized[int]", wrong: "Synchronized[int]", parent: int) -> None:
    """Puts and gets blocks of its own until its parent ends."""
    dice = random.Random(3)
    with Client(socket, timeout=HANG_S) as client:
        namespace = client.namespace("traffic", block_bytes=4096, model="check")
        while os.getppid() == parent:
            keys = [dice.randrange(512).to_bytes(KEY_BYTES, "little") for _ in range(8)]
            namespace.put(keys, b"".join(key * (4096 // KEY_BYTES) for key in keys))
            buffer = bytearray(4096 * len(keys))
            statuses = namespace.get(keys, buffer).statuses
            for at, status in enumerate(statuses):
                if status is Status.OK and buffer[at * 4096 : (at + 1) * 4096] != keys[at] * (4096 // KEY_BYTES):
                    wrong.value += 1
            operations.value += 2


@contextlib.contextmanager
def beside(socket: Path) -> Iterator[tuple["Synchronized[int]", "Synchronized[int]"]]:
    """Another process that uses the daemon: the number of its operations, and of wrong blocks."""
    spawn = multiprocessing.get_context("spawn")
    operations, wrong = spawn.Value("q", 0), spawn.Value("q", 0)
    other = spawn.Process(target=traffic, args=(str(socket), operations, wrong, os.getpid()), daemon=True)
    other.start()
    try:
        until("the other client works", lambda: operations.value > 100)
        yield operations, wrong
    finally:
        other.terminate()
        other.join()


def _burst(pair: Pair, polled: list[Polled], properties: Any) -> int:
    """Opens gets until the daemon waits for their blocks, and cancels all of them; how many blocks that were."""
    opened: list[Inbound] = []
    for which in range(BURST_GETS):
        keys = [random.randbytes(KEY_BYTES) for _ in range(BURST_BLOCKS)]
        inbounds = Inbounds(polled[which % len(polled)])
        begun = inbounds.begin("prefill", [(properties, keys, range(BURST_BLOCKS))], HANG_S)
        assert begun is not None
        opened.append(begun)
    blocks = BURST_GETS * BURST_BLOCKS

    def are_expected() -> bool:
        for one in polled:
            one.poll()
        return _count(pair.decode, "expected") == blocks

    until(f"{blocks} blocks are expected", are_expected)
    for one in opened:
        one.end()

    def are_given_up() -> bool:
        for one in polled:
            one.poll()
        return _count(pair.decode, "expected") == _count(pair.prefill, "followed") == 0

    until("no block is expected any more", are_given_up)
    return blocks


def abort_at_once(folder: Path) -> None:
    pair = Pair(folder, LARGE)
    try:
        namespace = pair.decode.client.namespace("aborts", block_bytes=16 << 10, model="check")
        polled = [Polled(str(pair.decode.socket), "aborts", 1 << 20) for _ in range(4)]
        with beside(pair.decode.socket) as (operations, wrong):
            # The first burst warms up.
            _burst(pair, polled, namespace._properties)
            shares = []
            for _ in range(WINDOWS):
                begun, before = time.monotonic(), operations.value
                blocks = sum(_burst(pair, polled, namespace._properties) for _ in range(BURSTS))
                took, during = time.monotonic() - begun, operations.value - before
                time.sleep(max(0.0, begun + WINDOW_S - time.monotonic()))
                done, before = operations.value - before, operations.value
                time.sleep(WINDOW_S)
                without = operations.value - before
                shares.append(done / max(1, without))
                print(
                    f"  {blocks:,} transfers begun and aborted in {took:.2f} s, in which the other client did {during:,} operations; "
                    f"{done:,} in {WINDOW_S:g} s with them, {without:,} without",
                    flush=True,
                )
        for one in polled:
            one.close()
        if wrong.value:
            raise Failed(f"the other client got {wrong.value} wrong blocks")
        share = sorted(shares)[WINDOWS // 2]
        print(f"{blocks:,} aborts in {WINDOW_S:g} s: the other client had {share:.2f} of its throughput without them (median of {WINDOWS})", flush=True)
        pair.check_rest()
        if share < SHARE_MIN:
            raise Failed(f"the other client had {share:.2f} of its throughput, expected {SHARE_MIN:g}")
    finally:
        pair.stop()


def main(argv: list[str] | None = None) -> int:
    """The program; its exit code."""
    parser = Arguments(prog="scripts/cluster-check aborts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=number, default=60.0, help="how long transfers are aborted at random (default: 60)")
    options = parser.parse_args(argv)
    # Each kill would be told by each client.
    logging.getLogger("kvtier").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="kvtier-aborts.") as name:
        try:
            for part, run in (("random", lambda folder: abort_at_random(folder, options.seconds)), ("at-once", abort_at_once)):
                folder = Path(name, part)
                folder.mkdir()
                run(folder)
        except Failed as error:
            print(f"FAILED: {error}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    run_tool(main)
