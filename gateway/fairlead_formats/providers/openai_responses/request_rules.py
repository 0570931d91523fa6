"""Requests that OpenAI's Responses API rejects. Pure module."""

from __future__ import annotations

from typing import Final

from fairlead_formats.providers.openai_chat.request_rules import shared_rules
from fairlead_formats.request_rules.rule import ApiFamily, ApiRules, RequestRule

_REFERENCE: Final = "https://platform.openai.com/docs/api-reference"
_FUNCTIONS: Final = "https://platform.openai.com/docs/guides/function-calling"
_ITEMS: Final = "https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context"
_GITHUB: Final = "https://github.com"

_RULES: Final = (
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
    *shared_rules(ApiFamily.RESPONSES, "responses", ""),
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
RESPONSES_RULES: Final = ApiRules("responses", _RULES)
