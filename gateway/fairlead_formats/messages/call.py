"""Calls of a model: types, limits, and the conversion of unchecked calls into calls that can be run.

Pure module. A format reads unchecked calls from a message, as `Draft`s. `finish` turns drafts into calls whose ids,
names and arguments are within limits, in the same way for all formats.

The last call of a message that is truncated may lack a part of its arguments. If all its arguments are missing, it
looks like a call without arguments. The gateway therefore runs no call of a truncated message, whole or streamed: stop
reasons after which a message may be truncated are here, in the words of all providers.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_formats.names import Names
from fairlead_formats.tool_format import Action, JsonObject

MAX_CALLS: Final = 128
"""Maximum number of calls in one message that are run; each further call gets an error as its result."""
MAX_ARGUMENT_BYTES: Final = 1 << 20
"""Maximum size of one call's arguments as JSON."""
MAX_DEPTH: Final = 64
"""Maximum nesting depth of arguments and of structured content."""
MAX_NODES: Final = 100_000
"""Maximum number of values in the arguments of one call."""
MAX_NAME: Final = 256
"""Maximum number of characters of a name or an id; providers allow fewer."""
META_ERROR: Final = "fairlead.dev/error"
INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
"""Error code of the gateway for a call that cannot be run as the model wrote it."""
McpResult: TypeAlias = Mapping[str, Any]
"""An untrusted `CallToolResult` as decoded JSON: `{content, structuredContent?, isError?, _meta?}`. Never modified."""
FUNCTION_CALL: Final = "function_call"
"""Kind of OpenAI's legacy calls, which `tool_calls` replaced, and name of the message member that holds such a call."""
CUSTOM: Final = "custom"
"""Kind of OpenAI's custom tool calls, whose input is text. Only tools of clients are custom tools."""
INPUT: Final = "input"
"""Name of the single argument that holds the text of a custom tool call."""
_decode = msgspec.json.Decoder().decode
_KINDS: Final[dict[type[Any], str]] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}
_canonical = msgspec.json.Encoder(order="deterministic").encode
CUT_OFF: Final = "the message ended before the arguments did"
"""Reason for an invalid call whose arguments lack their end."""
_TRUNCATING_REASONS: Final = frozenset(
    {
        # Chat Completions; Mistral; DeepSeek; vLLM and SGLang; OpenRouter
        "length",
        "content_filter",
        "model_length",
        "insufficient_system_resource",
        "abort",
        "error",
        # Responses: three values of its status, and a reason of the status `incomplete`
        "incomplete",
        "failed",
        "cancelled",
        "max_output_tokens",
        # Anthropic Messages
        "max_tokens",
        "model_context_window_exceeded",
        "refusal",
        # Bedrock Converse
        "content_filtered",
        "guardrail_intervened",
        "malformed_model_output",
        "malformed_tool_use",
        # Gemini
        "safety",
        "recitation",
        "language",
        "blocklist",
        "prohibited_content",
        "spii",
        "model_armor",
        "image_safety",
    }
)
_REASON_MEMBERS: Final = ("finish_reason", "finishReason", "stop_reason", "stopReason")


class InvalidCall(msgspec.Struct, frozen=True):
    """Reason why a call cannot be run."""

    reason: str
    """A sentence from which the model can correct its call."""
    text: str = ""
    """The arguments as the model wrote them, at most `MAX_ARGUMENT_BYTES` characters; empty if it wrote none."""


class ModelCall(msgspec.Struct, frozen=True):
    """One call of a model."""

    id: str
    """The model's id; derived from position, name and arguments if the model sent none."""
    name: str
    """The tool's original name if the request's `Names` have it, else the name that the model wrote; empty if it wrote
    none.
    """
    arguments: JsonObject | InvalidCall
    sent_as: str = ""
    """The name that the model wrote, which some formats repeat in the result; empty if it equals `name`."""
    made_id: bool = False
    """Whether `id` was derived, because the model sent none. Formats that match results by name and order do not send
    a derived id.
    """
    kind: str = ""
    """Variant of the call, in formats that have several variants: `function_call` and `custom` in OpenAI's messages,
    `number` for an MCP request with a numeric id.
    """

    @property
    def wire_name(self) -> str:
        """The name that the model wrote; `unknown` if it wrote none, because every format requires a name."""
        return self.sent_as or self.name or "unknown"

    @property
    def valid(self) -> bool:
        return not isinstance(self.arguments, InvalidCall)


