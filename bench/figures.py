"""The figures of all benchmarks of one machine: their median over the turns, as a page, as curves, and as the README's table.

A file of figures is `{"machine", "measured", "rows", "failed"}`: `measured` has of each part the `date`, `revision` and `command`
that its rows are of, and of how many `turns` they are the medians; `rows` are as `--json` of `scripts/bench` has them, each with its
`part`; `failed` says why a part was not measured, or not in each turn.
"""

import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import svg
from markdown_table import amount, table

BEGIN = "<!-- figures of scripts/bench all: do not edit -->"
END = "<!-- end of figures -->"
NOT_MET = "**no**"
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


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """The rows by their names, which are how goals, curves and the README ask for them."""
    named: dict[str, Row] = {}
    for row in rows:
        other = named.setdefault(row["name"], row)
        if other["part"] != row["part"]:
            raise ValueError(f"the parts {other['part']} and {row['part']} both have a row {row['name']}: nobody can tell which is meant")
    return named


def verdict(goal: dict[str, Any], row: Row | None) -> tuple[str, str, str]:
    """What was wanted, what was measured, and whether it is met."""
    tests: dict[str, tuple[str, str, Callable[[float, float], bool]]] = {
        "at_most": ("value", "at most", lambda have, want: have <= want),
        "at_least": ("value", "at least", lambda have, want: have >= want),
        "ratio_at_most": ("ratio", "at most", lambda have, want: have <= want),
        "ratio_at_least": ("ratio", "at least", lambda have, want: have >= want),
    }
    (kind,) = set(goal) - {"row", "note"}
    field, words, holds = tests[kind]
    of = " of the limit" if field == "ratio" else f" {row['unit']}" if row is not None else ""
    wanted = f"{words} {goal[kind]:g}{of}"
    have = None if row is None else row.get(field)
    if have is None:
        return wanted, "", "not measured"
    return wanted, f"{have:.3g}", "yes" if holds(have, goal[kind]) else NOT_MET


def goals_table(rows: list[Row]) -> list[str]:
    """A line a goal of goals.json; of one that is not met also its note: what it lacks, and what would close it."""
    named = by_name(rows)
    lines = ["| goal | wanted | measured | met | |", "| --- | --- | ---: | --- | --- |"]
    for goal in json.loads(GOALS.read_text()):
        cells = verdict(goal, named.get(goal["row"]))
        note = goal.get("note", "") if cells[-1] == NOT_MET else ""
        lines.append("| " + " | ".join((goal["row"], *cells, note)) + " |")
    return lines


# What the README shows of them: what is measured in words, its rows (one or two languages), and the limit in words: what the machine
# does without kvtier, and no bound, as copies in another order can be faster.
_README = (
    ("acquire one block, Java / Python, p50", ("java_acquire_p50_us", "python_acquire_p50_us"), "two processes that spin on one word"),
    ("look up a prompt of 256 blocks, Java / Python, p50", ("java_lookup_256_p50_us", "python_lookup_256_p50_us"), "the same"),
    ("acquires a second, pipelined, Java", ("java_acquire_pipelined_per_s",), "bare records through a ring and back"),
    ("get 1 MiB blocks with copy, Java / Python", ("java_get_copy_1MiB_gbps", "python_get_copy_1MiB_gbps"), "memcpy"),
    ("put 1 MiB blocks with copy and checksum, Java / Python", ("java_put_copy_1MiB_gbps", "python_put_copy_1MiB_gbps"), "memcpy"),
    ("put 4 MiB blocks with copy and checksum, Java / Python", ("java_put_copy_4MiB_gbps", "python_put_copy_4MiB_gbps"), "memcpy"),
    ("get 4 KiB from Python, one at a time, against Mooncake's sidecar", ("python_get_4KiB_vs_mooncake",), "Mooncake"),
    ("idle daemon, of a core", ("idle_daemon_cpu_percent",), "a promise"),
    ("write 1 MiB blocks to SSD, checked", ("ssd_write_1MiB_gbps",), "`fio`, direct IO, the same depth"),
    ("read 1 MiB blocks from SSD, checked", ("ssd_read_1MiB_gbps",), "`fio`, direct IO, the same depth"),
    ("put 2 MiB blocks into S3", ("object_put_2MiB_gbps",), "a bare `S3AsyncClient`"),
    ("get 2 MiB blocks from S3", ("object_get_2MiB_gbps",), "a bare `S3AsyncClient`"),
    ("store 2,048 tokens of an 8B Llama from CPU tensors", ("engine_cpu_store_ms",), "LMCache"),
    ("retrieve them", ("engine_cpu_retrieve_ms",), "LMCache"),
)  # fmt: skip


