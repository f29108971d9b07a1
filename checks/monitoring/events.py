"""Compares the blocks that consumers of KV events know with the blocks in the daemon's tiers; run by scripts/events-check."""

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import typing
import urllib.request
from pathlib import Path

import msgspec
import zmq
from kvtier_testing import process

import kvtier
from checks.shared.command_line import Arguments, whole
from kvtier.annotations import of_tokens
from kvtier.hashing import block_hash, none_hash

BLOCK_TOKENS = 16
BLOCK_BYTES = 64 << 10
SEQUENCES = 64
SEQUENCE_BLOCKS = 12
MEDIA = {"host": "CPU", "ssd": "DISK", "object": "EXTERNAL"}
DYNAMO_TIERS = {"host_pinned": "host", "disk": "ssd", "external": "object"}
PATIENCE_S = 60.0


def hash_of(key: bytes) -> int:
    """A key as events name it: its last 8 bytes."""
    return int.from_bytes(key[-8:], "big")


class Sequence:
    """Blocks of tokens, each the parent of the next."""

    def __init__(self, number: int) -> None:
        self.tokens = [number * 1000 + i for i in range(SEQUENCE_BLOCKS * BLOCK_TOKENS)]
        self.keys: list[bytes] = []
        self.annotations: list[bytes] = []
        parent = none_hash("0")
        before = None
        for at in range(0, len(self.tokens), BLOCK_TOKENS):
            tokens = self.tokens[at : at + BLOCK_TOKENS]
            parent = block_hash(parent, tokens)
            self.keys.append(parent)
            self.annotations.append(of_tokens(tokens, parent=before))
            before = parent


class Daemon:
    """A daemon with three tiers, which can be restarted and killed."""

    def __init__(self, command: str, folder: Path) -> None:
        self.command = command
        self.folder = folder
        self.endpoint = f"tcp://127.0.0.1:{process.free_port()}"
        self.replay_endpoint = f"tcp://127.0.0.1:{process.free_port()}"
        self.objects = folder / "objects"
        self.objects.mkdir()
        self.starts = 0
        self.start()

    def start(self) -> None:
        settings = {
            "host.bytes": "3MiB",
            "host.slab_bytes": "1MiB",
            "host.directory": self.folder / "memory",
            "host.huge_pages": "false",
            "ssd.bytes": "8MiB",
            "ssd.file_bytes": "1MiB",
            "ssd.directory": self.folder / "ssd",
            "object.store": "folder",
            "object.folder": self.objects,
            "object.directory": self.folder / "ledger",
            "grpc.enabled": "false",
            "http.enabled": "false",
            "events.endpoint": self.endpoint,
            "events.replay_endpoint": self.replay_endpoint,
            "events.consumer": "dynamo",
            "events.interval": "2ms",
        }
        self.starts += 1
        command = process.command_of([self.command], self.folder / "sock", settings)
        self.process, _ = process.start(command, self.folder / f"daemon-{self.starts}.log", SystemExit)

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)


