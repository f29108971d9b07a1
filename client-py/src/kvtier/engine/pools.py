"""Pools: the memory of one rank that holds an engine's blocks, by the kind of their KV cache."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvtier import torch as kvtier_torch
from kvtier._errors import InvalidArgument
from kvtier._types import Leases
from kvtier.client import Client, Namespace
from kvtier.engine.groups import ALL, LAST, Group, Rule
from kvtier.engine.identity import Named
from kvtier.torch import Region, Shard
from kvtier.torch._cpu import CpuRegion
from kvtier.torch._layout import Plane


class Pool(NamedTuple):
    """The memory of one group of layers, registered."""

    name: str
    group: Group
    """its rule, and the namespace of its blocks: what a search needs"""
    namespace: Namespace
    region: Region
    """copies blocks, by their numbers in the memory"""


class Pools:
    """The pools of one rank, in the order of their numbers. `Transfers` copies blocks of them, and `Search` finds what they need."""

    def __init__(self, client: Client) -> None:
        """`client`: stays open as long as the pools are used."""
        self._client = client
        self._pools: list[Pool] = []
        self.regions: list[Region] = []
        """as `Transfers` takes them"""

    @property
    def groups(self) -> list[Group]:
        """As `Search` and `Searches` take them."""
        return [pool.group for pool in self._pools]

    def named(self, name: str) -> Pool:
        """The pool of this name.

        Raises:
            InvalidArgument: there is none.
        """
        for pool in self._pools:
            if pool.name == name:
                return pool
        raise InvalidArgument(f"there is no pool {name!r}; there are {', '.join(repr(pool.name) for pool in self._pools) or 'none'}")

    def __getitem__(self, number: int) -> Pool:
        return self._pools[number]

    def __len__(self) -> int:
        return len(self._pools)

    def add(
        self,
        named: Named,
        memory: Any,
        *,
        name: str = "kv",
        block_tokens: int,
        block_bytes: int,
        rule: Rule = ALL,
        block_hashes: int = 1,
        block_axes: int | Sequence[int] = 0,
        shard: Shard | None = None,
        writers: int = 1,
    ) -> Pool:
        """Registers a pool in a namespace of its own.

        Args:
            named: the namespace (`Identity.of_model`, `Identity.of_rank`).
            memory: tensors, as `kvtier.torch.register` takes them; or one writable buffer in which whole blocks lie one behind the other,
                such as a numpy array, a mapped file or shared memory. It must not move or shrink until `close`.
            name: what the engine calls the pool.
            block_tokens: how many tokens a block has.
            block_bytes: the bytes of a block: of all ranks together where there is a shard.
            rule: which of the blocks an engine needs.
            block_hashes: how many of the engine's hashes a block has; the last one is its key.
            block_axes: the axis of each tensor that counts blocks.
            shard: what the tensors have of each block, where ranks put blocks together.
            writers: how many ranks store.

        Raises:
            NamespaceMismatch: engines with another configuration have the namespace (`kvtier.engine.identity.refuse`).
            InvalidArgument: the memory has no blocks of so many bytes, or another pool has the name.
            KvtierError: this memory can't be copied, or the daemon that must copy it is not there.
        """
        if any(pool.name == name for pool in self._pools):
            raise InvalidArgument(f"there are two pools {name!r}; expected a name for each")
        namespace = self._client.namespace(named.name, block_bytes=block_bytes, **named.properties)
        if hasattr(memory, "data_ptr") or isinstance(memory, (list, tuple)):
            region = kvtier_torch.register(namespace, memory, block_axes=block_axes, name=named.name, shard=shard)
        else:
            region = _of_buffer(namespace, memory)
        group = Group(len(self._pools), block_tokens, block_hashes, rule, rule == LAST, [namespace._properties], writers)
        pool = Pool(name, group, namespace, region)
        self._pools.append(pool)
        self.regions.append(region)
        return pool

    def hold(self, keys: Sequence[bytes], timeout_s: float, lease_s: float) -> Leases:
        """Leases on blocks of the first pool that are in memory, for `Load.hold`: what promises are made of."""
        return self._pools[0].namespace._lease(keys, no_wait=True, lease_s=lease_s, timeout=timeout_s)

    def lease(self, keys: Sequence[bytes], timeout_s: float) -> Leases:
        """Leases on blocks of the first pool, for `Transfers.leased`. Blocks of lower tiers are brought to memory first; behind the first
        block that can't be had, none is leased."""
        return self._pools[0].namespace._lease(keys, leading_run=True, timeout=timeout_s)

    def close(self) -> None:
        """Ends what is under way, and lets go of the memory."""
        for region in self.regions:
            region.close()
        self.regions.clear()
        self._pools.clear()


def _of_buffer(namespace: Namespace, buffer: Any) -> Region:
    """Whole blocks, one behind the other."""
    view = memoryview(buffer)
    if view.readonly or not view.c_contiguous:
        raise InvalidArgument("a pool's buffer is read-only or has gaps; expected one that can be written, of one piece")
    blocks, rest = divmod(view.nbytes, namespace.block_bytes)
    if rest or not blocks:
        raise InvalidArgument(f"a pool's buffer has {view.nbytes} bytes; expected a multiple of the {namespace.block_bytes} bytes of a block")
    memory = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))
    plane = Plane(ctypes.addressof(memory), blocks, namespace.block_bytes, 0, namespace.block_bytes, ())
    return CpuRegion(namespace, [memory], [plane], namespace.name)