def readme_block(figures: dict[str, Any], page: str) -> str:
    """The README's table, with the markers round it."""
    named = {name: row for name, row in by_name(figures["rows"]).items() if row["value"] is not None}
    lines = [
        BEGIN,
        f"{_days(figures)}, {figures['machine']}, `scripts/bench all` of revision {_revisions(figures)}, {_medians(figures)}{_parts(figures)}; [all of it]({page}).",
        "What it is compared with is measured in the same run, but for promises.",
        "",
        "| | kvtier | compared with | |",
        "| --- | ---: | ---: | --- |",
    ]
    missing = []
    for words, names, limit_words in _README:
        rows = [named[name] for name in names if name in named]
        if len(rows) < len(names):
            missing.append(words)
            continue
        values = " / ".join(amount(row["value"]) for row in rows) + f" {rows[0]['unit']}"
        limit = rows[0].get("limit")
        limit_shown = "" if limit is None else f"{amount(limit)} {rows[0]['unit']}"
        lines.append(f"| {words} | {values} | {limit_shown} | {limit_words} |")
    if missing:
        lines += ["", f"Not measured: {'; '.join(missing)}."]
    return "\n".join([*lines, END])


def _days(figures: dict[str, Any]) -> str:
    """The day of all parts, or the first and the last."""
    days = sorted({one["date"] for one in figures["measured"].values()})
    return " to ".join(dict.fromkeys((days[0], days[-1])))


def _revisions(figures: dict[str, Any]) -> str:
    """Those of all parts, each once, by the first day of each. They are named, as nothing tells which lie between two of them."""
    dated = sorted(figures["measured"].values(), key=lambda one: one["date"])
    *others, last = dict.fromkeys(one["revision"] for one in dated)
    return f"{', '.join(others)} and {last}" if others else str(last)


def _parts(figures: dict[str, Any]) -> str:
    """Of how many parts there are figures; nothing where it is all of them."""
    measured, all_parts = figures["measured"].keys(), figures["measured"].keys() | figures["failed"].keys()
    return f", {len(measured)} of {len(all_parts)} parts" if len(measured) < len(all_parts) else ""


def _medians(figures: dict[str, Any]) -> str:
    turns = [one["turns"] for one in figures["measured"].values()]
    least, most = min(turns), max(turns)
    return f"median of {most} turn{'s' * (most > 1)}" if least == most else f"medians of {least} to {most} turns"


def page_of(readme: str) -> str | None:
    """The page that a README's table is of; none where it has no table yet."""
    _, _, rest = readme.partition(BEGIN)
    found = re.search(r"\[all of it\]\(([^)]+)\)", rest.partition(END)[0])
    return found and found[1]


