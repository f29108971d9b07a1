"""The structure of the Java code that checks/code/structure.py prints."""

import json
import sys
from pathlib import Path

import pytest

from checks.code import structure

INDEX = "io.kvtier.daemon.index"


def source(root: Path, name: str, body: str, package: str = INDEX, module: str = "daemon") -> None:
    path = root / module / "src/main/java" / package.replace(".", "/") / f"{name}.java"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"package {package};\n{body}\n")


def found(root: Path) -> structure.Structure:
    files = structure.read(root)
    return structure.structure(files, structure.uses(files))


def test_classesThatReachEachOther_areACircle(tmp_path: Path) -> None:
    source(tmp_path, "A", "class A { B b; }")
    source(tmp_path, "B", "class B { void use(C c) {} }")
    source(tmp_path, "C", "class C { static final int ONE = A.ONE; }")
    source(tmp_path, "D", "class D { A a; }")
    assert found(tmp_path).index_packages == [structure.PackageRow(INDEX, 4, ["A", "B", "C"])]


def test_namesInCommentsAndStrings_areNoUses(tmp_path: Path) -> None:
    source(tmp_path, "A", 'class A { B b; String s = "B"; char c = \'"\'; }')
    source(tmp_path, "B", '/** Of an A. */ class B { String s = "A \\" A"; String t = """\n A " \n"""; // A\n }')
    assert found(tmp_path).index_circle == []


def test_qualifiedNameOfAnotherType_isNoUse(tmp_path: Path) -> None:
    source(tmp_path, "A", "class A { B b; }")
    source(tmp_path, "B", "import io.kvtier.client.A;\nclass B { A other; Map.A nested; io.kvtier.cli.A third; }")
    assert found(tmp_path).index_circle == []


def test_circleOverPackages_isFoundByImports(tmp_path: Path) -> None:
    source(tmp_path, "A", "import io.kvtier.daemon.index.core.B;\nclass A { B b; }")
    source(tmp_path, "B", "import static io.kvtier.daemon.index.A.one;\nclass B { int x = one(); }", f"{INDEX}.core")
    source(tmp_path, "C", "class C { io.kvtier.daemon.index.A a; }", f"{INDEX}.core")
    result = found(tmp_path)
    assert result.index_circle == ["A", "core.B"]
    assert [(one.package, one.classes, one.circle) for one in result.index_packages] == [(INDEX, 1, []), (f"{INDEX}.core", 2, [])]


def test_nestedClassThatIsImported_isAUseOfItsFile(tmp_path: Path) -> None:
    source(tmp_path, "A", "import io.kvtier.daemon.index.core.B.Part;\nclass A { Part b; }")
    source(tmp_path, "B", "import io.kvtier.daemon.index.*;\nclass B { A a; }", f"{INDEX}.core")
    assert found(tmp_path).index_circle == ["A", "core.B"]


def test_longLists_areDeclarationsOnly(tmp_path: Path) -> None:
    eight = "int a, long b, Map<String, List<int[]>> c, @Nullable String d, int[] e, final Map.Entry<A, B> f, byte[]... g, T h"
    source(
        tmp_path,
        "A",
        f"record A({eight}) {{\n  A({eight}) {{ call(a, b, c, d, e, f, g, h); }}\n  <T> void few(int a, int b) {{}}\n"
        f"  abstract int many(\n      {eight});\n  int x = new A(1, 2, 3, 4, 5, 6, 7, f(8, 9));\n}}",
    )
    lists = found(tmp_path).long_lists
    assert sorted(one.name for one in lists) == ["A", "many", "record A"]
    assert {tuple(one.parameters) for one in lists} == {tuple("abcdefgh")}


def test_lines_haveMedianAndPercentile(tmp_path: Path) -> None:
    for number in range(20):
        source(tmp_path, f"A{number}", "\n" * (30 * number), "io.kvtier.cli", "cli")
    result = found(tmp_path)
    assert (result.files, result.lines_max, result.lines_p95, result.lines_median) == (20, 572, 542, 287)
    assert [one.lines for one in result.long_files] == [572, 542, 512]


def test_json_hasWhatTheTableHas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source(tmp_path, "A", "class A { B b; }")
    source(tmp_path, "B", "class B { A a; }")
    monkeypatch.setattr(sys, "argv", ["structure", "--json", "--root", str(tmp_path)])
    structure.main()
    printed = json.loads(capsys.readouterr().out)
    assert printed["index_packages"] == [{"package": INDEX, "classes": 2, "circle": ["A", "B"]}]
    monkeypatch.setattr(sys, "argv", ["structure", "--root", str(tmp_path)])
    structure.main()
    assert "daemon.index" in capsys.readouterr().out


def test_thisCheckout_isRead() -> None:
    result = found(structure.ROOT)
    assert result.files > 500 and result.index_classes > 50
