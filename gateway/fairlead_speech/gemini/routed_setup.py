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
_HEARD, _SAID = "inputAudioTranscription", "outputAudioTranscription"
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:-|$)")
_QUIET_THRESHOLD: Final = 0.75
"""For clients that want less to count as speech; 0.5 else."""
_LONG_SILENCE_MS: Final = 900
"""For clients that want pauses not to end a turn; 500 else."""


class RoutedSetup:
    """Setup of one session."""

    def __init__(self, setup: Message) -> None:
        self._setup = setup
        heard = member(setup, _INPUT)
        found = member(heard, _DETECTION)
        self.detection = None if found.get("disabled") is True else _settings(found)
        """How turns are found here; None: the client says where they begin and end."""
        self.interrupts = text(heard, "activityHandling") != "NO_INTERRUPTION"
        """Whether the user's speech ends an answer."""
        self.shows_heard = setup.get(key(setup, _HEARD)) is not None
        """Whether the client wants transcripts of the user."""
        self.shows_said = setup.get(key(setup, _SAID)) is not None
        """Whether the client wants transcripts of the model."""
        generated = member(setup, "generationConfig")
        self.written = generated.get(key(generated, "responseModalities")) == ["TEXT"]
        """Whether the client wants answers in writing."""
        self._instructions = _words(setup)
        self._tools = members(setup, "tools")
        self._engine: tuple[object, object, Message] | None = None
        """Instructions and tools of the client, and what an engine gets for them."""
        self._names: dict[str, str] = {}

    def outgoing(self) -> Message:
        """The setup as the provider gets it."""
        heard, name = member(self._setup, _INPUT), key(self._setup, _INPUT)
        others = {each: value for each, value in heard.items() if each != key(heard, _DETECTION)}
        found = {**self._setup, name: {**others, _DETECTION: {"disabled": True}}}
        if not self.shows_heard:
            found[key(found, _HEARD)] = {}
        if not self.shows_said and not self.written:
            found[key(found, _SAID)] = {}
        return found

    def updated(self, message: Message) -> None:
        """Take a client's `contextUpdate`, which the provider got."""
        update = member(message, "contextUpdate")
        if has(update, "systemInstruction"):
            self._instructions = _words(update)
        if has(update, "tools"):
            self._tools = members(member(update, "tools"), "tools")

    @property
    def language(self) -> str:
        """Language that the client named, by ISO 639-1; empty: none."""
        speech = member(member(self._setup, "generationConfig"), "speechConfig")
        found = _LANGUAGE.match(text(speech, "languageCode").lower())
        return found[1] if found is not None else ""

    def for_engine(self) -> Message:
        """Members of an engine's session in the form of OpenAI Realtime. It takes its time where there are many tools:
        once for each change.
        """
        instructions, tools, kept = self._instructions, self._tools, self._engine  # they may change meanwhile
        if kept is None or kept[0] is not instructions or kept[1] is not tools:
            kept = self._engine = instructions, tools, self._configured(instructions, tools)
        return kept[2]

    def client_name(self, name: str) -> str:
        """Name of a function of the client's, by that which the engine has for it."""
        return self._names.get(name, name)

    def _configured(self, instructions: str, tools: list[Message]) -> Message:
        source, target = FUNCTIONS
        found = between(tools, find(source), find(target))
        self._names = found.names
        said: Message = {
            "instructions": instructions,
            "tools": [tool for tool in found.tools if isinstance(tool, dict) and tool.get("type") == "function"],
            "output_modalities": ["text"] if self.written else ["audio"],
        }
        if self.language:
            said["audio"] = {"input": {"transcription": {"language": self.language}}}
        return said


def _settings(said: Message) -> DetectionSettings:
    """Settings of the voice activity detection here, by those that a client has for the provider's."""
    low = text(said, "startOfSpeechSensitivity").endswith("_LOW")
    late = text(said, "endOfSpeechSensitivity").endswith("_LOW")
    return DetectionSettings(
        threshold=_QUIET_THRESHOLD if low else 0.5,
        prefix_padding_ms=_bounded(said, "prefixPaddingMs", 0, 5000, 300),
        silence_duration_ms=_bounded(said, "silenceDurationMs", 100, 10_000, _LONG_SILENCE_MS if late else 500),
    )


def _bounded(said: Message, name: str, least: int, most: int, default: int) -> int:
    found = said.get(key(said, name))
    return min(max(found, least), most) if isinstance(found, int) and not isinstance(found, bool) else default


def _words(place: Message) -> str:
    """Text of `systemInstruction`: a content, or a text alone."""
    plain = text(place, "systemInstruction")
    parts = members(member(place, "systemInstruction"), "parts")
    return plain or "\n".join(text(part, "text") for part in parts if text(part, "text"))
