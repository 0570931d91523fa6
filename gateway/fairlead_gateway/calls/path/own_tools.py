"""Calls of the gateway's own tools (`search_tools`, `retrieve_context`, `read_result`) from MCP and REST.

They are counted and audited like calls of servers' tools.
"""

from __future__ import annotations

import time

from fairlead_gateway.audit.entry import AuditedCall
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.path.execution import NO_ARGUMENTS
from fairlead_gateway.calls.path.record import remember_other
from fairlead_gateway.core.long_results import URI
from fairlead_gateway.core.meta_tools import READ_RESULT, MetaTools, code_of
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.limits.fair_rotation import WORKS_FOR


class OwnToolCalls:
    """Answers calls of `search_tools`, `retrieve_context` and `read_result`."""

    def __init__(self, context: CallContext, tools: MetaTools) -> None:
        self._context = context
        self._tools = tools

    async def answer(self, exchange: Exchange, request: McpRequest, name: str, tier: str | None) -> bytes:
        """Raw result of `tools/call` in the form of 2025-11-25; a refusal is a result too.

        `tier` is the latency tier that the client named, or None.
        """
        started_at = time.monotonic()
        WORKS_FOR.set(agent_of(exchange))
        self._context.metrics.count_meta_call(name)
        result = await self._tools.answer(name, exchange.identity, tier, request.params.get("arguments", NO_ARGUMENTS))
        self._audit(exchange, request, name, code_of(result), started_at, len(result))
        return result

    async def read_stored_result(self, exchange: Exchange, request: McpRequest, uri: str) -> bytes | None:
        """Raw result of `resources/read` for a stored result; None if the client has none under that URI."""
        started_at = time.monotonic()
        WORKS_FOR.set(agent_of(exchange))
        contents = await self._tools.read(exchange.identity, uri.removeprefix(URI), uri)
        if contents is not None:
            self._audit(exchange, request, READ_RESULT, "", started_at, len(contents))
        return contents

    def _audit(
        self, exchange: Exchange, request: McpRequest, name: str, outcome: str, started_at: float, size: int
    ) -> None:
        auditor, recent = self._context.auditor, self._context.recent
        seconds = time.monotonic() - started_at
        call = AuditedCall(request.method, name, request.params, outcome, seconds=seconds, size=size)
        if recent is not None:
            audited = auditor is not None and auditor.records_all
            remember_other(recent, exchange, call, self._context.clock(), audited=audited)
        if auditor is not None:
            auditor.record_call(exchange, call)
