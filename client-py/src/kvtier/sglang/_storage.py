"""SGLang's seam for what lies behind its host memory: pages are looked for, read and written by their hashes."""

import importlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolHitPolicy, PoolTransferResult

from kvtier._errors import InvalidArgument, KvtierError, NamespaceMismatch
from kvtier._protocol import Status
from kvtier.client import Client, Namespace
from kvtier.engine.epochs import Epochs
from kvtier.engine.find import Search
from kvtier.engine.guard import Guard
from kvtier.engine.identity import Named, Place, PoolText, Texts, refuse
from kvtier.engine.keys import Keys, Prefix, hash_bytes
from kvtier.engine.pools import Pools
from kvtier.engine.settings import Settings
from kvtier.engine.transfers import STORED, Transfer, Transfers
from kvtier.sglang import _engine
from kvtier.sglang._memory import Memory, memory_of, page_ids

_log = logging.getLogger("sglang.kvtier")

_TEXTS = Texts("--hicache-storage-backend-extra-config")
_START_TIMEOUT_S = 2.0
_NOT_USED = "kvtier is not used, and this engine neither loads nor stores pages: %s"
_HERE = (0, 0)
"""the rank of this process, in its own book on weights"""


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
        self._config = storage_config
        self._settings = Settings.of(extra)
        self._guard = Guard(_log, _TEXTS.mismatch("the daemon has this namespace with other properties"))
        args = _engine.server_args()
        self._unserved = _engine.unserved(storage_config, args)
        self._model = _engine.Model(storage_config, args)
        self._epochs = Epochs({_HERE: self._model.loaded()})
        self._weigh_lock = threading.Lock()
        self._client: Client | None = None
        self._pools: Pools | None = None
        self._search: Search | None = None
        self._transfers: Transfers | None = None
        self._page_tokens = 0
        self._sides: dict[str, _Side] = {}
        self.named: Named | None = None
        """the namespace of keys and values; None: nothing is kept"""

    # ---- the engine's memory ----

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        reason = self._unserved
        memory = None if reason else memory_of(mem_pool_host, self._model.ranks)
        if memory is None:
            _log.warning(_NOT_USED, reason or f"nobody knows how pages lie in a {type(mem_pool_host).__name__} of layout {mem_pool_host.layout}")
            return
        try:
            self._open(mem_pool_host, memory)
        except NamespaceMismatch as error:
            self.close()
            refuse(error, self._settings.mismatch, _TEXTS, _log)
        except KvtierError as error:
            self.close()
            _log.warning(_NOT_USED, error)

    def _open(self, pool: Any, memory: Memory) -> None:
        weights = self._model.weights(self._settings.weights, _TEXTS)
        if weights.advice:
            _log.warning("kvtier: %s", weights.advice)
        identity = self._identity = self._model.identity(self._settings, pool, weights.text, os.urandom(16).hex())
        self._client = Client(self._settings.socket or None, name=f"sglang {identity.model}", timeout=_START_TIMEOUT_S)
        config = self._config
        stage = Place(int(config.pp_rank), int(config.pp_size), 0, 1)
        if memory.form is not None:
            layout = f"{memory.layout} layers {pool.start_layer} to {pool.end_layer}" if stage.stages > 1 else memory.layout
            named = identity.of_model(layout, memory.form.text, PoolText(f"/pp{stage.stage}", {}) if stage.stages > 1 else None)
        else:
            named = identity.of_rank(memory.layout, Place(stage.stage, stage.stages, int(config.tp_rank), int(config.tp_size)))
        self.named = named
        self._page_tokens = int(pool.page_size)
        pools = self._pools = Pools(self._client)
        pools.add(
            named, memory.tensors, block_tokens=self._page_tokens,
            block_bytes=memory.page_bytes if memory.form is None else memory.form.block_bytes, block_axes=memory.block_axes, shard=memory.shard,
        )  # fmt: skip
        keys = Keys(self._epochs)
        self._transfers = Transfers(pools.regions, self._settings, self._guard)
        self._search = Search(self._client, pools.groups, self._settings, self._page_tokens, keys, self._guard)
        self._notice_flushes(pool)
        _log.info("kvtier is used: pages of %d tokens, namespace %s", self._page_tokens, named.name)

    def _notice_flushes(self, pool: Any) -> None:
        """Who changes the weights of an engine flushes its caches: this pool is cleared then."""
        clear: Callable[[], Any] = pool.clear

        def cleared() -> Any:
            self._epochs.ask()
            return clear()

        pool.clear = cleared

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        name = str(host_pool_name)
        if self._client is None or name == "kv":
            return
        try:
            self._sides[name] = self._side(name, host_pool)
        except NamespaceMismatch as error:
            refuse(error, self._settings.mismatch, _TEXTS, _log)
        except Exception as error:
            self._guard.tell(f"pool {name} is not kept, so what needs it is computed: {error!r}")

    def _side(self, name: str, pool: Any) -> "_Side":
        assert self._client is not None
        page = pool.get_dummy_flat_data_page()
        config = self._config
        ranks = self._model.ranks
        layout = f"{str(page.dtype).removeprefix('torch.')} {type(pool).__name__} {getattr(pool, 'layout', '')}"
        named = self._identity.of_rank(
            layout, Place(int(config.pp_rank), int(config.pp_size), ranks.rank, ranks.size), PoolText(f"/{name}", {"pool": name})
        )
        page_bytes = int(page.numel() * page.element_size())
        return _Side(self._client.namespace(named.name, block_bytes=page_bytes, **named.properties), pool, self._settings)

    # ---- which weights the pages are of ----

    def _salted(self, keys: Sequence[str]) -> list[bytes]:
        """The keys of pages with the weights that are in memory now."""
        self._weigh()
        prefix = Prefix("", 0, [hash_bytes(key) for key in keys])
        assert self._pools is not None
        return Keys(self._epochs).of(prefix, self._pools[0].group, 0, len(keys))

    def _weigh(self) -> None:
        """Looks at the weights after a flush, before anything is stored or loaded."""
        if not self._epochs.question:
            return
        with self._weigh_lock:
            question = self._epochs.question
            if question:
                before = self._epochs.salt
                self._epochs.answer(question, {_HERE: self._model.loaded()})
                if self._epochs.salt != before:
                    _log.info("kvtier: the weights of this engine have changed. Its pages now have other keys than those of the earlier weights.")

    # ---- keys and values ----

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many of these pages, from the first, can be read."""
        search = self._search
        if search is None or not keys:
            return 0
        try:
            self._weigh()
            found = search.find(Prefix.of("", keys, self._page_tokens), holds=False)
            return found.tokens // self._page_tokens
        except Exception as error:
            self._guard.tell(f"cannot look for pages: {error!r}")
            return 0

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Reads pages to these places of the host pool; for each whether it is there now."""
        return self._moved(keys, host_indices, extra_info, is_store=False)

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Writes pages from these places of the host pool; for each whether the daemon has it."""
        return self._moved(keys, host_indices, extra_info, is_store=True)

    def _moved(self, keys: Sequence[str], host_indices: Any, extra_info: Any, is_store: bool) -> list[bool]:
        nothing = [False] * len(keys)
        transfers = self._transfers
        allowed = self._settings.store != "none" if is_store else self._settings.load
        if transfers is None or not keys or not allowed or not self._guard.may_ask():
            return nothing
        try:
            before = list(getattr(extra_info, "prefix_keys", None) or ())
            salted = self._salted([*before[-1:], *keys])
            parent = salted[0] if before else None
            transfer = Transfer("", salted[len(before[-1:]) :], list(page_ids(host_indices, self._page_tokens)), len(before), parent)
            if is_store:
                statuses = transfers.put(transfer)
                self._guard.judge([one for one in statuses if one is Status.NAMESPACE_MISMATCH])
                return [status in STORED for status in statuses]
            return [status is Status.OK for status in transfers.get([transfer])]
        except Exception as error:
            # An engine goes on whatever its cache does.
            self._guard.tell(f"cannot {'store' if is_store else 'load'} pages: {error!r}")
            return nothing

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
        return PoolTransferResult(restorable[-1] if restorable else 0, hits, restorable)

    def _restorable(self, keys: Sequence[str], transfer: Any) -> set[int]:
        """The numbers of pages from the first with which a pool has all that its rule wants."""
        side = self._sides.get(str(transfer.name))
        if side is None or not self._settings.load or not self._guard.may_ask():
            return set()
        try:
            there = side.present(self._salted(keys))
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
        if side is None or not keys or not allowed or not self._guard.may_ask() or transfer.host_indices is None:
            return [False] * len(keys)
        try:
            return (side.store if is_store else side.load)(self._salted(keys), transfer.host_indices)
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
        try:
            for namespace in self._namespaces():
                namespace.clear()
        except Exception as error:
            self._guard.tell(f"cannot clear the pages: {error!r}")

    def _namespaces(self) -> list[Namespace]:
        mine = [] if self._pools is None else [self._pools[number].namespace for number in range(len(self._pools))]
        return [*mine, *(side.namespace for side in self._sides.values())]

    def close(self) -> None:
        """Ends what is under way, and lets go of the engine's memory."""
        self._transfers = None
        for end in (self._search, self._pools, self._client):
            if end is not None:
                end.close()
        self._search = self._pools = self._client = None
        self._sides = {}


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
