"""The schema, read from its file and checked: numbers, enumerations, layouts of records."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

SCHEMA = "protocol/schema.toml"

SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


class SchemaError(Exception):
    """The schema breaks its own rules; the message says where and how."""


@dataclass(frozen=True)
class Constant:
    """A number with a name."""

    name: str
    value: int
    doc: str = ""
    text: str = ""
    """for a magic: the eight characters of the number in memory"""

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        text = entry.get("text", "")
        if text and len(text) != 8:
            raise SchemaError(f"{entry['name']} is {text!r}, expected 8 characters")
        value = int.from_bytes(text.encode("ascii"), "little") if text else entry["value"]
        return cls(entry["name"], value, entry.get("doc", ""), text)


@dataclass(frozen=True)
class Field:
    """A number in a record, or several of one kind."""

    name: str
    type: str
    offset: int
    count: int = 1
    doc: str = ""

    @property
    def constant(self) -> str:
        """The name of the constant with the field's offset; empty if there is none."""
        return "" if self.name.endswith("*") else self.name.upper().replace(" ", "_") + "_OFFSET"

    @property
    def words(self) -> str:
        """The name for people."""
        return self.name.rstrip("*")

    @property
    def format(self) -> str:
        """The format in Python's struct."""
        return (str(self.count) if self.count > 1 else "") + FORMATS[self.type]

    @property
    def end(self) -> int:
        return self.offset + self.count * SIZES[self.type]


@dataclass(frozen=True)
class Part:
    """One record of a layout."""

    title: str
    prefix: str
    length: int
    length_name: str
    fields: list[Field]
    struct: str
    has_constants: bool
    open_end: list[tuple[int, str, str]]
    """memory behind the numbers: (offset, name, meaning)"""

    @classmethod
    def of(cls, entry: dict[str, Any], where: str) -> Self:
        fields: list[Field] = []
        rest: list[tuple[int, str, str]] = []
        end = 0
        for one in entry["fields"]:
            offset = one.get("at", end)
            kind = one["type"]
            if kind not in SIZES:
                rest.append((offset, one["name"], one.get("doc", "")))
                continue
            if offset < end or offset % SIZES[kind]:
                raise SchemaError(f"{where}: {one['name']} stands at {offset}, expected a multiple of {SIZES[kind]} from {end} on")
            fields.append(Field(one["name"], kind, offset, one.get("count", 1), one.get("doc", "")))
            end = fields[-1].end
        length = entry.get("length", end)
        if length < end:
            raise SchemaError(f"{where}: {length} bytes, but its fields take {end}")
        return cls(
            entry.get("title", ""),
            entry.get("prefix", ""),
            length,
            entry["bytes"],
            fields,
            entry.get("struct", ""),
            entry.get("constants", True),
            rest,
        )

    @property
    def format(self) -> str:
        """The format of the whole record in Python's struct."""
        text, end = "<", 0
        for one in self.fields:
            text += _gap(one.offset - end) + one.format
            end = one.end
        return text + _gap(self.length - end)

    def constants(self) -> list[Constant]:
        """The offsets of the fields, and the length of the record."""
        places = [Constant(self.prefix + one.constant, one.offset) for one in self.fields if one.constant and self.has_constants]
        return [*places, Constant(self.length_name, self.length)]


@dataclass(frozen=True)
class Layout:
    """The records that one class describes."""

    java: str
    prefix: str
    doc: str
    after: str
    own: list[Constant]
    parts: list[Part]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        parts = [Part.of(part, entry["class"]) for part in entry["parts"]]
        own = [Constant.of(one) for one in entry.get("constants", [])]
        return cls(entry["class"], entry["prefix"], entry["doc"].strip(), entry.get("after", "").strip(), own, parts)

    def constants(self) -> list[Constant]:
        return [*self.own, *(one for part in self.parts for one in part.constants())]


@dataclass(frozen=True)
class Attribute:
    """A property of every value of an enumeration."""

    name: str
    type: str
    doc: str
    first: int | None = None
    step: int = 0


@dataclass(frozen=True)
class Value:
    """A value of an enumeration."""

    name: str
    attributes: dict[str, Any]
    doc: str = ""


@dataclass(frozen=True)
class Enumeration:
    """A list of names; most have a number on the wire."""

    java: str
    doc: str
    attributes: list[Attribute]
    values: list[Value]
    unknown: str
    python: dict[str, str] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        attributes = [Attribute(**one) for one in entry["attributes"]]
        given = [one for one in attributes if one.first is None]
        docs = entry.get("docs", {})
        values = []
        for place, (name, *rest) in enumerate(entry["values"]):
            if len(rest) != len(given):
                raise SchemaError(f"{entry['class']}.{name} has {len(rest)} attributes, expected {len(given)}")
            told = iter(rest)
            values.append(
                Value(
                    name,
                    {one.name: next(told) if one.first is None else one.first + place * one.step for one in attributes},
                    docs.get(name, ""),
                )
            )
        codes = [one.attributes["code"] for one in values if "code" in one.attributes]
        if codes != sorted(set(codes)):
            raise SchemaError(f"the codes of {entry['class']} are {codes}, expected each once, in their order")
        missing = set(docs) - {one.name for one in values}
        if missing:
            raise SchemaError(f"{entry['class']} explains {', '.join(sorted(missing))}, which it does not have")
        return cls(
            entry["class"],
            entry["doc"],
            attributes,
            values,
            entry.get("unknown", ""),
            entry.get("python", {}),
            entry.get("header", {}),
        )


@dataclass(frozen=True)
class Native:
    """A record that the Python client hands to its own core in C."""

    c: str
    python: str
    doc: str
    part: Part

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        return cls(entry["c"], entry["python"], entry["doc"], Part.of({"bytes": "", **entry}, entry["c"]))


@dataclass(frozen=True)
class Schema:
    """The whole schema."""

    numbers_class: str
    numbers_doc: str
    numbers: list[Constant]
    enums: list[Enumeration]
    layouts: list[Layout]
    natives: list[Native]

    @classmethod
    def read(cls, file: Path) -> Self:
        """Reads and checks a schema.

        Raises:
            SchemaError: it breaks its own rules.
        """
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        numbers = document["numbers"]
        schema = cls(
            numbers["class"],
            numbers["doc"],
            [Constant.of(one) for one in numbers["constants"]],
            [Enumeration.of(one) for one in document["enums"]],
            [Layout.of(one) for one in document["layouts"]],
            [Native.of(one) for one in document["natives"]],
        )
        values = {one.name: one.value for one in schema.numbers}
        if values["VERSION"] != values["VERSION_MAJOR"] << 16 | values["VERSION_MINOR"]:
            raise SchemaError(f"VERSION is {values['VERSION']:#x}, expected the two versions in one")
        return schema

    def constants(self) -> list[Constant]:
        """Every number, with the prefix of its layout."""
        found = list(self.numbers)
        for layout in self.layouts:
            found += [Constant(layout.prefix + one.name, one.value, one.doc) for one in layout.constants()]
        names = [one.name for one in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"two constants are called {', '.join(twice)}")
        return found


def _gap(length: int) -> str:
    """Padding bytes, in the format of Python's struct."""
    return f"{length}x" if length else ""


def number(value: int) -> str:
    """The text of a number; large numbers are hexadecimal."""
    return f"0x{value:X}" if value > 1 << 27 else str(value)
