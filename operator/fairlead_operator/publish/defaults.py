"""The LatencyTiers of an installation that declares none: created on a cluster, assumed off one. Pure.

None of them is the default: latency hides a tool only from clients that chose a tier.

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
        according to, add a, add an, add my, add the, add these, add this, am i allowed, anything about,
        anything in the, anything on the, appointment*, are the, are there a, are there any, back when,
        booked, booking*, bring up, calendar, check if, check my, check the, check whether, compose*,
        contract, create a, create an, deadline*, definition of, describ*, did anybody, did anyone, did he,
        did i, did my, did our, did she, did the, did they, did this, did we, difference between, directions
        to, do my, do our, do they, do we have, does it, does my, does our, does that, does the, draft*,
        earlier, explain*, fetch*, find, get me, give me all, give me the, guarantee, has anybody, has
        anyone, has my, has our, has the, has they, have my, have our, have the, have they, have we,
        headlines, history of, how can i, how did, how do i, how do we, how does, how far, how long ago, how
        long did, how long has, how long have, how long is, how long until, how long will, how many, how
        much did, how much do, how much does, how much is the, how much was, how much will, how often, how
        to, in the log*, in the notes, invoice*, is it allowed, is it possible to, is my, is our, is there
        a, is there any, last month, last night, last session, last time, last week, last year, latest, list
        all, list my, list the, look at my, look at the, look at this, look for, look into, look through,
        look up, lookup, make a list, meaning of, more about, next week, opening hours, order*, our history,
        over the past, overview, phone number, policies, policy, previous*, procedure*, proofread*, pull up,
        query*, recall*, recap*, receipt*, recipe*, recommend*, refund*, regulation*, remember*, remind me
        how, remind me what, remind me when, remind me where, remind me who, remind me why, rephras*,
        reword*, rewrit*, rule for, rule on, rules, run the, schedul*, search*, section, shorten*, show me,
        since when, so far, status of, suggest*, sum up, summar*, sums up, tell me about, tell me more, that
        time, the news, the other day, told us, told you, translat*, turn it into, turn my, turn these, turn
        this into, update the, warranty, was my, we agreed, we decided, were the, what are my, what are our,
        what are people, what changed, what did, what do the, what does this, what happened, what time does,
        what was, what were, what's in my, what's in our, what's in the, what's my, what's on my, what's on
        our, what's on the, what's our, when are, when did, when do, when does, when is, when was, when
        will, when's, where are my, where are our, where can i, where can we, where can you, where did,
        where do, where does, where is, where was, where were, where's, which, who changed, who did, who
        has, who is the, who told, who was, who were, who wrote that, who wrote the, who wrote this, who's
        the, whose, write a, write an, write me, write to, yesterday
    """),
    commands=_listed("""
        check the rules, look it up, look that up, normal mode, standard mode
    """),
    conversation_states=["FirstTurn"],
)
_THOROUGH: Final = TierSelection(
    keywords=_listed("""
        a complete, a design document, a full, action plan, all of my, all of our, all of the, all our, all
        the details, all the ways, alternatives, analys*, analyz*, and why, anticipat*, architect*, argue*,
        arguments against, arguments for, assess*, audit*, best approach, best way to, brainstorm*, break
        down, breakdown of, business case, careful*, cause of, causes of, come up with, compar*,
        comprehensive*, consequences of, consider*, contradict*, convince me, critici*, critiqu*, debug*,
        deduc*, deep dive, derive*, design a, design an, detailed, develop a, develop an, devis*, diagnos*,
        dig into, dig through, draw*, drivers of, each of the, each of these, each one of, end to end,
        estimat*, evaluat*, every detail, every one of, every possible, every scenario, every single,
        everything about, everything i, everything that, everything there is, everything we know, everything
        you, evidence, examin*, exhaustive*, explain every, explain what, explain why, extrapolat*, figure
        out, find out why, flaw in, flaws in, for and against, for anything that could, forecast*, from
        every, from scratch, full report, full story, generate a picture, generate an image, go through all,
        go through the, go through these, go wrong, help me decide, help me think, help me track, help me
        understand, how could i, how could we, how could you, how everything, how might i, how might we, how
        might you, how should i, how should they, how should you, how would i, how would we, how would you,
        hypothes*, i need to understand, i want to understand, i would like to understand, image of,
        implications, improvements, in depth, in detail, in full, inconsistenc*, infer*, interpret*,
        investigat*, justif*, lay out, line by line, long term, make a case, make a picture, make sense of,
        make the case, map out, migrat*, model the, my entire, on the internet, on the web, one by one,
        online, optimi*, our entire, outline a, outline the, paint*, photo of, picture of, plan a, plan an,
        plan for, plan my, plan our, plan out, point by point, point out, predict*, prioriti*, proof of,
        properly, propos*, pros and cons, prove that, put together a, rank them, rank these, reason about,
        reason through, reconcil*, redesign*, refactor*, research*, restructur*, rethink*, review*, risks,
        roadmap*, root cause, scrutini*, should we, side by side, simulat*, sketch*, solve*, step by step,
        strateg*, study the, study these, study this, summarize all, summarize everything, talk me through,
        the entire, the whole, theor*, think through, thorough*, trace the, trace where, trace why, track
        down, track it down, trade off, trade offs, tradeoffs, troubleshoot*, weakness*, web search, weigh*,
        what are the odds, what could go, what happens if, what if we, what would happen, what would you do,
        where they differ, whether i should, whether to, whether we should, which of them would you, which
        of these would you, which of those would you, why are, why did, why do, why does, why has, why have,
        why is, why it, why my, why our, why people, why should, why that, why the, why these, why they, why
        this, why was, why we, why would, work out, would you take, write a report, write an essay, write up
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
        spec=LatencyTierSpec(max_latency=Duration("500ms"), selection=_QUICK),
    ),
    LatencyTier(
        metadata=ObjectMeta(name="standard"), spec=LatencyTierSpec(max_latency=Duration("1500ms"), selection=_USUAL)
    ),
    LatencyTier(
        metadata=ObjectMeta(name="deep"), spec=LatencyTierSpec(max_latency=Duration("4s"), selection=_THOROUGH)
    ),
)
