"""The tests of several modules together."""

pytest_plugins = ["kvtier_testing.fixtures"]
