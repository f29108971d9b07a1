"""A small engine whose connector is made of `kvtier.engine` alone, all ranks in one process: what another engine's adapter looks like."""

import asyncio
import hashlib
import itertools
import logging
import os
import select
import time
from collections.abc import Sequence
from typing import Any

import numpy

from kvtier import Client, KvtierError, NamespaceMismatch
from kvtier._polled import Polled
from kvtier.engine.find import Search
from kvtier.engine.found import Found
from kvtier.engine.groups import ALL, Need, of_all_ranks, window
from kvtier.engine.guard import Guard
from kvtier.engine.identity import Identity, Place, PoolText, Texts, refuse
from kvtier.engine.keys import Keys, Prefix
from kvtier.engine.pools import Pools
from kvtier.engine.search import Searches
from kvtier.engine.settings import Settings
from kvtier.engine.speed import PrefillSpeed
from kvtier.engine.testing import Driver, Part, Wanted
from kvtier.engine.transfers import Transfer, Transfers, usable_tokens

BLOCK_TOKENS = 4
BLOCK_BYTES = 256
BLOCKS = 64
"""of each pool"""
FACES = ("blocking", "asyncio", "eventfd", "polled")
"""in which ways the engine waits for a search"""

_log = logging.getLogger("kvtier")
_numbers = itertools.count()
_texts = Texts("the engine's configuration")


