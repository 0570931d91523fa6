"""Which model to use and which tools it gets: decided from numbers alone.

Pure module. `available = contextWindow − toolTokens − systemPromptTokens − messageTokens − reservedOutputTokens`, all
in the model's own tokens. The first model of the route that holds every tool is taken; where none does, shortened
descriptions are tried if the caller allows them; where that is not enough, tools are cut on the model that keeps the
most, pinned ones never; where nothing fits, the refusal says what would (`advice`). Nothing is counted here, and
nothing depends on anything but the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead_formats.tokens.advice import refuse
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import Candidate, CandidateSet, Fit
from fairlead_formats.tokens.outcome import Plan, PlanRefused
from fairlead_formats.tokens.routes import PlanLimits, RouteModel


def plan(
    models: Sequence[RouteModel],
    tools: Sequence[Candidate],
    conversation: ConversationTokens,
    limits: PlanLimits,
    counter: str,
) -> Plan | PlanRefused:
    """The model to use with the tools that it gets, or why there is none. `counter` names what counted the tokens. Of
    candidates of one name the first counts; chosen ones keep their order.
    """
    distinct = _distinct(tools)
    fits = [Fit(model, conversation, limits) for model in models]
    pools = [CandidateSet(distinct, short=short) for short in ((False, True) if limits.shorten else (False,))]
    for pool in pools:
        for fit in fits:
            if fit.whole(pool):
                return fit.plan(pool, [], fits, counter)
    pool = pools[-1]
    fitting = [fit.count_fitting(pool) for fit in fits]
    most = max(fitting, default=0)
    if most <= 0:
        return refuse(fits, pool, counter)
    best = fits[fitting.index(most)]
    return best.plan(pool, best.cuts(pool), fits, counter)


def _distinct(tools: Sequence[Candidate]) -> list[Candidate]:
    first: dict[str, Candidate] = {}
    for tool in tools:
        first.setdefault(tool.name, tool)
    return list(first.values())