class ToolResult(msgspec.Struct, frozen=True):
    """One result in a provider's message, in MCP's form."""

    id: str
    """Id of the call; empty if the format has none."""
    name: str
    """Name of the tool; empty if the format does not repeat it."""
    result: JsonObject


class ResultLoss(msgspec.Struct, frozen=True):
    """One part of a result or message that the other format cannot represent unchanged."""

    call: str
    """Id of the call; empty for parts that are neither calls nor results."""
    path: str
    """JSON Pointer (RFC 6901) into the result, such as `/content/1`. For parts of a message: into the request of the
    conversion, such as `/message/content/0`.
    """
    what: str
    """`text`, `image`, `audio`, `resource`, `resource_link`, `structuredContent`, `isError`, `annotations` or `block`;
    for messages also `thinking`, `server_tool`, `call`, or the name of a member.
    """
    action: Action
    """REWRITTEN: complete, in another form or location. DESCRIBED: text tells the model of it. DROPPED: removed."""
    why: str
    """The reason, for a person."""

    @property
    def lossy(self) -> bool:
        return self.action is not Action.REWRITTEN


class Carry(msgspec.Struct, frozen=True):
    """Content of results that the target model accepts. The defaults suit current models."""

    images: bool = True
    audio: bool = False
    """Whether Chat Completions may carry audio, which most models refuse. Gemini always accepts audio."""
    documents: bool = True
    """PDF files, where the format has a place for them."""
    nested_media: bool = False
    """For Gemini: whether media go into the function response (Gemini 3 and later), or else into a message after it."""
    status: bool = True
    """For Bedrock: whether the model reads `toolResult.status` (Nova, Claude). If not, the text of a result says that
    it is an error.
    """


DEFAULT_CARRY: Final = Carry()


class WrittenMessages(msgspec.Struct, frozen=True):
    """Messages with the results of calls, in one format."""

    messages: tuple[JsonObject, ...]
    """Messages to append to the conversation, after the model's message, in this order."""
    report: tuple[ResultLoss, ...] = ()
    pending: tuple[str, ...] = ()
    """Ids of calls without a result, which the caller of the conversion still has to run and answer."""


def invalid_result(call: ModelCall) -> JsonObject:
    """The error result of an invalid call, which was not run."""
    reason = call.arguments.reason if isinstance(call.arguments, InvalidCall) else "the call is invalid"
    return {
        "content": [{"type": "text", "text": reason}],
        "isError": True,
        "_meta": {META_ERROR: {"code": INVALID_ARGUMENTS, "message": reason}},
    }


def freeform(text: object) -> JsonObject:
    """Arguments for a custom tool call: an object with its text as `input`."""
    return {INPUT: text}


def freeform_text(call: ModelCall) -> str | None:
    """The text of a custom tool call; None for any other call."""
    text = call.arguments.get(INPUT) if call.kind == CUSTOM and isinstance(call.arguments, dict) else None
    return text if isinstance(text, str) else None


def name_for(call: ModelCall, names: Names | None) -> str:
    """The name of a call's tool in messages: its safe name in `names`, or else the name that the model wrote."""
    safe = names.forward.get(call.name) if names is not None else None
    return safe if safe is not None else call.wire_name


