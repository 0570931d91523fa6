"""Makes the console, where the settings want one. What is not served is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from fairlead_gateway.settings import Settings
from fairlead_rest.context import RestContext

if TYPE_CHECKING:
    from fairlead_console.application import Console


def console_of(settings: Settings, rest: RestContext, api: ASGIApp, token: str) -> Console | None:
    """None where the setting `console` is off. `api` is the REST API behind its guard."""
    if not settings.console:
        return None
    from fairlead_console.application import Console

    return Console(rest, api, key=settings.session_key.encode(), token=token)
