"""The benchmarks of kvtier that are written in Python, and the Python processes of those that are written in Java."""
