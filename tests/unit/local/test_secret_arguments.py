"""Arguments of tools whose values are in Secrets, on a laptop."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import Credential
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.local.inventory import Contents, DeclaredSecret, DeclaredServer
from fairlead_operator.local.references import resolve

URL = "https://tools.example.com/mcp"
TOOL = {"name": "fetch", "arguments": {"api_key": {"secretRef": {"name": "s", "key": "k"}}, "id": {"as": "number"}}}


def declare(**spec: Any) -> DeclaredServer:
    server = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"tools": [TOOL], **spec}}
    return DeclaredServer(McpServer.model_validate(server), Credential())


def contents(value: str | None, *, labelled: bool = True, hosts: str | None = None) -> Contents:
    data = {} if value is None else {"k": value}
    labels = {"fairlead.dev/credential": "true"} if labelled else {}
    annotations = {} if hosts is None else {"fairlead.dev/hosts": hosts}
    return Contents(secrets={("default", "s"): DeclaredSecret("default", "s", data, labels, annotations)})


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        ({"url": URL}, None),
        ({"url": URL}, "tools.example.com"),
        ({"command": ["x"]}, None),
        ({"openapi": {"file": "/a.json", "baseURL": URL}}, "tools.example.com"),
    ],
)
def test_the_value_is_in_the_credential_of_the_server_and_not_in_its_text(
    spec: dict[str, Any], hosts: str | None
) -> None:
    resolved = resolve(declare(**spec), contents("s3cret\n", hosts=hosts))
    assert resolved.verdict.ok
    assert resolved.value is not None
    assert resolved.value.arguments == {"fetch": {"api_key": "s3cret"}}
    assert "s3cret" not in repr(resolved)


def test_a_tool_that_is_not_enabled_needs_no_secret() -> None:
    assert resolve(declare(url=URL, tools=[{**TOOL, "enabled": False}]), Contents()).verdict.ok


@pytest.mark.parametrize(
    ("spec", "store", "cause", "words"),
    [
        ({"url": URL}, Contents(), "SecretNotFound", "a Secret with the name s"),
        ({"url": URL}, contents("x", labelled=False), "SecretNotLabelled", "fairlead.dev/credential"),
        ({"url": URL}, contents("x", hosts="other.example.com"), "HostNotAllowed", "the server is at https://tools."),
        ({"command": ["x"]}, contents("x", hosts="tools.example.com"), "HostNotAllowed", "the server is a process"),
        ({"openapi": {"file": "/a.json"}}, contents("x"), "HostNotAllowed", "set openapi.baseURL"),
        ({"url": URL}, contents(None), "SecretKeyMissing", "has no value"),
        ({"url": URL}, contents("\n"), "SecretKeyMissing", "has no value"),
    ],
)
def test_a_secret_that_may_not_be_used_keeps_the_server_from_being_called(
    spec: dict[str, Any], store: Contents, cause: str, words: str
) -> None:
    resolved = resolve(declare(**spec), store)
    assert (resolved.verdict.ok, resolved.verdict.cause) == (False, cause)
    assert words in resolved.verdict.message
