"""How often the shipped phrases choose the tier that a person chose. `-s` prints the accuracy per tier.

All but the unseen ones are by the author of the phrases, so what is held out is no sample of the world. The unseen ones
show where phrases end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest

from fairlead_gateway.conversation.choose import Chooser
from fairlead_gateway.conversation.phrases import normal
from fairlead_gateway.conversation.turn import ConversationState, Turn
from fairlead_operator.publish.compile import compile_rules
from fairlead_operator.publish.words.everyday import EVERYDAY
from fairlead_operator.publish.words.past import PAST
from fairlead_operator.publish.words.places import PLACES
from fairlead_operator.publish.words.requests import LOOKUPS, THOROUGH
from fairlead_operator.publish.words.rules import RULES

FOLDER = Path(__file__).resolve().parents[3] / "golden/conversation"
EVERY = 3
"""One of that many is held out."""
SETS = ("looked at", "held out", "hard", "ordinary", "ordinary, aside", "unseen")
"""Sets of utterances: those that phrases were tuned by, and those kept aside meanwhile; those written afterwards to
defeat them, by which they have been tuned since; those that somebody else wrote, half of it tuned by and half kept
aside; and those of a third person who knew none of it, by which they are never tuned."""


@dataclass(frozen=True)
class Utterance:
    """Words of a conversation, as far as they were known at each moment, and the tier that fits it by then."""

    heard: tuple[str, ...]
    tiers: tuple[str, ...]
    kind: str
    """One of SETS."""


def utterances() -> list[Utterance]:
    """All of them, in the order of the files."""
    known = [_utterance(line, SETS[place % EVERY == EVERY - 1]) for place, line in enumerate(_lines("utterances.txt"))]
    others = {"ordinary": "ordinary.txt", "ordinary, aside": "ordinary-aside.txt", "unseen": "unseen.txt"}
    return known + [_utterance(line, kind) for kind, name in others.items() for line in _lines(name)]


def sentences(name: str = "classes.txt") -> dict[str, list[str]]:
    """Sentences per class: `past`, `place` and `rule`, which ask for a look-up, and `ordinary`, which ask for none."""
    found: dict[str, list[str]] = {}
    for line in _lines(name):
        kind, _, text = line.partition("\t")
        found.setdefault(kind, []).append(text)
    return found


def raised(chooser: Chooser, text: str) -> bool:
    """Whether a sentence in the middle of a conversation gets another tier than the fastest."""
    return chooser.choose(Turn(text=text, number=7), ConversationState(), 1000.0)[0].tier != chooser.tiers[0].name


def _lines(name: str) -> list[str]:
    return [line for line in (FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]


def _utterance(line: str, kind: str) -> Utterance:
    if line.startswith("hard\t"):
        kind = "hard"
        line = line.removeprefix("hard\t")
    labels, _, text = line.partition("\t")
    parts = text.split(" | ")
    tiers = tuple(labels.split(" > "))
    assert len(tiers) == len(parts), line
    return Utterance(tuple(accumulate(parts, lambda before, part: f"{before} {part}")), tiers, kind)


def chosen(chooser: Chooser, utterance: Utterance) -> list[str]:
    """The tier after each part, in the middle of a conversation in which nothing was asked for before."""
    state = ConversationState()
    tiers = []
    for text in utterance.heard:
        turn = Turn(text=text, final=text is utterance.heard[-1], number=7)
        choice, state = chooser.choose(turn, state, 1000.0)
        tiers.append(choice.tier)
    return tiers


@dataclass(frozen=True)
class Accuracy:
    """Right choices of all, per tier that was right."""

    right: Counter[str]
    all: Counter[str]

    def share(self, tier: str | None = None) -> float:
        """Share of one tier, or of all."""
        return self.right[tier] / self.all[tier] if tier else self.right.total() / self.all.total()

    def __str__(self) -> str:
        return ", ".join(f"{tier} {self.right[tier]}/{count}" for tier, count in sorted(self.all.items()))


def accuracy(chooser: Chooser, kind: str) -> Accuracy:
    """Over every part of every utterance of one of the sets."""
    right = Counter[str]()
    every = Counter[str]()
    for utterance in utterances():
        if utterance.kind == kind:
            every.update(utterance.tiers)
            got = chosen(chooser, utterance)
            right.update(tier for tier, found in zip(utterance.tiers, got, strict=True) if tier == found)
    return Accuracy(right, every)


CHOOSER = Chooser(compile_rules([], [], {}).tiers)
ORDER = ("fast", "standard", "deep")


@pytest.mark.parametrize(
    ("kind", "least", "least_per_tier"),
    [
        ("looked at", 0.84, 0.7),
        ("held out", 0.85, 0.7),
        ("hard", 0.7, 0.55),
        ("ordinary", 0.96, 0.94),
        ("ordinary, aside", 0.88, 0.8),
        ("unseen", 0.65, 0.4),
    ],
)
def test_the_shipped_phrases_choose_as_a_person_does(kind: str, least: float, least_per_tier: float) -> None:
    found = accuracy(CHOOSER, kind)
    print(f"\n{kind}: {found.share():.1%} right; {found}")  # noqa: T201  # what the test is run for with -s
    assert found.share() >= least
    assert min(found.share(tier) for tier in ORDER) >= least_per_tier


@pytest.mark.parametrize("kind", ["past", "place", "rule"])
def test_past_events_distant_locations_and_specific_rules_ask_for_a_look_up(kind: str) -> None:
    said = sentences()[kind]
    share = sum(raised(CHOOSER, text) for text in said) / len(said)
    print(f"\n{kind}: {share:.1%} of {len(said)} raised")  # noqa: T201  # what the test is run for with -s
    assert len(said) >= 40
    assert share >= 0.95


def test_ordinary_sentences_stay_in_the_fastest_tier() -> None:
    said = sentences()["ordinary"]
    share = sum(raised(CHOOSER, text) for text in said) / len(said)
    print(f"\nordinary: {share:.1%} of {len(said)} raised")  # noqa: T201  # what the test is run for with -s
    assert len(said) >= 120
    assert share <= 0.03


def test_sentences_that_the_words_were_never_tuned_by_are_told_apart_as_well() -> None:
    said = sentences("classes-unseen.txt")
    share = {kind: sum(raised(CHOOSER, text) for text in texts) / len(texts) for kind, texts in said.items()}
    assert {kind: len(texts) for kind, texts in said.items()} == {"past": 20, "place": 20, "rule": 20, "ordinary": 60}
    assert min(share["past"], share["place"], share["rule"]) >= 0.8
    assert share["ordinary"] <= 0.1


def test_a_phrase_is_in_one_list_of_the_shipped_words_only() -> None:
    phrases = [normal(phrase) for words in (EVERYDAY, PAST, PLACES, RULES, LOOKUPS, THOROUGH) for phrase in words]
    assert [phrase for phrase, times in Counter(phrases).items() if times > 1] == []


def test_there_are_enough_utterances_to_speak_of_accuracy() -> None:
    said = [each for each in utterances() if each.kind in ("looked at", "held out")]
    assert len(said) >= 200
    assert sum(len(each.heard) > 1 for each in said) >= 20
    assert len({each.heard[-1] for each in said}) == len(said)


@pytest.mark.parametrize("utterance", [each for each in utterances() if len(each.heard) > 1])
def test_a_growing_utterance_never_falls_back(utterance: Utterance) -> None:
    tiers = [ORDER.index(tier) for tier in chosen(CHOOSER, utterance)]
    assert tiers == sorted(tiers)
