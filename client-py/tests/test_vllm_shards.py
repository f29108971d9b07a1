"""Which part of the model's blocks a vLLM worker's tensors are."""

from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from kvtier._errors import KvtierError
from kvtier_testing.tensors import Tensor

from kvtier.vllm import _shards
from kvtier.vllm._shards import Rank, joint_of, letters_of

SHAPES = {
    "CBNHD": lambda blocks, tokens, heads, head: (2, blocks, tokens, heads, head),
    "BCNHD": lambda blocks, tokens, heads, head: (blocks, 2, tokens, heads, head),
    "CBHND": lambda blocks, tokens, heads, head: (2, blocks, heads, tokens, head),
    "BND": lambda blocks, tokens, heads, head: (blocks, tokens, 576),
    "": lambda blocks, tokens, heads, head: (2, blocks, tokens * heads * head),
}


def config(shape: Any = None, *, tp: int = 1, pp: int = 1, heads: int = 4, latent: bool = False) -> Any:
    backend = SimpleNamespace(get_kv_cache_shape=shape)
    layer = SimpleNamespace(get_attn_backend=lambda: backend)
    return SimpleNamespace(
        compilation_config=SimpleNamespace(static_forward_context={"layer": layer}),
        model_config=SimpleNamespace(get_head_size=lambda: 64, get_total_num_kv_heads=lambda: heads, use_mla=latent),
        parallel_config=SimpleNamespace(tensor_parallel_size=tp, pipeline_parallel_size=pp),
    )


@pytest.mark.parametrize("letters", list(SHAPES))
def test_letters_areThoseOfTheBackendsShape(letters: str) -> None:
    shape = SHAPES[letters]
    assert letters_of(config(shape), "layer", SimpleNamespace(shape=shape(7, 16, 2, 64))) == letters


def test_letters_ofAllLayers_areInTheOrderOfTheMemory() -> None:
    def backend(order: tuple[int, ...]) -> Any:
        return SimpleNamespace(
            get_kv_cache_shape=SHAPES["CBNHD"], get_kv_cache_stride_order=lambda include_num_layers_dimension: order
        )

    cache = SimpleNamespace(shape=(7, 4, 2, 16, 2, 64))
    assert _shards.letters_of_all_layers(config(), backend((2, 0, 1, 3, 4, 5)), cache) == "BLCNHD"
    assert _shards.letters_of_all_layers(config(), backend((0, 1, 2, 3, 4)), cache) == ""
    assert _shards.letters_of_all_layers(config(), SimpleNamespace(), cache) == ""


def test_tensorOfAllLayers_isOneShardWithAllOfThem() -> None:
    cache = Tensor(numpy.zeros((7, 3, 2, 16, 2, 8), "f4"))
    shard = joint_of(config(tp=2, heads=4), [cache], ["BLCNHD"], (0, 1), True, "", "a", lambda mine: [[mine, mine]]).shard
    assert (shard.block_layers, shard.first_head, shard.order) == (3, 2, "LCND")


def test_tensorsOfWhichNobodyKnowsTheAxes_areNoJointBlocks() -> None:
    assert joint_of(config(), [Tensor(numpy.zeros((7, 2)))], [], (0, 0), True, "", "a", lambda mine: None) is None
    assert joint_of(config(), [Tensor(numpy.zeros((7, 2)))], [""], (0, 0), True, "", "a", lambda mine: None) is None


def test_letters_ofAnUnknownLayer_areNone() -> None:
    assert letters_of(config(None), "other", SimpleNamespace(shape=(1, 2))) == ""


def test_letters_ofLogicalShapes_areAlwaysTheSame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shards, "_has_logical_shapes", lambda: True)
    assert letters_of(config(None), "layer", SimpleNamespace(shape=(7, 2, 16, 128))) == "BHND"
    assert letters_of(config(None), "layer", SimpleNamespace(shape=(7, 2, 16))) == ""


def tensors(heads: int, layers: int = 2) -> list[Any]:
    return [Tensor(numpy.zeros((7, heads, 16, 8), "f4")) for _ in range(layers)]


def joint(tp: int = 1, pp: int = 1, place: tuple[int, int] = (0, 0), heads: int = 4, mine: int = 4, loaded: str = "d", **more: Any) -> Any:
    ranks = [[Rank(2, f"{loaded}{stage}{rank}" if loaded else "", "a") for rank in range(tp)] for stage in range(pp)]
    return joint_of(
        config(tp=tp, pp=pp, heads=heads, **more), tensors(mine), ["BHND"] * 2, place, False, loaded, "a", lambda _mine: ranks
    )


def test_rank_hasItsHeadsAndLayers() -> None:
    shard = joint(tp=2, pp=2, place=(1, 1), mine=2).shard
    assert (shard.block_heads, shard.first_head, shard.block_layers, shard.first_layer) == (4, 2, 4, 2)
    assert shard.replica == (0, 1)


def test_form_isEqualForAllParallelism() -> None:
    assert joint(tp=2, mine=2).form == joint(tp=4, mine=1, place=(0, 3)).form == joint(mine=4).form
    assert joint(tp=1, pp=2, mine=4).form.block_bytes == 2 * joint(mine=4).form.block_bytes, "of twice the layers"


def test_fewerHeadsThanRanks_areReplicas_sideBySide() -> None:
    shards = [joint(tp=8, place=(0, rank), mine=1).shard for rank in range(8)]
    assert [shard.first_head for shard in shards] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [shard.replica for shard in shards] == [(0, 2), (1, 2)] * 4


def test_latentHead_isOnAllRanks() -> None:
    shards = [joint(tp=4, place=(0, rank), mine=1, latent=True).shard for rank in range(4)]
    assert [(shard.block_heads, shard.first_head, shard.replica) for shard in shards] == [(1, 0, (rank, 4)) for rank in range(4)]


def test_headsThatDoNotDivide_areNoJointBlocks() -> None:
    assert joint(tp=2, heads=4, mine=3) is None


def test_rankThatDoesNotKnowItsPart_noRankJoins() -> None:
    def gather(mine: Rank) -> list[list[Rank]]:
        return [[mine, mine._replace(layers=0)]]

    assert joint_of(config(tp=2), tensors(2), ["BHND"] * 2, (0, 0), False, "", "", gather) is None
    seen: list[Rank] = []
    assert joint_of(config(tp=2), tensors(2), ["", ""], (0, 0), False, "", "", lambda mine: seen.append(mine)) is None
    assert [rank.layers for rank in seen] == [0], "it tells the others, who wait for it"


def test_weightsInMemory_areThoseOfAllRanks() -> None:
    both = [joint(tp=2, place=(0, rank), mine=2).loaded for rank in range(2)]
    assert both[0] == both[1] and len(both[0]) == 64
    assert joint(tp=2, mine=2, loaded="").loaded == ""


def test_attention_ofPlainBackends_isOne() -> None:
    assert _shards.attention("FLASH_ATTN") == _shards.attention("FLASHINFER+TRITON_ATTN") == "plain"
    assert _shards.attention("CPU_ATTN") == "CPU_ATTN" and _shards.attention("") == ""


def test_ranksOnSeveralMachines_haveNoDaemonInCommon() -> None:
    def gather(mine: Rank) -> list[list[Rank]]:
        return [[mine, mine._replace(machine="another")]]

    with pytest.raises(KvtierError, match="run on 2 machines, and a daemon serves the ranks of its own machine only"):
        joint_of(config(tp=2), tensors(2), ["BHND"] * 2, (0, 0), False, "d", "a", gather)
