"""Patterns and credentials of an McpServer that are for nothing in its OpenAPI document."""

from __future__ import annotations

import json

import msgspec
import pytest

from fairlead_api.documents.operations import MAX_UNKNOWN, ApiReport
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.overrides import api_verdict
from fairlead_operator.openapi.api_source import ApiSource
from fairlead_operator.openapi.compiled_listing import listing_of
from petstore import DOCUMENT

SCHEMES = {"key": {"type": "apiKey", "in": "query", "name": "k"}}
SECRET = {"bearer": {"secretRef": {"name": "a"}}}
PLACE = {"url": "https://pets.example.com/openapi.json", "baseURL": "https://pets.example.com"}


def mcp_server(**spec: object) -> McpServer:
    return McpServer.model_validate({"metadata": {"name": "pets", "namespace": "team"}, "spec": spec})


def report_on(openapi: dict[str, object]) -> ApiReport:
    source = ApiSource.of(mcp_server(openapi=openapi))
    assert source is not None
    document = json.dumps({**DOCUMENT, "components": {"securitySchemes": SCHEMES}}).encode()
    listing = listing_of(compile_document(document, CompileOptions(source.include, source.exclude)), "0" * 64, source)
    assert listing.api is not None
    return listing.api


@pytest.mark.parametrize(
    ("openapi", "unknown"),
    [
        ({"include": ["reading", "GET /pets*"], "exclude": ["deletePet"], "credentials": {"key": SECRET}}, ()),
        ({"include": ["^get.*$", "reading"]}, ("pattern ^get.*$",)),
        ({"exclude": ["deletePets"]}, ("pattern deletePets",)),
        ({"credentials": {"keys": SECRET}}, ("security scheme keys",)),
        ({"include": [f"x{number:02}" for number in range(30)]}, tuple(f"pattern x{n:02}" for n in range(MAX_UNKNOWN))),
    ],
)
def test_patterns_and_credentials_that_the_document_does_not_have_are_reported(
    openapi: dict[str, object], unknown: tuple[str, ...]
) -> None:
    assert report_on({**PLACE, **openapi}).unknown == unknown


def test_unknown_operations_are_told_on_the_server() -> None:
    server = mcp_server(openapi={**PLACE, "include": ["listPet", "reading"]})
    report = report_on({**PLACE, "include": ["listPet", "reading"]})
    verdict = api_verdict(server, ListingFindings(api=report))
    assert verdict is not None
    assert (verdict.ok, verdict.cause, verdict.reason) == (True, "UnknownOperation", "InvalidRef")
    assert "(pattern listPet), so it has no effect" in verdict.message
    assert api_verdict(server, ListingFindings(api=msgspec.structs.replace(report, unknown=()))) is None
    assert api_verdict(server, None) is None
    assert api_verdict(mcp_server(url="https://a.example.com/mcp"), ListingFindings()) is None
