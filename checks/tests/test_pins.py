"""Versions of Python packages that the tests and scripts install."""

import re

from checks.shared.checkout import ROOT


def test_packagesThatSeveralInstall_haveOneVersion() -> None:
    for package in ("pyzmq", "msgspec"):
        pins = [
            re.findall(rf"{package}==([0-9.]+)", (ROOT / file).read_text())
            for file in ("client-py/pyproject.toml", "scripts/soak", "scripts/events-check")
        ]
        assert all(len(one) == 1 for one in pins) and len({one[0] for one in pins}) == 1, (package, pins)
