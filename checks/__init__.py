"""Checks of what people read: documents, their links, the version, the notice of bundled libraries.

`python -m checks` runs all of them and prints one line for each problem. Only the standard library is needed.
"""
