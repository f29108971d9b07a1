"""The daemon's use of the machine, sampled every minute, and its plot."""

import http.client
import json
import os
import re
import threading
import time
import urllib.error
from collections import Counter
from pathlib import Path
from typing import Any

from checks.soak import svg
from checks.soak.world import World

_METRIC = re.compile(r"^(\w+)(\{[^}]*\})? ([-+.\dEeNaInf]+)$", re.MULTILINE)
_POLLED = ("/api/v1/status", "/api/v1/history?seconds=300&step=5", "/api/v1/tiers", "/api/v1/errors", "/metrics")
MIB = 1 << 20


_SETTLED_S = 180
_GROWS_S = 600
GROWTH_MAX = {"descriptors": 200, "threads": 100}
"""The most by which a figure may grow from the first sample after the third minute to the last one. Clients, connections of the object
store and repairs come and go. A daemon that lived shortly is not judged."""

NO_ANSWER = (OSError, http.client.HTTPException, ValueError)
"""Errors of an HTTP request while the daemon is killed."""


class Poller(threading.Thread):
    """Asks for what a dashboard asks for, as often as it does."""

    _REST_S = 2.0

    def __init__(self, world: World) -> None:
        super().__init__(name="poller", daemon=True)
        self.polls = 0
        self.unanswered: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._world = world
        self._end = threading.Event()

    def run(self) -> None:
        try:
            while not self._end.wait(self._REST_S):
                self._world.note_drops()
                for path in _POLLED:
                    self._poll(path)
        except BaseException as failure:  # noqa: BLE001 - the main thread must hear of it
            self.failure = failure

    def _poll(self, path: str) -> None:
        try:
            self._world.http(path)
            self.polls += 1
        except NO_ANSWER as error:
            self.unanswered.update([str(error)])
            # 503 says that the index does not answer in time, as it may not on a machine that is busy.
            if isinstance(error, urllib.error.HTTPError) and error.code >= 500 and error.code != 503:
                self.errors.update([f"{path} was answered with {error.code}"])

    def close(self) -> None:
        self._end.set()
        self.join(30)


class Samples:
    """A line of JSON every minute."""

    def __init__(self, world: World, file: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        self._world = world
        self.file = file
        self._began = time.monotonic()
        self._next_s = 0.0

    def take_when_due(self, every_s: float = 60.0) -> None:
        elapsed_s = time.monotonic() - self._began
        if elapsed_s >= self._next_s:
            self._next_s = elapsed_s + every_s
            self.take()

    def take(self) -> None:
        try:
            pid = self._world.daemon.pid
            row = {
                "minute": round((time.monotonic() - self._began) / 60, 2),
                "life": self._world.life,
                "life_s": round(time.monotonic() - self._world.began),
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                **_of_status(Path(f"/proc/{pid}/status").read_text()),
                **_of_metrics(self._world.http("/metrics").decode()),
            }
        except (*NO_ANSWER, KeyError):
            return  # it is not there or does not answer at present; the next sample will have it
        self.rows.append(row)
        with self.file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")

    def longest_life(self) -> list[dict[str, Any]]:
        """The samples of the daemon that lived longest, without those of its first minute."""
        lives: dict[int, list[dict[str, Any]]] = {}
        for row in self.rows:
            lives.setdefault(row["life"], []).append(row)
        longest = max(lives.values(), key=lambda rows: rows[-1]["life_s"], default=[])
        return [row for row in longest if row["life_s"] >= 60] or longest


def growth_findings(rows: list[dict[str, Any]]) -> list[str]:
    """Findings where a daemon grew too much during one life."""
    settled = [row for row in rows if row["life_s"] >= _SETTLED_S]
    if not settled or settled[-1]["life_s"] - settled[0]["life_s"] < _GROWS_S:
        return []
    first, last = settled[0], settled[-1]
    return [
        f"the daemon that lived longest had {last[name]} {name} at its end, and {first[name]} after {first['life_s']} s"
        for name, most in GROWTH_MAX.items()
        if last[name] - first[name] > most
    ]


def _of_status(text: str) -> dict[str, float]:
    fields = dict(line.split(":", 1) for line in text.splitlines())
    mib = {name: round(int(fields[name].split()[0]) / 1024, 1) for name in ("VmRSS", "RssAnon", "RssShmem")}
    return {"threads": int(fields["Threads"]), "rss_mib": mib["VmRSS"], "rss_anon_mib": mib["RssAnon"], "rss_shared_mib": mib["RssShmem"]}


def _of_metrics(text: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, labels, value in _METRIC.findall(text):
        if name == "jvm_memory_used_bytes":
            name = "heap_mib" if 'area="heap"' in labels else "nonheap_mib"
        elif name == "jvm_buffer_memory_used_bytes":
            name = "direct_mib" if 'id="direct"' in labels else "mapped_mib"
        else:
            continue
        sums[name] = sums.get(name, 0.0) + float(value) / MIB
    return {name: round(value, 1) for name, value in sums.items()}


SERIES = ("descriptors", "threads", "rss_mib", "rss_anon_mib", "heap_mib", "nonheap_mib", "direct_mib", "mapped_mib")


def plot(rows: list[dict[str, Any]], faults: list[tuple[float, str]], title: str) -> str:
    """The samples as SVG: a panel each, with the starts of the daemon as lines and faults as ticks."""
    width, height, left, right, gap = 900, 90, 130, 20, 26
    panels = [name for name in SERIES if any(name in row for row in rows)]
    end: float = max([row["minute"] for row in rows] + [minute for minute, _ in faults] + [0.01])

    def x(minute: float) -> float:
        """The x coordinate of a moment."""
        return left + (width - left - right) * minute / end

    parts = [svg.text(left, 20, title, font_size=15)]
    for place, name in enumerate(panels):
        top = 36 + place * (height + gap)
        points = [(row["minute"], row["life"], row[name]) for row in rows if name in row]
        most = max(value for _, _, value in points) * 1.1 or 1.0
        parts.append(svg.frame((left, top), width - left - right, height, "#ccc"))
        parts.append(svg.text(left - 8, top + 14, name, text_anchor="end"))
        parts.append(svg.text(left - 8, top + 30, f"0 to {most:,.0f}", text_anchor="end", fill="#666"))
        for life in sorted({life for _, life, _ in points}):
            of_life = [(x(minute), top + height - height * value / most) for minute, at, value in points if at == life]
            parts += svg.curve(of_life, "#06c", 1.5, 1.8)
    bottom = 36 + len(panels) * (height + gap)
    for minute, name in faults:
        colour = "#c00" if "daemon" in name and name != "freeze_daemon" else "#999"
        parts.append(svg.line((x(minute), bottom), (x(minute), bottom + 14), colour))
    parts.append(svg.text(left - 8, bottom + 12, "faults", text_anchor="end"))
    words = f"0 to {end:.1f} minutes; red: the daemon is started anew, and a new line begins"
    parts.append(svg.text(left, bottom + 36, words, fill="#666"))
    return svg.document(width, bottom + 54, 12, parts)
