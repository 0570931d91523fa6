"""`fairlead up` accepts an OpenAPI document as a source: its operations become tools that call the API."""

from __future__ import annotations

import json
from pathlib import Path

from mcp import Client

from petapi import pet_api
from petstore import DOCUMENT, DocumentHost, document
from rawserver import raw_server
from schemedapi import CREDENTIALS, VALUES, base_url, credentials_sent_to, document_of, schemed_api
from toolservers import sdk_server
from upprocess import fairlead_up, until_listed
from waiting import until_async


async def tool_names(url: str) -> set[str]:
    async with Client(url) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def test_operations_of_a_file_are_tools_that_call_the_api_and_follow_the_file(tmp_path: Path) -> None:
    async with pet_api() as (_, api):
        own = {**document(), "servers": [{"url": f"http://127.0.0.1:{api.port}/v1"}]}
        file = tmp_path / "petstore.openapi.json"
        file.write_text(json.dumps(own))
        async with fairlead_up(file, cwd=tmp_path) as up:
            await up.ready("default/petstore")
            await until_listed(up.url, "petstore")
            async with Client(up.url) as client:
                result = await client.call_tool("petstore__getPet", {"id": "7"})
            assert result.structured_content is None
            assert [request.path for request in api.seen] == ["/v1/pets/7"]
            assert "Rex" in json.dumps([each.model_dump() for each in result.content])
            del own["paths"]["/pets/{id}"]["delete"]
            file.write_text(json.dumps({**own, "info": {"title": "Petstore", "version": "8"}}))

            async def has_changed() -> bool:
                return "petstore__deletePet" not in await tool_names(up.url)

            await until_async("the removed operation is gone", has_changed)


async def test_the_files_of_clients_are_not_named_to_a_user_who_gives_a_document(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"a": {"command": "b"}}}')
    (tmp_path / "api.json").write_text(json.dumps(DOCUMENT))
    async with fairlead_up(tmp_path / "api.json", cwd=tmp_path, env={"HOME": str(tmp_path)}) as up:
        (listening,) = [event for event in up.events if event["event"] == "listening"]
    assert "files" not in listening


async def test_a_manifest_names_its_document_from_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (tmp_path / "api.json").write_text(json.dumps(DOCUMENT))
    manifest = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": "pets"},
        "spec": {"openapi": {"file": "../api.json", "include": ["reading"]}},
    }
    (folder / "pets.json").write_text(json.dumps(manifest))
    async with fairlead_up(folder, cwd=tmp_path) as up:
        await up.ready("default/pets")
        await until_listed(up.url, "pets")
        assert await tool_names(up.url) == {"pets__listPets", "pets__getPet"}


async def test_a_document_at_a_url_is_named_after_its_file(tmp_path: Path) -> None:
    host = DocumentHost(document(broken=None))
    async with raw_server(host.handle) as server:
        url = f"http://127.0.0.1:{server.port}/specs/petstore.json"
        async with fairlead_up(url, cwd=tmp_path) as up:
            await up.ready("default/petstore")
            await until_listed(up.url, "petstore")
            assert "petstore__listPets" in await tool_names(up.url)


async def test_the_url_of_an_mcp_server_in_place_of_a_document_says_where_to_name_it(tmp_path: Path) -> None:
    async with sdk_server() as url, fairlead_up(url, cwd=tmp_path) as up:
        message = json.dumps(await up.server("default/mcp", "failed"))
    assert "if it is an MCP server, name it as url in an mcp.json" in message
    assert "set openapi.url" not in message
    assert "Check the URL" not in message, "the URL to use is said once"
    assert "Or keep a copy of the document in a file" in message


async def test_a_document_of_swagger_2_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("swagger: '2.0'\ninfo: {title: x, version: '1'}\npaths: {}\n")
    async with fairlead_up(tmp_path / "old.yaml", cwd=tmp_path) as up:
        event = await up.server("default/old", "failed")
    assert event["cause"] == "DocumentUnusable"
    assert "2.0" in json.dumps(event)


async def test_the_credentials_of_security_schemes_are_sent_to_the_hosts_of_their_secret_alone(tmp_path: Path) -> None:
    async with schemed_api() as server:
        (tmp_path / "api.json").write_text(json.dumps(document_of(server)))
        hosts = {"fairlead.dev/hosts": f"http://127.0.0.1:{server.port}"}
        metadata = {"name": "api", "labels": {"fairlead.dev/credential": "true"}, "annotations": hosts}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": VALUES}
        credentials = {**CREDENTIALS, "Staf": CREDENTIALS["staff"]}
        openapi = {"file": "api.json", "baseURL": base_url(server), "credentials": credentials}
        manifests = [secret]
        for name, source in (("api", openapi), ("elsewhere", {**openapi, "baseURL": "http://127.0.0.2:9"})):
            kind = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
            manifests.append({**kind, "spec": {"openapi": source}})
        for number, manifest in enumerate(manifests):
            (tmp_path / f"{number}.yaml").write_text(json.dumps(manifest))
        async with fairlead_up(*[tmp_path / f"{number}.yaml" for number in range(3)], cwd=tmp_path) as up:
            shown = await up.server("default/api", "ready")
            await until_listed(up.url, "api")
            async with Client(up.url) as client:
                await client.call_tool("api__both", {})
            assert await tool_names(up.url) == {"api__both", "api__either", "api__open"}
        assert shown["cause"] == "UnknownSecurityScheme"
        assert "(Staf: did you mean staff?)" in shown["message"]
        assert credentials_sent_to(server, "both") == {name: VALUES[name] for name in ("application", "staff")}
