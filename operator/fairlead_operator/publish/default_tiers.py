"""The default LatencyTiers of an installation that declares none. On a cluster, the operator creates them. Pure.

None of these tiers has `default: true`, so that latency hides a tool only from clients that choose a tier. The keywords
and commands that select the tiers are built into the gateway and are English; an installation in another language
declares its own tiers.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.common import Duration, ObjectMeta
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSelection, LatencyTierSpec

_QUICK: Final = LatencyTierSelection(shipped_words=True, conversation_states=["RapidExchange"], queue_depth=3)
_USUAL: Final = LatencyTierSelection(shipped_words=True, conversation_states=["FirstTurn"])
_THOROUGH: Final = LatencyTierSelection(shipped_words=True, cooldown=Duration("30s"))

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
