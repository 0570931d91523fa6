"""Requests that Amazon Bedrock's Converse API is documented to reject. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_formats.request_rules.rule import ApiFamily, ApiRules, RequestRule

VALIDATION: Final = "ValidationException"
_REFERENCE: Final = "https://docs.aws.amazon.com/bedrock/latest/APIReference"
_MESSAGE: Final = f"{_REFERENCE}/API_runtime_Message.html"
_TOOL: Final = f"{_REFERENCE}/API_runtime_ToolSpecification.html"
_DOCUMENT: Final = f"{_REFERENCE}/API_runtime_DocumentBlock.html"
_GITHUB: Final = "https://github.com"


def _rule(name: str, rejects: str, message: str, source: str) -> RequestRule:
    return RequestRule(f"converse-{name}", ApiFamily.CONVERSE, rejects, message, source, type=VALIDATION)


_RULES: Final = (
    _rule(
        "member",
        "the gateway's own member `fairlead`",
        "Malformed input request: extraneous key [{name}] is not permitted, please reformat your input and try again.",
        f"{_GITHUB}/pingcap/autoflow/pull/574",
    ),
    _rule(
        "first-role",
        "messages that are missing, or whose first message is not the user's",
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        f"{_GITHUB}/pydantic/pydantic-ai/issues/4495",
    ),
    _rule(
        "alternation",
        "two messages of one role in a row",
        "A conversation must alternate between user and assistant roles. "
        "Make sure the conversation alternates between user and assistant roles and try again.",
        f"{_GITHUB}/langchain-ai/langchain-aws/issues/130",
    ),
    _rule(
        "content",
        "a message without content",
        "The content field in the Message object at {at} is empty. "
        "Add a ContentBlock object to the content field and try again.",
        f"{_GITHUB}/langchain-ai/langchain/issues/26968",
    ),
    _rule(
        "text",
        "a text block with only white space",
        "The text field in the ContentBlock object at {at} is blank. Add text to the text field, and try again.",
        f"{_GITHUB}/aws-samples/bedrock-engineer/issues/8",
    ),
    _rule(
        "block",
        "a content block that does not have exactly one of the members that the API defines",
        "The value at {at} is not a valid ContentBlock: set exactly one of its members",
        f"{_REFERENCE}/API_runtime_ContentBlock.html",
    ),
    _rule(
        "media-role",
        "images or documents in a message that is not the user's",
        "The message at {at} cannot include images or documents, because its role is not user",
        _MESSAGE,
    ),
    _rule(
        "image",
        "an image whose format is not `png`, `jpeg`, `gif` or `webp`, or that has neither bytes nor an S3 location",
        "The image at {at} has no valid format and source",
        f"{_REFERENCE}/API_runtime_ImageBlock.html",
    ),
    _rule(
        "document-text",
        "documents in a message without a text block",
        "The message at {at} includes a document: add a text block",
        _MESSAGE,
    ),
    _rule(
        "document-name",
        "a document's name with characters other than letters, digits, single spaces, hyphens and brackets",
        "The document file name at {at} can only contain alphanumeric characters, whitespace characters, hyphens, "
        "parentheses, and square brackets. The name can't contain more than one consecutive whitespace character.",
        _DOCUMENT,
    ),
    _rule(
        "document-names-unique",
        "two documents with the same name in one request",
        "Messages can't contain duplicate document names. Rename the document and retry your request.",
        f"{_GITHUB}/maximhq/bifrost/issues/7003",
    ),
    _rule(
        "tool-config",
        "`toolUse` or `toolResult` in the messages of a request without `toolConfig`",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        f"{_GITHUB}/langgenius/dify/issues/17545",
    ),
    _rule(
        "tools",
        "a `toolConfig` without tools",
        "Invalid length for parameter toolConfig.tools, value: 0, valid min length: 1",
        f"{_REFERENCE}/API_runtime_ToolConfiguration.html",
    ),
    _rule(
        "tool-name",
        "a tool's name, declared or called, that does not match `^[a-zA-Z0-9_-]{1,64}$`",
        "Value at '{at}' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+",
        f"{_GITHUB}/openclaw/openclaw/issues/12892",
    ),
    _rule(
        "tool-description",
        "a tool with an empty description",
        "Value at '{at}' failed to satisfy constraint: Member must have length greater than or equal to 1",
        _TOOL,
    ),
    _rule(
        "schema-type",
        'an `inputSchema.json` whose root does not have `"type": "object"`',
        "The value at {at}.toolSpec.inputSchema.json.type must be one of the following: object.",
        f"{_REFERENCE}/API_runtime_ToolInputSchema.html",
    ),
    _rule(
        "schema-valid",
        "an `inputSchema.json` that is not valid in JSON Schema draft 2020-12",
        "{at}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {why}",
        _TOOL,
    ),
    _rule(
        "tool-choice",
        "a `toolChoice` that is not `auto`, `any` or `tool`, or that names a tool that is not in `tools`",
        "The toolChoice {choice} is not valid for the tools of this request",
        f"{_REFERENCE}/API_runtime_ToolChoice.html",
    ),
    _rule(
        "call-id",
        "a `toolUseId` that does not match `^[a-zA-Z0-9_.:-]{1,64}$`",
        "Value at '{at}' failed to satisfy constraint: Member must satisfy regular expression pattern: "
        "[a-zA-Z0-9_.:-]+",
        f"{_REFERENCE}/API_runtime_ToolUseBlock.html",
    ),
    _rule(
        "call-ids-unique",
        "two `toolUse` blocks with the same id in one message",
        "The toolUse blocks at {at} contain duplicate Ids: {id}",
        f"{_GITHUB}/double16/Cyber-AutoAgent-ng/issues/27",
    ),
    _rule(
        "call-input",
        "a `toolUse` whose input is not an object",
        "The format of the value at {at}.toolUse.input is invalid. Provide a json object for the field and try again.",
        f"{_REFERENCE}/API_runtime_ToolUseBlock.html",
    ),
    _rule(
        "missing-result",
        "a `toolUse` without its result in the next message",
        "Expected toolResult blocks at {at} for the following Ids: {ids}",
        f"{_GITHUB}/zeroclaw-labs/zeroclaw/pull/1476",
    ),
    _rule(
        "result-without-call",
        "a `toolResult` whose `toolUse` is not in the message before, or a second `toolResult` for a `toolUse`",
        "The number of toolResult blocks at {at} exceeds the number of toolUse blocks of previous turn.",
        f"{_GITHUB}/Just-Curieous/Curie/issues/16",
    ),
    _rule(
        "result-content",
        "an empty `toolResult` with the status `error`",
        "The content field at {at}.toolResult cannot be empty when status value is error.",
        f"{_GITHUB}/aws-samples/sample-multi-agent-orchestration-chat-on-agentcore/issues/15",
    ),
    _rule(
        "results-alone",
        "results together with other blocks, for models other than those of Anthropic and Amazon",
        "{at}: Conversation blocks and tool result blocks cannot be provided in the same turn",
        f"{_GITHUB}/strands-agents/harness-sdk/issues/1223",
    ),
    _rule(
        "temperature",
        "a `temperature` or `topP` that is not from 0 to 1",
        "Value at 'inferenceConfig.{name}' failed to satisfy constraint: Member must be from 0 to 1",
        f"{_REFERENCE}/API_runtime_InferenceConfiguration.html",
    ),
    _rule(
        "system",
        "an empty text in `system`",
        "Value at 'system.{index}.text' failed to satisfy constraint: Member must have a length of at least 1",
        f"{_REFERENCE}/API_runtime_SystemContentBlock.html",
    ),
    _rule(
        "thinking-signature",
        "reasoning whose signature is not the model's",
        "The model returned the following errors: {at}: Invalid `signature` in `thinking` block",
        f"{_REFERENCE}/API_runtime_ReasoningTextBlock.html",
    ),
    _rule(
        "thinking-budget",
        "Claude's `thinking` with a budget of less than 1,024 tokens, or of at least `maxTokens`",
        "The model returned the following errors: thinking.enabled.budget_tokens: not valid for these tokens",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html",
    ),
    _rule(
        "thinking-forced",
        "Claude's `thinking` of the type `enabled` together with a forced tool or a temperature",
        "The model returned the following errors: Thinking may not be enabled when tool_choice forces tool use.",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html",
    ),
    _rule(
        "foreign-field",
        "a field that only Claude accepts, in `additionalModelRequestFields` of a request to another model",
        "The model returned the following errors: extraneous key [{name}] is not permitted",
        f"{_GITHUB}/pingcap/autoflow/pull/574",
    ),
)
CONVERSE_RULES: Final = ApiRules("converse", _RULES)
