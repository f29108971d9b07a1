"""Weights are told apart by what is in their files, or in memory: never by where they lie, or what somebody calls them."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest
import weights
from kvtier_testing.tensors import Device, Tensor

from kvtier.engine.loaded import digest
from kvtier.engine.weights import commit_of, fingerprint

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"
LARGE_ROWS = 1 << 16
"""a tensor of 16 MiB: files that are sampled"""


# ---- files ----


def test_copyInAnotherFolder_writtenLaterInAnotherOrder_isTheSame(tmp_path: Path) -> None:
    first = weights.model(tmp_path / "models" / "a", 1)
    second = tmp_path / "mnt" / "models"
    second.mkdir(parents=True)
    for one in sorted(first.iterdir(), reverse=True):
        shutil.copyfile(one, second / one.name)
        os.utime(second / one.name, (0, 0))
    (second / "README.md").write_text("of another node alone")
    assert fingerprint(first) == fingerprint(second) is not None


def test_fineTunesOfOneShape_areOthers(tmp_path: Path) -> None:
    assert fingerprint(weights.model(tmp_path / "a", 1)) != fingerprint(weights.model(tmp_path / "b", 2))


@pytest.mark.parametrize("changed", ["model.embed_tokens.weight", "model.layers.1.q_proj.weight", "model.layers.2.mlp.weight"])
def test_largeModelOfWhichOneTensorWasTrained_isAnother(tmp_path: Path, changed: str) -> None:
    before = weights.tensors(1, LARGE_ROWS)
    weights.write_safetensors(tmp_path / "model.safetensors", before)
    first = fingerprint(tmp_path)
    # Training moves a tensor by little, and nearly all of it.
    tensor = numpy.frombuffer(before[changed], dtype=numpy.uint16) ^ 1
    weights.write_safetensors(tmp_path / "model.safetensors", before | {changed: tensor.tobytes()})
    assert fingerprint(tmp_path) != first


def test_largeModelWhoseLastTokensWereTrained_isAnother(tmp_path: Path) -> None:
    before = weights.tensors(1, LARGE_ROWS)
    weights.write_safetensors(tmp_path / "model.safetensors", before)
    first = fingerprint(tmp_path)
    embedding = before["model.embed_tokens.weight"]
    weights.write_safetensors(tmp_path / "model.safetensors", before | {"model.embed_tokens.weight": embedding[:-256] + bytes(256)})
    assert fingerprint(tmp_path) != first


def test_tensorsWithOtherNames_areOthers(tmp_path: Path) -> None:
    content = weights.tensors(1, LARGE_ROWS)
    weights.write_safetensors(tmp_path / "model.safetensors", content)
    first = fingerprint(tmp_path)
    names = list(content)
    names[1], names[3] = names[3], names[1]
    weights.write_safetensors(tmp_path / "model.safetensors", dict(zip(names, content.values(), strict=True)))
    assert fingerprint(tmp_path) != first


def test_shardIsMissing_orHasAnotherName_isAnother(tmp_path: Path) -> None:
    folder = weights.model(tmp_path, 1)
    whole = fingerprint(folder)
    shard = folder / "model-00002-of-00002.safetensors"
    shard.rename(folder / "other.safetensors")
    renamed = fingerprint(folder)
    (folder / "other.safetensors").unlink()
    assert len({whole, renamed, fingerprint(folder)}) == 3


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.gguf", "model.safetensors"])
@pytest.mark.parametrize("size", [0, 7, 1 << 20, (4 << 20) + 1, 40 << 20])
def test_formatsWithoutAKnownHeader_areToldApartByWhatIsIn(tmp_path: Path, name: str, size: int) -> None:
    content = numpy.random.default_rng(1).bytes(size)
    (tmp_path / name).write_bytes(content)
    first = fingerprint(tmp_path)
    assert first == fingerprint(tmp_path) is not None
    (tmp_path / name).write_bytes(numpy.random.default_rng(2).bytes(size))
    assert (fingerprint(tmp_path) == first) == (size == 0)
    (tmp_path / name).write_bytes(content + b"\0")
    assert fingerprint(tmp_path) != first


def test_oneFile_isTheSameWhateverItsName(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF" * 100)
    assert fingerprint(tmp_path / "a.gguf") == fingerprint(tmp_path / "b.gguf") is not None


def test_howWeightsAreQuantized_isOfThem(tmp_path: Path) -> None:
    folder = weights.model(tmp_path, 1)
    plain = fingerprint(folder)
    (folder / "quantize_config.json").write_text('{"bits": 4}')
    four = fingerprint(folder)
    (folder / "quantize_config.json").write_text('{"bits": 8}')
    assert len({plain, four, fingerprint(folder)}) == 3


def test_whatTrainingLeaves_andFormatsThatEnginesDontLoad_areNotOfThem(tmp_path: Path) -> None:
    folder = weights.model(tmp_path, 1)
    before = fingerprint(folder)
    for name in ("training_args.bin", "optimizer.pt", "rng_state_0.pth", "pytorch_model.bin", "tokenizer.json", "chat_template.jinja"):
        (folder / name).write_bytes(b"any")
    assert fingerprint(folder) == before
    assert fingerprint(folder, None) != before


def test_noWeights_areNone(tmp_path: Path) -> None:
    assert fingerprint(tmp_path) is None
    assert fingerprint(tmp_path / "none") is None
    (tmp_path / "config.json").write_text("{}")
    assert fingerprint(tmp_path) is None


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_filesThatCantBeRead_areNotTakenForNone(tmp_path: Path) -> None:
    folder = weights.model(tmp_path, 1)
    (folder / "model-00001-of-00002.safetensors").chmod(0)
    with pytest.raises(PermissionError):
        fingerprint(folder)


def test_hundredsOfGigabytes_areReadInPart(tmp_path: Path) -> None:
    """Sparse files: their extents are real, and what is read of them is counted."""
    header = {f"model.layers.{i}.experts.{j}.{one}.weight" for i in range(60) for j in range(64) for one in ("up", "down")}
    bytes_each = 50 << 20
    content = ",".join(
        f'"{name}":{{"dtype":"BF16","shape":[1],"data_offsets":[{n * bytes_each},{(n + 1) * bytes_each}]}}'
        for n, name in enumerate(sorted(header))
    )
    text = f"{{{content}}}".encode()
    with (tmp_path / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + len(header) * bytes_each)
    assert (tmp_path / "model.safetensors").stat().st_size > 300 << 30
    before = _bytes_read()
    assert fingerprint(tmp_path) is not None
    assert _bytes_read() - before < 8 << 20


def _bytes_read() -> int:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"])


# ---- commits ----


def _snapshot(cache: Path, commit: str = COMMIT, in_place: bool = False) -> Path:
    """The folder of the hub's client: contents under their hashes, and a snapshot with links to them."""
    repository = cache / "models--org--tiny"
    (repository / "blobs").mkdir(parents=True)
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    if in_place:
        return weights.model(folder, 1)
    for one in weights.model(cache / "made", 1).iterdir():
        one.rename(repository / "blobs" / f"sha-{one.name}")
        (folder / one.name).symlink_to(repository / "blobs" / f"sha-{one.name}")
    return folder


