"""Measures the cost of a lossy encoding of a prefix's keys and values: the perplexity of the text behind the prefix.

    PYTHONPATH=client-py/testing python -m bench.kv_perplexity --model FOLDER TEXT...

Needs what bench.kv_values needs, and kvtier. Each sequence is a prefix and its continuation. The model computes the prefix once, in bf16. The continuation
is computed with the prefix as it is, as `exact` and `fp8` keep it in blocks of 16 tokens, and in e4m3 with a scale of 1, which is the KV cache that vLLM
has with `--kv-cache-dtype fp8`. The continuation's own keys and values stay in bf16. Prints one JSON object.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from kvtier_testing.encodings import kept

from bench.kv_values import BLOCK_TOKENS, blocks_of, loaded
from checks.shared.command_line import Arguments, run_tool, whole

ENGINE_MAX = 448.0
"""the largest number of e4m3"""


def kept_as(kind: str, blocks: Any) -> Any:
    """Blocks of [block, layer, keys and values, head, token, element] as an encoding gives them back; a granule is a head."""
    import torch

    encoding = f"{kind} bf16 {2 * blocks.shape[4] * blocks.shape[5]}"
    back = b"".join(kept(encoding, block.contiguous().view(torch.uint8).numpy().tobytes()) for block in blocks)
    return torch.frombuffer(bytearray(back), dtype=torch.bfloat16).reshape(blocks.shape)


def kept_by_engine(blocks: Any) -> Any:
    """Blocks as an engine's KV cache in e4m3 keeps them, with a scale of 1."""
    import torch

    return blocks.clamp(-ENGINE_MAX, ENGINE_MAX).to(torch.float8_e4m3fn).to(torch.bfloat16)


def loss_behind(model: Any, blocks: Any, tokens: list[int]) -> float:
    """The sum of the losses of the tokens behind a prefix, except that of the first one."""
    import torch
    from transformers import DynamicCache

    # [block, layer, keys and values, head, token, element] -> [layer, keys and values, head, token of the prefix, element]
    layers = blocks.permute(1, 2, 3, 0, 4, 5).flatten(3, 4)
    cache = DynamicCache()
    for number, layer in enumerate(layers):
        cache.update(layer[0][None].clone(), layer[1][None].clone(), number)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), past_key_values=cache, use_cache=True).logits[0, :-1].float()
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:]), reduction="sum"))


def main() -> int:
    parser = Arguments(prog="bench.kv_perplexity", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--prefix", type=whole, default=768, help="tokens of a prefix, a multiple of 16")
    parser.add_argument("--continuation", type=whole, default=256, help="tokens of a continuation")
    parser.add_argument("--sequences", type=whole, default=16, help="how many at most")
    parser.add_argument("text", type=Path, nargs="+", help="files of text, one behind the other")
    given = parser.parse_args()
    if given.prefix == 0 or given.prefix % BLOCK_TOKENS or given.continuation < 2:
        parser.error(f"expected a prefix of a multiple of {BLOCK_TOKENS} tokens, and a continuation of at least 2")
    model, tokenizer = loaded(given.model)
    tokens = tokenizer("\n".join(one.read_text() for one in given.text))["input_ids"]
    each = given.prefix + given.continuation
    sequences = [tokens[at : at + each] for at in range(0, len(tokens) - each + 1, each)][: given.sequences]
    if not sequences:
        parser.error(f"the texts have {len(tokens)} tokens, expected at least {each}")
    losses = dict.fromkeys(("raw", "exact", "fp8", "engine_fp8"), 0.0)
    errors = dict.fromkeys(("fp8", "engine_fp8"), 0.0)
    magnitudes = 0.0
    for sequence in sequences:
        raw = blocks_of(model, sequence[: given.prefix])
        forms = {"raw": raw, "exact": kept_as("exact", raw), "fp8": kept_as("fp8", raw), "engine_fp8": kept_by_engine(raw)}
        magnitudes += float(raw.double().abs().sum())
        for name, blocks in forms.items():
            losses[name] += loss_behind(model, blocks, sequence[given.prefix :])
            if name in errors:
                errors[name] += float((raw.double() - blocks.double()).abs().sum())
    predicted = len(sequences) * (given.continuation - 1)
    print(
        json.dumps(
            {
                "sequences": len(sequences),
                "predicted_tokens": predicted,
                "perplexity": {name: math.exp(loss / predicted) for name, loss in losses.items()},
                "error": {name: error / magnitudes for name, error in errors.items()},
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
