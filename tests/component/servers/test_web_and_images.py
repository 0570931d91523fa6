"""web-search with a search engine, and image-gen with an images endpoint."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult, ImageContent
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairlead_servers.image_gen.drawing import draw
from servedtools import VIAS, Via, served, structured_content, text_of
from toolservers import serve_asgi

pytestmark = pytest.mark.timeout(120)
PICTURE = draw("a ship", "ink", 64, 64)


@asynccontextmanager
async def services(seen: list[dict[str, Any]], slow: asyncio.Event | None = None) -> AsyncIterator[str]:
    """Fakes of a search engine (SearXNG) and an images endpoint (OpenAI). Answers wait for `slow`."""

    async def search(request: Request) -> Response:
        if slow is not None:
            await slow.wait()
        if request.query_params["q"] == "forbidden":
            return Response("no", status_code=403)
        bad = {"title": "x", "url": "javascript:alert(1)"}
        good = {"title": "Tides", "url": "https://web.example/tides", "content": "About " + "tides " * 200}
        return JSONResponse({"results": [bad, good]})

    async def images(request: Request) -> Response:
        body = await request.json()
        seen.append({**body, "key": request.headers.get("authorization")})
        if slow is not None:
            await slow.wait()
        if "forbidden" in body["prompt"]:
            return JSONResponse({"error": {"message": "not that picture"}}, status_code=400)
        created = {"created": 1764000000, "usage": {"total_tokens": 50}}
        if body["model"].startswith("http"):
            return JSONResponse({**created, "data": [{"url": body["model"], "revised_prompt": body["prompt"]}]})
        if body["model"] == "by-url":
            return JSONResponse({**created, "data": [{"b64_json": None, "url": str(request.url_for("made"))}]})
        if "sound" in body["prompt"]:
            return JSONResponse({"data": [{"b64_json": base64.b64encode(b"RIFF\0\0\0\0WAVEfmt ").decode()}]})
        return JSONResponse({**created, "data": [{"b64_json": base64.b64encode(PICTURE).decode()}]})

    async def send_picture(_: Request) -> Response:
        return Response(PICTURE, media_type="image/png")

    routes = [
        Route("/search", search),
        Route("/v1/images/generations", images, methods=["POST"]),
        Route("/made.png", send_picture, name="made"),
    ]
    async with serve_asgi(Starlette(routes=routes)) as port:
        yield f"http://127.0.0.1:{port}"


def image(result: Any) -> Image.Image:
    """The picture of a result."""
    assert isinstance(result, CallToolResult)
    (content,) = (each for each in result.content if isinstance(each, ImageContent))
    return Image.open(io.BytesIO(base64.b64decode(content.data)))


async def test_an_engine_is_asked_and_its_results_are_bounded(tmp_path: Path) -> None:
    async with services([]) as url, served("web-search", "http", tmp_path, {"engine": url}) as client:
        search = structured_content(await client.call_tool("search", {"query": "tides"}))
        (result,) = search["results"]
        assert (search["source"], result["url"], len(result["snippet"])) == ("engine", "https://web.example/tides", 500)
        refused = await client.call_tool("search", {"query": "forbidden"})
        assert refused.is_error
        assert text_of(refused) == (
            "the search engine returned status 403; enable json in search.formats of its settings."
        )
        inside = await client.call_tool("fetch_page", {"url": f"{url}/search?q=x"})
        assert inside.is_error
        assert "an address of this machine" in text_of(inside), "a page may not be where the engine is"


@pytest.mark.parametrize("via", VIAS)
async def test_without_an_engine_files_are_searched_and_read(via: Via, tmp_path: Path) -> None:
    async with served("web-search", via, tmp_path) as client:
        search = structured_content(await client.call_tool("search", {"query": "spring tides"}))
        assert (search["source"], search["results"][0]["url"]) == ("files", "index:tides.md")
        page = structured_content(await client.call_tool("fetch_page", {"url": search["results"][0]["url"]}))
        assert "neap tides" in page["text"]
        assert page["title"] == search["results"][0]["title"]
        tools = (await client.list_tools()).tools
        reaches = {tool.name: tool.annotations is not None and tool.annotations.open_world_hint for tool in tools}
        assert reaches == {"search": False, "fetch_page": True}
        assert {(tool.meta or {}).get("fairlead.dev/min_tier") for tool in tools} == {"deep"}


@pytest.mark.parametrize("via", VIAS)
async def test_without_an_endpoint_a_picture_is_drawn_and_says_so(via: Via, tmp_path: Path) -> None:
    async with served("image-gen", via, tmp_path, {"size": "256x100"}) as client:
        result = await client.call_tool("generate_image", {"prompt": "a ship at night", "style": "night"})
        told = structured_content(result)
        assert told["source"] == "drawn"
        assert "without a model" in told["note"]
        assert image(result).size == (256, 100)
        again = await client.call_tool("generate_image", {"prompt": "a ship at night", "style": "night"})
        assert image(again).tobytes() == image(result).tobytes()
        other = await client.call_tool("generate_image", {"prompt": "a keep", "style": "night"})
        assert image(other).tobytes() != image(result).tobytes()


async def test_an_endpoint_makes_the_picture_or_says_why_not(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    async with services(seen) as url:
        settings = {"endpoint": f"{url}/v1", "key": "k-1", "model": "m"}
        async with served("image-gen", "http", tmp_path, settings) as client:
            result = await client.call_tool("generate_image", {"prompt": "a ship", "style": "oil"})
            assert structured_content(result)["source"] == "endpoint"
            assert image(result).size == (64, 64)
            refused = await client.call_tool("generate_image", {"prompt": "forbidden"})
            assert text_of(refused) == "the images endpoint returned status 400: not that picture."
            sound = await client.call_tool("generate_image", {"prompt": "sound"})
            assert text_of(sound) == "the images endpoint's picture is neither PNG, JPEG nor WebP."
    assert seen[0] == {
        "prompt": "a ship\n\nStyle: oil",
        "n": 1,
        "size": "1024x1024",
        "model": "m",
        "response_format": "b64_json",
        "key": "Bearer k-1",
    }


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("by-url", '"source": "endpoint"'),
        ("http://169.254.169.254/latest", "cannot be fetched: 169.254.169.254 leads to a link-local address"),
        ("http://10.0.0.7/picture.png", "cannot be fetched: 10.0.0.7 "),
        ("http://127.0.0.1:1/", "cannot be fetched: 127.0.0.1:1 refused the connection"),
    ],
)
async def test_a_picture_that_an_endpoint_names_is_fetched_from_there_and_from_no_inner_network(
    model: str, answer: str, tmp_path: Path
) -> None:
    async with (
        services([]) as url,
        served("image-gen", "http", tmp_path, {"endpoint": f"{url}/v1", "model": model}) as client,
    ):
        result = await client.call_tool("generate_image", {"prompt": "a ship"})
        assert answer in text_of(result)
        if model == "by-url":
            assert image(result).size == (64, 64)


async def test_a_tool_that_takes_longer_than_two_seconds_reports_progress(tmp_path: Path) -> None:
    slow = asyncio.Event()
    async with (
        services([], slow) as url,
        served("web-search", "http", tmp_path, {"engine": url}) as searching,
        served("image-gen", "http", tmp_path, {"endpoint": f"{url}/v1", "model": "m"}) as drawing,
    ):
        reports: dict[str, tuple[float, str | None]] = {}

        def progress_listener(tool: str) -> ProgressFnT:
            async def hear(progress: float, total: float | None, message: str | None) -> None:
                reports.setdefault(tool, (progress, message))  # the first request
                if len(reports) == 2:
                    slow.set()

            return hear

        searched, made = await asyncio.gather(
            searching.call_tool("search", {"query": "tides"}, progress_callback=progress_listener("search")),
            drawing.call_tool(
                "generate_image", {"prompt": "a ship"}, progress_callback=progress_listener("generate_image")
            ),
        )
    assert reports == {"search": (2.0, "Search the web: 2 s"), "generate_image": (2.0, "Make a picture: 2 s")}
    assert (structured_content(searched)["source"], structured_content(made)["source"]) == ("engine", "endpoint")
