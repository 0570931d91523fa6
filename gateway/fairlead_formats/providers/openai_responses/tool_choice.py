"""The request member `tool_choice` for each round (request to the model) of the tool loop. Pure module.

Source: OpenAI's API reference, `POST /v1/responses`, `tool_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.items import encode
from fairlead_formats.wire.raw_json import decode_object

_ALLOWED_TOOLS: Final = "allowed_tools"
_decode: Final = msgspec.json.Decoder().decode


class ChoiceOverRounds:
    """The client's `tool_choice`, adapted to each round."""

    def __init__(self, raw: Raw, servers: Mapping[str, str]) -> None:
        """`servers` maps the client's labels to the gateway's servers; an empty name stands for all servers."""
        self._raw = raw
        self._choice: Any = _decode(raw)
        self._servers = servers
        self._names_servers = isinstance(self._choice, dict) and any(
            map(self._is_gateway_server, [self._choice, *_tools(self._choice)])
        )

    @property
    def _forces_call(self) -> bool:
        if isinstance(self._choice, dict):
            return self._choice.get("type") != _ALLOWED_TOOLS or self._choice.get("mode") == "required"
        return bool(self._choice == "required")

    def write(self, injected_tools: Sequence[bytes], *, is_first_round: bool) -> Raw | None:
        """The `tool_choice` for the provider; None if the client sent none. The tool that it forces is called in the
        first round; in later rounds the model is free to choose.
        """
        if not self._names_servers and (is_first_round or not self._forces_call):
            return None if self._choice is None else self._raw
        expanded_choice = self._expand(injected_tools)
        if is_first_round or not self._forces_call:
            return Raw(encode(expanded_choice))
        is_allowed = isinstance(expanded_choice, dict) and expanded_choice.get("type") == _ALLOWED_TOOLS
        return Raw(encode({**expanded_choice, "mode": "auto"} if is_allowed else "auto"))

    def _is_gateway_server(self, choice: object) -> bool:
        label = choice.get("server_label") if isinstance(choice, dict) and choice.get("type") == "mcp" else None
        return isinstance(label, str) and label in self._servers

    def _expand(self, injected_tools: Sequence[bytes]) -> Any:
        """The choice with functions in place of the gateway's servers, which the provider does not know."""
        if not self._names_servers:
            return self._choice
        by_name: dict[str | None, list[str]] = {
            None: [str(tool.get("name")) for tool in map(decode_object, injected_tools)]
        }
        for name in by_name[None]:
            for alias in {name, name.partition("__")[2]}:
                by_name.setdefault(alias, []).append(name)
        if not self._is_gateway_server(self._choice):
            return {**self._choice, "tools": self._allow_tools(by_name)}
        functions = [*map(_function, self._functions(self._choice, by_name))]
        if len(functions) == 1:
            return functions[0]
        return {"type": _ALLOWED_TOOLS, "mode": "required", "tools": functions} if functions else "auto"

    def _allow_tools(self, by_name: Mapping[str | None, Sequence[str]]) -> list[Any]:
        """The tools of an `allowed_tools` choice, without repeated functions."""
        tools: list[Any] = []
        seen_tools: set[tuple[str, str | None]] = set()
        allowed_names: set[str] = set()
        for tool in _tools(self._choice):
            if not self._is_gateway_server(tool):
                tools.append(tool)
            elif (key := (tool["server_label"], _name(tool))) not in seen_tools:
                seen_tools.add(key)
                names = [name for name in self._functions(tool, by_name) if name not in allowed_names]
                allowed_names.update(names)
                tools += map(_function, names)
        return tools

    def _functions(self, choice: Mapping[str, Any], by_name: Mapping[str | None, Sequence[str]]) -> list[str]:
        """Names of the functions for all tools of a gateway's server, or for the one tool that the choice names."""
        server = self._servers[choice["server_label"]]
        return [name for name in by_name.get(_name(choice), ()) if not server or name.startswith(f"{server}__")]


def _name(choice: Mapping[str, Any]) -> str | None:
    """Name of the chosen tool; None for all tools of the server."""
    name = choice.get("name")
    return name if name is None else str(name)


def _function(name: str) -> dict[str, str]:
    return {"type": "function", "name": name}


def _tools(choice: Mapping[str, Any]) -> list[Any]:
    tools = choice.get("tools")
    return tools if isinstance(tools, list) else []
