"""Keeps results for later, and shows as much of them as they may have tokens: what becomes of a result before its
client has it.

A result is kept where `execute_tool` made the call, and where it has more tokens than its tool, the policies of its
principal or the request allow. Then a part is shown, and the rest is read by `read_result`, `retrieve_context` or
`resources/read`. What is kept is what the server said; what is shown is worked out elsewhere (`Shortener`).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.results.context_recorder import META_CONTEXT, ContextRecorder, new_entry
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.long_results import LongResult, Shortener, ShownResult
from fairlead_gateway.core.meta_tools import READ_RESULT, RETRIEVE_CONTEXT
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import jsonrpc
from fairlead_search.token_estimate import BYTES_PER_TOKEN
from fairlead_tools import refusals
from fairlead_tools.refusal import META_ERROR, RESULT_TOO_LARGE, Refusal

LINKS_SINCE: Final = "2025-06-18"
"""First version of MCP with links to resources in results."""
_HOW: Final = "path | range | grep | query"


class _KeptResult(NamedTuple):
    """Place of a whole result of which a part is shown."""

    id: str
    reader: str
    """Call that reads on in it."""
    lost: str
    """Why it is not kept; empty where it is."""


class ResultKeeper:
    """Keeps and shortens the results of one gateway's calls."""

    def __init__(self, recorder: ContextRecorder, shortener: Shortener, metrics: MetricsRegistry) -> None:
        self.recorder = recorder
        self._shortener = shortener
        self._metrics = metrics

    def work(
        self, identity: Identity, request: McpRequest, route: Route, most: int | None, outcome: TranslatedResult
    ) -> Coroutine[Any, Any, bytes | Raw] | None:
        """Work by which a result becomes what its client gets; None for most results, which are that already."""
        recording = request.recording is not None
        if outcome.needs_input or outcome.is_task:
            return None
        if route.task is not None and most is not None:
            return self.of_task(identity, request, route, most, bytes(outcome.result))
        if not recording and (most is None or surely_fits(outcome.result, most)):
            return None
        return self.present(identity, request, route, most, outcome.result)

    async def present(
        self, identity: Identity, request: McpRequest, route: Route, most: int | None, result: bytes | Raw
    ) -> bytes | Raw:
        """The result as its client gets it: with the session and entry that it is kept under, where the request records
        it, and no more than `most` tokens. Refusals of the gateway are passed on as they are.
        """
        try:
            members = jsonrpc.decode_object(result)
            meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
        except jsonrpc.UNREADABLE:
            return result
        if META_ERROR in meta:
            return result
        if request.recording is not None:
            return await self._record(identity, request, route, most, result, request.recording)
        assert most is not None, "a result that is not recorded has a bound"
        shown = await self._shortener.shorten(LongResult(bytes(result), most))
        if shown.result is None and not shown.unfit:
            return result
        ident = new_entry(self.recorder.session(identity, None))
        lost = await self._keep(identity, request, route, ident, result)
        whole = _KeptResult(ident, f"{READ_RESULT}(id, {_HOW})", lost)
        return await self._shorten(request, route, most, result, whole)

    async def of_task(
        self, identity: Identity, request: McpRequest, route: Route, most: int, answer: bytes
    ) -> bytes | Raw:
        """An answer about a task, or the params of a notification, with no more of its result than `most` tokens."""
        try:
            members = jsonrpc.decode_object(answer)
        except jsonrpc.UNREADABLE:
            return answer
        result = members.get("result")
        if result is None or surely_fits(result, most):
            return answer
        members["result"] = Raw(bytes(await self.present(identity, request, route, most, result)))
        return jsonrpc.encode(members)

    async def _record(
        self, identity: Identity, request: McpRequest, route: Route, most: int | None, result: bytes | Raw, session: str
    ) -> bytes:
        ident = new_entry(session)
        lost = await self._keep(identity, request, route, ident, result)
        self._metrics.count_kept(recorded=not lost)
        told: dict[str, object] = {"sessionId": session, "recorded": not lost}
        if lost:
            told["reason"] = lost
            sentence = f"This result was not kept for retrieve_context: {lost}. session_id: {session}"
        else:
            told["entryId"] = ident
            sentence = f"Kept as entry_id {ident} of session_id {session} (retrieve_context)."
        if most is not None and not surely_fits(result, most):
            whole = _KeptResult(ident, f"{RETRIEVE_CONTEXT}(entry_id, {_HOW})", lost)
            result = await self._shorten(request, route, most, result, whole)
        members = jsonrpc.decode_object(result)
        content = members.get("content")
        if content is not None and bytes(content)[:1] == b"[":
            blocks = msgspec.json.decode(content, type=list[Raw])
            note = Raw(jsonrpc.encode({"type": "text", "text": sentence}))
            members["content"] = Raw(jsonrpc.encode([*blocks, note]))
        meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
        members["_meta"] = Raw(jsonrpc.encode({**meta, META_CONTEXT: told}))
        return jsonrpc.encode(members)

    async def _keep(
        self, identity: Identity, request: McpRequest, route: Route, ident: str, result: bytes | Raw
    ) -> str:
        """Keep a result under an id; why it is not kept, else nothing."""
        exposed = None if route.tool is None else route.tool.exposed
        arguments = request.params.get("arguments", b"{}")
        try:
            await self.recorder.append(identity, ident, exposed or route.name, route, bytes(arguments), bytes(result))
        except ContextUnavailable as error:
            return str(error)
        return ""

    async def _shorten(
        self, request: McpRequest, route: Route, most: int, result: bytes | Raw, whole: _KeptResult
    ) -> bytes | Raw:
        long_result = LongResult(
            bytes(result),
            most,
            whole.id,
            f"read on with {whole.reader}",
            whole.lost,
            _declares_output(route),
            linked=_knows_links(request),
        )
        shown = await self._shortener.shorten(long_result)
        if shown.result is None and not shown.unfit:
            return result
        self._metrics.count_shortening(is_kept=not whole.lost, tokens=shown.tokens, shown=shown.shown)
        if shown.result is not None and not self._misfit(route, shown):
            return shown.result
        sentence = f"It is lost: {whole.lost}" if whole.lost else f"It is kept as {whole.id}: {long_result.reader}"
        refusal = Refusal(
            RESULT_TOO_LARGE,
            f"The call was made. Its result has about {shown.tokens:,} tokens, {most:,} may be shown, and no part of "
            f"it would fit the tool's outputSchema. {sentence}",
        )
        return translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern, server_info=route.server_info
        ).result

    def _misfit(self, route: Route, shown: ShownResult) -> bool:
        """Whether the tool's schema does not hold what is shown."""
        check = route.check
        return check is not None and check.declares_output and check.result(shown.result or b"") is not None


def _declares_output(route: Route) -> bool:
    return route.tool is not None and b'"outputSchema"' in route.tool.definition


def _knows_links(request: McpRequest) -> bool:
    return request.modern or (request.opened is not None and request.opened.version >= LINKS_SINCE)


def surely_fits(result: bytes | Raw, tokens: int) -> bool:
    """Whether a result has no more than so many tokens, by its bytes alone; False: it has to be looked at."""
    if len(result) > tokens * BYTES_PER_TOKEN:
        return False
    raw = bytes(result)
    return b'"image"' not in raw and b'"audio"' not in raw and b'"blob"' not in raw
