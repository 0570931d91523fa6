"""Requests to a control plane's API server over connections that are kept open.

A TLS handshake costs both sides more than most requests, and waiting tests send twenty requests a second.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final

SECONDS: Final = 20
"""Timeout of connecting and of each read."""


class KeptConnections:
    """Idle HTTPS connections to one loopback port, for any number of threads. Must be closed at the end."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._idle: list[http.client.HTTPSConnection] = []

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, str]:
        """Status and text of the answer. Raises OSError or http.client.HTTPException while the server is down."""
        try:
            connection = self._idle.pop()  # atomic: `if` and `pop` would be two steps
        except IndexError:
            return self._exchange(self._open(), method, path, body, headers)
        try:
            return self._exchange(connection, method, path, body, headers)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException):  # the idle connection was closed before the request was read
            self.close()
            return self._exchange(self._open(), method, path, body, headers)

    def close(self) -> None:
        """Close idle connections. The next request opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def _open(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=SECONDS, context=self._tls)

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, str]:
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            text = response.read().decode()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response.status, text
