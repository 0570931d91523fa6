"""Resources below `/v1` refuse unknown query parameters, as they refuse unknown members of bodies."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from fastapi.routing import APIRoute

from fairlead_rest.queries import check_query, parameters
from gatewayworld import Ask, ask, catalog, running
from restworld import get, post, problem

DEMO = catalog("demo", "http://127.0.0.1:9/mcp", ["add"])
GETS = [
    "/v1/tools",
    "/v1/tools/demo__add",
    "/v1/tools/demo__add/explain",
    "/v1/servers",
    "/v1/servers/demo",
    "/v1/tiers",
    "/v1/models",
    "/v1/models/gpt-5",
    "/v1/scores",
    "/v1/leaderboard",
    "/v1/durations",
    "/v1/events",
    "/v1/access",
    "/v1/aggregates",
    "/v1/logs/demo",
    "/v1/search",
    "/v1/context",
    "/v1/calls",
    "/v1/calls/1",
    "/v1/calls/events",
    "/v1/tier-moves",
    "/v1/keys",
    "/v1/accounts",
    "/v1/sign-ins",
    "/v1/servers/demo/held",
    "/v1/servers/demo/sign-in",
]
POSTS = [
    "/v1/tools",
    "/v1/servers/demo/refresh",
    "/v1/tier",
    "/v1/plan",
    "/v1/tool-calls",
    "/v1/tool-calls/predict",
    "/v1/convert",
    "/v1/convert/messages",
    "/v1/executions",
    "/v1/keys",
    "/v1/servers/demo/approve",
    "/v1/servers/demo/sign-in",
]
PUTS = ["/v1/servers/demo/sign-in"]
DELETES = [
    "/v1/context",
    "/v1/keys/0071cb3c749f",
    "/v1/accounts/default/demo",
    "/v1/sign-ins",
    "/v1/sign-ins/5f0c1d9a7b3e24688c11f0aa",
]


async def test_a_parameter_that_there_is_not_is_refused_by_every_resource(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        for path in GETS:
            answer = await get(gateway, f"{path}?colour=red")
            assert problem(answer) == (400, "INVALID_ARGUMENTS"), path
            assert "unknown query parameter 'colour'" in answer.message["detail"], path
        for path in DELETES:
            answer = await ask(gateway, Ask(verb="DELETE", target=f"{path}?colour=red", body=b""))
            assert problem(answer) == (400, "INVALID_ARGUMENTS"), path
            assert "unknown query parameter 'colour'" in answer.message["detail"], path
        for path in POSTS:
            answer = await post(gateway, f"{path}?colour=red", {})
            assert problem(answer) == (400, "INVALID_ARGUMENTS"), path
            assert "unknown query parameter 'colour'" in answer.message["detail"], path
        for path in PUTS:
            answer = await ask(gateway, Ask(verb="PUT", target=f"{path}?colour=red", body=b"{}"))
            assert problem(answer) == (400, "INVALID_ARGUMENTS"), path
            assert "unknown query parameter 'colour'" in answer.message["detail"], path
        for path in ("/healthz", "/readyz"):
            assert (await get(gateway, f"{path}?colour=red")).status == 200, "probes are asked by others' rules"


async def test_an_unknown_query_parameter_is_told_with_its_nearest_and_all_valid_ones(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        answer = await get(gateway, "/v1/tools?teir=fast")
        other = await get(gateway, "/v1/tools?max_tools=3&format=mcp")
        twice = await get(gateway, "/v1/tools?format=mcp&format=openai")
        fine = await get(gateway, f"/v1/tools?{urlencode({'tags': ['a', 'b'], 'servers': 'demo'}, doseq=True)}")
    assert answer.message["detail"] == "unknown query parameter 'teir'. Did you mean tier?"
    assert answer.message["didYouMean"] == "tier"
    assert {"tier", "maxTools", "geminiField"} <= set(answer.message["known"])
    assert other.message["didYouMean"] == "maxTools"
    assert "may not be repeated" in twice.message["detail"]
    assert fine.status == 200


async def test_no_resource_is_forgotten(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        document = (await get(gateway, "/openapi.json")).message
    operations = {(verb, path) for path, item in document["paths"].items() if path.startswith("/v1") for verb in item}
    assert len(operations) == len(GETS) + len(POSTS) + len(PUTS) + len(DELETES), operations


@pytest.mark.parametrize(
    ("query", "refused"), [(b"", False), (b"a=1", False), (b"b=1&b=2", False), (b"a=1&a=2", True), (b"%00", True)]
)
def test_a_query_is_judged_by_its_names_alone(query: bytes, refused: bool) -> None:
    assert (check_query(query, {"a": False, "b": True}) is not None) is refused


def test_lists_are_told_from_single_values() -> None:
    async def endpoint(name: str | None = None) -> None: ...

    assert parameters(APIRoute("/v1/x", endpoint)) == {"name": False}


async def test_a_path_where_nothing_is_names_those_where_mcp_rest_and_the_console_are(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        for target in ("/", "/v1/nothing"):
            refused = await get(gateway, target)
            assert problem(refused) == (404, "NOT_FOUND")
            assert refused.message["detail"].endswith(
                "MCP is at /mcp, and for a single server at /servers/NAMESPACE/NAME/mcp; REST is below /v1, "
                "and the console, if it is turned on, is at /console/"
            )
