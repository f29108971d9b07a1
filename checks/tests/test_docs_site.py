"""The pages of the site: links that hold there, and lists that are complete."""

import re
from pathlib import Path

from checks.documents import site as docs_site
from checks.shared.checkout import ROOT


def relinked(text: str, tmp_path: Path, repository: str = "") -> tuple[str, list[str]]:
    source = tmp_path / "page.md"
    source.write_text(text)
    pages = {source: tmp_path / "site" / "page.md", ROOT / "SECURITY.md": tmp_path / "site" / "SECURITY.md"}
    return docs_site.relinked(source, pages[source], pages, repository)


def test_linkToAPage_leadsToItsPlaceOnTheSite(tmp_path: Path) -> None:
    text, wrong = relinked(f"[s]({ROOT}/SECURITY.md#roles)", tmp_path)
    assert (text, wrong) == ("[s](SECURITY.md#roles)", [])


def test_linkToAFile_leadsToTheRepositoryOrNamesIt(tmp_path: Path) -> None:
    address = f"[the configuration]({ROOT}/config/kvtier.yaml)"
    assert relinked(address, tmp_path)[0] == "the configuration (`config/kvtier.yaml`)"
    assert relinked(address, tmp_path, "https://kv.example")[0].startswith("[the configuration](https://kv.example/blob/v")


def test_linkToTheFolderOfDecisions_leadsToItsList(tmp_path: Path) -> None:
    assert docs_site.address_of_decisions(ROOT / "docs/develop/page.md", tmp_path / "develop/page.md") == "../decisions/index.md"
    assert docs_site.address_of_decisions(ROOT / "CONTRIBUTING.md", tmp_path / "CONTRIBUTING.md") == "decisions/index.md"


def test_linkToNothing_isFound(tmp_path: Path) -> None:
    assert relinked("[x](nothing.md)", tmp_path)[1]


def test_code_isLeftAlone(tmp_path: Path) -> None:
    text = "`[x](nothing.md)`\n\n```\n[x](nothing.md)\n```\n"
    assert relinked(text, tmp_path) == (text, [])


def test_decisions_haveAll() -> None:
    text = docs_site.decisions(ROOT / "docs/decisions")
    assert all(f"({path.name})" in text for path in (ROOT / "docs/decisions").glob("0*.md"))
    assert "| 0022 | | this number was never used |" in text
    assert re.search(r"^\| 0009 \| .* \| superseded in part by 0011, 0043 \|$", text, re.MULTILINE)


def test_pythonApi_hasEveryModuleThatIsNotPrivate() -> None:
    modules = docs_site.python_modules()
    assert {"kvtier", "kvtier.aio", "kvtier.hashing", "kvtier.torch", "kvtier.vllm"} <= set(modules)
    assert not any("._" in module for module in modules)
    assert all(f"::: {module}\n" in docs_site.python_api() for module in modules)
