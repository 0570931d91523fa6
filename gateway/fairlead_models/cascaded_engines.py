"""Cascaded engines of speech as the installation states them: speech to text, a model, text to speech. Pure module.

Example, beside the providers whose models they have:

    providers:
      local: {baseUrl: "http://vllm.models:8000/v1", models: [our-qwen]}
      voice:
        kind: cascaded
        stt: {baseUrl: "http://speaches.models:8000/v1", model: Systran/faster-whisper-small}
        llm: our-qwen
        tts: {baseUrl: "http://kokoro.models:8880/v1", model: kokoro, voice: af_heart}
        filler: {phrases: ["Let me think.", "One moment."]}
        models: [assistant]
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

CASCADED: Final = "cascaded"
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Phrase = Annotated[str, Meta(min_length=1, max_length=200)]
Phrases = Annotated[tuple[Phrase, ...], Meta(min_length=1, max_length=16)]


class SpeechBackend(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One server that speaks OpenAI's audio API over HTTP."""

    base_url: str
    """With the version, as in `https://api.openai.com/v1`; below it is `/audio/transcriptions`, or `/audio/speech`."""
    model: str
    """Name of the model there."""
    key_env: str | None = None
    """Environment variable with the key."""
    key_file: str | None = None
    """File with the key, read for each request."""
    headers: Mapping[str, str] = MappingProxyType({})
    """More headers of every request."""
    connect_seconds: Seconds = 5.0
    """Longest time for a connection."""
    idle_seconds: Seconds = 15.0
    """Longest time without a byte of an answer."""


class SpeechToText(SpeechBackend, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Server of `POST /audio/transcriptions`."""

    language: str = ""
    """Language that is spoken, by ISO 639-1; empty: the model finds it. A client may name another one."""


class TextToSpeech(SpeechBackend, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Server of `POST /audio/speech` that answers `pcm`: 24 kHz, 16 bits, mono."""

    voice: str = "alloy"
    """Voice unless a client asks for another one."""


class FillerSetting(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Phrases that are said while an answer takes longer: in front of calls of tools, and in slower tiers."""

    phrases: Phrases = ("Let me think.",)
    """Said in turn."""
    languages: Mapping[str, Phrases] = MappingProxyType({})
    """By language, in place of `phrases` where a session has one of these."""
    from_tier: str | None = None
    """Tier from which on it is said at once; None: from the first that is slower than the default one."""


class SlowTurns(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Turns of a provider's speech sessions that a cascaded engine answers in its place."""

    engine: str
    """Name of the engine in the configuration."""
    from_tier: str | None = None
    """Tier from which on; None: from the first that is slower than the default one."""
    transcription: str = "gpt-4o-mini-transcribe"
    """Model of the provider's that turns speech into text, where the client asks for none: the tier is chosen by it. Of
    the kind `openai`; beside one of the kind `gemini`, the engine's `stt` does that.
    """


class CascadedProvider(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One engine. Any name of a model is its own by `PROVIDER/NAME`."""

    stt: SpeechToText
    """Turns what is said into text."""
    llm: str
    """Model that answers: a name, `PROVIDER/MODEL` or a route, of the same configuration."""
    tts: TextToSpeech
    """Turns the answer into speech."""
    kind: Literal["cascaded"] = CASCADED
    """Tells it from providers."""
    models: tuple[str, ...] = ()
    """Names that clients may ask for, `*` for any part of them."""
    filler: FillerSetting | None = None
    """None: nothing is said before the answer."""
