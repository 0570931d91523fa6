"""Advice if no model of a route has room for the tools: what is missing, and changes that would help. Pure module.

Each change alone makes a plan possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_formats.tokens.fit import Candidate, CandidateSet, Fit, cost
from fairlead_formats.tokens.outcome import PlanRefused


def refuse(fits: list[Fit], pool: CandidateSet, counter: str) -> PlanRefused:
    """The refusal of a plan, with advice for the model that has the most room."""
    if not fits:
        return PlanRefused("the route names no model", (), None, ("at least one model",))
    best = max(fits, key=lambda fit: fit.room)
    required_tools = pool.pinned or sorted(pool.tools, key=lambda tool: cost(tool, pool.short))[:1]
    needed = best.tokens(pool.tokens(required_tools))
    considered = tuple(fit.skipped_model(pool) for fit in fits)
    if needed > best.room:
        reason, hints = _room_advice(best, pool, required_tools, needed)
    else:
        reason, hints = _limit_advice(best, pool, needed)
    return PlanRefused(reason, considered, best.numbers(pool.tokens(required_tools), counter), tuple(hints))


def _room_advice(best: Fit, pool: CandidateSet, required_tools: list[Candidate], needed: int) -> tuple[str, list[str]]:
    """Reason and advice if the context window has no room for the tools that must fit (`required_tools`)."""
    if best.room < 0:
        what = "the conversation does"
    else:
        what = "the pinned tools do" if pool.pinned else "the smallest tool does"
    lacking = needed - best.room
    hints = [f"a model that takes {best.input + lacking} tokens of input", *_advise_shorter_input(best, lacking)]
    hints += _advise_smaller_reserve(best, needed)
    if pool.pinned:
        hints += _advise_fewer_pins(best, pool)
    if not pool.short and best.tokens(_shortened_tokens(pool)) <= best.room:
        hints.append("shortened descriptions")
    also = _advise_higher_limits(best, pool, needed)
    hints = [" and ".join([hint, *also]) for hint in hints]
    return f"{what} not fit: {best.model.name}, the model with the most room, lacks {lacking} tokens", hints


def _shortened_tokens(pool: CandidateSet) -> int:
    """Tokens of the tools that have to fit, with shortened descriptions."""
    if pool.pinned:
        return sum(cost(tool, True) for tool in pool.pinned)
    return min((cost(tool, True) for tool in pool.tools), default=0)


def _advise_shorter_input(best: Fit, lacking: int) -> Iterator[str]:
    """Advice to shorten messages or system prompt; empty if even both together are shorter than what is missing."""
    if best.messages >= lacking:
        yield f"messages shorter by {lacking} tokens"
    elif best.messages + best.system >= lacking:
        yield f"messages and system prompt shorter by {lacking} tokens together"


def _advise_smaller_reserve(best: Fit, needed: int) -> Iterator[str]:
    """Advice to reserve fewer tokens for the answer; empty if the input exceeds the model's limit even so."""
    window = best.model.window
    total = best.system + best.messages + needed
    remaining = window.context - total
    if remaining < 1 or (window.max_input is not None and total > window.max_input):
        return
    where = " in the route" if remaining < best.reserved_floor else ""
    yield f"reservedOutputTokens of {remaining} instead of {best.reserved}{where}"


def _advise_fewer_pins(best: Fit, pool: CandidateSet) -> Iterator[str]:
    """Advice to pin fewer tools: as many of the smallest as fit."""
    used, count = 0, 0
    for size in sorted(cost(tool, pool.short) for tool in pool.pinned):
        used += size
        if best.tokens(used) > best.room:
            break
        count += 1
    if count and best.model.max_tools is not None:
        count = min(count, best.model.max_tools)
    if count:
        yield f"the {count} smallest of the {len(pool.pinned)} pinned tools"


def _limit_advice(best: Fit, pool: CandidateSet, needed: int) -> tuple[str, list[str]]:
    """Reason and advice if a limit on tools, not the context window, prevents a plan."""
    pinned, provider = len(pool.pinned), best.model.max_tools
    if provider is not None and pinned > provider:
        reason = f"{pinned} tools are pinned, more than the {provider} that {best.model.name} takes"
    else:
        limits = {"maxTools": best.max_tools, "toolTokens": best.tool_tokens}
        listed = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)
        reason = f"the limits allow no tool: {listed}"
    return reason, [" and ".join(_advise_higher_limits(best, pool, needed))]


def _advise_higher_limits(best: Fit, pool: CandidateSet, needed: int) -> list[str]:
    """Limits that prevent a plan regardless of the context window, each with a value that would suffice. For pinned
    tools only the provider's limit matters, because the limits of routes and policies never remove pinned tools.
    """
    provider = best.model.max_tools
    raised = []
    if provider is not None and provider < 1:
        raised.append("a model that takes tools")
    elif provider is not None and len(pool.pinned) > provider:
        raised.append(f"at most {provider} pinned tools")
    if not pool.pinned and best.max_tools_by_limits is not None and best.max_tools_by_limits < 1:
        raised.append("maxTools of at least 1")
    if not pool.pinned and best.tool_tokens is not None and best.tool_tokens < needed:
        raised.append(f"toolTokens of at least {needed}")
    return raised
