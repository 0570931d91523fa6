"""Models and their context windows over REST: shipped ones, configured ones, and those that a model server reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_app.configuration import Models
from fairlead_formats.tokens.models import ContextWindows, LiveSource, shipped_windows
from fairlead_formats.tokens.routes import read_routes
from fairlead_offers.models import live_models
from gatewayworld import catalog, running
from rawserver import Reply, Request, encode, raw_server
from restworld import get, post
from waiting import until_async

DEMO = catalog("demo", "http://127.0.0.1:9/mcp", ["add"])
VLLM = {"object": "list", "data": [{"id": "org/qwen9", "object": "model", "max_model_len": 40960}]}


async def list_models(gateway: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    answer = (await get(gateway, "/v1/models")).message
    return {model["id"]: model for model in answer["data"]}, answer


async def until(gateway: Any, **expected: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Wait until the list's live state is as expected. Returns the list."""

    async def list_if_matching() -> tuple[dict[str, dict[str, Any]], dict[str, Any]] | None:
        models, answer = await list_models(gateway)
        return (models, answer) if answer["live"].items() >= expected.items() else None

    shown = await until_async(f"{expected}", list_if_matching)
    assert shown is not None
    return shown


async def test_the_list_says_what_each_model_holds_and_who_says_so(tmp_path: Path) -> None:
    configured = Models(read_routes({"default": {"models": ["ours", "gpt-5-mini"]}}), ContextWindows({"ours": 65536}))
    async with running(tmp_path, DEMO, models=configured) as gateway:
        models, answer = await list_models(gateway)
        unknown = (await get(gateway, "/v1/models/never-heard-of")).message
        dated = (await get(gateway, "/v1/models/anthropic/claude-sonnet-5-20261001")).message
    assert answer["file_date"] == shipped_windows().date
    assert "live" not in answer
    assert models["ours"] == {
        "id": "ours",
        "object": "model",
        "context_window": 65536,
        "family": "unknown",
        "format": "openai-chat",
        "source": "configured",
        "routes": ["default"],
    }
    assert (models["gpt-5-mini"]["source"], models["gpt-5-mini"]["as_of"]) == ("file", shipped_windows().date)
    assert unknown["source"] == "default"
    assert dated["source"] == "file, as claude-sonnet-5"


async def test_a_model_server_tells_windows_and_its_failures_keep_what_was_known(tmp_path: Path) -> None:
    answers = iter([(200, encode(VLLM))])
    requests: list[Request] = []

    async def serve(request: Request, reply: Reply) -> None:
        requests.append(request)
        reply.send(*next(answers, (503, b"{}")))

    token = tmp_path / "token"
    token.write_text("key\n")
    async with raw_server(serve) as server:
        live = LiveSource(f"{server.url}/v1/models", 0.02, str(token))
        async with running(tmp_path, DEMO, models=Models(live=live)) as gateway:
            models, answer = await until(gateway, error="the model server answered with status 503")
            planned = (await post(gateway, "/v1/plan", {"models": ["org/qwen9"]})).message
    assert models["qwen9"]["context_window"] == 40960
    assert models["qwen9"]["source"] == "live"
    assert models["qwen9"]["as_of"] == answer["live"]["as_of"]
    assert planned["numbers"]["contextWindow"] == 40960
    assert planned["numbers"]["windowSource"] == "live"
    assert requests[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, b"<html>", "cannot be read"),
        (200, b'{"data": [{"id": "x"}, {"id": "y", "max_model_len": -4}]}', "has no context windows"),
        (302, b"", "answered with status 302"),
        (200, b"[" * (live_models.MAX_ANSWER + 1), "larger than"),
    ],
)
async def test_a_useless_answer_is_named_and_changes_nothing(
    tmp_path: Path, status: int, body: bytes, says: str
) -> None:
    async def serve(request: Request, reply: Reply) -> None:
        reply.send(status, body, location="/elsewhere")

    async with raw_server(serve) as server:
        source = LiveSource(server.url)
        async with running(tmp_path, DEMO, models=Models(live=source)) as gateway:

            async def state_with_error() -> dict[str, Any] | None:
                state: dict[str, Any] = (await list_models(gateway))[1]["live"]
                return state if state.get("error") else None

            state = await until_async("an error", state_with_error)
    assert state is not None
    assert says in state["error"]
    assert state["models"] == 0


async def test_a_configured_window_counts_before_a_live_one(tmp_path: Path) -> None:
    async def serve(request: Request, reply: Reply) -> None:
        reply.send(200, encode(VLLM))

    async with raw_server(serve) as server:
        models = Models(windows=ContextWindows({"qwen9": 1000}), live=LiveSource(server.url))
        async with running(tmp_path, DEMO, models=models) as gateway:
            described, _ = await until(gateway, models=1)
    assert described["qwen9"]["source"] == "configured"
    assert described["qwen9"]["context_window"] == 1000
