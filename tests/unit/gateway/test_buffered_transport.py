"""The buffer in front of TLS: what is one record, and when writing pauses."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_gateway.endpoint.buffered_transport import PIECE, Buffer, BufferedTransport


class Below(asyncio.Transport):
    """Transport that keeps what is written, each write as one item."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Writer:
    """A buffered transport, with the calls of `pause` and `resume`."""

    def __init__(self) -> None:
        self.below = Below()
        self.calls: list[str] = []
        self.transport = BufferedTransport(
            self.below, lambda: self.calls.append("pause"), lambda: self.calls.append("resume"), high=4
        )


def test_the_parts_of_a_response_are_one_write_below() -> None:
    writer = Writer()
    writer.transport.writelines([b"head", memoryview(b"body"), bytearray(b"end")])
    writer.transport.write(b"next")
    writer.transport.writelines([])
    assert writer.below.written == [b"headbodyend", b"next"]
    assert writer.transport.get_write_buffer_size() == 0
    assert writer.calls == []


@pytest.mark.parametrize("sizes", [[PIECE], [PIECE + 1], [1, PIECE], [PIECE, 1], [PIECE - 1, 1, 3 * PIECE, 5, 7]])
def test_a_long_response_is_written_in_order_and_in_pieces(sizes: list[int]) -> None:
    writer = Writer()
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    writer.transport.writelines(parts)
    assert b"".join(writer.below.written) == b"".join(parts)
    assert max(map(len, writer.below.written)) <= PIECE


def test_writing_pauses_while_the_transport_below_takes_nothing_and_the_order_stays() -> None:
    writer = Writer()
    writer.transport.on_below_paused()
    writer.transport.write(b"one")
    writer.transport.writelines([b"two", b"three"])
    assert (writer.below.written, writer.calls) == ([], ["pause"])
    assert writer.transport.get_write_buffer_size() == len(b"onetwothree")
    writer.transport.on_below_resumed()
    writer.transport.write(b"four")
    assert b"".join(writer.below.written) == b"onetwothreefour"
    assert writer.calls == ["pause", "resume"]


def test_a_pause_of_the_transport_below_during_a_write_is_told_at_once() -> None:
    writer = Writer()

    class Full(Below):
        def write(self, data: Buffer) -> None:
            super().write(data)
            transport.on_below_paused()

    below = Full()
    transport = BufferedTransport(
        below, lambda: writer.calls.append("pause"), lambda: writer.calls.append("resume"), high=4
    )
    transport.write(b"one")
    transport.write(b"two")
    assert (below.written, writer.calls) == ([b"one"], ["pause"])


def test_a_closed_transport_writes_nothing_more() -> None:
    writer = Writer()
    writer.transport.write(b"one")
    writer.transport.close()
    writer.transport.write(b"two")
    assert (writer.below.written, writer.below.closed) == ([b"one"], True)
