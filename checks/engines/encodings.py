"""Compares encoded blocks with raw ones for one vLLM, in turns within one process. Two processes differ by more.

Its blocks have three namespaces: the one of `kvtier.encoding: exact`, which the connector made, that of an engine with `fp8`, and that of
an engine without the option. A prompt is restored from one of them, and right behind it found on the device; the next prompt comes from
the next namespace. Other prompts are computed in turns, and their blocks stored in each. Run by gpu.py, where there is a GPU; --tiny makes
a model that a processor computes, to try the program.
"""

import dataclasses
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from checks.engines.pairs import Engine, arguments_of
from checks.engines.switch import ROUNDS

MADE = "exact"
"""the encoding with which the connector is made"""

MODES = {"raw": "none", MADE: MADE, "fp8": "fp8"}
"""what `kvtier.encoding` is for each"""


class Place(NamedTuple):
    """The namespaces in which an engine's connector keeps blocks."""

    pools: Any
    namespaces: list[Any]
    """as the scheduler's side knows them"""


@contextmanager
def tensors_of_connectors() -> Iterator[list[Any]]:
    """A list that gets the tensors which connectors register within the block."""
    from kvtier.vllm._connector import KvtierConnector

    opened: list[Any] = []
    open_tensors = KvtierConnector._open

    def kept(connector: Any, of_groups: Any, memory: Any) -> None:
        opened.append(of_groups)
        open_tensors(connector, of_groups, memory)

    KvtierConnector._open = kept  # type: ignore[method-assign]
    try:
        yield opened
    finally:
        KvtierConnector._open = open_tensors  # type: ignore[method-assign]


class Forms:
    """An engine whose connector keeps blocks in the namespace of each mode."""

    def __init__(self, engine: Engine, tensors: Any) -> None:
        """`tensors`: of the only group of the engine's model."""
        self._engine = engine
        self._connector = engine.connectors[1]
        self._group = engine.scheduler._groups[0]
        shard = self._connector._mine[0]
        if "encoding" not in shard.properties:
            raise SystemExit("the blocks of this engine can't be encoded: its log says why")
        self._places = {MADE: Place(self._connector._pools, list(self._group.namespaces))}
        self._places |= {mode: self._place(tensors, encoding) for mode, encoding in MODES.items() if mode != MADE}

    def _place(self, tensors: Any, encoding: str) -> Place:
        from kvtier.engine import Named, Pools

        connector = self._connector
        before, connector._settings = connector._settings, dataclasses.replace(connector._settings, encoding=encoding)
        try:
            loaded = connector._mine[0].weights
            part = connector._part_of(tensors, loaded)
            shard = connector._make_shard(0, tensors, part, loaded)
        finally:
            connector._settings = before
        pools = Pools(connector._client)
        pools.add(
            Named(shard.name, shard.properties), tensors.tensors, block_tokens=self._engine.block_tokens, block_bytes=shard.block_bytes,
            block_axes=tensors.block_axes, shard=part.shard,
        )  # fmt: skip
        return Place(pools, self._engine.connectors[0]._group(0, [shard]).namespaces)

    def become(self, mode: str, stores: bool) -> None:
        """From now on blocks are loaded from this namespace, and stored there or not."""
        self._engine.become("stored" if stores else "computed")
        place = self._places[mode]
        # Both sides of the connector hold these very lists.
        self._group.namespaces[:] = place.namespaces
        self._engine.worker._regions[:] = place.pools.regions
        self._connector._pools = place.pools

    def close(self) -> None:
        """Lets go of the tensors' further registrations."""
        self.become(MADE, stores=False)
        for mode, place in self._places.items():
            if mode != MADE:
                place.pools.close()


def restores(engine: Engine, forms: Forms, kept: list[tuple[list[int], int]], tokens: int, pairs: int) -> dict[str, list[dict[str, Any]]]:
    """Restores in each mode, each with the hit behind it. Neighbours, one of each mode, are compared; every other time they come in
    reverse order."""
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    number = 0
    for pair in range(pairs):
        for mode in reversed(MODES) if pair % 2 == 0 else MODES:
            prompt, token = kept[number % len(kept)]
            number += 1
            forms.become(mode, stores=False)
            restored_ms, restored_tokens, first = engine.run(prompt)
            hit_ms, hit_tokens, second = engine.run(prompt)
            if restored_tokens < tokens or hit_tokens < tokens - engine.block_tokens:
                raise SystemExit(f"{mode}, a prompt of {tokens} tokens: {restored_tokens} were restored, {hit_tokens} on the device")
            found[mode].append({"restored_ms": restored_ms, "hit_ms": hit_ms, "same": {first, second} == {token}})
    return found


def measure(engine: Engine, forms: Forms, tokens: int, pairs: int, prompts: int, groups: int) -> dict[str, Any]:
    chance = random.Random(5)

    def fresh() -> list[int]:
        return [chance.randrange(3, 30000) for _ in range(tokens)]

    for prompt in (fresh(), fresh()):
        # A hit's step is another one for the GPU: the first of a process takes it 0.1 s more.
        engine.run(prompt)
        engine.run(prompt)
    kept = [(prompt, 0) for prompt in (fresh() for _ in range(prompts))]
    for mode in MODES:
        forms.become(mode, stores=True)
        for number, (prompt, _) in enumerate(kept):
            kept[number] = prompt, engine.run(prompt)[2]
        # The last blocks of a prompt are stored with the next step.
        engine.run(fresh())
    time.sleep(2)
    found: dict[str, Any] = {"restores": restores(engine, forms, kept, tokens, pairs), "computed_ms": {mode: [] for mode in MODES}}
    for group in range(len(MODES) * groups):
        mode = list(MODES)[group % len(MODES)]
        forms.become(mode, stores=True)
        # The first of them waits for what the one before it stores.
        found["computed_ms"][mode] += [engine.run(fresh())[0] for _ in range(ROUNDS)][1:]
    return found


def main() -> int:
    from kvtier import Client

    arguments = arguments_of("checks.engines.encodings", "vLLM's kv_transfer_config, with kvtier.encoding: exact", 3, MODES)
    with tempfile.TemporaryDirectory(prefix="kvtier-model-") as folder:
        with tensors_of_connectors() as opened:
            engine = Engine(arguments.kv, arguments.tokens, arguments.tiny, Path(folder), eager=True)
        forms = Forms(engine, opened[0][0])
        found = measure(engine, forms, arguments.tokens, arguments.pairs, arguments.prompts, arguments.groups)
        with Client(arguments.kv["kv_connector_extra_config"]["kvtier.socket"], timeout=30) as client:
            counters = client.counters()
        found["counters"] = {name: counters[name] for name in ("put_encoded", "put_raw", "put_encoded_bytes", "put_encoded_raw_bytes", "misses_encoded")}
        forms.close()
    arguments.out.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