def test_nameOfARepository_meansTheCommitOfItsBranch(tmp_path: Path) -> None:
    _snapshot(tmp_path)
    found = commit_of("org/tiny", cache=tmp_path)
    assert found is not None and found.text == f"commit {COMMIT} of org/tiny"
    assert commit_of("org/tiny", "v2", cache=tmp_path) is None
    assert commit_of("org/tiny", OTHER, cache=tmp_path) == found._replace(revision=OTHER)
    assert commit_of("org/tiny", "v2", OTHER, cache=tmp_path) == found._replace(revision=OTHER)


def test_branchThatMovedMeanwhile_isNeitherCommit(tmp_path: Path) -> None:
    _snapshot(tmp_path)
    found = commit_of("org/tiny", None, OTHER, cache=tmp_path)
    assert found is not None and found.revision == f"{COMMIT} and {OTHER}"


def test_whatIsChosenOfARepository_isToldApart(tmp_path: Path) -> None:
    _snapshot(tmp_path)
    texts = {commit_of(f"org/tiny{one}", cache=tmp_path).text for one in ("", ":Q4_K_M", ":Q8_0", "/q4.gguf")}  # type: ignore[union-attr]
    assert len(texts) == 4


def test_snapshotsFolder_isItsCommit(tmp_path: Path) -> None:
    folder = _snapshot(tmp_path)
    mounted = tmp_path / "mounted"
    mounted.symlink_to(folder)
    found = commit_of(str(mounted))
    assert found is not None and found.text == f"commit {COMMIT} of org/tiny"


