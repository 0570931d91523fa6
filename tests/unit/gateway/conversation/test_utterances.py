"""How often the shipped phrases choose the tier that a person chose. `-s` prints the accuracy per tier.

All but the unseen ones are by the author of the phrases, so what is held out is no sample of the world. The unseen ones
show where phrases end.
"""

from __future__ import annotations

import pytest

from fairlead_gateway.conversation.choose import Chooser
from fairlead_operator.publish.compile import compile_rules
from utterances import Utterance, accuracy, chosen, utterances

CHOOSER = Chooser(compile_rules([], [], {}).tiers)
ORDER = ("fast", "standard", "deep")


@pytest.mark.parametrize(
    ("kind", "least", "least_per_tier"),
    [
        ("looked at", 0.96, 0.94),
        ("held out", 0.94, 0.90),
        ("hard", 0.75, 0.6),
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


def test_there_are_enough_utterances_to_speak_of_accuracy() -> None:
    said = [each for each in utterances() if each.kind in ("looked at", "held out")]
    assert len(said) >= 200
    assert sum(len(each.heard) > 1 for each in said) >= 20
    assert len({each.heard[-1] for each in said}) == len(said)


@pytest.mark.parametrize("utterance", [each for each in utterances() if len(each.heard) > 1])
def test_a_growing_utterance_never_falls_back(utterance: Utterance) -> None:
    tiers = [ORDER.index(tier) for tier in chosen(CHOOSER, utterance)]
    assert tiers == sorted(tiers)
