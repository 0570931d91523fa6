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
    best_fit = max(fits, key=lambda fit: fit.room)
    required_tools = pool.pinned or sorted(pool.tools, key=lambda tool: cost(tool, pool.short))[:1]
    needed_tokens = best_fit.tokens(pool.tokens(required_tools))
    skipped_models = tuple(fit.skipped_model(pool) for fit in fits)
    if needed_tokens > best_fit.room:
        reason, hints = _room_advice(best_fit, pool, required_tools, needed_tokens)
    else:
        reason, hints = _limit_advice(best_fit, pool, needed_tokens)
    return PlanRefused(reason, skipped_models, best_fit.numbers(pool.tokens(required_tools), counter), tuple(hints))


def _room_advice(
    best_fit: Fit, pool: CandidateSet, required_tools: list[Candidate], needed_tokens: int
) -> tuple[str, list[str]]:
    """Reason and advice if the context window has no room for the tools that must fit (`required_tools`)."""
    if best_fit.room < 0:
        subject = "the conversation does"
    else:
        subject = "the pinned tools do" if pool.pinned else "the smallest tool does"
    missing_tokens = needed_tokens - best_fit.room
    hints = [
        f"a model that takes {best_fit.input + missing_tokens} tokens of input",
        *_advise_shorter_input(best_fit, missing_tokens),
    ]
    hints += _advise_smaller_reserve(best_fit, needed_tokens)
    if pool.pinned:
        hints += _advise_fewer_pins(best_fit, pool)
    if not pool.short and best_fit.tokens(_shortened_tokens(pool)) <= best_fit.room:
        hints.append("shortened descriptions")
    further_changes = _advise_higher_limits(best_fit, pool, needed_tokens)
    hints = [" and ".join([hint, *further_changes]) for hint in hints]
    return (
        f"{subject} not fit: {best_fit.model.name}, the model with the most room, lacks {missing_tokens} tokens",
        hints,
    )


def _shortened_tokens(pool: CandidateSet) -> int:
    """Tokens of the tools that have to fit, with shortened descriptions."""
    if pool.pinned:
        return sum(cost(tool, True) for tool in pool.pinned)
    return min((cost(tool, True) for tool in pool.tools), default=0)


def _advise_shorter_input(best_fit: Fit, missing_tokens: int) -> Iterator[str]:
    """Advice to shorten messages or system prompt; empty if even both together are shorter than what is missing."""
    if best_fit.messages >= missing_tokens:
        yield f"messages shorter by {missing_tokens} tokens"
    elif best_fit.messages + best_fit.system >= missing_tokens:
        yield f"messages and system prompt shorter by {missing_tokens} tokens together"


def _advise_smaller_reserve(best_fit: Fit, needed_tokens: int) -> Iterator[str]:
    """Advice to reserve fewer tokens for the answer; empty if the input exceeds the model's limit even so."""
    window = best_fit.model.window
    total = best_fit.system + best_fit.messages + needed_tokens
    remaining = window.context - total
    if remaining < 1 or (window.max_input is not None and total > window.max_input):
        return
    location = " in the route" if remaining < best_fit.reserved_floor else ""
    yield f"reservedOutputTokens of {remaining} instead of {best_fit.reserved}{location}"


def _advise_fewer_pins(best_fit: Fit, pool: CandidateSet) -> Iterator[str]:
    """Advice to pin fewer tools: as many of the smallest as fit."""
    used_tokens, count = 0, 0
    for size in sorted(cost(tool, pool.short) for tool in pool.pinned):
        used_tokens += size
        if best_fit.tokens(used_tokens) > best_fit.room:
            break
        count += 1
    if count and best_fit.model.max_tools is not None:
        count = min(count, best_fit.model.max_tools)
    if count:
        yield f"the {count} smallest of the {len(pool.pinned)} pinned tools"


def _limit_advice(best_fit: Fit, pool: CandidateSet, needed_tokens: int) -> tuple[str, list[str]]:
    """Reason and advice if a limit on tools, not the context window, prevents a plan."""
    pinned_count, provider_limit = len(pool.pinned), best_fit.model.max_tools
    if provider_limit is not None and pinned_count > provider_limit:
        reason = f"{pinned_count} tools are pinned, more than the {provider_limit} that {best_fit.model.name} takes"
    else:
        limits = {"maxTools": best_fit.max_tools, "toolTokens": best_fit.tool_tokens}
        limit_texts = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)
        reason = f"the limits allow no tool: {limit_texts}"
    return reason, [" and ".join(_advise_higher_limits(best_fit, pool, needed_tokens))]


def _advise_higher_limits(best_fit: Fit, pool: CandidateSet, needed_tokens: int) -> list[str]:
    """Limits that prevent a plan regardless of the context window, each with a value that would suffice. For pinned
    tools only the provider's limit matters, because the limits of routes and policies never remove pinned tools.
    """
    provider_limit = best_fit.model.max_tools
    changes = []
    if provider_limit is not None and provider_limit < 1:
        changes.append("a model that takes tools")
    elif provider_limit is not None and len(pool.pinned) > provider_limit:
        changes.append(f"at most {provider_limit} pinned tools")
    if not pool.pinned and best_fit.max_tools_by_limits is not None and best_fit.max_tools_by_limits < 1:
        changes.append("maxTools of at least 1")
    if not pool.pinned and best_fit.tool_tokens is not None and best_fit.tool_tokens < needed_tokens:
        changes.append(f"toolTokens of at least {needed_tokens}")
    return changes
