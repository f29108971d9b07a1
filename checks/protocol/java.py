"""The Java classes of the protocol, formatted as google-java-format has it."""

import textwrap
from collections.abc import Iterable

from checks.protocol.schema import SCHEMA, Attribute, Constant, Enumeration, Layout, Part, Schema, Value, number

WIDTH = 100


def classes(schema: Schema) -> dict[str, str]:
    """Every class by its name, with its text."""
    texts = {schema.numbers_class: _numbers(schema)}
    texts |= {one.java: _enumeration(one) for one in schema.enums}
    texts |= {one.java: _layout(one) for one in schema.layouts}
    return texts


def _numbers(schema: Schema) -> str:
    return _class(schema.numbers_class, _javadoc(f"{schema.numbers_doc} Generated from {SCHEMA}."), _constants(schema.numbers))


def _layout(layout: Layout) -> str:
    doc = [*_paragraphs(f"{layout.doc}\n\nLittle-endian. Generated from {SCHEMA}."), "", "<pre>"]
    for part in layout.parts:
        doc += _diagram(part)
    doc.append("</pre>")
    if layout.after:
        doc += ["", *_paragraphs(layout.after)]
    members = _constants(layout.own)
    for part in layout.parts:
        members += _constants(part.constants(), f"  // {part.title[0].upper()}{part.title[1:]}" if part.title else "")
    return _class(layout.java, _comment(doc), members)


def _class(name: str, doc: list[str], members: list[str]) -> str:
    while members and not members[-1]:
        members.pop()
    lines = ["package io.kvtier.protocol;", "", *doc, f"public final class {name} {{"]
    return "\n".join([*lines, *members, "", f"  private {name}() {{}}", "}", ""])


def _diagram(part: Part) -> list[str]:
    """A line for each field: offset, type, name and meaning."""
    rows = [(one.offset, f"{one.type}[{one.count}]" if one.count > 1 else one.type, one.words, one.doc) for one in part.fields]
    rows += [(offset, "", name, doc) for offset, name, doc in part.open_end]
    kinds = max(len(kind) for _, kind, _, _ in rows)
    names = max(len(name) for _, kind, name, _ in rows if kind)
    lines = [part.title] if part.title else []
    for offset, kind, name, doc in rows:
        lines.append(f"{offset:5} {kind:{kinds}} {name:{names}}  {doc}".rstrip())
    if not part.open_end:
        lines.append(f"{part.length:5} end")
    return lines


def _constants(constants: Iterable[Constant], comment: str = "") -> list[str]:
    lines = [comment] if comment else []
    for one in constants:
        if one.doc:
            if lines and lines[-1]:
                lines.append("")
            lines += ["  " + line for line in _javadoc(one.doc, WIDTH - 2)]
        if one.text:
            value = f'0x{one.value >> 48:04X}_{one.value >> 32 & 0xFFFF:04X}_{one.value >> 16 & 0xFFFF:04X}_{one.value & 0xFFFF:04X}L; // "{one.text}" in memory order'
            lines.append(f"  public static final long {one.name} = {value}")
        else:
            lines.append(f"  public static final int {one.name} = {number(one.value)};")
        if one.doc:
            lines.append("")
    if lines and lines[-1]:
        lines.append("")
    return lines


def _enumeration(one: Enumeration) -> str:
    lines = ["package io.kvtier.protocol;", ""]
    if one.unknown == "null":
        lines += ["import org.jspecify.annotations.Nullable;", ""]
    lines += [*_javadoc(f"{one.doc} Generated from {SCHEMA}."), f"public enum {one.java} {{"]
    for place, value in enumerate(one.values):
        end = ";" if place == len(one.values) - 1 and one.attributes else "," if place < len(one.values) - 1 else ""
        if value.doc:
            if place:
                lines.append("")
            lines += ["  " + line for line in _javadoc(value.doc, WIDTH - 2)]
        lines += _value(one, value, end)
    if one.attributes:
        lines += ["", *_members(one)]
    return "\n".join([*lines, "}", ""])


def _value(one: Enumeration, value: Value, end: str) -> list[str]:
    given = [_literal(kind, value.attributes[kind.name]) for kind in one.attributes]
    if not given:
        return [f"  {value.name}{end}"]
    line = f"  {value.name}({', '.join(given)}){end}"
    if len(line) <= WIDTH:
        return [line]
    line = f"      {', '.join(given)}){end}"
    if len(line) <= WIDTH:
        return [f"  {value.name}(", line]
    return [f"  {value.name}(", *(f"      {text}," for text in given[:-1]), f"      {given[-1]}){end}"]


def _literal(kind: Attribute, value: object) -> str:
    if kind.type == "String":
        return f'"{value}"'
    return str(value) if kind.type == "int" else f"{kind.type}.{value}"


def _members(one: Enumeration) -> list[str]:
    lines = []
    has_code = any(kind.name == "code" for kind in one.attributes)
    dense = [value.attributes.get("code") for value in one.values] == list(range(len(one.values)))
    if has_code and dense:
        lines += [f"  private static final {one.java}[] BY_CODE = values();", ""]
    elif has_code:
        most = max(value.attributes["code"] for value in one.values)
        lines += [
            f"  private static final @Nullable {one.java}[] BY_CODE = new {one.java}[{most + 1}];",
            "",
            "  static {",
            f"    for ({one.java} one : values()) {{",
            "      BY_CODE[one.code] = one;",
            "    }",
            "  }",
            "",
        ]
    lines += [f"  private final {kind.type} {kind.name};" for kind in one.attributes]
    parameters = ", ".join(f"{kind.type} {kind.name}" for kind in one.attributes)
    lines += ["", f"  {one.java}({parameters}) {{"]
    lines += [f"    this.{kind.name} = {kind.name};" for kind in one.attributes]
    lines.append("  }")
    for kind in one.attributes:
        lines += ["", *("  " + line for line in _javadoc(kind.doc, WIDTH - 2))]
        lines += [f"  public {kind.type} {kind.name}() {{", f"    return {kind.name};", "  }"]
    if has_code:
        nothing = one.unknown == "null"
        doc = f"The value of a code, or {'null' if nothing else '{@link #' + one.unknown + '}'} for a code that is none."
        kind = f"@Nullable {one.java}" if nothing else one.java
        lines += ["", *("  " + line for line in _javadoc(doc, WIDTH - 2))]
        lines += [
            f"  public static {kind} of(int code) {{",
            f"    return code >= 0 && code < BY_CODE.length ? BY_CODE[code] : {one.unknown};",
            "  }",
        ]
    return lines


def _javadoc(text: str, width: int = WIDTH) -> list[str]:
    """A comment of one paragraph."""
    short = f"/** {text} */"
    return [short] if len(short) <= width else _comment(_wrap(text, width - 3))


def _comment(lines: list[str]) -> list[str]:
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for place, paragraph in enumerate(text.split("\n\n")):
        if place:
            lines.append("")
        if paragraph.startswith("<ul>"):
            for line in paragraph.split("\n"):
                lead = line[: len(line) - len(line.lstrip())]
                lines += textwrap.wrap(
                    line.strip(), WIDTH - 3, initial_indent=lead, subsequent_indent=lead + "    ", break_long_words=False
                )
        else:
            lines += _wrap(("<p>" if place else "") + paragraph.replace("\n", " "), WIDTH - 3)
    return lines


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
