"""Choice of a model and its tools, from token numbers only.

Pure module. `available = contextWindow − toolTokens − systemPromptTokens − messageTokens − reservedOutputTokens`, all
in the model's own tokens. The first model of the route with room for every tool is chosen. If there is none, shortened
descriptions are tried, if the caller allows them. If that is not enough, tools are left out, but never pinned ones, on
the model that keeps the most. If nothing fits, the refusal has advice (`advice`). The result depends on the arguments
only, and nothing is counted here.
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
    """The model to use and its tools, or a refusal. `counter` is the name of the token counter. Of several candidates
    of one name only the first is used. The chosen tools keep their order.
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
