"""Asks the gateway's own REST API, in this process and as the person who looks at a page.

There is no other source of a page's content, so policies, limits and the audit log hold for the console as they do for
any client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from starlette.types import ASGIApp, Message, Scope

from fairlead_offers.problems import ProblemDocument
from fairlead_web.bodies import JSON, UNREAD
from fairlead_web.problem_responses import MEDIA_TYPE

Answer = TypeVar("Answer")
_OWN: Final = (
    "app",
    "router",
    "endpoint",
    "path_params",
    "route",
    "state",
    "fastapi_inner_astack",
    "fastapi_function_astack",
    "root_path",
    "starlette.exception_handlers",
    UNREAD,
)
"""Members of a scope that belong to the console's own routes."""


class RestProblem(Exception):
    """The API refused; `document` says why, in a sentence for a person."""

    def __init__(self, document: ProblemDocument) -> None:
        super().__init__(document.detail)
        self.document = document


class RestClient:
    """The REST API for one request of a browser. `app` is the API behind the guard: the identity is in the scope."""

    def __init__(self, app: ASGIApp, scope: Scope, run: Callable[[Callable[[], Any]], Any]) -> None:
        """`run` does work outside of the loop."""
        self._app = app
        self._scope = scope
        self._run = run

    async def get(
        self, path: str, kind: type[Answer], query: Mapping[str, str | Sequence[str]] | None = None
    ) -> Answer:
        """The decoded answer to a GET. `path` is not escaped yet. Raises RestProblem."""
        return await self._ask("GET", path, urlencode(query or {}, doseq=True), b"", kind)

    async def post(self, path: str, body: object, kind: type[Answer]) -> Answer:
        """The decoded answer to a POST of `body` as JSON. Raises RestProblem."""
        return await self._ask("POST", path, "", msgspec.json.encode(body), kind)

    async def delete(self, path: str, kind: type[Answer]) -> Answer:
        """The decoded answer to a DELETE. `path` is not escaped yet. Raises RestProblem."""
        return await self._ask("DELETE", path, "", b"", kind)

    async def _ask(self, method: str, path: str, query: str, body: bytes, kind: type[Answer]) -> Answer:
        status, media, answer = await exchange(self._app, scope_of(self._scope, method, path, query), body)
        if media.startswith(MEDIA_TYPE) or status >= 400:
            raise RestProblem(msgspec.json.decode(answer, type=ProblemDocument))
        decoded: Answer = await self._run(lambda: msgspec.json.decode(answer, type=kind))
        return decoded


def scope_of(scope: Scope, method: str, path: str, query: str = "", *, accept: str = JSON) -> Scope:
    """The scope of a request to the REST API, by the same client and principal as `scope`."""
    remaining = {name: value for name, value in scope.items() if name not in _OWN}
    headers = [(name, value) for name, value in scope["headers"] if name in _PASSED]
    headers += [(b"accept", accept.encode()), (b"content-type", JSON.encode())]
    return {
        **remaining,
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": headers,
        "state": {},
    }


_PASSED: Final = frozenset(
    {b"host", b"user-agent", b"traceparent", b"tracestate", b"forwarded", b"x-forwarded-for", b"last-event-id"}
)
"""Headers that the API gets as the browser sent them."""


async def exchange(app: ASGIApp, scope: Scope, body: bytes) -> tuple[int, str, bytes]:
    """Status, media type and body of an answer."""
    given = False
    start: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def receive() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # the client stays until it has its answer
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            pieces.append(bytes(message.get("body", b"")))

    await app(scope, receive, send)
    media = next((value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"content-type"), "")
    return start["status"], media, b"".join(pieces)
