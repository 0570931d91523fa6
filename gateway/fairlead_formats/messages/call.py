"""Calls of a model: their types and bounds, and how a call becomes one that can be run, whatever the model wrote.

Pure module. A format finds `Draft`s in a message; `finish` makes calls of them, with ids, names and arguments within
bounds, the same in every format. Results, and losses of a message or result, are beside them.
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
"""Calls of one message that are looked at; a further one is answered, but not run."""
MAX_ARGUMENT_BYTES: Final = 1 << 20
"""Size of one call's arguments as JSON."""
MAX_DEPTH: Final = 64
"""Levels of nesting in arguments and in structured content."""
MAX_NODES: Final = 100_000
"""Values in the arguments of one call."""
MAX_NAME: Final = 256
"""Characters of a name or an id that are read; no provider allows as many."""
EXCERPT: Final = 2048
"""Characters of unreadable arguments that are kept for the reader of a refusal."""

META_ERROR: Final = "fairlead.dev/error"
INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
"""The code of the gateway's contract for a call that cannot be run as it was written."""

McpResult: TypeAlias = Mapping[str, Any]
"""A `CallToolResult` as decoded JSON: `{content, structuredContent?, isError?, _meta?}`. Read only, never trusted."""


FUNCTION_CALL: Final = "function_call"
"""Kind of OpenAI's calls before `tool_calls`, and the member of a message that holds one."""
CUSTOM: Final = "custom"
"""Kind of OpenAI's freeform calls, whose input is text and not arguments: they are of the caller's own tools."""
INPUT: Final = "input"
"""Name of the one argument in which the text of a freeform call stands."""


class InvalidCall(msgspec.Struct, frozen=True):
    """Why a call cannot be run."""

    reason: str
    """A sentence that the model can act on."""
    text: str = ""
    """Text that the model sent, at most `EXCERPT` characters; empty where the arguments are not the reason."""


class ModelCall(msgspec.Struct, frozen=True):
    """One call that a model made."""

    id: str
    """As the model sent it; derived from position, name and arguments where the model sent none."""
    name: str
    """The tool's original name where the `Names` of the request have it, else the name as the model wrote it; empty
    where it wrote none.
    """
    arguments: JsonObject | InvalidCall
    sent_as: str = ""
    """The name as the model wrote it, which some formats repeat in the result; empty: the same as `name`."""
    made_id: bool = False
    """Whether `id` was derived here: formats that match results by name and order do not send it."""
    kind: str = ""
    """The form it came in, where a format has several: `function_call` and `custom` in OpenAI's messages, `number` for
    the id of an MCP request.
    """

    @property
    def wire_name(self) -> str:
        """The name that the model wrote; `unknown` where it wrote nothing, for no format takes an empty name."""
        return self.sent_as or self.name or "unknown"

    @property
    def valid(self) -> bool:
        return not isinstance(self.arguments, InvalidCall)


class ToolResult(msgspec.Struct, frozen=True):
    """One result that a provider's message held, in MCP's form."""

    id: str
    """Id of the call; empty where the format has none."""
    name: str
    """Name of the tool; empty where the format does not repeat it."""
    result: JsonObject


class ResultLoss(msgspec.Struct, frozen=True):
    """One part of a result or of a message that the other format cannot hold as it was."""

    call: str
    """Id of the call; empty for parts of a message that are neither calls nor results."""
    path: str
    """JSON Pointer (RFC 6901) into the result, as `/content/1`; beside results into the request of a conversion, as
    `/message/content/0`.
    """
    what: str
    """`text`, `image`, `audio`, `resource`, `resource_link`, `structuredContent`, `isError`, `annotations`, `block`;
    of messages also `thinking`, `server_tool`, `call`, or the name of a member.
    """
    action: Action
    """REWRITTEN: all of it is there in another form or place. DESCRIBED: the model is told that there was something.
    DROPPED: gone."""
    why: str

    @property
    def lossy(self) -> bool:
        return self.action is not Action.REWRITTEN


