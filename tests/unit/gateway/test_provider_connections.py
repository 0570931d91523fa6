"""Connections to providers: received data is passed on in small pieces, completely and in order."""

from __future__ import annotations

import asyncio

from fairlead_models.provider_requests import MAX_PIECE, PieceReader
from waiting import eventually


class Recorder(asyncio.Protocol):
    """Records what a transport tells its protocol."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.told: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc)


async def test_piece_reader_passes_on_all_that_arrives_in_order() -> None:
    recorder, data = Recorder(), bytes(range(256)) * 100

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: PieceReader(recorder, bytearray(MAX_PIECE)), "127.0.0.1", server.sockets[0].getsockname()[1]
        )
        await eventually(lambda: b"".join(recorder.pieces) == data)
        transport.close()
        await eventually(lambda: None in recorder.told)
    assert max(map(len, recorder.pieces)) <= MAX_PIECE


def test_piece_reader_tells_its_protocol_of_everything_else() -> None:
    recorder = Recorder()
    reader, error = PieceReader(recorder, bytearray(MAX_PIECE)), OSError()
    reader.pause_writing()
    reader.resume_writing()
    assert reader.eof_received()
    reader.connection_lost(error)
    assert recorder.told == ["pause", "resume", "eof", error]
