"""The Python client's generated gRPC stubs."""

from checks.code import stubs


def test_stubs_areWhatTheProtoFileSays() -> None:
    assert stubs.stale() == [], "run python3 -m checks.code.stubs --write"
