"""The programs that scripts start need only what their environments have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.shared.checkout import ROOT

PLACES = (ROOT, ROOT / "client-py" / "testing")
STARTED = re.compile(r'"\$PYTHON3" -P -m ([\w.]+)')


def started() -> list[tuple[str, str]]:
    """The scripts with the modules that they start in a Python without the project's client."""
    found = []
    for script in sorted((ROOT / "scripts").iterdir()):
        if script.is_file():
            found += [(script.name, module) for module in STARTED.findall(script.read_text(errors="replace"))]
    return found


def file_of(module: str) -> Path | None:
    path = Path(*module.split("."))
    tried = (place / name for place in PLACES for name in (path.with_suffix(".py"), path / "__init__.py"))
    return next((file for file in tried if file.is_file()), None)


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports as it is loaded."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_started_areFound() -> None:
    assert ("engine-check", "checks.engines.sglang") in started()


@pytest.mark.parametrize(("script", "module"), started())
def test_moduleInPlainPython_doesNotNeedTheClient(script: str, module: str) -> None:
    way = {module: script}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        assert one.split(".")[0] != "kvtier", f"scripts/{script} starts {module} with a plain Python, but {way[one]} imports {one}"
        file = file_of(one)
        for name in imported(file) if file is not None else ():
            if name not in way:
                way[name] = one
                waiting.append(name)
