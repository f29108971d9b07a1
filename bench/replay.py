"""Replays a trace of LLM requests against a daemon, and checks every byte that comes back.

A trace has one JSON object a line; its ``hash_ids`` name the blocks of one prompt in prefix order. For every request
the program does what an inference engine would do before and after prefill: it looks the whole prompt up, gets the
blocks that are there, and puts those that are not. A block's bytes are derived from its key, so a wrong, shifted or
torn block cannot pass.

Exit codes: 0 every byte was right, 1 wrong bytes, 2 wrong usage or trace, 3 the daemon is not there or went away.
"""

import hashlib
import logging
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from bench.request_trace import TraceError, read_trace
from checks.shared.command_line import Arguments, number, run_tool, size, tell, whole
from checks.shared.content import Content, KvContent, LossyContent
from kvtier import Client, KvtierError, Lookup, Namespace, Status

DEFAULT_TRACE = Path(__file__).resolve().parent / "traces" / "mooncake_fast25_conversation_first_8000.jsonl.gz"
BATCH_BYTES = 16 << 20
"""At most this much is asked for in one call: a client that holds more slots than it needs starves the others."""

COUNTERS = (
    "hits_host",
    "hits_ssd",
    "hits_object",
    "evictions",
    "demotions",
    "promotions",
    "object_stored",
    "spilled",
    "object_fetched",
    "object_errors",
    "object_written_bytes",
    "object_read_bytes",
    "ssd_written_bytes",
    "put_encoded",
    "put_raw",
    "dropped",
    "corrupt",
    "io_errors",
)
"""Counters of the daemon that a replay reports."""


def block_key(salt: str, block_id: int) -> bytes:
    """The key of a trace's block. Its ids are chained already: an id stands for the block and its whole prefix."""
    return hashlib.sha256(f"{salt}:{block_id}".encode()).digest()


@dataclass
class Tally:
    """The counts of a replay so far."""

    requests: int = 0
    block_references: int = 0
    repeated: int = 0
    """references to a block that an earlier request had: an infinite cache would hit these"""
    block_hits: int = 0
    """references that were found and are right"""
    prefix_hits: int = 0
    """of these, those with nothing missing before them: prefill can skip these"""
    lost_after_lookup: int = 0
    """references that lookup found and get did not"""
    wrong_bytes: int = 0
    wrong_blocks: int = 0
    got_bytes: int = 0
    put_bytes: int = 0
    put_blocks: int = 0
    put_refused: int = 0
    lookup_ns: list[int] = field(default_factory=list)
    get_ns: list[int] = field(default_factory=list)
    put_ns: list[int] = field(default_factory=list)


TRACE_BLOCK_TOKENS = 512
"""of the public traces"""
EXAMPLE_TOKENS_PER_S = 10_000
"""about the prefill of a model with 8 billion parameters on one GPU of a data centre"""


class DaemonLost(Exception):
    """The daemon is not there, or no longer; the message has the reason."""


