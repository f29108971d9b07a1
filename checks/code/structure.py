"""Prints the structure of the main Java code: packages of the index, circles of classes, long files, long parameter lists.

python3 -m checks.code.structure [--json] [--classes] [--root FOLDER]

Uses between classes are read from the sources. With --classes they are read from compiled classes, where a chain such as
a.b().c() also counts as a use of the type of b().
"""

import json
import math
import os
import re
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from checks.shared.checkout import ROOT
from checks.shared.command_line import Arguments

INDEX = "io.kvtier.daemon.index"
LINES_MAX = 500
PARAMETERS_MAX = 7

# Comments, text blocks, strings and characters: nothing in them is code.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
PACKAGE = re.compile(r"^package\s+([\w.]+)\s*;", re.MULTILINE)
IMPORT = re.compile(r"^import\s+(static\s+)?([\w.]+?)(\.\*)?\s*;", re.MULTILINE)
# A name that no dot qualifies.
NAME = re.compile(r"(?<![\w.])[A-Z]\w*")
FULL_NAME = re.compile(r"(?<![\w.])[a-z]\w*(?:\.[a-z]\w*)+\.[A-Z]\w*")
USE = re.compile(r"^\s+(io\.kvtier\.[\w.$]+)\s+-> (io\.kvtier\.[\w.$]+)", re.MULTILINE)
CALL_OR_DECLARATION = re.compile(r"\b(record\s+)?(\w+)\s*(<[^()]*>\s*)?\(")
TYPE_AND_NAME = re.compile(r"(?:(?:final|@[\w.]+(?:\([^()]*\))?)\s+)*[\w.]+(?:\s*<.*>)?(?:\s*(?:@\w+\s*)?\[\s*\])*(?:\s*\.\.\.\s*|\s+|(?<=[>\]])\s*)\w+", re.DOTALL)


@dataclass(frozen=True)
class JavaFile:
    """One source file, which is one top-level class."""

    path: str
    package: str
    name: str
    lines: int
    code: str
    """The text without comments and strings."""


@dataclass(frozen=True)
class PackageRow:
    """One package: its classes, and the largest set of them that all reach one another."""

    package: str
    classes: int
    circle: list[str]


@dataclass(frozen=True)
class LongFile:
    """A file above the limit of lines."""

    path: str
    lines: int


@dataclass(frozen=True)
class LongList:
    """A method, constructor or record with more parameters than the limit."""

    path: str
    name: str
    parameters: list[str]


@dataclass(frozen=True)
class Structure:
    """All that is printed."""

    index_packages: list[PackageRow]
    index_classes: int
    index_circle: list[str]
    """The largest circle over all packages of the index."""
    largest_package: PackageRow
    largest_circle: PackageRow
    """The package with the largest circle, of all main code."""
    files: int
    lines_median: float
    lines_p95: int
    lines_max: int
    long_files: list[LongFile]
    long_lists: list[LongList]


def without_comments(text: str) -> str:
    """The text with nothing but line ends where comments and strings stood."""
    return NOT_CODE.sub(lambda found: "\n" * found[0].count("\n") + " ", text)


def read(root: Path) -> list[JavaFile]:
    """The main classes of all modules."""
    files = []
    for path in sorted(root.glob("*/src/main/java/**/*.java")):
        text = path.read_text(encoding="utf-8")
        package = PACKAGE.search(text)
        if package and path.stem not in ("package-info", "module-info"):
            lines = text.count("\n")
            files.append(JavaFile(str(path.relative_to(root)), package[1], path.stem, lines, without_comments(text)))
    return files


