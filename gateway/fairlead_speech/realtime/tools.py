"""Tools of a Realtime session: the provider gets the tools of client and gateway in one list, the client sees only its
own.

A provider answers each `session.update` with one `session.updated` or one `error`, in order. Only an `error` contains
the id of the update. Does no I/O.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.realtime.events import Event, member, members, new_id, text
from fairlead_speech.tools import GatewayToolNames

TOOL_MEMBERS: Final = ("type", "name", "description", "parameters")
"""Members that a tool may have. The provider refuses an update with any other member as a whole."""
MAX_DESCRIPTION: Final = 1024
"""Maximum characters of a description that every model accepts."""
_tool: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SentUpdate(msgspec.Struct, kw_only=True):
    """A `session.update` that the provider has not answered yet."""

    event_id: str
    by_gateway: bool
    """Whether the gateway made the update, so that the answer is hidden from the client."""
    without_id: bool = False
    """Whether the client sent the update without `event_id`."""
    previous_tools: list[Event]
    """The client's tools before the update."""
    about_tools: bool = True
    """Whether the update may change the tools."""


class SessionTools:
    """Tools of one session, and its updates that the provider has not answered yet."""

    def __init__(self) -> None:
        self.client_tools: list[Event] = []
        self._gateway_tools: list[Event] = []
        self._names = GatewayToolNames()
        self._sent: list[Event] | None = None
        self._has_prompt = False
        """Whether the session has a prompt that is stored at the provider, and may have tools of its own."""
        self._updates: deque[SentUpdate] = deque()

    @property
    def client_names(self) -> frozenset[str]:
        """Names of the client's tools."""
        return frozenset(text(tool, "name") for tool in self.client_tools)

    def is_gateway_tool(self, name: str) -> bool:
        """Whether the gateway offers or has offered a tool with a name, and the client has none with it."""
        return name in self._names and name not in self.client_names

    def answers_call(self, name: str) -> bool:
        """Whether the gateway answers calls of a name: it is a tool of the gateway, or nobody offered one."""
        if self._has_prompt and name not in self._names:
            return False
        return self._names.answers(name, self.client_names)

    def on_client_response(self, response: Event) -> None:
        """Record the tools that a client's `response.create` declares for its response."""
        self._has_prompt = self._has_prompt or response.get("prompt") is not None
        self._names.add_client_names(text(tool, "name") for tool in members(response, "tools"))

    def set_offer(self, offer: ToolOffer) -> None:
        """Replace the gateway's tools. Calls of tools in `offer.client_run` are left to the client."""
        self._gateway_tools = [declaration(each) for each in offer.definitions]
        self._names.add(offer)

    def gateway_update(self) -> Event | None:
        """Make a `session.update` with the current tools. Returns None if the provider has them."""
        tools = self._merge()
        if tools == (self._sent or []):
            return None
        self._sent = tools
        return self._send_by_gateway({"tools": tools}, about_tools=True)

    def session_change(self, session: Event) -> Event:
        """Make a `session.update` of the gateway that does not change the tools."""
        return self._send_by_gateway(session, about_tools=False)

    def client_update(self, event: Event) -> Event:
        """Apply a client's `session.update`. Returns the update for the provider: it has an `event_id`, and the
        gateway's tools are added if it has tools.
        """
        session, event_id = member(event, "session"), text(event, "event_id")
        update = SentUpdate(
            event_id=event_id or new_id(),
            by_gateway=False,
            without_id=not event_id,
            previous_tools=self.client_tools,
        )
        self._updates.append(update)
        if "model" in session:  # clients repeat the model, which may be a route of the gateway; providers refuse that
            session = {name: value for name, value in session.items() if name != "model"}
        self._has_prompt = self._has_prompt or session.get("prompt") is not None
        if "tools" in session:
            self.client_tools = members(session, "tools")
            self._names.add_client_names(self.client_names)
            self._sent = self._merge()
            session = {**session, "tools": self._sent}
        return {**event, "event_id": update.event_id, "session": session}

    def on_session_updated(self, event: Event) -> Event | None:
        """Translate a `session.updated` for the client. Returns None if it answers an update of the gateway."""
        update = self._updates.popleft() if self._updates else None
        if update is not None and update.by_gateway:
            return None
        session = member(event, "session")
        if "tools" not in session:
            return event
        visible = [tool for tool in members(session, "tools") if not self.is_gateway_tool(text(tool, "name"))]
        return {**event, "session": {**session, "tools": visible}}

    def on_update_refused(self, event_id: str) -> SentUpdate | None:
        """Revert the update that an `error` refers to, and return it. Returns None if the error is
        about another event.
        """
        update = next((each for each in self._updates if each.event_id == event_id), None)
        if update is None:
            return None
        self._updates.remove(update)
        if not update.by_gateway:
            self.client_tools = update.previous_tools
            self._sent = None
        elif update.about_tools:
            self._gateway_tools = []  # the same tools would also get the client's next updates refused
            self._sent = self._merge()
        return update

    def _send_by_gateway(self, session: Event, *, about_tools: bool) -> Event:
        """Make and record an update of the gateway."""
        update = SentUpdate(
            event_id=new_id(), by_gateway=True, previous_tools=self.client_tools, about_tools=about_tools
        )
        self._updates.append(update)
        return {"type": "session.update", "event_id": update.event_id, "session": {"type": "realtime", **session}}

    def _merge(self) -> list[Event]:
        client_names = self.client_names
        return [*self.client_tools, *(tool for tool in self._gateway_tools if text(tool, "name") not in client_names)]


def declaration(definition: bytes) -> Event:
    """Reduce a tool's definition to members and lengths that every model accepts."""
    tool = {name: value for name, value in _tool(definition).items() if name in TOOL_MEMBERS}
    if len(text(tool, "description")) > MAX_DESCRIPTION:
        tool["description"] = text(tool, "description")[: MAX_DESCRIPTION - 1] + "…"
    return tool


def has_provider_mcp(event: Event) -> bool:
    """Whether an event has tools of type `mcp`, which let the provider call MCP servers. They are searched at any
    depth, as events that are unknown to the gateway may contain them, too.
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
