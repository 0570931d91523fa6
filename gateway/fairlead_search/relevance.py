"""Scores units of results by a question: by its words, by related words, and by the kind of answer that it asks for.

Pure module. BM25 over units, where a word counts fully in the unit itself, and in part in what is said around it or in
the units beside it. Words count in other forms (`measured`, `measuring`) and by synonyms, too; "how long" gives units
with a time some of the score.
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
"""Times of a word in one unit that count."""
ABOUT: Final = 0.5
BESIDE: Final = (0.35, 0.15)
"""Shares of a word in what is said around a unit, and in the units one and two places away."""
BOTH: Final = 0.2
"""Added for a word that is in a unit and around it."""
OTHER_FORM: Final = 0.8
SYNONYM: Final = 0.5
SYNONYMS_FORM: Final = 0.45
KIND: Final = 0.6
FULL: Final = 0.75
"""Weight from which a word counts as found, for how rare it is."""
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
"""Kinds of answers: how a question asks for one, and how it looks."""


def scores(units: Sequence[Unit], question: str) -> list[float]:
    """Score of each unit, 0 where nothing of the question is found; comparable within one answer only."""
    if not units:
        return []
    own = _Postings([_own(unit) for unit in units])
    about = _Postings([unit.about for unit in units])
    totals = [0.0] * len(units)
    for term in _question_terms(question):
        _add(totals, _weights(own.forms(term)), _weights(about.forms(term)), own)
    for question_pattern, answer in _KINDS:
        if question_pattern.search(question):
            hits = [index for index, unit in enumerate(units) if answer.search(unit.text)]
            share = KIND * _rarity(len(units), len(hits))
            for index in hits:
                totals[index] += share
    return totals


class _Postings:
    """Where each word is, in texts by their number."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.places: dict[str, dict[int, int]] = {}
        self.lengths: list[int] = []
        terms_by_stem: dict[str, dict[str, int]] = {}
        self._stems: dict[str, list[str]] = defaultdict(list)
        for number, text in enumerate(texts):
            counts = terms_by_stem.get(text)
            if counts is None:
                counts = terms_by_stem[text] = _counts(text)
            self.lengths.append(sum(counts.values()))
            for term, times in counts.items():
                self.places.setdefault(term, {})[number] = times
        for term in self.places:
            self._stems[stem(term)].append(term)
        self.mean = sum(self.lengths) / len(self.lengths) or 1.0

    def forms(self, term: str) -> list[tuple[float, dict[int, int]]]:
        """Where a word is, its other forms and its synonyms, each with its weight, the highest first."""
        weights = {term: 1.0}
        for other in self._stems.get(stem(term), ()):
            weights.setdefault(other, OTHER_FORM)
        for synonym in synonyms().get(term, ()):
            weights.setdefault(synonym, SYNONYM)
            for other in self._stems.get(stem(synonym), ()):
                weights.setdefault(other, SYNONYMS_FORM)
        postings = [(weight, self.places[form]) for form, weight in weights.items() if form in self.places]
        return sorted(postings, key=lambda pair: -pair[0])


def stem(word: str) -> str:
    """A word without the ending that a regular English form of it has."""
    for ending in _ENDINGS:
        if len(word) - len(ending) >= LEAST_STEM and word.endswith(ending):
            return word[: -len(ending)].removesuffix("e")
    return word


def _own(unit: Unit) -> str:
    return f"{unit.path} {unit.text}" if unit.path else unit.text


def _counts(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for term in terms(text):
        counts[term] = counts.get(term, 0) + 1
    return counts


def _question_terms(question: str) -> list[str]:
    every = dict.fromkeys(terms(question))
    return [term for term in every if term not in QUESTION_WORDS] or [*every]


def _weights(forms: Iterable[tuple[float, Mapping[int, int]]]) -> dict[int, float]:
    """The best weight of a word by place, times included."""
    weights: dict[int, float] = {}
    for weight, places in forms:
        for index, times in places.items():
            weights[index] = max(weights.get(index, 0.0), weight * min(times, MAX_TIMES))
    return weights


def _add(totals: list[float], own: Mapping[int, float], about: Mapping[int, float], postings: _Postings) -> None:
    """Add what one word of the question says of each unit."""
    parts: dict[int, float] = dict(own)
    for index, weight in about.items():
        parts[index] = max(parts.get(index, 0.0), ABOUT * min(weight, 1.0))
    for index, weight in own.items():
        for distance, share in enumerate(BESIDE, 1):
            for other in (index - distance, index + distance):
                if 0 <= other < len(totals) and parts.get(other, 0.0) < share * weight:
                    parts[other] = share * weight
    holders = sum(weight >= FULL for weight in own.values()) or len(own) or len(about)
    rarity = _rarity(len(totals), holders)
    for index, part in parts.items():
        times = part + BOTH * min(part, about.get(index, 0.0), 1.0)
        length = 1 - B + B * postings.lengths[index] / postings.mean
        totals[index] += rarity * times * (K1 + 1) / (times + K1 * length)


def _rarity(count: int, holders: int) -> float:
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))
