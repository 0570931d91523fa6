"""Tools in speech sessions work equally with all engines: the same tests run with each of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import BLOCKS, NEW, OLD
from llmworld import policy
from spokenengines import CascadedEngine, LiveEngine, RealtimeEngine
from waiting import eventually

Engine = RealtimeEngine | LiveEngine | CascadedEngine
ENGINES: list[Engine] = [RealtimeEngine(), LiveEngine(NEW), LiveEngine(OLD), LiveEngine(BLOCKS), CascadedEngine()]
ADD = SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")
FAST = Tier(name="fast", max_latency_ms=500, default=True)
DEEP = Tier(
    name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",), commands=("think carefully",))
)
TIERS = (FAST, DEEP)
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
ALL = ["demo__add", "demo__fail", "demo__lookup"]
QUICK = ALL[:2]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen_engine: Engine = request.param
    return chosen_engine


def tool(name: str, **annotations: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": annotations}


async def look(_: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "long ago"}]}


async def test_a_call_is_run_and_its_result_is_spoken(tmp_path: Path, engine: Engine) -> None:
    async with engine.talk(tmp_path, SpokenReply("One moment.", (ADD,)), SpokenReply("It is five.")) as (world, talk):
        await talk.speak()
        await talk.wait_until_spoken("It is five.")
        assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 3}]
        assert talk.results == {"call_add": "5"}
        assert talk.client_calls == []
        assert "call_add" not in talk.frames()


async def test_the_clients_tools_come_first_and_hide_the_gateways_of_their_name(tmp_path: Path, engine: Engine) -> None:
    own = SpokenCall("demo__add", {}, "call_own")
    async with engine.talk(
        tmp_path, SpokenReply("", (own,)), SpokenReply("Done."), own_tools=["theirs", "demo__add"]
    ) as (world, talk):
        assert talk.provider_tools == ["theirs", "demo__add", "demo__fail"]
        await talk.ask()
        await talk.wait_for_calls(1)
        assert talk.client_calls == ["call_own"]
        await talk.answer("call_own", "demo__add")
        await talk.wait_until_spoken("Done.")
        assert (world.called, talk.results) == ([], {})


async def test_the_clients_own_call_reaches_it_beside_the_gateways(tmp_path: Path, engine: Engine) -> None:
    both = SpokenReply("", (ADD, SpokenCall("theirs", {}, "call_theirs")))
    async with engine.talk(tmp_path, both, SpokenReply("Done."), own_tools=["theirs"]) as (world, talk):
        await talk.ask()
        await talk.wait_for_calls(1)
        await eventually(lambda: talk.results == {"call_add": "5"})
        await talk.answer("call_theirs", "theirs")
        await talk.wait_until_spoken("Done.")
        assert talk.client_calls == ["call_theirs"]
        assert len(world.called) == 1


async def test_parallel_calls_are_all_answered_before_the_model_continues(tmp_path: Path, engine: Engine) -> None:
    calls = tuple(SpokenCall("demo__add", {"a": number, "b": 1}, f"call_{number}") for number in range(3))
    async with engine.talk(tmp_path, SpokenReply("", calls), SpokenReply("All.")) as (_, talk):
        await talk.ask()
        await talk.wait_until_spoken("All.")
        assert talk.results == {"call_0": "1", "call_1": "2", "call_2": "3"}


async def test_a_second_call_of_an_id_is_not_run(tmp_path: Path, engine: Engine) -> None:
    async with engine.talk(tmp_path, SpokenReply("", (ADD, ADD)), SpokenReply("Five.")) as (world, talk):
        await talk.ask()
        await talk.wait_until_spoken("Five.")
        assert len(world.called) == 1


async def test_errors_and_bad_arguments_are_results(tmp_path: Path, engine: Engine) -> None:
    calls = SpokenCall("demo__fail", {}, "call_1"), SpokenCall("demo__add", {"a": "x"}, "call_2")
    async with engine.talk(tmp_path, SpokenReply("", calls), SpokenReply("Sorry.")) as (_, talk):
        await talk.ask()
        await talk.wait_until_spoken("Sorry.")
        assert "it failed" in talk.results["call_1"]
        assert set(talk.results) == {"call_1", "call_2"}


async def test_results_that_cannot_be_spoken_go_to_the_client(tmp_path: Path, engine: Engine) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}

    async def draw(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "a dragon"}, image]}

    replies = SpokenReply("", (SpokenCall("demo__draw", {}, "call_draw"),)), SpokenReply("Look.")
    async with engine.talk(tmp_path, *replies, tools=[tool("draw")], answer=draw) as (_, talk):
        await talk.ask()
        await talk.wait_until_spoken("Look.")
        assert talk.unspoken == [("call_draw", [image])]
        assert talk.results["call_draw"].startswith("a dragon")
        assert image["data"] not in talk.results["call_draw"]


async def test_a_call_that_policies_hold_back_reaches_the_client(tmp_path: Path, engine: Engine) -> None:
    reply = SpokenReply("", (SpokenCall("demo__fail", {}, "call_1"),))
    async with engine.talk(tmp_path, reply, policies=[policy(auto_run="ReadOnly")]) as (world, talk):
        await talk.ask()
        await talk.wait_for_calls(1)
        assert (talk.client_calls, world.called, talk.results) == (["call_1"], [], {})


async def test_an_interruption_ends_what_only_reads_and_lets_the_rest_finish(tmp_path: Path, engine: Engine) -> None:
    looking = asyncio.Event()
    release = asyncio.Event()
    written = asyncio.Event()

    async def slow(params: Any) -> dict[str, Any]:
        if params["name"] == "look":
            looking.set()
            await asyncio.Event().wait()
        await release.wait()
        written.set()
        return {"content": [{"type": "text", "text": "written"}]}

    tools = [tool("look", readOnlyHint=True), tool("write")]
    calls = SpokenCall("demo__look", {}, "call_look"), SpokenCall("demo__write", {}, "call_write")
    replies = SpokenReply("", calls), SpokenReply("Yes?")
    async with engine.talk(tmp_path, *replies, tools=tools, answer=slow) as (world, talk):
        await talk.speak()
        await looking.wait()
        await eventually(lambda: len(world.called) == 2)
        await talk.begin_to_speak()
        await eventually(lambda: world.metrics.calls[(engine_label(engine), "cancelled")] == 1)
        await talk.stop_speaking()
        await talk.wait_until_spoken("Yes?")
        release.set()
        await written.wait()


async def test_written_text_changes_the_tier_of_its_own_turn(tmp_path: Path, engine: Engine) -> None:
    """Holds for models that accept other tools during a session, and for sessions with a valid resumption handle."""
    replies = SpokenReply("Hello."), SpokenReply("", (SpokenCall("demo__lookup", {}, "call_1"),)), SpokenReply("Long.")
    async with engine.talk(tmp_path, *replies, tiers=TIERS, slow=[LOOKUP], answer=look) as (_, talk):
        assert talk.provider_tools == QUICK
        await talk.ask("Hello")
        await talk.wait_until_spoken("Hello.")
        await talk.wait_until_settled()
        await talk.ask("Think carefully: who wears the crown?")
        await talk.wait_until_spoken("Long.")
        assert talk.provider_tools == ALL
        assert talk.results == {"call_1": "long ago"}


async def test_transcripts_change_the_tier(tmp_path: Path, engine: Engine) -> None:
    heard = ("tell me the legend of the crown", "thanks")
    async with engine.talk(tmp_path, tiers=TIERS, slow=[LOOKUP], heard=heard) as (world, talk):
        await talk.speak()
        await eventually(lambda: talk.provider_tools == ALL)
        await talk.speak()
        await eventually(lambda: talk.provider_tools == QUICK)
        assert world.metrics.tier_changes[(engine_label(engine), "deep")] == 1


async def test_a_client_names_the_tier(tmp_path: Path, engine: Engine) -> None:
    async with engine.talk(tmp_path, SpokenReply("Hello."), tiers=TIERS, slow=[LOOKUP]) as (_, talk):
        await talk.ask("Hello")
        await talk.wait_until_spoken("Hello.")
        await talk.wish(tier="deep")
        await eventually(lambda: talk.provider_tools == ALL)
        await talk.wish(tier="none such")
        assert "fast, deep" in await talk.refusal()


async def test_a_tier_of_the_request_stays(tmp_path: Path, engine: Engine) -> None:
    async with engine.talk(tmp_path, tiers=TIERS, slow=[LOOKUP], query={"x-fairlead-tier": "deep"}) as (_, talk):
        await eventually(lambda: talk.provider_tools == ALL)


async def test_a_call_of_a_tool_that_was_taken_away_is_refused_at_once(tmp_path: Path, engine: Engine) -> None:
    """This also holds if the model still has the previous list, because it could not get another one."""
    reply = SpokenReply("", (SpokenCall("demo__lookup", {}, "call_late"),))
    async with engine.talk(
        tmp_path, reply, SpokenReply("No."), tiers=TIERS, slow=[LOOKUP], query={"x-fairlead-tier": "deep"}, answer=look
    ) as (world, talk):
        await eventually(lambda: talk.provider_tools == ALL)
        await talk.wish(tier="fast")
        await talk.ask()
        await talk.wait_until_spoken("No.")
        assert "Unknown tool" in talk.results["call_late"]
        assert world.called == []


def engine_label(engine: Engine) -> str:
    return "gemini-live" if isinstance(engine, LiveEngine) else engine.name
