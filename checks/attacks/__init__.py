"""Attacks a daemon with hostile clients and malformed input, beside honest clients that must be answered."""
