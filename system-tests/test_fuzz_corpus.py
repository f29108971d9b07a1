"""Replays the first inputs of scripts/fuzz and its earlier findings against a daemon."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from kvtier_testing.daemon import eventually, in_a_folder

from checks.attacks.fuzz_targets import TARGETS
from checks.attacks.hostile_daemon import Daemon, GrpcCaller, LocalCaller


@pytest.fixture(scope="module")
def hostile() -> Iterator[Daemon]:
    with in_a_folder(Daemon) as daemon:
        yield daemon


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_isTaken(hostile: Daemon, name: str) -> None:
    target = TARGETS[name]()
    inputs = target.corpus()
    assert len(inputs) > 5
    with closing(LocalCaller(hostile)) as local, closing(GrpcCaller(hostile.grpc_port)) as remote:
        local.ask()
        remote.ping()
        before = hostile.descriptors()
        for data in inputs:
            target.throw(hostile, data)
        hostile.require_well()
        local.ask()
        remote.ping()
        assert eventually(lambda: hostile.descriptors() <= before + 4)
    # The daemon may have logged a failure while it cleaned up after the last input.
    hostile.require_well()
