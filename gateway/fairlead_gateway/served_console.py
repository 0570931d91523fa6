"""Makes the console, where the settings want one, with the first request for it: its pages, templates and ciphers take
memory and time that a gateway whose console nobody opens is spared. What is not served is not imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_api.bad_setting import BadSetting
from fairlead_console.paths import is_for_console
from fairlead_console.trace_url import checked_trace_url
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_gateway.settings import Settings
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_console.admission import ConsoleRequest
    from fairlead_console.application import Console


class ConsoleEntry(msgspec.Struct, frozen=True):
    """How people get into the console, beside an API key."""

    token: str = ""
    """Token of the address that `fairlead up` prints; empty elsewhere."""
    sign_in: ConsoleSignIn | None = None
    """By an OpenID provider."""


class ServedConsole:
    """The console of a gateway, made in a thread so that calls in flight do not wait for it. Belongs to one loop."""

    def __init__(self, make: Callable[[], Console] | None) -> None:
        """Without `make` there is none."""
        self._make = make
        self._console: Console | None = None
        self._making = asyncio.Lock()

    def request(self, scope: Scope) -> ConsoleRequest | None:
        """The request as one of the console; None where it is none."""
        return None if self._console is None else self._console.request(scope)

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """`app`, which asks `request`, with the console made before it sees a request for that."""

        make = self._make
        if make is None:
            return app

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            if self._console is None and scope["type"] == "http" and is_for_console(scope):
                async with self._making:
                    await self._have(make)
            await app(scope, receive, send)

        return served

    async def _have(self, make: Callable[[], Console]) -> None:
        if self._console is None:
            self._console = await asyncio.to_thread(make)


def served_console(
    settings: Settings, rest: RestContext, api: ASGIApp, entry: ConsoleEntry, counts: PageCounts
) -> ServedConsole:
    """The console, where the setting `console` is on. `api` is the REST API behind its guard. Raises BadSetting."""
    try:
        trace_url = checked_trace_url(settings.console_trace_url)
    except ValueError as error:
        raise BadSetting(f"FAIRLEAD_CONSOLE_TRACE_URL: {error}") from error

    def made() -> Console:
        from fairlead_console.application import Console

        return Console(
            rest,
            api,
            key=settings.session_key.encode(),
            token=entry.token,
            sign_in=entry.sign_in,
            trace_url=trace_url,
            counts=counts,
        )

    return ServedConsole(made if settings.console else None)
