"""An agent that opens as many speech sessions as it can leaves slots for other agents."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead_app.authentication import Trust
from fairlead_formats.wire.errors import LlmError
from fairlead_speech.admission import SessionSlots
from liveworld import live_world
from policyworld import Vouching, anybody
from speechworld import speech_world
from waiting import eventually

TRUST = Trust((Vouching(anybody("mallory"), anybody("alice")),))


def key(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {who}"}


@contextlib.asynccontextmanager
async def crowd(url: str, who: str, count: int) -> AsyncIterator[list[int]]:
    """Statuses of `count` requests for a session. Opened sessions stay open and send nothing."""
    async with aiohttp.ClientSession(headers=key(who)) as http, contextlib.AsyncExitStack() as stack:

        async def open_session() -> int:
            try:
                await stack.enter_async_context(http.ws_connect(url))
            except aiohttp.WSServerHandshakeError as error:
                return error.status
            return 101

        yield [await open_session() for _ in range(count)]


@pytest.mark.parametrize(("settings", "share"), [({}, 2), ({"speech_sessions_each": 5}, 5)])
async def test_speech_sessions_of_one_agent_take_its_share_alone(
    tmp_path: Path, settings: dict[str, Any], share: int
) -> None:
    log = tmp_path / "audit.log"
    async with speech_world(tmp_path, trust=TRUST, speech_sessions=8, audit_file=log, **settings) as world:
        async with crowd(world.url(), "mallory", 20) as statuses:
            assert statuses == [101] * share + [429] * (20 - share)
            async with world.client(headers=key("alice")) as alice:
                assert alice.closed is None
        speech = world.gateway._speech
        assert speech is not None
        await eventually(lambda: speech._slots.open == 0)
        async with world.client(headers=key("mallory")):
            pass
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line.get("times", 1) for line in lines) == 20 - share
    assert {(line["principal"], line["decision"], line["outcome"]) for line in lines} == {
        ("key:mallory", "limited", "RATE_LIMITED")
    }


async def test_sockets_without_a_setup_take_no_slot_of_a_session_and_no_more_than_their_share(tmp_path: Path) -> None:
    bounds: dict[str, Any] = {"speech_sessions": 4, "speech_sessions_each": 3}
    async with (
        live_world(tmp_path, trust=TRUST, **bounds) as world,
        crowd(world.url(), "mallory", 10) as statuses,
        contextlib.AsyncExitStack() as stack,
    ):
        assert statuses == [101] * 3 + [429] * 7
        clients = [await stack.enter_async_context(world.client(headers=key("alice"))) for _ in range(3)]
        assert [client.closed for client in clients] == [None] * 3


async def test_a_setup_for_which_no_place_is_left_closes_its_socket_and_is_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with (
        live_world(tmp_path, trust=TRUST, speech_sessions=8, audit_file=log) as world,
        aiohttp.ClientSession(headers=key("mallory")) as http,
        http.ws_connect(world.url()) as first,
        http.ws_connect(world.url()) as second,
    ):
        setup = json.dumps({"setup": {"model": f"models/{world.model}"}})
        await first.send_str(setup)
        assert "setupComplete" in (await first.receive_json())
        async with http.ws_connect(world.url()) as third:
            await second.send_str(setup)
            assert "setupComplete" in (await second.receive_json())
            await third.send_str(setup)
            closed = await third.receive()
            assert (closed.data, closed.extra) == (
                1013,
                (
                    "2 of your speech sessions are open already, which is the limit for one agent: "
                    "close a session, or retry"
                ),
            )
    (line,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert (line["principal"], line["decision"], line["outcome"]) == ("key:mallory", "limited", "RATE_LIMITED")


def test_slots_are_released_once_and_those_of_an_agent_without_sessions_are_forgotten() -> None:
    slots = SessionSlots(4, 1)
    first = slots.slot("a")
    first.take_for_setup()
    first.take_for_session()
    second = slots.slot("a")
    with pytest.raises(LlmError, match="1 of your speech sessions are open already") as refused:
        second.take_for_session()
    second.release()
    assert (refused.value.status, refused.value.code) == (429, "RATE_LIMITED")
    first.release()
    first.release()
    for agent in "abcd":
        slots.slot(agent).take_for_session()
    with pytest.raises(LlmError, match="4 speech sessions are open already") as full:
        slots.slot("e").take_for_setup()
    assert full.value.status == 503
