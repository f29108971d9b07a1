"""The log line of the vLLM connector for a restored prompt, and its reader in the comparison on a GPU."""

import logging
from typing import Any

import pytest
from kvtier_testing.daemon import Daemon
from kvtier_testing.vllm_double import Engine, Request, config

from checks.engines import gpu


def test_load_isTold_asTheComparisonReadsIt(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    settings: dict[str, Any] = {"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": "told", "kvtier.lookup_s_max": 5.0}
    first, second = (Engine(config(settings), monkeypatch) for _ in range(2))
    try:
        first.run(Request("first", list(range(43))))
        first.settle()
        with caplog.at_level(logging.DEBUG, "vllm.kvtier"):
            second.run(Request("second", list(range(43))))
        (told,) = gpu.restores(caplog.text)
        assert told["blocks"] == 10
        # The log line and the counters come from the same clock readings.
        assert told["load_ms"] * 1e3 == pytest.approx(second.stats["load_us"], abs=10)
        assert told["found_ms"] * 1e3 >= second.stats["lookup_us"]
    finally:
        first.close()
        second.close()
