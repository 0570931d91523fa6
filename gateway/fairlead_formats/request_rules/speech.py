"""Rules of OpenAI Realtime (general availability) and Gemini Live. Pure module.

Realtime answers an event that breaks a rule with an `error`, and the session continues. Gemini Live closes the
connection.
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import INVALID_ARGUMENT, ApiFamily, RequestRule

_GITHUB: Final = "https://github.com"
_EVENTS: Final = "https://platform.openai.com/docs/api-reference/realtime-client-events"
_LIVE: Final = "https://ai.google.dev/api/live"
_LIVE_TOOLS: Final = "https://ai.google.dev/gemini-api/docs/live-tools"
_LIVE_SESSIONS: Final = "https://ai.google.dev/gemini-api/docs/live-session"
_TOOL: Final = "session.tools[{index}]"
BAD_ARGUMENT: Final = 1007
UNSUPPORTED: Final = 1008
INTERNAL: Final = 1011


def _event(name: str, rejects: str, code: str, message: str, source: str, param: str | None = None) -> RequestRule:
    return RequestRule(f"realtime-{name}", ApiFamily.REALTIME, rejects, message, source, param, code)


def _live(name: str, rejects: str, message: str, source: str, status: int = BAD_ARGUMENT) -> RequestRule:
    return RequestRule(f"live-{name}", ApiFamily.LIVE, rejects, message, source, type=INVALID_ARGUMENT, status=status)


SPEECH_RULES: Final = (
    _event(
        "event-type",
        "an event of a type that the API does not define",
        "invalid_value",
        "Invalid value: {name!r}.",
        _EVENTS,
        "type",
    ),
    _event(
        "session-type",
        "a `session.update` without `session.type`",
        "missing_required_parameter",
        "Missing required parameter: 'session.type'.",
        "openai.types.realtime.RealtimeSessionCreateRequest.type",
        "session.type",
    ),
    _event(
        "model",
        "another model for a session that has begun",
        "cannot_update_model",
        "The model of a session cannot be changed.",
        "openai.types.realtime.SessionUpdateEvent",
        "session.model",
    ),
    _event(
        "voice",
        "another voice after the first audio of the model",
        "cannot_update_voice",
        "The voice of a session cannot be changed once the model has spoken.",
        "openai.types.realtime.SessionUpdateEvent",
        "session.audio.output.voice",
    ),
    _event(
        "modalities",
        '`output_modalities` other than `["audio"]` or `["text"]`',
        "invalid_value",
        "Invalid modalities: {modalities}. Supported combinations are: ['text'] and ['audio'].",
        "openai.types.realtime.RealtimeSessionCreateRequest.output_modalities",
        "session.output_modalities",
    ),
    _event(
        "tool-member",
        "a tool with a member other than `type`, `name`, `description` and `parameters`, such as `strict`",
        "unknown_parameter",
        f"Unknown parameter: '{_TOOL}.{{name}}'.",
        f"{_GITHUB}/livekit/agents/issues/3398",
        f"{_TOOL}.{{name}}",
    ),
    _event(
        "tool-name",
        "a tool's name that does not match `^[a-zA-Z0-9_-]{1,64}$`",
        "invalid_value",
        f"Invalid '{_TOOL}.name': {{name!r}} does not match the pattern '^[a-zA-Z0-9_-]{{{{1,64}}}}$'.",
        "openai.types.realtime.RealtimeFunctionTool.name",
        f"{_TOOL}.name",
    ),
    _event(
        "tool-description",
        "a description of more than 1,024 characters",
        "string_above_max_length",
        f"Invalid '{_TOOL}.description': string too long. At most 1024 characters are allowed, it has {{length}}.",
        f"{_GITHUB}/livekit/agents/issues/1183",
        f"{_TOOL}.description",
    ),
    _event(
        "schema-root",
        'a schema whose root does not have `"type": "object"`',
        "invalid_function_parameters",
        "Invalid schema for function '{name}': the schema must be of 'type: \"object\"', its type is '{type}'.",
        "openai.types.realtime.RealtimeFunctionTool.parameters",
        f"{_TOOL}.parameters",
    ),
    _event(
        "tool-choice",
        "a `tool_choice` that names a function that the session does not have",
        "invalid_value",
        "Tool choice {name!r} is not in the tools of the session.",
        "openai.types.responses.ToolChoiceFunction",
        "session.tool_choice",
    ),
    _event(
        "input-setting",
        "a setting of `audio.input` that the session cannot have",
        "invalid_value",
        "{name} cannot be set in this session.",
        "openai.types.realtime.RealtimeAudioConfigInput",
        "session.audio.input.{name}",
    ),
    _event(
        "empty-buffer",
        "`input_audio_buffer.commit` of an empty buffer",
        "input_audio_buffer_commit_empty",
        "Error committing input audio buffer: the buffer is empty.",
        f"{_EVENTS}/input_audio_buffer/commit",
    ),
    _event(
        "output-without-call",
        "a `function_call_output` without a call that waits for it",
        "item_create_invalid_tool_call_id",
        "Tool call ID not found in conversation.",
        f"{_EVENTS}/conversation/item/create",
        "item.call_id",
    ),
    _event(
        "output-text",
        "a `function_call_output` whose `output` is not a string",
        "invalid_type",
        "Invalid type for 'item.output': a string is expected.",
        "openai.types.realtime.RealtimeConversationItemFunctionCallOutput.output",
        "item.output",
    ),
    _event(
        "active-response",
        "`response.create` while a response of the conversation is in progress",
        "conversation_already_has_active_response",
        "Conversation already has an active response in progress.",
        f"{_GITHUB}/openai/openai-agents-python/issues/2760",
    ),
    _event(
        "cancel",
        "`response.cancel` without a response in progress",
        "response_cancel_not_active",
        "Cancellation failed: no active response found",
        f"{_EVENTS}/response/cancel",
    ),
    _live("setup", "a first message other than `setup`", "the first message must be setup", _LIVE),
    _live(
        "model",
        "a model that the Live API does not have",
        "{model} is not supported for bidiGenerateContent",
        _LIVE,
        UNSUPPORTED,
    ),
    _live(
        "member",
        "a message that the API does not define",
        "Invalid JSON payload received. Unknown name {name!r}",
        _LIVE,
    ),
    _live(
        "function",
        "a function with a member that the API does not define, with a name that Gemini does not accept for functions, "
        "or with the name of another function",
        "bad function declaration {name!r} {unknown}",
        "google.genai.types.FunctionDeclaration",
    ),
    _live(
        "behavior",
        "a `behavior` that the model's calls cannot have",
        "behavior is not supported for this model",
        _LIVE_TOOLS,
    ),
    _live(
        "context-update",
        "`contextUpdate` for models before 3.8",
        "contextUpdate is not supported for this model",
        "google.genai.types.LiveClientMessage.context_update",
        UNSUPPORTED,
    ),
    _live(
        "content-late",
        "`clientContent` to a 3.1 model after its first answer",
        "Request contains an invalid argument.",
        f"{_GITHUB}/livekit/agents/issues/5496",
    ),
    _live(
        "activity",
        "`activityStart` or `activityEnd` while the server detects activity",
        "Explicit activity control is not supported when automatic activity detection is enabled.",
        f"{_LIVE}#ActivityStart",
    ),
    _live(
        "response-without-call",
        "a function response without a call that waits for it, or whose `response` is not an object",
        "no call {id!r} waits for a response",
        f"{_GITHUB}/livekit/agents/issues/6569",
    ),
    _live(
        "handle",
        "a handle that the API did not issue",
        "unknown session handle",
        _LIVE_SESSIONS,
    ),
    _live(
        "handle-open",
        "a handle of a session whose connection is open",
        "the session is open over another connection",
        f"{_GITHUB}/aicc2025/sip-to-ai/issues/14",
        INTERNAL,
    ),
)
