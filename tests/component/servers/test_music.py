"""music-ambiance: the state to which clients subscribe, and the player, if one is installed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from fairlead_servers.music_ambiance.server import SERVER, STATE
from servedtools import VIAS, Via, served, structured_content, text_of
from waiting import until_async

pytestmark = pytest.mark.timeout(120)


async def state(client: Client) -> dict[str, Any]:
    """The state resource, read by a client."""
    (content,) = (await client.read_resource(STATE)).contents
    document = json.loads(content.text)  # type: ignore[union-attr]  # it is text
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("via", VIAS)
async def test_a_client_follows_the_state_and_finds_it_after_a_restart(via: Via, tmp_path: Path) -> None:
    settings = {"player": "none", "seed": "1"}
    async with served("music-ambiance", via, tmp_path, settings) as client:
        async with client.listen(resource_subscriptions=[STATE]) as events:
            playing = structured_content(await client.call_tool("play_track", {"mood": "calm"}))
            with anyio.fail_after(30):
                assert await anext(aiter(events)) == ResourceUpdated(STATE)
        before = await state(client)
        assert before.pop("since")
        assert before == playing
        assert (playing["playing"], playing["player"], playing["file"]) == (True, "client", None)
        unknown = await client.call_tool("play_track", {"mood": "polka"})
        assert unknown.is_error
        assert text_of(unknown).startswith("there is no music for 'polka'; moods: battle, calm, ")
    async with served("music-ambiance", "http", tmp_path, settings) as client:
        assert (await state(client))["track"] == playing["track"]
        assert structured_content(await client.call_tool("stop_music", {}))["playing"] is False
        assert not structured_content(await client.call_tool("stop_music", {}))["playing"]


class Heard:
    """Updates of resources that a client of an earlier MCP version receives."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](16)

    async def __call__(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await self._send.send(str(message.params.uri))

    async def next_uri(self) -> str:
        """URI of the next update."""
        with anyio.fail_after(30):
            return await self._receive.receive()

    def close(self) -> None:
        """Close the connection. Its streams must not be left to the garbage collector."""
        self._send.close()
        self._receive.close()


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")  # the subject of the test
async def test_a_client_of_an_earlier_version_subscribes_to_the_state(via: Via, tmp_path: Path) -> None:
    heard = Heard()
    async with served("music-ambiance", via, tmp_path, {"player": "none"}, mode="legacy", heard=heard) as client:
        resources = client.server_capabilities.resources
        assert resources is not None
        assert resources.subscribe
        await client.subscribe_resource(STATE)
        await client.call_tool("play_track", {"mood": "calm"})
        assert await heard.next_uri() == STATE
        assert (await state(client))["mood"] == "calm"
        await client.unsubscribe_resource(STATE)
        await client.call_tool("play_track", {"mood": "battle"})
        await client.subscribe_resource(STATE)
        await client.call_tool("stop_music", {})
        assert await heard.next_uri() == STATE
        assert (await state(client))["playing"] is False, "nothing was said of what came between"
        with pytest.raises(MCPError, match=r"music://other cannot be subscribed to, only music://state"):
            await client.subscribe_resource("music://other")
    heard.close()


async def test_files_are_played_by_a_player_that_stops_when_told_and_is_told_of_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    folder = tmp_path / "data" / "music" / "Storm"
    programs.mkdir()
    folder.mkdir(parents=True)
    (folder / "rain.ogg").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"no music")
    pids = tmp_path / "pids"
    (programs / "mpv").write_text(f'#!/bin/sh\necho "$$ $*" >>{pids}\nexec sleep 600\n')
    (programs / "mpv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    async def players(count: int) -> bool:
        return len(plays()) == count

    def plays() -> list[tuple[int, str]]:
        lines = pids.read_text().splitlines() if pids.exists() else []
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]

    async with served("music-ambiance", "http", tmp_path / "data") as client:
        track = structured_content(await client.call_tool("play_track", {"mood": "storm"}))
        assert (track["track"], track["file"], track["player"]) == ("rain", "Storm/rain.ogg", "mpv")
        await until_async("a player", lambda: players(1))
        first, words = plays()[0]
        assert words.endswith(f"-- {folder / 'rain.ogg'}")
        await client.call_tool("stop_music", {})
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        await client.call_tool("play_track", {"mood": "storm"})
        await until_async("another player", lambda: players(2))
        second = plays()[1][0]
        os.kill(second, signal.SIGKILL)
        seen: dict[str, Any] = {}
        with anyio.fail_after(30):
            while not seen.get("note"):
                seen = await state(client)
                await anyio.sleep(0.01)
        assert (seen["playing"], seen["note"]) == (
            False,
            "the player exited with code -9 while playing rain",
        )
        await client.call_tool("play_track", {"mood": "storm"})
        await until_async("a third player", lambda: players(3))
        (programs / "mpv").unlink()
        gone = await client.call_tool("play_track", {"mood": "storm"})
        assert (gone.is_error, text_of(gone)) == (True, "mpv cannot be started: No such file or directory.")
        seen = await state(client)
        assert (seen["playing"], seen["note"]) == (False, "mpv cannot be started: No such file or directory")
    with pytest.raises(ProcessLookupError):
        os.kill(plays()[2][0], 0)


def test_a_player_that_is_not_installed_is_named_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="mpv is not installed; install it, or set player to none"):
        SERVER.make(tmp_path, "music-ambiance", {}, {"player": "mpv"})
