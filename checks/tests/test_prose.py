"""Sentences and phrases: what is found, and what is left alone."""

from pathlib import Path

from checks.documents import prose
from checks.documents.passages import passages, plain
from checks.shared.checkout import ROOT


def problems(text: str, **avoided: str) -> list[str]:
    return [problem.text for problem in prose.problems_of("page.md", text, {key.replace("_", " "): value for key, value in avoided.items()})]


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_sentence_of40Words_isRight() -> None:
    assert problems(f"{words(40)}.") == []


def test_sentence_of41Words_isTooLong() -> None:
    assert "a sentence of 41 words" in problems(f"{words(41)}.")[0]


def test_twoSentences_areCountedApart() -> None:
    assert problems(f"Word {words(29)}. Word {words(29)}. `code` {words(29)}.") == []


def test_sentence_overSeveralLines_isOne() -> None:
    assert len(problems(f"{words(21)}\n{words(20)}.")) == 1


def test_sentence_withSemicolonsAndColons_isOne() -> None:
    assert len(problems(f"{words(20)}; {words(20)}: {words(20)}.")) == 1


def test_listItemsTableCellsAndHeadings_areCountedApart() -> None:
    items = "".join(f"- {words(30)}\n" for _ in range(3))
    cells = f"| {words(30)} | {words(30)} |\n| --- | --- |\n| {words(30)} | {words(30)} |\n"
    assert problems(f"# {words(30)}\n{words(30)}\n\n{items}\n{cells}") == []


def test_codeAndComments_areNoProse() -> None:
    assert problems(f"```\n{words(50)}\n```\n\n<!-- {words(50)} -->\n\n<!--\n{words(50)}\n-->\n") == []


def test_spanOfCode_isOneWord() -> None:
    assert problems(f"{words(39)} `{words(20)}`.") == []


def test_link_isItsTextAlone() -> None:
    assert plain("see [the page](a/b.md#c-d) and ![a picture](p.png)") == "see the page and a picture"


def test_abbreviation_endsNoSentence() -> None:
    assert prose.sentences("An SSD, e.g. One of them. Another") == ["An SSD, e.g. One of them.", "Another"]


def test_phrase_isFoundInAnyCase_butNotWithinAWordOrInCode() -> None:
    assert problems("As far as it goes.", as_far_as="the condition") == ["the phrase 'as far as'; write the condition"]
    assert problems("Whereas far asleep, `as far as`.", as_far_as="the condition") == []


def test_passage_hasTheLineWhereItBegins() -> None:
    assert [(one.line, one.text) for one in passages("# Title\n\nOne\ntwo\n\n- three\n  four\n")] == [(1, "Title"), (3, "One two"), (6, "three four")]


def test_everyDocument_isHeldToTheRules(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "good.md").write_text("Short.\n")
    (tmp_path / "docs" / "bad.md").write_text(f"{words(50)}.\n")
    assert [problem.file for problem in prose.check(tmp_path, {})] == ["docs/bad.md"]


def test_phrases_allSayWhatToWrite() -> None:
    assert all(prose.phrases().values()) and ROOT.exists()
