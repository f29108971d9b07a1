"""Requests that a check makes up, for an engine in the process: each with parameters for the connector, some of them aborted."""

import statistics
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_PAUSE_S = 0.001


def served(engine: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Serves requests, each when it comes.

    Args:
        engine: `checks.engines.run.Engine`.
        command: ``requests``: for each its ``tokens``, and maybe ``params`` for the connector, and ``abort_s``: when it is aborted, in seconds
            from the beginning, and ``at_s``: when it comes, likewise; ``tokens``: how many each generates; ``reset``: the engine forgets its own
            prefix cache before.

    Returns:
        For each request: the ``tokens`` that were generated, or null if it was aborted; the ``params`` that the connector gave; ``cached``, the
        number of its prompt's tokens that were not computed; ``first_s``, the time to the first token; ``gaps_s``, the times between its tokens.
        And the ``counters``.
    """
    before = engine.counters()
    if command.get("reset"):
        engine.llm.reset_prefix_cache()
    requests = command["requests"]
    core = engine.llm.llm_engine
    tokens: list[list[int] | None] = [None] * len(requests)
    params: list[Any] = [None] * len(requests)
    cached = [0] * len(requests)
    token_s: list[list[float]] = [[] for _ in requests]
    comes_s = [float(request.get("at_s", 0)) for request in requests]
    to_come = sorted(range(len(requests)), key=lambda number: comes_s[number], reverse=True)
    begun = time.monotonic()
    to_abort = {number: request["abort_s"] for number, request in enumerate(requests) if "abort_s" in request}
    while to_come or core.has_unfinished_requests():
        now_s = time.monotonic() - begun
        while to_come and comes_s[to_come[-1]] <= now_s:
            number = to_come.pop()
            request = requests[number]
            said = {"kv_transfer_params": request["params"]} if request.get("params") else None
            parameters = engine.parameters(temperature=0, max_tokens=command["tokens"], ignore_eos=True, detokenize=False, extra_args=said)
            core.add_request(str(number), {"prompt_token_ids": request["tokens"]}, parameters)
        for number in [one for one, at_s in to_abort.items() if now_s >= at_s]:
            del to_abort[number]
            core.abort_request([str(number)])
        outputs = core.step() if core.has_unfinished_requests() else []
        for output in outputs:
            number = int(output.request_id)
            token_s[number].append(time.monotonic() - begun)
            if output.finished and output.outputs[0].finish_reason != "abort":
                tokens[number], params[number] = list(output.outputs[0].token_ids), output.kv_transfer_params
                cached[number] = output.num_cached_tokens or 0
        if not outputs:
            time.sleep(_PAUSE_S)
    counters = {name: value - before.get(name, 0) for name, value in engine.counters().items()}
    first_s = [times[0] - came if times else 0.0 for times, came in zip(token_s, comes_s, strict=True)]
    gaps_s = [[later - earlier for earlier, later in pairwise(times)] for times in token_s]
    return {"tokens": tokens, "params": params, "cached": cached, "first_s": first_s, "gaps_s": gaps_s, "counters": counters}


def times_of(answer: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds of an answer of `served`: the median, the 99th percentile and the maximum of the times between tokens, and the median time
    to the first token."""
    gaps = sorted(1e3 * gap for some in answer["gaps_s"] for gap in some)
    p50, p99 = (gaps[int(share * (len(gaps) - 1))] for share in (0.5, 0.99))
    return {"p50_ms": p50, "p99_ms": p99, "max_ms": gaps[-1], "first_ms": statistics.median(1e3 * one for one in answer["first_s"])}
