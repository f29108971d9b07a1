"""Words of memory that two processes share: each access is one load or one store, so that nobody sees a part of it.

`struct.pack_into` writes zeros first, and then byte after byte.
"""

import ctypes
import mmap


def word(memory: mmap.mmap, offset: int) -> int:
    """The 8 bytes at an offset that is a multiple of 8. The memory must be writable."""
    return ctypes.c_uint64.from_buffer(memory, offset).value


def set_word(memory: mmap.mmap, offset: int, value: int) -> None:
    """Writes the 8 bytes at an offset that is a multiple of 8."""
    ctypes.c_uint64.from_buffer(memory, offset).value = value
