"""What tells one model's weights from another's of the same shape: the commit they were published as, or their files.

Blocks that were computed with other weights are other blocks. A path or a revision's name says nothing of the weights: both can be
given to others. `fingerprint` reads sizes, headers and samples of the files, so it takes a fraction of a second for hundreds of
gigabytes. It depends on names and bytes only: not on where the files lie, nor on their dates.
"""

import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

_VERSION = b"kvtier weights 1"
"""a change of what is sampled makes all fingerprints others"""

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".npz", ".npy", ".tensors")
_TRAINING = re.compile(r"(training_args|optimizer|scheduler|scaler|rng_state.*)\.(bin|pt|pth)")
_SETTINGS = (
    "adapter_config.json", "hf_quant_config.json", "quant_config.json", "quantization_config.json", "quantize_config.json",
)  # fmt: skip
"""small files that say how the weights are to be read"""

_WINDOW_BYTES = 4096
_WHOLE_BYTES = 4 << 20
"""a smaller file is read whole"""
_END_BYTES = 1 << 20
"""of a file without a header that is known: so much of its beginning and of its end"""
_SPREAD = 256
"""and so many windows between"""
_OF_A_KIND_MAX = 128
"""tensors of one kind, such as the query projections of all layers, that are sampled; of more, as many, evenly chosen"""
_RARE_MAX = 4
"""of kinds with fewer tensors, such as embeddings, a tensor is sampled in many places"""
_RARE_WINDOWS = 16
_WINDOWS_MAX = 8192
_HEADER_BYTES_MAX = 128 << 20
_THREADS = 16
_WINDOWS_A_TASK = 32

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT = re.compile(r"/models--(?P<repository>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})(?P<rest>/.*)?$")

A = TypeVar("A")


class Commit(NamedTuple):
    """A published state of a repository of models."""

    repository: str
    revision: str
    """40 hexadecimal digits; several where what was asked for changed meanwhile"""
    selected: str
    """which of the repository's weights, where there are several; empty: all"""

    @property
    def text(self) -> str:
        return f"commit {self.revision} of {self.repository}{f' {self.selected}' if self.selected else ''}"


class _File(NamedTuple):
    name: str
    path: Path
    size: int
    header: bytes
    tensors: dict[str, tuple[int, int]] | None
    """by name: where its bytes begin and end in the file; None: the file has no header that is known"""


class _Window(NamedTuple):
    path: Path
    offset: int
    length: int


def fingerprint(path: str | os.PathLike[str], prefer: str | None = ".safetensors") -> str | None:
    """What the files of some weights are, 32 hexadecimal digits; None where there are none.

    What is read of files in the safetensors format: the header, which has all tensors' names, types and extents, and of up to 128
    tensors of each kind (such as the query projections of all layers) a window of 4 KiB. Of other files: the first and last MiB,
    and 256 windows between. Files of up to 4 MiB are read whole. Training changes nearly every part of a tensor. What changes few
    rows of an embedding and nothing else may go unseen.

    Args:
        path: a folder with weights, or one file.
        prefer: where a folder has files that end so, files of other formats are left out: engines load the former.

    Raises:
        OSError: files are there, and can't be read.
    """
    root = Path(path)
    settings: list[Path] = []
    if root.is_file():
        chosen = [root]
    elif root.is_dir():
        chosen, settings = _chosen(root, prefer)
    else:
        return None
    if not chosen:
        return None
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kvtier-weights") as pool:
        # One file's name is its place, as a folder's is.
        files = list(pool.map(lambda one: _opened(one, "" if one == root else one.name), chosen))
        windows = _windows(files)
        tasks = [windows[at : at + _WINDOWS_A_TASK] for at in range(0, len(windows), _WINDOWS_A_TASK)]
        samples = list(pool.map(_read, tasks))
    hashed = hashlib.sha256(_VERSION)
    for file in files:
        _add(hashed.update, os.fsencode(file.name), struct.pack("<Q", file.size), file.header)
    for one in settings:
        _add(hashed.update, os.fsencode(one.name), one.read_bytes())
    for part in samples:
        _add(hashed.update, part)
    return hashed.hexdigest()[:32]


def described(
    model: str,
    revision: str | None = None,
    told: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    prefer: str | None = ".safetensors",
) -> str:
    """What a commit or files say of a model's weights, as a namespace's property has it; empty: nothing. Arguments as of `commit_of`,
    and `prefer` as of `fingerprint`.

    Raises:
        OSError: files are there, and can't be read.
    """
    commit = commit_of(model, revision, told, cache)
    if commit is not None:
        return commit.text
    files = fingerprint(model, prefer)
    return "" if files is None else f"files {files}"


def commit_of(
    model: str, revision: str | None = None, told: str | None = None, cache: str | os.PathLike[str] | None = None
) -> Commit | None:
    """The commit that a model's name means on this machine; None where it is no name of a repository, or nothing is known of it.

    Args:
        model: ``ORGANISATION/NAME``, or such a name with what is chosen of it (``…:Q4_K_M``, ``…/FILE.gguf``), or a snapshot's
            folder in the hub's cache.
        revision: a branch, a tag or a commit; None: the main branch.
        told: the commit that the engine's configuration was read from, where it knows.
        cache: the folder of the hub's cache; None: where the environment says.
    """
    if os.path.exists(model):
        return _commit_of_snapshot(Path(model))
    parts = model.split(":")[0].split("/")
    if len(parts) < 2 or not all(parts):
        return None
    repository = "/".join(parts[:2])
    selected = model.removeprefix(repository).lstrip(":/")
    if revision is not None and _COMMIT.fullmatch(revision):
        return Commit(repository, revision, selected)
    reference = Path(cache or _hub_cache()) / f"models--{'--'.join(parts[:2])}" / "refs" / (revision or "main")
    known = {one for one in (told, _content(reference)) if one is not None and _COMMIT.fullmatch(one)}
    # Two of them: the branch moved while the engine started, and nobody knows of which the weights are.
    return Commit(repository, " and ".join(sorted(known)), selected) if known else None


