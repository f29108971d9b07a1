"""Gathers the pages of the site in one folder, for MkDocs; scripts/docs starts it.

    python -m checks.documents.site FOLDER    copies docs/ and the documents beside it, and makes the pages that are lists of other files

A link to a page leads to that page. A link to another file of the repository leads to repository.url of
publisher.properties; where that is empty, the file is named. A link to nothing fails.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from checks.documents.decisions import NEVER_USED, state
from checks.documents.links import ELSEWHERE, is_made
from checks.documents.passages import CODE, FENCE, IMAGE_OR_LINK
from checks.documents.version import version
from checks.packages import publisher
from checks.shared.checkout import ROOT

# Documents beside docs/ that are pages, too.
BESIDE = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
# Files in docs/ that are no pages.
NOT_COPIED = ("requirements.in", "requirements.txt")


def gather(folder: Path) -> list[str]:
    """Copies all pages and pictures; returns the problems."""
    shutil.rmtree(folder, ignore_errors=True)
    docs = ROOT / "docs"
    shutil.copytree(docs, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    sources = {path: folder / path.relative_to(docs) for path in docs.rglob("*.md")}
    sources |= {ROOT / name: folder / name for name in BESIDE if (ROOT / name).exists()}
    values = publisher.read()
    wrong = []
    for source, target in sources.items():
        text, problems = relinked(source, target, sources, values["repository.url"])
        if source.name == "SECURITY.md":
            text = publisher.with_contact(text, values)
        target.write_text(text, encoding="utf-8")
        wrong += problems
    (folder / "decisions" / "index.md").write_text(decisions(docs / "decisions"), encoding="utf-8")
    reference = folder / "reference"
    reference.mkdir(exist_ok=True)
    (reference / "python.md").write_text(python_api(), encoding="utf-8")
    return wrong


def relinked(source: Path, target: Path, pages: dict[Path, Path], repository: str) -> tuple[str, list[str]]:
    """A page with the links that hold on the site, and the links that lead nowhere."""
    wrong: list[str] = []

    def link(found: re.Match[str]) -> str:
        text, address = found[1], found[2]
        path, _, anchor = address.partition("#")
        if not path or ELSEWHERE.match(path):
            return found[0]
        file = (source.parent / path).resolve()
        if file in pages:
            there = os.path.relpath(pages[file], target.parent)
            return f"{'!' if found[0].startswith('!') else ''}[{text}]({there}{'#' + anchor if anchor else ''})"
        if file.is_relative_to(ROOT / "docs") and (file.is_file() or is_made(ROOT, file)):
            return found[0]
        if file == ROOT / "docs" / "decisions":
            return f"[{text}]({address_of_decisions(source, target)})"
        if not file.exists():
            wrong.append(f"{os.path.relpath(source, ROOT)}: the link leads to {address}, which is not there")
            return found[0]
        name = file.relative_to(ROOT).as_posix()
        if repository:
            return f"[{text}]({repository}/blob/v{version()}/{name})"
        return text if name in text.replace("`", "") else f"{text} (`{name}`)"

    lines = []
    fence = ""
    for line in source.read_text(encoding="utf-8").split("\n"):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            # A span of code is no link, whatever stands in it.
            spans: list[str] = []
            hidden = CODE.sub(lambda one: spans.append(one[0]) or f"\0{len(spans) - 1}\0", line)  # type: ignore[func-returns-value]
            linked = IMAGE_OR_LINK.sub(link, hidden)
            line = re.sub(r"\0(\d+)\0", lambda one: spans[int(one[1])], linked)
        lines.append(line)
    return "\n".join(lines), wrong


def address_of_decisions(source: Path, target: Path) -> str:
    """The address of the list of decisions, relative to a page."""
    depth = len(source.relative_to(ROOT / "docs").parts) if source.is_relative_to(ROOT / "docs") else 1
    return os.path.relpath(target.parents[depth - 1] / "decisions" / "index.md", target.parent)


def decisions(folder: Path) -> str:
    """The list of all decisions."""
    lines = [
        "# Decisions",
        "",
        "Each page tells one decision: its context, what was decided, and which other ways were rejected and why. The state"
        " says which later decision replaced it, or a part of it. A number is never used again.",
        "",
        "| Number | Decision | State |",
        "| --- | --- | --- |",
    ]
    rows = {number: f"| {number} | | this number was never used |" for number in NEVER_USED}
    for path in folder.glob("[0-9]*.md"):
        text = path.read_text(encoding="utf-8")
        title = re.sub(r"^#\s*(\d+[.:]?\s*)?", "", text.split("\n", 1)[0])
        rows[path.name[:4]] = f"| {path.name[:4]} | [{title}]({path.name}) | {state(text)} |"
    lines += [rows[number] for number in sorted(rows)]
    return "\n".join(lines) + "\n"


def python_modules() -> list[str]:
    """The modules of the Python client that a user imports."""
    package = ROOT / "client-py" / "src" / "kvtier"
    found = ["kvtier"]
    for path in sorted(package.iterdir()):
        if path.name.startswith("_"):
            continue
        if path.suffix == ".py":
            found.append(f"kvtier.{path.stem}")
        elif (path / "__init__.py").exists():
            found.append(f"kvtier.{path.name}")
    return found


def python_api() -> str:
    """The page of the Python client, which mkdocstrings fills from the docstrings."""
    lines = ["# Python API", "", "The client's docstrings. `kvtier` needs Python 3.11 or later, and nothing else.", ""]
    for module in python_modules():
        lines += [f"## `{module}` {{#{module}-module}}", "", f"::: {module}", "    options:", "      heading_level: 3", ""]
    return "\n".join(lines)


def main() -> int:
    try:
        wrong = gather(Path(sys.argv[1]).resolve())
    except publisher.PublisherError as e:
        wrong = [str(e)]
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
