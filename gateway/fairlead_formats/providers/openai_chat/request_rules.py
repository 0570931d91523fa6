"""Requests that OpenAI's Chat Completions rejects, and the rules about tools that Responses has too. Pure module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead_formats.request_rules.rule import ApiFamily, ApiRules, RequestRule

_REFERENCE: Final = "https://platform.openai.com/docs/api-reference"
_FUNCTIONS: Final = "https://platform.openai.com/docs/guides/function-calling"
_STRICT: Final = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
_ITEMS: Final = "https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context"
_GITHUB: Final = "https://github.com"
_SCHEMA_CODE: Final = "invalid_function_parameters"
_SCHEMA: Final = "Invalid schema for function '{name}': "
_IN_CONTEXT: Final = f"{_SCHEMA}In context={{context}}, "


def shared_rules(api: ApiFamily, prefix: str, function: str) -> Iterator[RequestRule]:
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


_RULES: Final = (
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
    *shared_rules(ApiFamily.CHAT, "chat", "function."),
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
CHAT_RULES: Final = ApiRules("chat", _RULES)
