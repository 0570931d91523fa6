"""Tools of a Realtime session: the provider gets the client's and the gateway's tools in one list, and the client sees
only its own tools.

A provider answers each `session.update` with one `session.updated` or one `error`, in the order of the updates. Only an
`error` contains the id of its update. Does no I/O.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.realtime.events import Event, member, members, new_id, text
from fairlead_speech.tools import GatewayToolNames

TOOL_MEMBERS: Final = ("type", "name", "description", "parameters")
"""Members that a tool may have. If a tool has any other member, the provider refuses the whole update."""
MAX_DESCRIPTION: Final = 1024
"""Maximum number of characters of a tool's description. Every model accepts that many."""
_decode_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SentUpdate(msgspec.Struct, kw_only=True):
    """A `session.update` that the provider has not answered yet."""

    event_id: str
    by_gateway: bool
    """Whether the gateway, not the client, sent the update, so that the provider's answer is hidden from the client."""
    without_id: bool = False
    """Whether the client sent the update without `event_id`."""
    previous_tools: list[Event]
    """The client's tools before the update."""
    about_tools: bool = True
    """Whether the update may change the tools."""


class SessionTools:
    """Tools of one session, and the `session.update` events that the provider has not answered yet."""

    def __init__(self) -> None:
        self.client_tools: list[Event] = []
        self._gateway_tools: list[Event] = []
        self._names = GatewayToolNames()
        self._sent_tools: list[Event] | None = None
        """Tools that were sent to the provider last; None: the gateway has not sent the provider a list of tools."""
        self._has_prompt = False
        """Whether the session uses a prompt that is stored at the provider, which may bring tools that the gateway does
        not know.
        """
        self._updates: deque[SentUpdate] = deque()

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's tools."""
        return frozenset(text(tool, "name") for tool in self.client_tools)

    def is_gateway_tool(self, name: str) -> bool:
        """Whether the gateway offers or has offered a tool with a name, and the client has no tool with this name."""
        return name in self._names and name not in self.client_names

    def answers_call(self, name: str) -> bool:
        """Whether the gateway answers calls of a name: the tool is the gateway's, or nobody has offered it."""
        if self._has_prompt and name not in self._names:
            return False
        return self._names.answers(name, self.client_names)

    def on_client_response(self, response: Event) -> None:
        """Record the tools that a client declares, in `response.create`, for one response."""
        self._has_prompt = self._has_prompt or response.get("prompt") is not None
        self._names.add_client_names(text(tool, "name") for tool in members(response, "tools"))

    def set_offer(self, offer: ToolOffer) -> None:
        """Replace the gateway's tools. The client gets the calls of tools in `offer.client_run`, and runs them."""
        self._gateway_tools = [declaration(definition) for definition in offer.definitions]
        self._names.add(offer)

    def gateway_update(self) -> Event | None:
        """Make a `session.update` with the current tools. Returns None if the provider already has these tools."""
        tools = self._merged_tools()
        if tools == (self._sent_tools or []):
            return None
        self._sent_tools = tools
        return self._send_by_gateway({"tools": tools}, about_tools=True)

    def session_change(self, session: Event) -> Event:
        """Make a `session.update` of the gateway that changes other settings than the tools."""
        return self._send_by_gateway(session, about_tools=False)

    def client_update(self, event: Event) -> Event:
        """Apply a client's `session.update`. Returns the update for the provider, with an `event_id`. If the update has
        tools, the gateway's tools are added.
        """
        session, event_id = member(event, "session"), text(event, "event_id")
        update = SentUpdate(
            event_id=event_id or new_id(),
            by_gateway=False,
            without_id=not event_id,
            previous_tools=self.client_tools,
        )
        self._updates.append(update)
        if "model" in session:  # clients repeat the model, even if it is the name of a route, which providers refuse
            session = {name: value for name, value in session.items() if name != "model"}
        self._has_prompt = self._has_prompt or session.get("prompt") is not None
        if "tools" in session:
            self.client_tools = members(session, "tools")
            self._names.add_client_names(self.client_names)
            self._sent_tools = self._merged_tools()
            session = {**session, "tools": self._sent_tools}
        return {**event, "event_id": update.event_id, "session": session}

    def on_session_updated(self, event: Event) -> Event | None:
        """Translate a `session.updated` for the client. Returns None if it answers an update that the gateway sent."""
        update = self._updates.popleft() if self._updates else None
        if update is not None and update.by_gateway:
            return None
        session = member(event, "session")
        if "tools" not in session:
            return event
        visible_tools = [tool for tool in members(session, "tools") if not self.is_gateway_tool(text(tool, "name"))]
        return {**event, "session": {**session, "tools": visible_tools}}

    def on_update_refused(self, event_id: str) -> SentUpdate | None:
        """Undo the update that an `error` of the provider refers to, and return it. Returns None if the error is about
        another event.
        """
        update = next((sent_update for sent_update in self._updates if sent_update.event_id == event_id), None)
        if update is None:
            return None
        self._updates.remove(update)
        if not update.by_gateway:
            self.client_tools = update.previous_tools
            self._sent_tools = None
        elif update.about_tools:
            self._gateway_tools = []  # with them, the provider would refuse the client's next updates too
            self._sent_tools = self._merged_tools()
        return update

    def _send_by_gateway(self, session: Event, *, about_tools: bool) -> Event:
        """Make an update of the gateway, and record it."""
        update = SentUpdate(
            event_id=new_id(), by_gateway=True, previous_tools=self.client_tools, about_tools=about_tools
        )
        self._updates.append(update)
        return {"type": "session.update", "event_id": update.event_id, "session": {"type": "realtime", **session}}

    def _merged_tools(self) -> list[Event]:
        client_names = self.client_names
        return [*self.client_tools, *(tool for tool in self._gateway_tools if text(tool, "name") not in client_names)]


def declaration(definition: bytes) -> Event:
    """Reduce a tool's definition to the members, and its description to the length, that every model accepts."""
    tool = {name: value for name, value in _decode_tool(definition).items() if name in TOOL_MEMBERS}
    if len(text(tool, "description")) > MAX_DESCRIPTION:
        tool["description"] = text(tool, "description")[: MAX_DESCRIPTION - 1] + "…"
    return tool


def has_provider_mcp(event: Event) -> bool:
    """Whether an event has tools of type `mcp`, which let the provider call MCP servers. The whole event is searched at
    any depth, because event types that the gateway does not know may contain tools too.
    """
    remaining_values: list[object] = [event]
    while remaining_values:
        value = remaining_values.pop()
        if isinstance(value, dict):
            if any(tool.get("type") == "mcp" for tool in members(value, "tools")):
                return True
            remaining_values += value.values()
        elif isinstance(value, list):
            remaining_values += value
    return False
