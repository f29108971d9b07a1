"""The version stands in several files, as each tool wants it: it is the same in all, and pom.xml's is the one to change first."""

import re
import tomllib

from checks.shared.checkout import ROOT


def pom_version() -> str:
    found = re.search(r"<artifactId>kvtier-parent</artifactId>\s*<version>([^<]+)</version>", (ROOT / "pom.xml").read_text())
    assert found
    return found[1]


def test_all_are_the_same() -> None:
    versions = {
        str(project): tomllib.loads((ROOT / project / "pyproject.toml").read_text())["project"]["version"]
        for project in ("client-py", "server-py")
    }
    daemon = (ROOT / "daemon/src/main/java/io/kvtier/daemon/Daemon.java").read_text()
    versions["Daemon.VERSION"] = re.findall(r'String VERSION = "([^"]+)"', daemon)[0]
    for pom in sorted(ROOT.glob("*/pom.xml")):
        parent = re.search(r"<parent>.*?<version>([^<]+)</version>", pom.read_text(), re.DOTALL)
        assert parent
        versions[pom.parent.name] = parent[1]
    assert set(versions.values()) == {pom_version()}, versions


def test_packagesThatSeveralInstall_areTheSame() -> None:
    """The tests' pins stand once more where scripts have environments of their own."""
    for package in ("pyzmq", "msgspec"):
        pins = [
            re.findall(rf"{package}==([0-9.]+)", (ROOT / file).read_text())
            for file in ("client-py/pyproject.toml", "scripts/soak", "scripts/events-check")
        ]
        assert all(len(one) == 1 for one in pins) and len({one[0] for one in pins}) == 1, (package, pins)
