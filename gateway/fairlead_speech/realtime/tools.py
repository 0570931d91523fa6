"""Tools of a session: one list of the client's and the gateway's for the provider, the client's alone for the client.

Pure. A provider answers each `session.update` by one `session.updated` or one `error`, in order; only errors name the
update.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.realtime.events import Event, member, members, new_id, text
from fairlead_speech.tools import GatewayToolNames

TOOL_MEMBERS: Final = ("type", "name", "description", "parameters")
"""Members of a tool; with any other the provider refuses the whole update."""
MAX_DESCRIPTION: Final = 1024
"""Characters of a description that every model takes."""
_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _Update(msgspec.Struct):
    event_id: str
    own: bool
    """Whether the gateway made it: the client does not hear of it."""
    unnamed: bool
    """The client gave it no id."""
    before: list[Event]
    """The client's tools before it."""
    tools: bool = True
    """Whether it is about tools."""


class SessionTools:
    """Tools of one session, and its updates that are not answered yet."""

    def __init__(self) -> None:
        self.client_tools: list[Event] = []
        self._gateway_tools: list[Event] = []
        self._names = GatewayToolNames()
        self._sent: list[Event] | None = None
        self._updates: deque[_Update] = deque()

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's own tools."""
        return frozenset(text(tool, "name") for tool in self.client_tools)

    def is_gateway_tool(self, name: str) -> bool:
        """Whether the gateway runs calls of that name: of a tool that it shows or has shown, and not the client's."""
        return name in self._names and name not in self.client_names

    def set_offer(self, offer: ToolOffer) -> None:
        """Take the gateway's tools from an offer. Calls that may not run by themselves are the client's."""
        self._gateway_tools = [declaration(each) for each in offer.definitions]
        self._names.add(offer)

    def gateway_update(self) -> Event | None:
        """An update with the tools as they are now; None where the provider has them."""
        tools = self._merge()
        if tools == (self._sent or []):
            return None
        self._sent = tools
        update = _Update(new_id(), own=True, unnamed=False, before=self.client_tools)
        self._updates.append(update)
        return {"type": "session.update", "event_id": update.event_id, "session": {"type": "realtime", "tools": tools}}

    def session_change(self, session: Event) -> Event:
        """An update of the gateway's that is not about tools."""
        update = _Update(new_id(), own=True, unnamed=False, before=self.client_tools, tools=False)
        self._updates.append(update)
        return {"type": "session.update", "event_id": update.event_id, "session": {"type": "realtime", **session}}

    def client_update(self, event: Event) -> Event:
        """A client's update as the provider gets it: with the gateway's tools where it has tools, and with an id."""
        session, given = member(event, "session"), text(event, "event_id")
        update = _Update(given or new_id(), own=False, unnamed=not given, before=self.client_tools)
        self._updates.append(update)
        if "model" in session:  # it cannot be changed, and a route's name, as clients repeat it, would be refused
            session = {name: value for name, value in session.items() if name != "model"}
        if "tools" in session:
            self.client_tools = members(session, "tools")
            self._sent = self._merge()
            session = {**session, "tools": self._sent}
        return {**event, "event_id": update.event_id, "session": session}

    def on_session_updated(self, event: Event) -> Event | None:
        """The answer to the oldest update as the client sees it; None where that was the gateway's."""
        update = self._updates.popleft() if self._updates else None
        if update is not None and update.own:
            return None
        session = member(event, "session")
        if "tools" not in session:
            return event
        shown = [tool for tool in members(session, "tools") if not self.is_gateway_tool(text(tool, "name"))]
        return {**event, "session": {**session, "tools": shown}}

    def on_update_refused(self, event_id: str) -> tuple[bool, bool] | None:
        """An error names an update: whether that was the gateway's, and whether its client gave it no id. None where
        it names none.
        """
        for update in self._updates:
            if update.event_id == event_id:
                break
        else:
            return None
        self._updates.remove(update)
        if update.own and not update.tools:
            return True, False
        if update.own:
            self._gateway_tools = []  # with the same tools the client's own updates would be refused, too
            self._sent = self._merge()
        else:
            self.client_tools = update.before
            self._sent = None
        return update.own, update.unnamed

    def _merge(self) -> list[Event]:
        taken = self.client_names
        return [*self.client_tools, *(tool for tool in self._gateway_tools if text(tool, "name") not in taken)]


def declaration(definition: bytes) -> Event:
    """A definition as every model takes it."""
    tool = {name: value for name, value in _tool(definition).items() if name in TOOL_MEMBERS}
    if len(text(tool, "description")) > MAX_DESCRIPTION:
        tool["description"] = text(tool, "description")[: MAX_DESCRIPTION - 1] + "…"
    return tool


def has_provider_mcp(event: Event) -> bool:
    """Whether there are tools anywhere in an event that have the provider itself call MCP servers: events that the
    gateway does not know may hold some, too.
    """
    waiting: list[object] = [event]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if any(tool.get("type") == "mcp" for tool in members(value, "tools")):
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False
