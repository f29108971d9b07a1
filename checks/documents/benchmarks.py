"""The page of all benchmarks, docs/benchmarks/index.md. It is generated from the result files beside it.

    python -m checks.documents.benchmarks            fails where the page is stale, or a result file breaks the schema
    python -m checks.documents.benchmarks --write    writes the page

A result file, docs/benchmarks/results/ID.json, is one object:

    id        the file's name; it starts with the date. Of files whose ids differ in the date alone, the page shows the newest
    title     what was measured, in words
    section   where the page shows it: one of SECTIONS
    date, machine, revision, command
    summary   sentences that the page shows above the table (optional)
    rows      what was measured: what, value, unit, compared_with, compared_value, ratio, better (higher or lower), note

A ratio is value / compared_value. Numbers that are missing are null. A row may also have a goal, as in {"ratio_at_least": 0.85}.
A row with "shown": false is data only. Files of scripts/bench all have some fields more, which the page does not show.
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from checks.documents.problem import Problem
from checks.shared.checkout import ROOT

Row = dict[str, Any]
Result = dict[str, Any]

PAGE = "docs/benchmarks/index.md"
RESULTS = "docs/benchmarks/results"
FIELDS = {"id", "title", "section", "date", "machine", "revision", "command", "rows"}
ROW_FIELDS = {"what", "value", "unit", "compared_with", "compared_value", "ratio", "better", "note"}
NUMBERS = ("value", "compared_value", "ratio")
SHARES = ("of the link", "x")
"""Units of rows whose value is a ratio itself."""

COMPUTED = "computed on the GPU"
OFFLOADING = "vLLM's own offloading"
PEERS = {
    OFFLOADING: "The vLLM connector `OffloadingConnector`, which keeps blocks in the memory of the engine's own process.",
    "LMCache": "On one H200: LMCache 0.5.1 as vLLM's connector. On two cores: LMCache's own benchmark program, `lmcache bench server --mode cpu`, with equal tensors.",
    "Mooncake": "Mooncake 0.3.13 with a master and a client process on the same machine, called from Python. In the trace over eight nodes: eight client processes.",
}
"""Names in `compared_with`, each with a description of the program that was run."""

SECTIONS = {
    "restore": "",
    "hardware": "Compared with simple programs",
    "cost": "What the vLLM connector costs",
    "policy": "Eviction policies",
    "reliability": "Reliability runs",
}
WORDS = {
    "hardware": "A *simple program* does the work on the same machine without kvtier: for example a copy of memory, `fio`, or a bare S3 client. "
    "It is not a limit of the hardware: a rate with a ratio above 1 means that kvtier was faster than the simple program.",
}
"""The text at the beginning of a section."""
TESTS: dict[str, tuple[str, str, Callable[[float, float], bool]]] = {
    "at_most": ("value", "at most", lambda have, want: have <= want),
    "at_least": ("value", "at least", lambda have, want: have >= want),
    "ratio_at_most": ("ratio", "ratio at most", lambda have, want: have <= want),
    "ratio_at_least": ("ratio", "ratio at least", lambda have, want: have >= want),
}

HEAD = """# Benchmarks

<!-- Generated from docs/benchmarks/results by python3 -m checks.documents.benchmarks --write: do not edit. -->
"""
INTRODUCTION = """
This page shows how fast kvtier is, what it is compared with, and on which machine. All figures come from the result files in [`results`](results). [Benchmarking](../develop/benchmarking.md) describes how to run each benchmark, and what its rows mean.

