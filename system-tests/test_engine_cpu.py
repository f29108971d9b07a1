"""Calls of bench/engine_cpu.py fit the connector that it measures. The benchmark itself needs torch and vLLM."""

import ast
import contextlib
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import pytest
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.tensors import Tensor

from checks.shared.checkout import ROOT

BENCHMARK = ROOT / "bench" / "engine_cpu.py"


def calls_that_do_not_fit(source: str) -> tuple[set[str], list[str]]:
    """The calls of the client's own code that a source has, and what is wrong with them: their number and names of arguments are
    held against the signatures; of methods, those of what was made as `self.X = Class(...)`."""
    tree = ast.parse(source)
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("kvtier"):
            module = importlib.import_module(node.module)
            for name in node.names:
                known[name.asname or name.name] = getattr(module, name.name, None) or importlib.import_module(f"{node.module}.{name.name}")
    made = {
        ast.unparse(node.targets[0]): known[node.value.func.id]
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id in known
    }  # fmt: skip
    seen, problems = set(), []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        words = ast.unparse(call.func)
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        is_method = owner.startswith("self.") and owner in made
        if not is_method and words not in known:
            continue
        seen.add(words)
        target = getattr(made[owner], call.func.attr, None) if is_method and isinstance(call.func, ast.Attribute) else known.get(words)
        if target is None:
            problems.append(f"{call.lineno}: {words}: there is none")
            continue
        try:
            inspect.signature(target).bind(*[None] * (len(call.args) + is_method), **{str(one.arg): None for one in call.keywords})
        except TypeError as error:
            problems.append(f"{call.lineno}: {words}: {error}")
    return seen, problems


def test_benchmark_fitsTheConnector() -> None:
    seen, problems = calls_that_do_not_fit(BENCHMARK.read_text())
    assert problems == []
    assert seen >= {"Worker", "Scheduler", "Settings", "Plan", "Transfer", "Polled", "self.worker.start_stores", "self.worker.finished", "self.scheduler.matched"}


def test_callThatDoesNotFit_isTold() -> None:
    """Calls of an older connector are reported."""
    source = """
from kvtier.vllm._scheduler import Scheduler
from kvtier.vllm._worker import Worker
self.worker = Worker(region, settings, True, lambda: None)
scheduler = Scheduler(polled, [], 1, settings, 16)
self.worker.load_all(1)
"""
    seen, problems = calls_that_do_not_fit(source)
    assert seen == {"Worker", "Scheduler", "self.worker.load_all"}
    assert sorted(problems) == [
        "4: Worker: missing a required argument: 'event'", "5: Scheduler: missing a required argument: 'began'", "6: self.worker.load_all: there is none",
    ]  # fmt: skip


class Numbers(Tensor):
    """A tensor with the other methods that the benchmark calls."""

    def uniform_(self) -> "Numbers":
        self.array[:] = numpy.random.default_rng(1).integers(0, 1 << 16, self.array.shape)
        return self

    def clone(self) -> "Numbers":
        return Numbers(self.array.copy())

    def __getitem__(self, place: Any) -> "Numbers":
        return Numbers(self.array[place])

    def __setitem__(self, place: Any, value: int) -> None:
        self.array[place] = value


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, of few and small blocks, with numbers of NumPy for torch's."""
    torch: Any = ModuleType("torch")
    torch.bfloat16 = numpy.uint16
    torch.empty = lambda shape, dtype: Numbers(numpy.empty(shape, dtype))
    torch.equal = lambda one, other: bool((one.array == other.array).all())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "bench.engine_cpu", raising=False)
    made = importlib.import_module("bench.engine_cpu")
    for name, value in {"LAYERS": 2, "SHAPE": (2, 32, 16, 2, 8), "BLOCKS": 4, "TOKENS": 4 * 16, "BLOCK_BYTES": 2 * 2 * 16 * 2 * 8 * 2}.items():
        monkeypatch.setattr(made, name, value)
    yield made
    sys.modules.pop("bench.engine_cpu", None)


def sessions(daemon: Daemon) -> int:
    """The connections that the daemon has with its clients."""
    count = 0
    for link in Path(f"/proc/{daemon.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since they were listed
            count += link.readlink().name.startswith("socket:")
    return count


def test_round_isMeasured_andAllIsGivenBack(benchmark: Any, fresh_daemon: Daemon) -> None:
    before = sessions(fresh_daemon)
    with contextlib.closing(benchmark.Kvtier(fresh_daemon.socket_path)) as kvtier:
        assert sessions(fresh_daemon) > before
        for _ in range(3):
            taken = kvtier.round()
        assert taken.keys() == {"store", "retrieve", "lookup"} and all(value > 0 for value in taken.values())
    assert eventually(lambda: sessions(fresh_daemon) <= before)


def test_serverThatDoesNotStart_isNotLeftBehind(benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    popen = benchmark.subprocess.Popen

    def noted(*words: Any, **more: Any) -> Any:
        started.append(popen(*words, **more))
        return started[-1]

    monkeypatch.setattr(benchmark.subprocess, "Popen", noted)
    # Only the benchmark's clock is replaced: other threads of this process ask the time, too.
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(monotonic=iter([0.0, 200.0]).__next__, sleep=lambda seconds: None))
    server = tmp_path / "lmcache"
    server.write_text("#!/bin/sh\nexec sleep 600\n")
    server.chmod(0o755)
    with pytest.raises(SystemExit, match="did not start"):
        benchmark.LMCache(str(server), tmp_path)
    assert [one.poll() is not None for one in started] == [True]
