"""Tools of a Realtime session: the provider gets those of client and gateway as one list, the client sees its own
alone.

Pure. A provider answers each `session.update` by one `session.updated` or one `error`, in order; only an `error` names
its update.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.realtime.events import Event, member, members, new_id, text
from fairlead_speech.tools import GatewayToolNames

TOOL_MEMBERS: Final = ("type", "name", "description", "parameters")
"""Members of a tool; with any other one the provider refuses the whole update."""
MAX_DESCRIPTION: Final = 1024
"""Characters of a description that every model accepts."""
_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SentUpdate(msgspec.Struct, kw_only=True):
    """A `session.update` that the provider has not answered."""

    event_id: str
    by_gateway: bool
    """Whether the gateway made it: its answer is hidden from the client."""
    without_id: bool = False
    """Whether the client sent it without `event_id`."""
    previous_tools: list[Event]
    """The client's tools before it."""
    about_tools: bool = True
    """Whether it may change the tools."""


class SessionTools:
    """Tools of one session, and its updates that have no answer yet."""

    def __init__(self) -> None:
        self.client_tools: list[Event] = []
        self._gateway_tools: list[Event] = []
        self._names = GatewayToolNames()
        self._sent: list[Event] | None = None
        self._updates: deque[SentUpdate] = deque()

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's own tools."""
        return frozenset(text(tool, "name") for tool in self.client_tools)

    def is_gateway_tool(self, name: str) -> bool:
        """Whether the gateway runs calls of that name: it offers or has offered the tool, and the client has none of
        that name.
        """
        return name in self._names and name not in self.client_names

    def set_offer(self, offer: ToolOffer) -> None:
        """Set the gateway's tools. Calls of `offer.client_run` are left to the client."""
        self._gateway_tools = [declaration(each) for each in offer.definitions]
        self._names.add(offer)

    def gateway_update(self) -> Event | None:
        """A `session.update` with the tools as they are now; None where the provider has them."""
        tools = self._merge()
        if tools == (self._sent or []):
            return None
        self._sent = tools
        return self._send_by_gateway({"tools": tools}, about_tools=True)

    def session_change(self, session: Event) -> Event:
        """A `session.update` of the gateway that leaves the tools as they are."""
        return self._send_by_gateway(session, about_tools=False)

    def client_update(self, event: Event) -> Event:
        """A client's `session.update` in the form for the provider: with an `event_id`, and the gateway's tools where
        it has tools.
        """
        session, event_id = member(event, "session"), text(event, "event_id")
        update = SentUpdate(
            event_id=event_id or new_id(),
            by_gateway=False,
            without_id=not event_id,
            previous_tools=self.client_tools,
        )
        self._updates.append(update)
        if "model" in session:  # it cannot change, and clients repeat the name of a route, which the provider refuses
            session = {name: value for name, value in session.items() if name != "model"}
        if "tools" in session:
            self.client_tools = members(session, "tools")
            self._sent = self._merge()
            session = {**session, "tools": self._sent}
        return {**event, "event_id": update.event_id, "session": session}

    def on_session_updated(self, event: Event) -> Event | None:
        """A `session.updated` in the form for the client; None: it answers an update of the gateway."""
        update = self._updates.popleft() if self._updates else None
        if update is not None and update.by_gateway:
            return None
        session = member(event, "session")
        if "tools" not in session:
            return event
        visible = [tool for tool in members(session, "tools") if not self.is_gateway_tool(text(tool, "name"))]
        return {**event, "session": {**session, "tools": visible}}

    def on_update_refused(self, event_id: str) -> SentUpdate | None:
        """The update that an `error` names, taken back; None where the error names another event."""
        update = next((each for each in self._updates if each.event_id == event_id), None)
        if update is None:
            return None
        self._updates.remove(update)
        if not update.by_gateway:
            self.client_tools = update.previous_tools
            self._sent = None
        elif update.about_tools:
            self._gateway_tools = []  # with the same tools the client's own updates would be refused, too
            self._sent = self._merge()
        return update

    def _send_by_gateway(self, session: Event, *, about_tools: bool) -> Event:
        """Record an update of the gateway, and return it."""
        update = SentUpdate(
            event_id=new_id(), by_gateway=True, previous_tools=self.client_tools, about_tools=about_tools
        )
        self._updates.append(update)
        return {"type": "session.update", "event_id": update.event_id, "session": {"type": "realtime", **session}}

    def _merge(self) -> list[Event]:
        taken = self.client_names
        return [*self.client_tools, *(tool for tool in self._gateway_tools if text(tool, "name") not in taken)]


def declaration(definition: bytes) -> Event:
    """Declaration of a tool that every model accepts."""
    tool = {name: value for name, value in _tool(definition).items() if name in TOOL_MEMBERS}
    if len(text(tool, "description")) > MAX_DESCRIPTION:
        tool["description"] = text(tool, "description")[: MAX_DESCRIPTION - 1] + "…"
    return tool


def has_provider_mcp(event: Event) -> bool:
    """Whether an event has tools of type `mcp`, with which the provider itself would call MCP servers, at any depth: an
    event that is unknown to the gateway may hold some.
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
