"""The Python client's generated gRPC stubs."""

import pytest

from checks.code import stubs


def test_stubs_areWhatTheProtoFileSays() -> None:
    pytest.importorskip("grpc_tools")
    assert stubs.stale() == [], "run python3 -m checks.code.stubs --write"
