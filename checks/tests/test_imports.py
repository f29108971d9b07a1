"""Imports of Python code: between folders only the allowed ones, in programs only what they have, and no changes of `sys.path`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.shared.checkout import ROOT

OURS = {"kvtier", "kvtier_testing", "kvtierd", "checks", "bench"}
FOLDERS = {
    "client-py/src": {"kvtier"},
    "client-py/testing": {"kvtier", "kvtier_testing"},
    "client-py/tests": {"kvtier", "kvtier_testing"},
    "server-py/src": {"kvtierd"},
    "checks": {"kvtier", "kvtier_testing", "checks"},
    "bench": {"kvtier", "kvtier_testing", "checks", "bench"},
    "system-tests": {"kvtier", "kvtier_testing", "checks", "bench"},
}
"""Each folder of Python code, with the packages of ours that it may use."""


def files(folder: str) -> list[Path]:
    """The Python files of a folder, build outputs left out."""
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not {"target", "build"} & set(path.relative_to(ROOT).parts)]


def imported(code: str) -> Iterator[str]:
    """The first names of all modules that code imports, also within strings that are programs of their own."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nimport " in node.value:
            try:
                yield from imported(node.value)
            except SyntaxError:
                continue


def imported_at_load(file: Path) -> Iterator[str]:
    """The modules that a file imports when it is loaded."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def file_of(module: str) -> Path | None:
    """The file of a module of programs that scripts start; None for modules of others."""
    path = Path(*module.split("."))
    tried = (place / name for place in (ROOT, ROOT / "client-py/testing") for name in (path.with_suffix(".py"), path / "__init__.py"))
    return next((file for file in tried if file.is_file()), None)


def started() -> list[tuple[str, str]]:
    """The scripts with the modules that they start in a Python without the project's client."""
    scripts = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()]
    return [(path.name, module) for path in scripts for module in re.findall(r'"\$PYTHON3" -P -m ([\w.]+)', path.read_text(errors="replace"))]


def changes_path(code: str) -> list[int]:
    """The lines that do anything with `sys.path` but read it."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            words = ast.unparse(node.func)
            if words.startswith("sys.path.") or words.endswith("syspath_prepend") or (words.endswith("setattr") and "sys, 'path'" in ast.unparse(node)):
                found.append(node.lineno)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(ast.unparse(target).startswith("sys.path") for target in targets):
                found.append(node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nsys.path." in node.value:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_usesOnlyWhatItMay(folder: str) -> None:
    paths = files(folder)
    assert paths, folder
    wrong = {}
    for path in paths:
        used = set(imported(path.read_text())) & OURS
        if surplus := used - FOLDERS[folder]:
            wrong[str(path.relative_to(ROOT))] = surplus
    assert not wrong


@pytest.mark.parametrize("folder", FOLDERS)
def test_path_isChangedNowhere(folder: str) -> None:
    # This file has examples.
    paths = [path for path in files(folder) if path != Path(__file__)]
    assert {str(path.relative_to(ROOT)): lines for path in paths if (lines := changes_path(path.read_text()))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.path.append('x')", "import sys\nsys.path[:0] = ['x']", "import sys\nsys.path += ['x']", "monkeypatch.syspath_prepend('x')",
        "monkeypatch.setattr(sys, 'path', ['x'])", "CHILD = '''\nimport sys\nsys.path.insert(0, sys.argv[1])\n'''",
    ],
)  # fmt: skip
def test_change_ofThePath_isFound(code: str) -> None:
    assert changes_path(code)


def test_import_inAProgramThatATestStarts_isFound() -> None:
    assert set(imported("CHILD = '''\nimport sys\nfrom checks.soak import hand\n'''")) == {"sys", "checks"}


def test_clientTests_reachIntoNoOtherFolder() -> None:
    for path in files("client-py/tests"):
        if any(words in path.read_text() for words in ("parents[2]", "parent.parent.parent")):
            pytest.fail(f"{path.relative_to(ROOT)} reaches out of the client's folder: move it to system-tests")


def test_started_modulesOfScripts_areFound() -> None:
    assert ("engine-check", "checks.engines.sglang") in started()


@pytest.mark.parametrize(("script", "module"), started())
def test_moduleInPlainPython_doesNotNeedTheClient(script: str, module: str) -> None:
    importer = {module: script}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        assert one.split(".")[0] != "kvtier", f"scripts/{script} starts {module} in a Python without the client, but {importer[one]} imports {one}"
        file = file_of(one)
        for name in imported_at_load(file) if file is not None else ():
            if name not in importer:
                importer[name] = one
                waiting.append(name)
