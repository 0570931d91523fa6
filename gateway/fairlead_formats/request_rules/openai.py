"""Rules of OpenAI's Chat Completions and Responses. Pure module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead_formats.request_rules.rule import ApiFamily, RequestRule

_REFERENCE: Final = "https://platform.openai.com/docs/api-reference"
_FUNCTIONS: Final = "https://platform.openai.com/docs/guides/function-calling"
_STRICT: Final = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
_ITEMS: Final = "https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context"
_GITHUB: Final = "https://github.com"
_SCHEMA_CODE: Final = "invalid_function_parameters"
_SCHEMA: Final = "Invalid schema for function '{name}': "
_IN_CONTEXT: Final = f"{_SCHEMA}In context={{context}}, "


def _shared_rules(api: ApiFamily, prefix: str, function: str) -> Iterator[RequestRule]:
    """Rules about tools, which both APIs have. `function`: path from a tool to the members of its function, such as
    `function.`; empty if the tool has them itself.
    """
    at = f"tools[{{index}}].{function}"

    def rule(
        name: str, rejects: str, message: str, source: str, param: str | None, code: str | None = None
    ) -> RequestRule:
        return RequestRule(f"{prefix}-{name}", api, rejects, message, source, param, code)

    def schema(name: str, rejects: str, message: str, source: str) -> RequestRule:
        return rule(name, rejects, message, source, f"{at}parameters", _SCHEMA_CODE)

    yield rule(
        "tool-name",
        "a tool's name with characters other than `a-z`, `A-Z`, `0-9`, `_` and `-`",
        f"Invalid '{at}name': {{name!r}} does not match the pattern '^[a-zA-Z0-9_-]+$'.",
        "openai.types.shared_params.FunctionDefinition.name",
        f"{at}name",
        "invalid_value",
    )
    yield rule(
        "tool-name-length",
        "a tool's name of more than 64 characters",
        f"Invalid '{at}name': string too long. At most 64 characters are allowed, the string has {{length}}.",
        "openai.types.shared_params.FunctionDefinition.name",
        f"{at}name",
        "string_above_max_length",
    )
    yield rule(
        "tool-names-unique",
        "two tools with the same name (reported for an API similar to OpenAI's)",
        "Invalid 'tools': the function name {name!r} is not unique.",
        "https://github.com/odysseus-dev/odysseus/issues/6010",
        "tools",
        "invalid_value",
    )
    yield rule(
        "tool-count",
        "more than 128 tools",
        "Invalid 'tools': array too long. At most 128 elements are allowed, the array has {length}.",
        f"{_GITHUB}/vishalmysore/Tools4AI/issues/16",
        "tools",
        "array_above_max_length",
    )
    yield schema(
        "schema-root",
        'a schema whose root does not have `"type": "object"`',
        f"{_SCHEMA}the schema must be of 'type: \"object\"', its type is '{{type}}'.",
        f"{_GITHUB}/vercel/ai/issues/1485",
    )
    yield schema(
        "schema-valid",
        'a schema that is not valid in JSON Schema draft 2020-12, such as a schema with `"required": null`',
        f"{_SCHEMA}{{why}}.",
        f"{_GITHUB}/yomorun/yomo/pull/860",
    )
    yield schema(
        "schema-properties",
        "an object at the root of a schema without `properties`",
        f"{_IN_CONTEXT}object schema has no properties.",
        f"{_GITHUB}/spring-projects/spring-ai/issues/4776",
    )
    yield schema(
        "schema-items",
        "an array in a schema without `items`",
        f"{_IN_CONTEXT}array schema has no items.",
        f"{_GITHUB}/modelscope/ms-agent/pull/610",
    )
    yield schema(
        "schema-pattern",
        "a `pattern`, or a name in `patternProperties`, that Python's `re` does not compile",
        f"{_IN_CONTEXT}{{pattern!r}} is not a 'regex'.",
        f"{_GITHUB}/bman654/clodex/pull/203",
    )
    yield schema(
        "strict-closed",
        'an object of a strict schema without `"additionalProperties": false`',
        f"{_IN_CONTEXT}'additionalProperties' is required, and has to be false.",
        _STRICT,
    )
    yield schema(
        "strict-required",
        "a property of a strict schema that is not in `required`",
        f"{_IN_CONTEXT}'required' has to be an array with every key of properties. {{missing!r}} is not in it.",
        _STRICT,
    )
    yield schema(
        "strict-keyword",
        "a keyword that strict schemas do not support, such as `allOf`",
        f"{_IN_CONTEXT}{{keyword!r}} is not permitted.",
        _STRICT,
    )
    yield schema(
        "strict-type",
        "a strict schema without `type`, `anyOf`, `$ref`, `enum` or `const`",
        f"{_IN_CONTEXT}a schema needs a 'type' key.",
        _STRICT,
    )
    yield rule(
        "tool-choice",
        "a `tool_choice` that names a tool that is not in `tools`",
        "Tool choice {name!r} is not in the 'tools' parameter.",
        f"{_REFERENCE}/{'chat' if api is ApiFamily.CHAT else 'responses'}/create",
        "tool_choice",
    )


_CHAT: Final = (
    RequestRule(
        "chat-member",
        ApiFamily.CHAT,
        "the gateway's own member `fairlead`",
        "Unrecognized request argument supplied: {name}",
        f"{_GITHUB}/openai/openai-python/issues/863",
    ),
    RequestRule(
        "chat-messages",
        ApiFamily.CHAT,
        "a request without messages",
        "Invalid 'messages': empty array. At least 1 element is needed.",
        f"{_REFERENCE}/chat/create",
        "messages",
        "empty_array",
    ),
    *_shared_rules(ApiFamily.CHAT, "chat", "function."),
    RequestRule(
        "chat-tools-empty",
        ApiFamily.CHAT,
        "an empty array of tools",
        "Invalid 'tools': empty array. At least 1 element is needed.",
        f"{_REFERENCE}/chat/create",
        "tools",
        "empty_array",
    ),
    RequestRule(
        "chat-choice-without-tools",
        ApiFamily.CHAT,
        "`tool_choice` or `parallel_tool_calls` without `tools`",
        "Invalid value for '{name}': '{name}' is only allowed together with 'tools'.",
        f"{_GITHUB}/dapr/dapr-agents/issues/248",
        "{name}",
    ),
    RequestRule(
        "chat-functions-empty",
        ApiFamily.CHAT,
        "an empty array of `functions`",
        "Invalid 'functions': empty array. At least 1 element is needed.",
        f"{_REFERENCE}/chat/create",
        "functions",
        "empty_array",
    ),
    RequestRule(
        "chat-choice-without-functions",
        ApiFamily.CHAT,
        "`function_call` without `functions`",
        "Invalid value for 'function_call': it is only allowed together with 'functions'.",
        f"{_GITHUB}/PlexPt/chatgpt-java/issues/150",
        "function_call",
    ),
    RequestRule(
        "chat-content",
        ApiFamily.CHAT,
        "an assistant's message with neither content nor calls",
        "Invalid value for 'content': a string is expected, and null was sent.",
        f"{_REFERENCE}/chat/create",
        "messages.[{index}].content",
    ),
    RequestRule(
        "chat-tool-message",
        ApiFamily.CHAT,
        "a message of the role `tool` that answers no call of the assistant's message before it",
        "Invalid parameter: a message with role 'tool' must answer a preceding message with 'tool_calls'.",
        _FUNCTIONS,
        "messages.[{index}].role",
    ),
    RequestRule(
        "chat-missing-output",
        ApiFamily.CHAT,
        "calls that are not answered before the next message of another role",
        "An assistant message with 'tool_calls' must be followed by a tool message for each 'tool_call_id'. "
        "There is none for: {ids}",
        _FUNCTIONS,
        "messages.[{index}].role",
    ),
    RequestRule(
        "chat-call-ids-unique",
        ApiFamily.CHAT,
        "two calls, or two answers, with the same id in one turn",
        "Invalid parameter: 'tool_call_id' of {id!r} is there twice, in messages[{first}] and messages[{index}].",
        f"{_GITHUB}/agno-agi/agno/issues/5116",
        "messages.[{index}].tool_call_id",
    ),
)
_RESPONSES: Final = (
    RequestRule(
        "responses-member",
        ApiFamily.RESPONSES,
        "the gateway's own member `fairlead`; for `/compact` and `/input_tokens`, any member that they do not define",
        "Unknown parameter: '{name}'.",
        f"{_REFERENCE}/responses/create",
        "{name}",
        "unknown_parameter",
    ),
    RequestRule(
        "responses-previous",
        ApiFamily.RESPONSES,
        "a `previous_response_id` that is not the id of a stored response",
        "Previous response with id '{id}' not found.",
        f"{_REFERENCE}/responses/create#previous_response_id",
        "previous_response_id",
        "previous_response_not_found",
    ),
    RequestRule(
        "responses-conversation",
        ApiFamily.RESPONSES,
        "`previous_response_id` together with `conversation`",
        "'previous_response_id' and 'conversation' cannot be used together.",
        "openai.types.responses.response_create_params.ResponseCreateParamsBase.conversation",
        "previous_response_id",
        "mutually_exclusive_parameters",
    ),
    *_shared_rules(ApiFamily.RESPONSES, "responses", ""),
    RequestRule(
        "responses-item-id",
        ApiFamily.RESPONSES,
        "an item whose id does not begin with the prefix of its type, such as `fc`, `msg` or `rs`",
        "Invalid 'input[{index}].id': '{id}'. An id that begins with '{prefix}' is expected.",
        f"{_GITHUB}/jlcodes99/cockpit-tools/issues/2090",
        "input[{index}].id",
        "invalid_value",
    ),
    RequestRule(
        "responses-item-ids-unique",
        ApiFamily.RESPONSES,
        "two items with the same id, including the ids in `item_reference`s",
        "Duplicate item found with id {id}. Remove duplicate items from your input and try again.",
        f"{_GITHUB}/vercel/ai/issues/13307",
        "input",
    ),
    RequestRule(
        "responses-item-reference",
        ApiFamily.RESPONSES,
        "an `item_reference` to an item that is not stored",
        "Item with id '{id}' not found. Items are not stored when `store` is false.",
        "openai.types.responses.response_input_item_param.ItemReference",
        "input",
        status=404,
    ),
    RequestRule(
        "responses-call-id-length",
        ApiFamily.RESPONSES,
        "a `call_id` of more than 64 characters",
        "Invalid 'input[{index}].call_id': string too long. At most 64 characters are allowed, it has {length}.",
        f"{_GITHUB}/AnswerDotAI/fastllm/issues/45",
        "input[{index}].call_id",
        "string_above_max_length",
    ),
    RequestRule(
        "responses-call-ids-unique",
        ApiFamily.RESPONSES,
        "the same `call_id` in two calls that wait for their outputs, or in two outputs of one call",
        "Duplicate 'call_id': {id}",
        f"{_GITHUB}/earendil-works/pi/issues/9057",
        "input",
    ),
    RequestRule(
        "responses-missing-output",
        ApiFamily.RESPONSES,
        "a call without its output, including a call of the previous response",
        "No tool output found for function call {id}.",
        f"{_GITHUB}/BerriAI/litellm/issues/33024",
        "input",
    ),
    RequestRule(
        "responses-output-without-call",
        ApiFamily.RESPONSES,
        "an output without its call",
        "No tool call found for function call output with call_id {id}.",
        _FUNCTIONS,
        "input",
    ),
    RequestRule(
        "responses-reasoning-followed",
        ApiFamily.RESPONSES,
        "a reasoning item without the item that it led to",
        "Item '{id}' of type 'reasoning' was provided without its required following item.",
        f"{_GITHUB}/coder/mux/issues/59",
        "input",
    ),
    RequestRule(
        "responses-call-reasoning",
        ApiFamily.RESPONSES,
        "a stored call without the reasoning item that led to it",
        "Item '{id}' of type 'function_call' was provided without its required 'reasoning' item.",
        _ITEMS,
        "input",
    ),
    RequestRule(
        "responses-encrypted-content",
        ApiFamily.RESPONSES,
        "`encrypted_content` that was encrypted for another organisation or model",
        "The encrypted content for item {id} could not be verified.",
        "openai.types.responses.ResponseReasoningItem.encrypted_content",
        "input",
        "invalid_encrypted_content",
    ),
)
OPENAI_RULES: Final = (*_CHAT, *_RESPONSES)
