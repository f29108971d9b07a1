"""Blocks between an engine's tensors and kvtier: registered once, then copied both ways without another copy between.

torch itself is needed by who has tensors, and not by this package.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from kvtier._errors import InvalidArgument, KvtierError
from kvtier._protocol import Status
from kvtier.client import Namespace
from kvtier.torch import _layout
from kvtier.torch._shards import Form, Shard, cells_of

__all__ = ["Copying", "Form", "Region", "Shard", "SharedEvent", "form_of", "register"]


class Copying(ABC):
    """A put or a get under way. It ends by itself, at the latest at its deadline; nothing is to be collected."""

    counts_failed_layers = False
    """whether a layer may count that a failure has kept away, in the moment before `wait` tells of the failure. Not if it ends with
    UNAVAILABLE"""

    @abstractmethod
    def done(self) -> bool:
        """Whether it has ended: the tensors are no longer read or written. Never blocks."""

    def last_blocks(self, least: int) -> int:
        """How many blocks at the end are copied behind all others: at least so many, or all that are; 0: there are none."""
        return 0

    @abstractmethod
    def wait(self, timeout: float | None = None, blocks: int | None = None) -> list[Status]:
        """Waits for the end.

        Args:
            timeout: seconds; None: until the operation's own deadline.
            blocks: how many blocks from the first are waited for; None: all.

        Returns:
            A status for each block, in order. A put: OK, or EXISTS or PENDING (another client's), or BUSY (no room) or
            NOT_ADMITTED (the daemon is drained). A get: OK, or the tensors' bytes of this block have no meaning.
            PENDING for blocks whose copy has not ended yet.
        """

    @abstractmethod
    def layers_done(self) -> int:
        """How many tensors, from the first that is copied, are complete for all blocks. Never blocks."""

    @abstractmethod
    def wait_layers(self, layers: int, timeout: float | None = None) -> int:
        """Has this thread wait until so many leading tensors are complete for all blocks, or the copy has ended, or so many seconds.

        Which blocks it does not bring is known at its end only, and then all tensors count. So who uses some before that must know
        that the blocks are there, and ask `wait` when all tensors count.

        Returns:
            How many there are, as `layers_done`.
        """

    @abstractmethod
    def wait_layer(self, layer: int, stream: Any = None) -> None:
        """Has a stream wait for a layer of a get: what is given to it from now on begins when that layer and those before it
        are there. Work on all layers can be handed over at once, and this thread goes on.

        The stream goes on in any case: when the get has failed, was cancelled or is too late, when its session has ended, at
        the latest 10 s after the get's deadline. Its kernels then run on whatever the blocks hold. So what they have come to
        counts only for blocks that `wait` says are OK; throw the rest away, and do it again or without them.

        Where the GPU, its driver or the daemon can't do it, this thread waits, and the log says so once. Tensors in memory
        have no streams: this thread waits. Not for a stream that is being captured into a graph: the graph would wait for
        this very get again.

        Args:
            layer: counted from the first that is copied.
            stream: a ``torch.cuda.Stream``; None: the current one of the tensors' device.

        Raises:
            InvalidArgument: the get has no such layer.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Asks it to end early. It may still touch the tensors until `done`."""


    def give_up(self) -> None:
        """Ends it where the daemon hangs, with UNAVAILABLE; nothing else of this client is served until it has a new session."""
        self.cancel()


class SharedEvent:
    """An event that several copies wait for, as those of one step of an engine: for the daemon they are one. It must not be
    recorded again.

    Args:
        event: a ``torch.cuda.Event`` that was recorded.
    """

    def __init__(self, event: Any) -> None:
        self.event = event


class Region(ABC):
    """An engine's tensors, registered. The tensors must not move or shrink until `close`."""

    blocks: int
    """how many blocks the tensors have room for"""
    block_bytes: int
    layers: int
    """how many layers can be copied apart: as many as there are tensors, of each plane where planes are apart (`Shard.planes`)"""
    puts_layers: bool
    """whether some layers of a block can be put without the others: in host memory only of a shard, and not in a namespace with an
    encoding"""

    @abstractmethod
    def put(
        self,
        keys: Sequence[bytes],
        block_ids: Sequence[int],
        *,
        layers: range | None = None,
        after: Any = None,
        timeout: float | None = None,
        parent: bytes | None = None,
        depth: int = 0,
        annotations: Sequence[bytes | None] | None = None,
        importance: int = 1,
    ) -> Copying:
        """Copies blocks out of the tensors, to be kept under these keys.

        Args:
            keys: the blocks' keys, in prefix order.
            block_ids: where each block lies, counted along the tensors' block axis.
            layers: only these layers; None: all. A block becomes visible when all of its layers have been put.
            after: a ``torch.cuda.Event`` that the copy waits for, or a `SharedEvent`; None: the tensors hold the bytes
                already.
            timeout: seconds; None: the client's own.
            parent: the key before the first one, when there is one.
            depth: the first key's place in its sequence, in blocks.
            annotations: for each block at most 2048 bytes that are kept with it, or None; `kvtier.annotations`.
            importance: of the blocks to eviction policies, as `kvtier.Options.importance`.

        Raises:
            InvalidArgument: an id or a layer is out of range, there are not as many ids as keys, or an annotation is too long.
        """

    @abstractmethod
    def get(
        self,
        keys: Sequence[bytes],
        block_ids: Sequence[int],
        *,
        layers: range | None = None,
        after: Any = None,
        timeout: float | None = None,
        by_layer: bool | None = None,
    ) -> Copying:
        """Copies blocks into the tensors. Arguments as of `put`; several blocks must not go to one place.

        Args:
            by_layer: whether anybody, or a stream, waits for single layers; if not, all are there sooner. None: on a GPU.
        """

    @abstractmethod
    def write(self, block_ids: Sequence[int], blocks: Sequence[bytes]) -> None:
        """Writes blocks itself, where there is no daemon left to do it: slowly, and when it returns they are there.

        Args:
            block_ids: where each block belongs.
            blocks: the bytes of each, of all ranks.

        Raises:
            InvalidArgument: an id is out of range, or a block has not the bytes of one.
            KvtierError: the GPU's driver refuses.
        """

    @property
    def takes_events(self) -> bool:
        """Whether copies wait for `after` themselves. If not, `put` and `get` wait for `after` before they return."""
        return True

    @property
    def registrations(self) -> int:
        """`kvtier.device.DeviceRegion.registrations`; 0: the tensors are not on a GPU."""
        return 0

    def advertise(self, keys: Sequence[bytes], block_ids: Sequence[int], *, rank: int = 0) -> list[Status]:
        """Says which blocks stand in the tensors, for siblings to get them from there; `kvtier.device.DeviceRegion.advertise`.

        The kernels that wrote them must be over. The blocks must not change until `revoke` has answered.

        Raises:
            KvtierError: the tensors are not on a GPU.
        """
        raise KvtierError("blocks in host memory are not advertised: put them")

    def revoke(self, keys: Sequence[bytes]) -> list[Status]:
        """Takes them back; waits until nothing reads them. Those that are OK or MISS can be used again.

        Raises:
            KvtierError: the tensors are not on a GPU.
        """
        raise KvtierError("blocks in host memory are not advertised")

    @abstractmethod
    def close(self) -> None:
        """Ends what is under way and lets go of the tensors. Where streams have waited for layers, it waits until the device
        has done all it was given."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def form_of(tensors: Any, shard: Shard) -> Form:
    """What a namespace must have for the blocks of these tensors: the property ``form``, and the bytes of a block.

    Raises:
        InvalidArgument: the tensors are not all alike, or are not those of the shard.
    """
    return cells_of(_listed(tensors), shard).form


def register(
    namespace: Namespace,
    tensors: Any,
    *,
    block_axes: int | Sequence[int] = 0,
    name: str = "",
    shard: Shard | None = None,
) -> Region:
    """Registers the tensors that hold an engine's KV blocks.

    Without a shard, a block's bytes are its cells in all tensors, in the order of the tensors; in each tensor in the order
    of their addresses. Strides are thus part of what makes blocks exchangeable: put them into the namespace's properties.

    With a shard, the tensors have a part of each block, or the whole, in an order that does not depend on strides. The
    namespace must have the property ``form`` and the block bytes of `form_of`. A block becomes visible when all ranks have put
    their parts.

    Args:
        namespace: where the blocks are kept; its block_bytes are those of a block in all tensors.
        tensors: one tensor, or a list with one for each layer, all on one device.
        block_axes: the axis that counts blocks, or one for each tensor.
        name: shown in the daemon's statistics.
        shard: what the tensors have of each block; block_axes is not used then.

    Raises:
        InvalidArgument: the tensors do not fit the namespace or each other.
        KvtierError: there is no way to copy from and to this device.
    """
    listed = _listed(tensors)
    devices = {str(tensor.device) for tensor in listed}
    if len(devices) != 1:
        raise InvalidArgument(f"tensors on {', '.join(sorted(devices))}; expected one device")
    cells = None if shard is None else cells_of(listed, shard)
    planes = _layout.planes(listed, block_axes) if cells is None else cells.planes()
    block_bytes = sum(plane.part_bytes for plane in planes) if cells is None else cells.form.block_bytes
    if block_bytes != namespace.block_bytes:
        raise InvalidArgument(
            f"a block has {block_bytes} bytes in these tensors, and {namespace.block_bytes} in namespace "
            f"{namespace.name!r}: do the block axes count blocks, and are all layers here?"
        )
    kind = listed[0].device.type
    if kind == "cpu":
        from kvtier.torch._cpu import CpuRegion

        return CpuRegion(namespace, listed, planes, name, cells)
    if kind == "cuda":
        from kvtier.torch._cuda import CudaRegion

        return CudaRegion(namespace, listed, planes, name, cells)
    raise KvtierError(f"tensors on {kind!r}; expected 'cpu' or 'cuda'")


def _listed(tensors: Any) -> list[Any]:
    listed = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    if not listed:
        raise InvalidArgument("no tensors; expected one, or one for each layer")
    return listed
