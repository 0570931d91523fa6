"""Events that OpenAI Realtime (general availability) rejects: it answers with an `error`, and the session continues.

Pure module.
"""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import ApiFamily, ApiRules, RequestRule

_GITHUB: Final = "https://github.com"
_EVENTS: Final = "https://platform.openai.com/docs/api-reference/realtime-client-events"
_TOOL: Final = "session.tools[{index}]"


def _rule(name: str, rejects: str, code: str, message: str, source: str, param: str | None = None) -> RequestRule:
    return RequestRule(f"realtime-{name}", ApiFamily.REALTIME, rejects, message, source, param, code)


_RULES: Final = (
    _rule(
        "event-type",
        "an event of a type that the API does not define",
        "invalid_value",
        "Invalid value: {name!r}.",
        _EVENTS,
        "type",
    ),
    _rule(
        "session-type",
        "a `session.update` without `session.type`",
        "missing_required_parameter",
        "Missing required parameter: 'session.type'.",
        "openai.types.realtime.RealtimeSessionCreateRequest.type",
        "session.type",
    ),
    _rule(
        "model",
        "another model for a session that has begun",
        "cannot_update_model",
        "The model of a session cannot be changed.",
        "openai.types.realtime.SessionUpdateEvent",
        "session.model",
    ),
    _rule(
        "voice",
        "another voice after the first audio of the model",
        "cannot_update_voice",
        "The voice of a session cannot be changed once the model has spoken.",
        "openai.types.realtime.SessionUpdateEvent",
        "session.audio.output.voice",
    ),
    _rule(
        "modalities",
        '`output_modalities` other than `["audio"]` or `["text"]`',
        "invalid_value",
        "Invalid modalities: {modalities}. Supported combinations are: ['text'] and ['audio'].",
        "openai.types.realtime.RealtimeSessionCreateRequest.output_modalities",
        "session.output_modalities",
    ),
    _rule(
        "tool-member",
        "a tool with a member other than `type`, `name`, `description` and `parameters`, such as `strict`",
        "unknown_parameter",
        f"Unknown parameter: '{_TOOL}.{{name}}'.",
        f"{_GITHUB}/livekit/agents/issues/3398",
        f"{_TOOL}.{{name}}",
    ),
    _rule(
        "tool-name",
        "a tool's name that does not match `^[a-zA-Z0-9_-]{1,64}$`",
        "invalid_value",
        f"Invalid '{_TOOL}.name': {{name!r}} does not match the pattern '^[a-zA-Z0-9_-]{{{{1,64}}}}$'.",
        "openai.types.realtime.RealtimeFunctionTool.name",
        f"{_TOOL}.name",
    ),
    _rule(
        "tool-description",
        "a description of more than 1,024 characters",
        "string_above_max_length",
        f"Invalid '{_TOOL}.description': string too long. At most 1024 characters are allowed, it has {{length}}.",
        f"{_GITHUB}/livekit/agents/issues/1183",
        f"{_TOOL}.description",
    ),
    _rule(
        "schema-root",
        'a schema whose root does not have `"type": "object"`',
        "invalid_function_parameters",
        "Invalid schema for function '{name}': the schema must be of 'type: \"object\"', its type is '{type}'.",
        "openai.types.realtime.RealtimeFunctionTool.parameters",
        f"{_TOOL}.parameters",
    ),
    _rule(
        "tool-choice",
        "a `tool_choice` that names a function that the session does not have",
        "invalid_value",
        "Tool choice {name!r} is not in the tools of the session.",
        "openai.types.responses.ToolChoiceFunction",
        "session.tool_choice",
    ),
    _rule(
        "input-setting",
        "a setting of `audio.input` that the session cannot have",
        "invalid_value",
        "{name} cannot be set in this session.",
        "openai.types.realtime.RealtimeAudioConfigInput",
        "session.audio.input.{name}",
    ),
    _rule(
        "empty-buffer",
        "`input_audio_buffer.commit` of an empty buffer",
        "input_audio_buffer_commit_empty",
        "Error committing input audio buffer: the buffer is empty.",
        f"{_EVENTS}/input_audio_buffer/commit",
    ),
    _rule(
        "output-without-call",
        "a `function_call_output` without a call that waits for it",
        "item_create_invalid_tool_call_id",
        "Tool call ID not found in conversation.",
        f"{_EVENTS}/conversation/item/create",
        "item.call_id",
    ),
    _rule(
        "output-text",
        "a `function_call_output` whose `output` is not a string",
        "invalid_type",
        "Invalid type for 'item.output': a string is expected.",
        "openai.types.realtime.RealtimeConversationItemFunctionCallOutput.output",
        "item.output",
    ),
    _rule(
        "active-response",
        "`response.create` while a response of the conversation is in progress",
        "conversation_already_has_active_response",
        "Conversation already has an active response in progress.",
        f"{_GITHUB}/openai/openai-agents-python/issues/2760",
    ),
    _rule(
        "cancel",
        "`response.cancel` without a response in progress",
        "response_cancel_not_active",
        "Cancellation failed: no active response found",
        f"{_EVENTS}/response/cancel",
    ),
)
REALTIME_RULES: Final = ApiRules("realtime", _RULES)
