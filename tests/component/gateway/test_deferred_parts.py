"""Modules that a gateway never loads while it only serves MCP: the REST API with FastAPI, pydantic, the console, and
more."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead_app.authentication import Trust
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.resource import WELL_KNOWN
from fixed_authenticator import Names
from gatewayworld import Ask, ask, calling, catalog, publish, running
from policyworld import by
from toolservers import modern_server

HEAVY = (
    "aiohttp",
    "cryptography",
    "difflib",
    "docstring_parser",
    "fairlead_console.application",
    "fairlead_gateway.custom.upstream",
    "fairlead_gateway.grants.folder_store",
    "fairlead_gateway.upstream.openapi",
    "fairlead_llm",
    "fairlead_rest.application",
    "fairlead_speech.front",
    "fastapi",
    "jinja2",
    "kubernetes",
    "numpy",
    "opentelemetry.sdk",
    "pydantic",
    "pydantic_core",
    "re2",
    "redis",
    "tiktoken",
)
SERVER = ("click", "multiprocessing", "uvicorn")
"""Modules that are loaded for requests other than MCP at the clients' port: REST, probes, metadata."""
GATEWAY = """
import asyncio, json, sys
from pathlib import Path
import fairlead_app.__main__
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_app.settings import Settings

async def main(folder, heavy):
    settings = Settings.of(port=0, metrics_port=0, embedder="none")
    credentials = DirectoryCredentials(folder / "credentials")
    source = CatalogFeed(source=DirectorySource(folder))
    gateway = compose(settings, source, ServerAccess(credentials=credentials))
    await gateway.start()
    print(json.dumps([gateway.port, gateway.metrics_port]), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps([name for name in heavy if name in sys.modules]), flush=True)
    await gateway.stop(0)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
"""


@dataclass
class Port:
    """Address of a local port."""

    port: int


def page(target: str) -> Ask:
    return Ask(body=b"", verb="GET", target=target)


async def test_calls_probes_and_metrics_load_nothing_that_only_rest_needs(tmp_path: Path) -> None:
    async with modern_server() as server:
        publish(tmp_path, catalog("demo", server.url, ["add"]))
        words = [sys.executable, "-c", GATEWAY, str(tmp_path), *HEAVY, *SERVER]
        child = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
        output = child.stdout
        wanted = child.stdin
        assert output is not None
        assert wanted is not None

        async def list_modules() -> list[str]:
            wanted.write(b"\n")
            names: list[str] = json.loads(await output.readline())
            return names

        port, operations = map(Port, json.loads(await output.readline()))
        called = await ask(port, calling("demo__add", {"a": 1, "b": 2}))
        assert not called.message["result"]["isError"]
        for target in ("/healthz", "/readyz", "/metrics", "/samples"):
            assert (await ask(operations, page(target))).status == 200
        assert await list_modules() == []
        assert [(await ask(port, page(target))).status for target in ("/healthz", "/readyz")] == [200, 200]
        assert (await ask(port, page(WELL_KNOWN))).status == 404  # the gateway has no issuer
        assert set(await list_modules()) == set(SERVER)
        assert (await ask(port, page("/v1/tools"))).status == 200
        assert {"fastapi", "pydantic", "fairlead_rest.application"} <= set(await list_modules())
        wanted.close()
        assert await child.wait() == 0


async def test_the_first_requests_of_rest_have_it_made_once_while_calls_go_on(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        answers = await asyncio.gather(
            *(ask(gateway, page("/v1/tools")) for _ in range(5)),
            *(ask(gateway, calling("demo__add", {"a": 1, "b": 2})) for _ in range(5)),
        )
        assert [answer.status for answer in answers] == [200] * 10


@pytest.mark.parametrize("target", ["/healthz", "/readyz", WELL_KNOWN, WELL_KNOWN + "/mcp"])
async def test_public_pages_answer_other_verbs_as_all_of_rest_does(tmp_path: Path, target: str) -> None:
    async with running(tmp_path) as gateway:
        refused = await ask(gateway, Ask({}, target=target))
        assert refused.status in {404, 405}
        assert refused.message["code"] in {"NOT_FOUND", "METHOD_NOT_ALLOWED"}


async def test_a_stranger_does_not_have_the_rest_api_made(tmp_path: Path) -> None:
    made: list[int] = []

    class Counted(Heap):
        @contextmanager
        def pause_collection(self) -> Iterator[None]:
            made.append(1)
            with super().pause_collection():
                yield

    trust = Trust((Names("ann"),))
    async with running(tmp_path, trust=trust, heap=Counted(owner=False)) as gateway:
        assert (await ask(gateway, page("/healthz"))).status == 200
        assert made.pop() == 1  # the server of all pages
        made.clear()
        assert (await ask(gateway, page("/v1/tools"))).status == 401
        assert not made
        assert (await ask(gateway, by("ann", page("/v1/tools")))).status == 200
        assert made == [1]
