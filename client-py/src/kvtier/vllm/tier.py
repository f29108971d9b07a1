"""kvtier below vLLM's own offloading: a secondary tier, behind the CPU tier in the engine's process.

    "kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": …,
        "secondary_tiers": [{"type": "KvtierTier", "module_path": "kvtier.vllm.tier", "socket": "…"}]}

What the CPU tier stores is stored here too; what it no longer has is loaded from here. Blocks go by the same compiled copies as
the connector's, between the CPU tier's memory and slots of the daemon.

This side of vLLM has no workers: which weights there are is known by their commit, their files or their name only, and a reset
begins another epoch whatever became of the weights. vLLM tells a tier neither of a reset of its own prefix cache alone nor which
adapter a block is of. Nor does it tell when a step has ended: so the tier reports to the daemon the tokens that it loaded and how
long that took, and not the time that computing them would have taken.
"""

import importlib
import logging
import os
import time
from array import array
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy
from vllm.v1.kv_offload import base as offload
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from kvtier._connection import namespace_properties
from kvtier._errors import NamespaceMismatch, Unavailable
from kvtier._operations import lookup as lookup_operation
from kvtier._operations import report_loads as report_loads_operation
from kvtier._polled import Call, Polled
from kvtier._protocol import Status
from kvtier._types import OUTER_TIERS, Lookup
from kvtier.client import Client, Namespace
from kvtier.engine import callers
from kvtier.engine.epochs import salted
from kvtier.engine.identity import suffix_of
from kvtier.engine.savings import LAST_REPORT_S, Savings
from kvtier.torch._cpu import CpuCopying, CpuRegion
from kvtier.torch._layout import Plane
from kvtier.vllm import _weights
from kvtier.vllm._namespace import TEXTS, Described, hash_seed, properties_of, seed_warning

_log = logging.getLogger("vllm.kvtier")

_GROUP_BYTES = 4
_LOOKUP_S_MAX = 0.5
_TRANSFER_TIMEOUT_S = 10.0
_KNOWN_FOR_S = 1.0
"""how long an answer that nobody fetched is kept"""
_START_TIMEOUT_S = 2.0
_SALT_BYTES = 32


class _Wish(NamedTuple):
    """To know whether a block is there."""

    request_id: Any
    """whose prefix it belongs to; None: nobody knows"""
    begun_s: float


