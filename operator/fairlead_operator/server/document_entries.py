"""Builds the entries of the servers document, from which gateways explain servers that are not ready. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Refreshed
from fairlead_api.documents.servers import (
    FAILED,
    INSTALLING,
    MESSAGE_CHARS,
    OFFLINE,
    READY,
    SIGN_IN,
    STARTING,
    STOPPED,
    WAITING,
    ServerEntry,
)
from fairlead_api.load import RefusedServer
from fairlead_api.meta import ServerKey
from fairlead_api.remedies import remedy
from fairlead_api.v1alpha1.causes import REASON_OF, Cause, cause_of, sentence
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_mcp.masking import Mask
from fairlead_operator.ports import ConditionVerdict

NO_MASK: Final = Mask(None)


def state_of(status: McpServerStatus) -> str:
    """State of a server, one of the constants in `fairlead_api.documents.servers`."""
    ready = status.condition(ConditionType.READY)
    if ready is None:
        return WAITING
    if ready.status == "True":
        return READY
    if ready.reason == Reason.STOPPED:
        return STOPPED
    if ready.reason == Reason.SIGN_IN_REQUIRED:
        return SIGN_IN
    if ready.status == "False":
        return OFFLINE if status.tools_offline else FAILED
    return INSTALLING if cause_of(ready)[0] == Cause.INSTALLING else STARTING


def entry_for(
    key: ServerKey,
    prefix: str | None,
    status: McpServerStatus,
    refreshed: Refreshed | None = None,
    *,
    removes_tools: bool = False,
    mask: Mask = NO_MASK,
    conflicted: ConditionVerdict | None = None,
) -> ServerEntry | None:
    """Entry of a server in the servers document; None for a server that is ready without a problem.

    `removes_tools`: whether the server's tools are removed while it is down. `mask` removes the server's credential
    from texts that the server wrote. `conflicted`: verdict that another server has the prefix, which is reported in
    addition to any other problem.
    """
    state, condition = state_of(status), status.condition(ConditionType.READY)
    if state == READY and (condition is None or condition.reason == Reason.AS_EXPECTED):
        condition = next(_problems_while_ready(status), None)
        if condition is None and conflicted is None:
            return None
    cause, message = (None, "") if condition is None else cause_of(condition)
    return ServerEntry(
        namespace=key.namespace,
        name=key.name,
        prefix=prefix,
        state=state,
        removed=removes_tools and state in (FAILED, STOPPED),
        reason="" if condition is None else condition.reason,
        cause=str(cause or ""),
        message=mask.text(message)[:MESSAGE_CHARS],
        conflict=_conflict(status, conflicted)[:MESSAGE_CHARS],
        refreshed=refreshed and msgspec.structs.replace(refreshed, failure=mask.text(refreshed.failure)),
    )


_PROBLEM_STATUSES: Final = (
    (ConditionType.PARTIALLY_INVALID, "True"),
    (ConditionType.APPROVED, "False"),
    (ConditionType.DEFINITIONS_CLEAN, "False"),
)
"""Conditions that a user should act on, the most urgent first, with the status that requires it."""


def _problems_while_ready(status: McpServerStatus) -> Iterator[Condition]:
    """Conditions of a ready server that a user should act on: a part of its spec has no effect, definitions are held
    back, or definitions look suspicious.
    """
    for kind, problem_status in _PROBLEM_STATUSES:
        condition = status.condition(kind)
        if condition is not None and condition.status == problem_status:
            yield condition


def _conflict(status: McpServerStatus, verdict: ConditionVerdict | None) -> str:
    """Why another server has the prefix, with advice; empty if no other server has it."""
    if verdict is None:
        return ""
    condition = status.condition(ConditionType.CONFLICTED)
    if condition is not None and cause_of(condition)[0] is verdict.cause:
        return condition.message
    return sentence(verdict.cause, verdict.message)


def entry_of_refused(refused_server: RefusedServer, prefix: str | None) -> ServerEntry:
    """Entry of a server that does not run because of its declaration, with the problem and advice."""
    return ServerEntry(
        namespace=refused_server.key.namespace,
        name=refused_server.key.name,
        prefix=prefix,
        state=FAILED,
        reason=REASON_OF[refused_server.cause],
        cause=refused_server.cause,
        message=_refusal_message(refused_server)[:MESSAGE_CHARS],
    )


def entry_of_outdated(refused_server: RefusedServer) -> ServerEntry:
    """Entry of a ready server whose new declaration is invalid, so that it runs by its earlier declaration."""
    message = f"{refused_server.key} runs as declared before: {_refusal_message(refused_server)}"
    return msgspec.structs.replace(entry_of_refused(refused_server, None), state=READY, message=message[:MESSAGE_CHARS])


def _refusal_message(refused_server: RefusedServer) -> str:
    full_stop = "" if refused_server.problem.message.endswith((".", "?", "!")) else "."
    return f"{refused_server.problem}{full_stop} {remedy(refused_server.cause, refused_server.form)}"


def entry_of_new(key: ServerKey, prefix: str | None) -> ServerEntry:
    """Entry of a new server that was not reconciled yet."""
    return ServerEntry(namespace=key.namespace, name=key.name, prefix=prefix, state=WAITING)
