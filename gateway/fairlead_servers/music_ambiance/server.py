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
        Field(description="Program that plays files on this machine; `auto` uses mpv or ffplay, if one is installed."),
    ] = "auto"
    seed: Annotated[int | None, Field(description="Makes the choice of tracks repeatable, for demonstrations.")] = None


class Playing(BaseModel):
    """The current music, if any."""

    playing: bool = False
    mood: str | None = None
    track: str | None = None
    file: str | None = None
    """Path of the track within the folder `music`; null if only the title is known."""
    player: Literal["mpv", "ffplay", "client"] = "client"
    """Program that plays the music on the server's machine. `client`: the music is played by clients that subscribe to
    the state."""
    note: str | None = None


class MusicState(Playing):
    """The current music, in the form of the resource for subscribed clients."""

    since: str | None = None
    """Start of the music (RFC 3339). A client that subscribes later computes the position in the track from it."""


class Music:
    """Tools of the server. The state is stored in a file, so that clients can follow it across restarts."""

    def __init__(self, folder: Path, random: Random, bus: InMemorySubscriptionBus) -> None:
        self._root = folder / "music"
        self._file = folder / "music-state.json"
        self._playlists = Playlists(self._root)
        self._random = random
        self._bus = bus
        self._lock = asyncio.Lock()
        self._announcements: set[asyncio.Task[None]] = set()
        self.player: Player | None = None
        self._state = self._read_state()

    async def play_track(
        self,
        mood: Annotated[str, Field(description="Mood, for example calm or battle", min_length=1, max_length=100)],
    ) -> Playing:
        """Play music for a mood, instead of the current music. The error for an unknown mood lists all moods."""
        mood_key = mood.strip().casefold()
        tracks = await asyncio.to_thread(self._playlists.tracks, mood_key)
        if not tracks:
            raise ToolError(f"there is no music for {mood!r}; moods: {', '.join(self._playlists.moods())}.")
        async with self._lock:
            other_tracks = [track for track in tracks if track.title != self._state.track]
            track = self._random.choice(other_tracks or tracks)
            state = MusicState(
                playing=True,
                mood=mood_key,
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
                    except PlayerFailed as error:  # the previous track is already stopped, so the state must change too
                        await self._set_state(MusicState(note=str(error)))
                        raise ToolError(f"{error}.") from error
                    state.player = self.player.name
            return result_of(await self._set_state(state))

    async def stop_music(self) -> Playing:
        """Stop the music. Does nothing if no music plays."""
        async with self._lock:
            if self.player is not None:
                await self.player.stop()
            return result_of(await self._set_state(MusicState()) if self._state.playing else self._state)

    def state(self) -> str:
        """The state as JSON."""
        return self._state.model_dump_json(indent=2)

    def note_end(self, code: int) -> None:
        """Record that the player process exited by itself, with its exit code."""
        task = asyncio.create_task(self._end(self._state, code))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def _end(self, state: MusicState, code: int) -> None:
        async with self._lock:
            if self._state is state:  # otherwise other music plays by now
                note = f"the player exited with code {code} while playing {state.track}"
                await self._set_state(MusicState(note=note))

    async def aclose(self) -> None:
        """Stop the player, and notify clients that follow the state."""
        if self.player is not None:
            await self.player.stop()
            if self._state.player != "client":
                await self._set_state(MusicState())

    async def _set_state(self, state: MusicState) -> MusicState:
        self._state = state
        try:
            await asyncio.to_thread(self._store, state.model_dump_json())
        except OSError as error:
            state.note = f"the state could not be saved and will be lost on restart: {error.strerror}"
        await self._bus.publish(ResourceUpdated(STATE))
        return state

    def _store(self, text: str) -> None:
        temporary = self._file.with_suffix(".new")
        temporary.write_text(text)
        temporary.replace(self._file)

    def _read_state(self) -> MusicState:
        """Read the state from before a restart. If the player ran in the previous process, the music has stopped."""
        try:
            state = MusicState.model_validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return MusicState()
        return state if state.player == "client" else MusicState()


def result_of(state: MusicState) -> Playing:
    """The state as a tool's result."""
    return Playing.model_validate(state.model_dump(exclude={"since"}))


def open_server(folder: Path, settings: MusicSettings) -> MCPServer[Any]:
    """Open the server on the folder `music` in the data folder. Raises SettingError."""
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
        title="Current music",
        description="Mood, track and start time. Subscribe to follow the music.",
        mime_type="application/json",
        fn=music.state,
    )
    server = MCPServer(
        "music-ambiance",
        instructions=f"Plays background music by mood. {STATE} is the current music.",
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
