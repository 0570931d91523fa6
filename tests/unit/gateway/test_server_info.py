"""Members of `serverInfo` that clients would refuse are mended or left out."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.server import Server
from fairlead_gateway.policy.server_info import server_info
from gatewayworld import catalog


def info_of(info: bytes) -> bytes | None:
    document = catalog("demo", HttpEndpoint(url="http://127.0.0.1:1/mcp"), ["add"], server_info=Raw(info))
    return server_info(Server(ServerKey("default", "demo"), document, ()))


@pytest.mark.parametrize("info", [b'{"name":"a","version":"1"}', b'{ "version":"1", "name":"a","icons":[{"src":"x"}]}'])
def test_a_description_in_the_form_of_mcp_is_passed_on_byte_for_byte(info: bytes) -> None:
    assert info_of(info) == info


@pytest.mark.parametrize(
    ("info", "mended"),
    [
        ({"name": "a", "version": None}, {"name": "a", "version": ""}),
        ({"name": "a"}, {"name": "a", "version": ""}),
        ({"name": "a", "version": 1.5}, {"name": "a", "version": "1.5"}),
        ({"name": "a", "version": "1", "title": None}, {"name": "a", "version": "1"}),
        ({"name": "a", "version": "1", "websiteUrl": [], "description": {}}, {"name": "a", "version": "1"}),
        ({"name": "a", "version": "1", "icons": None}, {"name": "a", "version": "1"}),
        ({"name": "a", "version": "1", "icons": [{"src": None}]}, {"name": "a", "version": "1"}),
        ({"name": "a", "version": "1", "other": None}, {"name": "a", "version": "1", "other": None}),
    ],
)
def test_members_of_a_description_that_clients_refuse_do_not_reach_them(
    info: dict[str, object], mended: dict[str, object]
) -> None:
    assert json.loads(info_of(json.dumps(info).encode()) or b"") == mended


@pytest.mark.parametrize("info", [b"{}", b'{"name":null,"version":"1"}', b'{"name":5,"version":"1"}'])
def test_a_server_without_a_name_is_described_by_the_gateway(info: bytes) -> None:
    assert info_of(info) is None
