"""A module in the folder of resources is all that a REST route needs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from fairlead_app.authentication import Trust
from fairlead_rest import resources
from fairlead_rest.application import routes_of
from fixed_authenticator import Names
from gatewayworld import running
from restworld import get, problem

WEATHER = """
import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_web.bodies import answer
from fairlead_rest.openapi import describe_route


class Weather(msgspec.Struct):
    tools: int


def router(context):
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/{place:path}/weather", **describe_route("Tell the weather", Weather, {"fair": {"tools": 1}}))
    async def weather(request: Request, place: str) -> Response:
        return answer(Weather(len(context.catalog(request).view(None).routes)))

    return routes
"""


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An additional module, imported as if it were in the folder."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "weather.py").write_text(WEATHER)
    monkeypatch.setattr(resources, "__path__", [*resources.__path__, str(tmp_path / "resources")])
    monkeypatch.setitem(sys.modules, "fairlead_rest.resources.weather", None)
    monkeypatch.delitem(sys.modules, "fairlead_rest.resources.weather")


@pytest.mark.usefixtures("weather")
async def test_a_new_module_is_served_and_described_and_its_query_is_checked(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        shown = (await get(gateway, "/v1/tools/weather")).message
        described = (await get(gateway, "/openapi.json")).message["paths"]["/v1/{place}/weather"]["get"]
        refused = await get(gateway, "/v1/tools/weather?town=Hull")
    assert shown == {"tools": 0}, "`/v1/tools/{name:path}` has taken its path"
    assert described["summary"] == "Tell the weather"
    assert problem(refused) == (400, "INVALID_ARGUMENTS")


@pytest.mark.usefixtures("weather")
async def test_a_new_module_is_behind_the_guard(tmp_path: Path) -> None:
    async with running(tmp_path, trust=Trust((Names("ann"),))) as gateway:
        assert (await get(gateway, "/v1/tools/weather")).status == 401


def test_every_route_says_what_it_does_and_shows_an_example() -> None:
    nowhere: Any = SimpleNamespace(services=None)  # a route reads its context at its first request
    for route in routes_of(resources, nowhere):
        assert isinstance(route, APIRoute)
        assert route.summary, route.path
        [answer] = [each for status, each in route.responses.items() if status != "default"]
        [content] = answer["content"].values()
        assert content["examples"], route.path
