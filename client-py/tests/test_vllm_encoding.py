"""vLLM's connector with blocks in fewer bytes: what is stored, and which engines find it."""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
from kvtier_testing import vllm_double
from kvtier_testing.daemon import Daemon
from kvtier_testing.kv import bf16
from kvtier_testing.tensors import Tensor
from kvtier_testing.vllm_double import Engine, Request, config

from kvtier import Client, InvalidArgument
from kvtier.vllm import _shards
from kvtier.vllm._settings import Settings

Make = Callable[..., Engine]
TOKEN_BYTES = 256
BLOCK_BYTES = vllm_double.LAYERS * vllm_double.BLOCK_TOKENS * TOKEN_BYTES
EXACT = {"kvtier.encoding": "exact"}
FP8 = {"kvtier.encoding": "fp8"}
_numbers = itertools.count()
_mask = vllm_double._mask


class Elements(Tensor):
    """A tensor whose bytes count as elements of bf16."""

    dtype = "torch.bfloat16"


def value(request: Request, position: int, layer: int, part: int) -> Any:
    prefix = repr((request.parent, request.tokens[: position + 1], layer, part)).encode()
    generator = numpy.random.default_rng(list(hashlib.blake2b(prefix).digest()))
    return numpy.frombuffer(bf16(generator.standard_normal(TOKEN_BYTES // 2, dtype=numpy.float32)), dtype=numpy.uint8)


def mask(weights: bytes) -> Any:
    """Other weights change mantissas only, so that exponents stay as those of a KV cache."""
    return numpy.resize(_mask(weights), TOKEN_BYTES) & numpy.tile(numpy.array([0x7F, 0], dtype=numpy.uint8), TOKEN_BYTES // 2)


@pytest.fixture(autouse=True)
def _elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(vllm_double, "TOKEN_BYTES", TOKEN_BYTES)
    monkeypatch.setattr(vllm_double, "Tensor", Elements)
    monkeypatch.setattr(vllm_double, "value", value)
    monkeypatch.setattr(vllm_double, "_mask", mask)
    monkeypatch.setattr(_shards, "letters_of", lambda *_: "BND")


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes engines that share a namespace of this test's own."""
    made: list[Engine] = []
    namespace = f"encoded-{next(_numbers)}"

    def make(extra: dict[str, Any] | None = None, **options: Any) -> Engine:
        settings = {"kvtier.socket": str(daemon.socket_path), "kvtier.namespace": namespace, "kvtier.lookup_s_max": 5.0}
        engine = Engine(config(settings | (extra or {}), model_config__get_total_num_kv_heads=lambda: 1), monkeypatch, **options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def request(seed: int = 1) -> Request:
    return Request(f"request-{next(_numbers)}", [seed * 1000 + at for at in range(43)])


def stored(engine: Engine, one: Request) -> int:
    engine.run(one)
    engine.settle()
    return engine.stats.get("stored_blocks", 0)


def loaded_tokens(engine: Engine, seed: int = 1) -> int:
    again = request(seed)
    engine.run(again)
    return again.external_tokens


def name_of(engine: Engine) -> str:
    return str(engine.workers[0].connector._mine[0].name)


def test_exact_secondEngineLoadsAllBlocks_andFewerBytesAreStored(engines: Make, daemon: Daemon) -> None:
    with Client(daemon.socket_path, timeout=60) as client:
        before = client.counters()
        assert stored(engines(EXACT), request()) == 10
        second = engines(EXACT)
        assert loaded_tokens(second) == 40
        assert (second.stats["loaded_blocks"], second.recomputed) == (10, 0)
        counted = {name: count - before[name] for name, count in client.counters().items()}
        assert (counted["put_encoded"], counted["put_raw"], counted["misses_encoded"]) == (10, 0, 0)
        assert counted["put_encoded_raw_bytes"] == 10 * BLOCK_BYTES
        assert counted["put_encoded_bytes"] <= 0.8 * 10 * BLOCK_BYTES


def test_exact_blocksThatDoNotFit_areStoredRaw(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def random(request: Request, position: int, layer: int, part: int) -> Any:
        prefix = repr((request.parent, request.tokens[: position + 1], layer, part)).encode()
        return numpy.frombuffer(numpy.random.default_rng(list(hashlib.blake2b(prefix).digest())).bytes(TOKEN_BYTES), dtype=numpy.uint8)

    monkeypatch.setattr(vllm_double, "value", random)
    with Client(daemon.socket_path, timeout=60) as client:
        before = client.counters()["put_raw"]
        assert stored(engines(EXACT), request()) == 10
        assert client.counters()["put_raw"] - before == 10
    assert loaded_tokens(engines(EXACT)) == 40


def test_enginesWithAndWithoutAnEncoding_start_andDoNotFindEachOthersBlocks(engines: Make) -> None:
    raw, exact, fp8 = engines(), engines(EXACT), engines(FP8)
    assert stored(raw, request()) == stored(exact, request(2)) == stored(fp8, request(3)) == 10
    assert (loaded_tokens(engines(EXACT)), loaded_tokens(engines(), 2), loaded_tokens(engines(FP8), 2)) == (0, 0, 0)
    assert (loaded_tokens(engines(), 3), loaded_tokens(engines(EXACT), 3)) == (0, 0)
    assert (loaded_tokens(engines()), loaded_tokens(engines(EXACT), 2)) == (40, 40)
    namespace, _, weights = name_of(raw).rpartition("/")
    assert name_of(exact) == f"{namespace}/exact/{weights}"
    assert name_of(fp8) == f"{namespace}/fp8/{weights}"


def rounded(request: Request, position: int, layer: int, part: int) -> Any:
    """Values whose last four bits of mantissa are zero, so that `fp8` keeps them: none is far below the others."""
    elements = numpy.frombuffer(value(request, position, layer, part).tobytes(), dtype="<u2")
    elements = (elements & 0x8070) | (127 - elements % 4) << 7
    return numpy.frombuffer(elements.astype("<u2").tobytes(), dtype=numpy.uint8)


def test_fp8_secondEngineLoadsAllBlocks_inHalfOfTheBytes(engines: Make, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_double, "value", rounded)
    monkeypatch.setattr(vllm_double, "_mask", lambda weights: mask(weights) & 0x70)
    with Client(daemon.socket_path, timeout=60) as client:
        before = client.counters()
        assert stored(engines(FP8), request()) == 10
        second = engines(FP8)
        assert loaded_tokens(second) == 40
        assert (second.stats["loaded_blocks"], second.recomputed) == (10, 0)
        counted = {name: count - before[name] for name, count in client.counters().items()}
        assert (counted["put_encoded"], counted["put_raw"], counted["misses_encoded"]) == (10, 0, 0)
        assert counted["put_encoded_bytes"] <= 0.52 * counted["put_encoded_raw_bytes"]


def test_exact_ofOtherElements_isRaw_saysWhy_andSharesWithEnginesThatStoreRaw(
    engines: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Elements, "dtype", "torch.float16")
    assert stored(engines(), request()) == 10
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        other = engines(EXACT)
    assert "kvtier.encoding is not used for the blocks of group 0, which are stored raw: the elements are float16; expected bfloat16" in caplog.text
    assert loaded_tokens(other) == 40


def test_exact_axesThatNobodyKnows_isRaw_andSaysWhy(engines: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_shards, "letters_of", lambda *_: "")
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert stored(engines(EXACT), request()) == 10
    assert "which are stored raw: it is not known which axes of the KV cache count heads and tokens" in caplog.text
    assert loaded_tokens(engines()) == 40


def test_exact_daemonThatCannotGiveABlockBack_isComputed(engines: Make, daemon: Daemon) -> None:
    assert stored(engines(EXACT), request()) == 10
    engine = engines(EXACT)
    assert daemon.command("clear", "--namespace", name_of(engine), "--yes").returncode == 0
    assert loaded_tokens(engine) == 0


def test_encodingThatIsNone_isNamedWithThoseThatAre() -> None:
    with pytest.raises(InvalidArgument, match="kvtier.encoding is 'zip'; expected 'none' or 'exact' or 'fp8'"):
        Settings.of({"kvtier.encoding": "zip"})
    assert Settings().encoding == "none"
