"""`Mcp-Param-*` in each combination of eras: checked if the client has to send it, derived if the server needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewayworld import LEGACY, MODERN, ask, calling, catalog, running
from toolservers import legacy_server, modern_server

ERAS = (MODERN, LEGACY)
TOOL = {
    "name": "x",
    "inputSchema": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "opts": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "Count"}}},
        },
    },
}
ARGUMENTS = {"region": "zürich", "opts": {"n": 3}}
HEADERS = {"mcp_param_region": "=?base64?esO8cmljaA==?=", "mcp_param_count": "3"}


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_parameters_in_headers_reach_a_modern_server_and_no_legacy_one(
    tmp_path: Path, client: str, server_era: str
) -> None:
    async with (
        modern_server() if server_era == MODERN else legacy_server() as server,
        running(tmp_path, catalog("demo", server.url, [TOOL], version=server_era)) as gateway,
    ):
        sent = calling("demo__x", ARGUMENTS, era=client)
        answer = await ask(gateway, sent.with_headers(**HEADERS) if client == MODERN else sent)
        call = server.seen[-1]
    assert answer.message["result"]["isError"] is False
    got = {name.replace("-", "_"): value for name, value in call.headers.items() if name.startswith("mcp-param")}
    assert got == (HEADERS if server_era == MODERN else {})


@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize(
    ("altered", "sentence"),
    [
        ({"mcp_param_region": None}, "Region is missing"),
        ({"mcp_param_count": "4"}, "Count does not match"),
        ({"mcp_param_region": "=?base64?esO8cmljaA?="}, "Region does not match"),
        ({"mcp_param_count": "3\r\nmcp-param-count: 4"}, "Count does not match"),
    ],
)
async def test_a_modern_client_whose_headers_do_not_match_is_refused_before_the_server_hears_of_it(
    tmp_path: Path, server_era: str, altered: dict[str, str | None], sentence: str
) -> None:
    async with (
        modern_server() if server_era == MODERN else legacy_server() as server,
        running(tmp_path, catalog("demo", server.url, [TOOL], version=server_era)) as gateway,
    ):
        refused = await ask(gateway, calling("demo__x", ARGUMENTS).with_headers(**{**HEADERS, **altered}))
        methods = server.methods()
    assert (refused.status, refused.code) == (400, -32020)
    assert sentence in refused.message["error"]["message"]
    assert "tools/call" not in methods


async def test_a_legacy_client_may_send_what_it_likes_there(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, [TOOL])) as gateway:
        request = calling("demo__x", ARGUMENTS, era=LEGACY).with_headers(mcp_param_count="99", mcp_param_other="y")
        assert (await ask(gateway, request)).message["result"]["isError"] is False
        call = server.seen[-1]
    assert call.headers["mcp-param-count"] == "3"
    assert "mcp-param-other" not in call.headers
