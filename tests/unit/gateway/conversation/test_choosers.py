"""State that a gateway keeps between two choices of a tier."""

from __future__ import annotations

import msgspec

from fairlead_gateway.conversation.choosers import Choosers
from fairlead_operator.publish.compile import compile_rules


def test_phrases_are_compiled_again_when_tiers_change_and_not_when_policies_do() -> None:
    choosers = Choosers()
    rules = compile_rules([], [], {})
    chooser = choosers.of(rules)
    assert choosers.of(msgspec.convert(msgspec.to_builtins(rules), type(rules))) is chooser
    assert choosers.of(msgspec.structs.replace(rules, tiers=rules.tiers[:1])) is not chooser


def test_without_a_tier_nothing_is_chosen() -> None:
    rules = compile_rules([], [], {})
    assert Choosers().of(msgspec.structs.replace(rules, tiers=())) is None
