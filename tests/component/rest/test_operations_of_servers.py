"""Operations of an HTTP API that are not tools: over REST, in `fairlead servers NAME` and on the console's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from consoleworld import visit
from fairlead_api.documents.operations import ApiReport, OperationRemark
from fairlead_cli.servers.showing import operations_sentence, print_operations
from gatewayworld import running
from petapi import api_catalog, pet_api
from restworld import get

WHY = "<b>`requestBody`</b> is not an object"
LEFT_OUT = tuple(OperationRemark(operation=f"POST /{number}", why=WHY) for number in range(60))
REPORT = ApiReport(
    digest="0" * 64,
    operations=80,
    with_loss=1,
    left_out=60,
    remarks=(*LEFT_OUT, OperationRemark(operation="GET /pets", tool="listPets", why="tags: too deep")),
)


async def test_rest_has_the_report_of_a_server_and_lists_have_its_numbers(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server, api=REPORT)) as gateway:
        shown = (await get(gateway, "/v1/servers/pets")).message["api"]
        (listed,) = (await get(gateway, "/v1/servers")).message["servers"]
    assert (shown["operations"], shown["leftOut"], shown["withLoss"]) == (80, 60, 1)
    assert len(shown["remarks"]) == 61
    assert shown["remarks"][0] == {"operation": "POST /0", "tool": None, "why": WHY}
    assert shown["remarks"][-1] == {"operation": "GET /pets", "tool": "listPets", "why": "tags: too deep"}
    assert listed["api"] == {"operations": 80, "leftOut": 60, "withLoss": 1}


async def test_the_console_names_operations_that_are_left_out_and_why(tmp_path: Path) -> None:
    async with pet_api() as (_, server), running(tmp_path, api_catalog(server, api=REPORT)) as gateway:
        page = (await visit(gateway, "/console/servers/default/pets")).body.decode()
    assert "20 of 80 operations are tools, 1 of them with losses; 60 are left out." in page
    assert page.count("&lt;b&gt;`requestBody`&lt;/b&gt; is not an object") == 50
    assert "and 11 more" in page


def test_the_command_prints_operations_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    api = {"operations": 3, "leftOut": 1, "withLoss": 0}
    assert operations_sentence(api) == "2 of 3 operations are tools, 0 of them with losses; 1 are left out"
    print_operations({"api": {**api, "remarks": [{"operation": "GET /x", "tool": None, "why": "because"}]}})
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["OPERATION", "TOOL", "WHY"],
        ["GET", "/x", "-", "because"],
    ]
    print_operations({})
    assert capsys.readouterr().out == ""
