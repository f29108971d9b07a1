"""The version of the project. It is decided in pom.xml alone; all other places are written from there.

    python -m checks.documents.version            prints it, and fails where another place has another one
    python -m checks.documents.version --write    writes pom.xml's into all other places
    python -m checks.documents.version 1.2.3      changes pom.xml, then writes all other places
"""

import re
import sys
from pathlib import Path

from checks.documents.passages import documents
from checks.documents.problem import Problem
from checks.shared.checkout import ROOT

NUMBER = r"\d+\.\d+\.\d+(?:[a-z0-9.-]*[a-z0-9])?"
IN_POM = re.compile(rf"(<artifactId>kvtier-parent</artifactId>\s*<version>)({NUMBER})(</version>)")
# Files with the version. Groups of each expression: the text before the version, the version, the text after it.
PLACES = {
    "daemon/src/main/java/io/kvtier/daemon/Daemon.java": re.compile(rf'(String VERSION = ")({NUMBER})(")'),
    "client-py/src/kvtier/_connection.py": re.compile(rf'(^CLIENT_VERSION = ")({NUMBER})(")', re.MULTILINE),
    "client-py/pyproject.toml": re.compile(rf'(^version = ")({NUMBER})(")', re.MULTILINE),
    "server-py/pyproject.toml": re.compile(rf'(^version = ")({NUMBER})(")', re.MULTILINE),
    "packaging/helm/kvtier/Chart.yaml": re.compile(rf'(^(?:version|appVersion): "?)({NUMBER})("?$)', re.MULTILINE),
    "packaging/kubernetes/kvtier.yaml": re.compile(rf'(helm\.sh/chart: kvtier-|app\.kubernetes\.io/version: "|image: "?kvtier:)({NUMBER})()'),
    "packaging/compose.yaml": re.compile(rf"(:-kvtier:)({NUMBER})(\}})"),
}
# Names of packages in documents.
PACKAGE = re.compile(r"(\bkvtierd?[-_]|\bkvtier-client:)(\d+\.\d+\.\d+)(?=[-_ .`'<:]|$)()", re.MULTILINE)
# Documents about earlier versions.
OF_THE_PAST = ("CHANGELOG.md", "docs/benchmarks/", "docs/decisions/")


def version(root: Path = ROOT) -> str:
    """The version in pom.xml."""
    found = IN_POM.search((root / "pom.xml").read_text(encoding="utf-8"))
    if not found:
        raise SystemExit("pom.xml has no version of kvtier-parent")
    return found[2]


def places(root: Path) -> list[tuple[Path, re.Pattern[str]]]:
    """Every file with the version, and how to find it there."""
    found = [(root / file, pattern) for file, pattern in PLACES.items()]
    found += [(pom, IN_POM) for pom in sorted(root.glob("*/pom.xml"))]
    for document in documents(root):
        name = str(document.relative_to(root))
        if not name.startswith(OF_THE_PAST) and PACKAGE.search(document.read_text(encoding="utf-8")):
            found.append((document, PACKAGE))
    return found


def check(root: Path = ROOT) -> list[Problem]:
    """Every place has the version of pom.xml."""
    found = []
    expected = version(root)
    for file, pattern in places(root):
        name = str(file.relative_to(root))
        text = file.read_text(encoding="utf-8")
        matches = list(pattern.finditer(text))
        if not matches:
            found.append(Problem(name, 1, f"no version found, and {expected} was expected: run scripts/generate"))
        for match in matches:
            if match[2] != expected:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Problem(name, line, f"version {match[2]}, and pom.xml has {expected}: run scripts/generate"))
    return found


def write(root: Path = ROOT, new: str | None = None) -> list[str]:
    """Writes the version everywhere; returns the files that changed."""
    changed = []
    if new is not None:
        pom = root / "pom.xml"
        changed += _replace(pom, IN_POM, new, root)
    for file, pattern in places(root):
        changed += _replace(file, pattern, version(root), root)
    return changed


def _replace(file: Path, pattern: re.Pattern[str], number: str, root: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    written = pattern.sub(lambda match: match[1] + number + match[3], text)
    if written == text:
        return []
    file.write_text(written, encoding="utf-8")
    return [str(file.relative_to(root))]


def main(arguments: list[str]) -> int:
    if arguments and arguments != ["--write"]:
        if len(arguments) != 1 or not re.fullmatch(NUMBER, arguments[0]):
            print(f"version: expected --write or a version such as 1.2.3, found '{' '.join(arguments)}'", file=sys.stderr)
            return 2
        print("\n".join(write(new=arguments[0])))
        return 0
    if arguments:
        print("\n".join(write()))
        return 0
    problems = check()
    print("\n".join(map(str, problems)) or version())
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
