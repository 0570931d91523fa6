"""Scores units (small parts of tool results, such as a line) for a question: by words, related words and the kind of
answer.

Pure module. Scores are BM25 over units. A word counts fully if it is in the unit itself, and partly if it is in the
unit's context or in neighbouring units. Other forms of a word (`measured`, `measuring`) and synonyms also match. Some
questions expect a kind of answer: "how long" raises the score of units with a duration.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairlead_search.lexicon import synonyms
from fairlead_search.text import QUESTION_WORDS, terms
from fairlead_search.units import Unit

K1: Final = 1.2
B: Final = 0.3
MAX_TIMES: Final = 3
"""Maximum number of occurrences of a word in one unit that count."""
CONTEXT_WEIGHT: Final = 0.5
"""Weight of a word in the context of a unit."""
NEIGHBOUR_WEIGHTS: Final = (0.35, 0.15)
"""Weights of a word in the units at a distance of one and two."""
BOTH_WEIGHT: Final = 0.2
"""Additional weight of a word that is both in a unit and in the unit's context."""
FORM_WEIGHT: Final = 0.8
"""Weight of another form of a word, such as `measuring` for `measured`."""
SYNONYM_WEIGHT: Final = 0.5
SYNONYM_FORM_WEIGHT: Final = 0.45
"""Weight of another form of a synonym."""
KIND_WEIGHT: Final = 0.6
"""Weight of a unit that has the kind of answer that the question expects, before its rarity is considered."""
FULL_WEIGHT: Final = 0.75
"""Minimum weight of a word in a unit for which the unit counts as containing the word. The number of such units decides
how rare the word is."""
LEAST_STEM: Final = 4
_ENDINGS: Final = (
    "ations",
    "ation",
    "ances",
    "ence",
    "ance",
    "ments",
    "ment",
    "able",
    "ible",
    "ings",
    "ions",
    "edly",
    "ing",
    "ers",
    "ors",
    "ion",
    "ed",
    "er",
    "or",
    "ly",
    "es",
    "e",
    "s",
)
_KINDS: Final = tuple(
    (re.compile(question, re.IGNORECASE), re.compile(answer))
    for question, answer in (
        (
            r"how (large|big|heavy|small)|size|footprint|weight|\bram\b|memory|capacity|bytes",
            r"\d ?([kKMG]i?B|[KMG]i|bytes)\b|<< ?[123]0|\b\d{4,}\b|bytes",
        ),
        (
            r"how (long|fast|slow|soon|costly|often|quick|seldom)|deadline|duration",
            r"\d ?(ms|s|m|h|min|seconds?|minutes?|hours?|days?)\b|_seconds|SECONDS|_MS\b|once (a|an|in)",
        ),
        (r"\bwhen\b|\bdate\b", r"\d{4}-\d\d-\d\d"),
        (r"share of|what part|percent|ratio", r"\d ?%"),
        (r"how many|number of|which number", r"\b\d"),
        (r"address|\burl\b|where .*reach", r"://"),
        (r"\bmail\b|whom", r"\S@\S"),
        (r"which status", r"\b[45]\d\d\b"),
        (r"which file|which module|where is", r"\w\.\w{2,4}\b"),
    )
)
"""Kinds of answers, each as two patterns: for questions that expect the kind, and for units that contain it."""


def scores(units: Sequence[Unit], question: str) -> list[float]:
    """Score of each unit for a question; 0 if nothing in the unit matches. Scores of different searches cannot be
    compared."""
    if not units:
        return []
    contents = _Postings([_content(unit) for unit in units])
    contexts = _Postings([unit.context for unit in units])
    totals = [0.0] * len(units)
    for term in _question_terms(question):
        _add_word(totals, _weights(contents.forms(term)), _weights(contexts.forms(term)), contents)
    for question_pattern, answer in _KINDS:
        if question_pattern.search(question):
            hits = [index for index, unit in enumerate(units) if answer.search(unit.text)]
            share = KIND_WEIGHT * _rarity(len(units), len(hits))
            for index in hits:
                totals[index] += share
    return totals


