"""Weights on disk for tests: folders as an engine loads them."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy

LAYERS = 3


def tensors(seed: int, rows: int = 64) -> dict[str, bytes]:
    """The tensors of a small model: embeddings, and two projections a layer."""
    made = numpy.random.default_rng(seed)
    names = ["model.embed_tokens.weight", *(f"model.layers.{i}.{one}.weight" for i in range(LAYERS) for one in ("q_proj", "mlp"))]
    return {name: made.bytes(rows * 256) for name in names}


def write_safetensors(path: Path, content: Mapping[str, bytes]) -> None:
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, data in content.items():
        header[name] = {"dtype": "BF16", "shape": [len(data) // 256, 128], "data_offsets": [at, at + len(data)]}  # type: ignore[dict-item]
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(content.values()))


def model(folder: Path, seed: int, rows: int = 64) -> Path:
    """A model of two shards."""
    folder.mkdir(parents=True, exist_ok=True)
    all_of_it = list(tensors(seed, rows).items())
    for number, part in enumerate((all_of_it[:4], all_of_it[4:]), 1):
        write_safetensors(folder / f"model-{number:05}-of-00002.safetensors", dict(part))
    (folder / "config.json").write_text("{}")
    return folder


def adapter(folder: Path, seed: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text('{"r": 8}')
    write_safetensors(folder / "adapter_model.safetensors", {"lora_A.weight": numpy.random.default_rng(seed).bytes(4096)})
    return folder
