"""Nothing that a run writes, logs, counts or answers contains one of its secrets.

The tests plant secrets, and a server shows its own credential in its error pages. Then they search all output of
operator and gateway for the secrets in all encodings.
"""

from __future__ import annotations

import base64
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client import generate_latest

from fairlead_api.logs import JsonFormatter
from gatewayworld import ask, calling, modern
from oidcprovider import providing, signing_in
from operatorworld import QUICK, World, running
from ports import free_port
from rawserver import Reply, Request, raw_server
from restworld import get, post
from secretscan import leaks, operations, stored_texts
from shownconditions import cause
from togetherworld import serving, shows
from toolservers import answer_modern, tool
from waiting import until_async

PLANTED = {
    "bearer": "planted-bearer-7f3a9",
    "header": "planted-header-5c1d2",
    "environment": "planted-environment-e88b0",
    "query": "planted-query-1b6f4",
    "pull token": "planted-pull-token-93aa1",
    "session key": "planted-session-key-d20c7",
    "argument": "planted-argument-a61c4",
    "client secret": "planted-client-secret-4e8d0",
}

SERVERS = ("argument", "bearer", "header", "query")
ADDRESS = frozenset({"query"})
"""The URL's query, which is visible to everybody in the McpServer and in its catalog."""


def test_the_search_finds_a_secret_in_each_way_of_writing_it() -> None:
    secret = PLANTED["bearer"]
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    for text in (secret, f"Bearer {secret}", basic, base64.b64encode(secret.encode()).decode(), quote(secret)):
        assert leaks(PLANTED, "text", f"before {text} after")
    assert leaks(PLANTED, "text", "planted-bearer") == []


class Telltale:
    """Server that lists its tools, and quotes the request in answers to calls. While `angry`, it also does so for every
    second list."""

    def __init__(self) -> None:
        self.angry = False
        self.heard: set[str] = set()
        """Keys in the arguments of calls."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        shown = json.dumps(request.headers) + json.dumps(request.params.get("arguments", {}))
        self.heard.add(request.params.get("arguments", {}).get("key", ""))
        called = request.params.get("name") if request.method == "tools/call" else ""
        if self.angry or called == "page":
            reply.send(500, shown[-200:].encode(), kind="text/plain")
        elif called == "error":
            reply.error(request, 200, -32000, f"not for you: {shown}")
        else:
            answer_modern(request, reply, [secretly(name) for name in ("page", "error")])


def secretly(name: str) -> dict[str, Any]:
    """A tool with a key as a secret argument."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    return {**tool(name), "inputSchema": schema}


