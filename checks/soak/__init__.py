"""Runs a daemon with all tiers and clients for hours, breaks something every few seconds, and accounts for every block."""
