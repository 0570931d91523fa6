"""Which sessions of Gemini Live are routed, and how such a session is put together."""

from __future__ import annotations

from fairlead_models.cascaded import SlowTurns
from fairlead_models.request_record import RequestRecord
from fairlead_speech.answerers import turn_answerer
from fairlead_speech.gemini.engine_voice import EngineVoice
from fairlead_speech.gemini.messages import Message
from fairlead_speech.gemini.models import live_model
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.routed_turns import RoutedTurns
from fairlead_speech.gemini.routing import RoutedLive
from fairlead_speech.gemini.session import LiveSession
from fairlead_speech.services import OpenedModel, SpeechServices
from fairlead_speech.session import FrameSink
from fairlead_speech.tiers import decided_by_words, is_slow


class LiveRouting:
    """Routing of one session."""

    def __init__(self, slow: SlowTurns, opened: OpenedModel, setup: Message) -> None:
        """`setup` is the client's."""
        self._slow = slow
        self._opened = opened
        self.setup = RoutedSetup(setup)

    def is_slow(self, tier: str | None) -> bool:
        """Whether turns of a tier are the engine's."""
        return is_slow(self._opened.toolbox.catalog(), tier, self._slow.from_tier)

    def waits_for_words(self) -> bool:
        """Whether who answers a turn is known only once its words are."""
        opened = self._opened
        return decided_by_words(opened.toolbox.catalog(), opened.tier.named, self._slow.from_tier)

    def around(
        self,
        session: LiveSession,
        services: SpeechServices,
        client: FrameSink,
        provider: FrameSink,
        record: RequestRecord,
    ) -> RoutedLive:
        """The routed session around one that has `setup.outgoing()`."""
        voice = EngineVoice(client, self.setup, services.clock)
        answerer = turn_answerer(services, self._slow.engine, self._opened, voice, record, session.end)
        turns = RoutedTurns(
            session,
            answerer,
            voice,
            self.setup,
            provider,
            self.is_slow,
            services.tools.work.do,
            services.metrics,
            services.bounds,
        )
        return RoutedLive(session, answerer, voice, self.setup, turns, provider, self.waits_for_words, self.is_slow)


def live_routing(services: SpeechServices, opened: OpenedModel, setup: Message) -> LiveRouting | None:
    """Routing of a session whose client sent that setup; None where none of its turns is slow, or its model cannot be
    told of what others answered.
    """
    slow = services.providers().by_name[opened.target.provider].slow_turns
    if slow is None or not live_model(opened.target.model).takes_content:
        return None
    return LiveRouting(slow, opened, setup)
