"""Table of the requests that the APIs of all families reject. Pure module.

A new family is one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.providers.anthropic.request_rules import MESSAGES_RULES
from fairlead_formats.providers.bedrock.request_rules import CONVERSE_RULES
from fairlead_formats.providers.gemini.live_rules import LIVE_RULES
from fairlead_formats.providers.gemini.request_rules import GEMINI_RULES
from fairlead_formats.providers.openai_chat.request_rules import CHAT_RULES
from fairlead_formats.providers.openai_responses.realtime_rules import REALTIME_RULES
from fairlead_formats.providers.openai_responses.request_rules import RESPONSES_RULES
from fairlead_formats.request_rules.rule import RequestRule

_APIS: Final = (CHAT_RULES, RESPONSES_RULES, MESSAGES_RULES, GEMINI_RULES, CONVERSE_RULES, REALTIME_RULES, LIVE_RULES)
RULES: Final[Mapping[str, RequestRule]] = {name: rule for api in _APIS for name, rule in api.by_name.items()}
"""Rules by name, in the order of their APIs."""
