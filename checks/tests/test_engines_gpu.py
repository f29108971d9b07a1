"""The arguments and the failures of the comparisons of engines on a GPU. The other parts of the programs need a GPU."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checks.engines import gpu as engine_gpu
from checks.engines import parts, sglang_gpu, sglang_ttft


def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A packed engine that does this; returns the folder for what is found."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "ttft.py").write_text(script)
    for module in (engine_gpu, parts):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "out"


@pytest.mark.parametrize("only", ["typo", "none,begin", "note", "ttft", "part", ""])
def test_part_thatIsNone_isWrongUsage(only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        engine_gpu.main(["--out", str(tmp_path), "--only", only])
    assert ended.value.code == 2
    assert "link, none, offloading, lmcache, kvtier, pairs, encodings, layers, layers_graphs, batches, batches_eager, ssd" in capsys.readouterr().err


def test_engineThatFails_isTold_alsoByTheExitCode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, "import sys; print('no CUDA'); sys.exit(3)")
    assert engine_gpu.main(["--out", str(out), "--only", "none"]) == 1
    found = json.loads((out / "found.json").read_text())
    assert found["1-none"]["code"] == 3 and "no CUDA" in found["1-none"]["log"]


def test_partThatCannotStart_isTold_alsoByTheExitCode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, "")
    assert engine_gpu.main(["--out", str(out), "--only", "kvtier,kvtier"]) == 1
    found = json.loads((out / "found.json").read_text())
    assert list(found) == ["1-kvtier failed", "2-kvtier failed"]


WRITES = "import json, sys; open(sys.argv[sys.argv.index('--out') + 1], 'w').write(json.dumps({'rows': [{'tokens': 1}]}))"


@pytest.mark.parametrize("script", ["import sys; sys.exit(3)", WRITES + "; sys.exit(3)"])
def test_engineThatFails_hasNoRows_andNoneOfAnEarlierRun(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, WRITES)
    assert engine_gpu.main(["--out", str(out), "--only", "none"]) == 0
    (tmp_path / "engine" / "ttft.py").write_text(script)
    assert engine_gpu.main(["--out", str(out), "--only", "none"]) == 1
    found = json.loads((out / "found.json").read_text())
    assert found["1-none"]["code"] == 3 and "rows" not in found["1-none"]


def test_engineThatWritesNothing_hasNoRowsOfAnEarlierRun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, WRITES)
    assert engine_gpu.main(["--out", str(out), "--only", "none"]) == 0
    (tmp_path / "engine" / "ttft.py").write_text("")
    engine_gpu.main(["--out", str(out), "--only", "none"])
    assert "rows" not in json.loads((out / "found.json").read_text())["1-none"]


def test_partThatComesAgain_keepsWhatItFoundBefore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, WRITES)
    assert engine_gpu.main(["--out", str(out), "--only", "none,none"]) == 0
    found = json.loads((out / "found.json").read_text())
    assert [(name, one["rows"]) for name, one in found.items()] == [("1-none", [{"tokens": 1}]), ("2-none", [{"tokens": 1}])]
    assert {one.name for one in out.iterdir()} == {"found.json", "1-none.json", "1-none.log", "2-none.json", "2-none.log"}


TELLS = """
import json, logging, logging.config, os, sys
with open(os.environ["VLLM_LOGGING_CONFIG_PATH"]) as file:
    logging.config.dictConfig(json.load(file))
