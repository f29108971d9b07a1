"""Replays what scripts/fuzz begins with, and what it once found, against a daemon."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY, eventually

sys.path.insert(0, str(REPOSITORY / "scripts"))

from fuzz_targets import TARGETS  # noqa: E402
from hostile_daemon import Daemon, GrpcCaller, LocalCaller  # noqa: E402


@pytest.fixture(scope="module")
def hostile() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="kvtier-") as folder:
        daemon = Daemon(Path(folder))
        try:
            yield daemon
        finally:
            daemon.stop()


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_isTaken(hostile: Daemon, name: str) -> None:
    target = TARGETS[name]()
    inputs = target.corpus()
    assert len(inputs) > 5
    local = LocalCaller(hostile)
    remote = GrpcCaller(hostile.grpc_port)
    local.ask()
    remote.ping()
    before = hostile.descriptors()
    for data in inputs:
        target.throw(hostile, data)
    hostile.require_well()
    local.ask()
    remote.ping()
    assert eventually(lambda: hostile.descriptors() <= before + 4)
    remote.close()
    local.close()
