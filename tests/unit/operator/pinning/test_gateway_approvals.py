"""Approvals that administrators give at gateways: which changes they publish, and which they do not."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_api.reports import AskedApproval
from fairlead_operator.pinning.approvals import MAX_PER_SERVER, MAX_SERVERS, PendingApprovals
from pinworld import KEY, World, tool


async def test_a_definition_is_approved_alone_at_a_gateway_and_the_rest_stays_held_back() -> None:
    world = World()
    world.declare()
    async with world.operator():
        await world.answer(tool("add", "adds"))
        await world.answer(tool("add", "adds faster"), tool("evil", "new"))
        pins = world.pins()
        assert pins is not None
        world.ask(next(held.approval for held in pins.held if held.name == "add"))
        await world.look()
        after = world.pins()
        catalog = world.catalog()
        assert after is not None
        assert catalog is not None

        assert world.descriptions() == {"add": "adds faster"}
        assert [held.name for held in after.held] == ["evil"]
        assert catalog.held == 1
        assert [(approval.by, approval.definitions) for approval in after.approvals] == [("ann", 1)]
        assert "1 definitions were approved by ann and are now in force" in [
            event.note for event in world.platform.announced
        ]


async def test_an_approval_at_a_gateway_that_came_too_late_is_forgotten() -> None:
    world = World()
    world.declare()
    async with world.operator():
        await world.answer(tool("add", "adds"))
        await world.answer(tool("add", "adds faster"))
        shown = world.held_hash()
        await world.answer(tool("add", "adds, and reads your mail"))
        world.ask(shown)
        await world.look()
        assert world.descriptions() == {"add": "adds"}
        await world.answer(tool("add", "adds faster"))
        assert world.descriptions() == {"add": "adds"}


def test_approvals_that_wait_are_bounded() -> None:
    approvals = PendingApprovals()
    approvals.add(AskedApproval("team", "demo", str(number), "ann") for number in range(MAX_PER_SERVER + 1))
    assert "0" not in approvals.of_server(KEY)
    assert len(approvals.of_server(KEY)) == MAX_PER_SERVER
    approvals.add(AskedApproval("team", f"other{number}", "h", "x" * 9999) for number in range(MAX_SERVERS))
    assert approvals.of_server(KEY) == {}
    assert len(approvals.of_server(ServerKey("team", "other0"))["h"]) == 256