class VllmConsumer:
    """A consumer that decodes events with vLLM's own classes. It asks for missed events, and for snapshots."""

    def __init__(self, daemon: Daemon, source: str) -> None:
        text = Path(source).read_text()
        classes: dict[str, typing.Any] = {"msgspec": msgspec, "Any": typing.Any, "ExternalBlockHash": bytes | int}
        exec(text[text.index("class EventBatch(") : text.index("class KVEventAggregator")], classes)
        self.decoder = msgspec.msgpack.Decoder(classes["KVEventBatch"])
        self.residency: dict[str, set[int]] = {medium: set() for medium in MEDIA.values()}
        self.last = -1
        self.replays = 0
        self.snapshots = 0
        self.events = 0
        self.deaf = threading.Event()
        self.closed = threading.Event()
        self.failure: BaseException | None = None
        self.lock = threading.Lock()
        context = zmq.Context.instance()
        self.events_socket = context.socket(zmq.SUB)
        self.events_socket.setsockopt(zmq.RCVHWM, 0)
        self.events_socket.setsockopt(zmq.RCVTIMEO, 50)
        self.events_socket.subscribe(b"")
        self.events_socket.connect(daemon.endpoint)
        self.replay_socket = context.socket(zmq.DEALER)
        self.replay_socket.setsockopt(zmq.RCVHWM, 0)
        self.replay_socket.connect(daemon.replay_endpoint)
        self.thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            while not self.closed.is_set():
                try:
                    _, number, payload = self.events_socket.recv_multipart()
                except zmq.Again:
                    continue
                if not self.deaf.is_set():
                    with self.lock:
                        self._take(struct.unpack(">Q", number)[0], payload)
        except BaseException as error:
            self.failure = error
            raise

    def _take(self, number: int, payload: bytes) -> None:
        if 0 <= self.last < number - 1:
            self.replays += 1
            missed = self._ask(struct.pack(">Q", self.last + 1))
            is_whole = self._follows(missed)
            # An incomplete replay is applied, too: it has events of the object store, and a snapshot has few.
            for one in missed:
                self._apply(*one)
            if not is_whole:
                self._take_snapshot()
        if number > self.last:
            self._apply(number, payload)

    def _follows(self, messages: list[tuple[int, bytes]]) -> bool:
        """Whether the messages follow the last one without a gap."""
        return bool(messages) and [one[0] for one in messages] == list(range(self.last + 1, self.last + 1 + len(messages)))

    def _take_snapshot(self) -> None:
        while not self.closed.is_set():
            self.snapshots += 1
            snapshot = self._ask(b"snapshot")
            if not snapshot:
                continue
            since = self._ask(struct.pack(">Q", self.last + 1))
            if since and not self._follows(since):
                for one in since:
                    self._apply(*one)
                continue
            # The daemon's own tiers are told of anew; what it stored in the shared one is still there.
            for medium in (MEDIA["host"], MEDIA["ssd"]):
                self.residency[medium].clear()
            for number, _, payload in sorted(
                [(number, 0, payload) for number, payload in since]
                + [(number, 1, payload) for number, payload in snapshot],
                key=lambda one: one[:2],
            ):
                self._apply(number, payload)
            return

    def _ask(self, request: bytes) -> list[tuple[int, bytes]]:
        self.replay_socket.send_multipart([b"", request])
        answers = []
        while not self.closed.is_set():
            if not self.replay_socket.poll(20_000):
                # The daemon that was asked is gone.
                return []
            _, number, payload = self.replay_socket.recv_multipart()
            if not payload:
                return answers
            answers.append((struct.unpack(">Q", number)[0], payload))
        return []

    def _apply(self, number: int, payload: bytes) -> None:
        self.last = max(self.last, number)
        for event in self.decoder.decode(payload).events:
            self.events += 1
            match type(event).__name__:
                case "BlockStored":
                    if len(event.token_ids) != event.block_size or event.block_size != BLOCK_TOKENS:
                        raise ValueError(f"tokens are missing: {event}")
                    self.residency[event.medium].update(event.block_hashes)
                case "BlockRemoved":
                    self.residency[event.medium].difference_update(event.block_hashes)
                case other:
                    raise ValueError(f"{other} is nothing that this daemon may publish")

    def believed(self) -> dict[str, set[int]]:
        if self.failure is not None:
            raise SystemExit(f"the consumer failed: {self.failure!r}")
        with self.lock:
            return {tier: set(self.residency[medium]) for tier, medium in MEDIA.items()}


