"""The examples of docs/connect/speech.md do what the page says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from certificates import Authority
from fairlead_models.providers import read_providers
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import live_world
from page_reader import blocks
from speechworld import speech_world

PAGE = Path(__file__).parents[3] / "docs" / "connect" / "speech.md"


def examples() -> list[str]:
    return blocks(PAGE.read_text(encoding="utf-8"), "python")


def test_the_configuration_of_the_cascaded_engine_is_one() -> None:
    page = PAGE.with_name("cascaded.md").read_text(encoding="utf-8")
    whole, filler, routed = blocks(page, "yaml")
    voice = yaml.safe_load(whole)["providers"]
    assert read_providers(voice, {}).cascaded["voice"].filler is not None
    voice["voice"] |= yaml.safe_load(filler)
    speech = read_providers({**voice, **yaml.safe_load(routed)["providers"]}, {})
    assert speech.by_name["openai"].slow_turns == speech.by_name["gemini"].slow_turns is not None


async def test_the_client_of_the_page_gets_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = SpokenReply("", (SpokenCall("demo__add", {"a": 2, "b": 3}),)), SpokenReply("It is five.")
    async with speech_world(tmp_path, *replies) as world:
        code = examples()[0].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        await asyncio.to_thread(exec, code, {})
        assert len(world.called) == 1
    assert capsys.readouterr().out == "It is five.\n"


async def test_the_client_of_gemini_live_gets_its_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    bundle = tmp_path / "bundle.pem"
    cert.write_text(authority.issue())
    bundle.write_text(authority.bundle)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    replies = SpokenReply("", (SpokenCall("demo__add", {"a": 2, "b": 3}),)), SpokenReply("Five.")
    async with live_world(tmp_path, *replies, tls_cert=cert) as world:
        code = examples()[1].replace("https://GATEWAY", f"https://127.0.0.1:{world.gateway.port}")
        await asyncio.to_thread(exec, code, {})
        assert len(world.called) == 1
    assert capsys.readouterr().out == "Five. \n"
