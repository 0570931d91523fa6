"""Model request in a neutral form, which readers of wire formats produce and writers consume. Pure module.

Calls and results are those of `fairlead_formats`. What only one family knows (signatures of thoughts, marks of caches,
the provider's own tools) is not here: readers report it as lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fairlead_formats.messages.call import CUSTOM, EXCERPT, InvalidCall, McpResult, ModelCall, ToolResult
from fairlead_formats.messages.open_calls import OpenCalls
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.wire.losses import TranslationLosses

Role = Literal["system", "user", "assistant"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
EFFORTS: Final[tuple[Effort, ...]] = ("none", "minimal", "low", "medium", "high", "xhigh")
WRAPPED: Final = "_invalid_arguments"
"""Member that wraps arguments which are not a JSON object, in formats that take objects only."""
BEGINNING: Final = "(beginning of the conversation)"
"""Words of the user for an API that refuses a conversation that the model begins."""
GO_ON: Final = "(go on)"
"""Words of the user for an API that refuses a conversation that the model ends."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class TextPart(msgspec.Struct, frozen=True):
    """Text."""

    text: str


class RefusalPart(msgspec.Struct, frozen=True):
    """Words with which a model refuses."""

    text: str


class ThinkingPart(msgspec.Struct, frozen=True):
    """A model's thoughts, or a summary of them, without any signature."""

    text: str


class MediaPart(msgspec.Struct, frozen=True):
    """An image, a document, or sound."""

    what: Literal["image", "document", "audio"]
    mime: str
    data: str = ""
    """Base64; empty where it is by `url`."""
    url: str = ""
    name: str = ""


class CallPart(msgspec.Struct, frozen=True):
    """A call that a model made."""

    call: ModelCall


class ResultPart(msgspec.Struct, frozen=True):
    """The result of a call."""

    id: str
    name: str
    result: McpResult


Part: TypeAlias = TextPart | RefusalPart | ThinkingPart | MediaPart | CallPart | ResultPart


def text_of_part(part: Part) -> str:
    """The text of a part; empty for parts of other kinds."""
    return part.text if isinstance(part, (TextPart, RefusalPart, ThinkingPart)) else ""


class MessageTurn(msgspec.Struct, frozen=True):
    """One message of the system, the user or the model."""

    role: Role
    parts: tuple[Part, ...]


class ToolChoice(msgspec.Struct, frozen=True):
    """Which tools the model may or must call."""

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()
    """Names of the tools that the mode is about; empty: all tools."""


class OutputSchema(msgspec.Struct, frozen=True):
    """JSON that the answer has to be."""

    schema: Mapping[str, Any] | None
    """JSON Schema; None: any JSON object."""
    name: str = "answer"
    strict: bool | None = None


class SamplingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one request, each None where the client says nothing."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: tuple[str, ...] = ()
    effort: Effort | None = None
    budget: int | None = None
    """Tokens of thinking, where the client gives a number."""
    thoughts: bool = False
    """Whether the client wants to see thoughts, or a summary of them."""
    parallel: bool | None = None
    user: str | None = None
    output: OutputSchema | None = None
    openai_only: Mapping[str, Any] = _NOTHING
    """Settings that only Chat Completions and Responses have, by name: `metadata`, `service_tier`, `verbosity`, ..."""

    @property
    def requested_effort(self) -> Effort | None:
        """The effort, or the one that the budget stands for."""
        return self.effort if self.budget is None else effort_of(self.budget)


class NeutralRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Model request of no provider's format: messages, tools and settings."""

    model: str
    stream: bool
    system: tuple[str, ...]
    turns: tuple[MessageTurn, ...]
    tools: object = None
    """Definitions as they came, decoded."""
    choice: ToolChoice | None = None
    settings: SamplingSettings = SamplingSettings()
    include_usage: bool = True
    """Whether a stream ends with its usage."""
    array: bool = False
    """Whether a stream is one JSON array in place of events (Gemini)."""
    echo: Mapping[str, Any] = _NOTHING
    """Members of the request that answers of the client's family repeat."""


class WrittenTurns(msgspec.Struct, frozen=True):
    """Turns as they stand in a request of one family."""

    system: tuple[str, ...]
    messages: list[dict[str, Any]]


def effort_of(budget: int) -> Effort:
    """The effort that a budget of tokens for thinking stands for."""
    if budget <= 0:
        return "none"
    return next((effort for effort, most in BUDGETS.items() if effort != "none" and budget <= most), "xhigh")


