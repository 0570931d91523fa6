"""Extended thinking of Claude, in the form that Anthropic's API and Bedrock share. Pure module.

Source: Anthropic, "Extended thinking" and "Adaptive thinking".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.neutral.conversation import NeutralRequest, ResultPart, ToolChoice, budget_of, effort_of
from fairlead_formats.wire.protocol import TranslationLosses

MIN_BUDGET: Final = 1024
"""Minimum token budget for thinking that the API accepts."""
ADAPTIVE: Final[Mapping[str, str]] = {"type": "adaptive"}
_MODELS_WITHOUT_THINKING: Final = re.compile(r"claude-(?:instant|2|3-(?:opus|sonnet|haiku|5))")
_ADAPTIVE_MODELS: Final = re.compile(r"claude-[a-z]+-(?:4-[6-9]|[5-9]|\d\d)(?!\d)")


def claude_thinking(
    request: NeutralRequest, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any] | None:
    """The request member `thinking`; None if the request asks for no thinking or the API would refuse it.

    The API refuses thinking together with a forced tool choice. In a request that ends with results, the API requires
    the thinking that led to the calls, which the neutral form does not keep.
    """
    budget = budget_of(request.settings)
    if not budget:
        return None
    is_forced = choice is not None and choice.mode == "required"
    ends_with_results = bool(request.turns) and any(isinstance(part, ResultPart) for part in request.turns[-1].parts)
    max_tokens = request.settings.max_tokens
    allowed_budget = budget if max_tokens is None else min(budget, max_tokens // 2)
    if is_forced or ends_with_results or allowed_budget < MIN_BUDGET:
        losses.add("reasoning")
        return None
    return {"type": "enabled", "budget_tokens": allowed_budget}


def never_thinks(model: str) -> bool:
    """Whether a Claude model has no thinking and therefore refuses the member `thinking`."""
    return _MODELS_WITHOUT_THINKING.search(model) is not None


def thinks_adaptively(model: str) -> bool:
    """Whether a Claude model takes an effort, such as `high`, in place of a token budget."""
    return _ADAPTIVE_MODELS.search(model) is not None


def adaptive_effort(thinking: Mapping[str, Any]) -> str:
    """The effort that corresponds to the token budget in a `thinking` member."""
    effort = effort_of(thinking["budget_tokens"])
    return {"minimal": "low", "xhigh": "high"}.get(effort, effort)
