"""The figures of all benchmarks of one machine: medians over the turns, as a result file of docs/benchmarks/results.

checks/documents/benchmarks.py has the schema of result files, and makes the page from them. A file of `scripts/bench all` has more fields:
`parts` has the `date`, the `revision`, the `command` and the number of `turns` of each part. `failed` says why a part was not measured, or
not in each turn. Each row has its `part`, its `name` and its `turns`.
"""

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checks.documents import benchmarks

GOALS = Path(__file__).with_name("goals.json")

Row = dict[str, Any]


def median_rows(turns: Iterable[list[Row]]) -> list[Row]:
    """Each row once, in the order in which it was first seen: medians of value and limit, and of the turns' own ratios.

    A row without a value in some turns keeps those that it has. Where some had a limit, it is of these alone: what is shown side by
    side was measured together.
    """
    same_rows: dict[tuple[str, str], list[Row]] = {}
    for rows in turns:
        for row in rows:
            same_rows.setdefault((row["part"], row["name"]), []).append(row)
    merged = []
    for same in same_rows.values():
        measured = [row for row in same if row["value"] is not None]
        limited = [row for row in measured if row.get("limit") is not None]
        taken = limited or measured
        row = dict((taken or same)[0])
        for field in ("value", "limit", "ratio"):
            values = [one[field] for one in taken if one.get(field) is not None]
            row[field] = statistics.median(values) if values else None
        row["turns"] = len(taken)
        merged.append(row)
    return merged


# ---- rows of a result file

HIGHER = ("GB/s", "1/s", "x")
"""Units of what should be high. Times, shares of a processor and bytes should be low."""

_SPIN = "two processes that spin on one word"
_FIO = "`fio`, direct IO, the same depth"
_S3 = "a bare `S3AsyncClient`"

SHOWN: dict[str, tuple[str, str]] = {
    **{f"{language.lower()}_acquire_p50_us": (f"Lease one block, {language}, median", _SPIN) for language in ("Java", "Python")},
    **{f"{language.lower()}_lookup_256_p50_us": (f"Look up a prompt of 256 blocks, {language}, median", _SPIN) for language in ("Java", "Python")},
    "java_acquire_pipelined_per_s": ("Leases of one block in a second, pipelined, Java", "bare records through a ring and back"),
    **{
        f"{language.lower()}_{verb}_copy_{size}{unit}_gbps": (f"{verb.capitalize()} blocks of {size} {unit} with a copy, {language}", "memcpy of the same blocks")
        for size, unit in (("256", "KiB"), ("1", "MiB"), ("4", "MiB"))
        for verb in ("get", "put")
        for language in ("Java", "Python")
    },
    "idle_daemon_cpu_percent": ("Idle daemon, share of a core", ""),
    **{f"ssd_{verb}_{size}_gbps": (f"{verb.capitalize()} blocks of {size[:-3]} {size[-3:]} {way} SSD, with checksums", _FIO) for size in ("256KiB", "1MiB", "4MiB") for verb, way in (("write", "to"), ("read", "from"))},
    "host_put_during_ssd_writes_gbps": ("Puts into host memory while the SSD tier writes", "the same puts alone"),
    "demotion_evicted_stored_gbps": ("Puts of three times the host memory until all are on SSD, `ssd.admission=evicted`", _FIO),
    "demotion_all_stored_gbps": ("Puts of three times the host memory until all are on SSD, `ssd.admission=all`", _FIO),
    **{f"object_{verb}_2MiB_gbps": (f"{verb.capitalize()} blocks of 2 MiB {way} S3", _S3) for verb, way in (("get", "from"), ("put", "into"))},
    "local_get_p99_object_store_silent_us": ("Local get while the object store does not answer, p99", "the same gets alone"),
    "grpc_get_1MiB_gbps": ("Get blocks of 1 MiB over gRPC", "bare TCP of the same bytes"),
    "grpc_put_1MiB_gbps": ("Put blocks of 1 MiB over gRPC", "bare TCP of the same bytes"),
    "grpc_lookup_256_p50_us": ("Look up a prompt of 256 blocks over gRPC, median", "a bare TCP round trip of the same bytes"),
    **{
        f"remote_{language.lower()}_{verb}_1MiB_gbps": (f"{verb.capitalize()} blocks of 1 MiB over gRPC with TLS, {language}", "bare gRPC of the same bytes with TLS")
        for language in ("Java", "Python")
        for verb in ("get", "put")
    },
    "modest_with_greedy_in_the_same_daemon_p99_us": ("Local get of one tenant while a greedy tenant uses this daemon, p99", "while the greedy tenant uses another daemon"),
    "client_kill_to_released_ms": ("Time from SIGKILL of a client until all that it held is free", ""),
    "daemon_start_to_ready_ms": ("Start of the daemon until it is ready", ""),
    "engine_cpu_store_ms": ("Store 2,048 tokens of an 8B Llama from CPU tensors, vLLM connector", "LMCache"),
    "engine_cpu_retrieve_ms": ("Retrieve 2,048 tokens of an 8B Llama into CPU tensors, vLLM connector", "LMCache"),
    "engine_cpu_lookup_ms": ("The scheduler's lookup of 2,048 tokens, vLLM connector", "LMCache"),
}
"""Rows in words, and what they are compared with; nothing where no other value was measured."""

