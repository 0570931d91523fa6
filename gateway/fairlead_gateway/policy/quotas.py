"""Cuts a tool list to the limits of a namespace's quota. Pure module.

Pinned tools are selected first, the others in the order of their names; tools for a model's context window are selected
in the same order. Tokens are estimated from bytes, so that all replicas cut the same tools whether or not they have a
tokenizer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.counting import BytesCounter
from fairlead_formats.tokens.fit import Candidate
from fairlead_formats.tokens.models import MAX_WINDOW, ContextWindow
from fairlead_formats.tokens.outcome import MAX_TOOLS, Plan
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import PlanLimits, RouteModel
from fairlead_formats.tokens.sizes import Sizes
from fairlead_gateway.core.quota import Quota

SLICE: Final = 64
"""Number of definitions whose tokens are estimated per slice."""
_ANY: Final = RouteModel("any", ContextWindow(MAX_WINDOW, source="none"))
"""Stands for the unknown model of a client. Its context window never limits the list."""
_NO_CONVERSATION: Final = ConversationTokens(0, 0)


class ListLimit(NamedTuple):
    """Limit on lists that cuts a tool."""

    reason: str
    """Reason such as `over_limit maxTools=40 policy=default/all`."""
    policy: str
    """The policy that sets the limit, as `namespace/name`."""


class Cutter:
    """Cuts lists, with a cache of the tokens of definitions. Each `Selection` passes its cutter on to the next
    selection, because most definitions stay the same.
    """

    def __init__(self) -> None:
        self._sizes = Sizes(BytesCounter())

    def cut_in_slices(
        self, tools: Sequence[tuple[str, bytes, bool]], quota: Quota
    ) -> Generator[None, None, dict[str, ListLimit]]:
        """Select the tools to cut. Returns the limits by name. `tools`: name, definition, and whether the tool is
        pinned, in order.
        """
        if quota.tool_tokens is None and quota.max_tools is not None and len(tools) <= quota.max_tools:
            return {}
        candidates = []
        for number, (name, definition, pinned) in enumerate(tools, 1):
            tokens = 1 if quota.tool_tokens is None else self._sizes.of(definition).tokens
            candidates.append(Candidate(name, tokens, pinned=pinned))
            if number % SLICE == 0:
                yield
        limits = PlanLimits(quota.max_tools, quota.tool_tokens, reserved_output=0)
        outcome = plan([_ANY], candidates, _NO_CONVERSATION, limits, BytesCounter.name)
        yield
        if isinstance(outcome, Plan):
            return {cut.name: _limit(quota, by_count=cut.reason == MAX_TOOLS) for cut in outcome.cut}
        names = {name for name, _, pinned in tools if pinned}
        return {name: _limit(quota, by_count=quota.max_tools == 0) for name, _, _ in tools if name not in names}


def _limit(quota: Quota, *, by_count: bool) -> ListLimit:
    limit = f"maxTools={quota.max_tools}" if by_count else f"toolTokens={quota.tool_tokens}"
    policy = quota.policies["max_tools" if by_count else "tool_tokens"]
    return ListLimit(f"over_limit {limit} policy={policy}", policy)
