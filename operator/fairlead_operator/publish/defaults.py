"""The LatencyTiers of an installation that declares none: created on a cluster, assumed off one. Pure.

None of them is the default: latency hides a tool only from clients that chose a tier.

Phrases are for English; an installation that speaks another language declares its own. A `*` stands for any ending.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.common import Duration, ObjectMeta
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSelection, LatencyTierSpec
from fairlead_operator.publish.words.everyday import EVERYDAY
from fairlead_operator.publish.words.listed import listed
from fairlead_operator.publish.words.past import PAST
from fairlead_operator.publish.words.places import PLACES
from fairlead_operator.publish.words.requests import LOOKUPS, THOROUGH
from fairlead_operator.publish.words.rules import RULES

_QUICK: Final = LatencyTierSelection(
    keywords=[
        *listed("say that again, what did i say, what did you say, what was that, what were you saying"),
        *EVERYDAY,
    ],
    commands=listed("""
        be brief, be concise, be quick, brief answer, brief please, briefly, don't overthink, fast mode,
        in a word, in one word, just a quick, just quickly, just roughly, just tell me roughly, keep it
        brief, keep it quick, keep it short, make it quick, make it short, no need to think, one word
        answer, quick answer, quick mode, quick question, quick yes or no, real quick, short answer,
        short version, yes or no
    """),
    conversation_states=["RapidExchange"],
    queue_depth=3,
)
_USUAL: Final = LatencyTierSelection(
    keywords=[*PAST, *PLACES, *RULES, *LOOKUPS],
    commands=listed("""
        check the rules, look it up, look that up, normal mode, standard mode
    """),
    conversation_states=["FirstTurn"],
)
_THOROUGH: Final = LatencyTierSelection(
    keywords=THOROUGH,
    commands=listed("""
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
