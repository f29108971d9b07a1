"""Checks the metrics of a daemon that has worked a little: against Prometheus' rules, our alerts and our dashboard."""

import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from kvtier_testing import process

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments, run_tool
from kvtier import Client

METRIC = re.compile(r"\b(?:kvtier|process|jvm)_[a-z0-9_]+")
SERIES = re.compile(rf"(?P<name>{METRIC.pattern}){{(?P<labels>[^}}]*)}}")
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')


def work(socket: Path) -> None:
    """Puts blocks and gets them again, and some that are not there."""
    with Client(socket) as client:
        namespace = client.namespace("metrics-check", block_bytes=65536)
        keys = [number.to_bytes(16, "big") for number in range(64)]
        namespace.put(keys[:32], bytes(32 * 65536))
        namespace.get(keys, bytearray(64 * 65536))
        lossy = client.namespace("metrics-check/fp8", block_bytes=65536, encoding="fp8 bf16 4096")
        lossy.put(keys[:8], bytes(8 * 65536))
        lossy.flush(timeout=60)
    print("put 40 blocks, 8 of them with a loss, and asked for 64")


def labels_of(text: str) -> dict[str, str]:
    """The labels with literal values, but for those that Prometheus adds and those that a variable of a dashboard gives."""
    return {name: value for name, value in LABEL.findall(text) if name not in ("job", "instance") and "$" not in value}


def names(scrape: str, files: list[Path]) -> int:
    """Tells which metrics, and which values of labels, the files use that the scrape lacks."""
    known: dict[str, list[dict[str, str]]] = {}
    for line in scrape.splitlines():
        if not line.startswith("#"):
            name = re.split(r"[{ ]", line)[0]
            known.setdefault(name, []).append(labels_of(line[len(name) :]))
    failed = 0
    for file in files:
        # In JSON quotes are escaped.
        text = file.read_text().replace('\\"', '"')
        # Names of recording rules have colons, and names in texts of alerts have no underscore: neither matches.
        used = set(METRIC.findall(text))
        missing = sorted(used - known.keys())
        for series in SERIES.finditer(text):
            wanted = labels_of(series["labels"])
            if series["name"] in known and not any(wanted.items() <= labels.items() for labels in known[series["name"]]):
                missing.append(series[0])
        print(f"{file.name}: {len(used)} metrics, " + (f"not in the scrape: {', '.join(missing)}" if missing else "all in the scrape"))
        failed |= bool(missing)
    return int(failed)


def promtool(*words: str, given: str | None = None) -> None:
    """Runs promtool; where it finds something wrong, its words are told and the check ends."""
    print(f"promtool {' '.join(words[:2])}", flush=True)
    if subprocess.run(["promtool", *words], input=given, text=True, check=False).returncode:
        raise SystemExit(f"metrics-check: promtool {' '.join(words[:2])} failed; its reasons are above")


def main() -> int:
    parser = Arguments(prog="scripts/metrics-check", description=__doc__)
    parser.parse_args()
    if shutil.which("promtool") is None:
        sys.exit("metrics-check: promtool is missing: apt-get install --no-install-recommends prometheus, or from Prometheus' own packages")
    rules = ROOT / "config" / "prometheus" / "kvtier.rules.yml"
    with tempfile.TemporaryDirectory(prefix="kvtier-") as name:
        folder = Path(name)
        (folder / "ssd").mkdir()
        settings = {
            "host.bytes": "64MiB", "host.slab_bytes": "8MiB", "host.keep": 0, "host.policy": "auto",
            "ssd.bytes": "256MiB", "ssd.directory": folder / "ssd", "ssd.admission": "all",
            "object.store": "folder", "object.folder": folder / "objects", "object.directory": folder / "object",
            "events.endpoint": "tcp://127.0.0.1:*", "grpc.enabled": "false", "http.port": 0,
            "nodes.peers": "127.0.0.1:1", "nodes.security": "plaintext_without_tokens",
        }  # fmt: skip
        command = process.command_of([str(ROOT / "scripts" / "kvtierd")], folder / "sock", settings)
        daemon, line = process.start(command, folder / "log", SystemExit)
        try:
            work(folder / "sock")
            with urllib.request.urlopen(f"http://{process.http_address(line)}/metrics", timeout=10) as answer:
                scrape = answer.read().decode()
        finally:
            process.stop(daemon)
    promtool("check", "metrics", given=scrape)
    promtool("check", "rules", str(rules))
    promtool("test", "rules", str(rules.with_name("kvtier.rules.test.yml")))
    return names(scrape, [rules, ROOT / "config" / "grafana" / "kvtier.json"])


if __name__ == "__main__":
    run_tool(main)
