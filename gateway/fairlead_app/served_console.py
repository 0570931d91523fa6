"""Creates the console with the first request for it, to defer the import of its pages, templates and ciphers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.types import ASGIApp, Scope

from fairlead_api.bad_setting import BadSetting
from fairlead_console.paths import is_for_console
from fairlead_console.settings import ConsoleSettings
from fairlead_console.trace_url import check_trace_url
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.deferred import Deferred
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_console.admission import ConsoleRequest
    from fairlead_console.application import Console


class ConsoleEntry(msgspec.Struct, frozen=True):
    """Credentials for sign-in to the console besides API keys, and the key of its session cookies."""

    key: bytes
    """Key of the session cookies, shared by replicas; if empty, this process uses a random key."""
    token: str = ""
    """Token in the URL that `fairlead up` prints; empty without `fairlead up`."""
    sign_in: ConsoleSignIn | None = None
    """Sign-in by an OpenID provider; None if no provider is configured."""


class ServedConsole:
    """The console of a gateway, created with the first request for it."""

    def __init__(self, console: Deferred[Console] | None) -> None:
        """`console` is None if the settings disable it."""
        self._console = console

    async def request(self, scope: Scope) -> ConsoleRequest | None:
        """The request as a request for the console; None if its path does not belong to the console. The first request
        creates the console.
        """
        if self._console is None or not is_for_console(scope):
            return None
        console = self._console.part or await self._console.get()
        return console.request(scope)


def served_console(
    settings: ConsoleSettings,
    rest: RestContext,
    api: ASGIApp,
    entry: ConsoleEntry,
    counts: PageCounts,
    heap: Heap,
) -> ServedConsole:
    """The console, if it is enabled. `api` is the REST API without its guard.

    Raises BadSetting.
    """
    try:
        trace_url = check_trace_url(settings.trace_url)
    except ValueError as error:
        raise BadSetting(f"FAIRLEAD_CONSOLE_TRACE_URL: {error}") from error

    def build() -> Console:
        from fairlead_console.application import Console

        return Console(
            rest,
            api,
            key=entry.key,
            token=entry.token,
            sign_in=entry.sign_in,
            trace_url=trace_url,
            counts=counts,
        )

    return ServedConsole(Deferred(build, heap) if settings.enabled else None)
