"""The parts of scripts/metrics-check: some work for a daemon, a scrape, and whether the series that files use are in it."""

import re
import sys
import urllib.request

METRIC = re.compile(r"\b(?:kvtier|process|jvm)_[a-z0-9_]+")
SERIES = re.compile(rf"(?P<name>{METRIC.pattern}){{(?P<labels>[^}}]*)}}")
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')


def work(socket: str) -> None:
    """Puts blocks and gets them again, and some that are not there."""
    from kvtier import Client

    with Client(socket) as client:
        namespace = client.namespace("metrics-check", block_bytes=65536)
        keys = [number.to_bytes(16, "big") for number in range(64)]
        namespace.put(keys[:32], bytes(32 * 65536))
        namespace.get(keys, bytearray(64 * 65536))
    print("put 32 blocks, asked for 64")


def labels_of(text: str) -> dict[str, str]:
    """The labels with literal values, but for those that Prometheus adds and those that a variable of a dashboard gives."""
    return {name: value for name, value in LABEL.findall(text) if name not in ("job", "instance") and "$" not in value}


def names(metrics: str, files: list[str]) -> int:
    """Tells which metrics, and which values of labels, the files use that the scrape lacks."""
    known: dict[str, list[dict[str, str]]] = {}
    with open(metrics) as scrape:
        for line in scrape:
            if not line.startswith("#"):
                name = re.split(r"[{ ]", line)[0]
                known.setdefault(name, []).append(labels_of(line[len(name) :]))
    failed = 0
    for file in files:
        with open(file) as opened:
            # In JSON quotes are escaped.
            text = opened.read().replace('\\"', '"')
        # Names of recording rules have colons, those of alerts' texts stand in quotes without an underscore.
        used = set(METRIC.findall(text))
        missing = sorted(used - known.keys())
        for series in SERIES.finditer(text):
            wanted = labels_of(series["labels"])
            if series["name"] in known and not any(wanted.items() <= labels.items() for labels in known[series["name"]]):
                missing.append(series[0])
        print(f"{file}: {len(used)} metrics, " + (f"not in the scrape: {', '.join(missing)}" if missing else "all in the scrape"))
        failed |= bool(missing)
    return int(failed)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["work", socket]:
            work(socket)
        case ["scrape", url]:
            with urllib.request.urlopen(url, timeout=10) as answer:
                sys.stdout.write(answer.read().decode())
        case ["names", metrics, *files] if files:
            return names(metrics, files)
        case _:
            print("usage: python -m checks.monitoring.metrics work SOCKET | scrape URL | names METRICS FILE...", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