- A *ratio* is kvtier's value divided by the value that it is compared with. Both come from one run. For rates a high ratio is good, for times a low one.
- The machines are virtual. Machines of one kind differ, and runs on one machine differ, too. Compare values within a run only.
- A goal is what the project wants to reach. It is judged by the value in its row, which one machine measured. Notes name other machines with other values. [Where kvtier is slower](#where-kvtier-is-slower) lists the goals that are missed.
- *PACK* in a command is the folder with the benchmarks for a machine with a GPU.
"""

SLOWER = """## Where kvtier is slower

This section lists the rows in which a peer was faster, and the goals that are missed. It includes runs of older revisions.
"""


# ---- files


def read(root: Path = ROOT) -> list[Result]:
    """All result files, the oldest first."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((root / RESULTS).glob("*.json"))]


def newest(results: Iterable[Result]) -> list[Result]:
    """The newest of all results whose ids differ in the date alone."""
    found: dict[str, Result] = {}
    for result in results:
        found[result["id"][len(result["date"]) :]] = result
    return list(found.values())


def wrong_in(result: Any, name: str) -> list[str]:
    """Violations of the schema in a result file."""
    if not isinstance(result, dict) or not result.keys() >= FIELDS:
        return [f"expected an object with the fields {', '.join(sorted(FIELDS))}"]
    found = []
    if result["id"] != name or not name.startswith(f"{result['date']}-"):
        found.append(f"the id is '{result['id']}' and the date {result['date']}, and expected was {name}, which starts with the date")
    if result["section"] not in SECTIONS:
        found.append(f"section '{result['section']}', and expected was one of {', '.join(SECTIONS)}")
    for number, row in enumerate(result["rows"]):
        place = f"row {number} ('{row.get('what')}')"
        if not row.keys() >= ROW_FIELDS:
            found.append(f"{place} lacks {', '.join(sorted(ROW_FIELDS - row.keys()))}")
            continue
        if row["better"] not in ("higher", "lower"):
            found.append(f"{place} has better '{row['better']}', and expected was higher or lower")
        value, compared, ratio = (row[field] for field in NUMBERS)
        # Medians of several turns have the median of the turns' own ratios.
        if None not in (value, compared, ratio) and compared and row.get("turns", 1) == 1 and abs(ratio - value / compared) > 0.006 * max(1.0, abs(ratio)):
            found.append(f"{place} has the ratio {ratio:g}, and {value:g} / {compared:g} is {value / compared:.3g}")
        if "goal" in row and (len(row["goal"]) != 1 or not row["goal"].keys() <= TESTS.keys()):
            found.append(f"{place} has a goal that is none of {', '.join(TESTS)}")
    return found


# ---- words


def number(value: float | None) -> str:
    """Three digits, or four from 100 up; nothing where there is no number."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def with_unit(value: float | None, unit: str) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    shown = {"us": "µs", "1/s": "/s", "x": "×"}.get(unit, unit)
    return f"{number(value)} {shown}".strip()


def is_missed(row: Row) -> bool:
    """Whether the goal of a row was measured, and is not met."""
    for kind, wanted in row.get("goal", {}).items():
        field, _, holds = TESTS[kind]
        have = row.get(field)
        if have is not None and not holds(have, wanted):
            return True
    return False


def verdict(row: Row) -> str:
    """The goal of a row, and whether it is met; nothing where there is none."""
    if not row.get("goal"):
        return ""
    ((kind, wanted),) = row["goal"].items()
    field, words, _ = TESTS[kind]
    state = "not measured" if row.get(field) is None else "**missed**" if is_missed(row) else "met"
    return f"{words} {wanted:g}: {state}"


def speedup(row: Row) -> float | None:
    """The factor by which a row is faster or better than the value that it is compared with."""
    if not row["ratio"]:
        return None
    ratio = float(row["ratio"])
    return ratio if row["better"] == "higher" else 1 / ratio


def shown(rows: Iterable[Row]) -> list[Row]:
    """The rows that the page has."""
    return [row for row in rows if row.get("shown", True)]


def short(result: Result) -> str:
    """The machine in a few words."""
    return str(result["machine"]).split(" (")[0].split(", Linux")[0]


def where(result: Result) -> str:
    """Date, machine and command of a result, as a sentence."""
    return f"{result['date']}, {result['machine']}; `{result['command']}`, revision {result['revision']}."


def ratio_words(ratio: float | None) -> str:
    """A ratio as a table shows it; goals differ in the third decimal."""
    return "" if ratio is None else f"{ratio:.3f}" if ratio < 10 else number(ratio)


def compared(row: Row) -> str:
    """The name and the value that a row is compared with; shares of a limit have no value."""
    value = with_unit(row["compared_value"], row["unit"]) if row["unit"] not in SHARES else ""
    return ": ".join(words for words in (row["compared_with"], value) if words)


def table(head: list[str], lines: Iterable[list[str]]) -> list[str]:
    """A table, whose columns of numbers stand to the right; columns without any content are left out."""
    cells = [list(line) for line in lines]
    kept = [place for place in range(len(head)) if any(line[place] for line in cells)]
    numeric = {"kvtier", "peer", "ratio", "times as fast", "value", "ms"}
    rule = ["---:" if head[place] in numeric or head[place].endswith(", ms") else "---" for place in kept]
    rows = [[head[place] for place in kept], rule, *([line[place] for place in kept] for line in cells)]
    return ["| " + " | ".join(row) + " |" for row in rows]


# ---- the page


def page(results: list[Result]) -> str:
    """The whole page."""
    current = newest(results)
    of = {section: [result for result in current if result["section"] == section] for section in SECTIONS}
    # The newest first, and machines with a GPU before all others.
    of["hardware"] = sorted(reversed(of["hardware"]), key=lambda result: "NVIDIA" not in result["machine"])
    lines = [HEAD + headline(of["restore"]) + INTRODUCTION, *restores(of["restore"])]
    lines += peers(current)
    for section, title in SECTIONS.items():
        if section == "cost":
            lines += slower(current)
        if title and of[section]:
            lines += [f"## {title}", ""]
            lines += [WORDS[section], ""] if section in WORDS else []
            for result in of[section]:
                lines += one(result)
    return "\n".join(lines).rstrip() + "\n"


def headline(results: list[Result]) -> str:
    """The newest restore in one sentence."""
    if not results:
        return ""
    last = results[-1]
    rows = {row["compared_with"]: row for row in reversed(last["rows"])}
    own = rows[COMPUTED]
    others = [f"{name} takes {number(rows[name]['compared_value'])} ms" for name in (OFFLOADING, "LMCache") if name in rows]
    return (
        f"\n**kvtier restores a prompt of 32,768 tokens in {number(own['value'])} ms. Computing it takes "
        f"{number(own['compared_value'])} ms. {'; '.join(others)}.** This is one run on {short(last)}; "
        "[all runs](#all-runs) differ.\n"
    )


def restores(results: list[Result]) -> list[str]:
    """The headline, which is of the newest run, and all runs."""
    if not results:
        return []
    last = results[-1]
    compared = {row["compared_with"]: row for row in last["rows"]}
    lines = ["## A prompt of 32,768 tokens, restored in vLLM", "", *last.get("summary", []), ""]
    times = [(words, compared[name]["compared_value"]) for words, name in ((COMPUTED, COMPUTED), (f"restored by {OFFLOADING}", OFFLOADING), ("restored by LMCache", "LMCache")) if name in compared]
    own = [row for row in last["rows"] if row["compared_with"] == COMPUTED]
    lines += table(
        ["time to the first token", "ms"],
        [*([words, number(value)] for words, value in times), *([f"**{row['what']}**", f"**{number(row['value'])}**"] for row in own)],
    )
    lines += ["", where(last), "", "### All runs", "", "Each line is one run on one machine. All times are medians of the time to the first token. *Second process* is another engine process, which never computed the prompt.", ""]
    lines += table(
        ["date", "machine", "computed, ms", f"{OFFLOADING}, ms", "LMCache, ms", "kvtier, ms", "kvtier, second process, ms"],
        (
            [
                result["date"],
                short(result),
                *(number(next((row["compared_value"] for row in result["rows"] if row["compared_with"] == name), None)) for name in (COMPUTED, OFFLOADING, "LMCache")),
                *(number(next((row["value"] for row in result["rows"] if row["compared_with"] == COMPUTED and ("second" in row["what"]) == second), None)) for second in (False, True)),
            ]
            for result in reversed(results)
        ),
    )
    return [*lines, ""]


def peers(results: list[Result]) -> list[str]:
    """A table against each peer."""
    lines = ["## Against each peer", ""]
    last = [result["id"] for result in results if result["section"] == "restore"][-1:]
    listed = [result for result in reversed(results) if result["section"] != "restore" or result["id"] in last]
    for peer, words in PEERS.items():
        found = [(result, row) for result in listed for row in shown(result["rows"]) if row["compared_with"] == peer]
        if not found:
            continue
        lines += [f"### {peer}", "", words, ""]
        lines += table(
            ["what", "kvtier", "peer", "times as fast", "goal", "run"],
            (
                [
                    row["what"], with_unit(row["value"], row["unit"]), with_unit(row["compared_value"], row["unit"]), number(speedup(row)), verdict(row),
                    f"{result['date']}, {short(result)}",
                ]  # fmt: skip
                for result, row in found
            ),
        )
        lines.append("")
    return lines


def one(result: Result) -> list[str]:
    """A result of its own: its table, without the rows that stand under a peer."""
    rows = [row for row in shown(result["rows"]) if row["compared_with"] not in PEERS]
    value = "value" if result["section"] in ("policy", "reliability") else "kvtier"
    lines = [f"### {result['title']}", "", where(result), ""]
    if result.get("summary"):
        lines += [*result["summary"], ""]
    lines += table(
        ["what", value, "compared with", "ratio", "goal", "note"],
        ([row["what"], with_unit(row["value"], row["unit"]), compared(row), ratio_words(row["ratio"]), verdict(row), row["note"] or ""] for row in rows),
    )
    failed = result.get("failed")
    if failed:
        lines += ["", "Not measured, or not in each turn: " + "; ".join(f"`{part}` ({why})" for part, why in failed.items()) + "."]
    return [*lines, ""]


def slower(results: list[Result]) -> list[str]:
    """Rows in which a peer was faster, and missed goals."""
    slow = []
    missed = []
    goals = hidden = 0
    for result in reversed(results):
        run = f"{result['date']}, {short(result)}"
        for row in result["rows"]:
            times = speedup(row)
            if row["compared_with"] in PEERS and times is not None and times < 1:
                what = f"{row['what']}, against {row['compared_with']}"
                slow.append([what, with_unit(row["value"], row["unit"]), with_unit(row["compared_value"], row["unit"]), number(times), row["note"] or "", run])
            goals += bool(row.get("goal"))
            hidden += bool(row.get("goal")) and not row.get("shown", True)
            if is_missed(row):
                have = ratio_words(row["ratio"]) if "ratio" in next(iter(row["goal"])) else with_unit(row["value"], row["unit"])
                missed.append([row["what"], have, verdict(row).split(":")[0], row["note"] or "", run])
    lines = [SLOWER]
    if slow:
        lines += table(["what", "kvtier", "peer", "times as fast", "note", "run"], slow)
        lines.append("")
    if missed:
        lines += [f"{len(missed)} of {goals} goals are missed." + (f" Rows that the tables leave out have {hidden} of these goals: see [the result files](results)." if hidden else ""), ""]
        lines += table(["what", "value", "goal", "note", "run"], missed)
        lines.append("")
    return lines


# ---- the check


def write(root: Path = ROOT) -> Path:
    """Writes the page."""
    path = root / PAGE
    path.write_text(page(read(root)), encoding="utf-8")
    return path


def check(root: Path = ROOT) -> list[Problem]:
    """Result files keep the schema, and the page is what they make."""
    found = []
    for path in sorted((root / RESULTS).glob("*.json")):
        name = str(path.relative_to(root))
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as e:
            found.append(Problem(name, 1, f"no JSON: {e}"))
            continue
        found += [Problem(name, 1, words) for words in wrong_in(result, path.stem)]
    if found:
        return found
    committed = root / PAGE
    if not committed.exists() or committed.read_text(encoding="utf-8") != page(read(root)):
        found.append(Problem(PAGE, 1, "the page is older than its result files: run python3 -m checks.documents.benchmarks --write"))
    return found


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        print(write())
        return 0
    if arguments:
        print(f"benchmarks: expected nothing or --write, found '{' '.join(arguments)}'", file=sys.stderr)
        return 2
    problems = check()
    print("\n".join(map(str, problems)) or f"{PAGE} is up to date")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
