"""Checks the source code and its tests: structure, guards that are removed, mutations that no test notices, counts of tests."""
