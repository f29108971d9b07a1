"""The figures of all benchmarks of one machine: their median over the turns, as a page, as curves, and as the README's table.

A file of figures is `{"date", "machine", "revision", "command", "turns", "rows", "failed"}`: `rows` as `--json` of
`scripts/bench` has them, each with the `part` that measured it; `failed` says of a part how it ended.
"""

import json
import math
import os
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from markdown import amount, table

BEGIN = "<!-- figures of scripts/bench all: do not edit -->"
END = "<!-- end of figures -->"
GOALS = Path(__file__).with_name("goals.json")

Row = dict[str, Any]


def median_rows(turns: Iterable[list[Row]]) -> list[Row]:
    """Each row once, in the order in which it was first seen: medians of value and limit, and of the turns' own ratios.

    A row without a value in some turns keeps those that it has.
    """
    by_name: dict[str, list[Row]] = {}
    for rows in turns:
        for row in rows:
            by_name.setdefault(row["name"], []).append(row)
    merged = []
    for same in by_name.values():
        measured = [row for row in same if row["value"] is not None]
        row = dict((measured or same)[0])
        for field in ("value", "limit", "ratio"):
            values = [one[field] for one in measured if one.get(field) is not None]
            row[field] = statistics.median(values) if values else None
        row["turns"] = len(measured)
        merged.append(row)
    return merged


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
    return wanted, f"{have:.3g}", "yes" if holds(have, goal[kind]) else "**no**"


def goals_table(rows: list[Row]) -> list[str]:
    """A line a goal of goals.json; of one that is not met also its note: what it lacks, and what would close it."""
    by_name = {row["name"]: row for row in rows}
    lines = ["| goal | wanted | measured | met | |", "| --- | --- | ---: | --- | --- |"]
    for goal in json.loads(GOALS.read_text()):
        cells = verdict(goal, by_name.get(goal["row"]))
        note = goal.get("note", "") if "no" in cells[-1] else ""
        lines.append("| " + " | ".join((goal["row"], *cells, note)) + " |")
    return lines


# What the README shows of them: what is measured in words, its rows (one or two languages), and the limit in words.
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
    by_name = {row["name"]: row for row in figures["rows"] if row["value"] is not None}
    lines = [
        BEGIN,
        f"{figures['date']}, {figures['machine']}, `{figures['command']}`, median of {figures['turns']} turns; [all of it]({page}).",
        "Every limit is measured in the same run.",
        "",
        "| | kvtier | limit | |",
        "| --- | ---: | ---: | --- |",
    ]
    for words, names, limit_words in _README:
        rows = [by_name[name] for name in names if name in by_name]
        if len(rows) == len(names):
            values = " / ".join(amount(row["value"]) for row in rows) + f" {rows[0]['unit']}"
            limit = rows[0].get("limit")
            limit_shown = "" if limit is None else f"{amount(limit)} {rows[0]['unit']}"
            lines.append(f"| {words} | {values} | {limit_shown} | {limit_words} |")
    return "\n".join([*lines, END])


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
    values = [value for _, points in curves for value in points if value is not None]
    highest = max(values)
    step = 10 ** math.floor(math.log10(highest)) if highest > 0 else 1.0
    step = next(step * share for share in (0.2, 0.5, 1.0, 2.0) if highest <= 6 * step * share)
    most = step * math.ceil(highest / step)

    def x(place: int) -> float:
        """Where a place lies."""
        return left + (right - left) * place / max(1, len(places) - 1)

    def y(value: float) -> float:
        """Where a value lies."""
        return bottom - (bottom - top) * value / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{(left + right) / 2}" y="24" text-anchor="middle" font-size="15">{title}, {unit}</text>',
        f'<text x="{(left + right) / 2}" y="{bottom + 44}" text-anchor="middle">{along}</text>',
    ]
    for line in range(round(most / step) + 1):
        value = line * step
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    for place, name in enumerate(places):
        parts.append(f'<text x="{x(place):.1f}" y="{bottom + 20}" text-anchor="middle">{name}</text>')
    for number, (name, points) in enumerate(curves):
        colour = _COLOURS[number]
        known = [(x(place), y(value)) for place, value in enumerate(points) if value is not None]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in known)}"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in known]
        parts.append(f'<text x="{right + 16}" y="{top + 16 + 20 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def curves_of(rows: list[Row]) -> dict[str, str]:
    """The SVG of each plot that has at least two places measured, by its name."""
    by_name = {row["name"]: row for row in rows}
    drawn = {}
    for name, title, along, unit, places, curves in CURVES:
        lines = [(words, [by_name.get(row.format(place), {}).get(field) for place in places]) for words, row, field in curves]
        lines = [(words, points) for words, points in lines if sum(point is not None for point in points) >= 2]
        if lines:
            drawn[name] = curve_svg(title, along, unit, places, lines)
    return drawn


# ---- the page


def page(figures: dict[str, Any], name: str) -> str:
    """All figures, the goals, and the curves, which lie beside the page as `NAME-CURVE.svg`."""
    lines = [
        f"# {figures['date']}: all benchmarks, {figures['machine']}",
        "",
        f"`{figures['command']}` of revision {figures['revision']}, median of {figures['turns']} turns of each part, the parts in turn. "
        "[What the rows mean](README.md). Written by that command, from the JSON beside it.",
        "",
        "## Goals",
        "",
        *goals_table(figures["rows"]),
        "",
    ]
    if figures["failed"]:
        lines += ["Not measured:", ""]
        lines += [f"- `{part}`: {why}" for part, why in figures["failed"].items()]
        lines.append("")
    drawn = curves_of(figures["rows"])
    if drawn:
        lines += ["## How cost grows", ""]
        lines += [f"![{curve}]({name}-{curve}.svg)" for curve in drawn]
        lines.append("")
    for part in dict.fromkeys(row["part"] for row in figures["rows"]):
        lines += [f"## {part}", "", *table([row for row in figures["rows"] if row["part"] == part]), ""]
    return "\n".join(lines)


def render(file: Path, readme: Path) -> list[Path]:
    """Writes the page and its curves beside a file of figures, and the README's table; says what was written."""
    figures = json.loads(file.read_text())
    name = file.stem
    written = [file.with_suffix(".md")]
    written[0].write_text(page(figures, name))
    for curve, svg in curves_of(figures["rows"]).items():
        written.append(file.with_name(f"{name}-{curve}.svg"))
        written[-1].write_text(svg)
    readme.write_text(with_block(readme.read_text(), readme_block(figures, os.path.relpath(written[0], readme.parent))))
    return [*written, readme]
