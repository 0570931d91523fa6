"""All rules of all APIs. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.request_rules.bedrock import BEDROCK_RULES
from fairlead_formats.request_rules.gemini import GEMINI_RULES
from fairlead_formats.request_rules.messages import MESSAGES_RULES
from fairlead_formats.request_rules.openai import OPENAI_RULES
from fairlead_formats.request_rules.rule import BrokenRule, RequestRule
from fairlead_formats.request_rules.speech import SPEECH_RULES

RULES: Final[Mapping[str, RequestRule]] = {
    rule.name: rule for rule in (*OPENAI_RULES, *MESSAGES_RULES, *GEMINI_RULES, *BEDROCK_RULES, *SPEECH_RULES)
}
"""Rules by name, in the order of their APIs."""


def broken(name: str, /, **values: object) -> BrokenRule:
    """The rule with this name, as a request breaks it. `values`: values for the rule's templates."""
    return BrokenRule.of(RULES[name], **values)
