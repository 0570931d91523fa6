"""Requests that Google's Gemini API rejects. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import INVALID_ARGUMENT, ApiFamily, ApiRules, RequestRule

_DOCS: Final = "https://ai.google.dev"
_REFERENCE: Final = f"{_DOCS}/api/generate-content"
_CACHING: Final = f"{_DOCS}/api/caching"
_CALLING: Final = f"{_DOCS}/gemini-api/docs/function-calling"
_COMBINED: Final = f"{_DOCS}/gemini-api/docs/tool-combination"
_SIGNATURES: Final = f"{_DOCS}/gemini-api/docs/thought-signatures"
_GITHUB: Final = "https://github.com"
_SCHEMA: Final = "https://ai.google.dev/api/caching#Schema"
_AT: Final = "GenerateContentRequest.tools[{tool}].function_declarations[{index}]"


def _rule(name: str, rejects: str, message: str, source: str) -> RequestRule:
    return RequestRule(f"gemini-{name}", ApiFamily.GEMINI, rejects, message, source, type=INVALID_ARGUMENT)


_RULES: Final = (
    _rule(
        "member",
        "the gateway's own member `fairlead`",
        'Invalid JSON payload received. Unknown name "{name}": Cannot find field.',
        f"{_GITHUB}/modelcontextprotocol/servers/issues/1624",
    ),
    _rule(
        "value",
        "a member whose value does not have the type that the API requires",
        "Invalid value: {why}",
        _REFERENCE,
    ),
    _rule(
        "contents",
        "a request without contents",
        "GenerateContentRequest.contents: contents is not specified",
        _REFERENCE,
    ),
    _rule(
        "role",
        "a content whose role is neither `user` nor `model`",
        "Please use a valid role: user, model.",
        f"{_CACHING}#Content",
    ),
    _rule(
        "parts",
        "a content without parts",
        "GenerateContentRequest.contents[{content}].parts: contents.parts must not be empty.",
        f"{_CACHING}#Content",
    ),
    _rule(
        "part-data",
        "a part without data",
        "GenerateContentRequest.contents[{content}].parts[{index}].data: required oneof field 'data' must be set",
        f"{_CACHING}#Part",
    ),
    _rule(
        "last-role",
        "contents of which the last has the role `model`",
        "Please ensure that the request ends with a content of the user's, or with a function response.",
        f"{_GITHUB}/crewAIInc/crewAI/pull/6973",
    ),
    _rule(
        "function-name",
        "a function's name that does not begin with a letter or `_`, contains characters other than `a-z`, `A-Z`, "
        "`0-9`, `_`, `.`, `:` and `-`, or is longer than 128 characters",
        f"{_AT}.name: Invalid function name. It must begin with a letter or an underscore, and be of letters, digits, "
        "underscores, dots, colons or dashes, with a maximum length of 128.",
        "google.genai.types.FunctionDeclaration.name",
    ),
    _rule(
        "function-names-unique",
        "two functions with the same name",
        "Duplicate function declaration found: {name}",
        _CALLING,
    ),
    _rule(
        "function-count",
        "more than 512 functions",
        "At most 512 function declarations can be provided, and there are {count}.",
        "https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling",
    ),
    _rule(
        "function-member",
        "a function declaration with a member that the API does not define",
        "Invalid JSON payload received. Unknown name \"{name}\" at 'tools[{tool}].function_declarations[{index}]': "
        "Cannot find field.",
        "google.genai.types.FunctionDeclaration",
    ),
    _rule(
        "two-schemas",
        "both `parameters` and `parametersJsonSchema`",
        f"{_AT}: parameters and parameters_json_schema cannot be used together.",
        "google.genai.types.FunctionDeclaration.parameters_json_schema",
    ),
    _rule(
        "json-schema",
        "a `parametersJsonSchema` that is not valid in JSON Schema draft 2020-12, or whose root is not an object",
        f"{_AT}.parameters_json_schema: {{why}}",
        "google.genai.types.FunctionDeclaration.parameters_json_schema",
    ),
    _rule(
        "schema-member",
        "a keyword of `parameters` that is not a member of `Schema`, such as `exclusiveMinimum` or `$ref`",
        'Invalid JSON payload received. Unknown name "{name}" at '
        "'tools[{tool}].function_declarations[{index}].parameters{path}': Cannot find field.",
        f"{_GITHUB}/zed-extensions/mcp-server-brave-search/issues/12",
    ),
    _rule(
        "schema-value",
        "a schema in `parameters` that is not an object",
        "Invalid value at 'tools[{tool}].function_declarations[{index}].parameters{path}'",
        f"{_GITHUB}/decolua/9router/issues/2489",
    ),
    _rule(
        "schema-type",
        "a schema in `parameters` without `type`, or whose `type` is not a value of the enum `Type`, such as a list of "
        "types",
        f"{_AT}.parameters{{path}}.type: must be specified",
        f"{_GITHUB}/epam/ai-dial-adapter-vertexai/issues/219",
    ),
    _rule(
        "schema-any-of",
        "a schema in `parameters` that has other keywords beside `anyOf`",
        f"{_AT}.parameters{{path}}.any_of: it must be the only field that is set",
        f"{_GITHUB}/BerriAI/litellm/issues/11164",
    ),
    _rule(
        "schema-properties",
        "`parameters` without any property",
        f"{_AT}.parameters.properties: should be non-empty for OBJECT type",
        _SCHEMA,
    ),
    _rule(
        "schema-required",
        "a name in `required` that is not in `properties`",
        f"{_AT}.parameters{{path}}.required[{{number}}]: property is not defined",
        _SCHEMA,
    ),
    _rule(
        "schema-items",
        "an array in `parameters` without `items`",
        f"{_AT}.parameters{{path}}.items: missing field.",
        _SCHEMA,
    ),
    _rule(
        "schema-enum",
        "an `enum` in `parameters` whose type is not `STRING`, or with an empty value",
        f"{_AT}.parameters{{path}}.enum: only allowed for STRING type, with values that are not empty",
        _SCHEMA,
    ),
    _rule(
        "schema-format",
        "a `format` of a string other than `enum` and `date-time`",
        f"{_AT}.parameters{{path}}.format: only 'enum' and 'date-time' are supported for STRING type",
        _SCHEMA,
    ),
    _rule(
        "functions-once",
        "functions in more than one element of `tools`",
        "Multiple tools are supported only when they are all search tools.",
        _CALLING,
    ),
    _rule(
        "functions-combined",
        "functions together with Google's own tools, without `includeServerSideToolInvocations`",
        "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with functions.",
        _COMBINED,
    ),
    _rule(
        "allowed-mode",
        "`allowedFunctionNames` in a mode other than `ANY` and `VALIDATED`",
        "Function calling config is set with allowed_function_names, and its mode is neither ANY nor VALIDATED.",
        f"{_CACHING}#FunctionCallingConfig",
    ),
    _rule(
        "allowed-names",
        "`allowedFunctionNames` with a function that is not declared",
        "Function calling config: allowed_function_names has {name!r}, which is not a declared function.",
        f"{_CACHING}#FunctionCallingConfig",
    ),
    _rule(
        "cached",
        "`cachedContent` together with tools",
        "CachedContent can not be used with a request setting tools or tool_config.",
        _CACHING,
    ),
    _rule(
        "response-count",
        "calls that do not each have exactly one response in the content that follows them",
        "Please ensure that the number of function response parts is equal to the number of function call parts "
        "of the function call turn: number {number}.",
        f"{_GITHUB}/google-gemini/gemini-cli/issues/16132",
    ),
    _rule(
        "response-of-call",
        "a response whose id or name differs from the id or name of the call at the same position",
        "Function response {name} is for another call than the one at its place: number {number}.",
        _CALLING,
    ),
    _rule(
        "call-order",
        "calls that do not follow a content with the role `user`",
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        f"{_GITHUB}/google-gemini/gemini-cli/issues/11814",
    ),
    _rule(
        "response-order",
        "responses that do not follow calls",
        "Please ensure that function response turn comes immediately after a function call turn.",
        f"{_GITHUB}/langchain-ai/langchain/issues/27799",
    ),
    _rule(
        "thinking-both",
        "both `thinkingBudget` and `thinkingLevel`",
        "You can only set only one of thinking budget and thinking level.",
        f"{_GITHUB}/sterlp/eclipse-peon-ai/issues/115",
    ),
    _rule(
        "thinking-level",
        "a `thinkingLevel` that the model does not support, such as `MEDIUM` for Gemini 3 Pro, or any level for models "
        "before Gemini 3",
        "Thinking level {level} is not supported for this model.",
        f"{_GITHUB}/heyhuynhgiabuu/proxypal/issues/170",
    ),
    _rule(
        "missing-signature",
        "in the current turn, a content whose first call has no `thoughtSignature` (Gemini 3)",
        "Function call is missing a thought_signature in functionCall parts: contents[{content}].",
        _SIGNATURES,
    ),
    _rule(
        "signature",
        "a `thoughtSignature` that is not Google's",
        "Corrupted thought signature: contents[{content}].",
        _SIGNATURES,
    ),
)
GEMINI_RULES: Final = ApiRules("gemini", _RULES)
