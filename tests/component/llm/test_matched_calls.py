"""Calls of a model's message are matched to tools at once where that is quick, under the policies of that moment."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import publish, wait_for_snapshots
from llmworld import LlmWorld, llm_world

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
ROUNDS = (ScriptedTurn("", [ADD]), ScriptedTurn("It is 42."))
ALLOWED = Rule(action="Allow", tools=("*",))


def everybody(*rules: Rule) -> Policy:
    return Policy(namespace="default", name="all", every=True, rules=(*rules, ALLOWED))


async def chat_while_the_thread_is_busy(world: LlmWorld) -> None:
    """Send a request, and let the thread go when it is answered."""
    assert world.gateway.rest is not None
    release = threading.Event()
    held = asyncio.create_task(world.gateway.rest.services.work.worker.do(release.wait))
    try:
        async with asyncio.timeout(30):
            assert (await world.chat("Add")).status == 200
    finally:
        release.set()
        await held


@pytest.mark.parametrize("policies", [(), (everybody(Rule(action="Deny", tools=("fail",))),)])
async def test_a_call_of_a_tool_that_was_called_before_needs_no_thread(
    tmp_path: Path, policies: tuple[Policy, ...]
) -> None:
    async with llm_world(tmp_path, *ROUNDS, *ROUNDS, policies=policies) as world:
        await world.chat("Add")
        await chat_while_the_thread_is_busy(world)
    assert [call["name"] for call in world.called] == ["add", "add"]
    assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 40}] * 2


async def test_a_policy_that_comes_while_the_model_answers_holds_for_its_calls(tmp_path: Path) -> None:
    worlds: list[LlmWorld] = []
    requests = 0

    async def deny_before_the_third_answer() -> None:
        nonlocal requests
        requests += 1
        if requests == 3:
            denied = everybody(Rule(action="Deny", tools=("add",)))
            publish(tmp_path / "documents", Rules(policies=(denied,)))
            await wait_for_snapshots(worlds[0].gateway, 2)

    async with llm_world(
        tmp_path, *ROUNDS, *ROUNDS, policies=[everybody()], before_answer=deny_before_the_third_answer
    ) as world:
        worlds.append(world)
        await world.chat("Add")
        await world.chat("Add")
    assert [call["name"] for call in world.called] == ["add"]
