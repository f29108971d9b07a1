"""The C header of the Python client's core."""

from checks.protocol.schema import SCHEMA, SIZES, Enumeration, Native, Schema, number

INT_MAX = (1 << 31) - 1


def header(schema: Schema) -> str:
    """The text of the header."""
    lines = [
        f"/* Constants of the kvtier protocol. Generated from {SCHEMA} by scripts/generate; do not edit. */",
        "#ifndef KVTIER_PROTOCOL_H",
        "#define KVTIER_PROTOCOL_H",
        "",
    ]
    for one in schema.enums:
        lines += _enumeration(one)
    for constant in schema.constants():
        lines.append(f"#define KVTIER_{constant.name} {number(constant.value)}" + ("ULL" if constant.value > INT_MAX else ""))
    for one in schema.enums:
        if "type" in one.header:
            names = ", ".join(f"{one.header['prefix']}_{value.name}" for value in one.values)
            lines += ["", f"/* {one.doc} */", f"typedef enum {{ {names} }} {one.header['type']};"]
    for one in schema.enums:
        if "function" in one.header:
            lines += _function(schema, one)
    for native in schema.natives:
        lines += _struct(native)
    return "\n".join([*lines, "", "#endif", ""])


def _enumeration(one: Enumeration) -> list[str]:
    """The numbers of an enumeration."""
    told = one.header
    lines = []
    if "prefix" in told and "type" not in told:
        lines += [f"#define KVTIER_{told['prefix']}_{value.name} {value.attributes['code']}" for value in one.values]
        lines.append(f"#define KVTIER_{told['prefix']}_COUNT {len(one.values)}")
    if "count" in told:
        lines.append(f"#define KVTIER_{told['count']} {len(one.values)}")
    return lines


def _function(schema: Schema, one: Enumeration) -> list[str]:
    """A function from the number of a value to one of its attributes, which is a value of another enumeration."""
    attribute = next(found for found in one.attributes if found.name == one.header["of"])
    other = next(found for found in schema.enums if found.java == attribute.type)
    kind, prefix = other.header["type"], other.header["prefix"]
    lines = ["", f"static inline {kind} {one.header['function']}(int code) {{", "  switch (code) {"]
    for value in other.values[1:]:
        lines += [
            f"    case KVTIER_{one.header['prefix']}_{having.name}:"
            for having in one.values
            if having.attributes[attribute.name] == value.name
        ]
        lines.append(f"      return {prefix}_{value.name};")
    return [*lines, "    default:", f"      return {prefix}_{other.values[0].name};", "  }", "}"]


def _struct(native: Native) -> list[str]:
    lines = ["", f"/* {native.doc} */", "typedef struct {"]
    for one in native.part.fields:
        count = f"[{one.count}]" if one.count > 1 else ""
        lines.append(f"  uint{8 * SIZES[one.type]}_t {one.name.replace(' ', '_')}{count};" + (f" /* {one.doc} */" if one.doc else ""))
    return [*lines, f"}} {native.c};"]
