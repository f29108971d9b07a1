"""Helpers of tests that need a daemon or an engine: for the tests of this client, the system tests and the checks. No wheel contains them."""
