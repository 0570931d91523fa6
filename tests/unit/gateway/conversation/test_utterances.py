"""How often the shipped phrases choose the tier that a person chose. `-s` prints the accuracy per tier.

The author of the phrases also wrote all utterances but the `unseen` ones, so the held-out ones are not a sample of real
use. The unseen utterances show the limits of the phrases.
"""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead_gateway.conversation.choose import Chooser
from fairlead_gateway.conversation.phrases import normalize
from fairlead_gateway.conversation.shipped_words import phrases, shipped_words
from fairlead_operator.publish.compile import compile_rules
from utterances import Utterance, accuracy, choose_tiers, is_raised, sentences, utterances

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
    measured = accuracy(CHOOSER, kind)
    print(f"\n{kind}: {measured.share():.1%} right; {measured}")  # noqa: T201  # what the test is run for with -s
    assert measured.share() >= least
    assert min(measured.share(tier) for tier in ORDER) >= least_per_tier


@pytest.mark.parametrize("kind", ["past", "place", "rule"])
def test_past_events_distant_locations_and_specific_rules_ask_for_a_look_up(kind: str) -> None:
    texts = sentences()[kind]
    share = sum(is_raised(CHOOSER, text) for text in texts) / len(texts)
    print(f"\n{kind}: {share:.1%} of {len(texts)} raised")  # noqa: T201  # what the test is run for with -s
    assert len(texts) >= 40
    assert share >= 0.95


def test_ordinary_sentences_stay_in_the_fastest_tier() -> None:
    texts = sentences()["ordinary"]
    share = sum(is_raised(CHOOSER, text) for text in texts) / len(texts)
    print(f"\nordinary: {share:.1%} of {len(texts)} raised")  # noqa: T201  # what the test is run for with -s
    assert len(texts) >= 120
    assert share <= 0.03


def test_sentences_that_the_words_were_never_tuned_by_are_told_apart_as_well() -> None:
    texts_by_kind = sentences("classes-unseen.txt")
    share = {
        kind: sum(is_raised(CHOOSER, text) for text in texts) / len(texts) for kind, texts in texts_by_kind.items()
    }
    assert {kind: len(texts) for kind, texts in texts_by_kind.items()} == {
        "past": 20,
        "place": 20,
        "rule": 20,
        "ordinary": 60,
    }
    assert min(share["past"], share["place"], share["rule"]) >= 0.8
    assert share["ordinary"] <= 0.1


def test_a_phrase_is_in_one_list_of_the_shipped_words_only() -> None:
    lists = [listed for words in shipped_words().values() for listed in (*words.keywords.values(), words.commands)]
    every = [normalize(phrase) for listed in lists for phrase in phrases(listed)]
    assert len(every) > 5000
    assert [phrase for phrase, times in Counter(every).items() if times > 1] == []


def test_utterances_are_enough_to_speak_of_accuracy() -> None:
    spoken = [each for each in utterances() if each.kind in ("looked at", "held out")]
    assert len(spoken) >= 200
    assert sum(len(each.heard) > 1 for each in spoken) >= 20
    assert len({each.heard[-1] for each in spoken}) == len(spoken)


@pytest.mark.parametrize("utterance", [each for each in utterances() if len(each.heard) > 1])
def test_a_growing_utterance_never_falls_back(utterance: Utterance) -> None:
    tiers = [ORDER.index(tier) for tier in choose_tiers(CHOOSER, utterance)]
    assert tiers == sorted(tiers)
