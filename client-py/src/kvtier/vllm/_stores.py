"""Stores: which blocks of a request are stored in a step, and in which pieces."""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from kvtier._protocol import ANNOTATION_ANNOTATION_BYTES_MAX, KEYS_MAX
from kvtier.annotations import of_blocks
from kvtier.device import PUT_WINDOW_BYTES, window_blocks
from kvtier.engine.groups import Group, is_plain, leading
from kvtier.engine.transfers import Transfer
from kvtier.vllm._keys import Keys
from kvtier.vllm._tracked import Blocks, Tracked

_log = logging.getLogger("vllm.kvtier")


class Stores:
    """Makes the stores of an engine's steps. It neither knows when they begin nor when they end."""

    def __init__(
        self,
        groups: Sequence[Group],
        keys: Keys,
        extra_keys: Callable[[Any, Sequence[int]], list[Any] | None],
        annotates: bool,
        goes_by_layer: Callable[[Any], bool] = lambda _request: False,
    ) -> None:
        """`extra_keys`: as `Scheduler` takes it. `annotates`: blocks are stored with their tokens, for KV events. `goes_by_layer`: whether
        a request's blocks should be stored a few layers at a time."""
        self._groups = list(groups)
        self._keys = keys
        rules = [group.rule for group in groups]
        self._is_plain = is_plain(rules)
        self._annotated = leading(rules)
        """the group whose blocks the events are of"""
        self._extra_keys = extra_keys
        self._annotates = annotates
        self._goes_by_layer = goes_by_layer
        self._piece_blocks = [
            window_blocks(PUT_WINDOW_BYTES, max(one.block_bytes for one in group.namespaces)) for group in self._groups
        ]
        """of a store of each group: one request to the daemon, and what the engine waits for before it writes one of them anew"""
        self.null_block: int | None = None
        """stands for blocks that the engine no longer has"""

    def ends_of(self, stores: Sequence[Transfer]) -> int:
        """How often the ranks will tell that one of these has ended."""
        return sum(self._groups[store.group].writers for store in stores)

    def of(self, tracked: Tracked, computed_tokens: int, state: Any = None) -> list[Transfer]:
        """Of the blocks that are whole when so many tokens from the first are computed, those that are not stored yet.

        Args:
            state: vLLM's ``KVConnectorBlockState`` of the step: where the request's blocks lie now, and states that it offers.
        """
        request = tracked.request
        if self._keys.salt(request) is None:
            return []
        computed_tokens = min(computed_tokens, tracked.stored_tokens_max)
        now = None if state is None or self._is_plain else state.get_block_ids(request.request_id)
        stores: list[Transfer] = []
        for group, blocks in zip(self._groups, tracked.blocks, strict=True):
            if group.is_offered:
                stores += self._offered(group, tracked, blocks, computed_tokens, state)
            else:
                stores += self._filled(group, tracked, blocks, computed_tokens, blocks.ids if now is None else now[group.number])
        return stores

    def _offered(self, group: Group, tracked: Tracked, blocks: Blocks, computed_tokens: int, state: Any) -> list[Transfer]:
        """The states of a request that the engine has at the ends of blocks when the step is computed."""
        offers = () if state is None else state.boundary_state_offloads.get(tracked.request.request_id, ())
        stores = []
        for number, block_id, tokens in offers:
            at = tokens // group.block_tokens
            has_hash = at * group.block_hashes <= len(tracked.request.block_hashes)
            if number != group.number or tokens % group.block_tokens or tokens > computed_tokens or not has_hash:
                continue
            if at > blocks.stored:
                blocks.stored = at
                stores.append(self._piece(group, tracked, [block_id], at - 1, at))
        return stores

    def _filled(self, group: Group, tracked: Tracked, blocks: Blocks, computed_tokens: int, ids: Sequence[int]) -> list[Transfer]:
        """The blocks of a group that are whole and not stored yet. `ids`: where the blocks lie."""
        request = tracked.request
        tokens = group.block_tokens
        # A block has a hash when its last token is decided: what is only guessed has none.
        end = min(computed_tokens // tokens, len(request.block_hashes) // group.block_hashes, len(ids))
        begin = blocks.stored
        if begin >= end:
            return []
        blocks.stored = end
        if begin == end - 1 and end * tokens == request.num_prompt_tokens and end <= tracked.known:
            # A prompt of whole blocks that is there to its end: the last one is computed all the same, for its last token.
            return []
        # Some layers of all blocks are one request to the daemon.
        step = KEYS_MAX if self._goes_by_layer(request) else self._piece_blocks[group.number]
        pieces = [
            self._piece(group, tracked, ids[at : min(at + step, last)], at, min(at + step, last))
            for first, last in _held(ids, begin, end, self.null_block)
            for at in range(first, last, step)
        ]
        # An engine frees a sequence's blocks from its last one, and uses those first that it freed first: the next request
        # waits for the last ones. But who reads events wants to hear of a block behind its parent.
        return pieces if self._annotates else pieces[::-1]

    def _piece(self, group: Group, tracked: Tracked, ids: Sequence[int], begin: int, end: int) -> Transfer:
        request = tracked.request
        keys = self._keys.of(request, group, max(0, begin - 1), end)
        parent = keys.pop(0) if begin else None
        is_annotated = self._annotates and group.number == self._annotated
        annotations = self._annotations(request, group, begin, keys, parent) if is_annotated else None
        return Transfer(
            request.request_id, keys, list(ids), begin, parent, annotations, group.number, tracked.wishes.priority, self._goes_by_layer(request)
        )

    def _annotations(
        self, request: Any, group: Group, begin: int, keys: list[bytes], parent: bytes | None
    ) -> list[bytes | None] | None:
        tokens = group.block_tokens
        end = begin + len(keys)
        adapter = request.lora_request
        try:
            made = of_blocks(
                request.all_token_ids[begin * tokens : end * tokens],
                keys,
                parent=parent,
                lora_id=None if adapter is None else adapter.lora_int_id,
                lora_name=None if adapter is None else adapter.lora_name,
                extra_keys=self._extra_keys(request, range(begin * tokens, end * tokens + 1, tokens)),
            )
        except Exception as error:
            # An annotation is made of the engine's own data, which changes between releases. The blocks are worth more than their events.
            _log.warning("kvtier.annotate does not work with this vLLM release, so blocks are stored without their tokens: %s: %s", type(error).__name__, error)
            self._annotates = False
            return None
        # Blocks of very many tokens, or images: their events would not fit, and the blocks are worth more.
        return [one if len(one) <= ANNOTATION_ANNOTATION_BYTES_MAX else None for one in made]


def _held(ids: Sequence[int], begin: int, end: int, null: int | None) -> Iterable[tuple[int, int]]:
    """The runs of blocks that the engine has, of those from `begin` to `end`."""
    if null is None or null not in ids[begin:end]:
        return [(begin, end)]
    runs = []
    for is_null, places in groupby(range(begin, end), lambda at: ids[at] == null):
        if not is_null:
            some = list(places)
            runs.append((some[0], some[-1] + 1))
    return runs
