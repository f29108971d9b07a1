"""Checks and measures copies and the daemon on a real GPU, and compiles the copy kernel."""
