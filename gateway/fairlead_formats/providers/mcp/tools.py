"""MCP as a format: tool definitions, JSON-RPC requests `tools/call`, and their responses.

Pure module. Source: MCP 2026-07-28, "Tools": `params {name, arguments?}`, `result {content, structuredContent?,
isError?}`. Params and results without a JSON-RPC envelope are read as well. Results are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import (
    BLOCK,
    AnswerPart,
    Answers,
    MessageFormat,
    Part,
    call_part,
    extras,
    with_paths,
)
from fairlead_formats.messages.call import Carry, Draft, ModelCall, ToolResult, member, name_for, text_of
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.tool_format import (
    DEFAULT,
    Action,
    ConvertedTools,
    Definition,
    JsonObject,
    Loss,
    Options,
    ReadDefinitions,
)
from fairlead_formats.tools.definitions import name_of

MCP: Final = "mcp"
METHOD: Final = "tools/call"
NUMBER: Final = "number"
"""Kind of a call whose JSON-RPC id is a number. The response repeats it as a number, although `ModelCall.id` is text.
"""


class McpFormat:
    """MCP's own tool definitions: unchanged, but checked for the members that every conversion needs."""

    name = MCP
    title = "MCP"
    aliases: tuple[str, ...] = ("model-context-protocol",)
    max_tools: int | None = None

    def convert(
        self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None
    ) -> ConvertedTools:
        definitions = self.read(list(tools))
        first_by_name: dict[str, JsonObject] = {}
        report = list(definitions.report)
        for tool in definitions.tools:
            if first_by_name.setdefault(tool["name"], tool) is not tool:
                report.append(Loss(tool["name"], "/name", "name", Action.REFUSED, "another tool has this name"))
        return ConvertedTools(tuple(first_by_name.values()), names or Names.unchanged(first_by_name), tuple(report))

    def read(self, payload: object) -> ReadDefinitions:
        tools: list[JsonObject] = []
        report: list[Loss] = []
        for position, tool in enumerate(_tools(payload)):
            if isinstance(tool, dict) and name_of(tool) and isinstance(tool.get("inputSchema", {}), dict):
                tools.append(tool)
            else:
                why = "the entry is not a tool, which is an object with name and inputSchema"
                report.append(Loss(f"#{position}", "", "", Action.REFUSED, why))
        return ReadDefinitions(tuple(tools), tuple(report))

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        """Members of the result of `tools/list`."""
        return {"tools": list(tools)}


def _tools(payload: Any) -> list[Any]:
    if isinstance(payload, dict):
        return payload["tools"] if isinstance(payload.get("tools"), list) else [payload]
    return payload if isinstance(payload, list) else [payload]


class McpMessages(MessageFormat):
    """Reads and writes `tools/call` requests and their responses. The id of the request is the id of the call."""

    holds_text = False

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a `tools/call` request, of its params, or of a list of requests or params."""
        for path, entry in with_paths("", message) if isinstance(message, list) else [("", message)]:
            method = member(entry, "method")
            if method not in (None, METHOD) or (method is None and member(entry, "name") is None):
                yield Part(path, BLOCK)
                continue
            params = member(entry, "params") if method is not None else entry
            ident = member(entry, "id")
            is_number = isinstance(ident, int) and not isinstance(ident, bool)
            kind = NUMBER if is_number else ""
            draft = Draft(str(ident) if is_number else ident, member(params, "name"), member(params, "arguments"), kind)
            yield call_part(path, draft, extras(params, "name", "arguments", *(() if method is not None else ("id",))))

    def request_messages(self, message: object) -> list[JsonObject]:
        return message if isinstance(message, list) else [message] if isinstance(message, dict) else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        return [
            {
                "jsonrpc": "2.0",
                "id": _ident(call),
                "method": METHOD,
                "params": {"name": name_for(call, names), "arguments": call.arguments},
            }
            for call in calls
            if call.valid
        ]

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        return [{"jsonrpc": "2.0", "id": _ident(call), "result": result} for call, result in answers.results]

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for path, message in with_paths("", messages) if isinstance(messages, list) else [("", messages)]:
            result = member(message, "result") if member(message, "jsonrpc") else message
            if isinstance(result, Mapping) and ("content" in result or "structuredContent" in result):
                extra_names = extras(result, "content", "structuredContent", "isError", "resultType")
                yield AnswerPart(path, ToolResult(_id_text(member(message, "id")), "", dict(result)), extra_names)
            else:
                yield AnswerPart(path)


def _id_text(ident: object) -> str:
    return str(ident) if isinstance(ident, int) and not isinstance(ident, bool) else text_of(ident)


def _ident(call: ModelCall) -> str | int:
    return int(call.id) if call.kind == NUMBER else call.id


FORMATS: Final = (ProviderFormat(tools=McpFormat(), messages=McpMessages()),)
