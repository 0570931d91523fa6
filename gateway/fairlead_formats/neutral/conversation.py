"""Neutral form of a request to a model, independent of any provider's API. Pure module.

Readers convert a provider's format to this form, and writers convert this form to another provider's format. Calls and
results are the types of `fairlead_formats.messages`. Parts that only one family of APIs has are left out and reported
as lost: signatures of reasoning, cache markers, tools that the provider runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fairlead_formats.messages.call import CUSTOM, InvalidCall, McpResult, ModelCall, ToolResult
from fairlead_formats.messages.open_calls import OpenCalls
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.wire.protocol import TranslationLosses

Role = Literal["system", "user", "assistant"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
EFFORTS: Final[tuple[Effort, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh")
WRAPPED: Final = "_invalid_arguments"
"""Member that wraps arguments which are not a JSON object, in formats that accept only objects."""
BEGINNING: Final = "(beginning of the conversation)"
"""User message that is put in front of a conversation if the model's message is the first and the API refuses this."""
GO_ON: Final = "(go on)"
"""User message that is added to a conversation if the model's message is the last and the API refuses this."""
_NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})


class TextPart(msgspec.Struct, frozen=True):
    """Text of a message."""

    text: str


class RefusalPart(msgspec.Struct, frozen=True):
    """Text with which a model refuses to answer."""

    text: str


class ThinkingPart(msgspec.Struct, frozen=True):
    """Reasoning of a model, or a summary of it, without its signature."""

    text: str


class MediaPart(msgspec.Struct, frozen=True):
    """An image, document or audio file."""

    what: Literal["image", "document", "audio"]
    mime: str
    data: str = ""
    """Base64; empty for a file with a `url`."""
    url: str = ""
    name: str = ""
    """Name of the file; empty if unknown."""


class CallPart(msgspec.Struct, frozen=True):
    """A call of the model."""

    call: ModelCall


class ResultPart(msgspec.Struct, frozen=True):
    """The result of a call."""

    id: str
    name: str
    result: McpResult


Part: TypeAlias = TextPart | RefusalPart | ThinkingPart | MediaPart | CallPart | ResultPart


def text_of_part(part: Part) -> str:
    """The text of a part; empty for parts without text."""
    return part.text if isinstance(part, (TextPart, RefusalPart, ThinkingPart)) else ""


class MessageTurn(msgspec.Struct, frozen=True):
    """One message of the system, the user or the model."""

    role: Role
    parts: tuple[Part, ...]


class ToolChoice(msgspec.Struct, frozen=True):
    """The tools that the model may or must call."""

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()
    """Names of the tools that the mode applies to; empty for all tools."""


class OutputSchema(msgspec.Struct, frozen=True):
    """A request for JSON output."""

    schema: Mapping[str, Any] | None
    """JSON Schema of the output; None for any JSON object."""
    name: str = "answer"
    strict: bool | None = None
    """Whether the output must match the schema exactly; None: not set."""


class SamplingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one request; None for those that the client does not set."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    effort: Effort | None = None
    """Effort of reasoning."""
    budget: int | None = None
    """Token budget for reasoning, if the client sets one."""
    include_reasoning: bool = False
    """Whether the client requests reasoning, or a summary of it, in the answer."""
    parallel: bool | None = None
    """Whether the model may make several calls in one answer."""
    user: str | None = None
    """The client's id of its end user."""
    output: OutputSchema | None = None
    """JSON that the client requests in place of text."""
    openai_only: Mapping[str, Any] = _NO_MEMBERS
    """Settings that only Chat Completions and Responses have, by name, such as `metadata`, `service_tier`, `verbosity`.
    """

    @property
    def requested_effort(self) -> Effort | None:
        """The effort; if the client sets none, the effort that corresponds to the budget."""
        return self.effort if self.budget is None else effort_of(self.budget)


class NeutralRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A model request independent of any provider's format: messages, tools and settings."""

    model: str
    stream: bool
    system: tuple[str, ...]
    turns: tuple[MessageTurn, ...]
    tools: object = None
    """Tool definitions as decoded JSON, in the client's format."""
    choice: ToolChoice | None = None
    settings: SamplingSettings = SamplingSettings()
    include_usage: bool = True
    """Whether a stream ends with token usage."""
    array: bool = False
    """Whether a stream is one JSON array instead of server-sent events (Gemini)."""
    echo: Mapping[str, Any] = _NO_MEMBERS
    """Members of the request, by name, that an answer in the client's format has to repeat."""


class WrittenTurns(msgspec.Struct, frozen=True):
    """Turns in a family's form. `system`: texts that the family has outside of its messages."""

    system: tuple[str, ...]
    messages: list[dict[str, Any]]


def effort_of(budget: int) -> Effort:
    """The effort that corresponds to a token budget for reasoning."""
    if budget <= 0:
        return "none"
    return next((effort for effort, limit in BUDGETS.items() if effort != "none" and budget <= limit), "xhigh")


BUDGETS: Final[Mapping[Effort, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 32_768,
}
"""Token budget for reasoning by effort. The budgets of `low`, `medium` and `high` are from Google's table (OpenAI
compatibility documentation).
"""


def budget_of(settings: SamplingSettings) -> int | None:
    """The token budget for reasoning that the settings request; None without a budget and an effort."""
    if settings.budget is not None:
        return settings.budget
    return None if settings.effort is None else BUDGETS[settings.effort]


def parse_effort(value: object) -> Effort | None:
    """The effort with this name, in any letter case. `max` is the highest effort; None for an unknown name."""
    name = value.lower() if isinstance(value, str) else ""
    return next((effort for effort in EFFORTS if effort == name), "xhigh" if name == "max" else None)


def merge_runs(turns: Iterable[MessageTurn], joins: Callable[[MessageTurn, MessageTurn], bool]) -> list[MessageTurn]:
    """The turns with adjacent turns merged. `joins(first, turn)`: whether `turn` is merged into the run that `first`
    began.
    """
    runs: list[tuple[MessageTurn, list[Part]]] = []
    for turn in turns:
        if runs and joins(runs[-1][0], turn):
            runs[-1][1].extend(turn.parts)
        else:
            runs.append((turn, list(turn.parts)))
    return [MessageTurn(first.role, tuple(parts)) for first, parts in runs]


def leading_system(turns: Sequence[MessageTurn]) -> tuple[list[str], tuple[MessageTurn, ...]]:
    """The texts of the leading system turns, and the remaining turns."""
    count = next((count for count, turn in enumerate(turns) if turn.role != "system"), len(turns))
    return [system_text(turn) for turn in turns[:count]], tuple(turns[count:])


def system_text(turn: MessageTurn) -> str:
    """The text of a system turn."""
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, TextPart))


def match_results(turns: Sequence[MessageTurn]) -> tuple[MessageTurn, ...]:
    """The turns with unique call ids. Results get the order and the ids of their calls; a result without an id is
    matched to its call by name and order.
    """
    matched_turns: list[MessageTurn] = []
    ids = _UniqueIds()
    calls = OpenCalls()
    for turn in turns:
        if turn.role == "assistant":
            if not matched_turns or matched_turns[-1].role != "assistant":
                calls = OpenCalls()
                ids.next_turn()
            parts = tuple(ids.rename(part) if isinstance(part, CallPart) else part for part in turn.parts)
            calls.add(part.call for part in parts if isinstance(part, CallPart))
            matched_turns.append(MessageTurn(turn.role, parts))
        else:
            matched_turns.append(MessageTurn(turn.role, _match_turn_results(turn.parts, calls, ids)) if calls else turn)
    return tuple(matched_turns)


