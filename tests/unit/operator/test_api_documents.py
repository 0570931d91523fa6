"""OpenAPI documents before they are compiled: their location, their packing, and the requests for them."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from msgspec import structs

from fairlead_api.documents.catalog import Catalog, OpenApiEndpoint
from fairlead_api.documents.codec import decode, encode
from fairlead_api.documents.pins import held_hash, pinnable_definitions
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_cli.up.openapi import is_document, server_name
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import HttpRefused, McpError, TooLarge
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.report import CompiledDocument
from fairlead_openapi.compiling.worker import compile_in_worker
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.kube.platform import endpoint_of
from fairlead_operator.openapi import api_listings, document_content, document_fetch
from fairlead_operator.openapi.api_listings import MAX_CONCURRENT_READS, REFUSED_SECONDS, ApiListings
from fairlead_operator.openapi.api_source import ApiSource, ConfigMapLocation, DocumentLocation, UrlLocation
from fairlead_operator.openapi.compiled_listing import build_listing
from fairlead_operator.openapi.document_content import DocumentUnusable, decompress, document_key
from fairlead_operator.openapi.document_fetch import fetch_document
from petstore import DOCUMENT, document
from rawserver import Reply, Request, raw_server
from waiting import eventually

KEY = ServerKey("team-a", "pets")
STORED = ApiSource(ConfigMapLocation("team-a", "pets", None), None, (), (), has_auth=False)
UNUSABLE = ApiSource(ConfigMapLocation("team-a", "none", None), None, (), (), has_auth=False)
PEM = "-----BEGIN CERTIFICATE-----"


async def read_nowhere(location: DocumentLocation) -> bytes:
    raise AssertionError(location)


def test_the_only_key_of_a_config_map_is_the_document_and_a_named_one_among_several() -> None:
    assert document_key(ConfigMapLocation("a", "m", None), ["x"]) == "x"
    assert document_key(ConfigMapLocation("a", "m", "y"), ["x", "y"]) == "y"
    with pytest.raises(DocumentUnusable, match=r"has 2 keys \(x, y\): set openapi.configMapRef.key"):
        document_key(ConfigMapLocation("a", "m", None), ["x", "y"])
    with pytest.raises(DocumentUnusable, match="the ConfigMap m is empty"):
        document_key(ConfigMapLocation("a", "m", "x"), [])
    with pytest.raises(DocumentUnusable, match="no key z; it has x"):
        document_key(ConfigMapLocation("a", "m", "z"), ["x"])


def test_a_packed_document_is_unpacked_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b"openapi: 3.1.0")
    assert decompress(packed, "m") == b"openapi: 3.1.0"
    assert decompress(b"openapi: 3.1.0", "m") == b"openapi: 3.1.0"
    with pytest.raises(DocumentUnusable, match="its end is missing"):
        decompress(packed[:-9], "m")
    with pytest.raises(DocumentUnusable, match="cannot be decompressed"):
        decompress(packed[:4] + b"\xff" * 40, "m")
    monkeypatch.setattr(document_content, "MAX_DOCUMENT_BYTES", 1 << 20)
    with pytest.raises(DocumentUnusable, match="more than 1 MiB"):
        decompress(gzip.compress(bytes(2 << 20)), "m")


def test_calls_go_to_the_base_url_with_its_host_header_and_certificates() -> None:
    api = {"url": "https://a/openapi.json", "baseURL": "https://b/v1", "hostHeader": "c", "caBundle": PEM}
    server = McpServer.model_validate({"metadata": {"name": "api", "namespace": "default"}, "spec": {"openapi": api}})
    endpoint = endpoint_of(server)
    assert endpoint == OpenApiEndpoint(url="https://b/v1", host_header="c", ca_bundle=PEM)
    source = ApiSource.of(server)
    assert source is not None
    assert source.endpoint("https://d/v2") == structs.replace(endpoint, url="https://d/v2")


def test_a_tool_with_a_value_of_a_secret_is_offered_only_at_the_origin_of_the_base_url() -> None:
    elsewhere = {**DOCUMENT["paths"]["/pets"]["get"], "servers": [{"url": "https://uploads.example.com"}]}
    compiled = compile_document(json.dumps(document(pets={"get": elsewhere})).encode(), CompileOptions())
    secret = {"name": "listPets", "arguments": {"limit": {"secretRef": {"name": "s"}}}}
    for tools, listed in (([], True), ([secret], False)):
        spec = {"openapi": {"url": "https://a/openapi.json", "baseURL": "https://b/v1"}, "tools": tools}
        server = McpServer.model_validate({"metadata": {"name": "api", "namespace": "default"}, "spec": spec})
        source = ApiSource.of(server)
        assert source is not None
        listing = build_listing(compiled, "0" * 64, source)
        assert any(b"listPets" in bytes(tool) for tool in listing.tools) is listed


def test_the_definitions_of_a_published_catalog_have_the_hashes_of_the_listing_they_come_from() -> None:
    properties = {name: {"type": "string"} for name in ("title", "author", "isbn")}
    content = {"multipart/form-data": {"schema": {"type": "object", "properties": properties}}}
    create = {"operationId": "create", "requestBody": {"content": content}, "responses": {"201": {"description": "a"}}}
    compiled = compile_document(json.dumps(document(books={"post": create})).encode(), CompileOptions())
    spec = {"openapi": {"url": "https://a/openapi.json", "baseURL": "https://b/v1"}}
    server = McpServer.model_validate({"metadata": {"name": "api", "namespace": "default"}, "spec": spec})
    source = ApiSource.of(server)
    assert source is not None
    reached = CallAccess(OpenApiEndpoint(url="https://b/v1"), None, "api")
    catalog, _ = build_catalog(server, build_listing(compiled, "0" * 64, source), reached)
    published = decode(encode(catalog))
    assert isinstance(published, Catalog)
    assert held_hash(pinnable_definitions(published)) == held_hash(pinnable_definitions(catalog))


async def test_a_redirect_to_the_document_is_followed_and_a_page_is_told() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.path == "/old":
            reply.send(302, location="/new")
        elif request.path == "/new":
            reply.send(200, json.dumps(DOCUMENT).encode())
        elif request.path == "/page":
            reply.send(200, b"<!doctype html><title>Docs</title>", kind="text/html")
        elif request.path == "/ring":
            reply.send(302, location="/ring")
        else:
            reply.send(401)

    async with raw_server(handle) as server:
        url = f"http://127.0.0.1:{server.port}"
        fetched = await fetch_document(f"{url}/old", resolve_by_dns)
        assert fetched is not None
        assert json.loads(fetched.data) == DOCUMENT
        for path, words in (
            ("page", r"document itself \(such a page links to it\), which must be readable"),
            ("ring", "more than 3 redirects"),
            ("none", "status 401"),
        ):
            with pytest.raises(HttpRefused, match=words):
                await fetch_document(f"{url}/{path}", resolve_by_dns)


@pytest.mark.parametrize(("status", "reason"), [(404, "HTTPRefused"), (405, "HTTPRefused"), (401, "Unauthorized")])
async def test_a_refused_document_is_not_blamed_on_mcp(status: int, reason: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(status, b"<!doctype html><title>No</title>", kind="text/html")

    async with raw_server(handle) as server:
        with pytest.raises(HttpRefused, match=f"answered status {status} with a web page instead") as caught:
            await fetch_document(f"http://127.0.0.1:{server.port}/", resolve_by_dns)
    assert caught.value.reason == reason


async def test_a_document_larger_than_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_fetch, "MAX_DOCUMENT_BYTES", 1 << 10)

    async def handle(request: Request, reply: Reply) -> None:
        reply.send(200, bytes(2 << 10))

    async with raw_server(handle) as server:
        with pytest.raises(TooLarge):
            await fetch_document(f"http://127.0.0.1:{server.port}/", resolve_by_dns)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]"])
async def test_a_document_at_an_address_that_servers_may_not_have_is_not_requested(host: str) -> None:
    source = ApiSource(UrlLocation(f"http://{host}/openapi.json"), None, (), (), has_auth=False)
    with pytest.raises(McpError) as caught:
        await ApiListings(read_nowhere, Egress()).list(KEY, source)
    assert caught.value.reason == "AddressNotAllowed"


async def test_a_redirect_to_such_an_address_is_not_followed() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(302, location="http://169.254.169.254/openapi.json")

    async with raw_server(handle) as server:
        source = ApiSource(UrlLocation(f"http://127.0.0.1:{server.port}/"), None, (), (), has_auth=False)
        with pytest.raises(McpError) as caught:
            await ApiListings(read_nowhere, Egress()).list(KEY, source)
    assert caught.value.reason == "AddressNotAllowed"


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("https://api.example.com/v3/openapi.json", "api-example-com"),
        ("http://localhost:3000/openapi.json", "localhost-3000"),
        ("http://me@[::1]:3000/", "api-1-3000"),
        ("https://example.com/specs/GitHub_v3.yaml", "github-v3"),
        ("./petstore.openapi.json", "petstore"),
        ("specs/2checkout.yaml", "api-2checkout"),
        ("specs/.json", "api"),
    ],
)
def test_a_server_is_named_after_its_document(document: str, name: str) -> None:
    assert server_name(document) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(DOCUMENT), True),
        (json.dumps(DOCUMENT, indent=2), True),
        ("# ours\nopenapi: 3.0.3\npaths: {}\n", True),
        ("swagger: '2.0'\n", True),
        ("\ufeff" + json.dumps(DOCUMENT), True),
        (json.dumps(dict(reversed(DOCUMENT.items()))), True),
        ("components: {}\n" + "# filler\n" * 10_000 + "openapi: 3.0.3\n", True),
        ('{"openapi": "3.1.0", "info": {', True),
        ('{"mcpServers": {"time": {"command": "uvx"}}}', False),
        ("kind: ConfigMap\ndata:\n  pets.yaml: |\n    openapi: 3.0.3\n", False),
        ("apiVersion: fairlead.dev/v1alpha1\nkind: McpServer\nspec:\n  openapi:\n    url: https://a/\n", False),
    ],
)
def test_a_document_is_told_from_other_files_by_its_version(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "file").write_text(text)
    assert is_document(str(tmp_path / "file")) is expected


async def test_few_documents_are_read_at_once_and_those_of_failing_apis_beside_the_others() -> None:
    going_on, reading, failing = asyncio.Event(), 0, ServerKey("team-a", "failing")

    async def read(location: DocumentLocation) -> bytes:
        nonlocal reading
        if location == UNUSABLE.location:
            raise DocumentUnusable("not there")
        reading += 1
        await going_on.wait()
        reading -= 1
        return json.dumps({**DOCUMENT, "paths": {}}).encode()

    listings = ApiListings(read)
    for _ in range(2):
        with pytest.raises(DocumentUnusable):
            await listings.list(failing, UNUSABLE)
    lists = [asyncio.create_task(listings.list(ServerKey("team-a", f"pets-{n}"), STORED)) for n in range(6)]
    await eventually(lambda: reading == MAX_CONCURRENT_READS)
    with pytest.raises(DocumentUnusable, match="not there"):
        await listings.list(failing, UNUSABLE)
    assert reading == MAX_CONCURRENT_READS
    for task in lists:
        task.cancel()
    await asyncio.gather(*lists, return_exceptions=True)


async def test_a_refused_document_is_not_compiled_again_before_a_while_unless_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, now, data = [], 0.0, b'{"swagger": "2.0"}'

    async def record_and_compile(given: bytes, options: CompileOptions) -> CompiledDocument:
        compiled.append(given)
        return await compile_in_worker(given, options)

    async def read(location: DocumentLocation) -> bytes:
        return data

    monkeypatch.setattr(api_listings, "compile_in_worker", record_and_compile)
    listings = ApiListings(read, monotonic=lambda: now)
    for at, number in ((0.0, 1), (REFUSED_SECONDS - 1, 1), (REFUSED_SECONDS, 2)):
        now = at
        with pytest.raises(DocumentUnusable, match=r"^the ConfigMap pets: the document is Swagger 2\.0"):
            await listings.list(KEY, STORED)
        assert len(compiled) == number
    data = json.dumps(DOCUMENT).encode()
    assert (await listings.list(KEY, STORED)).tools
