"""Sentences that are too long, and phrases that we do not use."""

import re
from pathlib import Path

from checks.documents.passages import documents, passages, plain
from checks.documents.problem import Problem

WORDS_MAX = 40
HERE = Path(__file__).resolve().parent
PHRASES = HERE / "phrases.txt"

END = re.compile(r"(?<=[.!?])[\")’”]*\s+(?=[\"“(‘']?[A-Z0-9])")
# Abbreviations: their full stop ends no sentence.
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|No|approx|resp|Fig|St|Dr)\.$")


def sentences(text: str) -> list[str]:
    """The sentences of a passage."""
    found: list[str] = []
    for part in END.split(text):
        if found and ABBREVIATION.search(found[-1]):
            found[-1] += " " + part
        else:
            found.append(part)
    return found


def words(sentence: str) -> int:
    """The number of words. A word has a letter or a digit."""
    return sum(1 for word in sentence.split() if any(letter.isalnum() for letter in word))


def phrases(file: Path = PHRASES) -> dict[str, str]:
    """Phrases to avoid, each with its replacement."""
    listed = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            phrase, _, better = line.partition("=>")
            listed[phrase.strip()] = better.strip()
    return listed


def problems_of(name: str, text: str, avoided: dict[str, str]) -> list[Problem]:
    """The problems in the prose of one document, a line each."""
    found = []
    for passage in passages(text):
        spoken = plain(passage.text)
        for sentence in sentences(spoken):
            count = words(sentence)
            if count > WORDS_MAX:
                start = " ".join(sentence.split()[:8])
                found.append(Problem(name, passage.line, f"a sentence of {count} words, and {WORDS_MAX} are the most: '{start} …'; split it"))
        for phrase, better in avoided.items():
            if re.search(rf"(?<![\w-]){re.escape(phrase)}(?![\w-])", spoken, re.IGNORECASE):
                found.append(Problem(name, passage.line, f"the phrase '{phrase}'; write {better}"))
    return found


def check(root: Path, avoided: dict[str, str]) -> list[Problem]:
    """Sentences and phrases in the documents that break the rules."""
    found = []
    for path in documents(root):
        found += problems_of(str(path.relative_to(root)), path.read_text(encoding="utf-8"), avoided)
    return found
