"""The pages `/console/calls`, a list with filters that shows calls as they end, and `/console/calls/{id}`, one call
with its timeline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.timeline import TimelinePhase, timeline_picture
from fairlead_console.trace_url import trace_link
from fairlead_console.wording import error_words
from fairlead_rest.ended_calls import FAILED, OK, CallDetails
from fairlead_rest.resources.calls import CallList

PATH: Final = "/console/calls"
ENTRY: Final = NavigationEntry("Calls", PATH, 25)
PER_PAGE: Final = 40
"""Calls per page of the list."""
MAX_TEXT: Final = 8000
"""Maximum length of the arguments on the page in characters."""
MAX_VALUE: Final = 256
"""Maximum length of a filter in characters."""
MAX_OFFERED: Final = 40
MAX_OFFERED_LENGTH: Final = 64
"""Maximum length of a name that a filter offers, in characters."""
_MAX_SLOW_MS: Final = 1e9
_FILTERS: Final = ("agent", "server", "tool", "outcome", "slow")
_PHASE_LABELS: Final[Mapping[str, str]] = {
    "checks": "checks of the gateway",
    "cache": "cached result",
    "queue": "queue",
    "credential": "gets an access token",
    "session": "opens a session",
    "attempt": "server",
    "backoff": "waits to retry",
    "client": "asks the client",
    "task": "waits for the task",
    "translation": "translation",
}


class CallFilters(msgspec.Struct, frozen=True):
    """Submitted filters. Empty filters match all calls."""

    agent: str = ""
    server: str = ""
    tool: str = ""
    outcome: str = ""
    slow: str = ""

    @property
    def query(self) -> dict[str, str]:
        """Query parameters for the REST API; an invalid duration is left out."""
        values = {name: getattr(self, name) for name in _FILTERS}
        if not _is_duration(self.slow):
            del values["slow"]
        return {name: value for name, value in values.items() if value}


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the pages."""
    routes = APIRouter()

    @routes.get(PATH)
    async def list_calls(request: Request) -> Response:
        visit, query = console.visit(request), request.query_params
        filters = CallFilters(*(query.get(name, "")[:MAX_VALUE] for name in _FILTERS))
        before = query.get("before", "")[:64]
        parameters = {**filters.query, "limit": str(PER_PAGE), **({"before": before} if before else {})}
        answer = await visit.api.get("/v1/calls", CallList, parameters)
        stream_url = "" if before else f"{PATH}/events?{urlencode(filters.query)}"
        older_url = f"?{urlencode({**filters.query, 'before': answer.next})}" if answer.next else ""
        newest_url = f"?{urlencode(filters.query)}" if before else ""
        return await visit.page(
            "calls/list.html",
            answer=answer,
            filters=filters,
            live=stream_url,
            older=older_url,
            newest=newest_url,
            tools=_choices(answer.values.tools),
            agents=_choices(answer.values.agents),
            servers=_choices(answer.values.servers),
            outcomes=[OK, FAILED, *(outcome for outcome in answer.values.outcomes if outcome not in (OK, FAILED))],
        )

    @routes.get(PATH + "/{id}")
    async def show_call(request: Request, id: str) -> Response:  # noqa: A002  # the name of the parameter in the path
        visit = console.visit(request)
        call = await visit.api.get(f"/v1/calls/{id}", CallDetails)
        phases = [
            TimelinePhase(
                phase.phase,
                _phase_label(phase.phase, phase.error),
                phase.start_ms,
                phase.duration_ms,
                bool(phase.error),
            )
            for phase in call.phases
        ]
        return await visit.page(
            "calls/one.html",
            call=call,
            picture=timeline_picture(phases, call.duration_ms),
            phases=phases,
            trace=trace_link(console.trace_url, call.trace_id),
            arguments=_pretty(call.arguments),
        )

    return routes


def _choices(values: Sequence[str]) -> list[str]:
    """Select values to offer in a filter, limited in number and length."""
    return [value for value in values if len(value) <= MAX_OFFERED_LENGTH][:MAX_OFFERED]


def _phase_label(phase: str, error: str) -> str:
    label = _PHASE_LABELS.get(phase, phase)
    return f"{label}: {error_words(error)}" if error else label


def _is_duration(text: str) -> bool:
    try:
        return 0 <= float(text) <= _MAX_SLOW_MS
    except ValueError:
        return False


def _pretty(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n… {len(text) - MAX_TEXT:,} more characters"
