"""Policies about models on a real API server: applied policies hold in the loop of model and tools."""

from __future__ import annotations

from fairlead_app.configuration import Models
from fairlead_app.gateway import Gateway
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from fairlead_models.providers import read_providers
from gatewayworld import Answer
from operatorworld import GROUP, Json, World, running
from restworld import post
from togetherworld import declare, serving, shows
from toolservers import modern_server, serve_asgi, tool
from waiting import until_async

LOOK = tool("look", annotations={"readOnlyHint": True})
CALLS = ScriptedTurn("", [ScriptedCall("demo__look"), ScriptedCall("demo__put")])
ALL: list[Json] = [{"action": "Allow", "tools": ["*"]}]


async def _chat(gateway: Gateway) -> Answer:
    return await post(
        gateway, "/v1/chat/completions", {"model": "gpt", "messages": [{"role": "user", "content": "Do it"}]}
    )


async def test_an_applied_policy_decides_what_runs_by_itself_and_how_much_a_day(world: World) -> None:
    async with (
        modern_server([LOOK, tool("put")], call=lambda request: {"content": []}) as server,
        serve_asgi(ScriptedModel(*[CALLS] * 200)) as port,
        running(world),
    ):
        providers = {"scripted": {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": ["gpt"]}}
        models = Models(providers=read_providers(providers, {}))
        async with serving(world, models=models) as gateway:
            world.create("demo", {"url": server.url, "trustAnnotations": True})
            await until_async("its tools", shows(gateway, "demo__look", "demo__put"))
            declare(world, "models", ALL, autoRun="ReadOnly")

            async def is_held() -> bool:
                pending = (await _chat(gateway)).message["fairlead"].get("pending", [])
                return [call["name"] for call in pending] == ["demo__put"]

            await until_async("a pending call", is_held)
            declare(world, "models", ALL, limits={"tokensPerDay": 1})

            async def is_refused() -> bool:
                return (await _chat(gateway)).status == 429

            await until_async("a refusal", is_refused)


def test_another_word_for_what_runs_by_itself_is_refused(world: World) -> None:
    spec = {"rules": ALL, "autoRun": "Sometimes"}
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy", "metadata": {"name": "p"}, "spec": spec}
    status, answer = world.request("POST", f"{GROUP}/namespaces/{world.namespace}/toolpolicies", body)
    assert status == 422
    cause = answer["details"]["causes"][0]
    assert cause["field"] == "spec.autoRun"
    assert 'supported values: "All", "ReadOnly", "None"' in cause["message"]