class Replay:
    """One pass over a trace, through one namespace."""

    def __init__(self, namespace: Namespace, content: Content, salt: str) -> None:
        self.tally = Tally()
        self._namespace = namespace
        self._content = content
        self._salt = salt
        self._seen: set[int] = set()
        self._batch_blocks = max(1, BATCH_BYTES // namespace.block_bytes)
        self._buffer = bytearray()
        self._poison = memoryview(bytes(self._batch_blocks * namespace.block_bytes))

    def request(self, block_ids: Sequence[int]) -> None:
        """Carries out one request of the trace.

        Raises:
            DaemonLost: the daemon went away.
        """
        tally = self.tally
        tally.requests += 1
        tally.block_references += len(block_ids)
        tally.repeated += sum(block_id in self._seen for block_id in block_ids)
        self._seen.update(block_ids)
        if not block_ids:
            return
        keys = [block_key(self._salt, block_id) for block_id in block_ids]

        started_ns = time.perf_counter_ns()
        lookup = self.lookup(keys)
        tally.lookup_ns.append(time.perf_counter_ns() - started_ns)

        there = [i for i, status in enumerate(_alive(lookup.statuses)) if status is Status.OK]
        right: list[int] = []
        absent = [i for i, status in enumerate(lookup.statuses) if status is not Status.OK]
        for batch in _batches(there, self._batch_blocks):
            self._get(keys, batch, right, absent)
        tally.block_hits += len(right)
        tally.prefix_hits += next((nth for nth, place in enumerate(right) if nth != place), len(right))
        for batch in _batches(sorted(absent), self._batch_blocks):
            self._put(keys, batch)

    def lookup(self, keys: Sequence[bytes]) -> Lookup:
        """Looks the blocks of a prompt up."""
        return self._namespace.lookup(keys)

    def _get(self, keys: list[bytes], batch: list[int], right: list[int], absent: list[int]) -> None:
        """Gets blocks, checks them, and adds their places to those that are right or those that were not there."""
        tally = self.tally
        block_bytes = self._namespace.block_bytes
        # Bytes left from an earlier get must not pass for this one's.
        self._buffer[:] = self._poison[: len(batch) * block_bytes]
        started_ns = time.perf_counter_ns()
        got = self._namespace.get([keys[i] for i in batch], self._buffer, **_place(keys, batch[0]))
        tally.get_ns.append(time.perf_counter_ns() - started_ns)
        for nth, (place, status) in enumerate(zip(batch, _alive(got.statuses), strict=True)):
            if status is not Status.OK:
                tally.lost_after_lookup += 1
                absent.append(place)
                continue
            tally.got_bytes += block_bytes
            wrong = self._content.wrong_bytes(keys[place], self._buffer, nth * block_bytes)
            if wrong:
                tally.wrong_bytes += wrong
                tally.wrong_blocks += 1
            else:
                right.append(place)

    def _put(self, keys: list[bytes], batch: list[int]) -> None:
        blocks = [self._content.block(keys[i]) for i in batch]
        started_ns = time.perf_counter_ns()
        statuses = self._namespace.put([keys[i] for i in batch], blocks, **_place(keys, batch[0]))
        self.tally.put_ns.append(time.perf_counter_ns() - started_ns)
        accepted = sum(status is Status.OK for status in _alive(statuses))
        self.tally.put_blocks += accepted
        self.tally.put_bytes += accepted * self._namespace.block_bytes
        self.tally.put_refused += sum(status in (Status.BUSY, Status.NOT_ADMITTED) for status in statuses)


def _batches(places: list[int], size: int) -> Iterator[list[int]]:
    return (places[start : start + size] for start in range(0, len(places), size))


def _place(keys: list[bytes], first: int) -> dict[str, Any]:
    """The place in the prompt of a batch that starts at this key."""
    return {"depth": first, "parent": keys[first - 1] if first else None}


def _alive(statuses: list[Status]) -> list[Status]:
    for status in statuses:
        if status in (Status.UNAVAILABLE, Status.INTERNAL, Status.INVALID_ARGUMENT):
            raise DaemonLost(f"the daemon answers {status.name}")
    return statuses


def percentile_us(samples_ns: Sequence[int], fraction: float) -> float:
    """The smallest sample that this fraction of the samples does not exceed, in microseconds; 0 without samples."""
    if not samples_ns:
        return 0.0
    rank = -(-len(samples_ns) * round(fraction * 1000) // 1000)
    return round(sorted(samples_ns)[max(0, rank - 1)] / 1000, 1)


def report(
    tally: Tally, counters: dict[str, int], tiers: list[str], block_bytes: int, seconds: float
) -> dict[str, Any]:
    """The figures of a replay.

    Args:
        tally: what the replay counted.
        counters: by how much the daemon's counters grew meanwhile.
        tiers: those that the daemon has, from above.
        block_bytes: the bytes of a block.
        seconds: how long it took.
    """
    figures: dict[str, Any] = {
        "tiers": tiers,
        "requests": tally.requests,
        "block_references": tally.block_references,
        "block_bytes": block_bytes,
        "seconds": round(seconds, 2),
        "block_hits": tally.block_hits,
        "prefix_hits": tally.prefix_hits,
        "possible_hits": tally.repeated,
        "block_hit_ratio": round(tally.block_hits / max(1, tally.block_references), 4),
        "prefix_hit_ratio": round(tally.prefix_hits / max(1, tally.block_references), 4),
        "possible_hit_ratio": round(tally.repeated / max(1, tally.block_references), 4),
        "puts": tally.put_blocks,
        "puts_refused": tally.put_refused,
        "lost_after_lookup": tally.lost_after_lookup,
        "wrong_bytes": tally.wrong_bytes,
        "wrong_blocks": tally.wrong_blocks,
        "saved_tokens": tally.prefix_hits * TRACE_BLOCK_TOKENS,
        "get_s": round(sum(tally.get_ns) / 1e9, 3),
        # Bytes per nanosecond are GB/s.
        "get_gbps": round(tally.got_bytes / max(1, sum(tally.get_ns)), 3),
        "put_gbps": round(tally.put_bytes / max(1, sum(tally.put_ns)), 3),
    }
    for call, samples_ns in (("lookup", tally.lookup_ns), ("get", tally.get_ns), ("put", tally.put_ns)):
        figures[f"{call}_p50_us"] = percentile_us(samples_ns, 0.5)
        figures[f"{call}_p99_us"] = percentile_us(samples_ns, 0.99)
    for name in COUNTERS:
        figures[name] = counters.get(name, 0)
    return figures


def table(figures: dict[str, Any]) -> str:
    """The figures for people, and what to read from them."""

    def per(ratio: str) -> str:
        return f"{100 * figures[ratio]:.1f} %"

    def calls(name: str, rate: str) -> str:
        timing = f"p50 {_time_text(figures[f'{name}_p50_us'])}, p99 {_time_text(figures[f'{name}_p99_us'])} a call"
        return f"{rate}; {timing}" if rate else timing

    rows = [
        ("requests", f"{figures['requests']:,} in {figures['seconds']:.1f} s"),
        ("block references", f"{figures['block_references']:,}, {_bytes_text(figures['block_bytes'])} each"),
        ("block hits", f"{figures['block_hits']:,} = {per('block_hit_ratio')}"),
        (
            "prefix hits",
            f"{figures['prefix_hits']:,} = {per('prefix_hit_ratio')}, with no missing block before them: an engine can use these",
        ),
        ("prefill saved", saved_text(figures)),
        ("hits at best", f"{figures['possible_hits']:,} = {per('possible_hit_ratio')}, with unlimited memory"),
        ("hits by tier", ", ".join(f"{tier} {hits:,}" for tier, hits in _hits_by_tier(figures).items())),
        ("lookup", calls("lookup", "")),
        ("get", calls("get", _rate_text(figures["get_gbps"]))),
        ("put", calls("put", _rate_text(figures["put_gbps"]))),
        ("blocks put", f"{figures['puts']:,}, {figures['puts_refused']:,} refused, as there was no space"),
        *_encoded_rows(figures),
        *([("demotions to SSD", f"{figures['demotions']:,}, {_gib_text(figures['ssd_written_bytes'])}")] if "ssd" in figures["tiers"] else []),
        ("promotions", f"{figures['promotions']:,}"),
        *_object_rows(figures),
        ("evictions", f"{figures['evictions']:,} from host memory; {figures['dropped']:,} blocks dropped from the last tier"),
        ("lost after lookup", f"{figures['lost_after_lookup']:,} found by a lookup and missing at the get"),
        ("wrong bytes", f"{figures['wrong_bytes']:,}"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
    return f"{lines}\n\n{what_was_timed(figures)}\n\n{interpretation(figures)}"


def saved_text(figures: dict[str, Any]) -> str:
    """What an engine would not have computed. No engine runs here: its speed is an example, and the daemon counts no savings."""
    tokens = figures["saved_tokens"]
    prefill_s = tokens / EXAMPLE_TOKENS_PER_S
    return (
        f"{tokens:,} tokens need not be computed ({TRACE_BLOCK_TOKENS} a block): {_seconds_text(prefill_s)} for an engine that computes "
        f"{EXAMPLE_TOKENS_PER_S:,} tokens a second; these gets took {_seconds_text(figures['get_s'])}"
    )


def _seconds_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


_OTHERS_TOLD = 0.2
"""a greater share of the processors shows in the figures"""


class OtherWork:
    """How much of the processors others take than this process and the daemon."""

    def __init__(self, daemon: int, proc: Path = Path("/proc")) -> None:
        self._daemon = daemon
        self._proc = proc
        self._begun_s = time.monotonic()
        self._before_s = self._others_s()

    def _others_s(self) -> float:
        """Processor time of all others since the machine's start."""
        try:
            # user, nice, system; not idle and not waiting for a disk; interrupts, and what other machines took
            fields = [int(one) for one in (self._proc / "stat").read_text().split(None, 9)[1:9]]
            every = sum(fields) - fields[3] - fields[4]
            # The name stands in brackets, and may have any of these in it.
            daemon = (self._proc / str(self._daemon) / "stat").read_text().rpartition(")")[2].split()
            return (every - int(daemon[11]) - int(daemon[12])) / os.sysconf("SC_CLK_TCK") - time.process_time()
        except (OSError, ValueError, IndexError):
            return 0.0

    def cpus(self) -> float:
        """The processors that other work took on average until now."""
        return max(0.0, (self._others_s() - self._before_s) / max(1e-3, time.monotonic() - self._begun_s))


def what_was_timed(figures: dict[str, Any]) -> str:
    """A note about the times and speeds: they are not kvtier's alone."""
    words = (
        "Times and speeds are those of a Python program that makes and compares every byte on the same processors, "
        "and of the disk; `scripts/bench` measures kvtier alone."
    )
    others, cpus = figures.get("cpus_of_others", 0.0), figures.get("cpus", 1)
    busy = f" Other work took {others:.1f} of this machine's {cpus} CPUs meanwhile, which shows in them."
    return words + (busy if others > _OTHERS_TOLD * cpus else "")


def _hits_by_tier(figures: dict[str, Any]) -> dict[str, int]:
    """Blocks that gets found, by where they came from."""
    return {tier if tier != "ssd" else "SSD": figures[f"hits_{tier}"] for tier in figures["tiers"]}


def _encoded_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    if not figures["put_encoded"] + figures["put_raw"]:
        return []
    return [("blocks encoded", f"{figures['put_encoded']:,}; {figures['put_raw']:,} did not fit")]


def _object_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    if "object" not in figures["tiers"]:
        return []
    if not figures["object_stored"]:
        return [("objects stored", "0: no block was evicted from the other tiers; replay more requests, or make these tiers smaller")]
    return [
        (
            "objects stored",
            f"{figures['object_stored']:,}, {figures['spilled']:,} of them when they were evicted from SSD; {_gib_text(figures['object_written_bytes'])}",
        ),
        ("objects fetched", f"{figures['object_fetched']:,}, {_gib_text(figures['object_read_bytes'])}; {figures['object_errors']:,} errors"),
    ]


def interpretation(figures: dict[str, Any]) -> str:
    """The meaning of the figures for an operator, in one sentence."""
    if figures["wrong_bytes"]:
        return (
            f"WRONG BYTES in {figures['wrong_blocks']:,} block{'s' * (figures['wrong_blocks'] != 1)}: "
            "do not use this daemon, and report the defect with the daemon's log."
        )
    hits = figures["block_hits"]
    if not hits:
        return "No block was found again: this trace repeats too little, or the tiers are much too small for it."
    by_tier = _hits_by_tier(figures)
    served = max(1, sum(by_tier.values()))
    shares = " and ".join(f"{100 * by_tier[tier] / served:.1f} % from {tier}" for tier in list(by_tier)[1:])
    below = f"; of the hits {shares}" if shares else ""
    possible = figures["prefix_hits"] / max(1, figures["possible_hits"])
    advice = "larger tiers would save little more" if possible >= 0.95 else "larger tiers could save the rest"
    return (
        f"{100 * figures['prefix_hit_ratio']:.1f} % of the prompts' blocks need no prefill, {100 * possible:.1f} % of "
        f"what any cache could save ({advice}){below}, and every byte was right."
    )


def _time_text(us: float) -> str:
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.1f} ms"


def _rate_text(gbps: float) -> str:
    """A rate in the unit of the command line and the dashboard."""
    return f"{gbps * 1e9 / (1 << 30):.2f} GiB/s"


def _gib_text(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB"


def _bytes_text(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


class Progress:
    """A bar where a person watches; a line for every tenth otherwise."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._stream = stream
        self._terminal = stream.isatty()
        self._next = 0.0

    def show(self, tally: Tally) -> None:
        """To be called after every request."""
        done = tally.requests
        text = (
            f"{done:,} of {self._total:,} requests, "
            f"prefix hits {100 * tally.prefix_hits / max(1, tally.block_references):.1f} %, "
            f"wrong bytes {tally.wrong_bytes:,}"
        )
        if self._terminal:
            now = time.monotonic()
            if now < self._next and done < self._total:
                return
            self._next = now + 0.1
            full = 30 * done // self._total
            self._stream.write(f"\r\033[K[{'#' * full}{'.' * (30 - full)}] {text}")
        elif 10 * done // self._total > 10 * (done - 1) // self._total:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leaves the line of the bar."""
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()


ENCODINGS = {"none": {}, "exact": {"encoding": "exact bf16 4096"}, "fp8": {"encoding": "fp8 bf16 4096"}}
"""the properties of the namespace, by the value of --encoding"""


def content_of(encoding: str, block_bytes: int) -> Content:
    """The blocks of a replay.

    Args:
        encoding: of `ENCODINGS`.
    """
    if encoding == "none":
        return Content(block_bytes)
    return LossyContent(block_bytes, ENCODINGS[encoding]["encoding"]) if encoding == "fp8" else KvContent(block_bytes)


def replay(
    client: Client, trace: Sequence[Sequence[int]], block_bytes: int, salt: str, stream: TextIO, encoding: str = "none"
) -> dict[str, Any]:
    """Replays a trace in a namespace of its own, which is empty again afterwards.

    Args:
        encoding: of `ENCODINGS`; with one, blocks have the values of a KV cache.

    Returns:
        The figures.

    Raises:
        DaemonLost: the daemon is not there, or went away.
    """
    ping = client.ping()
    if ping.status is not Status.OK:
        raise DaemonLost(ping.reason)
    namespace = client.namespace(f"replay-{uuid.uuid4().hex}", block_bytes=block_bytes, purpose="kvtier replay", **ENCODINGS[encoding])
    one = Replay(namespace, content_of(encoding, block_bytes), salt)
    progress = Progress(len(trace), stream)
    stats = client.stats()
    tiers = [tier["tier"] for tier in stats.get("tiers", [])] + (["object"] if "object" in stats else [])
    before = client.counters()
    others = OtherWork(int(stats.get("pid", 0)))
    started_s = time.monotonic()
    try:
        for block_ids in trace:
            one.request(block_ids)
            progress.show(one.tally)
    except DaemonLost as error:
        raise DaemonLost(f"{error} after {one.tally.requests - 1:,} requests; {client.ping().reason}") from None
    finally:
        progress.end()
    seconds = time.monotonic() - started_s
    machine = {"cpus_of_others": round(others.cpus(), 2), "cpus": os.cpu_count() or 1}
    after = client.counters()
    if not after:
        raise DaemonLost(f"the daemon went away at the end: {client.ping().reason}")
    namespace.clear(timeout=30)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    return report(one.tally, grown, tiers, block_bytes, seconds) | machine


def main(arguments: Iterable[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = Arguments(
        prog="replay",
        description="Replays a trace of LLM requests against a kvtier daemon, and checks every byte.",
        epilog="Exit codes: 0 every byte was right, 1 wrong bytes, 2 wrong usage or trace, 3 no daemon, or it went "
        "away. Hits by tier, evictions and the like are the daemon's counters: they include what other clients did.",
    )
    parser.add_argument("--socket", metavar="PATH", help="the daemon's socket (default: this user's daemon)")
    parser.add_argument("--trace", metavar="FILE", type=Path, default=DEFAULT_TRACE, help="JSON lines, plain or gz")
    parser.add_argument("--requests", metavar="N", type=whole, help="only the first N requests of the trace")
    parser.add_argument("--block-bytes", metavar="SIZE", type=size, default=size("64KiB"), help="default: 64KiB")
    parser.add_argument("--encoding", choices=list(ENCODINGS), default="none", help="exact: blocks are stored in about 0.76 of their bytes; fp8: in 0.51, with a loss")
    parser.add_argument("--salt", default="kvtier", help="another one makes other keys and other bytes")
    parser.add_argument("--timeout", metavar="S", type=number, default=30.0, help="of one call (default: 30)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args(None if arguments is None else list(arguments))
    # This program prints a lost connection itself: the client shall not log a warning.
    logging.getLogger("kvtier").addHandler(logging.NullHandler())
    try:
        trace = read_trace(options.trace, options.requests)
        with Client(options.socket, name="replay", timeout=options.timeout) as client:
            figures = replay(client, trace, options.block_bytes, options.salt, sys.stderr, options.encoding)
    except TraceError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    except DaemonLost as error:
        print(f"replay: {error}", file=sys.stderr)
        return 3
    except KvtierError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    tell(figures, f"\n{table(figures)}", options.json)
    return 1 if figures["wrong_bytes"] else 0


if __name__ == "__main__":
    run_tool(main)
