"""What the weights in an engine's memory are: a digest of all their bytes.

Files say what an engine was started with; what a trainer has written into its memory since, only the memory says.
"""

import ctypes
import hashlib
import importlib
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_THREADS = 16
_PIECE_BYTES = 64 << 20
_COLUMNS = 4096
_WORD = (1 << 64) - 1


def digest(tensors: Iterable[tuple[str, Any]]) -> str:
    """A digest of tensors by name, 32 hexadecimal digits: of their bytes, types, shapes and strides, in whatever order they come.

    In host memory it is SHA-256, a thread a piece of 64 MiB. On a device it is a polynomial of all 64-bit words modulo 2^64 for each
    tensor, computed there: no accident leaves it alike, an adversary could.

    Raises:
        Exception: a tensor's bytes can't be looked at.
    """
    listed = sorted(tensors, key=lambda one: one[0])
    spans: dict[tuple[int, int], int] = {}
    """(address, bytes) in host memory, each once: tensors may be tied"""
    sums: list[Any] = []
    places: list[tuple[bool, int]] = []
    """of each tensor: whether it is in host memory, and which of those there"""
    for _, tensor in listed:
        span = _span_bytes(tensor)
        if tensor.device.type == "cpu":
            places.append((True, spans.setdefault((int(tensor.data_ptr()), span), len(spans))))
        else:
            places.append((False, len(sums)))
            sums.append(_sum_on_device(tensor, span))
    in_host, on_devices = _hash_all(list(spans)), _gather(sums)
    hashed = hashlib.sha256()
    for (name, tensor), (is_in_host, index) in zip(listed, places, strict=True):
        hashed.update(repr((name, str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()))).encode())
        hashed.update(in_host[index] if is_in_host else struct.pack("<Q", on_devices[index]))
    return hashed.hexdigest()[:32]


def _span_bytes(tensor: Any) -> int:
    """From a tensor's first byte to its last one."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    elements: int = 1 + sum((extent - 1) * step for extent, step in steps)
    return elements * int(tensor.element_size())


def _hash_all(spans: Sequence[tuple[int, int]]) -> list[bytes]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kvtier-weights") as pool:
        under_way = [
            [pool.submit(_hash, address + at, min(_PIECE_BYTES, length - at)) for at in range(0, length, _PIECE_BYTES)]
            for address, length in spans
        ]
        return [b"".join(piece.result() for piece in pieces) for pieces in under_way]


def _hash(address: int, length: int) -> bytes:
    # hashlib lets go of the interpreter for memory of this size.
    return hashlib.sha256((ctypes.c_char * length).from_address(address)).digest()


def _sum_on_device(tensor: Any, span: int) -> Any:
    """Every word times a number of its place, added up: a tensor of one number, on the tensor's device."""
    torch = importlib.import_module("torch")
    with torch.no_grad():
        plain = tensor.detach().as_subclass(torch.Tensor)
        elements = span // plain.element_size()
        flat = torch.as_strided(plain, (elements,), (1,), plain.storage_offset()).view(torch.uint8)
        width = next(one for one in (8, 4, 2, 1) if span % one == 0 and flat.data_ptr() % one == 0)
        words = flat.view({8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[width])
        columns = _odd_numbers(0, _COLUMNS, words.device)
        total = torch.zeros((), dtype=torch.int64, device=words.device)
        piece = _PIECE_BYTES // width // _COLUMNS * _COLUMNS
        for begin in range(0, words.numel(), piece):
            part = words[begin : begin + piece].to(torch.int64)
            whole = part.numel() // _COLUMNS
            rows = (part[: whole * _COLUMNS].view(whole, _COLUMNS) * columns).sum(1)
            total += (rows * _odd_numbers(begin // _COLUMNS + _COLUMNS, whole, words.device)).sum()
            rest = part[whole * _COLUMNS :]
            total += (rest * columns[: rest.numel()]).sum() * 0x5851F42D4C957F2D
        return total


def _odd_numbers(first: int, count: int, device: Any) -> Any:
    """Odd numbers of 64 bits that look random, one for each place."""
    torch = importlib.import_module("torch")
    place = torch.arange(first, first + count, dtype=torch.int64, device=device)
    for factor, shift in ((_signed(0xBF58476D1CE4E5B9), 31), (_signed(0x94D049BB133111EB), 29)):
        place = (place + 1) * factor
        place = place ^ (place >> shift)
    return place | 1


def _signed(word: int) -> int:
    return word - (_WORD + 1) if word >> 63 else word


def _gather(sums: Sequence[Any]) -> list[int]:
    """The numbers, of all devices, each waited for once."""
    if not sums:
        return []
    torch = importlib.import_module("torch")
    by_device: dict[Any, list[int]] = {}
    for index, one in enumerate(sums):
        by_device.setdefault(one.device, []).append(index)
    found = [0] * len(sums)
    for indices in by_device.values():
        numbers = torch.stack([sums[index] for index in indices]).tolist()
        for index, number in zip(indices, numbers, strict=True):
            found[index] = number & _WORD
    return found