HIDDEN = tuple(f"{part}_{size}_gbps" for part in ("java_get_copy", "java_put_copy", "python_get_copy", "python_put_copy", "ssd_write", "ssd_read") for size in ("256KiB", "4MiB"))
"""Rows of SHOWN that the page shows only where their goal is missed."""

AGAINST: dict[str, tuple[str, str, str]] = {
    f"{language.lower()}_{verb}_4KiB_per_s": (f"{verb.capitalize()}s of one 4 KiB block in a second, {language}", "Mooncake", f"mooncake_{verb}_4KiB_per_s")
    for verb in ("get", "put")
    for language in ("Python", "Java")
}
"""Rows that the page compares with another row: in words, the peer, and its row."""


def result_rows(rows: list[Row]) -> list[Row]:
    """Median rows of one part, or of several, as rows of a result file."""
    goals = {goal["row"]: goal for goal in json.loads(GOALS.read_text())}
    named = {row["name"]: row for row in rows}
    found = []
    for row in rows:
        name = row["name"]
        words, compared_with = SHOWN.get(name, (name, row.get("limit_name") or ""))
        value, compared, ratio = row["value"], row.get("limit"), row.get("ratio")
        if name in AGAINST:
            words, compared_with, other = AGAINST[name]
            compared = named.get(other, {}).get("value")
            ratio = value / compared if value is not None and compared else None
        if compared is None:
            compared_with = row.get("limit_name") or ""
        if name in SHOWN and not SHOWN[name][1]:
            # The limit of this row is no measured value.
            compared_with, compared, ratio = "", None, None
        goal = dict(goals.get(name, {}))
        goal.pop("row", None)
        note = goal.pop("note", "")
        missed = benchmarks.is_missed({"goal": goal, "value": value, "ratio": ratio})
        one = {
            "part": row["part"], "name": name, "what": words, "value": value, "unit": row["unit"], "compared_with": compared_with,
            "compared_value": compared, "ratio": ratio, "better": "higher" if row["unit"] in HIGHER else "lower", "note": note if missed else "",
            "turns": row["turns"],
        }  # fmt: skip
        if goal:
            one["goal"] = goal
        if (name in HIDDEN and not missed) or (name not in SHOWN and name not in AGAINST):
            one["shown"] = False
        found.append(one)
    return found


# ---- a result file


def summarized(result: dict[str, Any]) -> dict[str, Any]:
    """The result with its revisions and its command, as the page shows them."""
    parts = sorted(result["parts"].values(), key=lambda one: one["date"])
    revisions = list(dict.fromkeys(one["revision"] for one in parts))
    *others, last = revisions or ["unknown"]
    turns = [one["turns"] for one in parts]
    spans = sorted({min(turns), max(turns)}) if turns else []
    return result | {
        "revision": f"{', '.join(others)} and {last}" if others else last,
        "command": "scripts/bench all",
        "summary": [measured_words(spans)] if spans else [],
    }


def measured_words(spans: list[int]) -> str:
    """How often each value was measured, between the fewest turns and the most, as a sentence."""
    if spans == [1]:
        return "Each value was measured once."
    return f"Each value is the median of {' to '.join(map(str, spans))} turns."
