"""Server `music-ambiance`: `play_track(mood)`, `stop_music()`, and the resource `music://state`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom
from typing import Annotated, Any, Final, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from pydantic import BaseModel, Field, ValidationError

from fairlead_servers.definition import ServerSettings, SettingError, ToolServer
from fairlead_servers.music_ambiance.player import Player, PlayerFailed, find_player
from fairlead_servers.music_ambiance.playlists import Playlists
from fairlead_servers.subscriptions import LegacySubscriptions
from fairlead_servers.tool import LatencyDeclaration, ToolError, tool, writing_annotations
from fairlead_tools.version import VERSION

STATE: Final = "music://state"


class MusicSettings(ServerSettings):
    """Settings of music-ambiance."""

    player: Annotated[
        Literal["auto", "mpv", "ffplay", "none"],
        Field(description="Program that plays files here; `auto` takes mpv or ffplay, if one is installed."),
    ] = "auto"
    seed: Annotated[int | None, Field(description="Makes the choice of tracks repeatable, for demonstrations.")] = None


class Playing(BaseModel):
    """Music that plays now, or none."""

    playing: bool = False
    mood: str | None = None
    track: str | None = None
    file: str | None = None
    """Path of the track below the folder `music`; null where only its title is known."""
    player: Literal["mpv", "ffplay", "client"] = "client"
    """Program that plays here; `client`: clients that follow the state play."""
    note: str | None = None


class MusicState(Playing):
    """Music as clients follow it."""

    since: str | None = None
    """RFC 3339; a client that joins later finds its place by it."""


class Music:
    """Tools of the server. The state is kept in a file, so that a client goes on following it after a restart."""

    def __init__(self, folder: Path, random: Random, bus: InMemorySubscriptionBus) -> None:
        self._root = folder / "music"
        self._file = folder / "music-state.json"
        self._playlists = Playlists(self._root)
        self._random = random
        self._bus = bus
        self._turn = asyncio.Lock()
        self._announcements: set[asyncio.Task[None]] = set()
        self.player: Player | None = None
        self._state = self._read_state()

    async def play_track(
        self,
        mood: Annotated[str, Field(description="Mood, for example calm or battle", min_length=1, max_length=100)],
    ) -> Playing:
        """Play music that fits a mood, in place of what plays now. Unknown ones are answered with all that are."""
        wanted = mood.strip().casefold()
        tracks = await asyncio.to_thread(self._playlists.tracks, wanted)
        if not tracks:
            raise ToolError(f"there is no music for {mood!r}; moods: {', '.join(self._playlists.moods())}.")
        async with self._turn:
            others = [track for track in tracks if track.title != self._state.track]
            track = self._random.choice(others or tracks)
            state = MusicState(
                playing=True,
                mood=wanted,
                track=track.title,
                file=None if track.file is None else str(track.file.relative_to(self._root)),
                since=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            if self.player is not None:
                if track.file is None:
                    await self.player.stop()
                else:
                    try:
                        await self.player.play(track.file)
                    except PlayerFailed as error:  # what played before was stopped for it
                        await self._become(MusicState(note=str(error)))
                        raise ToolError(f"{error}.") from error
                    state.player = self.player.name
            return answer_of(await self._become(state))

    async def stop_music(self) -> Playing:
        """Stop the music. Does nothing where none plays."""
        async with self._turn:
            if self.player is not None:
                await self.player.stop()
            return answer_of(await self._become(MusicState()) if self._state.playing else self._state)

    def state(self) -> str:
        """State as JSON."""
        return self._state.model_dump_json(indent=2)

    def note_end(self, code: int) -> None:
        """Note that the player ended by itself."""
        task = asyncio.create_task(self._end(self._state, code))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def _end(self, state: MusicState, code: int) -> None:
        async with self._turn:
            if self._state is state:  # else something else plays meanwhile
                note = f"the player ended with exit code {code} while it played {state.track}"
                await self._become(MusicState(note=note))

    async def aclose(self) -> None:
        """Stop the player; a client that follows the state is told."""
        if self.player is not None:
            await self.player.stop()
            if self._state.player != "client":
                await self._become(MusicState())

    async def _become(self, state: MusicState) -> MusicState:
        self._state = state
        try:
            await asyncio.to_thread(self._store, state.model_dump_json())
        except OSError as error:
            state.note = f"the state is not kept over a restart: {error.strerror}"
        await self._bus.publish(ResourceUpdated(STATE))
        return state

    def _store(self, text: str) -> None:
        beside = self._file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self._file)

    def _read_state(self) -> MusicState:
        """State before a restart; that of a player that is gone counts as stopped."""
        try:
            state = MusicState.model_validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return MusicState()
        return state if state.player == "client" else MusicState()


def answer_of(state: MusicState) -> Playing:
    """Answer of a tool about the state."""
    return Playing.model_validate(state.model_dump(exclude={"since"}))


def open_server(folder: Path, settings: MusicSettings) -> MCPServer[Any]:
    """Server of the folder `music` in the data folder. Raises SettingError."""
    try:
        player = find_player(settings.player)
    except PlayerFailed as error:
        raise SettingError(str(error)) from error
    bus = InMemorySubscriptionBus()
    music = Music(folder, SystemRandom() if settings.seed is None else Random(settings.seed), bus)
    if player is not None:
        music.player = Player(*player, music.note_end)

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await music.aclose()

    state = FunctionResource(
        uri=STATE,
        name="state",
        title="What plays",
        description="Mood, track and since when; subscribe to it to follow the music.",
        mime_type="application/json",
        fn=music.state,
    )
    server = MCPServer(
        "music-ambiance",
        instructions=f"Plays background music by mood. {STATE} says what plays now.",
        tools=[
            tool(music.play_track, writing_annotations(), "Play music", LatencyDeclaration(100, 5000, "fast")),
            tool(
                music.stop_music,
                writing_annotations(idempotent=True),
                "Stop the music",
                LatencyDeclaration(50, 5000, "fast"),
            ),
        ],
        resources=[state],
        subscriptions=bus,
        lifespan=lifespan,
        version=VERSION,
        log_level="WARNING",
    )
    LegacySubscriptions(bus, frozenset({STATE})).serve_on(server)
    return server


SERVER: Final = ToolServer(MusicSettings, open_server)
