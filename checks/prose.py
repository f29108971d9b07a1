"""Sentences that are too long, and phrases that we do not use.

Documents that were written before the rules are in not-rewritten.txt. The list can only shrink: a document on it that
keeps the rules must be taken off, and a new document never comes on it.
"""

import re
from pathlib import Path

from checks.documents import documents, passages, plain
from checks.problem import Problem

WORDS_MAX = 40
HERE = Path(__file__).resolve().parent
NOT_REWRITTEN = HERE / "not-rewritten.txt"
PHRASES = HERE / "phrases.txt"

END = re.compile(r"(?<=[.!?])[\")’”]*\s+(?=[\"“(‘']?[A-Z0-9])")
# What ends in a full stop and ends no sentence.
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
    """How many words; what has neither letter nor digit is none."""
    return sum(1 for word in sentence.split() if any(letter.isalnum() for letter in word))


def phrases(file: Path = PHRASES) -> dict[str, str]:
    """What not to write, and what to write instead."""
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


def not_rewritten(file: Path = NOT_REWRITTEN) -> list[str]:
    """The documents that need not keep the rules yet."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def check(root: Path, listed: list[str], avoided: dict[str, str]) -> list[Problem]:
    """Every document that is not listed keeps the rules, and every one that is listed does not."""
    found = []
    seen = set()
    for path in documents(root):
        name = str(path.relative_to(root))
        seen.add(name)
        wrong = problems_of(name, path.read_text(encoding="utf-8"), avoided)
        if name not in listed:
            found += wrong
        elif not wrong:
            found.append(Problem(name, 1, "keeps the rules now: take it off checks/not-rewritten.txt"))
    found += [Problem("checks/not-rewritten.txt", 1, f"{name} is no document: take it off the list") for name in sorted(set(listed) - seen)]
    return found