class Carry(msgspec.Struct, frozen=True):
    """Media that the model behind the format takes. The defaults suit current models."""

    images: bool = True
    audio: bool = False
    """For OpenAI's chat format, where most models refuse it. Gemini always takes it."""
    documents: bool = True
    """PDF, where the format has a place for it."""
    nested_media: bool = False
    """Gemini 3 and later: media inside the function response; else in a message behind it."""
    status: bool = True
    """Bedrock: the model family knows `toolResult.status` (Nova, Claude); else errors are said in the text."""


DEFAULT_CARRY: Final = Carry()


class Written(msgspec.Struct, frozen=True):
    """Messages that carry the results of calls, in one format."""

    messages: tuple[JsonObject, ...]
    """To be appended to the conversation, behind the model's message, in this order."""
    report: tuple[ResultLoss, ...] = ()
    pending: tuple[str, ...] = ()
    """Ids of the calls that had no result, because the caller runs them: it must answer them itself."""


def invalid_result(call: ModelCall) -> JsonObject:
    """The result of a call that was not run because it is invalid, as the contract of errors has it."""
    reason = call.arguments.reason if isinstance(call.arguments, InvalidCall) else "the call is invalid"
    return {
        "content": [{"type": "text", "text": reason}],
        "isError": True,
        "_meta": {META_ERROR: {"code": INVALID_ARGUMENTS, "message": reason}},
    }


def freeform(text: object) -> JsonObject:
    """The arguments of a freeform call: its text below `input`."""
    return {INPUT: text}


def freeform_text(call: ModelCall) -> str | None:
    """The text of a freeform call; None for any other."""
    given = call.arguments.get(INPUT) if call.kind == CUSTOM and isinstance(call.arguments, dict) else None
    return given if isinstance(given, str) else None


def name_for(call: ModelCall, names: Names | None) -> str:
    """The name of a call in a message: the request's safe name where there is one."""
    safe = names.forward.get(call.name) if names is not None else None
    return safe if safe is not None else call.wire_name


_decode = msgspec.json.Decoder().decode
_KINDS: Final[dict[type[Any], str]] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}


