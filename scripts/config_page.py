"""Writes the manual page kvtier.yaml(5) from the default configuration: every key with its default and its comment."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(r"( *)([a-z0-9_]+):(?: (.*))?")
_SECTIONS_OF_DAEMON = """\
.SH FILES
.TP
\\fI/etc/kvtier/kvtier.yaml\\fR
Configuration of the service. The daemon reads it at its start, and again by \\fBsystemctl reload kvtierd\\fR.
.SH SEE ALSO
\\fBkvtierd\\fR(8), \\fBkvtier\\fR(1)
"""


@dataclass
class Key:
    """A key of the configuration: its name with that of its section, its default, and its comment; a section has no default."""

    name: str
    default: str | None
    comment: list[str] = field(default_factory=list)


def keys(text: str) -> tuple[list[str], list[Key]]:
    """The comment at the head of a configuration, and its keys in their order."""
    head: list[str] = []
    found: list[Key] = []
    comment: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            if not found and not head:
                head, comment = comment, []
            continue
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise ValueError(f"this line has no key: {line!r}")
        path = [*path[: len(matched[1]) // 2], matched[2]]
        found.append(Key(".".join(path), (matched[3] or "").strip() or None, comment))
        comment = []
    return head, found


def page(text: str) -> str:
    """The manual page of a configuration."""
    head, found = keys(text)
    lines = [
        '.TH "KVTIER.YAML" "5" "" "kvtier" "kvtier"',
        ".SH NAME",
        "kvtier.yaml \\- configuration of kvtierd",
        ".SH DESCRIPTION",
        roff(" ".join(head)),
        ".PP",
        "The file is YAML. Below, a key is written with its section: host.bytes is the key bytes of the section host.",
    ]
    for key in found:
        if key.default is None:
            if "." not in key.name:
                lines.append(f'.SH "{key.name.upper()}"')
            else:
                lines.append(f'.SS "{key.name}"')
            if key.comment:
                lines += [".PP", roff(" ".join(key.comment))]
            continue
        if "." not in key.name:
            lines.append(f'.SH "{key.name.upper()}"')
        default = "empty" if key.default == '""' else key.default
        lines += [".TP", f"\\fB{roff(key.name)}\\fR (default: {roff(default)})"]
        lines.append(roff(" ".join(key.comment)) if key.comment else "\\&")
    return "\n".join(lines) + "\n" + _SECTIONS_OF_DAEMON


def roff(text: str) -> str:
    """A text, none of which is a request of roff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main(source: str, target: str) -> int:
    Path(target).write_text(page(Path(source).read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
