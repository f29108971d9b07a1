"""NOTICE names every library that the packages bundle, in the version that they bundle, and nothing else."""

import re
from pathlib import Path

from checks.documents.problem import Problem

ENTRY = re.compile(r"^  [\w.-]+:([\w.-]+) (\S+)$", re.MULTILINE)
REMEDY = "run scripts/generate notice"


def bundled(root: Path) -> set[str]:
    """The jars of the daemon and the command line without our own; none before the first build."""
    jars = {jar.stem for module in ("daemon", "cli") for jar in (root / module / "target/lib").glob("*.jar")}
    return {jar for jar in jars if not jar.startswith("kvtier-")}


def check(root: Path) -> list[Problem]:
    """Compares NOTICE with what the last build gathered."""
    jars = bundled(root)
    if not jars:
        return []
    entries = {f"{name}-{version}" for name, version in ENTRY.findall((root / "NOTICE").read_text(encoding="utf-8"))}
    found = []
    for jar in sorted(jars):
        if not any(jar == entry or jar.startswith(entry + "-") for entry in entries):
            found.append(Problem("NOTICE", 1, f"{jar}.jar is bundled and not named: {REMEDY}"))
    for entry in sorted(entries):
        if not any(jar == entry or jar.startswith(entry + "-") for jar in jars):
            found.append(Problem("NOTICE", 1, f"{entry} is named and not bundled: {REMEDY}"))
    return found
