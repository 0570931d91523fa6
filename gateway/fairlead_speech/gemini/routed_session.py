"""Puts a routed session of Gemini Live together."""

from __future__ import annotations

from fairlead_models.cascaded import SlowTurns
from fairlead_models.request_record import RequestRecord
from fairlead_speech.answerers import turn_answerer
from fairlead_speech.gemini.engine_voice import EngineVoice
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.routed_turns import RoutedTurns
from fairlead_speech.gemini.routing import RoutedLive
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.services import OpenedModel, SpeechServices
from fairlead_speech.session import FrameSink
from fairlead_speech.tiers import decided_by_words, is_slow


def routed_live(
    services: SpeechServices,
    opened: OpenedModel,
    slow: SlowTurns,
    setup: RoutedSetup,
    session: LiveSession,
    client: FrameSink,
    provider: FrameSink,
    record: RequestRecord,
) -> RoutedLive:
    """A session whose slow turns an engine answers, around one that has `setup.outgoing()`."""

    def slow_tier(tier: str | None) -> bool:
        return is_slow(opened.toolbox.catalog(), tier, slow.from_tier)

    def waits_for_words() -> bool:
        return decided_by_words(opened.toolbox.catalog(), opened.tier.named, slow.from_tier)

    voice = EngineVoice(client, setup, services.clock)
    answerer = turn_answerer(services, slow.engine, opened, voice, record, session.end)
    turns = RoutedTurns(
        session, answerer, voice, setup, provider, slow_tier, services.context.worker.do, services.metrics
    )
    return RoutedLive(session, answerer, voice, setup, turns, provider, waits_for_words, slow_tier)
