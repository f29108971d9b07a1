"""The local protocol's numbers and layouts. They are decided in protocol/schema.toml alone; Java, C and Python are written from there.

    python -m checks.protocol            fails where a generated file is stale, or the schema breaks its own rules
    python -m checks.protocol --write    writes the generated files
"""

from pathlib import Path

from checks.documents.problem import Problem
from checks.protocol import c, java, python
from checks.protocol.schema import SCHEMA, Schema, SchemaError
from checks.shared.checkout import ROOT

JAVA = "protocol/src/main/java/io/kvtier/protocol"
HEADER = "client-py/src/kvtier/_protocol.h"
PYTHON = "client-py/src/kvtier/_protocol.py"


def generated(root: Path = ROOT) -> dict[str, str]:
    """Every generated file by its place, with its text.

    Raises:
        SchemaError: the schema breaks its own rules.
    """
    schema = Schema.read(root / SCHEMA)
    files = {f"{JAVA}/{name}.java": text for name, text in java.classes(schema).items()}
    files[HEADER] = c.header(schema)
    files[PYTHON] = python.module(schema)
    return files


def check(root: Path = ROOT) -> list[Problem]:
    """Every generated file is as the schema has it."""
    try:
        files = generated(root)
    except SchemaError as error:
        return [Problem(SCHEMA, 1, str(error))]
    stale = [name for name, text in files.items() if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text]
    return [Problem(name, 1, f"stale: {SCHEMA} has changed, run scripts/generate") for name in stale]


def write(root: Path = ROOT) -> None:
    """Writes every generated file."""
    for name, text in generated(root).items():
        (root / name).write_text(text, encoding="utf-8")
