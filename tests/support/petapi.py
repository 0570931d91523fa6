"""An HTTP API of pets, and the catalog of its operations as the operator would compile it.

async with pet_api() as (pets, server), running(tmp_path, api_catalog(server)) as gateway:
    answer = await ask(gateway, calling("pets__getPet", {"id": "7"}))
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead_api.documents.catalog import Catalog, CredentialRef, OpenApiEndpoint, ToolEntry
from fairlead_api.documents.operations import Operation, OperationBody, OperationParameter, PartEncoding
from gatewayworld import catalog, entry
from rawserver import RawServer, Reply, Request, raw_server

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
PET = {"id": 7, "name": "Rex"}


def operation_tool(
    name: str, operation: Operation, properties: dict[str, Any] | None = None, *, output: Any = None, **more: Any
) -> ToolEntry:
    """A tool of one operation. Its arguments have any type unless `properties` has their schemas."""
    schema: dict[str, Any] = {"type": "object", "properties": properties or {}}
    definition: dict[str, Any] = {"name": name, "inputSchema": schema}
    if output is not None:
        definition["outputSchema"] = output
    return entry(definition, operation=operation, **more)


def path_of(name: str, **more: Any) -> OperationParameter:
    return OperationParameter(argument=name, name=name, location="path", **more)


def query_of(name: str, **more: Any) -> OperationParameter:
    return OperationParameter(**{"argument": name, "name": name, "location": "query", "style": "form", **more})


OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
LIST = {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}
GET_PET = Operation(method="GET", path="/pets/{id}", parameters=(path_of("id"),), structured=True)
TAGS = (query_of("tags", explode=True), query_of("limit"))
FORM = OperationBody(media_type="application/x-www-form-urlencoded", properties={"name": "name", "tags": "tags"})
UPLOAD = OperationBody(
    media_type="multipart/form-data",
    properties={"note": "note", "photo": "photo"},
    encodings={"photo": PartEncoding(content_type="image/png", binary=True)},
)
OPERATIONS = {
    "getPet": GET_PET,
    "listPets": Operation(method="GET", path="/pets", parameters=TAGS, structured=True, wrapped=True),
    "addPet": Operation(
        method="POST",
        path="/pets",
        body=OperationBody(media_type="application/json", properties={"name": "name", "body_id": "id"}, required=True),
    ),
    "addPetByForm": Operation(method="POST", path="/forms", body=FORM),
    "upload": Operation(method="POST", path="/pets/{id}/photo", parameters=(path_of("id"),), body=UPLOAD),
    "photo": Operation(method="GET", path="/pets/{id}/photo", parameters=(path_of("id"),), accept="image/png"),
    "deletePet": Operation(method="DELETE", path="/pets/{id}", parameters=(path_of("id"),)),
    "existsPet": Operation(method="HEAD", path="/pets/{id}", parameters=(path_of("id"),)),
}
OUTPUTS = {"getPet": OBJECT, "listPets": LIST}


@dataclass
class Pets:
    """Answers of the API: by path those that a test sets, otherwise those about the pets."""

    answers: dict[str, tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    """Status, body and headers by path (`kind` is the content type)."""
    hold: asyncio.Event | None = None
    """If present and not set, answers wait for it."""

    async def handle(self, request: Request, reply: Reply) -> None:
        path = request.path.partition("?")[0]
        if self.hold is not None and request.verb != "OPTIONS":
            await self.hold.wait()
        if path in self.answers:
            status, body, headers = self.answers[path]
            reply.send(status, body, **headers)
        elif request.verb == "HEAD":
            reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
        elif request.verb == "DELETE":
            reply.send(204)
        elif path.endswith("/photo") and request.verb == "GET":
            reply.send(200, PNG, kind="image/png")
        elif request.verb == "GET" and path.endswith("/pets"):
            reply.send(200, json.dumps([PET], indent=2).encode())
        else:
            reply.send(201 if request.verb == "POST" else 200, json.dumps(PET).encode())


@contextlib.asynccontextmanager
async def pet_api() -> AsyncIterator[tuple[Pets, RawServer]]:
    pets = Pets()
    async with raw_server(pets.handle) as server:
        yield pets, server


def api_url(server: RawServer) -> str:
    return f"http://127.0.0.1:{server.port}/v1"


def api_catalog(server: RawServer, *tools: ToolEntry, **more: Any) -> Catalog:
    """Catalog of the operations of pets and `tools`, served by the server."""
    own = [operation_tool(name, operation, output=OUTPUTS.get(name)) for name, operation in OPERATIONS.items()]
    endpoint = OpenApiEndpoint(url=api_url(server))
    return catalog("pets", endpoint, [*own, *tools], **more)


def stored_credential(folder: Path, **members: Any) -> CredentialRef:
    """A credential in the form in which the operator stores it outside of a cluster."""
    (folder / "credentials").mkdir(exist_ok=True)
    (folder / "credentials" / "api.json").write_text(json.dumps(members))
    return CredentialRef(secret="api", key="k", hash="1")
