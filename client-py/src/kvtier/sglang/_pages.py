"""The pages of one rank of an SGLang engine in kvtier: what SGLang's two seams have in common."""

import logging
import os
import threading
from collections.abc import Callable, Sequence

from kvtier._errors import KvtierError, NamespaceMismatch
from kvtier._operations import instant_after
from kvtier.client import Client, Namespace
from kvtier.engine.encoding import encoded
from kvtier.engine.epochs import Epochs
from kvtier.engine.find import Search
from kvtier.engine.guard import Guard
from kvtier.engine.identity import Identity, Named, Place, PoolText, Texts, refuse
from kvtier.engine.keys import Keys, Prefix, all_hash_bytes
from kvtier.engine.pools import Pools
from kvtier.engine.settings import Settings
from kvtier.engine.transfers import Transfers
from kvtier.sglang._engine import Model, Pool, Seat
from kvtier.sglang._memory import Memory
from kvtier.torch import Shard, form_of

_log = logging.getLogger("sglang.kvtier")

_START_TIMEOUT_S = 2.0
_NOT_USED = "kvtier is not used, and this engine neither loads nor stores pages: %s"
_RAW = "kvtier.encoding is not used, and pages are stored raw: %s"


class Pages:
    """Opens the namespace of an engine's pages, finds pages there, and knows with which weights they were computed.

    It is made before the pool of pages is known, and opened with it. Until then, and where it can't be opened, nothing is found.
    """

    def __init__(
        self, settings: Settings, seat: Seat, model: Model, texts: Texts, unserved: str, gather: Callable[[str], Sequence[str]] = lambda mine: [mine]
    ) -> None:
        """
        Args:
            texts: how SGLang calls what configures this seam.
            unserved: why pages of this engine can't be kept; empty where they can.
            gather: gives what all ranks of the engine tell, in their order, where they can tell each other: then they agree on the weights
                that they have. All ranks call it at the same points: here, in `open`, and with `weigh` behind `flushed`.
        """
        self.settings = settings
        self.seat = seat
        self.model = model
        self.guard = Guard(_log, texts.mismatch("the daemon has this namespace with other properties"))
        self._texts = texts
        self._unserved = unserved
        self._gather = gather
        self._loaded = gather(model.loaded())
        self._epochs = Epochs(_by_rank(self._loaded))
        self._weigh_lock = threading.Lock()
        self.client: Client | None = None
        self.pools: Pools | None = None
        self.transfers: Transfers | None = None
        self._search: Search | None = None
        self.identity: Identity | None = None
        self.named: Named | None = None
        """the namespace of keys and values; None: nothing is kept"""
        self.page_tokens = 0

    # ---- the engine's memory ----

    def open(self, pool: Pool, memory: Memory | None, unknown: str) -> None:
        """Registers the pool of keys and values. What is wrong with the daemon is logged.

        Args:
            memory: None: nobody knows how its pages lie.
            unknown: the pool's name then, for the log.

        Raises:
            RuntimeError: engines with another configuration have the namespace, and this engine must not start then.
        """
        if self._unserved or memory is None:
            _log.warning(_NOT_USED, self._unserved or f"nobody knows how pages lie in a {unknown}")
            return
        try:
            self._open(pool, memory)
        except NamespaceMismatch as error:
            self.close()
            self.refuse(error)
        except KvtierError as error:
            self.close()
            _log.warning(_NOT_USED, error)

    def _open(self, pool: Pool, memory: Memory) -> None:
        weights = self.model.weights(self.settings.weights, self._texts, self._loaded)
        if weights.advice:
            _log.warning("kvtier: %s", weights.advice)
        identity = self.identity = self.model.identity(self.settings, pool, weights.text, self._gather(os.urandom(16).hex())[0])
        self.client = Client(self.settings.socket or None, name=f"sglang {identity.model}", timeout=_START_TIMEOUT_S)
        named, shard, block_bytes = self._joined(identity, pool, memory)
        self.named = named
        self.page_tokens = pool.page_tokens
        self.pools = Pools(self.client)
        self.pools.add(
            named, memory.tensors, block_tokens=self.page_tokens, block_bytes=block_bytes, block_axes=memory.block_axes, shard=shard,
        )  # fmt: skip
        self.transfers = Transfers(self.pools.regions, self.settings, self.guard)
        self._search = Search(self.client, self.pools.groups, self.settings, self.page_tokens, Keys(self._epochs), self.guard)
        _log.info("kvtier is used: pages of %d tokens, namespace %s", self.page_tokens, named.name)

    def _joined(self, identity: Identity, pool: Pool, memory: Memory) -> tuple[Named, Shard | None, int]:
        """The namespace of keys and values, what this rank has of its pages (None: pages of its own), and the bytes of a page."""
        seat = self.seat
        if memory.shard is None:
            if self.settings.encoding != "none":
                _log.warning(_RAW, "the number of the model's KV heads is not known")
            named = identity.of_rank(memory.layout, Place(seat.pp_rank, seat.pp_size, seat.tp_rank, seat.tp_size))
            return named, None, memory.page_bytes
        shard, encoding, problem = encoded(self.settings.encoding, memory.tensors, memory.shard)
        if problem:
            _log.warning(_RAW, problem)
        form = form_of(memory.tensors, shard)
        has_stages = seat.pp_size > 1
        layout = f"{memory.layout} layers {pool.stage_layers}" if has_stages else memory.layout
        text = PoolText(f"/pp{seat.pp_rank}", {}) if has_stages else None
        return identity.of_model(layout, form.text, text, encoding), shard, form.block_bytes

    @property
    def is_open(self) -> bool:
        return self.transfers is not None

    def side(self, layout: str, name: str, page_bytes: int) -> Namespace:
        """The namespace of a pool beside keys and values. Each rank has one of its own.

        Args:
            layout: what decides about the bytes of its pages.

        Raises:
            NamespaceMismatch: engines with another configuration have the namespace.
        """
        assert self.client is not None and self.identity is not None
        seat, ranks = self.seat, self.model.ranks
        named = self.identity.of_rank(layout, Place(seat.pp_rank, seat.pp_size, ranks.rank, ranks.size), PoolText(f"/{name}", {"pool": name}))
        return self.client.namespace(named.name, block_bytes=page_bytes, **named.properties)

    def refuse(self, error: NamespaceMismatch) -> None:
        """What the engine does when engines with another configuration have a namespace; raises where it must not start."""
        refuse(error, self.settings.mismatch, self._texts, _log)

    def may_ask(self) -> bool:
        """Whether a daemon can be asked now. Without one, nothing is done for the pages: not even the weights are looked at.

        Always true where ranks look at their weights together, because each of them waits there for the others.
        """
        if len(self._loaded) > 1:
            return True
        client = self.client
        return client is not None and self.guard.may_ask() and client._connection.link(instant_after(self.settings.lookup_s_max)) is not None

    # ---- which weights the pages are of ----

    def flushed(self) -> None:
        """The engine's caches were emptied. Who changes the weights of an engine does that, so they may be others now."""
        self._epochs.ask()

    def weigh(self) -> None:
        """Looks at the weights after a flush, before anything is stored or loaded."""
        if not self._epochs.question:
            return
        with self._weigh_lock:
            question = self._epochs.question
            if question:
                before = self._epochs.salt
                told = self._gather(self.model.loaded())
                if not all(told):
                    # Nobody knows which weights these are. They have keys of their own, alike on all ranks.
                    told = [self._gather(os.urandom(16).hex())[0]] * len(told)
                self._epochs.answer(question, _by_rank(told))
                if self._epochs.salt != before:
                    _log.info("kvtier: the weights of this engine have changed. Its pages now have other keys than those of the earlier weights.")

    def salted(self, keys: Sequence[str]) -> list[bytes]:
        """The keys of pages with the weights that are in memory now."""
        self.weigh()
        assert self.pools is not None
        return Keys(self._epochs).of(Prefix("", 0, all_hash_bytes(keys)), self.pools[0].group, 0, len(keys))

    # ---- pages ----

    def found(self, keys: Sequence[str], waits_for_objects: bool = True) -> int:
        """How many of these pages, from the first, can be read. Never raises.

        Args:
            waits_for_objects: as `Search.count` takes it.
        """
        search = self._search
        if search is None or not keys:
            return 0
        try:
            if self._epochs.question:
                if not self.may_ask():
                    return 0
                self.weigh()
            return search.count_pages(keys, waits_for_objects=waits_for_objects)
        except Exception as error:
            # An engine goes on whatever its cache does.
            self.guard.tell(f"cannot look for pages: {error!r}")
            return 0

    def clear(self, sides: Sequence[Namespace] = ()) -> None:
        """Deletes all pages of this engine's namespaces, also those of the other engines that share them."""
        try:
            pools = self.pools
            mine = [] if pools is None else [pools[number].namespace for number in range(len(pools))]
            for namespace in [*mine, *sides]:
                namespace.clear()
        except Exception as error:
            self.guard.tell(f"cannot clear the pages: {error!r}")

    def close(self) -> None:
        """Ends what is under way, and lets go of the engine's memory."""
        self.transfers = None
        for end in (self._search, self.pools, self.client):
            if end is not None:
                end.close()
        self._search = self.pools = self.client = None


def _by_rank(told: Sequence[str]) -> dict[tuple[int, int], str]:
    return {(0, rank): one for rank, one in enumerate(told)}

