"""Writes the keys and values that a trained model has for a text, as blocks to measure codecs with: scripts/bench codecs --kv FILE.

    python -m bench.kv_values --model FOLDER --out FILE TEXT...

Needs torch and transformers, for a GGUF file also gguf and accelerate. FOLDER is a model of transformers, or a GGUF file of one. A block has 16 tokens,
the order of its bytes is that of engines whose blocks are encoded (LCHND), keys are those behind RoPE, and all elements are bf16.
"""

import sys
from pathlib import Path
from typing import Any

from checks.shared.command_line import Arguments, run_tool, whole

BLOCK_TOKENS = 16
HEADER_BYTES = 4096


def loaded(path: Path) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    more = {"gguf_file": path.name} if path.is_file() else {}
    folder = path.parent if path.is_file() else path
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **more)
    return model.eval(), AutoTokenizer.from_pretrained(folder, **more)


def blocks_of(model: Any, tokens: list[int]) -> Any:
    """The blocks of a sequence, shape [block, layer, keys and values, head, token, element]."""
    import torch

    with torch.no_grad():
        cache = model(input_ids=torch.tensor([tokens]), use_cache=True).past_key_values
    layers = torch.stack([torch.stack([layer.keys[0], layer.values[0]]) for layer in cache.layers])
    return layers.unflatten(3, (-1, BLOCK_TOKENS)).permute(3, 0, 1, 2, 4, 5).contiguous()


def main() -> int:
    parser = Arguments(prog="bench.kv_values", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=whole, default=2048, help="of one sequence, from the beginning of the texts; a multiple of 16")
    parser.add_argument("text", type=Path, nargs="+", help="files of text, one behind the other")
    given = parser.parse_args()
    if given.tokens == 0 or given.tokens % BLOCK_TOKENS:
        parser.error(f"--tokens is {given.tokens}, expected a multiple of {BLOCK_TOKENS}")
    import torch

    model, tokenizer = loaded(given.model)
    text = "\n".join(one.read_text() for one in given.text)
    tokens = tokenizer(text)["input_ids"][: given.tokens]
    if len(tokens) < given.tokens:
        parser.error(f"the texts have {len(tokens)} tokens, expected at least {given.tokens}")
    blocks = blocks_of(model, tokens)
    block_bytes = blocks[0].numel() * blocks.element_size()
    granule_bytes = blocks.shape[4] * blocks.shape[5] * blocks.element_size()
    header = f"exact bf16 {granule_bytes} {block_bytes}\n".encode()
    given.out.write_bytes(header.ljust(HEADER_BYTES, b"\0") + blocks.view(torch.uint8).numpy().tobytes())
    print(f"{len(blocks)} blocks of {block_bytes:,} bytes, {blocks.shape[1]} layers, {blocks.shape[3]} heads of {blocks.shape[5]} elements", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run_tool(main)
