"""The protocol's schema, and what is written from it."""

import shutil
import struct
from pathlib import Path

import pytest

from checks import protocol
from checks.protocol import c, java, python
from checks.protocol.schema import SCHEMA, Schema, SchemaError
from checks.shared.checkout import ROOT

SMALL = """
[numbers]
class = "Protocol"
doc = "Numbers."
constants = [
  { name = "VERSION_MAJOR", value = 2 },
  { name = "VERSION_MINOR", value = 1 },
  { name = "VERSION", value = 0x2_0001 },
]

[[enums]]
class = "Kind"
doc = "Kinds."
attributes = [{ name = "code", type = "int", doc = "On the wire." }]
unknown = "null"
python = { name = "Kind", doc = "A kind." }
header = { prefix = "KIND" }
values = [["ONE", 1], ["THREE", 3]]

[[layouts]]
class = "ThingDescriptor"
prefix = "THING_"
doc = "A thing."
constants = [{ name = "MAGIC", text = "KVTIERXX" }]

[[layouts.parts]]
bytes = "BYTES"
length = 32
struct = "THING"
fields = [
  { type = "u64", name = "magic" },
  { type = "u16", name = "first part" },
  { type = "u16", name = "zero*" },
  { at = 16, type = "u32", count = 2, name = "pair" },
]

[[natives]]
c = "Pair"
python = "PAIR"
doc = "Two."
fields = [{ type = "u64", count = 2, name = "both" }]
"""


def of(text: str, tmp_path: Path) -> Schema:
    file = tmp_path / "schema.toml"
    file.write_text(text)
    return Schema.read(file)


def test_generatedFiles_areUpToDate() -> None:
    assert protocol.check(ROOT) == []


def test_changedSchema_makesEachOfItsFilesStale(tmp_path: Path) -> None:
    for name in [SCHEMA, *protocol.generated(ROOT)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    schema = tmp_path / SCHEMA
    schema.write_text(schema.read_text().replace('["OVER_QUOTA", 20,', '["LATER", 20, "later"],\n  ["OVER_QUOTA", 21,'))
    assert {Path(one.file).name for one in protocol.check(tmp_path)} == {"Status.java", "_protocol.h", "_protocol.py"}
    protocol.write(tmp_path)
    assert protocol.check(tmp_path) == []


def test_python_packsWhatCAndJavaReadAtTheirOffsets(tmp_path: Path) -> None:
    schema = of(SMALL, tmp_path)
    made: dict[str, object] = {}
    exec(python.module(schema), made)
    packed = made["THING"].pack(made["THING_MAGIC"], 7, 0, 8, 9)  # type: ignore[attr-defined]
    assert packed[:8] == b"KVTIERXX" and len(packed) == made["THING_BYTES"] == 32
    assert struct.unpack_from("<H", packed, made["THING_FIRST_PART_OFFSET"]) == (7,)  # type: ignore[call-overload]
    assert struct.unpack_from("<2I", packed, made["THING_PAIR_OFFSET"]) == (8, 9)  # type: ignore[call-overload]
    for name in ("FIRST_PART_OFFSET", "PAIR_OFFSET", "BYTES"):
        assert f"#define KVTIER_THING_{name} {made['THING_' + name]}\n" in c.header(schema)
        assert f" int {name} = {made['THING_' + name]};" in java.classes(schema)["ThingDescriptor"]
    assert "THING_ZERO_OFFSET" not in made


def test_c_hasTheRecordsThatPythonHandsOver(tmp_path: Path) -> None:
    assert "typedef struct {\n  uint64_t both[2];\n} Pair;" in c.header(of(SMALL, tmp_path))


@pytest.mark.parametrize(
    ("broken", "instead", "why"),
    [
        ("at = 16,", "at = 18,", "pair stands at 18, expected a multiple of 4 from 12 on"),
        ("at = 16,", "at = 8,", "pair stands at 8, expected a multiple of 4 from 12 on"),
        ("length = 32", "length = 16", "16 bytes, but its fields take 24"),
        ("0x2_0001", "0x2_0002", "expected the two versions in one"),
        ('["THREE", 3]', '["THREE", 1]', "the codes of Kind are [1, 1]"),
        ('["THREE", 3]', '["THREE"]', "Kind.THREE has 0 attributes, expected 1"),
        ("KVTIERXX", "KVTIER", "MAGIC is 'KVTIER', expected 8 characters"),
    ],
)
def test_brokenSchema_isRefusedWithThePlace(broken: str, instead: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as refused:
        of(SMALL.replace(broken, instead), tmp_path)
    assert why in str(refused.value)


def test_twoConstantsOfOneName_areRefused(tmp_path: Path) -> None:
    schema = of(SMALL.replace('name = "first part"', 'name = "magic"'), tmp_path)
    with pytest.raises(SchemaError, match="THING_MAGIC_OFFSET"):
        schema.constants()
