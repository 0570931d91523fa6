"""Setup of a routed Gemini Live session, in which a cascaded engine answers slow turns. Derives the setups for the
provider and the engine from the client's setup. Does no I/O.

The provider's setup disables its detection of turns, and requests transcripts of both user and model. Source: Live API
reference, RealtimeInputConfig and AutomaticActivityDetection.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_formats.registry import find
from fairlead_formats.tools.between import between
from fairlead_speech.cascaded.input_audio import DetectionSettings
from fairlead_speech.gemini.messages import Message, has_member, key, member, members, text

FUNCTIONS: Final = "gemini-live", "openai-realtime"
"""Names of two message formats. A client's functions are converted from the first, Gemini Live's, to the second, the
engine's.
"""
_INPUT_CONFIG: Final = "realtimeInputConfig"
_DETECTION: Final = "automaticActivityDetection"
_INPUT_TRANSCRIPTION, _OUTPUT_TRANSCRIPTION = "inputAudioTranscription", "outputAudioTranscription"
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:-|$)")
_QUIET_THRESHOLD: Final = 0.75
"""Threshold of the voice activity detection if `startOfSpeechSensitivity` is low; otherwise it is 0.5."""
_LONG_SILENCE_MS: Final = 900
"""Milliseconds of silence that end speech if `endOfSpeechSensitivity` is low; otherwise 500."""


class RoutedSetup:
    """Current setup of one routed session, from the client's setup and its later `contextUpdate` messages."""

    def __init__(self, setup: Message) -> None:
        self._setup = setup
        input_config = member(setup, _INPUT_CONFIG)
        detection = member(input_config, _DETECTION)
        self.detection = None if detection.get("disabled") is True else _detection_settings(detection)
        """Settings of the gateway's own detection of turns; None if the client marks the beginning and end of turns."""
        self.interrupts = text(input_config, "activityHandling") != "NO_INTERRUPTION"
        """Whether speech interrupts an answer."""
        self.shows_input = setup.get(key(setup, _INPUT_TRANSCRIPTION)) is not None
        """Whether the client requested transcripts of the user."""
        self.shows_output = setup.get(key(setup, _OUTPUT_TRANSCRIPTION)) is not None
        """Whether the client requested transcripts of the model."""
        generation_config = member(setup, "generationConfig")
        self.text_only = generation_config.get(key(generation_config, "responseModalities")) == ["TEXT"]
        """Whether the client requested text instead of audio."""
        self._instructions = _system_instruction(setup)
        self._tools = members(setup, "tools")
        self._engine_session: tuple[object, object, Message] | None = None
        """Cache: the client's instructions and tools, and the engine's session that was derived from them."""
        self._client_names: dict[str, str] = {}

    def for_provider(self) -> Message:
        """Setup that is sent to the provider."""
        input_config, name = member(self._setup, _INPUT_CONFIG), key(self._setup, _INPUT_CONFIG)
        other_settings = {
            setting: value for setting, value in input_config.items() if setting != key(input_config, _DETECTION)
        }
        provider_setup = {**self._setup, name: {**other_settings, _DETECTION: {"disabled": True}}}
        if not self.shows_input:
            provider_setup[key(provider_setup, _INPUT_TRANSCRIPTION)] = {}
        if not self.shows_output and not self.text_only:
            provider_setup[key(provider_setup, _OUTPUT_TRANSCRIPTION)] = {}
        return provider_setup

    def update(self, message: Message) -> None:
        """Apply a client's `contextUpdate` that has been sent to the provider."""
        update = member(message, "contextUpdate")
        if has_member(update, "systemInstruction"):
            self._instructions = _system_instruction(update)
        if has_member(update, "tools"):
            self._tools = members(member(update, "tools"), "tools")

    @property
    def language(self) -> str:
        """Language that the client set, as ISO 639 code; empty: none."""
        speech = member(member(self._setup, "generationConfig"), "speechConfig")
        match = _LANGUAGE.match(text(speech, "languageCode").lower())
        return match[1] if match is not None else ""

    def for_engine(self) -> Message:
        """Members of the engine's session, in OpenAI Realtime's format. Converting many tools takes long, so the result
        is cached until instructions or tools change. May be called in a thread.
        """
        # read these attributes only once: the event loop may replace them while this function runs in a thread
        instructions, tools, session = self._instructions, self._tools, self._engine_session
        if session is None or session[0] is not instructions or session[1] is not tools:
            session = self._engine_session = instructions, tools, self._build_engine_session(instructions, tools)
        return session[2]

    def client_name(self, name: str) -> str:
        """The client's name of a function, by the name that the engine has for it."""
        return self._client_names.get(name, name)

    def _build_engine_session(self, instructions: str, tools: list[Message]) -> Message:
        source, target = FUNCTIONS
        conversion = between(tools, find(source), find(target))
        self._client_names = conversion.names
        session: Message = {
            "instructions": instructions,
            "tools": [tool for tool in conversion.tools if isinstance(tool, dict) and tool.get("type") == "function"],
            "output_modalities": ["text"] if self.text_only else ["audio"],
        }
        if self.language:
            session["audio"] = {"input": {"transcription": {"language": self.language}}}
        return session


def _detection_settings(detection: Message) -> DetectionSettings:
    """Convert a client's settings for Gemini's detection to settings of the gateway's voice activity detection."""
    is_start_low = text(detection, "startOfSpeechSensitivity").endswith("_LOW")
    is_end_low = text(detection, "endOfSpeechSensitivity").endswith("_LOW")
    return DetectionSettings(
        threshold=_QUIET_THRESHOLD if is_start_low else 0.5,
        prefix_padding_ms=_clamp(detection, "prefixPaddingMs", 0, 5000, 300),
        silence_duration_ms=_clamp(
            detection, "silenceDurationMs", 100, 10_000, _LONG_SILENCE_MS if is_end_low else 500
        ),
    )


def _clamp(detection: Message, name: str, lower: int, upper: int, default: int) -> int:
    value = detection.get(key(detection, name))
    return min(max(value, lower), upper) if isinstance(value, int) and not isinstance(value, bool) else default


def _system_instruction(config: Message) -> str:
    """Text of `systemInstruction`, which may be a content or a string."""
    plain_text = text(config, "systemInstruction")
    parts = members(member(config, "systemInstruction"), "parts")
    return plain_text or "\n".join(text(part, "text") for part in parts if text(part, "text"))