class DynamoIndexer:
    """Dynamo's own index of a router, in a process of its own."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.port = process.free_port()
        self.log = (folder / "indexer.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dynamo.indexer", "--port", str(self.port)],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._call("/health", answers=False)
                break
            except OSError:
                if time.monotonic() > end:
                    raise SystemExit(f"Dynamo's indexer did not start: see {self.log.name}") from None
                time.sleep(0.1)
        self._call(
            "/register",
            {
                "instance_id": 1,
                "endpoint": daemon.endpoint,
                "replay_endpoint": daemon.replay_endpoint,
                "model_name": "check",
                "block_size": BLOCK_TOKENS,
            },
        )

    def _call(self, path: str, body: object = None, answers: bool = True) -> typing.Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response) if answers else None

    def believed(self) -> dict[str, set[int]]:
        believed: dict[str, set[int]] = {tier: set() for tier in MEDIA}
        for dump in self._call("/dump").values():
            for event in dump["events"]:
                tier = DYNAMO_TIERS[event["storage_tier"]]
                for block in event["event"]["data"]["stored"]["blocks"]:
                    believed[tier].add(block["block_hash"])
        return believed

    def matched(self, tokens: list[int]) -> dict[str, int]:
        """How many tokens from the first it finds, up to each tier."""
        answer = self._call("/query", {"token_ids": tokens, "model_name": "check"})
        instance = answer["instances"].get("1", {})
        return {name: instance.get(name, 0) for name in ("longest_matched", "cpu", "disk")}

    def pause(self, is_paused: bool) -> None:
        os.kill(self.process.pid, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def close(self) -> None:
        self.pause(False)
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Check:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.sequences = [Sequence(number) for number in range(SEQUENCES)]
        self.keys = [key for sequence in self.sequences for key in sequence.keys]
        self.data = os.urandom(BLOCK_BYTES)
        self.daemon = Daemon(arguments.daemon, folder)
        self.client = kvtier.Client(self.daemon.folder / "sock", timeout=20)
        self.blocks = self.client.namespace("check", block_bytes=BLOCK_BYTES, block_tokens=BLOCK_TOKENS)
        self.vllm = VllmConsumer(self.daemon, arguments.vllm_events)
        self.dynamo = DynamoIndexer(self.daemon, folder)
        self.figures: dict[str, object] = {}

    def truth(self) -> dict[str, set[int]] | None:
        """The blocks in the tiers, as clients see them; None while blocks move."""
        before = self.client.stats()
        if not before:
            return None  # not connected again yet
        host, ssd = set(), set()
        found = self.blocks.lookup(self.keys)
        for key, status, tier in zip(self.keys, found.statuses, found.tiers, strict=True):
            if status is kvtier.Status.OK and tier is kvtier.Tier.HOST:
                host.add(hash_of(key))
            elif status is kvtier.Status.OK and tier is kvtier.Tier.SSD:
                ssd.add(hash_of(key))
        names = {path.name.rstrip("+").split(".")[0] for path in self.daemon.objects.rglob("*") if path.is_file()}
        objects = {hash_of(key) for key in self.keys if key.hex() in names}
        after = self.client.stats()
        if not after or before["tiers"] != after["tiers"] or len(host) != after["tiers"][0]["slots_resident"]:
            return None
        return {"host": host, "only ssd": ssd, "object": objects, "ssd slots": after["tiers"][1]["slots_resident"]}

    def difference(self, believed: dict[str, set[int]], truth: dict) -> str:
        """The differences in words; empty if there are none."""
        wrong = []
        for tier in ("host", "object"):
            if believed[tier] != truth[tier]:
                wrong.append(
                    f"{tier}: {len(believed[tier] - truth[tier])} too many, {len(truth[tier] - believed[tier])} too few"
                )
        # A client sees of each block its highest tier; beside that, how many there are on SSD.
        missing = truth["only ssd"] - believed["ssd"]
        others = believed["ssd"] - truth["only ssd"] - truth["host"]
        if missing or others or len(believed["ssd"]) != truth["ssd slots"]:
            wrong.append(
                f"ssd: {len(missing)} too few, {len(others)} too many, {len(believed['ssd'])} of {truth['ssd slots']}"
            )
        return "; ".join(wrong)

    def settle(self, what: str) -> None:
        """Waits until the consumers know the blocks in the tiers; fails if that takes too long."""
        end = time.monotonic() + PATIENCE_S
        while True:
            truth = self.truth()
            wrong = {"": "blocks are still moving"} if truth is None else {
                name: self.difference(consumer.believed(), truth)
                for name, consumer in (("vLLM's classes", self.vllm), ("Dynamo's indexer", self.dynamo))
            }
            if not any(wrong.values()):
                sizes = {tier: len(self.dynamo.believed()[tier]) for tier in MEDIA}
                print(f"ok    {what}: {sizes}", flush=True)
                return
            if time.monotonic() > end:
                raise SystemExit(f"WRONG {what}: {wrong}\n{self.client.stats()['events']}")
            time.sleep(0.1)

    def put(self, sequence: Sequence, start: int, count: int) -> None:
        span = slice(start, start + count)
        self.blocks.put(sequence.keys[span], [self.data] * len(sequence.keys[span]), annotations=sequence.annotations[span])

    def run(self) -> None:
        self.tiers()
        self.operations()
        self.restarts()

    # ---- one thing after the other

    def tiers(self) -> None:
        sequence = self.sequences[0]
        whole = len(sequence.tokens)
        self.put(sequence, 0, SEQUENCE_BLOCKS)
        self.settle("put")
        self.expect("put", sequence, {"longest_matched": whole, "cpu": whole})
        self.blocks.flush()
        self.settle("copied to SSD")
        self.expect("copied to SSD", sequence, {"longest_matched": whole, "cpu": whole})
        for other in self.sequences[1:8]:
            self.put(other, 0, SEQUENCE_BLOCKS)
        self.settle("demoted")
        for other in self.sequences[8:20]:
            self.put(other, 0, SEQUENCE_BLOCKS)
        self.settle("evicted to objects")
        self.blocks.delete(sequence.keys[6:7])
        self.settle("deleted one")
        self.expect("deleted one", sequence, {"longest_matched": 6 * BLOCK_TOKENS})
        into = [bytearray(BLOCK_BYTES) for _ in range(6)]
        self.blocks.get(sequence.keys[:6], into)
        self.settle("brought back")
        self.expect("brought back", sequence, {"longest_matched": 6 * BLOCK_TOKENS, "cpu": 6 * BLOCK_TOKENS})
        self.blocks.clear()
        self.settle("cleared")
        self.expect("cleared", sequence, {"longest_matched": 0})

    def expect(self, what: str, sequence: Sequence, expected: dict[str, int]) -> None:
        matched = self.dynamo.matched(sequence.tokens)
        found = {name: matched[name] for name in expected}
        if found != expected:
            raise SystemExit(f"WRONG {what}: Dynamo's /query finds {matched}, expected {expected}")

    # ---- at random

    def operations(self) -> None:
        count = self.arguments.operations
        pauses = {int(count * share): is_deaf for share, is_deaf in ((0.2, True), (0.3, False), (0.6, True), (0.8, False))}
        begin = time.monotonic()
        for step in range(count):
            if step in pauses:
                # One loses what comes meanwhile; the other finds it in its socket, or behind a gap.
                (self.vllm.deaf.set if pauses[step] else self.vllm.deaf.clear)()
                self.dynamo.pause(pauses[step])
            sequence = self.random.choice(self.sequences)
            start = self.random.randrange(SEQUENCE_BLOCKS)
            some = self.random.randrange(1, 5)
            keys = sequence.keys[start : start + some]
            what = self.random.random()
            if what < 0.55:
                self.put(sequence, 0 if what < 0.3 else start, some)
            elif what < 0.75:
                self.blocks.get(keys, [bytearray(BLOCK_BYTES) for _ in keys], timeout=5)
            elif what < 0.9:
                self.blocks.delete(keys)
            elif what < 0.97:
                self.blocks.prefetch(keys)
            elif what < 0.999:
                self.blocks.lookup(self.keys[:64])
            else:
                self.blocks.clear()
        self.figures["operations"] = count
        self.figures["operations_s"] = round(time.monotonic() - begin, 1)
        # Something that those must hear who were deaf.
        self.put(self.sequences[0], 0, 1)
        self.settle(f"{count} random operations with gaps")

    # ---- another daemon

    def restarts(self) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            self.daemon.stop(how)
            self.daemon.start()
            self.settle(f"restarted after {how.name}")
            self.put(self.random.choice(self.sequences), 0, SEQUENCE_BLOCKS)
            self.blocks.delete(self.random.choice(self.sequences).keys)
            self.settle(f"worked on after {how.name}")

    def close(self) -> None:
        self.vllm.closed.set()
        self.dynamo.close()
        self.figures["events_decoded"] = self.vllm.events
        self.figures["replays"] = self.vllm.replays
        self.figures["snapshots"] = self.vllm.snapshots
        self.figures["stats"] = self.client.stats()["events"]
        self.client.close()
        self.daemon.stop(signal.SIGTERM)


def main() -> None:
    parser = Arguments(prog="events-check", description=__doc__)
    parser.add_argument("--daemon", required=True)
    parser.add_argument("--vllm-events", required=True)
    parser.add_argument("--operations", type=whole, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvtier-events-") as folder:
        check = Check(arguments, Path(folder))
        try:
            check.run()
        finally:
            if check.daemon.process.poll() is None:
                check.close()
            else:
                check.dynamo.close()
        print(json.dumps(check.figures))
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(check.figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
