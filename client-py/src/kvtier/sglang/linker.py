"""kvtier behind SGLang's radix cache, without its hierarchical cache: `KvtierLinker`.

A module of its own: SGLang's before 0.5.23 have no linkers, and the storage backend serves them.
"""

from kvtier.sglang._linker import KvtierLinker

__all__ = ["KvtierLinker"]
