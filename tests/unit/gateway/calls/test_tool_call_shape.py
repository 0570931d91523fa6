"""Calls of a tool with a shape: errors of the server, secrets, and results that are too large for the event loop."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import ToolShape
from fairlead_gateway.calls.routes.tool_call_shape import SMALL_RESULT, ToolCallShape
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import RpcError

SECRET = "planted-secret-77"


def shape(values_of: dict[str, str] | None = None, **members: Any) -> ToolCallShape:
    return ToolCallShape(ToolShape(definition=Raw(b"{}"), **members), (), values_of or {})


def test_an_error_of_the_server_has_the_clients_names_and_no_secret() -> None:
    made = shape({"key": SECRET}, arguments={"query": "q"}, hidden=("key",), secrets=("key",))
    error = RpcError(-32602, f"`q` is missing, 'key' is {SECRET}", f'"{SECRET}"'.encode(), status=200)
    shown = made.show_error(error)
    assert shown.message == "`query` is missing, 'key' is [credential]"
    assert (shown.code, shown.data, shown.status) == (-32602, b'"[credential]"', 200)


def test_an_error_that_names_nothing_is_the_same_object() -> None:
    error = RpcError(-32000, "q is a letter")
    assert shape(arguments={"query": "q"}).show_error(error) is error


def test_secrets_win_over_arguments_and_are_not_added_to_a_request_without_any() -> None:
    made = shape({"key": SECRET}, hidden=("key",), secrets=("key",))
    members = {"name": Raw(b'"x"'), "arguments": Raw(b'{"a":1,"key":"mine"}')}
    assert json.loads(bytes(made.add_secrets(members)["arguments"])) == {"a": 1, "key": SECRET}
    assert members["arguments"] == Raw(b'{"a":1,"key":"mine"}')
    without = {"name": Raw(b'"x"'), "requestState": Raw(b'"s"')}
    assert made.add_secrets(without) is without


def test_a_shape_says_which_secret_it_lacks() -> None:
    assert shape(hidden=("key",)).missing_secret is None
    assert ToolCallShape(ToolShape(definition=Raw(b"{}"), secrets=("key",)), ()).missing_secret == "key"


def test_a_result_that_is_too_large_is_left_to_a_process() -> None:
    made = shape(select="a")
    small = json.dumps({"content": [], "structuredContent": {"a": 1}}).encode()
    large = json.dumps({"content": [], "structuredContent": {"a": "x" * SMALL_RESULT}}).encode()
    selected = made.reshape_small(Raw(small))
    assert selected is not None
    assert json.loads(bytes(selected))["structuredContent"] == 1
    assert made.reshape_small(Raw(large)) is None
    whole = shape().reshape_small(Raw(large))
    assert whole is not None
    assert bytes(whole) == large


@pytest.mark.parametrize("arguments", [b"[]", b'"x"', b'{"a":'])
def test_arguments_that_are_not_an_object_are_refused(arguments: bytes) -> None:
    with pytest.raises(jsonrpc.UNREADABLE):
        shape().to_server(arguments)


@pytest.mark.parametrize("arguments", [None, b"null", b"{}"])
def test_a_call_without_arguments_gets_the_values_and_defaults(arguments: bytes | None) -> None:
    made = shape(hidden=("a",), values={"a": 1}, defaults={"b": [2]})
    assert json.loads(bytes(made.to_server(arguments))) == {"a": 1, "b": [2]}
