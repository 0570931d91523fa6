"""Configuration of cascaded speech engines, which combine speech to text, a model and text to speech. Does no I/O.

Example, with a provider whose model the engine uses:

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
    """Server with OpenAI's audio API over HTTP."""

    base_url: str
    """Base URL with the version, as in `https://api.openai.com/v1`, to which `/audio/transcriptions` or `/audio/speech`
    is appended.
    """
    model: str
    """Name of the model at the server."""
    key_env: str | None = None
    """Environment variable with the API key."""
    key_file: str | None = None
    """File with the API key, which is read for each request."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Additional headers of all requests."""
    connect_seconds: Seconds = 5.0
    """Maximum time to open a connection."""
    idle_seconds: Seconds = 15.0
    """Maximum time without a byte of an answer."""


class SpeechToText(SpeechBackend, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Server with `POST /audio/transcriptions`."""

    language: str = ""
    """Language of the speech, as ISO 639-1 code; empty: the model detects it. A client may set another language."""


class TextToSpeech(SpeechBackend, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Server with `POST /audio/speech` that supports the format `pcm`: 24 kHz, 16 bits, mono."""

    voice: str = "alloy"
    """Voice of the speech, unless a client sets another voice."""


class FillerSetting(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Phrases that are spoken while an answer takes longer: before tool calls, and in slower tiers."""

    phrases: Phrases = ("Let me think.",)
    """Phrases, which are used in turn."""
    languages: Mapping[str, Phrases] = MappingProxyType({})
    """Phrases by language, which replace `phrases` in sessions with this language."""
    from_tier: str | None = None
    """Fastest tier in which a phrase is spoken at the start of a response; None: the first tier that is slower than the
    default tier.
    """


class SlowTurns(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Turns of a provider's speech sessions that a cascaded engine answers instead of the provider."""

    engine: str
    """Name of the engine in the configuration."""
    from_tier: str | None = None
    """Fastest tier whose turns the engine answers; None: the first tier that is slower than the default tier."""
    transcription: str = "gpt-4o-mini-transcribe"
    """Transcription model of the provider for sessions whose client requests no transcripts: the tier is chosen by the
    transcript. Only for providers of the kind `openai`; for `gemini`, the engine's `stt` transcribes.
    """


class CascadedProvider(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Cascaded engine. It answers to all names of the form `PROVIDER/NAME`, where `PROVIDER` is its own name."""

    stt: SpeechToText
    """Server that converts the user's speech to text."""
    llm: str
    """Model that answers: a name, `PROVIDER/MODEL` or a route in the same configuration."""
    tts: TextToSpeech
    """Server that converts the answer to speech."""
    kind: Literal["cascaded"] = CASCADED
    """Distinguishes engines from providers in the configuration."""
    models: tuple[str, ...] = ()
    """Further names of the engine for requests, where `*` matches any text."""
    filler: FillerSetting | None = None
    """Fillers; None: no fillers are spoken."""
