"""One connection to a server, with a recording transport, a counting owner, and calls that store their outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_mcp.errors import McpError
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.connection import Connection, Owner
from fairlead_mcp.http.exchange import Call


class Wire(asyncio.Transport):
    """Records written bytes. Never calls `connection_lost` on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class World(Owner):
    """A connection with its fakes. `outcome` is the answer or the error of the last call."""

    def __init__(self) -> None:
        super().__init__(lambda: self.now)
        self.now = 100.0
        self.released_count = self.gone_count = self.drops = 0
        self.watched: list[float] = []
        self.outcomes: list[Answer | Exception] = []
        self.wire = Wire()
        self.connection = Connection(self)
        self.connection.connection_made(self.wire)

    def take_back(self, connection: Connection, now: float) -> None:
        self.released_count += 1

    def note_drop(self, connection: Connection) -> None:
        self.drops += 1

    def forget(self, connection: Connection) -> None:
        self.gone_count += 1

    def watch(self, deadline: float) -> None:
        self.watched.append(deadline)

    def start(
        self,
        *chunks: bytes,
        max_bytes: int = 1000,
        on_event: Callable[[bytes], bool] | None = None,
        on_open: Callable[[object], None] | None = None,
    ) -> World:
        self.connection.start(Recorded(self, max_bytes, on_event, on_open), self.now)
        for chunk in chunks:
            self.connection.data_received(chunk)
        return self

    @property
    def answer(self) -> Answer:
        [outcome] = self.outcomes
        assert isinstance(outcome, Answer)
        return outcome

    @property
    def error(self) -> McpError:
        [outcome] = self.outcomes
        assert isinstance(outcome, McpError)
        return outcome

    def ends(self) -> tuple[int, int]:
        return self.released_count, self.gone_count


class Recorded(Call):
    def __init__(
        self,
        world: World,
        max_bytes: int,
        on_event: Callable[[bytes], bool] | None,
        on_open: Callable[[object], None] | None,
    ) -> None:
        super().__init__(b"request", 130.0, max_bytes, on_event, on_open)
        self.world = world

    def take_answer(self, answer: Answer) -> None:
        self.world.outcomes.append(answer)

    def take_error(self, error: Exception) -> None:
        self.world.outcomes.append(error)