def uses(files: list[JavaFile]) -> dict[str, set[str]]:
    """From each class to the others of these files that it names, by their full names."""
    known = {f"{file.package}.{file.name}" for file in files}
    graph: dict[str, set[str]] = {}
    for file in files:
        own = f"{file.package}.{file.name}"
        imported = {}
        wildcards = [file.package]
        for is_static, name, star in IMPORT.findall(file.code):
            if star and not is_static:
                wildcards.append(name)
            elif is_static:
                # The class stands before the member.
                graph.setdefault(own, set()).update(known & {name, name.rpartition(".")[0]})
            else:
                imported[name.rpartition(".")[2]] = name
        found = set()
        body = IMPORT.sub("", PACKAGE.sub("", file.code))
        for name in set(NAME.findall(body)):
            if name in imported:
                # A nested class is a part of its file.
                parts = imported[name].split(".")
                found |= known & {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
            else:
                found |= known & {f"{package}.{name}" for package in wildcards}
        found |= known & set(FULL_NAME.findall(body))
        graph[own] = (graph.get(own, set()) | found) - {own}
    return graph


def compiled_uses(folders: Iterable[Path]) -> dict[str, set[str]]:
    """From each compiled class to those that its code refers to, as jdeps tells; nested classes are parts of their files."""
    jdeps = Path(os.environ["JAVA_HOME"], "bin/jdeps") if "JAVA_HOME" in os.environ else Path("jdeps")
    command = [str(jdeps), "-verbose:class", "-filter:none", *map(str, folders)]
    graph: dict[str, set[str]] = {}
    for user, used in USE.findall(subprocess.run(command, capture_output=True, text=True, check=True).stdout):
        own, other = user.partition("$")[0], used.partition("$")[0]
        if own != other:
            graph.setdefault(own, set()).add(other)
    return graph


def part(graph: dict[str, set[str]], files: list[JavaFile]) -> dict[str, set[str]]:
    """The uses between some files only."""
    names = {f"{file.package}.{file.name}" for file in files}
    return {name: graph.get(name, set()) & names for name in names}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of two or more nodes that all reach one another, largest first (Tarjan, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in sorted(graph):
        if start in number:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(node: str) -> None:
            number[node] = low[node] = len(number)
            stack.append(node)
            work.append((node, iter(sorted(graph[node] & graph.keys()))))

        enter(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    del stack[at:]
            elif following not in number:
                enter(following)
            elif following in stack:
                low[node] = min(low[node], number[following])
    return sorted(found, key=lambda circle: (-len(circle), circle))


def closing(code: str, opening: int) -> int:
    """The place of the parenthesis that closes the one at a place; the end of the text where none does."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def split(parameters: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts = [""]
    depth = 0
    for letter in parameters:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def long_lists(file: JavaFile) -> list[LongList]:
    """The methods, constructors and record headers of a file with too many parameters."""
    found = []
    for head in CALL_OR_DECLARATION.finditer(file.code):
        opening = head.end() - 1
        parameters = split(file.code[opening + 1 : closing(file.code, opening)])
        if len(parameters) > PARAMETERS_MAX and all(TYPE_AND_NAME.fullmatch(one) for one in parameters):
            name = f"record {head[2]}" if head[1] else head[2]
            found.append(LongList(file.path, name, [re.split(r"[\s>\].]+", one)[-1] for one in parameters]))
    return found


def row(package: str, files: list[JavaFile], graph: dict[str, set[str]]) -> PackageRow:
    """A package with its largest circle."""
    found = circles(part(graph, files))
    circle = [name.rpartition(".")[2] for name in found[0]] if found else []
    return PackageRow(package, len(files), circle)


def structure(files: list[JavaFile], graph: dict[str, set[str]]) -> Structure:
    """Everything that is told of the main code, with the uses between its classes."""
    packages: dict[str, list[JavaFile]] = {}
    for file in files:
        packages.setdefault(file.package, []).append(file)
    rows = [row(package, found, graph) for package, found in sorted(packages.items())]
    index = [file for file in files if f"{file.package}.".startswith(f"{INDEX}.")]
    index_circles = circles(part(graph, index))
    lines = sorted(file.lines for file in files)
    none = PackageRow("", 0, [])
    return Structure(
        index_packages=[one for one in rows if f"{one.package}.".startswith(f"{INDEX}.")],
        index_classes=len(index),
        index_circle=[name.removeprefix(f"{INDEX}.") for name in index_circles[0]] if index_circles else [],
        largest_package=max(rows, key=lambda one: one.classes, default=none),
        largest_circle=max(rows, key=lambda one: len(one.circle), default=none),
        files=len(lines),
        lines_median=statistics.median(lines) if lines else 0,
        lines_p95=lines[math.ceil(0.95 * len(lines)) - 1] if lines else 0,
        lines_max=lines[-1] if lines else 0,
        long_files=sorted((LongFile(one.path, one.lines) for one in files if one.lines > LINES_MAX), key=lambda one: -one.lines),
        long_lists=sorted((one for file in files for one in long_lists(file)), key=lambda one: (-len(one.parameters), one.path)),
    )


def class_of(path: str) -> str:
    """A file's module and package path without the folders that all have: daemon/index/Index."""
    module, _, rest = path.partition("/src/main/java/io/kvtier/")
    return (rest or module).removesuffix(".java")


def table(found: Structure) -> str:
    """The structure as text for people."""
    out = ["Packages of the index                     classes  largest circle"]
    for one in found.index_packages:
        out.append(f"  {one.package.removeprefix('io.kvtier.'):<40}{one.classes:>7}  {len(one.circle) or '-':>14}  {' '.join(one.circle)}".rstrip())
    out.append(f"  {'all':<40}{found.index_classes:>7}  {len(found.index_circle) or '-':>14}")
    out.append("")
    out.append(f"Largest package of all main code: {found.largest_package.package} with {found.largest_package.classes} classes")
    out.append(f"Largest circle inside a package: {found.largest_circle.package} with {len(found.largest_circle.circle)} classes")
    out.append(f"Lines of a main file: median {found.lines_median:g}, p95 {found.lines_p95}, max {found.lines_max} ({found.files} files)")
    out.append("")
    out.append(f"Files above {LINES_MAX} lines: {len(found.long_files)}")
    out.extend(f"  {one.lines:>5}  {class_of(one.path)}" for one in found.long_files)
    out.append("")
    out.append(f"Methods and records with more than {PARAMETERS_MAX} parameters: {len(found.long_lists)}")
    out.extend(f"  {len(one.parameters):>5}  {class_of(one.path)}: {one.name}({', '.join(one.parameters)})" for one in found.long_lists)
    return "\n".join(out)


def main() -> None:
    """Prints; finds nothing wrong."""
    parser = Arguments(prog="python3 -m checks.code.structure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder of the checkout (default: this one)")
    parser.add_argument("--classes", action="store_true", help="read uses from the compiled classes in */target/classes")
    options = parser.parse_args()
    files = read(options.root)
    graph = compiled_uses(sorted(options.root.glob("*/target/classes"))) if options.classes else uses(files)
    found = structure(files, graph)
    print(json.dumps(asdict(found), indent=2) if options.json else table(found))


if __name__ == "__main__":
    main()