def test_snapshotsFolderWithFilesOfItsOwn_isNot_theyCanBeChanged(tmp_path: Path) -> None:
    assert commit_of(str(_snapshot(tmp_path, in_place=True))) is None


def test_folderOrWord_isNoRepository(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) is None
    assert commit_of("tiny", cache=tmp_path) is None
    assert commit_of("/no/such/folder", cache=tmp_path) is None


def test_cache_isWhereTheEnvironmentSays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HUGGINGFACE_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    _snapshot(tmp_path / "hub")
    assert commit_of("org/tiny") is not None


# ---- memory ----


def _loaded(seed: int = 1) -> list[tuple[str, Any]]:
    made = numpy.random.default_rng(seed)
    return [(f"layer.{i}", Tensor(made.integers(0, 1 << 16, (8, 32), dtype=numpy.uint16))) for i in range(4)]


def test_sameBytes_haveTheSameDigest_inWhateverOrderTheyCome() -> None:
    assert digest(_loaded()) == digest(_loaded()[::-1])
    assert digest(_loaded()) != digest(_loaded(2))


def test_oneBit_anotherNameOrAnotherShape_isAnotherDigest() -> None:
    tensors = _loaded()
    seen = {digest(tensors)}
    tensors[2][1].array[7, 31] ^= 1
    seen.add(digest(tensors))
    seen.add(digest([("other", tensors[0][1]), *tensors[1:]]))
    seen.add(digest([(name, tensor.permute((1, 0))) for name, tensor in tensors]))
    seen.add(digest(tensors[1:]))
    assert len(seen) == 5


def test_tensorsThatLieApart_areLookedAtFromTheirFirstToTheirLastByte() -> None:
    array = numpy.zeros((8, 8), dtype=numpy.uint16)
    part = Tensor(array[1:7:2, 2:5])
    before = digest([("part", part)])
    array[0], array[7] = 1, 1
    assert digest([("part", part)]) == before
    array[5, 4] = 1
    assert digest([("part", part)]) != before


def test_tiedAndEmptyTensors_areBornWith() -> None:
    tied = _loaded()[0][1]
    empty = Tensor(numpy.zeros((0, 4), dtype=numpy.uint16))
    assert digest([("a", tied), ("b", tied), ("c", empty)]) != digest([("a", tied), ("b", tied)])


def test_tensorWithoutBytes_isNotPassedOver() -> None:
    class Meta(Tensor):
        device = Device("meta")

    with pytest.raises(Exception, match=r"."):
        digest([("meta", Meta(numpy.zeros(4, dtype=numpy.uint8)))])


def test_largeTensors_areDigestedByAllThreads() -> None:
    array = numpy.zeros(200 << 20, dtype=numpy.uint8)
    before = digest([("large", Tensor(array))])
    array[-1] = 1
    assert digest([("large", Tensor(array))]) != before


def test_torch_onADevice_givesEveryPlaceItsOwnWeight() -> None:
    torch = pytest.importorskip("torch")
    from kvtier.engine.loaded import _sum_on_device

    def total(tensor: Any) -> int:
        return int(_sum_on_device(tensor, tensor.numel() * tensor.element_size()))

    tensor = torch.arange(1 << 20, dtype=torch.int32)
    seen = {total(tensor)}
    for first, second in ((0, 2), (0, 8192), (1, (1 << 20) - 1)):
        swapped = tensor.clone()
        swapped[first], swapped[second] = tensor[second], tensor[first]
        seen.add(total(swapped))
    assert len(seen) == 4
    for odd in (torch.ones(1001, dtype=torch.uint8), torch.ones(1001, dtype=torch.uint8)[1:], torch.ones(7, dtype=torch.bfloat16)):
        before = total(odd)
        odd[-1] = 2
        assert total(odd) != before
