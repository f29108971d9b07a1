"""The Helm chart, as far as it can be judged without Helm: generated files, the schema of its values, the package."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.packages import chart, image
from checks.shared.checkout import ROOT

CONFIGURATION = chart.CONFIGURATION.read_text()


def test_chart_isFresh() -> None:
    assert chart.check() == []


def test_staleFile_isAProblem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configuration = tmp_path / "kvtier.yaml"
    configuration.write_text(CONFIGURATION + "\nextra:\n  # A setting that the schema does not have.\n  size: 1MiB\n")
    monkeypatch.setattr(chart, "CONFIGURATION", configuration)
    assert [one.file for one in chart.check()] == ["packaging/helm/kvtier/values.schema.json"]


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)


def test_schema_refusesEveryKeyThatItDoesNotHave() -> None:
    found = list(objects(chart.values_schema(CONFIGURATION)))
    assert len(found) > 30
    assert all(one["additionalProperties"] is False for one in found)


def leaves(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, one in schema["properties"].items():
        if "properties" in one:
            yield from leaves(one, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_configuration_hasTheDaemonsKeys_andNoOthers() -> None:
    keys = [one.name for one in chart.settings(CONFIGURATION)]
    assert sorted(leaves(chart.configuration_schema(CONFIGURATION))) == sorted(keys)
    assert {"host.bytes", "object.s3.bucket", "tenants", "events.media.host"} <= set(keys)


def test_values_areAllInTheSchema_andTheSchemasInTheValues() -> None:
    written = set(re.findall(r"^([A-Za-z]+):", (chart.CHART / "values.yaml").read_text(), re.MULTILINE))
    assert written == set(chart.values_schema(CONFIGURATION)["properties"]) - {"global"}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value fits a schema: a subset of JSON Schema that covers the keys."""
    if "anyOf" in schema:
        return any(accepts(one, value) for one in schema["anyOf"])
    if "const" in schema:
        return bool(value == schema["const"] and not isinstance(value, bool))
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list}
    if not any(isinstance(value, kinds[one]) and (one == "boolean" or not isinstance(value, bool)) for one in types):
        return False
    return not isinstance(value, str) or re.search(schema.get("pattern", ""), value) is not None


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("host.bytes", ["64GiB", "1024MiB"], ["64GB", 64, True]),
        ("host.keep", ["10min", 0], ["10", 10, "10 minutes"]),
        ("host.huge_pages", [True], ["yes"]),
        ("object.bytes", [0, "1TiB"], ["1TB"]),
        ("object.hedge_after", [0, "5ms"], ["soon"]),
        ("traces.sample", [0, 0.001], ["often"]),
        ("grpc.enabled", ["auto", True], [1.5]),
        ("http.host", ["0.0.0.0"], [0]),
        ("http.port", [7080], ["7080"]),
        ("ssd.directory", ["/a", ["/a", "/b"]], [1]),
        ("socket.users", [["alice:read"]], ["alice"]),
    ],
)
def test_value_isJudgedByTheKindOfItsDefault(key: str, right: list[Any], wrong: list[Any]) -> None:
    schema = chart.schema_of(next(one for one in chart.settings(CONFIGURATION) if one.name == key))
    assert [accepts(schema, value) for value in right] == [True] * len(right)
    assert [accepts(schema, value) for value in wrong] == [False] * len(wrong)


def test_everyDefault_isAccepted() -> None:
    for one in chart.settings(CONFIGURATION):
        value: Any = one.value
        if re.fullmatch(r"[0-9.]+", value) and value.count(".") < 2:
            value = float(value) if "." in value else int(value)
        elif value in ("true", "false"):
            value = value == "true"
        elif value.startswith(("[", '"')):
            value = json.loads(value)
        assert accepts(chart.schema_of(one), value), one


def test_imagesConfiguration_hasKnownKeys() -> None:
    known = {one.name for one in chart.settings(CONFIGURATION)}
    assert {one.name for one in chart.settings((image.FOLDER / "kvtier.yaml").read_text())} <= known


def test_package_isTheSameTwice_andNamesThePublishedImage(tmp_path: Path) -> None:
    made = chart.pack(tmp_path, "1.2.3", "registry.example/kvtier", 1767225600)
    first = made.read_bytes()
    assert chart.pack(tmp_path, "1.2.3", "registry.example/kvtier", 1767225600).read_bytes() == first
    with tarfile.open(made) as archive:
        values = archive.extractfile("kvtier/values.yaml")
        assert values is not None and "  repository: registry.example/kvtier" in values.read().decode()
        assert "kvtier/templates/daemonset.yaml" in archive.getnames()


def test_noManifest_sharesNamespacesOfTheNode() -> None:
    files = [*(chart.CHART / "templates").glob("*"), *(ROOT / "packaging/kubernetes").glob("*"), ROOT / "packaging/compose.yaml"]
    assert len(files) > 10
    for file in files:
        assert not re.search(r"^\s*(hostIPC|hostPID|hostNetwork|privileged): *true|^\s*(ipc|pid|network_mode):", file.read_text(), re.MULTILINE), file
