"""Setup of a Gemini Live session: the client's setup, with the gateway's tools appended. Does no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.gemini.messages import Message, has_member, key, member, members, text
from fairlead_speech.tools import GatewayToolNames

_decode_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.encode


class SessionSetup:
    """Current setup of one session, and the tools that were sent to the provider."""

    def __init__(self, setup: Message, model: str, behavior_of: Callable[[str], str]) -> None:
        """`model`: name of the model at the provider. `behavior_of`: returns the `behavior` for a tool of the gateway;
        empty to leave `behavior` out.
        """
        self._setup = setup
        self._model = model
        self._behavior_of = behavior_of
        self._gateway_tools: list[Message] = []
        self._names = GatewayToolNames()
        self._sent_tools: list[Message] | None = None
        self.client_tools = members(setup, "tools")
        self._names.add_client_names(self.client_names)
        self.client_resumes = has_member(setup, "sessionResumption")
        """Whether the client requested resumption handles, so that it can resume the session itself."""

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's functions."""
        return function_names(self.client_tools)

    @property
    def pending(self) -> bool:
        """Whether the current tools differ from those that were sent to the provider."""
        return self._merged_tools() != self._sent_tools

    def answers_call(self, name: str) -> bool:
        """Whether the gateway answers calls of a name. It does so if it offers or has offered a tool with this name and
        the client has no such tool, and also if nobody has offered such a tool.
        """
        return self._names.answers(name, self.client_names)

    def set_offer(self, offer: ToolOffer) -> None:
        """Replace the gateway's tools."""
        self._gateway_tools = [self._declaration(definition) for definition in offer.definitions]
        self._names.add(offer)

    def message(self, handle: str = "") -> bytes:
        """Encode the first message of a connection, with the current tools. `handle`: resumption handle of the session
        to resume; empty: begin a new session.
        """
        self._sent_tools = self._merged_tools()
        setup = {**self._setup, "model": f"models/{self._model}"}
        setup.pop("tools", None)
        if self._sent_tools:
            setup["tools"] = self._sent_tools
        name = key(setup, "sessionResumption")
        resumption = {**member(setup, "sessionResumption")}
        if handle:
            resumption["handle"] = handle
        return _encode({"setup": {**setup, name: resumption}})

    def context_update(self) -> bytes:
        """Encode a `contextUpdate` with the current tools."""
        self._sent_tools = self._merged_tools()
        return _encode({"contextUpdate": {"tools": {"tools": self._sent_tools}}})

    def client_update(self, message: Message) -> Message:
        """Apply a client's `contextUpdate`. Returns the update for the provider. If the update has tools, the gateway's
        tools are appended.
        """
        name = key(message, "contextUpdate")
        update = member(message, "contextUpdate")
        if has_member(update, "systemInstruction"):
            self._setup.pop(key(self._setup, "systemInstruction"), None)
            self._setup["systemInstruction"] = update[key(update, "systemInstruction")]
        if not has_member(update, "tools"):
            return message
        self.client_tools = members(member(update, "tools"), "tools")
        self._names.add_client_names(self.client_names)
        self._sent_tools = self._merged_tools()
        return {**message, name: {**update, "tools": {"tools": self._sent_tools}}}

    def _merged_tools(self) -> list[Message]:
        client_names = self.client_names
        functions = [function for function in self._gateway_tools if text(function, "name") not in client_names]
        return [*self.client_tools, {"functionDeclarations": functions}] if functions else [*self.client_tools]

    def _declaration(self, definition: bytes) -> Message:
        function = _decode_tool(definition)
        behavior = self._behavior_of(text(function, "name"))
        return {**function, "behavior": behavior} if behavior else function


def function_names(tools: list[Message]) -> frozenset[str]:
    """Names of all functions that tools declare."""
    return frozenset(text(function, "name") for tool in tools for function in members(tool, "functionDeclarations"))


def has_provider_mcp(tools: list[Message]) -> bool:
    """Whether any of the tools lets the provider call MCP servers."""
    return any(has_member(tool, "mcpServers") for tool in tools)
