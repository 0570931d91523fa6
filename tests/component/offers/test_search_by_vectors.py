"""Searches by words and vectors at a real gateway, with vectors of an embeddings endpoint over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fairlead_api.documents.codec import Document
from fairlead_app.gateway import Gateway
from fairlead_mcp.errors import McpError
from fairlead_search.embedding import EmbeddingConfig
from gatewayworld import catalog, entry, publish, running, wait_for_snapshots
from restworld import get
from vectorplaces import WHY
from waiting import until_async

pytest.importorskip("numpy", reason="numpy of the extra `search` is not installed")
embeddings = pytest.importorskip("fairlead_offers.search.embeddings_api")
encode = pytest.importorskip("fairlead_search.vectors").encode

needs_lancedb = pytest.mark.skipif(find_spec("lancedb") is None, reason=WHY)
TOPICS = ("letter mail", "umbrella forecast", "chart graph")
"""Groups of words that the endpoint treats as synonyms."""


def tool(name: str, description: str) -> Any:
    schema = {"type": "object"}
    return entry({"name": name, "description": description, "inputSchema": schema})


def served_tools(prefix: str) -> tuple[Document, Document]:
    """Two servers. Each test has its own prefix, because with `rest_processes=0` the test process caches vectors, also
    for the tools of an earlier gateway."""
    where = "http://127.0.0.1:9/mcp"
    mail = catalog(f"{prefix}mail", where, [tool("send_mail", "Write to somebody.")])
    return mail, catalog(f"{prefix}sky", where, [tool("get_forecast", "Degrees of tomorrow.")])


@dataclass
class Endpoint:
    """An endpoint with one axis per topic, which first answers with the errors of `statuses`."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    accepts_dimensions: bool = True
    """Whether a request may have the member `dimensions`. The vectors have three dimensions in any case."""
    nonsense: list[Any] | None = None
    """Data of every answer, in place of vectors."""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.seen.append(body)
        self.keys.add(request.headers.get("Authorization", ""))
        if self.statuses:
            return web.json_response({"error": {"message": "not now"}}, status=self.statuses.pop(0))
        if "dimensions" in body and not self.accepts_dimensions:
            return web.json_response({"error": {"message": "no such member"}}, status=400)
        data = [{"index": index, "embedding": self.vector(text)} for index, text in enumerate(body["input"])]
        return web.json_response({"data": data[::-1] if self.nonsense is None else self.nonsense})

    def vector(self, text: str) -> list[float]:
        return [0.1 + sum(word in text.lower() for word in topic.split()) for topic in TOPICS]

    @property
    def queries(self) -> list[str]:
        """Texts of requests that are queries. Texts of tools have a full stop, from their description."""
        return [text for body in self.seen for text in body["input"] if "." not in text]


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    application = web.Application()
    application.router.add_post("/v1/embeddings", endpoint.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield endpoint
    finally:
        await runner.cleanup()


def by(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    """Settings of a gateway that gets its vectors from the endpoint."""
    return {"embedder": "endpoint", "embedder_url": endpoint.url, "embedder_model": "topics", **more}


async def search(gateway: Gateway, query: str) -> dict[str, Any]:
    answer = await get(gateway, f"/v1/search?query={query}&limit=1")
    assert answer.status == 200
    message: dict[str, Any] = answer.message
    return message


async def hybrid(gateway: Gateway, query: str) -> dict[str, Any]:
    """The first answer that is ranked by vectors. The process that makes vectors has low priority, so this may take a
    while."""

    async def hybrid_answer() -> dict[str, Any] | None:
        answer = await search(gateway, query)
        assert answer["ranking"] == "hybrid" or "have vectors of topics" in answer["note"]
        return answer if answer["ranking"] == "hybrid" else None

    answer = await until_async("a search is ranked by vectors", hybrid_answer, seconds=50)
    assert answer is not None
    return answer


async def rank_by_vectors(gateway: Gateway, query: str) -> list[str]:
    """Names that a search finds when it is ranked by vectors."""
    answer = await hybrid(gateway, query)
    assert "note" not in answer
    return [hit["tool"]["name"] for hit in answer["tools"]]


@pytest.mark.parametrize("processes", [0, 1])
async def test_a_tool_is_found_in_other_words_and_so_is_one_that_comes_later(tmp_path: Path, processes: int) -> None:
    mail, sky = served_tools("a")
    async with (
        listening() as endpoint,
        running(tmp_path, mail, rest_processes=processes, **by(endpoint, embedder_key="k")) as gateway,
    ):
        assert await rank_by_vectors(gateway, "umbrella") == ["amail__send_mail"]
        publish(tmp_path / "documents", sky)
        await wait_for_snapshots(gateway, 2)
        assert await rank_by_vectors(gateway, "umbrella") == ["asky__get_forecast"]
        assert gateway.rest.services.search.vectors is not None
        assert gateway.rest.services.search.vectors.made == 2
        assert endpoint.queries == ["umbrella"]
    assert endpoint.keys == {"Bearer k"}


@needs_lancedb
async def test_a_restart_makes_no_vector_again_where_a_folder_keeps_them(tmp_path: Path) -> None:
    async with listening() as endpoint:
        more = by(endpoint, search_directory=tmp_path / "vectors", rest_processes=1)
        for made in (2, 0):
            async with running(tmp_path, *served_tools("f"), **more) as gateway:
                assert await rank_by_vectors(gateway, "umbrella") == ["fsky__get_forecast"]
                assert gateway.rest.services.search.vectors is not None
                assert gateway.rest.services.search.vectors.made == made
        assert len([text for body in endpoint.seen for text in body["input"] if "." in text]) == 2


@needs_lancedb
async def test_a_second_gateway_of_one_folder_searches_in_memory_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    async with listening() as endpoint:
        more = by(endpoint, search_directory=folder, rest_processes=1)
        async with running(tmp_path, *served_tools("g"), **more) as first:
            assert await rank_by_vectors(first, "umbrella") == ["gsky__get_forecast"]
            (tmp_path / "second").mkdir()
            async with running(tmp_path / "second", *served_tools("h"), **more) as second:
                answer = await hybrid(second, "umbrella")
                assert answer["tools"][0]["tool"]["name"] == "hsky__get_forecast"
                assert f"the folder {folder} is in use by another process" in answer["note"]


async def test_queries_carry_the_instruction_and_requests_the_dimensions(tmp_path: Path) -> None:
    async with listening() as endpoint:
        endpoint.accepts_dimensions = False
        more = by(endpoint, embedder_instruction="Find the tool", embedder_dimensions=2, rest_processes=0)
        async with running(tmp_path, *served_tools("b"), **more) as gateway:
            assert await rank_by_vectors(gateway, "umbrella") == ["bsky__get_forecast"]
    assert endpoint.queries[0] == "Instruct: Find the tool\nQuery:umbrella"
    assert [body.get("dimensions") for body in endpoint.seen[:2]] == [2, None], "again without what was refused"


async def test_vectors_are_truncated_to_the_configured_dimensions_if_the_server_refuses_the_member() -> None:
    async with listening() as endpoint:
        endpoint.accepts_dimensions = False
        api = embeddings.EmbeddingsApi(EmbeddingConfig(endpoint.url, "topics", dimensions=2, confined=False))
        vectors = [vector for text in ("mail", "chart") for vector in await api.vectors([text])]
    assert vectors == [encode(endpoint.vector(text)[:2]) for text in ("mail", "chart")]
    assert [body.get("dimensions") for body in endpoint.seen] == [2, None, None], "it is refused once"


async def test_words_rank_alone_while_the_endpoint_is_away_and_the_answer_says_so(tmp_path: Path) -> None:
    tools = served_tools("c")
    async with listening() as endpoint, running(tmp_path, *tools, rest_processes=0, **by(endpoint)) as gateway:
        assert await rank_by_vectors(gateway, "umbrella") == ["csky__get_forecast"]
        endpoint.statuses = [500]
        answer = await search(gateway, "mail")
        assert (answer["ranking"], answer["tools"][0]["tool"]["name"]) == ("bm25", "cmail__send_mail")
        assert answer["note"] == "tools were ranked by words alone, because topics made no vector of the query"
        await search(gateway, "another")
        assert endpoint.queries == ["umbrella", "mail"]


async def test_a_request_is_repeated_after_a_transient_error_but_not_after_a_permanent_one() -> None:
    async with listening() as endpoint:
        api = embeddings.EmbeddingsApi(EmbeddingConfig(endpoint.url, "topics", confined=False))
        endpoint.statuses = [503, 502]
        assert len(await api.vectors(["a", "b"])) == 2
        endpoint.statuses = [401, 401]
        with pytest.raises(McpError, match="answered with status 401: not now"):
            await api.vectors(["a"])
        assert len(endpoint.seen) == 4


async def test_an_address_where_no_server_may_be_is_not_asked_unless_it_is_allowed() -> None:
    async with listening() as endpoint:
        confined = EmbeddingConfig(endpoint.url, "topics", confined=True, namespace="fairlead-system")
        with pytest.raises(McpError, match=r"servers\.allowedUrls of the chart"):
            await embeddings.EmbeddingsApi(confined).vectors(["a"])
        assert endpoint.seen == []
        allowed = EmbeddingConfig(endpoint.url, "topics", confined=True, allowed_urls=("127.0.0.1/32",))
        assert len(await embeddings.EmbeddingsApi(allowed).vectors(["a"])) == 1


@pytest.mark.parametrize(
    ("vectors", "says"),
    [
        ([], "0 vectors for 1"),
        ([[]], "differ in length"),
        ([[0.1], [0.2]], "2 vectors for 1"),
        (["x"], "cannot be read"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error(vectors: list[Any], says: str) -> None:
    async with listening() as endpoint:
        endpoint.nonsense = [{"index": index, "embedding": each} for index, each in enumerate(vectors)]
        api = embeddings.EmbeddingsApi(EmbeddingConfig(endpoint.url, "topics", confined=False))
        with pytest.raises(McpError, match=says):
            await api.vectors(["a"])
