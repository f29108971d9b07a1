"""SGLang's seam for what lies behind its host memory: pages are looked for, read and written by their hashes."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolHitPolicy, PoolTransferResult

from kvtier._errors import InvalidArgument, NamespaceMismatch
from kvtier._protocol import Status
from kvtier.client import Namespace
from kvtier.engine.identity import Named, Texts
from kvtier.engine.settings import Settings
from kvtier.engine.transfers import STORED, Transfer
from kvtier.engine.wishes import Wishes, WishReader
from kvtier.sglang import _engine
from kvtier.sglang._engine import Model, Pool, Seat
from kvtier.sglang._memory import memory_of, page_ids
from kvtier.sglang._pages import Pages

_TEXTS = Texts("--hicache-storage-backend-extra-config")


class KvtierStorage(HiCacheStorage):
    """Keeps the pages of SGLang's hierarchical cache in kvtier.

    Whatever is wrong with the daemon, the engine serves: a page that can't be had is a miss, and no call raises. Only a configuration
    that contradicts another engine's in the same namespace keeps the engine from starting.

    Ranks with parts of the heads put a page together in the daemon, whatever their number and their memory layout. Ranks with equal
    pages (MLA) have one page, which SGLang has one of them write.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        """As SGLang makes it.

        Raises:
            InvalidArgument: an unknown setting, a wrong value, or the old interface.
        """
        extra = dict(storage_config.extra_config or {})
        if not extra.get("interface_v1"):
            raise InvalidArgument(
                "kvtier needs SGLang's interface for whole batches: add \"interface_v1\": 1 to --hicache-storage-backend-extra-config"
            )
        self._settings = Settings.of(extra)
        args = _engine.server_args()
        seat = Seat.of(storage_config)
        model = Model(seat, str(storage_config.model_name or ""), args)
        self._pages = Pages(self._settings, seat, model, _TEXTS, seat.unserved(args))
        self._guard = self._pages.guard
        self._wish_reader = WishReader(self._guard)
        self._sides: dict[str, _Side] = {}

    @property
    def named(self) -> Named | None:
        """The namespace of keys and values; None: nothing is kept."""
        return self._pages.named

    # ---- the engine's memory ----

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        pool = mem_pool_host
        described = Pool(
            str(pool.dtype).removeprefix("torch."), int(pool.page_size), str(getattr(pool, "storage_format_tag", None) or "none"),
            f"{getattr(pool, 'target_layer_num', '')} of {getattr(pool, 'layer_num', '')}",
            f"{getattr(pool, 'start_layer', '')} to {getattr(pool, 'end_layer', '')}",
        )  # fmt: skip
        self._pages.open(described, memory_of(pool, self._pages.model.ranks), f"{type(pool).__name__} of layout {pool.layout}")
        if self._pages.is_open:
            self._notice_flushes(pool)

    def _notice_flushes(self, pool: Any) -> None:
        """Clears this pool. SGLang calls it when its caches are flushed."""
        clear: Callable[[], Any] = pool.clear

        def cleared() -> Any:
            self._pages.flushed()
            return clear()

        pool.clear = cleared

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        name = str(host_pool_name)
        if not self._pages.is_open or name == "kv":
            return
        try:
            self._sides[name] = self._side(name, host_pool)
        except NamespaceMismatch as error:
            self._pages.refuse(error)
        except Exception as error:
            self._guard.tell(f"pool {name} is not kept, so what needs it is computed: {error!r}")

    def _side(self, name: str, pool: Any) -> "_Side":
        page = pool.get_dummy_flat_data_page()
        layout = f"{str(page.dtype).removeprefix('torch.')} {type(pool).__name__} {getattr(pool, 'layout', '')}"
        return _Side(self._pages.side(layout, name, int(page.numel() * page.element_size())), pool, self._settings)

    # ---- keys and values ----

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many of these pages, from the first, can be read."""
        wishes = self._wishes_of(extra_info)
        if not wishes.load or not self._pages.is_open:
            return 0
        return min(self._pages.found(keys), wishes.load_max_tokens // self._pages.page_tokens)

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Reads pages to these places of the host pool; for each whether it is there now."""
        return self._moved(keys, host_indices, extra_info, is_store=False)

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Writes pages from these places of the host pool; for each whether the daemon has it."""
        return self._moved(keys, host_indices, extra_info, is_store=True)

    def _moved(self, keys: Sequence[str], host_indices: Any, extra_info: Any, is_store: bool) -> list[bool]:
        nothing = [False] * len(keys)
        transfers = self._pages.transfers
        allowed = self._settings.store != "none" if is_store else self._settings.load
        if transfers is None or not keys or not allowed:
            return nothing
        wishes = self._wishes_of(extra_info)
        if not (wishes.store if is_store else wishes.load):
            return nothing
        try:
            if not self._pages.may_ask():
                return nothing
            before = list(getattr(extra_info, "prefix_keys", None) or ())
            salted = self._pages.salted([*before[-1:], *keys])
            parent = salted[0] if before else None
            transfer = Transfer("", salted[len(before[-1:]) :], list(page_ids(host_indices, self._pages.page_tokens)), len(before), parent)
            if is_store:
                transfer.importance = wishes.priority
                statuses = transfers.put(transfer)
                self._keep(transfer, wishes)
                self._guard.judge([one for one in statuses if one is Status.NAMESPACE_MISMATCH])
                return [status in STORED for status in statuses]
            came = [status is Status.OK for status in transfers.get([transfer])]
            self._keep(transfer, wishes)
            return came
        except Exception as error:
            # An engine goes on whatever its cache does.
            self._guard.tell(f"cannot {'store' if is_store else 'load'} pages: {error!r}")
            return nothing

    # ---- what requests ask for ----

    def _wishes_of(self, extra_info: Any) -> Wishes:
        """SGLang itself passes nothing of its requests on; a caller that fills ``extra_info`` does."""
        return self._wish_reader.of(getattr(extra_info, "extra_info", None))

    def _keep(self, transfer: Transfer, wishes: Wishes) -> None:
        pools = self._pages.pools
        if not wishes.keep_s or pools is None:
            return
        kept = pools[0].namespace.retain(transfer.keys, wishes.keep_s, timeout=self._settings.lookup_s_max)
        if kept.reason:
            self._guard.tell_at_times("retain", f"pages of a request are not kept as long as it asks for: {kept.reason}")

    # ---- several pools ----

    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None) -> Any:
        """How many pages of all pools can be read, each pool by its rule."""
        pages = self.batch_exists(keys, extra_info)
        hits: dict[Any, int] = {"kv": pages} if pages else {}
        restorable = list(range(1, pages + 1))
        for transfer in pool_transfers or ():
            if not restorable:
                break
            good = self._restorable(keys[:pages], transfer)
            if good:
                hits[transfer.name] = max(good)
            restorable = [one for one in restorable if one in good]
        return _result_of(restorable, hits)

    def _restorable(self, keys: Sequence[str], transfer: Any) -> set[int]:
        """The numbers of pages from the first with which a pool has all that its rule wants."""
        side = self._sides.get(str(transfer.name))
        if side is None or not self._settings.load:
            return set()
        try:
            if not self._pages.may_ask():
                return set()
            there = side.present(self._pages.salted(keys))
        except Exception as error:
            self._guard.tell(f"cannot look for pages of pool {transfer.name}: {error!r}")
            return set()
        lengths = range(1, len(keys) + 1)
        if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
            return {length for length in lengths if all(there[:length])}
        if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
            last = max(1, len(transfer.keys) if transfer.keys else 1)
            return {length for length in lengths if all(there[max(0, length - last) : length])}
        self._guard.tell(f"pool {transfer.name} has a rule that kvtier does not know: {transfer.hit_policy}")
        return set()

    def batch_get_v2(self, transfers: Any, extra_info: Any = None) -> dict[Any, list[bool]]:
        """As `batch_get_v1`, of several pools."""
        return {one.name: self._moved_of_pool(one, extra_info, False) for one in transfers}

    def batch_set_v2(self, transfers: Any, extra_info: Any = None) -> dict[Any, list[bool]]:
        """As `batch_set_v1`, of several pools."""
        return {one.name: self._moved_of_pool(one, extra_info, True) for one in transfers}

    def _moved_of_pool(self, transfer: Any, extra_info: Any, is_store: bool) -> list[bool]:
        keys = list(transfer.keys or ())
        if str(transfer.name) == "kv":
            return self._moved(keys, transfer.host_indices, extra_info, is_store)
        side = self._sides.get(str(transfer.name))
        allowed = self._settings.store != "none" if is_store else self._settings.load
        if side is None or not keys or not allowed or transfer.host_indices is None:
            return [False] * len(keys)
        wishes = self._wishes_of(extra_info)
        if not (wishes.store if is_store else wishes.load):
            return [False] * len(keys)
        try:
            if not self._pages.may_ask():
                return [False] * len(keys)
            return (side.store if is_store else side.load)(self._pages.salted(keys), transfer.host_indices)
        except Exception as error:
            self._guard.tell(f"cannot move pages of pool {transfer.name}: {error!r}")
            return [False] * len(keys)

    # ---- the old interface, which `interface_v1` replaces ----

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return None

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> Any:
        return [None] * len(keys)

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return False

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        return False

    # ---- the end ----

    def clear(self) -> None:
        """Deletes all pages of this engine's namespaces, also those of the other engines that share them."""
        self._pages.clear([side.namespace for side in self._sides.values()])

    def close(self) -> None:
        """Ends what is under way, and lets go of the engine's memory."""
        self._pages.close()
        self._sides = {}


