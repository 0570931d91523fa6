"""Each change of the tier within a conversation is counted once."""

from __future__ import annotations

from fairlead_llm.tier_choice import MAX_TURNS, ChosenTier, TierChanges

CHANGE = ChosenTier("careful", "keywords", b"a turn")


def test_a_turn_is_new_once_for_each_principal_and_tier() -> None:
    changes = TierChanges()
    assert not changes.is_new("ann", ChosenTier("careful", "keywords"))
    assert [changes.is_new("ann", CHANGE) for _ in range(2)] == [True, False]
    assert changes.is_new("bob", CHANGE)
    assert changes.is_new("ann", ChosenTier("quick", "keywords", b"a turn"))


def test_the_turn_that_was_seen_longest_ago_is_forgotten() -> None:
    changes = TierChanges()
    assert changes.is_new("ann", CHANGE)
    for number in range(MAX_TURNS - 1):
        changes.is_new("ann", ChosenTier("careful", "keywords", b"%d" % number))
    assert not changes.is_new("ann", CHANGE), "it is the last one seen now"
    for number in range(MAX_TURNS):
        changes.is_new("bob", ChosenTier("careful", "keywords", b"%d" % number))
    assert changes.is_new("ann", CHANGE)
