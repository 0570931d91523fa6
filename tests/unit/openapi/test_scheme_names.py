"""Names of security schemes: names that the document defines, and names that occur only in credentials."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.operations import ApiReport
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_openapi.compiling.scheme_names import MAX_NAMES, explain_unknown, scheme_names
from fairlead_operator.discovery.security_schemes import scheme_verdict
from gatewayworld import catalog
from openapidocuments import compile_source, document, get

KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}


def names_of(schemes: dict[str, Any], *required: str) -> tuple[str, ...] | None:
    paths = {"/a": get(security=[{name: [] for name in required}] if required else [])}
    return scheme_names(compile_source(document(paths, components={"securitySchemes": schemes})))


def test_a_scheme_has_a_name_if_the_document_declares_it_or_an_operation_needs_it() -> None:
    assert names_of({"key": KEY, "other": KEY}, "key", "undeclared") == ("key", "other", "undeclared")
    assert names_of({}) == ()


def test_names_of_a_document_with_too_many_or_too_long_ones_are_not_kept() -> None:
    assert names_of({f"k{number}": KEY for number in range(MAX_NAMES + 1)}) is None
    assert names_of({"k" * 300: KEY}) is None


@pytest.mark.parametrize(
    ("credentials", "schemes", "words"),
    [
        (("staff",), ("staff",), ""),
        ((), (), ""),
        (("stafff", "Key"), ("key", "staff"), "(Key: did you mean key?, stafff: did you mean staff?)"),
        (("key",), (), "(key), so these credentials are never sent; the document has no schemes"),
        (("key",), tuple(f"s{number:02}" for number in range(12)), "s08, s09 and 2 more"),
    ],
)
def test_a_credential_for_an_unknown_scheme_is_told_with_the_scheme_that_was_meant(
    credentials: tuple[str, ...], schemes: tuple[str, ...], words: str
) -> None:
    clause = explain_unknown(credentials, schemes)
    assert bool(clause) is bool(words)
    assert words in clause


def server(*names: str) -> McpServer:
    credential = {"bearer": {"secretRef": {"name": "api"}}}
    source = {"url": "https://a.example/api.json", "baseURL": "https://a.example"}
    openapi = {**source, "credentials": dict.fromkeys(names, credential)}
    return McpServer.model_validate({"metadata": {"name": "api", "namespace": "default"}, "spec": {"openapi": openapi}})


def catalog_of(report: ApiReport | None) -> Catalog:
    return catalog("api", "https://a.example", [], api=report)


def test_the_condition_of_a_server_names_credentials_that_are_never_sent() -> None:
    report = ApiReport(digest="d", operations=1, schemes=("staff",))
    verdict = scheme_verdict(server("staff", "stuff"), catalog_of(report))
    assert verdict is not None
    assert (verdict.ok, verdict.cause) == (True, Cause.UNKNOWN_SECURITY_SCHEME)
    assert verdict.message.startswith("spec.openapi.credentials names security schemes that the document does not have")
    assert "stuff: did you mean staff?" in verdict.message
    assert scheme_verdict(server("staff"), catalog_of(report)) is None


@pytest.mark.parametrize("report", [None, ApiReport(digest="d", operations=1)])
def test_schemes_are_not_judged_before_the_document_is_known(report: ApiReport | None) -> None:
    assert scheme_verdict(server("stuff"), catalog_of(report)) is None
    assert scheme_verdict(server("stuff"), None) is None