logging.getLogger("vllm.kvtier").debug("kvtier: request %s: found %d blocks within %.2f ms", "7-a", 512, 1.25)
logging.getLogger("vllm.core").debug("request 8: loaded 1 of 1 blocks in 1.00 ms")
logging.getLogger("vllm.kvtier").debug("kvtier: request %s: loaded %d of %d blocks in %.2f ms", "7-a", 511, 512, 80.5)
"""


def test_restores_areThoseThatTheConnectorTells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, TELLS + WRITES)
    assert engine_gpu.main(["--out", str(out), "--only", "none"]) == 0
    found = json.loads((out / "found.json").read_text())["1-none"]
    assert found == found | {"rows": [{"tokens": 1}], "restores": [{"blocks": 511, "found_ms": 1.25, "load_ms": 80.5}]}


RESTORES = """
import json, sys
row = {"tokens": 32768, "restored_tokens": 32768, "restored_ms": 110.0, "device_hit_ms": 22.0}
open(sys.argv[sys.argv.index('--out') + 1], 'w').write(json.dumps({'rows': [row, row | {"restored_tokens": 0}]}))
"""


def test_restores_areHeldToTheLinkOfTheSameRun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, RESTORES)
    monkeypatch.setattr(parts, "_LINK", "print(4 * 2**30 / 78)")
    assert engine_gpu.main(["--out", str(out), "--only", "none,link,none"]) == 0
    found = json.loads((out / "found.json").read_text())
    assert [set(row) & {"link_ms", "of_limit"} for row in found["1-none"]["rows"]] == [set(), set()]
    assert found["2-link"]["gb_per_s"] == pytest.approx(55.06, abs=0.01)
    restored, missed = found["3-none"]["rows"]
    assert (restored["link_ms"], restored["of_limit"]) == (pytest.approx(78), pytest.approx(1.1))
    assert not {"link_ms", "of_limit"} & set(missed)


def test_linkThatCannotBeMeasured_isTold_andTheOthersRun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = engine(tmp_path, monkeypatch, RESTORES)
    monkeypatch.setattr(parts, "_LINK", "import sys; print('no CUDA'); sys.exit(1)")
    assert engine_gpu.main(["--out", str(out), "--only", "link,none"]) == 1
    found = json.loads((out / "found.json").read_text())
    assert "no CUDA" in found["1-link failed"]["error"]
    assert "of_limit" not in found["2-none"]["rows"][0]


def test_pairs_areComparedOneByOne() -> None:
    rows = [(100.0, 20.0, 21.0, True), (150.0, 60.0, 20.0, False), (119.0, 40.0, 39.5, True)]
    found = {
        "without_ms": [1000.0, 990.0, 1010.0], "computed_ms": [1002.0, 990.0, 1010.0], "stored_ms": [1010.0, 1005.0, 1000.0],
        "flush_ms": [0.0, 3.0, 2.0],
        "pairs": [dict(zip(("restored_ms", "hit_ms", "hit_without_ms", "same"), row, strict=True)) for row in rows],
    }  # fmt: skip
    made = engine_gpu.of_pairs(found, 80.0)
    assert made["restored_less_hit_ms"] == 80.0 and made["hit_ms"] == 40.0 and made["wrong"] == 1
    assert made["hit_costs_ms"] == 0.5 and made["flush_ms"] == 2.0
    assert made["of_limit"] == 1.0 and made["link_ms"] == 80.0
    assert made["saving"] == pytest.approx(0.005) and made["connector"] == pytest.approx(0.002)
    assert "of_limit" not in engine_gpu.of_pairs(found, 0.0)


def test_encodings_areComparedWithinEachPair() -> None:
    def row(restored_ms: float, same: bool = True) -> dict[str, Any]:
        return {"restored_ms": restored_ms, "hit_ms": 20.0, "same": same}

    found = {
        "restores": {
            "raw": [row(100.0), row(200.0), row(110.0)], "exact": [row(90.0), row(160.0), row(99.0, False)],
            "fp8": [row(60.0), row(100.0, False), row(55.0, False)],
        },
        "computed_ms": {"raw": [1000.0, 1010.0, 990.0], "exact": [1002.0, 1001.0, 1003.0], "fp8": [900.0] * 3}, "counters": {"put_encoded": 7},
    }  # fmt: skip
    made = engine_gpu.of_encodings(found, 80.0)
    assert [(made[mode]["restored_ratio"], made[mode]["computed_ratio"]) for mode in ("exact", "fp8")] == [(0.9, 1.002), (0.5, 0.9)]
    assert made["counters"] == {"put_encoded": 7}
    assert made["raw"] == {
        "restored_ms": 110.0, "hit_ms": 20.0, "computed_ms": 1000.0, "wrong": 0, "link_ms": 80.0, "of_limit": pytest.approx(1.1),
        "restored_ratio": 1.0, "computed_ratio": 1.0,
    }  # fmt: skip
    assert [made[mode]["wrong"] for mode in ("exact", "fp8")] == [1, 2] and made["exact"]["of_limit"] == pytest.approx(0.99)
    assert "of_limit" not in engine_gpu.of_encodings(found, 0.0)["exact"]


def test_batches_areComparedByTheirMedians_andByTheFasterHalf() -> None:
    found = {"prompts": {"without": [99.0, 500.0, 101.0, 100.0], "bare": [100.0] * 4, "stored": [126.0, 124.0, 900.0, 125.0]}}
    made = engine_gpu.of_batches(found)["prompts"]
    assert made == {
        "without_ms": 100.5, "throughput": pytest.approx(100.5 / 125.5), "of_faster_half": pytest.approx(199 / 249),
        "bare_throughput": pytest.approx(1.005), "bare_of_faster_half": pytest.approx(0.995),
    }  # fmt: skip


def test_layers_areHeldToTheLongerOneOfHitAndLink() -> None:
    times = {"whole": [130.0, 110.0, 120.0], "layers": [90.0, 100.0, 80.0], "whole_hit": [30.0] * 3, "layers_hit": [30.0] * 3, "wrong": 0, "promised": 3}
    gaps = {"first_token_ms": 100.0, "longest_gap_ms": 20.0, "usual_gap_ms": 10.0}
    kinds = {
        "0": times, "2048": times | {"whole_hit": [100.0] * 3, "layers_hit": [100.0] * 3, "wrong": 1},
        "copies": {"whole": [81.0, 80.0, 82.0], "layers": [84.0]}, "beside": {"whole": [gaps], "layers": [gaps | {"longest_gap_ms": 90.0}]},
    }  # fmt: skip
    made = engine_gpu.of_layers({"32768": kinds}, lambda tokens: tokens / 409.6)["32768"]
    assert made["new_0"] == {
        "whole_ms": 120.0, "layers_ms": 90.0, "hit_ms": 30.0, "ratio": 0.75, "wrong": 0, "promised": 1.0, "link_ms": 80.0,
        "whole_of_limit": pytest.approx(120 / 110), "layers_of_limit": pytest.approx(90 / 80),
    }  # fmt: skip
    assert made["new_2048"]["layers_of_limit"] == 0.9 and made["new_2048"]["wrong"] == 1
    assert made["copy_whole_ms"] == 81.0 and made["copy_layers_ms"] == 84.0
    assert made["beside_layers"]["longest_gap_ms"] == 90.0 and made["beside_whole"]["longest_gap_ms"] == 20.0
    assert "link_ms" not in engine_gpu.of_layers({"32768": kinds}, lambda tokens: 0.0)["32768"]["new_0"]


LEAVES_ONE_BEHIND = """
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[sys.argv.index('--out') + 1] + ".pid", "w").write(str(left.pid))
time.sleep(SECONDS)
"""


@pytest.mark.parametrize("seconds", [0, 600])
def test_processesOfAnEngine_endWithItsPart(seconds: int, tmp_path: Path) -> None:
    told = argparse.Namespace(lens="1", reps=1, host="1GiB")
    runs = parts.Parts(tmp_path, tmp_path, told)
    runs.measure("one", [sys.executable, "-c", LEAVES_ONE_BEHIND.replace("SECONDS", str(seconds))], 5, {})
    left = Path(f"/proc/{(tmp_path / '0-one.json.pid').read_text()}/stat")
    deadline = time.monotonic() + 30
    while left.exists() and left.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert runs.found["0-one"]["code"] == (124 if seconds else 0)


class Double:
    """An SGLang whose prompts take a millisecond more each time, and come from where they were left."""

    page_tokens = 64

    def __init__(self, late: int = 0) -> None:
        self.flushes = self.waits = 0
        self._late = late
        self._there: dict[tuple[int, ...], str] = {}
        self._ms = 0.0

    def run(self, prompt: list[int]) -> tuple[float, int, int, str]:
        self._ms += 1.0
        there = self._there.get(tuple(prompt), "")
        self._there[tuple(prompt)] = "device"
        return self._ms, (len(prompt) - 1) // 64 * 64 if there else 0, sum(prompt), there

    def wait_until_stored(self) -> bool:
        self.waits += 1
        return self.waits != self._late

    def flush(self) -> None:
        self.flushes += 1
        self._there = dict.fromkeys(self._there, "storage")


def test_promptOfSglang_isNew_thenComesBack_thenIsThere() -> None:
    engine = Double(late=2)
    row = sglang_ttft.measure(engine, "kvtier", 128, 128, 3, 1000)
    assert row["cold_all_ms"] == [1.0, 2.0, 3.0] and row["cold_tokens"] == 0
    # Behind each flush, a short prompt takes what a first one takes.
    assert (row["restored_all_ms"], row["device_hit_all_ms"]) == ([5.0, 8.0, 11.0], [6.0, 9.0, 12.0])
    assert (row["restored_tokens"], row["restored_from"], row["same"], row["same_as_cold"]) == (64, "storage", True, True)
    # Before the first prompt, and behind each.
    assert (engine.flushes, engine.waits, row["not_stored"]) == (3, 4, 1)


def test_sglangWithNothingBelow_restoresNothing() -> None:
    engine = Double()
    row = sglang_ttft.measure(engine, "none", 128, 128, 2, 1000)
    assert not {"restored_ms", "stored_s"} & set(row) and engine.flushes == engine.waits == 0 and row["device_hit_tokens"] == 64


@pytest.mark.parametrize("only", ["typo", "none,ssd", ""])
def test_partThatSglangHasNot_isWrongUsage(only: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        sglang_gpu.main(["--out", str(tmp_path), "--only", only])
    assert ended.value.code == 2
    assert "link, none, memory, files, kvtier" in capsys.readouterr().err
