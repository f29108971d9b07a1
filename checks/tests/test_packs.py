"""The files that the packs for GPU machines take from a checkout."""

import re
import zipfile
from pathlib import Path

import pytest

from checks.engines import pack as engines_pack
from checks.gpu import pack
from checks.shared.checkout import ROOT


def jar(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in names:
            made.writestr(name, "x" * 1000 + name)
    return path


def test_someOf_takesWhatBeginsSo(tmp_path: Path) -> None:
    whole = jar(tmp_path / "whole.jar", "org/", "org/One.class", "organic", "lib/a.so", "lib/b.so")
    pack.some_of(whole, tmp_path / "part.jar", ["org/", "lib/a.so"])
    with zipfile.ZipFile(tmp_path / "part.jar") as part:
        assert part.namelist() == ["org/One.class", "lib/a.so"]
        assert part.read("lib/a.so") == b"x" * 1000 + b"lib/a.so"


def test_someOf_nothing_isTold(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"whole\.jar has nothing that begins with com/"):
        pack.some_of(jar(tmp_path / "whole.jar", "org/One.class"), tmp_path / "part.jar", ["com/"])


def test_jars_nameThatChanged_isTold(tmp_path: Path) -> None:
    jar(tmp_path / "one-1.0.jar", "a")
    assert pack.jars(tmp_path, "one") == [tmp_path / "one-1.0.jar"]
    with pytest.raises(SystemExit, match=r"has no two\*\.jar"):
        pack.jars(tmp_path, "two")


def test_store_keepsEveryEntry_withoutCompression(tmp_path: Path) -> None:
    path = jar(tmp_path / "one.jar", "a", "b")
    engines_pack.store(path)
    with zipfile.ZipFile(path) as stored:
        assert {entry.compress_type for entry in stored.infolist()} == {zipfile.ZIP_STORED}
        assert {name: stored.read(name) for name in stored.namelist()} == {name: b"x" * 1000 + name.encode() for name in ("a", "b")}


@pytest.mark.parametrize("part", ["gpu", "engines"])
def test_copyChecks_importsOnlyWhatIsPacked(part: str, tmp_path: Path) -> None:
    pack.copy_checks(tmp_path, [part])
    packed = {path.name for path in (tmp_path / "checks").iterdir()}
    assert packed == {"__init__.py", "shared", part}
    # The packers themselves run in a checkout.
    needed = {
        (path.relative_to(tmp_path), name)
        for path in (tmp_path / "checks").rglob("*.py")
        if path.name != "pack.py"
        for name in re.findall(r"^\s*(?:from|import) checks(?:\.| import )(\w+)", path.read_text(), re.MULTILINE)
    }
    assert needed
    assert {(path, name) for path, name in needed if name not in packed} == set()


@pytest.mark.parametrize(("more", "missing"), [([], r"unpack\.sh and no ttft\.py:"), (["--of", "sglang"], r"unpack\.sh:")])
def test_engineThatIsNone_isRefused(more: list[str], missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gpu-pack", str(tmp_path / "to"), str(ROOT / "docs"), *more])
    with pytest.raises(SystemExit, match=rf"docs has no {missing}"):
        engines_pack.main()
    assert not (tmp_path / "to").exists()
