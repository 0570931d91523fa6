"""Values of Secrets in arguments of operations, together with users' keys: where they are sent, and where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from consentworld import laptop
from fairlead_api.documents.catalog import ToolEntry, ToolShape
from fairlead_api.documents.oauth import USER_KEY, OAuthSettings, UserKeySettings
from fairlead_api.documents.operations import Operation, OperationParameter
from gatewayworld import Ask, ask, calling, running
from petapi import api_catalog, api_url, operation_tool, path_of, pet_api, stored_credential

SECRET = "bot-hush"


def bot_tool(name: str, base_url: str = "") -> ToolEntry:
    """A tool with a secret argument in its path."""
    shown = Raw(msgspec.json.encode({"name": name, "inputSchema": {"type": "object"}}))
    shape = ToolShape(definition=shown, hidden=("token",), secrets=("token",))
    operation = Operation(method="GET", path="/{token}/photo", base_url=base_url, parameters=(path_of("token"),))
    return operation_tool(name, operation, shape=shape)


def credential_of(folder: Path, *tools: str) -> Any:
    return stored_credential(folder, arguments={tool: {"token": SECRET} for tool in tools})


async def test_a_secret_argument_stays_at_the_origin_of_the_server(tmp_path: Path) -> None:
    async with pet_api() as (_, server), pet_api() as (_, other):
        tools = [bot_tool("here"), bot_tool("elsewhere", f"{api_url(other)}/w")]
        document = api_catalog(server, *tools, credential=credential_of(tmp_path, "here", "elsewhere"))
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("pets__elsewhere"))
            assert other.seen == []
            await ask(gateway, calling("pets__here"))
    assert answer.refusal == "UPSTREAM_ERROR"
    assert [request.path for request in server.seen] == [f"/v1/{SECRET}/photo"]


async def test_a_secret_argument_of_the_path_does_not_name_the_result(tmp_path: Path) -> None:
    async with pet_api() as (pets, server):
        pets.answers[f"/v1/{SECRET}/photo"] = (200, b"%PDF\x00\xff", {"kind": "application/pdf"})
        document = api_catalog(server, bot_tool("photo_of"), credential=credential_of(tmp_path, "photo_of"))
        async with running(tmp_path, document) as gateway:
            answer = await ask(gateway, calling("pets__photo_of"))
    assert answer.message["result"]["content"][0]["resource"]["uri"] == "openapi:/{token}/photo"
    assert SECRET not in repr(answer)


async def test_a_persons_key_goes_alone_in_its_header_beside_the_configured_ones(tmp_path: Path) -> None:
    parameter = OperationParameter(argument="key", name="X-Key", location="header")
    tool = operation_tool("x", Operation(method="GET", path="/x", parameters=(parameter,)))
    oauth = OAuthSettings(grant=USER_KEY, user_key=UserKeySettings(header="X-Key"))
    credential = stored_credential(tmp_path, headers={"Authorization": "Bearer of-the-server"})
    async with pet_api() as (_, server):
        document = api_catalog(server, tool, credential=credential, oauth=oauth)
        async with laptop(tmp_path, document) as gateway:
            entering = Ask(
                {"key": "hush"},
                {"content-type": "application/json"},
                verb="PUT",
                target="/v1/servers/pets/sign-in",
            )
            assert (await ask(gateway, entering)).message["signedIn"] is True
            await ask(gateway, calling("pets__x", {"key": "mine"}))
    (request,) = server.seen
    assert "mine" not in repr(request)
    assert (request.headers["x-key"], request.headers["authorization"]) == ("hush", "Bearer of-the-server")
