"""An OpenAPI document of pets, and its host."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from rawserver import Reply, Request

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Petstore", "version": "7"},
    "servers": [{"url": "http://127.0.0.1:9/v1"}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "tags": ["reading"],
                "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "pets"}},
            },
        },
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getPet", "tags": ["reading"], "responses": {"200": {"description": "a pet"}}},
            "delete": {"operationId": "deletePet", "responses": {"204": {"description": "gone"}}},
        },
        "/broken": {"get": "no Operation Object"},
    },
}
"""Document with three operations that become tools, and one that cannot, because its answer is text."""


def document(**paths: Any) -> dict[str, Any]:
    """The document with operations at some paths replaced; those with None are removed."""
    changed = copy.deepcopy(DOCUMENT)
    for path, operations in paths.items():
        name = "/" + path
        changed["paths"].pop(name, None)
        if operations is not None:
            changed["paths"][name] = operations
    return changed


class DocumentHost:
    """Serves a document with its ETag. `seen` contains the `If-None-Match` values of clients."""

    def __init__(self, served: dict[str, Any]) -> None:
        self.served = served
        self.conditions: list[str | None] = []

    async def handle(self, request: Request, reply: Reply) -> None:
        data = json.dumps(self.served).encode()
        tag = f'"{hashlib.sha256(data).hexdigest()}"'
        condition = request.headers.get("if-none-match")
        self.conditions.append(condition)
        if condition == tag:
            reply.send(304, etag=tag)
        else:
            reply.send(200, data, etag=tag)
