"""Cascaded engines of a gateway: the objects that all sessions of one engine share."""

from __future__ import annotations

from collections.abc import Callable

from fairlead_models.cascaded_engines import CascadedProvider
from fairlead_models.provider_requests import ProviderClient
from fairlead_speech.cascaded.backends import SpeechBackends
from fairlead_speech.cascaded.chat_model import ChatModel
from fairlead_speech.cascaded.fillers import FillerAudio
from fairlead_speech.metrics import SpeechMetrics


class CascadedEngine:
    """Objects that all sessions of one cascaded engine share, made from one configuration of the engine."""

    def __init__(
        self, name: str, provider: CascadedProvider, client: ProviderClient, model: ChatModel, metrics: SpeechMetrics
    ) -> None:
        self.provider = provider
        self.backends = SpeechBackends(name, provider.stt, provider.tts, client, metrics)
        self.model = model
        self.fillers = FillerAudio(provider.tts.voice)
        self.metrics = metrics


class CascadedEngines:
    """Cascaded engines of one gateway. An engine is replaced when its configuration changes."""

    def __init__(self, client: ProviderClient, model: ChatModel, metrics: SpeechMetrics) -> None:
        self._make: Callable[[str, CascadedProvider], CascadedEngine] = lambda name, provider: CascadedEngine(
            name, provider, client, model, metrics
        )
        self._engines: dict[str, CascadedEngine] = {}

    def engine(self, name: str, provider: CascadedProvider) -> CascadedEngine:
        """Return the engine with a name. If `provider` has changed, a new engine is made."""
        engine = self._engines.get(name)
        if engine is None or engine.provider != provider:
            engine = self._engines[name] = self._make(name, provider)
        return engine
