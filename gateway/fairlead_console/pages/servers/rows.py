"""Rows of the list of servers: state, reason, advice and call statistics. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from fairlead_api.documents.servers import FAILED, OFFLINE, READY, SIGN_IN, STOPPED
from fairlead_api.remedies import remedy
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_console.visible_calls import CallSums, VisibleCalls
from fairlead_mcp.eras import era_of
from fairlead_rest.resources.servers import ServerDocument

_ORDER: Final[Mapping[str, int]] = {FAILED: 0, OFFLINE: 1, SIGN_IN: 1, STOPPED: 3, READY: 4}
"""Sort key by state: servers that need attention first, then stopped servers, then ready servers."""
_IN_PROGRESS: Final = 2


class ConsoleServer(msgspec.Struct, frozen=True):
    """Server as the console shows it."""

    name: str
    state: str
    sign_in: str
    """Why the visitor has to sign in to the server; empty if that is not needed."""
    advice: ServerAdvice | None
    """None if the server is ready without a cause to mention."""
    conflict: str
    """Sentence about another server that has the same prefix and takes precedence; empty without a conflict."""
    transport: str | None
    version: str | None
    era: str | None
    tools: int | None
    restarts: int | None
    memory: int | None
    last_words: str | None
    """Last printed lines; None if there are none, or if the message quotes them."""
    held: int
    """Number of definitions that are held back, for administrators."""
    breaker: str | None
    sums: CallSums

    @property
    def needs_explanation(self) -> bool:
        """Whether the row explains the server's state: the server is neither ready nor stopped, and the reason is
        known.
        """
        has_explanation = self.advice is not None and bool(self.advice.message or self.advice.meaning)
        return has_explanation and self.state not in (READY, STOPPED)


class ServerAdvice(msgspec.Struct, frozen=True):
    """Why a server is not ready, and what to do about it."""

    cause: str
    meaning: str
    remedy: str
    message: str
    """The operator's message; empty for visitors who may not read output of servers."""


def server_rows(servers: Iterable[ServerDocument], statistics: VisibleCalls) -> list[ConsoleServer]:
    """Make the rows: servers that need attention first, then by name."""
    rows = [server_row(server, statistics) for server in servers]
    return sorted(rows, key=lambda row: (_ORDER.get(row.state, _IN_PROGRESS), row.name))


def server_row(server: ServerDocument, statistics: VisibleCalls) -> ConsoleServer:
    """Make the row of a server."""
    server_advice = advice(server)
    version = None if server.protocol_version is UNSET else server.protocol_version
    return ConsoleServer(
        name=server.server,
        state=SIGN_IN if server.state == READY and server.sign_in else server.state,
        sign_in=server.sign_in or "",
        advice=server_advice,
        conflict=server.conflict or "",
        transport=server.transport or None,
        version=version,
        era=None if version is None else era_of(version).name.lower(),
        tools=None if server.tools is UNSET else server.tools,
        restarts=None if server.restarts is UNSET else server.restarts,
        memory=None if server.rss_bytes is UNSET else server.rss_bytes,
        last_words=_unless_quoted(server.last_words or "", server.message or ""),
        held=server.held or 0,
        breaker=server.breaker or None,
        sums=statistics.of_server(server.server),
    )


def advice(server: ServerDocument) -> ServerAdvice | None:
    """Advice for a server that is not ready, needs a sign-in of the visitor, or reports a cause; None otherwise."""
    if server.sign_in and server.state in (READY, SIGN_IN):
        reason = server.sign_in  # why the visitor has to sign in
        return ServerAdvice(str(Cause.SIGN_IN_REQUIRED), "", "", f"{reason[:1].upper()}{reason[1:]}.")
    if server.state == READY and not server.cause:
        return None
    cause, message = server.cause or "", server.message or ""
    explanation = EXPLANATIONS.get(Cause(cause)) if cause in {each.value for each in Cause} else None
    shown_cause = cause or server.reason or server.state
    if explanation is None:
        return ServerAdvice(shown_cause, "", "", message)
    namespace, _, name = server.server.partition("/")
    names = {"SERVER": server.server, "NAMESPACE": namespace, "NAME": name}
    return ServerAdvice(shown_cause, explanation.meaning, remedy(Cause(cause), "cluster", names=names), message)


def _unless_quoted(last_words: str, message: str) -> str | None:
    """Return the last output of a server; None if the message quotes it."""
    return None if " ".join(last_words.split()).rstrip(".") in " ".join(message.split()) else last_words