def _result_of(restorable: list[int], hits: dict[Any, int]) -> Any:
    """SGLang's ``PoolTransferResult``. Older versions, such as 0.5.17, take the longest prefix only.

    Args:
        restorable: the lengths of the prefixes that can be loaded, in pages, in rising order.
        hits: how many pages each pool has.
    """
    longest = restorable[-1] if restorable else 0
    if "restorable_prefix_pages" in inspect.signature(PoolTransferResult).parameters:
        return PoolTransferResult(longest, hits, restorable)
    return PoolTransferResult(longest, hits)


class _Side:
    """A pool beside keys and values, such as states: its pages are moved as SGLang reads and writes them, in one piece each."""

    def __init__(self, namespace: Namespace, pool: Any, settings: Settings) -> None:
        self.namespace = namespace
        self._pool = pool
        self._settings = settings
        self._page_tokens = int(getattr(pool, "page_size", 1) or 1)

    def present(self, keys: Sequence[bytes]) -> bytes:
        return self.namespace.lookup(keys, timeout=self._settings.lookup_s_max).present

    def load(self, keys: Sequence[bytes], indices: Any) -> list[bool]:
        page = self._pool.get_dummy_flat_data_page()
        size = int(page.numel() * page.element_size())
        memory = bytearray(size * len(keys))
        statuses = self.namespace.get(keys, memory, timeout=self._settings.load_timeout_s).statuses
        for at, status in enumerate(statuses):
            if status is Status.OK:
                self._pool.set_from_flat_data_page(self._first(indices, at), _page_of(memory, at * size, page))
        return [status is Status.OK for status in statuses]

    def store(self, keys: Sequence[bytes], indices: Any) -> list[bool]:
        pages = [_bytes_of(self._pool.get_data_page(self._first(indices, at), flat=True)) for at in range(len(keys))]
        statuses = self.namespace.put(keys, b"".join(pages), timeout=self._settings.put_timeout_s)
        return [status in STORED for status in statuses]

    def _first(self, indices: Any, at: int) -> int:
        return int(indices[at * self._page_tokens])


def _bytes_of(tensor: Any) -> bytes:
    torch = importlib.import_module("torch")
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy())


def _page_of(memory: bytearray, at: int, like: Any) -> Any:
    torch = importlib.import_module("torch")
    flat = torch.frombuffer(memory, dtype=torch.uint8, count=int(like.numel() * like.element_size()), offset=at)
    return flat.view(like.dtype).view(like.shape)
