"""Small OpenAPI documents, and their compilation."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_api.documents.operations import Operation
from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.report import CompiledDocument, OperationReport

OK: dict[str, Any] = {"200": {"description": "fine"}}
SERVERS = [{"url": "https://api.example.com/v1"}]


def document(paths: dict[str, Any], version: str = "3.1.0", **members: Any) -> dict[str, Any]:
    """A document with a base URL; `members` are added and may replace it."""
    info = {"title": "Example", "version": "1"}
    return {"openapi": version, "info": info, "servers": SERVERS, "paths": paths, **members}


def get(*parameters: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A Path Item Object with a GET operation, `read`, that has these parameters."""
    return {"get": {"operationId": "read", "parameters": list(parameters), "responses": OK, **members}}


def post(content: dict[str, Any], *, required: bool = True, **members: Any) -> dict[str, Any]:
    """A Path Item Object with a POST operation, `write`, whose body has this `content`."""
    body = {"content": content, "required": required}
    return {"post": {"operationId": "write", "requestBody": body, "responses": OK, **members}}


def compile_source(source: dict[str, Any], **options: Any) -> CompiledDocument:
    """Compile a document that is encoded as JSON."""
    return compile_document(msgspec.json.encode(source), CompileOptions(**options))


def only_tool(source: dict[str, Any], **options: Any) -> tuple[dict[str, Any], Operation]:
    """Definition and operation of a document's only tool. Fails if anything was lost."""
    result = compile_source(source, **options)
    (report,) = result.reports
    assert report.outcome == "made", report
    (tool,) = result.tools
    definition: dict[str, Any] = msgspec.json.decode(tool.definition)
    return definition, tool.operation


def only_report(source: dict[str, Any], **options: Any) -> OperationReport:
    """Report on a document's only operation."""
    (report,) = compile_source(source, **options).reports
    return report


def result_schema(schema: Any, version: str = "3.1.0", **components: Any) -> dict[str, Any] | None:
    """`outputSchema` of a GET that answers 200 with JSON of this schema."""
    responses = {"200": {"description": "fine", "content": {"application/json": {"schema": schema}}}}
    source = document({"/x": get(responses=responses)}, version, components={"schemas": components})
    definition, _ = only_tool(source)
    output: dict[str, Any] | None = definition.get("outputSchema")
    return output


def argument_schema(schema: Any, version: str = "3.1.0", **components: Any) -> Any:
    """Schema of the argument for a JSON body of this schema, which is not a plain object."""
    content = {"application/json": {"schema": schema}}
    source = document({"/x": post(content)}, version, components={"schemas": components})
    definition, _ = only_tool(source)
    return definition["inputSchema"]["properties"]["body"]
