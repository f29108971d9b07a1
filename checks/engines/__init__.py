"""Runs real inference engines on kvtier, and compares them with the same engines without it."""
