"""The client's view of the tools and items of a session."""

from __future__ import annotations

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.realtime.conversation import HiddenItems
from fairlead_speech.realtime.tools import SessionTools, declaration

ADD = b'{"type":"function","name":"add","description":"Add","parameters":{"type":"object"},"strict":false}'
OWN = {"type": "function", "name": "own", "description": "", "parameters": {}}


def offer(*definitions: bytes, **more: object) -> ToolOffer:
    return ToolOffer(0, definitions=definitions, names=("add",), **more)  # type: ignore[arg-type] # members of an offer


def test_a_definition_has_the_four_members_that_the_api_takes() -> None:
    tool = declaration(ADD.replace(b'"Add"', b'"' + b"x" * 5000 + b'"'))
    assert sorted(tool) == ["description", "name", "parameters", "type"]
    assert len(tool["description"]) == 1024


def test_updates_are_answered_in_order() -> None:
    tools = SessionTools()
    tools.set_offer(offer(ADD))
    assert tools.gateway_update() is not None
    sent = tools.client_update({"type": "session.update", "session": {"type": "realtime", "tools": [OWN]}})
    assert [tool["name"] for tool in sent["session"]["tools"]] == ["own", "add"]
    assert tools.gateway_update() is None, "the client's update carried them"
    answer = {"type": "session.updated", "session": {"tools": sent["session"]["tools"]}}
    assert tools.on_session_updated(answer) is None, "that of the gateway's own"
    seen = tools.on_session_updated(answer)
    assert seen is not None
    assert seen["session"]["tools"] == [OWN]


def test_a_refused_update_of_the_client_brings_its_tools_back() -> None:
    tools = SessionTools()
    tools.set_offer(offer(ADD))
    sent = tools.client_update({"session": {"tools": [OWN]}})
    assert tools.on_update_refused("another") is None
    refused = tools.on_update_refused(sent["event_id"])
    assert refused is not None
    assert (refused.by_gateway, refused.without_id) == (False, True)
    assert tools.client_names == frozenset()
    update = tools.gateway_update()
    assert update is not None
    assert [tool["name"] for tool in update["session"]["tools"]] == ["add"]


def test_tools_that_the_provider_refused_do_not_spoil_the_clients_updates() -> None:
    tools = SessionTools()
    tools.set_offer(offer(ADD))
    update = tools.gateway_update()
    assert update is not None
    refused = tools.on_update_refused(update["event_id"])
    assert refused is not None
    assert (refused.by_gateway, refused.without_id) == (True, False)
    sent = tools.client_update({"session": {"tools": [OWN]}})
    assert [tool["name"] for tool in sent["session"]["tools"]] == ["own"]


def test_calls_that_may_not_run_by_themselves_are_the_clients() -> None:
    tools = SessionTools()
    tools.set_offer(offer(ADD, manual_reasons={"add": "policy"}))
    assert not tools.is_gateway_tool("add")
    tools.set_offer(offer(ADD))
    assert tools.is_gateway_tool("add")
    tools.set_offer(offer())
    assert tools.is_gateway_tool("add"), "a call may come for a tool that was just taken away"


def test_previous_items_are_the_last_ones_that_the_client_received() -> None:
    hidden = HiddenItems()
    for item, before in (("b", "a"), ("c", "b")):
        hidden.hide(item)
        added = {"type": "conversation.item.added", "previous_item_id": before, "item": {"id": item}}
        assert hidden.visible_event("conversation.item.added", added) is None
    following = {"type": "conversation.item.added", "previous_item_id": "c", "item": {"id": "d"}}
    shown = hidden.visible_event("conversation.item.added", following)
    assert shown is not None
    assert shown["previous_item_id"] == "a"


def test_the_name_of_a_route_in_an_update_reaches_no_provider() -> None:
    sent = SessionTools().client_update({"session": {"type": "realtime", "model": "fairlead/speech", "tools": []}})
    assert sent["session"] == {"type": "realtime", "tools": []}
