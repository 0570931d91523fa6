"""Makes cascaded engines for sessions: as the model of one, and beside a speech model whose slow turns they answer."""

from __future__ import annotations

from fairlead_models.cascaded import CASCADED
from fairlead_models.request_record import RequestRecord
from fairlead_speech.cascaded.answering import RelayedEvents, TurnAnswerer
from fairlead_speech.cascaded.session import CascadedSession
from fairlead_speech.realtime.session import ENGINE, RealtimeSession
from fairlead_speech.services import OpenedModel, SpeechServices
from fairlead_speech.session import FrameSink, SessionEnd
from fairlead_speech.tiers import SpokenTier, is_slow


def engine_session(services: SpeechServices, name: str, model: str) -> CascadedSession:
    """A session of the engine of that name; `model` is what its client asked for."""
    engine = services.engines.of(name, services.providers().cascaded[name])
    return CascadedSession(engine, model, services.clock, services.bounds)


def follow_tier(session: CascadedSession, opened: OpenedModel) -> None:
    """Have an engine know when its tier is a slow one."""
    filler = session.state.engine.provider.filler
    if filler is not None:
        session.follow(lambda: is_slow(opened.toolbox.catalog(), opened.tier.current, filler.from_tier))


def turn_answerer(
    services: SpeechServices, name: str, opened: OpenedModel, client: FrameSink, record: RequestRecord, end: SessionEnd
) -> TurnAnswerer:
    """The engine of that name, to answer turns of a session, which it ends with its agent's day. `client` gets its
    events, in the form of OpenAI Realtime.
    """
    side = engine_session(services, name, name)
    follow_tier(side, opened)
    relay, toolbox = RelayedEvents(client), opened.make_toolbox(ENGINE)
    tier = SpokenTier(services.tools, toolbox.catalog, opened.tier.current)
    session = RealtimeSession(
        relay, side, toolbox, tier, record, services.metrics, CASCADED, provider_mcp=False, hears_first=True, end=end
    )
    return TurnAnswerer(side, session, relay, tier)
