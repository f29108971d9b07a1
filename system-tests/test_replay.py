"""The replay of bench/replay.py: contents of blocks, figures, and detection of wrong bytes."""

import argparse
import gzip
import io
import json
import os
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon, eventually

from bench import replay
from kvtier import Client

# Two conversations over one system prompt (1, 2), each asked twice; the last request shares nothing.
REQUESTS = [[1, 2, 3], [1, 2, 3, 4], [1, 2, 10], [1, 2, 10, 11, 12], [90, 91]]
REFERENCES = 17
HITS = 0 + 3 + 2 + 3 + 0

BLOCK_BYTES = 64 << 10


def key(number: int) -> bytes:
    return replay.block_key("test", number)


def trace_file(folder: Path, requests: list[list[int]] = REQUESTS) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps({"timestamp": 0, "hash_ids": ids}) + "\n" for ids in requests))
    return path


def run(daemon: Daemon, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = replay.main(["--socket", str(daemon.socket_path), "--json", *arguments])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


# ---- content


@pytest.mark.parametrize("block_bytes", [1, 100, 4096, 4097, 65536, 100_001])
def test_block_has_its_size_and_depends_on_nothing_but_the_key(block_bytes: int) -> None:
    block = replay.Content(block_bytes).block(key(1))
    assert len(block) == block_bytes
    assert replay.Content(block_bytes).block(key(1)) == block


def test_block_shares_no_page_with_others_or_itself() -> None:
    content = replay.Content(BLOCK_BYTES)
    pages = [
        content.block(key(number))[at : at + 4096] for number in range(64) for at in range(0, BLOCK_BYTES, 4096)
    ]
    assert len(set(pages)) == len(pages)


@pytest.mark.parametrize("encoding", ["exact", "fp8"])
def test_block_with_values_of_a_cache_is_encoded_in_its_place(
    daemon: Daemon, capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str
) -> None:
    code, figures = run(daemon, capsys, "--trace", str(trace_file(tmp_path)), "--encoding", encoding)
    assert (code, figures["wrong_bytes"], figures["block_hits"]) == (0, 0, HITS)
    assert (figures["put_encoded"], figures["put_raw"]) == (figures["puts"], 0) == (REFERENCES - HITS, 0)


def test_blocks_of_one_encoding_share_no_page_and_have_their_size() -> None:
    content = replay.KvContent(BLOCK_BYTES)
    blocks = [content.block(key(number)) for number in range(16)]
    pages = [block[at : at + 4096] for block in blocks for at in range(0, BLOCK_BYTES, 4096)]
    assert {len(block) for block in blocks} == {BLOCK_BYTES} and len(set(pages)) == len(pages)
    exponents = {int.from_bytes(pages[0][at : at + 2], "little") >> 7 & 0xFF for at in range(0, 4096, 2)}
    assert max(exponents) in range(127, 131), "a normal distribution has its largest values at 2 to 5"


def test_blocks_of_a_lossy_encoding_come_back_as_it_keeps_them() -> None:
    lossy, exact = replay.content_of("fp8", BLOCK_BYTES), replay.content_of("exact", BLOCK_BYTES)
    buffer = bytearray(lossy.kept(key(1)))
    assert lossy.block(key(1)) == exact.block(key(1)) != buffer
    assert lossy.wrong_bytes(key(1), buffer, 0) == 0
    assert lossy.wrong_bytes(key(1), bytearray(lossy.block(key(1))), 0) > BLOCK_BYTES // 4
    buffer[4097] ^= 1
    assert lossy.wrong_bytes(key(1), buffer, 0) == 1


def test_wrong_bytes_of_the_right_block_are_none() -> None:
    content = replay.Content(BLOCK_BYTES)
    buffer = bytearray(content.block(key(1)) + content.block(key(2)))
    assert content.wrong_bytes(key(1), buffer, 0) == 0
    assert content.wrong_bytes(key(2), buffer, BLOCK_BYTES) == 0


def test_wrong_bytes_counts_each_flipped_byte() -> None:
    content = replay.Content(BLOCK_BYTES)
    right = content.block(key(1))
    places = [0, 1, 4095, 4096, BLOCK_BYTES // 2, BLOCK_BYTES - 1]
    for place in places:
        buffer = bytearray(right)
        buffer[place] ^= 1
        assert content.wrong_bytes(key(1), buffer, 0) == 1
    buffer = bytearray(right)
    for place in places:
        buffer[place] ^= 0x80
    assert content.wrong_bytes(key(1), buffer, 0) == len(places)


def test_wrong_bytes_sees_another_a_shifted_and_a_torn_block() -> None:
    content = replay.Content(BLOCK_BYTES)
    right, other = content.block(key(1)), content.block(key(2))
    most = BLOCK_BYTES * 9 // 10
    assert content.wrong_bytes(key(1), bytearray(other), 0) > most
    assert content.wrong_bytes(key(1), bytearray(BLOCK_BYTES), 0) > most
    for shift in (1, 8, 64, 4096):
        assert content.wrong_bytes(key(1), bytearray(right[shift:] + right[:shift]), 0) > most
    for cut in random.Random(1).sample(range(64, BLOCK_BYTES - 64), 50):
        assert content.wrong_bytes(key(1), bytearray(right[:cut] + other[cut:]), 0) > 0


def test_wrong_bytes_sees_a_buffer_that_is_too_short() -> None:
    content = replay.Content(4096)
    assert content.wrong_bytes(key(1), bytearray(content.block(key(1))[:4000]), 0) > 0


# ---- the trace and the figures


def test_read_trace_reads_plain_and_gz_and_stops(tmp_path: Path) -> None:
    plain = trace_file(tmp_path)
    packed = tmp_path / "trace.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert replay.read_trace(plain) == REQUESTS
    assert replay.read_trace(packed) == REQUESTS
    assert replay.read_trace(packed, 2) == REQUESTS[:2]


@pytest.mark.parametrize("line", ["{", "[]", '{"timestamp": 1}', '{"hash_ids": 1}', '{"hash_ids": ["1"]}'])
def test_read_trace_names_the_line_that_is_none(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trace"
    path.write_text('{"hash_ids": [1]}\n' + line + "\n")
    with pytest.raises(replay.TraceError, match="line 2"):
        replay.read_trace(path)


def test_read_trace_without_a_file_or_a_request(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path in (empty, tmp_path / "none"):
        with pytest.raises(replay.TraceError, match=path.name):
            replay.read_trace(path)


def test_read_trace_of_a_damaged_gz_says_so(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(trace_file(tmp_path).read_bytes() * 100))
    packed[20:40] = bytes(20)
    path = tmp_path / "damaged.gz"
    path.write_bytes(packed)
    with pytest.raises(replay.TraceError, match=r"cannot read the trace .*damaged\.gz"):
        replay.read_trace(path)


def test_the_trace_of_the_demo_is_whole() -> None:
    trace = replay.read_trace(replay.DEFAULT_TRACE)
    assert len(trace) == 8000
    assert sum(len(ids) for ids in trace) == 197_462
    assert len({block_id for ids in trace for block_id in ids}) == 128_199


def test_percentile_is_the_nearest_rank() -> None:
    assert replay.percentile_us([], 0.5) == 0
    assert replay.percentile_us([7000], 0.99) == 7
    samples = [1000 * value for value in range(100, 0, -1)]
    assert replay.percentile_us(samples, 0.5) == 50
    assert replay.percentile_us(samples, 0.99) == 99


@pytest.mark.parametrize("text", ["", "64", "64KiB", "1 MiB"])
def test_size(text: str) -> None:
    if text:
        assert replay.size(text) == {"64": 64, "64KiB": 65536, "1 MiB": 1 << 20}[text]
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            replay.size(text)


@pytest.mark.parametrize("seconds", ["-1", "nan", "0", "soon"])
def test_timeout_thatIsNone_isWrongUsage(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        replay.main(["--timeout", seconds])
    assert ended.value.code == 2
    assert f"expected a number above 0, not '{seconds}'" in capsys.readouterr().err


def test_whatWasTimed_onABusyMachine_saysSo() -> None:
    quiet = replay.what_was_timed({"cpus_of_others": 0.3, "cpus": 2})
    assert "Python" in quiet and "disk" in quiet and "Other work" not in quiet
    assert "Other work took 1.2 of this machine's 2 CPUs" in replay.what_was_timed({"cpus_of_others": 1.2, "cpus": 2})


def test_otherWork_isThatOfNeitherProcess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hz = os.sysconf("SC_CLK_TCK")
    clock = {"now": 100.0, "own": 5.0}
    monkeypatch.setattr(replay, "time", SimpleNamespace(monotonic=lambda: clock["now"], process_time=lambda: clock["own"]))
    (tmp_path / "7").mkdir()

    def tell(every_s: int, daemon_s: int) -> None:
        # Idle time and waits for a disk do not count.
        (tmp_path / "stat").write_text(f"cpu  {every_s * hz} 0 0 {9000 * hz} {900 * hz} 0 0 0 0 0\ncpu0 1 1 1\n")
        (tmp_path / "7" / "stat").write_text(f"7 (a) name) S 1 1 1 0 -1 0 0 0 0 0 {daemon_s * hz} 0 0 0\n")

    tell(1000, 50)
    others = replay.OtherWork(7, tmp_path)
    clock.update(now=110.0, own=9.0)
    tell(1021, 55)
    # The machine worked 21 s in 10 s: the daemon 5, and this process 4.
    assert others.cpus() == pytest.approx(1.2)
    assert replay.OtherWork(8, tmp_path).cpus() == 0.0


def test_progress_without_a_terminal_is_ten_lines() -> None:
    stream = io.StringIO()
    progress = replay.Progress(1000, stream)
    tally = replay.Tally()
    for _ in range(1000):
        tally.requests += 1
        progress.show(tally)
    assert len(stream.getvalue().splitlines()) == 10


# ---- against a daemon


def test_replay_counts_exactly(
    fresh_daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, figures = run(fresh_daemon, capsys, "--trace", str(trace_file(tmp_path)), "--block-bytes", "64KiB")
    assert code == 0
    expected = {
        "requests": len(REQUESTS),
        "block_references": REFERENCES,
        "block_hits": HITS,
        "prefix_hits": HITS,
        "possible_hits": HITS,
        "hits_host": HITS,
        "hits_ssd": 0,
        "puts": REFERENCES - HITS,
        "puts_refused": 0,
        "lost_after_lookup": 0,
        "wrong_bytes": 0,
        "wrong_blocks": 0,
        "evictions": 0,
        "demotions": 0,
        "promotions": 0,
    }
    assert {name: figures[name] for name in expected} == expected
    assert figures["get_gbps"] > 0 and figures["put_gbps"] > 0
    assert 0 < figures["get_p50_us"] <= figures["get_p99_us"]
    assert 0 < figures["lookup_p50_us"] and 0 < figures["put_p50_us"] and figures["seconds"] > 0


def test_replay_uses_both_tiers_when_host_memory_is_too_small(
    fresh_daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 64 MiB of host memory and 96 MiB of blocks, which are asked for twice.
    requests = [list(range(start, start + 16)) for start in range(0, 96, 16)] * 2
    code, figures = run(fresh_daemon, capsys, "--trace", str(trace_file(tmp_path, requests)), "--block-bytes", "1MiB")
    assert code == 0
    assert figures["block_hits"] == figures["prefix_hits"] == 96
    assert figures["hits_host"] + figures["hits_ssd"] == 96
    assert figures["hits_ssd"] > 0 and figures["demotions"] > 0 and figures["promotions"] > 0


def test_replay_tells_what_an_engine_would_not_compute_and_counts_nothing(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(daemon.socket_path, timeout=60) as client:
        before = client.stats()
        code, figures = run(daemon, capsys, "--trace", str(trace_file(tmp_path)))
        after = client.stats()
    assert code == 0 and figures["saved_tokens"] == HITS * 512
    told = replay.table(figures)
    assert re.search(rf"^prefill saved +{HITS * 512:,} tokens need not be computed", told, re.MULTILINE)
    assert after["accounts"] == before["accounts"]
    grown = {name: after["counters"][name] - before["counters"][name] for name in after["counters"]}
    assert grown["saved_tokens"] == grown["saved_prefill_ns"] == 0
    assert grown["lookup_hits"] == grown["tool_lookup_hits"] > 0 and grown["lookup_blocks"] == grown["tool_lookup_blocks"]
    assert grown["hits_host"] + grown["hits_ssd"] == grown["tool_hits"] > 0


def test_replay_tells_of_the_tiers_that_there_are(
    stopped_daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped_daemon.start(
        ssd__bytes="0",
        object__store="folder",
        object__folder=str(stopped_daemon.folder / "objects"),
        object__directory=str(stopped_daemon.folder / "object"),
    )
    code, figures = run(stopped_daemon, capsys, "--trace", str(trace_file(tmp_path)))
    assert code == 0
    told = replay.table(figures)
    assert "SSD" not in told
    assert re.search(r"^objects stored +0: no block was evicted from the other tiers", told, re.MULTILINE)
    assert "0.0 % from object" in told


def test_replay_leaves_nothing_behind_and_starts_cold_again(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(daemon.socket_path, timeout=60) as client:
        for _ in range(2):
            code, figures = run(daemon, capsys, "--trace", str(trace_file(tmp_path)))
            assert code == 0 and figures["block_hits"] == HITS
            assert eventually(lambda: client.counters()["blocks"] == 0)


def test_a_planted_wrong_byte_is_counted_and_fails(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = replay.Content.wrong_bytes

    def planted(content: Any, block_key: bytes, buffer: bytearray, offset: int) -> int:
        if block_key == replay.block_key("kvtier", 10):
            buffer[offset + 5000] ^= 0xFF
        return verify(content, block_key, buffer, offset)

    monkeypatch.setattr(replay.Content, "wrong_bytes", planted)
    code, figures = run(daemon, capsys, "--trace", str(trace_file(tmp_path)))
    assert code == 1
    assert figures["wrong_bytes"] == figures["wrong_blocks"] == 1
    assert figures["block_hits"] == figures["prefix_hits"] == HITS - 1
    assert "WRONG BYTES" in replay.table(figures)


def test_a_get_that_copies_nothing_is_noticed(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    get = replay.Namespace.get

    def lying(namespace: Any, keys: list[bytes], into: bytearray, **options: Any) -> Any:
        before = bytes(into)
        answer = get(namespace, keys, into, **options)
        into[:] = before
        return answer

    monkeypatch.setattr(replay.Namespace, "get", lying)
    code, figures = run(daemon, capsys, "--trace", str(trace_file(tmp_path, [[1, 2], [1, 2], [1, 2]])))
    assert code == 1
    assert figures["wrong_blocks"] == 4 and figures["block_hits"] == 0


def test_replay_without_a_daemon_and_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = str(tmp_path / "nobody.sock")
    assert replay.main(["--socket", nobody, "--trace", str(trace_file(tmp_path))]) == 3
    assert nobody in capsys.readouterr().err
    assert replay.main(["--socket", nobody, "--trace", str(tmp_path / "none")]) == 2


def test_replay_says_when_the_daemon_dies(
    fresh_daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replay.Replay.request

    def killing(one: Any, block_ids: list[int]) -> None:
        if one.tally.requests == 2:
            fresh_daemon.kill()
        request(one, block_ids)

    monkeypatch.setattr(replay.Replay, "request", killing)
    assert replay.main(["--socket", str(fresh_daemon.socket_path), "--trace", str(trace_file(tmp_path))]) == 3
    assert "after 2 requests" in capsys.readouterr().err
