"""Accounting of requests to models: metrics, costs and the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.tokens.prices import ModelPrice
from llmworld import chunks, llm_world
from metricseries import label_set, metric_values

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
FAIL = ScriptedCall("demo__fail", {})
MODEL = {"gen_ai_provider_name": "script0", "gen_ai_request_model": "scripted"}
ROUNDS = (ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42."))
"""Two rounds: 100 input and 20 output tokens, then 100 and 10. In each round, 40 input tokens are cached."""


def lines(log: Path) -> list[dict[str, Any]]:
    """Lines of the audit log about models. Call it after the gateway has stopped."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in entries if line["event"] == "model"]


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_rounds_and_time_are_counted_by_model(tmp_path: Path, *, stream: bool) -> None:
    async with llm_world(tmp_path, *ROUNDS) as world:
        await world.chat("Add", stream=stream)
        series = await metric_values(world.gateway)
    tokens = series["gen_ai_client_token_usage_sum"]
    assert tokens == {
        label_set(**MODEL, gen_ai_token_type="input"): 200,
        label_set(**MODEL, gen_ai_token_type="output"): 30,
    }
    assert series["gen_ai_client_token_usage_count"][label_set(**MODEL, gen_ai_token_type="input")] == 2
    assert series["fairlead_model_cache_tokens_total"][label_set(**MODEL, kind="read")] == 80
    spent = {kind: label_set(fairlead_principal="anonymous", gen_ai_token_type=kind) for kind in ("input", "output")}
    assert series["fairlead_principal_tokens_total"] == {spent["input"]: 200, spent["output"]: 30}
    assert series["fairlead_model_rounds_total"] == {label_set(**MODEL): 2}
    assert series["fairlead_model_requests_total"] == {label_set(**MODEL, outcome="ok"): 1}
    assert series["gen_ai_server_request_duration_seconds_count"] == {label_set(**MODEL, error_type=""): 1}
    assert series["gen_ai_server_time_to_first_token_seconds_count"] == {label_set(**MODEL): float(stream)}
    assert series["fairlead_model_requests_in_flight"] == {(): 0}


async def test_tokens_of_definitions_and_results_are_counted_by_tool(tmp_path: Path) -> None:
    async with llm_world(tmp_path, *ROUNDS) as world:
        await world.chat("Add")
        tokens = (await metric_values(world.gateway))["fairlead_model_tool_tokens_total"]
    definitions = [tokens[label_set(gen_ai_tool_name=name, part="definition")] for name in ("demo__add", "demo__fail")]
    assert definitions[0] > definitions[1] > 0
    assert not any(count % 2 for count in definitions), "once in each of two rounds"
    assert label_set(gen_ai_tool_name="demo__add", part="result") in tokens


async def test_money_is_counted_for_models_that_have_a_price(tmp_path: Path) -> None:
    price = ModelPrice(input=10, output=100, cached_input=1)
    async with llm_world(tmp_path, *ROUNDS, prices={"scripted": price}) as world:
        await world.chat("Add")
        cost = (await metric_values(world.gateway))["fairlead_model_cost_usd_total"]
    assert cost[label_set(**MODEL)] == pytest.approx((120 * 10 + 80 * 1 + 30 * 100) / 1e6)


@pytest.mark.parametrize(
    ("turn", "outcome"), [(ScriptedTurn(status=503), "503"), (ScriptedTurn("x", cut=True), "bad_answer")]
)
async def test_requests_are_counted_by_how_they_ended(tmp_path: Path, turn: ScriptedTurn, outcome: str) -> None:
    async with llm_world(tmp_path, turn) as world:
        await world.chat("Hi", stream=True)
        await world.chat("Hi", model="made-up")
        series = await metric_values(world.gateway)
    ends = {
        (dict(labels)["gen_ai_provider_name"], dict(labels)["outcome"]): count
        for labels, count in series["fairlead_model_requests_total"].items()
    }
    assert ends == {("script0", outcome): 1, ("", "model_not_found"): 1}
    assert series["fairlead_model_requests_in_flight"] == {(): 0}


async def test_a_model_that_never_answered_has_no_series_of_its_own(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn(status=404), ScriptedTurn("Hello")) as world:
        await world.chat("Hi", model="script0/no-such-model")
        await world.chat("Hi")
        models = {
            dict(labels)["gen_ai_request_model"]
            for labels in (await metric_values(world.gateway))["fairlead_model_requests_total"]
        }
    assert models == {"other", "scripted"}


async def test_the_audit_log_has_one_line_for_a_request_and_no_word_of_it(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with llm_world(tmp_path, *ROUNDS, audit="all", audit_file=log) as world:
        await world.chat("Add my secrets")
    (line,) = lines(log)
    assert line | {"time": 0, "durationMs": 0} == {
        "time": 0,
        "event": "model",
        "decision": "allowed",
        "principal": "anonymous",
        "kind": "anonymous",
        "client": "127.0.0.1",
        "method": "/v1/chat/completions",
        "provider": "script0",
        "model": "scripted",
        "rounds": 2,
        "inputTokens": 200,
        "outputTokens": 30,
        "cachedTokens": 80,
        "tools": ["demo__add"],
        "outcome": "ok",
        "durationMs": 0,
    }
    for word in ("secrets", "It is 42", "Let me see"):
        assert word not in log.read_text()


async def test_with_denials_alone_the_log_has_requests_over_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with llm_world(tmp_path, *ROUNDS, audit_file=log, agent_tokens_per_day=200) as world:
        for _ in range(2):
            await world.chat("Add")
    (line,) = lines(log)
    assert (line["decision"], line["outcome"], line["model"]) == ("limited", "RATE_LIMITED", "scripted")


async def test_the_log_says_what_was_stopped_and_what_broke_off(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    again = ScriptedTurn("", [FAIL])
    async with llm_world(tmp_path, again, again, ScriptedTurn("No."), audit="all", audit_file=log) as world:
        await world.chat("Fail")
        assert chunks(await world.chat("Hi", stream=True))
    assert [(line["outcome"], line["tools"]) for line in lines(log)] == [
        ("stopped", ["demo__fail", "demo__fail"]),
        ("ok", []),
    ]
