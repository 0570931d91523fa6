"""Pipecat and LiveKit Agents as clients: they get the same events through the gateway as without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from fairlead_speech.gemini.fake import ScriptedLive
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.scripted import SpeechScript, SpokenCall, SpokenReply
from frameworkclients import PACKAGES, framework_talk
from liveworld import NEW, OLD, live_world
from speechworld import speech_world

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.timeout(600)]
LAST = "It is done."
REPLIES = (SpokenReply("Let me ask.", (SpokenCall("theirs", {}, "call_1"),)), SpokenReply(LAST))
OURS = (SpokenReply("", (SpokenCall("demo__add", {"a": 20, "b": 22}, "call_add"),)), *REPLIES)
HEARD = ("what is it",)


def path(framework: str) -> str:
    """Path of the URL that a framework gets."""
    return "/v1/realtime" if framework == "pipecat" else "/v1"


def scheme(framework: str) -> str:
    return "ws" if framework == "pipecat" else "http"


async def realtime(framework: str, port: int) -> list[Any]:
    url = f"{scheme(framework)}://127.0.0.1:{port}{path(framework)}"
    return await framework_talk(framework, "openai", url, LAST)


@pytest.mark.parametrize("framework", PACKAGES)
async def test_a_framework_sees_the_same_of_openai_realtime(tmp_path: Path, framework: str) -> None:
    async with ScriptedRealtime(SpeechScript(*REPLIES, transcripts=HEARD)).serving() as provider:
        direct = await realtime(framework, provider.port)
    async with speech_world(tmp_path, *REPLIES, heard=HEARD) as world:
        through = await realtime(framework, world.gateway.port)
        assert "demo__add" in world.session.tool_names
        assert "theirs" in world.session.tool_names
    assert len(direct) > 5
    assert through == direct
    assert "theirs" in str(through)


@pytest.mark.parametrize("framework", PACKAGES)
async def test_a_framework_sees_the_same_of_gemini_live(tmp_path: Path, framework: str) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    trusted = tmp_path / "trusted.pem"
    cert.write_text(authority.issue())
    trusted.write_text(authority.bundle)

    async def talk(port: int) -> list[Any]:
        return await framework_talk(framework, "google", f"https://127.0.0.1:{port}", LAST, str(trusted))

    provider = ScriptedLive(SpeechScript(*REPLIES, transcripts=HEARD))
    async with provider.serving(authority.server_context(tmp_path)):
        direct = await talk(provider.port)
    model = OLD if framework == "pipecat" else NEW
    async with live_world(tmp_path, *REPLIES, model=model, heard=HEARD, tls_cert=cert) as world:
        through = await talk(world.gateway.port)
        assert {"demo__add", "theirs"} <= {*world.provider.sessions[0].tool_names}
    assert len(direct) > 1
    assert through == direct
    assert "theirs" in str(through)


@pytest.mark.parametrize("framework", PACKAGES)
async def test_a_framework_does_not_see_the_gateways_calls(tmp_path: Path, framework: str) -> None:
    async with speech_world(tmp_path, *OURS, heard=HEARD) as world:
        told = await realtime(framework, world.gateway.port)
        assert [call["arguments"] for call in world.called] == [{"a": 20, "b": 22}]
    assert "demo__add" not in str(told)
    texts = "".join(each[1] for each in told if each[0] in ("TTSTextFrame", "generation"))
    assert LAST in texts
