"""Requests that Anthropic's Messages API rejects. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import ApiFamily, ApiRules, RequestRule

_DOCS: Final = "https://platform.claude.com/docs/en"
_REFERENCE: Final = f"{_DOCS}/api/messages"
_TOOLS: Final = f"{_DOCS}/agents-and-tools/tool-use/implement-tool-use"
_RESULTS: Final = f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls"
_THINKING: Final = f"{_DOCS}/build-with-claude/extended-thinking"
_CACHING: Final = f"{_DOCS}/build-with-claude/prompt-caching"
_GITHUB: Final = "https://github.com"
_AT_TOOL: Final = "tools.{index}.custom"
_THREADS: Final = f"{_DOCS}/build-with-claude/message-threads"


def _rule(name: str, rejects: str, message: str, source: str, status: int = 400) -> RequestRule:
    return RequestRule(f"messages-{name}", ApiFamily.MESSAGES, rejects, message, source, status=status)


_RULES: Final = (
    _rule(
        "version",
        "a request without the header `anthropic-version`",
        "anthropic-version: header is required",
        f"{_DOCS}/api/versioning",
    ),
    _rule(
        "member",
        "the gateway's own member `fairlead`",
        "{name}: Extra inputs are not permitted",
        f"{_DOCS}/api/errors",
    ),
    RequestRule(
        "messages-thread",
        ApiFamily.MESSAGES,
        "a request that continues a message thread which the API has not stored",
        "thread.previous_message_id: no thread was found for {id}",
        _THREADS,
        code="thread_not_found",
        type="not_found_error",
        status=404,
    ),
    _rule(
        "thread-beta",
        "`thread` without the header `anthropic-beta: message-threads-…`",
        "thread: Extra inputs are not permitted",
        _THREADS,
    ),
    _rule(
        "thread-fields",
        "`system` or `tools` in a request that continues a message thread",
        "{name}: the thread keeps this field of its first request",
        _THREADS,
    ),
    _rule("max-tokens", "a request without `max_tokens`", "max_tokens: Field required", _REFERENCE),
    _rule("empty", "a request without messages", "messages: at least one message is required", _REFERENCE),
    _rule(
        "role",
        "a message whose role is not `user`, `assistant` or, after the first message, `system`",
        'messages: Unexpected role "{role}".',
        "anthropic.types.UserMessageParam.role",
    ),
    _rule(
        "first-role",
        "a first message that is not the user's",
        'messages: the first message must have the "user" role',
        _REFERENCE,
    ),
    _rule(
        "content",
        "a message without content",
        "{at}: all messages must have non-empty content",
        _REFERENCE,
    ),
    _rule(
        "text",
        "a text block with only white space",
        "{at}: text content blocks must contain non-whitespace text",
        _REFERENCE,
    ),
    _rule(
        "trailing-space",
        "a last message that is the assistant's and ends with white space",
        "messages: final assistant content cannot end with trailing whitespace",
        f"{_DOCS}/build-with-claude/prompt-engineering/prefill-claudes-response",
    ),
    _rule(
        "block",
        "a content block of a type that the API does not define",
        "{at}: Input tag '{kind}' does not match any of the expected tags",
        "anthropic.types.ContentBlockParam",
    ),
    _rule(
        "mcp-block",
        "blocks of MCP connectors without the header `anthropic-beta: mcp-client-…`",
        "{at}: Input tag '{kind}' needs the beta of MCP connectors",
        f"{_DOCS}/agents-and-tools/mcp-connector",
    ),
    _rule(
        "tool-name",
        "a tool's name that does not match `^[a-zA-Z0-9_-]{1,128}$`",
        f"{_AT_TOOL}.name: String should match pattern '^[a-zA-Z0-9_-]{{{{1,128}}}}$'",
        _TOOLS,
    ),
    _rule(
        "tool-names-unique",
        "two tools with the same name",
        "tools: Tool names must be unique.",
        f"{_GITHUB}/anthropics/claude-code/issues/10687",
    ),
    _rule(
        "schema-type",
        'an `input_schema` whose root does not have `"type": "object"`',
        f"{_AT_TOOL}.input_schema.type: {{why}}",
        "anthropic.types.tool_param.InputSchemaTyped.type",
    ),
    _rule(
        "schema-valid",
        "an `input_schema` that is not valid in JSON Schema draft 2020-12",
        f"{_AT_TOOL}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12: {{why}}",
        _TOOLS,
    ),
    _rule(
        "schema-root",
        "`oneOf`, `allOf` or `anyOf` at the root of an `input_schema`",
        f"{_AT_TOOL}.input_schema: input_schema does not support {{keyword}} at the top level",
        f"{_GITHUB}/BerriAI/litellm/blob/main/litellm/litellm_core_utils/prompt_templates/common_utils.py",
    ),
    _rule(
        "property-name",
        "a property of an `input_schema` whose name does not match `^[a-zA-Z0-9_.-]{1,64}$`",
        f"{_AT_TOOL}.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{{{1,64}}}}$'",
        f"{_GITHUB}/twilio-labs/mcp/issues/49",
    ),
    _rule(
        "tool-choice",
        "a `tool_choice` that names a tool that is not in `tools`",
        "Tool '{name}' not found in provided tools",
        _REFERENCE,
    ),
    _rule(
        "choice-without-tools",
        "`tool_choice` without `tools`",
        "tool_choice: may only be specified while providing tools",
        _REFERENCE,
    ),
    _rule(
        "call-id",
        "a `tool_use` whose id does not match `^[a-zA-Z0-9_-]+$`",
        "{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        f"{_GITHUB}/maximhq/bifrost/issues/5097",
    ),
    _rule(
        "result-id",
        "a `tool_result` whose `tool_use_id` does not match `^[a-zA-Z0-9_-]+$`",
        "{at}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        f"{_GITHUB}/maximhq/bifrost/issues/5097",
    ),
    _rule(
        "call-ids-unique",
        "two `tool_use` blocks with the same id, in one message or in different messages",
        "{at}: `tool_use` ids must be unique",
        f"{_GITHUB}/trycua/cua/issues/524",
    ),
    _rule(
        "call-input",
        "a `tool_use` whose input is not an object",
        "{at}.tool_use.input: Input should be a valid dictionary",
        "anthropic.types.ToolUseBlockParam.input",
    ),
    _rule(
        "missing-result",
        "a `tool_use` without its result at the beginning of the next message",
        "{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}",
        f"{_GITHUB}/anthropics/claude-code/issues/7929",
    ),
    _rule(
        "result-without-call",
        "a `tool_result` whose `tool_use` is not in the message before",
        "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}",
        _RESULTS,
    ),
    _rule(
        "single-result",
        "two results for one `tool_use`",
        "{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}",
        f"{_GITHUB}/anthropics/claude-code/issues/14110",
    ),
    _rule(
        "cache-control",
        "more than 4 blocks with `cache_control`",
        "A maximum of 4 blocks with cache_control may be provided. Found {count}.",
        _CACHING,
    ),
    _rule(
        "thinking-cached",
        "`cache_control` in a `thinking` block",
        "{at}.thinking.cache_control: Extra inputs are not permitted",
        _CACHING,
    ),
    _rule(
        "thinking-budget",
        "`budget_tokens` below 1,024",
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        "anthropic.types.ThinkingConfigEnabledParam.budget_tokens",
    ),
    _rule(
        "thinking-max-tokens",
        "`max_tokens` that is not greater than `budget_tokens`",
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        "anthropic.types.ThinkingConfigEnabledParam.budget_tokens",
    ),
    _rule(
        "thinking-temperature",
        "`temperature` other than 1 together with thinking",
        "`temperature` may only be set to 1 when thinking is enabled.",
        _THINKING,
    ),
    _rule(
        "thinking-forced",
        "thinking of the type `enabled` together with a forced tool",
        "Thinking may not be enabled when tool_choice forces tool use.",
        _THINKING,
    ),
    _rule(
        "thinking-first",
        "with thinking of the type `enabled`, a last turn with calls that does not begin with a block of thinking",
        "{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`.",
        f"{_GITHUB}/deepset-ai/haystack-core-integrations/issues/2146",
    ),
    _rule(
        "thinking-signature",
        "a block of thinking whose signature is not Anthropic's",
        "{at}: Invalid `signature` in `thinking` block",
        _THINKING,
    ),
    _rule(
        "thinking-modified",
        "a message with blocks of thinking from several answers",
        "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response.",
        f"{_GITHUB}/can1357/oh-my-pi/issues/8559",
    ),
)
MESSAGES_RULES: Final = ApiRules("messages", _RULES)