class DirectEngine(Driver):
    """Full attention in the first pool, a window of 10 tokens in the second one."""

    unit_tokens = BLOCK_TOKENS

    def __init__(self, wanted: Wanted, face: str = "blocking") -> None:
        self.needs = [Need(BLOCK_TOKENS, ALL), Need(BLOCK_TOKENS, window(10))][: wanted.pools]
        self.settings = Settings(
            mismatch=wanted.mismatch, lookup_s_max=wanted.lookup_s_max, load_timeout_s=wanted.load_timeout_s, put_timeout_s=wanted.put_timeout_s
        )
        self.guard = Guard(_log, _texts.mismatch("the daemon has this namespace with other properties"))
        self.client: Client | None = None
        self.memory = [[numpy.zeros((BLOCKS, BLOCK_BYTES), dtype=numpy.uint8) for _ in self.needs] for _ in range(wanted.ranks)]
        self.pools: list[Pools] = []
        self.weights = wanted.weights
        self.named: list[list[Any]] = [[] for _ in self.needs]
        self.search: Search | None = None
        self.searches: Searches | None = None
        self.polled: Polled | None = None
        self._begun: dict[tuple[int, ...], tuple[Prefix, Found]] = {}
        self.face = face
        identity = Identity(
            engine="direct", model="tiny", model_config="none", weights=f"named {wanted.weights}", dtype=wanted.configuration,
            page_tokens=BLOCK_TOKENS, hash="blake2b", hash_seed="none", alone=os.urandom(16).hex(), namespace=wanted.namespace,
        )  # fmt: skip
        try:
            self.client = Client(wanted.socket, name="direct", timeout=wanted.load_timeout_s)
            self.pools = [Pools(self.client) for _ in range(wanted.ranks)]
            self._register(identity)
        except NamespaceMismatch as error:
            refuse(error, wanted.mismatch, _texts, _log)
            return
        except KvtierError as error:
            # A daemon of another version, for example. One that is absent raises nothing.
            _log.warning("kvtier is not used: %s", error)
            return
        self.transfers = [Transfers(pools.regions, self.settings, self.guard) for pools in self.pools]
        groups = of_all_ranks([pools.groups for pools in self.pools])
        self.search = Search(self.client, groups, self.settings, BLOCK_TOKENS, Keys(), self.guard)
        if face == "polled":
            self.polled = Polled(wanted.socket, "direct scheduler", 1 << 20)
            self.searches = Searches(self.polled, groups, self.settings, BLOCK_TOKENS, Keys(), self.guard, PrefillSpeed(), [])

    def _register(self, identity: Identity) -> None:
        ranks = len(self.pools)
        for rank, pools in enumerate(self.pools):
            for number, need in enumerate(self.needs):
                text = PoolText.of(number, len(self.needs), BLOCK_TOKENS, [f"layers of pool {number}"], need.rule)
                named = identity.of_rank("bytes", Place(part=rank, parts=ranks), text)
                pools.add(named, self.memory[rank][number], name=f"pool {number}", block_tokens=BLOCK_TOKENS, block_bytes=BLOCK_BYTES, rule=need.rule)
                self.named[number].append(named)

    # ---- what the engine does ----

    def _request(self, prompt: Sequence[int]) -> Prefix:
        pages = range(0, len(prompt) // BLOCK_TOKENS * BLOCK_TOKENS, BLOCK_TOKENS)
        hashes = [hashlib.blake2b(repr(list(prompt[: at + BLOCK_TOKENS])).encode(), digest_size=32).hexdigest() for at in pages]
        return Prefix.of(f"request-{next(_numbers)}", hashes, BLOCK_TOKENS)

    def _search(self, prompt: Sequence[int]) -> tuple[Prefix, Found]:
        request = self._request(prompt)
        return request, Found.nothing(0, len(self.needs)) if self.search is None else self._found(request, self.search)

    def _found(self, request: Prefix, search: Search) -> Found:
        if self.face == "asyncio":
            return asyncio.run(search.find_async(request))
        if self.face == "eventfd":
            search.begin(request)
            assert select.select([search.fileno()], [], [], 30)[0]
            ((request_id, found),) = search.ended()
            assert request_id == request.request_id
            return found
        if self.face == "polled":
            return self._polled(request)
        return search.find(request)

    def _polled(self, request: Prefix) -> Found:
        """As an engine that asks in each of its steps."""
        searches = self.searches
        assert searches is not None
        searches.begin(request)
        while searches.may_look() and searches.limit(request, 0):
            searches.poll(request.request_id)
            run = searches.matched(request, 0)
            if run:
                return searches.take(request.request_id, run) or Found.nothing(0, len(self.needs))
            if run == 0:
                break
            time.sleep(0.0001)
        searches.drop(request.request_id)
        return Found.nothing(0, len(self.needs))

    def find(self, prompt: Sequence[int]) -> int:
        self._begun[tuple(prompt)] = made = self._search(prompt)
        return made[1].tokens

    def serve(self, prompt: Sequence[int]) -> int:
        request, found = self._begun.pop(tuple(prompt), None) or self._search(prompt)
        # No release is forgotten, whatever happens.
        with found:
            tokens = self._load(request, found)
        self._check(prompt, tokens)
        self._compute(prompt)
        self._store(request)
        return tokens

    def _load(self, request: Prefix, found: Found) -> int:
        """All ranks load. Each may fail alone, and all go on with what the worst one has."""
        if not found:
            return 0
        parts = [
            Transfer(request.request_id, list(keys), list(blocks), blocks.start, group=number)
            for number, (keys, blocks) in enumerate(zip(found.keys, found.blocks, strict=True))
            if blocks
        ]
        return min(usable_tokens(self.needs, parts, one.get(parts), self.unit_tokens) for one in self.transfers)

    def _store(self, request: Prefix) -> None:
        if self.search is None:
            return
        hashes = list(request.block_hashes)
        for one in self.transfers:
            for number in range(len(self.needs)):
                one.put(Transfer(request.request_id, hashes, list(range(len(hashes))), 0, group=number))

    def _right(self, prompt: Sequence[int], rank: int, pool: int, block: int) -> Any:
        """The bytes of a block: they depend on all tokens before, on the weights, the rank and the pool."""
        text = repr((self.weights, rank, pool, list(prompt[: (block + 1) * BLOCK_TOKENS]))).encode()
        return numpy.resize(numpy.frombuffer(hashlib.blake2b(text).digest(), dtype=numpy.uint8), BLOCK_BYTES)

    def _check(self, prompt: Sequence[int], tokens: int) -> None:
        for rank, pools in enumerate(self.memory):
            for pool, (memory, need) in enumerate(zip(pools, self.needs, strict=True)):
                for block in need.blocks(tokens):
                    assert numpy.array_equal(memory[block], self._right(prompt, rank, pool, block)), f"wrong bytes: rank {rank}, pool {pool}, block {block}"

    def _compute(self, prompt: Sequence[int]) -> None:
        for rank, pools in enumerate(self.memory):
            for pool, memory in enumerate(pools):
                for block in range(len(prompt) // BLOCK_TOKENS):
                    memory[block] = self._right(prompt, rank, pool, block)

    # ---- what the contract asks for ----

    def abandon(self, prompt: Sequence[int]) -> None:
        self._begun.pop(tuple(prompt))[1].release()

    def parts(self, prompt: Sequence[int]) -> Sequence[Sequence[Part]]:
        keys = self._request(prompt).block_hashes
        return [[Part(one.name, BLOCK_BYTES, one.properties, keys) for one in of_ranks] for of_ranks in self.named]

    def lose(self, rank: int, block: int) -> None:
        regions = self.pools[rank].regions
        regions[0] = LosingOnce(regions, block)  # type: ignore[call-overload]

    def rest(self) -> None:
        if self.polled is not None:
            self.polled.poll()

    def close(self) -> None:
        for _, found in self._begun.values():
            found.release()
        if self.search is not None:
            self.search.close()
        if self.searches is not None and self.polled is not None:
            self.searches.drop_all()
            self.polled.close()
        for pools in self.pools:
            pools.close()
        if self.client is not None:
            self.client.close()


class LosingOnce:
    """A region that asks for another block in place of one, in the next load."""

    def __init__(self, regions: list[Any], block: int) -> None:
        self._regions = regions
        self._region = regions[0]
        self._block = block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def get(self, keys: list[bytes], block_ids: list[int], **more: Any) -> Any:
        self._regions[0] = self._region
        keys = [bytes(len(key)) if at == self._block else key for at, key in enumerate(keys)]
        return self._region.get(keys, block_ids, **more)
