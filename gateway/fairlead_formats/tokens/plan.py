"""Choice of a model and its tools, from token numbers only.

Pure module. `available = contextWindow − toolTokens − systemPromptTokens − messageTokens − reservedOutputTokens`, all
in the model's own tokens. The first model of the route with room for every tool is chosen. If no model has room, and
the caller allows it, every model is tried with shortened descriptions. If that is not enough, the model that can keep
the most tools is chosen, and tools are left out, but never pinned tools. If not even this is possible, the plan is
refused with advice (`advice`). The result depends only on the arguments, because no tokens are counted here.
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
    """Choose a model and its tools, or refuse. `counter`: name of the token counter, for the report. Of several
    candidates with the same name only the first is used. The chosen tools keep the order of the candidates.
    """
    distinct_tools = _without_duplicates(tools)
    fits = [Fit(model, conversation, limits) for model in models]
    pools = [CandidateSet(distinct_tools, short=short) for short in ((False, True) if limits.shorten else (False,))]
    for pool in pools:
        for fit in fits:
            if fit.fits_all(pool):
                return fit.plan(pool, [], fits, counter)
    pool = pools[-1]
    fitting_counts = [fit.count_fitting(pool) for fit in fits]
    best_count = max(fitting_counts, default=0)
    if best_count <= 0:
        return refuse(fits, pool, counter)
    best_fit = fits[fitting_counts.index(best_count)]
    return best_fit.plan(pool, best_fit.cut_tools(pool), fits, counter)


def _without_duplicates(tools: Sequence[Candidate]) -> list[Candidate]:
    first_by_name: dict[str, Candidate] = {}
    for tool in tools:
        first_by_name.setdefault(tool.name, tool)
    return list(first_by_name.values())