class KvtierTier(SecondaryTierManager):
    """All methods come from the scheduler's thread, and none waits but `drain_jobs`."""

    medium = getattr(offload, "Medium", None) and offload.Medium.CPU

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        *,
        socket: str = "",
        namespace: str = "",
        weights: str = "",
        locality: str | None = None,
    ) -> None:
        """
        Args:
            socket: the daemon's; empty: that of this user's.
            namespace: the first part of the namespace's name; engines that share blocks set the same. Empty: made of the model's name.
            weights: a name of the weights, the same in all engines with these weights. Empty: made of their commit or their files.
            locality: "LOCAL" or "REMOTE", if requests choose tiers by locality; None: they do not.
        """
        super().__init__(offloading_spec=offloading_spec, primary_kv_view=primary_kv_view, tier_type=tier_type)
        self._bp_detector = backpressure_detector
        if locality is not None:
            known = getattr(offload, "Locality", None)
            self.locality = locality if known is None else known(locality)
        chunks = numpy.asarray(primary_kv_view)
        chunk_bytes = int(chunks.strides[0])
        config = getattr(offloading_spec, "vllm_config", None)
        if config is None:
            # Newer releases have what makes the tier know it, and hand over a part of it.
            config = callers.local("vllm_config", lambda one: hasattr(one, "model_config"))
        described = _described(config, offloading_spec, weights)
        properties = {**described.properties, **_properties(offloading_spec, chunk_bytes)}
        name = f"{namespace or f'vllm-offloading/{_model(offloading_spec)}'}/{described.suffix}"
        if described.advice:
            _log.warning("kvtier: %s", described.advice)
        self._salt = b""
        self._client = Client(socket or None, name=f"vllm {name}", timeout=_START_TIMEOUT_S)
        try:
            registered: Namespace = self._client.namespace(name, block_bytes=chunk_bytes, **properties)
        except NamespaceMismatch as error:
            raise RuntimeError(TEXTS.mismatch(str(error))) from None
        self._described = namespace_properties(name, chunk_bytes, dict(properties))
        # One plane: a chunk's bytes lie in one piece.
        plane = Plane(int(chunks.ctypes.data), int(chunks.shape[0]), chunk_bytes, 0, chunk_bytes, ())
        self._region = CpuRegion(registered, [chunks], [plane], "tier")
        self._polled = Polled(socket or None, "vllm offloading", 1 << 20)
        try:
            self._polled.connection.open_within(_START_TIMEOUT_S)
        except Unavailable as error:
            self._polled.connection.warn(error)
        self._wanted: dict[bytes, _Wish] = {}
        self._asked: list[tuple[dict[bytes, _Wish], Call[Lookup]]] = []
        self._known: dict[bytes, tuple[bool, float]] = {}
        self._chunk_tokens = _chunk_tokens(offloading_spec)
        self._savings = Savings()
        self._jobs: dict[int, tuple[list[bytes], list[tuple[list[int], CpuCopying]], bool, float]] = {}

    # ---- what is there ----

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """Found out for all keys of a step that belong together, at its end; until then: ask again."""
        answer = self._known.pop(key, None)
        if answer is None and key not in self._wanted and not any(key in keys for keys, _ in self._asked):
            self._wanted[key] = _Wish(getattr(req_context, "req_id", None), time.monotonic())
        return _result(None if answer is None else answer[0])

    def on_schedule_end(self, context: Any = None) -> None:
        self._collect()
        wanted, self._wanted = self._wanted, {}
        # The daemon takes the keys of a lookup for one prefix: those of several requests are none.
        together: dict[tuple[Any, int], dict[bytes, _Wish]] = {}
        for key, wish in wanted.items():
            together.setdefault((wish.request_id, _group_of(key)), {})[key] = wish
        for (_, group), keys in together.items():
            names = self._names(keys)
            call = self._polled.start(
                self._described,
                partial(lookup_operation, keys=names),
                Lookup.of_status(Status.UNAVAILABLE, len(keys)),
                _LOOKUP_S_MAX,
                group=group,
            )
            self._asked.append((keys, call))
        self._report()
        self._collect()

    def _report(self) -> None:
        for report in self._savings.take_all(0.0):
            self._polled.start(
                self._described, partial(report_loads_operation, report=report), Status.UNAVAILABLE, _LOOKUP_S_MAX
            )

    def _collect(self) -> None:
        self._polled.poll()
        now_s = time.monotonic()
        self._known = {key: answer for key, answer in self._known.items() if now_s - answer[1] < _KNOWN_FOR_S}
        waiting = []
        for keys, call in self._asked:
            if not call.done:
                waiting.append((keys, call))
                continue
            for (key, wish), answer in zip(keys.items(), call.outcome.blocks, strict=False):
                if answer[0] is Status.PENDING and answer[1] in OUTER_TIERS and now_s - wish.begun_s < _LOOKUP_S_MAX:
                    # The daemon asks the object store or other nodes, and will know.
                    self._wanted[key] = wish
                else:
                    self._known[key] = (answer[0] is Status.OK, now_s)
        self._asked = waiting

    def _names(self, keys: Iterable[bytes]) -> list[bytes]:
        """As the daemon knows them."""
        return salted(self._salt, [key[:-_GROUP_BYTES] for key in keys])

    def has_pending_work(self) -> bool:
        return bool(self._jobs or self._asked or self._wanted)

    # ---- transfers ----

    def submit_store(self, job_metadata: Any) -> None:
        self._submit(job_metadata, False)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(job_metadata, True)

    def _submit(self, job: Any, is_load: bool) -> None:
        ids = getattr(job, "chunk_ids", None)
        chunks = [int(one) for one in (job.block_ids if ids is None else ids)]
        keys = [bytes(key) for key in job.keys]
        parts = []
        for group, places in _places_by_group(keys).items():
            names = self._names([keys[place] for place in places])
            blocks = [chunks[place] for place in places]
            begin = self._region.get_group if is_load else self._region.put_group
            parts.append((places, begin(names, array("q", blocks), group, _TRANSFER_TIMEOUT_S)))
        self._jobs[job.job_id] = (keys, parts, is_load, time.monotonic())

    def get_finished_jobs(self) -> Iterable[Any]:
        self._collect()
        finished = []
        for job_id, (keys, parts, is_load, begun_s) in list(self._jobs.items()):
            if not all(copying.done() for _, copying in parts):
                continue
            del self._jobs[job_id]
            statuses = [Status.INTERNAL] * len(keys)
            for places, copying in parts:
                for place, status in zip(places, copying.wait(0), strict=True):
                    statuses[place] = status
            if is_load:
                # The groups of a chunk hold the same tokens.
                longest = max((sum(statuses[place] is Status.OK for place in places) for places, _ in parts), default=0)
                self._savings.add(statuses.count(Status.OK), longest * self._chunk_tokens, time.monotonic() - begun_s)
            finished.append(_job_result(job_id, keys, statuses, is_load, time.monotonic() - begun_s, self._region.block_bytes))
        return finished

    def drain_jobs(self) -> None:
        """vLLM calls it when it resets its caches, and then only: the weights may be others from now on."""
        self._wait_for_jobs()
        for _, call in self._asked:
            self._polled.cancel(call)
        self._wanted, self._asked, self._known = {}, [], {}
        self._salt = os.urandom(_SALT_BYTES)

    def _wait_for_jobs(self) -> None:
        for _, parts, _, _ in self._jobs.values():
            for _, copying in parts:
                copying.wait()

    # ---- the rest ----

    def on_new_request(self, req_context: Any) -> Any:
        made = getattr(offload, "RequestOffloadingContext", None)
        return None if made is None else made()

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        # The daemon counts what is loaded, and nothing else.
        return

    def shutdown(self) -> None:
        self._wait_for_jobs()
        self._region.close()
        self._report()
        self._polled.close(LAST_REPORT_S)
        self._client.close()