def read_arguments(value: object) -> JsonObject | InvalidCall:
    """Arguments from JSON text or from a decoded object. Nothing at all (None, `""`) is a call without arguments."""
    if isinstance(value, str | bytes):
        return _from_text(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", excerpt(str(value)[:EXCERPT]))
    reason = json_fault(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}")


def _from_text(text: str | bytes) -> JsonObject | InvalidCall:
    if len(text) > MAX_ARGUMENT_BYTES:
        return InvalidCall(
            f"the arguments are {len(text)} characters long, more than the {MAX_ARGUMENT_BYTES} allowed", excerpt(text)
        )
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return InvalidCall(f"the arguments are not valid JSON: {error}", excerpt(text))
    except RecursionError:
        return InvalidCall(f"the arguments are nested deeper than {MAX_DEPTH} levels", excerpt(text))
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", excerpt(text))
    reason = None if _small(text) else json_fault(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}", excerpt(text))


def _small(text: str | bytes) -> bool:
    """Whether JSON text is too small to exceed the bounds, whatever its strings hold, so that it need not be walked.
    All other faults that `json_fault` looks for are not valid JSON, and the decoder has refused them.
    """
    raw = text.encode() if isinstance(text, str) else text
    opened = raw.count(b"{") + raw.count(b"[")
    return opened <= MAX_DEPTH and opened + raw.count(b",") < MAX_NODES


def json_fault(value: object) -> str | None:
    """Why a decoded value is not JSON within bounds, as the end of a sentence; None for a good value.

    Walks without recursion, and not beyond the bounds.
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
    """Whether text can be sent as UTF-8: it holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def excerpt(text: str | bytes) -> str:
    """The first `EXCERPT` characters, with replacements for bytes that are not UTF-8."""
    if isinstance(text, bytes):
        text = text[:EXCERPT].decode("utf-8", "replace")
    return text[:EXCERPT].encode("utf-8", "replace").decode()


def kind_of(value: object) -> str:
    """The JSON type of a value as a noun, for a sentence."""
    return "an object" if isinstance(value, dict) else _KINDS.get(type(value), type(value).__name__)


class Draft(msgspec.Struct, frozen=True):
    """One call as it stands in a message, unchecked."""

    id: object
    name: object
    arguments: object
    kind: str = ""
    problem: str | None = None
    """Reason for which the call is invalid, whatever else it holds."""


def finish(drafts: Iterable[Draft], names: Names | None, *, start: int = 0) -> list[ModelCall]:
    """One call for each draft. `start` is the position of the first in its message."""
    seen: set[str] = set()
    calls = []
    for position, draft in enumerate(drafts, start):
        call = _call(draft, position, names)
        if call.id in seen:
            call = _refuse(
                call, f"the id {call.id!r} is that of an earlier call of this message; repeat the call with another"
            )
        elif position >= MAX_CALLS:
            call = _refuse(call, f"a message may make {MAX_CALLS} calls; this one was not run: repeat it on its own")
        seen.add(call.id)
        calls.append(call)
    return calls


def _call(draft: Draft, position: int, names: Names | None) -> ModelCall:
    arguments: JsonObject | InvalidCall = read_arguments(draft.arguments)
    if draft.problem is not None:
        text = excerpt(draft.arguments) if isinstance(draft.arguments, str) else ""
        arguments = InvalidCall(draft.problem, text)
    sent = text_of(draft.name)
    if not sent:
        arguments = InvalidCall("the call names no tool")
    elif len(sent) > MAX_NAME:
        arguments = InvalidCall(f"the name of the tool is longer than {MAX_NAME} characters")
        sent = sent[:MAX_NAME]
    ident = text_of(draft.id)
    made = not 0 < len(ident) <= MAX_NAME
    if made:
        ident = make_id(position, sent, draft.arguments)
    original = names.original(sent) if names is not None else None
    if original is None:
        return ModelCall(ident, sent, arguments, made_id=made, kind=draft.kind)
    return ModelCall(ident, original, arguments, sent if sent != original else "", made, draft.kind)


def _refuse(call: ModelCall, reason: str) -> ModelCall:
    return msgspec.structs.replace(call, arguments=InvalidCall(reason))


def make_id(position: int, name: str, arguments: object) -> str:
    """An id for a call that came without one; the same call at the same position always gets the same id."""
    try:
        body = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else _canonical(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        body = b""
    digest = hashlib.sha256(b"%d\0%s\0%s" % (position, name.encode("utf-8", "replace"), body))
    return f"call_{digest.hexdigest()[:24]}"


_canonical = msgspec.json.Encoder(order="deterministic").encode


def text_of(value: object) -> str:
    """The value if it is text that can be sent as UTF-8; empty for anything else."""
    return value if isinstance(value, str) and well_formed(value) else ""


def fitting_id(ident: str, allowed: re.Pattern[str]) -> str:
    """The id if it matches what a provider allows, else its `substitute_id`."""
    if allowed.match(ident):
        return ident
    return substitute_id(ident)


def substitute_id(ident: str) -> str:
    """The id that stands for one which a provider does not allow, derived from it."""
    return f"call_{hashlib.sha256(ident.encode('utf-8', 'replace')).hexdigest()[:24]}"


def member(value: object, *keys: str) -> Any:
    """The first of these members that an object has and that is not null; None where there is none."""
    if isinstance(value, Mapping):
        for key in keys:
            value_of_key = value.get(key)
            if value_of_key is not None:
                return value_of_key
    return None


def items(value: object) -> list[Any]:
    """The value if it is a list; an empty list for anything else."""
    return value if isinstance(value, list) else []
