"""Setup of a Gemini Live session: the client's, with the tools of the gateway after its own. Pure module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.gemini.messages import Message, has, key, member, members, text
from fairlead_speech.tools import GatewayToolNames

_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.encode


class SessionSetup:
    """Setup of one session as it is now, and the tools that the provider has."""

    def __init__(self, setup: Message, model: str, behavior_of: Callable[[str], str]) -> None:
        """`model`: its name at the provider. `behavior_of` returns the `behavior` of a tool of the gateway; empty:
        none.
        """
        self._setup = setup
        self._model = model
        self._behavior_of = behavior_of
        self._gateway_tools: list[Message] = []
        self._names = GatewayToolNames()
        self._sent: list[Message] | None = None
        self.client_tools = members(setup, "tools")
        self.client_resumes = has(setup, "sessionResumption")
        """Whether the client asked for handles, to resume the session by itself."""

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's own functions."""
        return function_names(self.client_tools)

    @property
    def pending(self) -> bool:
        """Whether the offered tools differ from those that the provider has."""
        return self._merge() != self._sent

    def is_gateway_tool(self, name: str) -> bool:
        """Whether the gateway runs calls of that name: it offers or has offered the tool, and the client has none of
        that name.
        """
        return name in self._names and name not in self.client_names

    def set_offer(self, offer: ToolOffer) -> None:
        """Set the gateway's tools."""
        self._gateway_tools = [self._declaration(each) for each in offer.definitions]
        self._names.add(offer)

    def message(self, handle: str = "") -> bytes:
        """First message of a connection, with the tools as they are now; a `handle` resumes the session."""
        self._sent = self._merge()
        setup = {**self._setup, "model": f"models/{self._model}"}
        setup.pop("tools", None)
        if self._sent:
            setup["tools"] = self._sent
        name = key(setup, "sessionResumption")
        resumption = {**member(setup, "sessionResumption")}
        if handle:
            resumption["handle"] = handle
        return _encode({"setup": {**setup, name: resumption}})

    def context_update(self) -> bytes:
        """A `contextUpdate` with the tools as they are now."""
        self._sent = self._merge()
        return _encode({"contextUpdate": {"tools": {"tools": self._sent}}})

    def client_update(self, message: Message) -> Message:
        """A client's `contextUpdate` in the form for the provider: with the gateway's tools, where it has tools."""
        name = key(message, "contextUpdate")
        update = member(message, "contextUpdate")
        if has(update, "systemInstruction"):
            self._setup.pop(key(self._setup, "systemInstruction"), None)
            self._setup["systemInstruction"] = update[key(update, "systemInstruction")]
        if not has(update, "tools"):
            return message
        self.client_tools = members(member(update, "tools"), "tools")
        self._sent = self._merge()
        return {**message, name: {**update, "tools": {"tools": self._sent}}}

    def _merge(self) -> list[Message]:
        taken = self.client_names
        own = [function for function in self._gateway_tools if text(function, "name") not in taken]
        return [*self.client_tools, {"functionDeclarations": own}] if own else [*self.client_tools]

    def _declaration(self, definition: bytes) -> Message:
        function = _tool(definition)
        behavior = self._behavior_of(text(function, "name"))
        return {**function, "behavior": behavior} if behavior else function


def function_names(tools: list[Message]) -> frozenset[str]:
    """Names of all functions among tools."""
    return frozenset(text(function, "name") for tool in tools for function in members(tool, "functionDeclarations"))


def has_provider_mcp(tools: list[Message]) -> bool:
    """Whether a tool would have the provider itself call MCP servers."""
    return any(has(tool, "mcpServers") for tool in tools)
