"""Stands in for SGLang's compiled CUDA kernels, which need a GPU's driver to be imported. Only in checks on a machine without a GPU.

Each name can be imported; each call fails. The copies that hierarchical caching needs are made in torch (`sitecustomize`).
"""

from collections.abc import Callable
from typing import Any, NoReturn


def absent(name: str) -> Callable[..., NoReturn]:
    def call(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{name} is a CUDA kernel, and there is no GPU here")

    return call


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return absent(name)