def with_block(text: str, block: str) -> str:
    """The README with its table taken out and this one put in."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no place for the figures: expected the lines '{BEGIN}' and '{END}'")
    return before + block + after


# ---- curves

# Title, what is counted along the bottom, unit, and the curves: a name, the row's name with {} in the place of the amount, and its field.
_Curve = tuple[str, str, str]
CURVES: tuple[tuple[str, str, str, str, tuple[str, ...], tuple[_Curve, ...]], ...] = (
    (
        "clients-rate", "Leases a second, all clients together", "clients", "1/s", ("1", "2", "4", "8", "16"),
        (("acquires", "scaling_clients_{}_acquire_per_s", "value"),),
    ),
    (
        "clients-latency", "A lease, as each client sees it", "clients", "us", ("1", "2", "4", "8", "16"),
        (("p50", "scaling_clients_{}_acquire_p50_us", "value"), ("p99", "scaling_clients_{}_acquire_p99_us", "value")),
    ),
    (
        "blocks", "Finding a block", "blocks in the directory", "ns", ("1K", "10K", "100K", "1M", "10M"),
        (
            ("hit", "directory_{}_find_hit_ns", "value"), ("miss", "directory_{}_find_miss_ns", "value"),
            ("a random access", "directory_{}_random_access_ns", "value"),
        ),
    ),
    (
        "sizes", "Copies of blocks", "block size", "GB/s", ("4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB"),
        (
            ("get", "scaling_size_{}_get_gbps", "value"), ("put", "scaling_size_{}_put_gbps", "value"),
            ("memcpy, as get", "scaling_size_{}_get_gbps", "limit"), ("memcpy, as put", "scaling_size_{}_put_gbps", "limit"),
        ),
    ),
    (
        "directories", "Blocks through SSD directories of one disk", "directories", "GB/s", ("1", "2", "4", "8"),
        (
            ("stored", "scaling_directories_{}_stored_gbps", "value"), ("got", "scaling_directories_{}_get_gbps", "value"),
            ("fio's writes", "scaling_directories_{}_stored_gbps", "limit"),
        ),
    ),
)  # fmt: skip

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def curve_svg(title: str, along: str, unit: str, places: tuple[str, ...], curves: list[tuple[str, list[float | None]]]) -> str:
    """Curves over evenly spaced places, from zero up, as SVG."""
    width, height, left, right, top, bottom = 720, 380, 90, 560, 44, 320
    highest = max(value for _, points in curves for value in points if value is not None)
    step = 10 ** math.floor(math.log10(highest)) if highest > 0 else 1.0
    step = next(step * share for share in (0.2, 0.5, 1.0, 2.0) if highest <= 6 * step * share)
    most = step * max(1, math.ceil(highest / step))

    def x(place: int) -> float:
        """Where a place lies."""
        return left + (right - left) * place / max(1, len(places) - 1)

    def y(value: float) -> float:
        """Where a value lies."""
        return bottom - (bottom - top) * value / most

    parts = [
        svg.text((left + right) / 2, 24, f"{title}, {unit}", text_anchor="middle", font_size=15),
        svg.text((left + right) / 2, bottom + 44, along, text_anchor="middle"),
    ]
    for number in range(round(most / step) + 1):
        value = number * step
        parts.append(svg.line((left, y(value)), (right, y(value)), "#ddd"))
        parts.append(svg.text(left - 8, y(value) + 4, f"{value:,.6g}", text_anchor="end"))
    for place, name in enumerate(places):
        parts.append(svg.text(x(place), bottom + 20, name, text_anchor="middle"))
    for number, (name, points) in enumerate(curves):
        known = [(x(place), y(value)) for place, value in enumerate(points) if value is not None]
        parts += svg.curve(known, _COLOURS[number], 2, 3)
        parts.append(svg.text(right + 16, top + 16 + 20 * number, name, fill=_COLOURS[number]))
    return svg.document(width, height, 13, parts)


def curves_of(rows: list[Row]) -> dict[str, str]:
    """The SVG of each plot that has at least two places measured, by its name."""
    named = by_name(rows)
    drawn = {}
    for name, title, along, unit, places, curves in CURVES:
        lines = [(words, [named.get(row.format(place), {}).get(field) for place in places]) for words, row, field in curves]
        lines = [(words, points) for words, points in lines if sum(point is not None for point in points) >= 2]
        if lines:
            drawn[name] = curve_svg(title, along, unit, places, lines)
    return drawn


# ---- the page


def page(figures: dict[str, Any], name: str) -> str:
    """All figures, the goals, and the curves, which lie beside the page as `NAME-CURVE.svg`."""
    lines = [
        f"# {_days(figures)}: all benchmarks, {figures['machine']}",
        "",
        f"Written by `scripts/bench all`, from the JSON beside it{_parts(figures)}. [What the rows mean](README.md).",
        "",
        "## Goals",
        "",
        *goals_table(figures["rows"]),
        "",
    ]
    for words, is_measured in (("Not measured:", False), ("Not measured in each turn:", True)):
        parts = [f"- `{part}`: {why}" for part, why in figures["failed"].items() if (part in figures["measured"]) == is_measured]
        if parts:
            lines += [words, "", *parts, ""]
    drawn = curves_of(figures["rows"])
    if drawn:
        lines += ["## How cost grows", ""]
        lines += [f"![{curve}]({name}-{curve}.svg)" for curve in drawn]
        lines.append("")
    for part, how in figures["measured"].items():
        rows = [row for row in figures["rows"] if row["part"] == part]
        medians = _medians({"measured": {part: how}})
        lines += [f"## {part}", "", f"{how['date']}, `{how['command']}` of revision {how['revision']}, {medians}.", "", *table(rows), ""]
        fewer = [f"- `{row['name']}`: {row['turns']}" for row in rows if 0 < row["turns"] != how["turns"]]
        if fewer:
            lines += ["Rows of another number of turns:", "", *fewer, ""]
    return "\n".join(lines)


def render(file: Path, readme: Path | None) -> list[Path]:
    """Writes the page and its curves beside a file of figures, and a README's table; says what was written."""
    figures = json.loads(file.read_text())
    name = file.stem
    written = [file.with_suffix(".md")]
    written[0].write_text(page(figures, name))
    # A curve of an earlier file may be one of which nothing was measured this time.
    for curve, *_ in CURVES:
        file.with_name(f"{name}-{curve}.svg").unlink(missing_ok=True)
    for curve, drawing in curves_of(figures["rows"]).items():
        written.append(file.with_name(f"{name}-{curve}.svg"))
        written[-1].write_text(drawing)
    if readme is not None:
        readme.write_text(with_block(readme.read_text(), readme_block(figures, os.path.relpath(written[0], readme.parent))))
        written.append(readme)
    return written
