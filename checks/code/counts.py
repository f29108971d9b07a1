"""Adds up JUnit XML reports, names the tests that failed, and prints one line: N passed, M failed[, K skipped].

Usage: python -m checks.code.counts FAILED REPORT...

FAILED is 1 where a test runner failed; a failure that no report shows (a module that does not compile, a format
check) then counts as one.  A REPORT is an XML file or a folder of TEST-*.xml files; one that does not exist is
passed over.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

_NAMED_MAX = 40


def reports(arguments: list[str]) -> list[Path]:
    found: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            found.extend(sorted(path.glob("TEST-*.xml")))
        elif path.is_file():
            found.append(path)
    return found


def main(arguments: list[str]) -> int:
    passed = skipped = 0
    failures: list[str] = []
    for report in reports(arguments[1:]):
        for case in ET.parse(report).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failures.append(f"{case.get('classname', '')}.{case.get('name', '')}")
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    if arguments[0] != "0" and not failures:
        failures.append("a build, a format check or a test runner: see above")
    failed = len(failures)
    line = f"{passed} passed, {failed} failed"
    if skipped:
        line += f", {skipped} skipped"
    # The empty line: Maven may end with an escape code and no line break.
    print()
    for failure in failures[:_NAMED_MAX]:
        print(f"failed: {failure}")
    print(line)
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