def read_arguments(value: object) -> JsonObject | InvalidCall:
    """Arguments from JSON text or a decoded object. None and empty text mean no arguments."""
    if isinstance(value, str | bytes):
        return _from_text(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", _encode_arguments(value))
    reason = json_fault(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}", _encode_arguments(value))


def _from_text(text: str | bytes) -> JsonObject | InvalidCall:
    if len(text) > MAX_ARGUMENT_BYTES:
        too_long = f"the arguments are {len(text)} characters long, more than the {MAX_ARGUMENT_BYTES} allowed"
        return InvalidCall(too_long, bounded_text(text))
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return InvalidCall(f"the arguments are not valid JSON: {error}", bounded_text(text))
    except RecursionError:
        return InvalidCall(f"the arguments are nested deeper than {MAX_DEPTH} levels", bounded_text(text))
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", bounded_text(text))
    reason = None if _small(text) else json_fault(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}", bounded_text(text))


def _small(text: str | bytes) -> bool:
    """Whether JSON text is so short that its value must be within the limits, so that `json_fault` need not walk it.
    What else `json_fault` looks for cannot occur: the decoder accepts only valid JSON.
    """
    raw = text.encode() if isinstance(text, str) else text
    opening_count = raw.count(b"{") + raw.count(b"[")
    return opening_count <= MAX_DEPTH and opening_count + raw.count(b",") < MAX_NODES


def json_fault(value: object) -> str | None:
    """Reason, as the end of a sentence, why a decoded value is not JSON or exceeds a limit; None for a valid value.

    Iterative, so that nesting cannot exhaust the stack. Stops at the first value beyond a limit.
    """
    stack: list[tuple[object, int]] = [(value, 1)]
    nodes = size = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if nodes > MAX_NODES:
            return f"hold more than {MAX_NODES} values"
        if not isinstance(item, dict | list):
            reason = _leaf_fault(item)
            if reason is not None:
                return reason
            size += len(item) if isinstance(item, str) else 0
        else:
            if depth > MAX_DEPTH:
                return f"are nested deeper than {MAX_DEPTH} levels"
            if isinstance(item, dict):
                if not all(isinstance(key, str) and well_formed(key) for key in item):
                    return "hold a member whose name is not valid text"
                size += sum(map(len, item))
            stack.extend((child, depth + 1) for child in (item.values() if isinstance(item, dict) else item))
        if size > MAX_ARGUMENT_BYTES:
            return f"hold more than {MAX_ARGUMENT_BYTES} characters"
    return None


def _leaf_fault(item: object) -> str | None:
    if isinstance(item, str):
        return None if well_formed(item) else "hold text that is not valid Unicode"
    if isinstance(item, float):
        return None if math.isfinite(item) else "hold a number that is not finite"
    if item is None or isinstance(item, int):
        return None
    return f"hold something that is not a JSON value ({type(item).__name__})"


def well_formed(text: str) -> bool:
    """Whether text can be encoded as UTF-8, which means that it has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def bounded_text(text: str | bytes) -> str:
    """The first `MAX_ARGUMENT_BYTES` characters of a text. Bytes that are not UTF-8 become replacement characters."""
    if isinstance(text, bytes):
        text = text[:MAX_ARGUMENT_BYTES].decode("utf-8", "replace")
    return text[:MAX_ARGUMENT_BYTES].encode("utf-8", "replace").decode()


def _encode_arguments(arguments: object) -> str:
    """Arguments as JSON text; empty if they cannot be written."""
    if isinstance(arguments, InvalidCall):
        return arguments.text
    try:
        return bounded_text(msgspec.json.encode(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ""


def kind_of(value: object) -> str:
    """The JSON type of a value as a noun for messages, such as `a number`."""
    return "an object" if isinstance(value, dict) else _KINDS.get(type(value), type(value).__name__)


class Draft(msgspec.Struct, frozen=True):
    """One unchecked call in a message."""

    id: object
    name: object
    arguments: object
    kind: str = ""
    problem: str | None = None
    """Reason why the call is invalid, even if its other members are valid; None without such a reason."""


def finish(drafts: Iterable[Draft], names: Names | None, *, start: int = 0) -> list[ModelCall]:
    """One call per draft. `start` is the first draft's position in its message."""
    seen: set[str] = set()
    calls = []
    for position, draft in enumerate(drafts, start):
        call = _call(draft, position, names)
        if call.id in seen:
            call = _refuse(
                call, f"the id {call.id!r} belongs to an earlier call of this message; repeat the call with another id"
            )
        elif position >= MAX_CALLS:
            reason = (
                f"a message may have at most {MAX_CALLS} calls; this call was not run, so repeat it in another message"
            )
            call = _refuse(call, reason)
        seen.add(call.id)
        calls.append(call)
    return calls


def _call(draft: Draft, position: int, names: Names | None) -> ModelCall:
    arguments: JsonObject | InvalidCall = read_arguments(draft.arguments)
    if draft.problem is not None:
        text = bounded_text(draft.arguments) if isinstance(draft.arguments, str) else ""
        arguments = InvalidCall(draft.problem, text)
    sent_name = text_of(draft.name)
    if not sent_name:
        arguments = InvalidCall("the call has no tool name")
    elif len(sent_name) > MAX_NAME:
        arguments = InvalidCall(f"the name of the tool is longer than {MAX_NAME} characters")
        sent_name = sent_name[:MAX_NAME]
    ident = text_of(draft.id)
    is_derived = not 0 < len(ident) <= MAX_NAME
    if is_derived:
        ident = make_id(position, sent_name, draft.arguments)
    original_name = names.original_name(sent_name) if names is not None else None
    if original_name is None:
        return ModelCall(ident, sent_name, arguments, made_id=is_derived, kind=draft.kind)
    sent_as = sent_name if sent_name != original_name else ""
    return ModelCall(ident, original_name, arguments, sent_as, is_derived, draft.kind)


def _refuse(call: ModelCall, reason: str) -> ModelCall:
    return msgspec.structs.replace(call, arguments=InvalidCall(reason, _encode_arguments(call.arguments)))


def make_id(position: int, name: str, arguments: object) -> str:
    """An id for a call without an id. Equal calls at equal positions get equal ids, so that a result finds its call."""
    try:
        body = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else _canonical(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        body = b""
    digest = hashlib.sha256(b"%d\0%s\0%s" % (position, name.encode("utf-8", "replace"), body))
    return f"call_{digest.hexdigest()[:24]}"


def text_of(value: object) -> str:
    """The value if it is a string that can be encoded as UTF-8; empty for anything else."""
    return value if isinstance(value, str) and well_formed(value) else ""


def fitting_id(ident: str, allowed: re.Pattern[str]) -> str:
    """The id if a provider's pattern allows it, else its `substitute_id`."""
    if allowed.match(ident):
        return ident
    return substitute_id(ident)


def substitute_id(ident: str) -> str:
    """An id that every provider allows, derived from an id that some provider does not allow."""
    return f"call_{hashlib.sha256(ident.encode('utf-8', 'replace')).hexdigest()[:24]}"


def member(value: object, *keys: str) -> Any:
    """The value of the first of `keys` that the object has with a value other than null; None if there is none."""
    if isinstance(value, (dict, Mapping)):  # dict first: the check of an abstract class takes five times as long
        for key in keys:
            value_of_key = value.get(key)
            if value_of_key is not None:
                return value_of_key
    return None


def items(value: object) -> list[Any]:
    """The value if it is a list; an empty list for anything else."""
    return value if isinstance(value, list) else []


def truncates(reason: object) -> bool:
    """Whether a stop reason, in any letter case, says that the message may lack its end."""
    return isinstance(reason, str) and reason.lower() in _TRUNCATING_REASONS


def is_truncated(answer: object) -> bool:
    """Whether a whole answer, or its first choice or candidate, ended by a reason that truncates."""
    choice = next(iter([*items(member(answer, "choices")), *items(member(answer, "candidates"))]), None)
    return truncates(member(choice, *_REASON_MEMBERS)) or truncates(member(answer, *_REASON_MEMBERS, "status"))


def mark_cut_off(draft: Draft) -> Draft:
    """The draft of a truncated message's last call, made invalid if it has no arguments: they may have been cut off."""
    return draft if draft.arguments or draft.problem is not None else msgspec.structs.replace(draft, problem=CUT_OFF)