def _commit_of_snapshot(path: Path) -> Commit | None:
    """Only of a snapshot whose files stand in the cache under their contents' hashes: others can be changed in their places."""
    real = path.parent.resolve() / path.name if path.is_file() else path.resolve()
    found = _SNAPSHOT.search(real.as_posix())
    if found is None:
        return None
    files = [path] if path.is_file() else _chosen(path, None)[0]
    if not files or not all(one.resolve().parent.name == "blobs" for one in files):
        return None
    repository = found["repository"].replace("--", "/", 1)
    return Commit(repository, found["commit"], (found["rest"] or "").lstrip("/"))


def _hub_cache() -> str:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return os.environ[name]
    return str(Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface") / "hub")


def _content(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return None


def _chosen(folder: Path, prefer: str | None) -> tuple[list[Path], list[Path]]:
    """The folder's weights, and what says how to read them, by name."""
    files = sorted((one for one in folder.iterdir() if one.is_file()), key=lambda one: one.name)
    weights = [one for one in files if one.suffix in _WEIGHT_SUFFIXES and not _TRAINING.fullmatch(one.name)]
    if prefer is not None and any(one.suffix == prefer for one in weights):
        weights = [one for one in weights if one.suffix == prefer]
    return weights, [one for one in files if one.name in _SETTINGS]


def _opened(path: Path, name: str) -> _File:
    size = path.stat().st_size
    with path.open("rb") as stream:
        if size <= _WHOLE_BYTES:
            return _File(name, path, size, stream.read(), {})
        if path.suffix == ".safetensors":
            (length,) = struct.unpack("<Q", stream.read(8))
            if length <= min(size - 8, _HEADER_BYTES_MAX):
                header = stream.read(length)
                tensors = _tensors(header, 8 + length, size)
                if tensors is not None:
                    return _File(name, path, size, header, tensors)
            stream.seek(0)
        first = stream.read(_END_BYTES)
        stream.seek(size - _END_BYTES)
        return _File(name, path, size, first + stream.read(_END_BYTES), None)


def _tensors(header: bytes, data: int, size: int) -> dict[str, tuple[int, int]] | None:
    """Where each tensor lies in the file; None: the header says something else."""
    try:
        described = json.loads(header)
        places = {
            name: (data + int(one["data_offsets"][0]), data + int(one["data_offsets"][1]))
            for name, one in described.items()
            if name != "__metadata__"
        }
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return places if all(data <= begin <= end <= size for begin, end in places.values()) else None


def _windows(files: Sequence[_File]) -> list[_Window]:
    """The samples of all files, in an order that the contents alone decide."""
    made: list[_Window] = []
    kinds: dict[str, list[tuple[str, _File]]] = {}
    for file in files:
        if file.tensors is None:
            made += _spread(file.path, 0, file.size, _SPREAD)
            continue
        for name in file.tensors:
            kinds.setdefault(re.sub(r"\d+", "#", name), []).append((name, file))
    for kind in sorted(kinds):
        members = sorted(kinds[kind], key=lambda one: (one[0], one[1].name))
        for name, file in _evenly(members, _OF_A_KIND_MAX):
            assert file.tensors is not None
            begin, end = file.tensors[name]
            if len(members) <= _RARE_MAX:
                made += _spread(file.path, begin, end, _RARE_WINDOWS)
                continue
            length = min(_WINDOW_BYTES, end - begin)
            # Somewhere within: the first rows of all tensors are no better than others.
            made.append(_Window(file.path, begin + zlib.crc32(name.encode()) % (end - begin - length + 1), length))
    return list(_evenly(made, _WINDOWS_MAX))


def _spread(path: Path, begin: int, end: int, count: int) -> Iterable[_Window]:
    """Windows at even distances, the first and the last bytes among them."""
    last = end - min(_WINDOW_BYTES, end - begin)
    offsets = sorted({begin + (last - begin) * index // max(1, count - 1) for index in range(count)})
    return [_Window(path, offset, min(_WINDOW_BYTES, end - offset)) for offset in offsets]


def _evenly(several: Sequence[A], most: int) -> Iterable[A]:
    count = len(several)
    return several if count <= most else (several[index * count // most] for index in range(most))


def _read(windows: Sequence[_Window]) -> bytes:
    """Some windows' bytes, hashed."""
    hashed = hashlib.sha256()
    descriptor, opened = -1, None
    try:
        for window in windows:
            if window.path != opened:
                if descriptor >= 0:
                    os.close(descriptor)
                    descriptor = -1
                descriptor, opened = os.open(window.path, os.O_RDONLY | os.O_CLOEXEC), window.path
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            hashed.update(os.pread(descriptor, window.length, window.offset))
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return hashed.digest()


def _add(update: Callable[[bytes], object], *parts: bytes) -> None:
    for part in parts:
        update(struct.pack("<Q", len(part)))
        update(part)
