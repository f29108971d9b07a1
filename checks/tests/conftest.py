"""The tests of the checks and of the Python behind them."""

pytest_plugins = ["kvtier_testing.fixtures"]
