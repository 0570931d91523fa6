"""Servers that require each user to sign in, which a registry does not support."""

from __future__ import annotations

from typing import Any

import pytest

from consentservers import consent_server
from fairlead_client import AsyncToolRegistry, ExecutionError


@pytest.mark.parametrize("fields", [{}, {"oauth": {"clientId": "c", "callbackPort": 8765}}])
async def test_call_says_that_a_sign_in_is_required_and_how_to_do_it(fields: dict[str, Any]) -> None:
    async with consent_server("linear") as server:
        servers = {"mcpServers": {"linear": {"url": server.url, **fields}}}
        async with AsyncToolRegistry(servers) as registry:
            assert registry.tools == ()
            outcome = await registry.execute("linear__whoami")
            assert not (await registry.health_check())["linear"]
    assert isinstance(outcome.error, ExecutionError)
    assert outcome.error.code == "SIGN_IN_REQUIRED"
    assert not outcome.error.retryable
    assert "the server linear wants each user to sign in" in str(outcome.error)
    assert "`fairlead login linear`" in str(outcome.error)


async def test_call_with_a_wrong_token_asks_for_no_sign_in() -> None:
    async with consent_server("linear") as server:
        servers = {"mcpServers": {"linear": {"url": server.url, "headers": {"Authorization": "Bearer wrong"}}}}
        async with AsyncToolRegistry(servers) as registry:
            outcome = await registry.execute("linear__whoami")
    assert isinstance(outcome.error, ExecutionError)
    assert outcome.error.code == "UPSTREAM_ERROR"
