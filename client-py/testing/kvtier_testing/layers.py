"""Blocks that are written a few layers at a time, from memory of this process."""

import ctypes
from types import SimpleNamespace

from kvtier import Client, Namespace, Status
from kvtier.torch import Region, Shard, register


class Tensor:
    """The KV of some layers in memory, with the methods of a tensor that the client needs."""

    device = SimpleNamespace(type="cpu")

    def __init__(self, memory: bytearray, shape: tuple[int, ...]) -> None:
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._memory = memory  # kept alive
        self.shape = shape

    def stride(self) -> tuple[int, ...]:
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * extent)
        return tuple(strides)

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        return self._address


class LayerWriter:
    """Writes groups of layers of blocks. All bytes of a group are its number, counted from 1, unless they are filled otherwise."""

    def __init__(
        self, client: Client, name: str, blocks: int, *, layers: int, groups: int, tokens: int = 16, heads: int = 8, head_bytes: int = 256
    ) -> None:
        self.groups = groups
        self.form = f"LCNHD:{layers}x{tokens}:2x{heads}x{head_bytes}"
        self._part_bytes = tokens * heads * head_bytes
        self.group_bytes = layers // groups * 2 * tokens * heads * head_bytes
        self.block_bytes = self.group_bytes * groups
        self.name = name
        self.blocks = blocks
        namespace = self.namespace(client)
        self._regions: list[Region] = []
        self._memory: list[bytearray] = []
        for group in range(groups):
            shard = Shard(["LCBNHD"], tokens, heads, block_layers=layers, first_layer=group * (layers // groups))
            shape = (layers // groups, 2, blocks, tokens, heads, head_bytes)
            memory = bytearray([group + 1]) * (self.group_bytes * blocks)
            self._memory.append(memory)
            self._regions.append(register(namespace, [Tensor(memory, shape)], shard=shard))

    def namespace(self, client: Client) -> Namespace:
        """The namespace of these blocks, at any node."""
        return client.namespace(self.name, block_bytes=self.block_bytes, form=self.form)

    def fill(self, group: int, block: int, pattern: bytes) -> None:
        """Gives a block other bytes in a group of layers. The length of the pattern divides that of a layer's keys."""
        memory = self._memory[group]
        part_bytes = self._part_bytes
        repeated = pattern * (part_bytes // len(pattern))
        for at in range(block * part_bytes, len(memory), self.blocks * part_bytes):
            memory[at : at + part_bytes] = repeated

    def write(self, group: int, keys: list[bytes], timeout: float = 60) -> list[Status]:
        """Writes a group of layers of blocks."""
        return self._regions[group].put(keys, list(range(len(keys))), timeout=timeout).wait()

    def is_right(self, block: memoryview | None) -> bool:
        """Whether a block has all bytes that were written."""
        return block is not None and block == b"".join(bytes([group + 1]) * self.group_bytes for group in range(self.groups))

    def close(self) -> None:
        for region in self._regions:
            region.close()
