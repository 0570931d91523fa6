"""Memory of an HTTP connection that has had one answer and is idle."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import Final

from rig.harness import Unmeasurable
from rig.processes import memory

WAIT_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Post:
    """Request that each connection makes once."""

    port: int
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    """Whether the port speaks TLS, with a certificate that nobody signed."""


@contextmanager
def answered(post: Post) -> Iterator[None]:
    """Open connection over which one request was answered. Raises Unmeasurable."""
    connection = _connection(post)
    try:
        connection.request("POST", post.path, post.body, dict(post.headers))
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or answer.will_close:
            raise Unmeasurable(f"no open connection with an answer: {answer.status} {text[:200]!r}")
        yield
    finally:
        connection.close()


def bytes_of_connection(pid: int, post: Post, connections: int, stack: ExitStack) -> float:
    """RAM that process `pid` takes for each of so many connections. A tenth more are opened before them: what the first
    calls load is not a connection's. All stay open until `stack` is closed. Raises Unmeasurable.
    """
    for _ in range(connections // 10):
        stack.enter_context(answered(post))
    before = memory(pid).now
    for _ in range(connections):
        stack.enter_context(answered(post))
    return (memory(pid).now - before) / connections


def _connection(post: Post) -> HTTPConnection:
    if not post.tls:
        return HTTPConnection("127.0.0.1", post.port, timeout=WAIT_SECONDS)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection("127.0.0.1", post.port, timeout=WAIT_SECONDS, context=context)
