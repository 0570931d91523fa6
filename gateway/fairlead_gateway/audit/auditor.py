"""Selects the gateway's decisions and calls that go into the audit log.

Recording one costs an object and an append; lines are made and written elsewhere.
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

MAX_NAME: Final = 256
"""Characters of a tool's name that somebody made up."""
_KEPT_BACK: Final = frozenset({"INVALID_ARGUMENTS", "OVER_BUDGET", "BREAKER_OPEN", "MISSING_CLIENT_CAPABILITY"})


class AuditedRequest(Protocol):
    """The client's side of a request."""

    @property
    def identity(self) -> Identity: ...

    @property
    def address(self) -> str: ...

    @property
    def headers(self) -> Mapping[bytes, bytes]: ...


class Auditor:
    """Records audit entries on the path of a call. `arguments` says whether lines need them; `now` is in seconds since
    the epoch.
    """

    def __init__(
        self, writer: Writer, level: Level, arguments: Mode = "none", now: Callable[[], float] = time.time
    ) -> None:
        self.writer = writer
        self.every = level == "all"
        """Whether calls are told of that were not denied."""
        self._with_arguments = arguments != "none"
        self._now = now

    def record_call(self, request: AuditedRequest, call: AuditedCall) -> None:
        """A call of a tool, or another request to a server, is over."""
        if call.limited or call.denied:
            decision: Decision = LIMITED if call.limited else DENIED
        elif not self.every:
            return
        else:
            decision = REFUSED if call.outcome in _KEPT_BACK else ALLOWED
        self._put(request, call, call.tool, decision, call.limited or call.denied)

    def record_denial(self, request: AuditedRequest, call: AuditedCall, reason: str) -> None:
        """Somebody may not do what they asked for, or know of no such thing."""
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
                _own(call.params.get("_meta")),
                _own(arguments) if self._with_arguments else None,
                0 if arguments is None else len(arguments),
                span=call.span,
            )
        )

    def record_model_request(
        self, request: AuditedRequest, path: str, outcome: str, seconds: float, use: ModelUse
    ) -> None:
        """A request to an endpoint in front of models is over. `outcome` is empty where all is well."""
        if outcome == RATE_LIMITED:
            decision: Decision = LIMITED
        elif not self.every:
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
        self, request: AuditedRequest, action: str, name: str, server: ServerKey | None, what: str
    ) -> None:
        """Somebody changed something of the installation: a line at every level. `name` is the name or the hash of what
        is changed, `what` describes it.
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
                reason=what[:MAX_NAME],
                traceparent=request.headers.get(TRACEPARENT, b""),
                administers=True,
            )
        )

    def record_rejection(self, request: AuditedRequest, status: int, reason: str) -> None:
        """A request without a credential, or with one that does not do."""
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


def _own(part: Raw | None) -> Raw | None:
    """A copy: a part of a message keeps the whole of it, for as long as the entry waits to be written."""
    return None if part is None else Raw(bytes(part))
