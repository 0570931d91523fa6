"""Creates the REST API with the first request for it, to defer the import of FastAPI and pydantic."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_gateway.deferred import Deferred
from fairlead_gateway.heap import Heap
from fairlead_rest.context import RestContext
from fairlead_web.guard import PublicPages


class ServedRest:
    """ASGI application with the REST API, for authenticated requests, and the public pages."""

    def __init__(self, pages: PublicPages, api: Deferred[ASGIApp]) -> None:
        self._pages = pages
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._pages if self._pages.has(scope) else self._api.part or await self._api.get()
        await app(scope, receive, send)


def served_rest(pages: PublicPages, context: RestContext, heap: Heap) -> ServedRest:
    """The REST API over `context`."""

    def build() -> ASGIApp:
        from fairlead_rest.application import make_application

        return make_application(pages, context)

    return ServedRest(pages, Deferred(build, heap))
