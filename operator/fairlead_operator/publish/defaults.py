"""The LatencyTiers of an installation that declares none: created on a cluster, assumed off one. Pure.

Phrases are for English; an installation that speaks another language declares its own. A `*` stands for any ending.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.common import Duration, ObjectMeta
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSpec, TierSelection


def _listed(text: str) -> list[str]:
    """Phrases between commas."""
    return [" ".join(phrase.split()) for phrase in text.split(",")]


_QUICK: Final = TierSelection(
    commands=_listed("""
        be brief, be quick, brief answer, don't overthink, fast mode, just quickly, keep it brief, keep it
        quick, keep it short, make it quick, make it short, no need to think, one word answer, quick answer,
        quick mode, quick question, real quick, short answer, yes or no
    """),
    conversation_states=["RapidExchange"],
    queue_depth=3,
)
_USUAL: Final = TierSelection(
    keywords=_listed("""
        according to, back when, book*, check if, check my, check the, check whether, earlier, find out,
        have we, how far, how long ago, how much did, in the log*, in the notes, last month, last night,
        last session, last time, last week, last year, latest, look up, lookup, met before, next week,
        order*, our history, previous*, recall*, remember*, remind*, rule for, rule on, rules, schedul*,
        search*, since when, status of, that time, told us, told you, we agreed, we decided, what did, what
        do the, what does the, what happened, what was, what were, when did, when was, where did, where was,
        where were, which of our, who did, who told, who was, whose, yesterday
    """),
    commands=_listed("""
        check the rules, look it up, look that up, normal mode, standard mode
    """),
    conversation_states=["FirstTurn"],
)
_THOROUGH: Final = TierSelection(
    keywords=_listed("""
        all the details, analys*, analyz*, compar*, comprehensive*, deep dive, design a, design an, draw*,
        entire history, every detail, everything about, everything there is, everything we know, everything
        you have, everything you know, explain why, full history, full report, full story, generate a
        picture, generate an image, image of, implications, in depth, in detail, in great detail,
        investigat*, make a picture, map out, on the internet, on the web, online, outline a, paint*, photo
        of, picture of, plan for, plan out, pros and cons, research*, sketch*, step by step, summarize all,
        summarize everything, summarize the, summary of, thorough*, trade offs, tradeoffs, web search, what
        are the odds, write a report, write an essay, write up
    """),
    commands=_listed("""
        deep mode, no hurry, no rush, take all the time, take your time, think about it carefully, think
        carefully, think deeply, think hard, think it over, think it through, think this through, think
        twice
    """),
    cooldown=Duration("30s"),
)

DEFAULT_TIERS: Final[tuple[LatencyTier, ...]] = (
    LatencyTier(
        metadata=ObjectMeta(name="fast"),
        spec=LatencyTierSpec(max_latency=Duration("500ms"), default=True, selection=_QUICK),
    ),
    LatencyTier(
        metadata=ObjectMeta(name="standard"), spec=LatencyTierSpec(max_latency=Duration("1500ms"), selection=_USUAL)
    ),
    LatencyTier(
        metadata=ObjectMeta(name="deep"), spec=LatencyTierSpec(max_latency=Duration("4s"), selection=_THOROUGH)
    ),
)
