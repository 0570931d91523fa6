"""Client of the gateway's own REST API, in the same process and with the identity of the visitor.

Pages have no other source of data, so that policies, limits and the audit log apply to the console as to other clients.
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
_ROUTER_MEMBERS: Final = (
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
"""Members of an ASGI scope that the console's router has added. A request to the REST API must not inherit them."""


class RestProblem(Exception):
    """The API answered with an error. `document` describes the error in a sentence for a user."""

    def __init__(self, document: ProblemDocument) -> None:
        super().__init__(document.detail)
        self.document = document


class RestClient:
    """Client of the REST API for one request of a browser. `app` is the REST API behind its guard; `scope` is the ASGI
    scope of the browser's request, with the visitor's identity.
    """

    def __init__(self, app: ASGIApp, scope: Scope, run: Callable[[Callable[[], Any]], Any]) -> None:
        """`run` runs a function outside of the event loop."""
        self._app = app
        self._scope = scope
        self._run = run

    async def get(
        self, path: str, kind: type[Answer], query: Mapping[str, str | Sequence[str]] | None = None
    ) -> Answer:
        """Send a GET and decode the response. `path` is not percent-encoded. Raises RestProblem."""
        return await self._request("GET", path, urlencode(query or {}, doseq=True), b"", kind)

    async def post(self, path: str, body: object, kind: type[Answer]) -> Answer:
        """Send a POST with `body` as JSON and decode the response. Raises RestProblem."""
        return await self._request("POST", path, "", msgspec.json.encode(body), kind)

    async def delete(self, path: str, kind: type[Answer], query: Mapping[str, str] | None = None) -> Answer:
        """Send a DELETE and decode the response. `path` is not percent-encoded. Raises RestProblem."""
        return await self._request("DELETE", path, urlencode(query or {}), b"", kind)

    async def _request(self, method: str, path: str, query: str, body: bytes, kind: type[Answer]) -> Answer:
        status, media, answer = await exchange(self._app, scope_of(self._scope, method, path, query), body)
        if media.startswith(MEDIA_TYPE) or status >= 400:
            raise RestProblem(msgspec.json.decode(answer, type=ProblemDocument))
        decoded: Answer = await self._run(lambda: msgspec.json.decode(answer, type=kind))
        return decoded


def scope_of(scope: Scope, method: str, path: str, query: str = "", *, accept: str = JSON) -> Scope:
    """Make the ASGI scope of a request to the REST API, with the client and the principal of `scope`."""
    inherited_members = {name: value for name, value in scope.items() if name not in _ROUTER_MEMBERS}
    headers = [(name, value) for name, value in scope["headers"] if name in _PASSED_HEADERS]
    headers += [(b"accept", accept.encode()), (b"content-type", JSON.encode())]
    return {
        **inherited_members,
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": headers,
        "state": {},
    }


_PASSED_HEADERS: Final = frozenset(
    {b"host", b"user-agent", b"traceparent", b"tracestate", b"forwarded", b"x-forwarded-for", b"last-event-id"}
)
"""Headers of the browser that are passed on to the API."""


async def exchange(app: ASGIApp, scope: Scope, body: bytes) -> tuple[int, str, bytes]:
    """Send a request to an ASGI application and return status, media type and body of the response."""
    body_sent = False
    start: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def receive() -> Message:
        nonlocal body_sent
        if body_sent:
            await asyncio.Event().wait()  # the client never disconnects before the response
        body_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            pieces.append(bytes(message.get("body", b"")))

    await app(scope, receive, send)
    media = next((value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"content-type"), "")
    return start["status"], media, b"".join(pieces)
