"""Creates the entries of the audit log, for the calls and decisions that the audit level includes.

A call only creates an entry and appends it to a buffer; a thread formats and writes the lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.arguments import Mode
from fairlead_gateway.audit.entry import ALLOWED, DENIED, LIMITED, REFUSED, AuditedCall, AuditEntry, Decision, ModelUse
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.tracing.trace import TRACEPARENT
from fairlead_tools.refusal import RATE_LIMITED

Level = Literal["off", "denials", "all"]

GRANT: Final = "oauth/token"
"""Method of entries about access tokens."""
MAX_NAME: Final = 256
"""Maximum number of characters that are recorded of a name that the caller chose freely."""
_REFUSED_BY_GATEWAY: Final = frozenset(
    {
        "INVALID_ARGUMENTS",
        "OVER_BUDGET",
        "BREAKER_OPEN",
        "MISSING_CLIENT_CAPABILITY",
        "CREDENTIAL_UNAVAILABLE",
        "SIGN_IN_REQUIRED",
    }
)
"""Outcome codes of calls that the gateway did not send to the server, although policies allow them."""


class AuditedRequest(Protocol):
    """Request data that audit entries need."""

    @property
    def identity(self) -> Identity: ...

    @property
    def address(self) -> str: ...

    @property
    def headers(self) -> Mapping[bytes, bytes]: ...


class Auditor:
    """Records entries of the audit log during calls.

    `arguments` is the form in which lines have call arguments; `now` returns seconds since the epoch.
    """

    def __init__(
        self, writer: Writer, level: Level, arguments: Mode = "none", now: Callable[[], float] = time.time
    ) -> None:
        self.writer = writer
        self.records_all = level == "all"
        """Whether allowed calls are recorded too."""
        self._with_arguments = arguments != "none"
        self._now = now

    def record_call(self, request: AuditedRequest, call: AuditedCall) -> None:
        """Record a finished tool call, or another finished request to a server."""
        if call.exceeded_limit or call.denying_rules:
            decision: Decision = LIMITED if call.exceeded_limit else DENIED
        elif not self.records_all:
            return
        else:
            decision = REFUSED if call.outcome in _REFUSED_BY_GATEWAY else ALLOWED
        self._put(request, call, call.tool, decision, call.exceeded_limit or call.denying_rules)

    def record_denial(self, request: AuditedRequest, call: AuditedCall, reason: str) -> None:
        """Record a call whose tool, prompt or resource is unknown, or denied to the caller."""
        self._put(request, call, call.tool[:MAX_NAME], DENIED, reason)

    def _put(self, request: AuditedRequest, call: AuditedCall, tool: str, decision: Decision, reason: str) -> None:
        arguments = call.params.get("arguments")
        self.writer.put(
            AuditEntry(
                self._now(),
                decision,
                request.identity,
                request.address,
                call.method,
                tool,
                call.server,
                call.outcome,
                reason,
                call.seconds,
                call.size,
                request.headers.get(TRACEPARENT, b""),
                _copy(call.params.get("_meta")),
                _copy(arguments) if self._with_arguments else None,
                0 if arguments is None else len(arguments),
                span=call.span,
            )
        )

    def record_model_request(
        self, request: AuditedRequest, path: str, outcome: str, seconds: float, use: ModelUse
    ) -> None:
        """Record a finished request to an LLM endpoint. `outcome` is empty for a success."""
        if outcome == RATE_LIMITED:
            decision: Decision = LIMITED
        elif not self.records_all:
            return
        else:
            decision = ALLOWED if use.provider else REFUSED
        self.writer.put(
            AuditEntry(
                self._now(),
                decision,
                request.identity,
                request.address,
                path,
                outcome=outcome,
                seconds=seconds,
                traceparent=request.headers.get(TRACEPARENT, b""),
                model=use,
            )
        )

    def record_change(
        self, request: AuditedRequest, action: str, name: str, server: ServerKey | None, description: str
    ) -> None:
        """Record a change of the installation, at every audit level. `name` is the name or hash of the changed object;
        `description` describes the change.
        """
        self.writer.put(
            AuditEntry(
                self._now(),
                ALLOWED,
                request.identity,
                request.address,
                action,
                name[:MAX_NAME],
                server,
                reason=description[:MAX_NAME],
                traceparent=request.headers.get(TRACEPARENT, b""),
                administers=True,
            )
        )

    def record_grant(self, identity: Identity, server: ServerKey, cause: str, seconds: float) -> None:
        """Record that an access token of a server was granted, or, with `cause`, that a call did not get one."""
        if self.records_all:
            decision: Decision = REFUSED if cause else ALLOWED
            at = self._now()
            self.writer.put(
                AuditEntry(
                    at, decision, identity, "", GRANT, server=server, outcome=cause, seconds=seconds, grants=True
                )
            )

    def record_rejection(self, request: AuditedRequest, status: int, reason: str) -> None:
        """Record a request that was rejected with an HTTP status: it has no valid credential, or exceeds a limit."""
        self.writer.put(
            AuditEntry(
                self._now(),
                DENIED,
                request.identity,
                request.address,
                "",
                outcome=str(status),
                reason=reason,
                traceparent=request.headers.get(TRACEPARENT, b""),
                status=status,
            )
        )


def _copy(raw: Raw | None) -> Raw | None:
    """Copy a part of a message. Without the copy, the entry would keep the whole message in memory until
    it is written.
    """
    return None if raw is None else Raw(bytes(raw))
