"""Makes the console, where the settings want one, with the first request for it: its pages, templates and ciphers are
not imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.types import ASGIApp, Scope

from fairlead_api.bad_setting import BadSetting
from fairlead_console.paths import is_for_console
from fairlead_console.settings import ConsoleSettings
from fairlead_console.trace_url import checked_trace_url
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.deferred import Deferred
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_console.admission import ConsoleRequest
    from fairlead_console.application import Console


class ConsoleEntry(msgspec.Struct, frozen=True):
    """How people get into the console, beside an API key."""

    key: bytes
    """Seals the cookies; replicas share it. Empty: one of this process."""
    token: str = ""
    """Token of the address that `fairlead up` prints; empty elsewhere."""
    sign_in: ConsoleSignIn | None = None
    """Sign-in by an OpenID provider; None without one."""


class ServedConsole:
    """The console of a gateway, made with the first request for it."""

    def __init__(self, console: Deferred[Console] | None) -> None:
        """`console`: None where the settings disable it."""
        self._console = console

    async def request(self, scope: Scope) -> ConsoleRequest | None:
        """The request as one for the console, which is made with the first of these; None for any other request."""
        if self._console is None or not is_for_console(scope):
            return None
        console = self._console.made or await self._console.get()
        return console.request(scope)


def served_console(
    settings: ConsoleSettings,
    rest: RestContext,
    api: ASGIApp,
    entry: ConsoleEntry,
    counts: PageCounts,
    heap: Heap,
) -> ServedConsole:
    """The console, where it is enabled. `api` is the REST API behind its guard.

    Raises BadSetting.
    """
    try:
        trace_url = checked_trace_url(settings.trace_url)
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
