"""The tests of the Python client."""

pytest_plugins = ["kvtier_testing.fixtures"]
