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
    keywords=_listed("""
        say that again, what did i say, what did you say, what was that, what were you saying
    """),
    commands=_listed("""
        be brief, be concise, be quick, brief answer, brief please, briefly, don't overthink, fast mode,
        in a word, in one word, just a quick, just quickly, just roughly, just tell me roughly, keep it
        brief, keep it quick, keep it short, make it quick, make it short, no need to think, one word
        answer, quick answer, quick mode, quick question, quick yes or no, real quick, short answer,
        short version, yes or no
    """),
    conversation_states=["RapidExchange"],
    queue_depth=3,
)
_USUAL: Final = TierSelection(
    keywords=_listed("""
        according to, back when, booked, booking*, bring up, check if, check my, check the, check
        whether, compose*, create a, create an, definition of, describ*, difference between, directions
        to, draft*, earlier, explain*, fetch*, find, find out, get me, has changed, have we, headlines,
        history of, how can i, how did, how do i, how do we, how does, how far, how long ago, how many,
        how much did, how to, in the log*, in the notes, last month, last night, last session, last time,
        last week, last year, latest, list all, list my, list the, look at my, look at the, look at
        these, look at this, look for, look into, look through, look up, lookup, make a list, meaning of,
        met before, more about, next week, order*, our history, overview, previous*, proofread*, pull up,
        query*, recall*, recap*, recipe*, recommend*, remember*, remind me how, remind me what, remind me
        when, remind me where, remind me who, remind me why, rephras*, reword*, rewrit*, rule for, rule
        on, rules, run the, schedul*, search*, shorten*, show me, since when, status of, suggest*, sum
        up, summar*, sums up, tell me about, tell me more, that time, the news, told us, told you,
        translat*, update the, we agreed, we decided, what are people, what are the, what changed, what
        did, what do the, what does the, what happened, what was, what were, when did, when was, where
        did, where was, where were, which of my, which of our, which of the, who changed, who did, who
        told, who was, who wrote that, who wrote the, who wrote this, whose, write a, write an, write me,
        write to, yesterday
    """),
    commands=_listed("""
        check the rules, look it up, look that up, normal mode, standard mode
    """),
    conversation_states=["FirstTurn"],
)
_THOROUGH: Final = TierSelection(
    keywords=_listed("""
        a design document, action plan, all the details, analys*, analyz*, architect*, arguments against,
        arguments for, assess*, audit*, best approach, best way to, brainstorm*, break down, breakdown
        of, business case, cause of, causes of, come up with, compar*, comprehensive*, consequences of,
        critici*, critiqu*, debug*, deep dive, derive*, design a, design an, detailed, develop a, develop
        an, diagnos*, draw*, drivers of, entire history, evaluat*, every detail, every step, everything
        about, everything there is, everything we know, everything you have, everything you know,
        examin*, explain every, explain why, extrapolat*, figure out, find out why, for and against,
        forecast*, full history, full report, full story, generate a picture, generate an image, go
        through all, go through the, go through these, help me decide, help me think, image of,
        implications, in depth, in detail, in great detail, investigat*, long term, make a picture, map
        out, migrat*, model the, on the internet, on the web, online, optimi*, outline a, outline the,
        paint*, photo of, picture of, plan a, plan an, plan for, plan my, plan our, plan out, predict*,
        proof of, proposal*, pros and cons, prove that, put together a, reason through, reconcil*,
        redesign*, refactor*, research*, restructur*, rethink*, review*, roadmap*, root cause, scrutini*,
        should we, simulat*, sketch*, solve*, step by step, strateg*, study the, study these, study this,
        summarize all, summarize everything, think through, thorough*, trace the, trace where, trace why,
        trade off, trade offs, tradeoffs, troubleshoot*, web search, weigh*, what are the odds, what
        happens if, what if we, what would happen, whether i should, whether to, whether we should, why
        did, why do, why does, why has, why have, why is it that, why it keeps, work out, write a report,
        write an essay, write up
    """),
    commands=_listed("""
        be thorough, deep mode, dig deep, don't rush, go deep, no hurry, no rush, really think, reason
        about it, reason carefully, take all the time, take as long as you need, take your time, think
        about it carefully, think carefully, think deeply, think hard, think it over, think it through,
        think properly, think this through, think twice
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
