"""Apps and skills of the SDK's servers, over stdio and HTTP, with the SDK's client at both kinds of endpoint."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from mcp import Client, MCPError
from mcp.client import ClientExtension
from mcp_types import Request, RequestParams, Result
from pydantic import ConfigDict

from extensions_main import APP, SKILL
from fairlead_mcp.methods import SKILLS, UI
from ports import free_port
from serverprocesses import listening_on
from upprocess import fairlead_up, manifest, until_listed

SCRIPT: Final = str(Path(__file__).parents[2] / "support" / "extensions_main.py")
MODES: Final[tuple[Literal["auto", "legacy"], ...]] = ("auto", "legacy")


class _Uri(RequestParams):
    uri: str


class _Listed(Request[RequestParams, Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"
    params: RequestParams = RequestParams()


class _Got(Request[_Uri, Literal["skills/get"]]):
    method: Literal["skills/get"] = "skills/get"
    params: _Uri


class _Anything(Result):
    model_config = ConfigDict(extra="allow")


class _Skills(ClientExtension):
    identifier = SKILLS


def remote(name: str, url: str) -> str:
    document: dict[str, Any] = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return f"---\n{json.dumps({**document, 'spec': {'url': url}})}\n"


async def texts(client: Client, uri: str) -> list[tuple[str, str]]:
    """URIs and texts of read resources."""
    return [(str(content.uri), getattr(content, "text", "")) for content in (await client.read_resource(uri)).contents]


async def test_apps_and_skills_of_real_servers_work_at_both_endpoints_in_both_eras(tmp_path: Path) -> None:
    port = free_port()
    manifests = manifest("one", sys.executable, SCRIPT, "one") + remote("two", f"http://127.0.0.1:{port}/mcp")
    (tmp_path / "a.yaml").write_text(manifests)
    async with (
        listening_on(port, sys.executable, SCRIPT, "two", str(port)),
        fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up,
    ):
        assert await up.states(2) == {"default/one": "ready:", "default/two": "ready:"}
        await until_listed(up.url, "one", "two")
        for mode in MODES:
            async with Client(up.url, mode=mode, extensions=[_Skills()]) as client:
                await work_side_by_side(client)
            for name in ("one", "two"):
                own = up.url.removesuffix("/mcp") + f"/servers/default/{name}/mcp"
                async with Client(own, mode=mode, extensions=[_Skills()]) as client:
                    await work_alone(client, name)


async def work_side_by_side(client: Client) -> None:
    """Use all servers as a host does, at the merged endpoint."""
    declared = client.server_capabilities.extensions or {}
    assert {UI, SKILLS} <= declared.keys()
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    listed = (await client.session.send_request(_Listed(), _Anything)).model_dump()["skills"]
    for name in ("one", "two"):
        ui = (tools[f"{name}__show"].meta or {})["ui"]
        assert await texts(client, ui["resourceUri"]) == [(f"ui://{name}/shared/app.html", f"<h1>{name}</h1>")]
        called = await client.call_tool(f"refresh_{name}")
        assert getattr(called.content[0], "text", "") == f"refreshed {name}", "as its HTML calls it"
        skill = next(entry for entry in listed if entry["uri"] == f"skill://{name}/shared/SKILL.md")
        got = await client.session.send_request(_Got(params=_Uri(uri=skill["uri"])), _Anything)
        assert got.model_dump()["skill"] == skill
        for file in skill["resources"]:
            [(uri, text)] = await texts(client, file["uri"])
            assert uri == file["uri"]
            assert "sha256:" + hashlib.sha256(text.encode()).hexdigest() == file["digest"]
    with pytest.raises(MCPError):
        await client.call_tool("show")  # both servers have it


async def work_alone(client: Client, name: str) -> None:
    """Use one server at its own endpoint."""
    assert await texts(client, APP) == [(APP, f"<h1>{name}</h1>")]
    assert await texts(client, SKILL) == [(SKILL, f"---\nname: shared\n---\nof {name}\n")]
    assert getattr((await client.call_tool("show")).content[0], "text", "") == name
    got = await client.session.send_request(_Got(params=_Uri(uri=SKILL)), _Anything)
    assert got.model_dump()["skill"]["uri"] == SKILL
