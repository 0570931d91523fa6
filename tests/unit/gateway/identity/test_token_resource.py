"""A credential for one resource is valid at the resource's path and below it, in any spelling of the path."""

from __future__ import annotations

import pytest

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.request_authentication import refuse_elsewhere

MCP = "/servers/a/b/mcp"


def identity(resource: str) -> Identity:
    return Identity(kind="jwt", principal="jwt:https://idp#ada/", resource=resource)


@pytest.mark.parametrize(
    ("resource", "path"),
    [("", "/v1/tools"), ("", "/a/../b"), (MCP, MCP), (MCP, f"{MCP}/"), (MCP, f"{MCP}/fast"), ("/v1", "/v1/tools/a/b")],
)
def test_a_credential_is_valid_at_its_resource_and_below(resource: str, path: str) -> None:
    assert refuse_elsewhere(identity(resource), path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/mcp",
        "/v1",
        "/v1/tools",
        "/servers/a/b",
        "/servers/a/b/mcpx",
        "/servers/a/bc/mcp",
        "/servers/a/b/MCP",
        "/Servers/a/b/mcp",
        "//servers/a/b/mcp",
        "/servers//a/b/mcp",
        "/servers/a/b//mcp",
        f"{MCP}//fast",
        f"{MCP}/../../../../v1/tools",
        f"{MCP}/./fast",
        f"{MCP}/..",
        f"/v1{MCP}",
        f"x{MCP}",
        "/servers/a/b%2Fmcp",
        "/servers/a/%62/mcp",
        f"{MCP};x=1",
    ],
)
def test_a_credential_is_not_valid_elsewhere(path: str) -> None:
    refused = refuse_elsewhere(identity(MCP), path)
    assert refused is not None
    assert (refused.status, refused.error_code) == (401, "invalid_token")
    assert MCP in refused.message