def add_secret(world: World, name: str, value: str) -> None:
    secret = {"metadata": {"name": name, "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"key": value}}
    assert world.request("POST", world.path("secrets"), secret)[0] == 201


async def sign_in_pages(folder: Path) -> dict[str, str]:
    """Pages for a browser that signs in to a console through a provider, after a refused attempt."""
    pages = {}
    async with providing() as provider:
        provider.secret = PLANTED["client secret"]
        provider.quotes = 1
        async with signing_in(folder, provider) as browser:
            for way in ("refused", "taken"):
                begun = await browser.get("/console/sign-in/oidc")
                done = await browser.get(await browser.come_back(begun.location))
                pages[f"{way} sign-in"] = repr((begun, done))
                assert browser.has_session == (way == "taken"), done.text
            for path in ("/console/servers", "/console/connect", "/console/sign-in", "/openapi.json"):
                pages[path] = repr(await browser.get(path))
    return pages


def apply_server(world: World, url: str) -> None:
    for kind in ("bearer", "header", "environment", "argument"):
        add_secret(world, kind, PLANTED[kind])
    bearer = {"bearer": {"secretRef": {"name": "bearer", "key": "key"}}}
    header = {"header": {"name": "X-Api-Key", "secretRef": {"name": "header", "key": "key"}}}
    probed: list[dict[str, Any]] = [{"name": name, "probe": {"arguments": {}}} for name in ("page", "error")]
    world.create("bearer", {"url": url, "auth": bearer, "tools": probed})
    world.create("header", {"url": url, "auth": header})
    keyed = {"arguments": {"key": {"secretRef": {"name": "argument", "key": "key"}}}}
    world.create("argument", {"url": url, "tools": [{"name": name, **keyed} for name in ("page", "error")]})
    world.create("query", {"url": f"{url}?key={PLANTED['query']}"})
    from_secret = {"secretKeyRef": {"name": "environment", "key": "key"}}
    world.create("pods", {"image": {"name": "example.com/demo:1"}, "env": [{"name": "KEY", "valueFrom": from_secret}]})


async def collect_answers(gateway: Any, world: World) -> dict[str, str]:
    """Answers to clients and operators over HTTP."""
    answers = {}
    own = (f"servers/{world.namespace}/bearer", f"servers/{world.namespace}/query", "tools/bearer__page/explain")
    for path in ("tools", "servers", "tiers", "models", *own):
        answers[f"/v1/{path}"] = (await get(gateway, f"/v1/{path}")).body.decode()
    for name in SERVERS:
        for kind in ("page", "error"):
            answer = await ask(gateway, calling(f"{name}__{kind}", {}))
            answers[f"call of {name} {kind}"] = answer.body.decode()
            call = {"id": "1", "type": "function", "function": {"name": f"{name}__{kind}", "arguments": "{}"}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            posted = await post(gateway, "/v1/tool-calls", {"format": "openai-chat", "message": message})
            answers[f"REST call of {name} {kind}"] = posted.body.decode()
    answers["list"] = (await ask(gateway, modern("tools/list"))).body.decode()
    answers["openapi"] = (await get(gateway, "/openapi.json")).body.decode()
    for page in ("metrics", "samples", "healthz"):
        answers[page] = await operations(gateway.metrics_port, page, PLANTED["pull token"])
    return answers


@pytest.mark.timeout(180)
async def test_no_secret_is_in_anything_that_leaves_operator_or_gateway(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    port = free_port()
    server = Telltale()
    token = PLANTED["pull token"]
    settings = QUICK.replace(gateways=f"http://127.0.0.1:{port}", pull_token=token)
    async with raw_server(server) as raw, running(world, settings) as operator:
        apply_server(world, raw.url)
        async with serving(world, metrics_port=port, pull_token=token, session_key=PLANTED["session key"]) as gateway:
            expected = [f"{name}__{kind}" for name in SERVERS for kind in ("page", "error")]
            await until_async("the tools", shows(gateway, *expected))
            await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
            told = await collect_answers(gateway, world)
            assert PLANTED["argument"] in server.heard
            await world.until("probes", lambda: cause(world.condition("bearer", "Calibrated")) == "ProbesFailed")
            server.angry = True
            for name in SERVERS:
                await post(gateway, f"/v1/servers/{world.namespace}/{name}/refresh", {})
            for name in SERVERS:
                await world.until("offline", partial(world.is_, name, "Ready", "False", "ServerError"))
            told |= {f"offline: {name}": text for name, text in (await collect_answers(gateway, world)).items()}
            told["events"] = repr(await gateway.events.after(0, 0.1))
        told["metrics of the operator"] = generate_latest(operator.telemetry.registry).decode()
        documents = stored_texts(world)
    told |= await sign_in_pages(tmp_path)
    for formatter in (logging.Formatter("%(name)s %(message)s"), JsonFormatter()):
        told[f"log as {formatter}"] = "\n".join(map(formatter.format, caplog.records))
    assert {"fairlead_operator", "fairlead_gateway"} <= {r.name.partition(".")[0] for r in caplog.records}
    assert any(record.levelno == logging.DEBUG for record in caplog.records)
    problems = [leak for name, text in told.items() for leak in leaks(PLANTED, name, text)]
    problems += [
        leak
        for name, text in documents.items()
        for leak in leaks(PLANTED, name, text, but=ADDRESS if "catalog" in name or "config" in name else frozenset())
    ]
    assert not problems, "\n".join(problems)