class _Postings:
    """Occurrences of words in texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.postings: dict[str, dict[int, int]] = {}
        """Number of occurrences: by word, then by index of the text."""
        self.lengths: list[int] = []
        terms_by_stem: dict[str, dict[str, int]] = {}
        self._stems: dict[str, list[str]] = defaultdict(list)
        for number, text in enumerate(texts):
            counts = terms_by_stem.get(text)
            if counts is None:
                counts = terms_by_stem[text] = _counts(text)
            self.lengths.append(sum(counts.values()))
            for term, times in counts.items():
                self.postings.setdefault(term, {})[number] = times
        for term in self.postings:
            self._stems[stem(term)].append(term)
        self.mean = sum(self.lengths) / len(self.lengths) or 1.0

    def forms(self, term: str) -> list[tuple[float, dict[int, int]]]:
        """Occurrences of a word, of its other forms and of its synonyms, each with a weight, highest weight first."""
        weights = {term: 1.0}
        for other in self._stems.get(stem(term), ()):
            weights.setdefault(other, FORM_WEIGHT)
        for synonym in synonyms().get(term, ()):
            weights.setdefault(synonym, SYNONYM_WEIGHT)
            for other in self._stems.get(stem(synonym), ()):
                weights.setdefault(other, SYNONYM_FORM_WEIGHT)
        postings = [(weight, self.postings[form]) for form, weight in weights.items() if form in self.postings]
        return sorted(postings, key=lambda pair: -pair[0])


def stem(word: str) -> str:
    """Remove the ending of a regular English form of a word."""
    for ending in _ENDINGS:
        if len(word) - len(ending) >= LEAST_STEM and word.endswith(ending):
            return word[: -len(ending)].removesuffix("e")
    return word


def _content(unit: Unit) -> str:
    return f"{unit.path} {unit.text}" if unit.path else unit.text


def _counts(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for term in terms(text):
        counts[term] = counts.get(term, 0) + 1
    return counts


def _question_terms(question: str) -> list[str]:
    unique = dict.fromkeys(terms(question))
    return [term for term in unique if term not in QUESTION_WORDS] or [*unique]


def _weights(forms: Iterable[tuple[float, Mapping[int, int]]]) -> dict[int, float]:
    """Weight of a word in each text: the best weight of a form of the word in the text, multiplied by the number of its
    occurrences."""
    weights: dict[int, float] = {}
    for weight, postings in forms:
        for index, times in postings.items():
            weights[index] = max(weights.get(index, 0.0), weight * min(times, MAX_TIMES))
    return weights


def _add_word(
    totals: list[float], contents: Mapping[int, float], contexts: Mapping[int, float], postings: _Postings
) -> None:
    """Add the score of one word of the question to each unit's total, from the word's weights in contents and
    contexts.
    """
    weights: dict[int, float] = dict(contents)
    for index, weight in contexts.items():
        weights[index] = max(weights.get(index, 0.0), CONTEXT_WEIGHT * min(weight, 1.0))
    for index, weight in contents.items():
        for distance, share in enumerate(NEIGHBOUR_WEIGHTS, 1):
            for other in (index - distance, index + distance):
                if 0 <= other < len(totals) and weights.get(other, 0.0) < share * weight:
                    weights[other] = share * weight
    unit_count = sum(weight >= FULL_WEIGHT for weight in contents.values()) or len(contents) or len(contexts)
    rarity = _rarity(len(totals), unit_count)
    for index, part in weights.items():
        times = part + BOTH_WEIGHT * min(part, contexts.get(index, 0.0), 1.0)
        length = 1 - B + B * postings.lengths[index] / postings.mean
        totals[index] += rarity * times * (K1 + 1) / (times + K1 * length)


def _rarity(count: int, holders: int) -> float:
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))
