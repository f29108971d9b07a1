"""Helpers of tests that need a daemon or an engine: for the tests of this client, the system tests and the checks. No wheel contains them."""

import os

# gRPC's own handler of forks waits for its threads, at times for a minute. What tests fork only starts a program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