def _result(found: bool | None) -> Any:
    result = getattr(offload, "LookupResult", None)
    if result is None:
        # Before there was a type of its own: None asks to be asked again.
        return found
    return result.RETRY if found is None else result.HIT if found else result.MISS


def _job_result(job_id: int, keys: list[bytes], statuses: list[Status], is_load: bool, taken_s: float, chunk_bytes: int) -> Any:
    good = (Status.OK,) if is_load else (Status.OK, Status.EXISTS, Status.PENDING)
    succeeded = [key for key, status in zip(keys, statuses, strict=True) if status in good]
    more: dict[str, Any] = {}
    if "successful_keys" in getattr(JobResult, "__dataclass_fields__", {}):
        more = {"transfer_time": taken_s, "transfer_bytes": len(succeeded) * chunk_bytes}
        if is_load and len(succeeded) < len(keys):
            more["successful_keys"] = succeeded
    return JobResult(job_id=job_id, success=len(succeeded) == len(keys), **more)


def _places_by_group(keys: list[bytes]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(_group_of(key), []).append(place)
    return groups


def _group_of(key: bytes) -> int:
    """vLLM's key is the block's hash and the number of its KV-cache group."""
    return int.from_bytes(key[-_GROUP_BYTES:], "big")


def _described(config: Any, spec: Any, named: str) -> Described:
    """The connector's identity, as far as the scheduler's process knows it."""
    alone = os.urandom(16).hex()
    if config is None:
        name = _model(spec)
        text = f"named {named}" if named else _weights.of_path(name)
        advice = "" if text else (
            f"the weights of {name!r} cannot be identified, so other engines cannot find this engine's blocks. Set weights in the "
            "tier's configuration to one name in all engines with these weights."
        )
        text = text or f"unknown, of this engine alone: {alone}"
        return Described({"weights": text}, suffix_of(text), advice)
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    fixed_seed = hasattr(utils, "DEFAULT_NONE_HASH_SEED")
    described = properties_of(config, named, "", alone, fixed_seed)
    advice = described.advice
    algorithm = str(config.cache_config.prefix_caching_hash_algo)
    if hash_seed(algorithm, fixed_seed) is None:
        advice = seed_warning(algorithm)
    if getattr(config, "lora_config", None) is not None:
        text = f"adapters, of this engine alone: {alone}"
        advice = (
            "vLLM does not tell this tier which LoRA adapter a block belongs to. Other engines cannot find this engine's blocks, and "
            "neither can this engine after a restart. KvtierConnector has no such limit."
        )
        return Described({**described.properties, "lora": text}, suffix_of(text), advice)
    return Described(described.properties, described.suffix, advice)


def _model(spec: Any) -> str:
    config = getattr(spec, "config", None)
    return str(spec.vllm_config.model_config.model if config is None else config.model.name)


def _chunk_tokens(spec: Any) -> int:
    config = getattr(spec, "config", None)
    if config is None:
        return int(spec.vllm_config.cache_config.block_size)
    return int(config.cache.tokens_per_hash) * int(config.cache.blocks_per_chunk)


def _properties(spec: Any, chunk_bytes: int) -> dict[str, str]:
    """What makes chunks of two engines exchangeable, as vLLM's own file tier has it."""
    config = getattr(spec, "config", None)
    if config is None:
        vllm_config = spec.vllm_config
        parallel = vllm_config.parallel_config
        return {
            "kv_dtype": str(vllm_config.cache_config.cache_dtype), "tokens": str(vllm_config.cache_config.block_size),
            "parallel": f"{parallel.tensor_parallel_size}x{parallel.pipeline_parallel_size}", "chunk": str(chunk_bytes),
        }  # fmt: skip
    parallel = config.parallel
    return {
        "kv_dtype": str(config.model.dtype), "tokens": str(config.cache.tokens_per_hash),
        "blocks_a_chunk": str(config.cache.blocks_per_chunk),
        "groups": " ".join(f"{group.tokens_per_block}:{len(group.layer_names)}" for group in config.groups),
        "parallel": f"{parallel.tp_size}x{parallel.pp_size}x{parallel.pcp_size}x{parallel.dcp_size}",
        "layout": f"{config.kv_cache_layout or 'own'}{' canonical' if config.canonical_layout else ''}", "chunk": str(chunk_bytes),
    }  # fmt: skip
