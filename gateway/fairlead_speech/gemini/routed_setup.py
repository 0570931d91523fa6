"""Setup of a Gemini Live session that is routed: as its client wants it, and as its provider gets it. Pure module.

The provider is to find no turns by itself, and to make transcripts of both sides. Source: Live API reference,
RealtimeInputConfig and AutomaticActivityDetection.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead_formats.registry import find
from fairlead_formats.tools.between import between
from fairlead_speech.cascaded.input_audio import DetectionSettings
from fairlead_speech.gemini.messages import Message, has, key, member, members, text

FUNCTIONS: Final = "gemini-live", "openai-realtime"
"""Formats of a client's functions: its own, and that of an engine."""
_INPUT: Final = "realtimeInputConfig"
_DETECTION: Final = "automaticActivityDetection"
_INPUT_TRANSCRIPTION, _OUTPUT_TRANSCRIPTION = "inputAudioTranscription", "outputAudioTranscription"
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:-|$)")
_QUIET_THRESHOLD: Final = 0.75
"""For clients that want less to count as speech; 0.5 else."""
_LONG_SILENCE_MS: Final = 900
"""For clients that want pauses not to end a turn; 500 else."""


class RoutedSetup:
    """Setup of one session."""

    def __init__(self, setup: Message) -> None:
        self._setup = setup
        input_config = member(setup, _INPUT)
        detection = member(input_config, _DETECTION)
        self.detection = None if detection.get("disabled") is True else _settings(detection)
        """How turns are found here; None: the client says where they begin and end."""
        self.interrupts = text(input_config, "activityHandling") != "NO_INTERRUPTION"
        """Whether the user's speech ends an answer."""
        self.shows_input = setup.get(key(setup, _INPUT_TRANSCRIPTION)) is not None
        """Whether the client wants transcripts of the user."""
        self.shows_output = setup.get(key(setup, _OUTPUT_TRANSCRIPTION)) is not None
        """Whether the client wants transcripts of the model."""
        generated = member(setup, "generationConfig")
        self.text_only = generated.get(key(generated, "responseModalities")) == ["TEXT"]
        """Whether the client wants answers in writing."""
        self._instructions = _system_instruction(setup)
        self._tools = members(setup, "tools")
        self._engine_session: tuple[object, object, Message] | None = None
        """Instructions and tools of the client, and what an engine gets for them."""
        self._names: dict[str, str] = {}

    def for_provider(self) -> Message:
        """The setup as the provider gets it."""
        input_config, name = member(self._setup, _INPUT), key(self._setup, _INPUT)
        others = {each: value for each, value in input_config.items() if each != key(input_config, _DETECTION)}
        sent = {**self._setup, name: {**others, _DETECTION: {"disabled": True}}}
        if not self.shows_input:
            sent[key(sent, _INPUT_TRANSCRIPTION)] = {}
        if not self.shows_output and not self.text_only:
            sent[key(sent, _OUTPUT_TRANSCRIPTION)] = {}
        return sent

    def update(self, message: Message) -> None:
        """Take a client's `contextUpdate`, which the provider got."""
        update = member(message, "contextUpdate")
        if has(update, "systemInstruction"):
            self._instructions = _system_instruction(update)
        if has(update, "tools"):
            self._tools = members(member(update, "tools"), "tools")

    @property
    def language(self) -> str:
        """Language that the client named, by ISO 639-1; empty: none."""
        speech = member(member(self._setup, "generationConfig"), "speechConfig")
        match = _LANGUAGE.match(text(speech, "languageCode").lower())
        return match[1] if match is not None else ""

    def for_engine(self) -> Message:
        """Members of an engine's session in the form of OpenAI Realtime. It takes its time where there are many tools:
        once for each change.
        """
        instructions, tools, session = (
            self._instructions,
            self._tools,
            self._engine_session,
        )  # they may change meanwhile
        if session is None or session[0] is not instructions or session[1] is not tools:
            session = self._engine_session = instructions, tools, self._build_engine_session(instructions, tools)
        return session[2]

    def client_name(self, name: str) -> str:
        """Name of a function of the client's, by that which the engine has for it."""
        return self._names.get(name, name)

    def _build_engine_session(self, instructions: str, tools: list[Message]) -> Message:
        source, target = FUNCTIONS
        converted = between(tools, find(source), find(target))
        self._names = converted.names
        session: Message = {
            "instructions": instructions,
            "tools": [tool for tool in converted.tools if isinstance(tool, dict) and tool.get("type") == "function"],
            "output_modalities": ["text"] if self.text_only else ["audio"],
        }
        if self.language:
            session["audio"] = {"input": {"transcription": {"language": self.language}}}
        return session


def _settings(detection: Message) -> DetectionSettings:
    """Settings of the voice activity detection here, by those that a client has for the provider's."""
    low = text(detection, "startOfSpeechSensitivity").endswith("_LOW")
    late = text(detection, "endOfSpeechSensitivity").endswith("_LOW")
    return DetectionSettings(
        threshold=_QUIET_THRESHOLD if low else 0.5,
        prefix_padding_ms=_clamped(detection, "prefixPaddingMs", 0, 5000, 300),
        silence_duration_ms=_clamped(detection, "silenceDurationMs", 100, 10_000, _LONG_SILENCE_MS if late else 500),
    )


def _clamped(detection: Message, name: str, least: int, most: int, default: int) -> int:
    value = detection.get(key(detection, name))
    return min(max(value, least), most) if isinstance(value, int) and not isinstance(value, bool) else default


def _system_instruction(config: Message) -> str:
    """Text of `systemInstruction`: a content, or a text alone."""
    plain = text(config, "systemInstruction")
    parts = members(member(config, "systemInstruction"), "parts")
    return plain or "\n".join(text(part, "text") for part in parts if text(part, "text"))
