"""Fixtures of pytest with a daemon under test: `pytest_plugins = ["kvtier_testing.fixtures"]` in a conftest.py brings them."""

import signal
from collections.abc import Iterator

import pytest

from kvtier import Client
from kvtier_testing.daemon import Daemon, in_a_folder


def pytest_configure() -> None:
    """Has SIGTERM end the tests as Ctrl-C does: fixtures remove what they made."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@pytest.fixture
def stopped_daemon() -> Iterator[Daemon]:
    """A daemon for one test, which the test starts."""
    with in_a_folder(Daemon) as made:
        yield made


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """One daemon for the tests of a module, which use namespaces of their own."""
    with in_a_folder(Daemon) as made:
        made.start()
        yield made


@pytest.fixture
def fresh_daemon() -> Iterator[Daemon]:
    """A daemon for one test, to kill or to count in."""
    with in_a_folder(Daemon) as made:
        made.start()
        yield made


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket_path, name="test", timeout=60) as connected:
        yield connected
