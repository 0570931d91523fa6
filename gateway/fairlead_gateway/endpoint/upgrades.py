"""Upgrade of client connections to another protocol, such as WebSocket (RFC 9110 section 7.8).

After a rejected upgrade, the connection would still be an HTTP connection, on which a proxy could send requests of
other clients. The handler of the new protocol would get these requests, although they were not authorized. Therefore,
an `Upgrade` request is authorized before its handler gets the connection, the handler gets only this one request, and
any answer other than `101` closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.framing import Field

UPGRADE_SECONDS: Final = 150.0
"""Timeout in seconds for the handler's answer. The handler may have to open a session at a model provider first."""
ADMITTED: Final = "fairlead.admitted"
"""Key of the AdmittedUpgrade in `get_extra_info` of the transport."""
MAX_HEAD: Final = 64 << 10
"""Maximum number of bytes of an answer's head, and of the bytes that a client sends before the answer."""
_SWITCHED: Final = b"HTTP/1.1 101 "
_END_OF_HEAD: Final = b"\r\n\r\n"
_ERROR_RESPONSE: Final = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
_CONNECTION_FIELDS: Final = re.compile(rb"\r\n(?:connection|keep-alive):[^\r]*", re.IGNORECASE)


log = logging.getLogger(__name__)


class UpgradeRequest(NamedTuple):
    """HTTP request with an `Upgrade` header."""

    target: bytes
    fields: Sequence[Field]
    head: bytes
    """The complete request serialized as HTTP/1.1, for the handler to parse."""
    is_by_owner: Callable[[], bool] = bool
    """Returns whether the connection comes from the machine's owner (`core.identity.BY_OWNER`)."""

    @property
    def path(self) -> str:
        """The target without its query, percent-encoded as received."""
        return self.target.partition(b"?")[0].decode("latin-1")


class AdmittedUpgrade(Protocol):
    """Admission of an `Upgrade` request, with the resources that the connection uses until its end."""

    def protocol(self) -> asyncio.Protocol:
        """Create the protocol of the connection. The first bytes that it receives are the head of the request."""
        ...

    def release(self) -> None:
        """Release the resources. Called at the end of the connection, even if `protocol` was never called."""
        ...


class UpgradeHandler(Protocol):
    """Authorizes `Upgrade` requests, and serves the connections that it admits."""

    def handles(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether this handler is responsible for a request. Other requests are answered without an upgrade."""
        ...

    async def admit(self, request: UpgradeRequest, client: tuple[str, int] | None) -> AdmittedUpgrade | bytes:
        """Admit a request, or return the complete HTTP response that rejects it. `client` is the client's IP address
        and port."""
        ...


class UpgradeOwner(Protocol):
    """Connection that a `PendingUpgrade` controls."""

    def on_upgrade_refused(self) -> None:
        """Close the connection, after the response that rejects the upgrade was written."""
        ...


class PendingUpgrade(asyncio.Transport):
    """Transport of the handler's protocol. It controls what the handler receives and sends on the connection.

    Until the handler has answered `101`, it receives only the `Upgrade` request. If the handler answers anything else,
    the header `Connection: close` is added to the answer, and bytes that the client sent after its request are dropped.
    """

    def __init__(self, owner: UpgradeOwner, transport: asyncio.Transport, upgrades: UpgradeHandler) -> None:
        super().__init__()
        self._owner = owner
        self._transport = transport
        self._upgrades = upgrades
        self._admission: asyncio.Task[None] | None = None
        self._admitted_upgrade: AdmittedUpgrade | None = None
        self._handler = asyncio.Protocol()
        """Protocol of the handler; before the admission, a protocol that ignores everything."""
        self._early_bytes = bytearray()
        """Bytes that the client sent after the request, before the handler has answered `101`."""
        self._head = bytearray()
        """Beginning of the handler's answer, until its head is complete."""
        self.switched = False
        """Whether the handler has answered `101`."""
        self._is_refused = False
        """Whether the handler has answered something other than `101`."""
        self._closed = False

    def begin(self, request: UpgradeRequest, client: tuple[str, int] | None, trailing: bytes) -> None:
        """Authorize the request, and pass it to the handler if it is admitted.

        `trailing` are bytes that the client has sent after the request.
        """
        self._early_bytes += trailing
        self._admission = asyncio.get_running_loop().create_task(self._admit(request, client))

    # asyncio.Protocol, for the connection

    def data_received(self, data: bytes) -> None:
        if self.switched and not self._early_bytes:
            self._handler.data_received(data)
        elif not self._is_refused:
            self._early_bytes += data
            if len(self._early_bytes) > MAX_HEAD:
                self.abort()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed:
            self._close(exc)

    # asyncio.Transport, for the handler

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.switched:
            self._transport.write(data)
            return
        if self._closed:
            return
        if self._is_refused:
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
            self._is_refused = True
            self._early_bytes.clear()
            fields = _CONNECTION_FIELDS.sub(b"", answer[:end])
            self._transport.write(fields + b"\r\n" + responses.CLOSE + b"\r\n" + answer[end + len(_END_OF_HEAD) :])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self.switched:
            self._transport.writelines(list_of_data)
        else:
            self.write(b"".join(list_of_data))

    def close(self) -> None:
        if self.switched or self._closed:
            self._transport.close()
        else:
            self._end()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._admitted_upgrade if name == ADMITTED else self._transport.get_extra_info(name, default)

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

    # Internals

    async def _admit(self, request: UpgradeRequest, client: tuple[str, int] | None) -> None:
        try:
            admission = await self._upgrades.admit(request, client)
        except Exception:
            log.exception("The authorization of an Upgrade request failed; the client gets a 500")
            admission = _ERROR_RESPONSE
        self._admission = None
        if isinstance(admission, bytes):
            self.write(admission)
            self._end()
            return
        self._admitted_upgrade = admission
        self._handler = admission.protocol()
        self._handler.connection_made(self)
        self._handler.data_received(request.head)

    def _switch(self) -> None:
        self.switched = True
        if self._early_bytes:  # by `call_soon`, because the handler's `write` calls this method and must return first
            asyncio.get_running_loop().call_soon(self._flush_early_bytes)

    def _flush_early_bytes(self) -> None:
        data, self._early_bytes = bytes(self._early_bytes), bytearray()
        if not self._closed:
            self._handler.data_received(data)

    def _end(self) -> None:
        """Close the connection without a switch, because the handler has answered something other than `101`, or
        nothing."""
        self._owner.on_upgrade_refused()
        self._close(None)

    def _close(self, exc: Exception | None) -> None:
        self._closed = True
        if self._admission is not None:
            self._admission.cancel()
        self._handler.connection_lost(exc)
        if self._admitted_upgrade is not None:
            self._admitted_upgrade.release()
