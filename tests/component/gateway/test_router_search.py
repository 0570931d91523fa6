"""Arguments of `search_tools`: several queries, filters and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gatewayworld import ask as asked
from gatewayworld import calling, catalog, entry, running, scrape
from restworld import get
from toolservers import tool

AWAY = "http://127.0.0.1:9/mcp"


def tool_entry(name: str, description: str, **more: Any) -> Any:
    return entry(tool(name, description=description), **more)


SHIP = catalog(
    "ship",
    AWAY,
    [
        tool_entry("furl_sail", "Furl a sail of the ship.", tags=("deck",), categories=("rigging",)),
        tool_entry("mend_sail", "Mend a torn sail.", tags=("deck", "craft")),
        tool_entry("cook_stew", "Cook a stew for the crew.", tags=("galley",), categories=("food",)),
        tool_entry("cook_rice", "Cook rice for the crew.", tags=("galley",), categories=("food",)),
    ],
)
SHORE = catalog(
    "shore", AWAY, [tool_entry("sew_sail", "Sew a new sail.", tags=("craft",)), tool_entry("buy_stew", "Buy stew.")]
)


async def search(gateway: Any, **arguments: Any) -> dict[str, Any]:
    answer = await asked(gateway, calling("search_tools", arguments).to("/router/mcp"))
    return dict(json.loads(answer.message["result"]["content"][0]["text"]))


def names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]


async def test_a_tool_is_found_by_its_name_alone_among_tools_that_share_the_other_words(tmp_path: Path) -> None:
    units = catalog("units", AWAY, [tool_entry("celsius", "Read the thermometer on another scale.")])
    things = ("money", "video", "audio", "image", "text", "time", "case", "mass", "colour", "length")
    others = catalog("convert", AWAY, [tool_entry(f"convert_{thing}", f"Convert {thing}.") for thing in things])
    async with running(tmp_path, units, others) as gateway:
        for query in ("convert celsius", "Convert 12 degrees Celsius, please", "celsius"):
            assert names(await search(gateway, query=query, limit=1)) == ["units__celsius"], query


async def test_the_best_tools_of_several_queries_come_in_turn(tmp_path: Path) -> None:
    async with running(tmp_path, SHIP, SHORE) as gateway:
        both = await search(gateway, queries=["furl the sail", "cook rice"], limit=2)
        assert {*names(both)} == {"ship__furl_sail", "ship__cook_rice"}
        three = await search(gateway, query="buy stew", queries=["furl the sail", "cook rice"], limit=3)
        assert {*names(three)} == {"shore__buy_stew", "ship__furl_sail", "ship__cook_rice"}


@pytest.mark.parametrize(
    ("filters", "searched", "expected"),
    [
        ({"tags": ["deck"]}, 2, {"ship__furl_sail", "ship__mend_sail"}),
        ({"tags": ["deck", "craft"]}, 3, {"ship__furl_sail", "ship__mend_sail", "shore__sew_sail"}),
        ({"categories": ["rigging"]}, 1, {"ship__furl_sail"}),
        ({"servers": ["shore"]}, 2, {"shore__sew_sail"}),
        ({"servers": ["default/ship"], "tags": ["craft"]}, 1, {"ship__mend_sail"}),
        ({"categories": ["food"], "servers": ["ship"]}, 2, {"ship__cook_rice", "ship__cook_stew"}),
        ({"tags": ["nowhere"]}, 0, set()),
    ],
)
async def test_filters_are_applied_before_the_search(
    tmp_path: Path, filters: dict[str, Any], searched: int, expected: set[str]
) -> None:
    async with running(tmp_path, SHIP, SHORE) as gateway:
        answer = await search(gateway, query="sail", **filters)
    assert answer["searched"] == searched
    assert {*names(answer)} == expected


@pytest.mark.parametrize("query", [{}, {"query": "quantum physics"}, {"query": " "}])
async def test_filters_alone_find_tools_by_name(tmp_path: Path, query: dict[str, str]) -> None:
    async with running(tmp_path, SHIP, SHORE) as gateway:
        answer = await search(gateway, **query, tags=["galley"])
        tagged = await search(gateway, **query, tags=["galley"], limit=1)
        over_rest = await get(gateway, "/v1/search?tags=galley&" + urlencode(query))
    assert (names(answer), answer["ranking"]) == (["ship__cook_rice", "ship__cook_stew"], "filters")
    assert ("note" in answer) is ("quantum" in query.get("query", ""))
    assert names(tagged) == ["ship__cook_rice"]
    assert [hit["tool"]["name"] for hit in over_rest.message["tools"]] == names(answer)


async def test_limit_and_token_budget_bound_what_is_answered_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, SHIP, SHORE) as gateway:
        assert len(names(await search(gateway, query="sail stew cook", limit=2))) == 2
        whole = await search(gateway, query="sail")
        assert "left_out_by_tokenBudget" not in whole
        few = await search(gateway, query="sail", tokenBudget=60)
        assert names(few) == names(whole)[: len(names(few))]
        assert names(few)
        assert [*names(few), *few["left_out_by_tokenBudget"]] == names(whole)


async def test_counts_of_searches_and_results_stand_at_zero_before_the_first(tmp_path: Path) -> None:
    """In Prometheus, `rate` does not see the first count of a series that begins at 1."""
    async with running(tmp_path, SHIP) as gateway:
        metrics = await scrape(gateway)
    for series in (
        'fairlead_searches_total{ranking="bm25"}',
        'fairlead_search_hits_executed_total{place="2-5"}',
        'fairlead_router_calls_total{tool="read_result"}',
        'fairlead_context_results_total{kept="false"}',
        'fairlead_long_results_total{kept="true"}',
    ):
        assert f"{series} 0.0\n" in metrics


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": " "},
        {"queries": []},
        {"queries": ["x"] * 17},
        {"query": "x" * 1001},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 101},
        {"query": "x", "tokenBudget": 49},
        {"query": "x", "servers": ["atlantis"]},
        {"query": "x", "unknown": 1},
    ],
)
async def test_arguments_that_make_no_search_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with running(tmp_path, SHIP) as gateway:
        answer = await asked(gateway, calling("search_tools", arguments).to("/router/mcp"))
    assert answer.refusal == "INVALID_ARGUMENTS"
