"""Runs every check; one line for each problem."""

import sys

from checks import protocol
from checks.documents import benchmarks, decisions, links, notice, prose, version
from checks.packages import chart
from checks.shared.checkout import ROOT


def main() -> int:
    problems = [
        *prose.check(ROOT, prose.phrases()),
        *links.check(ROOT),
        *decisions.check(ROOT),
        *benchmarks.check(ROOT),
        *version.check(ROOT),
        *notice.check(ROOT),
        *protocol.check(ROOT),
        *chart.check(),
    ]
    for problem in problems:
        print(problem)
    print(f"checks: {len(problems)} problems" if problems else "checks: documents, links, benchmarks, versions, NOTICE, the protocol and the Helm chart are right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
