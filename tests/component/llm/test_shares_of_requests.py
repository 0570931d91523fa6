"""An agent with the maximum number of model requests in progress leaves other agents their share."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.authentication import Trust
from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import Answer
from llmworld import PATH, llm_world
from policyworld import Vouching, anybody
from restworld import get, post
from waiting import eventually

TRUST = Trust((Vouching(anybody("mallory"), anybody("alice")),))
PATHS: dict[str, dict[str, Any]] = {
    PATH: {"messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("settings", "share"), [({}, 1), ({"llm_requests_each": 2}, 2)])
async def test_model_requests_of_one_agent_take_its_share_alone(
    tmp_path: Path, settings: dict[str, Any], share: int, path: str, stream: bool
) -> None:
    go_on, requested = asyncio.Event(), asyncio.Semaphore(0)

    async def hold() -> None:
        requested.release()
        await go_on.wait()

    log = tmp_path / "audit.log"
    bounds = {"llm_requests": 4, "trust": TRUST, "audit_file": log, **settings}
    async with llm_world(tmp_path, ScriptedTurn("Hello"), before_answer=hold, **bounds) as world:

        def request(who: str) -> asyncio.Task[Answer]:
            body = {"model": "scripted", "stream": stream, **PATHS[path]}
            return asyncio.create_task(post(world.gateway, path, body, authorization=f"Bearer {who}"))

        crowd = [request("mallory") for _ in range(share)]
        for _ in crowd:
            await requested.acquire()
        one_more, model_asked = request("mallory"), asyncio.create_task(requested.acquire())
        await asyncio.wait({one_more, model_asked}, return_when=asyncio.FIRST_COMPLETED)
        if not one_more.done():
            go_on.set()
        model_asked.cancel()
        refused = await one_more
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        message = f"you have {share} model requests in progress, which is the limit for one agent; retry later"
        assert refused.message["error"]["message"] == message
        models = await get(world.gateway, "/v1/models", authorization="Bearer mallory")
        assert models.status == 429, "no path is left out"
        alice = request("alice")
        async with asyncio.timeout(20):
            await requested.acquire()
        go_on.set()
        assert [answer.status for answer in await asyncio.gather(*crowd, alice)] == [200] * (share + 1)
        await eventually(lambda: world.gateway.call_metrics.shares.outcomes["model_requests", "agent"] == 2)
        assert (await request("mallory")).status == 200, "it is given back"
    lines = [line for line in map(json.loads, log.read_text().splitlines()) if line["decision"] == "limited"]
    assert [(line["principal"], line["outcome"], line["method"]) for line in lines] == [
        ("key:mallory", "RATE_LIMITED", asked_for) for asked_for in (path, "/v1/models")
    ]
