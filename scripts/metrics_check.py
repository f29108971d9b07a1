"""The parts of scripts/metrics-check: some work for a daemon, a scrape, and whether the metrics that files use are in it."""

import re
import sys
import urllib.request

METRIC = re.compile(r"\b(?:kvtier|process|jvm)_[a-z0-9_]+")


def work(socket: str) -> None:
    """Puts blocks and gets them again, and some that are not there."""
    from kvtier import Client

    with Client(socket) as client:
        namespace = client.namespace("metrics-check", block_bytes=65536)
        keys = [number.to_bytes(16, "big") for number in range(64)]
        namespace.put(keys[:32], bytes(32 * 65536))
        namespace.get(keys, bytearray(64 * 65536))
    print("put 32 blocks, asked for 64")


def names(metrics: str, files: list[str]) -> int:
    """Tells which metrics the files use that the scrape lacks."""
    with open(metrics) as scrape:
        known = {re.split(r"[{ ]", line)[0] for line in scrape if not line.startswith("#")}
    failed = 0
    for file in files:
        with open(file) as text:
            # Names of recording rules have colons, those of alerts' texts stand in quotes without an underscore.
            used = set(METRIC.findall(text.read()))
        missing = sorted(used - known)
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
            print("usage: metrics_check.py work SOCKET | scrape URL | names METRICS FILE...", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
