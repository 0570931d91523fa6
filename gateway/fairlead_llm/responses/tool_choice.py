"""The member `tool_choice` of a request over the rounds of its loop. Pure module.

Source: OpenAI's API reference, `POST /v1/responses`, `tool_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_llm.raw_json import decoded
from fairlead_llm.responses.items import encode

_ALLOWED: Final = "allowed_tools"
_any: Final = msgspec.json.Decoder().decode


class ChoiceOverRounds:
    """The client's choice, as each round has it."""

    def __init__(self, raw: Raw, servers: Mapping[str, str]) -> None:
        """`servers`: names of servers of ours by the client's labels; all of them have the name ``."""
        self._raw = raw
        self._given: Any = _any(raw)
        self._servers = servers
        self._named = isinstance(self._given, dict) and any(map(self._ours, [self._given, *_tools(self._given)]))

    @property
    def _forced(self) -> bool:
        if isinstance(self._given, dict):
            return self._given.get("type") != _ALLOWED or self._given.get("mode") == "required"
        return bool(self._given == "required")

    def written(self, injected: Sequence[bytes], *, first: bool) -> Raw | None:
        """As it goes out; None where the client said none. After the `first` round a tool that was forced has been
        called, and the model chooses.
        """
        if not self._named and (first or not self._forced):
            return None if self._given is None else self._raw
        found = self._expanded(injected)
        if first or not self._forced:
            return Raw(encode(found))
        kept = isinstance(found, dict) and found.get("type") == _ALLOWED
        return Raw(encode({**found, "mode": "auto"} if kept else "auto"))

    def _ours(self, choice: object) -> bool:
        return isinstance(choice, dict) and choice.get("type") == "mcp" and choice.get("server_label") in self._servers

    def _expanded(self, injected: Sequence[bytes]) -> Any:
        """With functions in place of servers of ours: the provider knows those alone."""
        if not self._named:
            return self._given
        names = [str(tool.get("name")) for tool in map(decoded, injected)]
        if not self._ours(self._given):
            tools = [each for tool in _tools(self._given) for each in (self._functions(tool, names) or [tool])]
            return {**self._given, "tools": [tool for tool in tools if not self._ours(tool)]}
        functions = self._functions(self._given, names)
        if len(functions) == 1:
            return functions[0]
        return {"type": _ALLOWED, "mode": "required", "tools": functions} if functions else "auto"

    def _functions(self, choice: object, names: Sequence[str]) -> list[dict[str, Any]]:
        if not isinstance(choice, dict) or not self._ours(choice):
            return []
        server, wanted = self._servers[choice["server_label"]], choice.get("name")
        return [
            {"type": "function", "name": name}
            for name in names
            if (not server or name.startswith(f"{server}__")) and wanted in (None, name, name.partition("__")[2])
        ]


def _tools(choice: Mapping[str, Any]) -> list[Any]:
    found = choice.get("tools")
    return found if isinstance(found, list) else []