class _UniqueIds:
    """Makes call ids unique in a conversation, because some servers number the calls of every answer from zero."""

    def __init__(self) -> None:
        self._taken_ids: set[str] = set()
        self._renamed_total = 0
        self._open_ids: dict[str, deque[str]] = {}
        """Unique ids of the turn's open calls, by their original id."""

    def next_turn(self) -> None:
        """Begin another turn of the model: later results belong to calls of that turn."""
        self._open_ids.clear()

    def rename(self, part: CallPart) -> CallPart:
        """The call, with a new id if an earlier call has its id."""
        call, ident = part.call, part.call.id
        while ident in self._taken_ids:
            self._renamed_total += 1
            ident = f"{call.id}_{self._renamed_total}"
        self._taken_ids.add(ident)
        if not call.made_id:
            self._open_ids.setdefault(call.id, deque()).append(ident)
        return part if ident == call.id else CallPart(msgspec.structs.replace(call, id=ident))

    def id_of_result(self, ident: str) -> str:
        """The unique id of the call in this turn to which a result with the original id `ident` belongs."""
        unique_ids = self._open_ids.get(ident)
        return unique_ids.popleft() if unique_ids else ident


def _match_turn_results(parts: Sequence[Part], calls: OpenCalls, ids: _UniqueIds) -> tuple[Part, ...]:
    results = [
        ToolResult(ids.id_of_result(part.id), part.name, dict(part.result))
        for part in parts
        if isinstance(part, ResultPart)
    ]
    if not results:
        return tuple(parts)
    call_results, unmatched_results = calls.take(results)
    answers = [
        ResultPart(matched_result.call.id, matched_result.call.wire_name, matched_result.result.result)
        for matched_result in call_results
    ]
    others = [ResultPart(result.id, result.name, result.result) for result in unmatched_results]
    return (*answers, *others, *(part for part in parts if not isinstance(part, ResultPart)))


def valid_call(call: ModelCall, losses: TranslationLosses) -> ModelCall:
    """The call, with unreadable arguments wrapped in an object (`WRAPPED`) and reported as lost."""
    if not isinstance(call.arguments, InvalidCall):
        return call
    if not call.arguments.text:
        return msgspec.structs.replace(call, arguments={})
    losses.add("call_arguments")
    return msgspec.structs.replace(call, arguments={WRAPPED: call.arguments.text})


def rename_tools(
    turns: Sequence[MessageTurn], names: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]
) -> tuple[MessageTurn, ...]:
    """The turns with the provider's names of tools and argument properties in calls and results.

    `names`: maps the client's tool names to the provider's. `properties`: by the client's tool name, maps the client's
    property names to the provider's. Calls of custom tools become calls of functions.
    """

    def rename_part(part: Part) -> Part:
        if isinstance(part, CallPart):
            name = part.call.wire_name
            kind = "" if part.call.kind == CUSTOM else part.call.kind
            call = msgspec.structs.replace(part.call, name=names.get(name, name), sent_as="", kind=kind)
            return CallPart(rename_properties(call, properties.get(name)))
        if isinstance(part, ResultPart):
            return msgspec.structs.replace(part, name=names.get(part.name, part.name))
        return part

    return tuple(MessageTurn(turn.role, tuple(map(rename_part, turn.parts))) for turn in turns)


def rename_properties(call: ModelCall, names: Mapping[str, str] | None) -> ModelCall:
    """The call with renamed argument properties; the same object if `names` is empty or the call is invalid."""
    if not names or not call.valid:
        return call
    return msgspec.structs.replace(call, arguments=restore_names(call.arguments, names))


def calls_by_id(turns: Sequence[MessageTurn]) -> dict[str, ModelCall]:
    """All calls of the turns, by id."""
    return {part.call.id: part.call for turn in turns for part in turn.parts if isinstance(part, CallPart)}


def call_of(result: ResultPart, calls: Mapping[str, ModelCall]) -> ModelCall:
    """The call that a result answers; if no call has its id, a new call without arguments."""
    return calls.get(result.id) or ModelCall(result.id, result.name or "unknown", {})
