"""Lets SGLang's hierarchical cache run on a processor: copies between its device's pool and its host pool, in torch.

Python runs this at its start. What is replaced are CUDA kernels and the pinning of memory; all else of SGLang is as it is.
"""

import importlib.abc
import importlib.util
import sys
from typing import Any

_MODULE = "sglang.srt.mem_cache.pool_host.mha"


def _pages(indices: Any, page_tokens: int) -> list[int]:
    return [first // page_tokens for first in indices[::page_tokens].tolist()]


def _to_host(src_ptrs: Any, dst_ptrs: Any, src_indices: Any, dst_indices: Any, page_size: int) -> None:
    """Whole pages, of layers that lie apart on the device."""
    layers = len(src_ptrs) // len(dst_ptrs)
    pairs = list(zip(_pages(src_indices, page_size), _pages(dst_indices, page_size), strict=True))
    for number, source in enumerate(src_ptrs):
        target = dst_ptrs[number // layers]
        paged = source.unflatten(0, (-1, page_size))
        for here, there in pairs:
            target[there, number % layers] = paged[here]


def _to_device(src_ptrs: Any, dst_ptrs: Any, src_indices: Any, dst_indices: Any, layer_id: int, page_size: int) -> None:
    """One layer of pages."""
    pairs = list(zip(_pages(src_indices, page_size), _pages(dst_indices, page_size), strict=True))
    for source, target in zip(src_ptrs, dst_ptrs, strict=True):
        paged = target.unflatten(0, (-1, page_size))
        for here, there in pairs:
            paged[there] = source[here, layer_id]


def _replace(module: Any) -> None:
    allocate = module.ALLOC_MEMORY_FUNCS["cuda"]
    module.ALLOC_MEMORY_FUNCS["cpu"] = lambda *a, pin_memory=False, **more: allocate(*a, pin_memory=False, **more)
    module.transfer_kv_all_layer_direct_lf_pf = _to_host
    module.transfer_kv_per_layer_direct_pf_lf = _to_device


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            _replace(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())
