"""Protocols that a connection may go on with after a request that asks for one (RFC 9110 section 7.8).

A connection that was not switched is HTTP still, and a proxy in front would put it back among those that it sends the
requests of anybody over. So a request is judged before its connection is handed over, its handler gets that one
request, and the connection ends with any answer but `101`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.framing import Field

UPGRADE_SECONDS: Final = 150.0
"""Longest time from a request for another protocol to its answer: a session is opened at its provider meanwhile."""
ADMITTED: Final = "fairlead.admitted"
"""Name of the AdmittedUpgrade among what the transport of its protocol tells of itself (`get_extra_info`)."""
MAX_HEAD: Final = 64 << 10
"""Bytes of the head of an answer, and bytes behind a request that nobody has to send before it is answered."""
_SWITCHED: Final = b"HTTP/1.1 101 "
_END_OF_HEAD: Final = b"\r\n\r\n"
_FAILED: Final = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
_PERSISTENCE: Final = re.compile(rb"\r\n(?:connection|keep-alive):[^\r]*", re.IGNORECASE)


log = logging.getLogger(__name__)


class UpgradeRequest(NamedTuple):
    """Request that asks for another protocol."""

    target: bytes
    fields: Sequence[Field]
    head: bytes
    """All of it, as HTTP/1.1 for another parser."""

    @property
    def path(self) -> str:
        """The target without its query, as it came: nothing is decoded."""
        return self.target.partition(b"?")[0].decode("latin-1")


class AdmittedUpgrade(Protocol):
    """Judgement of a request that may speak another protocol."""

    def protocol(self) -> asyncio.Protocol:
        """The protocol of the connection. It begins with the head of the request."""
        ...

    def release(self) -> None:
        """The connection is over, also where it was before `protocol`: give back what was kept for it."""
        ...


class UpgradeHandler(Protocol):
    """Judges requests for another protocol, and takes over the connections of those that it admits."""

    def takes(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is taken over. Others are answered as if they had asked for no other protocol."""
        ...

    async def judge(self, request: UpgradeRequest, client: tuple[str, int] | None) -> AdmittedUpgrade | bytes:
        """Admit a request that is taken over, or the whole answer that refuses it. `client`: address and port."""
        ...


class UpgradeOwner(Protocol):
    """Connection that was handed over."""

    def upgrade_refused(self) -> None:
        """The answer that refuses it is written: the connection has to close."""
        ...


class PendingUpgrade(asyncio.Transport):
    """Stands between a connection and the protocol of its handler: transport of the latter, protocol of the former.

    Until the handler has answered `101`, it gets the one request and nothing behind it. Any other answer gets
    `Connection: close`, and what the client sent behind its request is answered by nobody.
    """

    def __init__(self, owner: UpgradeOwner, transport: asyncio.Transport, upgrades: UpgradeHandler) -> None:
        super().__init__()
        self._owner = owner
        self._transport = transport
        self._upgrades = upgrades
        self._judgement: asyncio.Task[None] | None = None
        self._admitted: AdmittedUpgrade | None = None
        self._handler = asyncio.Protocol()
        """Until the request is admitted one that ignores everything."""
        self._held = bytearray()
        """Bytes behind the request."""
        self._head = bytearray()
        """Beginning of the answer, until its head is whole."""
        self.switched = False
        """Whether the connection speaks the other protocol from now on."""
        self._refused = False
        self._over = False

    def begin(self, request: UpgradeRequest, client: tuple[str, int] | None, rest: bytes) -> None:
        """Judge the request, and hand it over where it is admitted; `rest` is what came behind it."""
        self._held += rest
        self._judgement = asyncio.get_running_loop().create_task(self._judge(request, client))

    # Called by the connection

    def data_received(self, data: bytes) -> None:
        if self.switched and not self._held:
            self._handler.data_received(data)
        elif not self._refused:
            self._held += data
            if len(self._held) > MAX_HEAD:
                self.abort()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over:
            self._lose(exc)

    # Called by the handler, as its transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.switched:
            self._transport.write(data)
            return
        if self._over:
            return
        if self._refused:
            self._transport.write(data)
            return
        self._head += data
        end = self._head.find(_END_OF_HEAD)
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self.abort()
            return
        answer, self._head = bytes(self._head), bytearray()
        if answer.startswith(_SWITCHED):
            self._transport.write(answer)
            self._switch()
        else:
            self._refused = True
            self._held.clear()
            fields = _PERSISTENCE.sub(b"", answer[:end])
            self._transport.write(fields + b"\r\n" + responses.CLOSE + b"\r\n" + answer[end + len(_END_OF_HEAD) :])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self.switched:
            self._transport.writelines(list_of_data)
        else:
            self.write(b"".join(list_of_data))

    def close(self) -> None:
        if self.switched or self._over:
            self._transport.close()
        else:
            self._end()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._over or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._admitted if name == ADMITTED else self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def can_write_eof(self) -> bool:
        return self.switched and self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._transport.write_eof()

    # Inside

    async def _judge(self, request: UpgradeRequest, client: tuple[str, int] | None) -> None:
        try:
            verdict = await self._upgrades.judge(request, client)
        except Exception:
            log.exception("A request for another protocol cannot be judged")
            verdict = _FAILED
        self._judgement = None
        if isinstance(verdict, bytes):
            self.write(verdict)
            self._end()
            return
        self._admitted = verdict
        self._handler = verdict.protocol()
        self._handler.connection_made(self)
        self._handler.data_received(request.head)

    def _switch(self) -> None:
        self.switched = True
        if self._held:  # behind what the handler does on its way back from writing
            asyncio.get_running_loop().call_soon(self._release)

    def _release(self) -> None:
        held, self._held = bytes(self._held), bytearray()
        if not self._over:
            self._handler.data_received(held)

    def _end(self) -> None:
        """The answer is written, or there is none: the handler is done with the connection."""
        self._owner.upgrade_refused()
        self._lose(None)

    def _lose(self, exc: Exception | None) -> None:
        self._over = True
        if self._judgement is not None:
            self._judgement.cancel()
        self._handler.connection_lost(exc)
        if self._admitted is not None:
            self._admitted.release()
