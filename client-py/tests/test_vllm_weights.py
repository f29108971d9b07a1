"""vLLM's connector and other weights: an engine never computes on what was computed with weights that it does not have.

The engine's attention depends on its weights and on its adapters: it finds every block that is of others.
"""

import dataclasses
import itertools
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import weights
from kvtier_testing.daemon import Daemon, eventually
from kvtier_testing.vllm_double import Engine, Request, _connector, config

from kvtier import Client
from kvtier.engine.epochs import Adapters, Epochs, joined, salted
from kvtier.vllm import _weights
from kvtier.vllm._resets import Resets

Make = Callable[..., Engine]
_numbers = itertools.count()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def seed(tmp_path: Path) -> int:
    """Of tokens that no other test has: tests share a daemon, and what they call their models."""
    return hash(str(tmp_path)) % (1 << 30)


@pytest.fixture
def engines(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[Engine] = []

    def make(model: Path | str = "tiny", extra: dict[str, Any] | None = None, **options: Any) -> Engine:
        changed = {name: options.pop(name) for name in list(options) if "__" in name}
        settings = {"kvtier.socket": str(daemon.socket_path), "kvtier.lookup_s_max": 5.0}
        engine = Engine(config(settings | (extra or {}), model_config__model=str(model), **changed), monkeypatch, **options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def request(seed: int, count: int = 43, lora: Any = None) -> Request:
    chance = random.Random(seed)
    made = Request(f"request-{next(_numbers)}", [chance.randrange(1 << 20) for _ in range(count)])
    made.lora_request = lora
    return made


def run(engine: Engine, one: Request) -> int:
    """Computes a request and has everything stored; how many of its tokens were loaded."""
    engine.run(one)
    engine.settle()
    engine.step()
    return one.external_tokens


def properties(engine: Engine, rank: int = 0) -> dict[str, str]:
    return dict(engine.workers[rank].connector._mine[0].properties)


# ---- which weights an engine is started with ----


def test_twoFineTunesUnderOnePath_shareNothing(engines: Make, tmp_path: Path, seed: int) -> None:
    mounted = tmp_path / "mnt" / "models"
    weights.model(mounted, 1)
    first = engines(mounted)
    assert run(first, request(seed)) == 0
    # Another volume, at the same path.
    shutil.rmtree(mounted)
    weights.model(mounted, 2)
    second = engines(mounted)
    assert run(second, request(seed)) == 0
    assert run(engines(mounted), request(seed)) == 40
    assert run(first, request(seed)) == 40


def test_twoFineTunesOfOneNamespace_areNotRefused_andShareNothing(engines: Make, tmp_path: Path, seed: int) -> None:
    named = {"kvtier.namespace": f"named-{seed}"}
    one, other = weights.model(tmp_path / "one", 1), weights.model(tmp_path / "other", 2)
    assert run(engines(one, named), request(seed)) == 0
    assert run(engines(other, named), request(seed)) == 0
    # A copy of the weights in another folder is the same model.
    shutil.copytree(one, tmp_path / "copy")
    assert run(engines(tmp_path / "copy", named), request(seed)) == 40


@pytest.mark.parametrize("ranks", [1, 2])
def test_oneModel_isTheSameForAllRanks_andTheScheduler(engines: Make, tmp_path: Path, seed: int, ranks: int) -> None:
    folder = weights.model(tmp_path / "models", 1)
    first = engines(folder, ranks=ranks, pipeline=ranks)
    assert len({properties(first, rank)["weights"] for rank in range(ranks * ranks)}) == 1
    assert run(first, request(seed)) == 0
    assert run(engines(folder, ranks=ranks, pipeline=ranks), request(seed)) == 40


def test_ranksWithTheSameBytes_goByTheWeightsOfTheFirst(engines: Make, seed: int) -> None:
    """Of which no files are known: each rank has others in its memory."""
    first = engines(ranks=2, model_config__use_mla=True)
    digests = {worker.connector._mine[0].weights for worker in first.workers}
    assert len(digests) == 1 or len({worker.connector._mine[0].name for worker in first.workers}) == 1
    assert run(first, request(seed)) == 0
    assert run(engines(ranks=2, model_config__use_mla=True), request(seed)) == 40


def test_resolvedCommit_isTheWeights(engines: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--org--tiny" / "refs").mkdir(parents=True)
    reference = tmp_path / "models--org--tiny" / "refs" / "main"
    reference.write_text(COMMIT)
    first = engines("org/tiny")
    assert properties(first)["weights"] == f"commit {COMMIT} of org/tiny"
    # The branch has moved, and this engine was started after it.
    reference.write_text(OTHER)
    second = engines("org/tiny")
    assert first.workers[0].connector._mine[0].name != second.workers[0].connector._mine[0].name
    # vLLM's own configuration knows what was loaded, too.
    made = config({}, model_config__model="org/other", model_config__revision="v1")
    made.model_config.hf_config._commit_hash = COMMIT
    assert _weights.of_files(made) == f"commit {COMMIT} of org/other"


def test_filesOfWhichNothingIsKnown_theMemoryTells(engines: Make, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        first = engines("s3://bucket/tiny")
    assert "no commit of the weights of" in caplog.text and "kvtier.weights" in caplog.text
    assert properties(first)["weights"].startswith("loaded ")
    assert run(first, request(seed)) == 0
    assert run(engines("s3://bucket/tiny"), request(seed)) == 40


def test_nothingIsKnown_theEngineIsAlone_andSaysSo(
    engines: Make, seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_weights.Memory, "of_caller", classmethod(lambda cls: cls(None)))
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert run(engines(), request(seed)) == 0
    assert "the weights of 'tiny' cannot be identified" in caplog.text and "kvtier.weights" in caplog.text
    assert run(engines(), request(seed)) == 0


def test_namedWeights_areThoseOfTheirName(
    engines: Make, seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_weights.Memory, "of_caller", classmethod(lambda cls: cls(None)))
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert run(engines(extra={"kvtier.weights": "tuned, 7"}), request(seed)) == 0
        assert run(engines(extra={"kvtier.weights": "tuned, 8"}), request(seed)) == 0
        assert run(engines(extra={"kvtier.weights": "tuned, 7"}), request(seed)) == 40
    assert "weights" not in caplog.text


def test_dummyWeights_areThoseOfTheirSeed(engines: Make) -> None:
    made = [engines(load_config__load_format="dummy", model_config__seed=one) for one in (0, 0, 1)]
    names = [one.workers[0].connector._mine[0].name for one in made]
    assert names[0] == names[1] != names[2]
    assert properties(made[0])["weights"] == "dummy, seed 0"


@pytest.mark.parametrize("form", ["tensorizer", "modelexpress", "some_plugin", "LoadFormat.IPC_CACHE"])
def test_loadersThatReadElsewhere_areNotToldByFiles(tmp_path: Path, form: str) -> None:
    made = config({}, model_config__model=str(weights.model(tmp_path, 1)), load_config__load_format=form)
    assert _weights.of_files(made) == ""
    made.load_config.load_format = "safetensors"
    assert _weights.of_files(made).startswith("files ")
    made.model_config.model_weights = "s3://bucket/tiny"
    assert _weights.of_files(made) == ""


def test_whatALoaderWasTold_isOfTheWeights(tmp_path: Path) -> None:
    made = config({}, model_config__model=str(weights.model(tmp_path, 1)))
    plain = _weights.of_files(made)
    made.load_config.model_loader_extra_config = {"pattern": "model-rank-{rank}.safetensors"}
    assert _weights.of_files(made).startswith(plain) and _weights.of_files(made) != plain


def test_modelThatDrafts_isOfTheWeights(tmp_path: Path) -> None:
    made = config({}, model_config__model=str(weights.model(tmp_path / "target", 1)))
    plain = _weights.of_files(made)
    texts = {plain}
    for seed in (2, 3):
        shutil.rmtree(tmp_path / "draft", ignore_errors=True)
        draft = SimpleNamespace(model=str(weights.model(tmp_path / "draft", seed)), revision=None, seed=0, hf_config=SimpleNamespace())
        made.speculative_config = SimpleNamespace(draft_model_config=draft)
        texts.add(_weights.of_files(made))
    assert len(texts) == 3
    # One part of which nothing is known makes the whole unknown.
    draft.model = "s3://draft"
    assert _weights.of_files(made) == ""
    # A draft model from the target's own files adds nothing.
    draft.model = made.model_config.model
    assert _weights.of_files(made) == plain


def test_scalesThatTheFirstBatchMakes_areOfOneEngine(engines: Make, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert run(engines(cache_config__calculate_kv_scales=True), request(seed)) == 0
    assert "calculate_kv_scales" in caplog.text
    assert run(engines(cache_config__calculate_kv_scales=True), request(seed)) == 0


def test_configurationOfAModelOfSeveralParts_tellsNotWhereItLies(engines: Make) -> None:
    def of(path: str) -> str:
        made = config({"kvtier.weights": "w"})
        parts = {"_name_or_path": path, "text_config": {"_name_or_path": path, "hidden_size": 8, "transformers_version": path}}
        made.model_config.hf_config = SimpleNamespace(to_dict=lambda: parts)
        return _connector._namespace.properties_of(made, "w", "", "", True).properties["model_config"]

    assert of("/models/a") == of("/mnt/models")


# ---- what tokens mean ----


def _processed(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    made = config({}, model_config__model=str(folder))
    made.model_config.multimodal_config = SimpleNamespace()
    return _weights.processor(made)


def test_imagesThatAreProcessedOtherwise_areOthers_whateverTheTemplateOfTexts(tmp_path: Path) -> None:
    first = _processed(tmp_path, preprocessor_config='{"image_mean": [0.5]}', processor_config='{"chat_template": "a"}')
    assert _processed(tmp_path, processor_config='{"chat_template": "b"}') == first
    (tmp_path / "chat_template.jinja").write_text("other")
    assert _processed(tmp_path, tokenizer_config='{"chat_template": "c"}') == first
    assert _processed(tmp_path, preprocessor_config='{"image_mean": [0.4]}') != first


def test_processorsSettings_areOfIt(tmp_path: Path) -> None:
    made = config({}, model_config__model=str(tmp_path))
    assert _weights.processor(made) == "none"
    made.model_config.multimodal_config = SimpleNamespace(mm_processor_kwargs=None)
    plain = _weights.processor(made)
    made.model_config.multimodal_config.mm_processor_kwargs = {"max_pixels": 1280}
    assert _weights.processor(made) != plain


# ---- adapters ----


def _lora(folder: Path, number: int = 1, **more: Any) -> Any:
    return SimpleNamespace(lora_int_id=number, lora_name="ada", lora_path=str(folder), **more)


def test_adaptersOfOneName_areToldApartByTheirFiles(engines: Make, tmp_path: Path, seed: int) -> None:
    one, other = weights.adapter(tmp_path / "one", 1), weights.adapter(tmp_path / "other", 2)
    assert run(engines(), request(seed, lora=_lora(one))) == 0
    assert run(engines(), request(seed, lora=_lora(other))) == 0
    assert run(engines(), request(seed)) == 0
    copy = tmp_path / "of another node" / "copy"
    shutil.copytree(one, copy)
    assert run(engines(), request(seed, lora=_lora(copy, number=9))) == 40
    assert run(engines(), request(seed)) == 40


def test_adapterThatIsLoadedAnewUnderItsPath_isAnother(engines: Make, tmp_path: Path, seed: int) -> None:
    engine = engines()
    folder = weights.adapter(tmp_path / "ada", 1)
    assert run(engine, request(seed, lora=_lora(folder))) == 0
    weights.adapter(folder, 2)
    # vLLM gives an adapter that is unloaded and loaded again another number.
    assert run(engine, request(seed, lora=_lora(folder, number=2))) == 0
    assert run(engines(), request(seed, lora=_lora(folder))) == 40


def test_adapterWhoseFilesAreChangedInTheirPlace_isNotKept(
    engines: Make, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kvtier.engine.epochs._LOOK_S", -1.0)
    folder = weights.adapter(tmp_path / "ada", 1)
    engine = engines()
    assert run(engine, request(seed, lora=_lora(folder))) == 0
    weights.adapter(folder, 2)
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        # Nobody knows which of them the engine has.
        assert run(engine, request(seed, lora=_lora(folder))) == 0
    assert "its files were changed after they were read" in caplog.text
    assert run(engines(), request(seed, lora=_lora(folder))) == 0


@pytest.mark.parametrize(
    ("more", "named"), [({"load_inplace": True}, "it is loaded in place"), ({}, "this process finds no files of it")]
)
def test_adapterOfWhichNothingIsKnown_isNotKept(
    engines: Make, tmp_path: Path, seed: int, more: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = weights.adapter(tmp_path / "ada", 1) if more else tmp_path / "none"
    engine = engines()
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        for _ in range(2):
            assert run(engine, request(seed, lora=_lora(folder, **more))) == 0
    assert caplog.text.count(named) == 1
    assert "stored_blocks" not in engine.stats
    # Requests without it are.
    assert run(engine, request(seed)) == 0 and run(engines(), request(seed)) == 40


def test_adapterThatComesLater_isKeptFromThenOn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtier.engine.epochs._LOOK_S", -1.0)
    adapters = Adapters()
    assert adapters.salt(_lora(tmp_path / "ada")) is None
    weights.adapter(tmp_path / "ada", 1)
    assert adapters.salt(_lora(tmp_path / "ada")) == Adapters().salt(_lora(tmp_path / "ada")) is not None


def test_adapterOfARepository_isItsCommit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--org--ada" / "refs").mkdir(parents=True)
    (tmp_path / "models--org--ada" / "refs" / "main").write_text(COMMIT)
    first = Adapters().salt(_lora(Path("org/ada")))
    (tmp_path / "models--org--ada" / "refs" / "main").write_text(OTHER)
    assert None not in (first, Adapters().salt(_lora(Path("org/ada")))) and first != Adapters().salt(_lora(Path("org/ada")))


def test_adaptersThatWereManyAreForgotten(tmp_path: Path) -> None:
    adapters = Adapters()
    for number in range(1030):
        adapters.salt(_lora(tmp_path, number))
    assert len(adapters._known) == 1024


# ---- weights that become others ----


def _stored(engine: Engine, seed: int) -> Engine:
    assert run(engine, request(seed)) == 0
    return engine


def test_sleepAndWakeWithTheSameWeights_findsEverythingAgain_othersNoticeNothing(engines: Make, seed: int) -> None:
    sleeper, neighbour = _stored(engines(), seed), engines()
    sleeper.reset_prefix_cache(connector=True)
    assert run(neighbour, request(seed)) == 40
    assert run(sleeper, request(seed)) == 40
    assert "epochs" not in sleeper.stats and sleeper.stats["weighings"] == 1


@pytest.mark.parametrize("connector", [True, False])
@pytest.mark.parametrize("ranks", [1, 2])
def test_trainerWritesWeights_theEngineGoesOnInAnotherEpoch(engines: Make, seed: int, connector: bool, ranks: int) -> None:
    trained, neighbour = _stored(engines(ranks=ranks), seed), engines(ranks=ranks)
    trained.write_weights(seed + 1)
    # Some trainers tell the connector, some reset the engine's own cache only.
    trained.reset_prefix_cache(connector=connector)
    assert run(trained, request(seed)) == 0
    assert run(trained, request(seed)) == 40
    assert trained.stats["epochs"] == 1
    assert run(neighbour, request(seed)) == 40


def test_resetBeforeTheWeightsAreWritten_isNoticedToo(engines: Make, seed: int) -> None:
    engine = _stored(engines(), seed)
    engine.reset_prefix_cache(connector=True)
    # Steps in which nothing is computed, while the engine is paused.
    for _ in range(3):
        engine.step()
    engine.write_weights(seed + 1)
    assert run(engine, request(seed)) == 0
    assert engine.stats["epochs"] == 1


def test_oneRankHasOtherWeights_allGoOnInAnotherEpoch(engines: Make, seed: int) -> None:
    engine = _stored(engines(ranks=2), seed)
    engine.workers[1].model.write(seed + 1)
    engine.reset_prefix_cache()
    assert run(engine, request(seed)) == 0
    assert run(engine, request(seed)) == 40


def test_enginesWithTheSameTrainedWeights_shareThem_andTheFirstOnesAreFoundAgain(engines: Make, tmp_path: Path, seed: int) -> None:
    first, second = weights.model(tmp_path / "first", 1), weights.model(tmp_path / "second", 2)
    engine, other = _stored(engines(first), seed), engines(first)
    for one in (engine, other):
        one.reset_prefix_cache(connector=True)
        one.reload_weights(second)
    assert run(engine, request(seed)) == 0
    assert run(other, request(seed)) == 40
    engine.reset_prefix_cache(connector=True)
    engine.reload_weights(first)
    assert run(engine, request(seed)) == 40


def test_requestUnderWay_nothingOfItIsStored_forWhateverWeights(engines: Make, seed: int) -> None:
    engine = engines()
    one = request(seed, 26)
    engine.add(one)
    engine.step_until(lambda: one.num_computed_tokens == 26)
    engine.settle()
    stored = engine.stats["stored_blocks"]
    one.tokens += [5] * 12
    engine.reset_prefix_cache(connector=True)
    # It keeps its blocks, as where the engine's own cache could not be reset: what it computes next attends to them.
    engine.workers[0].model.write(seed + 1)
    old = engine.workers[0].model.array.copy()
    engine.workers[0].compute = lambda *arguments: None  # type: ignore[method-assign]
    engine.step_until(lambda: one.num_computed_tokens == 38)
    engine.finish(one)
    engine.settle()
    engine.step()
    assert engine.stats["stored_blocks"] == stored
    assert numpy.array_equal(old, engine.workers[0].model.array)


def test_loadUnderWayWhenTheWeightsChange_failsAndIsComputed(
    engines: Make, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _stored(engines(), seed)
    again = request(seed)
    worker = engine.workers[0].connector._worker
    with monkeypatch.context() as patched:
        # It has begun, and the engine has not been told how it ended.
        patched.setattr(worker, "finished", lambda idle: set())
        engine.add(again)
        engine.step_until(lambda: bool(worker._loads))
    engine.write_weights(seed + 1)
    assert engine.scheduler.reset_cache() is True
    engine.run_existing(again)
    assert engine.recomputed == 10 and engine.stats["load_failed_blocks"] == 10


def test_ownCacheCouldNotBeReset_nothingIsKeptUntilItIs(engines: Make, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    engine = engines()
    engine.write_weights(seed + 1)
    assert engine.scheduler.reset_cache() is True
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert run(engine, request(seed)) == 0
    assert "its own prefix cache could not be reset" in caplog.text
    assert run(engine, request(seed)) == 0 and "stored_blocks" not in engine.stats
    engine.reset_prefix_cache()
    assert run(engine, request(seed)) == 0
    assert run(engine, request(seed)) == 40


def test_weightsThatCantBeLookedAt_areOthersAfterEachReset(
    engines: Make, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = weights.model(tmp_path / "models", 1)
    monkeypatch.setattr(_weights.Memory, "of_caller", classmethod(lambda cls: cls(None)))
    engine = _stored(engines(folder), seed)
    assert run(engines(folder), request(seed)) == 40
    for _ in range(2):
        engine.reset_prefix_cache()
        assert run(engine, request(seed)) == 0
        assert run(engine, request(seed)) == 40
    assert engine.stats["epochs"] == 2


def test_resetWithoutADaemon_succeeds(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """vLLM 0.32 takes a reset that fails for an error of sleep."""
    engine = Engine(config({"kvtier.socket": str(tmp_path / "none")}), monkeypatch)
    assert engine.scheduler.reset_cache() is True
    engine.close()


def test_nothingIsLoadedOrStored_whileTheWorkersHaveNotAnswered(engines: Make, seed: int) -> None:
    engine = _stored(engines(extra={"kvtier.lookup_s_max": 0.0}), seed)
    scheduler = engine.scheduler._scheduler
    engine.reset_prefix_cache()
    one = request(seed)
    scheduler.weighed = lambda *answer: None
    before = engine.stats["stored_blocks"]
    assert run(engine, one) == 0
    assert run(engine, request(seed + 1)) == 0
    assert engine.stats["stored_blocks"] == before
    del scheduler.weighed
    # From here on a lookup may wait for its answer, however busy the machine is.
    scheduler._settings = scheduler._searches._settings = dataclasses.replace(scheduler._settings, lookup_s_max=10.0)
    engine.run(request(seed + 2))
    assert eventually(lambda: run(engine, request(seed)) == 40)


def test_daemonClears_onlyWhenAnOperatorSaysSo(engines: Make, daemon: Daemon, seed: int) -> None:
    with Client(daemon.socket_path) as client:
        before = client.counters().get("clears", 0)
        engine = _stored(engines(), seed)
        for number in range(3):
            engine.write_weights(seed + number)
            engine.reset_prefix_cache(connector=True)
            run(engine, request(seed))
        assert client.counters().get("clears", 0) == before
        shard = engine.workers[0].connector._mine[0]
        namespace = client.namespace(shard.name, block_bytes=shard.block_bytes, **shard.properties)
        # One that clears it has all epochs gone.
        assert namespace.clear().blocks >= 30
    assert run(engine, request(seed)) == 0


# ---- the parts ----


def test_epochs_answersToEarlierQuestions_andThoseOfSomeRanks_areNoAnswers() -> None:
    epochs = Epochs({(0, 0): "a", (0, 1): "b"})
    epochs.ask()
    first = epochs.question
    epochs.ask()
    assert not epochs.answer(first, {(0, 0): "a", (0, 1): "b"})
    assert not epochs.answer(epochs.question, {(0, 0): "a"})
    assert not epochs.answer(0, {(0, 0): "a", (0, 1): "b"})
    assert epochs.question == 2
    assert epochs.answer(2, {(0, 0): "a", (0, 1): "c"})
    other = epochs.salt
    assert other and not epochs.question
    epochs.ask()
    assert epochs.answer(3, {(0, 0): "a", (0, 1): "b"}) and epochs.salt == b""
    epochs.ask()
    assert epochs.answer(4, {(0, 0): "a", (0, 1): "c"}) and epochs.salt == other


def test_salts_makeOtherKeys_andOnlyTheyDo() -> None:
    keys = [b"a" * 32, b"b" * 16]
    assert salted(b"", keys) == keys
    seen = [*keys, *salted(b"s" * 32, keys), *salted(b"t" * 32, keys), *salted(joined(b"s" * 32, b"t" * 32), keys)]
    assert len(set(seen)) == 8 and all(len(key) <= 32 for key in seen)
    assert joined(b"", b"") == b"" and joined(b"", b"x") == b"x"
    assert joined(b"a", b"b") != joined(b"b", b"a")


def test_resets_ofAnEngineThatIsOtherInside_areToldOf(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        resets = Resets(SimpleNamespace())
    assert "reset_connector=True" in caplog.text
    assert not resets.take()


def test_workersTell_whichWeightsTheyHave() -> None:
    told = _connector.KvtierWorkerMetadata
    one, other, late = told(1, 2, 7, {(0, 0): "a"}), told(0, 2, 7, {(0, 1): "b"}), told(0, 1, 6, {(0, 2): "c"})
    assert one.aggregate(other) == told(1, 2, 7, {(0, 0): "a", (0, 1): "b"})
    assert one.aggregate(late).weights == {(0, 0): "a"}


def test_memory_hasTheDraftingModel_asEachReleaseKeepsIt() -> None:
    from kvtier_testing.vllm_double import Model

    def digest(**more: Any) -> str:
        return _weights.Memory(SimpleNamespace(get_model=lambda: Model("tiny", 0), **more)).digest()

    drafts = Model("tiny", 1)
    plain = digest()
    assert digest(get_draft_model=lambda: None) == plain == digest(drafter=SimpleNamespace(model=None))
    assert digest(get_draft_model=lambda: drafts) == digest(drafter=SimpleNamespace(model=drafts)) == digest(speculator=SimpleNamespace(model=drafts)) != plain


def test_memory_thatCantBeLookedAt_isUnknown_andTold(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Any:
        raise RuntimeError("no model yet")

    with caplog.at_level(logging.WARNING, "vllm.kvtier"):
        assert _weights.Memory(SimpleNamespace(get_model=fail)).digest() == ""
    assert "cannot be read: RuntimeError: no model yet" in caplog.text
    assert _weights.Memory(None).digest() == ""
