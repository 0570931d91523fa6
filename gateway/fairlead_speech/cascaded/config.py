"""Configuration of a session with a cascaded engine. Clients change it by `session.update`. Does no I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_mcp.misread_values import explain_misreading
from fairlead_models.cascaded_engines import CascadedProvider
from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.input_audio import DetectionSettings, detection_settings
from fairlead_speech.realtime.events import Event, member, members, text
from fairlead_speech.session import SESSION_SECONDS

MAX_CONFIG_BYTES: Final = 1 << 20
"""Maximum number of bytes of a session's configuration, of which instructions and tools are the largest part."""
_PCM: Final = {"type": "audio/pcm", "rate": RATE}
_SETTABLE_MEMBERS: Final = frozenset(
    {
        "instructions",
        "tools",
        "tool_choice",
        "output_modalities",
        "max_output_tokens",
        "tracing",
        "prompt",
        "truncation",
        "include",
        "parallel_tool_calls",
        "reasoning",
    }
)
"""Members that a client may set. Those listed after `max_output_tokens` are stored but have no effect."""
_FUNCTION_MEMBERS: Final = ("name", "description", "parameters")
_encode: Final = msgspec.json.encode


class BadEvent(Exception):
    """Invalid event of a client, which is answered with an `error`."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class SessionConfig:
    """Current configuration of one session."""

    def __init__(self, ident: str, model: str, provider: CascadedProvider) -> None:
        self.detection: DetectionSettings | None = DetectionSettings()
        """Settings of the detection of turns; None if the client marks the end of turns."""
        self.session: Event = {
            "type": "realtime",
            "object": "realtime.session",
            "id": ident,
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "expires_at": int(time.time()) + SESSION_SECONDS,
            "audio": {
                "input": {
                    "format": _PCM,
                    "noise_reduction": None,
                    "transcription": {"model": provider.stt.model},
                    "turn_detection": {"type": "server_vad", **msgspec.to_builtins(self.detection)},
                },
                "output": {"format": _PCM, "voice": provider.tts.voice, "speed": 1.0},
            },
        }

    @property
    def tool_names(self) -> list[str]:
        """Names of the model's functions."""
        return [text(tool, "name") for tool in members(self.session, "tools")]

    @property
    def voice(self) -> str:
        """Voice of the speech."""
        return text(member(member(self.session, "audio"), "output"), "voice")

    @property
    def speed(self) -> float:
        """Speed of the speech, relative to the normal speed of the voice."""
        return float(member(member(self.session, "audio"), "output").get("speed", 1.0))

    @property
    def transcribes(self) -> bool:
        """Whether the client receives transcripts of the user's audio."""
        return bool(self._input_config.get("transcription"))

    @property
    def language(self) -> str:
        """Language that the client set for transcription; empty: none."""
        return text(member(self._input_config, "transcription"), "language")

    @property
    def _input_config(self) -> Event:
        return member(member(self.session, "audio"), "input")

    def update(self, session: Event, *, voice_fixed: bool) -> bool:
        """Apply a client's `session.update`. An invalid update raises BadEvent and changes nothing. `voice_fixed`:
        whether the voice cannot be changed any more. Returns whether the settings of the turn detection changed.
        """
        if session.get("type") != "realtime":
            raise BadEvent("missing_required_parameter", "session.type must be realtime", "session.type")
        if session.get("model", self.session["model"]) != self.session["model"]:
            raise BadEvent("cannot_update_model", "the model of a session cannot be changed", "session.model")
        new_session = {**self.session, **{name: value for name, value in session.items() if name in _SETTABLE_MEMBERS}}
        audio = member(session, "audio")
        input_config = {**self._input_config, **member(audio, "input")}
        output_config = {**member(member(self.session, "audio"), "output"), **member(audio, "output")}
        new_session["audio"] = {"input": input_config, "output": output_config}
        detection = _check(new_session, input_config, output_config)
        if voice_fixed and output_config["voice"] != self.voice:
            raise BadEvent(
                "cannot_update_voice",
                "the voice of a session cannot be changed after its first audio",
                "session.audio.output.voice",
            )
        detection_changed = detection != self.detection
        self.session = new_session
        self.detection = detection
        return detection_changed


def _check(new_session: Event, input_config: Event, output_config: Event) -> DetectionSettings | None:
    """Check a configuration. Returns its turn detection. Raises BadEvent."""
    for direction, direction_config in (("input", input_config), ("output", output_config)):
        audio_format = direction_config.get("format")
        if (
            not isinstance(audio_format, dict)
            or audio_format.get("type") != "audio/pcm"
            or audio_format.get("rate", RATE) != RATE
        ):
            raise BadEvent(
                "invalid_value", f"format must be audio/pcm with {RATE} Hz", f"session.audio.{direction}.format"
            )
    if not isinstance(output_config.get("voice"), str) or not 0 < len(output_config["voice"]) <= 128:
        raise BadEvent("invalid_value", "voice must be a name of 1 to 128 characters", "session.audio.output.voice")
    speed = output_config.get("speed")
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0.25 <= speed <= 1.5:
        raise BadEvent("invalid_value", "speed must be a number from 0.25 to 1.5", "session.audio.output.speed")
    if new_session["output_modalities"] not in (["audio"], ["text"]):
        raise BadEvent("invalid_value", "output_modalities must be [audio] or [text]", "session.output_modalities")
    for number, tool in enumerate(members(new_session, "tools")):
        if tool.get("type") != "function" or not text(tool, "name"):
            message = "tools must be of type function and have a name"
            raise BadEvent("invalid_value", message, f"session.tools[{number}]")
    if len(_encode(new_session)) > MAX_CONFIG_BYTES:
        message = f"the configuration of a session may have at most {MAX_CONFIG_BYTES >> 20} MiB"
        raise BadEvent("string_above_max_length", message)
    detection = input_config.get("turn_detection")
    if detection is None:
        return None
    try:
        return detection_settings(detection if isinstance(detection, Mapping) else {"type": None})
    except msgspec.MsgspecError as error:
        message = explain_misreading(error, "turn_detection")
        raise BadEvent("invalid_value", message, "session.audio.input.turn_detection") from error
    except ValueError as error:
        raise BadEvent("invalid_value", str(error), "session.audio.input.turn_detection") from error


def chat_tools(tools: list[Event]) -> list[dict[str, Any]]:
    """Convert functions to the format of Chat Completions. That API refuses an object schema without `properties`, so
    the member is added.
    """
    functions = [{name: tool[name] for name in _FUNCTION_MEMBERS if name in tool} for tool in tools]
    for function in functions:
        parameters = function.get("parameters")
        if isinstance(parameters, dict) and "properties" not in parameters:
            function["parameters"] = {**parameters, "properties": {}}
    return [{"type": "function", "function": function} for function in functions]


def chat_choice(choice: object) -> object:
    """Convert `tool_choice` to the format of Chat Completions."""
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": text(choice, "name")}}
    return choice if choice in ("none", "required") else "auto"
