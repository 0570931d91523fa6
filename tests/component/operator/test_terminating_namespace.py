"""A namespace that is being deleted: its servers get no new objects, and the log has no word of missing rights."""

from __future__ import annotations

import logging

import pytest

from operatorworld import World, running
from toolservers import sdk_server


async def test_servers_of_a_namespace_that_is_being_deleted_are_left_alone_without_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fairlead_operator")
    async with sdk_server() as url, running(world):
        world.create("pods", {"image": {"name": "registry.example/demo:1"}})
        world.create("remote", {"url": url})
        await world.until("objects", lambda: world.get(world.path("deployments", "pods")))
        await world.until("Ready", lambda: world.is_("remote", "Ready", "True"))
        status, _ = world.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
        assert status == 200
        caplog.clear()
        world.request("DELETE", world.path("services", "pods"))
        await world.until("told", lambda: "pods is not reconciled" in caplog.text)
        world.patch_server("remote", {"spec": {"url": "http://127.0.0.1:9/mcp"}})
        await world.until("an Event that cannot be posted", lambda: world.is_("remote", "Ready", "False"))
        world.request("DELETE", world.server_path("remote"))
        await world.until("withdrawn", lambda: world.catalog("remote") is None)
        assert world.is_("pods", "Programmed", "Unknown", "Deploying"), "nobody could mend such a refusal"
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [warning for warning in warnings if "403" in warning] == []
    assert caplog.text.count("is not reconciled while its namespace") == 1
