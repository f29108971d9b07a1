"""The Python client's module of constants."""

from checks.protocol.schema import SCHEMA, Enumeration, Schema, number


def module(schema: Schema) -> str:
    """The text of the module."""
    lines = [
        f'"""Constants of the kvtier protocol. Generated from {SCHEMA} by scripts/generate; do not edit."""',
        "",
        "from enum import IntEnum",
        "from struct import Struct",
    ]
    for one in schema.enums:
        if "name" in one.python:
            lines += _enumeration(one)
    lines.append("")
    for one in schema.enums:
        if "list" in one.python:
            lines += ["", f"{one.python['list']} = ("]
            lines += [f'    "{value.attributes[one.python["of"]]}",' for value in one.values]
            lines += [")", f'"""{one.python["doc"]}"""', ""]
    lines += [f"{one.name} = {number(one.value)}" for one in schema.constants()]
    for layout in schema.layouts:
        for part in layout.parts:
            if part.struct:
                names = ", ".join(one.words for one in part.fields)
                lines += [f'{part.struct} = Struct("{part.format}")', f'"""{names}"""']
    for native in schema.natives:
        names = ", ".join(one.words for one in native.part.fields)
        lines += [f'{native.python} = Struct("{native.part.format}")', f'"""{names}"""']
    return "\n".join([*lines, ""])


def _enumeration(one: Enumeration) -> list[str]:
    told = one.python
    lines = ["", "", f"class {told['name']}(IntEnum):"]
    if told.get("text") == "name":
        lines += [f'    """{told["doc"]}', ""]
        lines += [f"    {value.name}: {value.attributes['meaning']}" for value in one.values]
        lines += ['    """', ""]
    else:
        lines += [f'    """{told["doc"]}"""', ""]
    lines += [f"    {value.name} = {value.attributes['code']}" for value in one.values]
    if told.get("text") == "name":
        lines += ["", "    def __str__(self) -> str:", "        return self.name"]
    return lines
