"""MCP itself as a message format: JSON-RPC `tools/call` requests, and their responses.

Pure module. MCP 2026-07-28, "Tools": `params {name, arguments?}`, `result {content, structuredContent?, isError?}`.
Bare params and bare results are read too. Results pass as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from fairlead_gateway.formats import registry
from fairlead_gateway.formats.format import JsonObject
from fairlead_gateway.formats.messages.base import Answers, MessageFormat
from fairlead_gateway.formats.messages.call import Carry, ToolCall, ToolResult, name_for
from fairlead_gateway.formats.messages.drafts import Draft, member, text_of
from fairlead_gateway.formats.names import Names

METHOD: Final = "tools/call"
NUMBER: Final = "number"
"""Kind of a call whose request has a number for an id: its response must have it too."""


class McpMessages(MessageFormat):
    """MCP. The id of a request is that of the call."""

    name = registry.MCP

    def drafts(self, message: object) -> Iterator[Draft]:
        """From a request, its params, or a list of either."""
        for entry in message if isinstance(message, list) else [message]:
            method = member(entry, "method")
            if method not in (None, METHOD) or (method is None and member(entry, "name") is None):
                continue
            params = member(entry, "params") if method is not None else entry
            ident = member(entry, "id")
            number = isinstance(ident, int) and not isinstance(ident, bool)
            kind = NUMBER if number else ""
            yield Draft(str(ident) if number else ident, member(params, "name"), member(params, "arguments"), kind)

    def write_calls(self, calls: Sequence[ToolCall], names: Names | None = None) -> list[JsonObject]:
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

    def parse_results(self, messages: object) -> list[ToolResult]:
        found = []
        for message in messages if isinstance(messages, list) else [messages]:
            result = member(message, "result") if member(message, "jsonrpc") else message
            if isinstance(result, Mapping) and ("content" in result or "structuredContent" in result):
                found.append(ToolResult(text_of(member(message, "id")), "", dict(result)))
        return found


def _ident(call: ToolCall) -> str | int:
    return int(call.id) if call.kind == NUMBER else call.id
