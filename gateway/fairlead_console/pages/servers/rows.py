"""Rows about servers: state, why and what to do, figures of calls. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import UNSET

from fairlead_api.documents.servers import FAILED, OFFLINE, READY
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_mcp.eras import era_of
from fairlead_rest.resources.scores import Score
from fairlead_rest.resources.servers import ServerDocument
from fairlead_tools.call_rates import CallRate

_ORDER: Final[Mapping[str, int]] = {FAILED: 0, OFFLINE: 1, READY: 3}
"""Rank of a state: servers that need a person first, ready ones last."""
_ON_THE_WAY: Final = 2


class CallSums(msgspec.Struct, frozen=True):
    """Calls of one server or tool; None for what is not known."""

    calls: int | None = None
    errors: int | None = None
    per_minute: float | None = None
    errors_per_minute: float | None = None
    p50_ms: float | None = None
    """Median of the slowest tool; `p95_ms` is of the same tool."""
    p95_ms: float | None = None

    @property
    def error_share(self) -> float | None:
        """Percent of calls that failed."""
        return None if not self.calls or self.errors is None else 100 * self.errors / self.calls


class ConsoleServer(msgspec.Struct, frozen=True):
    """One server as the console shows it."""

    name: str
    state: str
    advice: ServerAdvice | None
    """None where it is simply ready."""
    transport: str | None
    version: str | None
    era: str | None
    tools: int | None
    restarts: int | None
    memory: int | None
    last_words: str | None
    held: int
    """Definitions that wait for an approval, for administrators."""
    breaker: str | None
    sums: CallSums


class ServerAdvice(msgspec.Struct, frozen=True):
    """Why a server is not ready, and what a person does about it."""

    cause: str
    meaning: str
    remedy: str
    message: str
    """The operator's own words; empty for those who may not read what servers write."""


def server_rows(
    servers: Iterable[ServerDocument], scores: Iterable[Score], rates: Mapping[str, CallRate]
) -> list[ConsoleServer]:
    """Those that need a person first, then by name."""
    of_servers: dict[str, list[Score]] = {}
    for score in scores:
        of_servers.setdefault(score.server, []).append(score)
    rows = [server_row(server, of_servers.get(server.server, ()), rates) for server in servers]
    return sorted(rows, key=lambda row: (_ORDER.get(row.state, _ON_THE_WAY), row.name))


def server_row(server: ServerDocument, scores: Sequence[Score], rates: Mapping[str, CallRate]) -> ConsoleServer:
    """One row."""
    version = None if server.protocol_version is UNSET else server.protocol_version
    return ConsoleServer(
        name=server.server,
        state=server.state,
        advice=advice(server),
        transport=server.transport or None,
        version=version,
        era=None if version is None else era_of(version).name.lower(),
        tools=None if server.tools is UNSET else server.tools,
        restarts=None if server.restarts is UNSET else server.restarts,
        memory=None if server.rss_bytes is UNSET else server.rss_bytes,
        last_words=server.last_words or None,
        held=server.held or 0,
        breaker=server.breaker or None,
        sums=call_sums(scores, rates),
    )


def advice(server: ServerDocument) -> ServerAdvice | None:
    """Why a server is not ready, in words."""
    if server.state == READY and not server.cause:
        return None
    cause, message = server.cause or "", server.message or ""
    known = EXPLANATIONS.get(Cause(cause)) if cause in {one.value for one in Cause} else None
    meaning = "" if known is None else known.meaning
    return ServerAdvice(cause or server.reason or server.state, meaning, "" if known is None else known.remedy, message)


def call_sums(scores: Sequence[Score], rates: Mapping[str, CallRate]) -> CallSums:
    """Sums over tools, and the latency of the slowest measured one."""
    counts = [score.count for score in scores if score.count is not None]
    found = [rates[score.name] for score in scores if score.name in rates]
    slowest = max((one for one in scores if one.p95_ms is not None), key=attrgetter("p95_ms"), default=None)
    return CallSums(
        calls=sum(one.calls for one in counts) if counts else None,
        errors=sum(one.errors for one in counts) if counts else None,
        per_minute=sum(one.calls for one in found) if found else None,
        errors_per_minute=sum(one.errors for one in found) if found else None,
        p50_ms=None if slowest is None else slowest.median_ms,
        p95_ms=None if slowest is None else slowest.p95_ms,
    )
