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
        according to, add a, add an, add my, add the, add these, add this, anything about, anything in the,
        anything on the, are there a, are there an, are there any, back when, booked, booking*, bring up,
        check if, check my, check the, check whether, compose*, create a, create an, definition of,
        describ*, did anybody, did anyone, did my, did our, did the, did they, did we, difference between,
        directions to, draft*, earlier, explain*, fetch*, find, find out, get me, give me all, give me some,
        give me the, has anybody, has anyone, has changed, has my, has our, has the, has they, have anybody,
        have anyone, have my, have our, have the, have they, have we, headlines, history of, how can i, how
        did, how do i, how do we, how does, how far, how long ago, how many, how much did, how to, in the
        log*, in the notes, is there a, is there an, is there any, last month, last night, last session,
        last time, last week, last year, latest, list all, list my, list the, look at my, look at the, look
        at these, look at this, look for, look into, look through, look up, lookup, make a list, meaning of,
        met before, more about, next week, order*, our history, overview, previous*, proofread*, pull up,
        query*, recall*, recap*, recipe*, recommend*, remember*, remind me how, remind me what, remind me
        when, remind me where, remind me who, remind me why, rephras*, reword*, rewrit*, rule for, rule on,
        rules, run the, schedul*, search*, shorten*, show me, since when, status of, suggest*, sum up,
        summar*, sums up, tell me about, tell me more, that time, the news, told us, told you, translat*,
        turn it into, turn my, turn these, turn this into, turn those into, update the, we agreed, we
        decided, what are people, what are the, what changed, what did, what do my, what do our, what do
        the, what do these, what do this, what does my, what does our, what does the, what does these, what
        does this, what happened, what time do, what time does, what was, what were, when did, when was,
        where can i, where can we, where can you, where did, where was, where were, which, which of my,
        which of our, which of the, who changed, who did, who told, who was, who wrote that, who wrote the,
        who wrote this, whose, write a, write an, write me, write to, yesterday
    """),
    commands=_listed("""
        check the rules, look it up, look that up, normal mode, standard mode
    """),
    conversation_states=["FirstTurn"],
)
_THOROUGH: Final = TierSelection(
    keywords=_listed("""
        a design document, action plan, all the details, analys*, analyz*, and why, architect*, arguments
        against, arguments for, assess*, audit*, best approach, best way to, brainstorm*, break down,
        breakdown of, business case, cause of, causes of, come up with, compar*, comprehensive*,
        consequences of, contradict*, critici*, critiqu*, debug*, deep dive, derive*, design a, design an,
        detailed, develop a, develop an, diagnos*, draw*, drivers of, entire history, evaluat*, every
        detail, every scenario, every step, everything about, everything there is, everything we know,
        everything you have, everything you know, evidence, examin*, explain every, explain why,
        extrapolat*, figure out, find out why, flaw in, flaws in, for and against, for anything that could,
        forecast*, from scratch, full history, full report, full story, generate a picture, generate an
        image, go through all, go through the, go through these, help me decide, help me think, help me
        track, help me understand, how could i, how could they, how could we, how could you, how might i,
        how might they, how might we, how might you, how should i, how should they, how should we, how
        should you, how would i, how would they, how would we, how would you, i need to understand, i want
        to understand, i would like to understand, image of, implications, in depth, in detail, in great
        detail, investigat*, lay out, long term, make a picture, make sense of, map out, migrat*, model the,
        on the internet, on the web, online, optimi*, outline a, outline the, paint*, photo of, picture of,
        plan a, plan an, plan for, plan my, plan our, plan out, predict*, proof of, proposal*, pros and
        cons, prove that, put together a, reason through, reconcil*, redesign*, refactor*, research*,
        restructur*, rethink*, review*, roadmap*, root cause, scrutini*, should we, side by side, simulat*,
        sketch*, solve*, step by step, strateg*, study the, study these, study this, summarize all,
        summarize everything, talk me through, think through, thorough*, trace the, trace where, trace why,
        track down, track it down, trade off, trade offs, tradeoffs, troubleshoot*, web search, weigh*, what
        are the odds, what happens if, what if we, what would happen, where they differ, whether i should,
        whether to, whether we should, which of them would you, which of these would you, which of those
        would you, why did, why do, why does, why has, why have, why is it that, why it keeps, work out,
        would you take, write a report, write an essay, write up
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
