"""Kills a daemon at random moments, and holds it to everything that it acknowledged."""
