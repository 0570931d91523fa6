"""Types that every message format shares: calls, results, what was lost on the way, and the bounds.

Pure module, read by everything in this package.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""Characters of a name or an id that are kept; no provider allows as many."""
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
    """As the model sent it; made from place, name and arguments where it sent none."""
    name: str
    """The original name, where the names of the request know it; else as the model wrote it. Empty: it wrote none."""
    arguments: JsonObject | InvalidCall
    sent_as: str = ""
    """The name as the model wrote it, which some formats repeat in the result; empty: the same as `name`."""
    made_id: bool = False
    """`id` was made here: formats that match results by name and order leave it out."""
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
    """One part of a result, or of a message, that the outcome does not hold as it was."""

    call: str
    """The id of the call; empty for what is beside the calls and results of a message."""
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
    """Messages that answer calls."""

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