BUDGETS: Final[Mapping[Effort, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 32_768,
}
"""Tokens of thinking by effort. Source of the middle three: Google's table of its OpenAI-compatible API."""


def budget_of(settings: SamplingSettings) -> int | None:
    """Tokens of thinking that settings ask for; None where they say nothing."""
    if settings.budget is not None:
        return settings.budget
    return None if settings.effort is None else BUDGETS[settings.effort]


def as_effort(value: object) -> Effort | None:
    """The effort of a name, in upper or lower case; `max` counts as the highest, an unknown name is None."""
    name = value.lower() if isinstance(value, str) else ""
    return next((effort for effort in EFFORTS if effort == name), "xhigh" if name == "max" else None)


def in_runs(turns: Iterable[MessageTurn], joins: Callable[[MessageTurn, MessageTurn], bool]) -> list[MessageTurn]:
    """The turns, with neighbours merged where `joins` holds for the first turn of a run and the next one."""
    runs: list[tuple[MessageTurn, list[Part]]] = []
    for turn in turns:
        if runs and joins(runs[-1][0], turn):
            runs[-1][1].extend(turn.parts)
        else:
            runs.append((turn, list(turn.parts)))
    return [MessageTurn(first.role, tuple(parts)) for first, parts in runs]


def leading_system(turns: Sequence[MessageTurn]) -> tuple[list[str], tuple[MessageTurn, ...]]:
    """The texts of the leading system turns, and all other turns."""
    count = next((count for count, turn in enumerate(turns) if turn.role != "system"), len(turns))
    return [system_text(turn) for turn in turns[:count]], tuple(turns[count:])


def system_text(turn: MessageTurn) -> str:
    """The text of a system turn."""
    return "\n\n".join(part.text for part in turn.parts if isinstance(part, TextPart))


def with_matched_results(turns: Sequence[MessageTurn]) -> tuple[MessageTurn, ...]:
    """The turns with unique ids of calls, and with results in the order of the calls that they answer, under their ids.
    Where a format has no ids, results are matched by name and order.
    """
    matched: list[MessageTurn] = []
    ids = _UniqueIds()
    calls = OpenCalls()
    for turn in turns:
        if turn.role == "assistant":
            if not matched or matched[-1].role != "assistant":
                calls = OpenCalls()
                ids.next_turn()
            named = tuple(ids.rename(part) if isinstance(part, CallPart) else part for part in turn.parts)
            calls.add(part.call for part in named if isinstance(part, CallPart))
            matched.append(MessageTurn(turn.role, named))
        else:
            matched.append(MessageTurn(turn.role, _match_results(turn.parts, calls, ids)) if calls else turn)
    return tuple(matched)


class _UniqueIds:
    """Ids of calls that are unique in the conversation: some servers count from zero in every answer."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._renamed = 0
        self._turn: dict[str, deque[str]] = {}
        """Unique ids of the turn's open calls, by the id that each came with."""

    def next_turn(self) -> None:
        """Begin another turn of the model: results answer calls of the turn before them."""
        self._turn.clear()

    def rename(self, part: CallPart) -> CallPart:
        """The call, under a new id where an earlier call has the same one."""
        call, ident = part.call, part.call.id
        while ident in self._taken:
            self._renamed += 1
            ident = f"{call.id}_{self._renamed}"
        self._taken.add(ident)
        if not call.made_id:
            self._turn.setdefault(call.id, deque()).append(ident)
        return part if ident == call.id else CallPart(msgspec.structs.replace(call, id=ident))

    def of_result(self, ident: str) -> str:
        """Unique id of the call of this turn that a result with the id `ident` answers."""
        waiting = self._turn.get(ident)
        return waiting.popleft() if waiting else ident


def _match_results(parts: Sequence[Part], calls: OpenCalls, ids: _UniqueIds) -> tuple[Part, ...]:
    given = [
        ToolResult(ids.of_result(part.id), part.name, dict(part.result))
        for part in parts
        if isinstance(part, ResultPart)
    ]
    if not given:
        return tuple(parts)
    matched, strays = calls.take(given)
    answers = [ResultPart(each.call.id, each.call.wire_name, each.result.result) for each in matched]
    others = [ResultPart(stray.id, stray.name, stray.result) for stray in strays]
    return (*answers, *others, *(part for part in parts if not isinstance(part, ResultPart)))


def valid_call(call: ModelCall, losses: TranslationLosses) -> ModelCall:
    """The call; arguments that cannot be read are wrapped in an object and reported."""
    if not isinstance(call.arguments, InvalidCall):
        return call
    losses.add("call_arguments")
    return msgspec.structs.replace(call, arguments={WRAPPED: call.arguments.text[:EXCERPT]})


def with_names(
    turns: Sequence[MessageTurn], names: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]
) -> tuple[MessageTurn, ...]:
    """The turns with the provider's names of tools in calls and results, and its names of properties in arguments.
    `names`: by the client's name of a tool; `properties`: by that name, by the client's name of a property. Calls of
    custom tools become calls of functions.
    """

    def renamed(part: Part) -> Part:
        if isinstance(part, CallPart):
            name = part.call.wire_name
            kind = "" if part.call.kind == CUSTOM else part.call.kind
            call = msgspec.structs.replace(part.call, name=names.get(name, name), sent_as="", kind=kind)
            return CallPart(with_properties(call, properties.get(name)))
        if isinstance(part, ResultPart):
            return msgspec.structs.replace(part, name=names.get(part.name, part.name))
        return part

    return tuple(MessageTurn(turn.role, tuple(map(renamed, turn.parts))) for turn in turns)


def with_properties(call: ModelCall, names: Mapping[str, str] | None) -> ModelCall:
    """The call with properties of its arguments renamed; the same object where `names` is empty."""
    if not names or not call.valid:
        return call
    return msgspec.structs.replace(call, arguments=restore_names(call.arguments, names))


def calls_by_id(turns: Sequence[MessageTurn]) -> dict[str, ModelCall]:
    """All calls of the turns, by their ids."""
    return {part.call.id: part.call for turn in turns for part in turn.parts if isinstance(part, CallPart)}


def call_of(result: ResultPart, calls: Mapping[str, ModelCall]) -> ModelCall:
    """The call that a result answers; a call without arguments where no call has its id."""
    return calls.get(result.id) or ModelCall(result.id, result.name or "unknown", {})
